//! Names on their way from a listing to the planner.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::entry::{Entry, Kind, check_leaf, show};
use crate::error::{Error, ErrorKind};
use crate::filter::Verdict;
use crate::schedule::DirWork;

use super::context::Context;
use super::task::Name;

/// Names are handed on in batches of this many.
pub const BATCH: usize = 512;

/// Hands names on; while too many are queued, works on them instead of listing.
pub fn push(cx: &Arc<Context>, work: &Arc<DirWork>, batch: Vec<Name>, drained: &mut Duration) {
    if batch.is_empty() {
        return;
    }
    cx.out.tally.pulse.fetch_add(1, Ordering::Relaxed);
    cx.sched.push_names(work, batch);
    if let Some(ranks) = &cx.ranks {
        ranks.offer(cx);
    }
    while let Some(task) = cx.sched.drain() {
        let began = Instant::now();
        (cx.perform)(cx, task);
        cx.sched.drained();
        *drained += began.elapsed();
    }
}

/// A leaf that is no file name cannot have come from an honest listing.
pub fn admitted(cx: &Context, work: &DirWork, entry: &Entry) -> bool {
    if !cx.target().caps().names.files {
        return true;
    }
    match check_leaf(&entry.name.leaf) {
        Ok(()) => true,
        Err(reason) => {
            let e = Error::new(ErrorKind::BadName, "list").at(&work.dir.path());
            let leaf = show(&entry.name.leaf);
            cx.out.fail(&e.because(format!("a name in it, \"{leaf}\", cannot be copied: {reason}")), entry.kind);
            false
        }
    }
}

pub fn selected(cx: &Context, dir_path: Option<&[u8]>, entry: &Entry) -> bool {
    let undecided = entry.kind == Kind::Unknown || (cx.job.links.follow && entry.kind == Kind::Link);
    match dir_path {
        Some(dir) if !cx.job.filter.is_empty() && !undecided => {
            cx.job.filter.check_with(dir, &entry.name.leaf, entry.kind == Kind::Dir) == Verdict::Include
        }
        _ => true,
    }
}
