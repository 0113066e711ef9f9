//! Which signals stop haul.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

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
