//! What ranks wait for ends, and a rank that is only slow is not taken for one that is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_core::cancel::{Cancel, Stop};
use haul_core::engine::run;
use haul_core::event::{Event, Observer};
use haul_core::report::Ending;
use haul_core::team::message::Message;
use haul_core::team::{Team, threads};
use haul_test::fault::{Fault, Op, Rule, What};
use haul_test::memory::Memory;

use super::{Passes, bent, each, ranks, slowly, tree};
use crate::support::{Diary, Run, assert_same, bounded, content, job, put_hard_link};

#[test]
fn ranks_that_copy_the_first_names_lend_each_other_chunks_and_end() {
    let source = Memory::new();
    for i in 0..96 {
        source.put(format!("large{i}"), content("large", i as u64, (16 + 7 * (i % 6)) * (64 << 10)));
        put_hard_link(&source, &format!("name{i}"), &format!("large{i}"));
    }
    let target = Memory::new().with(|caps| caps.tuning.writers_per_file = 4);
    let of = |_| {
        let from = Fault::new(source.again());
        from.add(Rule::new(Op::Read, What::Delay(Duration::from_millis(2))).always());
        (job(Arc::new(from), Arc::new(target.again())), Run::workers(1))
    };
    let reports = ranks(8, &of);
    assert_eq!((reports[0].ending, reports[0].hard_links, reports[0].failed), (Ending::Complete, 96, 0), "{:?}", reports[0]);
    assert_same(&source, &target);
}

/// A terminal that stops at the first frame, for longer than ranks may be silent.
#[derive(Default)]
struct Stopped(AtomicBool);

impl Observer for Stopped {
    fn on(&self, event: &Event<'_>) {
        if matches!(event, Event::Progress(_)) && !self.0.swap(true, Ordering::SeqCst) {
            std::thread::sleep(Duration::from_secs(10));
        }
    }
}

#[test]
#[ignore = "full"]
fn a_terminal_that_is_stopped_does_not_end_the_job() {
    let (source, target) = (tree(), Memory::new());
    let teams: Vec<Team> = threads(3).into_iter().map(|transport| Team { transport, silence: Duration::from_secs(4) }).collect();
    let stopped = Arc::new(Stopped::default());
    let runs: Vec<_> = teams
        .into_iter()
        .enumerate()
        .map(|(rank, team)| {
            let observer: Arc<dyn Observer> = if rank == 0 { stopped.clone() } else { Arc::new(Diary::default()) };
            let mut setup = Run::workers(2).setup(observer);
            setup.team = Some(team);
            let job = slowly(&source, &target);
            std::thread::spawn(move || run(job, setup))
        })
        .collect();
    let reports: Vec<_> = bounded(Duration::from_secs(100), move || runs.into_iter().map(|run| run.join().unwrap()).collect());
    assert!(stopped.0.load(Ordering::SeqCst));
    assert!(reports.iter().all(|report| report.ending == Ending::Complete), "{reports:?}");
    assert_same(&source, &target);
}

#[test]
fn a_job_that_is_stopped_at_its_very_end_says_whose_report_is_missing() {
    let (source, target) = (tree(), Memory::new());
    let cancel = Cancel::default();
    // When the report of rank 1 comes, it is lost, and the user ends the job.
    let stopped = cancel.clone();
    let receive: Passes = Box::new(move |from, bytes| {
        let is_report = from == 1 && matches!(Message::decode(bytes), Some(Message::Report(_)));
        if is_report {
            // By then this rank waits for reports, mostly.
            std::thread::sleep(Duration::from_millis(500));
            stopped.set(Stop::Signal);
        }
        Ok(!is_report)
    });
    let teams = bent(3, 0, Box::new(|_, _| Ok(true)), receive);
    let reports = each(teams, &|rank| {
        let mut run = Run::workers(2);
        if rank == 0 {
            run.cancel = cancel.clone();
        }
        (slowly(&source, &target), run)
    });
    let reasons: Vec<&str> = reports[0].failures.iter().map(|failure| &failure.reason[..]).collect();
    // Stopped before it waited, it says so.
    let told = reports[0].ending != Ending::Complete || reasons.contains(&"rank 1 did not report");
    assert!(told, "{reasons:?}");
}

#[test]
fn a_rank_that_looks_at_directories_for_long_is_not_lost_and_loses_nobody() {
    let (source, target) = (Memory::new(), Memory::new());
    for i in 0..24 {
        source.put(format!("top/d{i}/f"), content("f", i, 1000));
    }
    let mut teams: Vec<Team> = threads(2).into_iter().map(Team::new).collect();
    teams.iter_mut().for_each(|team| team.silence = Duration::from_secs(1));
    let reports = each(teams, &|rank| {
        let from = Fault::new(source.again());
        from.add(Rule::new(Op::List, What::Delay(Duration::from_millis(20))).always());
        if rank == 1 {
            from.add(Rule::new(Op::Stat, What::Delay(Duration::from_millis(1200))).times(3));
        }
        let mut copy = job(Arc::new(from), Arc::new(target.again()));
        copy.one_file_system = true;
        (copy, Run::workers(1))
    });
    assert_eq!((reports[0].ending, reports[0].failed), (Ending::Complete, 0), "{:?}", reports[0].failures);
    assert_same(&source, &target);
}

#[test]
fn a_rank_that_does_not_respond_is_named_with_its_node() {
    let (source, target) = (tree(), Memory::new());
    // It says one thing, and from then on it neither sends nor receives.
    let has_spoken = AtomicBool::new(false);
    let send: Passes = Box::new(move |_, _| Ok(!has_spoken.swap(true, Ordering::SeqCst)));
    let teams = bent(3, 2, send, Box::new(|_, _| Ok(false)));
    let reports = each(teams, &|_| (slowly(&source, &target), Run::workers(2)));
    let reason = &reports[0].failures[0].reason;
    assert!(reason.starts_with("rank 2 on ") && reason.ends_with(" has not responded for 2 s"), "{reason}");
    assert_eq!((reports[0].ending, reports[1].ending), (Ending::Stopped, Ending::Stopped));
    assert!(reports[1].failures[0].reason.contains(&**reason), "{:?}", reports[1].failures);
}

#[test]
fn a_rank_whose_report_is_not_confirmed_says_so() {
    let (source, target) = (tree(), Memory::new());
    // Rank 0 hangs when all is done: the others do not hear that it is.
    let send: Passes = Box::new(|to, message| Ok(to == 0 || !matches!(Message::decode(message), Some(Message::Bye))));
    let teams = bent(3, 0, send, Box::new(|_, _| Ok(true)));
    let reports = each(teams, &|_| (slowly(&source, &target), Run::workers(2)));
    assert_eq!((reports[0].ending, reports[0].failed), (Ending::Complete, 0), "{:?}", reports[0].failures);
    for rank in [1, 2] {
        let reasons: Vec<&str> = reports[rank].failures.iter().map(|failure| &failure.reason[..]).collect();
        assert_eq!(reasons, [format!("rank 0 has not confirmed the report of rank {rank} within 2 s")]);
    }
}
