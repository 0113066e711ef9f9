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

mod events;
pub mod json;
mod late;
mod lines;
pub mod listing;
mod live;
mod options;
mod output;
mod summary;

#[cfg(test)]
pub mod fixtures;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haul_core::error::Error;
use haul_core::event::{Action, Progress};
use jiff::Timestamp;

use crate::rank_lines::Stream;
use json::Record;
pub use json::{VERSION as JSON_VERSION, harmless};
use lines::Around;
pub use lines::retried;
use live::Screen;
pub use live::Size;
pub use options::{Clock, FailedTo, Fold, Mode, Options, PROGRESS_DEFAULT, Run};
use output::{Names, Sink};
pub use output::{Outputs, can_draw};
pub use summary::command_line;

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
    /// A line has said how much there is in all.
    totals: bool,
    next_line: Duration,
    next_json: Duration,
    late: late::Late,
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

impl Listing {
    /// Which names are where.
    fn contents(&self) -> String {
        let names = if self.names.left_out() > 0 { "all names without a newline" } else { "all names" };
        format!("{names} are in {}", self.title)
    }
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
            totals: false,
            next_json: Duration::ZERO,
            late: late::Late::default(),
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
        let state = &mut *self.state();
        state.late = late::Late::new(run.stops);
        state.run = run;
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

    /// Whole lines of another rank.
    pub fn pass_on(&self, stream: Stream, lines: &[u8]) {
        let state = &mut *self.state();
        self.erase(state);
        match stream {
            Stream::Out => state.out.bytes(lines),
            Stream::Err => {
                state.out.flush();
                state.err.bytes(lines);
            }
        }
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
        let own = self.options.follower.as_ref().filter(|_| !lead.is_empty()).map(|title| format!("{lead}{title}: "));
        let lead = own.as_deref().unwrap_or(lead);
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
}
