//! What one entry costs, and from that how many small files make a bundle.

use std::time::Duration;

use super::{Op, Sample};

/// What a bundle should cost a worker: long enough that handing it out is nothing beside it, short enough that the last
/// bundles of a job end together and a signal is heard soon.
const BUNDLE: Duration = Duration::from_millis(20);

/// The most files of one bundle.
const BUNDLE_FILES: u64 = 1_000;

/// The share of a new sample in the running mean: half, so that three samples carry seven eighths, up as well as down.
const SHARE: f64 = 0.5;

/// A running estimate of the time that one entry takes a worker, for each kind of operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct CostMeter {
    seconds: [Option<f64>; Op::COUNT],
}

impl CostMeter {
    #[must_use]
    pub fn new() -> CostMeter {
        CostMeter::default()
    }

    /// Takes a finished task in. Failed ones and ones without entries say nothing of what an entry costs.
    pub fn sample(&mut self, sample: &Sample) {
        if sample.failed || sample.entries == 0 {
            return;
        }
        let wall = sample.ended.saturating_sub(sample.started);
        let one = wall.as_secs_f64() / sample.entries as f64;
        let mean = &mut self.seconds[sample.op.index()];
        *mean = Some(mean.map_or(one, |mean| mean + SHARE * (one - mean)));
    }

    /// Time of one worker for one entry; `None` before anything of this kind was measured.
    #[must_use]
    pub fn cost(&self, op: Op) -> Option<Duration> {
        self.seconds[op.index()].map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    /// How many entries make 20 ms of work of this kind, within 1..=`most`; 1 before anything was measured.
    #[must_use]
    pub fn entries_at_once(&self, op: Op, most: usize) -> usize {
        match self.seconds[op.index()] {
            None => 1,
            Some(seconds) => ((BUNDLE.as_secs_f64() / seconds) as usize).clamp(1, most.max(1)),
        }
    }

    /// How many files the next bundle should take: 20 ms of work, within 1..=1000, within `most`, and never more than
    /// leaves every worker two bundles of what is `queued`. Before anything was measured: 1.
    #[must_use]
    pub fn bundle_files(&self, queued: u64, workers: u32, most: usize) -> usize {
        let by_cost = match self.seconds[Op::Bundle.index()] {
            None => 1,
            // A cost of zero divides to infinity, which the cast saturates and the clamp bounds.
            Some(seconds) => ((BUNDLE.as_secs_f64() / seconds) as u64).clamp(1, BUNDLE_FILES),
        };
        let by_queue = queued / (2 * u64::from(workers.max(1)));
        let files = by_cost.min(by_queue).min(most as u64).max(1);
        usize::try_from(files).expect("at most 1000")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(milliseconds: u64, entries: u64) -> Sample {
        Sample {
            started: Duration::from_secs(1),
            ended: Duration::from_secs(1) + Duration::from_millis(milliseconds),
            op: Op::Bundle,
            bytes: 0,
            entries,
            cpu: Duration::ZERO,
            failed: false,
        }
    }

    #[test]
    fn nothing_measured_is_one_file() {
        assert_eq!(CostMeter::new().bundle_files(1_000_000, 2, 1_000), 1);
        assert_eq!(CostMeter::new().cost(Op::Bundle), None);
    }

    #[test]
    fn bundles_take_twenty_milliseconds() {
        for (milliseconds, entries, files) in [(18, 1, 1), (4, 1, 5), (1, 10, 200), (1, 1_000, 1_000), (0, 5, 1_000), (90, 1, 1)] {
            let mut meter = CostMeter::new();
            meter.sample(&bundle(milliseconds, entries));
            assert_eq!(meter.bundle_files(u64::MAX, 1, usize::MAX), files, "{milliseconds} ms for {entries}");
        }
    }

    #[test]
    fn a_short_queue_is_shared_and_the_callers_bound_holds() {
        let mut meter = CostMeter::new();
        meter.sample(&bundle(1, 1_000));
        assert_eq!(meter.bundle_files(1_000, 4, 1_000), 125);
        assert_eq!(meter.bundle_files(7, 4, 1_000), 1);
        assert_eq!(meter.bundle_files(0, 0, 0), 1);
        assert_eq!(meter.bundle_files(u64::MAX, u32::MAX, 300), 300);
    }

    #[test]
    fn the_cost_follows_within_a_few_samples_both_ways() {
        let mut meter = CostMeter::new();
        for _ in 0..100 {
            meter.sample(&bundle(1, 10));
        }
        for _ in 0..5 {
            meter.sample(&bundle(20, 1));
        }
        assert!(meter.bundle_files(u64::MAX, 1, 1_000) <= 2, "{meter:?}");
        for _ in 0..10 {
            meter.sample(&bundle(1, 10));
        }
        assert!(meter.bundle_files(u64::MAX, 1, 1_000) >= 150, "{meter:?}");
    }

    #[test]
    fn failures_other_kinds_and_empty_tasks_say_nothing() {
        let mut meter = CostMeter::new();
        meter.sample(&Sample { failed: true, ..bundle(1, 1) });
        meter.sample(&Sample { op: Op::Walk, ..bundle(1, 1) });
        meter.sample(&bundle(1, 0));
        assert_eq!(meter.cost(Op::Bundle), None);
        assert_eq!(meter.cost(Op::Walk), Some(Duration::from_millis(1)));
    }
}
