//! One chunk of a large file from its source to where the destination says that it has it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::engine::context::Context;
use crate::engine::tries::retry;
use crate::error::{Remedy, Result};
use crate::meter::Pass;
use crate::report::Times;
use crate::store::{Chunk, Receipt, WriteStyle};
use crate::tune::Op;

use super::open_file::Ends;

/// A chunk that has set out and of which the destination has not said yet that it is there.
pub struct Carried {
    /// Without what has landed of it before.
    chunk: Chunk,
    began: Instant,
    hash: Option<u128>,
    /// Bytes that were counted as moved and have not landed.
    out: u64,
}

/// Carries a chunk, if there is one, and lands the one that set out before the last `ahead`, or the first of them.
pub fn move_chunk(
    cx: &Context,
    ends: &Ends,
    chunk: Option<Chunk>,
    carried: &mut VecDeque<Carried>,
    ahead: usize,
) -> Result<Option<Receipt>> {
    ends.flight.doing("copy");
    cx.clock.measured(Op::Chunk, |load| {
        let ahead = if chunk.is_some() { ahead } else { 0 };
        if let Some(mut chunk) = chunk {
            load.bytes = chunk.at.end - chunk.at.start;
            load.entries = 1;
            let (mut began, mut out) = (Instant::now(), 0);
            let hash = retry(|| {
                began = Instant::now();
                carry(cx, ends, &mut chunk, &mut out)
            });
            let hash = hash.inspect_err(|_| cx.meter.refuse(out))?;
            carried.push_back(Carried { chunk, began, hash, out });
        }
        if carried.len() <= ahead {
            return Ok(None);
        }
        let Some(Carried { mut chunk, began, hash, mut out }) = carried.pop_front() else { return Ok(None) };
        let mut sent = Some(hash);
        let landed = retry(|| {
            let hash = match sent.take() {
                Some(hash) => hash,
                // It did not arrive: it sets out again.
                None => carry(cx, ends, &mut chunk, &mut out)?,
            };
            Ok((hash, land(cx, ends, &chunk)?))
        });
        let (hash, tag) = landed.inspect_err(|_| cx.meter.refuse(out))?;
        cx.step.note(chunk.at.end - chunk.at.start, began.elapsed());
        let receipt = Receipt { index: chunk.index, tag, hash };
        if let Some(session) = ends.session {
            cx.journal.landed(session, &receipt);
        }
        let showing = ends.shown.landed(&cx.meter, &chunk, &*ends.source, &*ends.sink)?;
        cx.out.report().times.hashing += showing;
        Ok(Some(receipt))
    })
}

/// Waits until the destination has it.
fn land(cx: &Context, ends: &Ends, chunk: &Chunk) -> Result<Box<[u8]>> {
    let began = Instant::now();
    let landed = ends.sink.landed(chunk);
    cx.out.report().times.writing += began.elapsed();
    landed
}

/// Sends a chunk: `chunk` becomes what has not landed of it, and `out` the bytes that this try has counted of that.
fn carry(cx: &Context, ends: &Ends, chunk: &mut Chunk, out: &mut u64) -> Result<Option<u128>> {
    let (sent, from, landed) = (AtomicU64::new(0), chunk.at.start, cx.step.landed());
    let carried = carry_in_steps(cx, ends, chunk, &sent);
    *out = sent.into_inner().saturating_sub(chunk.at.start - from);
    carried.map_err(|e| {
        if e.remedy() != Remedy::Reconnect {
            return e.advanced(chunk.at.start > from);
        }
        cx.step.lost();
        // Of a connection that carries only so much, others may have had it all.
        e.advanced(cx.step.landed() > landed)
    })
}

/// In steps of about a second that the journal records as they land. Not in steps where a hash of the whole is wanted, or for parts
/// of an object store.
fn carry_in_steps(cx: &Context, ends: &Ends, chunk: &mut Chunk, counter: &AtomicU64) -> Result<Option<u128>> {
    let whole = cx.job.verify || ends.delta.is_some() || matches!(cx.target().caps().write, WriteStyle::Parts { .. });
    let Some(session) = ends.session.filter(|_| !whole && cx.journal.keeps()) else {
        return carry_at(cx, ends, chunk.at.clone(), counter);
    };
    let (begin, began, first) = (u64::from(chunk.index) * ends.chunk, Instant::now(), chunk.at.start);
    let record = |chunk: &mut Chunk, until: u64| -> Result<()> {
        let landed = land(cx, ends, &Chunk { index: chunk.index, at: chunk.at.start..until });
        // A store may know what arrived before a failure.
        let until = landed.as_ref().map_or_else(|e| chunk.at.start + e.written(), |_| until);
        if until > chunk.at.start {
            chunk.at.start = until;
            cx.step.note(until - first, began.elapsed());
            cx.journal.landed_part(session, chunk.index, until - begin);
        }
        landed.map(|_| ())
    };
    let mut next = chunk.at.start;
    ends.source.hint_sequential(chunk.at.clone());
    // The step before lands while the next one is on its way.
    let mut sent = None;
    loop {
        let step = cx.step.bytes();
        let last = chunk.at.end - next <= step.saturating_add(step / 2);
        let end = if last { chunk.at.end } else { next + step };
        let passed = carry_at(cx, ends, next..end, counter);
        // What has set out before a signal came or the disk was full is kept, too.
        let before = if passed.is_ok() { sent.replace(end) } else { sent.take() };
        let landed = match before {
            Some(before) => record(chunk, before),
            None => Ok(()),
        };
        if let Err(e) = &passed
            && landed.is_ok()
            && e.written() > 0
            && ends.sink.extensions().keeps_in_failure
        {
            // Without it the next run sends these bytes again.
            let _ = record(chunk, next + e.written());
        }
        passed?;
        landed?;
        if last {
            return Ok(None);
        }
        next = end;
    }
}

fn carry_at(cx: &Context, ends: &Ends, at: std::ops::Range<u64>, sent: &AtomicU64) -> Result<Option<u128>> {
    let how = Pass { hash: cx.job.verify && !ends.digested, sparse: cx.job.sparse, flight: &ends.flight.moved, sent };
    let (hash, spent) = match &ends.delta {
        Some(delta) => {
            let reused = |bytes| {
                cx.out.report().reused_bytes += bytes;
                cx.out.tally.resumed_bytes.fetch_add(bytes, Ordering::Relaxed);
            };
            delta.pass(&cx.meter, &*ends.source, &*ends.sink, at, how, &reused)?
        }
        None => cx.meter.pass(&*ends.source, &*ends.sink, at, how)?,
    };
    cx.out.report().times += Times::from(spent);
    Ok(hash)
}
