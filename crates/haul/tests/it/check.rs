//! check, sum, and the small commands.

use haul_test::compare::What;
use haul_test::volume::Mounted;
use insta::assert_snapshot;

use crate::support::{Printed, World};

fn two_trees(w: &World) {
    w.tree("src: same=5 bytes=5 size=6 only=1 d/only=2 dst: same=5 bytes=5 size=7 extra=1 d/extra=2 e/x=1");
    w.write("dst/bytes", "other");
    for name in ["same", "bytes", "size"] {
        w.age(format!("src/{name}"));
        w.age(format!("dst/{name}"));
    }
}

#[test]
fn check_lists_what_is_missing_extra_and_differing() {
    let w = World::new("");
    two_trees(&w);
    assert_snapshot!(w.haul("check src/ dst").run().snapshot(), @"
    exit 1
    --- stdout
    checks the contents of [W]/src against [W]/dst
    differs     size
    extra       d/extra
    extra       e/
    extra       extra
    missing     d/only
    missing     only
    Items:       7 (5 files, 2 directories)
    Identical:   4 (2 files, 2 directories)
    Missing:     2
    Extra:       3
    Differing:   1
    Not identical: 6 differences.
    ");
    assert_snapshot!(w.haul("check --one-way --checksum src/ dst").run().snapshot(), @"
    exit 1
    --- stdout
    checks the contents of [W]/src against [W]/dst
    differs     bytes
    differs     size
    missing     d/only
    missing     only
    Items:       7 (5 files, 2 directories)
    Identical:   3 (1 file, 2 directories)
    Missing:     2
    Differing:   2
    Not identical: 4 differences.
    ");
    let ended = w.haul("check -q --missing-to missing --differing-to differing --extra-to extra src/ dst").ends(1);
    assert_eq!(ended.sorted(), ["d/only", "only", "size"], "names alone, those that --files-from could copy");
    let lines = |name: &str| w.sh(&format!("sort {name}"));
    assert_eq!(
        (lines("missing"), lines("differing"), lines("extra")),
        ("d/only\nonly\n".into(), "size\n".into(), "d/extra\ne\nextra\n".into())
    );
    let list = w.haul("check -q --one-way -c src/ dst").ends(1).out;
    w.haul("cp -I --files-from - src dst").fed(&list).succeeds();
    w.haul("check --one-way --checksum src/ dst").ends(0);
    w.haul("check src/ dst").ends(1);
    w.haul("sync --delete src/ dst").succeeds();
    assert_snapshot!(w.haul("check -c src/ dst").run().snapshot(), @"
    exit 0
    --- stdout
    checks the contents of [W]/src against [W]/dst
    Items:       7 (5 files, 2 directories)
    Identical:   7 (5 files, 2 directories)
    Identical.
    ");
}

#[test]
fn check_refuses_with_two() {
    let w = World::new("src: a=1");
    w.refuses(23, "check src/ nothing", "haul: nothing: open: no such file or directory");
    w.refuses(23, "check nothing src", "haul: nothing: open: no such file or directory");
    // Nothing to compare does not make it identical.
    w.sh("mkdir empty");
    for words in ["empty/ nothing", "--exclude * src/ nothing", "src/ no/such", "src/a no/such", "src/a nothing/"] {
        w.haul(&format!("check {words}")).ends(23).says("no such file or directory");
    }
    w.haul("check src/a nothing").ends(1);
    w.haul("check").ends(2);
    w.haul("check --no-such-flag src dst").ends(2);
}

#[test]
fn check_compares_attributes_with_archive() {
    let w = World::new("src: a=5:0640 b=5 l->a");
    w.haul("cp -a src/ dst").succeeds();
    w.haul("check -a src/ dst").succeeds();
    w.sh("chmod 0600 dst/a");
    assert_eq!(w.haul("check -q -a src/ dst").ends(1).out, "a\n");
    w.sh("ln -sfn b dst/l");
    assert_eq!(w.haul("check -q src/ dst").ends(1).out, "l\n");
}

#[test]
fn check_by_content_compares_the_attributes_that_are_asked_for() {
    let w = World::new("src: a=5:0640 b=5 c=5 d/e=5 l->a");
    w.haul("cp -a src/ dst").succeeds();
    w.haul("check -a -c src/ dst").succeeds();
    w.sh("chmod 0600 dst/a");
    w.sh("chown 1234 dst/b");
    w.sh("touch -d 2001-01-01 dst/c");
    for (options, differ) in [("-a", "a b c"), ("-p", "a"), ("-o", "b"), ("-t", "c")] {
        assert_eq!(w.haul(&format!("check -q -c {options} src/ dst")).ends(1).sorted().join(" "), differ, "{options}");
    }
    w.haul("check -c src/ dst").succeeds();
    w.haul("sync -a -c src/ dst").succeeds();
    w.haul("check -a -c src/ dst").succeeds();
}

#[test]
fn a_tree_of_which_a_part_was_not_seen_is_not_verified() {
    let w = World::of_user("src: a=5");
    w.give_all();
    w.haul("sum -o manifest src/").succeeds();
    w.tree("src: locked/:0000");
    w.give_all();
    let ran = w.haul("check --manifest manifest src").ends(23);
    assert_eq!(ran.out, "1 identical, 0 missing, 0 differing, 0 extra, 1 unreadable\n");
    w.haul("check --one-way --manifest manifest src").succeeds();
}

#[test]
fn options_without_an_effect_are_refused() {
    let w = World::new("src: a=5");
    w.haul("sum -o manifest src/").succeeds();
    for option in ["--exclude a", "-x", "--checksum", "--files-from manifest", "--deadline 1h", "--timeout 5m"] {
        w.haul(&format!("check --manifest manifest {option} src")).ends(2).err_has("--manifest");
    }
    w.haul("check --manifest manifest -j 1 --bwlimit 1G src").succeeds();
    for line in ["sum --files-from manifest src", "sum --deadline 1h src", "ls --bwlimit 1M src", "rm --bwlimit 1M src/a"] {
        w.haul(line).ends(1).err_has("unexpected argument");
    }
    assert!(w.has("src/a"));
}

#[test]
fn sums_stay_on_one_file_system_and_come_out_the_same_with_one_worker() {
    let w = World::new("src: a=5 d/b=3K d/mounted/");
    let _mounted = Mounted::tmpfs(&w.path("src/d/mounted"), "size=1M");
    w.write("src/d/mounted/c", "other");
    let all = w.haul("sum --format sha256sum src").succeeds().out;
    assert_eq!(w.haul("sum -j 1 --bwlimit 10G --format sha256sum src").succeeds().out, all);
    let without: String = all.lines().filter(|line| !line.contains("mounted")).map(|line| format!("{line}\n")).collect();
    assert!(without.lines().count() == 2 && all.lines().count() == 3, "{all}");
    assert_eq!(w.haul("sum -x --format sha256sum src").succeeds().out, without);
}

#[test]
fn a_manifest_verifies_a_tree_without_its_source() {
    let w = World::new("src: a=5 d/b=300K empty=0 l->a");
    w.write("src/with space\nand line", "x");
    let manifest = w.haul("sum src/").succeeds().out;
    w.write("manifest", &manifest);
    w.haul("cp src/ dst").succeeds();
    w.haul("check --manifest manifest dst").succeeds();
    let mut bytes = w.read("dst/d/b");
    bytes[200_000] ^= 1;
    w.write("dst/d/b", bytes);
    w.remove("dst/a");
    w.write("dst/new", "x");
    assert_snapshot!(w.haul("check --manifest manifest dst").run().snapshot(), @"
    exit 1
    --- stdout
    missing  a
    differs  d/b
    extra    new
    2 identical, 1 missing, 1 differing, 1 extra, 0 unreadable
    ");
}

#[test]
fn sha256sum_and_we_read_each_other() {
    let w = World::new("src: a=5 d/b=300K empty=0");
    w.write("src/back\\slash", "x");
    w.write("src/new\nline", "y");
    let ours = w.haul("sum --format sha256sum src/").succeeds().out;
    w.write("ours", &ours);
    w.sh("sha256sum -c --quiet ours");
    assert_snapshot!(w.haul("check --one-way --manifest ours .").run().snapshot(), @"
    exit 0
    --- stdout
    5 identical, 0 missing, 0 differing, 0 extra, 0 unreadable
    ");
    w.write("theirs", w.sh("cd src && find . -type f -print0 | xargs -0 sha256sum"));
    w.haul("check --manifest theirs src").succeeds();
    w.write("src/a", "other");
    w.haul("check --manifest theirs src").ends(1);
}

/// Neither the output nor the file that holds it until it is complete is of the tree.
#[test]
fn a_manifest_in_its_tree_does_not_list_itself() {
    let w = World::new("s: a=5 d/b=3K");
    for (format, output) in [("blake3", "s/MANIFEST"), ("sha256sum", "s/d/SUMS"), ("blake3", "~/s/new")] {
        // The second time there is an old one.
        for _ in 0..2 {
            w.haul(&format!("sum s --format {format} -o {output}")).succeeds();
            let check = w.haul(&format!("check --manifest {output} s")).succeeds();
            assert_eq!(check.out, "2 identical, 0 missing, 0 differing, 0 extra, 0 unreadable\n", "{output}");
        }
        let file = output.trim_start_matches("~/");
        w.write(format!("{file}.partial"), "of somebody else");
        w.haul(&format!("check --manifest {output} s")).ends(1).says("1 extra");
        w.remove(format!("{file}.partial"));
        w.remove(file);
    }
    w.haul("sum s/d -o s/MANIFEST").succeeds();
    w.haul("check --manifest s/MANIFEST s/d").succeeds();
}

#[test]
fn ls_cat_mkdir() {
    let w = World::new("");
    let tree = w.tree("src: a=5:0640 d/b=300K:0600 d/e/ l->a p|");
    for name in ["a", "d/b", "l", "p", "d/e", "d"] {
        tree.set_mtime(format!("src/{name}"), 1_000_000_000, 0).unwrap();
    }
    assert_snapshot!(w.haul("ls src").run().snapshot(), @"
    exit 0
    --- stdout
    a
    d/
    l
    p
    ");
    w.refuses(23, "ls nothing", "haul: nothing: open: no such file or directory");
    assert_snapshot!(w.haul("ls src/d nothing src/a src/d/e src/l").run().snapshot(), @"
    exit 23
    --- stdout
    src/a
    src/l
    src/d:
    b
    e/
    src/d/e:
    --- stderr
    haul: nothing: open: no such file or directory
    ");
    w.write("text", "one\n");
    assert_eq!(w.haul("cat text text").succeeds().out, "one\none\n");
    w.refuses(23, "mkdir x/y", "haul: x/y: mkdir: No such file or directory\n  try: -p creates the parent directories");
    w.haul("mkdir x").succeeds();
    w.haul("mkdir x").ends(23);
    w.haul("mkdir -p x/y/z x").succeeds();
    assert_eq!(w.names("x"), "y/ y/z/");
    let du = w.haul("du src").succeeds().out;
    assert!(du.contains("307200") && du.contains("307205"), "{du}");
}

#[test]
#[ignore = "full"]
fn a_real_tree() {
    let w = World::new("");
    w.haul("cp -a --verify /usr/include/ dst").succeeds();
    haul_test::compare::assert_same(std::path::Path::new("/usr/include"), &w.path("dst"), What::ALL);
    assert_eq!(w.rsync_finds("/usr/include/", "dst/"), "");
    w.haul("check -a --checksum /usr/include/ dst").succeeds();
}

#[test]
fn a_tree_shows_files_too_and_with_d_directories_only() {
    let w = World::new("src: a=5 a-b=1 a2/c=300K a2/d/e=2 a2/z/ l->a p| .hidden=9 .git/x=7");
    assert_snapshot!(w.haul("tree src").run().snapshot(), @"
    exit 0
    --- stdout
    src
    ├── a
    ├── a-b
    ├── a2
    │   ├── c
    │   ├── d
    │   │   └── e
    │   └── z
    ├── l -> a
    └── p

    4 directories, 6 files
    ");
    assert_snapshot!(w.haul("tree -d src").run().snapshot(), @"
    exit 0
    --- stdout
    src
    └── a2
        ├── d
        └── z

    4 directories
    ");
    assert_snapshot!(w.haul("tree -a -L 1 src").run().snapshot(), @"
    exit 0
    --- stdout
    src
    ├── .git
    ├── .hidden
    ├── a
    ├── a-b
    ├── a2
    ├── l -> a
    └── p

    3 directories, 5 files
    ");
    assert_snapshot!(w.haul("tree --du -h -L 1 src").run().snapshot(), @"
    exit 0
    --- stdout
    [300K]  src
    ├── [   5]  a
    ├── [   1]  a-b
    ├── [300K]  a2
    ├── [   0]  l -> a
    └── [   0]  p

     300K used in 4 directories, 6 files
    ");
    let plain = w.haul("tree --du -d src").env("LC_ALL", "C").run();
    assert_snapshot!(plain.snapshot(), @"
    exit 0
    --- stdout
    [     307208]  src
    `-- [     307202]  a2
        |-- [          2]  d
        `-- [          0]  z

          307208 bytes used in 4 directories
    ");
    assert_snapshot!(w.haul("tree src/a").run().snapshot(), @"
    exit 0
    --- stdout
    src/a

    0 directories, 1 file
    ");
    // A number was the level once.
    w.haul("tree -d 2 src").ends(1).err_has("-L N");
}
