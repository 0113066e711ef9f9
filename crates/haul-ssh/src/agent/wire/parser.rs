//! Values out of a frame.

use std::ops::Range;
use std::time::Duration;

use haul_core::entry::{Dir, Entry, MetaMask, Name, Stamp, Time, Xattrs};
use haul_core::error::{Error, Remedy, Result};
use haul_core::store::{AttributeCaps, Caps, NameRules, Receipt, Tuning, Volume, WriteOutcome, time_range};
use haul_core::varint;

use super::codes::{TIME_RANGES, error_from, kind_from, proof_from};
use super::protocol_error;

/// Workers that may write one remote file at a time: each uses what the others leave of the network.
const WRITERS: u32 = 16;

/// What is left of a frame.
#[derive(Clone, Debug)]
pub struct Parser<'a>(pub &'a [u8]);

const SHORT: &str = "a frame that is too short";

/// Words of the other end; they may reach a terminal, which must not take them for commands.
fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

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
        if count > self.0.len() { Err(protocol_error("a count beyond the end of its frame")) } else { Ok(count) }
    }

    /// XXH3-128.
    pub fn hash(&mut self) -> Result<u128> {
        let bytes = self.bytes()?.try_into().map_err(|_| protocol_error("a hash of the wrong length"))?;
        Ok(u128::from_be_bytes(bytes))
    }

    /// A number that counts what is elsewhere.
    pub fn count_of(&mut self) -> Result<usize> {
        usize::try_from(self.number()?).map_err(|_| protocol_error("a number that is too large"))
    }

    pub fn words(&mut self) -> Result<String> {
        self.bytes().map(printable)
    }

    pub fn range(&mut self) -> Result<Range<u64>> {
        let (start, length) = (self.number()?, self.number()?);
        let end = start.checked_add(length).ok_or_else(|| protocol_error("an impossible range"))?;
        Ok(start..end)
    }

    pub fn mask(&mut self) -> Result<MetaMask> {
        Ok(MetaMask(u16::try_from(self.number()?).map_err(|_| protocol_error("unknown attributes"))?))
    }

    /// `dirs` are those that the frame has named so far; `known` makes one of a path.
    pub fn dir(&mut self, dirs: &mut Vec<Dir>, known: &mut dyn FnMut(&[u8]) -> Result<Dir>) -> Result<Dir> {
        let at = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        if at == dirs.len() {
            dirs.push(known(self.bytes()?)?);
        }
        dirs.get(at).cloned().ok_or_else(|| protocol_error("an unknown directory number"))
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
        if entry.have.has(MetaMask::CTIME) {
            entry.ctime = self.number()?;
            entry.have = entry.have.without(MetaMask::CTIME);
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
        let (op, reason) = (haul_core::intern::intern(&self.words()?), self.words()?);
        let mut e = Error::new(kind, op).because(reason).remedy_is(remedy);
        if let Some(path) = self.optional()? {
            e = e.at(path);
        }
        if let Some(hint) = self.optional()? {
            e = e.hint(printable(hint));
        }
        Ok(e)
    }

    pub fn optional(&mut self) -> Result<Option<&'a [u8]>> {
        if self.flag()? { self.bytes().map(Some) } else { Ok(None) }
    }

    /// The result of one thing; an error of this call itself is one of the protocol.
    pub fn result<T>(&mut self, value: impl FnOnce(&mut Self) -> Result<T>) -> Result<Result<T>> {
        if self.flag()? { self.error().map(Err) } else { value(self).map(Ok) }
    }

    pub fn landed(&mut self) -> Result<WriteOutcome> {
        Ok(WriteOutcome { refused: self.mask()?, ino: self.number()? })
    }

    pub fn receipts(&mut self) -> Result<Vec<Receipt>> {
        let mut receipts = Vec::new();
        self.receipts_into(&mut receipts)?;
        Ok(receipts)
    }

    /// The vector grows with what comes: a receipt takes far more memory than its byte in the frame.
    pub(super) fn receipts_into(&mut self, receipts: &mut Vec<Receipt>) -> Result<()> {
        let mut next = 0_i64;
        for _ in 0..self.count()? {
            let index = self.signed()?.saturating_add(next);
            next = index.saturating_add(1);
            let index = u32::try_from(index).map_err(|_| protocol_error("an impossible chunk number"))?;
            receipts.push(Receipt { index, tag: Box::default(), hash: None });
        }
        Ok(())
    }

    pub fn volume(&mut self) -> Result<Option<Volume>> {
        if !self.flag()? {
            return Ok(None);
        }
        let mut number = || self.number();
        Ok(Some(Volume { size: number()?, free: number()?, available: number()?, files: number()?, free_files: number()? }))
    }

    /// What the remote store can do, as this end uses it.
    pub fn caps(&mut self) -> Result<Caps> {
        let flags = self.number()?;
        let mut next = 0;
        let mut flag = || {
            next += 1;
            flags >> (next - 1) & 1 == 1
        };
        let (dirs, links, specials, hard_links) = (flag(), flag(), flag(), flag());
        let (atomic_commit, attach, direct_create, files) = (flag(), flag(), flag(), flag());
        let (folds_case, read_ranges) = (flag(), flag());
        let mtime_range = TIME_RANGES.get((flags >> 10 & 7) as usize).copied().unwrap_or(time_range::ANY);
        let (sets, lists, mtime_resolution) = (self.mask()?, self.mask()?, self.duration()?);
        let max = usize::try_from(self.number()?).unwrap_or(255);
        let groups = if self.flag()? { Some((0..self.count()?).map(|_| self.small()).collect::<Result<_>>()?) } else { None };
        let proof = proof_from(self.byte()?);
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
