//! Files that are open in one channel, or in several if they are large.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use haul_core::error::{Remedy, Result};

use super::channel::{Channel, Held};
use super::client::{self, Client, Handle};
use super::packet::{Attrs, kind};
use haul_core::lock::lock;

/// Bytes in flight in one channel: OpenSSH's window.
pub(super) const WINDOW: usize = 2 << 20;
/// Files from this size on are read and written over several channels.
const LARGE: u64 = 4 << 20;

#[derive(Debug)]
pub(super) struct Stripe {
    pub channel: Arc<Channel>,
    pub handle: Handle,
    closed: AtomicBool,
    _held: Held,
}

impl Stripe {
    pub fn open(channel: Arc<Channel>, path: &[u8], flags: u32, attrs: &Attrs, op: &'static str) -> Result<Stripe> {
        let held = channel.hold(1);
        let answer = channel.ask(kind::OPEN, |r| r.bytes(path).number(flags).attrs(attrs))?;
        let handle = client::handle(&answer, op).map_err(|e| match client::is_unexplained(&e) && channel.is_short_of_handles() {
            true => e.remedy_is(Remedy::After(client::FOR_A_HANDLE)),
            false => e,
        })?;
        Ok(Stripe { channel, handle, closed: AtomicBool::new(false), _held: held })
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

pub(super) type Open = dyn Fn(Arc<Channel>) -> Result<Stripe> + Send + Sync;

pub(super) struct Stripes {
    client: Arc<Client>,
    size: u64,
    open: Arc<Open>,
    opened: Arc<Mutex<Opened>>,
}

#[derive(Default)]
struct Opened {
    stripes: Vec<Arc<Stripe>>,
    /// A thread opens it in further channels.
    is_opening: bool,
    /// It is opened in no further ones.
    is_final: bool,
}

impl Stripes {
    /// A file of `size` bytes that is open in one channel.
    pub fn of(
        client: &Arc<Client>,
        size: u64,
        first: Stripe,
        open: impl Fn(Arc<Channel>) -> Result<Stripe> + Send + Sync + 'static,
    ) -> Stripes {
        let opened = Opened { stripes: vec![Arc::new(first)], ..Opened::default() };
        Stripes { client: client.clone(), size, open: Arc::new(open), opened: Arc::new(Mutex::new(opened)) }
    }

    /// Where it is open now, without opening it anew.
    pub fn opened(&self) -> Vec<Arc<Stripe>> {
        lock(&self.opened).stripes.clone()
    }

    /// Those that there are, to be closed.
    pub fn take(&self) -> Vec<Arc<Stripe>> {
        let mut opened = lock(&self.opened);
        opened.is_final = true;
        std::mem::take(&mut opened.stripes)
    }

    /// One of them; opened anew after a lost connection.
    pub fn first(&self) -> Result<Arc<Stripe>> {
        self.first_of(&mut lock(&self.opened))
    }

    fn first_of(&self, opened: &mut Opened) -> Result<Arc<Stripe>> {
        opened.stripes.retain(|stripe| !stripe.channel.is_over());
        if let Some(first) = opened.stripes.first() {
            return Ok(first.clone());
        }
        let first = Arc::new((self.open)(self.client.channel()?)?);
        opened.stripes.push(first.clone());
        Ok(first)
    }

    /// Those in which it is open, at least one. Up to as many as the file gains from are opened beside the work, as there are channels.
    pub fn get(&self) -> Result<Vec<Arc<Stripe>>> {
        let mut opened = lock(&self.opened);
        self.first_of(&mut opened)?;
        let wanted = if self.size >= LARGE && !self.client.in_order() { self.client.stripes() } else { 1 };
        if opened.stripes.len() < wanted && !opened.is_opening && !opened.is_final {
            self.open_in_more(&mut opened, wanted);
        }
        Ok(opened.stripes.clone())
    }

    fn open_in_more(&self, opened: &mut Opened, wanted: usize) {
        let Ok(mut fresh) = self.client.channels.several(wanted) else { return };
        fresh.retain(|channel| !opened.stripes.iter().any(|stripe| Arc::ptr_eq(&stripe.channel, channel)));
        fresh.truncate(wanted - opened.stripes.len());
        if fresh.is_empty() {
            return;
        }
        let (open, shared) = (self.open.clone(), self.opened.clone());
        let open_in = move |channel: Arc<Channel>| {
            let made = open(channel.clone());
            let mut opened = lock(&shared);
            match made {
                Ok(stripe) if !opened.is_final => opened.stripes.push(Arc::new(stripe)),
                Ok(_) => {}
                // It would fail again: that it is another file by now shows before the end.
                Err(_) => opened.is_final |= !channel.is_over(),
            }
        };
        let shared = self.opened.clone();
        let work = move || {
            std::thread::scope(|scope| {
                for channel in fresh {
                    let open_in = &open_in;
                    // Without the thread there is one less.
                    let _ = std::thread::Builder::new().name("open".into()).spawn_scoped(scope, move || open_in(channel));
                }
            });
            lock(&shared).is_opening = false;
        };
        opened.is_opening = std::thread::Builder::new().name("open".into()).spawn(work).is_ok();
    }
}

/// The one whose channel has the least to do: those of one connection share it, and another connection may be faster.
pub(super) fn least_loaded(stripes: &[Arc<Stripe>]) -> usize {
    (0..stripes.len()).min_by_key(|at| stripes[*at].channel.load()).unwrap_or(0)
}
