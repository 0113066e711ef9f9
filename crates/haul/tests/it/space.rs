//! No room: what landed stays, the error says what is missing, and the same command goes on.

use haul_test::compare::What;
use haul_test::volume::Volume;

use crate::support::{Printed, World};

fn grow(w: &World, volume: &Volume, size: &str) {
    w.sh(&format!("mount -o remount,size={size} {}", volume.path().display()));
}

#[test]
fn what_landed_on_a_full_disk_is_kept_and_what_it_refused_is_not_counted() {
    let w = World::new("src: big=24M");
    let volume = Volume::tmpfs(8 << 20).unwrap();
    let dst = volume.path().join("dst");
    let ran = w.haul("cp --json src/").arg(&dst).ends(11);
    let bytes = ran.number("bytes");
    assert!(bytes > 7 << 20 && bytes <= 8 << 20 && !w.has(dst.join("big")), "{ran}");
    let ran = ran.err_has("free").says(&format!("{:.2} MiB remain, ", ((24 << 20) - bytes) as f64 / f64::from(1 << 20)));
    grow(&w, &volume, "32m");
    assert_eq!(w.haul("cp --json src/").arg(&dst).ends(0).number("resumed_bytes"), bytes, "{ran}");
    w.assert_same("src", &dst, What::USUAL);
}

/// Each worker is inside its first chunk when the disk is full.
#[test]
fn a_full_disk_keeps_what_every_worker_has_written() {
    let w = World::new("src: a=4M b=4M c=4M d=4M");
    let volume = Volume::tmpfs(10 << 20).unwrap();
    let dst = volume.path().join("dst");
    let first = w.haul("cp --json -j 4 src/").arg(&dst).ends(11);
    grow(&w, &volume, "32m");
    let second = w.haul("cp --json -j 4 src/").arg(&dst).ends(0);
    assert!(first.number("bytes") <= 10 << 20 && second.number("bytes") <= 8 << 20, "{first}\n{second}");
    assert_eq!(first.number("bytes") + second.number("bytes"), 16 << 20, "{first}\n{second}");
    w.assert_same("src", &dst, What::USUAL);
}

#[test]
fn a_destination_that_takes_no_file_has_got_no_byte() {
    let w = World::new("src: f=2K");
    let volume = Volume::tmpfs(1 << 20).unwrap();
    w.sh(&format!("mount -o remount,ro {}", volume.path().display()));
    assert_eq!(w.haul("cp --json src/f").arg(volume.path()).ends(11).number("bytes"), 0);
}

#[test]
fn a_full_disk_among_small_files() {
    let w = World::new("");
    haul_test::tree::flat(&w.path("src"), 600, 4096).unwrap();
    let volume = Volume::tmpfs(1 << 20).unwrap();
    let dst = volume.path().join("dst");
    let ran = w.haul("cp src/").arg(&dst).ends(11);
    assert_eq!(ran.err.matches("No space left").count(), 1, "one message: {}", ran.err);
    let landed = w.entries(&dst).len();
    assert!(landed > 100, "{landed}");
    grow(&w, &volume, "8m");
    let ran = w.haul("cp src/").arg(&dst).succeeds();
    assert!(ran.summary("Created").is_some_and(|made| made.starts_with(&(600 - landed).to_string()) || landed > 0), "{}", ran.out);
    w.assert_same("src", &dst, What::USUAL);
}

#[test]
fn an_old_file_survives_a_full_disk() {
    let w = World::new("src: a=6M");
    let volume = Volume::tmpfs(8 << 20).unwrap();
    w.write(volume.path().join("a"), vec![7; 4 << 20]);
    w.haul("cp src/a").arg(volume.path()).ends(11);
    assert_eq!(w.read(volume.path().join("a")), vec![7; 4 << 20]);
}

#[test]
fn no_more_inodes() {
    let w = World::new("");
    haul_test::tree::flat(&w.path("src"), 50, 10).unwrap();
    let volume = Volume::few_inodes(1 << 20, 20).unwrap();
    w.haul("cp src/").arg(volume.path().join("dst")).ends(11);
}

#[test]
#[ignore = "full"]
fn a_quota_that_is_used_up() {
    let w = World::new("src: big=32M small=1K");
    let volume = Volume::btrfs_with_quota(200 << 20, 4 << 20).unwrap();
    w.haul("cp src/").arg(volume.path()).ends(11).err_has("uota");
    assert!(!volume.path().join("big").exists());
}

#[test]
fn files_that_are_only_compared_need_no_room() {
    let w = World::new("src: a=6M");
    let volume = Volume::tmpfs(8 << 20).unwrap();
    w.haul("cp src/a").arg(volume.path()).succeeds();
    let ran = w.haul("cp -c src/a").arg(volume.path()).succeeds();
    assert_eq!(ran.err, "");
}
