//! Trees go there and come back with everything that they have.

use haul_test::compare::What;
use haul_test::nasty;
use haul_test::slowfs::{Fault, FaultKind, Options, SlowFs};
use haul_test::volume::Mounted;

use crate::agent::support::World;

/// Everything but what the run itself touches: the top directories.
const EVERYTHING: What = What { root: false, ..What::ALL };

#[test]
fn what_lies_beside_the_destination_is_linked_there() {
    let w = World::new("src: a=5 d/b=300K d/e/big=3M");
    w.haul("cp src/ testhost:~/remote/monday --mkpath").ends(0);
    w.write("src/new", "later");
    w.haul("cp -n --link-dest=../monday src/ testhost:~/remote/tuesday").ends(0).says("3 of them as hard links");
    assert!(!w.has("remote/tuesday"));
    let monday = w.path("remote/monday").display().to_string();
    for (name, reference) in [("tuesday", "../monday"), ("wednesday", &monday)] {
        let ended = w.haul(&format!("cp --link-dest=../sunday --link-dest={reference} src/ testhost:~/remote/{name}")).ends(0);
        ended.says("sunday: no such directory");
        for (path, same) in [("a", true), ("d/b", true), ("d/e/big", true), ("new", false)] {
            let (reference, copy) = (format!("remote/monday/{path}"), format!("remote/{name}/{path}"));
            assert_eq!(w.has(&reference) && w.inode(&reference) == w.inode(&copy), same, "{copy}");
        }
        w.assert_same("src", format!("remote/{name}"), What::USUAL);
    }
    w.haul("cp --link-dest=/dev/shm src/ testhost:~/remote/thursday").ends(1).says("another file system");
    w.plain("cp --no-agent --link-dest=../monday src/ testhost:~/remote/friday").run().says("plain SFTP cannot link");
}

#[test]
fn everything_goes_there_and_comes_back_with_a() {
    let w = World::new("");
    let left_out = nasty::build(&w.path("src")).expect("made");
    println!("left out: {left_out:?}");
    w.haul("cp -a src/ testhost:~/there").ends(0).says("by haul on the remote host");
    w.assert_same("src", "there", What::ALL);
    w.haul("cp -a testhost:~/there/ back").ends(0);
    w.assert_same("src", "back", What::ALL);
    // Nothing is left to do in either direction.
    for words in ["cp --json -a src/ testhost:~/there", "cp --json -a testhost:~/there/ back"] {
        let again = w.haul(words).ends(0);
        assert_eq!((again.number("bytes"), again.number("attributes")), (0, 0), "{again}");
    }
    w.haul("check -c src/ testhost:~/there").ends(0);
}

#[test]
fn random_trees_are_the_same_there() {
    for seed in [11, 12] {
        println!("seed {seed}");
        let w = World::new("");
        haul_test::tree::Tree::new(w.path("src")).expect("made").random(seed, 400).expect("made");
        w.haul("sync -a --delete src/ testhost:~/there").ends(0);
        w.assert_same("src", "there", What::ALL);
        // Another tree over it: kinds change, names go.
        haul_test::tree::Tree::new(w.path("other")).expect("made").random(seed + 100, 400).expect("made");
        w.haul("sync -a --delete --force other/ testhost:~/there").ends(0);
        w.assert_same("other", "there", EVERYTHING);
        w.haul("sync -a --delete --force testhost:~/there/ src").ends(0);
        w.assert_same("other", "src", EVERYTHING);
    }
}

#[test]
fn wildcards_and_homes_of_others_are_found_by_haul_on_the_host() {
    let (w, a) = (World::new("src: f1=1 f12=2 g=3"), haul_test::account::Account::new("/bin/sh").expect("root and useradd"));
    w.haul("cp testhost:~/src/f1* picked/").ends(0).says("by haul on the remote host");
    assert_eq!(w.names("picked"), "f1 f12");
    a.file("f", "theirs").expect("written");
    // As an argument of its own: in the words ~ is the working directory.
    w.haul("cp").arg(format!("testhost:~{}/f", a.name)).arg("got").ends(0).says("by haul on the remote host");
    assert_eq!(w.text("got"), "theirs");
}

#[test]
fn mv_within_the_host_renames() {
    let w = World::new("src: a=5 d/b=300K d/e/f=3 old=4 dst: old=7");
    let before = (w.inode("src/d/b"), w.inode("src/a"));
    w.haul("mv -n testhost:~/src/ testhost:~/dst").ends(0);
    w.haul("mv testhost:~/src/ testhost:~/dst").ends(0).out_has("2 (1 file, 1 directory), including the contents of directories");
    assert_eq!((w.inode("dst/d/b"), w.inode("dst/a")), before, "they were not copied");
    assert_eq!((w.read("dst/d/e/f").len(), w.read("dst/old").len()), (3, 4));
    // To another file system it is copied.
    let other = tempfile::tempdir_in("/dev/shm").expect("a place in memory");
    w.haul(&format!("mv testhost:~/dst/d testhost:{}/moved", other.path().display())).ends(0);
    assert!(!w.has("dst/d") && other.path().join("moved/d/e/f").exists());
}

#[test]
fn one_file_system_ends_at_a_mount_of_the_remote_host() {
    let w = World::new("remote: a=5 other/ d/b=6");
    let _mounted = Mounted::tmpfs(&w.path("remote/other"), "size=1M");
    w.write("remote/other/inside", "elsewhere");
    w.haul("cp -x testhost:~/remote/ copy").ends(0);
    assert!(w.has("copy/d/b") && !w.has("copy/other/inside"));
    w.haul("cp testhost:~/remote/ all").ends(0);
    assert!(w.has("all/other/inside"));
}

#[test]
fn two_hosts_at_once() {
    let w = World::new("");
    let other = World::new("");
    w.tree("src: a=5 d/b=900K d/c=9M d/l->b h=>d/b");
    // One configuration that knows both.
    w.server.write("known_hosts", w.server.read("known_hosts") + &other.server.read("known_hosts"));
    let second = format!("Host otherhost\n  HostName 127.0.0.1\n  Port {}\n  User root\n", other.server.port);
    w.server.write("ssh_config", second + &w.server.read("ssh_config"));
    other.server.write("authorized_keys", w.server.read("user_key.pub"));
    let there = other.path("there").display().to_string();
    w.haul(&format!("cp -a testhost:~/src/ otherhost:{there}")).ends(0).says("large files go directly between the hosts");
    haul_test::compare::assert_same(&w.path("src"), &other.path("there"), EVERYTHING);
    assert_eq!((w.server.logins(), other.server.logins()), (1, 1));
    w.haul(&format!("check -c testhost:~/src/ otherhost:{there}")).ends(0);
}

#[test]
fn checksums_find_what_times_do_not() {
    let w = World::new("");
    w.tree("src: a=300 big=2M same=9 there: a=300 big=2M same=9");
    let mut other = w.read("there/big");
    other[1_500_000] ^= 1;
    w.write("there/big", other);
    w.write("there/a", [b'x'; 300]);
    for name in ["a", "big", "same"] {
        w.age(format!("src/{name}"));
        w.age(format!("there/{name}"));
    }
    let quick = w.haul("cp --json src/ testhost:~/there").ends(0);
    assert_eq!(quick.number("bytes"), 0, "{quick}");
    w.haul("check src/ testhost:~/there").ends(0);
    w.haul("check -c src/ testhost:~/there").ends(1).says("differs     a").says("differs     big").never_says("same\n");
    let summed = w.haul("cp --json -c src/ testhost:~/there").ends(0);
    assert_eq!(summed.finished()["replaced"]["files"], 2, "{summed}");
    w.assert_same("src", "there", What::USUAL);
}

/// A transfer node and a login node share a file system, and this machine may be the host.
#[test]
fn nothing_is_moved_onto_or_deleted_from_itself_through_a_login() {
    for route in ["", "--no-agent"] {
        let w = World::new("d: a=1K sub/b=300K sub/c=2K sub/l->c");
        let run = |words: &str| match route {
            "" => w.haul(words).run(),
            route => w.plain(&format!("{words} {route}")).run(),
        };
        w.sh("find d -exec touch -h -d '2020-02-02 02:02:02' {} +; cp -a d kept");
        for words in [
            "mv d testhost:~/",
            "mv d/ testhost:~/d",
            "mv d/a testhost:~/d/",
            "mv testhost:~/d .",
            "cp -a --remove-source-files d testhost:~/",
            "cp -a --remove-source-files -c d testhost:~/",
            "cp -a --remove-source-files --size-only d testhost:~/",
            "cp -a --remove-source-files -I d testhost:~/",
            "sync --delete d/sub/ testhost:~/d",
        ] {
            // The agent knows whether it runs on this machine; what shares only the file system is found out with a probe.
            let ended = run(words).code_of(if route.is_empty() { &[1, 23] } else { &[23] });
            if !route.is_empty() {
                ended.says(if words.starts_with("sync") { "it is the source," } else { "source and destination are the same file," });
            }
            // What a mirror of `sub` has no use for beside `sub` goes.
            let left =
                if words.starts_with("sync") && !route.is_empty() { "b c l sub/ sub/b sub/c sub/l" } else { "a sub/ sub/b sub/c sub/l" };
            assert_eq!(w.names("d"), left, "{route} {words}");
            w.sh("rm -rf d && cp -a kept d");
        }
        w.sh("mkdir d/sub/sub");
        run("sync --delete d/sub/ testhost:~/d").code_of(&[1, 23]);
        assert!(w.has("d/sub/b") && w.has("d/sub/c"), "{route}");
        w.sh("rm -rf d && cp -a kept d");
        run("cp -a d testhost:~/d/new").code_of(&[1, 23]).says("inside the source");
        assert!(!w.has("d/new/d/new"), "{route}");
        // Beside it is somewhere else.
        w.sh("rm -rf d && cp -a kept d");
        run("mv d testhost:~/elsewhere --mkpath").code(0);
        w.assert_same("kept", "elsewhere/d", What { root: false, ..What::USUAL });
        w.sh("echo 1 >one");
        run("mv one testhost:~/two").code(0);
        assert_eq!(w.text("two"), "1\n", "{route}");
        assert!(!w.has("d"));
    }
}

/// The host may be this machine, or a node that shares it.
#[test]
fn a_destination_in_the_source_is_seen_over_ssh_too() {
    let w = World::new("src: a=5 d/b=3 backup/");
    for line in [
        "cp -a src/ testhost:~/src/backup",
        "cp -a src testhost:~/src/d",
        "sync -a --delete src/d/ testhost:~/src",
        "sync -a src/ testhost:~/src",
    ] {
        w.haul(line).ends(1).says("side the");
        assert_eq!(w.names("src"), "a backup/ d/ d/b", "{line}");
    }
    w.haul("cp -a --exclude=/backup src/ testhost:~/src/backup").ends(0);
    assert_eq!(w.names("src/backup"), "a d/ d/b");
}

/// The remote host tells the ctime too: size and time of what was rewritten may be those of before.
#[test]
fn what_is_rewritten_on_its_host_before_it_is_removed_stays() {
    let w = World::new("s: small=1K large=400K z=1K back/:");
    w.sh("find s -exec touch -d '2020-02-02 02:02:02' {} +");
    let mounted = SlowFs::mount(&w.path("back"), Options { threads: 4, ..Options::fast() }).expect("FUSE");
    mounted.faults().add(Fault::always("z", FaultKind::ReadHang { duration: std::time::Duration::from_secs(300) }));
    let mut run = w.haul("mv -j 1 testhost:~/s/").arg(mounted.path().join("d")).start();
    run.until("a copy that is read back", || mounted.faults().struck() > 0);
    let rest = if w.has("s/large") { "large small" } else { "small" };
    w.sh("for f in s/small s/large; do if [ -e $f ]; then printf x | dd of=$f conv=notrunc status=none; touch -d '2020-02-02 02:02:02' $f; fi; done");
    mounted.faults().clear();
    let ended = run.wait();
    // The large one may not have been read yet.
    assert!(w.names("s") == rest || w.names("s") == "small", "{}", w.names("s"));
    assert!(w.read("s/small").starts_with(b"x"), "{ended}");
    ended.code(23).says("it changed after it was read; the source was kept");
}
