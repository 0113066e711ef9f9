//! Messages that wait: for each rank those that MPI has not taken yet, and those that have come. Bounded by number and by bytes, and
//! the former for each rank alone, so that one which has stopped reading holds up no other.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Messages to one rank that may wait. What a team asks for is answered before it asks again: more are records for one rank.
const MOST_MESSAGES: usize = 16 * 1024;
const MOST_BYTES: usize = 32 << 20;

/// The same for all ranks together.
const MOST_BYTES_OF_ALL: usize = 256 << 20;

/// Messages that MPI has at once, of one rank and of all.
const MOST_SENDING: usize = 16;
const MOST_SENDING_OF_ALL: usize = 256;

/// Messages that have come and nobody has taken.
const MOST_ARRIVED: usize = 64 * 1024;
const MOST_ARRIVED_BYTES: usize = 64 << 20;

/// What waits to be sent.
#[derive(Debug, Default)]
pub struct Outgoing {
    ranks: BTreeMap<u32, Queue>,
    bytes: usize,
    sending: usize,
    /// The rank that was served last: the next one is behind it.
    last: u32,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Messages that MPI has.
    sending: usize,
}

/// How far the bounds are used up for one more message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Enough,
    /// Whoever can wait should.
    Little,
    /// This rank does not take its messages.
    None(u32),
}

impl Outgoing {
    pub fn room(&self, to: u32, length: usize) -> Room {
        let empty = Queue::default();
        let queue = self.ranks.get(&to).unwrap_or(&empty);
        // One message has room, however large it is.
        let is_over = |times: usize| {
            queue.messages.len() >= times * MOST_MESSAGES || !queue.messages.is_empty() && queue.bytes + length > times * MOST_BYTES
        };
        let is_over_in_all = |times: usize| self.bytes > 0 && self.bytes + length > times * MOST_BYTES_OF_ALL;
        if is_over(2) {
            Room::None(to)
        } else if is_over_in_all(2) {
            Room::None(self.fullest().unwrap_or(to))
        } else if is_over(1) || is_over_in_all(1) {
            Room::Little
        } else {
            Room::Enough
        }
    }

    /// The rank for which most waits.
    fn fullest(&self) -> Option<u32> {
        self.ranks.iter().max_by_key(|(_, queue)| queue.bytes).map(|(rank, _)| *rank)
    }

    pub fn push(&mut self, to: u32, message: Vec<u8>) {
        self.bytes += message.len();
        let queue = self.ranks.entry(to).or_default();
        queue.bytes += message.len();
        queue.messages.push_back(message);
    }

    /// The next message for MPI: of one rank after the other, each in its order.
    pub fn next(&mut self) -> Option<(u32, Vec<u8>)> {
        if self.sending >= MOST_SENDING_OF_ALL {
            return None;
        }
        let is_ready = |(_, queue): &(&u32, &Queue)| !queue.messages.is_empty() && queue.sending < MOST_SENDING;
        let behind = self.ranks.range(self.last.saturating_add(1)..).chain(self.ranks.range(..=self.last));
        let to = *behind.into_iter().find(is_ready)?.0;
        let queue = self.ranks.get_mut(&to)?;
        let message = queue.messages.pop_front()?;
        queue.bytes -= message.len();
        queue.sending += 1;
        (self.bytes, self.sending, self.last) = (self.bytes - message.len(), self.sending + 1, to);
        Some((to, message))
    }

    /// MPI is done with a message.
    pub fn sent(&mut self, to: u32) {
        self.sending = self.sending.saturating_sub(1);
        if let Some(queue) = self.ranks.get_mut(&to) {
            queue.sending = queue.sending.saturating_sub(1);
            if queue.sending == 0 && queue.messages.is_empty() {
                self.ranks.remove(&to);
            }
        }
    }

    /// Nothing waits, and MPI has nothing.
    pub fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// Something waits that MPI could be given now.
    pub fn has_next(&self) -> bool {
        self.sending < MOST_SENDING_OF_ALL && self.ranks.values().any(|queue| !queue.messages.is_empty() && queue.sending < MOST_SENDING)
    }
}

/// What has come.
#[derive(Debug, Default)]
pub struct Inbox {
    state: Mutex<Arrived>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Arrived {
    messages: VecDeque<(u32, Vec<u8>)>,
    bytes: usize,
    /// Nothing comes any more.
    closed: bool,
}

/// What a look into the inbox has found.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    Message(u32, Vec<u8>),
    Nothing,
    Closed,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Arrived> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Errors
    /// The message, for which there is no room.
    pub fn put(&self, from: u32, message: Vec<u8>) -> Result<(), (u32, Vec<u8>)> {
        let mut state = self.lock();
        let is_over = state.bytes + message.len() > MOST_ARRIVED_BYTES && !state.messages.is_empty();
        if is_over || state.messages.len() >= MOST_ARRIVED {
            return Err((from, message));
        }
        state.bytes += message.len();
        state.messages.push_back((from, message));
        drop(state);
        self.news.notify_one();
        Ok(())
    }

    pub fn close(&self) {
        self.lock().closed = true;
        self.news.notify_all();
    }

    /// Waits so long for a message.
    pub fn take(&self, wait: Duration) -> Taken {
        let until = Instant::now() + wait;
        let mut state = self.lock();
        loop {
            if let Some((from, message)) = state.messages.pop_front() {
                state.bytes -= message.len();
                return Taken::Message(from, message);
            }
            if state.closed {
                return Taken::Closed;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Taken::Nothing;
            }
            state = self.news.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_gets_its_messages_in_order_and_one_that_takes_none_holds_up_no_other() {
        let mut outgoing = Outgoing::default();
        for n in 0..100 {
            outgoing.push(1, vec![n]);
            outgoing.push(2, vec![n]);
        }
        let (mut one, mut two) = (Vec::new(), Vec::new());
        // MPI is done with what rank 2 gets, and never with what rank 1 does.
        while let Some((to, message)) = outgoing.next() {
            match to {
                1 => one.extend(message),
                _ => {
                    two.extend(message);
                    outgoing.sent(2);
                }
            }
        }
        assert_eq!(two, (0..100).collect::<Vec<u8>>());
        assert_eq!(one, (0..MOST_SENDING as u8).collect::<Vec<u8>>());
        assert!(!outgoing.has_next() && !outgoing.is_empty());
        outgoing.sent(1);
        assert!(outgoing.has_next());
        assert_eq!(outgoing.next(), Some((1, vec![MOST_SENDING as u8])));
        for _ in 0..100 {
            outgoing.sent(1);
            outgoing.next();
        }
        assert!(outgoing.is_empty(), "{outgoing:?}");
    }

    #[test]
    fn bytes_and_messages_are_bounded_for_each_rank_and_the_full_one_is_named() {
        let mut outgoing = Outgoing::default();
        assert_eq!(outgoing.room(1, 10 * MOST_BYTES), Room::Enough, "one has room");
        let mebibyte = 1 << 20;
        let mut pushed = 0;
        while outgoing.room(1, mebibyte) == Room::Enough {
            outgoing.push(1, vec![0; mebibyte]);
            pushed += mebibyte;
        }
        assert_eq!(pushed, MOST_BYTES);
        assert_eq!((outgoing.room(1, mebibyte), outgoing.room(2, mebibyte)), (Room::Little, Room::Enough));
        while outgoing.room(1, mebibyte) == Room::Little {
            outgoing.push(1, vec![0; mebibyte]);
        }
        assert_eq!((outgoing.room(1, mebibyte), outgoing.room(2, mebibyte)), (Room::None(1), Room::Enough));
        for _ in 0..2 * MOST_MESSAGES {
            outgoing.push(2, Vec::new());
        }
        assert_eq!(outgoing.room(2, 0), Room::None(2));
        for to in 3.. {
            match outgoing.room(to, 31 * mebibyte) {
                Room::None(full) => {
                    assert_eq!(full, 1, "the fullest");
                    break;
                }
                _ => outgoing.push(to, vec![0; 31 * mebibyte]),
            }
            assert!(to < 30, "not bounded in all");
        }
        while outgoing.next().is_some() {}
        assert_eq!(outgoing.room(1, mebibyte), Room::Little, "what MPI has is not counted");
    }

    #[test]
    fn an_inbox_is_bounded_by_bytes_and_gives_what_is_left_when_it_is_closed() {
        let inbox = Inbox::default();
        assert_eq!(inbox.take(Duration::ZERO), Taken::Nothing);
        inbox.put(1, vec![0; 2 * MOST_ARRIVED_BYTES]).unwrap();
        assert_eq!(inbox.put(2, vec![7]), Err((2, vec![7])));
        assert!(matches!(inbox.take(Duration::ZERO), Taken::Message(1, _)));
        for _ in 0..MOST_ARRIVED {
            inbox.put(2, Vec::new()).unwrap();
        }
        assert!(inbox.put(2, Vec::new()).is_err());
        inbox.close();
        for _ in 0..MOST_ARRIVED {
            assert_eq!(inbox.take(Duration::ZERO), Taken::Message(2, Vec::new()));
        }
        assert_eq!(inbox.take(Duration::from_secs(60)), Taken::Closed);
    }
}
