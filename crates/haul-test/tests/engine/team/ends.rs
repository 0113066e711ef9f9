//! Large files in parts, and jobs that end before their time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_core::cancel::{Cancel, Stop};
use haul_core::engine::run;
use haul_core::event::{Event, Observer};
use haul_core::job::Job;
use haul_core::journal::{Begin, Identity, State};
use haul_core::report::{Ending, Report};
use haul_core::team::{Team, threads};
use haul_core::{ErrorKind, Remedy};
use haul_test::fault::{Fault, Op, Rule, What};
use haul_test::memory::Memory;

use super::{Passes, bent, each, ranks, slow, slowly, tree};
use crate::support::{Diary, Run, assert_same, bounded, content, job};

#[test]
fn a_disk_that_is_full_at_one_rank_ends_the_job_of_all() {
    let (source, target) = (tree(), Memory::new());
    let of = |rank| {
        let full = Fault::new(target.again());
        if rank == 1 {
            full.add(Rule::new(Op::PutBundle, What::NoSpace).always());
            full.add(Rule::new(Op::Create, What::NoSpace).always());
        }
        (job(slow(&source), Arc::new(full)), Run::workers(2))
    };
    let reports = ranks(3, &of);
    for (rank, report) in reports.iter().enumerate() {
        assert_eq!(report.ending, Ending::Stopped, "rank {rank}");
        let reason = &report.failures[0].reason;
        assert!(rank == 1 || reason.contains("rank 1 on "), "rank {rank}: {reason}");
    }
    assert!(reports[0].failed_kinds.contains(&ErrorKind::NoSpace), "{:?}", reports[0].failures);
}

#[test]
#[ignore = "full"]
fn a_rank_that_dies_ends_the_job_and_is_named() {
    for most in [1, 6, 12] {
        let (source, target) = (tree(), Memory::new());
        // It is killed after so many messages.
        let left = Arc::new(AtomicI64::new(most));
        let lives = || -> Passes {
            let left = left.clone();
            Box::new(move |_, _| match left.fetch_sub(1, Ordering::SeqCst) > 0 {
                true => Ok(true),
                false => Err(haul_core::Error::new(ErrorKind::Broken, "send").because("killed")),
            })
        };
        let reports = each(bent(4, 2, lives(), lives()), &|_| (slowly(&source, &target), Run::workers(2)));
        for rank in [0, 1, 3] {
            assert_eq!(reports[rank].ending, Ending::Stopped, "{most}: rank {rank}: {:?}", reports[rank]);
            let reasons: Vec<&str> = reports[rank].failures.iter().map(|failure| &failure.reason[..]).collect();
            assert!(reasons.iter().any(|reason| reason.contains("rank 2")), "{most}: rank {rank}: {reasons:?}");
        }
    }
}

/// One job in a state directory, with journals; `stop` ends it when a rank has written so many times.
fn with_journals(source: &Memory, target: &Memory, state: &std::path::Path, n: u32, stop: Option<u64>) -> Report {
    let here = haul_core::journal::Here::find();
    let state = State::open_as(state.to_path_buf(), here).unwrap();
    let identity = Identity { sources: vec!["memory".into()], target: "memory".into(), ..Identity::default() };
    let dir = state.begin(&identity, Begin::default()).unwrap();
    let first = Mutex::new(Some(dir.journal().unwrap()));
    let cancels: Vec<Cancel> = (0..n).map(|_| Cancel::default()).collect();
    let reports = ranks(n, &|rank| {
        let (journal, past) = match rank {
            0 => first.lock().unwrap().take().unwrap(),
            _ => state.join(&identity, rank, false).unwrap(),
        };
        let fault = Fault::new(target.again());
        if let Some(stop) = stop {
            fault.add(Rule::new(Op::Write, What::Fail(ErrorKind::Broken, Remedy::None)).nth(stop).always());
        }
        let slow = Fault::new(source.again());
        slow.add(Rule::new(Op::List, What::Delay(Duration::from_millis(2))).always());
        let cancel = cancels[rank as usize].clone();
        (job(Arc::new(slow), Arc::new(fault)), Run { journal, past, cancel, ..Run::workers(1) })
    });
    if reports[0].ending == Ending::Complete {
        dir.finish("done").unwrap();
    }
    reports.into_iter().next().unwrap()
}

#[test]
fn a_job_that_was_stopped_goes_on_with_another_number_of_ranks() {
    let source = Memory::new();
    for i in 0..24 {
        let path = format!("d{i}/large");
        source.put(&path, content(&path, 0, 600_000));
        source.put(format!("d{i}/small"), b"small");
    }
    for (first, second) in [(3, 1), (1, 4), (4, 2)] {
        let (target, state) = (Memory::new(), tempfile::tempdir().unwrap());
        let report = with_journals(&source, &target, state.path(), first, Some(35));
        assert_eq!(report.ending, Ending::Stopped, "{report:?}");
        let report = with_journals(&source, &target, state.path(), second, None);
        assert_eq!((report.ending, report.failed), (Ending::Complete, 0), "{first} then {second}: {report:?}");
        assert!(report.resumed_bytes > 0, "{first} then {second}: {report:?}");
        assert_eq!(report.resumed_bytes + report.bytes, report.file_bytes, "{first} then {second}");
        assert_same(&source, &target);
        assert_eq!(target.sessions(), 0, "nothing is left over");
    }
}

fn chunked(source: &Memory, target: &Memory, fault: impl Fn(&Fault)) -> (Job, Run) {
    let (from, to) = (Fault::new(source.again()), Fault::new(target.again()));
    from.add(Rule::new(Op::Read, What::Delay(Duration::from_millis(2))).always());
    fault(&to);
    (job(Arc::new(from), Arc::new(to)), Run::workers(1))
}

#[test]
fn chunks_of_one_large_file_are_moved_by_all_and_committed_by_one() {
    let source = Memory::new();
    source.put("large", content("large", 0, 200 * (64 << 10) + 77));
    for n in [1, 2, 5] {
        for verify in [false, true] {
            let target = Memory::new().with(|caps| caps.tuning.writers_per_file = 4);
            let of = |_| {
                let (mut job, run) = chunked(&source, &target, |_| {});
                job.verify = verify;
                (job, run)
            };
            let reports = ranks(n, &of);
            assert_eq!((reports[0].ending, reports[0].made.files, reports[0].failed), (Ending::Complete, 1, 0), "{:?}", reports[0]);
            assert_eq!(reports[0].bytes, reports[0].file_bytes, "each byte moved once");
            assert_same(&source, &target);
            assert!(reports[1..].iter().all(|report| report.bytes > 0), "{n} ranks: all have helped");
            assert_eq!(target.sessions(), 0);
        }
    }
}

#[test]
fn what_a_rank_cannot_move_of_a_file_its_owner_does() {
    let source = Memory::new();
    source.put("large", content("large", 0, 120 * (64 << 10)));
    for op in [Op::Attach, Op::Write] {
        let target = Memory::new().with(|caps| caps.tuning.writers_per_file = 4);
        let of = |rank| {
            chunked(&source, &target, |fault| {
                if rank > 0 {
                    fault.add(Rule::new(op, What::Fail(ErrorKind::Io, Remedy::None)).nth(if op == Op::Write { 5 } else { 1 }).always());
                }
            })
        };
        let reports = ranks(3, &of);
        assert_eq!((reports[0].ending, reports[0].made.files, reports[0].failed), (Ending::Complete, 1, 0), "{:?}", reports[0]);
        assert_same(&source, &target);
    }
}

#[test]
fn a_signal_at_one_rank_stops_all() {
    let (source, target) = (tree(), Memory::new());
    let cancel = Cancel::default();
    let at_one = cancel.clone();
    let of = move |rank| {
        let mut run = Run::workers(1);
        let slow = Fault::new(source.again());
        slow.add(Rule::new(Op::List, What::Delay(Duration::from_millis(20))).always());
        if rank == 2 {
            run.cancel = at_one.clone();
        }
        (job(Arc::new(slow), Arc::new(target.again())), run)
    };
    let signal = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        cancel.set(Stop::Signal);
    });
    let reports = ranks(3, &of);
    signal.join().unwrap();
    assert!(
        reports.iter().all(|report| report.ending == Ending::Interrupted),
        "{:?}",
        reports.iter().map(|r| r.ending).collect::<Vec<_>>()
    );
    assert!(reports.iter().all(|report| report.failed == 0));
}

/// Keeps what the display of a rank would show last.
#[derive(Default)]
struct Last(Mutex<(u64, u64, u64)>);

impl Observer for Last {
    fn on(&self, event: &Event<'_>) {
        if let Event::Progress(p) = event {
            *self.0.lock().unwrap() = (p.found, p.done_files, p.moved_bytes);
        }
    }
}

#[test]
fn a_rank_that_waits_is_not_stalled_and_the_first_shows_what_all_do() {
    let source = Memory::new();
    for i in 0..40 {
        source.put(format!("d{i}/f"), content("f", i, 1000));
    }
    let target = Memory::new();
    let teams: Vec<Team> = threads(3).into_iter().map(|transport| Team { transport, silence: Duration::from_secs(4) }).collect();
    let last = Arc::new(Last::default());
    let shown = last.clone();
    let runs = teams.into_iter().zip(0..).map(|(team, rank)| {
        let slow = Fault::new(source.again());
        slow.add(Rule::new(Op::List, What::Delay(Duration::from_millis(20))).always());
        // One directory takes much longer than ranks may be silent for, when they have something to do.
        slow.add(Rule::new(Op::List, What::Delay(Duration::from_millis(2500))).on("d7").always());
        let mut copy = job(Arc::new(slow), Arc::new(target.again()));
        copy.timeout = Some(Duration::from_millis(3500));
        let observer: Arc<dyn Observer> = if rank == 0 { shown.clone() } else { Arc::new(Diary::default()) };
        let mut setup = Run::workers(1).setup(observer);
        setup.team = Some(team);
        std::thread::spawn(move || run(copy, setup))
    });
    let runs: Vec<_> = runs.collect();
    let reports: Vec<Report> = bounded(Duration::from_secs(60), move || runs.into_iter().map(|run| run.join().unwrap()).collect());
    assert!(reports.iter().all(|report| report.ending == Ending::Complete), "{:?}", reports[0]);
    assert_same(&source, &target);
    let (found, done, moved) = *last.0.lock().unwrap();
    assert_eq!((found, done, moved), (81, 40, 40_000));
}
