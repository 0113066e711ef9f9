//! One run of the engine with everything round it: display, journal, signals, tuner.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use haul_core::cancel::{Cancel, Stop};
use haul_core::engine::{self, Setup};
use haul_core::entry::{Kind, MetaMask};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::event::{Action, Event, Observer, Warning};
use haul_core::job::{Job, Mode};
use haul_core::journal::{Begin, Identity, JobDir, Journal, Progress as Past, State, default_root};
use haul_core::report::{Ending, Report};
use haul_core::rlimit;
use haul_core::verdict::Ends;
use haul_local::{trusted, without_mask};
use rustix::fs::OFlags;

use crate::exit::Exit;
use crate::figures::Figures;
use crate::flags::Global;
use crate::flags::copy::{CopyOutput, JournalChoice};
use crate::flags::global::Progress;
use crate::ranks::Ranks;
use crate::ranks::lines::Print;
use crate::render::{self, Renderer};
use crate::signals;
use crate::transfer::workers;

/// What a command says of its output.
pub struct RenderChoice<'a> {
    pub dry: bool,
    pub output: &'a CopyOutput,
    pub names: Option<bool>,
    /// Modification times are not preserved.
    pub no_times: bool,
    /// `--missing-to` and its like.
    pub lists: Vec<(Action, PathBuf)>,
    pub zero: bool,
    pub mode: render::Mode,
    /// Text must not go there.
    pub data_on_stdout: bool,
    pub ranks: Option<&'a Ranks>,
}

#[derive(Default)]
pub struct JournalUse {
    pub choice: JournalChoice,
    /// The text of the transfer's spec.
    pub spec: String,
    /// A dry run and a check keep none.
    pub kept: bool,
}

/// What a run was.
pub struct Ran {
    pub report: Report,
    /// A journal of it is there, for the next run to resume.
    pub kept: bool,
}

pub struct Session<'a> {
    pub renderer: Arc<Renderer>,
    /// Prints what other ranks send, while this is here.
    _print: Option<Arc<Print>>,
    ranks: Option<&'a Ranks>,
    quiet: bool,
    state_dir: Option<PathBuf>,
    /// A job's deadline counts from here.
    opened: Instant,
    /// The command line, for the journal.
    argv: Vec<OsString>,
}

fn appending(path: &Path, op: &'static str) -> Result<File> {
    trusted::open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND, op)
}

impl<'a> Session<'a> {
    pub fn open(global: &Global, choice: RenderChoice<'a>) -> Result<Self> {
        // Files that other ranks than the first write have their number behind the name.
        let follower = choice.ranks.filter(|ranks| !ranks.leads());
        let own = |path: &Path| match follower {
            None => path.to_path_buf(),
            Some(ranks) => [path.as_os_str(), format!(".{}", ranks.rank()).as_ref()].iter().copied().collect::<OsString>().into(),
        };
        let list = |path: &PathBuf| {
            let path = &own(path);
            let file = trusted::open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC, "open")?;
            Ok(render::FailedTo { file, name: haul_core::entry::show(path.as_os_str().as_bytes()), zero: choice.zero })
        };
        let failed_to = choice.output.failed_to.as_ref().map(list).transpose()?;
        let lists = choice.lists.iter().map(|(action, path)| Ok((*action, list(path)?))).collect::<Result<_>>()?;
        let term = std::env::var("TERM").ok();
        let live = std::io::IsTerminal::is_terminal(&std::io::stderr()) && render::can_draw(term.as_deref());
        let (progress, live) = match global.progress {
            Progress::Auto => (render::PROGRESS_DEFAULT, live),
            Progress::On => (render::PROGRESS_DEFAULT, live),
            Progress::Every(every) => (every, false),
        };
        let options = render::Options {
            mode: choice.mode,
            quiet: global.quiet,
            verbose: global.verbose,
            itemize: choice.output.itemize,
            no_times: choice.no_times,
            json: global.json,
            dry: choice.dry,
            stat: choice.output.stat,
            live: live && follower.is_none(),
            progress,
            shows_totals: global.progress != Progress::Auto,
            color: global.color && std::io::IsTerminal::is_terminal(&std::io::stderr()),
            fold: folds(),
            unicode: render::utf8_locale(|name| std::env::var(name).ok()),
            names: choice.names,
            log: global.log.as_deref().map(|path| appending(&own(path), "open log")).transpose()?,
            follower: follower.map(Ranks::title),
            lines: choice.ranks.map(|ranks| ranks.lines().clone()),
            failed_to,
            lists,
            command: Some(render::command_line(global.argv.iter().map(|a| a.as_bytes()))),
            ..render::Options::default()
        };
        let renderer = Renderer::new(options, render::Outputs::of(choice.data_on_stdout, choice.ranks.map(Ranks::lines)));
        let print = choice.ranks.filter(|ranks| ranks.leads()).map(|ranks| {
            let renderer = renderer.clone();
            let print: Arc<Print> = Arc::new(move |stream, lines| renderer.pass_on(stream, lines));
            ranks.lines().print_by(&print);
            print
        });
        Ok(Session {
            renderer,
            _print: print,
            ranks: choice.ranks,
            quiet: global.quiet || follower.is_some(),
            state_dir: global.state_dir.clone(),
            opened: Instant::now(),
            argv: global.argv.clone(),
        })
    }

    /// Lines about the run, before it begins.
    pub fn note(&self, notes: &[String]) {
        if !self.quiet {
            notes.iter().for_each(|note| self.renderer.say(note));
        }
    }

    /// How a run ends that has a report.
    pub fn exit(&self, report: &Report, mode: Mode) -> Exit {
        let exit = Exit::of_report(report, mode);
        if self.renderer.has_lost_output() { exit.or_worse(Exit::Io) } else { exit }
    }

    /// Runs the job. `missing` are sources that could not even be begun with; they count as failures.
    pub fn run(&self, mut job: Job, sentence: &str, identity: &Identity, usage: JournalUse, missing: Vec<Error>) -> Result<Ran> {
        let cancel = Cancel::default();
        let show_progress = Arc::new(AtomicBool::new(false));
        let _listening = listen(cancel.clone(), show_progress.clone(), self.renderer.clone())?;
        let kept = if usage.kept { self.journal(identity, &usage, &cancel)? } else { None };
        let (directory, journal, past) = match kept {
            Some((directory, journal, past)) => (directory.map(Arc::new), journal, past),
            None => (None, Journal::none(), Past::default()),
        };
        // The engine counts from its own beginning, which --wait may have put off for days.
        job.deadline = job.deadline.map(|deadline| deadline.saturating_sub(self.opened.elapsed()));
        if let Some(ranks) = self.ranks.filter(|ranks| ranks.leads()) {
            ranks.go(directory.is_some())?;
        }
        let journal = with_test_hook(journal);
        let streams = job.roots.iter().any(|root| root.store.caps().streams);
        self.renderer.begin(render::Run {
            job: directory.as_ref().map(|directory| directory.id()),
            sources: identity.sources.clone(),
            destination: Some(identity.target.clone()),
            stops: job.deadline,
            network: job.target.caps().remote || job.roots.iter().any(|root| root.store.caps().remote),
            starts_over: streams,
        });
        let processors = crate::allocation::processors();
        let tuner = workers::tuner(&job, processors);
        let mut sentence = sentence.to_string();
        if !past.is_empty() && !streams {
            sentence.push_str(if usage.choice.restart { ", starting over" } else { ", resuming an earlier run" });
        }
        let taken: Arc<Mutex<Option<Error>>> = Arc::default();
        let (beat, noted, stop) = (directory.clone(), taken.clone(), cancel.clone());
        let heartbeat: Box<dyn FnMut() + Send> = Box::new(move || {
            // Another node has taken this run for dead: from here on the job is that one's.
            if let Some(Err(e)) = beat.as_ref().map(|directory| directory.heartbeat(SystemTime::now())) {
                *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
                stop.set(Stop::Failure);
            }
        });
        job.progress = Duration::from_secs(30);
        let followed = self.ranks.filter(|ranks| usage.kept && !ranks.leads()).and_then(|_| self.state_root());
        let state = directory.as_ref().and_then(|directory| directory.path().ancestors().nth(2)).map(Path::to_path_buf);
        job.state = state.or(followed).and_then(|state| {
            let facts = std::fs::metadata(state).ok()?;
            Some((std::os::unix::fs::MetadataExt::dev(&facts), std::os::unix::fs::MetadataExt::ino(&facts)))
        });
        let spill = directory.as_ref().map_or_else(std::env::temp_dir, |d| d.path().to_path_buf());
        let had_missing = missing.len() as u64;
        let observer: Arc<dyn Observer> =
            if missing.is_empty() { self.renderer.clone() } else { Arc::new(WithMissing { inner: self.renderer.clone(), missing }) };
        let dry = job.dry;
        let ends = job.roots.first().map(|root| Ends::of(root.store.place(), job.target.place())).unwrap_or_default();
        let fixed = job.workers.is_some();
        let setup = Setup {
            observer,
            journal,
            past,
            cancel,
            tuner,
            most_workers: job.workers.unwrap_or(workers::MOST),
            processors,
            spill,
            heartbeat,
            sentence,
            show_progress,
            team: self.ranks.map(Ranks::team),
        };
        // Modes are the source's, exactly; directories on the way to the destination are made by now.
        let mut report = if job.keep.has(MetaMask::MODE) { without_mask(|| engine::run(job, setup))? } else { engine::run(job, setup) };
        report.failed += had_missing;
        if had_missing > 0 {
            report.failed_kinds.push(ErrorKind::NotFound);
        }
        self.renderer.leave();
        let kept = directory.is_some();
        if let Some(directory) = directory.and_then(Arc::into_inner) {
            let complete = report.ending == Ending::Complete && report.failed == 0;
            let figures = Figures::of(&report, &ends, (report.processors(processors), fixed), SystemTime::now());
            // For `haul why` only: a run is no worse without them.
            let _noted = directory.note(&figures.text());
            if !complete || dry {
                directory.keep();
            } else if let Err(e) = directory.finish(&record(&report)) {
                // All is copied; the next run finds that out by itself.
                self.renderer.on(&Event::Warned(&Warning::Note(e.to_string())));
            }
        }
        let taken = taken.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.map_or(Ok(Ran { report, kept }), Err)
    }

    fn state_root(&self) -> Option<PathBuf> {
        self.state_dir.clone().or_else(|| default_root(|name| std::env::var_os(name)))
    }

    /// The job's journal. A state directory that cannot be had is a warning: the copy matters more.
    fn journal(&self, identity: &Identity, usage: &JournalUse, cancel: &Cancel) -> Result<Option<(Option<JobDir>, Journal, Past)>> {
        let without = |reason: String| {
            self.renderer.on(&Event::Warned(&Warning::NoJournal(reason)));
            Ok(None)
        };
        let Some(root) = self.state_root() else { return without("neither HAUL_STATE_DIR, XDG_STATE_HOME nor HOME is set".into()) };
        let state = match State::open(root) {
            Ok(state) => state,
            Err(e) => return without(e.to_string()),
        };
        if let Some(ranks) = self.ranks.filter(|ranks| !ranks.leads()) {
            let (journal, past) = state.join(identity, ranks.rank(), usage.choice.restart)?;
            return Ok(Some((None, journal, past)));
        }
        let wait = usage.choice.wait.then_some(Duration::from_secs(7 * 24 * 3600));
        let directory = std::env::current_dir().ok().map(|directory| directory.into_os_string().into_vec());
        let begin = Begin {
            command: command_from_anywhere(directory.as_deref(), &self.argv),
            directory,
            arguments: self.argv.iter().map(|word| word.as_bytes().to_vec()).collect(),
            spec: usage.spec.clone(),
            restart: usage.choice.restart,
            wait,
            cancel: cancel.clone(),
        };
        let directory = match state.begin(identity, begin) {
            Ok(directory) => directory,
            Err(e) if matches!(e.kind(), ErrorKind::Busy | ErrorKind::Cancelled) => return Err(e),
            Err(e) => return without(e.to_string()),
        };
        match directory.journal() {
            Ok((journal, past)) => Ok(Some((Some(directory), journal, past))),
            // It may name files that are torn: going on without it would take them for whole.
            Err(e) => Err(e),
        }
    }
}

/// A terminal is as wide as it says; a pipe only where the environment says so, as `COLUMNS=80 haul ...` does.
fn folds() -> Option<render::Fold> {
    if std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        return Some(render::Fold::Terminal);
    }
    let columns = std::env::var("COLUMNS").ok()?.parse().ok()?;
    (columns >= 40).then_some(render::Fold::Columns(columns))
}

/// The command line as `haul jobs` shows it: its names are relative to the directory in which it was given.
fn command_from_anywhere(directory: Option<&[u8]>, argv: &[OsString]) -> String {
    let command = render::command_line(argv.iter().map(|a| a.as_bytes()));
    match directory {
        Some(directory) => format!("cd {} && {command}", render::command_line(std::iter::once(directory))),
        None => command,
    }
}

/// Counts the sources that were not there into the last report that is shown.
struct WithMissing {
    inner: Arc<Renderer>,
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

/// Signals are heard while this lives: not by a run that has ended, where others follow in the same process.
struct Listening(signal_hook::iterator::Handle);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// SIGINT, SIGTERM and SIGHUP stop the run, a second one at once; SIGUSR1 shows progress. Inherited ignores stay.
fn listen(cancel: Cancel, show_progress: Arc<AtomicBool>, renderer: Arc<Renderer>) -> Result<Option<Listening>> {
    use signal_hook::consts::SIGUSR1;
    let wanted = [signals::stopping(), signals::heeded(&[SIGUSR1])].concat();
    let Ok(mut signals) = signal_hook::iterator::Signals::new(wanted) else { return Ok(None) };
    let listening = Listening(signals.handle());
    let hear = move || {
        let mut stopping = false;
        for signal in signals.forever() {
            if signal == SIGUSR1 {
                // Apart: whoever prints at this moment may be stuck, and the next signal must be heard all the same.
                let (renderer, show_progress) = (renderer.clone(), show_progress.clone());
                let _not_shown = rlimit::spawn("show", move || {
                    renderer.show_progress();
                    show_progress.store(true, Ordering::Relaxed);
                });
            } else if stopping {
                renderer.leave();
                return signals::leave(Exit::Signal);
            } else {
                stopping = true;
                cancel.set(Stop::Signal);
                let renderer = renderer.clone();
                let words = "stopping; transferred data is kept (a second signal stops at once)";
                let _not_said = rlimit::spawn("show", move || renderer.say(words));
            }
        }
    };
    rlimit::spawn("signals", hear)?;
    Ok(Some(listening))
}
