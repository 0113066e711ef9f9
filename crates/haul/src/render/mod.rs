//! Everything that a run prints. Events of the engine come in from any thread; what goes where:
//!
//! | | standard output | standard error |
//! |---|---|---|
//! | plain | plan, items, progress lines, summary | live view, failures, warnings |
//! | `--json` | one event a line | the rest |
//! | check's plain names | names, nothing else | the rest |
//!
//! One mutex guards all of it, so that lines never mix and the live view is taken away before anything else
//! is written. Without `-v`, `-i`, `-n`, `--json` and check no work is done for a single entry.

pub mod json;
mod lines;
pub mod listing;
mod live;
mod output;
mod summary;
mod text;

#[cfg(test)]
pub mod fixtures;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haul_core::entry::{Entry, Kind};
use haul_core::error::{Error, ErrorKind};
use haul_core::event::{Action, Event, Observer, Progress, Warning, Why};
use haul_core::report::{Ending, Report};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use json::Record;
pub use json::{VERSION as JSON_VERSION, harmless};
use lines::Around;
pub use lines::retried;
use live::Screen;
pub use live::Size;
use output::{Names, Sink};
pub use output::{Outputs, can_draw};
use summary::Context;
pub use summary::command_line;
pub use text::{columns, fold, things, utf8_locale};

/// Seconds between progress lines where there is no terminal and no `--progress=SECS`.
pub const PROGRESS_DEFAULT: Duration = Duration::from_secs(30);

/// Failures written out while the run goes on; beyond that they are counted, unless `-v` asks for all.
const FAILURES_INLINE: u64 = 20;

/// A `progress` record of `--json` comes no more often than this.
const JSON_PROGRESS: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Copy,
    Sync,
    Check,
}

/// Where the time of day comes from.
pub struct Clock {
    pub now: Box<dyn Fn() -> Timestamp + Send + Sync>,
    pub zone: TimeZone,
}

impl Clock {
    pub fn system() -> Self {
        Clock { now: Box::new(Timestamp::now), zone: TimeZone::system() }
    }

    pub fn utc(&self) -> String {
        format!("{:.3}", (self.now)())
    }

    fn local(&self, at: Timestamp) -> String {
        at.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S %:z").to_string()
    }
}

/// Where long lines are folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    Terminal,
    Columns(usize),
}

/// `--failed-to FILE`.
pub struct FailedTo {
    pub file: File,
    /// As the summary names it.
    pub name: String,
    /// `--from0`.
    pub zero: bool,
}

pub struct Options {
    pub mode: Mode,
    /// `-q`: failures and warnings only.
    pub quiet: bool,
    /// Times `-v` was given: 1 names what is done, 2 also why, what is left, and what is tuned.
    pub verbose: u8,
    /// `-i`.
    pub itemize: bool,
    pub json: bool,
    pub dry: bool,
    /// `--stat`.
    pub stat: bool,
    /// Standard error is a terminal that `can_draw`; without effect with `json` and `quiet`.
    pub live: bool,
    /// One progress line this often where there is no live view, and in the log; zero for none.
    pub progress: Duration,
    /// Colour on standard error.
    pub color: bool,
    /// Lines of the plan and the summary are folded at the width of the terminal that standard output is, or
    /// at this many columns; `None` leaves them long.
    pub fold: Option<Fold>,
    /// The locale is UTF-8: see `utf8_locale`.
    pub unicode: bool,
    /// check: only the names of what is missing or differs, as `--files-from` takes them; `true` ends
    /// them with a zero byte.
    pub names: Option<bool>,
    /// Opened for appending.
    pub log: Option<File>,
    pub failed_to: Option<FailedTo>,
    /// check: names of what is missing, extra or differs, each in a file of its own.
    pub lists: Vec<(Action, FailedTo)>,
    /// See `command_line`.
    pub command: Option<String>,
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            mode: Mode::Copy,
            quiet: false,
            verbose: 0,
            itemize: false,
            json: false,
            dry: false,
            stat: false,
            live: false,
            progress: PROGRESS_DEFAULT,
            color: false,
            fold: None,
            unicode: false,
            names: None,
            log: None,
            failed_to: None,
            lists: Vec::new(),
            command: None,
            clock: Clock::system(),
        }
    }
}

/// Which run it is: for the event `started` and the summary.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The job's id, as `haul jobs` has it; none without a journal.
    pub job: Option<String>,
    pub sources: Vec<String>,
    pub destination: Option<String>,
    /// One end at least is another machine.
    pub network: bool,
}

/// The terminal, the job log and the JSON stream of one run.
pub struct Renderer {
    options: Options,
    /// Whether there are lists of check.
    lists: bool,
    logs: bool,
    state: Mutex<State>,
}

struct State {
    run: Run,
    out: Sink,
    err: Sink,
    log: Option<Sink>,
    failed_to: Option<Listing>,
    lists: Vec<(Action, Listing)>,
    /// Of check.
    names: Names,
    screen: Screen,
    size: Box<dyn Fn() -> Size + Send>,
    stdout_gone: Option<Box<dyn Fn() + Send>>,
    started: Timestamp,
    last: Option<Progress>,
    next_line: Duration,
    next_json: Duration,
    retries: u64,
    failures: u64,
    /// Sinks whose failure was told.
    told: Vec<&'static str>,
    finished: bool,
}

/// `--failed-to FILE`, under way.
struct Listing {
    names: Names,
    sink: Sink,
    title: String,
}

impl Renderer {
    pub fn new(mut options: Options, outputs: Outputs) -> Arc<Self> {
        options.live &= !options.json && !options.quiet;
        let log = options.log.take().map(|file| Sink::new(Box::new(file)));
        let listing = |to: FailedTo| Listing { names: Names::new(to.zero), sink: Sink::new(Box::new(to.file)), title: to.name };
        let failed_to = options.failed_to.take().map(listing);
        let lists: Vec<_> = std::mem::take(&mut options.lists).into_iter().map(|(action, to)| (action, listing(to))).collect();
        let (has_lists, logs) = (!lists.is_empty(), log.is_some());
        let names = Names::new(options.names == Some(true));
        let state = State {
            out: Sink::new(outputs.stdout),
            err: Sink::new(outputs.stderr),
            log,
            failed_to,
            lists,
            names,
            screen: Screen::default(),
            size: outputs.size,
            stdout_gone: Some(outputs.stdout_gone),
            started: (options.clock.now)(),
            last: None,
            next_line: options.progress,
            next_json: Duration::ZERO,
            retries: 0,
            failures: 0,
            told: Vec::new(),
            finished: false,
            run: Run::default(),
        };
        Arc::new(Renderer { options, lists: has_lists, logs, state: Mutex::new(state) })
    }

    /// What a panic elsewhere left behind is still good enough to print.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says which run follows.
    pub fn begin(&self, run: Run) {
        self.state().run = run;
    }

    /// A message of the program itself, on standard error and in the log.
    pub fn say(&self, text: &str) {
        let state = &mut *self.state();
        self.error_line(state, "haul: ", "", text);
        self.sync(state);
    }

    /// Whether something was lost that the user asked for in writing: a list, or what is on standard output where that is
    /// the result. The summary of a copy is not. A reader that has gone wants no more.
    pub fn has_lost_output(&self) -> bool {
        let state = self.state();
        let is_result = self.options.json || self.options.dry || self.options.mode == Mode::Check;
        let out = state.out.failure().filter(|e| is_result && e.kind() != io::ErrorKind::BrokenPipe);
        out.is_some() || state.failed_to.iter().chain(state.lists.iter().map(|(_, list)| list)).any(|list| list.sink.failure().is_some())
    }

    /// The moment in one line, whatever `-q` says: SIGUSR1.
    pub fn show_progress(&self) {
        let state = &mut *self.state();
        let line = match &state.last {
            Some(moment) => lines::progress(moment, self.around(state)),
            None => "no progress yet".into(),
        };
        self.erase(state);
        state.out.flush();
        state.err.line(&line);
        self.sync(state);
    }

    /// Leaves the terminal as it was, for a caller that is about to end the process without waiting for
    /// anyone; does nothing when another thread is printing at this moment.
    pub fn leave(&self) {
        if let Ok(mut state) = self.state.try_lock() {
            let state = &mut *state;
            state.finished = true;
            self.erase(state);
            self.sync(state);
        }
    }

    fn around(&self, state: &State) -> Around {
        Around { retries: state.retries, check: self.options.mode == Mode::Check, network: state.run.network }
    }

    fn width(&self, state: &State) -> Option<usize> {
        self.options.fold.map(|fold| match fold {
            Fold::Terminal => (state.size)().columns,
            Fold::Columns(columns) => columns,
        })
    }

    /// Whether lines for people leave standard output to a machine.
    fn people_read_stderr(&self) -> bool {
        self.options.json || self.options.names.is_some()
    }

    fn erase(&self, state: &mut State) {
        if state.screen.is_drawn() {
            let sequence = state.screen.erase((state.size)());
            state.err.bytes(sequence.as_bytes());
            state.err.flush();
        }
    }

    /// A line for people that is no failure.
    fn line(&self, state: &mut State, text: &str) {
        self.erase(state);
        if self.people_read_stderr() {
            state.err.line(text);
        } else {
            state.out.line(text);
        }
    }

    /// A failure or a warning: whatever was printed before it stands before it, also where both streams are one file.
    fn error_line(&self, state: &mut State, lead: &str, color: &str, text: &str) {
        self.log(state, text);
        self.erase(state);
        state.out.flush();
        if self.options.color && !color.is_empty() {
            state.err.line(&format!("\x1b[{color}m{lead}\x1b[0m{text}"));
        } else {
            state.err.line(&format!("{lead}{text}"));
        }
        state.err.flush();
    }

    fn log(&self, state: &mut State, text: &str) {
        if let Some(log) = &mut state.log {
            let time = self.options.clock.local((self.options.clock.now)());
            log.line(&format!("{time}  {text}"));
        }
    }

    fn record(&self, state: &mut State, record: &Record<'_>) {
        if self.options.json {
            state.out.line(&json::line(record, &self.options.clock.utc()));
        }
    }

    /// Writes what is held back and tells, once each, of what could not be written.
    fn sync(&self, state: &mut State) {
        state.out.flush();
        if let Some(list) = &mut state.failed_to {
            list.sink.flush();
        }
        for (_, list) in &mut state.lists {
            list.sink.flush();
        }
        if let Some(log) = &mut state.log {
            log.flush();
        }
        let closed = state.out.failure().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe);
        if closed && let Some(gone) = state.stdout_gone.take() {
            gone();
        }
        let failures = [
            ("standard output", state.out.failure().filter(|_| !closed)),
            ("--log", state.log.as_ref().and_then(Sink::failure)),
            ("--failed-to", state.failed_to.as_ref().and_then(|list| list.sink.failure())),
            ("the lists of check", state.lists.iter().find_map(|(_, list)| list.sink.failure())),
        ];
        let told = failures.map(|(what, failure)| (what, failure.map(|e| Error::io(io::Error::from(e.kind()), "write").reason())));
        for (what, reason) in told {
            if let Some(reason) = reason
                && !state.told.contains(&what)
            {
                state.told.push(what);
                self.erase(state);
                state.err.line(&format!("haul: {what}: write: {reason}"));
            }
        }
        state.err.flush();
    }

    fn started(&self, state: &mut State, sentence: &str) {
        state.started = (self.options.clock.now)();
        let plan = lines::plain(sentence);
        let run = std::mem::take(&mut state.run);
        let started = Record::Started {
            version: json::VERSION,
            plan: sentence,
            dry: self.options.dry,
            job: run.job.as_deref(),
            sources: &run.sources,
            destination: run.destination.as_deref(),
        };
        self.record(state, &started);
        state.run = run;
        self.log(state, &plan);
        if !self.options.quiet {
            for line in text::fold(&plan, self.width(state).unwrap_or(usize::MAX), 2) {
                self.line(state, &line);
            }
        }
        self.sync(state);
    }

    fn item(&self, state: &mut State, action: Action, why: Why, entry: &Entry, dry: bool) {
        let options = &self.options;
        if options.json {
            self.record(state, &Record::Item(json::Item::of(action, why, entry, dry)));
        }
        if state.log.is_some() {
            self.log(state, &lines::explained(action, why, entry));
        }
        for (_, list) in state.lists.iter_mut().filter(|(listed, _)| *listed == action) {
            list.names.put(&entry.name.path(), &mut list.sink);
        }
        let differs = matches!(action, Action::Missing | Action::Differs | Action::Extra);
        if options.names.is_some() {
            // What is only at the destination is nothing that could be copied.
            if matches!(action, Action::Missing | Action::Differs) {
                self.name(state, entry);
            }
        } else if options.json || options.quiet {
        } else if options.itemize {
            self.line(state, &lines::itemised(action, why, entry));
        } else if options.dry || options.verbose > 1 {
            self.line(state, &lines::explained(action, why, entry));
        } else if options.verbose > 0 || differs {
            self.line(state, &lines::done(action, entry));
        }
    }

    fn name(&self, state: &mut State, entry: &Entry) {
        self.erase(state);
        state.names.put(&entry.name.path(), &mut state.out);
    }

    fn failed(&self, state: &mut State, error: &Error, kind: Kind) {
        state.failures += 1;
        self.record(state, &Record::Failed(json::Failed::of(error, kind)));
        if let (Some(list), Some(path)) = (&mut state.failed_to, error.path())
            && error.kind() != ErrorKind::Vanished
        {
            list.names.put(path, &mut list.sink);
        }
        let told = lines::failure(error);
        if self.options.verbose > 0 || state.failures <= FAILURES_INLINE {
            for (n, line) in told.iter().enumerate() {
                self.error_line(state, if n == 0 { "haul: " } else { "" }, if n == 0 { "31" } else { "" }, line);
            }
            return;
        }
        for line in &told {
            self.log(state, line);
        }
        if state.failures == FAILURES_INLINE + 1 {
            let all = match (&state.failed_to, &state.log) {
                (Some(list), _) => format!("all names are in {}", list.title),
                (None, Some(_)) => "the log has all of them".into(),
                (None, None) => "--failed-to FILE or --log FILE records all".into(),
            };
            self.erase(state);
            state.err.line(&format!("haul: further errors are only counted; {all}"));
        }
    }

    fn warned(&self, state: &mut State, warning: &Warning) {
        if self.options.json {
            self.record(state, &Record::Warned(json::Warned::of(warning)));
        }
        let text = lines::warning(warning);
        // The live view shows a stall while it lasts.
        if self.options.live && matches!(warning, Warning::Stalled { .. }) {
            self.log(state, &text);
        } else {
            self.error_line(state, "haul: warning: ", "33", &text);
        }
    }

    fn progress(&self, state: &mut State, moment: &Progress) {
        let around = self.around(state);
        if self.options.json && moment.elapsed >= state.next_json {
            let period = if self.options.progress.is_zero() { JSON_PROGRESS } else { self.options.progress.min(JSON_PROGRESS) };
            state.next_json = moment.elapsed + period;
            self.record(state, &Record::Progress(json::Moment::of(moment, around.retries)));
        }
        let period = self.options.progress;
        if !period.is_zero() && moment.elapsed >= state.next_line {
            while state.next_line <= moment.elapsed {
                state.next_line += period;
            }
            let line = lines::progress(moment, around);
            self.log(state, &line);
            if !self.options.live && !self.options.quiet {
                self.line(state, &line);
            }
        }
        if self.options.live && !state.finished {
            state.out.flush();
            let size = (state.size)();
            let frame = live::frame(moment, around, size, self.options.unicode);
            let drawing = state.screen.draw(&frame, size);
            state.err.bytes(drawing.as_bytes());
        }
        state.last = Some(moment.clone());
        self.sync(state);
    }

    fn finished(&self, state: &mut State, report: &Report) {
        state.finished = true;
        self.erase(state);
        if self.options.json {
            self.record(state, &Record::Finished(Box::new(json::Finished::of(report))));
        }
        let clock = &self.options.clock;
        let context = Context {
            mode: self.options.mode,
            stat: self.options.stat,
            started: clock.local(state.started),
            completed: clock.local((clock.now)()),
            command: self.options.command.clone(),
            failed_to: state.failed_to.as_ref().map(|list| list.title.clone()),
            width: self.width(state),
            network: state.run.network,
        };
        for line in summary::summary(report, &context) {
            self.log(state, &line);
            if !self.options.quiet {
                self.line(state, &line);
            }
        }
        if self.options.quiet && report.ending != Ending::Complete {
            self.error_line(state, "haul: ", "", summary::ended(report.ending));
        }
        let left_out = state.failed_to.as_ref().map_or(0, |list| list.names.left_out())
            + state.names.left_out()
            + state.lists.iter().map(|(_, list)| list.names.left_out()).sum::<u64>();
        if left_out > 0 {
            let text =
                format!("{} with a newline in the name omitted from the list; --from0 includes them", text::things(left_out, "entry"));
            self.error_line(state, "haul: warning: ", "33", &text);
        }
        self.sync(state);
    }
}

impl Observer for Renderer {
    fn names(&self) -> fn(haul_core::hint::Choice) -> &'static str {
        crate::hints::option
    }

    fn on(&self, event: &Event<'_>) {
        let state = &mut *self.state();
        match event {
            Event::Started { sentence } => self.started(state, sentence),
            Event::Item { action, why, entry, dry } => self.item(state, *action, *why, entry, *dry),
            Event::Failed { error, kind } => self.failed(state, error, *kind),
            Event::Retried { error, again } => {
                state.retries += 1;
                self.record(state, &Record::Retried(json::Retried::of(error, *again)));
                let line = lines::retried(error, *again);
                if self.options.verbose > 0 {
                    self.error_line(state, "haul: ", "", &line);
                } else {
                    self.log(state, &line);
                }
            }
            Event::Refused { entry, refused } => {
                self.record(state, &Record::Refused(json::Refused::of(entry, *refused)));
                let line = lines::refused(entry, *refused);
                if self.options.verbose > 1 {
                    self.error_line(state, "haul: ", "", &line);
                } else if self.options.verbose > 0 {
                    self.log(state, &line);
                }
            }
            Event::Warned(warning) => self.warned(state, warning),
            Event::Tuned(limits) => {
                self.record(state, &Record::Tuned { workers: limits.workers });
                if self.options.verbose > 1 && !self.options.quiet {
                    self.line(state, &format!("tuned: {}", text::things(u64::from(limits.workers), "worker")));
                }
            }
            Event::Progress(moment) => self.progress(state, moment),
            Event::Finished(report) => self.finished(state, report),
        }
    }

    fn wants(&self, action: Action) -> bool {
        let o = &self.options;
        match action {
            Action::Keep => o.verbose > 1 && (o.json || !o.quiet),
            Action::Missing | Action::Extra | Action::Differs => {
                self.lists || self.logs || o.json || o.names.is_some() || !o.quiet || o.verbose > 0
            }
            _ => self.logs || o.json || o.verbose > 0 || !o.quiet && (o.itemize || o.dry),
        }
    }
}
