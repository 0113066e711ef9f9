//! Chunks of a large file that another rank moves: it attaches to the unfinished write by its token and says what has landed. The
//! owner keeps the journal, does again what was not landed, and commits.

use std::sync::Arc;

use crate::engine::context::Context;
use crate::entry::{Dir, Entry, codec};
use crate::schedule::{DirWork, Lease};
use crate::store::{Chunk, Receipt, Token};
use crate::team::wire::{Cursor, put_all, put_bytes};

use super::open_file::{Borrowed, OpenFile};
use super::run;

/// Receipts that are worth a message before the part is done.
pub const WORTH_REPORTING: usize = 32;

/// Takes chunks out of a file, the last ones, for another rank: the part as bytes, and the chunks. `None` if none are left.
pub fn lend(file: &OpenFile, most: usize) -> Option<(Vec<u8>, Vec<Chunk>)> {
    let mut state = file.state();
    let ends = state.ends.clone()?;
    let most = most.min(state.left.len());
    if most == 0 || state.error.is_some() {
        return None;
    }
    let chunks = state.left.lend(most);
    state.lent += 1;
    let mut out = Vec::new();
    put_bytes(&mut out, &codec::encode(&bare(&state.entry)));
    put_bytes(&mut out, &ends.sink.token().0);
    put_all(&mut out, &[ends.chunk]);
    for (first, last) in runs(&chunks) {
        put_all(&mut out, &[u64::from(first.index), first.at.start, u64::from(last.index), last.at.end]);
    }
    Some((out, chunks))
}

/// What the codec leaves out is no part of the content.
fn bare(entry: &Entry) -> Entry {
    Entry { xattrs: None, target: None, owners: None, ..entry.clone() }
}

/// First and last chunks of stretches without a gap.
fn runs(chunks: &[Chunk]) -> Vec<(&Chunk, &Chunk)> {
    let mut runs: Vec<(&Chunk, &Chunk)> = Vec::new();
    for chunk in chunks {
        match runs.last_mut() {
            Some((_, last)) if last.index + 1 == chunk.index && last.at.end == chunk.at.start => *last = chunk,
            _ => runs.push((chunk, chunk)),
        }
    }
    runs
}

/// A part that [`lend`] has made, as a file of this rank.
pub fn borrow(cx: &Context, work: &Arc<DirWork>, dir: &Dir, lease: Lease, bytes: &[u8]) -> Option<Arc<OpenFile>> {
    let mut from = Cursor(bytes);
    let entry = codec::decode(dir, from.bytes()?)?;
    let token = Token(from.bytes()?.into());
    // Its attributes are not part of what was lent.
    let token = if cx.target().caps().attributes.owner_names { token.shared() } else { token };
    let chunk = from.number().filter(|chunk| *chunk > 0)?;
    let mut chunks = Vec::new();
    while !from.is_empty() {
        let (first, start, last, end) = (from.small()?, from.number()?, from.small()?, from.number()?);
        let begins = u64::from(first).checked_mul(chunk)?;
        let ends = u64::from(last).checked_mul(chunk)?;
        if first > last || start < begins || start > entry.size || end < ends.max(start) || end > entry.size {
            return None;
        }
        for index in first..=last {
            let begin = if index == first { start } else { u64::from(index) * chunk };
            let until = if index == last { end } else { (u64::from(index) + 1) * chunk };
            chunks.push(Chunk { index, at: begin..until });
        }
    }
    Some(OpenFile::of_another(&cx.job, work, entry, Borrowed { lease, token, chunk }, chunks))
}

/// Chunks of this file that another rank has landed.
pub fn landed(cx: &Context, file: &OpenFile, receipts: Vec<Receipt>) {
    let mut state = file.state();
    if let Some(ends) = &state.ends {
        for receipt in &receipts {
            if let Some(session) = ends.session {
                cx.journal.landed(session, receipt);
            }
            ends.shown.landed_elsewhere(receipt.index);
        }
    }
    state.receipts.extend(receipts);
    drop(state);
    report(cx, file, WORTH_REPORTING);
}

/// Another rank is done with its part; `left` is what it has not landed, which is done here.
pub fn returned(cx: &Context, file: &Arc<OpenFile>, left: Vec<Chunk>) {
    if !left.is_empty() {
        file.lends.store(false, std::sync::atomic::Ordering::Relaxed);
    }
    let mut state = file.state();
    state.lent -= 1;
    if state.error.is_none() {
        state.left.give_back(left);
    }
    if state.active > 0 {
        return;
    }
    if !state.left.is_empty() {
        drop(state);
        return cx.sched.push_large(file.clone());
    }
    let ends = state.ends.clone().filter(|_| state.lent == 0);
    drop(state);
    if let Some(ends) = ends {
        run::conclude(cx, file, &ends);
    }
}

/// Tells the rank whose file it is what has landed here, if that is worth a message.
pub fn report(cx: &Context, file: &OpenFile, worth: usize) {
    let (Some(Borrowed { lease, .. }), Some(ranks)) = (&file.borrowed, &cx.ranks) else { return };
    let until = {
        let state = file.state();
        if state.receipts.len() - state.reported < worth {
            return;
        }
        state.receipts.len()
    };
    // The owner commits what only this process has written: errors that come late come here.
    let synced = synced(file);
    let receipts = {
        let mut state = file.state();
        // Another worker may have reported them.
        if !synced || state.reported >= until {
            return;
        }
        let from = state.reported;
        state.reported = until;
        state.receipts[from..until].to_vec()
    };
    ranks.landed(cx, *lease, receipts, false);
}

fn synced(file: &OpenFile) -> bool {
    let ends = file.state().ends.clone();
    ends.is_none_or(|ends| ends.sink.extensions().state.sync().is_ok())
}

/// This rank is done with its part, whether all of it has landed or not.
pub fn give_back(cx: &Context, file: &OpenFile) {
    let (Some(Borrowed { lease, .. }), Some(ranks)) = (&file.borrowed, &cx.ranks) else { return };
    // What may be lost is moved again by the owner.
    let synced = synced(file);
    let receipts = {
        let mut state = file.state();
        let (from, until) = (state.reported, state.receipts.len());
        state.reported = until;
        if let Some(ends) = &state.ends {
            cx.clock.end(&ends.flight);
        }
        if synced { state.receipts[from..].to_vec() } else { Vec::new() }
    };
    ranks.landed(cx, *lease, receipts, true);
    cx.sched.items_done(&file.work, 1);
}
