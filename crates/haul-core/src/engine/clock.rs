//! What takes how long: samples for the tuner, and what is on its way at a moment.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::entry::Name;
use crate::event::InFlight;
use crate::lock::lock;
use crate::tune::{Op, Sample};

pub struct Clock {
    pub began: Instant,
    /// The same in nanoseconds since 1970.
    pub began_at: u64,
    samples: Mutex<Vec<Sample>>,
    flights: Mutex<HashMap<u64, Arc<Flight>>>,
    next_flight: AtomicU64,
}

/// Something that a worker is in the middle of.
#[derive(Debug)]
pub struct Flight {
    id: u64,
    name: Name,
    size: u64,
    pub moved: AtomicU64,
    since: Instant,
    doing: Mutex<&'static str>,
}

impl Flight {
    pub fn doing(&self, what: &'static str) {
        *lock(&self.doing) = what;
    }
}

/// What a measured piece of work dealt with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    pub bytes: u64,
    pub entries: u64,
    pub failed: bool,
}

impl Clock {
    pub fn start() -> Self {
        let began_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        Clock { began: Instant::now(), began_at, samples: Mutex::default(), flights: Mutex::default(), next_flight: AtomicU64::new(0) }
    }

    /// Until [`Clock::end`].
    pub fn begin(&self, name: &Name, size: u64, doing: &'static str) -> Arc<Flight> {
        let id = self.next_flight.fetch_add(1, Ordering::Relaxed);
        let (moved, since, doing) = (AtomicU64::new(0), Instant::now(), Mutex::new(doing));
        let flight = Arc::new(Flight { id, name: name.clone(), size, moved, since, doing });
        lock(&self.flights).insert(id, flight.clone());
        flight
    }

    pub fn end(&self, flight: &Flight) {
        lock(&self.flights).remove(&flight.id);
    }

    pub fn slowest(&self) -> Option<InFlight> {
        let flights = lock(&self.flights);
        let flight = flights.values().min_by_key(|f| f.since)?;
        Some(InFlight {
            path: flight.name.path(),
            size: flight.size,
            moved: flight.moved.load(Ordering::Relaxed),
            since: flight.since.elapsed(),
            doing: *lock(&flight.doing),
        })
    }

    /// Measures a task: `work` says what it dealt with.
    pub fn measured<T>(&self, op: Op, work: impl FnOnce(&mut Load) -> T) -> T {
        let (started, cpu) = (self.began.elapsed(), thread_cpu());
        let mut load = Load::default();
        let value = work(&mut load);
        if load.entries > 0 || load.bytes > 0 {
            let cpu = thread_cpu().saturating_sub(cpu);
            let Load { bytes, entries, failed } = load;
            lock(&self.samples).push(Sample { started, ended: self.began.elapsed(), op, bytes, entries, cpu, failed });
        }
        value
    }

    pub fn take_samples(&self) -> Vec<Sample> {
        std::mem::take(&mut *lock(&self.samples))
    }
}

fn thread_cpu() -> Duration {
    cpu(rustix::time::ClockId::ThreadCPUTime)
}

/// Of all threads of this process.
pub fn process_cpu() -> Duration {
    cpu(rustix::time::ClockId::ProcessCPUTime)
}

fn cpu(clock: rustix::time::ClockId) -> Duration {
    let now = rustix::time::clock_gettime(clock);
    Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}

/// How long the present threads were runnable without a processor: the second number of `/proc/PID/task/TID/schedstat`
/// (nanoseconds), 0 where the kernel does not keep it.
pub fn run_delay() -> Duration {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let one = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
    };
    Duration::from_nanos(tasks.flatten().filter_map(one).sum())
}
