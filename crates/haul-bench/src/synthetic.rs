//! A source that holds nothing: names and bytes are computed on request. Ten million files
//! cost as much memory as ten, so what a run over them costs is its own.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use haul_core::bundle::{Bundle, Outcome};
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Stamp, Time};
use haul_core::hash::xxh128;
use haul_core::store::{AttributeCaps, Caps, Flow, Place, Proof, Source, Store};
use haul_core::{Error, ErrorKind, Result};

use crate::device::{Device, Stream};
use crate::order::{mix, stride, words};

/// Bytes of a made file from `at` on: byte i depends on `seed` and on i, so that a piece in the wrong place shows.
pub fn pattern(seed: u64, at: u64, into: &mut [u8]) {
    words(at, into, |index| mix(seed ^ mix(index)));
}

/// `dirs` directories `d0`, `d1`, ... with `files` files `f0`, `f1`, ... each, all of `size` bytes.
/// Listings come scrambled, as those of a real file system do.
#[derive(Debug)]
pub struct Synthetic {
    pub dirs: u64,
    pub files: u64,
    /// Bytes.
    pub size: u64,
    holds: Holds,
    caps: Caps,
    place: Place,
}

#[derive(Debug)]
enum Holds {
    /// Bytes that depend on the path.
    Own,
    /// All one block again and again.
    Block(Arc<[u8]>),
    /// Bytes read from the device of a host.
    Device(Device),
}

/// Bytes of a block that repeats: more than any compressor of one frame or of one window of zlib sees again.
const BLOCK: usize = 2 << 20;

impl Synthetic {
    pub fn new(dirs: u64, files: u64, size: u64) -> Self {
        let caps = Caps {
            read_ranges: true,
            dirs: true,
            remote: false,
            proof: Proof::Cache,
            attributes: AttributeCaps { lists: STATED, mtime_resolution: Duration::from_nanos(1), ..AttributeCaps::minimal() },
            tuning: Caps::posix().tuning,
            ..Caps::minimal()
        };
        let place = Place { scheme: "synthetic", root: b"/".to_vec(), ..Place::default() };
        Synthetic { dirs, files, size, holds: Holds::Own, caps, place }
    }

    /// Every file repeats one block of noise, which is as cheap to make as a copy. A misplaced chunk is not noticed.
    #[must_use]
    pub fn repeating(mut self) -> Self {
        let mut block = vec![0; BLOCK];
        pattern(1, 0, &mut block);
        self.holds = Holds::Block(block.into());
        self
    }

    /// Reads are those of `device`; names and attributes are still computed here.
    #[must_use]
    pub fn from_device(mut self, device: Device) -> Self {
        self.caps.remote = true;
        self.holds = Holds::Device(device);
        self
    }

    fn find(&self, name: &Name, op: &'static str) -> Result<Entry> {
        let path = name.path();
        let number = |leaf: &[u8], letter: u8, count: u64| -> Option<u64> {
            let digits = std::str::from_utf8(leaf.strip_prefix(&[letter])?).ok()?;
            let number = digits.parse().ok().filter(|n| *n < count)?;
            (digits == format!("{number}")).then_some(number)
        };
        let found = match path.iter().position(|b| *b == b'/') {
            _ if path.is_empty() => Some((Kind::Dir, 1)),
            None => number(&path, b'd', self.dirs).map(|d| (Kind::Dir, d + 2)),
            Some(slash) => number(&path[..slash], b'd', self.dirs).and_then(|d| {
                let f = number(&path[slash + 1..], b'f', self.files)?;
                Some((Kind::File, 2 + self.dirs + d * self.files + f))
            }),
        };
        found.map(|(kind, ino)| self.made(name.clone(), kind, ino)).ok_or_else(|| Error::new(ErrorKind::NotFound, op).on(name))
    }

    fn made(&self, name: Name, kind: Kind, ino: u64) -> Entry {
        let mut entry = Entry::bare(name, kind);
        entry.have = STATED;
        entry.mtime = Time { secs: 1_600_000_000 + (ino % 100_000_000) as i64, nanos: (mix(ino) % 1_000_000_000) as u32 };
        entry.mode = if kind == Kind::Dir { 0o755 } else { 0o644 };
        entry.size = if kind == Kind::Dir { 0 } else { self.size };
        entry.stored = entry.size;
        (entry.ino, entry.version, entry.dev) = (ino, ino, 1);
        entry
    }

    fn content_of(&self, name: &Name) -> Content {
        match &self.holds {
            Holds::Own => Content::Own(seed(&name.path())),
            Holds::Block(block) => Content::Block(block.clone()),
            Holds::Device(device) => Content::Device(device.stream()),
        }
    }
}

const STATED: MetaMask = MetaMask(MetaMask::BASIC.0 | MetaMask::MTIME.0 | MetaMask::MODE.0 | MetaMask::OWNER.0 | MetaMask::GROUP.0);

fn seed(path: &[u8]) -> u64 {
    xxh128(path) as u64
}

impl Store for Synthetic {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn stat(&self, name: &Name, _want: MetaMask) -> Result<Entry> {
        self.find(name, "stat")
    }

    fn list(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        let own = self.find(&Name::of(dir), "list")?;
        let (letter, kind, count, first) = match dir.is_root() {
            true => ('d', Kind::Dir, self.dirs, 2),
            false => ('f', Kind::File, self.files, 2 + self.dirs + (own.ino - 2) * self.files),
        };
        let step = stride(count.max(1));
        for i in 0..count {
            let number = (i * step) % count;
            let name = Name::new(dir, format!("{letter}{number}").as_bytes());
            if each(Ok(self.made(name, kind, first + number))) == Flow::Stop {
                break;
            }
        }
        Ok(())
    }

    fn open(&self, entry: &Entry, _follow: bool) -> Result<Box<dyn Source>> {
        let now = self.find(&entry.name, "open")?;
        if now.kind != Kind::File || (!entry.is_bare() && now.stamp() != entry.stamp()) {
            return Err(Error::new(ErrorKind::Changed, "open").on(&entry.name));
        }
        Ok(Box::new(Open { content: self.content_of(&entry.name), entry: now }))
    }

    fn get_bundle(&self, bundle: &mut Bundle) {
        let Bundle { items, data, .. } = bundle;
        for item in items.iter_mut().filter(|item| matches!(item.outcome, Outcome::Listed)) {
            let start = data.len();
            item.outcome = match self.open(&item.entry, false).and_then(|_| self.find(&item.entry.name, "open")) {
                Ok(now) => {
                    data.resize(start + self.size as usize, 0);
                    self.content_of(&now.name).fill(0, &mut data[start..]);
                    item.at = start..data.len();
                    item.entry = now;
                    Outcome::Read
                }
                Err(e) => Outcome::Failed(e),
            };
        }
    }

    fn read_xattrs(&self, entries: &mut [Entry], _want: MetaMask) -> Vec<Result<()>> {
        let read = |entry: &mut Entry| {
            entry.xattrs = Some(Box::default());
            Ok(())
        };
        entries.iter_mut().map(read).collect()
    }

    fn reopen(&self, name: &Name) -> Result<Box<dyn Source>> {
        self.open(&self.find(name, "reopen")?, false)
    }
}

enum Content {
    Own(u64),
    Block(Arc<[u8]>),
    Device(Stream),
}

impl Content {
    /// The bytes from `at` on; zeros for a device, as a bundle of small files is not read from it.
    fn fill(&self, at: u64, into: &mut [u8]) {
        match self {
            Content::Own(seed) => pattern(*seed, at, into),
            Content::Device(_) => into.fill(0),
            Content::Block(block) => {
                let (mut done, mut from) = (0, (at % block.len() as u64) as usize);
                while done < into.len() {
                    let count = (into.len() - done).min(block.len() - from);
                    into[done..done + count].copy_from_slice(&block[from..from + count]);
                    (done, from) = (done + count, 0);
                }
            }
        }
    }
}

struct Open {
    content: Content,
    entry: Entry,
}

impl Source for Open {
    fn read(&self, at: Range<u64>) -> Result<Box<dyn Read + Send + '_>> {
        match &self.content {
            Content::Device(stream) => Ok(stream.read(&self.entry.name, at)),
            _ => Ok(Box::new(Reader { open: self, at })),
        }
    }

    fn stamp(&self) -> Result<Stamp> {
        Ok(self.entry.stamp())
    }
}

struct Reader<'a> {
    open: &'a Open,
    at: Range<u64>,
}

impl Read for Reader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let wanted = (self.at.end - self.at.start).min(into.len() as u64);
        let count = self.open.entry.size.saturating_sub(self.at.start).min(wanted);
        if count < wanted && count == 0 {
            return Err(Error::new(ErrorKind::Changed, "read").on(&self.open.entry.name).into());
        }
        self.open.content.fill(self.at.start, &mut into[..count as usize]);
        self.at.start += count;
        Ok(count as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_names_every_file_once_and_each_can_be_looked_up() {
        let store = Synthetic::new(3, 1000, 10);
        let dir = Dir::root().child(b"d1");
        let mut names = Vec::new();
        store
            .list(&dir, &mut |found| {
                let entry = found.expect("nothing fails here");
                assert_eq!(store.stat(&entry.name, MetaMask::NONE).map(|e| e.stamp()).ok(), Some(entry.stamp()));
                names.push(entry.name.leaf);
                Flow::Go
            })
            .expect("the directory is there");
        assert!(!names.is_sorted());
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 1000);
        for absent in ["d3", "d01", "d1/f1000", "x", "d1/f1/y"] {
            let name = Name::parse(&Dir::root(), absent.as_bytes()).expect("a plain path");
            assert_eq!(store.stat(&name, MetaMask::NONE).map_err(|e| e.kind()).err(), Some(ErrorKind::NotFound), "{absent}");
        }
    }
}
