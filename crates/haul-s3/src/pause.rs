//! The time until which an endpoint that asked to slow down gets no request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use haul_core::retry::ASKED_MOST;

#[derive(Debug)]
pub struct Pause {
    began: Instant,
    until: AtomicU64,
}

impl Default for Pause {
    fn default() -> Self {
        Pause { began: Instant::now(), until: AtomicU64::new(0) }
    }
}

impl Pause {
    /// From now on, at most [`ASKED_MOST`]; a later end that is set already stays.
    pub fn begin(&self, wait: Duration) {
        let until = (self.began.elapsed() + wait.min(ASKED_MOST)).as_millis();
        self.until.fetch_max(u64::try_from(until).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Sleeps until the end of the pause, at most [`ASKED_MOST`].
    pub fn wait(&self) {
        let until = Duration::from_millis(self.until.load(Ordering::Relaxed));
        if let Some(left) = until.checked_sub(self.began.elapsed()) {
            std::thread::sleep(left.min(ASKED_MOST));
        }
    }
}
