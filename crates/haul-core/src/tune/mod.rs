//! How many workers: a controller without a clock. Samples and the time go in, limits come out.

mod bandwidth;
mod climb;
mod cost;
mod processors;
mod team;
mod window;

use std::time::Duration;

pub use bandwidth::TeamLimit;
pub use climb::Climb;
pub use cost::CostMeter;
pub use team::TeamTuner;

/// One finished task. Times are since the job's start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub started: Duration,
    pub ended: Duration,
    pub op: Op,
    /// Bytes that passed.
    pub bytes: u64,
    /// Entries dealt with: files moved, names looked up, directories made.
    pub entries: u64,
    /// Processor time of the worker's thread within the task; the rest of it was waiting.
    pub cpu: Duration,
    pub failed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Listing directories, looking names up.
    Walk,
    /// Making directories.
    Dirs,
    /// Small files, many at a time.
    Bundle,
    /// A piece of a large file.
    Chunk,
    /// Attributes, deletes, verifying.
    Other,
}

impl Op {
    pub const COUNT: usize = 5;
    pub const ALL: [Op; Op::COUNT] = [Op::Walk, Op::Dirs, Op::Bundle, Op::Chunk, Op::Other];

    /// Its place in [`Op::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// What the engine can say at a tick beside its samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Tasks or entries that wait for a worker.
    pub queued: u64,
    /// Workers that had a task at this moment.
    pub busy: u32,
    /// Workers that sleep in the throttle of a limited rate: more of them gain nothing.
    pub throttled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub workers: u32,
}

pub trait Tuner: Send {
    fn sample(&mut self, sample: &Sample);
    /// Called about every 20 ms in the first two seconds, every 100 ms afterwards.
    fn tick(&mut self, now: Duration, demand: Demand) -> Limits;
    /// The most workers from now on, if that is less than it would ask for: other ranks have the rest.
    fn limit(&mut self, most: u32) {
        let _ = most;
    }
    /// All servers of the run answer at once: there is hardly a round trip to wait for. Called once, before a tick.
    fn servers_are_near(&mut self, now: Duration) {
        let _ = now;
    }
    fn name(&self) -> &'static str;
}

/// A number of workers that was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Fixed(pub Limits);

impl Tuner for Fixed {
    fn sample(&mut self, _: &Sample) {}
    fn tick(&mut self, _: Duration, _: Demand) -> Limits {
        self.0
    }
    fn name(&self) -> &'static str {
        "fixed"
    }
}
