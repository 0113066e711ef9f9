//! Trees go there and come back with everything that they have.

use std::fs;

use haul_test::compare::What;
use haul_test::nasty;

use crate::support::World;

/// Everything but what the run itself touches: the top directories.
const EVERYTHING: What = What { root: false, ..What::ALL };

#[test]
fn what_lies_beside_the_destination_is_linked_there() {
    use std::os::unix::fs::MetadataExt;
    let w = World::new("");
    w.tree("src: a=5 d/b=300K d/e/big=3M");
    w.haul("cp src/ testhost:~/far/monday --mkpath").run().code(0);
    std::fs::write(w.join("src/new"), "later").expect("written");
    let inode = |path: &str| w.join(path).metadata().expect("it is there").ino();
    w.haul("cp -n --link-dest=../monday src/ testhost:~/far/tuesday").run().code(0).says("3 of them as hard links");
    assert!(!w.join("far/tuesday").exists());
    let monday = w.join("far/monday").display().to_string();
    for (name, reference) in [("tuesday", "../monday"), ("wednesday", &monday)] {
        let ended = w.haul(&format!("cp --link-dest=../sunday --link-dest={reference} src/ testhost:~/far/{name}")).run().code(0);
        ended.says("sunday: no such directory");
        for (path, same) in [("a", true), ("d/b", true), ("d/e/big", true), ("new", false)] {
            let linked = w.join(format!("far/monday/{path}")).exists()
                && inode(&format!("far/monday/{path}")) == inode(&format!("far/{name}/{path}"));
            assert_eq!(linked, same, "{name}/{path}");
        }
        w.assert_same("src", &format!("far/{name}"), What::USUAL);
    }
    w.haul("cp --link-dest=/dev/shm src/ testhost:~/far/thursday").run().code(1).says("another file system");
    w.plain("cp --no-agent --link-dest=../monday src/ testhost:~/far/friday").run().says("plain SFTP cannot link");
}

#[test]
fn everything_goes_there_and_comes_back_with_a() {
    let w = World::new("");
    let left_out = nasty::build(&w.join("src")).expect("made");
    println!("left out: {left_out:?}");
    w.haul("cp -a src/ testhost:~/there").run().code(0).says("by haul on the remote host");
    w.assert_same("src", "there", What::ALL);
    w.haul("cp -a testhost:~/there/ back").run().code(0);
    w.assert_same("src", "back", What::ALL);
    // Nothing is left to do in either direction.
    for words in ["cp --json -a src/ testhost:~/there", "cp --json -a testhost:~/there/ back"] {
        let again = w.haul(words).run().code(0);
        assert_eq!((again.number("bytes"), again.number("attributes")), (0, 0), "{again}");
    }
    w.haul("check -c src/ testhost:~/there").run().code(0);
}

#[test]
fn changed_attributes_alone_are_brought_up_to_date() {
    let w = World::new("");
    w.tree("src: a=5 d/b=300K l->a");
    let set = |path: &str, name: &str, value: &str| {
        w.tool("setfattr", &["-h", "-n", name, "-v", value, path]);
    };
    for (source, target) in [("src/", "testhost:~/there"), ("testhost:~/src/", "here")] {
        let words = format!("sync -a {source} {target}");
        w.haul(&words).run().code(0);
        for (path, name) in [("src/a", "user.one"), ("src/d", "user.two"), ("src/d/b", "user.three"), ("src/l", "trusted.four")] {
            set(path, name, target);
        }
        w.tool("chmod", &["600", "src/d/b"]);
        w.tool("chown", &["-h", "12:34", "src/l"]);
        w.haul(&format!("check -a {source} {target}")).run().code(1);
        w.haul(&words).run().code(0);
        w.assert_same("src", target.rsplit('/').next().expect("a name"), What::ALL);
        w.haul(&format!("check -a {source} {target}")).run().code(0);
    }
}

#[test]
fn without_flags_modes_times_links_and_bytes_go() {
    let w = World::new("");
    w.tree("src: a=5:0640 empty=0 big=9M:4755 d/b=300K d/e/f=3:0755 l->a dangling->nowhere none/ locked/x=3K locked/:0555");
    w.haul("cp src/ testhost:~/there").run().code(0);
    w.assert_same("src", "there", What::USUAL);
    w.haul("cp testhost:~/there back").run().code(0);
    w.assert_same("src", "back/there", What::USUAL);
}

#[test]
fn random_trees_are_the_same_there() {
    for seed in [11, 12] {
        println!("seed {seed}");
        let w = World::new("");
        haul_test::tree::Tree::new(w.join("src")).expect("made").random(seed, 400).expect("made");
        w.haul("sync -a --delete src/ testhost:~/there").run().code(0);
        w.assert_same("src", "there", What::ALL);
        // Another tree over it: kinds change, names go.
        haul_test::tree::Tree::new(w.join("other")).expect("made").random(seed + 100, 400).expect("made");
        w.haul("sync -a --delete --force other/ testhost:~/there").run().code(0);
        w.assert_same("other", "there", EVERYTHING);
        w.haul("sync -a --delete --force testhost:~/there/ src").run().code(0);
        w.assert_same("other", "src", EVERYTHING);
    }
}

#[test]
fn sync_deletes_what_is_extra_on_either_side() {
    let w = World::new("");
    let before = "a=20 b=9 d/c=1 extra/deep/x=1 gone=2 kind/was=3 link->gone";
    w.tree(&format!("src: a=700K b=3 d/c=4 kind=9 there: {before} here: {before}"));
    w.haul("sync -a --delete --force src/ testhost:~/there").run().code(0);
    w.assert_same("src", "there", EVERYTHING);
    w.haul("sync -a --delete --force testhost:~/src/ here").run().code(0);
    w.assert_same("src", "here", EVERYTHING);
}

#[test]
fn mv_leaves_nothing_behind() {
    let w = World::new("");
    w.tree("kept: a=5 d/b=300K d/e/f=2M d/l->b empty/");
    for copy in ["out", "in"] {
        w.tool("cp", &["-a", "kept", copy]);
    }
    w.haul("mv --mkpath out testhost:~/there/").run().code(0);
    assert!(!w.join("out").exists());
    w.assert_same("kept", "there/out", What::USUAL);
    w.haul("mv --mkpath testhost:~/in here/").run().code(0);
    w.assert_same("kept", "here/in", What::USUAL);
    assert!(!w.join("in").exists(), "what the move has left of the source: {:?}", crate::support::names(&w.join("in")));
}

#[test]
fn links_are_followed_on_the_far_side_too() {
    let w = World::new("");
    w.tree("out: x=300K d/y=5 far: f=3 l->../out/x dl->../out/d");
    w.haul("cp -L testhost:~/far/ got").run().code(0);
    assert_eq!(w.content("got/l"), w.content("out/x"));
    assert_eq!(w.content("got/dl/y"), w.content("out/d/y"));
    assert!(!w.join("got/l").symlink_metadata().expect("there").is_symlink());
    w.haul("cp -L far/ testhost:~/put").run().code(0);
    assert_eq!(w.content("put/dl/y"), w.content("out/d/y"));
}

/// Mounted at a directory until it is dropped.
struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _failed_to_mount = std::process::Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn one_file_system_ends_at_a_mount_of_the_far_side() {
    let w = World::new("");
    w.tree("far: a=5 other/ d/b=6");
    let at = w.join("far/other");
    w.tool("mount", &["-t", "tmpfs", "none", &at.display().to_string()]);
    let _mounted = Mounted(at.clone());
    fs::write(at.join("inside"), "elsewhere").expect("written");
    w.haul("cp -x testhost:~/far/ got").run().code(0);
    assert!(w.join("got/d/b").exists() && !w.join("got/other/inside").exists());
    w.haul("cp testhost:~/far/ all").run().code(0);
    assert!(w.join("all/other/inside").exists());
}

#[test]
fn the_listed_files_go_and_no_others() {
    let w = World::new("");
    w.tree("src: a=5 b=6 d/c=300K d/e=7 f/g=2M f/h=1");
    fs::write(w.join("list"), "a\nd/c\nf/g\n").expect("written");
    w.haul("cp --files-from list src testhost:~/there").run().code(0);
    w.haul("cp --files-from list testhost:~/src here").run().code(0);
    for top in ["there", "here"] {
        for (name, goes) in [("a", true), ("b", false), ("d/c", true), ("d/e", false), ("f/g", true), ("f/h", false)] {
            assert_eq!(w.join(top).join(name).exists(), goes, "{top}/{name}");
        }
        assert_eq!(w.content(&format!("{top}/f/g")), w.content("src/f/g"));
    }
}

#[test]
fn two_hosts_at_once() {
    let w = World::new("");
    let other = World::new("");
    w.tree("src: a=5 d/b=900K d/c=9M d/l->b h=>d/b");
    // One configuration that knows both.
    let known = |world: &World| fs::read_to_string(world.server.path("known_hosts")).expect("written");
    fs::write(w.server.path("known_hosts"), known(&w) + &known(&other)).expect("written");
    let config = fs::read_to_string(w.server.config()).expect("written");
    let second = format!("Host otherhost\n  HostName 127.0.0.1\n  Port {}\n  User root\n", other.server.port);
    fs::write(w.server.config(), second + &config).expect("written");
    let key = fs::read_to_string(w.server.path("user_key.pub")).expect("written");
    fs::write(other.server.path("authorized_keys"), key).expect("written");
    let there = other.join("there").display().to_string();
    w.haul(&format!("cp -a testhost:~/src/ otherhost:{there}")).run().code(0).says("large files go directly between the hosts");
    haul_test::compare::assert_same(&w.join("src"), &other.join("there"), EVERYTHING);
    assert_eq!((w.server.logins(), other.server.logins()), (1, 1));
    w.haul(&format!("check -c testhost:~/src/ otherhost:{there}")).run().code(0);
}

#[test]
fn a_dry_run_says_what_the_real_one_does() {
    let w = World::new("");
    w.tree("src: a=700K b=3 d/c=4 new/x=1 l->a there: a=20 b=3 d/c=1 extra/x=1 gone=2");
    let lines = |flags: &str| {
        let ended = w.haul(&format!("sync -i {flags} --delete src/ testhost:~/there")).run().code(0);
        let is_item =
            |line: &&str| line.starts_with('*') || line.split(' ').next().is_some_and(|word| word.len() == 11 && !word.ends_with(':'));
        let mut lines: Vec<String> = ended.out.lines().filter(is_item).map(str::to_string).collect();
        lines.sort();
        assert!(!lines.is_empty(), "{ended}");
        lines
    };
    let before = w.content("there/a");
    let dry = lines("-n");
    assert!(w.content("there/a") == before && w.join("there/gone").exists() && !w.join("there/new").exists());
    assert_eq!(dry, lines(""));
    w.assert_same("src", "there", What::USUAL);
}

#[test]
fn a_limited_run_is_the_same() {
    let w = World::new("");
    w.tree("src: a=1M b=3 d/c=400K");
    w.haul("cp --bwlimit 1M src/ testhost:~/there").run().code(0).says("at most 1.00 MiB/s").says("--bwlimit, which throttled workers");
    w.assert_same("src", "there", What::USUAL);
}

#[test]
fn verify_reads_on_the_far_side() {
    let w = World::new("");
    w.tree("src: a=5 big=9M d/b=300K");
    let ended = w.haul("cp --json --verify src/ testhost:~/there").run().code(0);
    assert_eq!((ended.number("verified_files"), ended.number("verified_bytes")), (3, 5 + (9 << 20) + (300 << 10)), "{ended}");
    let ended = w.haul("cp --json --verify testhost:~/there/ back").run().code(0);
    assert_eq!(ended.number("verified_files"), 3, "{ended}");
    w.assert_same("src", "back", What::USUAL);
}

#[test]
fn checksums_find_what_times_do_not() {
    let w = World::new("");
    let tree = w.tree("src: a=300 big=2M same=9 there: a=300 big=2M same=9");
    let mut other = w.content("there/big");
    other[1_500_000] ^= 1;
    fs::write(w.join("there/big"), other).expect("written");
    fs::write(w.join("there/a"), vec![b'x'; 300]).expect("written");
    for name in ["a", "big", "same"] {
        for top in ["src", "there"] {
            tree.set_mtime(format!("{top}/{name}"), 1_000_000_000, 5).expect("set");
        }
    }
    let quick = w.haul("cp --json src/ testhost:~/there").run().code(0);
    assert_eq!(quick.number("bytes"), 0, "{quick}");
    w.haul("check src/ testhost:~/there").run().code(0);
    w.haul("check -c src/ testhost:~/there").run().code(1).says("differs     a").says("differs     big").never_says("same\n");
    let summed = w.haul("cp --json -c src/ testhost:~/there").run().code(0);
    assert_eq!(summed.finished()["made"]["files"], 2, "{summed}");
    w.assert_same("src", "there", What::USUAL);
}
