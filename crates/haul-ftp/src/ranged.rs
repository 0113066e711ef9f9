//! A file that is written in ranges, each where it belongs, by several workers at once over sessions of their own: in extended block mode
//! as partial stores (ESTO; GFD.20), or with REST and STOR at a server that was found to write ranges. The server's last reply to a range
//! confirms its bytes, and nothing else does: what was sent over a connection that broke is sent again.
//!
//! globus-gridftp-server 13.24 can end a store whose control connection closes while data arrive with one write too many: the block that
//! came last, at offset 0 of that store. So each store counts its offsets from its own first byte: what such a write spoils was not
//! confirmed, and is sent again.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, ThreadId};

use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::store::Reach;

use super::change;
use super::control::command;
use super::data::Failed;
use super::extended::Lane;
use super::pool::{Lease, Parked, Pool};
use super::ranges::Ranges;
use super::relay::Relays;
use super::reply::Reply;
use super::staged::Staged;
use super::store::Shared;
use haul_core::lock::lock;

const OP: &str = "write";
/// Ranges of one worker that wait for their replies in extended block mode.
const AHEAD: usize = 8;

/// Takes some of the bytes of a range.
pub type Put<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

pub struct Ranged {
    pool: Arc<Pool>,
    mode: Mode,
    /// The sessions of each worker. One that another caller needs is given up between two ranges.
    slots: Mutex<Vec<(ThreadId, Arc<Slot>)>>,
    confirmed: Mutex<Ranges>,
    /// Why bytes were lost that no caller has asked for since.
    lost: Mutex<Option<Error>>,
}

enum Mode {
    /// A transfer in stream mode for each range.
    Parts,
    /// In extended block mode. `stale`: what an earlier write has left under the staging name is not removed yet.
    Blocks { stale: Mutex<bool>, relays: Arc<Relays> },
}

type Slot = Mutex<Option<Upload>>;

/// A session, and the ranges that the server has not answered.
struct Upload {
    carrier: Carrier,
    sent: VecDeque<Range<u64>>,
}

enum Carrier {
    Lane(Lane),
    Lease(Lease),
}

impl Carrier {
    /// Waits for the answer to the first range that has none.
    fn answer(&mut self) -> Result<()> {
        match self {
            Carrier::Lane(lane) => lane.last_reply(OP).and_then(|reply| reply.done(OP)).map(drop).inspect_err(|_| lane.break_off()),
            Carrier::Lease(lease) => lease.end(OP).inspect(|()| lease.busy = false),
        }
    }
}

impl Ranged {
    fn new(pool: &Arc<Pool>, mode: Mode, confirmed: Ranges) -> Arc<Ranged> {
        let confirmed = Mutex::new(confirmed);
        Arc::new(Ranged { pool: pool.clone(), mode, slots: Mutex::default(), confirmed, lost: Mutex::default() })
    }

    /// In stream mode. `reach`: what the server has confirmed before.
    pub fn in_parts(pool: &Arc<Pool>, reach: u64) -> Arc<Ranged> {
        let mut confirmed = Ranges::default();
        confirmed.insert(0..reach);
        Ranged::new(pool, Mode::Parts, confirmed)
    }

    /// In extended block mode. `stale`: a file under the staging name is to be removed first.
    pub fn in_blocks(to: &Arc<Shared>, stale: bool) -> Arc<Ranged> {
        Ranged::new(&to.pool, Mode::Blocks { stale: Mutex::new(stale), relays: Relays::new(to) }, Ranges::default())
    }

    /// Whether nothing was written under the staging name.
    pub fn is_untouched(&self) -> bool {
        matches!(&self.mode, Mode::Blocks { stale, .. } if *lock(stale))
    }

    /// Sends the bytes of `at`, which `send` puts in their order; [`Ranged::land`] waits until the server has them.
    pub fn write(self: &Arc<Self>, staged: &Staged, at: Range<u64>, send: impl FnOnce(Put<'_>) -> Result<()>) -> Result<()> {
        match &self.mode {
            Mode::Parts => self.write_part(staged, at, send),
            Mode::Blocks { stale, .. } => self.write_blocks(staged, stale, at, send),
        }
    }

    fn write_part(self: &Arc<Self>, staged: &Staged, at: Range<u64>, send: impl FnOnce(Put<'_>) -> Result<()>) -> Result<()> {
        if at.start == 0 {
            // A transfer that begins there takes away what others have written.
            return Err(Error::new(ErrorKind::Changed, OP).because("the file is sent again from its start"));
        }
        let mut lease = self.pool.take()?;
        lock(&self.confirmed).remove(at.clone());
        let mut data = match lease.store_at(at.start, &staged.path, OP, |_| true) {
            Ok(data) => data,
            Err(Failed::Reply(reply)) if matches!(reply.code, 451 | 501 | 504 | 550 | 554) => {
                staged.shared.features.ranges.refute();
                return Err(reply.failure(OP).kind_is(ErrorKind::Changed));
            }
            Err(failed) => return Err(change::explain_write(&mut lease, &staged.target, failed, OP)),
        };
        lease.busy = true;
        send(&mut |bytes| {
            data.write(bytes).map_err(|e| lease.explain(e, OP))?;
            self.pool.moved();
            Ok(())
        })?;
        data.finish().map_err(|e| lease.explain(e, OP))?;
        let upload = Upload { carrier: Carrier::Lease(lease), sent: [at].into() };
        let mut slots = lock(&self.slots);
        slots.retain(|(_, slot)| slot.try_lock().map_or(true, |place| place.is_some()));
        slots.push((thread::current().id(), Arc::new(Mutex::new(Some(upload)))));
        drop(slots);
        self.park();
        Ok(())
    }

    fn write_blocks(
        self: &Arc<Self>,
        staged: &Staged,
        stale: &Mutex<bool>,
        at: Range<u64>,
        send: impl FnOnce(Put<'_>) -> Result<()>,
    ) -> Result<()> {
        let slot = self.own();
        let mut place = lock(&slot);
        if place.as_ref().is_some_and(|upload| upload.sent.len() >= AHEAD) {
            self.confirm(&mut place, None)?;
        }
        if place.is_none() {
            *place = Some(Upload { carrier: Carrier::Lane(self.open(staged, stale)?), sent: VecDeque::new() });
            self.park();
        }
        let Some(Upload { carrier: Carrier::Lane(lane), sent }) = place.as_mut() else { return Err(Error::new(ErrorKind::Other, OP)) };
        lock(&self.confirmed).remove(at.clone());
        let store = [format!("A {} ", at.start).as_bytes(), &staged.path].concat();
        let begun = command("ESTO", &store).and_then(|begin| lane.begin(&begin, OP));
        let mut next = 0;
        let written = begun.and_then(|()| {
            let sent = send(&mut |bytes| {
                lane.send(next, bytes, OP)?;
                next += bytes.len() as u64;
                self.pool.moved();
                Ok(())
            });
            // In either case the transfer is brought to its end: what follows it belongs to another one.
            lane.end(OP).and(sent)
        });
        sent.push_back(if written.is_ok() { at } else { 0..0 });
        if written.is_err() && lane.is_broken() {
            // What was confirmed before the failure stays so.
            while lane.heard_reply().is_some_and(|reply| reply.is_done()) {
                lock(&self.confirmed).insert(sent.pop_front().unwrap_or_default());
            }
            *place = None;
        }
        written
    }

    /// A session in extended block mode; the first one removes what an earlier write has left.
    fn open(&self, staged: &Staged, stale: &Mutex<bool>) -> Result<Lane> {
        let removed = |reply: Reply| match reply.failure(OP) {
            e if reply.is_done() || e.kind() == ErrorKind::NotFound => Ok(()),
            e => Err(e),
        };
        // Others wait here before they take a session: the first one could else wait for theirs.
        let mut stale = lock(stale);
        if !*stale {
            drop(stale);
            return Ok(Lane::open(&self.pool, &[], OP)?.0);
        }
        let (lane, replies) = Lane::open(&self.pool, &[command("DELE", &staged.path)?], OP)?;
        replies.into_iter().try_for_each(removed)?;
        *stale = false;
        Ok(lane)
    }

    /// Has another server send `at`; `false` where it cannot.
    pub fn relay(&self, staged: &Staged, from: Reach, at: Range<u64>) -> Result<bool> {
        let Mode::Blocks { stale, relays } = &self.mode else { return Ok(false) };
        let mut stale = lock(stale);
        if *stale {
            change::remove_file(&mut *self.pool.take()?, &staged.path, "remove")?;
            *stale = false;
        }
        drop(stale);
        lock(&self.confirmed).remove(at.clone());
        let passed = relays.pull(from, &staged.path, &at, OP)?;
        if passed {
            lock(&self.confirmed).insert(at);
        }
        Ok(passed)
    }

    /// The calling worker's session.
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

    /// All sessions, the calling worker's first: others may be sending for a while.
    fn all(&self) -> Vec<Arc<Slot>> {
        let this = thread::current().id();
        let mut slots = lock(&self.slots).clone();
        slots.sort_by_key(|(owner, _)| *owner != this);
        slots.into_iter().map(|(_, slot)| slot).collect()
    }

    fn park(self: &Arc<Self>) {
        let this: Weak<Ranged> = Arc::downgrade(self);
        self.pool.park(this);
    }

    /// Waits for the replies to ranges of a session, up to the last one that has bytes of `until`; to all if that is `None`. A session
    /// that owes nothing goes back to the pool.
    fn confirm(&self, place: &mut Option<Upload>, until: Option<&Range<u64>>) -> Result<()> {
        let Some(upload) = place else { return Ok(()) };
        let meets = |range: &Range<u64>| until.is_none_or(|until| range.start < until.end && until.start < range.end);
        let wanted = upload.sent.iter().rposition(meets).map_or(0, |at| at + 1);
        let outcome = (0..wanted).try_for_each(|_| {
            upload.carrier.answer()?;
            lock(&self.confirmed).insert(upload.sent.pop_front().unwrap_or_default());
            self.pool.moved();
            Ok(())
        });
        if outcome.is_err() || upload.sent.is_empty() {
            *place = None;
        }
        outcome
    }

    /// Waits until the server has all of `at`.
    pub fn land(&self, at: &Range<u64>) -> Result<()> {
        let mut outcome = Ok(());
        for slot in self.all() {
            // Another worker may have sent it.
            if lock(&self.confirmed).covers(at) {
                return Ok(());
            }
            outcome = outcome.and(self.confirm(&mut lock(&slot), Some(at)));
        }
        if lock(&self.confirmed).covers(at) {
            return Ok(());
        }
        match self.mode {
            Mode::Parts => outcome.map_err(again)?,
            Mode::Blocks { .. } => outcome?,
        }
        let e = lock(&self.lost).take();
        Err(again(e.unwrap_or_else(|| Error::new(ErrorKind::Io, OP).because("it was not sent whole"))))
    }

    /// Waits until nothing is on its way any more.
    pub fn settle(&self) -> Result<()> {
        self.all().iter().map(|slot| self.confirm(&mut lock(slot), None)).fold(Ok(()), Result::and)
    }
}

/// The range can be sent again, unless the server's words are of something that stays.
fn again(e: Error) -> Error {
    if matches!(e.kind(), ErrorKind::NoSpace | ErrorKind::Quota | ErrorKind::Denied | ErrorKind::ReadOnly) {
        return e;
    }
    e.remedy_is(Remedy::Again)
}

/// A session that waits for answers is given to another caller that needs one.
impl Parked for Ranged {
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
