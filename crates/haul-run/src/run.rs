//! One run of the engine, with its journal, tuner and heartbeat.

use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use haul_core::cancel::{Cancel, Stop};
use haul_core::engine::{self, Setup};
use haul_core::entry::{Kind, MetaMask};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::event::{Event, Observer, Warning};
use haul_core::job::Job;
use haul_core::journal::{Begin, Identity, JobDir, Journal, Progress as Past, State, default_root};
use haul_core::lock::lock;
use haul_core::report::{Ending, Report};
use haul_core::team::Team;
use haul_core::verdict::Ends;
use haul_local::without_mask;

use crate::allocation;
use crate::plan::Plan;
use crate::workers;

/// The longest that a run waits for an earlier one of the same job.
const WAIT_MOST: Duration = Duration::from_secs(7 * 24 * 3600);

/// How a run uses what earlier runs of the same job left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalChoice {
    /// Forget it.
    pub restart: bool,
    /// Wait for a run of the same job that is active.
    pub wait: bool,
}

/// The journal of a run, which the next run of the same job resumes.
#[derive(Default)]
pub struct JournalUse {
    pub choice: JournalChoice,
    /// `None`: that of this user, see [`default_root`].
    pub state_dir: Option<PathBuf>,
    /// See [`crate::plan::text`].
    pub spec: String,
    /// The command line, for `haul jobs`: as words, and as a shell takes them from any directory.
    pub arguments: Vec<Vec<u8>>,
    pub command: String,
}

/// Facts passed to the front end before the engine begins.
pub struct Begun {
    /// The job's id; `None` without a journal.
    pub job: Option<String>,
    pub deadline: Option<Duration>,
    /// One end at least is another machine.
    pub network: bool,
    /// A source that cannot be read again: nothing is resumed.
    pub starts_over: bool,
}

/// Facts passed to the front end after the engine has ended.
pub struct Ended<'a> {
    pub report: &'a Report,
    pub ends: &'a Ends,
    pub processors: u32,
    /// The number of workers was given.
    pub fixed_workers: bool,
}

/// This process as one of several ranks.
pub struct Rank<'a> {
    pub team: Team,
    pub number: u32,
    /// Called by rank 0 before it begins: whether there is a journal.
    pub go: &'a dyn Fn(bool) -> Result<()>,
}

impl Rank<'_> {
    fn leads(&self) -> bool {
        self.number == 0
    }
}

/// A run as a front end asks for it.
pub struct Run<'a> {
    pub observer: Arc<dyn Observer>,
    pub begun: &'a dyn Fn(Begun),
    /// Returns a text that is kept with the job: at most a few kilobytes.
    pub ended: &'a dyn Fn(&Ended<'_>) -> String,
    pub cancel: Cancel,
    /// Set to have the engine report its progress at once.
    pub show_progress: Arc<AtomicBool>,
    /// What is copied, in words, for [`Event::Started`].
    pub sentence: String,
    /// `None`: nothing is kept, and files of an interrupted run are not resumed.
    pub journal: Option<JournalUse>,
    /// The deadline of the job counts from here.
    pub opened: Instant,
    pub rank: Option<Rank<'a>>,
}

impl Run<'_> {
    /// A run without journal that nobody interrupts.
    pub fn new(observer: Arc<dyn Observer>) -> Run<'static> {
        Run {
            observer,
            begun: &|_| (),
            ended: &|_| String::new(),
            cancel: Cancel::default(),
            show_progress: Arc::default(),
            sentence: String::new(),
            journal: None,
            opened: Instant::now(),
            rank: None,
        }
    }
}

/// What a run was.
pub struct Ran {
    pub report: Report,
    /// A journal of it is there, for the next run to resume.
    pub kept: bool,
}

/// The open journal: the job's directory (of rank 0), its records, what earlier runs left.
type Open = (Option<JobDir>, Journal, Past);

impl Plan {
    /// Runs the job. Sources that do not exist count as failures of its report.
    ///
    /// # Errors
    /// `Busy` where the job is running already; a journal that cannot be read; another node has taken the job over.
    pub fn execute(self, run: Run<'_>) -> Result<Ran> {
        let done = execute(self.job, &self.identity, self.missing, run);
        self.hosts.finish();
        done
    }
}

fn execute(mut job: Job, identity: &Identity, missing: Vec<Error>, run: Run<'_>) -> Result<Ran> {
    let Run { observer, begun, ended, cancel, show_progress, mut sentence, journal: usage, opened, rank } = run;
    let kept = usage.as_ref().map(|usage| open_journal(identity, usage, &cancel, rank.as_ref(), &*observer)).transpose()?.flatten();
    let (directory, journal, past) = match kept {
        Some((directory, journal, past)) => (directory.map(Arc::new), journal, past),
        None => (None, Journal::none(), Past::default()),
    };
    // The engine counts from its own beginning, which --wait may have put off for days.
    job.deadline = job.deadline.map(|deadline| deadline.saturating_sub(opened.elapsed()));
    if let Some(rank) = rank.as_ref().filter(|rank| rank.leads()) {
        (rank.go)(directory.is_some())?;
    }
    let streams = job.roots.iter().any(|root| root.store.caps().streams);
    begun(Begun {
        job: directory.as_ref().map(|directory| directory.id()),
        deadline: job.deadline,
        network: job.target.caps().remote || job.roots.iter().any(|root| root.store.caps().remote),
        starts_over: streams,
    });
    if !past.is_empty() && !streams {
        let restart = usage.as_ref().is_some_and(|usage| usage.choice.restart);
        sentence.push_str(if restart { ", starting over" } else { ", resuming an earlier run" });
    }
    let processors = allocation::processors();
    let taken: Arc<Mutex<Option<Error>>> = Arc::default();
    let (beat, noted, stop) = (directory.clone(), taken.clone(), cancel.clone());
    let heartbeat: Box<dyn FnMut() + Send> = Box::new(move || {
        // Another node has taken this run for dead: from here on the job is that one's.
        if let Some(Err(e)) = beat.as_ref().map(|directory| directory.heartbeat(SystemTime::now())) {
            *lock(&noted) = Some(e);
            stop.set(Stop::Failure);
        }
    });
    job.progress = Duration::from_secs(30);
    let followed = usage.as_ref().filter(|_| rank.as_ref().is_some_and(|rank| !rank.leads())).and_then(state_root);
    let state = directory.as_ref().and_then(|directory| directory.path().ancestors().nth(2)).map(Path::to_path_buf);
    job.state = state.or(followed).and_then(|state| {
        let facts = std::fs::metadata(state).ok()?;
        Some((std::os::unix::fs::MetadataExt::dev(&facts), std::os::unix::fs::MetadataExt::ino(&facts)))
    });
    let ends = job.roots.first().map(|root| Ends::of(root.store.place(), job.target.place())).unwrap_or_default();
    let (dry, fixed_workers, had_missing) = (job.dry, job.workers.is_some(), missing.len() as u64);
    let setup = Setup {
        observer: if missing.is_empty() { observer.clone() } else { Arc::new(WithMissing { inner: observer.clone(), missing }) },
        journal: with_test_hook(journal),
        past,
        cancel,
        tuner: workers::tuner(&job, processors),
        most_workers: job.workers.unwrap_or(workers::MOST),
        processors,
        spill: directory.as_ref().map_or_else(std::env::temp_dir, |directory| directory.path().to_path_buf()),
        heartbeat,
        sentence,
        show_progress,
        team: rank.map(|rank| rank.team),
    };
    // Modes are the source's, exactly; directories on the way to the destination are made by now.
    let mut report = if job.keep.has(MetaMask::MODE) { without_mask(|| engine::run(job, setup))? } else { engine::run(job, setup) };
    report.failed += had_missing;
    if had_missing > 0 {
        report.failed_kinds.push(ErrorKind::NotFound);
    }
    let note = ended(&Ended { report: &report, ends: &ends, processors, fixed_workers });
    let kept = directory.is_some();
    if let Some(directory) = directory.and_then(Arc::into_inner) {
        let complete = report.ending == Ending::Complete && report.failed == 0;
        // For `haul why` only: a run is no worse without it.
        let _noted = directory.note(&note);
        if !complete || dry {
            directory.keep();
        } else if let Err(e) = directory.finish(&record(&report)) {
            // All is copied; the next run finds that out by itself.
            observer.on(&Event::Warned(&Warning::Note(e.to_string())));
        }
    }
    let taken = lock(&taken).take();
    taken.map_or(Ok(Ran { report, kept }), Err)
}

fn state_root(usage: &JournalUse) -> Option<PathBuf> {
    usage.state_dir.clone().or_else(|| default_root(|name| std::env::var_os(name)))
}

/// The job's journal. A state directory that cannot be had is a warning: the copy matters more.
fn open_journal(
    identity: &Identity,
    usage: &JournalUse,
    cancel: &Cancel,
    rank: Option<&Rank<'_>>,
    observer: &dyn Observer,
) -> Result<Option<Open>> {
    let without = |reason: String| {
        observer.on(&Event::Warned(&Warning::NoJournal(reason)));
        Ok(None)
    };
    let Some(root) = state_root(usage) else { return without("neither HAUL_STATE_DIR, XDG_STATE_HOME nor HOME is set".into()) };
    let state = match State::open(root) {
        Ok(state) => state,
        Err(e) => return without(e.to_string()),
    };
    if let Some(rank) = rank.filter(|rank| !rank.leads()) {
        let (journal, past) = state.join(identity, rank.number, usage.choice.restart)?;
        return Ok(Some((None, journal, past)));
    }
    let begin = Begin {
        command: usage.command.clone(),
        directory: std::env::current_dir().ok().map(|directory| directory.into_os_string().into_vec()),
        arguments: usage.arguments.clone(),
        spec: usage.spec.clone(),
        restart: usage.choice.restart,
        wait: usage.choice.wait.then_some(WAIT_MOST),
        cancel: cancel.clone(),
    };
    let directory = match state.begin(identity, begin) {
        Ok(directory) => directory,
        Err(e) if matches!(e.kind(), ErrorKind::Busy | ErrorKind::Cancelled) => return Err(e),
        Err(e) => return without(e.to_string()),
    };
    // It may name files that are torn: going on without it would take them for whole.
    let (journal, past) = directory.journal()?;
    Ok(Some((Some(directory), journal, past)))
}

/// Counts the sources that were not there into the last report that is shown.
struct WithMissing {
    inner: Arc<dyn Observer>,
    missing: Vec<Error>,
}

impl Observer for WithMissing {
    fn on(&self, event: &Event<'_>) {
        match event {
            Event::Finished(report) => {
                let mut whole = (*report).clone();
                for e in &self.missing {
                    whole.fail(e);
                }
                self.inner.on(&Event::Finished(&whole));
            }
            Event::Started { .. } => {
                self.inner.on(event);
                for error in &self.missing {
                    self.inner.on(&Event::Failed { error, kind: Kind::Unknown });
                }
            }
            other => self.inner.on(other),
        }
    }

    fn flush(&self, most: Duration) {
        self.inner.flush(most);
    }

    fn wants(&self, action: haul_core::event::Action) -> bool {
        self.inner.wants(action)
    }

    fn names(&self) -> fn(haul_core::hint::Choice) -> &'static str {
        self.inner.names()
    }
}

/// What is left of a finished job.
fn record(report: &Report) -> String {
    format!(
        "files {}\nbytes {}\nkept {}\ndeleted {}\nseconds {:.3}\nlimited by {}\n",
        report.made.files,
        report.bytes,
        report.kept.total(),
        report.deleted.total(),
        report.elapsed.as_secs_f64(),
        report.limited_by
    )
}

/// For the tests of resume: `HAUL_TEST_KILL_AT_RECORD=K` ends the program as kill -9 would, right after the K-th
/// record of this run's journal.
fn with_test_hook(journal: Journal) -> Journal {
    let Some(at) = std::env::var("HAUL_TEST_KILL_AT_RECORD").ok().and_then(|k| k.parse::<u64>().ok()) else { return journal };
    journal.with_hook(Box::new(move |n| {
        if n == at {
            let _gone = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }))
}
