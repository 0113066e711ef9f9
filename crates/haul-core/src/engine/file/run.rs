//! The stages of one large file.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::bundle::Spent;
use crate::engine::context::Context;
use crate::engine::sources::remove_sources;
use crate::entry::{Entry, Kind};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::{Act, Step};
use crate::retry;
use crate::store::{Runs, WriteOutcome};

use super::open_file::{Ends, OpenFile};
use super::{carry, commit, compare, failure, open, part, stream, within};

/// Does of the file what is left to do for this worker.
pub fn perform(cx: &Arc<Context>, file: &Arc<OpenFile>) {
    let _tried = retry::count_on(file.spent());
    let Err(e) = stages(cx, file) else { return };
    let again = |e: Error| match e.kind() {
        // It changed between the listing and now.
        ErrorKind::Changed if !file.is_second_try() && !cx.cancel.is_set() && !cx.source(&file.work).caps().streams => {
            failure::again(cx, &file.work, &file.entry(), file.step, e, |_| None)
        }
        _ => Err(e),
    };
    match file.borrowed {
        Some(_) => part::give_back(cx, file),
        None => again(e).unwrap_or_else(|e| failure::give_up(cx, file, e)),
    }
}

/// Nothing moves if the content is there already, is in a reference tree, or is copied by the system that holds both ends. Else
/// opens both ends and moves chunks; the last worker commits.
fn stages(cx: &Arc<Context>, file: &Arc<OpenFile>) -> Result<()> {
    if cx.source(&file.work).caps().streams || cx.target().caps().streams {
        return stream::perform(cx, file);
    }
    if file.borrowed.is_some() {
    } else if compare::settles(cx, file)? || compare::settled_by_link(cx, file) || within::copies(cx, file)? {
        return Ok(());
    }
    let Some(ends) = open::join(cx, file)? else { return Ok(()) };
    if move_chunks(cx, file, &ends) {
        conclude(cx, file, &ends);
    }
    Ok(())
}

/// Nobody is at it any more.
pub fn conclude(cx: &Context, file: &Arc<OpenFile>, ends: &Ends) {
    cx.sched.unshare(file);
    match file.borrowed {
        Some(_) => part::give_back(cx, file),
        None => finish(cx, file, ends),
    }
}

/// Moves chunks until none is left for this worker. `true` if no other is at it any more.
fn move_chunks(cx: &Context, file: &Arc<OpenFile>, ends: &Ends) -> bool {
    // Over a network the next chunk sets out while the destination has not said yet that it has the one before.
    let ahead = usize::from(cx.target().caps().remote);
    let mut carried: VecDeque<carry::Carried> = VecDeque::new();
    let mut leaves = false;
    let mut taken: Option<u32> = None;
    let runs = cx.source(&file.work).caps().tuning.runs;
    loop {
        let surplus = cx.sched.surplus();
        let chunk = {
            let mut state = file.state();
            if state.error.is_some() || cx.cancel.is_set() {
                state.left.clear();
            }
            // A limit that was lowered holds in the middle of a file too, as long as somebody stays with it.
            if !leaves && surplus > state.leaving as usize && state.active - state.leaving > 1 {
                leaves = true;
                state.leaving += 1;
            }
            if leaves {
                state.left.leave(taken);
            }
            let chunk = if leaves { None } else { state.left.take(taken) };
            if let Some((chunk, end)) = &chunk
                && runs != Runs::None
                // A worker alone goes from one bounded run to the next.
                && (matches!(runs, Runs::UpTo(_)) || taken.is_none_or(|taken| taken + 1 != chunk.index))
            {
                ends.source.hint_sequential(chunk.at.start..*end);
            }
            taken = chunk.as_ref().map(|(chunk, _)| chunk.index);
            chunk.map(|(chunk, _)| chunk)
        };
        let last = chunk.is_none();
        let moved = carry::move_chunk(cx, ends, chunk, &mut carried, ahead);
        let mut state = file.state();
        match moved {
            Ok(receipt) => state.receipts.extend(receipt),
            Err(e) => {
                state.error.get_or_insert(e);
            }
        }
        if last && carried.is_empty() && state.active == 1 && !state.left.is_empty() && state.error.is_none() {
            // Another rank has given some back meanwhile, and nobody else is left to move them.
            state.leaving -= u32::from(std::mem::take(&mut leaves));
            continue;
        }
        if last && carried.is_empty() {
            state.active -= 1;
            state.leaving -= u32::from(leaves);
            return state.active == 0 && state.lent == 0;
        }
        drop(state);
        if !last {
            open::share(cx, file, ends);
        }
        part::report(cx, file, part::WORTH_REPORTING);
    }
}

/// All chunks have landed, or one has failed.
pub fn finish(cx: &Context, file: &Arc<OpenFile>, ends: &Ends) {
    let (began, mut spent) = (Instant::now(), Spent::default());
    let (mut entry, mut receipts, error) = {
        let mut state = file.state();
        (state.entry.clone(), std::mem::take(&mut state.receipts), state.error.take())
    };
    receipts.sort_by_key(|r| r.index);
    receipts.dedup_by_key(|r| r.index);
    let outcome = match error {
        Some(e) => Err(e),
        None => cx.cancel.check().and_then(|()| commit::conclude(cx, file, ends, &mut entry, &receipts, &mut spent)),
    };
    cx.clock.end(&ends.flight);
    {
        let mut report = cx.out.report();
        report.times.opening += spent.metadata;
        report.times.verifying += spent.reading;
        report.times.hashing += spent.hashing;
        report.times.metadata += began.elapsed().saturating_sub(spent.sum());
    }
    match outcome {
        Ok(landed) => done(cx, file, ends, &entry, landed),
        Err(e) => {
            // What goes with the commit has not arrived without it. A chunk that failed is refused already, and has no receipt.
            if ends.sink.extensions().uploads_on_commit && !receipts.is_empty() {
                cx.meter.refuse(ends.flight.moved.load(Ordering::Relaxed));
            }
            failure::failed(cx, file, ends, &entry, receipts, e);
        }
    }
}

fn done(cx: &Context, file: &OpenFile, ends: &Ends, entry: &Entry, landed: WriteOutcome) {
    if let Some(session) = ends.session {
        cx.journal.committed(session);
    }
    if let Some(intent) = ends.intent {
        cx.journal.placed(intent);
    }
    cx.out.done_file(entry);
    cx.out.refused(entry, landed.refused);
    let act = if file.step.act == Act::Compare { Act::File { replace: true } } else { file.step.act };
    cx.out.item(Step { act, ..file.step }.action(Kind::File), file.step.why, entry);
    if cx.job.remove_source {
        remove_sources(cx, &file.work, std::slice::from_ref(entry));
    }
    cx.sched.items_done(&file.work, 1);
}
