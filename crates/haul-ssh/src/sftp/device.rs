//! `/dev/zero` and `/dev/null` of a host, through which its network can be measured without any disk.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use haul_core::entry::{Kind, Name};
use haul_core::error::{Error, ErrorKind, Result};

use super::host::Host;
use super::packet::{Attrs, kind, open};

use super::reader::Reader;
use super::stripes::Stripe;
use super::writes::{Flight, Writes};

#[derive(Debug)]
pub struct Device {
    stripes: Vec<Arc<Stripe>>,
    next: AtomicUsize,
    block: usize,
}

#[derive(Debug)]
pub struct Stream {
    stripes: Vec<Arc<Stripe>>,
    block: usize,
}

impl Device {
    pub fn channels(&self) -> usize {
        self.stripes.len()
    }

    /// The channels take turns.
    pub fn stream(&self) -> Stream {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.stripes.len().max(1);
        Stream { stripes: self.stripes[at..=at].to_vec(), block: self.block }
    }
}

impl Stream {
    /// `name` is for errors.
    pub fn read<'a>(&self, name: &'a Name, at: Range<u64>) -> Box<dyn Read + Send + 'a> {
        let stripes = self.stripes.clone();
        Box::new(Reader::new(name, move || Ok(stripes.clone()), self.block, at, None, |_| {}))
    }

    /// Calls `taken` with the bytes of each block that the server has acknowledged.
    pub fn write(&self, at: Range<u64>, from: &mut dyn Read, taken: &mut dyn FnMut(u64)) -> Result<()> {
        let (writes, taken) = (Writes::default(), std::cell::RefCell::new(taken));
        let confirmed = |bytes| taken.borrow_mut()(bytes);
        writes.send(&|| Ok(self.stripes.clone()), self.block, Flight::Window, at.clone(), from, &confirmed)?;
        writes.settle(&at, &confirmed)
    }
}

impl Host {
    /// `/dev/zero` in up to `streams` channels. `Unsupported` if the server does not expose it.
    pub fn zeros(&self, streams: usize) -> Result<Device> {
        self.device(b"/dev/zero", open::READ, self.client.read_most, streams)
    }

    /// `/dev/null` in up to `streams` channels. `Unsupported` if the server does not expose it.
    pub fn null(&self, streams: usize) -> Result<Device> {
        self.device(b"/dev/null", open::WRITE, self.client.write_most, streams)
    }

    fn device(&self, path: &[u8], flags: u32, block: usize, streams: usize) -> Result<Device> {
        // In a chroot it may be a regular file.
        if self.look(path)? != Some(Kind::Char) {
            let e = Error::new(ErrorKind::Unsupported, "measure").at(path);
            return Err(e.because("the server does not expose this device, so all data would go to disk"));
        }
        let stripe = |channel| Stripe::open(channel, path, flags, &Attrs::default(), "open").map(Arc::new).map_err(|e| e.at(path));
        let stripes = self.client.channels.all(streams.max(1))?.into_iter().map(stripe).collect::<Result<Vec<_>>>()?;
        Ok(Device { stripes, next: AtomicUsize::new(0), block })
    }

    /// The round trip of one request that the server answers at once.
    pub fn ping(&self) -> Result<Duration> {
        let channel = self.client.channel()?;
        let begun = Instant::now();
        channel.ask(kind::REALPATH, |r| r.bytes(b"."))?;
        Ok(begun.elapsed())
    }
}
