//! Which signals stop haul, and how a second one ends it whatever its threads are stuck in.

use std::sync::OnceLock;
use std::sync::mpsc::Sender;

use haul_core::cancel::{Cancel, Stop};
use haul_core::error::Result;
use haul_core::rlimit;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::Exit;
use crate::out;

/// To `main`, which returns when it hears of an end.
static END: OnceLock<Sender<u8>> = OnceLock::new();

/// Once, before any other thread: where [`leave`] reports to.
pub fn leave_by(end: Sender<u8>) {
    let _ = END.set(end); // called once
}

/// Ends the program now. The caller has nothing left to do.
pub fn leave(exit: Exit) {
    if let Some(end) = END.get() {
        let _ = end.send(exit.code()); // main has returned already
    }
}

/// Calls `heard` for each signal that stops haul, on a thread of its own, and ends the program when that returns true.
pub fn listen(mut heard: impl FnMut() -> bool + Send + 'static) -> Result<()> {
    let Ok(mut signals) = Signals::new(stopping()) else { return Ok(()) };
    let hear = move || {
        if signals.forever().any(|_| heard()) {
            leave(Exit::Signal);
        }
    };
    rlimit::spawn("signals", hear).map(drop)
}

/// The first signal sets `cancel` and prints `first`; a second one prints `second` and ends the program, after calling `last`.
pub fn cancels(cancel: &Cancel, first: &'static str, second: Option<&'static str>, last: impl Fn() + Send + 'static) -> Result<()> {
    let (cancel, mut stopping) = (cancel.clone(), false);
    listen(move || {
        if std::mem::replace(&mut stopping, true) {
            last();
            second.into_iter().for_each(out::say);
            return true;
        }
        cancel.set(Stop::Signal);
        // On a thread of its own: writing to standard error may block, and the next signal must be handled.
        let _ = rlimit::spawn("show", move || out::say(first));
        false
    })
}

/// SIGINT, SIGTERM and SIGHUP, without those that this process ignores: whoever started it (`nohup`, a shell that put it into
/// the background) wants it to go on, and a handler would undo that.
pub fn stopping() -> Vec<i32> {
    heeded(&[SIGINT, SIGTERM, SIGHUP])
}

/// Those of `signals` that are not ignored. haul itself ignores none of them, so what is ignored was inherited.
pub fn heeded(signals: &[i32]) -> Vec<i32> {
    signals.iter().copied().filter(|signal| !is_ignored(*signal)).collect()
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: an all-zero sigaction is a valid value of that plain struct.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action the call only writes the present one into `now`, which outlives it.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut now) };
    asked == 0 && now.sa_sigaction == libc::SIG_IGN
}
