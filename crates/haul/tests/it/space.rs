//! No room: what landed stays, the error says what is missing, and the same command goes on.

use std::fs;

use haul_test::compare::{What, assert_same};
use haul_test::volume::{Kind, Volume};

use crate::support::World;

fn grow(volume: &Volume, size: &str) {
    let done = std::process::Command::new("mount").args(["-o", &format!("remount,size={size}")]).arg(volume.path()).status().unwrap();
    assert!(done.success());
}

#[test]
fn a_full_disk_in_the_middle_of_a_file() {
    let w = World::new();
    w.tree("src: big=24M");
    let volume = Volume::tmpfs(8 << 20).unwrap();
    let dst = volume.path().join("dst");
    let ran = w.haul("cp --chunk-size 1M src/").arg(&dst).ends(11);
    assert!(ran.stderr.contains(" remain, ") && ran.stderr.contains("free"), "{}", ran.stderr);
    assert!(!dst.join("big").exists(), "no part of a file under its name");
    let used =
        || fs::read_dir(&dst).unwrap().map(|e| std::os::unix::fs::MetadataExt::blocks(&e.unwrap().metadata().unwrap()) * 512).sum::<u64>();
    assert!(used() > 4 << 20, "what landed is kept: {}", used());
    grow(&volume, "32m");
    let ran = w.haul("cp --json --chunk-size 1M src/").arg(&dst).ends(0);
    let finished: serde_json::Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert!(finished["resumed_bytes"].as_u64().is_some_and(|bytes| bytes > 4 << 20), "{finished}");
    assert_same(&w.path("src"), &dst, What::USUAL);
}

#[test]
fn a_full_disk_among_small_files() {
    let w = World::new();
    haul_test::tree::flat(&w.path("src"), 600, 4096).unwrap();
    let volume = Volume::tmpfs(1 << 20).unwrap();
    let dst = volume.path().join("dst");
    let ran = w.haul("cp src/").arg(&dst).ends(11);
    assert_eq!(ran.stderr.matches("No space left").count(), 1, "one message: {}", ran.stderr);
    let landed = fs::read_dir(&dst).unwrap().count();
    assert!(landed > 100, "{landed}");
    grow(&volume, "8m");
    let ran = w.haul("cp src/").arg(&dst).succeeds();
    assert!(ran.summary("Created").is_some_and(|made| made.starts_with(&(600 - landed).to_string()) || landed > 0), "{}", ran.stdout);
    assert_same(&w.path("src"), &dst, What::USUAL);
}

#[test]
fn an_old_file_stands_when_the_disk_is_full() {
    let w = World::new();
    w.tree("src: a=6M");
    let volume = Volume::tmpfs(8 << 20).unwrap();
    fs::write(volume.path().join("a"), vec![7; 4 << 20]).unwrap();
    w.haul("cp src/a").arg(volume.path()).ends(11);
    assert_eq!(fs::read(volume.path().join("a")).unwrap(), vec![7; 4 << 20]);
}

#[test]
fn no_more_inodes() {
    let w = World::new();
    haul_test::tree::flat(&w.path("src"), 50, 10).unwrap();
    let volume = Volume::new(&Kind::Tmpfs { inodes: Some(20) }, 1 << 20).unwrap();
    w.haul("cp src/").arg(volume.path().join("dst")).ends(11);
}

#[test]
fn a_quota_that_is_used_up() {
    let w = World::new();
    w.tree("src: big=32M small=1K");
    let volume = Volume::new(&Kind::Btrfs { quota: Some(4 << 20) }, 200 << 20).unwrap();
    let ran = w.haul("cp src/").arg(volume.path()).ends(11);
    assert!(ran.stderr.contains("uota"), "{}", ran.stderr);
    assert!(!volume.path().join("big").exists());
}

#[test]
fn files_that_are_only_compared_need_no_room() {
    let w = World::new();
    w.tree("src: a=6M");
    let volume = Volume::tmpfs(8 << 20).unwrap();
    w.haul("cp src/a").arg(volume.path()).succeeds();
    let ran = w.haul("cp -c src/a").arg(volume.path()).succeeds();
    assert_eq!(ran.stderr, "");
}
