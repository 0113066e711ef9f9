//! Stores that fail in the middle: the file fails alone, the old one stands, the rest is copied.

use std::fs;

use haul_test::compare::What;
use haul_test::slowfs::{Fault, FaultKind, Options, SlowFs};

use crate::support::{CHUNK_WORDS, Place, number, staging};

fn mount(place: &Place, dir: &str) -> SlowFs {
    fs::create_dir_all(place.join(dir)).expect("made");
    SlowFs::mount(&place.join(dir), Options { threads: 8, ..Options::fast() }).expect("FUSE")
}

/// Files small and large that fail, and others that do not.
fn place() -> Place {
    let place = Place::new();
    place.tree("src: bad-large=600K bad-small=50K good-large=500K good-small=4K d/good=2K");
    place.tree("back/dst: bad-large=300K bad-small=20K");
    place
}

/// The old versions stand, all else is there, and nothing is left beside them.
fn assert_old_stand(place: &Place) {
    for (name, size) in [("bad-large", 300 << 10), ("bad-small", 20 << 10)] {
        let now = fs::read(place.join("back/dst").join(name)).expect("the old one");
        assert_eq!(now.len(), size, "{name}");
    }
    for name in ["good-large", "good-small", "d/good"] {
        assert!(fs::read(place.join("back/dst").join(name)).expect("copied") == fs::read(place.join("src").join(name)).expect("read"));
    }
    assert_eq!(staging(&place.join("back/dst")).len(), 0);
}

#[test]
fn a_read_error_in_the_middle_of_a_source_file() {
    let place = place();
    let mounted = mount(&place, "src");
    mounted.faults().add(Fault::always("bad-", FaultKind::ReadError { after: 40_000 }));
    let command = format!("cp --json --chunk-size {CHUNK_WORDS} {}/ back/dst", mounted.path().display());
    let ended = place.haul(&command).run().code(23).says("bad-large").says("bad-small").says("Input/output error");
    assert_eq!(number(&ended.finished(), "failed"), 2, "{ended}");
    mounted.faults().clear();
    assert_old_stand(&place);
    place.haul(&command).run().code(0);
    drop(mounted);
    place.assert_done("src", "back/dst", What::USUAL, "after the medium was well again");
}

#[test]
fn an_error_at_close() {
    let place = place();
    let mounted = mount(&place, "back");
    for name in ["bad-", ".haul-"] {
        mounted.faults().add(Fault::always(name, FaultKind::CloseError { errno: libc::EIO }));
    }
    let command = format!("cp --json --chunk-size {CHUNK_WORDS} src/ {}/dst", mounted.path().display());
    let ended = place.haul(&command).run().code(23);
    assert!(number(&ended.finished(), "failed") >= 2, "{ended}");
    mounted.faults().clear();
    assert_eq!(staging(&place.join("back/dst")).len(), 0, "{ended}");
    assert_eq!(fs::metadata(place.join("back/dst/bad-large")).expect("it is there").len(), 300 << 10);
    assert_eq!(fs::metadata(place.join("back/dst/bad-small")).expect("it is there").len(), 20 << 10);
    place.haul(&command).run().code(0);
    drop(mounted);
    place.assert_done("src", "back/dst", What::USUAL, "after close worked");
}

/// NFS tells of a quota only at close. It is the run's failure, not a file's.
#[test]
fn a_quota_at_close() {
    let place = place();
    let mounted = mount(&place, "back");
    mounted.faults().add(Fault::always(".haul-", FaultKind::CloseError { errno: libc::EDQUOT }));
    let command = format!("cp --json --chunk-size {CHUNK_WORDS} src/ {}/dst", mounted.path().display());
    place.haul(&command).run().code(11).says("free space in the quota").says("run the same command again");
    assert_eq!(fs::metadata(place.join("back/dst/bad-large")).expect("it is there").len(), 300 << 10);
    mounted.faults().clear();
    place.haul(&command).run().code(0);
    drop(mounted);
    place.assert_done("src", "back/dst", What::USUAL, "with room");
}

#[test]
fn a_full_disk_in_the_middle_keeps_what_landed() {
    let place = Place::new();
    place.tree("src: large=900K");
    let mounted = mount(&place, "back");
    mounted.faults().add(Fault::always("", FaultKind::NoSpace { after: 400_000 }));
    let command = format!("cp --json --chunk-size {CHUNK_WORDS} src/ {}/dst", mounted.path().display());
    place.haul(&command).run().code(11).says("free space and run the same command again");
    mounted.faults().clear();
    let again = place.haul(&command).run().code(0);
    assert!(number(&again.finished(), "resumed_bytes") >= 128 << 10, "{again}");
    drop(mounted);
    place.assert_done("src", "back/dst", What::USUAL, "with room");
}

#[test]
fn a_stale_handle_is_tried_again() {
    let place = place();
    let mounted = mount(&place, "src");
    // The kernel itself tries twice.
    for name in ["bad-large", "bad-small"] {
        mounted.faults().add(Fault { name: name.into(), kind: FaultKind::OpenStale, times: 2 });
    }
    let command = format!("cp --json --chunk-size {CHUNK_WORDS} {}/ back/dst", mounted.path().display());
    let ended = place.haul(&command).run().code(0);
    assert!(number(&ended.finished(), "retries") >= 2, "{ended}");
    drop(mounted);
    place.assert_done("src", "back/dst", What::USUAL, "after stale handles");
}
