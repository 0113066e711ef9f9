//! The counted time: from the moment when all threads begin until the first of them is done, as in smallfile.
//!
//! After that fewer threads are at work, and their rate would count as that of all.

use std::sync::atomic::{AtomicU64, Ordering};

use super::histogram::Histogram;

/// Nanoseconds between two points of a series.
const STEP: u64 = 250_000_000;

/// The moment from which on nothing counts, in nanoseconds of the run's clock, which all threads share.
#[derive(Debug)]
pub struct Window(AtomicU64);

impl Default for Window {
    fn default() -> Self {
        Window(AtomicU64::new(u64::MAX))
    }
}

impl Window {
    /// The earliest moment named is the end.
    pub fn close(&self, at: u64) {
        self.0.fetch_min(at, Ordering::Relaxed);
    }

    pub fn end(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The work of one thread, or of several together.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// When it began and when it ended its last operation, counted or not.
    pub began: u64,
    pub ended: u64,
    /// Within the window.
    pub files: u64,
    pub bytes: u64,
    /// Reads or writes of a record; operations, if no data move.
    pub requests: u64,
    pub times: Histogram,
    pub series: Series,
    /// Files done in all, up to the first that was not tried.
    pub reached: u64,
    pub failures: u64,
    /// How many of the failures were wrong bytes.
    pub wrong: u64,
    /// Processor time of the thread until the window closed, in user mode and in the kernel, in seconds. The operation that
    /// the edge of the window was in is among it.
    pub processor: (f64, f64),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    pub files: u64,
    pub bytes: u64,
    pub requests: u64,
}

impl Done {
    /// One file, of which no bytes were moved.
    pub const ONE: Done = Done { files: 1, bytes: 0, requests: 1 };
}

impl Tally {
    pub fn beginning(at: u64) -> Tally {
        Tally { began: at, ended: at, ..Tally::default() }
    }

    /// An operation from `from` to `to`. It counts if it ended within the window; one that ended at its edge may be counted
    /// by a thread that has not yet seen the window close.
    pub fn add(&mut self, done: Done, from: u64, to: u64, window: &Window) {
        self.ended = to;
        if to > window.end() {
            return;
        }
        self.files += done.files;
        self.bytes += done.bytes;
        self.requests += done.requests;
        self.times.add(to.saturating_sub(from));
        self.series.add(to.saturating_sub(self.began), if done.bytes > 0 { done.bytes } else { done.files });
    }

    pub fn merge(&mut self, other: &Tally) {
        self.began = self.began.min(other.began);
        self.ended = self.ended.max(other.ended);
        self.files += other.files;
        self.bytes += other.bytes;
        self.requests += other.requests;
        self.times.merge(&other.times);
        self.series.merge(&other.series);
        self.reached += other.reached;
        self.failures += other.failures;
        self.wrong += other.wrong;
        self.processor = (self.processor.0 + other.processor.0, self.processor.1 + other.processor.1);
    }

    /// How long the window that closed at `end` was open, in seconds.
    pub fn seconds(&self, end: u64) -> f64 {
        end.min(self.ended).saturating_sub(self.began) as f64 / 1e9
    }

    /// Until the last thread ended, in seconds.
    pub fn whole(&self) -> f64 {
        self.ended.saturating_sub(self.began) as f64 / 1e9
    }
}

/// How much was done in each `STEP`.
#[derive(Clone, Debug, Default)]
pub struct Series(Vec<u64>);

impl Series {
    pub fn add(&mut self, at: u64, amount: u64) {
        let slot = (at / STEP) as usize;
        if slot >= self.0.len() {
            self.0.resize(slot + 1, 0);
        }
        self.0[slot] += amount;
    }

    fn merge(&mut self, other: &Series) {
        for (slot, amount) in other.0.iter().enumerate() {
            self.add(slot as u64 * STEP, *amount);
        }
    }

    /// Sums up to each step's end, in seconds.
    pub fn sums(&self) -> Vec<(f64, u64)> {
        let ends = self.0.iter().enumerate().scan(0, |sum, (at, amount)| {
            *sum += amount;
            Some(((at as u64 + 1) as f64 * STEP as f64 / 1e9, *sum))
        });
        ends.collect()
    }
}
