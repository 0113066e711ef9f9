//! Values in frames between two hauls, as postcard encodes them. The attributes of entries, of which listings and bundles consist, are
//! written in the same encoding by hand, which takes half the time. No other module indexes into a frame.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use haul_core::entry::{Dir, Entry, MetaMask, Name, Stamp, Time, check_leaf};
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::store::{AttributeCaps, Caps, NameRules, RemoteWork, Tuning, time_range};
use haul_core::varint;
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// Workers that may write one remote file at a time: each uses what the others leave of the network.
const WRITERS: u32 = 16;

/// Flags of an entry: what follows its fixed part, or equals another number in it.
const STORED_IS_SIZE: u8 = 1;
const VERSION_IS_INO: u8 = 2;
const TARGET: u8 = 4;
const XATTRS: u8 = 8;
const CTIME: u8 = 16;

const SHORT: &str = "a frame that is too short";

/// The other end violates the protocol: nothing that the connection carries can be trusted any more.
pub fn protocol_error(what: &str) -> Error {
    Error::new(ErrorKind::Broken, "read an answer").because(format!("the remote haul sent {what}"))
}

/// A request or an answer that consists of these values.
pub fn pack(values: impl Serialize) -> Vec<u8> {
    let mut to = Writer::default();
    to.put(values);
    to.out
}

/// Values one behind the other.
#[derive(Debug, Default)]
pub struct Writer {
    pub out: Vec<u8>,
    /// Directories that this frame has named, by their id.
    dirs: HashMap<u64, usize>,
    /// The first invalid name: it would mean something else to the remote host, so that the frame must not be sent.
    bad: Option<Error>,
}

/// An error as it is sent.
#[derive(Serialize, Deserialize)]
struct Failure<'a> {
    kind: ErrorKind,
    remedy: Remedy,
    op: &'a str,
    reason: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    path: Option<&'a [u8]>,
    #[serde(borrow)]
    hint: Option<&'a str>,
}

impl Failure<'_> {
    fn of(e: &Error) -> Failure<'_> {
        let (kind, remedy, op, reason) = (e.kind(), e.remedy(), e.op(), e.reason().into());
        Failure { kind, remedy, op, reason, path: e.path(), hint: e.next_step() }
    }

    fn error(self) -> Error {
        let remedy = match self.remedy {
            Remedy::After(wait) => Remedy::After(wait.min(Duration::from_secs(60))),
            remedy => remedy,
        };
        let e = Error::new(self.kind, haul_core::intern::intern(&printable(self.op))).because(printable(&self.reason));
        let e = self.path.into_iter().fold(e.remedy_is(remedy), Error::at);
        self.hint.into_iter().fold(e, |e, hint| e.hint(printable(hint)))
    }
}

/// Words of the other end; they may reach a terminal, which must not take them for commands.
pub fn printable(words: &str) -> String {
    words.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

impl Writer {
    pub fn put(&mut self, values: impl Serialize) -> &mut Self {
        // Memory takes everything, so that only a sequence of unknown length could fail; there is none.
        self.out = postcard::to_extend(&values, std::mem::take(&mut self.out)).unwrap_or_default();
        self
    }

    fn number(&mut self, number: impl Into<u64>) -> &mut Self {
        varint::put(&mut self.out, number.into());
        self
    }

    /// One byte, which says what follows.
    pub fn mark(&mut self, mark: u8) -> &mut Self {
        self.out.push(mark);
        self
    }

    /// What [`put`](Writer::put) writes of them, at once.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
        self
    }

    /// A directory goes by its path the first time, then by its number in the frame.
    pub fn dir(&mut self, dir: &Dir) -> &mut Self {
        let next = self.dirs.len();
        let at = *self.dirs.entry(dir.id()).or_insert(next);
        self.number(at as u64);
        if at == next {
            self.bytes(&dir.path());
            let mut above = dir;
            while let Some(parent) = above.parent() {
                self.check_name(above.leaf(), || Name::of(above));
                above = parent;
            }
        }
        self
    }

    /// An empty leaf is the directory itself.
    pub fn name(&mut self, name: &Name) -> &mut Self {
        if !name.leaf.is_empty() {
            self.check_name(&name.leaf, || name.clone());
        }
        self.dir(&name.dir).bytes(&name.leaf)
    }

    fn check_name(&mut self, leaf: &[u8], name: impl FnOnce() -> Name) {
        if let Err(reason) = check_leaf(leaf) {
            self.bad.get_or_insert_with(|| Error::new(ErrorKind::BadName, "open").on(&name()).because(reason));
        }
    }

    /// `BadName` if it contains an invalid name.
    pub fn check(&self) -> Result<()> {
        self.bad.as_ref().map_or(Ok(()), |e| Err(e.again()))
    }

    pub fn duration(&mut self, duration: Duration) -> &mut Self {
        self.put(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// All of an entry but its name, with its ctime if that is wanted. Also of one that was not looked up: what is written from
    /// standard input has a size all the same.
    pub fn attributes(&mut self, entry: &Entry, want: MetaMask) -> &mut Self {
        let ctime = if want.has(MetaMask::CTIME) { entry.ctime } else { 0 };
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let same = flag(entry.stored == entry.size, STORED_IS_SIZE) | flag(entry.version == entry.ino, VERSION_IS_INO);
        let more = flag(entry.target.is_some(), TARGET) | flag(entry.xattrs.is_some(), XATTRS) | flag(ctime != 0, CTIME);
        // Zigzag: small numbers of either sign are short.
        let secs = ((entry.mtime.secs << 1) ^ (entry.mtime.secs >> 63)).cast_unsigned();
        self.out.extend([entry.kind as u8, same | more]);
        self.number(entry.have.0).number(entry.size).number(secs).number(entry.mtime.nanos);
        self.number(entry.mode).number(entry.uid).number(entry.gid);
        self.number(entry.rdev).number(entry.nlink).number(entry.dev).number(entry.ino);
        if same & STORED_IS_SIZE == 0 {
            self.number(entry.stored);
        }
        if same & VERSION_IS_INO == 0 {
            self.number(entry.version);
        }
        entry.target.iter().for_each(|target| _ = self.bytes(target));
        entry.xattrs.iter().for_each(|xattrs| _ = self.put(xattrs));
        if ctime != 0 {
            self.put(ctime);
        }
        self
    }

    pub fn entry(&mut self, entry: &Entry) -> &mut Self {
        self.name(&entry.name).attributes(entry, MetaMask::NONE)
    }

    /// An entry as it was listed: what has to be known to find it again.
    pub fn listed(&mut self, entry: &Entry) -> &mut Self {
        match (&entry.xattrs, &entry.target) {
            (None, None) => self.entry(entry),
            _ => self.entry(&Entry { xattrs: None, target: None, ..entry.clone() }),
        }
    }

    pub fn error(&mut self, e: &Error) -> &mut Self {
        self.put(Failure::of(e))
    }

    pub fn result<T: Serialize>(&mut self, result: &Result<T>) -> &mut Self {
        self.put(result.as_ref().map_err(Failure::of))
    }

    pub fn work(&mut self, work: &RemoteWork) -> &mut Self {
        self.duration(work.reading).duration(work.writing).duration(work.metadata).duration(work.cpu).put(work.processors)
    }

    pub fn caps(&mut self, caps: &Caps) -> &mut Self {
        self.put((caps.dirs, caps.links, caps.specials, caps.hard_links, caps.atomic_commit, caps.attach, caps.direct_create));
        self.put((caps.read_ranges, caps.proof, caps.names.files, caps.names.folds_case, caps.names.max));
        let attributes = &caps.attributes;
        self.put((attributes.sets, attributes.lists, &attributes.groups, attributes.mtime_range)).duration(attributes.mtime_resolution)
    }
}

#[derive(Clone, Debug)]
pub struct Parser<'a>(pub &'a [u8]);

impl<'a> Parser<'a> {
    pub fn get<T: Deserialize<'a>>(&mut self) -> Result<T> {
        let (value, rest) = postcard::take_from_bytes(self.0).map_err(|_| protocol_error("a frame that cannot be read"))?;
        self.0 = rest;
        Ok(value)
    }

    pub fn byte(&mut self) -> Result<u8> {
        let (first, rest) = self.0.split_first().ok_or_else(|| protocol_error(SHORT))?;
        self.0 = rest;
        Ok(*first)
    }

    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(|| protocol_error(SHORT))?;
        self.0 = rest;
        Ok(bytes)
    }

    fn number(&mut self) -> Result<u64> {
        varint::take(&mut self.0).ok_or_else(|| protocol_error("a number that is too large or cut short"))
    }

    fn small(&mut self) -> Result<u32> {
        u32::try_from(self.number()?).map_err(|_| protocol_error("a number that is too large"))
    }

    /// How many things follow. Each takes a byte at least, so that a count cannot ask for more memory than the frame has.
    pub fn count(&mut self) -> Result<usize> {
        let count = self.get()?;
        if count > self.0.len() { Err(protocol_error("a count beyond the end of its frame")) } else { Ok(count) }
    }

    pub fn range(&mut self) -> Result<Range<u64>> {
        let range: Range<u64> = self.get()?;
        if range.start > range.end { Err(protocol_error("an impossible range")) } else { Ok(range) }
    }

    pub fn stamp(&mut self) -> Result<Stamp> {
        let stamp: Stamp = self.get()?;
        if stamp.mtime.nanos < 1_000_000_000 { Ok(stamp) } else { Err(protocol_error("an impossible time")) }
    }

    pub fn duration(&mut self) -> Result<Duration> {
        self.get().map(Duration::from_nanos)
    }

    /// The attributes of what has this name.
    pub fn attributes(&mut self, name: Name) -> Result<Entry> {
        let (kind, flags) = (self.get()?, self.byte()?);
        let have = MetaMask(u16::try_from(self.number()?).map_err(|_| protocol_error("unknown attributes"))?);
        let (size, secs, nanos) = (self.number()?, self.number()?, self.small()?);
        if nanos >= 1_000_000_000 {
            return Err(protocol_error("an impossible time"));
        }
        let mtime = Time { secs: (secs >> 1).cast_signed() ^ -((secs & 1).cast_signed()), nanos };
        let (mode, uid, gid) = (self.small()? & 0o7777, self.small()?, self.small()?);
        let (rdev, nlink, dev, ino) = (self.number()?, self.small()?, self.number()?, self.number()?);
        let stored = if flags & STORED_IS_SIZE == 0 { self.number()? } else { size };
        let version = if flags & VERSION_IS_INO == 0 { self.number()? } else { ino };
        let bare = Entry::bare(name, kind);
        let mut entry = Entry { have, size, mtime, mode, uid, gid, rdev, nlink, ino, dev, stored, version, ..bare };
        if flags & TARGET != 0 {
            entry.target = Some(self.bytes()?.into());
        }
        if flags & XATTRS != 0 {
            entry.xattrs = Some(self.get()?);
        }
        if flags & CTIME != 0 {
            entry.ctime = self.get()?;
        }
        Ok(entry)
    }

    pub fn error(&mut self) -> Result<Error> {
        self.get().map(Failure::error)
    }

    /// The result of one thing; an error of this call itself is one of the protocol.
    pub fn result<T: Deserialize<'a>>(&mut self) -> Result<Result<T>> {
        self.get::<Result<T, Failure<'a>>>().map(|result| result.map_err(Failure::error))
    }

    pub fn work(&mut self) -> Result<RemoteWork> {
        let (reading, writing, metadata, cpu) = (self.duration()?, self.duration()?, self.duration()?, self.duration()?);
        Ok(RemoteWork { reading, writing, metadata, cpu, processors: self.get()?, round_trip: None })
    }

    /// What the remote store can do, as this end uses it.
    pub fn caps(&mut self) -> Result<Caps> {
        let (dirs, links, specials, hard_links, atomic_commit, attach, direct_create) = self.get()?;
        let (read_ranges, proof, files, folds_case, max) = self.get()?;
        let (sets, lists, groups, (first, last)) = self.get()?;
        let mtime_range = if first <= last { (first, last) } else { time_range::ANY };
        let mtime_resolution = self.duration()?;
        Ok(Caps {
            read_ranges,
            dirs,
            links,
            specials,
            hard_links,
            remote: true,
            atomic_commit,
            signatures: true,
            attach,
            direct_create,
            proof,
            names: NameRules { files, max, folds_case, ..NameRules::minimal() },
            attributes: AttributeCaps { sets, link_sets: sets, groups, lists, mtime_resolution, mtime_range, ..AttributeCaps::minimal() },
            tuning: Tuning { writers_per_file: WRITERS, lands_pieces: true, ..Caps::posix().tuning },
            ..Caps::posix()
        })
    }
}
