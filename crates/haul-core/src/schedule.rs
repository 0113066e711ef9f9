//! What waits for a worker, and which of it comes next.
//!
//! One pool of workers does everything: listing, looking up, moving, finishing. Every queue is bounded.
//! Nobody waits for room: a worker whose listing finds the queues full works on them itself.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::engine::file::OpenFile;
use crate::engine::verify::Check;
use crate::entry::{Dir, Entry};
use crate::plan::Step;
use crate::spill::SpillStack;

/// Names and planned files together; beyond this a listing pauses. At some 250 bytes each, 4 MiB.
const MOST_QUEUED: usize = 16 * 1024;

/// A directory that is being worked on. It lives as long as anything in it is not done.
#[derive(Debug)]
pub struct DirWork {
    pub dir: Dir,
    /// Index of the source root.
    pub root: usize,
    pub parent: Option<Arc<DirWork>>,
    /// The source's attributes, to be set at the end; none for what is only a way to somewhere.
    pub entry: Option<Entry>,
    /// Nothing stands in it at the destination: no name below needs to be looked up.
    pub fresh: bool,
    /// Attributes differ already.
    pub attributes: bool,
    /// Something was made in it, so that its times have to be set again.
    pub touched: AtomicBool,
    /// It was made by this run.
    pub made: bool,
    /// Not to be listed: a mount point under `-x`, a directory named by `--files-from`.
    pub closed: bool,
}

/// A directory that waits to be made (if need be) and listed.
#[derive(Debug)]
pub struct PendingDir {
    pub parent: Arc<DirWork>,
    pub entry: Entry,
    pub make: bool,
    pub fresh: bool,
    pub attributes: bool,
    pub closed: bool,
}

/// A name that a listing found, on its way to the planner.
#[derive(Debug)]
pub struct Name {
    pub entry: Entry,
    pub there: There,
}

/// What is known of the same name at the destination.
#[derive(Clone, Debug)]
pub enum There {
    /// To be looked up.
    Unknown,
    Absent,
    Listed(Box<Entry>),
}

/// Something small to do in a directory.
#[derive(Debug)]
pub struct Small {
    pub entry: Entry,
    pub step: Step,
    /// A rerun of a name whose bundle was begun and not finished.
    pub staged: bool,
}

pub enum Task {
    /// A source root to be begun.
    Feed(usize),
    /// Directories of one parent to be made.
    Make(Vec<PendingDir>),
    List(Arc<DirWork>),
    Look(Arc<DirWork>, Vec<Name>),
    Small(Arc<DirWork>, Vec<Small>),
    File(Arc<OpenFile>),
    Finish(Vec<Arc<DirWork>>),
    Verify(Vec<Check>),
    /// Directories that waited on disk cannot be read back.
    Lost(std::io::Error),
}

fn wait<'a>(on: &Condvar, state: MutexGuard<'a, State>, most: Duration) -> MutexGuard<'a, State> {
    on.wait_timeout(state, most).unwrap_or_else(std::sync::PoisonError::into_inner).0
}

/// What a task counts as while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// It may yet find more to do.
    Walk,
    Large,
    Other,
}

impl Task {
    pub fn lane(&self) -> Lane {
        match self {
            Task::Feed(_) | Task::Make(_) | Task::List(_) | Task::Look(..) => Lane::Walk,
            Task::File(_) => Lane::Large,
            Task::Small(..) | Task::Finish(_) | Task::Verify(_) | Task::Lost(_) => Lane::Other,
        }
    }
}

/// Entries by directory, handed out directory by directory in turn: creates spread over directories.
struct Queues<T> {
    by_dir: HashMap<u64, (Arc<DirWork>, VecDeque<T>)>,
    turn: VecDeque<u64>,
    total: usize,
}

impl<T> Queues<T> {
    fn new() -> Self {
        Queues { by_dir: HashMap::new(), turn: VecDeque::new(), total: 0 }
    }

    fn push(&mut self, work: &Arc<DirWork>, items: impl Iterator<Item = T>) {
        let id = work.dir.id();
        let queue = &mut self.by_dir.entry(id).or_insert_with(|| (work.clone(), VecDeque::new())).1;
        let before = queue.len();
        queue.extend(items);
        self.total += queue.len() - before;
        if before == 0 && !queue.is_empty() {
            self.turn.push_back(id);
        }
    }

    fn pop(&mut self, most: usize, bytes: u64, size: impl Fn(&T) -> u64) -> Option<(Arc<DirWork>, Vec<T>)> {
        let id = self.turn.pop_front()?;
        let (work, queue) = self.by_dir.get_mut(&id)?;
        let mut taken = Vec::with_capacity(most.min(queue.len()));
        let mut sum = 0;
        while let Some(next) = queue.front() {
            sum += size(next);
            if !taken.is_empty() && (taken.len() >= most || sum > bytes) {
                break;
            }
            taken.extend(queue.pop_front());
        }
        self.total -= taken.len();
        let work = work.clone();
        if queue.is_empty() {
            self.by_dir.remove(&id);
        } else {
            self.turn.push_back(id);
        }
        Some((work, taken))
    }
}

struct State {
    names: Queues<Name>,
    small: Queues<Small>,
    /// Large files, each with its directory held by the file itself.
    large: VecDeque<Arc<OpenFile>>,
    /// Files in the works that take more writers.
    shared: Vec<Arc<OpenFile>>,
    pending: Pending,
    /// Directories to be listed.
    listable: Vec<Arc<DirWork>>,
    feed: Option<usize>,
    finals: VecDeque<Arc<DirWork>>,
    checks: Vec<Check>,
    /// Open items by directory id: what has to be done before the directory is.
    open: HashMap<u64, usize>,
    /// Tasks handed out and not returned.
    running: usize,
    /// Workers that wait for something to do.
    sleeping: usize,
    /// Tasks that may find more to do.
    walking: usize,
    /// Workers moving large files.
    on_large: usize,
    /// How many workers may run at once.
    limit: u32,
    closed: bool,
    /// The list of work is complete: nothing but the queues is left.
    fed: bool,
    /// Workers may leave when there is nothing to do; before, they wait for the next root.
    last: bool,
    files_per_bundle: usize,
    names_per_look: usize,
    dirs_per_make: usize,
}

/// Directories not yet listed, a stack: the walk goes down before it goes on, which keeps the stack small.
/// Past some thousands they wait on disk; their parents stay.
struct Pending {
    stack: Vec<PendingDir>,
    spilled: SpillStack,
    spilled_count: u64,
    /// Parents of spilled directories, and how many each has.
    parents: HashMap<u64, (Arc<DirWork>, u64)>,
}

/// Directories that wait in memory, at some 300 bytes each.
const MOST_PENDING: usize = 8 * 1024;

pub struct Scheduler {
    state: Mutex<State>,
    /// Workers that wait for something to do.
    wake: Condvar,
    /// Workers beyond the limit.
    parked: Condvar,
    /// Bytes that one bundle may have.
    bundle_bytes: u64,
    bundle_most: usize,
}

/// How a scheduler stands at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing {
    pub queued: u64,
    /// Nothing left to list or to look up.
    pub walked: bool,
    pub idle: bool,
}

/// What one worker takes of what is queued: leaves every worker two of the same, so that they end together, but not
/// so little that handing it out counts. `full` is 20 ms of work.
fn share(queued: usize, workers: u32, full: usize) -> usize {
    (queued / (2 * workers.max(1) as usize)).clamp((full / 8).max(1), full.max(1))
}

impl Scheduler {
    pub fn new(bundle_bytes: u64, bundle_most: usize, workers: u32, spill: &Path) -> Self {
        let state = State {
            names: Queues::new(),
            small: Queues::new(),
            large: VecDeque::new(),
            shared: Vec::new(),
            pending: Pending::new(spill),
            listable: Vec::new(),
            feed: None,
            finals: VecDeque::new(),
            checks: Vec::new(),
            open: HashMap::new(),
            running: 0,
            sleeping: 0,
            walking: 0,
            on_large: 0,
            limit: workers,
            closed: false,
            fed: false,
            last: false,
            files_per_bundle: 1,
            names_per_look: 32,
            dirs_per_make: 1,
        };
        Scheduler { state: Mutex::new(state), wake: Condvar::new(), parked: Condvar::new(), bundle_bytes, bundle_most }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Waits for a task. `None`: the work is done, or the run is stopped. The caller returns it by `done`.
    /// `worker` counts from 0; those at or above the limit sleep.
    pub fn next(&self, worker: u32) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if state.closed || (state.last && state.running == 0 && state.is_empty()) {
                self.wake.notify_all();
                self.parked.notify_all();
                return None;
            }
            if worker >= state.limit {
                state = wait(&self.parked, state, Duration::from_secs(5));
                continue;
            }
            if let Some(task) = self.pick(&mut state, true) {
                state.begin(&task);
                // One is woken for new work; whoever takes a piece and sees more passes the word on.
                self.wake_one(&state);
                return Some(task);
            }
            state.sleeping += 1;
            state = wait(&self.wake, state, Duration::from_millis(200));
            state.sleeping -= 1;
        }
    }

    fn wake_one(&self, state: &State) {
        if state.sleeping > 0 && !state.is_empty() {
            self.wake.notify_one();
        }
    }

    /// For a worker in the middle of a listing: something to do instead of waiting for room, while there
    /// is too much queued. `None` means go on listing.
    pub fn relieve(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if state.closed || state.queued() < MOST_QUEUED {
                return None;
            }
            if let Some(task) = self.pick(&mut state, false) {
                state.begin(&task);
                return Some(task);
            }
            state.sleeping += 1;
            state = wait(&self.wake, state, Duration::from_millis(20));
            state.sleeping -= 1;
        }
    }

    /// Takes a task back. `true` if it was the last and nothing is left.
    pub fn done(&self, lane: Lane) -> bool {
        let mut state = self.lock();
        state.running -= 1;
        match lane {
            Lane::Large => state.on_large -= 1,
            Lane::Walk => state.walking -= 1,
            Lane::Other => {}
        }
        if state.running == 0 && state.is_empty() {
            self.wake.notify_all();
            return true;
        }
        self.wake_one(&state);
        false
    }

    fn pick(&self, state: &mut State, may_list: bool) -> Option<Task> {
        if !state.finals.is_empty() {
            let n = state.finals.len().min(64.min(state.files_per_bundle.max(1)));
            return Some(Task::Finish(state.finals.drain(..n).collect()));
        }
        if state.checks.len() >= 256 {
            return Some(Task::Verify(std::mem::take(&mut state.checks)));
        }
        let ready = state.small.total + state.large.len() * 8;
        let low = (2 * state.limit as usize * state.files_per_bundle).clamp(256, MOST_QUEUED / 4);
        // Creates in one directory wait for each other: as many directories as workers should have something ready.
        let narrow = state.small.by_dir.len() < state.limit as usize && ready < MOST_QUEUED / 4;
        let walk_first = ready < low || narrow;
        let walk = |state: &mut State| -> Option<Task> {
            let most = share(state.names.total, state.limit, state.names_per_look);
            if let Some((work, names)) = state.names.pop(most, u64::MAX, |_| 0) {
                return Some(Task::Look(work, names));
            }
            if !may_list {
                return None;
            }
            if let Some(root) = state.feed.take() {
                return Some(Task::Feed(root));
            }
            if let Some(work) = state.listable.pop() {
                return Some(Task::List(work));
            }
            state.pending.next(state.dirs_per_make)
        };
        if walk_first && let Some(task) = walk(state) {
            return Some(task);
        }
        let most_on_large = (state.limit as usize / 2).max(1);
        let large_first = state.on_large < most_on_large || state.small.total == 0;
        if large_first && let Some(file) = state.next_large() {
            return Some(Task::File(file));
        }
        let most = share(state.small.total, state.limit, state.files_per_bundle).min(self.bundle_most);
        if let Some((work, items)) = state.small.pop(most, self.bundle_bytes, |small: &Small| small.entry.size) {
            return Some(Task::Small(work, items));
        }
        if let Some(task) = walk(state) {
            return Some(task);
        }
        if state.fed && state.running == 0 && !state.checks.is_empty() {
            return Some(Task::Verify(std::mem::take(&mut state.checks)));
        }
        None
    }

    /// Names found in a directory: each is an open item of it.
    pub fn push_names(&self, work: &Arc<DirWork>, names: Vec<Name>) {
        let mut state = self.lock();
        *state.open.entry(work.dir.id()).or_default() += names.len();
        state.names.push(work, names.into_iter());
        self.wake_one(&state);
    }

    /// What became of looked-up names: small work, large files, directories. `done` of them need nothing more.
    pub fn planned(&self, work: &Arc<DirWork>, small: Vec<Small>, large: Vec<Arc<OpenFile>>, dirs: Vec<PendingDir>, done: usize) {
        let mut state = self.lock();
        state.small.push(work, small.into_iter());
        state.large.extend(large);
        for dir in dirs {
            state.pending.push(dir);
        }
        self.close_items(&mut state, work, done);
        self.wake_one(&state);
    }

    pub fn push_large(&self, file: Arc<OpenFile>) {
        let mut state = self.lock();
        state.large.push_back(file);
        self.wake_one(&state);
    }

    pub fn share(&self, file: &Arc<OpenFile>) {
        self.lock().shared.push(file.clone());
        self.wake.notify_all();
    }

    pub fn unshare(&self, file: &Arc<OpenFile>) {
        self.lock().shared.retain(|f| !Arc::ptr_eq(f, file));
    }

    pub fn push_check(&self, checks: impl Iterator<Item = Check>) {
        self.lock().checks.extend(checks);
    }

    /// Items of a directory are done; the last one makes the directory ready for its own attributes.
    pub fn items_done(&self, work: &Arc<DirWork>, n: usize) {
        let mut state = self.lock();
        self.close_items(&mut state, work, n);
    }

    fn close_items(&self, state: &mut State, work: &Arc<DirWork>, n: usize) {
        if n == 0 {
            return;
        }
        let id = work.dir.id();
        let Some(open) = state.open.get_mut(&id) else { return };
        *open -= n.min(*open);
        if *open == 0 {
            state.open.remove(&id);
            state.finals.push_back(work.clone());
            self.wake_one(state);
        }
    }

    /// A directory is ready to be listed; its listing is its first open item.
    pub fn push_listable(&self, works: Vec<Arc<DirWork>>) {
        let mut state = self.lock();
        for work in &works {
            *state.open.entry(work.dir.id()).or_default() += 1;
        }
        state.listable.extend(works);
        self.wake_one(&state);
    }

    /// Another open item that is not queued here.
    pub fn hold(&self, work: &Arc<DirWork>) {
        *self.lock().open.entry(work.dir.id()).or_default() += 1;
    }

    pub fn set_limits(&self, workers: u32, files_per_bundle: usize, names_per_look: usize, dirs_per_make: usize) {
        let mut state = self.lock();
        let (more, fewer) = (workers > state.limit, workers < state.limit);
        state.limit = workers.max(1);
        state.files_per_bundle = files_per_bundle.max(1);
        state.names_per_look = names_per_look.max(1);
        state.dirs_per_make = dirs_per_make.max(1);
        if more {
            self.parked.notify_all();
        }
        if fewer {
            // Those that wait beyond the new limit are to park, or a call for one worker could end with them.
            self.wake.notify_all();
        }
    }

    /// How many workers may run at once.
    pub fn workers(&self) -> u32 {
        self.lock().limit
    }

    /// Begins with a source root. Nothing else comes from outside: when the queues are empty it is done.
    pub fn feed(&self, root: usize) {
        let mut state = self.lock();
        state.feed = Some(root);
        state.fed = true;
        self.wake.notify_all();
    }

    /// Whether workers may leave when there is nothing to do.
    pub fn last_feed(&self) {
        self.lock().last = true;
        self.wake.notify_all();
        self.parked.notify_all();
    }

    /// Stops handing out tasks.
    pub fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_all();
        self.parked.notify_all();
    }

    /// Workers at work beyond the limit, which was lowered meanwhile.
    pub fn surplus(&self) -> usize {
        let state = self.lock();
        state.running.saturating_sub(state.limit as usize)
    }

    /// Tasks that were handed out and have not come back.
    pub fn running(&self) -> usize {
        self.lock().running
    }

    pub fn standing(&self) -> Standing {
        let state = self.lock();
        Standing {
            queued: (state.queued()
                + state.large.len()
                + state.shared.iter().map(|file| file.chunks_left()).sum::<usize>()
                + state.pending.stack.len()
                + state.pending.spilled_count as usize
                + state.listable.len()
                + state.finals.len()) as u64,
            walked: state.fed
                && state.feed.is_none()
                && state.walking == 0
                && state.names.total == 0
                && state.pending.is_empty()
                && state.listable.is_empty(),
            idle: state.fed && state.running == 0 && state.is_empty(),
        }
    }
}

impl State {
    fn begin(&mut self, task: &Task) {
        self.running += 1;
        match task.lane() {
            Lane::Large => self.on_large += 1,
            Lane::Walk => self.walking += 1,
            Lane::Other => {}
        }
    }

    fn queued(&self) -> usize {
        self.names.total + self.small.total
    }

    fn is_empty(&self) -> bool {
        self.queued() == 0
            && self.large.is_empty()
            && self.pending.is_empty()
            && self.listable.is_empty()
            && self.feed.is_none()
            && self.finals.is_empty()
            && self.checks.is_empty()
    }

    fn next_large(&mut self) -> Option<Arc<OpenFile>> {
        self.large.pop_front().or_else(|| self.shared.iter().find(|file| file.wants_workers()).cloned())
    }
}

impl Pending {
    fn new(spill: &Path) -> Self {
        Pending { stack: Vec::new(), spilled: SpillStack::new(spill, 1 << 20), spilled_count: 0, parents: HashMap::new() }
    }

    fn is_empty(&self) -> bool {
        self.stack.is_empty() && self.spilled_count == 0
    }

    fn push(&mut self, dir: PendingDir) {
        let id = dir.parent.dir.id();
        if self.stack.len() < MOST_PENDING || self.spilled.push(&encode_pending(&dir)).is_err() {
            return self.stack.push(dir);
        }
        self.spilled_count += 1;
        self.parents.entry(id).or_insert_with(|| (dir.parent.clone(), 0)).1 += 1;
    }

    /// Brings some of the spilled directories back. One that cannot be read back is lost to this run, which
    /// is why it is an error and not a shorter walk.
    fn refill(&mut self) -> std::io::Result<()> {
        while self.spilled_count > 0 && self.stack.len() < MOST_PENDING / 4 {
            let record = self.spilled.pop()?.ok_or(std::io::ErrorKind::UnexpectedEof)?;
            self.spilled_count -= 1;
            let dir = self.decode_pending(&record).ok_or(std::io::ErrorKind::InvalidData)?;
            self.stack.push(dir);
        }
        Ok(())
    }

    fn decode_pending(&mut self, record: &[u8]) -> Option<PendingDir> {
        let (id, rest) = record.split_first_chunk::<8>()?;
        let (flags, entry) = rest.split_first()?;
        let id = u64::from_le_bytes(*id);
        let (parent, count) = self.parents.get_mut(&id)?;
        let parent = parent.clone();
        *count -= 1;
        if *count == 0 {
            self.parents.remove(&id);
        }
        let entry = crate::engine::listing::decode(&parent.dir, entry)?;
        let flag = |bit: u8| flags & bit != 0;
        Some(PendingDir { parent, entry, make: flag(1), fresh: flag(2), attributes: flag(4), closed: flag(8) })
    }

    /// The topmost directory, and with it those right below it on the stack that have the same parent and
    /// are to be made too.
    fn next(&mut self, at_once: usize) -> Option<Task> {
        if self.stack.is_empty()
            && let Err(e) = self.refill()
        {
            self.spilled_count = 0;
            return Some(Task::Lost(e));
        }
        let first = self.stack.pop()?;
        let (parent, make) = (first.parent.dir.id(), first.make);
        let mut batch = vec![first];
        let most = if make { at_once } else { 1 };
        while batch.len() < most
            && let Some(next) = self.stack.last()
            && next.make
            && next.parent.dir.id() == parent
        {
            batch.extend(self.stack.pop());
        }
        Some(Task::Make(batch))
    }
}

fn encode_pending(dir: &PendingDir) -> Vec<u8> {
    let mut record = dir.parent.dir.id().to_le_bytes().to_vec();
    let flags = [dir.make, dir.fresh, dir.attributes, dir.closed];
    record.push(flags.iter().enumerate().map(|(i, flag)| u8::from(*flag) << i).sum());
    record.extend(crate::engine::listing::encode(&dir.entry));
    record
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.standing())
    }
}

/// A chain of twenty thousand directories must not be dropped by recursion: a worker's stack is small.
impl Drop for DirWork {
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(work) = next {
            next = Arc::into_inner(work).and_then(|mut work| work.parent.take());
        }
    }
}

impl DirWork {
    pub fn touch(&self) {
        self.touched.store(true, Ordering::Relaxed);
    }
}
