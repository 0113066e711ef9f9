//! What several ranks make of a tree is what one makes of it.

use std::sync::Arc;
use std::time::Duration;

use haul_core::job::{Mode, Pick, Root};
use haul_core::report::Ending;
use haul_core::spec::{Deletion, MaxDelete};
use haul_core::store::Store;
use haul_core::{ErrorKind, Remedy};
use haul_test::fault::{Fault, Op, Rule, What};
use haul_test::memory::Memory;

use super::{counts, ranks, slow, slowly, tree};
use crate::support::{Run, assert_same, content, copying, go, job, put_hard_link};

#[test]
fn any_number_of_ranks_makes_the_same_tree_and_reports_the_same() {
    let source = tree();
    let (alone, _) = go(copying(&source, &Memory::new()));
    for n in [1, 2, 5, 8] {
        let target = Memory::new();
        let reports = ranks(n, &|_| (slowly(&source, &target), Run::workers(2)));
        assert_eq!(reports[0].ending, Ending::Complete, "{n} ranks: {:?}", reports[0]);
        assert_same(&source, &target);
        assert_eq!(counts(&reports[0]), counts(&alone), "{n} ranks");
        let others = reports[1..].iter().filter(|report| report.made.total() > 0).count();
        assert!(n == 1 || others > 0, "{n} ranks: {others} of them have helped");
        let each = &reports[0].ranks;
        assert_eq!(each.iter().map(|work| work.rank).collect::<Vec<_>>(), (0..if n > 1 { n } else { 0 }).collect::<Vec<_>>());
        let sums = (each.iter().map(|work| work.files).sum::<u64>(), each.iter().map(|work| work.bytes).sum::<u64>());
        assert!(n == 1 || sums == (alone.made.files, alone.bytes), "{n} ranks: {sums:?}");
        assert!(each.iter().all(|work| !work.node.is_empty()), "{each:?}");

        // Again: nothing is to do, and all say so.
        let reports = ranks(n, &|_| (slowly(&source, &target), Run::workers(2)));
        assert_eq!((reports[0].made.total(), reports[0].kept.files), (0, alone.made.files), "{n} ranks");
        assert_eq!(reports[0].kept.dirs, alone.found.dirs, "{n} ranks");
    }
}

#[test]
fn the_names_of_one_large_directory_are_shared() {
    let source = Memory::new();
    for i in 0..6000 {
        source.put(format!("d/{i}"), content("name", i, 50));
    }
    put_hard_link(&source, "d/link", "d/77");
    for n in [2, 5] {
        let target = Memory::new();
        target.put("d/old", b"x");
        let slow = |_| {
            let slow = Fault::new(source.again());
            slow.add(Rule::new(Op::GetBundle, What::Delay(Duration::from_millis(1))).always());
            let mut sync = job(Arc::new(slow), Arc::new(target.again()));
            sync.deletion = Some(Deletion::default());
            (sync, Run::workers(1))
        };
        let reports = ranks(n, &slow);
        assert_eq!((reports[0].made.files, reports[0].found.files, reports[0].deleted.files), (6001, 6001, 1), "{n} ranks");
        assert_same(&source, &target);
        let helped = reports[1..].iter().filter(|report| report.made.files > 0).count();
        assert_eq!(helped as u32, n - 1, "{n} ranks");
    }
}

#[test]
fn deletes_come_after_everything_has_landed_and_not_at_all_if_something_failed_anywhere() {
    let source = tree();
    for n in [2, 5] {
        let target = Memory::new();
        go(copying(&source, &target));
        for i in 0..12 {
            target.put(format!("d{i}/e3/extra/a/b"), b"x");
            target.put(format!("d{i}/e4/f2/g/extra"), b"x");
        }
        source.put(format!("d5/e5/f4/new{n}"), b"new");
        let sync = |source: Arc<dyn Store>, most: Option<u64>| {
            let mut sync = job(source, Arc::new(target.again()));
            sync.deletion = Some(Deletion { most: most.map(MaxDelete::Count), ..Deletion::default() });
            sync
        };
        let before = target.paths();
        let failing = || {
            let fault = Fault::new(source.again());
            fault.add(Rule::new(Op::List, What::Delay(Duration::from_millis(1))).always());
            fault.add(Rule::new(Op::List, What::Fail(ErrorKind::Io, Remedy::None)).on("d7/e5/f0/g").always());
            Arc::new(fault)
        };
        let reports = ranks(n, &|_| (sync(failing(), None), Run::workers(2)));
        assert_eq!((reports[0].failed, reports[0].deleted.total()), (1, 0), "{n} ranks: {:?}", reports[0]);
        assert!(reports[0].deletes_skipped.is_some());
        let after = target.paths();
        assert!(before.iter().all(|path| after.contains(path)), "nothing was deleted");

        let reports = ranks(n, &|_| (sync(slow(&source), Some(47)), Run::workers(2)));
        assert_eq!((reports[0].ending, reports[0].deleted.total()), (Ending::TooManyDeletes, 0), "{n} ranks");
        let reports = ranks(n, &|_| (sync(slow(&source), Some(48)), Run::workers(2)));
        assert_eq!((reports[0].ending, reports[0].deleted.total()), (Ending::Complete, 48), "{n} ranks: {:?}", reports[0]);
        assert_same(&source, &target);
    }
}

#[test]
fn names_of_one_file_meet_whoever_finds_them() {
    for n in [1, 2, 5] {
        let (source, target) = (tree(), Memory::new());
        for i in 0..12 {
            let leader = format!("d{i}/e5/f0/small");
            for j in 0..4 {
                put_hard_link(&source, &format!("d{}/e{j}/link{i}", (i + 5 * j) % 12), &leader);
            }
        }
        put_hard_link(&source, "d11/e1/f0/g/large", "large");
        let (alone, _) = go(copying(&source, &Memory::new()));
        let reports = ranks(n, &|_| (slowly(&source, &target), Run::workers(2)));
        assert_eq!((reports[0].hard_links, reports[0].failed), (49, 0), "{n} ranks: found {:?}", reports[0].found);
        assert_same(&source, &target);
        assert_eq!(counts(&reports[0]), counts(&alone), "{n} ranks");
        let reports = ranks(n, &|_| (slowly(&source, &target), Run::workers(2)));
        assert_eq!((reports[0].made.total(), reports[0].kept.files), (0, alone.made.files), "{n} ranks: {:?}", reports[0]);
    }
}

#[test]
fn a_check_of_many_ranks_finds_what_differs() {
    let (source, target) = (tree(), Memory::new());
    go(copying(&source, &target));
    target.put("d2/e2/f1/extra", b"x");
    source.put("d9/e5/f4/g/h/missing", b"x");
    target.put("d4/e4/f1/small", b"other");
    let check = || {
        let mut check = slowly(&source, &target);
        check.mode = Mode::Check;
        check
    };
    let (alone, _) = go(check());
    assert_eq!((alone.missing, alone.extra), (1, 1));
    for n in [2, 5] {
        let reports = ranks(n, &|_| (check(), Run::workers(2)));
        assert_eq!(counts(&reports[0]), counts(&alone), "{n} ranks");
    }
}

#[test]
fn a_move_of_many_ranks_verifies_and_leaves_nothing() {
    for n in [2, 5] {
        let (source, target, wanted) = (tree(), Memory::new(), tree());
        put_hard_link(&source, "d11/e1/other", "large");
        put_hard_link(&wanted, "d11/e1/other", "large");
        let mv = || {
            let mut mv = slowly(&source, &target);
            (mv.remove_source, mv.remove_dirs) = (true, true);
            mv
        };
        let reports = ranks(n, &|_| (mv(), Run::workers(2)));
        assert_eq!((reports[0].ending, reports[0].failed), (Ending::Complete, 0), "{n} ranks: {:?}", reports[0]);
        assert_same(&wanted, &target);
        assert!(source.paths().is_empty(), "{n} ranks: {:?}", source.paths().len());
        assert_eq!(reports[0].left.total(), 0);
        assert_eq!(reports[0].verified_files, reports[0].made.files - reports[0].hard_links, "{n} ranks");
    }
}

#[test]
fn directories_that_close_themselves_do_so_when_nobody_goes_through_them_any_more() {
    for n in [2, 5] {
        let (source, target) = (tree(), Memory::new());
        for i in 0..12 {
            let mut entry = source.entry(format!("d{i}")).unwrap();
            entry.mode = 0o500;
            let spec = haul_core::store::MetaSpec { name: &entry.name.clone(), entry: &entry, keep: haul_core::entry::MetaMask::MODE };
            source.set_meta(&[spec]).pop().unwrap().unwrap();
        }
        ranks(n, &|_| (slowly(&source, &target), Run::workers(2)));
        assert_same(&source, &target);
    }
}

#[test]
fn a_selection_of_names_is_shared_too() {
    let source = tree();
    for n in [1, 3] {
        let named = |target: &Memory| {
            let mut named = slowly(&source, target);
            named.roots[0].pick = Pick::Names([b"d1".to_vec(), b"d4".to_vec(), b"large".to_vec()].into());
            named
        };
        let (one, many) = (Memory::new(), Memory::new());
        let (alone, _) = go(named(&one));
        assert_eq!(alone.failed, 0);
        let reports = ranks(n, &|_| (named(&many), Run::workers(2)));
        assert_eq!(counts(&reports[0]), counts(&alone), "{n} ranks");
        assert_eq!(one.paths(), many.paths());
    }
}

#[test]
fn the_first_of_two_sources_wins_whoever_copies_them() {
    let (first, second) = (tree(), tree());
    for i in 0..12 {
        second.put(format!("d{i}/e5/f4/small"), b"of the second");
        second.put(format!("d{i}/e5/f4/only"), b"of the second");
    }
    for n in [1, 4] {
        let target = Memory::new();
        let both = |_| {
            let mut job = slowly(&first, &target);
            job.roots.push(Root::new(slow(&second), Pick::Contents));
            (job, Run::workers(2))
        };
        let reports = ranks(n, &both);
        assert_eq!((reports[0].failed, reports[0].ending), (0, Ending::Complete));
        for i in 0..12 {
            let path = format!("d{i}/e5/f4/small");
            assert_eq!(target.get(&path), first.get(&path), "{n} ranks: {path}");
            assert_eq!(target.get(format!("d{i}/e5/f4/only")).as_deref(), Some(&b"of the second"[..]));
        }
    }
}
