//! Every operation fails in every way: the run ends, says so, copies the rest, deletes nothing, leaves nothing behind.

use std::sync::Arc;
use std::time::Duration;

use haul_core::cancel::{Cancel, Stop};
use haul_core::entry::{Kind, MetaMask};
use haul_core::event::Action;
use haul_core::job::Job;
use haul_core::journal::{Begin, Identity, State};
use haul_core::report::{Ending, Report};
use haul_core::spec::Deletion;
use haul_core::{ErrorKind, Remedy};
use haul_test::fault::{Fault, Gate, Op, Rule, What};
use haul_test::memory::Memory;

use crate::support::{Run, assert_same, bounded, content, copying, differences, job, put_hard_link, put_node};

/// Operations that the source is asked for, with listings that have only names.
const AT_SOURCE: [Op; 8] = [Op::List, Op::ListEntry, Op::Stat, Op::StatMany, Op::Open, Op::Read, Op::GetBundle, Op::Stamp];

const AT_TARGET: [Op; 17] = [
    Op::List,
    Op::ListEntry,
    Op::Stat,
    Op::StatMany,
    Op::Create,
    Op::Write,
    Op::Landed,
    Op::Reread,
    Op::Commit,
    Op::PutBundle,
    Op::MakeDirs,
    Op::MakeNode,
    Op::MakeHardLink,
    Op::SetMeta,
    Op::Remove,
    Op::Sync,
    Op::Reopen,
];

/// A directory in which files are renamed while it is listed gives some names twice.
#[test]
fn a_name_that_is_listed_twice_is_copied_once() {
    for deletes in [false, true] {
        let (source, target) = (Memory::new(), Memory::new());
        for n in 0..3_000 {
            source.put(format!("d/{n}"), content("d", n, 10));
        }
        let fault = Fault::new(source.again());
        fault.add(Rule::new(Op::ListEntry, What::Twice).always());
        let mut job = job(Arc::new(fault), Arc::new(target.again()));
        job.deletion = deletes.then(Deletion::default);
        target.put_dir("d");
        let (report, diary) = Run::default().go(job);
        assert_eq!((report.made.files, diary.of(Action::Create).len()), (3_000, 3_000), "{report:?}");
        assert_same(&source, &target);
    }
}

struct Pair {
    source: Memory,
    target: Memory,
}

impl Pair {
    /// Something for every operation to do: new, changed, unchanged and extra names of every kind.
    fn new() -> Self {
        let (source, target) = (Memory::new(), Memory::new());
        for path in ["a/1", "a/2", "a/3", "b/c/4", "same", "linked"] {
            source.put(path, content(path, 0, 500));
        }
        for path in ["large", "b/large"] {
            source.put(path, content(path, 0, 300_000));
        }
        put_hard_link(&source, "linked-too", "linked");
        put_node(&source, "to", Kind::Link, "a/1");
        source.put_dir("b/empty");
        for path in ["a/2", "large"] {
            target.put(path, content(path, 7, 400));
        }
        target.put("same", content("same", 0, 500));
        target.put_time("same", source.entry("same").unwrap().mtime);
        target.put("extra/x", b"x");
        target.put("surplus", b"x");
        let bare = |store: Memory| store.with(|caps| caps.attributes.lists = MetaMask::NONE);
        Pair { source: bare(source), target: bare(target) }
    }

    fn sync(&self, from: &Fault, to: &Fault) -> Job {
        let mut sync = job(Arc::new(from.clone()), Arc::new(to.clone()));
        (sync.deletion, sync.verify) = (Some(Deletion::default()), true);
        sync
    }

    fn run(&self, at_source: bool, rule: Rule) -> Report {
        let (from, to) = (Fault::new(self.source.again()), Fault::new(self.target.again()));
        if at_source {
            from.add(rule)
        } else {
            to.add(rule)
        }
        Run::workers(3).go(self.sync(&from, &to)).0
    }

    /// Every file has its old content or its new one, whole.
    fn assert_old_or_new(&self, words: &str) {
        for path in ["a/1", "a/2", "a/3", "b/c/4", "same", "linked", "linked-too", "large", "b/large"] {
            let old = ["a/2", "large"].contains(&path).then(|| content(path, 7, 400));
            let (now, new) = (self.target.get(path), self.source.get(path));
            assert!(now == new || now == old || (now.is_none() && old.is_none()), "{words}: {path} is torn");
        }
    }

    fn extras_stay(&self) -> bool {
        self.target.get("extra/x").is_some() && self.target.get("surplus").is_some()
    }

    /// The same again, without a fault.
    fn assert_puts_right(&self, words: &str) {
        let (from, to) = (Fault::new(self.source.again()), Fault::new(self.target.again()));
        let (report, _) = Run::workers(3).go(self.sync(&from, &to));
        assert_eq!((report.failed, report.vanished, report.ending), (0, 0, Ending::Complete), "{words}: {report:?}");
        let differ = differences(&self.source, &self.target);
        assert!(differ.is_empty(), "{words}: {differ:#?}");
    }
}

fn every_op() -> impl Iterator<Item = (bool, Op)> {
    AT_SOURCE.into_iter().map(|op| (true, op)).chain(AT_TARGET.into_iter().map(|op| (false, op)))
}

#[test]
fn without_a_fault_there_is_something_for_every_operation() {
    let pair = Pair::new();
    let (from, to) = (Fault::new(pair.source.again()), Fault::new(pair.target.again()));
    for op in [Op::ListEntry, Op::Read] {
        let never = Rule::new(op, What::FlipBit).on("nothing");
        from.add(never.clone());
        to.add(never);
    }
    let (report, _) = Run::workers(3).go(pair.sync(&from, &to));
    assert_eq!(report.failed, 0, "{report:?}");
    assert_same(&pair.source, &pair.target);
    for (at_source, op) in every_op() {
        let asked = if at_source { from.count(op) } else { to.count(op) };
        assert!(asked.calls > 0, "{op:?} at_source {at_source}");
    }
}

#[test]
fn what_fails_once_and_may_be_tried_again_is_tried_again() {
    for (at_source, op) in every_op() {
        // An entry that a listing could not read is reported; the listing itself went well.
        if op == Op::ListEntry {
            continue;
        }
        for nth in [1, 2] {
            let pair = Pair::new();
            let words = format!("{op:?} {nth} at_source {at_source}");
            let report = pair.run(at_source, Rule::new(op, What::Fail(ErrorKind::Io, Remedy::Again)).nth(nth));
            assert_eq!((report.failed, report.vanished, report.ending), (0, 0, Ending::Complete), "{words}: {report:?}");
            let differ = differences(&pair.source, &pair.target);
            assert!(differ.is_empty(), "{words}: {differ:#?}");
            assert_eq!(pair.target.sessions(), 0, "{words}");
        }
    }
}

#[test]
fn an_answer_that_is_lost_after_the_deed_does_no_harm() {
    for op in [Op::Commit, Op::PutBundle, Op::MakeDirs, Op::MakeNode, Op::SetMeta, Op::Write, Op::Landed, Op::Sync, Op::Remove] {
        let pair = Pair::new();
        let report = pair.run(false, Rule::new(op, What::FailAfter(ErrorKind::Io, Remedy::Again)));
        assert_eq!((report.failed, report.ending), (0, Ending::Complete), "{op:?}: {report:?}");
        assert_eq!(differences(&pair.source, &pair.target), Vec::<String>::new(), "{op:?}");
        assert_eq!(pair.target.sessions(), 0, "{op:?}");
    }
}

/// The connection went with the answer: the deed was done, and is asked for again.
fn lost(op: Op) -> Rule {
    Rule::new(op, What::FailAfter(ErrorKind::Broken, Remedy::Reconnect))
}

#[test]
fn a_source_that_goes_is_asked_to_go_again() {
    for rule in [lost(Op::Remove), Rule::new(Op::Remove, What::Fail(ErrorKind::Broken, Remedy::Reconnect))] {
        let pair = Pair::new();
        let (from, to) = (Fault::new(pair.source.again()), Fault::new(pair.target.again()));
        from.add(rule.clone().times(3));
        let mut moved = job(Arc::new(from), Arc::new(to));
        moved.remove_source = true;
        let (report, _) = Run::workers(3).go(moved);
        assert_eq!((report.failed, report.vanished, report.ending), (0, 0, Ending::Complete), "{rule:?}: {report:?}");
        for path in ["a/1", "a/2", "b/c/4", "linked", "to", "large"] {
            assert!(pair.source.entry(path).is_none() && pair.target.entry(path).is_some(), "{rule:?}: {path}");
        }
    }
}

#[test]
fn a_directory_whose_making_was_not_answered_counts_and_gets_its_attributes() {
    let pair = Pair::new();
    for path in ["b/empty", "b/none"] {
        pair.source.put_dir(path);
        pair.source.put_time(path, haul_core::entry::Time { secs: 1_000_000_000, nanos: 0 });
    }
    let without = {
        let (source, target) = (Fault::new(pair.source.again()), Fault::new(Memory::new()));
        Run::workers(3).go(job(Arc::new(source), Arc::new(target))).0
    };
    let target = Memory::new();
    let to = Fault::new(target.again());
    for path in ["a", "b", "b/c", "b/empty", "b/none"] {
        to.add(lost(Op::MakeDirs).on(path));
    }
    let (report, _) = Run::workers(3).go(job(Arc::new(Fault::new(pair.source.again())), Arc::new(to)));
    assert_eq!((report.failed, report.made.dirs), (0, without.made.dirs), "{report:?}");
    assert_same(&pair.source, &target);
}

#[test]
fn what_is_backed_up_is_kept_when_the_answer_is_lost() {
    for links in [true, false] {
        for op in [Op::MakeHardLink, Op::Rename, Op::MakeDirs, Op::Remove] {
            let pair = Pair::new();
            let target = pair.target.again().with(|caps| caps.hard_links = links);
            let (from, to) = (Fault::new(pair.source.again()), Fault::new(target));
            to.add(lost(op).times(2));
            to.add(Rule::new(op, What::Fail(ErrorKind::Broken, Remedy::Reconnect)).nth(5));
            let mut sync = job(Arc::new(from), Arc::new(to));
            (sync.deletion, sync.backup, sync.links.hard) = (Some(Deletion::default()), Some(b".old".to_vec()), links);
            sync.filter.exclude(b"/.old").expect("a rule");
            let (report, _) = Run::workers(3).go(sync);
            assert_eq!((report.failed, report.ending), (0, Ending::Complete), "{op:?} {links}: {report:?}");
            for path in ["a/2", "large"] {
                assert_eq!(pair.target.get(path), pair.source.get(path), "{op:?} {links}");
                assert_eq!(pair.target.get(format!(".old/{path}")), Some(content(path, 7, 400)), "{op:?} {links}");
            }
            assert_eq!(pair.target.get(".old/extra/x"), Some(b"x".to_vec()), "{op:?} {links}");
        }
    }
}

#[test]
fn a_failure_for_good_is_counted_and_the_rest_is_copied() {
    for (at_source, op) in every_op() {
        for what in [What::Fail(ErrorKind::Denied, Remedy::None), What::Fail(ErrorKind::Io, Remedy::None), What::Vanish, What::StopShort] {
            for nth in [1, 2] {
                let pair = Pair::new();
                let words = format!("{op:?} {nth} {what:?} at_source {at_source}");
                // What is gone from a listing of the source is an extra, and what is gone need not be removed.
                if matches!((at_source, op, &what), (true, Op::ListEntry, What::Vanish) | (false, Op::Remove, What::Vanish)) {
                    continue;
                }
                let report = pair.run(at_source, Rule::new(op, what.clone()).nth(nth));
                assert_eq!(report.ending, Ending::Complete, "{words}: {report:?}");
                pair.assert_old_or_new(&words);
                assert_eq!(pair.target.sessions(), 0, "{words}");
                let differ = differences(&pair.source, &pair.target);
                let reported = report.failed + report.vanished > 0;
                assert!(reported || differ.is_empty(), "{words}: nothing was said of {differ:#?}");
                // What fails only when all has landed comes after the deletes, or is one of them.
                let late = matches!(op, Op::Remove | Op::SetMeta) || (at_source && op == Op::Stat);
                if report.failed > 0 && !late {
                    assert!(pair.extras_stay(), "{words}: deleted after a failure");
                }
                pair.assert_puts_right(&words);
            }
        }
    }
}

#[test]
fn a_full_disk_ends_the_run_with_one_message() {
    for op in [Op::Create, Op::Write, Op::Landed, Op::Commit, Op::PutBundle, Op::MakeDirs, Op::MakeNode] {
        let pair = Pair::new();
        let report = pair.run(false, Rule::new(op, What::NoSpace).always());
        assert_eq!((report.ending, report.failed), (Ending::Stopped, 1), "{op:?}: {report:?}");
        assert_eq!(report.failed_kinds, [ErrorKind::NoSpace], "{op:?}");
        assert!(pair.extras_stay(), "{op:?}");
        pair.assert_old_or_new(&format!("{op:?}"));
        assert_eq!(pair.target.sessions(), 0, "{op:?}: without a journal nothing is kept");
        pair.assert_puts_right(&format!("{op:?}"));
    }
}

/// A name that is not found is one of the source only if the source said so.
#[test]
fn what_is_gone_at_the_destination_is_no_vanished_source() {
    for op in AT_TARGET {
        let pair = Pair::new();
        let report = pair.run(false, Rule::new(op, What::Vanish).always());
        assert_eq!(report.vanished, 0, "{op:?}: {report:?}");
    }
    for op in AT_SOURCE {
        let pair = Pair::new();
        // The first look-up by itself is for the top, and what was asked for cannot vanish.
        let report = pair.run(true, Rule::new(op, What::Vanish).nth(2));
        // A directory that is still there and cannot be listed has not vanished.
        assert_eq!(report.failed, u64::from(op == Op::List), "{op:?}: {report:?}");
    }
}

#[test]
fn a_follower_is_not_linked_to_an_old_leader_whose_new_content_failed() {
    for (op, verify) in [(Op::PutBundle, false), (Op::Commit, true)] {
        let pair = Pair::new();
        for path in ["linked", "linked-too"] {
            pair.target.put(path, content(path, 9, 30));
        }
        let (from, to) = (Fault::new(pair.source.again()), Fault::new(pair.target.again()));
        for path in ["linked", "linked-too"] {
            to.add(Rule::new(op, What::Fail(ErrorKind::Denied, Remedy::None)).on(path));
        }
        let sync = Job { verify, ..pair.sync(&from, &to) };
        let (report, _) = Run::workers(1).go(sync);
        assert_eq!(report.failed, 2, "{op:?}: {report:?}");
        for path in ["linked", "linked-too"] {
            assert_eq!(pair.target.get(path), Some(content(path, 9, 30)), "{op:?}: {path}");
        }
        pair.assert_puts_right("leader");
    }
}

#[test]
#[ignore = "full"]
fn a_call_that_hangs_does_not_keep_a_run_that_is_stopped() {
    for (at_source, op) in every_op() {
        // Nothing asks the gate for these once for the whole call.
        if op == Op::ListEntry {
            continue;
        }
        let pair = Pair::new();
        let (from, to) = (Fault::new(pair.source.again()), Fault::new(pair.target.again()));
        // The call itself does not see the stop: it is stuck in the system.
        let gate = Gate::new(Duration::from_secs(60), Cancel::default());
        let rule = Rule::new(op, What::Hang(gate.clone()));
        if at_source {
            from.add(rule)
        } else {
            to.add(rule)
        }
        let cancel = Cancel::default();
        let run = Run { cancel: cancel.clone(), bound: Duration::from_secs(50), ..Run::workers(3) };
        let sync = pair.sync(&from, &to);
        let running = std::thread::spawn(move || run.go(sync));
        assert!(gate.wait_for(1), "{op:?} was never called");
        cancel.set(Stop::Signal);
        let (report, _) = running.join().unwrap();
        assert_eq!(report.ending, Ending::Interrupted, "{op:?}");
        assert_eq!(report.deleted.total(), if op == Op::Remove { report.deleted.total() } else { 0 });
        gate.open();
    }
}

#[test]
fn after_a_stop_the_destination_is_left_alone() {
    for op in [Op::PutBundle, Op::Write, Op::MakeNode, Op::SetMeta, Op::Remove, Op::MakeHardLink] {
        let pair = Pair::new();
        for i in 0..2000 {
            pair.target.put(format!("extra/{i}"), b"");
        }
        let (from, to) = (Fault::new(pair.source.again()), Fault::new(pair.target.again()));
        to.add(Rule::new(op, What::DelayEach(Duration::from_micros(300))).always());
        let cancel = Cancel::default();
        let run = Run { cancel: cancel.clone(), ..Run::workers(3) };
        let (sync, watched) = (pair.sync(&from, &to), to.clone());
        let running = std::thread::spawn(move || run.go(sync));
        bounded(Duration::from_secs(60), move || {
            while watched.count(op).calls == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        cancel.set(Stop::Signal);
        running.join().unwrap();
        let calls = to.calls();
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(to.calls(), calls, "{op:?}");
    }
}

#[test]
fn what_landed_before_a_full_disk_is_kept_for_the_next_run() {
    let state = tempfile::tempdir().unwrap();
    let open = || {
        let state = State::open(state.path().to_path_buf()).unwrap();
        state
            .begin(&Identity { sources: vec!["memory:/a".into()], target: "memory:/b".into(), ..Identity::default() }, Begin::default())
            .unwrap()
    };
    let (source, target) = (Memory::new(), Memory::new());
    source.put("large", content("large", 0, 1_000_000));
    let job_dir = open();
    let (journal, past) = job_dir.journal().unwrap();
    let to = Fault::new(target.again());
    to.add(Rule::new(Op::Write, What::NoSpace).on("large").nth(9).always());
    let copy = job(Arc::new(source.again()), Arc::new(to));
    let (report, _) = Run { journal, past, ..Run::workers(1) }.go(copy);
    assert_eq!((report.ending, target.sessions()), (Ending::Stopped, 1), "{report:?}");
    job_dir.keep();
    let job_dir = open();
    let (journal, past) = job_dir.journal().unwrap();
    let (report, _) = Run { journal, past, ..Run::workers(1) }.go(copying(&source, &target));
    assert_eq!((report.failed, report.resumed_bytes), (0, 8 * 65536), "{report:?}");
    assert!(report.bytes < 1_000_000);
    assert_same(&source, &target);
    assert_eq!(target.sessions(), 0);
}

#[test]
fn a_panic_in_a_store_ends_the_run() {
    #[derive(Debug)]
    struct Panics;
    impl haul_core::event::Observer for Panics {
        fn on(&self, event: &haul_core::event::Event<'_>) {
            assert!(!matches!(event, haul_core::event::Event::Item { .. }), "made to panic");
        }
    }
    let source = Memory::new();
    source.put("a", b"x");
    let setup = Run::workers(2).setup(Arc::new(Panics));
    let copy = job(Arc::new(source), Arc::new(Memory::new()));
    let report = bounded(Duration::from_secs(60), move || haul_core::engine::run(copy, setup));
    assert_eq!((report.ending, report.failed), (Ending::Stopped, 1), "{report:?}");
}
