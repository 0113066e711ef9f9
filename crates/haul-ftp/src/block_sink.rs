//! A file that is being written in extended block mode, under a staging name until it is complete: any bytes, anywhere, by several workers
//! at once, each over a session and a data connection of its own.
//!
//! Each write is a partial store (ESTO; GFD.20) of its own. The server's last reply to it confirms its bytes, and nothing else does: what was
//! sent over a connection that broke is sent again.
//!
//! globus-gridftp-server 13.24 can end a store whose control connection closes while data arrive with one write too many: the block that
//! came last, at offset 0 of that store. So each store counts its offsets from its own first byte: what such a write spoils was not
//! confirmed, and is sent again.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, ThreadId};

use haul_core::entry::Entry;
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::hash::Algorithm;
use haul_core::receipt;
use haul_core::store::{Chunk, Fill, Reach, Receipt, Sink, SinkExtensions, SinkState, Source, Token, WriteOutcome};

use super::change;
use super::control::command;
use super::data::Failed;
use super::extended::Lane;
use super::pool::{Parked, Pool};
use super::ranges::Ranges;
use super::relay::Relays;
use super::reply::Reply;
use super::staged::Staged;
use haul_core::lock::lock;

const OP: &str = "write";
/// Bytes that are read from the source and written at a time.
const BUFFER: usize = 256 << 10;
/// Writes of one worker that wait for their replies.
const AHEAD: usize = 8;

pub struct BlockSink {
    staged: Staged,
    lanes: Arc<Lanes>,
    relays: Arc<Relays>,
    /// What an earlier write has left under the staging name is not removed yet.
    stale: Mutex<bool>,
    /// Bytes that the server had when the write was taken up again.
    reach: u64,
}

/// The sessions of the workers. One that another caller needs is given up between two writes.
struct Lanes {
    id: u64,
    pool: Arc<Pool>,
    slots: Mutex<Vec<(ThreadId, Arc<Slot>)>>,
    /// Bytes that the server has confirmed.
    confirmed: Mutex<Ranges>,
    /// Why bytes were lost that nobody has asked for since.
    lost: Mutex<Option<Error>>,
}

type Slot = Mutex<Option<Upload>>;

/// A lane, and the bytes of each transfer that the server has not answered.
struct Upload {
    lane: Lane,
    sent: VecDeque<Range<u64>>,
}

impl Lanes {
    fn new(pool: &Arc<Pool>) -> Arc<Lanes> {
        static NEXT: AtomicU64 = AtomicU64::new(1 << 32); // identity only; downloads count from 1
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Lanes { id, pool: pool.clone(), slots: Mutex::default(), confirmed: Mutex::default(), lost: Mutex::default() })
    }

    /// The calling worker's.
    fn own(&self) -> Arc<Slot> {
        let this = thread::current().id();
        let mut slots = lock(&self.slots);
        if let Some((_, slot)) = slots.iter().find(|(owner, _)| *owner == this) {
            return slot.clone();
        }
        let slot: Arc<Slot> = Arc::default();
        slots.push((this, slot.clone()));
        slot
    }

    fn all(&self) -> Vec<Arc<Slot>> {
        lock(&self.slots).iter().map(|(_, slot)| slot.clone()).collect()
    }

    /// Waits for the replies to transfers of a lane, up to the last one that has bytes of `until`; of all if that is `None`. A lane that
    /// owes nothing goes back to the pool.
    fn confirm(&self, place: &mut Option<Upload>, until: Option<&Range<u64>>) -> Result<()> {
        let Some(upload) = place else { return Ok(()) };
        let meets = |range: &Range<u64>| until.is_none_or(|until| range.start < until.end && until.start < range.end);
        let wanted = upload.sent.iter().rposition(meets).map_or(0, |at| at + 1);
        let mut outcome = Ok(());
        for _ in 0..wanted {
            outcome = match upload.lane.last_reply(OP) {
                Ok(reply) if reply.is_done() => Ok(()),
                Ok(reply) => Err(Failed::Reply(reply)),
                Err(e) => Err(Failed::Error(e)),
            };
            if outcome.is_err() {
                upload.lane.break_off();
                break;
            }
            lock(&self.confirmed).insert(upload.sent.pop_front().unwrap_or_default());
            self.pool.moved();
        }
        if outcome.is_err() || upload.sent.is_empty() {
            *place = None;
        }
        outcome.map_err(|failed| failed.into_error(OP))
    }
}

impl Parked for Lanes {
    fn release(&self) -> bool {
        for slot in self.all() {
            let Ok(mut place) = slot.try_lock() else { continue };
            if place.is_some() {
                if let Err(e) = self.confirm(&mut place, None) {
                    *lock(&self.lost) = Some(e);
                }
                *place = None;
                return true;
            }
        }
        false
    }
}

impl BlockSink {
    /// The server hears of it with the first bytes.
    pub fn create(staged: Staged) -> BlockSink {
        BlockSink { lanes: Lanes::new(&staged.shared.pool), relays: Relays::new(&staged.shared), staged, stale: Mutex::new(true), reach: 0 }
    }

    pub fn attach(staged: Staged) -> Result<BlockSink> {
        let reach = staged.reach()?;
        Ok(BlockSink {
            lanes: Lanes::new(&staged.shared.pool),
            relays: Relays::new(&staged.shared),
            staged,
            stale: Mutex::new(false),
            reach,
        })
    }

    /// A session in extended block mode; the first one removes what an earlier write has left.
    fn open(&self) -> Result<Upload> {
        let removal = [command("DELE", &self.staged.path)?];
        let removed = |reply: Reply| match reply.failure(OP) {
            e if reply.is_done() || e.kind() == ErrorKind::NotFound => Ok(()),
            e => Err(e),
        };
        // Others wait here before they take a session: the first one could else wait for theirs.
        let mut stale = lock(&self.stale);
        if *stale {
            let (lane, replies) = Lane::open(&self.lanes.pool, &removal, OP)?;
            replies.into_iter().try_for_each(removed)?;
            *stale = false;
            return Ok(Upload { lane, sent: VecDeque::new() });
        }
        drop(stale);
        let (lane, _) = Lane::open(&self.lanes.pool, &[], OP)?;
        Ok(Upload { lane, sent: VecDeque::new() })
    }

    /// Makes one transfer of the bytes of `at`, which `send` sends; their offsets count from the first of them.
    fn transfer(&self, at: Range<u64>, send: impl FnOnce(&mut Lane) -> Result<()>) -> Result<()> {
        let slot = self.lanes.own();
        let mut place = lock(&slot);
        if place.as_ref().is_some_and(|upload| upload.sent.len() >= AHEAD) {
            self.lanes.confirm(&mut place, None)?;
        }
        if place.is_none() {
            *place = Some(self.open()?);
            let lanes: Weak<Lanes> = Arc::downgrade(&self.lanes);
            self.lanes.pool.park(self.lanes.id, lanes);
        }
        let Some(upload) = place.as_mut() else { return Err(Error::new(ErrorKind::Other, OP)) };
        lock(&self.lanes.confirmed).remove(at.clone());
        let store = [format!("A {} ", at.start).as_bytes(), &self.staged.path].concat();
        let begun = command("ESTO", &store).and_then(|begin| upload.lane.begin(&begin, OP));
        let sent = begun.and_then(|()| match send(&mut upload.lane) {
            Ok(()) => upload.lane.end(OP).map(|()| at),
            // The transfer is brought to its end: what follows it belongs to another one.
            Err(e) => upload.lane.end(OP).and(Err(e)),
        });
        match sent {
            Ok(at) => {
                upload.sent.push_back(at);
                Ok(())
            }
            Err(e) => {
                upload.sent.push_back(0..0);
                if upload.lane.is_broken() {
                    // What was confirmed before the failure stays so.
                    while upload.lane.heard_reply().is_some_and(|reply| reply.is_done()) {
                        lock(&self.lanes.confirmed).insert(upload.sent.pop_front().unwrap_or_default());
                    }
                    *place = None;
                }
                Err(e)
            }
        }
    }

    fn write_all(&self, at: Range<u64>, from: &mut dyn Read) -> Result<()> {
        self.transfer(at.clone(), |lane| {
            let (mut next, mut buffer) = (at.start, vec![0; BUFFER.min(usize::try_from(at.end - at.start).unwrap_or(BUFFER))]);
            while next < at.end {
                let most = buffer.len().min(usize::try_from(at.end - next).unwrap_or(usize::MAX));
                match from.read(&mut buffer[..most]) {
                    Ok(0) => {
                        let left = at.end - next;
                        return Err(Error::new(ErrorKind::Changed, "read").because(format!("the source ended {left} bytes too early")));
                    }
                    Ok(count) => {
                        lane.send(next - at.start, &buffer[..count], OP)?;
                        next += count as u64;
                        self.lanes.pool.moved();
                    }
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(Error::from_io(e, "read")),
                }
            }
            Ok(())
        })
    }

    /// Has another server send `at`; `false` where it cannot.
    fn relay(&self, from: Reach, at: Range<u64>) -> Result<bool> {
        let mut stale = lock(&self.stale);
        if *stale {
            change::remove_file(&mut *self.lanes.pool.take()?, &self.staged.path, "remove")?;
            *stale = false;
        }
        drop(stale);
        lock(&self.lanes.confirmed).remove(at.clone());
        let passed = self.relays.pull(from, &self.staged.path, &at, OP)?;
        if passed {
            lock(&self.lanes.confirmed).insert(at);
        }
        Ok(passed)
    }

    fn land(&self, chunk: &Chunk) -> Result<()> {
        let is_landed = || lock(&self.lanes.confirmed).covers(&chunk.at);
        let mut outcome = self.lanes.confirm(&mut lock(&self.lanes.own()), Some(&chunk.at));
        // Another worker may have sent it.
        for slot in self.lanes.all() {
            if is_landed() {
                return Ok(());
            }
            outcome = outcome.and_then(|()| self.lanes.confirm(&mut lock(&slot), Some(&chunk.at)));
        }
        if is_landed() {
            return Ok(());
        }
        outcome?;
        let e = lock(&self.lanes.lost).take();
        Err(e.unwrap_or_else(|| Error::new(ErrorKind::Io, OP).because("it was not sent whole")).remedy_is(Remedy::Again))
    }

    fn settle(&self) -> Result<()> {
        self.lanes.all().iter().map(|slot| self.lanes.confirm(&mut lock(slot), None)).fold(Ok(()), Result::and)
    }

    /// The server has all that was written; an empty file is made.
    fn arrive(&self) -> Result<()> {
        self.settle()?;
        if self.staged.size == 0 {
            self.transfer(0..0, |_| Ok(()))?;
            self.settle()?;
        }
        Ok(())
    }

    fn conclude(&self, entry: &Entry, receipts: &[Receipt]) -> Result<WriteOutcome> {
        receipt::complete(entry.size, self.staged.chunk, receipts)?;
        self.arrive()?;
        self.staged.commit(entry)
    }

    fn remove(&self) -> Result<()> {
        // It makes no difference what has arrived, but nothing may arrive any more.
        let _ = self.settle();
        if *lock(&self.stale) {
            return Ok(());
        }
        change::remove_file(&mut *self.lanes.pool.take()?, &self.staged.path, "remove")
    }

    fn explained(&self, e: Error) -> Error {
        e.on(&self.staged.name)
    }
}

impl Sink for BlockSink {
    fn token(&self) -> Token {
        self.staged.token.clone()
    }

    fn write(&self, at: Range<u64>, from: &mut dyn Read) -> Result<()> {
        self.write_all(at, from).map_err(|e| self.explained(e))
    }

    fn write_bytes(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let range = at..at + bytes.len() as u64;
        self.transfer(range, |lane| lane.send(0, bytes, OP)).map_err(|e| self.explained(e))
    }

    fn hole(&self, at: Range<u64>) -> Result<()> {
        self.write(at, &mut io::repeat(0))
    }

    fn landed(&self, chunk: &Chunk) -> Result<Box<[u8]>> {
        self.land(chunk).map(|()| Box::default()).map_err(|e| self.explained(e))
    }

    fn reread(&self) -> Result<Box<dyn Source>> {
        self.arrive().map_err(|e| self.explained(e))?;
        self.staged.reread()
    }

    fn commit(&self, entry: &Entry, receipts: &[Receipt]) -> Result<WriteOutcome> {
        self.conclude(entry, receipts).map_err(|e| self.explained(e))
    }

    fn abort(&self) -> Result<()> {
        self.remove().map_err(|e| self.explained(e))
    }

    fn extensions(&self) -> SinkExtensions<'_> {
        SinkExtensions { fill: self, state: self, ..SinkExtensions::default() }
    }
}

impl Fill for BlockSink {
    fn pull(&self, from: Reach, at: Range<u64>, hash: bool) -> Result<Option<u128>> {
        // Nobody sees the bytes that a hash could be made of.
        let passed = !hash && self.relay(from, at).map_err(|e| self.explained(e))?;
        Ok(passed.then_some(0))
    }
}

impl SinkState for BlockSink {
    fn keeps(&self, receipt: &Receipt) -> bool {
        let start = u64::from(receipt.index).saturating_mul(self.staged.chunk);
        start.saturating_add(self.staged.chunk).min(self.staged.size) <= self.reach
    }

    fn digest(&self, algorithm: Algorithm) -> Result<Option<Vec<u8>>> {
        self.arrive().map_err(|e| self.explained(e))?;
        self.staged.digest(algorithm)
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.pool.unpark(self.id);
    }
}
