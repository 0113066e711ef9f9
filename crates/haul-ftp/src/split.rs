//! A file that is written in ranges over several connections, each where it belongs: for servers that were found to do so. A range counts
//! once the server has answered that it is complete.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use haul_core::error::{Error, ErrorKind, Remedy, Result};

use super::change;
use super::data::{Data, Failed};
use super::pool::{Lease, Parked, Pool};
use super::ranges::Ranges;
use super::staged::Staged;
use haul_core::lock::lock;

const OP: &str = "write";
/// Bytes that are read from the source and written at a time.
const BUFFER: usize = 256 << 10;

pub struct Split {
    id: u64,
    pool: Arc<Pool>,
    /// Ranges that were sent and have no answer yet.
    waiting: Mutex<Vec<Arc<Sent>>>,
    confirmed: Mutex<Ranges>,
    /// Why a range was lost that nobody has asked for since.
    lost: Mutex<Option<Error>>,
}

struct Sent {
    at: Range<u64>,
    /// Its session, until its answer was read.
    lease: Mutex<Option<Lease>>,
}

impl Split {
    /// `reach`: what the server has confirmed before.
    pub fn new(pool: &Arc<Pool>, reach: u64) -> Arc<Split> {
        static NEXT: AtomicU64 = AtomicU64::new(1 << 48); // identity only; other transfers count from elsewhere
        let mut confirmed = Ranges::default();
        confirmed.insert(0..reach);
        Arc::new(Split {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            pool: pool.clone(),
            waiting: Mutex::default(),
            confirmed: Mutex::new(confirmed),
            lost: Mutex::default(),
        })
    }

    /// Sends the bytes of `at`; [`Split::land`] waits until the server has them.
    pub fn write(self: &Arc<Split>, staged: &Staged, at: Range<u64>, from: &mut dyn Read) -> Result<()> {
        if at.start == 0 {
            // A transfer that begins there takes away what others have written.
            return Err(Error::new(ErrorKind::Changed, OP).because("the file is sent again from its start"));
        }
        let mut lease = self.pool.take()?;
        lock(&self.confirmed).remove(at.clone());
        let data = match lease.store_at(at.start, &staged.path, OP, |_| true) {
            Ok(data) => data,
            Err(Failed::Reply(reply)) if matches!(reply.code, 451 | 501 | 504 | 550 | 554) => {
                staged.shared.features.ranges.refute();
                return Err(reply.failure(OP).kind_is(ErrorKind::Changed));
            }
            Err(failed) => return Err(change::explain_write(&mut lease, &staged.target, failed, OP)),
        };
        lease.busy = true;
        self.send(&mut lease, data, at.end - at.start, from)?;
        lock(&self.waiting).push(Arc::new(Sent { at, lease: Mutex::new(Some(lease)) }));
        let this: Weak<Split> = Arc::downgrade(self);
        self.pool.park(self.id, this);
        Ok(())
    }

    fn send(&self, lease: &mut Lease, mut data: Data, mut left: u64, from: &mut dyn Read) -> Result<()> {
        let mut buffer = vec![0; BUFFER.min(usize::try_from(left).unwrap_or(BUFFER))];
        while left > 0 {
            let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            match from.read(&mut buffer[..most]) {
                Ok(0) => return Err(Error::new(ErrorKind::Changed, "read").because(format!("the source ended {left} bytes too early"))),
                Ok(count) => {
                    data.write(&buffer[..count]).map_err(|e| lease.explain(e, OP))?;
                    left -= count as u64;
                    self.pool.moved();
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::from_io(e, "read")),
            }
        }
        data.finish().map_err(|e| lease.explain(e, OP))
    }

    /// Waits for the answer to one range, if nobody else has.
    fn end(&self, sent: &Arc<Sent>) -> Result<()> {
        let mut place = lock(&sent.lease);
        let Some(mut lease) = place.take() else { return Ok(()) };
        let ended = lease.end(OP);
        if ended.is_ok() {
            lease.busy = false;
            lock(&self.confirmed).insert(sent.at.clone());
            self.pool.moved();
        }
        lock(&self.waiting).retain(|other| !Arc::ptr_eq(other, sent));
        ended
    }

    /// Waits until the server has all of `at`.
    pub fn land(&self, at: &Range<u64>) -> Result<()> {
        let meets = |sent: &&Arc<Sent>| sent.at.start < at.end && at.start < sent.at.end;
        let own: Vec<Arc<Sent>> = lock(&self.waiting).iter().filter(meets).cloned().collect();
        let ended = own.iter().map(|sent| self.end(sent)).fold(Ok(()), Result::and);
        if lock(&self.confirmed).covers(at) {
            return Ok(());
        }
        ended.map_err(again)?;
        let e = lock(&self.lost).take();
        Err(again(e.unwrap_or_else(|| Error::new(ErrorKind::Io, OP).because("it was not sent whole"))))
    }

    /// Waits until nothing is on its way any more.
    pub fn settle(&self) -> Result<()> {
        let all = lock(&self.waiting).clone();
        all.iter().map(|sent| self.end(sent)).fold(Ok(()), Result::and)
    }
}

/// The range can be sent again, unless the server's words are of something that stays.
fn again(e: Error) -> Error {
    if matches!(e.kind(), ErrorKind::NoSpace | ErrorKind::Quota | ErrorKind::Denied | ErrorKind::ReadOnly) {
        return e;
    }
    e.remedy_is(Remedy::Again)
}

/// A session that waits for an answer is given to another range that needs one.
impl Parked for Split {
    fn release(&self) -> bool {
        let Some(first) = lock(&self.waiting).first().cloned() else { return false };
        if let Err(e) = self.end(&first) {
            *lock(&self.lost) = Some(e);
        }
        true
    }
}

impl Drop for Split {
    fn drop(&mut self) {
        self.pool.unpark(self.id);
    }
}
