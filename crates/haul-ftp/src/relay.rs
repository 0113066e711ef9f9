//! Ranges of a file that one GridFTP server sends to another (GFD.20: ERET and ESTO in extended block mode), so that chunks, receipts and
//! resuming work as for bytes that pass here. Two sessions and the connections between the servers are kept for the next range.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use haul_core::error::Result;
use haul_core::retry;
use haul_core::store::Reach;

use super::control::command;
use super::features::{cannot, get};
use super::fxp::{Pair, Watch, is_clear};
use super::pool::Parked;
use super::store::Shared;
use haul_core::lock::lock;

/// What all files of FTP servers are reached by: no session of another kind has this number.
const HOST: u64 = u64::MAX;
/// Connections between two servers for one worker: there are several workers.
const STREAMS: u32 = 2;

/// A file that is open for reading, as a write to another server finds it.
#[derive(Debug)]
pub struct Opened {
    number: u64,
    shared: Arc<Shared>,
    path: Vec<u8>,
}

/// Files that are open, by their numbers.
static OPEN: Mutex<BTreeMap<u64, Weak<Opened>>> = Mutex::new(BTreeMap::new());

impl Opened {
    pub fn new(shared: &Arc<Shared>, path: &[u8]) -> Arc<Opened> {
        static NEXT: AtomicU64 = AtomicU64::new(0); // identity only
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let opened = Arc::new(Opened { number, shared: shared.clone(), path: path.to_vec() });
        lock(&OPEN).insert(number, Arc::downgrade(&opened));
        opened
    }

    fn find(reach: Reach) -> Option<Arc<Opened>> {
        lock(&OPEN).get(&reach.file).filter(|_| reach.host == HOST)?.upgrade()
    }

    /// `None` where the server cannot send to another.
    pub fn reach(&self) -> Option<Reach> {
        can(&self.shared).then_some(Reach { host: HOST, file: self.number })
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        lock(&OPEN).remove(&self.number);
    }
}

fn can(shared: &Shared) -> bool {
    get(&shared.features.extended_blocks) && get(&shared.features.fxp) && is_clear(shared)
}

/// Whether ranges pass between these two servers.
pub fn is_possible(from: &Shared, to: &Shared) -> bool {
    can(from) && can(to) && from.pool.dialer.grid.is_some() == to.pool.dialer.grid.is_some()
}

#[derive(Debug)]
pub struct Relays {
    to: Arc<Shared>,
    /// In extended block mode, connected.
    idle: Mutex<Vec<Pair>>,
}

impl Relays {
    pub fn new(to: &Arc<Shared>) -> Arc<Relays> {
        Arc::new(Relays { to: to.clone(), idle: Mutex::default() })
    }

    /// Has the other server send `at` into the same place of the file at `path`. `false` where they refuse: the bytes have to pass here.
    pub fn pull(self: &Arc<Relays>, reach: Reach, path: &[u8], at: &Range<u64>, op: &'static str) -> Result<bool> {
        let Some(source) = Opened::find(reach).filter(|source| is_possible(&source.shared, &self.to)) else { return Ok(false) };
        let count = at.end - at.start;
        let store = command("ESTO", &[format!("A {} ", at.start).as_bytes(), path].concat())?;
        let retrieve = command("ERET", &[format!("P {} {count} ", at.start).as_bytes(), &source.path].concat())?;
        loop {
            let kept = lock(&self.idle).pop();
            let is_kept = kept.is_some();
            let Some(mut pair) = kept.map_or_else(|| self.connect(&source.shared), |kept| Ok(Some(kept)))? else { break };
            if pair.transfer(&store, &retrieve, Watch::new(None, count), &|_| retry::check(), op)? {
                self.keep(&source.shared, pair);
                return Ok(true);
            }
            // One of the servers may have closed a connection that nothing went over for a while.
            if !is_kept {
                break;
            }
        }
        cannot(&source.shared.features.fxp);
        cannot(&self.to.features.fxp);
        Ok(false)
    }

    fn connect(&self, from: &Shared) -> Result<Option<Pair>> {
        let Some(mut pair) = Pair::take(from, &self.to)? else { return Ok(None) };
        pair.enter_blocks(STREAMS)?;
        Ok(pair.connect()?.then_some(pair))
    }

    fn keep(self: &Arc<Relays>, from: &Arc<Shared>, pair: Pair) {
        lock(&self.idle).push(pair);
        for shared in [from, &self.to] {
            let this: Weak<Relays> = Arc::downgrade(self);
            shared.pool.park(this);
        }
    }
}

impl Parked for Relays {
    fn release(&self) -> bool {
        let pair = lock(&self.idle).pop();
        pair.is_some()
    }
}
