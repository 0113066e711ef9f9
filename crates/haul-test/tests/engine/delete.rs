//! `--delete`: what goes, what stays, and when nothing may go at all.

use std::sync::Arc;
use std::time::Duration;

use haul_core::event::Action;
use haul_core::filter::Filter;
use haul_core::job::Job;
use haul_core::report::Ending;
use haul_core::spec::{Deletion, MaxDelete};
use haul_core::{ErrorKind, Remedy};
use haul_test::fault::{Fault, Op, Rule, What};
use haul_test::memory::Memory;

use crate::support::{Run, assert_same, copying, go, job, name, put_hard_link};

fn pair() -> (Memory, Memory) {
    let (source, target) = (Memory::new(), Memory::new());
    for i in 0..20 {
        source.put(format!("d/{i}"), b"x");
    }
    go(copying(&source, &target));
    (source, target)
}

fn sync(source: &Memory, target: &Memory) -> Job {
    let mut sync = copying(source, target);
    sync.deletion = Some(Deletion::default());
    sync
}

fn at_most(most: MaxDelete) -> Option<Deletion> {
    Some(Deletion { most: Some(most), ..Deletion::default() })
}

fn filter(patterns: &[&str]) -> Filter {
    let mut filter = Filter::default();
    for pattern in patterns {
        filter.exclude(pattern.as_bytes()).unwrap();
    }
    filter
}

#[test]
fn max_delete_counts_what_is_below_and_is_all_or_nothing() {
    for (most, goes) in [(4, false), (5, true), (0, false)] {
        let (source, target) = pair();
        for path in ["gone/a", "gone/b/c", "x"] {
            target.put(path, b"y");
        }
        let before = target.paths();
        let mut sync = sync(&source, &target);
        sync.deletion = at_most(MaxDelete::Count(most));
        let (report, _) = go(sync);
        if goes {
            assert_eq!(report.deleted.total(), 5);
            assert_same(&source, &target);
        } else {
            assert_eq!((report.ending, report.deleted.total()), (Ending::TooManyDeletes, 0), "{most}");
            assert_eq!(target.paths(), before);
        }
    }
}

#[test]
fn max_delete_in_percent_is_of_what_the_destination_has() {
    // 21 names are on both sides (d and the 20 in it), 3 are extra: 3 of 24 are 12.5 %.
    for (percent, goes) in [(12, false), (13, true)] {
        let (source, target) = pair();
        for i in 0..3 {
            target.put(format!("x{i}"), b"y");
        }
        let mut sync = sync(&source, &target);
        sync.deletion = at_most(MaxDelete::Percent(percent));
        let (report, _) = go(sync);
        assert_eq!(report.deleted.total(), if goes { 3 } else { 0 }, "{percent}");
    }
}

#[test]
fn a_listing_that_fails_while_names_are_counted_stops_the_deletes() {
    let (source, target) = pair();
    target.put("gone/deep/a", b"y");
    target.put("x", b"y");
    let fault = Fault::new(target.again());
    fault.add(Rule::new(Op::List, What::Fail(ErrorKind::Denied, Remedy::None)).on("gone/deep"));
    let mut sync = job(Arc::new(source.again()), Arc::new(fault));
    sync.deletion = at_most(MaxDelete::Count(100));
    let (report, _) = go(sync);
    assert!(report.failed > 0 && report.deletes_skipped.is_some(), "{report:?}");
    assert!(target.get("x").is_some() && target.get("gone/deep/a").is_some());
}

#[test]
fn excluded_names_and_the_directories_above_them_stay() {
    let (source, target) = pair();
    for path in ["gone/keep.log", "gone/b/c", "gone/b/e/keep.log", "gone/f/g", "d/keep.log", "x"] {
        target.put(path, b"y");
    }
    for dry in [true, false] {
        let mut sync = sync(&source, &target);
        sync.filter = filter(&["*.log"]);
        sync.dry = dry;
        let (report, diary) = go(sync);
        assert_eq!(diary.of(Action::Delete), ["gone/b/c", "gone/f", "gone/f/g", "x"], "dry {dry}");
        assert_eq!(report.deleted.total(), 4);
    }
    assert!(["gone/keep.log", "gone/b/e/keep.log", "d/keep.log"].iter().all(|path| target.get(path).is_some()));
    let mut sync = sync(&source, &target);
    (sync.filter, sync.deletion) = (filter(&["*.log"]), Some(Deletion { excluded: true, ..Deletion::default() }));
    go(sync);
    assert_same(&source, &target);
}

#[test]
fn protected_names_do_not_count_for_max_delete() {
    let (source, target) = pair();
    target.put("gone/keep.log", b"y");
    target.put("gone/a", b"y");
    let mut sync = sync(&source, &target);
    (sync.filter, sync.deletion) = (filter(&["*.log"]), at_most(MaxDelete::Count(1)));
    let (report, _) = go(sync);
    assert_eq!((report.deleted.total(), report.ending), (1, Ending::Complete), "{report:?}");
}

#[test]
fn a_destination_that_folds_names_pairs_them_itself() {
    for (ours, theirs) in [("Readme", "README"), ("\u{c9}t\u{e9}", "\u{c9}T\u{e9}"), ("dir/A", "dir/a")] {
        let source = Memory::new();
        source.put(ours, b"same");
        let target = Memory::new().with(|caps| caps.names.folds_case = true);
        go(copying(&source, &target));
        source.put("new", b"n");
        // The destination shows another spelling of a name that it has.
        let shown = Memory::new().with(|caps| caps.names.folds_case = true);
        shown.put(theirs, b"same");
        shown.put("EXTRA", b"goes");
        shown.put_time(theirs, source.entry(ours).unwrap().mtime);
        let mut sync = copying(&source, &shown);
        sync.deletion = Some(Deletion::default());
        let (report, diary) = go(sync);
        assert_eq!(report.failed, 0, "{ours}: {report:?}");
        assert_eq!(diary.of(Action::Delete), ["EXTRA"], "{ours}");
        assert_eq!(diary.of(Action::Create), ["new"], "{ours}");
        assert_eq!(shown.get(theirs).as_deref(), Some(&b"same"[..]));
    }
}

#[test]
fn many_extras_go_in_batches() {
    let (source, target) = pair();
    for i in 0..3000 {
        target.put(format!("d/extra{i}"), b"");
        target.put(format!("gone/{}/{i}", i % 10), b"");
    }
    let target = target.again();
    let (report, _) = go(sync(&source, &target));
    assert_eq!(report.deleted.total(), 6011);
    assert_same(&source, &target);
    let watched = Fault::new(target.again());
    for i in 0..1000 {
        target.put(format!("d/extra{i}"), b"");
    }
    let mut sync = job(Arc::new(source.again()), Arc::new(watched.clone()));
    sync.deletion = Some(Deletion::default());
    go(sync);
    assert!(watched.count(Op::Remove).calls <= 5, "{:?}", watched.count(Op::Remove));
}

#[test]
fn names_to_delete_past_memory_wait_on_disk() {
    let (source, target) = pair();
    // Some 60,000 records of more than 100 bytes: three times what is kept in memory.
    for i in 0..60_000 {
        target.put(format!("d/{}{i}", "long-name-".repeat(6)), b"");
    }
    let (report, _) = go(sync(&source, &target));
    assert_eq!(report.deleted.files, 60_000);
    assert_same(&source, &target);
}

#[test]
fn nothing_is_deleted_after_a_failure_of_any_kind() {
    let denied = || What::Fail(ErrorKind::Denied, Remedy::None);
    let faults = [
        (true, Rule::new(Op::List, denied()).on("d")),
        (true, Rule::new(Op::List, What::StopShort).on("d")),
        (true, Rule::new(Op::ListEntry, denied()).on("d/7")),
        (false, Rule::new(Op::List, denied()).on("d")),
        (false, Rule::new(Op::List, What::StopShort).on("d")),
        (false, Rule::new(Op::ListEntry, denied()).on("d/7")),
        (true, Rule::new(Op::GetBundle, denied()).on("d/new")),
        (false, Rule::new(Op::PutBundle, denied()).on("d/new")),
        (false, Rule::new(Op::MakeDirs, denied()).on("fresh")),
        (true, Rule::new(Op::List, denied()).on("fresh")),
    ];
    for (at_source, rule) in faults {
        let (source, target) = pair();
        for path in ["d/new", "fresh/a"] {
            source.put(path, b"new");
        }
        for path in ["d/extra", "x", "gone/a"] {
            target.put(path, b"y");
        }
        let (from, to) = (Fault::new(source.again()), Fault::new(target.again()));
        let words = format!("{rule:?}");
        if at_source {
            from.add(rule)
        } else {
            to.add(rule)
        }
        let mut sync = job(Arc::new(from), Arc::new(to));
        sync.deletion = Some(Deletion::default());
        let (report, _) = go(sync);
        assert!(report.failed >= 1, "{words}: {report:?}");
        assert_eq!(report.deleted.total(), 0, "{words}");
        assert!(report.deletes_skipped.is_some(), "{words}");
        assert!(["d/extra", "x", "gone/a"].iter().all(|path| target.get(path).is_some()), "{words}");
        // The same again without the fault puts everything right.
        go(self::sync(&source, &target));
        assert_same(&source, &target);
    }
}

#[test]
fn a_vanished_source_file_does_not_block_deletes() {
    let (source, target) = pair();
    source.put("d/new", b"n");
    target.put("x", b"y");
    let from = Fault::new(source.again());
    from.add(Rule::new(Op::GetBundle, What::Vanish).on("d/new"));
    let mut sync = job(Arc::new(from), Arc::new(target.again()));
    sync.deletion = Some(Deletion::default());
    let (report, _) = go(sync);
    assert_eq!((report.vanished, report.failed, report.deleted.files), (1, 0, 1), "{report:?}");
}

#[test]
fn a_name_that_is_another_file_now_is_not_removed() {
    let (source, target) = pair();
    target.put("x", b"old");
    target.put("y", b"old");
    let to = Fault::new(target.again());
    // While the removal waits somebody puts another file in the place of one of the two.
    to.add(Rule::new(Op::Remove, What::Delay(Duration::from_millis(300))));
    let mut sync = job(Arc::new(source.again()), Arc::new(to.clone()));
    sync.deletion = Some(Deletion::default());
    let other = target.again();
    let swap = std::thread::spawn(move || {
        while to.count(Op::Remove).calls == 0 {
            std::thread::yield_now();
        }
        other.put("new", b"precious");
        haul_core::store::Store::rename(&other, &name("new"), &name("x"), true).unwrap();
    });
    let (report, _) = Run::default().go(sync);
    swap.join().unwrap();
    assert_eq!(report.failed_kinds, [ErrorKind::Changed], "{report:?}");
    assert_eq!(target.get("x").as_deref(), Some(&b"precious"[..]));
    assert!(target.get("y").is_none());
}

#[test]
fn deleting_one_name_of_a_file_takes_only_the_name() {
    let (source, target) = pair();
    put_hard_link(&target, "d/other-name", "d/3");
    let (report, _) = go(sync(&source, &target));
    assert_eq!(report.deleted.files, 1);
    assert_same(&source, &target);
}

#[test]
fn names_of_another_source_are_no_extras() {
    let (one, two, target) = (Memory::new(), Memory::new(), Memory::new());
    one.put("shared/a", b"1");
    two.put("shared/b", b"2");
    two.put("only", b"3");
    target.put("shared/extra", b"x");
    for _ in 0..2 {
        let mut sync = sync(&one, &target);
        sync.roots.push(haul_core::job::Root::new(Arc::new(two.again()), haul_core::job::Pick::Contents));
        let (report, _) = go(sync);
        assert_eq!(report.failed, 0);
        assert_eq!(target.paths(), [&b"only"[..], b"shared/", b"shared/a", b"shared/b"]);
    }
}
