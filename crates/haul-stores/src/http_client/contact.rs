//! How long a server that has never answered is tried: its address may be wrong.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Remedy, Result};

/// Tries of a request if nobody listens there, and if somebody is silent.
const UNREACHED_TRIES: u32 = 3;
const SILENT_TRIES: u32 = 2;
/// After this time it has been silent long enough.
const SILENCE: Duration = Duration::from_secs(45);

/// Whether a server has answered once.
#[derive(Debug, Default)]
pub(crate) struct Contact(AtomicBool);

impl Contact {
    pub fn made(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The failure of a request that began at `since`, after so many tries. Where there was never an answer it is tried again at once.
    ///
    /// # Errors
    /// The same, if the server was never heard of and was tried often enough.
    pub fn judge(&self, e: Error, tries: u32, since: Instant) -> Result<Error> {
        let is_unreached = matches!(e.kind(), ErrorKind::Broken | ErrorKind::TimedOut) && e.remedy() != Remedy::None;
        if !is_unreached || self.0.load(Ordering::Relaxed) {
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
        contact.made();
        assert_eq!(contact.judge(refused(), 9, began).expect("as it was").remedy(), Remedy::After(Duration::from_secs(1)));
    }
}
