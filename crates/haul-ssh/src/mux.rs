//! Requests in flight on one connection: numbered, matched to their replies, and failed together when the connection ends.
//!
//! Any thread sends requests and waits; the thread that reads the connection delivers replies. Every wait is bounded by
//! the idle timeout, which starts again whenever the peer sends something.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Result};

use haul_core::lock::lock;

/// A wait checks this often that the connection is alive.
pub const CHECK: Duration = Duration::from_millis(500);
/// Without a check for this long no thread waited, or this process was stopped: what the peer sent may not have been read yet.
const UNCHECKED: Duration = Duration::from_secs(5);

/// `R` is a reply. `H` is what a request holds until its last reply has come or the connection has ended.
pub struct Mux<R, H = ()> {
    state: Mutex<MuxState<R, H>>,
    next: AtomicU32,
    /// Set when the connection ends; its reader and its writers check it.
    over: Arc<AtomicBool>,
    idle_timeout: Duration,
}

struct MuxState<R, H> {
    in_flight: HashMap<u32, (Arc<Slot<R>>, H)>,
    over: Option<Error>,
    heard: Instant,
    checked: Instant,
}

/// A request that was not answered within `--timeout`.
pub fn unanswered(timeout: Duration) -> Error {
    let e = Error::new(ErrorKind::TimedOut, "wait").because(format!("no answer within {} s (--timeout)", timeout.as_secs_f64()));
    e.hint("check whether the host is overloaded or one of its file systems hangs; a longer --timeout waits longer")
}

struct Slot<R> {
    replies: Mutex<VecDeque<Result<R>>>,
    arrived: Condvar,
}

impl<R> Slot<R> {
    fn push(&self, reply: Result<R>) {
        lock(&self.replies).push_back(reply);
        self.arrived.notify_all();
    }
}

/// A request that was sent or is about to be. Dropping it ends nothing: its replies are discarded when they come.
#[must_use]
pub struct Request<R> {
    pub id: u32,
    slot: Arc<Slot<R>>,
}

impl<R> Request<R> {
    /// Whether [`Mux::wait`] would return at once.
    pub fn is_answered(&self) -> bool {
        !lock(&self.slot.replies).is_empty()
    }
}

impl<R, H> Mux<R, H> {
    pub fn new(over: Arc<AtomicBool>, idle_timeout: Duration) -> Mux<R, H> {
        let state = MuxState { in_flight: HashMap::new(), over: None, heard: Instant::now(), checked: Instant::now() };
        Mux { state: Mutex::new(state), next: AtomicU32::new(1), over, idle_timeout }
    }

    pub fn idle_timeout(&self) -> Duration {
        self.idle_timeout
    }

    pub fn in_flight(&self) -> usize {
        lock(&self.state).in_flight.len()
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub fn why_over(&self) -> Option<Error> {
        lock(&self.state).over.as_ref().map(Error::again)
    }

    /// Numbers a request. On a connection that has ended it is answered with the reason.
    pub fn begin(&self, held: H) -> Request<R> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let slot = Arc::new(Slot { replies: Mutex::default(), arrived: Condvar::new() });
        let mut state = lock(&self.state);
        match &state.over {
            Some(e) => slot.push(Err(e.again())),
            None => drop(state.in_flight.insert(id, (slot.clone(), held))),
        }
        Request { id, slot }
    }

    pub fn hear(&self) {
        lock(&self.state).heard = Instant::now();
    }

    /// Changes what a request holds; `None` if it is not in flight.
    pub fn update<T>(&self, id: u32, change: impl FnOnce(&mut H) -> T) -> Option<T> {
        lock(&self.state).in_flight.get_mut(&id).map(|(_, held)| change(held))
    }

    /// Delivers a reply, after which another follows unless it is the `last`; `false` if the request is not in flight.
    pub fn deliver(&self, id: u32, reply: Result<R>, last: bool) -> bool {
        let mut state = lock(&self.state);
        state.heard = Instant::now();
        let (slot, held) = match last {
            true => state.in_flight.remove(&id).map_or((None, None), |(slot, held)| (Some(slot), Some(held))),
            false => (state.in_flight.get(&id).map(|(slot, _)| slot.clone()), None),
        };
        drop(state);
        // Released before the reply is delivered.
        drop(held);
        slot.map(|slot| slot.push(reply)).is_some()
    }

    /// The next reply. `silent` is called once nothing has come for the idle timeout, and ends the connection.
    pub fn wait(&self, request: &Request<R>, silent: impl Fn()) -> Result<R> {
        let began = Instant::now();
        let mut replies = lock(&request.slot.replies);
        loop {
            if let Some(reply) = replies.pop_front() {
                return reply;
            }
            replies = request.slot.arrived.wait_timeout(replies, CHECK).unwrap_or_else(PoisonError::into_inner).0;
            if replies.is_empty() {
                drop(replies);
                let alive = self.is_silent(began).map(|is_silent| {
                    if is_silent {
                        silent()
                    }
                });
                replies = lock(&request.slot.replies);
                if replies.is_empty() {
                    alive?;
                }
            }
        }
    }

    /// Whether nothing has come for the idle timeout, of which a wait that `began` later saw only a part; returns why the
    /// connection has ended.
    pub fn is_silent(&self, began: Instant) -> Result<bool> {
        let mut state = lock(&self.state);
        if let Some(e) = &state.over {
            return Err(e.again());
        }
        let now = Instant::now();
        if now - std::mem::replace(&mut state.checked, now) > UNCHECKED {
            state.heard = now;
        }
        Ok(now - state.heard.max(began) > self.idle_timeout)
    }

    /// Ends the connection: all requests in flight, and all that follow, are answered with the first reason given.
    pub fn end(&self, why: Error) {
        let mut state = lock(&self.state);
        let in_flight = std::mem::take(&mut state.in_flight);
        let why = state.over.get_or_insert(why).again();
        drop(state);
        self.over.store(true, Ordering::Relaxed);
        for (slot, held) in in_flight.into_values() {
            drop(held);
            slot.push(Err(why.again()));
        }
    }
}
