//! The engine: walk, plan, move and finish, by one pool of workers and one supervisor.
//!
//! ```text
//! run:  feed the roots, one after the other      (walk.rs lists, merge.rs where both sides are listed,
//!                                                 look.rs looks up, planned.rs asks the planner)
//!         workers take tasks till none is left   (dispatch.rs: effects.rs what plans wait for,
//!                                                 small.rs bundles, file/ large files, verify.rs)
//!       hard links, deletes, late directories    (after.rs: links.rs, deletes.rs)
//!       report
//! ```
//!
//! Planning changes nothing but what this process remembers: what it needs to have done is an effect, a task like others.
//! `context.rs` has what the stages share, by groups; `task.rs` the kinds of work. No stage imports `dispatch.rs`.
//!
//! The supervisor is the calling thread: it ticks the tuner, the display, the journal and the space watch,
//! and it alone decides to leave when a worker is stuck in a system call.

mod after;
mod alias_probe;
mod aliases;
mod backup;
mod clock;
mod context;
mod deletes;
mod digest;
mod dirs;
mod dispatch;
mod effects;
mod emptied;
mod file;
mod files_from;
mod hardlinks;
mod identity;
mod leases;
mod links;
mod lookup;
mod merge;
mod names;
mod owners;
mod post_pass;
mod ranks;
mod references;
mod reporter;
mod route_plan;
mod small;
mod sorted;
mod sources;
mod space;
mod step;
mod steps;
mod supervise;
mod task;
mod tries;
mod verify;
mod walk;
mod workers;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::cancel::Cancel;
use crate::event::{Event, Observer};
use crate::job::Job;
use crate::journal::{Journal, Progress as Past};
use crate::report::{Ending, Report};
use crate::retry::Scope;
use crate::store::RemoteWork;
use crate::team::Team;
use crate::tune::Tuner;
use crate::verdict::{Ends, Machine, verdict};

use context::{Context, Records};
use ranks::Ranks;

/// What a run needs beside its job.
pub struct Setup {
    pub observer: Arc<dyn Observer>,
    pub journal: Journal,
    /// What an earlier run left in the journal.
    pub past: Past,
    pub cancel: Cancel,
    pub tuner: Box<dyn Tuner>,
    /// Most workers the tuner may ask for.
    pub most_workers: u32,
    pub processors: u32,
    /// Where what grows is spilled to.
    pub spill: PathBuf,
    /// Called every five seconds: keeps the job's lock alive.
    pub heartbeat: Box<dyn FnMut() + Send>,
    /// The first sentence of the output.
    pub sentence: String,
    /// Takes one progress snapshot at once whenever it is set: SIGUSR1.
    pub show_progress: Arc<std::sync::atomic::AtomicBool>,
    /// The ranks that do this job together; `None`: this process alone.
    pub team: Option<Team>,
}

/// Does the job. Failures of single names are in the report and were events; this returns always.
pub fn run(job: Job, setup: Setup) -> Report {
    let Setup { observer, journal, past, cancel, tuner, most_workers, processors, spill, heartbeat, sentence, show_progress, team } = setup;
    observer.on(&Event::Started { sentence: &sentence });
    let (workers_fixed, limit) = (job.workers.is_some() && !job.ordered, job.limit.map(|l| l as f64));
    let ends = job.roots.first().map(|root| Ends::of(root.store.place(), job.target.place())).unwrap_or_default();
    let records = Records { journal, past, spill };
    let cx = Arc::new(Context::new(job, observer.clone(), records, cancel.clone(), team.and_then(Ranks::of), dispatch::perform));
    // Threads that are started from here on have it from this one.
    let reporter = cx.clone();
    let _retries = Scope::new(cx.job.retries, cancel, move |error, again| reporter.out.retried(error, again)).enter();
    let mut supervisor = supervise::Supervisor::start(cx.clone(), tuner, (most_workers, processors), heartbeat, show_progress);

    let finished = match &cx.ranks {
        None => feed(&cx, &mut supervisor) && after::finish(&cx, &mut supervisor),
        Some(ranks) => steps::run(&cx, ranks, &mut supervisor),
    };
    supervisor.stop();

    let mut report = cx.out.take_report();
    report.ending = match (finished, cx.cancel.why()) {
        (_, Some(why)) => ending_of(why),
        (true, None) => report.ending,
        (false, None) => Ending::Stopped,
    };
    if let Some(trouble) = cx.journal.trouble() {
        cx.out.warn(crate::event::Warning::NoJournal(trouble));
    }
    supervisor.measure(&mut report);
    if let Some(ranks) = &cx.ranks {
        report.ranks = vec![ranks.work(&report, processors)];
        ranks.end(&cx, &mut report);
        report.curve = ranks.curve();
    }
    let machine = Machine { processors: report.processors(processors), workers_fixed, limit, names: observer.names() };
    (report.remote_source, report.remote_destination) = remote_work(&cx, report.elapsed);
    let verdict = verdict(&report, machine, &ends);
    (report.limiter, report.limited_by, report.next) = (verdict.limiter, verdict.sentence, verdict.next);
    observer.on(&Event::Finished(&report));
    report
}

/// Runs that took less than this ask nobody what they did: an answer takes a round trip.
const WORTH_ASKING: Duration = Duration::from_millis(500);

/// What the machines of the two ends say that they did. A run that is stopped asks nobody any more.
fn remote_work(cx: &Context, elapsed: Duration) -> (Option<RemoteWork>, Option<RemoteWork>) {
    if cx.cancel.is_set() || elapsed < WORTH_ASKING {
        return (None, None);
    }
    (cx.job.roots.first().and_then(|root| root.store.extensions().system.remote_work()), cx.target().extensions().system.remote_work())
}

fn ending_of(why: crate::cancel::Stop) -> Ending {
    match why {
        crate::cancel::Stop::Signal => Ending::Interrupted,
        crate::cancel::Stop::Deadline => Ending::Deadline,
        crate::cancel::Stop::Timeout => Ending::Timeout,
        crate::cancel::Stop::Failure => Ending::Stopped,
    }
}

/// Sources one after the other, so that the first of two with one name wins. `false` if the run was stopped.
fn feed(cx: &Arc<Context>, supervisor: &mut supervise::Supervisor) -> bool {
    (0..cx.job.roots.len()).all(|root| {
        cx.sched.feed(root);
        supervisor.until_idle("copying")
    })
}
