//! What a run prints, as the flags say, and which run it is.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use haul_core::event::Action;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::rank_lines::Lines;

/// Seconds between progress lines where there is no terminal and no `--progress=SECS`.
pub const PROGRESS_DEFAULT: Duration = Duration::from_secs(30);

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

    pub(super) fn local(&self, at: Timestamp) -> String {
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
    /// Modification times are not preserved.
    pub no_times: bool,
    pub json: bool,
    pub dry: bool,
    /// `--stat`.
    pub stat: bool,
    /// Standard error is a terminal that `can_draw`; without effect with `json` and `quiet`.
    pub live: bool,
    /// One progress line this often where there is no live view, and in the log; zero for none.
    pub progress: Duration,
    /// One line as soon as the totals are known, where there is no live view.
    pub shows_totals: bool,
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
    /// The title of a rank that follows another: it prints what concerns single names, and the first rank the rest.
    pub follower: Option<String>,
    /// Of a rank among others.
    pub lines: Option<Arc<Lines>>,
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            mode: Mode::Copy,
            quiet: false,
            verbose: 0,
            itemize: false,
            no_times: false,
            json: false,
            dry: false,
            stat: false,
            live: false,
            progress: PROGRESS_DEFAULT,
            shows_totals: false,
            color: false,
            fold: None,
            unicode: false,
            names: None,
            log: None,
            failed_to: None,
            lists: Vec::new(),
            command: None,
            follower: None,
            lines: None,
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
    /// A source that cannot be read again: nothing is resumed.
    pub starts_over: bool,
    /// When a deadline stops it, since its beginning.
    pub stops: Option<std::time::Duration>,
}
