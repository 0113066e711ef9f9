//! Several requests of one call at the same time, by a bounded number of threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use haul_core::retry::Scope;

/// Threads beside the workers that may send requests at the same time, over all calls: each has a connection and its buffers.
const MOST: usize = 64;

/// How many of these threads are running.
#[derive(Debug, Default)]
pub struct Threads(AtomicUsize);

/// Threads that may run until this is dropped.
pub struct Granted<'a>(usize, &'a Threads);

impl Granted<'_> {
    pub fn count(&self) -> usize {
        self.0
    }
}

impl Threads {
    pub fn grant(&self, wanted: usize) -> Granted<'_> {
        let mut granted = 0;
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |running| {
            granted = wanted.min(MOST.saturating_sub(running));
            Some(running + granted)
        });
        Granted(granted, self)
    }
}

impl Drop for Granted<'_> {
    fn drop(&mut self) {
        self.1.0.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Calls `work` for each item, at most `most` at the same time; results in the order of the items.
pub fn in_parallel<I: Sync, O: Send>(threads: &Threads, items: &[I], most: usize, work: impl Fn(&I) -> O + Sync) -> Vec<O> {
    let granted = threads.grant(items.len().min(most).saturating_sub(1));
    if granted.0 == 0 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let retries = Scope::current();
    let run = || {
        let _retries = retries.clone().enter();
        let mut done = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(i) else { return done };
            done.push((i, work(item)));
        }
    };
    let mut all: Vec<(usize, O)> = std::thread::scope(|scope| {
        // What cannot be spawned is done here: this thread takes items too.
        let others: Vec<_> = (0..granted.0).filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, run).ok()).collect();
        let mut all = run();
        for other in others {
            match other.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_unstable_by_key(|(i, _)| *i);
    all.into_iter().map(|(_, outcome)| outcome).collect()
}
