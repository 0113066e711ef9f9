//! How many bytes of a chunk are sent before the journal records them: about a second's work, so that an interruption loses at
//! most two.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A step is never smaller: it costs a record, and a round trip where the destination is remote.
const LEAST: u64 = 64 << 10;
/// The first step where nothing is known of a place that may be slow.
const CAUTIOUS: u64 = 256 << 10;
/// A step grows by no more at a time: the first bytes go into buffers.
const GROWTH: u64 = 4;

/// Bytes of a second, by what the workers have measured last.
#[derive(Debug)]
pub struct Step {
    bytes: AtomicU64,
    measured: AtomicBool,
    landed: AtomicU64,
}

impl Step {
    /// `slow` where an end is behind a network or the rate is limited.
    pub fn new(slow: bool) -> Step {
        Step { bytes: AtomicU64::new(if slow { CAUTIOUS } else { u64::MAX }), measured: AtomicBool::new(false), landed: AtomicU64::new(0) }
    }

    /// At least [`LEAST`].
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The same once it has been measured.
    pub fn measured(&self) -> Option<u64> {
        self.measured.load(Ordering::Relaxed).then(|| self.bytes())
    }

    /// The connection was lost within a step: a server may carry only so much in each.
    pub fn lost(&self) {
        // Without a fetch: a step of another worker in between is as good.
        self.bytes.store((self.bytes() / 8).max(LEAST), Ordering::Relaxed);
    }

    /// One worker has landed so many bytes in this time.
    pub fn note(&self, bytes: u64, took: Duration) {
        let rate = bytes as f64 / took.as_secs_f64().max(1e-6);
        let most = self.bytes().saturating_mul(GROWTH);
        self.bytes.store((rate as u64).min(most).max(LEAST), Ordering::Relaxed);
        self.measured.store(true, Ordering::Relaxed);
        self.landed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that all workers have landed so far.
    pub fn landed(&self) -> u64 {
        self.landed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_a_second_and_grows_by_steps() {
        let step = Step::new(true);
        assert_eq!((step.bytes(), step.measured()), (CAUTIOUS, None));
        for expected in [1 << 20, 4 << 20, 16 << 20] {
            step.note(1 << 30, Duration::from_secs(1));
            assert_eq!(step.bytes(), expected);
        }
        step.note(3 << 20, Duration::from_secs(2));
        assert_eq!(step.bytes(), 3 << 19);
        step.lost();
        assert_eq!(step.bytes(), 3 << 16);
        step.note(10, Duration::from_secs(60));
        step.lost();
        assert_eq!(step.bytes(), LEAST);
        let local = Step::new(false);
        assert_eq!(local.bytes(), u64::MAX);
        local.note(8 << 20, Duration::from_secs(4));
        assert_eq!(local.bytes(), 2 << 20);
    }
}
