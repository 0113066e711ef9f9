//! Sources of unknown size, and destinations that take bytes only in order: one worker moves them.

use std::collections::VecDeque;
use std::io::{ErrorKind as IoKind, Read};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::bundle::Spent;
use crate::engine::clock::Flight;
use crate::engine::context::Context;
use crate::engine::tries::retry;
use crate::entry::MetaMask;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::xxh128;
use crate::report::Times;
use crate::store::{Chunk, Receipt, Sink, Source, WriteStyle, chunk_size};

use super::open_file::{Ends, OpenFile};
use super::ordered_verify::Shown;
use super::{open, run};

/// Bytes that are read and written at once where the destination takes any.
const PIECE: u64 = 1 << 20;
/// Pieces in flight to a destination that confirms each: as much as the connections to a host take (`WINDOW` of the agent).
const KEPT: usize = 32;

/// Copies all that comes. What fails after the destination was opened is reported by [`run::finish`].
pub fn perform(cx: &Arc<Context>, file: &Arc<OpenFile>) -> Result<()> {
    let entry = file.entry();
    if !cx.writes() {
        let e = Error::new(ErrorKind::Unsupported, "compare").on(&entry.name);
        return Err(e.because("the size of the source is known only at its end"));
    }
    let flight = cx.clock.begin(&entry.name, 0, "open");
    let ends = pour(cx, file, &flight).inspect_err(|_| cx.clock.end(&flight))?;
    run::finish(cx, file, &ends);
    Ok(())
}

/// Moves the content; an error after the start is left in the file's state. Reads the first bytes before it creates anything:
/// content that ends within them is written as a file of known size.
fn pour(cx: &Context, file: &OpenFile, flight: &Arc<Flight>) -> Result<Ends> {
    let mut entry = file.entry();
    let source = retry(|| cx.source(&file.work).open(&entry, cx.job.links.follow)).map_err(Error::of_source)?;
    let style = cx.target().caps().write;
    let in_parts = matches!(style, WriteStyle::Parts { .. });
    let chunk = if in_parts { chunk_size(cx.job.chunk, 0, style) } else { u64::MAX };
    let step = if in_parts { chunk } else { PIECE };
    let size = (!cx.source(&file.work).caps().streams).then_some(entry.size);
    let lands = !in_parts && cx.target().caps().tuning.lands_pieces;
    let mut taken = Taken { cx, flight, at: 0, spent: Spent::default(), sent: lands.then(VecDeque::new) };
    flight.doing("copy");
    let mut reader = Reader { source: &*source, from: None, at: 0, size };
    let mut bytes = Vec::new();
    let mut ended = taken.fill(&mut reader, &mut bytes, step)?;
    if size.is_none() {
        entry.have = entry.have.without(MetaMask::BASIC);
    }
    if ended {
        (entry.size, entry.have) = (bytes.len() as u64, entry.have.with(MetaMask::BASIC));
    }
    let open::Write { sink, session, intent, .. } = open::stream(cx, file, &entry, chunk)?;
    let mut receipts = Vec::new();
    let mut hasher = cx.job.verify.then(xxhash_rust::xxh3::Xxh3::new);
    let moved = loop {
        let part = if in_parts { Some(receipts.len() as u32) } else { None };
        if let Some(hasher) = hasher.as_mut().filter(|_| !in_parts) {
            hasher.update(&bytes);
        }
        let passed = taken.pass(&*sink, &mut bytes, part).map(|receipt| receipts.extend(receipt));
        if passed.is_err() || ended {
            break passed;
        }
        match taken.fill(&mut reader, &mut bytes, step) {
            Ok(end) => ended = end,
            Err(e) => break Err(e),
        }
        if ended && bytes.is_empty() {
            break Ok(());
        }
    };
    drop(reader);
    let moved = moved.and_then(|()| {
        if !in_parts {
            taken.land(&*sink, 0)?;
            let tag = retry(|| sink.landed(&Chunk { index: 0, at: 0..taken.at }))?;
            let hash = hasher.map(|hasher| hasher.digest128());
            receipts.push(Receipt { index: 0, tag, hash });
        }
        Ok(())
    });
    if moved.is_err() {
        let counted = taken.sent.iter().flatten().filter(|piece| piece.at.end <= taken.at);
        cx.meter.refuse(counted.map(|piece| piece.bytes.len() as u64).sum());
    }
    cx.out.report().times += Times::from(taken.spent);
    let size = taken.at;
    let stamp = entry.stamp();
    let mut state = file.state();
    (state.entry, state.receipts, state.error) = (entry, receipts, moved.err());
    (state.entry.size, state.entry.have) = (size, state.entry.have.with(MetaMask::BASIC));
    Ok(Ends {
        source: source.into(),
        sink,
        session,
        stamp,
        intent,
        chunk,
        delta: None,
        digested: false,
        shown: Shown::new(chunk, std::iter::empty()),
        flight: flight.clone(),
    })
}

/// What has passed so far.
struct Taken<'a> {
    cx: &'a Context,
    flight: &'a Flight,
    at: u64,
    spent: Spent,
    /// Pieces that are not known to have arrived, the oldest first, where the destination confirms each: a lost connection loses them.
    sent: Option<VecDeque<Sent>>,
}

/// A piece that was sent.
struct Sent {
    at: Range<u64>,
    bytes: Vec<u8>,
}

impl Taken<'_> {
    /// Reads `most` bytes, or fewer at the end: whether it is there.
    fn fill(&mut self, from: &mut Reader<'_>, bytes: &mut Vec<u8>, most: u64) -> Result<bool> {
        bytes.clear();
        let (began, sized) = (Instant::now(), from.size.is_some());
        let ended = loop {
            if bytes.len() as u64 == most {
                break false;
            }
            let mut piece = || {
                let left = most - bytes.len() as u64;
                from.piece(bytes, left.min(PIECE))
            };
            // What has failed and has no size could end in the middle the next time.
            let read = if sized { retry(piece) } else { piece() };
            if read.map_err(Error::of_source)? {
                break true;
            }
            self.cx.cancel.check()?;
        };
        self.spent.reading += began.elapsed();
        Ok(ended)
    }

    /// Waits until the destination has all pieces but the last `most`. What a lost connection has taken is sent again, and all that
    /// follows it, in order. Returns the buffer of a piece that has arrived.
    fn land(&mut self, sink: &dyn Sink, most: usize) -> Result<Vec<u8>> {
        let mut spare = Vec::new();
        let Some(sent) = &mut self.sent else { return Ok(spare) };
        while sent.len() > most {
            let Some(first) = sent.front() else { break };
            let chunk = Chunk { index: 0, at: first.at.clone() };
            let mut failed = false;
            retry(|| {
                if std::mem::replace(&mut failed, true) {
                    sent.iter().try_for_each(|piece| sink.write_bytes(piece.at.start, &piece.bytes))?;
                }
                sink.landed(&chunk).map(|_| ())
            })?;
            spare = sent.pop_front().map_or(spare, |piece| piece.bytes);
        }
        Ok(spare)
    }

    /// Writes what was read, as a part of its own where the destination has such. Leaves no bytes where each piece is confirmed.
    fn pass(&mut self, sink: &dyn Sink, bytes: &mut Vec<u8>, part: Option<u32>) -> Result<Option<Receipt>> {
        let (at, count) = (self.at..self.at + bytes.len() as u64, bytes.len() as u64);
        let began = Instant::now();
        let receipt = retry(|| {
            sink.write_bytes(at.start, bytes)?;
            let Some(index) = part else { return Ok(None) };
            let tag = sink.landed(&Chunk { index, at: at.clone() })?;
            Ok(Some(Receipt { index, tag, hash: None }))
        })?;
        let receipt = receipt.map(|receipt| Receipt { hash: self.cx.job.verify.then(|| xxh128(bytes)), ..receipt });
        if let Some(sent) = &mut self.sent {
            sent.push_back(Sent { at: at.clone(), bytes: std::mem::take(bytes) });
            *bytes = self.land(sink, KEPT)?;
            bytes.clear();
        }
        self.spent.writing += began.elapsed();
        self.at = at.end;
        self.flight.moved.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
        self.spent.throttled += self.cx.meter.take(count)?;
        Ok(receipt)
    }
}

/// The content in order. Where its size is known, a read that failed goes on where it stopped.
struct Reader<'a> {
    source: &'a dyn Source,
    from: Option<Box<dyn Read + Send + 'a>>,
    at: u64,
    size: Option<u64>,
}

impl Reader<'_> {
    /// Appends what comes next, at most `most` bytes: whether the end was there instead.
    fn piece(&mut self, bytes: &mut Vec<u8>, most: u64) -> Result<bool> {
        let mut from = match (self.from.take(), self.size) {
            (Some(from), _) => from,
            (None, None) => self.source.stream()?,
            (None, Some(size)) if self.at >= size => return Ok(true),
            (None, Some(size)) => self.source.read(self.at..size)?,
        };
        let before = bytes.len();
        let read = Read::take(&mut *from, most).read_to_end(bytes);
        let count = (bytes.len() - before) as u64;
        self.at += count;
        let ended = read.is_ok();
        match read {
            Err(e) if !matches!(e.kind(), IoKind::WouldBlock | IoKind::Interrupted) => return Err(Error::from_io(e, "read")),
            _ => self.from = Some(from),
        }
        Ok(ended && count == 0)
    }
}
