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
    /// Nobody wants the rest.
    is_left: AtomicBool,
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
    /// Where the first bytes of the new version are as far as the old one is outlined.
    Until(u64),
    /// Both outlines.
    All,
}

impl Live {
    /// One more outline is about to be made.
    pub fn begin(&self) {
        lock(&self.state).running += 1;
    }

    /// Nobody wants the rest.
    pub fn leave(&self) {
        self.is_left.store(true, Ordering::Relaxed);
    }

    /// Outlines `from`, which has `size` bytes. Without the whole outline what is missing moves: whatever went wrong, that shows
    /// it again if it lasts.
    pub fn outline(&self, version: Version, from: &dyn Source, average: u32, size: u64, meter: &Meter) {
        let mut given = 0;
        let outlined = from.outline(average, &mut |bytes, pieces| {
            meter.read(bytes);
            meter.check()?;
            if self.is_left.load(Ordering::Relaxed) {
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
            // The other one alone tells nothing more.
            _ => self.leave(),
        }
        state.running -= 1;
        self.grown.notify_all();
    }

    /// Waits until so much is known, or no more will be.
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

    /// Whether less is to move than without comparing, as far as is known of the first `bytes`.
    pub fn pays(&self, bytes: u64) -> bool {
        let moved = outline::moved(&self.comparison.parts(0..bytes));
        moved + self.comparison.pieces() as u64 * wire::ENTRY as u64 <= bytes / 10 * 9
    }
}
