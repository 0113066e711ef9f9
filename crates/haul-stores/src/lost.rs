//! A host that could not be reached a moment ago: who asks for it next is told so, and does not call it once more.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use haul_core::error::Error;

/// A call for many names asks for its host once for each, one right behind the other; a retry of the engine waits for
/// 100 ms at the least. What comes sooner belongs to the call that has failed.
const MOMENT: Duration = Duration::from_millis(90);

/// When a host was last out of reach, and why.
#[derive(Debug, Default)]
pub struct Lost(Mutex<Option<(Instant, Error)>>);

impl Lost {
    /// What reaching it fails of, for whoever `asked` at that time: waited while that was found out, or came right after.
    pub fn answer(&self, asked: Instant) -> Option<Error> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(when, _)| *when + MOMENT > asked).map(|(_, e)| e.again())
    }

    /// It has just been tried in vain.
    pub fn tell(&self, e: &Error) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), e.again()));
    }
}
