//! The threads that do a run's tasks.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use crate::entry::Kind;
use crate::error::{Error, ErrorKind, Result};
use crate::rlimit;

use super::context::Context;

/// What workers and supervisor share beside the context.
#[derive(Default)]
pub struct Shared {
    pub alive: AtomicU32,
    pub busy: AtomicU32,
    /// Threads outside the pool that work for the run.
    pub aside: AtomicU32,
    /// A look at the free space is under way.
    pub measuring: AtomicBool,
    pub warned_space: AtomicBool,
    /// Worker time without a task, in nanoseconds.
    pub idle: AtomicU64,
    pub wake: (Mutex<bool>, Condvar),
}

/// A panic is a bug, and must end the run with a message instead of leaving it to wait for ever.
pub fn guarded<T>(cx: &Context, work: impl FnOnce() -> T) -> Option<T> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(value) => Some(value),
        Err(_) => {
            let e = Error::new(ErrorKind::Broken, "work").because("a thread of this program panicked, which is a bug");
            cx.out.fail(&e, Kind::Unknown);
            None
        }
    }
}

pub fn ring(shared: &Shared) {
    let (woken, wake) = &shared.wake;
    *woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
    wake.notify_all();
}

/// Workers are not joined: one that never returns from a system call must not keep the program.
pub fn spawn(cx: &Arc<Context>, shared: &Arc<Shared>, number: u32) -> Result<()> {
    let (worker_cx, worker_shared) = (cx.clone(), shared.clone());
    let worker = move || {
        let (cx, shared) = (worker_cx, worker_shared);
        shared.alive.fetch_add(1, Ordering::Relaxed);
        loop {
            let waited = Instant::now();
            let Some(task) = cx.sched.next(number) else { break };
            shared.idle.fetch_add(waited.elapsed().as_nanos() as u64, Ordering::Relaxed);
            shared.busy.fetch_add(1, Ordering::Acquire);
            let lane = task.lane();
            let idle = guarded(&cx, || (cx.perform)(&cx, task)).unwrap_or_else(|| cx.sched.done(lane));
            shared.busy.fetch_sub(1, Ordering::Release);
            if idle {
                ring(&shared);
            }
        }
        shared.alive.fetch_sub(1, Ordering::Relaxed);
        ring(&shared);
    };
    rlimit::spawn(&format!("worker-{number}"), worker).map(|_| ())
}
