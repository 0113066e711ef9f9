//! Two outlines that are made at the same time, and what they have shown so far.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::lock::lock;
use crate::meter::Meter;
use crate::outline::{self, Comparison, Piece, wire};
use crate::store::Source;

/// What both outlines have shown so far.
#[derive(Default)]
pub struct Live {
    state: Mutex<State>,
    grown: Condvar,
    /// The outlines are no longer needed.
    is_cancelled: AtomicBool,
}

#[derive(Default)]
pub struct State {
    pub comparison: Comparison,
    /// Outlines that are being made.
    running: usize,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Version {
    Old,
    New,
}

/// How much has to be known.
#[derive(Clone, Copy)]
pub enum Known {
    /// So many bytes at the start of the new version were compared with the old one as far as it is outlined.
    Until(u64),
    /// Both outlines have ended.
    All,
}

impl Live {
    /// Counts an outline that is about to begin.
    pub fn begin(&self) {
        lock(&self.state).running += 1;
    }

    /// Ends the outlines that are being made, each after the bytes that it reads now.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Outlines `from`, which has `size` bytes. If that fails, the bytes that were not compared are transferred; a lasting error
    /// shows again there.
    pub fn outline(&self, version: Version, from: &dyn Source, average: u32, size: u64, meter: &Meter) {
        let _ended = Ended(self);
        let mut given = 0;
        let outlined = from.outline(average, &mut |bytes, pieces| {
            meter.read(bytes);
            meter.check()?;
            if self.is_cancelled.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Cancelled, "compare"));
            }
            given += pieces.len();
            lock(&self.state).add(version, pieces);
            self.grown.notify_all();
            Ok(())
        });
        let mut state = lock(&self.state);
        match outlined {
            Ok(Some(outline)) if outline.size() == size => state.add_last(version, &outline.pieces()[given..]),
            // The other outline alone is of no use.
            _ => self.cancel(),
        }
    }

    /// Waits until `known` is reached, or both outlines have ended. `Cancelled` when the run is to stop.
    pub fn wait(&self, known: Known, meter: &Meter) -> Result<MutexGuard<'_, State>> {
        let is_known = |state: &State| match known {
            Known::Until(bytes) => state.comparison.seen() >= bytes,
            Known::All => false,
        };
        let mut state = lock(&self.state);
        while state.running > 0 && !is_known(&state) {
            meter.check()?;
            state = self.grown.wait_timeout(state, Duration::from_millis(100)).unwrap_or_else(PoisonError::into_inner).0;
        }
        meter.check()?;
        Ok(state)
    }
}

/// Counts an outline as ended, even after a panic: nobody waits for it any longer.
struct Ended<'a>(&'a Live);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).running -= 1;
        self.0.grown.notify_all();
    }
}

impl State {
    fn add(&mut self, version: Version, pieces: &[Piece]) {
        match version {
            Version::Old => self.comparison.add_old(pieces),
            Version::New => self.comparison.add_new(pieces),
        }
    }

    fn add_last(&mut self, version: Version, pieces: &[Piece]) {
        self.add(version, pieces);
        match version {
            Version::Old => self.comparison.end_old(),
            Version::New => self.comparison.end_new(),
        }
    }

    /// Whether delta transfer sends clearly less than all of the first `bytes`, outlines included.
    pub fn pays(&self, bytes: u64) -> bool {
        let moved = outline::moved(&self.comparison.parts(0..bytes));
        moved + self.comparison.pieces() as u64 * wire::ENTRY as u64 <= bytes / 10 * 9
    }
}
