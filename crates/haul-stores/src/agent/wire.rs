//! How values travel between two hauls: numbers as LEB128, bytes behind their length, entries as what the store says of
//! them. What comes from the other end is checked here: nothing behind this module indexes into a frame.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Stamp, Time, Xattrs, check_leaf};
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::hash::Algorithm;
use haul_core::store::{Caps, Landed, Proof, Receipt, Space, Volume, Who, WriteStyle};
use haul_core::varint;

/// The other end does not keep to the protocol; whatever the connection carries cannot be trusted any more.
pub fn protocol_error(what: &str) -> Error {
    Error::new(ErrorKind::Broken, "read an answer").because(format!("the remote haul sent {what}"))
}

/// Values one behind the other.
#[derive(Debug, Default)]
pub struct Writer {
    pub out: Vec<u8>,
    /// Directories that this frame has named, by their id.
    dirs: HashMap<u64, u64>,
    /// The first name that is none: it would mean something else on the way, so that the frame must not go.
    bad: Option<Error>,
}

impl Writer {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn byte(&mut self, byte: u8) -> &mut Self {
        self.out.push(byte);
        self
    }

    pub fn flag(&mut self, flag: bool) -> &mut Self {
        self.byte(flag.into())
    }

    /// LEB128.
    pub fn number(&mut self, n: u64) -> &mut Self {
        varint::put(&mut self.out, n);
        self
    }

    /// Zigzag: small numbers of either sign are short.
    pub fn signed(&mut self, n: i64) -> &mut Self {
        self.number(((n << 1) ^ (n >> 63)).cast_unsigned())
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
        self
    }

    pub fn range(&mut self, range: &Range<u64>) -> &mut Self {
        self.number(range.start).number(range.end.saturating_sub(range.start))
    }

    pub fn mask(&mut self, mask: MetaMask) -> &mut Self {
        self.number(mask.0.into())
    }

    /// A directory goes by its path the first time, then by its number in the frame.
    pub fn dir(&mut self, dir: &Dir) -> &mut Self {
        let next = self.dirs.len() as u64;
        let at = *self.dirs.entry(dir.id()).or_insert(next);
        self.number(at);
        if at == next {
            self.bytes(&dir.path());
            let mut above = dir;
            while let Some(parent) = above.parent() {
                if let Err(reason) = check_leaf(above.leaf()) {
                    self.refuse(&Name::of(above), reason);
                }
                above = parent;
            }
        }
        self
    }

    pub fn name(&mut self, name: &Name) -> &mut Self {
        // An empty leaf is the directory itself.
        if !name.leaf.is_empty()
            && let Err(reason) = check_leaf(&name.leaf)
        {
            self.refuse(name, reason);
        }
        self.dir(&name.dir).bytes(&name.leaf)
    }

    fn refuse(&mut self, name: &Name, reason: &str) {
        self.bad.get_or_insert_with(|| Error::new(ErrorKind::BadName, "open").on(name).because(reason));
    }

    /// `BadName` if a name in it is none.
    pub fn check(&self) -> Result<()> {
        self.bad.as_ref().map_or(Ok(()), |e| Err(e.again()))
    }

    pub fn time(&mut self, time: Time) -> &mut Self {
        self.signed(time.secs).number(time.nanos.into())
    }

    pub fn stamp(&mut self, stamp: &Stamp) -> &mut Self {
        self.number(stamp.size).time(stamp.mtime).number(stamp.version)
    }

    pub fn duration(&mut self, duration: Duration) -> &mut Self {
        self.number(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    pub fn xattrs(&mut self, xattrs: &Xattrs) -> &mut Self {
        self.number(xattrs.len() as u64);
        for (name, value) in xattrs {
            self.bytes(name).bytes(value);
        }
        self
    }

    /// All of an entry but its name.
    pub fn attributes(&mut self, entry: &Entry) -> &mut Self {
        let same = u8::from(entry.stored == entry.size) | u8::from(entry.version == entry.ino) << 1;
        let more = u8::from(entry.target.is_some()) << 2 | u8::from(entry.xattrs.is_some()) << 3;
        self.byte(kind_to(entry.kind)).byte(same | more).mask(entry.have);
        // Also of an entry that nobody has looked up: what is written from standard input has a size all the same.
        self.number(entry.size).time(entry.mtime).number(entry.mode.into()).number(entry.uid.into()).number(entry.gid.into());
        self.number(entry.rdev).number(entry.nlink.into()).number(entry.dev);
        self.number(entry.ino);
        if same & 1 == 0 {
            self.number(entry.stored);
        }
        if same & 2 == 0 {
            self.number(entry.version);
        }
        if let Some(target) = &entry.target {
            self.bytes(target);
        }
        if let Some(xattrs) = &entry.xattrs {
            self.xattrs(xattrs);
        }
        self
    }

    pub fn entry(&mut self, entry: &Entry) -> &mut Self {
        self.name(&entry.name).attributes(entry)
    }

    /// An entry as it was listed: what has to be known to find it again.
    pub fn listed(&mut self, entry: &Entry) -> &mut Self {
        match (&entry.xattrs, &entry.target) {
            (None, None) => self.entry(entry),
            _ => self.entry(&Entry { xattrs: None, target: None, ..entry.clone() }),
        }
    }

    pub fn error(&mut self, e: &Error) -> &mut Self {
        self.byte(error_to(e.kind()));
        match e.remedy() {
            Remedy::None => self.byte(0),
            Remedy::Again => self.byte(1),
            Remedy::After(wait) => self.byte(2).duration(wait),
            Remedy::Reconnect => self.byte(3),
            Remedy::Reopen => self.byte(4),
        };
        self.bytes(e.op().as_bytes()).bytes(e.reason().as_bytes());
        self.optional(e.path()).optional(e.next_step().map(str::as_bytes))
    }

    pub fn optional(&mut self, bytes: Option<&[u8]>) -> &mut Self {
        match bytes {
            Some(bytes) => self.byte(1).bytes(bytes),
            None => self.byte(0),
        }
    }

    pub fn result<T>(&mut self, result: &Result<T>, value: impl FnOnce(&mut Self, &T)) -> &mut Self {
        match result {
            Ok(it) => {
                self.byte(0);
                value(self, it);
                self
            }
            Err(e) => self.byte(1).error(e),
        }
    }

    pub fn landed(&mut self, landed: &Landed) -> &mut Self {
        self.mask(landed.refused).number(landed.ino)
    }

    pub fn receipts(&mut self, receipts: &[Receipt]) -> &mut Self {
        self.number(receipts.len() as u64);
        let mut next = 0;
        for receipt in receipts {
            // Receipts come in order: their indices are mostly one apart.
            self.signed(i64::from(receipt.index) - next);
            next = i64::from(receipt.index) + 1;
        }
        self
    }

    pub fn space(&mut self, space: &Option<Space>) -> &mut Self {
        match space {
            Some(space) => self.byte(1).number(space.bytes).number(space.files),
            None => self.byte(0),
        }
    }

    pub fn volume(&mut self, volume: &Option<Volume>) -> &mut Self {
        self.flag(volume.is_some());
        if let Some(Volume { size, free, available, files, free_files }) = *volume {
            self.number(size).number(free).number(available).number(files).number(free_files);
        }
        self
    }

    pub fn caps(&mut self, caps: &Caps) -> &mut Self {
        let flags = [
            caps.dirs,
            caps.links,
            caps.specials,
            caps.hard_links,
            caps.atomic_commit,
            caps.attach,
            caps.direct_create,
            caps.file_names,
            caps.folds_case,
            caps.read_ranges,
        ];
        self.number(flags.iter().enumerate().map(|(i, flag)| u64::from(*flag) << i).sum());
        self.mask(caps.sets).mask(caps.lists).duration(caps.mtime_grain).number(caps.name_max as u64);
        match &caps.groups {
            None => {
                self.byte(0);
            }
            Some(groups) => {
                self.byte(1).number(groups.len() as u64);
                for group in groups {
                    self.number((*group).into());
                }
            }
        }
        self.byte(match caps.proof {
            Proof::Medium => 0,
            Proof::Cache => 1,
            Proof::Server => 2,
        })
    }
}

/// What is left of a frame.
#[derive(Clone, Debug)]
pub struct Parser<'a>(pub &'a [u8]);

const SHORT: &str = "a frame that is too short";

impl<'a> Parser<'a> {
    pub fn byte(&mut self) -> Result<u8> {
        let (first, rest) = self.0.split_first().ok_or_else(|| protocol_error(SHORT))?;
        self.0 = rest;
        Ok(*first)
    }

    pub fn flag(&mut self) -> Result<bool> {
        Ok(self.byte()? != 0)
    }

    pub fn number(&mut self) -> Result<u64> {
        varint::take(&mut self.0).ok_or_else(|| protocol_error("a number that is too large or cut short"))
    }

    pub fn small(&mut self) -> Result<u32> {
        u32::try_from(self.number()?).map_err(|_| protocol_error("a number that is too large"))
    }

    pub fn signed(&mut self) -> Result<i64> {
        let n = self.number()?;
        Ok((n >> 1).cast_signed() ^ -((n & 1).cast_signed()))
    }

    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.number()?).map_err(|_| protocol_error(SHORT))?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(|| protocol_error(SHORT))?;
        self.0 = rest;
        Ok(bytes)
    }

    /// How many things follow. Each takes a byte at least, so that a count cannot ask for more memory than the frame has.
    pub fn count(&mut self) -> Result<usize> {
        let count = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        if count > self.0.len() { Err(protocol_error("a count of what is not there")) } else { Ok(count) }
    }

    /// XXH3-128.
    pub fn hash(&mut self) -> Result<u128> {
        let bytes = self.bytes()?.try_into().map_err(|_| protocol_error("a hash of another width"))?;
        Ok(u128::from_be_bytes(bytes))
    }

    /// A number that counts what is elsewhere.
    pub fn count_of(&mut self) -> Result<usize> {
        usize::try_from(self.number()?).map_err(|_| protocol_error("a number that is too large"))
    }

    pub fn words(&mut self) -> Result<String> {
        // They may reach a terminal, which must not take them for commands.
        Ok(String::from_utf8_lossy(self.bytes()?).chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
    }

    pub fn range(&mut self) -> Result<Range<u64>> {
        let (start, length) = (self.number()?, self.number()?);
        let end = start.checked_add(length).ok_or_else(|| protocol_error("an impossible range"))?;
        Ok(start..end)
    }

    pub fn mask(&mut self) -> Result<MetaMask> {
        Ok(MetaMask(u16::try_from(self.number()?).map_err(|_| protocol_error("attributes that nobody knows"))?))
    }

    /// `dirs` are those that the frame has named so far; `known` makes one of a path.
    pub fn dir(&mut self, dirs: &mut Vec<Dir>, known: &mut dyn FnMut(&[u8]) -> Result<Dir>) -> Result<Dir> {
        let at = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        if at == dirs.len() {
            dirs.push(known(self.bytes()?)?);
        }
        dirs.get(at).cloned().ok_or_else(|| protocol_error("a directory that it did not name"))
    }

    pub fn time(&mut self) -> Result<Time> {
        let time = Time { secs: self.signed()?, nanos: self.small()? };
        if time.nanos < 1_000_000_000 { Ok(time) } else { Err(protocol_error("an impossible time")) }
    }

    pub fn stamp(&mut self) -> Result<Stamp> {
        Ok(Stamp { size: self.number()?, mtime: self.time()?, version: self.number()? })
    }

    pub fn duration(&mut self) -> Result<Duration> {
        Ok(Duration::from_nanos(self.number()?))
    }

    pub fn xattrs(&mut self) -> Result<Xattrs> {
        (0..self.count()?).map(|_| Ok((self.bytes()?.into(), self.bytes()?.into()))).collect()
    }

    /// The attributes of what has this name.
    pub fn attributes(&mut self, name: Name) -> Result<Entry> {
        let kind = kind_from(self.byte()?)?;
        let flags = self.byte()?;
        let mut entry = Entry::bare(name, kind);
        entry.have = self.mask()?;
        (entry.size, entry.mtime) = (self.number()?, self.time()?);
        (entry.mode, entry.uid, entry.gid) = (self.small()? & 0o7777, self.small()?, self.small()?);
        (entry.rdev, entry.nlink, entry.dev) = (self.number()?, self.small()?, self.number()?);
        entry.ino = self.number()?;
        entry.stored = if flags & 1 == 0 { self.number()? } else { entry.size };
        entry.version = if flags & 2 == 0 { self.number()? } else { entry.ino };
        if flags & 4 != 0 {
            entry.target = Some(self.bytes()?.into());
        }
        if flags & 8 != 0 {
            entry.xattrs = Some(Box::new(self.xattrs()?));
        }
        Ok(entry)
    }

    pub fn error(&mut self) -> Result<Error> {
        let kind = error_from(self.byte()?);
        let remedy = match self.byte()? {
            0 => Remedy::None,
            1 => Remedy::Again,
            2 => Remedy::After(self.duration()?.min(Duration::from_secs(60))),
            4 => Remedy::Reopen,
            _ => Remedy::Reconnect,
        };
        let (op, reason) = (intern(&self.words()?), self.words()?);
        let mut e = Error::new(kind, op).because(reason).remedy_is(remedy);
        if let Some(path) = self.optional()? {
            e = e.at(path);
        }
        if let Some(hint) = self.optional()? {
            e = e.hint(String::from_utf8_lossy(hint));
        }
        Ok(e)
    }

    pub fn optional(&mut self) -> Result<Option<&'a [u8]>> {
        if self.flag()? { self.bytes().map(Some) } else { Ok(None) }
    }

    /// What the far side says became of one thing; an error of this very call is that the frame makes no sense.
    pub fn result<T>(&mut self, value: impl FnOnce(&mut Self) -> Result<T>) -> Result<Result<T>> {
        if self.flag()? { self.error().map(Err) } else { value(self).map(Ok) }
    }

    pub fn landed(&mut self) -> Result<Landed> {
        Ok(Landed { refused: self.mask()?, ino: self.number()? })
    }

    pub fn receipts(&mut self) -> Result<Vec<Receipt>> {
        let count = self.count()?;
        let mut next = 0_i64;
        let mut receipts = Vec::with_capacity(count);
        for _ in 0..count {
            let index = self.signed()?.saturating_add(next);
            next = index.saturating_add(1);
            let index = u32::try_from(index).map_err(|_| protocol_error("a chunk that cannot be"))?;
            receipts.push(Receipt { index, tag: Box::default(), hash: None });
        }
        Ok(receipts)
    }

    pub fn space(&mut self) -> Result<Option<Space>> {
        Ok(if self.flag()? { Some(Space { bytes: self.number()?, files: self.number()? }) } else { None })
    }

    pub fn volume(&mut self) -> Result<Option<Volume>> {
        if !self.flag()? {
            return Ok(None);
        }
        let mut number = || self.number();
        Ok(Some(Volume { size: number()?, free: number()?, available: number()?, files: number()?, free_files: number()? }))
    }

    /// What the far store can do, as this end uses it.
    pub fn caps(&mut self) -> Result<Caps> {
        let flags = self.number()?;
        let mut next = 0;
        let mut flag = || {
            next += 1;
            flags >> (next - 1) & 1 == 1
        };
        let (dirs, links, specials, hard_links) = (flag(), flag(), flag(), flag());
        let (atomic_commit, attach, direct_create, file_names) = (flag(), flag(), flag(), flag());
        let (folds_case, read_ranges) = (flag(), flag());
        let (sets, lists, mtime_grain) = (self.mask()?, self.mask()?, self.duration()?);
        let name_max = usize::try_from(self.number()?).unwrap_or(255);
        let groups = match self.flag()? {
            false => None,
            true => Some((0..self.count()?).map(|_| self.small()).collect::<Result<_>>()?),
        };
        let proof = match self.byte()? {
            0 => Proof::Medium,
            1 => Proof::Cache,
            _ => Proof::Server,
        };
        Ok(Caps {
            write: WriteStyle::Anywhere,
            read_ranges,
            dirs,
            links,
            specials,
            hard_links,
            sets,
            link_sets: sets,
            groups,
            lists,
            mtime_grain,
            atomic_commit,
            attach,
            direct_create,
            writers_per_file: WRITERS,
            file_names,
            name_max,
            folds_case,
            bundle_bytes: 1 << 20,
            bundle_files: 1000,
            hashes: Algorithm::ALL.to_vec(),
            proof,
            ..Caps::minimal()
        })
    }
}

/// Workers that may write one file of the far side at a time: each fills what the others leave of the way there.
const WRITERS: u32 = 16;

const KINDS: [Kind; 8] = [Kind::File, Kind::Dir, Kind::Link, Kind::Fifo, Kind::Socket, Kind::Char, Kind::Block, Kind::Unknown];

pub fn kind_to(kind: Kind) -> u8 {
    KINDS.iter().position(|other| *other == kind).unwrap_or(KINDS.len() - 1) as u8
}

pub fn kind_from(byte: u8) -> Result<Kind> {
    KINDS.get(usize::from(byte)).copied().ok_or_else(|| protocol_error("an entry of no known kind"))
}

/// The numbers are the protocol's: new ones come at the end.
const ERRORS: [ErrorKind; 19] = [
    ErrorKind::Other,
    ErrorKind::NotFound,
    ErrorKind::Vanished,
    ErrorKind::Exists,
    ErrorKind::Denied,
    ErrorKind::NoSpace,
    ErrorKind::Quota,
    ErrorKind::ReadOnly,
    ErrorKind::Changed,
    ErrorKind::Corrupt,
    ErrorKind::Unsupported,
    ErrorKind::Cancelled,
    ErrorKind::Busy,
    ErrorKind::TimedOut,
    ErrorKind::Broken,
    ErrorKind::BadName,
    ErrorKind::Usage,
    ErrorKind::Io,
    ErrorKind::Limit,
];

fn error_to(kind: ErrorKind) -> u8 {
    ERRORS.iter().position(|other| *other == kind).unwrap_or(0) as u8
}

fn error_from(byte: u8) -> ErrorKind {
    ERRORS.get(usize::from(byte)).copied().unwrap_or(ErrorKind::Other)
}

/// Hashes by their number in the protocol.
pub fn algorithm_from(byte: u8) -> Result<Algorithm> {
    Algorithm::ALL.get(usize::from(byte)).copied().ok_or_else(|| protocol_error("a hash that nobody knows"))
}

pub fn who_to(who: Who) -> u8 {
    match who {
        Who::User => 0,
        Who::Group => 1,
    }
}

pub fn who_from(byte: u8) -> Result<Who> {
    match byte {
        0 => Ok(Who::User),
        1 => Ok(Who::Group),
        _ => Err(protocol_error("an owner that is neither a user nor a group")),
    }
}

pub fn algorithm_to(algorithm: Algorithm) -> u8 {
    Algorithm::ALL.iter().position(|other| *other == algorithm).unwrap_or(0) as u8
}

/// The words of an operation, kept for good: there are a few dozen. From an end that has more they are cut to one.
fn intern(words: &str) -> &'static str {
    static KNOWN: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(same) = known.iter().find(|other| **other == words) {
        return same;
    }
    if known.len() >= 128 || words.len() > 40 || !words.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
        return "do";
    }
    let kept: &'static str = Box::leak(words.to_string().into_boxed_str());
    known.push(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_and_an_error_come_back_as_they_went() {
        let dir = Dir::root().child(b"a").child(b"\xff b");
        let mut entry = Entry::bare(Name::new(&dir, b"leaf\n"), Kind::File);
        entry.have = MetaMask(0x1ff);
        (entry.size, entry.stored, entry.ino, entry.version) = (u64::MAX, 512, 7, 9);
        entry.mtime = Time { secs: -5, nanos: 999_999_999 };
        (entry.mode, entry.uid, entry.gid, entry.nlink) = (0o4755, u32::MAX, 3, 2);
        entry.target = Some(b"../x"[..].into());
        entry.xattrs = Some(Box::new(vec![(b"user.a"[..].into(), b"\0\x01"[..].into())]));
        let e = Error::new(ErrorKind::Denied, "open").at(b"a/b").because("no").hint("ask");
        let mut to = Writer::new();
        to.entry(&entry).error(&e).entry(&entry);
        let mut from = Parser(&to.out);
        let mut dirs = Vec::new();
        let mut known = |path: &[u8]| {
            assert_eq!(path, b"a/\xff b");
            Ok(dir.clone())
        };
        for round in 0..2 {
            let there = from.dir(&mut dirs, &mut known).expect("a directory");
            let leaf = from.bytes().expect("a leaf");
            let back = from.attributes(Name::new(&there, leaf)).expect("attributes");
            assert_eq!(format!("{back:?}"), format!("{entry:?}"));
            if round == 0 {
                let back = from.error().expect("an error");
                assert_eq!((back.to_string(), back.kind(), back.op()), (e.to_string(), e.kind(), e.op()));
            }
        }
        assert!(from.0.is_empty());
    }

    #[test]
    fn numbers_keep_their_value_and_too_large_ones_are_refused() {
        for n in [0, 1, 0x7f, 0x80, u64::from(u32::MAX), u64::MAX] {
            let mut to = Writer::new();
            to.number(n).signed(n.cast_signed());
            let mut from = Parser(&to.out);
            assert_eq!((from.number().expect("a number"), from.signed().expect("a number")), (n, n.cast_signed()));
        }
        assert!(Parser(&[0xff; 11]).number().is_err());
        assert!(Parser(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).number().is_err());
    }

    #[test]
    fn receipts_come_back_in_any_order() {
        let receipts: Vec<Receipt> = [5, 0, 1, 2, 9].map(|index| Receipt { index, tag: Box::default(), hash: None }).into();
        let mut to = Writer::new();
        to.receipts(&receipts);
        assert_eq!(Parser(&to.out).receipts().expect("receipts"), receipts);
    }

    #[test]
    fn a_count_of_what_is_not_there_is_refused() {
        let mut to = Writer::new();
        to.number(1 << 40);
        assert!(Parser(&to.out).count().is_err());
        assert!(Parser(&to.out).receipts().is_err());
        assert!(Parser(&to.out).bytes().is_err());
    }
}
