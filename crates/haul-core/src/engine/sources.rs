//! The source of a move, once its copy is known to be good.

use crate::entry::Entry;
use crate::schedule::DirWork;

use super::context::Context;
use super::tries::{gone_is_done, retry_each};

/// What has landed, was synced and verified goes from the source.
pub fn remove_sources(cx: &Context, work: &DirWork, entries: &[Entry]) {
    if entries.is_empty() {
        return;
    }
    {
        let mut hard = cx.hard();
        entries.iter().for_each(|entry| hard.verified(entry));
    }
    let source = cx.source(work);
    let again = |i: usize| gone_is_done(source.remove(&entries[i..=i]).pop().unwrap_or(Ok(())));
    for (removed, entry) in retry_each(source.remove(entries), again).into_iter().zip(entries) {
        if let Err(e) = removed {
            cx.out.fail_source(e.on(&entry.name), entry.kind);
        }
    }
}
