//! `/dev/zero` and `/dev/null` of a host as a source and a destination of generated large files: measures the network with
//! the code that moves files, without any disk.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Stamp, Xattrs};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Caps, Chunk, Flow, Landed, MetaSpec, Place, Receipt, Sink, Source, Spec, Store, Token};

use super::host::Host;
use super::packet::{Attrs, kind, open};
use super::stripes::{Reader, Stripe, write_blocks};
use crate::discard::{Counts, Discard};
use crate::synthetic::Synthetic;

const ZERO: &[u8] = b"/dev/zero";
const NULL: &[u8] = b"/dev/null";

/// One of the two, as a store.
#[derive(Debug)]
pub struct Device {
    /// Has the names; all calls that do not move data go to it.
    made: Box<dyn Store>,
    caps: Caps,
    reads: bool,
    open: Arc<DeviceStripes>,
}

/// The device, open once in each channel.
#[derive(Debug)]
struct DeviceStripes {
    stripes: Vec<Arc<Stripe>>,
    next: AtomicUsize,
    /// Bytes of one request.
    block: usize,
    counts: Arc<Counts>,
}

impl DeviceStripes {
    fn next(&self) -> Vec<Arc<Stripe>> {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.stripes.len().max(1);
        self.stripes[at..=at].to_vec()
    }
}

impl Host {
    /// `files` files of `size` bytes each, all of zeros, read over up to `streams` channels. `Unsupported` where the host has
    /// no such device.
    pub fn zeros(&self, files: u64, size: u64, streams: usize) -> Result<Device> {
        let open = self.device(ZERO, open::READ, streams, Arc::default())?;
        Ok(Device::new(Box::new(Synthetic::new(1, files, size)), true, open))
    }

    /// A destination that keeps nothing, over up to `streams` channels; `counts` is how much the host has accepted.
    pub fn null(&self, streams: usize, counts: Arc<Counts>) -> Result<Device> {
        let open = self.device(NULL, open::WRITE, streams, counts.clone())?;
        Ok(Device::new(Box::new(Discard::counting(counts)), false, open))
    }

    fn device(&self, path: &[u8], flags: u32, streams: usize, counts: Arc<Counts>) -> Result<DeviceStripes> {
        // In a chroot the name may be a file's.
        if self.look(path)? != Some(Kind::Char) {
            let e = Error::new(ErrorKind::Unsupported, "measure").at(path);
            return Err(e.because("the server does not expose this device, so all data would go to disk"));
        }
        let stripe = |channel| Stripe::open(channel, path, flags, &Attrs::default(), "open").map(Arc::new).map_err(|e| e.at(path));
        let stripes = self.client.channels(streams.max(1))?.into_iter().map(stripe).collect::<Result<Vec<_>>>()?;
        let block = if flags == open::READ { self.client.read_most } else { self.client.write_most };
        Ok(DeviceStripes { stripes, next: AtomicUsize::new(0), block, counts })
    }

    /// The time of one request that takes none itself.
    pub fn ping(&self) -> Result<Duration> {
        let channel = self.client.channel()?;
        let begun = Instant::now();
        channel.ask(kind::REALPATH, |r| r.bytes(b"."))?;
        Ok(begun.elapsed())
    }
}

impl Device {
    fn new(made: Box<dyn Store>, reads: bool, open: DeviceStripes) -> Device {
        // Round trips away, as the host's files are.
        let caps = Caps { cheap_stat: false, ..made.caps().clone() };
        Device { made, caps, reads, open: Arc::new(open) }
    }

    /// Channels that it is open in.
    pub fn channels(&self) -> usize {
        self.open.stripes.len()
    }
}

impl Store for Device {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn place(&self) -> &Place {
        self.made.place()
    }

    fn stat(&self, name: &Name, want: MetaMask) -> Result<Entry> {
        self.made.stat(name, want)
    }

    fn list(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        self.made.list(dir, each)
    }

    fn open(&self, entry: &Entry, follow: bool) -> Result<Box<dyn Source>> {
        let stamp = self.made.open(entry, follow)?.stamp()?;
        Ok(Box::new(Zeros { name: entry.name.clone(), stamp, stripes: self.open.next(), block: self.open.block }))
    }

    fn create(&self, name: &Name, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        if self.reads {
            return self.made.create(name, spec);
        }
        Ok(Box::new(Null { name: name.clone(), stripes: self.open.next(), open: self.open.clone() }))
    }

    fn make_dirs(&self, dirs: &[(&Dir, u32)]) -> Vec<Result<bool>> {
        self.made.make_dirs(dirs)
    }

    fn set_meta(&self, specs: &[MetaSpec<'_>]) -> Vec<Result<Landed>> {
        self.made.set_meta(specs)
    }

    fn read_xattrs(&self, entries: &mut [Entry], want: MetaMask) -> Vec<Result<()>> {
        self.made.read_xattrs(entries, want)
    }
}

struct Zeros {
    name: Name,
    stamp: Stamp,
    stripes: Vec<Arc<Stripe>>,
    block: usize,
}

impl Source for Zeros {
    fn read(&self, at: Range<u64>) -> Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(Reader::new(&self.name, self.stripes.clone(), self.block, at)))
    }

    fn stamp(&self) -> Result<Stamp> {
        Ok(self.stamp)
    }

    fn xattrs(&self, _want: MetaMask) -> Result<Xattrs> {
        Ok(Xattrs::new())
    }
}

struct Null {
    name: Name,
    stripes: Vec<Arc<Stripe>>,
    open: Arc<DeviceStripes>,
}

impl Sink for Null {
    fn token(&self) -> Token {
        Token(Box::default())
    }

    fn write(&self, at: Range<u64>, from: &mut dyn Read) -> Result<()> {
        let mut taken = |bytes| {
            self.open.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        };
        write_blocks(&self.stripes, self.open.block, at, from, &mut taken).map_err(|e| e.on(&self.name))
    }

    fn hole(&self, _at: Range<u64>) -> Result<()> {
        Ok(())
    }

    fn landed(&self, _chunk: &Chunk) -> Result<Box<[u8]>> {
        Ok(Box::default())
    }

    fn reread(&self) -> Result<Box<dyn Source>> {
        Err(Error::new(ErrorKind::Unsupported, "reread").on(&self.name))
    }

    fn commit(&self, _entry: &Entry, _receipts: &[Receipt]) -> Result<Landed> {
        self.open.counts.files.fetch_add(1, Ordering::Relaxed);
        Ok(Landed::default())
    }

    fn abort(&self) -> Result<()> {
        Ok(())
    }
}
