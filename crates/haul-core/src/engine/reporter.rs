//! What a run says of itself: to its observer, in its counters and in its report.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::cancel::{Cancel, Stop};
use crate::entry::{Entry, Kind, MetaMask};
use crate::error::{Error, ErrorKind};
use crate::event::{Action, Event, Observer, Warning, Why};
use crate::hint::Hint;
use crate::job::{Job, Mode};
use crate::report::{Kinds, Report, Times};
use crate::retry::Again;

/// Counters for the display, and for noticing that nothing moves.
#[derive(Debug, Default)]
pub struct Tally {
    pub found: AtomicU64,
    pub planned_files: AtomicU64,
    pub planned_bytes: AtomicU64,
    /// Of these, those of files that are compared before they move, and have not been found to differ.
    pub compared_bytes: AtomicU64,
    pub done_files: AtomicU64,
    pub resumed_bytes: AtomicU64,
    pub kept: AtomicU64,
    pub failed: AtomicU64,
    pub retries: AtomicU64,
    /// Counts everything that happens.
    pub pulse: AtomicU64,
}

/// The observer of a run, and whether it is at work: a terminal that is stopped lets whoever prints wait.
pub struct Watched {
    inner: Arc<dyn Observer>,
    printing: AtomicU64,
}

impl Watched {
    fn new(inner: Arc<dyn Observer>) -> Watched {
        Watched { inner, printing: AtomicU64::new(0) }
    }

    pub fn is_printing(&self) -> bool {
        self.printing.load(Ordering::Acquire) > 0
    }

    pub fn on(&self, event: &Event<'_>) {
        self.printing.fetch_add(1, Ordering::AcqRel);
        self.inner.on(event);
        self.printing.fetch_sub(1, Ordering::AcqRel);
    }

    /// See [`Observer::flush`].
    pub fn flush(&self, most: Duration) {
        self.printing.fetch_add(1, Ordering::AcqRel);
        self.inner.flush(most);
        self.printing.fetch_sub(1, Ordering::AcqRel);
    }
}

pub struct Reporter {
    pub observer: Watched,
    /// Whether the observer wants to hear of names that are left as they are.
    wants_keep: bool,
    wants_items: bool,
    pub tally: Tally,
    report: Mutex<Report>,
    /// Something could not be listed or copied: nothing is deleted.
    pub impaired: AtomicBool,
    cancel: Cancel,
    dry: bool,
    /// Entries that are left at the source are counted.
    moves: bool,
}

impl Reporter {
    pub fn new(job: &Job, observer: Arc<dyn Observer>, cancel: Cancel) -> Self {
        Reporter {
            wants_keep: observer.wants(Action::Keep),
            wants_items: observer.wants(if job.mode == Mode::Check { Action::Missing } else { Action::Create }),
            observer: Watched::new(observer),
            tally: Tally::default(),
            report: Mutex::new(Report { dry: job.dry, ..Report::default() }),
            impaired: AtomicBool::new(false),
            cancel,
            dry: job.dry,
            moves: job.remove_source,
        }
    }

    pub fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take_report(&self) -> Report {
        std::mem::take(&mut *self.report())
    }

    /// One name is done, or would be.
    pub fn item(&self, action: Action, why: Why, entry: &Entry) {
        self.tally.pulse.fetch_add(1, Ordering::Relaxed);
        if matches!(action, Action::Create | Action::Replace | Action::Link | Action::Special) && why != Why::New {
            self.report().replaced.add(entry.kind, 1);
        }
        if self.wants_items {
            self.observer.on(&Event::Item { action, why, entry, dry: self.dry });
        }
    }

    /// Left as it is; the caller counts.
    pub fn keep(&self, why: Why, entry: &Entry) {
        if self.wants_keep {
            self.observer.on(&Event::Item { action: Action::Keep, why, entry, dry: self.dry });
        }
    }

    /// A directory that is made, or would be, or that comes to be with what is put into it.
    pub fn made_dir(&self, entry: &Entry) {
        self.report().made.dirs += 1;
        self.item(Action::MakeDir, Why::New, entry);
    }

    /// Attributes alone are set, or would be.
    pub fn set_meta(&self, why: Why, entry: &Entry) {
        self.report().set_attributes(why.options());
        self.item(Action::SetMeta, why, entry);
    }

    /// `check`: the two ends are not the same.
    pub fn differs(&self, why: Why, entry: &Entry) {
        self.report().differing += 1;
        self.item(Action::Differs, why, entry);
    }

    /// An entry that a move leaves where it is.
    pub fn left_behind(&self, kind: Kind) {
        if self.moves {
            self.report().left.add(kind, 1);
        }
    }

    pub fn found(&self, kind: Kind) {
        self.tally.found.fetch_add(1, Ordering::Relaxed);
        self.report().found.add(kind, 1);
    }

    /// A file that is to move.
    pub fn planned(&self, entry: &Entry) {
        self.tally.planned_files.fetch_add(1, Ordering::Relaxed);
        self.tally.planned_bytes.fetch_add(entry.size, Ordering::Relaxed);
    }

    /// Names that were found and planned here, and are by now given to somebody who does that again.
    pub fn unplanned(&self, found: Kinds, files: u64, bytes: u64) {
        self.tally.found.fetch_sub(found.total(), Ordering::Relaxed);
        self.tally.planned_files.fetch_sub(files, Ordering::Relaxed);
        self.tally.planned_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.report().found -= found;
    }

    /// A file has come.
    pub fn done_file(&self, entry: &Entry) {
        let mut report = self.report();
        report.made.files += 1;
        report.file_bytes += entry.size;
        drop(report);
        self.tally.done_files.fetch_add(1, Ordering::Relaxed);
    }

    /// One name failed for good. Failures of the whole run stop it; a stop itself is no failure.
    pub fn fail(&self, error: &Error, kind: Kind) {
        self.tally.pulse.fetch_add(1, Ordering::Relaxed);
        if error.kind() == ErrorKind::Cancelled {
            return;
        }
        if error.kind() != ErrorKind::Vanished {
            self.impaired.store(true, Ordering::Relaxed);
            self.tally.failed.fetch_add(1, Ordering::Relaxed);
        }
        if error.kind().ends_the_run() && !self.cancel.set(Stop::Failure) {
            return; // one message for a full disk, not one a worker
        }
        self.report().fail(error);
        self.observer.on(&Event::Failed { error, kind });
    }

    /// For what only the source can have said.
    pub fn fail_source(&self, error: Error, kind: Kind) {
        if error.kind() == ErrorKind::ReadOnly {
            self.report().read_only_source = true;
        }
        self.fail(&error.of_source(), kind);
    }

    /// A spill that cannot be written leaves work undone, which is a failure of the run.
    pub fn spilled(&self, written: std::io::Result<()>) {
        if let Err(e) = written {
            let e = Error::io(e, "spill").advise(Hint::StateDirectory).kind_is(ErrorKind::NoSpace);
            self.fail(&e, Kind::Unknown);
        }
    }

    pub fn warn(&self, warning: Warning) {
        self.observer.on(&Event::Warned(&warning));
    }

    pub fn refused(&self, entry: &Entry, refused: MetaMask) {
        if !refused.is_empty() {
            self.report().refuse(refused);
            self.observer.on(&Event::Refused { entry, refused });
        }
    }

    /// Something failed and is tried again.
    pub fn retried(&self, error: &Error, again: Again) {
        self.tally.retries.fetch_add(1, Ordering::Relaxed);
        self.observer.on(&Event::Retried { error, again });
    }

    /// A file that is done anew from its start, by another call: not because a call failed, but because what came of it did.
    pub fn done_anew(&self, error: &Error) {
        self.retried(error, Again { attempt: 1, of: 2, wait: Duration::ZERO });
    }

    /// Adds what `work` takes to one kind of work time.
    pub fn timed<T>(&self, kind: impl FnOnce(&mut Times) -> &mut Duration, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let value = work();
        *kind(&mut self.report().times) += began.elapsed();
        value
    }
}
