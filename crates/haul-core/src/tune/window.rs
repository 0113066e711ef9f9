//! What a stretch of time at one number of workers brought, in a measure that the mix of file sizes does not move.

use std::time::Duration;

use super::{Op, Sample};

/// How fast old samples fade from the prices: a few hundred of one kind are remembered, so that prices of small and
/// large files are known at the same time when the tree holds them in stretches.
const MEMORY: f64 = 0.997;

/// Keeps the fit solvable when every file has the same size; the cost is then shared between entry and bytes.
const RIDGE: f64 = 1e-3;

/// The sums of a least-squares fit of one kind of operation.
#[derive(Clone, Copy, Debug, Default)]
struct Fit {
    entries_entries: f64,
    entries_bytes: f64,
    bytes_bytes: f64,
    entries: f64,
    bytes: f64,
}

/// What an entry and a byte of each kind cost one worker, learnt from the samples.
///
/// The fit is of `wall = entry * entries + byte * bytes` to every sample of the kind, by relative error, so that a task of
/// a millisecond weighs as much as one of seconds. Work valued at these prices is what makes 1,000 small files and one
/// large one comparable; only the ratio of prices matters, as both sides of a comparison are valued at the same ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prices {
    fits: [Fit; Op::COUNT],
    /// Seconds an entry, seconds a byte.
    prices: [(f64, f64); Op::COUNT],
}

impl Prices {
    pub(super) fn learn(&mut self, op: Op, entries: f64, bytes: f64, wall: f64) {
        let fit = &mut self.fits[op.index()];
        let (x, y) = (entries / wall, bytes / wall);
        fit.entries_entries = fit.entries_entries * MEMORY + x * x;
        fit.entries_bytes = fit.entries_bytes * MEMORY + x * y;
        fit.bytes_bytes = fit.bytes_bytes * MEMORY + y * y;
        fit.entries = fit.entries * MEMORY + x;
        fit.bytes = fit.bytes * MEMORY + y;
        self.prices[op.index()] = fit.solve();
    }

    pub(super) fn value(&self, op: Op, entries: f64, bytes: f64) -> f64 {
        let (entry, byte) = self.prices[op.index()];
        entry * entries + byte * bytes
    }
}

impl Fit {
    fn solve(&self) -> (f64, f64) {
        let (a, c) = (self.entries_entries * (1.0 + RIDGE), self.bytes_bytes * (1.0 + RIDGE));
        let alone = |sum: f64, square: f64| if square > 0.0 { sum / square } else { 0.0 };
        let determinant = a * c - self.entries_bytes * self.entries_bytes;
        if determinant <= 0.0 {
            return (alone(self.entries, a), if a > 0.0 { 0.0 } else { alone(self.bytes, c) });
        }
        let entry = (self.entries * c - self.bytes * self.entries_bytes) / determinant;
        let byte = (self.bytes * a - self.entries * self.entries_bytes) / determinant;
        if entry < 0.0 {
            (0.0, alone(self.bytes, c))
        } else if byte < 0.0 {
            (alone(self.entries, a), 0.0)
        } else {
            (entry, byte)
        }
    }
}

/// Of the time in which workers were busy, the part that tasks which have ended must make up to stand for it: the first that end are the
/// short ones.
const EVIDENT: f64 = 0.15;

/// Whether tasks of so many seconds together are evidence for a stretch of time; `busy` is the sum over `ticks`.
pub(super) fn is_evident(wall: f64, busy: f64, ticks: u32, elapsed: Duration) -> bool {
    wall >= EVIDENT * elapsed.as_secs_f64() * busy / f64::from(ticks.max(1))
}

/// Sums over the tasks that started and ended at one number of workers.
///
/// Goodput is by Little's law, `workers busy x value / wall`: each finished task says how fast one worker was, and no task
/// in flight is forgotten because it did not end yet. A window without a finished task therefore says nothing, not zero.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    pub(super) workers: u32,
    pub(super) since: Duration,
    pub(super) ticks: u32,
    pub(super) samples: u32,
    dirs: u32,
    moved: u32,
    busy: f64,
    wall: f64,
    /// Entries and bytes that went well, by kind: kept apart, so that any two windows can be valued at one set of prices.
    done: [(f64, f64); Op::COUNT],
    // For the error of value / wall as a ratio of two sums.
    value: f64,
    value_value: f64,
    value_wall: f64,
    wall_wall: f64,
}

impl Window {
    pub(super) fn new(workers: u32, since: Duration) -> Window {
        Window { workers, since, ..Window::default() }
    }

    pub(super) fn observe(&mut self, busy: u32) {
        self.ticks = self.ticks.saturating_add(1);
        self.busy += f64::from(busy);
    }

    /// `prices` must have learnt from the sample already.
    pub(super) fn add(&mut self, sample: &Sample, entries: f64, wall: f64, prices: &Prices) {
        self.samples = self.samples.saturating_add(1);
        self.dirs = self.dirs.saturating_add(u32::from(sample.op == Op::Dirs));
        self.moved = self.moved.saturating_add(u32::from(matches!(sample.op, Op::Bundle | Op::Chunk)));
        self.wall += wall;
        self.wall_wall += wall * wall;
        if sample.failed {
            return;
        }
        let bytes = sample.bytes as f64;
        let done = &mut self.done[sample.op.index()];
        done.0 += entries;
        done.1 += bytes;
        let value = prices.value(sample.op, entries, bytes);
        self.value += value;
        self.value_value += value * value;
        self.value_wall += value * wall;
    }

    /// Value a second; `None` where nothing is known.
    pub(super) fn goodput(&self, prices: &Prices) -> Option<f64> {
        if self.ticks == 0 || self.wall <= 0.0 {
            return None;
        }
        let value: f64 = Op::ALL.iter().map(|&op| prices.value(op, self.done[op.index()].0, self.done[op.index()].1)).sum();
        let goodput = self.busy / f64::from(self.ticks) * value / self.wall;
        (goodput > 0.0 && goodput.is_finite()).then_some(goodput)
    }

    /// Goodput of one worker.
    pub(super) fn each(&self, prices: &Prices) -> Option<f64> {
        Some(self.goodput(prices)? * f64::from(self.ticks) / self.busy)
    }

    /// Standard error of the goodput, relative to it.
    pub(super) fn error(&self) -> f64 {
        if self.samples < 2 || self.value <= 0.0 {
            return 1.0;
        }
        let rate = self.value / self.wall;
        let squares = self.value_value - 2.0 * rate * self.value_wall + rate * rate * self.wall_wall;
        (squares.max(0.0).sqrt() / self.value).min(1.0)
    }

    /// Seconds that a task takes, in the mean.
    pub(super) fn task(&self) -> f64 {
        if self.samples == 0 { 0.0 } else { self.wall / f64::from(self.samples) }
    }

    /// Whether its tasks made directories and moved no data yet: as a file system makes one at a time in a directory, that does not show
    /// what more workers would gain.
    pub(super) fn is_of_dirs(&self) -> bool {
        self.dirs > 0 && self.moved == 0
    }

    /// Whether the tasks that ended were a part of what the workers did that stands for all of it.
    pub(super) fn is_evident(&self, now: Duration) -> bool {
        is_evident(self.wall, self.busy, self.ticks, now.saturating_sub(self.since))
    }

    /// Takes a later window at the same number of workers in; what was there counts half, so that it fades.
    pub(super) fn merge(&mut self, later: &Window) {
        let half = |sum: &mut f64, new: f64| *sum = *sum / 2.0 + new;
        let ticks = self.ticks / 2;
        if self.ticks > 0 {
            self.busy *= f64::from(ticks) / f64::from(self.ticks);
        }
        self.busy += later.busy;
        self.ticks = ticks + later.ticks;
        self.samples = self.samples / 2 + later.samples;
        self.dirs = self.dirs / 2 + later.dirs;
        self.moved = self.moved / 2 + later.moved;
        half(&mut self.wall, later.wall);
        for (old, new) in self.done.iter_mut().zip(later.done) {
            half(&mut old.0, new.0);
            half(&mut old.1, new.1);
        }
        half(&mut self.value, later.value);
        half(&mut self.value_value, later.value_value);
        half(&mut self.value_wall, later.value_wall);
        half(&mut self.wall_wall, later.wall_wall);
    }
}
