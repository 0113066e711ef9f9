//! A host whose connection has just failed: callers that ask right behind that get the same error, not another attempt.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use haul_core::error::Error;

use haul_core::lock::lock;

/// A call for many names connects once per name, back to back; a retry of the engine waits for at least 100 ms. Anything sooner
/// belongs to the failed call.
const MOMENT: Duration = Duration::from_millis(90);

#[derive(Debug, Default)]
pub struct Reconnect(Mutex<Option<(Instant, Error)>>);

impl Reconnect {
    /// The error for a caller that `asked` while that attempt was made, or right after it.
    pub fn refused(&self, asked: Instant) -> Option<Error> {
        lock(&self.0).as_ref().filter(|(when, _)| *when + MOMENT > asked).map(|(_, e)| e.again())
    }

    pub fn failed(&self, e: &Error) {
        *lock(&self.0) = Some((Instant::now(), e.again()));
    }
}
