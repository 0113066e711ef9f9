//! One thread of an operation: it starts with the others and works until its files or the time are used up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use haul_core::cancel::Cancel;
use haul_core::error::{Error, ErrorKind};

use super::operation::Operation;
use super::place::OpRunner;
use super::window::{Tally, Window};

/// Failures after which a thread gives up.
const MOST_FAILURES: u64 = 100;
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// Where the threads wait for each other.
#[derive(Default)]
pub(super) struct Gate {
    state: Mutex<(usize, bool)>,
    changed: Condvar,
    /// Nanoseconds of the clock: when all begin, and after what nothing more is begun.
    pub start: AtomicU64,
    pub deadline: AtomicU64,
}

impl Gate {
    fn wait(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
        self.changed.notify_all();
        let open = self.changed.wait_while(state, |state| !state.1);
        drop(open.unwrap_or_else(PoisonError::into_inner));
    }

    /// Opens when `all` are ready, or at once for 0, after calling `before`.
    pub fn open(&self, all: usize, cancel: &Cancel, before: impl FnOnce()) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.0 < all && !cancel.is_set() {
            state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        before();
        state.1 = true;
        self.changed.notify_all();
    }
}

/// What the threads of one operation have in common.
pub(super) struct Common {
    pub operation: Operation,
    pub files_per_dir: u64,
    pub clock: Instant,
    pub window: Window,
    pub gate: Gate,
    pub cancel: Cancel,
}

impl Common {
    pub fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// One thread's part, of `count` files.
    pub fn work(&self, runner: &mut dyn OpRunner, count: u64) -> (Tally, Option<Error>) {
        let entered = runner.enter(0);
        self.gate.wait();
        let (start, deadline) = (self.gate.start.load(Ordering::Relaxed), self.gate.deadline.load(Ordering::Relaxed));
        // All are awake before any begins: waking up takes longer than many operations.
        while self.now() < start {
            std::thread::yield_now();
        }
        let (before, mut after) = (processor(), None);
        // The end of one operation is the beginning of the next: the clock is read once for each.
        let mut last = self.now();
        let mut tally = Tally::beginning(last);
        let mut failure = entered.err();
        let by_directory = self.operation.by_directory();
        let mut index = 0;
        while index < count && failure.as_ref().is_none_or(|_| tally.failures > 0) {
            if index > 0 && index.is_multiple_of(self.files_per_dir) {
                if let Err(e) = runner.enter(index / self.files_per_dir) {
                    failure = Some(e);
                    tally.failures += 1;
                    break;
                }
                last = self.now();
            }
            if self.cancel.is_set() || last >= deadline {
                break;
            }
            let files = if by_directory { self.files_per_dir.min(count - index) } else { 1 };
            let result = if by_directory { runner.list(index, files) } else { runner.work(index) };
            let now = self.now();
            if after.is_none() && now > self.window.end() {
                after = Some(processor());
            }
            index += files;
            tally.reached = index;
            match result {
                Ok(done) => tally.add(done, last, now, &self.window),
                Err(e) => {
                    tally.ended = now;
                    tally.failures += 1;
                    tally.wrong += u64::from(e.kind() == ErrorKind::Corrupt);
                    let over = e.kind().ends_the_run() || tally.failures >= MOST_FAILURES;
                    failure.get_or_insert(e);
                    if over {
                        break;
                    }
                }
            }
            last = now;
        }
        if failure.is_some() && tally.failures == 0 {
            tally.failures = 1;
        }
        self.window.close(tally.ended.max(tally.began + 1));
        let after = after.unwrap_or_else(processor);
        tally.processor = (after.0 - before.0, after.1 - before.1);
        (tally, failure)
    }
}

/// Processor time that this thread has used, in user mode and in the kernel, seconds.
fn processor() -> (f64, f64) {
    // SAFETY: rusage is plain numbers, for which zero is a value; getrusage fills it in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}
