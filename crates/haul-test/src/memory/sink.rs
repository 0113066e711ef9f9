//! Open files: sources and sinks.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use haul_core::entry::{Entry, Kind, MetaMask, Name, Stamp, Xattrs};
use haul_core::hash::{Algorithm, xxh128};
use haul_core::store::{
    Chunk, Receipt, Sink, SinkExtensions, SinkState, Source, SourceExtensions, Spec, Token, WriteOutcome, WriteStyle, chunks,
};
use haul_core::{Error, ErrorKind, Result};

use super::tree::File;
use super::{Memory, extended_of, fail, lost};
use haul_core::lock::lock;

/// Bytes copied under one lock, so that writers of one file take turns.
const STEP: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Open {
    pub store: Memory,
    pub name: Name,
    pub file: File,
}

impl Source for Open {
    fn read(&self, at: Range<u64>) -> Result<Box<dyn Read + Send + '_>> {
        self.store.log.note("read", [self.name.path()].into_iter());
        if !self.store.caps.read_ranges && at.start != 0 {
            return Err(fail(ErrorKind::Unsupported, "read", &self.name));
        }
        Ok(Box::new(Reader { open: self, at }))
    }

    fn stamp(&self) -> Result<Stamp> {
        Ok(self.store.shown(self.name.clone(), &lock(&self.file), MetaMask::NONE).stamp())
    }

    fn data(&self, at: Range<u64>) -> Result<Vec<Range<u64>>> {
        self.store.log.note("data", [self.name.path()].into_iter());
        Ok(lock(&self.file).content.data(at))
    }

    fn xattrs(&self, want: MetaMask) -> Result<Xattrs> {
        Ok(extended_of(&lock(&self.file), want, self.store.caps.attributes.sets))
    }

    fn extensions(&self) -> SourceExtensions<'_> {
        SourceExtensions { reports_holes: true, ..SourceExtensions::default() }
    }
}

/// Looks at the file anew with each call, as a descriptor does: a file that shrinks meanwhile shows.
struct Reader<'a> {
    open: &'a Open,
    at: Range<u64>,
}

impl Read for Reader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let wanted = (self.at.end - self.at.start).min(into.len() as u64) as usize;
        if wanted == 0 {
            return Ok(0);
        }
        match lock(&self.open.file).content.read(self.at.start, &mut into[..wanted]) {
            0 => Err(fail(ErrorKind::Changed, "read", &self.open.name).into()),
            count => {
                self.at.start += count as u64;
                Ok(count)
            }
        }
    }
}

/// An unfinished write: outlives every `Sink`, as a staging file does.
#[derive(Debug)]
pub(super) struct Session {
    pub name: Name,
    entry: Entry,
    keep: MetaMask,
    chunk: u64,
    /// In place: the file itself. Otherwise one that has no name yet.
    file: File,
    in_place: bool,
    written: Written,
    landed: BTreeMap<u32, (Range<u64>, Box<[u8]>)>,
    pub ended: bool,
}

/// Ranges of bytes that were written: disjoint, start to end.
#[derive(Debug, Default)]
struct Written(BTreeMap<u64, u64>);

impl Written {
    fn add(&mut self, at: Range<u64>) {
        let (mut start, mut end) = (at.start, at.end);
        let touching: Vec<u64> = self.0.range(..=end).filter(|(_, e)| **e >= start).map(|(s, _)| *s).collect();
        for s in touching {
            let e = self.0.remove(&s).expect("found a line above");
            (start, end) = (start.min(s), end.max(e));
        }
        self.0.insert(start, end);
    }

    fn covers(&self, at: &Range<u64>) -> bool {
        at.is_empty() || self.0.range(..=at.start).next_back().is_some_and(|(_, end)| *end >= at.end)
    }

    /// Where the bytes from 0 on end.
    fn front(&self) -> u64 {
        self.0.get(&0).copied().unwrap_or(0)
    }
}

impl Session {
    pub fn new(name: &Name, spec: &Spec<'_>, file: File, in_place: bool) -> Self {
        Session {
            name: name.clone(),
            entry: spec.entry.clone(),
            keep: spec.keep,
            chunk: spec.chunk,
            file,
            in_place,
            written: Written::default(),
            landed: BTreeMap::new(),
            ended: false,
        }
    }
}

/// The same for the same name and stamp, so that a second run finds what a first one left.
pub(super) fn token(path: &[u8], stamp: Stamp) -> Token {
    let words = [path, b"\0", &stamp.size.to_le_bytes(), &stamp.mtime.as_nanos().to_le_bytes(), &stamp.version.to_le_bytes()].concat();
    Token(format!(".haul-{:032x}", xxh128(&words)).into_bytes().into())
}

#[derive(Debug)]
pub(super) struct Writing {
    pub store: Memory,
    pub name: Name,
    pub token: Token,
    pub session: Arc<Mutex<Session>>,
}

impl Writing {
    fn note(&self, op: &'static str) {
        self.store.log.note(op, [self.name.path()].into_iter());
    }

    /// The session, if no one ended it.
    fn with<T>(&self, op: &'static str, act: impl FnOnce(&mut Session) -> Result<T>) -> Result<T> {
        let mut session = lock(&self.session);
        if session.ended {
            return Err(fail(ErrorKind::NotFound, op, &self.name).because("the write was given up"));
        }
        act(&mut session)
    }

    /// Refuses a start that this way of writing does not allow.
    fn admit(&self, at: &Range<u64>, op: &'static str) -> Result<()> {
        self.with(op, |session| match self.store.caps.write {
            WriteStyle::InOrder if at.start > session.written.front() => {
                let front = session.written.front();
                Err(fail(ErrorKind::Unsupported, op, &self.name).because(format!("byte {front} comes next, not {}", at.start)))
            }
            WriteStyle::InOrder | WriteStyle::Anywhere | WriteStyle::Parts { .. } => Ok(()),
        })
    }

    fn check_part(&self, session: &Session, chunk: &Chunk) -> Result<()> {
        if let WriteStyle::Parts { least, most, count } = self.store.caps.write {
            let length = chunk.at.end - chunk.at.start;
            let last = chunk.at.end >= session.entry.size;
            if chunk.index >= count || length > most || (length < least && !last) {
                return Err(fail(ErrorKind::Unsupported, "write", &self.name).because("a part of this size or number is not possible"));
            }
        }
        Ok(())
    }

    /// Every chunk of a file of this size was written here, and the caller has the proof.
    fn check_receipts(&self, session: &Session, size: u64, receipts: &[Receipt]) -> Result<()> {
        let tags: BTreeMap<u32, &[u8]> = receipts.iter().map(|receipt| (receipt.index, &*receipt.tag)).collect();
        for chunk in chunks(size, session.chunk) {
            let short = |what: &str| {
                let words = format!("chunk {} ({}..{}) {what}", chunk.index, chunk.at.start, chunk.at.end);
                Err(fail(ErrorKind::Usage, "commit", &self.name).because(words))
            };
            match (session.landed.get(&chunk.index), tags.get(&chunk.index)) {
                (_, None) => return short("has no receipt"),
                (None, _) => return short("has not landed"),
                (Some((_, tag)), Some(given)) if &**tag != *given => return short("has the receipt of something else"),
                _ if !session.written.covers(&chunk.at) => return short("was not written whole"),
                _ => {}
            }
        }
        Ok(())
    }

    fn end(&self, session: &mut Session) {
        session.ended = true;
        let mut all = lock(&self.store.shared.sessions);
        if all.get(&self.token.0).is_some_and(|kept| Arc::ptr_eq(kept, &self.session)) {
            all.remove(&self.token.0);
        }
    }
}

impl Sink for Writing {
    fn token(&self) -> Token {
        self.token.clone()
    }

    fn write(&self, at: Range<u64>, from: &mut dyn Read) -> Result<()> {
        self.note("write");
        self.admit(&at, "write")?;
        let mut buffer = vec![0; STEP.min((at.end - at.start) as usize)];
        let mut position = at.start;
        while position < at.end {
            let wanted = buffer.len().min((at.end - position) as usize);
            let count = match from.read(&mut buffer[..wanted]) {
                Ok(0) => return Err(fail(ErrorKind::Changed, "write", &self.name).because("the source ended before its time")),
                Ok(count) => count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(Error::from_io(e, "read").on(&self.name)),
            };
            self.with("write", |session| {
                lock(&session.file).content.write(position, &buffer[..count]);
                session.written.add(position..position + count as u64);
                Ok(())
            })?;
            position += count as u64;
        }
        Ok(())
    }

    fn hole(&self, at: Range<u64>) -> Result<()> {
        self.note("hole");
        self.admit(&at, "write")?;
        self.with("write", |session| {
            lock(&session.file).content.hole(at.clone());
            session.written.add(at);
            Ok(())
        })
    }

    fn landed(&self, chunk: &Chunk) -> Result<Box<[u8]>> {
        self.note("landed");
        self.with("write", |session| {
            self.check_part(session, chunk)?;
            if !session.written.covers(&chunk.at) {
                return Err(fail(ErrorKind::Usage, "write", &self.name).because(format!("chunk {} was not written whole", chunk.index)));
            }
            let tag: Box<[u8]> = match self.store.caps.write {
                WriteStyle::Parts { .. } => {
                    let mut part = vec![0; (chunk.at.end - chunk.at.start) as usize];
                    lock(&session.file).content.read(chunk.at.start, &mut part);
                    Box::new(xxh128(&part).to_be_bytes())
                }
                WriteStyle::Anywhere | WriteStyle::InOrder => Box::default(),
            };
            session.landed.insert(chunk.index, (chunk.at.clone(), tag.clone()));
            Ok(tag)
        })
    }

    fn reread(&self) -> Result<Box<dyn Source>> {
        self.note("reread");
        if matches!(self.store.caps.write, WriteStyle::Parts { .. }) {
            return Err(fail(ErrorKind::Unsupported, "reread", &self.name));
        }
        self.with("reread", |session| {
            Ok(Box::new(Open { store: self.store.handle(), name: self.name.clone(), file: session.file.clone() }) as Box<dyn Source>)
        })
    }

    fn commit(&self, entry: &Entry, receipts: &[Receipt]) -> Result<WriteOutcome> {
        self.note("commit");
        self.with("commit", |session| {
            self.check_receipts(session, entry.size, receipts)?;
            let path = self.store.path(&self.name, "commit")?;
            let mut tree = lock(&self.store.shared.tree);
            if !session.in_place {
                if let Ok(at) = tree.find(&path.keys, self.store.caps.dirs)
                    && tree.kind(at) == Some(Kind::Dir)
                {
                    return Err(fail(ErrorKind::Exists, "commit", &self.name).because("a directory stands there"));
                }
                tree.place(&path.keys, &path.leaves, &session.file, self.store.caps.dirs).map_err(|why| lost(why, "commit", &self.name))?;
            }
            let (now, generation) = (tree.now(), tree.generation());
            let landed = self.store.finish(&session.file, entry, session.keep, now, generation);
            drop(tree);
            self.end(session);
            Ok(landed)
        })
    }

    fn abort(&self) -> Result<()> {
        self.note("abort");
        let mut session = lock(&self.session);
        self.end(&mut session);
        Ok(())
    }

    fn extensions(&self) -> SinkExtensions<'_> {
        SinkExtensions { state: self, ..SinkExtensions::default() }
    }
}

impl SinkState for Writing {
    fn digest(&self, algorithm: Algorithm) -> Result<Option<Vec<u8>>> {
        self.note("digest");
        if !self.store.digests.contains(&algorithm) {
            return Ok(None);
        }
        self.with("digest", |session| {
            let mut hasher = algorithm.begin();
            hasher.update(&lock(&session.file).content.all());
            Ok(Some(hasher.finish()))
        })
    }
}
