//! The disk of the host: paths that do not exist, not the user's, full, or read-only.

use haul_test::compare::assert_same;
use haul_test::scratch::entries;
use haul_test::volume::Volume;

use crate::ssh::support::{SAME, World, account};

/// A file system of 12 MiB, and the path of it.
fn small_disk() -> (Volume, String) {
    let volume = Volume::tmpfs(12 << 20).expect("a file system can be mounted: root");
    let path = volume.path().display().to_string();
    (volume, path)
}

#[test]
fn a_path_that_does_not_exist_is_named() {
    let w = World::new("src: a=5");
    for (code, words, parts) in [
        (23, "cp testhost:~/absent dst", &["absent", "no such file"][..]),
        (23, "cp testhost:~/absent/ dst", &["absent"]),
        (23, "ls testhost:~/absent", &["absent"]),
        (23, "cat testhost:~/absent", &["absent"]),
        (1, "cp src testhost:~/absent/deeper/", &["--mkpath"]),
        (1, "cp src/ testhost:~/src/a/", &["src/a"]),
        (1, "cp testhost:~/src/a/below dst", &["src/a", "not a directory"]),
    ] {
        w.says(code, words, parts);
    }
    assert!(!w.has("absent") && !w.has("dst"));
}

#[test]
fn a_disk_without_inodes_is_not_said_to_have_room() {
    let w = World::new("");
    haul_test::tree::spread(&w.path("src"), 1, 40, 100).expect("made");
    let volume = Volume::few_inodes(20 << 20, 20).expect("a file system can be mounted: root");
    let err = w.says(11, &format!("cp src/ testhost:{}", volume.path().display()), &["no inodes are left (df -i)"]);
    assert!(!err.contains("MiB free"), "{err}");
}

#[test]
fn a_directory_that_is_not_the_users_takes_nothing() {
    let w = World::new("src: a=5 big=6M d/b=3");
    let a = account("/bin/sh");
    let closed = a.home().join("closed");
    w.write(closed.join("a"), "old");
    let there = format!("{}@testhost:{}", a.name, closed.display());
    w.says(23, &format!("cp src/ {there}"), &["Permission denied", "a:", "big:", "d:"]);
    assert_eq!((w.names(&closed), w.text(closed.join("a"))), ("a".into(), "old".into()));
    for words in [format!("cp src/ {there}/new/deeper --mkpath"), format!("rm {there}/a"), format!("mv src {there}/")] {
        w.says(23, &words, &["Permission denied"]);
    }
    assert!(w.has("src/d/b"), "what did not land stays");
}

#[test]
fn what_may_not_be_read_there_is_named_and_all_else_comes() {
    let w = World::new("src: a=5 d/b=3");
    let a = account("/bin/sh");
    let there = a.home().join("src").display().to_string();
    w.sh(&format!(
        "cp -r src {there} && echo no > {there}/secret && mkdir {there}/shut && chmod 600 {there}/secret && chmod 700 {there}/shut"
    ));
    let words = format!("cp {}@testhost:{there}/ back", a.name);
    w.says(23, &words, &["secret: ", "shut: ", "Permission denied"]);
    assert_eq!(w.entries("back"), ["a", "d", "shut"]);
    // Without its list nothing may be taken for gone: no delete after an error.
    w.tree("back: extra=1");
    w.says(23, &words.replace("cp ", "sync --delete "), &["shut: "]);
    assert!(w.has("back/extra"));
}

#[test]
fn a_full_disk_there_ends_the_run_keeps_old_files_and_the_next_goes_on() {
    let w = World::new("src: big=16M old: big=4M");
    let (volume, path) = small_disk();
    haul_test::tree::spread(&w.path("src/many"), 4, 50, 20_000).expect("made");
    w.sh(&format!("cp old/big {path}"));
    let words = format!("cp --chunk-size 1M src/ testhost:{path}");
    w.says(11, &words, &["No space left"]);
    assert!(w.read(volume.path().join("big")) == w.read("old/big"), "the old file was touched");
    w.sh(&format!("mount -o remount,size=64M {path}"));
    w.haul(&words).ends(0);
    assert_same(&w.path("src"), volume.path(), SAME);
    assert_eq!(entries(volume.path()), ["big", "many"]);
}

#[test]
fn a_read_only_disk_there_is_reported_only_once() {
    let w = World::new("src: big=9M f1=100");
    let (volume, path) = small_disk();
    w.sh(&format!("echo old > {path}/f1 && mount -o remount,ro {path}"));
    haul_test::tree::spread(&w.path("src"), 4, 50, 100).expect("made");
    let err = w.says(11, &format!("cp src/ testhost:{path}"), &["ead-only"]);
    assert!(err.lines().count() < 12, "{err}");
    assert_eq!(entries(volume.path()), ["f1"]);
    // Nothing is there to be removed.
    w.haul("jobs clean").ends(0).out_has("removed").never_says("left:");
    w.haul("jobs clean").ends(0).out_has("no jobs");
}
