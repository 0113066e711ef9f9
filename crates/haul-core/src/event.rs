//! Events of a run, sent to an `Observer`: the terminal, the JSON log, a test. The engine never waits for an answer.

use std::time::Duration;

use crate::entry::{Entry, Kind, MetaMask};
use crate::error::Error;
use crate::forecast::Cost;
use crate::hint::Choice;
use crate::option_set::OptionSet;
use crate::report::Report;
pub use crate::report::Skipped;
use crate::retry::Again;
use crate::spread::Spread;
use crate::tune::Limits;

/// What is done to one name at the destination, or would be in a dry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    MakeDir,
    /// A file where nothing stood.
    Create,
    /// A file in the place of an older one.
    Replace,
    Link,
    HardLink,
    /// `mv` on one file system: with all that is below it.
    Rename,
    Special,
    /// Attributes only.
    SetMeta,
    Delete,
    /// Nothing: it is as it should be, or the policy leaves it.
    Keep,
    /// Not copied, and the run says so: a special file without -D.
    Skip,
    /// For `check`: only at the source, only at the destination, not the same.
    Missing,
    Extra,
    Differs,
}

impl Action {
    pub fn word(self) -> &'static str {
        match self {
            Action::MakeDir => "mkdir",
            Action::Create => "create",
            Action::Replace => "replace",
            Action::Link => "link",
            Action::HardLink => "hardlink",
            Action::Rename => "rename",
            Action::Special => "special",
            Action::SetMeta => "attributes",
            Action::Delete => "delete",
            Action::Keep => "keep",
            Action::Skip => "skip",
            Action::Missing => "missing",
            Action::Extra => "extra",
            Action::Differs => "differs",
        }
    }
}

/// The reason for an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    New,
    /// With the attributes that differ beside it, as in the next four.
    Size(MetaMask),
    Time(MetaMask),
    Content(MetaMask),
    Type,
    /// A symlink that points elsewhere, a device with another number.
    Target(MetaMask),
    /// With those that differ; none where that is not known.
    Attributes(MetaMask),
    /// Everything is copied, whether or not it differs.
    Forced(MetaMask),
    Same,
    /// The destination is newer.
    Newer,
    /// The policy on what exists and what does not.
    Policy,
    /// Not at the source, and to be deleted.
    Extra,
    /// Another source has the same name.
    Shadowed,
    /// A special file or a symlink that was not asked for, an unsafe one that was to be left out.
    NotAsked,
    /// Another name of a file that is copied already.
    SameFile,
    /// Written by a run that did not finish.
    Unfinished,
    /// It lacks what the options of the destination ask for.
    Options(OptionSet),
}

impl Why {
    /// What is set of the options of the destination.
    pub fn options(self) -> OptionSet {
        if let Why::Options(set) = self { set } else { OptionSet::NONE }
    }

    /// Whether a name is left whether or not it is right: that is no word on its content.
    pub fn is_policy(self) -> bool {
        matches!(self, Why::Policy | Why::Newer | Why::Shadowed)
    }

    /// Attributes that are known to differ.
    pub fn attributes(self) -> MetaMask {
        if let Why::Attributes(differ) = self { differ } else { MetaMask::NONE }
    }

    pub fn word(self) -> &'static str {
        match self {
            Why::New => "new",
            Why::Size(_) => "size",
            Why::Time(_) => "time",
            Why::Content(_) => "content",
            Why::Type => "type",
            Why::Target(_) => "target",
            Why::Attributes(_) => "attributes",
            Why::Forced(_) => "forced",
            Why::Same => "same",
            Why::Newer => "newer",
            Why::Policy => "policy",
            Why::Extra => "extra",
            Why::Shadowed => "shadowed",
            Why::NotAsked => "not-asked",
            Why::SameFile => "same-file",
            Why::Unfinished => "unfinished",
            Why::Options(_) => "options",
        }
    }
}

/// Something the user should know that is no failure of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The walk has found more than fits: bytes still to move, bytes free.
    SpaceShort { needed: u64, free: u64 },
    /// Inodes still to make, inodes free.
    InodesShort { needed: u64, free: u64 },
    /// The journal cannot be kept; the reason.
    NoJournal(String),
    /// Nothing has moved for this long; what is waited for.
    Stalled { seconds: u64, waiting_for: String },
    /// Deletes are left undone because something could not be listed or copied.
    DeletesSkipped(Skipped),
    /// Setuid and setgid bits are left out where the owner is not known to be the same at both ends, first of this name.
    SetIdLeft(Vec<u8>),
    /// Anything else, in words.
    Note(String),
}

impl Warning {
    pub fn word(&self) -> &'static str {
        match self {
            Warning::SpaceShort { .. } => "space-short",
            Warning::InodesShort { .. } => "inodes-short",
            Warning::NoJournal(_) => "no-journal",
            Warning::Stalled { .. } => "stalled",
            Warning::DeletesSkipped(_) => "deletes-skipped",
            Warning::SetIdLeft(_) | Warning::Note(_) => "note",
        }
    }
}

/// A moment of a run, taken by the supervisor between 5 and 10 times a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Since the run began.
    pub elapsed: Duration,
    /// Entries that the walk has found so far, of all kinds.
    pub found: u64,
    /// Files to move that the plan has found so far, and their bytes.
    pub planned_files: u64,
    pub planned_bytes: u64,
    /// Of those, done.
    pub done_files: u64,
    /// Bytes that passed, those of unfinished files included.
    pub moved_bytes: u64,
    /// Bytes that an earlier run had landed and that need not move again.
    pub resumed_bytes: u64,
    pub kept: u64,
    pub failed: u64,
    /// The totals are final.
    pub walk_done: bool,
    pub workers: u32,
    /// Bytes and files a second over about the last five seconds.
    pub rate_now: f64,
    pub files_now: f64,
    /// Of what is left, as far as is known.
    pub cost: Cost,
    /// The file in flight that began first.
    pub slowest: Option<InFlight>,
    /// What the run does now: "copying", "deleting", "verifying", "finishing".
    pub phase: &'static str,
    /// Nothing has moved and nothing was found for this long.
    pub idle: Duration,
    /// How the work is spread over several ranks so far.
    pub spread: Option<Spread>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct InFlight {
    /// Path below the root, raw bytes.
    pub path: Vec<u8>,
    pub size: u64,
    pub moved: u64,
    pub since: Duration,
    /// The operation that it is in: "open", "read", "write", "commit".
    pub doing: &'static str,
}

impl Progress {
    /// Bytes a second since the run began.
    pub fn rate_mean(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { self.moved_bytes as f64 / seconds } else { 0.0 }
    }

    /// Time left; `None` while the walk runs or nothing has moved.
    pub fn eta(&self) -> Option<Duration> {
        if !self.walk_done {
            return None;
        }
        let bytes = self.planned_bytes.saturating_sub(self.moved_bytes + self.resumed_bytes);
        self.cost.of(bytes, self.planned_files.saturating_sub(self.done_files))
    }
}

#[derive(Debug)]
pub enum Event<'a> {
    /// The run begins; one sentence says what it does.
    Started {
        sentence: &'a str,
    },
    /// One name is done, or would be done in a dry run.
    Item {
        action: Action,
        why: Why,
        entry: &'a Entry,
        dry: bool,
    },
    /// One name failed for good.
    Failed {
        error: &'a Error,
        kind: Kind,
    },
    /// A call failed and is made again.
    Retried {
        error: &'a Error,
        again: Again,
    },
    /// Attributes that the destination refused for this entry.
    Refused {
        entry: &'a Entry,
        refused: MetaMask,
    },
    Warned(&'a Warning),
    Tuned(Limits),
    Progress(&'a Progress),
    Finished(&'a Report),
}

/// Called from any thread; must be quick and must not call back.
pub trait Observer: Send + Sync {
    fn on(&self, event: &Event<'_>);

    /// How the observer names what the user can choose. One that wraps another forwards this.
    fn names(&self) -> fn(Choice) -> &'static str {
        Choice::word
    }

    /// Has everything written before that was said, by `most` after something was written last. A rank among others calls it before
    /// its report, the first one before the end. One that wraps another forwards this.
    fn flush(&self, most: Duration) {
        let _ = most;
    }

    /// Whether `Item` events of this action are wanted at all; asked once for each action.
    fn wants(&self, action: Action) -> bool {
        let _ = action;
        true
    }
}

impl Observer for () {
    fn on(&self, _: &Event<'_>) {}
    fn wants(&self, _: Action) -> bool {
        false
    }
}
