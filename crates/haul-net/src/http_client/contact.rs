//! What is known of a server from its answers: how long one that has never answered is tried, since its address may be wrong, and how
//! soon it answers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Remedy, Result};

/// Tries of a request if nobody listens there, and if somebody is silent.
const UNREACHED_TRIES: u32 = 3;
const SILENT_TRIES: u32 = 2;
/// After this time it has been silent long enough.
const SILENCE: Duration = Duration::from_secs(45);

/// The shortest time to an answer, in microseconds; `u64::MAX` until there was one.
#[derive(Debug)]
pub struct Contact(AtomicU64);

impl Default for Contact {
    fn default() -> Contact {
        Contact(AtomicU64::new(u64::MAX))
    }
}

impl Contact {
    /// The server has answered a request that was sent at `since`.
    pub fn made(&self, since: Instant) {
        let took = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.0.fetch_min(took.min(u64::MAX - 1), Ordering::Relaxed);
    }

    /// The shortest time from a request, with what it took to connect, to the headers of its answer.
    pub fn latency(&self) -> Option<Duration> {
        Some(self.0.load(Ordering::Relaxed)).filter(|took| *took != u64::MAX).map(Duration::from_micros)
    }

    /// The failure of a request that began at `since`, after so many tries. Where there was never an answer it is tried again at once.
    ///
    /// # Errors
    /// The same, if the server was never heard of and was tried often enough.
    pub fn judge(&self, e: Error, tries: u32, since: Instant) -> Result<Error> {
        let is_unreached = matches!(e.kind(), ErrorKind::Broken | ErrorKind::TimedOut) && e.remedy() != Remedy::None;
        if !is_unreached || self.latency().is_some() {
            return Ok(e);
        }
        let is_silent = e.kind() == ErrorKind::TimedOut;
        let most = if is_silent { SILENT_TRIES } else { UNREACHED_TRIES };
        if tries >= most || is_silent && since.elapsed() >= SILENCE {
            return Err(e.exhausted(1, Duration::ZERO));
        }
        Ok(e.remedy_is(Remedy::Again))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Error {
        Error::new(ErrorKind::Broken, "read").remedy_is(Remedy::After(Duration::from_secs(1)))
    }

    #[test]
    fn a_server_that_was_never_heard_of_is_tried_three_times() {
        let (contact, began) = (Contact::default(), Instant::now());
        assert_eq!(contact.judge(refused(), 1, began).expect("again").remedy(), Remedy::Again);
        assert_eq!(contact.judge(refused(), 3, began).expect_err("often enough").remedy(), Remedy::None);
        // What is wrong with the request is not the server's silence.
        let denied = Error::new(ErrorKind::Denied, "read");
        assert_eq!(contact.judge(denied, 3, began).expect("as it was").kind(), ErrorKind::Denied);
        contact.made(began);
        assert!(contact.latency().is_some_and(|took| took <= began.elapsed()));
        assert_eq!(contact.judge(refused(), 9, began).expect("as it was").remedy(), Remedy::After(Duration::from_secs(1)));
    }
}
