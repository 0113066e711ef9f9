//! A disk of the host that takes no more, with haul there.

use haul_test::compare::{What, assert_same};
use haul_test::scratch::entries;
use haul_test::tree::spread;
use haul_test::volume::{Kind, Volume};

use crate::agent::support::World;

#[test]
fn a_disk_without_inodes_is_not_said_to_have_room() {
    let w = World::new("");
    spread(&w.path("src"), 4, 50, 100).expect("made");
    for (flags, inodes) in [("", 20), ("", 120), ("--no-direct", 120), ("-j 1", 120)] {
        let volume = Volume::new(&Kind::Tmpfs { inodes: Some(inodes) }, 20 << 20).expect("a file system can be mounted: root");
        let ended = w.haul(&format!("cp {flags} src/ testhost:{}", volume.path().display())).ends(11);
        let ended = ended.err_has("no inodes are left (df -i)").err_lacks("MiB free");
        assert!(ended.err.lines().count() < 12, "{flags} {inodes}: {ended}");
    }
}

#[test]
fn a_full_disk_ends_the_run_and_the_next_one_goes_on() {
    let w = World::new("src: big=16M old: big=4M");
    spread(&w.path("src/many"), 4, 50, 20_000).expect("made");
    let volume = Volume::tmpfs(12 << 20).expect("a file system can be mounted: root");
    let path = volume.path().display().to_string();
    w.sh(&format!("cp old/big {path}"));
    let words = format!("cp --chunk-size 1M src/ testhost:{path}");
    w.haul(&words).ends(11).err_has("No space left");
    assert!(std::fs::read(volume.path().join("big")).expect("it exists") == w.read("old/big"), "the old file was touched");
    w.sh(&format!("mount -o remount,size=64M {path}"));
    w.haul(&words).ends(0);
    assert_same(&w.path("src"), volume.path(), What::USUAL);
    assert_eq!(entries(volume.path()), ["big", "many"]);
}

/// Bytes that the host refused were under way: they are no data transferred, and are among those that remain.
#[test]
fn what_a_full_disk_of_the_host_refused_is_not_counted() {
    let w = World::new("src: big=20M");
    let volume = Volume::tmpfs(12 << 20).expect("a file system can be mounted: root");
    let path = volume.path().display().to_string();
    let words = format!("cp --json src/ testhost:{path}");
    let first = w.haul(&words).ends(11);
    let bytes = first.number("bytes");
    assert!(bytes <= 12 << 20, "{first}");
    let first = first.says(&format!("{:.2} MiB remain, ", ((20 << 20) - bytes) as f64 / f64::from(1 << 20)));
    w.sh(&format!("mount -o remount,size=64M {path}"));
    assert_eq!(w.haul(&words).ends(0).number("resumed_bytes"), bytes, "{first}");
    assert_same(&w.path("src"), volume.path(), What::USUAL);
}

#[test]
fn a_job_whose_disk_is_read_only_can_be_cleaned() {
    let w = World::new("src: big=9M");
    let volume = Volume::tmpfs(12 << 20).expect("a file system can be mounted: root");
    let path = volume.path().display().to_string();
    w.sh(&format!("mount -o remount,ro {path}"));
    w.haul(&format!("cp src/big testhost:{path}/")).ends(11).err_has("ead-only");
    w.haul("jobs clean").ends(0).out_has("removed").never_says("left:");
    w.haul("jobs clean").ends(0).out_has("no jobs");
}
