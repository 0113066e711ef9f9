//! Values into a frame.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use haul_core::entry::{Dir, Entry, MetaMask, Name, Stamp, Time, Xattrs, check_leaf};
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::store::{Caps, Receipt, Space, Volume, WriteOutcome};
use haul_core::varint;

use super::codes::{TIME_RANGES, error_to, kind_to, proof_to};

/// Values one behind the other.
#[derive(Debug, Default)]
pub struct Writer {
    pub out: Vec<u8>,
    /// Directories that this frame has named, by their id.
    dirs: HashMap<u64, u64>,
    /// The first invalid name: it would mean something else to the remote host, so that the frame must not be sent.
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

    /// `BadName` if it contains an invalid name.
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

    /// All of an entry but its name and its ctime.
    pub fn attributes(&mut self, entry: &Entry) -> &mut Self {
        self.attributes_of(entry, MetaMask::NONE)
    }

    /// The same with the ctime, if that is wanted: versions of haul that do not ask for it do not know it.
    pub fn attributes_of(&mut self, entry: &Entry, want: MetaMask) -> &mut Self {
        let ctime = if entry.ctime == 0 { MetaMask::NONE } else { want.and(MetaMask::CTIME) };
        let same = u8::from(entry.stored == entry.size) | u8::from(entry.version == entry.ino) << 1;
        let more = u8::from(entry.target.is_some()) << 2 | u8::from(entry.xattrs.is_some()) << 3;
        self.byte(kind_to(entry.kind)).byte(same | more).mask(entry.have.with(ctime));
        // Also of an entry that was not looked up: what is written from standard input has a size all the same.
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
        if !ctime.is_empty() {
            self.number(entry.ctime);
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

    pub fn landed(&mut self, landed: &WriteOutcome) -> &mut Self {
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
            caps.names.files,
            caps.names.folds_case,
            caps.read_ranges,
        ];
        let range = TIME_RANGES.iter().position(|range| *range == caps.attributes.mtime_range).unwrap_or(0) as u64;
        self.number(flags.iter().enumerate().map(|(i, flag)| u64::from(*flag) << i).sum::<u64>() | range << flags.len());
        self.mask(caps.attributes.sets)
            .mask(caps.attributes.lists)
            .duration(caps.attributes.mtime_resolution)
            .number(caps.names.max as u64);
        self.flag(caps.attributes.groups.is_some());
        if let Some(groups) = &caps.attributes.groups {
            self.number(groups.len() as u64);
            for group in groups {
                self.number((*group).into());
            }
        }
        self.byte(proof_to(caps.proof))
    }
}
