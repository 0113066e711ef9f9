//! The most workers that all ranks of a job may have together: each rank's own tuner sees only what its own workers gain, and not
//! what they take from those of other ranks.
//!
//! ```text
//! Hold    measure; after some windows
//! Probe   half as many workers, or, if the ranks use all they may have, twice as many: stay where the utility is higher, else go back;
//!         when both were in vain, smaller steps
//! ```
//!
//! A job begins with few, so that many ranks are no slower than few where the file system is full with few. Utility is
//! `goodput / workers^0.07`, as for one rank ([`super::Climb`]): doubling must gain 5 %. Each rank says when its numbers were taken, so that
//! rates are by its own clock. A window in which a rank had nothing to do says nothing.

use std::time::Duration;

use super::Op;
use super::window::Prices;
use crate::spread::RankWork;
use crate::verdict::Curve;

/// Workers of all ranks together at the beginning, and of each at least.
const FIRST: u32 = 64;
const FIRST_EACH: u32 = 2;
/// The exponent of the utility.
const PENALTY: f64 = 0.07;
/// How many times as many workers a probe tries, at first and between two numbers that were both tried.
const STEPS: [f64; 2] = [2.0, 1.41];
/// How long it takes until all ranks have changed their workers and work begun before has ended.
const SETTLE: Duration = Duration::from_millis(1500);
/// How much of a rank's time a window covers at least: the first ones are short, to be soon where it matters.
const WINDOWS: [Duration; 3] = [Duration::from_millis(900), Duration::from_secs(2), Duration::from_secs(4)];
/// Decisions after which windows are longer.
const SOON: u32 = 3;
/// Most windows of hold between two probes.
const LONGEST_WAIT: u32 = 64;
/// Of a window, the part in which a rank must have had something to do.
const BUSY: f64 = 0.7;
/// Pairs of measured numbers of workers that are remembered.
const CURVES: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// So many windows more.
    Hold(u32),
    /// What is gone back to.
    Probe { back: u32 },
}

/// What all ranks did in a window.
#[derive(Clone, Copy, Debug, Default)]
struct Measure {
    workers: f64,
    /// Files and bytes a second.
    files: f64,
    bytes: f64,
}

#[derive(Debug)]
pub struct TeamTuner {
    ranks: u32,
    most: u32,
    phase: Phase,
    prices: Prices,
    settle_until: Duration,
    /// Where the window begins for each rank.
    start: Vec<RankWork>,
    base: Option<Measure>,
    upwards: bool,
    failed: u32,
    decisions: u32,
    curves: Vec<Curve>,
}

impl TeamTuner {
    #[must_use]
    pub fn new(ranks: u32) -> TeamTuner {
        let ranks = ranks.max(1);
        TeamTuner {
            ranks,
            most: FIRST.max(ranks.saturating_mul(FIRST_EACH)),
            phase: Phase::Hold(0),
            prices: Prices::default(),
            settle_until: SETTLE,
            start: Vec::new(),
            base: None,
            upwards: true,
            failed: 0,
            decisions: 0,
            curves: Vec::new(),
        }
    }

    /// The most workers of all ranks together.
    #[must_use]
    pub fn most(&self) -> u32 {
        self.most
    }

    /// The most workers of one rank: all have the same, and one that asks for fewer leaves the rest unused.
    #[must_use]
    pub fn share(&self, rank: u32) -> u32 {
        (self.most / self.ranks + u32::from(rank < self.most % self.ranks)).max(1)
    }

    /// Twice as many workers that gained least.
    #[must_use]
    pub fn curve(&self) -> Option<Curve> {
        self.curves.iter().copied().min_by(|one, other| one.gain.total_cmp(&other.gain))
    }

    /// Whether there is anything to be learned from a look now.
    #[must_use]
    pub fn is_due(&self, now: Duration) -> bool {
        now >= self.settle_until
    }

    /// What all ranks have done so far, each as it said last. `true` if the limit is another one now.
    pub fn look(&mut self, now: Duration, ranks: &[RankWork]) -> bool {
        if !self.is_due(now) || ranks.len() != self.ranks as usize {
            return false;
        }
        if self.start.is_empty() {
            self.start = ranks.to_vec();
            return false;
        }
        let passed = |(then, now): (&RankWork, &RankWork)| now.elapsed.saturating_sub(then.elapsed);
        let length = WINDOWS[(self.decisions / SOON).min(WINDOWS.len() as u32 - 1) as usize];
        if self.start.iter().zip(ranks).any(|pair| passed(pair) < length) {
            return false;
        }
        let mut measure = Measure::default();
        for (then, now) in self.start.iter().zip(ranks) {
            let seconds = passed((then, now)).as_secs_f64();
            if now.busy.saturating_sub(then.busy).as_secs_f64() < BUSY * seconds {
                self.start = ranks.to_vec();
                return false;
            }
            let (files, bytes) = (now.files.saturating_sub(then.files) as f64, now.bytes.saturating_sub(then.bytes) as f64);
            let spent = (now.data + now.metadata).saturating_sub(then.data + then.metadata).as_secs_f64();
            if files + bytes > 0.0 && spent > 0.0 {
                self.prices.learn(Op::Other, files, bytes, spent);
            }
            measure.workers += f64::from(then.workers + now.workers) / 2.0;
            measure.files += files / seconds;
            measure.bytes += bytes / seconds;
        }
        self.start.clear();
        let before = self.most;
        self.decide(now, measure);
        self.most != before
    }

    fn goodput(&self, measure: &Measure) -> f64 {
        self.prices.value(Op::Other, measure.files, measure.bytes)
    }

    fn decide(&mut self, now: Duration, measure: Measure) {
        self.decisions += 1;
        match (self.phase, self.base) {
            (Phase::Probe { back }, Some(base)) => {
                let gain = self.goodput(&measure) / self.goodput(&base).max(1e-12);
                let ratio = measure.workers / base.workers.max(1.0);
                self.remember(&base, &measure, gain);
                if gain >= ratio.powf(PENALTY) {
                    self.base = Some(measure);
                    self.failed = 0;
                    self.probe(now, &measure);
                } else {
                    self.most = back;
                    self.settle_until = now + SETTLE;
                    self.failed += 1;
                    self.upwards = !self.upwards;
                    // Both directions are tried before it waits.
                    self.phase = Phase::Hold(if self.failed < 2 { 0 } else { (1 << self.failed.min(8)).min(LONGEST_WAIT) });
                }
            }
            (Phase::Hold(left @ 1..), _) => self.phase = Phase::Hold(left - 1),
            _ => {
                self.base = Some(measure);
                self.probe(now, &measure);
            }
        }
    }

    /// Tries another number, if there is one to try.
    fn probe(&mut self, now: Duration, measure: &Measure) {
        let used = measure.workers.round() as u32;
        // Ranks that do not use what they may have would not use more.
        let step = STEPS[usize::from(self.failed >= 2)];
        let times = |workers: u32, factor: f64| (f64::from(workers) * factor).round() as u32;
        let up = (used >= self.most / 10 * 8).then(|| times(self.most, step));
        let down = Some(times(used, 1.0 / step).max(self.ranks)).filter(|fewer| *fewer < used && *fewer < self.most);
        let (first, second) = if self.upwards { (up, down) } else { (down, up) };
        if first.is_none() {
            self.upwards = !self.upwards;
        }
        match first.or(second) {
            Some(next) => {
                self.phase = Phase::Probe { back: self.most };
                (self.most, self.settle_until) = (next, now + SETTLE);
            }
            None => self.phase = Phase::Hold(LONGEST_WAIT / 8),
        }
    }

    /// What the larger of two numbers gained.
    fn remember(&mut self, base: &Measure, measure: &Measure, gain: f64) {
        let (fewer, more, gain) = if measure.workers < base.workers {
            (measure.workers, base.workers, 1.0 / gain.max(1e-12))
        } else {
            (base.workers, measure.workers, gain)
        };
        // Not twice as many: less of a gain is what could be expected.
        if more < 1.7 * fewer {
            return;
        }
        let curve = Curve { fewer: fewer.round() as u32, more: more.round() as u32, gain };
        self.curves.retain(|known| (known.fewer, known.more) != (curve.fewer, curve.more));
        if self.curves.len() >= CURVES {
            self.curves.remove(0);
        }
        self.curves.push(curve);
    }
}
