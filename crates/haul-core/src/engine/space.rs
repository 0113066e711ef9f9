//! What is said of a full disk or a spent quota.

use std::sync::atomic::Ordering;

use crate::error::{Error, ErrorKind};

use super::context::Context;

/// What a full disk or a spent quota leaves undone, and what to do.
pub fn explain(cx: &Context, e: Error) -> Error {
    if !matches!(e.kind(), ErrorKind::NoSpace | ErrorKind::Quota) {
        return e;
    }
    let planned = cx.tally.planned_bytes.load(Ordering::Relaxed);
    let missing = planned.saturating_sub(cx.meter.moved() + cx.tally.resumed_bytes.load(Ordering::Relaxed));
    let free = cx.target().space().ok().flatten().map_or(0, |space| space.bytes);
    let kept = if cx.journal.keeps() { "what has landed is kept" } else { "what has landed stays" };
    let least = if cx.sched.standing().walked { "" } else { "at least " };
    e.hint(format!("{least}{} more to move, {} free; {kept}: make room and run the same command again", human(missing), human(free)))
}

/// Bytes with a unit, as in "3.20 GiB".
pub fn human(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.2} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.2} PiB")
}
