//! What is written comes out of a pipe or goes to a device, such as standard output.

use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use haul_core::bundle::{Bundle, Outcome};
use haul_core::entry::{Dir, Entry, MetaMask, Name, Stamp};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::lock::lock;
use haul_core::store::{Caps, Flow, Place, Receipt, Sink, Source, Spec, Store, Token, WriteOutcome};

/// Bytes that are read before they are written.
const PIECE: usize = 256 << 10;

/// A store that takes one file. A write that is tried again goes on after the bytes that have left.
#[derive(Debug)]
pub struct Output {
    state: Arc<Mutex<State>>,
    place: Place,
    caps: Caps,
}

#[derive(Debug)]
struct State {
    to: File,
    /// The version of the file that has been begun.
    begun: Option<Stamp>,
    /// Bytes of it that have left.
    written: u64,
}

impl State {
    fn begin(&mut self, entry: &Entry) -> Result<()> {
        // The size of a stream is not known when it begins.
        let version = if entry.have.has(MetaMask::BASIC) { entry.stamp() } else { Stamp { size: 0, ..entry.stamp() } };
        match self.begun {
            Some(begun) if begun != version && self.written > 0 => {
                let e = Error::new(ErrorKind::Changed, "write").on(&entry.name);
                Err(e.because("part of its earlier content has been written, and cannot be taken back"))
            }
            _ => {
                self.begun = Some(version);
                Ok(())
            }
        }
    }

    /// Writes the bytes from `at` on, but for those that have left before.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let known = self.written.checked_sub(at);
        let known = known.ok_or_else(|| Error::new(ErrorKind::Unsupported, "write").because("a stream is written from its start"))?;
        let mut rest = usize::try_from(known).ok().and_then(|known| bytes.get(known..)).unwrap_or_default();
        while !rest.is_empty() {
            match self.to.write(rest) {
                Ok(0) => return Err(Error::io(io::ErrorKind::WriteZero.into(), "write")),
                Ok(count) => {
                    self.written += count as u64;
                    rest = &rest[count..];
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
                    return Err(Error::new(ErrorKind::Io, "write").because("the reader has closed the pipe"));
                }
                Err(e) => return Err(Error::io(e, "write")),
            }
        }
        Ok(())
    }
}

impl Output {
    pub fn new(to: OwnedFd) -> Self {
        let caps = Caps { streams: true, remote: false, ..Caps::minimal() };
        let state = State { to: to.into(), begun: None, written: 0 };
        Output { state: Arc::new(Mutex::new(state)), place: super::place(), caps }
    }
}

impl Store for Output {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn stat(&self, name: &Name, _want: MetaMask) -> Result<Entry> {
        Err(Error::new(ErrorKind::NotFound, "look up").on(name))
    }

    fn list(&self, _dir: &Dir, _each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        Ok(())
    }

    fn open(&self, entry: &Entry, _follow: bool) -> Result<Box<dyn Source>> {
        Err(Error::new(ErrorKind::Unsupported, "read").on(&entry.name).because("what went to a stream cannot be read back"))
    }

    fn create(&self, _name: &Name, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        lock(&self.state).begin(spec.entry)?;
        Ok(Box::new(Pipe(self.state.clone())))
    }

    fn put_bundle(&self, bundle: &mut Bundle) {
        let Bundle { items, data, .. } = bundle;
        for item in items.iter_mut().filter(|item| matches!(item.outcome, Outcome::Read)) {
            let mut state = lock(&self.state);
            let written = state.begin(&item.entry).and_then(|()| state.write(0, &data[item.at.clone()]));
            item.outcome = match written {
                Ok(()) => Outcome::Written(WriteOutcome { refused: MetaMask::NONE, ino: 0 }),
                Err(e) => Outcome::Failed(e),
            };
        }
    }
}

struct Pipe(Arc<Mutex<State>>);

impl Sink for Pipe {
    fn token(&self) -> Token {
        Token(Box::default())
    }

    fn write(&self, at: Range<u64>, from: &mut dyn Read) -> Result<()> {
        let mut piece = Vec::new();
        for start in (at.start..at.end).step_by(PIECE) {
            piece.clear();
            let most = (at.end - start).min(PIECE as u64);
            from.take(most).read_to_end(&mut piece).map_err(|e| Error::from_io(e, "read"))?;
            self.write_bytes(start, &piece)?;
            if (piece.len() as u64) < most {
                return Err(Error::new(ErrorKind::Changed, "read"));
            }
        }
        Ok(())
    }

    fn write_bytes(&self, at: u64, bytes: &[u8]) -> Result<()> {
        lock(&self.0).write(at, bytes)
    }

    fn hole(&self, _at: Range<u64>) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "write").because("a stream has no holes"))
    }

    fn reread(&self) -> Result<Box<dyn Source>> {
        Err(Error::new(ErrorKind::Unsupported, "read").because("what went to a stream cannot be read back"))
    }

    fn commit(&self, _entry: &Entry, _receipts: &[Receipt]) -> Result<WriteOutcome> {
        Ok(WriteOutcome { refused: MetaMask::NONE, ino: 0 })
    }

    /// What has left stays where it went.
    fn abort(&self) -> Result<()> {
        Ok(())
    }
}
