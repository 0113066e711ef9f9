//! What is copied and what is passed over.

use haul_test::compare::What;
use haul_test::volume::{Mounted, Volume};
use insta::assert_snapshot;

use crate::support::{Printed, World};

/// Two files of one name, of the same length, and an hour between them.
fn older_and_newer() -> World {
    let w = World::new("");
    let tree = w.tree("src: dst:");
    for (name, content, hour) in
        [("src/new", "NEW", 3), ("dst/new", "old", 2), ("src/old", "OLD", 2), ("dst/old", "new", 3), ("src/only", "one", 2)]
    {
        w.write(name, content);
        tree.set_mtime(name, 1_000_000_000 + hour * 3600, 0).unwrap();
    }
    w.age("src");
    w
}

#[test]
fn update_leaves_what_is_newer() {
    let w = older_and_newer();
    assert_snapshot!(w.haul("cp -uvv src/ dst").run().snapshot(), @"
    exit 0
    --- stdout
    copies the contents of [W]/src to [W]/dst
    attributes  attributes differ         ./
    create      missing at destination    only
    keep        the destination is newer  old
    replace     time differs              new
    Items:       4 (3 files, 1 directory)
    Created:     1 file
    Replaced:    1 file
    Attributes:  set on 1 entry
    Skipped:     1 file (see -vv)
    Data:        6 B transferred, 6 bytes (3 B per file)
    ");
    assert_eq!((w.text("dst/new"), w.text("dst/old"), w.text("dst/only")), ("NEW".into(), "new".into(), "one".into()));
}

#[test]
fn what_the_policy_leaves_is_skipped_and_not_unchanged() {
    let w = World::new("src: a=1 b=2 d/c=3");
    w.sh("mkdir dst");
    let counts = |words: &str| {
        let report = w.haul(words).arg("--json").succeeds().finished();
        (report["skipped"]["files"].as_u64(), report["skipped"]["directories"].as_u64(), report["unchanged"]["files"].as_u64())
    };
    assert_eq!(counts("sync --existing src/ dst/"), (Some(2), Some(1), Some(0)));
    let ended = w.haul("sync --existing src/ dst/").succeeds();
    assert_eq!(
        (ended.summary("Skipped"), ended.summary("Unchanged")),
        (Some("3 (2 files, 1 directory) (see -vv)"), Some("1 directory")),
        "{ended}"
    );
    w.haul("cp -a src/ dst/").succeeds();
    assert_eq!(counts("sync --existing src/ dst/"), (Some(0), Some(0), Some(3)));
    assert_eq!(counts("sync --ignore-existing src/ dst/"), (Some(3), Some(0), Some(0)));
}

#[test]
fn existing_and_ignore_existing() {
    let w = older_and_newer();
    w.haul("cp --existing src/ dst").succeeds();
    assert_eq!((w.text("dst/new"), w.text("dst/old"), w.has("dst/only")), ("NEW".into(), "OLD".into(), false));
    let w = older_and_newer();
    w.haul("cp --ignore-existing src/ dst").succeeds();
    assert_eq!((w.text("dst/new"), w.text("dst/old"), w.text("dst/only")), ("old".into(), "new".into(), "one".into()));
    let w = older_and_newer();
    w.tree("src: d/f=1 d/e/");
    w.haul("cp --existing src/ dst").succeeds();
    assert_eq!(w.names("dst"), "new old", "no directory either");
}

#[test]
fn size_only_checksum_ignore_times_and_window() {
    let w = older_and_newer();
    w.haul("cp --size-only src/ dst").succeeds();
    assert_eq!(w.text("dst/new"), "old");
    w.haul("cp --modify-window 2h src/ dst").succeeds();
    assert_eq!(w.text("dst/new"), "old");
    w.age("src/new");
    w.age("dst/new");
    w.haul("cp src/new dst").succeeds();
    assert_eq!(w.text("dst/new"), "old", "the same by size and time");
    let ran = w.haul("cp -cv src/new dst").succeeds();
    assert_eq!((ran.items(), w.text("dst/new")), (vec!["replace     new".to_string()], "NEW".into()));
    let again = w.haul("cp -cv src/new dst").succeeds();
    assert_eq!(again.items(), Vec::<String>::new());
    let inode = w.inode("dst/new");
    let ran = w.haul("cp -Iv src/new dst").succeeds();
    assert_eq!(ran.items(), ["replace     new"]);
    assert_ne!(w.inode("dst/new"), inode, "staged and renamed");
}

#[test]
fn a_difference_of_a_nanosecond_is_one() {
    let w = World::new("");
    let tree = w.tree("src: a=5 dst: a=5");
    tree.set_mtime("src/a", 1_000_000_000, 500_000_001).unwrap();
    tree.set_mtime("dst/a", 1_000_000_000, 500_000_000).unwrap();
    let ran = w.haul("cp -v src/a dst").succeeds();
    assert_eq!(ran.items(), ["replace     a"]);
    tree.set_mtime("dst/a", 999_999_999, 500_000_001).unwrap();
    let ran = w.haul("cp -v --modify-window 1s src/a dst").succeeds();
    assert_eq!(ran.items(), Vec::<String>::new());
}

#[test]
fn inplace_writes_into_the_old_file() {
    let w = World::new("src: a=500 big=3M dst: a=900 big=5M");
    w.symlink("big", "dst/through");
    let inodes = || ["dst/a", "dst/big"].map(|name| w.inode(name));
    let before = inodes();
    w.haul("cp --inplace src/ dst").succeeds();
    assert_eq!(before, inodes());
    w.assert_same("src/a", "dst/a", What::USUAL);
    w.assert_same("src/big", "dst/big", What::USUAL);
}

#[test]
fn one_file_system_leaves_mount_points_empty() {
    let w = World::new("src: a=1 mnt/ z=1");
    let _mounted = Mounted::tmpfs(&w.path("src/mnt"), "size=1M");
    w.write("src/mnt/inside", "x");
    w.haul("cp -x src/ one").succeeds();
    w.haul("cp src/ two").succeeds();
    assert_eq!((w.names("one"), w.names("two")), ("a mnt/ z".into(), "a mnt/ mnt/inside z".into()));
}

#[test]
fn files_from_takes_the_names_in_the_list() {
    let w = World::new("src: a=1 b=2 d/c=3 d/e/f=4 d/e/g=5 left=6");
    w.write("list", "d/e/f\nb\n./a\nb\nd/e\n");
    assert_snapshot!(w.haul("cp -v --files-from list src dst").run().snapshot(), @"
    exit 0
    --- stdout
    copies [W]/src to [W]/dst
    create      a
    create      b
    create      d/e/f
    mkdir       d/
    mkdir       d/e/
    Items:       3 files
    Created:     5 (3 files, 2 directories)
    Data:        7 B transferred, 7 bytes (2 B per file)
    ");
    assert_eq!(w.names("dst"), "a b d/ d/e/ d/e/f");
    w.haul("cp -r --files-from list src/ dst2").succeeds();
    assert_eq!(w.names("dst2"), "a b d/ d/e/ d/e/f d/e/g");
    w.haul("cp --files-from - --from0 src dst3").fed(b"b\0d/c\0").succeeds();
    for all in [".\n", "a\n./\n", "/\n"] {
        w.sh("rm -rf whole");
        w.haul("cp -r --files-from - src whole").fed(all).succeeds();
        w.haul("check -c src/ whole").ends(0);
    }
    assert_eq!(w.names("dst3"), "b d/ d/c");
    w.write("bad", "a\n../w/left\n");
    w.refuses(
        1,
        "cp --files-from bad src dst4",
        "haul: --files-from: ../w/left: .. would leave the source\n  try: names are relative to the source; remove the line",
    );
    w.write("gone", "a\nnothing\n");
    w.haul("cp --files-from gone src dst5").ends(23).err_has("haul: nothing: read: no such file or directory");
    assert_eq!(w.names("dst5"), "a");
    assert_snapshot!(w.haul("sync --delete --files-from list src dst").run().snapshot(), @"
    exit 1
    --- stderr
    error: --files-from says nothing about what is not in the list, so --delete could not tell what to delete; leave one out, or make the list an --include-from

    For more information, try 'haul sync --help'.
    ");
}

#[test]
fn sizes_and_patterns() {
    let w = World::new("src: small=10 large=20K d/x.tmp=1 d/x.dat=30K keep.tmp=1 sub/d/y=9");
    w.haul("cp --min-size 1K src/ one").succeeds();
    assert_eq!(w.names("one"), "d/ d/x.dat large sub/ sub/d/");
    w.haul("cp --max-size 1K src/ two").succeeds();
    assert_eq!(w.names("two"), "d/ d/x.tmp keep.tmp small sub/ sub/d/ sub/d/y");
    w.haul("cp --include keep.tmp --exclude *.tmp --exclude /d src/ three").succeeds();
    assert_eq!(w.names("three"), "keep.tmp large small sub/ sub/d/ sub/d/y");
    w.tree("").set_mtime("src/small", 1_000_000_000, 0).unwrap();
    w.haul("cp --older-than 2002-01-01 src/small src/large four").succeeds();
    assert_eq!(w.names("four"), "small");
    w.haul("cp --newer-than 2002-01-01 src/small src/keep.tmp five").succeeds();
}

#[test]
fn links_are_followed_only_when_asked() {
    let w = World::new("out: secret=5 src: a=3 d/b=4 in->d/b up->../out/secret abs->/etc/hostname dir->d loop/self->. dangling->none");
    w.haul("cp src/ one").succeeds();
    w.assert_same("src", "one", What::USUAL);
    w.haul("cp --safe-links src/ two").succeeds();
    assert_eq!(w.names("two"), "a d/ d/b dangling dir in loop/ loop/self");
    w.haul("cp -L src/ three")
        .ends(23)
        .err_has("haul: dangling: stat: the symlink points to nothing")
        .err_has("haul: loop/self: list: a symlink leads back to loop/");
    assert_eq!(w.read("three/up"), w.read("out/secret"));
    assert!(w.meta("three/dir").is_dir());
}

/// A name in front of a `..` may be a link itself, so that what follows it leads anywhere.
#[test]
fn safe_links_are_those_of_rsync() {
    let w = World::new("secret=5 src: a=3 d/b=4");
    for (target, name) in [(".", "here"), ("here/../secret", "leak"), ("./../a", "dot"), ("../d/b", "d/up"), ("d/..", "d/back")] {
        w.symlink(target, format!("src/{name}"));
    }
    w.haul("cp --safe-links src/ ours").succeeds();
    w.sh("rsync -rlpt --safe-links src/ theirs/");
    assert_eq!(w.names("ours"), w.names("theirs"));
    assert!(!w.has("ours/leak"));
}

#[test]
fn a_link_to_a_directory_at_the_destination() {
    let w = World::new("src: d/a=3 dst: real/ d->real");
    w.haul("cp src/ dst")
        .ends(23)
        .err_has("haul: d: replace: it is a directory at the source and a symlink at the destination")
        .err_has("try: --force replaces it, --backup-dir keeps the old one");
    assert_eq!(w.names("dst/real"), "");
    w.haul("cp -K src/ dst").succeeds();
    assert!(w.meta("dst/d").is_symlink());
    assert_eq!(w.names("dst/real"), "a");
    w.tree("outside/");
    let w = World::new("outside/ src: d/a=3 dst:");
    w.symlink(w.path("outside"), "dst/d");
    w.haul("cp -K src/ dst").ends(23);
    assert_eq!(w.names("outside"), "");
}

#[test]
fn backup_dir_keeps_what_is_replaced_or_deleted() {
    let w = World::new("src: a=5 big=2M d/b=6 same=7");
    w.haul("cp src/ dst").succeeds();
    w.tree("src: a=8 big=3M dst: extra/f=4 d/gone=3");
    let (old_a, old_big) = (w.read("dst/a"), w.read("dst/big"));
    w.haul("sync --delete --backup-dir .old/1 src/ dst").succeeds();
    assert_eq!(w.names("dst/.old/1"), "a big d/ d/gone extra/ extra/f");
    assert_eq!((w.read("dst/.old/1/a"), w.read("dst/.old/1/big")), (old_a, old_big));
    w.haul("sync --delete --backup-dir .old/1 src/ dst").succeeds();
    assert_eq!(w.names("dst/.old/1"), "a big d/ d/gone extra/ extra/f", "it is not backed up into itself");
    w.assert_same("src/big", "dst/big", What::USUAL);
    w.refuses(
        1,
        "sync --delete --backup-dir ../out src/ dst",
        "haul: ../out: --backup-dir: is not below the destination\n  try: give a directory in the destination, relative to it",
    );
}

#[test]
fn types_that_clash() {
    let w = World::new("src: f=3 d/x=1 e=2 l->f dst: f/inner=1 d=5 e/ l=4");
    w.haul("cp src/ dst")
        .ends(23)
        .err_has("haul: d: replace: it is a directory at the source and a file at the destination")
        .err_has("try: --force replaces it, --backup-dir keeps the old one")
        .err_has("haul: f: replace: it is a file at the source and a directory at the destination")
        .err_has("try: the directory is not empty; --force replaces it and its contents");
    assert_eq!((w.has("dst/f/inner"), w.read("dst/d").len()), (true, 5), "nothing is lost");
    w.haul("cp --force src/ dst").succeeds();
    w.assert_same("src", "dst", What::USUAL);
}

#[test]
fn mv_on_one_file_system_and_between_two() {
    for other in [false, true] {
        let volume = Volume::tmpfs(8 << 20).unwrap();
        let w = World::new("src: a=5:0640 d/b=300K h=3 l->a dst:");
        w.tree("src: g=>h");
        let dst = if other { volume.path().to_path_buf() } else { w.path("dst") };
        w.sh("cp -a src copy");
        w.haul("mv src").arg(&dst).succeeds();
        assert!(!w.has("src"), "other: {other}");
        w.assert_same("copy", dst.join("src"), What::ALL);
        w.tree("one=4");
        w.haul("mv one").arg(dst.join("two")).succeeds();
        assert!(!w.has("one") && dst.join("two").exists());
    }
}

#[test]
fn mv_renames_where_it_can() {
    let w = World::new("src: a=5 d/b=300K d/e/f=3 old=4 dst: old=7");
    let before = (w.inode("src/d/b"), w.inode("src/a"));
    let dry = w.haul("mv -n src/ dst").succeeds();
    assert_eq!(dry.summary("Rename"), Some("2 (1 file, 1 directory), including the contents of directories"), "{}", dry.out);
    let ran = w.haul("mv -v src/ dst").succeeds();
    assert_eq!(ran.summary("Renamed"), Some("2 (1 file, 1 directory), including the contents of directories"), "{}", ran.out);
    assert_eq!((w.inode("dst/d/b"), w.inode("dst/a")), before, "they were not copied");
    assert_eq!((w.names("src"), w.read("dst/d/e/f").len(), w.read("dst/old").len()), (String::new(), 3, 4));
}

#[test]
fn link_dest_links_what_rsync_links_whatever_the_comparison() {
    let w = World::new("src: same=5 large=600K touched=9 d/same=70K other=0 added=1");
    w.sh("cp -a src monday");
    w.write("src/other", "12345");
    w.write("monday/other", "54321");
    for path in ["src/other", "monday/other"] {
        w.age(path);
    }
    w.remove("monday/added");
    w.set_time("src/touched", std::time::UNIX_EPOCH);
    let shared = |copy: &str| {
        let names = ["same", "large", "touched", "d/same", "other", "added"];
        let names = names.into_iter().filter(|name| w.has(format!("monday/{name}")));
        names.filter(|name| w.inode(format!("{copy}/{name}")) == w.inode(format!("monday/{name}"))).collect::<Vec<_>>().join(" ")
    };
    for flags in ["", "-c", "-u", "--ignore-existing", "-c --ignore-existing", "-I", "--size-only"] {
        for copy in ["ours", "theirs"] {
            w.remove(copy);
        }
        w.sh(&format!("rsync -rlpt {flags} --link-dest=../monday src/ theirs/"));
        let dry = w.haul(&format!("cp -n {flags} --link-dest ../monday src/ ours")).succeeds();
        w.haul(&format!("cp {flags} --link-dest ../monday src/ ours")).succeeds();
        let linked = shared("ours");
        assert_eq!(linked, shared("theirs"), "{flags}");
        assert_eq!(dry.out.contains("as hard links"), !linked.is_empty(), "{flags}: {}", dry.out);
        w.assert_same(if flags.contains("-c") { "src" } else { "theirs" }, "ours", What::USUAL);
    }
}

#[test]
fn nothing_is_made_on_the_way_to_a_listed_name_that_is_excluded() {
    let w = World::new("src: a/b/f=1 c/d/");
    w.write("list", "a/b/f\nc/d\n");
    w.haul("cp -r --files-from list --exclude ** src/ dst").succeeds();
    assert_eq!(w.names("dst"), "");
    // What it is decides.
    w.haul("cp -r --files-from list --exclude */ src/ dst").succeeds();
    assert_eq!(w.names("dst"), "a/ a/b/ a/b/f");
}

/// Lists and options with which rsync and haul are to make the same tree.
#[test]
#[ignore = "full"]
fn listed_names_mean_what_they_mean_to_rsync() {
    let w = World::new("s: f=1 sub/g=2 sub/h=3 sub/deep/i=4 sub/deep/er/j=5 x/y/z=6 x/y/w=7 a/b/c/k=8 a/b/l=9 e/m=10");
    let lists = [
        "sub",
        "sub/",
        "sub/.",
        ".",
        "./",
        "x/./y/z",
        "x/./y",
        "x/./y/",
        "sub/ sub/deep/i",
        "sub/ sub/deep/",
        "sub sub/g",
        "./sub/",
        "sub//",
        "x/./y/z x/y/w",
        "./x/./y/z",
        "/./f",
        "x/y/.",
        "a/./b/./l",
        "f\r sub/g\r",
        "a/b/ e f",
        "a/b/c/k f sub/g",
        "none/ f",
        "f/",
    ];
    for flags in ["", "-r", "--existing", "--exclude=a", "-r --exclude=b"] {
        for list in lists {
            w.write("list", list.replace(' ', "\n") + "\n");
            w.sh("rm -rf ours theirs; mkdir -p ours/a ours/sub; touch -d @1 ours/sub/g; cp -a ours theirs");
            let theirs = w.sh(&format!("rsync -lpt {flags} --files-from=list s/ theirs/ 2>&1 || true"));
            w.haul(&format!("cp {flags} --files-from list s ours")).run();
            assert_eq!(w.names("ours"), w.names("theirs"), "{flags} {list:?}: {theirs}");
        }
    }
    w.write("list", "\u{feff}f\r\nsub/g\r\n");
    w.haul("cp --files-from list s bom").succeeds();
    assert_eq!(w.names("bom"), "f sub/ sub/g");
}

#[test]
fn size_limits_are_read_as_rsync_reads_them() {
    let w = World::new("s: a=999 b=1000 c=1001 d=10239 e=10240 f=10241");
    for limit in ["--max-size=1000", "--max-size=10K-1", "--max-size=10K", "--min-size=1000+1", "--min-size=10K", "--max-size=1000-1"] {
        w.haul(&format!("cp {limit} s/ ours")).succeeds();
        w.sh(&format!("rsync -rt {limit} s/ theirs/"));
        assert_eq!(w.names("ours"), w.names("theirs"), "{limit}");
        w.sh("rm -r ours theirs");
    }
}

#[test]
fn several_sources_give_a_directory_the_attributes_of_the_first() {
    for command in ["cp -a one/ two/ x", "cp -a one/d two/d x"] {
        let w = World::new("one: d/a=1 d/deep/b=2 two: d/c=3 d/deep/e=4");
        w.sh("chmod 700 one one/d; chmod 555 one/d/deep; chmod 755 two two/d two/d/deep");
        for (name, seconds) in [("one/d/deep", 100), ("one/d", 200), ("one", 300), ("two/d/deep", 400), ("two/d", 500), ("two", 600)] {
            w.sh(&format!("touch -d @{seconds} {name}"));
        }
        for _ in 0..2 {
            w.haul(command).succeeds();
            assert_eq!(w.sh("cd x && stat -c '%n %a %Y' d d/deep"), "d 700 200\nd/deep 555 100\n", "{command}");
            assert_eq!(w.names("x"), "d/ d/a d/c d/deep/ d/deep/b d/deep/e", "{command}");
        }
        if command.contains("one/ ") {
            assert_eq!(w.sh("stat -c '%a %Y' x"), "700 300\n");
        }
    }
}

#[test]
fn link_dest_links_symlinks_and_special_files_too() {
    let w = World::new("src: f=5 l->f p| other->f");
    w.sh("cp -a src monday; ln -sfn elsewhere monday/other");
    w.haul("cp -a --link-dest ../monday src/ ours").succeeds();
    w.sh("rsync -aHAXS --link-dest=../monday src/ theirs/");
    for name in ["f", "l", "p", "other"] {
        let shared = |copy: &str| w.inode(format!("{copy}/{name}")) == w.inode(format!("monday/{name}"));
        assert_eq!(shared("ours"), shared("theirs"), "{name}");
    }
    w.assert_same("src", "ours", What { hard_links: false, ..What::ALL });
    let summary = w.haul("cp -an --link-dest ../monday src/ new").succeeds();
    assert!(summary.out.contains("as hard links"), "{}", summary.out);
}
