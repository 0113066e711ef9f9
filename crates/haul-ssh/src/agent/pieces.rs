//! Reading a remote file ahead of its reader: pieces that were requested and have not been used.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_core::error::Result;

use super::frame::Frame;
use super::handle::OpenFile;
use super::link::{Link, Ticket};
use super::ops;
use super::source::RemoteSource;
use super::wire::protocol_error;
use crate::link_saturation::NEAR;
use haul_core::lock::lock;

pub(super) const PIECE: u64 = 256 << 10;
const _: () = assert!(PIECE <= ops::PIECE);
/// Bytes that one reader requests ahead: what a gigabit link carries in a quarter of a second. The pieces are used in their order, so
/// that a connection that is behind holds up the others once all of it is in flight.
const WINDOW: u64 = 32 << 20;
/// On a local network.
const WINDOW_NEAR: u64 = 4 << 20;

pub(super) struct Pieces {
    pub file: OpenFile,
    in_flight: VecDeque<(Range<u64>, Ticket)>,
    /// What the last reader has left of a piece, from where on; before what is in flight.
    rest: Option<Rest>,
    /// Up to where pieces were requested.
    asked: u64,
    pub end: u64,
    /// Bytes taken from what all readers share.
    borrowed: u64,
}

struct Rest {
    start: u64,
    frame: Frame,
    /// Of the frame's bytes, what was handed on.
    at: usize,
}

impl Pieces {
    pub fn new(file: OpenFile, at: Range<u64>) -> Pieces {
        Pieces { file, in_flight: VecDeque::new(), rest: None, asked: at.start, end: at.end, borrowed: 0 }
    }

    /// Where what has not been used begins.
    pub fn next_start(&self) -> u64 {
        let in_flight = || self.in_flight.front().map_or(self.asked, |(at, _)| at.start);
        self.rest.as_ref().map_or_else(in_flight, |rest| rest.start)
    }

    fn window(&self) -> u64 {
        if self.file.session.round_trip().is_some_and(|time| time < NEAR) { WINDOW_NEAR } else { WINDOW }
    }

    /// Requests pieces up to `limit` as far as the window goes: always one, more only if all readers together leave room.
    pub fn ask(&mut self, limit: u64) -> Result<()> {
        let window = self.window();
        loop {
            let ahead: u64 = self.in_flight.iter().map(|(at, _)| at.end - at.start).sum();
            // A piece never crosses the end of the range: the next range begins with a piece of its own.
            let most = if self.asked < self.end { limit.min(self.end) } else { limit };
            let at = self.asked..(self.asked + PIECE).min(most);
            if at.is_empty() || ahead + (at.end - at.start) > window {
                return Ok(());
            }
            if !self.in_flight.is_empty() && !self.borrow(at.end - at.start) {
                return Ok(());
            }
            self.request(None, at)?;
        }
    }

    /// The first pieces are requested on the link on which the file was opened.
    pub fn ask_on(&mut self, link: &Arc<Link>, most: u64) -> Result<()> {
        while self.asked < self.end.min(most) {
            self.request(Some(link), self.asked..(self.asked + PIECE).min(self.end))?;
        }
        Ok(())
    }

    fn request(&mut self, link: Option<&Arc<Link>>, at: Range<u64>) -> Result<()> {
        let (request, count) = (self.file.request(|to| to.put(&at)), at.end - at.start);
        let link = link.cloned().map_or_else(|| self.file.session.link(count), Ok)?;
        let ticket = link.ask(ops::READ, &[&request], count)?;
        self.asked = at.end;
        self.in_flight.push_back((at, ticket));
        Ok(())
    }

    fn borrow(&mut self, bytes: u64) -> bool {
        let mut left = lock(&self.file.session.ahead);
        if *left < bytes {
            return false;
        }
        *left -= bytes;
        self.borrowed += bytes;
        true
    }

    /// A reader requests its first piece in any case, an expected read only if there is room.
    pub fn borrow_for_first(&mut self) -> bool {
        self.borrow((self.end - self.asked).min(PIECE))
    }

    fn next(&mut self) -> Option<(Range<u64>, Ticket)> {
        let (at, ticket) = self.in_flight.pop_front()?;
        let back = (at.end - at.start).min(self.borrowed);
        self.borrowed -= back;
        *lock(&self.file.session.ahead) += back;
        Some((at, ticket))
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        *lock(&self.file.session.ahead) += self.borrowed;
    }
}

pub(super) struct Reader<'a> {
    source: &'a RemoteSource,
    pieces: Option<Pieces>,
    position: u64,
    end: u64,
    hint_sequential: bool,
    frame: Option<Frame>,
    /// Of the frame's bytes, what was handed on.
    at: usize,
}

impl<'a> Reader<'a> {
    /// `hint_sequential`: the next reader will most likely begin where this one ends.
    pub fn new(source: &'a RemoteSource, mut pieces: Pieces, range: Range<u64>, hint_sequential: bool) -> Reader<'a> {
        source.readers.fetch_add(1, Ordering::Relaxed);
        let (frame, at) = pieces.rest.take().map_or((None, 0), |rest| (Some(rest.frame), rest.at));
        Reader { source, pieces: Some(pieces), position: range.start, end: range.end, hint_sequential, frame, at }
    }
}

impl Reader<'_> {
    fn next_piece(&mut self) -> Result<()> {
        let Some(pieces) = &mut self.pieces else { return Ok(()) };
        // A single reader requests beyond its end: the next chunk is most likely the one that follows.
        let alone = self.hint_sequential && self.source.readers.load(Ordering::Relaxed) == 1;
        let limit = if alone { self.source.size.max(self.end) } else { self.end };
        pieces.ask(limit)?;
        let Some((at, ticket)) = pieces.next() else { return Ok(()) };
        let frame = ticket.wait()?;
        if frame.body().0.len() as u64 != at.end - at.start || at.start != self.position {
            return Err(protocol_error("an unexpected byte range"));
        }
        (self.frame, self.at) = (Some(frame), 0);
        Ok(())
    }
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        let want = buffer.len().min(left);
        if want == 0 {
            return Ok(0);
        }
        if self.frame.as_ref().is_none_or(|frame| self.at >= frame.body().0.len()) {
            self.frame = None;
            self.next_piece().map_err(|e| e.on(&self.source.name))?;
        }
        let Some(frame) = &self.frame else { return Ok(0) };
        let bytes = &frame.body().0[self.at..];
        let count = bytes.len().min(want);
        buffer[..count].copy_from_slice(&bytes[..count]);
        self.at += count;
        self.position += count as u64;
        Ok(count)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.source.readers.fetch_sub(1, Ordering::Relaxed);
        self.source.last.store(self.position, Ordering::Relaxed);
        // A whole range was read and more was requested: kept for the reader that continues there, with what is left of a piece. Its end
        // is where a piece ends only by chance.
        let Some(mut pieces) = self.pieces.take().filter(|_| self.position == self.end) else { return };
        let frame = self.frame.take().filter(|frame| self.at < frame.body().0.len());
        pieces.rest = frame.map(|frame| Rest { start: self.position, frame, at: self.at });
        if pieces.rest.is_some() || !pieces.in_flight.is_empty() {
            lock(&self.source.ahead).push(pieces);
        }
    }
}
