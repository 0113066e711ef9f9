//! What sync deletes, when, and when not.

use std::os::unix::fs::MetadataExt;

use haul_test::compare::What;
use insta::assert_snapshot;

use crate::support::{Printed, World};

#[test]
fn sync_delete_makes_the_trees_equal() {
    let w = World::new("src: a=5 d/b=6 dst: a=5 old=1 d/old=2 gone/x/y=3 gone/z=4 l->nowhere p| empty/");
    assert_snapshot!(w.haul("sync -v --delete src/ dst").run().snapshot(), @"
    exit 0
    --- stdout
    syncs the contents of [W]/src to [W]/dst, deleting files that the source does not have
    attributes  ./
    attributes  d/
    create      d/b
    delete      d/old
    delete      empty/
    delete      gone/
    delete      gone/x/
    delete      gone/x/y
    delete      gone/z
    delete      l
    delete      old
    delete      p
    replace     a
    Items:       4 (2 files, 2 directories)
    Created:     1 file
    Replaced:    1 file
    Attributes:  set on 2 entries
    Deleted:     9 (4 files, 3 directories, 1 symlink, 1 special file)
    Data:        11 B transferred, 11 bytes (5 B per file)
    ");
    w.assert_same("src", "dst", What::USUAL);
    assert_eq!(w.rsync_finds("src/", "dst/"), "");
}

#[test]
fn the_directory_of_the_journals_stays() {
    let w = World::new("src: a=5 dst: old=1 st/old=1 gone/x=1");
    for _again in 0..2 {
        let ran = w.haul("sync --delete --state-dir dst/st/haul src/ dst").succeeds();
        assert_eq!(ran.err, "haul: warning: st/: not removed: it is not empty\n");
        assert!(w.has("dst/st/haul/jobs") && !w.has("dst/st/old") && !w.has("dst/old") && !w.has("dst/gone"));
    }
    w.haul("jobs --state-dir dst/st/haul").succeeds().out_has("src/");
}

#[test]
fn backups_leave_the_times_of_the_directories_above_them_alone() {
    let w = World::new("src: x/a=5 x/b->a k/q=1");
    w.hard_link("src/x/a", "src/x/c");
    w.haul("cp -a src/ dst").succeeds();
    w.write("src/x/a", "changed");
    w.write("src/x/new", "new");
    w.hard_link("src/x/new", "src/x/new2");
    for dir in ["src", "src/x", "src/k"] {
        w.age(dir);
    }
    // One backup directory at the top, one below a directory that both sides have.
    w.haul("cp -a --backup-dir bak src/ dst").succeeds();
    assert_eq!(w.names("dst/bak"), "x/ x/a x/c");
    w.write("src/x/a", "changed again");
    w.age("src/x");
    w.haul("cp -a --backup-dir k/bak src/ dst").succeeds();
    assert_eq!(w.names("dst/k"), "bak/ bak/x/ bak/x/a bak/x/c q");
    for dir in ["dst", "dst/x", "dst/k"] {
        assert_eq!(w.meta(dir).mtime(), w.meta("src").mtime(), "{dir}");
    }
}

#[test]
fn a_failure_to_write_prevents_deletes_too() {
    let w = World::new("src: f=3 z=1 dst: f| old=2");
    assert_snapshot!(w.haul("sync --delete src/ dst").run().snapshot(), @"
    exit 23
    --- stdout
    syncs the contents of [W]/src to [W]/dst, deleting files that the source does not have
    Result:      completed with errors, listed below
    Items:       3 (2 files, 1 directory)
    Created:     1 file
    Attributes:  set on 1 entry
    Errors:      1
    Data:        1 B transferred, 1 byte
    Not deleted: 1 extra name at the destination was kept, because some files could not be listed or copied

    Failures:
      f: replace: it is a file at the source and a fifo at the destination
        try: --force replaces it, --backup-dir keeps the old one

    Fix the errors and rerun; finished files are skipped:
      haul sync --delete src/ dst
    --- stderr
    haul: f: replace: it is a file at the source and a fifo at the destination
      try: --force replaces it, --backup-dir keeps the old one
    haul: warning: deletes skipped: 1 extra name at the destination was kept, because some files could not be listed or copied
    ");
    assert_eq!(w.names("dst"), "f old z");
}

#[test]
fn max_delete_is_all_or_nothing() {
    let w = World::new("src: a=5 b=5 c=5 d=5 dst: a=1 old1=1 old2=2 dir/x=3 dir/y=3");
    assert_snapshot!(w.haul("sync --delete --max-delete 4 src/ dst").run().snapshot(), @"
    exit 25
    --- stdout
    syncs the contents of [W]/src to [W]/dst, deleting files that the source does not have
    Result:      --max-delete exceeded: nothing was deleted
    Items:       5 (4 files, 1 directory)
    Created:     3 files
    Replaced:    1 file
    Attributes:  set on 1 entry
    Data:        20 B transferred, 20 bytes (5 B per file)
    Not deleted: --max-delete allows 4, but 5 names would be deleted; nothing was deleted

    If the deletes are intended, rerun with a larger --max-delete:
      haul sync --delete --max-delete 4 src/ dst
    --- stderr
    haul: warning: deletes skipped: --max-delete allows 4, but 5 names would be deleted; nothing was deleted
    ");
    assert_eq!(w.names("dst"), "a b c d dir/ dir/x dir/y old1 old2");
    w.haul("sync --delete --max-delete 0 src/ dst").ends(25);
    w.haul("sync --delete --max-delete 10% src/ dst").ends(25);
    assert!(w.has("dst/dir/x"));
    // A dry run ends as the run would.
    w.haul("sync -n --delete --max-delete 4 src/ dst").ends(25);
    w.haul("sync --delete --max-delete 5 src/ dst").succeeds();
    assert_eq!(w.names("dst"), "a b c d");
}

#[test]
fn excluded_names_are_protected() {
    let w = World::new("src: a=5 skip.o=1 dst: old=1 mine.o=2 cache/x=3 gone/keep.o=1 gone/f=1");
    w.haul("sync --delete --exclude *.o --exclude /cache src/ dst").run();
    assert!(w.has("dst/mine.o") && w.has("dst/cache/x") && w.has("dst/gone/keep.o"));
    assert!(!w.has("dst/old") && !w.has("dst/gone/f") && !w.has("dst/skip.o"));
    w.haul("sync --delete-excluded --exclude *.o --exclude /cache src/ dst").succeeds();
    assert_eq!(w.names("dst"), "a");
}

#[test]
fn sizes_select_no_deletes() {
    let w = World::new("src: a=5 large=20K dst: large=20K small-old=1 large-old=30K");
    w.haul("sync --delete --max-size 1K src/ dst").succeeds();
    assert!(w.has("dst/large"), "it is at the source");
    assert_eq!(w.names("dst"), "a large");
}

#[test]
fn deletes_do_not_follow_links() {
    let w = World::new("out: precious=5 src: a=1 dst:");
    w.symlink(w.path("out"), "dst/link");
    w.haul("sync --delete src/ dst").succeeds();
    assert_eq!((w.names("dst"), w.names("out")), ("a".into(), "precious".into()));
}

#[test]
fn sealed_directories_are_deleted_by_their_owner() {
    let w = World::of_user("src: a=1 dst: gone/x/y=3");
    for name in ["dst/gone/x", "dst/gone"] {
        w.chmod(name, 0o555);
    }
    let ran = w.haul("sync --delete src/ dst").run();
    assert_eq!(ran.status.code() == Some(0), !w.has("dst/gone"), "success only when it is gone: {}", ran.snapshot());
}

/// What an interrupted run left is in no listing; that its source is gone must not make it stay for ever.
#[test]
fn unfinished_files_do_not_keep_a_directory() {
    let leftover = ".haul-0123456789abcdef0123456789abcdef";
    for command in ["sync --delete src/ dst", "rm -r dst/old", "sync --force other/ dst"] {
        let w = World::new("src: a=1 dst: a=1 old/deep/x=1 other: old=1 ");
        for directory in ["old", "old/deep"] {
            w.write(format!("dst/{directory}/{leftover}"), "half");
        }
        w.haul(command).succeeds();
        assert_eq!(w.path("dst/old").is_file(), command.ends_with("other/ dst"), "{command}");
        assert!(!w.path("dst/old").is_dir(), "{command}");
    }
    // Nothing else is in the way of a file.
    let w = World::new("src: f=1 dst: f/");
    w.write(format!("dst/f/{leftover}"), "half");
    w.haul("sync src/ dst").succeeds();
    assert!(w.path("dst/f").is_file());
}

/// A file system that is not mounted looks like an empty directory.
#[test]
fn nothing_is_deleted_for_a_source_that_lists_nothing() {
    for words in ["sync --delete src/ dst", "sync --delete src all"] {
        let w = World::new("src/ dst: a=1 d/b=2 all: src/a=1 src/d/b=2");
        for flags in ["", "-n", "--ignore-errors"] {
            let ran = w.haul(&format!("{words} {flags}")).ends(23);
            ran.err_has("the source lists nothing, and the destination has 2 names").err_has("--force");
            assert_eq!((w.names("dst"), w.names("all/src")), ("a d/ d/b".into(), "a d/ d/b".into()));
        }
        w.haul(&format!("{words} --force")).succeeds();
        assert_eq!(w.names(if words.contains("all") { "all/src" } else { "dst" }), "");
    }
    // Excluded names are listed, too.
    let w = World::new("src: x=1 dst: a=1");
    w.haul("sync --delete --exclude=x src/ dst").succeeds();
    assert_eq!(w.names("dst"), "");
}

#[test]
fn what_stands_in_the_way_of_another_type_is_deleted_with_delete() {
    let tree = "s: f=3 l->f d/x=1 new=2 d: f/a=1 f/b/c=2 l/y=3 d=5 extra=1";
    let w = World::new(tree);
    w.haul("sync s/ d").ends(23);
    w.haul("sync -n --delete s/ d").succeeds();
    assert!(w.has("d/f/b/c") && w.has("d/extra"));
    // f and all below it, l and y, d, extra: 8.
    w.haul("sync --delete --max-delete 3 s/ d").ends(23).says("--max-delete");
    assert!(w.has("d/f/b/c") && w.has("d/extra"));
    w.haul("sync --delete --max-delete 50% s/ d").ends(23);
    w.haul("sync --delete --max-delete 8 s/ d").succeeds();
    w.assert_same("s", "d", What::USUAL);
    let w = World::new(tree);
    w.haul("sync -a --delete s/ d").succeeds();
    w.assert_same("s", "d", What::USUAL);
    // What the filters protect stays, and so does the directory above it.
    let w = World::new("s: f=3 d: f/keep=1 f/b=2");
    w.haul("sync -a --delete --exclude keep s/ d").ends(23);
    assert_eq!(w.names("d"), "f/ f/keep");
}
