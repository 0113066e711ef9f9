//! A disk of the host that takes no more, with haul there.

use haul_test::compare::{What, assert_same};
use haul_test::tree::spread;
use haul_test::volume::Volume;

use crate::agent::support::World;

#[test]
fn a_disk_without_inodes_is_not_said_to_have_room() {
    let w = World::new("");
    spread(&w.path("src"), 4, 50, 100).expect("made");
    for (flags, inodes) in [("", 20), ("", 120), ("--no-direct", 120), ("-j 1", 120)] {
        let volume = Volume::few_inodes(20 << 20, inodes).expect("a file system can be mounted: root");
        let ended = w.haul(&format!("cp {flags} src/ testhost:{}", volume.path().display())).ends(11);
        let ended = ended.err_has("no inodes are left (df -i)").err_lacks("MiB free");
        assert!(ended.err.lines().count() < 12, "{flags} {inodes}: {ended}");
    }
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
