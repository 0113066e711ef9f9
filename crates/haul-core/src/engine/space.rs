//! What is said of a full disk or a spent quota.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, ErrorKind};
use crate::event::Warning;
use crate::store::Space;

use super::context::Context;

/// What a full disk or a spent quota leaves undone, and what to do.
pub fn explain(cx: &Context, e: Error) -> Error {
    if !matches!(e.kind(), ErrorKind::NoSpace | ErrorKind::Quota) {
        return e;
    }
    let kept = if cx.journal.keeps() { "transferred data is kept" } else { "finished files are kept" };
    let least = if cx.sched.standing().walked { "" } else { "at least " };
    let more = human(bytes_to_come(cx));
    if e.kind() == ErrorKind::Quota {
        // What the file system has free is not what the quota leaves.
        return e.hint(format!("{least}{more} remain; {kept}: free space in the quota (see quota -s) and run the same command again"));
    }
    let space = cx.target().extensions().system.space().ok().flatten();
    if space.is_some_and(|space| space.files == 0) {
        return e.hint(format!("{least}{more} remain and no inodes are left (df -i); {kept}: remove files and run the same command again"));
    }
    // A place that cannot be asked says nothing of what is free.
    let free = space.map_or(String::new(), |space| format!(", {} free", human(space.bytes)));
    e.hint(format!("{least}{more} remain{free}; {kept}: free space and run the same command again"))
}

/// What the walk has found that cannot fit.
pub fn shortage(cx: &Context, space: Space) -> Option<Warning> {
    let tally = &cx.out.tally;
    let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
    let needed = bytes_to_come(cx);
    let files = get(&tally.planned_files).saturating_sub(get(&tally.done_files));
    if needed > space.bytes {
        Some(Warning::SpaceShort { needed, free: space.bytes })
    } else if files > space.files {
        Some(Warning::InodesShort { needed: files, free: space.files })
    } else {
        None
    }
}

/// Bytes that are planned and have not reached the destination yet; of files that are compared first those that are known to differ.
pub fn bytes_to_come(cx: &Context) -> u64 {
    let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
    let tally = &cx.out.tally;
    get(&tally.planned_bytes).saturating_sub(get(&tally.compared_bytes) + cx.meter.arrived() + get(&tally.resumed_bytes))
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
