//! What is queued, and which of it comes next.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use super::completion::Completion;
use super::lend::Stock;
use super::pending::Pending;
use super::queues::Queues;
use super::task::{Batches, BundleLimit, FileWork, Kinds, Lane, SmallWork, Task};
use super::tree::DirWork;

/// Names, effects and small things together; beyond this a listing pauses. At some 250 bytes each, 4 MiB.
const MOST_QUEUED: usize = 16 * 1024;

pub struct State<K: Kinds> {
    pub walk: Walk<K>,
    pub effects: Queues<K::Effect>,
    pub small: Queues<K::Small>,
    pub large: Large<K::File>,
    pub checks: Vec<K::Check>,
    pub completion: Completion<K::Reply>,
    pub pool: Pool,
    pub batches: Batches,
}

/// What may find more to do.
pub struct Walk<K: Kinds> {
    pub feed: Option<usize>,
    pub pending: Pending,
    /// Directories to be listed.
    pub listable: Vec<Arc<DirWork>>,
    pub names: Queues<K::Name>,
}

/// Large files, each with its directory held by the file itself.
pub struct Large<F> {
    pub waiting: VecDeque<Arc<F>>,
    /// Files in the works that take more writers.
    pub shared: Vec<Arc<F>>,
}

/// The workers.
#[derive(Default)]
pub struct Pool {
    /// Tasks handed out and not returned.
    pub running: usize,
    /// Of these, tasks that a worker does in the middle of a listing.
    pub nested: usize,
    /// Workers that wait for something to do.
    pub sleeping: usize,
    /// Tasks that may find more to do.
    pub walking: usize,
    /// Workers moving large files.
    pub on_large: usize,
    /// How many workers may run at once.
    pub limit: u32,
    pub closed: bool,
    /// What was lent and is not confirmed yet.
    pub away: usize,
    /// The list of work is complete: nothing but the queues is left.
    pub fed: bool,
    /// Workers may leave when there is nothing to do; before, they wait for the next root.
    pub last: bool,
}

/// How much one worker takes from a queue: at least two such shares remain for each worker, unless they would be too small. `full`
/// is 20 ms of work.
fn share(queued: usize, workers: u32, full: usize) -> usize {
    (queued / (2 * workers.max(1) as usize)).clamp((full / 8).max(1), full.max(1))
}

impl<K: Kinds> Walk<K> {
    pub fn is_empty(&self) -> bool {
        self.feed.is_none() && self.pending.len() == 0 && self.listable.is_empty() && self.names.len() == 0
    }
}

impl Pool {
    /// Workers that have a task.
    pub fn at_work(&self) -> usize {
        self.running.saturating_sub(self.nested)
    }

    /// Those of a lowered limit end what they do, at their own time, before another worker begins something.
    pub fn has_room(&self) -> bool {
        self.at_work() < self.limit as usize
    }

    pub fn begin(&mut self, lane: Lane) {
        self.running += 1;
        match lane {
            Lane::Large => self.on_large += 1,
            Lane::Walk => self.walking += 1,
            Lane::Other => {}
        }
    }

    pub fn end(&mut self, lane: Lane) {
        self.running -= 1;
        match lane {
            Lane::Large => self.on_large -= 1,
            Lane::Walk => self.walking -= 1,
            Lane::Other => {}
        }
    }
}

impl<F: FileWork> Large<F> {
    pub fn next(&mut self) -> Option<Arc<F>> {
        self.waiting.pop_front().or_else(|| self.shared.iter().find(|file| file.wants_workers()).cloned())
    }

    /// Whether a file in the works takes another worker.
    pub fn is_offered(&self) -> bool {
        self.shared.iter().any(|file| file.wants_workers())
    }
}

impl<K: Kinds> State<K> {
    pub fn new(workers: u32, spill: &Path) -> Self {
        let walk = Walk { feed: None, pending: Pending::new(spill), listable: Vec::new(), names: Queues::new() };
        let pool = Pool { limit: workers, ..Pool::default() };
        State {
            walk,
            effects: Queues::new(),
            small: Queues::new(),
            large: Large { waiting: VecDeque::new(), shared: Vec::new() },
            checks: Vec::new(),
            completion: Completion::new(),
            pool,
            batches: Batches { files: 1, names: 32, dirs: 1 },
        }
    }

    /// A listing is to pause.
    pub fn is_full(&self) -> bool {
        self.queued() >= MOST_QUEUED
    }

    pub fn queued(&self) -> usize {
        self.walk.names.len() + self.effects.len() + self.small.len()
    }

    pub fn stock(&self) -> Stock {
        let (dirs, names) = (self.walk.pending.len(), self.walk.names.len() + self.small.len());
        let chunks = self.large.shared.iter().map(|file| file.lendable()).sum();
        let listing = !self.walk.listable.is_empty() || self.walk.feed.is_some();
        let other = listing || self.effects.len() > 0 || !self.large.waiting.is_empty();
        let dry = dirs == 0 && names == 0 && !other && !self.large.is_offered();
        Stock { dirs, names, chunks, bundle: self.batches.files, other, dry }
    }

    pub fn is_empty(&self) -> bool {
        self.walk.is_empty()
            && self.effects.len() == 0
            && self.small.len() == 0
            && self.large.waiting.is_empty()
            && self.checks.is_empty()
            && self.completion.is_empty()
    }

    pub fn is_idle(&self) -> bool {
        self.pool.running == 0 && self.pool.away == 0 && self.is_empty()
    }

    /// A task for a worker, who is to give it back. A worker that lists already takes no other listing.
    pub fn take(&mut self, bundle: BundleLimit, may_list: bool) -> Option<Task<K>> {
        let task = self.pick(bundle, may_list)?;
        self.pool.begin(task.lane());
        Some(task)
    }

    fn pick(&mut self, bundle: BundleLimit, may_list: bool) -> Option<Task<K>> {
        if let Some((work, reply)) = self.completion.take_reply() {
            return Some(Task::Reply(work, reply));
        }
        if self.completion.ready() > 0 {
            return Some(Task::Finish(self.completion.take_ready(self.batches.files.min(64))));
        }
        if self.checks.len() >= 256 {
            return Some(Task::Verify(std::mem::take(&mut self.checks)));
        }
        let workers = self.pool.limit;
        let ready = self.small.len() + self.large.waiting.len() * 8;
        let low = (2 * workers as usize * self.batches.files).clamp(256, MOST_QUEUED / 4);
        // Creates in one directory wait for each other: as many directories as workers should have something ready.
        let narrow = self.small.dirs() < workers as usize && ready < MOST_QUEUED / 4;
        if (ready < low || narrow)
            && let Some(task) = self.pick_walk(may_list)
        {
            return Some(task);
        }
        let most_on_large = (workers as usize / 2).max(1);
        let large_first = self.pool.on_large < most_on_large || self.small.len() == 0;
        if large_first && let Some(file) = self.large.next() {
            return Some(Task::File(file));
        }
        let most = share(self.small.len(), workers, self.batches.files).min(bundle.files);
        if let Some((work, items)) = self.small.pop(most, bundle.bytes, K::Small::bytes) {
            return Some(Task::Small(work, items));
        }
        if let Some(task) = self.pick_walk(may_list) {
            return Some(task);
        }
        if self.pool.fed && self.pool.running == 0 && !self.checks.is_empty() {
            return Some(Task::Verify(std::mem::take(&mut self.checks)));
        }
        None
    }

    fn pick_walk(&mut self, may_list: bool) -> Option<Task<K>> {
        let most = share(self.effects.len(), self.pool.limit, self.batches.dirs);
        if let Some((work, effects)) = self.effects.pop(most, u64::MAX, |_| 0) {
            return Some(Task::Effects(work, effects));
        }
        let most = share(self.walk.names.len(), self.pool.limit, self.batches.names);
        if let Some((work, names)) = self.walk.names.pop(most, u64::MAX, |_| 0) {
            return Some(Task::Look(work, names));
        }
        if !may_list {
            return None;
        }
        if let Some(root) = self.walk.feed.take() {
            return Some(Task::Feed(root));
        }
        if let Some(work) = self.walk.listable.pop() {
            return Some(Task::List(work));
        }
        match self.walk.pending.next(self.batches.dirs) {
            Ok(dirs) => dirs.map(Task::Make),
            Err(e) => Some(Task::Lost(e)),
        }
    }
}
