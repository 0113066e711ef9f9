//! Files that are open in one channel, or in several if they are large.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use haul_core::error::Result;

use super::channel::Channel;
use super::client::{self, Client, Handle};
use super::packet::{Attrs, kind};
use haul_core::lock::lock;

/// Bytes in flight in one channel: OpenSSH's window.
pub(super) const WINDOW: usize = 2 << 20;
/// Files from this size on are read and written over several channels.
const LARGE: u64 = 4 << 20;

/// A file open in one channel.
#[derive(Debug)]
pub(super) struct Stripe {
    pub channel: Arc<Channel>,
    pub handle: Handle,
    closed: AtomicBool,
}

impl Stripe {
    pub fn open(channel: Arc<Channel>, path: &[u8], flags: u32, attrs: &Attrs, op: &'static str) -> Result<Stripe> {
        let answer = channel.ask(kind::OPEN, |r| r.bytes(path).number(flags).attrs(attrs))?;
        let handle = client::handle(&answer, op)?;
        Ok(Stripe { channel, handle, closed: AtomicBool::new(false) })
    }

    /// Closes and waits for the answer: a server may report a full disk behind it only then.
    pub fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let answer = self.channel.ask(kind::CLOSE, |r| r.bytes(&self.handle))?;
        client::done(&answer, "write")
    }
}

impl Drop for Stripe {
    fn drop(&mut self) {
        if self.closed.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut batch = self.channel.batch();
        // Nothing depends on the answer, or on whether it was sent.
        let _ = batch.push(kind::CLOSE, |r| r.bytes(&self.handle));
        let _ = batch.send();
    }
}

/// One file in all channels in which it is open.
#[derive(Debug, Default)]
pub(super) struct Stripes(Mutex<Vec<Arc<Stripe>>>);

impl Stripes {
    pub fn of(first: Stripe) -> Stripes {
        Stripes(Mutex::new(vec![Arc::new(first)]))
    }

    pub fn add(&self, stripe: Stripe) {
        lock(&self.0).push(Arc::new(stripe));
    }

    pub fn opened(&self) -> Vec<Arc<Stripe>> {
        lock(&self.0).clone()
    }

    pub fn take(&self) -> Vec<Arc<Stripe>> {
        std::mem::take(&mut *lock(&self.0))
    }

    /// As many as a file of `size` bytes gains from and the server has channels for by now, opened as needed: again after a lost
    /// connection, too.
    pub fn get(&self, client: &Client, size: u64, open: impl Fn(Arc<Channel>) -> Result<Stripe> + Sync) -> Result<Vec<Arc<Stripe>>> {
        let mut stripes = lock(&self.0);
        stripes.retain(|stripe| !stripe.channel.is_over());
        if stripes.is_empty() {
            stripes.push(Arc::new(open(client.channel()?)?));
        }
        let wanted = if size >= LARGE && !client.in_order() { client.stripes() } else { 1 };
        if stripes.len() < wanted {
            let mut fresh = client.channels.several(wanted)?;
            fresh.retain(|channel| !stripes.iter().any(|stripe| Arc::ptr_eq(&stripe.channel, channel)));
            fresh.truncate(wanted - stripes.len());
            // Side by side: each takes a round trip or two.
            let opened: Vec<Result<Stripe>> = std::thread::scope(|scope| {
                let opening: Vec<_> = fresh.into_iter().map(|channel| scope.spawn(|| open(channel))).collect();
                opening.into_iter().filter_map(|one| one.join().ok()).collect()
            });
            for stripe in opened {
                stripes.push(Arc::new(stripe?));
            }
        }
        Ok(stripes.clone())
    }
}

/// The one whose channel has the least to do: those of one connection share it, and another connection may be faster.
pub(super) fn idlest(stripes: &[Arc<Stripe>]) -> usize {
    (0..stripes.len()).min_by_key(|at| stripes[*at].channel.load()).unwrap_or(0)
}
