//! What waits for a worker, and which of it comes next.
//!
//! One pool of workers does everything: listing, looking up, moving, finishing. Every queue is bounded.
//! Nobody waits for room: a worker whose listing finds the queues full works on them itself.
//!
//! Of the engine this knows what [`Kinds`] says. What other processes do is counted here, a number for each lease.

mod completion;
mod lend;
mod pending;
mod queues;
mod state;
mod task;
#[cfg(test)]
mod tests;
mod tree;

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use lend::{Lent, Portion, Stock};
pub use task::{Batches, BundleLimit, FileWork, Kinds, Lane, Planned, SmallWork, Task};
pub use tree::{DirWork, Lease, PendingDir};

use state::State;

pub struct Scheduler<K: Kinds> {
    state: Mutex<State<K>>,
    /// Workers that wait for something to do.
    wake: Condvar,
    /// Workers beyond the limit.
    parked: Condvar,
    bundle: BundleLimit,
}

/// How a scheduler stands at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing {
    pub queued: u64,
    /// Nothing left to list or to look up.
    pub walked: bool,
    pub idle: bool,
}

fn wait<'a, T>(on: &Condvar, state: MutexGuard<'a, T>, most: Duration) -> MutexGuard<'a, T> {
    on.wait_timeout(state, most).unwrap_or_else(PoisonError::into_inner).0
}

impl<K: Kinds> Scheduler<K> {
    pub fn new(bundle: BundleLimit, workers: u32, spill: &Path) -> Self {
        Scheduler { state: Mutex::new(State::new(workers, spill)), wake: Condvar::new(), parked: Condvar::new(), bundle }
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a task, to be returned by `done`. `None`: the work is done, or the run is stopped. `worker` counts from 0; those
    /// at or above the limit sleep. While more are at work than a lowered limit allows, nobody gets a task: who left a shared file
    /// for the limit's sake would be handed the same file again.
    pub fn next(&self, worker: u32) -> Option<Task<K>> {
        let mut state = self.lock();
        loop {
            if state.pool.closed || (state.pool.last && state.is_idle()) {
                self.wake.notify_all();
                self.parked.notify_all();
                return None;
            }
            if worker >= state.pool.limit {
                state = wait(&self.parked, state, Duration::from_secs(5));
                continue;
            }
            if state.pool.has_room()
                && let Some(task) = state.take(self.bundle, true)
            {
                // One is woken for new work; whoever takes a piece and sees more passes the word on.
                self.wake_one(&state);
                return Some(task);
            }
            state.pool.sleeping += 1;
            state = wait(&self.wake, state, Duration::from_millis(200));
            state.pool.sleeping -= 1;
        }
    }

    fn wake_one(&self, state: &State<K>) {
        if state.pool.sleeping > 0 && (!state.is_empty() || state.large.is_offered()) {
            self.wake.notify_one();
        }
    }

    /// A task for a worker in the middle of a listing while the queues are full, to be returned by `done` and then by `drained`.
    /// `None`: continue listing.
    pub fn drain(&self) -> Option<Task<K>> {
        let mut state = self.lock();
        loop {
            if state.pool.closed || !state.is_full() {
                return None;
            }
            if let Some(task) = state.take(self.bundle, false) {
                state.pool.nested += 1;
                return Some(task);
            }
            state.pool.sleeping += 1;
            state = wait(&self.wake, state, Duration::from_millis(20));
            state.pool.sleeping -= 1;
        }
    }

    /// A task that `drain` has given is done.
    pub fn drained(&self) {
        let pool = &mut self.lock().pool;
        pool.nested = pool.nested.saturating_sub(1);
    }

    /// Takes a task back. `true` if it was the last and nothing is left.
    pub fn done(&self, lane: Lane) -> bool {
        let mut state = self.lock();
        state.pool.end(lane);
        let idle = state.is_idle();
        if idle {
            self.wake.notify_all();
        } else {
            self.wake_one(&state);
        }
        idle
    }

    /// Names found in a directory: each is an open item of it.
    pub fn push_names(&self, work: &Arc<DirWork>, names: Vec<K::Name>) {
        let mut state = self.lock();
        state.completion.open(work, names.len());
        state.walk.names.push(work, names);
        self.wake_one(&state);
    }

    /// What became of names that were looked up.
    pub fn planned(&self, work: &Arc<DirWork>, planned: Planned<K>) {
        let mut state = self.lock();
        state.effects.push(work, planned.effects);
        state.small.push(work, planned.small);
        state.large.waiting.extend(planned.large);
        for dir in planned.dirs {
            state.walk.pending.push(dir);
        }
        state.completion.close(work, planned.done);
        self.wake_one(&state);
    }

    pub fn push_large(&self, file: Arc<K::File>) {
        let mut state = self.lock();
        state.large.waiting.push_back(file);
        self.wake_one(&state);
    }

    pub fn share(&self, file: &Arc<K::File>) {
        self.lock().large.shared.push(file.clone());
        self.wake.notify_all();
    }

    pub fn unshare(&self, file: &Arc<K::File>) {
        self.lock().large.shared.retain(|f| !Arc::ptr_eq(f, file));
    }

    pub fn push_check(&self, checks: impl Iterator<Item = K::Check>) {
        self.lock().checks.extend(checks);
    }

    /// Items of a directory are done; the last one makes the directory ready for its own attributes.
    pub fn items_done(&self, work: &Arc<DirWork>, n: usize) {
        let mut state = self.lock();
        if state.completion.close(work, n) {
            self.wake_one(&state);
        }
    }

    /// A directory is ready to be listed; its listing is its first open item.
    pub fn push_listable(&self, works: Vec<Arc<DirWork>>) {
        let mut state = self.lock();
        for work in &works {
            state.completion.open(work, 1);
        }
        state.walk.listable.extend(works);
        self.wake_one(&state);
    }

    /// Another open item that is not queued here.
    pub fn hold(&self, work: &Arc<DirWork>) {
        self.lock().completion.open(work, 1);
    }

    /// Counts what another process does as one open item of `above`, its directory, until [`Scheduler::end_outside`]; says under
    /// which number.
    pub fn begin_outside(&self, above: &Arc<DirWork>) -> u64 {
        self.lock().completion.begin_outside(above)
    }

    /// The other process has finished or given up: a worker takes the reply as a task and closes the item. `false` if nothing
    /// waits for this lease.
    pub fn end_outside(&self, lease: u64, reply: K::Reply) -> bool {
        let mut state = self.lock();
        let awaited = state.completion.end_outside(lease, reply);
        self.wake_one(&state);
        awaited
    }

    pub fn set_limits(&self, workers: u32, batches: Batches) {
        let mut state = self.lock();
        let (more, fewer) = (workers > state.pool.limit, workers < state.pool.limit);
        state.pool.limit = workers.max(1);
        let Batches { files, names, dirs } = batches;
        state.batches = Batches { files: files.max(1), names: names.max(1), dirs: dirs.max(1) };
        if more {
            self.parked.notify_all();
        }
        if more || fewer {
            // Those within it may have waited for others to end. Those that wait beyond it are to park, or a call for one worker
            // could end with them.
            self.wake.notify_all();
        }
    }

    /// How many workers may run at once.
    pub fn workers(&self) -> u32 {
        self.lock().pool.limit
    }

    /// Begins with a source root. Nothing else comes from outside: when the queues are empty it is done.
    pub fn feed(&self, root: usize) {
        let mut state = self.lock();
        state.walk.feed = Some(root);
        state.pool.fed = true;
        self.wake.notify_all();
    }

    /// Whether workers may leave when there is nothing to do.
    pub fn last_feed(&self) {
        self.lock().pool.last = true;
        self.wake.notify_all();
        self.parked.notify_all();
    }

    /// Stops handing out tasks.
    pub fn close(&self) {
        self.lock().pool.closed = true;
        self.wake.notify_all();
        self.parked.notify_all();
    }

    /// Workers at work beyond the limit, which was lowered meanwhile.
    pub fn surplus(&self) -> usize {
        let pool = &self.lock().pool;
        pool.at_work().saturating_sub(pool.limit as usize)
    }

    /// Tasks that were handed out and have not come back.
    pub fn running(&self) -> usize {
        self.lock().pool.running
    }

    pub fn standing(&self) -> Standing {
        let state = self.lock();
        let shared = state.large.shared.iter().map(|file| file.chunks_left()).sum::<usize>();
        let to_list = state.walk.pending.len() + state.walk.listable.len();
        Standing {
            queued: (state.queued() + state.large.waiting.len() + shared + to_list + state.completion.ready()) as u64,
            walked: state.pool.fed
                && state.pool.walking == 0
                && state.walk.is_empty()
                && state.effects.len() == 0
                && state.pool.away == 0
                && state.completion.all_inside(),
            idle: state.pool.fed && state.is_idle(),
        }
    }
}

impl<K: Kinds> std::fmt::Debug for Scheduler<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.standing())
    }
}
