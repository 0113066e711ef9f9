//! The survey of a tree: every entry once, errors told, memory flat, and it stops when told.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use haul_bench::synthetic::Synthetic;
use haul_core::cancel::{Cancel, Stop};
use haul_core::entry::{Dir, Kind, MetaMask};
use haul_core::store::Store;
use haul_core::survey::{Descend, Survey};
use haul_core::{ErrorKind, Remedy};
use haul_test::fault::{Fault, Op, Rule, What};
use haul_test::memory::Memory;

use crate::support::bounded;

struct Seen {
    names: BTreeSet<Vec<u8>>,
    failures: Vec<(ErrorKind, Kind)>,
    ended: haul_core::Result<()>,
}

fn survey(store: &dyn Store, threads: usize, cancel: &Cancel, descend: impl Fn(&[u8]) -> Descend + Sync) -> Seen {
    let (names, failures) = (Mutex::new(BTreeSet::new()), Mutex::new(Vec::new()));
    let spill = std::env::temp_dir();
    let survey = Survey { store, threads, want: MetaMask::NONE, cancel, spill: &spill };
    let ended = survey.run(
        &Dir::root(),
        &|entry| {
            let path = entry.name.path();
            assert!(names.lock().unwrap().insert(path.clone()), "{path:?} twice");
            descend(&path)
        },
        &|e, kind| failures.lock().unwrap().push((e.kind(), kind)),
    );
    Seen { names: names.into_inner().unwrap(), failures: failures.into_inner().unwrap(), ended }
}

fn tree() -> Memory {
    let store = Memory::new();
    for i in 0..3000 {
        store.put(format!("d{}/e{}/{i}", i % 7, i % 3), b"x");
    }
    store
}

fn all(store: &Memory) -> BTreeSet<Vec<u8>> {
    store.paths().into_iter().map(|path| path.strip_suffix(b"/").map(<[u8]>::to_vec).unwrap_or(path)).collect()
}

#[test]
fn every_entry_is_visited_once() {
    for threads in [1, 2, 8] {
        for lists in [MetaMask::NONE, Memory::new().caps().attributes.lists] {
            let store = tree().with(|caps| caps.attributes.lists = lists);
            let seen = survey(&store, threads, &Cancel::default(), |_| Descend::Yes);
            assert!(seen.ended.is_ok() && seen.failures.is_empty());
            assert_eq!(seen.names, all(&store));
        }
    }
}

#[test]
fn directories_that_wait_are_spilled_and_come_back() {
    let count = AtomicU64::new(0);
    let (cancel, spill) = (Cancel::default(), std::env::temp_dir());
    let store = Synthetic::new(60_000, 2, 0);
    let survey = Survey { store: &store, threads: 4, want: MetaMask::NONE, cancel: &cancel, spill: &spill };
    let visit = |_: &haul_core::entry::Entry| {
        count.fetch_add(1, Ordering::Relaxed);
        Descend::Yes
    };
    survey.run(&Dir::root(), &visit, &|e, _| panic!("{e}")).unwrap();
    assert_eq!(count.into_inner(), 180_000);
}

#[test]
fn what_is_not_wanted_is_not_entered() {
    let store = tree();
    let seen = survey(&store, 4, &Cancel::default(), |path| if path == b"d3" { Descend::No } else { Descend::Yes });
    assert!(seen.names.contains(&b"d3"[..]) && !seen.names.iter().any(|name| name.starts_with(b"d3/")));
}

#[test]
fn errors_are_told_and_the_rest_is_visited() {
    let store = tree().with(|caps| caps.attributes.lists = MetaMask::NONE);
    let fault = Fault::new(store.again());
    let denied = || What::Fail(ErrorKind::Denied, Remedy::None);
    fault.add(Rule::new(Op::List, denied()).on("d1/e1"));
    fault.add(Rule::new(Op::ListEntry, denied()).on("d2/e2/2"));
    fault.add(Rule::new(Op::StatMany, denied()).on("d0/e0/0"));
    let seen = survey(&fault, 4, &Cancel::default(), |_| Descend::Yes);
    assert!(seen.ended.is_ok());
    assert_eq!(seen.failures.len(), 3, "{:?}", seen.failures);
    let expected = all(&store).into_iter().filter(|path| !path.starts_with(b"d1/e1/") && path != b"d2/e2/2" && path != b"d0/e0/0");
    assert_eq!(seen.names, expected.collect());
}

#[test]
fn it_stops_when_told() {
    let seen = bounded(Duration::from_secs(60), || {
        let (cancel, store) = (Cancel::default(), Synthetic::new(1_000_000, 1000, 0));
        let visited = AtomicU64::new(0);
        survey(&store, 4, &cancel, |_| {
            if visited.fetch_add(1, Ordering::Relaxed) == 5000 {
                cancel.set(Stop::Signal);
            }
            Descend::Yes
        })
    });
    assert_eq!(seen.ended.unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(seen.names.len() < 50_000);
}

#[test]
fn a_panic_of_the_visitor_comes_out_and_leaves_nobody_waiting() {
    let panicked = bounded(Duration::from_secs(60), || {
        let store = tree();
        std::panic::catch_unwind(|| {
            survey(&store, 4, &Cancel::default(), |path| {
                assert!(path != b"d4/e1/4", "made to panic");
                Descend::Yes
            })
            .ended
            .is_ok()
        })
    });
    assert!(panicked.is_err());
}
