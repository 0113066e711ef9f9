//! Reading one file ahead of its reader, and beyond the end of a range that another will continue.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use haul_core::entry::Name;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::lock::lock;

use super::channel::Ticket;
use super::client::data;
use super::packet::{kind, protocol_error};
use super::stripes::{Stripe, WINDOW, least_loaded};
use crate::readahead::Readahead;

/// Rests that are kept: more than workers read one file.
const REMEMBERED: usize = 64;
/// A range of so many bytes at the start of a file will most likely be continued.
const LONG: u64 = 1 << 20;

/// What was requested of a file and has not been read, between its readers.
#[derive(Default)]
pub(super) struct Ahead {
    size: u64,
    rests: Mutex<Vec<(u64, Requested)>>,
    pub announced: Readahead,
    readers: AtomicU32,
    last: AtomicU64,
}

/// A block that was asked for.
struct Block {
    ticket: Ticket,
    stripe: Arc<Stripe>,
    at: Range<u64>,
}

/// Blocks in their order, and what is left of the one before them.
#[derive(Default)]
struct Requested {
    /// Up to where.
    end: u64,
    in_flight: VecDeque<Block>,
    bytes: Vec<u8>,
    /// Of `bytes`, what was handed on.
    at: usize,
}

impl Ahead {
    /// Of a file of `size` bytes.
    pub fn of(size: u64) -> Ahead {
        Ahead { size, ..Ahead::default() }
    }

    fn take(&self, start: u64) -> Option<Requested> {
        let mut rests = lock(&self.rests);
        let found = rests.iter().position(|(at, _)| *at == start)?;
        let (_, rest) = rests.swap_remove(found);
        // After a lost connection it is asked for again.
        (!rest.in_flight.iter().any(|block| block.stripe.channel.is_over())).then_some(rest)
    }

    fn keep(&self, start: u64, rest: Requested) {
        let mut rests = lock(&self.rests);
        rests.retain(|(at, _)| *at != start);
        rests.truncate(REMEMBERED - 1);
        rests.push((start, rest));
    }
}

/// The channels that there are, at least one.
type Stripes<'a> = dyn Fn() -> Result<Vec<Arc<Stripe>>> + Send + 'a;

pub(super) struct Reader<'a> {
    name: &'a Name,
    stripes: Box<Stripes<'a>>,
    block: usize,
    ahead: Option<&'a Ahead>,
    position: u64,
    end: u64,
    /// To where the next readers will go on.
    limit: u64,
    /// The next reader most likely continues where this one ends, if it is the only one.
    follows: bool,
    requested: Requested,
    taken: Box<dyn Fn(u64) + Send + 'a>,
}

impl<'a> Reader<'a> {
    /// `block` bytes per request; `taken` is called with the size of each block that has come.
    pub fn new(
        name: &'a Name,
        stripes: impl Fn() -> Result<Vec<Arc<Stripe>>> + Send + 'a,
        block: usize,
        at: Range<u64>,
        ahead: Option<&'a Ahead>,
        taken: impl Fn(u64) + Send + 'a,
    ) -> Reader<'a> {
        let requested = ahead.and_then(|ahead| ahead.take(at.start)).unwrap_or(Requested { end: at.start, ..Requested::default() });
        let follows = ahead.is_some_and(|ahead| {
            ahead.readers.fetch_add(1, Ordering::Relaxed);
            ahead.last.load(Ordering::Relaxed) == at.start && (at.start > 0 || at.end - at.start >= LONG)
        });
        let limit = ahead.and_then(|ahead| Some(ahead.announced.end_of(&at)?.min(ahead.size))).unwrap_or(at.end).max(at.end);
        let (stripes, taken) = (Box::new(stripes), Box::new(taken));
        Reader { name, stripes, block, ahead, position: at.start, end: at.end, limit, follows, requested, taken }
    }

    fn ask(&mut self) -> Result<()> {
        let alone = self.ahead.filter(|ahead| self.follows && ahead.readers.load(Ordering::Relaxed) == 1);
        let limit = alone.map_or(self.limit, |ahead| ahead.size.max(self.limit));
        let requested = &mut self.requested;
        if requested.end >= limit {
            return Ok(());
        }
        let stripes = (self.stripes)()?;
        let most = (WINDOW / self.block).max(2) * stripes.len();
        while requested.end < limit && requested.in_flight.len() < most {
            let stripe = &stripes[least_loaded(&stripes)];
            // One write carries half a window; then comes the next channel.
            let mut batch = stripe.channel.batch();
            for _ in 0..(most / stripes.len() / 2).max(1) {
                if requested.end >= limit || requested.in_flight.len() >= most {
                    break;
                }
                // No block crosses the end of the range: the next one begins with a block of its own.
                let most = if requested.end < self.end { self.end } else { limit };
                let at = requested.end..(requested.end + self.block as u64).min(most);
                let ticket = batch.push(kind::READ, |r| r.bytes(&stripe.handle).long(at.start).number((at.end - at.start) as u32));
                requested.end = at.end;
                requested.in_flight.push_back(Block { ticket, stripe: stripe.clone(), at });
            }
            batch.send()?;
        }
        Ok(())
    }

    fn next_block(&mut self) -> Result<()> {
        (self.requested.bytes, self.requested.at) = (Vec::new(), 0);
        self.ask()?;
        let Some(Block { ticket, stripe, at }) = self.requested.in_flight.pop_front() else { return Ok(()) };
        if at.start != self.position {
            return Err(protocol_error("an unexpected byte range"));
        }
        let mut answer = stripe.channel.wait(&ticket)?;
        let (mut from, mut whole) = (at.start, Vec::new());
        loop {
            let Some(bytes) = data(&answer, "read")?.filter(|bytes| !bytes.is_empty()) else {
                return Err(Error::new(ErrorKind::Changed, "read").because("it became shorter while it was read"));
            };
            if bytes.len() as u64 > at.end - from {
                return Err(protocol_error("more data than requested"));
            }
            from += bytes.len() as u64;
            whole.extend_from_slice(bytes);
            if from == at.end {
                break;
            }
            // A server may send less than it was asked for.
            answer = stripe.channel.ask(kind::READ, |r| r.bytes(&stripe.handle).long(from).number((at.end - from) as u32))?;
        }
        (self.taken)(whole.len() as u64);
        self.requested.bytes = whole;
        Ok(())
    }
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let want = usize::try_from(self.end - self.position).unwrap_or(usize::MAX).min(buffer.len());
        if want == 0 {
            return Ok(0);
        }
        if self.requested.at == self.requested.bytes.len() {
            self.next_block().map_err(|e| e.on(self.name))?;
        }
        let left = &self.requested.bytes[self.requested.at..];
        let count = left.len().min(want);
        buffer[..count].copy_from_slice(&left[..count]);
        self.requested.at += count;
        self.position += count as u64;
        Ok(count)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let Some(ahead) = self.ahead else { return };
        ahead.readers.fetch_sub(1, Ordering::Relaxed);
        ahead.last.store(self.position, Ordering::Relaxed);
        let rest = std::mem::take(&mut self.requested);
        if self.position == self.end && (rest.at < rest.bytes.len() || !rest.in_flight.is_empty()) {
            ahead.keep(self.position, rest);
        }
    }
}
