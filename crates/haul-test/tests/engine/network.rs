//! Stores with a round trip per call: what the engine asks of them is counted.

use std::sync::Arc;
use std::time::Duration;

use haul_core::entry::MetaMask;
use haul_core::event::Action;
use haul_core::report::Ending;
use haul_core::spec::Deletion;
use haul_core::tune::{Fixed, Limits};
use haul_core::{ErrorKind, Remedy};
use haul_local::{Local, Options};
use haul_test::fault::{Fault, Op, Rule, What};
use haul_test::memory::Memory;

use crate::support::{Run, content, copying, go, job};

/// What a store behind SFTP or a REST interface can do.
fn remote() -> Memory {
    Memory::new().with(|caps| {
        caps.remote = true;
        caps.attributes.lists = MetaMask::BASIC.with(MetaMask::MTIME).with(MetaMask::MODE);
        caps.attributes.sets = MetaMask::MTIME;
        caps.attributes.mtime_resolution = Duration::from_secs(1);
        caps.hard_links = false;
        caps.direct_create = false;
    })
}

fn slow(store: &Memory) -> Fault {
    let trip = Duration::from_millis(5);
    Fault::slow(
        Arc::new(store.again()),
        &[(Op::List, trip), (Op::StatMany, trip), (Op::GetBundle, trip), (Op::PutBundle, trip), (Op::MakeDirs, trip)],
    )
}

#[test]
fn a_thousand_small_files_are_a_few_calls() {
    let source = Memory::new();
    for i in 0..1000 {
        let path = format!("d{}/{i}", i % 4);
        source.put(&path, content(&path, 0, 300));
    }
    let target = remote();
    let to = slow(&target);
    let mut copy = job(Arc::new(source.again()), Arc::new(to.clone()));
    copy.workers = Some(4);
    let (report, _) = go(copy);
    assert_eq!((report.made.files, report.failed), (1000, 0));
    assert_eq!(to.count(Op::PutBundle).names, 1000);
    // The first bundles have one file each, until the cost of a file is known.
    assert!(to.count(Op::PutBundle).calls <= 300, "{:?}", to.count(Op::PutBundle));
    assert_eq!((to.count(Op::StatMany).calls, to.count(Op::Create).calls), (0, 0));
    assert_eq!(to.count(Op::List).calls, 1, "nothing is listed below what is new");
    assert_eq!(source.paths(), target.paths());
}

#[test]
fn an_unchanged_tree_is_listed_a_directory_at_a_time_on_both_sides() {
    let (source, target) = (remote(), remote());
    for i in 0..1000 {
        source.put(format!("d{}/e/{i}", i % 10), b"x");
    }
    go(copying(&source, &target));
    let (from, to) = (Fault::new(source.again()), Fault::new(target.again()));
    let (report, _) = go(job(Arc::new(from.clone()), Arc::new(to.clone())));
    assert_eq!((report.kept.files, report.made.total(), report.failed), (1000, 0, 0), "{report:?}");
    assert_eq!(from.count(Op::List).calls, 21);
    assert_eq!(to.count(Op::List).calls, 22, "once for whether it is empty");
    for store in [&from, &to] {
        assert_eq!(store.count(Op::StatMany).calls, 0);
        assert!(store.count(Op::Stat).calls <= 1, "{:?}", store.count(Op::Stat));
    }
}

#[test]
fn reference_trees_are_looked_up_in_lots() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = |name: &str| place.path().join(name);
    for path in ["source/d", "reference/d", "target"] {
        std::fs::create_dir_all(dir(path)).expect("made");
    }
    for i in 0..300 {
        let (from, old) = (dir(&format!("source/d/{i}")), dir(&format!("reference/d/{i}")));
        std::fs::write(&from, content("d", 0, 300)).expect("written");
        std::fs::copy(&from, &old).expect("copied");
        let time = from.metadata().and_then(|meta| meta.modified()).expect("a time");
        std::fs::File::options().append(true).open(&old).and_then(|file| file.set_modified(time)).expect("set");
    }
    let open = |name: &str| Arc::new(Local::open(&dir(name), Options::default()).expect("a directory"));
    let known = Fault::slow(open("reference"), &[(Op::StatMany, Duration::from_millis(5))]);
    let target = Fault::slow(open("target"), &[]);
    let mut copy = job(open("source"), Arc::new(target.clone()));
    copy.link_dest.push(Arc::new(known.clone()));
    let (report, _) = go(copy);
    assert_eq!((report.hard_links, report.failed, target.count(Op::Take).calls), (300, 0, 300), "{report:?}");
    assert!(known.count(Op::StatMany).calls < 100, "{:?}", known.count(Op::StatMany));
}

#[test]
fn listings_that_say_only_names_are_looked_up_in_lots() {
    let bare = || Memory::new().with(|caps| caps.attributes.lists = MetaMask::NONE);
    let (source, target) = (bare(), bare());
    for i in 0..1000 {
        source.put(format!("d/{i}"), b"x");
    }
    let from = Fault::slow(Arc::new(source.again()), &[(Op::StatMany, Duration::from_millis(5))]);
    let (report, _) = go(job(Arc::new(from.clone()), Arc::new(target.again())));
    assert_eq!(report.made.files, 1000);
    assert_eq!(from.count(Op::StatMany).names, 1001);
    // How many names wait when a worker comes depends on what else the machine does; one a call would be 1001.
    assert!(from.count(Op::StatMany).calls <= 500, "{:?}", from.count(Op::StatMany));
}

/// A second listing of a directory is an error, as far as the first call for the root goes twice at the destination.
#[test]
fn no_directory_of_the_source_is_listed_twice() {
    let source = remote();
    for i in 0..300 {
        source.put(format!("d{}/e{}/{i}", i % 10, i % 3), b"x");
    }
    source.put_dir("empty/inner");
    let from = Fault::new(source.again());
    for dir in source.paths().iter().filter(|path| path.ends_with(b"/")) {
        from.add(Rule::new(Op::List, What::Fail(ErrorKind::Other, Remedy::None)).on(&dir[..dir.len() - 1]).nth(2).always());
    }
    for delete in [false, true] {
        let target = remote();
        let mut sync = job(Arc::new(from.clone()), Arc::new(target.again()));
        sync.deletion = delete.then(Deletion::default);
        // Rules count over both runs: the second run needs its own.
        if delete {
            from.clear();
        }
        let (report, _) = go(sync);
        assert_eq!(report.failed, 0, "{report:?}");
    }
    assert_eq!(from.count(Op::List).calls, 2 * (1 + 10 + 30 + 2), "both runs, every directory once");
}

#[test]
fn a_listing_that_breaks_off_is_begun_again_and_gives_no_name_twice() {
    let source = remote();
    for i in 0..700 {
        source.put(format!("d/{i}"), b"x");
    }
    let from = Fault::new(source.again());
    // All names came, and then the connection was lost.
    from.add(Rule::new(Op::List, What::FailAfter(ErrorKind::Broken, Remedy::Reconnect)).on("d").times(2));
    let target = remote();
    let (report, _) = go(job(Arc::new(from.clone()), Arc::new(target.again())));
    assert_eq!((report.found.files, report.made.files, report.failed), (700, 700, 0), "{report:?}");
    assert_eq!(source.paths(), target.paths());
    assert_eq!(from.count(Op::List).calls, 1 + 3);
}

#[test]
fn objects_arrive_and_are_recognised_although_times_are_coarse() {
    let source = Memory::new();
    for i in 0..50 {
        let path = format!("d{}/{i}", i % 5);
        source.put(&path, content(&path, 0, i * 20_000));
    }
    let target = Memory::objects();
    let copy = || copying(&source, &target);
    let (report, _) = go(copy());
    assert_eq!((report.made.files, report.failed), (50, 0), "{report:?}");
    for i in 0..50 {
        let path = format!("d{}/{i}", i % 5);
        assert_eq!(target.get(&path), source.get(&path), "{path}");
    }
    assert_eq!(target.sessions(), 0);
    let (report, diary) = go(copy());
    assert_eq!((report.kept.files, report.made.files), (50, 0), "{:?}", diary.of(Action::Replace));
}

#[test]
fn a_source_that_reads_only_from_the_start_is_read_in_one_piece() {
    let source = Memory::new().with(|caps| caps.read_ranges = false);
    source.put("big", content("big", 0, 900_000));
    let target = Memory::new();
    let (report, _) = go(copying(&source, &target));
    assert_eq!(report.failed, 0, "{report:?}");
    assert_eq!(source.get("big"), target.get("big"));
}

#[test]
fn a_destination_that_writes_in_order_gets_its_chunks_in_order() {
    let source = Memory::new();
    source.put("big", content("big", 0, 900_000));
    let target = Memory::new().with(|caps| caps.write = haul_core::store::WriteStyle::InOrder);
    let run = Run { tuner: Some(Box::new(Fixed(Limits { workers: 8 }))), ..Run::default() };
    let (report, _) = run.go(copying(&source, &target));
    assert_eq!((report.failed, report.ending), (0, Ending::Complete), "{report:?}");
    assert_eq!(source.get("big"), target.get("big"));
}
