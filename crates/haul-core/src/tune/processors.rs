//! How full the processors are, and how many workers fill them, as the samples tell.

use std::time::Duration;

use super::window::is_evident;

/// Share of the processors from which they count as full: the rest is what the system itself takes.
const FULL: f64 = 0.85;

/// For how long a gauge of the processors is taken for true.
const GAUGE_AGE: Duration = Duration::from_secs(1);
const GAUGE_LONGEST: Duration = Duration::from_secs(30);

/// The processors of this machine under the workers' load.
#[derive(Clone, Debug)]
pub(super) struct Processors {
    pub(super) count: u32,
    load: Load,
    /// Last load that said anything: processors full, and the share of waiting.
    pub(super) full: bool,
    pub(super) waiting: Option<f64>,
    /// Seconds of processor and of waiting of a task when no worker queued for a processor, and when that was.
    gauge: Option<(f64, f64, Duration)>,
    gauge_wait: Duration,
    /// Seconds of processor of a task in the last load.
    cpu: f64,
    /// Seconds of a task in the last load.
    pub(super) task: f64,
    /// When the load begins, and the last tick.
    since: Duration,
    now: Duration,
}

impl Processors {
    pub(super) fn new(count: u32) -> Self {
        Processors {
            count,
            load: Load::default(),
            full: false,
            waiting: None,
            gauge: None,
            gauge_wait: GAUGE_AGE,
            cpu: 0.0,
            task: 0.0,
            since: Duration::ZERO,
            now: Duration::ZERO,
        }
    }

    /// Forgets the load since it was last weighed: the number of workers changes.
    pub(super) fn restart(&mut self) {
        (self.load, self.since) = (Load::default(), self.now);
    }

    pub(super) fn observe(&mut self, busy: u32, now: Duration) {
        self.now = now;
        self.load.observe(busy);
    }

    pub(super) fn add(&mut self, wall: f64, cpu: f64) {
        self.load.add(wall, cpu);
    }

    /// Looks at the load once enough tasks ended to speak for all workers.
    pub(super) fn weigh(&mut self, workers: u32, now: Duration) -> bool {
        let Load { samples, ticks, busy, wall, .. } = self.load;
        if samples < (workers / 4).max(2) || !is_evident(wall, busy, ticks, now.saturating_sub(self.since)) {
            return false;
        }
        let (share, processors) = (self.load.share(), self.load.processors());
        self.full = processors >= FULL * f64::from(self.count);
        self.waiting = Some(1.0 - share);
        self.task = self.load.task();
        self.cpu = share * self.task;
        if !self.full || workers <= self.count {
            self.gauge = Some((self.cpu, self.task - self.cpu, now));
        }
        self.restart();
        true
    }

    /// The share of a task that needs a processor: what it uses now, and what it waited for when it could have one.
    fn share(&self) -> f64 {
        let waiting = self.gauge.map_or(0.0, |(_, waiting, _)| waiting);
        if self.cpu > 0.0 { (self.cpu / (self.cpu + waiting)).clamp(0.01, 1.0) } else { 1.0 }
    }

    /// The count of workers that just fills the processors.
    pub(super) fn filling(&self) -> u32 {
        // A quarter of a worker is no worker: 2 / 0.96 is two.
        let count = (f64::from(self.count) / self.share() - 0.25).ceil();
        (count as u32).max(self.count)
    }

    /// Above `filling` where tasks wait for a part of their time: they do not wait in turn.
    pub(super) fn ceiling(&self) -> u32 {
        (f64::from(self.filling()) * (2.0 - self.share())) as u32
    }

    /// Whether the last gauge is too old to be believed.
    pub(super) fn is_outdated(&self, now: Duration) -> bool {
        self.gauge.is_none_or(|(.., when)| now.saturating_sub(when) >= self.gauge_wait)
    }

    /// Whether a new gauge has to be taken; if so, sets how long it will hold.
    pub(super) fn measures_again(&mut self, now: Duration) -> bool {
        // Tasks that use the processors far more than when they were gauged are other tasks.
        let other = self.gauge.is_none_or(|(cpu, waiting, _)| self.share() > 1.5 * (cpu / (cpu + waiting).max(1e-9)).max(0.01));
        let again = other || self.is_outdated(now);
        if again {
            self.gauge_wait = if other { GAUGE_AGE } else { (self.gauge_wait * 2).min(GAUGE_LONGEST) };
        }
        again
    }
}

/// Processor use over the last tick or few: as many as it takes until enough tasks have ended.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    samples: u32,
    ticks: u32,
    busy: f64,
    wall: f64,
    cpu: f64,
}

impl Load {
    fn observe(&mut self, busy: u32) {
        self.ticks = self.ticks.saturating_add(1);
        self.busy += f64::from(busy);
    }

    fn add(&mut self, wall: f64, cpu: f64) {
        self.samples = self.samples.saturating_add(1);
        self.wall += wall;
        // A thread cannot have used more processor time than there was.
        self.cpu += cpu.min(wall);
    }

    /// Processor time in the time of a task, 0..=1.
    fn share(&self) -> f64 {
        if self.wall > 0.0 { self.cpu / self.wall } else { 0.0 }
    }

    /// Seconds that a task takes, in the mean.
    fn task(&self) -> f64 {
        if self.samples == 0 { 0.0 } else { self.wall / f64::from(self.samples) }
    }

    /// Processors in use by the workers.
    fn processors(&self) -> f64 {
        if self.ticks == 0 { 0.0 } else { self.share() * self.busy / f64::from(self.ticks) }
    }
}
