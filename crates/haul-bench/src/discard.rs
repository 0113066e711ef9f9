//! A destination that takes everything and keeps nothing but counts: what a run costs by itself.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_core::bundle::{Bundle, Outcome};
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::store::{Caps, Flow, Found, MetaSpec, Place, Receipt, Sink, Source, Spec, Store, Token, Tuning, WriteOutcome};
use haul_core::{Error, ErrorKind, Result};

use crate::device::{Device, Stream};

/// Nothing is ever found here, so every file is new.
#[derive(Debug)]
pub struct Discard {
    caps: Caps,
    place: Place,
    counts: Arc<Counts>,
    device: Option<Device>,
}

#[derive(Debug, Default)]
pub struct Counts {
    /// Files committed, one by one or in bundles.
    pub files: AtomicU64,
    pub bytes: AtomicU64,
}

impl Default for Discard {
    fn default() -> Self {
        let caps = Caps { tuning: Tuning { writers_per_file: 4, ..Caps::posix().tuning }, ..Caps::posix() };
        let place = Place { scheme: "discard", root: b"/".to_vec(), ..Place::default() };
        Discard { caps, place, counts: Arc::default(), device: None }
    }
}

impl Discard {
    pub fn new() -> Self {
        Self::default()
    }

    /// One that counts where another does.
    pub fn counting(counts: Arc<Counts>) -> Self {
        Discard { counts, ..Self::default() }
    }

    /// Writes content to `device`, and counts the bytes that its host has acknowledged.
    pub fn into_device(device: Device, counts: Arc<Counts>) -> Self {
        let mut discard = Self::counting(counts);
        discard.caps.remote = true;
        discard.device = Some(device);
        discard
    }

    fn absent<T>(&self, op: &'static str, name: &Name) -> Result<T> {
        Err(Error::new(ErrorKind::NotFound, op).on(name))
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl Store for Discard {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn stat(&self, name: &Name, _want: MetaMask) -> Result<Entry> {
        if name.leaf.is_empty() && name.dir.is_root() {
            let mut root = Entry::bare(name.clone(), Kind::Dir);
            root.have = MetaMask::BASIC;
            root.mode = 0o755;
            return Ok(root);
        }
        self.absent("stat", name)
    }

    fn stat_many(&self, _dir: &Dir, leaves: &[&[u8]], _want: MetaMask, _follow: bool) -> Vec<Found> {
        leaves.iter().map(|_| Found::Absent).collect()
    }

    fn list(&self, _dir: &Dir, _each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        Ok(())
    }

    fn open(&self, entry: &Entry, _follow: bool) -> Result<Box<dyn Source>> {
        self.absent("open", &entry.name)
    }

    fn create(&self, name: &Name, _spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        let stream = self.device.as_ref().map(Device::stream);
        Ok(Box::new(Hole { name: name.clone(), counts: self.counts.clone(), stream }))
    }

    fn put_bundle(&self, bundle: &mut Bundle) {
        for item in bundle.items.iter_mut().filter(|item| matches!(item.outcome, Outcome::Read)) {
            add(&self.counts.files, 1);
            add(&self.counts.bytes, item.at.len() as u64);
            item.outcome = Outcome::Written(WriteOutcome::default());
        }
    }

    fn make_dirs(&self, dirs: &[(&Dir, u32)]) -> Vec<Result<bool>> {
        dirs.iter().map(|(dir, _)| Ok(!dir.is_root())).collect()
    }

    fn make_node(&self, _name: &Name, _entry: &Entry, _keep: MetaMask) -> Result<WriteOutcome> {
        Ok(WriteOutcome::default())
    }

    fn make_hard_link(&self, _name: &Name, _existing: &Name) -> Result<()> {
        Ok(())
    }

    fn set_meta(&self, specs: &[MetaSpec<'_>]) -> Vec<Result<WriteOutcome>> {
        specs.iter().map(|_| Ok(WriteOutcome::default())).collect()
    }
}

/// Bytes that are taken at a time.
const BUFFER: usize = 64 << 10;

struct Hole {
    name: Name,
    counts: Arc<Counts>,
    stream: Option<Stream>,
}

impl Sink for Hole {
    fn token(&self) -> Token {
        Token(Box::default())
    }

    fn write(&self, at: Range<u64>, from: &mut dyn Read) -> Result<()> {
        if let Some(stream) = &self.stream {
            return stream.write(at, from, &mut |bytes| add(&self.counts.bytes, bytes)).map_err(|e| e.on(&self.name));
        }
        let mut left = usize::try_from(at.end - at.start).unwrap_or(usize::MAX);
        let mut buffer = vec![0; left.min(BUFFER)];
        while left > 0 {
            let most = left.min(BUFFER);
            match from.read(&mut buffer[..most]) {
                Ok(0) => return Err(Error::new(ErrorKind::Changed, "write").on(&self.name)),
                Ok(count) => {
                    // Counted as they come: the count is read meanwhile.
                    add(&self.counts.bytes, count as u64);
                    left -= count;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::from_io(e, "read").on(&self.name)),
            }
        }
        Ok(())
    }

    fn hole(&self, _at: Range<u64>) -> Result<()> {
        Ok(())
    }

    fn commit(&self, _entry: &Entry, _receipts: &[Receipt]) -> Result<WriteOutcome> {
        add(&self.counts.files, 1);
        Ok(WriteOutcome::default())
    }

    fn abort(&self) -> Result<()> {
        Ok(())
    }
}
