//! Work that threads take from one pool, and with it the ranks of a job: for commands that go through a tree once, such as du,
//! sum and rm.
//!
//! Memory is flat: past some thousands, waiting items are in a file. With ranks, rank 0 deals:
//!
//! ```text
//! an idle rank            Idle -> rank 0, which gives it items, or asks those that have some
//! a rank that is asked    Give -> rank 0, as soon as it has more than its threads take at once
//! all are idle            End  -> all
//! ```
//!
//! What was given and what is idle is known in one place, in the order of the messages: nothing has to be counted to find the end.

mod session;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use crate::cancel::{Cancel, Stop};
use crate::error::{Error, ErrorKind, Result};
use crate::lock::lock;
use crate::retry::Scope;
use crate::rlimit::STACK;
use crate::spill::SpillStack;

use session::{Member, Message};
pub use session::{Session, Stage};

/// Items that wait in memory, of those that may be many.
const MOST_WAITING: usize = 4096;
/// Items of one message: of which nobody knows how much they hold, and others.
const MOST_OPEN: usize = 256;
const MOST_CLOSED: usize = 16;

/// A part of the work.
pub trait Item: Send + Sized + 'static {
    fn encode(&self) -> Vec<u8>;
    /// `None` for what [`Item::encode`] has not made.
    fn decode(bytes: &[u8]) -> Option<Self>;
    /// More may come of it, such as of a directory; any number of these can wait. Others are taken first, so that few wait.
    fn is_open(&self) -> bool;
}

/// How the items of one kind are done, and by whom.
pub struct Pool<T> {
    threads: usize,
    cancel: Cancel,
    state: Mutex<State<T>>,
    wake: Condvar,
    stage: Option<Stage>,
}

struct State<T> {
    closed: VecDeque<T>,
    /// Taken from the back, given away from the front.
    open: VecDeque<T>,
    spilled: SpillStack,
    spilled_count: u64,
    running: usize,
    error: Option<Error>,
    over: bool,
    /// Another rank has nothing to do: rank 0 has asked.
    wanted: bool,
    /// Rank 0 knows that there is nothing here.
    told: bool,
    /// A thread brings more; there is no more.
    feeding: bool,
    fed: bool,
    /// It has brought nothing this time: first what is here is done.
    dull: bool,
    /// At rank 0.
    peers: Vec<Peer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    /// Has not begun yet.
    Coming,
    Idle,
    Busy,
    /// Asked for something, and has not answered.
    Asked,
    /// Cannot take part.
    Out,
}

enum Task<T> {
    Work(T),
    /// Send what there is to say of the work so far.
    Flush,
    /// Bring more.
    Feed,
}

/// Brings more items, a part of all that there are, or `None` at the end; nothing if more should wait, which it has done for a moment.
pub type Feed<'a, T> = &'a (dyn Fn() -> Result<Option<Vec<T>>> + Sync);

/// Work under way; given back even by a panic, or the other threads would wait for ever.
struct Running<'a, T>(&'a Pool<T>);

impl<T> Drop for Running<'_, T> {
    fn drop(&mut self) {
        lock(&self.0.state).running -= 1;
        self.0.wake.notify_all();
    }
}

impl<T: Item> Pool<T> {
    /// `stage`: what the ranks of a job do together.
    pub fn new(threads: usize, cancel: &Cancel, spill: &Path, stage: Option<Stage>) -> Arc<Pool<T>> {
        let peers = stage.as_ref().map_or(Vec::new(), |stage| vec![Peer::Coming; stage.followers() as usize]);
        let state = State {
            closed: VecDeque::new(),
            open: VecDeque::new(),
            spilled: SpillStack::new(spill, 1 << 20),
            spilled_count: 0,
            running: 0,
            error: None,
            over: false,
            wanted: false,
            told: false,
            feeding: false,
            fed: true,
            dull: false,
            peers,
        };
        let threads = threads.max(1);
        Arc::new(Pool { threads, cancel: cancel.clone(), state: Mutex::new(state), wake: Condvar::new(), stage })
    }

    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Closed items that wait, for who adds them: it does its own where many do.
    pub fn waiting(&self) -> usize {
        lock(&self.state).closed.len()
    }

    /// Whether somebody has nothing to do, here or elsewhere.
    pub fn wants(&self) -> bool {
        let state = lock(&self.state);
        let hungry = state.running < self.threads || state.wanted || state.peers.contains(&Peer::Idle);
        hungry && state.open.is_empty() && state.closed.is_empty()
    }

    pub fn push(&self, items: impl IntoIterator<Item = T>) {
        let mut state = lock(&self.state);
        let before = state.closed.len() + state.open.len();
        items.into_iter().for_each(|item| state.keep(item));
        if state.closed.len() + state.open.len() > before {
            self.share(&mut state);
            drop(state);
            self.wake.notify_all();
        }
    }

    /// Does everything, with other ranks until all are done. `flush` sends what there is to say before this rank counts as idle.
    ///
    /// # Errors
    /// What ended it before.
    pub fn run(self: &Arc<Self>, work: &(dyn Fn(T) + Sync), flush: &(dyn Fn() + Sync)) -> Result<()> {
        self.run_fed(work, flush, None)
    }

    /// The same with items that come from `feed`, by one thread at a time, whenever few wait.
    ///
    /// # Errors
    /// What ended it before, also from `feed`.
    pub fn run_fed(self: &Arc<Self>, work: &(dyn Fn(T) + Sync), flush: &(dyn Fn() + Sync), feed: Option<Feed<'_, T>>) -> Result<()> {
        lock(&self.state).fed = feed.is_none();
        if let Some(stage) = &self.stage {
            stage.enter(self.clone())?;
        }
        let retries = Scope::current();
        std::thread::scope(|scope| {
            let run = || {
                let _retries = retries.clone().enter();
                while let Some(task) = self.next() {
                    let _running = Running(self);
                    match task {
                        Task::Work(item) => work(item),
                        Task::Flush => {
                            flush();
                            self.say(&Message::Idle);
                        }
                        Task::Feed => self.bring(feed),
                    }
                }
            };
            // Fewer threads do the same work: this one takes part.
            for _ in 1..self.threads {
                let _one_less = Builder::new().stack_size(STACK).spawn_scoped(scope, run);
            }
            run();
        });
        let failed = lock(&self.state).error.take();
        if let Some(stage) = &self.stage {
            stage.leave(failed.as_ref().or(self.cancel.check().err().as_ref()));
        }
        failed.map_or_else(|| self.cancel.check(), Err)
    }

    /// Ends the work of this pool with an error, unless it has one.
    pub fn fail(&self, error: Error) {
        lock(&self.state).error.get_or_insert(error);
        self.wake.notify_all();
    }

    fn next(&self) -> Option<Task<T>> {
        let mut state = lock(&self.state);
        loop {
            if self.cancel.is_set() || state.error.is_some() || state.over {
                self.wake.notify_all();
                return None;
            }
            // As many as threads and ranks there are.
            let few = state.closed.len() < self.threads + state.peers.len() && (!state.dull || state.closed.is_empty());
            if !state.fed && !state.feeding && few {
                state.feeding = true;
                state.running += 1;
                return Some(Task::Feed);
            }
            if let Some(item) = state.take() {
                state.dull = false;
                state.running += 1;
                self.share(&mut state);
                return Some(Task::Work(item));
            }
            if state.running == 0 && state.error.is_none() {
                match &self.stage {
                    None => state.over = true,
                    Some(stage) if stage.leads() => {
                        if state.peers.iter().all(|peer| matches!(peer, Peer::Idle | Peer::Out)) {
                            stage.to_all(&Message::End);
                            state.over = true;
                        } else {
                            self.share(&mut state);
                        }
                    }
                    Some(_) if !state.told => {
                        (state.told, state.running) = (true, 1);
                        return Some(Task::Flush);
                    }
                    Some(_) => {}
                }
            }
            if !state.over && state.error.is_none() {
                state = self.wake.wait_timeout(state, Duration::from_millis(200)).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    fn bring(&self, feed: Option<Feed<'_, T>>) {
        let brought = feed.map_or(Ok(None), |feed| feed());
        let mut state = lock(&self.state);
        state.feeding = false;
        match brought {
            Ok(Some(items)) => {
                state.dull = items.is_empty();
                items.into_iter().for_each(|item| state.keep(item));
            }
            Ok(None) => state.fed = true,
            Err(e) => {
                state.error.get_or_insert(e);
            }
        }
        self.share(&mut state);
        drop(state);
        self.wake.notify_all();
    }

    /// Gives away what can be spared, if anybody wants it.
    fn share(&self, state: &mut State<T>) {
        let Some(stage) = &self.stage else { return };
        if !stage.leads() {
            if state.wanted {
                let share = state.spare(self.threads, 1);
                if !share.is_empty() {
                    state.wanted = false;
                    stage.to(0, &Message::Items(share));
                }
            }
            return;
        }
        loop {
            let hungry = state.peers.iter().filter(|peer| **peer == Peer::Idle).count();
            let Some(next) = state.peers.iter().position(|peer| *peer == Peer::Idle) else { break };
            let share = state.spare(self.threads, hungry);
            if share.is_empty() {
                break;
            }
            state.peers[next] = Peer::Busy;
            stage.to(next as u32 + 1, &Message::Items(share));
        }
        let starving = state.running == 0 && state.closed.is_empty() && state.open.is_empty();
        if starving || state.peers.contains(&Peer::Idle) {
            for (at, peer) in state.peers.iter_mut().enumerate().filter(|(_, peer)| **peer == Peer::Busy) {
                *peer = Peer::Asked;
                stage.to(at as u32 + 1, &Message::Ask);
            }
        }
    }

    fn say(&self, message: &Message) {
        if let Some(stage) = &self.stage {
            stage.to(0, message);
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        lock(&self.state)
    }
}

impl<T: Item> Member for Pool<T> {
    fn hear(&self, from: u32, message: Message) {
        let mut state = self.state();
        let peer = (from as usize).checked_sub(1);
        match message {
            Message::Items(items) => {
                for item in items {
                    match T::decode(&item) {
                        Some(item) => state.keep(item),
                        None => state.error = Some(foreign(from)),
                    }
                }
                state.told = false;
                // A rank that gives may be asked again.
                if let Some(peer) = peer.and_then(|peer| state.peers.get_mut(peer)) {
                    *peer = Peer::Busy;
                }
            }
            Message::Ask => state.wanted = true,
            Message::Idle | Message::Out => {
                if let Some(peer) = peer.and_then(|peer| state.peers.get_mut(peer)) {
                    *peer = if matches!(message, Message::Idle) { Peer::Idle } else { Peer::Out };
                }
            }
            Message::End => state.over = true,
            _ => state.error = Some(foreign(from)),
        }
        self.share(&mut state);
        drop(state);
        self.wake.notify_all();
    }

    fn stop(&self, error: Error) {
        self.state().error.get_or_insert(error);
        // Long tasks look at it, too.
        self.cancel.set(Stop::Failure);
        self.wake.notify_all();
    }
}

fn foreign(from: u32) -> Error {
    let reason = format!("rank {from} sent what this rank does not understand: all must be the same build of haul");
    Error::new(ErrorKind::Broken, "work together").because(reason)
}

impl<T: Item> State<T> {
    fn keep(&mut self, item: T) {
        if !item.is_open() {
            self.closed.push_back(item);
        } else if self.open.len() < MOST_WAITING {
            self.open.push_back(item);
        } else if let Err(e) = self.spilled.push(&item.encode()) {
            self.error = Some(Error::io(e, "spill"));
        } else {
            self.spilled_count += 1;
        }
    }

    fn take(&mut self) -> Option<T> {
        self.closed.pop_front().or_else(|| self.open.pop_back()).or_else(|| self.unspill())
    }

    fn unspill(&mut self) -> Option<T> {
        if self.spilled_count == 0 {
            return None;
        }
        match self.spilled.pop() {
            Ok(Some(bytes)) => {
                self.spilled_count -= 1;
                T::decode(&bytes)
            }
            Ok(None) => None,
            Err(e) => {
                self.error = Some(Error::io(e, "spill"));
                None
            }
        }
    }

    /// What one of so many gets who have nothing to do. What the threads here take at once stays, and a single directory: its
    /// children are worth more.
    fn spare(&mut self, threads: usize, hungry: usize) -> Vec<Vec<u8>> {
        let free = threads.saturating_sub(self.running);
        let spare = (self.open.len() + self.closed.len()).saturating_sub(free);
        if spare == 0 {
            return Vec::new();
        }
        let part = |n: usize, most: usize| n.div_ceil(hungry + 1).clamp(1, most).min(spare).min(n);
        if self.open.len() > 1 || (!self.open.is_empty() && !self.closed.is_empty()) {
            let n = part(self.open.len(), MOST_OPEN);
            return self.open.drain(..n).map(|item| item.encode()).collect();
        }
        let n = if self.closed.is_empty() { 0 } else { part(self.closed.len(), MOST_CLOSED) };
        self.closed.drain(..n).map(|item| item.encode()).collect()
    }
}
