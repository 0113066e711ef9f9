//! What comes out of a pipe, such as standard input, is a file.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Stamp, Time};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Caps, Flow, Place, Source, Store};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

/// The longest that a read waits, so that whoever reads can look up: see [`Source::stream`].
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

#[derive(Debug)]
enum From {
    Open(OwnedFd),
    /// Opened when it is read: a named pipe waits for its writer.
    Path(PathBuf),
}

/// A store with one file.
#[derive(Debug)]
pub struct Input {
    leaf: Vec<u8>,
    from: Mutex<Option<From>>,
    /// The file's modification time: when the store was made.
    mtime: Time,
    place: Place,
    caps: Caps,
}

impl Input {
    /// What comes out of `from` is the file `leaf`.
    pub fn new(leaf: &[u8], from: OwnedFd) -> Self {
        Input::with(leaf, From::Open(from), super::place())
    }

    /// The named pipe or device `path` as the file `leaf`.
    pub fn of_path(leaf: &[u8], path: PathBuf) -> Self {
        let place = Place { root: path.as_os_str().as_bytes().to_vec(), ..super::place() };
        Input::with(leaf, From::Path(path), place)
    }

    fn with(leaf: &[u8], from: From, place: Place) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Input {
            leaf: leaf.to_vec(),
            from: Mutex::new(Some(from)),
            mtime: Time { secs: since.as_secs().cast_signed(), nanos: since.subsec_nanos() },
            place,
            caps: Caps { streams: true, remote: false, ..Caps::minimal() },
        }
    }

    fn entry(&self, dir: &Dir) -> Entry {
        let mut entry = Entry::bare(Name::new(dir, &self.leaf), Kind::File);
        (entry.mtime, entry.mode, entry.nlink) = (self.mtime, 0o666, 1);
        entry.have = MetaMask::MTIME;
        entry
    }
}

impl Store for Input {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn stat(&self, name: &Name, _want: MetaMask) -> Result<Entry> {
        match name.dir.is_root() && name.leaf[..] == self.leaf[..] {
            true => Ok(self.entry(&name.dir)),
            false => Err(Error::new(ErrorKind::NotFound, "look up").on(name)),
        }
    }

    fn list(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        each(Ok(self.entry(dir)));
        Ok(())
    }

    fn open(&self, entry: &Entry, _follow: bool) -> Result<Box<dyn Source>> {
        let from = self.from.lock().unwrap_or_else(PoisonError::into_inner).take();
        let once = || Error::new(ErrorKind::Changed, "read").on(&entry.name).because("it can be read only once");
        let from = match from.ok_or_else(once)? {
            From::Open(from) => from,
            From::Path(path) => File::open(path).map_err(|e| Error::io(e, "open").on(&entry.name))?.into(),
        };
        Ok(Box::new(Pipe { from, mtime: self.mtime, read: Arc::default() }))
    }
}

struct Pipe {
    from: OwnedFd,
    mtime: Time,
    read: Arc<AtomicU64>,
}

impl Source for Pipe {
    fn read(&self, _at: std::ops::Range<u64>) -> Result<Box<dyn Read + Send + '_>> {
        Err(Error::new(ErrorKind::Unsupported, "read").because("a stream is read from its start, once"))
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(Reader(self)))
    }

    fn stamp(&self) -> Result<Stamp> {
        Ok(Stamp { size: self.read.load(Ordering::Relaxed), mtime: self.mtime, version: 0 })
    }
}

struct Reader<'a>(&'a Pipe);

impl Read for Reader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let fd = self.0.from.as_fd();
        if poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&WAIT))? == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = rustix::io::read(fd, into)?;
        self.0.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
