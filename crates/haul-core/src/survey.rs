//! A parallel walk for commands that only read: du, tree, ls -R, sum.
//!
//! Threads take directories from one stack, and batches of names from large directories. Memory is flat: past some thousands,
//! waiting directories are paths in a file. The engine's walk is another one, because there listing, planning and copying share
//! the workers and the bounds of one scheduler.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::Builder;

use crate::cancel::Cancel;
use crate::entry::{Dir, Entry, Kind, MetaMask, Name};
use crate::error::{Error, ErrorKind, Result};
use crate::lock::lock;
use crate::retry::Scope;
use crate::rlimit::STACK;
use crate::spill::SpillStack;
use crate::store::{Flow, Found, Store};

/// Names are looked up in batches of this many.
const BATCH: usize = 256;
/// Batches that wait for another thread; beyond this the lister does its own.
const MOST_BATCHES: usize = 64;
/// Directories that wait in memory.
const MOST_DIRS: usize = 4096;

/// Whether to go into a directory that was visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descend {
    Yes,
    No,
}

/// How to look.
pub struct Survey<'a> {
    pub store: &'a dyn Store,
    pub threads: usize,
    /// Attributes beyond those that a look-up gives for nothing.
    pub want: MetaMask,
    pub cancel: &'a Cancel,
    /// Where waiting directories are spilled to.
    pub spill: &'a Path,
}

struct State {
    dirs: Vec<Dir>,
    spilled: SpillStack,
    spilled_count: u64,
    batches: VecDeque<(Dir, Vec<Entry>)>,
    running: usize,
    error: Option<Error>,
}

enum Work {
    Dir(Dir),
    Batch(Dir, Vec<Entry>),
}

/// Work under way; given back even by a panic, or the other threads would wait for ever.
struct Running<'a> {
    state: &'a Mutex<State>,
    wake: &'a Condvar,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        lock(self.state).running -= 1;
        self.wake.notify_all();
    }
}

impl Survey<'_> {
    /// Calls `visit` for every entry below `top`, from any thread and in no order, and `failed` for what could
    /// not be listed or looked up. An error returned is one that ended the survey.
    pub fn run(&self, top: &Dir, visit: &(dyn Fn(&Entry) -> Descend + Sync), failed: &(dyn Fn(Error, Kind) + Sync)) -> Result<()> {
        let state = State {
            dirs: vec![top.clone()],
            spilled: SpillStack::new(self.spill, 1 << 20),
            spilled_count: 0,
            batches: VecDeque::new(),
            running: 0,
            error: None,
        };
        let (state, wake) = (Mutex::new(state), Condvar::new());
        let retries = Scope::current();
        std::thread::scope(|scope| {
            let run = || {
                let _retries = retries.clone().enter();
                while let Some(work) = self.next(&state, &wake) {
                    let _running = Running { state: &state, wake: &wake };
                    match work {
                        Work::Dir(dir) => self.list(&dir, &state, &wake, visit, failed),
                        Work::Batch(dir, batch) => self.look(&dir, batch, &state, &wake, visit, failed),
                    }
                }
            };
            // Fewer threads do the same work: this one takes part.
            for _ in 1..self.threads {
                let _one_less = Builder::new().stack_size(STACK).spawn_scoped(scope, run);
            }
            run();
        });
        self.cancel.check()?;
        match lock(&state).error.take() {
            Some(e) => Err(e),
            None => Ok(()),
        }
    }

    fn next(&self, state: &Mutex<State>, wake: &Condvar) -> Option<Work> {
        let mut state = lock(state);
        loop {
            if self.cancel.is_set() || state.error.is_some() {
                return None;
            }
            let work = match (state.batches.pop_front(), state.dirs.pop()) {
                (Some((dir, batch)), dir_back) => {
                    state.dirs.extend(dir_back);
                    Some(Work::Batch(dir, batch))
                }
                (None, Some(dir)) => Some(Work::Dir(dir)),
                (None, None) => state.unspill().map(Work::Dir),
            };
            if let Some(work) = work {
                state.running += 1;
                return Some(work);
            }
            if state.running == 0 {
                wake.notify_all();
                return None;
            }
            state = wake.wait_timeout(state, std::time::Duration::from_millis(200)).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn list(
        &self,
        dir: &Dir,
        state: &Mutex<State>,
        wake: &Condvar,
        visit: &(dyn Fn(&Entry) -> Descend + Sync),
        failed: &(dyn Fn(Error, Kind) + Sync),
    ) {
        let mut batch = Vec::with_capacity(BATCH);
        let hand_on = |batch: Vec<Entry>, last: bool| {
            let mut held = lock(state);
            if last || self.threads < 2 || held.batches.len() >= MOST_BATCHES {
                drop(held);
                self.look(dir, batch, state, wake, visit, failed);
            } else {
                held.batches.push_back((dir.clone(), batch));
                wake.notify_one();
            }
        };
        let listed = self.store.list(dir, &mut |found| {
            match found {
                Ok(entry) => batch.push(entry),
                Err(e) => failed(e, Kind::Unknown),
            }
            if batch.len() >= BATCH {
                hand_on(std::mem::replace(&mut batch, Vec::with_capacity(BATCH)), false);
            }
            if self.cancel.is_set() { Flow::Stop } else { Flow::Go }
        });
        hand_on(batch, true);
        match listed.map_err(|e| e.on(&Name::of(dir))) {
            // A host that has not answered in time would be waited for again at every directory.
            Err(e) if e.kind() == ErrorKind::TimedOut && self.store.caps().remote => {
                lock(state).error.get_or_insert(e);
                wake.notify_all();
            }
            Err(e) => failed(e, Kind::Dir),
            Ok(()) => {}
        }
    }

    fn look(
        &self,
        dir: &Dir,
        batch: Vec<Entry>,
        state: &Mutex<State>,
        wake: &Condvar,
        visit: &(dyn Fn(&Entry) -> Descend + Sync),
        failed: &(dyn Fn(Error, Kind) + Sync),
    ) {
        let leaves: Vec<&[u8]> = batch.iter().filter(|e| e.is_bare()).map(|e| &*e.name.leaf).collect();
        let looked = if leaves.is_empty() { Vec::new() } else { self.store.stat_many(dir, &leaves, self.want, false) };
        let mut looked = looked.into_iter();
        let mut dirs = Vec::new();
        for entry in &batch {
            let complete;
            let entry = if entry.is_bare() {
                match looked.next() {
                    Some(Found::Entry(found)) => {
                        complete = found;
                        &complete
                    }
                    Some(Found::Failed(e)) => {
                        failed(e.on(&entry.name), entry.kind);
                        continue;
                    }
                    // Gone since it was listed: a look has nothing to say of it.
                    Some(Found::Absent) | None => continue,
                }
            } else {
                entry
            };
            if visit(entry) == Descend::Yes && entry.kind == Kind::Dir {
                dirs.push(dir.child(&entry.name.leaf));
            }
        }
        if !dirs.is_empty() {
            let mut state = lock(state);
            for dir in dirs {
                state.keep(dir);
            }
            wake.notify_all();
        }
    }
}

impl State {
    fn keep(&mut self, dir: Dir) {
        if self.dirs.len() < MOST_DIRS {
            self.dirs.push(dir);
        } else if let Err(e) = self.spilled.push(&dir.path()) {
            self.error = Some(Error::io(e, "spill"));
        } else {
            self.spilled_count += 1;
        }
    }

    fn unspill(&mut self) -> Option<Dir> {
        if self.spilled_count == 0 {
            return None;
        }
        match self.spilled.pop() {
            Ok(Some(path)) => {
                self.spilled_count -= 1;
                let mut dir = Dir::root();
                for part in path.split(|b| *b == b'/') {
                    dir = dir.child(part);
                }
                Some(dir)
            }
            Ok(None) => None,
            Err(e) => {
                self.error = Some(Error::io(e, "spill"));
                None
            }
        }
    }
}
