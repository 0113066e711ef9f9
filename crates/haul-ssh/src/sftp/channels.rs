//! The channels to one server: the first is opened when one is needed, further ones beside the work.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use haul_core::error::{ErrorKind, Result};
use haul_core::lock::lock;
use haul_core::retry::Scope;

use super::channel::Channel;
use super::client::Connect;
use crate::reconnect::Reconnect;

#[derive(Clone)]
pub(super) struct Channels(Arc<Inner>);

struct Inner {
    connect: Box<Connect>,
    reconnect: Reconnect,
    state: Mutex<State>,
    /// One has been opened, or could not be.
    settled: Condvar,
    /// Handles that the server allows in each.
    handles: AtomicUsize,
}

impl Inner {
    fn connect(&self) -> Result<Arc<Channel>> {
        let channel = (self.connect)()?;
        channel.allow_handles(self.handles.load(Ordering::Relaxed));
        Ok(Arc::new(channel))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // All at once: each takes a round trip to end.
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.open.iter().for_each(|channel| channel.hang_up());
    }
}

#[derive(Default)]
struct State {
    open: Vec<Arc<Channel>>,
    /// Threads that open one.
    opening: usize,
    /// Channels at the most; fewer once the server has refused one.
    most: usize,
}

impl Channels {
    pub fn new(connect: Box<Connect>, first: Channel, most: usize) -> Channels {
        let handles = AtomicUsize::new(first.handles_most());
        let state = State { open: vec![Arc::new(first)], opening: 0, most: most.max(1) };
        let (reconnect, state, settled) = (Reconnect::default(), Mutex::new(state), Condvar::new());
        Channels(Arc::new(Inner { connect, reconnect, state, settled, handles }))
    }

    /// The server allows no more handles than this in each.
    pub fn allow_handles(&self, most: usize) {
        self.0.handles.fetch_min(most, Ordering::Relaxed);
        lock(&self.0.state).open.iter().for_each(|channel| channel.allow_handles(channel.handles_most().min(most)));
    }

    /// The channel with the least to do, of those that have a handle left. If it has something to do, another is opened beside the work: at 50 ms a session takes
    /// 0.4 s to open, and many requests fit into one channel meanwhile.
    pub fn least(&self) -> Result<Arc<Channel>> {
        let asked = Instant::now();
        let mut state = lock(&self.0.state);
        if let Some(e) = state.open.iter().filter_map(|channel| channel.why_over()).find(|e| e.kind() == ErrorKind::TimedOut) {
            return Err(e);
        }
        state.open.retain(|channel| !channel.is_over());
        if let Some(least) = state.open.iter().min_by_key(|channel| (!channel.has_free_handle(), channel.load())).cloned() {
            if (least.load() > 0 || !least.has_free_handle()) && state.opening == 0 {
                self.open(&mut state, 1);
            }
            return Ok(least);
        }
        if let Some(e) = self.0.reconnect.refused(asked) {
            return Err(e);
        }
        // Other callers wait for this one.
        match self.0.connect() {
            Ok(channel) => {
                state.open.push(channel.clone());
                Ok(channel)
            }
            Err(e) => {
                self.0.reconnect.failed(&e);
                Err(e)
            }
        }
    }

    /// Up to `count` channels for one large file, the first of them one with little to do: those that are open. Those that are
    /// missing are opened beside the work, all at once.
    pub fn several(&self, count: usize) -> Result<Vec<Arc<Channel>>> {
        let first = self.least()?;
        let mut state = lock(&self.0.state);
        let missing = count.saturating_sub(state.open.len() + state.opening);
        self.open(&mut state, missing);
        let others = state.open.iter().filter(|one| !one.is_over() && !Arc::ptr_eq(one, &first)).cloned();
        Ok(std::iter::once(first.clone()).chain(others).take(count.max(1)).collect())
    }

    /// [`Channels::several`], once all are open that the server allows.
    pub fn all(&self, count: usize) -> Result<Vec<Arc<Channel>>> {
        self.several(count)?;
        let mut state = lock(&self.0.state);
        while state.opening > 0 {
            state = self.0.settled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        self.several(count)
    }

    /// Begins to open so many more beyond those that the server allows in one login: there are further ones.
    pub fn add(&self, count: usize) {
        let mut state = lock(&self.0.state);
        state.most += count;
        self.open(&mut state, count);
    }

    /// Begins to open so many more, as far as the server is known to allow them.
    fn open(&self, state: &mut State, count: usize) {
        let count = count.min(state.most.saturating_sub(state.open.len() + state.opening));
        for _ in 0..count {
            let (inner, scope) = (self.0.clone(), Scope::current());
            let open = move || {
                let _within = scope.enter();
                let made = inner.connect();
                let mut state = lock(&inner.state);
                state.opening -= 1;
                match made {
                    Ok(channel) => state.open.push(channel),
                    // The server allows no more sessions.
                    Err(_) => state.most = state.open.len().max(1),
                }
                inner.settled.notify_all();
            };
            // Without the thread there are fewer channels.
            match std::thread::Builder::new().name("session".into()).spawn(open) {
                Ok(_) => state.opening += 1,
                Err(_) => return,
            }
        }
    }
}
