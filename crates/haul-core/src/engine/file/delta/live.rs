//! Two signatures that are made at the same time, and what they have shown so far.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::lock::lock;
use crate::meter::Meter;
use crate::signature::{self, CdcChunk, Comparison, wire};
use crate::store::Source;

/// What both signatures have shown so far.
#[derive(Default)]
pub struct Live {
    state: Mutex<State>,
    grown: Condvar,
    /// The signatures are no longer needed.
    is_cancelled: AtomicBool,
}

#[derive(Default)]
pub struct State {
    pub comparison: Comparison,
    /// Signatures that are being made.
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
    /// So many bytes at the start of the new version were compared with the old one as far as its signature goes.
    Until(u64),
    /// Both signatures have ended.
    All,
}

impl Live {
    /// Counts a signature that is about to begin.
    pub fn begin(&self) {
        lock(&self.state).running += 1;
    }

    /// Ends the signatures that are being made, each after the bytes that it reads now.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Makes the signature of `from`, which has `size` bytes. If that fails, the bytes that were not compared are transferred; a lasting error
    /// shows again there.
    pub fn make(&self, version: Version, from: &dyn Source, average: u32, size: u64, meter: &Meter) {
        let _ended = Ended(self);
        let mut given = 0;
        let made = from.extensions().near_data.signature(average, &mut |bytes, chunks| {
            meter.read(bytes);
            meter.check()?;
            if self.is_cancelled.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Cancelled, "compare"));
            }
            given += chunks.len();
            lock(&self.state).add(version, chunks);
            self.grown.notify_all();
            Ok(())
        });
        let mut state = lock(&self.state);
        match made {
            Ok(Some(signature)) if signature.size() == size => state.add_last(version, &signature.chunks()[given..]),
            // The other signature alone is of no use.
            _ => self.cancel(),
        }
    }

    /// Waits until `known` is reached, or both signatures have ended. `Cancelled` when the run is to stop.
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

/// Counts a signature as ended, even after a panic: nobody waits for it any longer.
struct Ended<'a>(&'a Live);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).running -= 1;
        self.0.grown.notify_all();
    }
}

impl State {
    fn add(&mut self, version: Version, chunks: &[CdcChunk]) {
        match version {
            Version::Old => self.comparison.add_old(chunks),
            Version::New => self.comparison.add_new(chunks),
        }
    }

    fn add_last(&mut self, version: Version, chunks: &[CdcChunk]) {
        self.add(version, chunks);
        match version {
            Version::Old => self.comparison.end_old(),
            Version::New => self.comparison.end_new(),
        }
    }

    /// Whether delta transfer sends clearly less than all of the first `bytes`, signatures included.
    pub fn pays(&self, bytes: u64) -> bool {
        let moved = signature::moved(&self.comparison.parts(0..bytes));
        moved + self.comparison.chunks() as u64 * wire::ENTRY as u64 <= bytes / 10 * 9
    }
}
