//! Files that are open in one channel, or in several if they are large: reads ahead and writes, spread over them.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use haul_core::entry::Name;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::fill::fill_whole;

use super::channel::{Channel, Ticket};
use super::client::{self, Client, Handle, data, done};
use super::packet::{Attrs, kind, protocol_error};
use haul_core::lock::lock;

/// Bytes in flight in one channel: OpenSSH's window.
const WINDOW: usize = 2 << 20;
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

/// A block that was asked for.
struct BlockRead {
    ticket: Ticket,
    stripe: usize,
    at: Range<u64>,
}

pub(super) struct Reader<'a> {
    name: &'a Name,
    stripes: Vec<Arc<Stripe>>,
    block: usize,
    /// Up to where blocks were asked for.
    asked: u64,
    end: u64,
    turn: usize,
    in_flight: VecDeque<BlockRead>,
    bytes: Vec<u8>,
    /// Of `bytes`, what was handed on.
    at: usize,
}

impl<'a> Reader<'a> {
    /// `block` bytes per request.
    pub fn new(name: &'a Name, stripes: Vec<Arc<Stripe>>, block: usize, at: Range<u64>) -> Reader<'a> {
        Reader { name, stripes, block, asked: at.start, end: at.end, turn: 0, in_flight: VecDeque::new(), bytes: Vec::new(), at: 0 }
    }

    fn ask(&mut self) -> Result<()> {
        let most = (WINDOW / self.block).max(2) * self.stripes.len();
        while self.asked < self.end && self.in_flight.len() < most {
            let stripe = self.turn % self.stripes.len();
            self.turn += 1;
            // One write carries half a window; then comes the next channel.
            let mut batch = self.stripes[stripe].channel.batch();
            let handle = &self.stripes[stripe].handle;
            for _ in 0..(most / self.stripes.len() / 2).max(1) {
                if self.asked >= self.end || self.in_flight.len() >= most {
                    break;
                }
                let at = self.asked..(self.asked + self.block as u64).min(self.end);
                let ticket = batch.push(kind::READ, |r| r.bytes(handle).long(at.start).number((at.end - at.start) as u32));
                self.asked = at.end;
                self.in_flight.push_back(BlockRead { ticket, stripe, at });
            }
            batch.send()?;
        }
        Ok(())
    }

    fn next_block(&mut self) -> Result<()> {
        self.ask()?;
        let Some(BlockRead { ticket, stripe, at }) = self.in_flight.pop_front() else {
            self.bytes.clear();
            self.at = 0;
            return Ok(());
        };
        let stripe = self.stripes[stripe].clone();
        let mut answer = stripe.channel.wait(ticket)?;
        let (mut from, mut whole) = (at.start, Vec::new());
        loop {
            let Some(bytes) = data(&answer, "read")?.filter(|bytes| !bytes.is_empty()) else {
                return Err(Error::new(ErrorKind::Changed, "read").because("it became shorter while it was read"));
            };
            if bytes.len() as u64 > at.end - from {
                return Err(protocol_error("more data than requested"));
            }
            from += bytes.len() as u64;
            whole.extend_from_slice(bytes);
            if from == at.end {
                break;
            }
            // A server may send less than it was asked for.
            answer = stripe.channel.ask(kind::READ, |r| r.bytes(&stripe.handle).long(from).number((at.end - from) as u32))?;
        }
        self.bytes = whole;
        self.at = 0;
        Ok(())
    }
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.bytes.len() {
            self.next_block().map_err(|e| e.on(self.name))?;
        }
        let left = &self.bytes[self.at..];
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}

/// How many writes are sent before the first is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flight {
    One,
    /// What fits into the windows of all channels.
    Window,
}

/// Writes the bytes of `at`, `block` bytes per request; `taken` is called with the size of each block
/// that the server has confirmed.
pub(super) fn write_blocks(
    stripes: &[Arc<Stripe>],
    block: usize,
    flight: Flight,
    at: Range<u64>,
    from: &mut dyn Read,
    taken: &mut dyn FnMut(u64),
) -> Result<()> {
    let most = match flight {
        Flight::One => 1,
        Flight::Window => (WINDOW / block).max(2) * stripes.len(),
    };
    let mut in_flight: VecDeque<(usize, u64, Ticket)> = VecDeque::new();
    let mut confirm = |(stripe, count, ticket): (usize, u64, Ticket)| {
        done(&stripes[stripe].channel.wait(ticket)?, "write")?;
        taken(count);
        Ok::<(), Error>(())
    };
    let mut buffer = vec![0; block];
    let (mut next, mut turn) = (at.start, 0);
    while next < at.end {
        let wanted = usize::try_from(at.end - next).unwrap_or(usize::MAX).min(block);
        fill_whole(from, &mut buffer[..wanted])?;
        if in_flight.len() >= most
            && let Some(first) = in_flight.pop_front()
        {
            confirm(first)?;
        }
        let stripe = turn % stripes.len();
        turn += 1;
        let mut batch = stripes[stripe].channel.batch();
        let ticket = batch.push(kind::WRITE, |r| r.bytes(&stripes[stripe].handle).long(next).bytes(&buffer[..wanted]));
        batch.send()?;
        in_flight.push_back((stripe, wanted as u64, ticket));
        next += wanted as u64;
    }
    in_flight.into_iter().try_for_each(confirm)
}
