//! A file of the remote host that is open for reading. After a lost connection it is opened again.

use std::io::Read;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use haul_core::entry::{Entry, MetaMask, Name, Stamp, Xattrs};
use haul_core::error::{Error, Result};
use haul_core::signature::Signature;
use haul_core::signature::wire::Incoming;
use haul_core::store::{NearData, OnChunks, Reach, Source, SourceExtensions};

use super::frame::{Frame, kind, lost};
use super::handle::{Handle, OpenFile};
use super::link::Ticket;
use super::ops;
use super::pieces::{Pieces, Reader};
use super::root::Root;
use super::session::Session;
use super::wire::{Writer, protocol_error};
use crate::readahead::Readahead;
use haul_core::lock::lock;

pub(super) enum Origin {
    Entry(Entry, bool),
    WriteOutcome(Name),
    /// What is being written under a handle; it goes with it.
    Written(u64),
}

pub(super) struct RemoteSource {
    root: Arc<Root>,
    origin: Origin,
    pub(super) name: Name,
    handle: Mutex<Handle>,
    pub(super) size: u64,
    /// What was requested before it is read: expected reads, and what follows the end of the last reader.
    pub(super) ahead: Mutex<Vec<Pieces>>,
    pub(super) last: AtomicU64,
    pub(super) readers: AtomicU32,
    announced: Readahead,
}

impl RemoteSource {
    pub fn open(root: &Arc<Root>, entry: &Entry, follow: bool) -> Result<Self> {
        let name = entry.name.clone();
        Self::begin(root, Origin::Entry(Entry { xattrs: None, target: None, ..entry.clone() }, follow), name, entry.size)
    }

    pub fn reopen(root: &Arc<Root>, name: &Name) -> Result<Self> {
        Self::begin(root, Origin::WriteOutcome(name.clone()), name.clone(), 0)
    }

    pub fn begin(root: &Arc<Root>, origin: Origin, name: Name, size: u64) -> Result<Self> {
        // The first bytes are requested right behind the opening: an opened file is read.
        let (file, ticket) = ask_open(root, root.session()?, &origin)?;
        file.session.opened.fetch_add(size, Ordering::Relaxed);
        let mut ahead = Vec::new();
        // An entry of which no more is known than its name is opened for its hash.
        if size > 0 && matches!(&origin, Origin::Entry(entry, _) if !entry.is_bare()) {
            let mut pieces = Pieces::new(file.clone(), 0..size);
            pieces.ask_on(ticket.link(), FIRST)?;
            ahead.push(pieces);
        }
        ticket.wait()?;
        Ok(RemoteSource {
            root: root.clone(),
            origin,
            name,
            handle: Mutex::new(Handle::of(&file)),
            size,
            ahead: Mutex::new(ahead),
            last: AtomicU64::new(0),
            readers: AtomicU32::new(0),
            announced: Readahead::default(),
        })
    }

    /// The file as it is open now, opened again if its session was lost.
    fn file(&self) -> Result<OpenFile> {
        let mut handle = lock(&self.handle);
        if let Some(file) = handle.file() {
            return Ok(file);
        }
        if matches!(self.origin, Origin::Written(_)) {
            return Err(lost("the file must be reopened for writing"));
        }
        let (file, ticket) = ask_open(&self.root, self.root.session()?, &self.origin)?;
        ticket.wait()?;
        *handle = Handle::of(&file);
        Ok(file)
    }

    /// Asks about the file; an error names it.
    fn call<T>(&self, kind: u8, fill: impl FnOnce(&mut Writer) -> &mut Writer, read: impl FnOnce(&Frame) -> Result<T>) -> Result<T> {
        let answer = self.file().and_then(|file| file.call(kind, fill));
        answer.and_then(|answer| read(&answer)).map_err(|e| e.on(&self.name))
    }
}

const SIGNATURE: usize = 64 << 20;
/// Bytes of a file that are asked for together with its opening.
const FIRST: u64 = 1 << 20;

fn ask_open(root: &Root, session: Arc<Session>, origin: &Origin) -> Result<(OpenFile, Ticket)> {
    let file = OpenFile { session, number: root.client.number() };
    let mut to = Writer::default();
    to.put(file.number);
    let kind = match origin {
        Origin::Entry(entry, follow) => {
            to.put(root.number).entry(entry).put(follow);
            ops::OPEN
        }
        Origin::WriteOutcome(name) => {
            to.put(root.number).name(name);
            ops::REOPEN
        }
        Origin::Written(sink) => {
            to.put(sink);
            ops::REREAD
        }
    };
    to.check()?;
    let ticket = file.session.ask(kind, &[&to.out], 0)?;
    Ok((file, ticket))
}

impl Source for RemoteSource {
    fn read(&self, at: Range<u64>) -> Result<Box<dyn Read + Send + '_>> {
        let file = self.file().map_err(|e| e.on(&self.name))?;
        let guessed = {
            let mut ahead = lock(&self.ahead);
            ahead.retain(|pieces| pieces.file.is(&file));
            let at = ahead.iter().position(|pieces| pieces.next_start() == at.start);
            at.map(|at| ahead.swap_remove(at))
        };
        let mut pieces = guessed.unwrap_or_else(|| Pieces::new(file, at.clone()));
        pieces.end = at.end;
        // A reader that continues the last one, or reads a long part from the start, will most likely be continued.
        let follows = self.last.load(Ordering::Relaxed) == at.start && (at.start > 0 || at.end - at.start >= FIRST);
        let hint_sequential = self.announced.end_of(&at).is_some_and(|end| end > at.end) || follows;
        Ok(Box::new(Reader::new(self, pieces, at, hint_sequential)))
    }

    fn prefetch(&self, parts: &[Range<u64>]) {
        let Ok(file) = self.file() else { return };
        let mut ahead = lock(&self.ahead);
        for part in parts {
            if ahead.iter().any(|pieces| pieces.next_start() == part.start) {
                continue;
            }
            let mut pieces = Pieces::new(file.clone(), part.clone());
            if !pieces.borrow_for_first() || pieces.ask(part.end).is_err() {
                return;
            }
            ahead.push(pieces);
        }
    }

    fn hint_sequential(&self, at: Range<u64>) {
        self.announced.add(at);
    }

    fn stamp(&self) -> Result<Stamp> {
        self.root.ask_work_ahead();
        self.call(ops::STAMP, |to| to, |answer| answer.body().stamp())
    }

    fn data(&self, at: Range<u64>) -> Result<Vec<Range<u64>>> {
        let read = |answer: &Frame| {
            let parts: Vec<Range<u64>> = answer.body().get()?;
            let mut last = at.start;
            for part in &parts {
                if part.start < last || part.start > part.end || part.end > at.end {
                    return Err(protocol_error("extents that are not in order"));
                }
                last = part.end;
            }
            Ok(parts)
        };
        self.call(ops::EXTENTS, |to| to.put(&at), read)
    }

    fn xattrs(&self, want: MetaMask) -> Result<Xattrs> {
        self.call(ops::XATTRS, |to| to.put(want), |answer| answer.body().get())
    }

    fn extensions(&self) -> SourceExtensions<'_> {
        SourceExtensions { reports_holes: true, near_data: self, ..SourceExtensions::default() }
    }
}

impl NearData for RemoteSource {
    fn reach(&self) -> Option<Reach> {
        let file = self.file().ok()?;
        Some(Reach { host: file.session.id, file: file.number })
    }

    fn signature(&self, average: u32, each: &mut OnChunks<'_>) -> Result<Option<Signature>> {
        let mut signature = || {
            let ticket = self.file()?.ask(ops::SIGNATURE, 0, |to| to.put(average))?;
            let (mut incoming, mut bytes) = (Incoming::new(average), 0);
            loop {
                let frame = ticket.next()?;
                let mut from = frame.body();
                if frame.kind == kind::DONE {
                    return incoming.finish(from.get()?).map(Some);
                }
                ticket.credit(1)?;
                let read = from.get()?;
                bytes += from.0.len();
                if bytes > SIGNATURE {
                    return Err(protocol_error("an endless signature"));
                }
                if let Err(e) = incoming.push(from.0).and_then(|chunks| each(read, chunks)) {
                    ticket.cancel()?;
                    return Err(e);
                }
            }
        };
        signature().map_err(|e: Error| e.on(&self.name))
    }

    fn hash(&self, at: Range<u64>) -> Result<Option<u128>> {
        self.call(ops::HASH, |to| to.put(&at), |answer| answer.body().get().map(Some))
    }
}
