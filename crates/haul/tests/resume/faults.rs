//! Stores that fail in the middle: the file fails alone, the old one stays, the rest is copied.

use haul_test::compare::What;
use haul_test::slowfs::{Fault, FaultKind};

use crate::support::{COPY, World};

/// Files small and large that fail, and others that do not.
fn world() -> World {
    World::new("src: bad-large=600K bad-small=50K good-large=500K good-small=4K d/good=2K back/dst: bad-large=300K bad-small=20K")
}

#[track_caller]
fn assert_old_stay(w: &World) {
    assert_eq!((w.meta("back/dst/bad-large").len(), w.meta("back/dst/bad-small").len()), (300 << 10, 20 << 10));
    w.assert_clean("back/dst");
}

#[test]
fn a_read_error_in_the_middle_of_a_source_file() {
    let w = world();
    let mounted = w.mount("src", &[Fault::always("bad-", FaultKind::ReadError { after: 40_000 })]);
    let command = format!("{COPY} {}/ back/dst", mounted.path().display());
    let ended = w.haul(&command).ends(23).says("bad-large").says("bad-small").says("Input/output error");
    assert_eq!(ended.number("failed"), 2, "{ended}");
    mounted.faults().clear();
    assert_old_stay(&w);
    for name in ["good-large", "good-small", "d/good"] {
        assert!(w.read(format!("back/dst/{name}")) == w.read(format!("src/{name}")), "{name}");
    }
    w.haul(&command).ends(0);
    drop(mounted);
    w.assert_done("back/dst", What::USUAL, "after the medium was well again");
}

#[test]
fn an_error_at_close() {
    let w = world();
    let mounted = w.mount("back", &["bad-", ".haul-"].map(|name| Fault::always(name, FaultKind::CloseError { errno: libc::EIO })));
    let command = format!("{COPY} src/ {}/dst", mounted.path().display());
    let ended = w.haul(&command).ends(23);
    assert!(ended.number("failed") >= 2, "{ended}");
    mounted.faults().clear();
    assert_old_stay(&w);
    w.haul(&command).ends(0);
    drop(mounted);
    w.assert_done("back/dst", What::USUAL, "after close worked");
}

/// NFS reports a quota only at close. It is the run's failure, not a file's.
#[test]
fn a_quota_at_close() {
    let w = world();
    let mounted = w.mount("back", &[Fault::always(".haul-", FaultKind::CloseError { errno: libc::EDQUOT })]);
    let command = format!("{COPY} src/ {}/dst", mounted.path().display());
    w.haul(&command).ends(11).says("free space in the quota").says("run the same command again");
    assert_eq!(w.meta("back/dst/bad-large").len(), 300 << 10);
    mounted.faults().clear();
    w.haul(&command).ends(0);
    drop(mounted);
    w.assert_done("back/dst", What::USUAL, "with room");
}

#[test]
fn a_stale_handle_is_tried_again() {
    let w = world();
    // The kernel itself tries twice.
    let stale = |name: &str| Fault { name: name.into(), kind: FaultKind::OpenStale, times: 2 };
    let mounted = w.mount("src", &["bad-large", "bad-small"].map(stale));
    let ended = w.haul(&format!("{COPY} {}/ back/dst", mounted.path().display())).ends(0);
    assert!(ended.number("retries") >= 2, "{ended}");
    drop(mounted);
    w.assert_done("back/dst", What::USUAL, "after stale handles");
}
