//! How ranks reach each other. The program over MPI has its own; threads of one process talk over bounded channels.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::lock::lock;

/// Messages between the ranks of one job.
pub trait Transport: Send + Sync {
    fn rank(&self) -> u32;
    fn ranks(&self) -> u32;
    /// Sends without waiting for the receiver. Messages from one rank to another arrive in their order. Errors: a rank or the network is gone.
    fn send(&self, to: u32, message: Vec<u8>) -> Result<()>;
    /// The next message and its sender; `None` when none came within `wait`. Called by one thread at a time; sleeps, does not spin.
    fn receive(&self, wait: Duration) -> Result<Option<(u32, Vec<u8>)>>;
    /// All have been told to end, as one of them is gone: whoever ends waits for the others for a short time only.
    fn hurry(&self) {}
}

/// Messages that a rank may have unread. What a team asks for is answered before it asks again, so that a rank which has more of
/// them has stopped reading.
const MOST_UNREAD: usize = 64 * 1024;

/// As many ranks, each for a thread of this process.
pub fn threads(ranks: u32) -> Vec<Arc<dyn Transport>> {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..ranks).map(|_| sync_channel(MOST_UNREAD)).unzip();
    let alive: Arc<[AtomicBool]> = (0..ranks).map(|_| AtomicBool::new(true)).collect();
    let ends = receivers.into_iter().zip(0..);
    let ends = ends.map(|(inbox, rank)| Threads { rank, senders: senders.clone(), inbox: Mutex::new(inbox), alive: alive.clone() });
    ends.map(|end| Arc::new(end) as Arc<dyn Transport>).collect()
}

type Message = (u32, Vec<u8>);

struct Threads {
    rank: u32,
    senders: Vec<SyncSender<Message>>,
    inbox: Mutex<Receiver<Message>>,
    /// Ranks that have not been dropped.
    alive: Arc<[AtomicBool]>,
}

impl Transport for Threads {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn ranks(&self) -> u32 {
        self.senders.len() as u32
    }

    fn send(&self, to: u32, message: Vec<u8>) -> Result<()> {
        let lost = |reason: &str| Error::new(ErrorKind::Broken, "send").because(format!("rank {to} {reason}"));
        let (Some(sender), Some(alive)) = (self.senders.get(to as usize), self.alive.get(to as usize)) else {
            return Err(lost("does not exist"));
        };
        if !alive.load(Ordering::Acquire) {
            return Err(lost("is gone"));
        }
        sender.try_send((self.rank, message)).map_err(|e| match e {
            TrySendError::Full(_) => lost("does not read its messages"),
            TrySendError::Disconnected(_) => lost("is gone"),
        })
    }

    fn receive(&self, wait: Duration) -> Result<Option<(u32, Vec<u8>)>> {
        let inbox = lock(&self.inbox);
        match inbox.try_recv() {
            Ok(message) => return Ok(Some(message)),
            Err(TryRecvError::Empty) if !wait.is_zero() => {}
            Err(_) => return Ok(None),
        }
        match inbox.recv_timeout(wait) {
            Ok(message) => Ok(Some(message)),
            // Every rank holds a sender to itself, so that a channel is never closed.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(None),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(alive) = self.alive.get(self.rank as usize) {
            alive.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_their_order_and_a_rank_that_is_gone_is_named() {
        let mut ranks = threads(3);
        for n in 0..10 {
            ranks[1].send(0, vec![n]).unwrap();
        }
        for n in 0..10 {
            assert_eq!(ranks[0].receive(Duration::ZERO).unwrap(), Some((1, vec![n])));
        }
        assert_eq!(ranks[0].receive(Duration::from_millis(1)).unwrap(), None);
        assert_eq!((ranks[2].rank(), ranks[2].ranks()), (2, 3));
        ranks.pop();
        let e = ranks[0].send(2, Vec::new()).unwrap_err();
        assert!(e.to_string().contains("rank 2"), "{e}");
    }
}
