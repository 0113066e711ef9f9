//! A file of the far side that is open for reading or being written. After a lost connection it is opened again: a
//! source by its entry, a write by its token.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use haul_core::entry::{Entry, MetaMask, Name, Stamp, Xattrs};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::fill::fill_whole;
use haul_core::outline::Outline;
use haul_core::store::{Chunk, Landed, Reach, Receipt, Sink, Source, Spec, Token};

use super::link::{Frame, Ticket, kind, lock};
use super::ops;
use super::session::{NEAR, Session};
use super::store::Root;
use super::wire::{Writer, nonsense};

/// Bytes that one READ or WRITE carries.
const PIECE: u64 = 256 << 10;
/// Bytes that one reader asks for ahead: what a gigabit holds in a tenth of a second.
const WINDOW: u64 = 16 << 20;
/// The same where the way is short.
const WINDOW_NEAR: u64 = 4 << 20;

/// A number under which the far side knows a file, good for one session.
#[derive(Clone, Debug)]
struct Handle {
    session: Weak<Session>,
    number: u64,
}

impl Handle {
    /// Its session, if the file is still open there.
    fn session(&self) -> Option<Arc<Session>> {
        self.session.upgrade().filter(|session| !session.control.is_over())
    }

    fn close(&self) {
        if let Some(session) = self.session() {
            let mut to = Writer::new();
            to.number(self.number);
            // Its answer is nobody's.
            let _asked = session.ask(ops::CLOSE, &[&to.out], 0);
        }
    }
}

/// What opens a source again.
enum Origin {
    Entry(Entry, bool),
    Landed(Name),
    /// What is being written under a handle; it goes with it.
    Written(u64),
}

pub(super) struct RemoteSource {
    root: Arc<Root>,
    origin: Origin,
    name: Name,
    handle: Mutex<Handle>,
    size: u64,
    /// What was asked for before anybody reads it: because it was said that it will be, or on the guess that the next
    /// reader goes on where the last one ended.
    ahead: Mutex<Vec<Pieces>>,
    /// Where the last reader ended.
    last: AtomicU64,
    readers: AtomicU32,
}

impl RemoteSource {
    pub fn open(root: &Arc<Root>, entry: &Entry, follow: bool) -> Result<Self> {
        let name = entry.name.clone();
        Self::begin(root, Origin::Entry(Entry { xattrs: None, target: None, ..entry.clone() }, follow), name, entry.size)
    }

    pub fn reopen(root: &Arc<Root>, name: &Name) -> Result<Self> {
        Self::begin(root, Origin::Landed(name.clone()), name.clone(), 0)
    }

    fn begin(root: &Arc<Root>, origin: Origin, name: Name, size: u64) -> Result<Self> {
        let session = root.session()?;
        let number = root.client.number();
        // The first bytes are asked for behind the opening: whoever opens a file reads it.
        let (handle, ticket) = ask_open(root, &session, number, &origin)?;
        let mut ahead = Vec::new();
        // Who knows no more of it than its name wants its hash.
        if size > 0 && matches!(&origin, Origin::Entry(entry, _) if !entry.is_bare()) {
            let mut pieces = Pieces::new(session, number, 0..size);
            let first = ticket.link().clone();
            pieces.ask_on(&first, FIRST)?;
            ahead.push(pieces);
        }
        ticket.wait()?;
        Ok(RemoteSource {
            root: root.clone(),
            origin,
            name,
            handle: Mutex::new(handle),
            size,
            ahead: Mutex::new(ahead),
            last: AtomicU64::new(0),
            readers: AtomicU32::new(0),
        })
    }

    /// The file as it is open now, opened again if its session was lost.
    fn handle(&self) -> Result<(Arc<Session>, u64)> {
        let mut handle = lock(&self.handle);
        if let Some(session) = handle.session() {
            return Ok((session, handle.number));
        }
        if matches!(self.origin, Origin::Written(_)) {
            return Err(super::link::lost("the file must be reopened for writing"));
        }
        let session = self.root.session()?;
        let (again, ticket) = ask_open(&self.root, &session, self.root.client.number(), &self.origin)?;
        ticket.wait()?;
        *handle = again;
        Ok((session, handle.number))
    }

    fn call(&self, kind: u8, fill: impl FnOnce(&mut Writer)) -> Result<Frame> {
        let (session, number) = self.handle()?;
        let mut to = Writer::new();
        to.number(number);
        fill(&mut to);
        session.ask(kind, &[&to.out], 0)?.wait()
    }
}

/// The longest encoded outline: of crafted content, of the largest file.
const OUTLINE: usize = 64 << 20;
/// Bytes of a file that are asked for together with its opening.
const FIRST: u64 = 1 << 20;

fn ask_open(root: &Root, session: &Arc<Session>, number: u64, origin: &Origin) -> Result<(Handle, Ticket)> {
    let mut to = Writer::new();
    to.number(number);
    let kind = match origin {
        Origin::Entry(entry, follow) => {
            to.number(root.number).entry(entry).flag(*follow);
            ops::OPEN
        }
        Origin::Landed(name) => {
            to.number(root.number).name(name);
            ops::REOPEN
        }
        Origin::Written(sink) => {
            to.number(*sink);
            ops::REREAD
        }
    };
    to.check()?;
    let ticket = session.ask(kind, &[&to.out], 0)?;
    Ok((Handle { session: Arc::downgrade(session), number }, ticket))
}

impl Drop for RemoteSource {
    fn drop(&mut self) {
        lock(&self.handle).close();
    }
}

impl Source for RemoteSource {
    fn read(&self, at: Range<u64>) -> Result<Box<dyn Read + Send + '_>> {
        let (session, number) = self.handle().map_err(|e| e.on(&self.name))?;
        let guessed = {
            let mut ahead = lock(&self.ahead);
            ahead.retain(|pieces| Arc::ptr_eq(&pieces.session, &session) && pieces.number == number);
            let at = ahead.iter().position(|pieces| pieces.next_start() == at.start);
            at.map(|at| ahead.swap_remove(at))
        };
        let mut pieces = guessed.unwrap_or_else(|| Pieces::new(session, number, at.clone()));
        pieces.end = at.end;
        self.readers.fetch_add(1, Ordering::Relaxed);
        // Whoever reads on where the last one ended, or a long part from the start, will most likely go on.
        let goes_on = self.last.load(Ordering::Relaxed) == at.start && (at.start > 0 || at.end - at.start >= FIRST);
        Ok(Box::new(Reader { source: self, pieces: Some(pieces), position: at.start, end: at.end, goes_on, frame: None, at: 0 }))
    }

    fn reach(&self) -> Option<Reach> {
        let (session, number) = self.handle().ok()?;
        Some(Reach { host: session.id, file: number })
    }

    fn expect(&self, parts: &[Range<u64>]) {
        let Ok((session, number)) = self.handle() else { return };
        let mut ahead = lock(&self.ahead);
        for part in parts {
            if ahead.iter().any(|pieces| pieces.next_start() == part.start) {
                continue;
            }
            let mut pieces = Pieces::new(session.clone(), number, part.clone());
            if !pieces.borrow_for_first() || pieces.ask(part.end).is_err() {
                return;
            }
            ahead.push(pieces);
        }
    }

    fn stamp(&self) -> Result<Stamp> {
        self.call(ops::STAMP, |_| {}).and_then(|answer| answer.body().stamp()).map_err(|e| e.on(&self.name))
    }

    fn data(&self, at: Range<u64>) -> Result<Vec<Range<u64>>> {
        let answer = self.call(ops::EXTENTS, |to| {
            to.range(&at);
        });
        let parts = || {
            let answer = answer?;
            let mut from = answer.body();
            let parts: Vec<Range<u64>> = (0..from.count()?).map(|_| from.range()).collect::<Result<_>>()?;
            let mut last = at.start;
            for part in &parts {
                if part.start < last || part.end > at.end {
                    return Err(nonsense("extents that are not in order"));
                }
                last = part.end;
            }
            Ok(parts)
        };
        parts().map_err(|e: Error| e.on(&self.name))
    }

    fn xattrs(&self, want: MetaMask) -> Result<Xattrs> {
        let answer = self.call(ops::XATTRS, |to| {
            to.mask(want);
        });
        answer.and_then(|answer| answer.body().xattrs()).map_err(|e| e.on(&self.name))
    }

    fn outline(&self, average: u32, each: &mut dyn FnMut(u64) -> Result<()>) -> Result<Option<Outline>> {
        let mut outline = || {
            let (session, number) = self.handle()?;
            let mut to = Writer::new();
            to.number(number).number(average.into());
            let ticket = session.ask(ops::OUTLINE, &[&to.out], 0)?;
            let mut encoded = Vec::new();
            loop {
                let frame = ticket.next()?;
                let mut from = frame.body();
                if frame.kind == kind::DONE {
                    let size = from.number()?;
                    return Outline::decode(&encoded, average, size).map(Some);
                }
                ticket.credit(1)?;
                if let Err(e) = each(from.number()?) {
                    ticket.cancel()?;
                    return Err(e);
                }
                if encoded.len() + from.0.len() > OUTLINE {
                    return Err(nonsense("an outline without an end"));
                }
                encoded.extend_from_slice(from.0);
            }
        };
        outline().map_err(|e: Error| e.on(&self.name))
    }

    fn hash(&self, at: Range<u64>) -> Result<Option<u128>> {
        let answer = self.call(ops::HASH, |to| {
            to.range(&at);
        });
        let hash = answer.and_then(|answer| {
            let bytes: [u8; 16] = answer.body().bytes()?.try_into().map_err(|_| nonsense("a hash of another width"))?;
            Ok(Some(u128::from_be_bytes(bytes)))
        });
        hash.map_err(|e| e.on(&self.name))
    }
}

/// Pieces of a file that were asked for and have not been used, in order.
struct Pieces {
    session: Arc<Session>,
    number: u64,
    under_way: VecDeque<(Range<u64>, Ticket)>,
    /// Up to where pieces were asked for.
    asked: u64,
    end: u64,
    /// Bytes taken from what all readers share.
    borrowed: u64,
}

impl Pieces {
    fn new(session: Arc<Session>, number: u64, at: Range<u64>) -> Pieces {
        Pieces { session, number, under_way: VecDeque::new(), asked: at.start, end: at.end, borrowed: 0 }
    }

    /// Where what has not been used begins.
    fn next_start(&self) -> u64 {
        self.under_way.front().map_or(self.asked, |(at, _)| at.start)
    }

    fn window(&self) -> u64 {
        if self.session.round_trip().is_some_and(|time| time < NEAR) { WINDOW_NEAR } else { WINDOW }
    }

    /// Asks for pieces up to `limit` as far as the window goes. One is always asked for, more only if the bytes are to be had.
    fn ask(&mut self, limit: u64) -> Result<()> {
        let window = self.window();
        loop {
            let ahead: u64 = self.under_way.iter().map(|(at, _)| at.end - at.start).sum();
            // A piece never reaches over the end of the range: the next range begins with one of its own.
            let most = if self.asked < self.end { limit.min(self.end) } else { limit };
            let at = self.asked..(self.asked + PIECE).min(most);
            if at.is_empty() || ahead + (at.end - at.start) > window {
                return Ok(());
            }
            if !self.under_way.is_empty() && !self.borrow(at.end - at.start) {
                return Ok(());
            }
            let ticket = self.request(&at, |session, parts, weight| session.ask(ops::READ, parts, weight))?;
            self.asked = at.end;
            self.under_way.push_back((at, ticket));
        }
    }

    /// The first pieces go the way that the opening went.
    fn ask_on(&mut self, link: &Arc<super::link::Link>, most: u64) -> Result<()> {
        while self.asked < self.end.min(most) {
            let at = self.asked..(self.asked + PIECE).min(self.end);
            let ticket = self.request(&at, |_, parts, weight| link.ask(ops::READ, parts, weight))?;
            self.asked = at.end;
            self.under_way.push_back((at, ticket));
        }
        Ok(())
    }

    fn request(&self, at: &Range<u64>, ask: impl FnOnce(&Session, &[&[u8]], u64) -> Result<Ticket>) -> Result<Ticket> {
        let mut to = Writer::new();
        to.number(self.number).range(at);
        ask(&self.session, &[&to.out], at.end - at.start)
    }

    fn borrow(&mut self, bytes: u64) -> bool {
        let mut left = lock(&self.session.ahead);
        if *left < bytes {
            return false;
        }
        *left -= bytes;
        self.borrowed += bytes;
        true
    }

    /// The first piece is asked for in any case by whoever reads; by whoever only expects to read, if there is room.
    fn borrow_for_first(&mut self) -> bool {
        self.borrow((self.end - self.asked).min(PIECE))
    }

    fn next(&mut self) -> Option<(Range<u64>, Ticket)> {
        let (at, ticket) = self.under_way.pop_front()?;
        let back = (at.end - at.start).min(self.borrowed);
        self.borrowed -= back;
        *lock(&self.session.ahead) += back;
        Some((at, ticket))
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        *lock(&self.session.ahead) += self.borrowed;
    }
}

struct Reader<'a> {
    source: &'a RemoteSource,
    pieces: Option<Pieces>,
    position: u64,
    end: u64,
    goes_on: bool,
    frame: Option<Frame>,
    /// Of the frame's bytes, what was handed on.
    at: usize,
}

impl Reader<'_> {
    fn next_piece(&mut self) -> Result<()> {
        let Some(pieces) = &mut self.pieces else { return Ok(()) };
        // One reader alone goes on asking behind its end: the next chunk is most likely the one that follows.
        let alone = self.goes_on && self.source.readers.load(Ordering::Relaxed) == 1;
        let limit = if alone { self.source.size.max(self.end) } else { self.end };
        pieces.ask(limit)?;
        let Some((at, ticket)) = pieces.next() else { return Ok(()) };
        let frame = ticket.wait()?;
        if frame.body().0.len() as u64 != at.end - at.start || at.start != self.position {
            return Err(nonsense("an unexpected byte range"));
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
        // A whole range was read and more was asked for: kept for whoever goes on there.
        let whole = self.position == self.end && self.frame.as_ref().is_none_or(|frame| self.at >= frame.body().0.len());
        if let Some(pieces) = self.pieces.take().filter(|pieces| whole && !pieces.under_way.is_empty()) {
            lock(&self.source.ahead).push(pieces);
        }
    }
}

pub(super) struct RemoteSink {
    root: Arc<Root>,
    name: Name,
    token: Token,
    /// What opens it again.
    entry: Entry,
    keep: MetaMask,
    chunk: u64,
    in_place: bool,
    sync: bool,
    handle: Mutex<Handle>,
    /// Writes whose answers have not been looked at, by where they begin.
    under_way: Mutex<Vec<(Range<u64>, Ticket)>>,
    /// The end of what this sink wrote; a hole behind it is one already if the file is new.
    written: AtomicU64,
    made: bool,
}

impl RemoteSink {
    pub fn create(root: &Arc<Root>, name: &Name, spec: &Spec<'_>) -> Result<Self> {
        let session = root.session()?;
        let (handle, token) = ask_sink(root, &session, name, spec, None)?;
        Ok(Self::new(root, name, spec, handle, token, !spec.in_place))
    }

    pub fn attach(root: &Arc<Root>, name: &Name, token: &Token, spec: &Spec<'_>) -> Result<Self> {
        let session = root.session()?;
        if token_boot(token).is_some_and(|boot| boot != session.far.boot.as_bytes()) {
            let e = Error::new(ErrorKind::NotFound, "attach");
            return Err(e.because("the remote host was rebooted, or is another one"));
        }
        let (handle, token) = ask_sink(root, &session, name, spec, Some(token))?;
        Ok(Self::new(root, name, spec, handle, token, false))
    }

    fn new(root: &Arc<Root>, name: &Name, spec: &Spec<'_>, handle: Handle, token: Token, made: bool) -> Self {
        RemoteSink {
            root: root.clone(),
            name: name.clone(),
            token,
            entry: spec.entry.clone(),
            keep: spec.keep,
            chunk: spec.chunk,
            in_place: spec.in_place,
            sync: spec.sync,
            handle: Mutex::new(handle),
            under_way: Mutex::default(),
            written: AtomicU64::new(0),
            made,
        }
    }

    fn handle(&self) -> Result<(Arc<Session>, u64)> {
        let mut handle = lock(&self.handle);
        if let Some(session) = handle.session() {
            return Ok((session, handle.number));
        }
        let session = self.root.session()?;
        // What it took and had not written to its disk is gone with the memory of a machine that went down.
        if token_boot(&self.token).is_some_and(|boot| boot != session.far.boot.as_bytes()) {
            return Err(Error::new(ErrorKind::Changed, "write").because("the remote host went down while the file was written"));
        }
        let spec = Spec { entry: &self.entry, keep: self.keep, chunk: self.chunk, in_place: self.in_place, sync: self.sync };
        let (again, _token) = ask_sink(&self.root, &session, &self.name, &spec, Some(&self.token))?;
        *handle = again;
        Ok((session, handle.number))
    }

    fn call(&self, kind: u8, fill: impl FnOnce(&mut Writer)) -> Result<Frame> {
        let (session, number) = self.handle()?;
        let mut to = Writer::new();
        to.number(number);
        fill(&mut to);
        session.ask(kind, &[&to.out], 0)?.wait()
    }

    fn write_all(&self, at: Range<u64>, from: &mut dyn Read) -> Result<()> {
        self.make_way(&at)?;
        let (session, number) = self.handle()?;
        let mut buffer = vec![0; usize::try_from(PIECE.min(at.end - at.start)).unwrap_or(0)];
        let mut next = at.start;
        while next < at.end {
            let wanted = usize::try_from(at.end - next).unwrap_or(usize::MAX).min(buffer.len());
            fill_whole(from, &mut buffer[..wanted])?;
            let mut to = Writer::new();
            to.number(number).number(next);
            let ticket = session.ask(ops::WRITE, &[&to.out, &buffer[..wanted]], wanted as u64)?;
            lock(&self.under_way).push((next..next + wanted as u64, ticket));
            next += wanted as u64;
            // A failure is seen soon, not when a whole chunk has been sent in vain.
            self.settle(|part, ticket| at.start <= part.start && part.end <= at.end && ticket.is_answered())?;
        }
        self.written.fetch_max(at.end, Ordering::Relaxed);
        Ok(())
    }

    /// What was sent before for the same bytes is over before more is sent, for the far end does many things at a time. What
    /// became of a part that is done again does not matter.
    fn make_way(&self, at: &Range<u64>) -> Result<()> {
        let _whatever = self.settle(|part, _| at.start <= part.start && part.end <= at.end);
        self.settle(|part, _| part.start < at.end && at.start < part.end)
    }

    /// Waits for the answers to the writes that are chosen.
    fn settle(&self, chosen: impl Fn(&Range<u64>, &Ticket) -> bool) -> Result<()> {
        let due: Vec<Ticket> =
            lock(&self.under_way).extract_if(.., |(part, ticket)| chosen(part, ticket)).map(|(_, ticket)| ticket).collect();
        let mut first = Ok(());
        for ticket in due {
            // All of them are taken in: the next try must not meet the answers of this one.
            first = first.and(ticket.wait().map(|_| ()));
        }
        first
    }
}

fn ask_sink(root: &Root, session: &Arc<Session>, name: &Name, spec: &Spec<'_>, token: Option<&Token>) -> Result<(Handle, Token)> {
    let number = root.client.number();
    let mut to = Writer::new();
    to.number(number).number(root.number).name(name).entry(spec.entry);
    to.mask(spec.keep).number(spec.chunk).flag(spec.in_place).flag(spec.sync);
    if let Some(token) = token {
        to.bytes(token_there(token));
    }
    let kind = if token.is_some() { ops::ATTACH } else { ops::CREATE };
    to.check()?;
    let answer = session.ask(kind, &[&to.out], 0)?.wait()?;
    let token = token_with(answer.body().bytes()?, &session.far.boot);
    Ok((Handle { session: Arc::downgrade(session), number }, token))
}

/// The far store's token, and behind it which start of the far machine has what was written.
fn token_with(there: &[u8], boot: &str) -> Token {
    let mut token = there.to_vec();
    if token.contains(&b'@') {
        token.push(b'#');
        token.extend_from_slice(boot.as_bytes());
    }
    Token(token.into())
}

/// The far store's own token.
pub(super) fn token_there(token: &Token) -> &[u8] {
    token.0.split(|byte| *byte == b'#').next().unwrap_or_default()
}

fn token_boot(token: &Token) -> Option<&[u8]> {
    token.0.split(|byte| *byte == b'#').nth(1)
}

impl Drop for RemoteSink {
    fn drop(&mut self) {
        lock(&self.handle).close();
    }
}

impl Sink for RemoteSink {
    fn token(&self) -> Token {
        self.token.clone()
    }

    fn write(&self, at: Range<u64>, from: &mut dyn Read) -> Result<()> {
        self.write_all(at, from).map_err(|e| e.on(&self.name))
    }

    fn hole(&self, at: Range<u64>) -> Result<()> {
        if at.is_empty() || (self.made && at.start >= self.written.load(Ordering::Relaxed)) {
            return Ok(());
        }
        let hole = || {
            self.make_way(&at)?;
            let (session, number) = self.handle()?;
            let mut to = Writer::new();
            to.number(number).range(&at);
            let ticket = session.ask(ops::HOLE, &[&to.out], 0)?;
            lock(&self.under_way).push((at.clone(), ticket));
            Ok(())
        };
        hole().map_err(|e: Error| e.on(&self.name))
    }

    fn reuse(&self, old: &Stamp, from: u64, at: Range<u64>) -> Result<()> {
        let reuse = || {
            self.make_way(&at)?;
            let (session, number) = self.handle()?;
            let mut to = Writer::new();
            to.number(number).stamp(old).number(from).range(&at);
            let ticket = session.ask(ops::REUSE, &[&to.out], 0)?;
            lock(&self.under_way).push((at.clone(), ticket));
            Ok(())
        };
        reuse().map_err(|e: Error| e.on(&self.name))
    }

    fn pull(&self, from: Reach, at: Range<u64>, hash: bool) -> Result<Option<u128>> {
        let pull = || {
            let (session, number) = self.handle()?;
            let friend = if session.id == from.host { 0 } else { from.host };
            if friend != 0 && !lock(&session.friends).contains(&friend) {
                return Ok(None);
            }
            let mut to = Writer::new();
            to.number(number).number(friend).number(from.file).range(&at).flag(hash);
            match session.control.ask(ops::PULL, &[&to.out], 0)?.wait() {
                Ok(answer) if hash => {
                    let bytes: [u8; 16] = answer.body().bytes()?.try_into().map_err(|_| nonsense("a hash of another width"))?;
                    Ok(Some(u128::from_be_bytes(bytes)))
                }
                Ok(_) => Ok(Some(0)),
                Err(e) if e.op() == "pull" && e.kind() == ErrorKind::NotFound => {
                    // They have lost each other: what is left goes through this machine.
                    lock(&session.friends).remove(&friend);
                    Ok(None)
                }
                Err(e) => Err(e),
            }
        };
        pull().map_err(|e: Error| e.on(&self.name))
    }

    fn landed(&self, chunk: &Chunk) -> Result<Box<[u8]>> {
        self.settle(|part, _| chunk.at.start <= part.start && part.end <= chunk.at.end).map_err(|e| e.on(&self.name))?;
        Ok(Box::default())
    }

    fn reread(&self) -> Result<Box<dyn Source>> {
        let reread = || {
            self.settle(|_, _| true)?;
            let (_session, number) = self.handle()?;
            RemoteSource::begin(&self.root, Origin::Written(number), self.name.clone(), 0)
        };
        Ok(Box::new(reread().map_err(|e| e.on(&self.name))?))
    }

    fn commit(&self, entry: &Entry, receipts: &[Receipt]) -> Result<Landed> {
        let commit = || {
            self.settle(|_, _| true)?;
            let answer = self.call(ops::COMMIT, |to| {
                to.number(self.root.number).entry(entry).receipts(receipts);
            })?;
            answer.body().landed()
        };
        commit().map_err(|e| e.on(&self.name))
    }

    fn abort(&self) -> Result<()> {
        let _what_was_on_its_way = self.settle(|_, _| true);
        let aborted = self.call(ops::ABORT, |_| {});
        match aborted {
            // What is not there any more needs no removal.
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            aborted => aborted.map(|_| ()).map_err(|e| e.on(&self.name)),
        }
    }
}

const _: () = assert!(PIECE <= ops::PIECE);
