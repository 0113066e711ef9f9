//! The disk of the host: paths that are not there, not the user's, full, or read-only.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use haul_test::account::Account;
use haul_test::compare::{What, assert_same};
use haul_test::volume::Volume;

use crate::support::World;

const SAME: What = What { mtime: Some(1_000_000_000), ..What::USUAL };

fn account() -> Account {
    Account::new("/bin/sh").expect("an account can be made: useradd and root")
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(path).expect("it is there").map(|e| e.expect("a name").file_name()).collect();
    names.sort();
    names.into_iter().map(|name| name.to_string_lossy().into_owned()).filter(|name| name != "lost+found").collect()
}

#[test]
fn a_path_that_is_not_there_is_named() {
    let w = World::new("");
    w.tree("src: a=5");
    for (code, words, telling) in [
        (23, "cp testhost:~/absent dst", &["absent", "no such file"][..]),
        (23, "cp testhost:~/absent/ dst", &["absent"]),
        (23, "ls testhost:~/absent", &["absent"]),
        (23, "cat testhost:~/absent", &["absent"]),
        (1, "cp src testhost:~/absent/deeper/", &["--mkpath"]),
        (1, "cp src/ testhost:~/src/a/", &["src/a"]),
        (1, "cp testhost:~/src/a/below dst", &["src/a", "not a directory"]),
    ] {
        w.says(code, words, telling);
    }
    assert!(!w.path("absent").exists() && !w.path("dst").exists());
}

#[test]
fn a_directory_that_is_not_the_users_takes_nothing() {
    let w = World::new("");
    let a = account();
    w.tree("src: a=5 big=6M d/b=3");
    let closed = a.home().join("closed");
    fs::create_dir(&closed).expect("made");
    fs::write(closed.join("a"), "old").expect("written");
    let there = format!("{}@testhost:{}", a.name, closed.display());
    let err = w.says(23, &format!("cp src/ {there}"), &["Permission denied", "a:", "big:", "d:"]);
    assert!(!err.contains("panicked"), "{err}");
    assert_eq!((names(&closed), fs::read(closed.join("a")).expect("it is there")), (vec!["a".into()], b"old".to_vec()));
    w.says(23, &format!("cp src/ {there}/new/deeper --mkpath"), &["Permission denied"]);
    w.says(23, &format!("rm {there}/a"), &["Permission denied"]);
    w.says(23, &format!("mv src {there}/"), &["Permission denied"]);
    assert!(w.path("src/d/b").exists(), "what did not land stays");
}

#[test]
fn what_may_not_be_read_there_is_named_and_all_else_comes() {
    let w = World::new("");
    let a = account();
    w.tree("src: a=5 d/b=3");
    let here = |name: &str| a.home().join(name);
    w.tool("cp", &["-r", "src", &here("src").display().to_string()]);
    fs::write(here("src/secret"), "no").expect("written");
    fs::create_dir(here("src/shut")).expect("made");
    for (name, mode) in [("src/secret", 0o600), ("src/shut", 0o700)] {
        fs::set_permissions(here(name), fs::Permissions::from_mode(mode)).expect("set");
    }
    let words = format!("cp {}@testhost:{}/ back", a.name, here("src").display());
    w.says(23, &words, &["secret: ", "shut: ", "Permission denied"]);
    assert_eq!(names(&w.path("back")), ["a", "d", "shut"]);
    // Without its list nothing may be taken for gone: no delete after an error.
    w.tree("back: extra=1");
    w.says(23, &words.replace("cp ", "sync --delete "), &["shut: "]);
    assert!(w.path("back/extra").exists());
}

#[test]
fn a_full_disk_there_ends_the_run_and_the_next_goes_on() {
    let w = World::new("");
    let volume = Volume::tmpfs(12 << 20).expect("a file system can be mounted: root");
    w.tree("src: big=16M");
    haul_test::tree::spread(&w.path("src/many"), 4, 50, 20_000).expect("made");
    let there = format!("testhost:{}", volume.path().display());
    let words = format!("cp --chunk-size 1M src/ {there}/new");
    let (_, err) = w.ends(11, &words);
    assert!(err.contains("No space left"), "{err}");
    // No part of a file stands under its name.
    let big = volume.path().join("new/big");
    assert!(!big.exists(), "{:?}", big.metadata());
    w.tool("mount", &["-o", "remount,size=64M", &volume.path().display().to_string()]);
    w.ends(0, &words);
    assert_same(&w.path("src"), &volume.path().join("new"), SAME);
    assert_eq!(names(&volume.path().join("new")), ["big", "many"]);
}

#[test]
fn a_disk_without_room_for_names_ends_the_run() {
    let w = World::new("");
    let kind = haul_test::volume::Kind::Tmpfs { inodes: Some(40) };
    let volume = Volume::new(&kind, 64 << 20).expect("a file system can be mounted: root");
    haul_test::tree::spread(&w.path("src"), 4, 50, 100).expect("made");
    let (_, err) = w.ends(11, &format!("cp src/ testhost:{}/new", volume.path().display()));
    assert!(err.contains("No space left"), "{err}");
}

#[test]
fn an_old_file_outlives_a_disk_that_is_full() {
    let w = World::new("");
    let volume = Volume::tmpfs(12 << 20).expect("a file system can be mounted: root");
    w.tree("src: big=16M small=600K old: big=4M small=20K");
    for name in ["big", "small"] {
        fs::copy(w.path("old").join(name), volume.path().join(name)).expect("copied");
    }
    w.ends(11, &format!("cp src/ testhost:{}", volume.path().display()));
    let now = fs::read(volume.path().join("big")).expect("it is there");
    assert!(now == fs::read(w.path("old/big")).expect("it is there"), "{} bytes", now.len());
}

#[test]
fn a_read_only_disk_there_is_said_and_only_once() {
    let w = World::new("");
    let volume = Volume::tmpfs(12 << 20).expect("a file system can be mounted: root");
    let mount = volume.path().display().to_string();
    fs::write(volume.path().join("f1"), "old").expect("written");
    w.tool("mount", &["-o", "remount,ro", &mount]);
    haul_test::tree::spread(&w.path("src"), 4, 50, 100).expect("made");
    w.tree("src: big=9M f1=100");
    let ran = w.haul(&format!("cp src/ testhost:{mount}"));
    w.tool("mount", &["-o", "remount,rw", &mount]);
    let (out, err) = w.ended(11, "cp to a read-only file system", ran);
    assert!(err.contains("ead-only"), "{out}{err}");
    assert!(err.lines().count() < 12, "{err}");
    assert_eq!(names(volume.path()), ["f1"]);
}

#[test]
fn a_disk_that_fills_up_here_leaves_nothing_half() {
    let w = World::new("");
    let volume = Volume::tmpfs(12 << 20).expect("a file system can be mounted: root");
    w.tree("src: big=16M a=5");
    let (_, err) = w.ends(11, &format!("cp testhost:~/src/ {}/new", volume.path().display()));
    assert!(err.contains("No space left"), "{err}");
    assert!(!volume.path().join("new/big").exists());
    let listed = Command::new("df").arg(volume.path()).output().expect("df runs");
    assert!(listed.status.success());
}
