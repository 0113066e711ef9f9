//! What an ordinary user gets.

use haul_test::compare::What;
use insta::assert_snapshot;

use crate::support::{Printed, World};

#[test]
fn archive_says_once_what_it_may_not_keep() {
    let w = World::of_user("src: a=5:0644 b=6:0644 d/c=7:0644 l->a");
    for (name, id) in [("a", 1000), ("b", 1001), ("d/c", 1002)] {
        w.chown(format!("src/{name}"), id, id);
    }
    w.chmod("src/a", 0o4755);
    assert_snapshot!(w.haul("cp -a src/ dst").run().snapshot(), @"
    exit 0
    --- stdout
    copies the contents of [W]/src to [W]/dst
    Items:       6 (3 files, 2 directories, 1 symlink)
    Created:     5 (3 files, 1 directory, 1 symlink)
    Attributes:  set on 1 entry
    Data:        18 B transferred, 18 bytes (6 B per file)
    Not set:     owner of 3 entries: needs root
    Not set:     group of 3 entries: needs root or membership in the group
    Not set:     setid of 1 entry: requires the owner to be preserved
    ");
    assert_eq!(w.mode("dst/a"), 0o755, "another user's program must not become ours");
    w.assert_same("src", "dst", What { owner: false, mode: 0o1777, ..What::ALL });
    let again = w.haul("cp -av src/ dst").run();
    assert_eq!((again.status.code(), again.items()), (Some(0), vec![]));
}

/// A file of somebody else that may be written to: only its owner may set its mode and time.
#[test]
fn attributes_that_may_not_be_set_do_not_count_as_set() {
    let w = World::of_user("src: a=5:0600 dst: a=5:0664");
    w.write("dst/a", w.read("src/a"));
    w.chown("dst/a", 0, haul_test::nobody::NOBODY);
    for path in ["src/a", "dst/a", "src", "dst"] {
        w.age(path);
    }
    for flags in ["", "-c "] {
        let ran = w.haul(&format!("cp {flags}src/ dst")).succeeds();
        assert_eq!((ran.summary("Attributes"), ran.summary("Created")), (None, Some("0")), "{ran}");
        ran.out_has("mode of 1 entry: not permitted").never_says("not supported");
        assert_eq!(w.mode("dst/a"), 0o664);
    }
}

#[test]
fn own_set_id_bits_stay_with_archive() {
    let w = World::of_user("src: a=5:0755");
    w.chmod("src/a", 0o4755);
    w.haul("cp -a src/ dst").succeeds();
    assert_eq!(w.mode("dst/a"), 0o4755);
}

#[test]
fn devices_cannot_be_made() {
    let w = World::of_user("src: a=5");
    w.sh("mknod src/null c 1 3");
    w.age("src");
    w.haul("cp -a src/ dst").ends(23).err_has("null: create: this user or this file system cannot create a character device here");
}

#[test]
fn sealed_directories_and_unreadable_files() {
    let w = World::of_user("src: sealed/a=5:0444 sealed/deep/b=1 none/c=3 zero=5:0000 ok=6 d/e=7");
    w.chmod("src/sealed/deep", 0o500);
    w.chmod("src/sealed", 0o555);
    w.chmod("src/none", 0o000);
    assert_snapshot!(w.haul("cp -v src/ dst").run().snapshot(), @"
    exit 23
    --- stdout
    copies the contents of [W]/src to [W]/dst
    attributes  ./
    create      d/e
    create      ok
    create      sealed/a
    create      sealed/deep/b
    mkdir       d/
    mkdir       none/
    mkdir       sealed/
    mkdir       sealed/deep/
    Result:      completed with errors, listed below
    Items:       10 (5 files, 5 directories)
    Created:     8 (4 files, 4 directories)
    Attributes:  set on 1 entry
    Errors:      2
    Data:        19 B transferred, 19 bytes (4 B per file)

    Failures:
      none: list: Permission denied
      zero: open: Permission denied

    Fix the errors and rerun; finished files are skipped:
      haul cp -v src/ dst
    --- stderr
    haul: none: list: Permission denied
    haul: zero: open: Permission denied
    ");
    assert_eq!(w.names("dst/sealed"), "a deep/ deep/b");
    assert_eq!((w.mode("dst/sealed"), w.mode("dst/sealed/deep")), (0o555, 0o500));
    assert_eq!(w.read("dst/ok"), w.read("src/ok"));
    // Read-only directories are written into again by the next run.
    w.chmod("src/sealed", 0o755);
    w.write("src/sealed/new", "x");
    w.chmod("src/sealed", 0o555);
    w.haul("cp src/ dst").ends(23);
    assert_eq!((w.names("dst/sealed").as_str(), w.mode("dst/sealed")), ("a deep/ deep/b new", 0o555));
    w.chmod("src/none", 0o755);
    w.chmod("src/zero", 0o600);
    w.haul("cp src/ dst").succeeds();
    w.assert_same("src", "dst", What::USUAL);
}

#[test]
fn no_permission_at_the_destination() {
    let w = World::of_user("src: a=5 d/b=6 dst: d/ a=1");
    for name in ["dst/d", "dst"] {
        w.chown(name, 0, 0);
        w.chmod(name, 0o755);
    }
    // Two workers meet the two failures in either order.
    let said = w.haul("cp src/ dst").ends(23).snapshot();
    for line in ["haul: a: create: Permission denied", "haul: d/b: create: Permission denied", "Errors:      2", "Created:     0"] {
        assert!(said.contains(line), "{said}");
    }
    w.haul("cp src/a dst/new").ends(23).err_has("haul: new: create: Permission denied");
    w.refuses(23, "cp src/ dst/new/", "haul: dst/new: mkdir: Permission denied");
}

#[test]
fn a_state_directory_that_cannot_be_written() {
    let w = World::of_user("src: a=5");
    w.tree("state/");
    w.chmod("state", 0o555);
    assert_snapshot!(w.haul("cp src/ dst --state-dir ~/state").run().snapshot(), @"
    exit 0
    --- stdout
    copies the contents of [W]/src to [W]/dst
    Items:       2 (1 file, 1 directory)
    Created:     1 file
    Attributes:  set on 1 entry
    Data:        5 B transferred, 5 bytes
    --- stderr
    haul: warning: no journal ([W]/state: make the state directory: Permission denied): a rerun skips finished files, but cannot resume inside a file
    ");
    w.assert_same("src", "dst", What::USUAL);
}

#[test]
fn jobs_that_finished_long_ago_are_listed_when_all_are_asked_for() {
    let w = World::new("src: a=1");
    for n in 0..22 {
        w.haul(&format!("cp -q src/a dst{n}")).succeeds();
    }
    let listed = |command: &str| w.haul(command).succeeds().out;
    let finished = |text: &str| text.lines().filter(|line| line.contains("  finished ")).count();
    let usual = listed("jobs");
    assert_eq!(finished(&usual), 20, "{usual}");
    assert!(usual.contains("2 jobs finished earlier: `haul jobs list --all`"), "{usual}");
    assert_eq!(finished(&listed("jobs list --all")), 22);
    assert_eq!(listed("jobs --json").lines().count(), 22);
}

#[test]
fn cleaning_jobs_quietly_prints_nothing() {
    let w = World::new("src: a=1");
    w.haul("cp -q src/a dst").succeeds();
    for _ in 0..2 {
        let cleaned = w.haul("jobs clean -q").succeeds();
        assert_eq!((cleaned.out.as_str(), cleaned.err.as_str()), ("", ""));
    }
    assert_eq!(w.haul("jobs --json").succeeds().out, "");
}

#[test]
fn names_that_a_list_cannot_have_are_not_said_to_be_in_it() {
    let w = World::of_user("src: ok=1");
    w.write("src/a\nb", "x");
    w.give_all();
    w.chmod("src/a\nb", 0o000);
    let ran = w.haul("cp --failed-to list src/ dst").ends(23);
    ran.out_has("all names without a newline are in list").err_has("omitted from the list");
    assert_eq!(w.text("list"), "");
}
