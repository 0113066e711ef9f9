//! The signals that end a measurement.

use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::cancel::{Cancel, Stop};

use crate::exit::Exit;
use crate::{out, signals};

/// SIGINT, SIGTERM and SIGHUP, except ignored ones, set `cancel` and print `first`; a second one prints `second` and ends the
/// program at once, after calling `last`.
pub fn listen(cancel: &Cancel, first: &'static str, second: Option<&'static str>, last: impl Fn() + Send + 'static) {
    let Ok(mut signals) = signal_hook::iterator::Signals::new(signals::stopping()) else { return };
    let (cancel, heard) = (cancel.clone(), AtomicBool::new(false));
    std::thread::spawn(move || {
        for _ in signals.forever() {
            if heard.swap(true, Ordering::Relaxed) {
                last();
                second.into_iter().for_each(out::say);
                return signals::leave(Exit::Signal);
            }
            cancel.set(Stop::Signal);
            // On a thread of its own: writing to standard error may block, and the next signal must be handled.
            std::thread::spawn(move || out::say(first));
        }
    });
}
