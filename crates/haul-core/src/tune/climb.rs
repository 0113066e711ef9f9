//! The controller that finds the number of workers.
//!
//! ```text
//! Ramp   double while tasks mostly wait; ends at the processors or at the knee, back at the best count so far
//! Hold   measure; every so often
//! Probe  try a count above or below, stay where the utility is higher, else go back and wait twice as long
//! Gauge  processors full with more workers than processors: come down to their number, see how much tasks wait when they
//!        need not queue for a processor, and go to the count that just fills the processors
//! ```
//!
//! Utility is `goodput / workers^0.07`. Falcon (Arifuzzaman et al., IEEE TPDS 34(8), 2023) climbs on `throughput / K^n`, whose
//! peak is at most `1 / ln K` workers (50 at K = 1.02), too few for a store with 4 ms per call. With a power, doubling must
//! gain 5 % at any count, and of equal goodputs the one with fewer workers wins, which also corrects a wrong step upwards.
//! Goodput is by [`Window`], in work valued at [`Prices`], not in bytes.
//!
//! The ramp looks at what tasks wait for before the gain, so that it can double each tick. Probing never stops.

use std::time::Duration;

use super::processors::Processors;
use super::window::{Prices, Window};
use super::{Demand, Limits, Sample, Tuner};

/// Share of waiting in a task from which more workers look useful without a measured gain.
const WAITING: f64 = 0.5;
/// The exponent of the utility, see the module's text.
const PENALTY: f64 = 0.07;
/// What the ramp asks of its steps: doubling brings 1.41 at least. Less, and the knee lies between.
const STEEP: f64 = 0.5;
/// Doublings of the ramp before their gain is measured, each after most of a task's time, and only for tasks up to this length.
const AHEAD: u32 = 2;
const AHEAD_TASKS: f64 = 0.75;
const AHEAD_LONGEST: f64 = 0.05;
/// Without any finished task the ramp doubles this often and this far.
const BLIND: Duration = Duration::from_millis(200);
const BLIND_MOST: u32 = 8;
/// While directories are made and no data moves, the ramp goes this far without a gain.
const DIRS_MOST: u32 = 16;
/// A window of hold or probe: at least so many ticks, and so many times the length of a task.
const TICKS: u32 = 4;
const TASKS: f64 = 2.5;
/// The error at which a window is good enough, and how many times longer it may become to reach it.
const PRECISE: f64 = 0.015;
const LONGER: u32 = 4;
/// Standard errors by which a probe upwards must be better.
const DOUBT: f64 = 1.5;
/// Over a network tasks from this length on, in seconds, begin on connections that have yet to find their rate (slow start; RFC 5681).
const SLOW_START: f64 = 0.25;
/// Such tasks that each worker must have before it, or the last ones run alone on connections that are still finding their rate.
const SLOW_START_TASKS: u64 = 3;
/// Workers of a run whose servers are near: so many for each processor of this machine, within these bounds. More gain little where
/// there is hardly a round trip to wait for, and contend for processors and for the lock of a file that all write.
const NEAR_EACH: u32 = 2;
const NEAR_LEAST: u32 = 4;
const NEAR_MOST: u32 = 8;
/// A goodput that moved by this at the same number of workers is a changed store, not noise.
const CHANGED: f64 = 0.15;
/// Most windows of hold between two probes.
const LONGEST_WAIT: u32 = 32;
/// With processors full and no worker too many, fewer can only help where workers fight over a lock: tried rarely.
const FULL_PROBE: Duration = Duration::from_secs(4);
const FULL_PROBE_LONGEST: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Ramp { ahead: u32 },
    Hold,
    Probe,
    Gauge { from: u32 },
}

/// Finds the number of workers from samples alone; see the module's text.
#[derive(Clone, Debug)]
pub struct Climb {
    processors: Processors,
    least: u32,
    most: u32,
    /// As many as there may be without other ranks.
    own_most: u32,
    workers: u32,
    phase: Phase,
    prices: Prices,
    /// At the current number of workers, since it was set.
    window: Window,
    /// Workers beyond the limit still end their tasks: the window starts when they are gone, at this time at the latest.
    settle_until: Option<Duration>,
    /// What the current number is compared with: the last place that was worth staying at.
    base: Option<Window>,
    /// The fewest workers ever measured: tells what one stream could do at most.
    fewest: Option<Window>,
    upwards: bool,
    step: f64,
    failed_probes: u32,
    held: u32,
    wait: u32,
    last_full_probe: Duration,
    full_wait: Duration,
    /// Tasks are over network connections.
    is_far: bool,
    /// Tasks that wait, as was last said.
    queued: u64,
    /// The first window of long tasks is not measured.
    warms_up: bool,
    /// Doublings of the ramp before their gain is measured.
    ahead: u32,
}

impl Climb {
    /// `least` and `most` bound the answer, both at least 1; a `most` below `least` counts as `least`.
    #[must_use]
    pub fn new(processors: u32, least: u32, most: u32) -> Climb {
        let (least, processors) = (least.max(1), processors.max(1));
        let most = most.max(least);
        let workers = processors.clamp(2, 4).clamp(least, most);
        Climb {
            processors: Processors::new(processors),
            least,
            most,
            own_most: most,
            workers,
            phase: Phase::Ramp { ahead: 0 },
            prices: Prices::default(),
            window: Window::new(workers, Duration::ZERO),
            settle_until: None,
            base: None,
            fewest: None,
            upwards: true,
            step: 1.5,
            failed_probes: 0,
            held: 0,
            wait: 0,
            last_full_probe: Duration::ZERO,
            full_wait: FULL_PROBE,
            is_far: false,
            queued: 0,
            warms_up: false,
            ahead: AHEAD,
        }
    }

    /// For tasks over network connections, beginning with so many workers: what the first tasks bring is no measure of what they bring
    /// later.
    #[must_use]
    pub fn over_network(self, first: u32) -> Climb {
        let workers = first.clamp(self.least, self.most);
        Climb { is_far: true, warms_up: true, workers, window: Window::new(workers, Duration::ZERO), ..self }
    }

    fn go(&mut self, workers: u32, now: Duration, phase: Phase) {
        let workers = workers.clamp(self.least, self.most);
        if workers < self.workers {
            self.settle_until = Some(now + Duration::from_secs_f64((3.0 * self.window.task()).min(60.0)));
        }
        (self.workers, self.phase, self.window) = (workers, phase, Window::new(workers, now));
        self.processors.restart();
    }

    fn utility(&self, window: &Window) -> Option<f64> {
        Some(window.goodput(&self.prices)? / f64::from(window.workers).powf(PENALTY))
    }

    /// Utility of the current window relative to `base`.
    fn gain(&self, base: &Window) -> Option<f64> {
        Some(self.utility(&self.window)? / self.utility(base)?)
    }

    fn remember_fewest(&mut self) {
        if self.fewest.is_none_or(|fewest| self.window.workers <= fewest.workers) {
            self.fewest = Some(self.window);
        }
    }

    /// More workers would have a task or two each: they would spend most of their time in slow start, and end one after the other.
    fn is_too_late_for(&self, workers: u32) -> bool {
        let task = self.base.map_or(0.0, |base| base.task()).max(self.window.task());
        self.is_far && task >= SLOW_START && self.queued < SLOW_START_TASKS * u64::from(workers)
    }

    fn ramp(&mut self, ahead: u32, now: Duration, demand: Demand) {
        if self.processors.full {
            let target = if self.workers > self.processors.count { self.processors.filling().min(self.workers) } else { self.workers };
            self.base = None;
            self.go(target, now, Phase::Hold);
            return;
        }
        let enough = self.window.samples >= (self.workers / 4).max(2) && self.window.is_evident(now);
        let waits = self.processors.waiting.is_some_and(|share| share > WAITING);
        let twice = u32::try_from(demand.queued).unwrap_or(u32::MAX).min(self.workers).saturating_add(self.workers).min(self.most);
        // Work that computes is worth a worker a processor, and no more.
        let twice = if waits { twice } else { twice.min(self.processors.count) };
        let twice = if self.is_too_late_for(twice) { self.workers.min(twice) } else { twice };
        if enough && std::mem::take(&mut self.warms_up) && self.window.task() >= SLOW_START {
            self.window = Window::new(self.workers, now);
        } else if enough {
            self.remember_fewest();
            if let Some(base) = self.base
                && let Some(gain) = self.gain(&base)
                && let doubt = self.window.error().min(0.1)
                && let ratio = f64::from(self.workers) / f64::from(base.workers)
                && gain + doubt < ratio.powf(STEEP - PENALTY)
            {
                if self.window.is_of_dirs() && twice > self.workers && self.workers < DIRS_MOST {
                    return self.go(twice.min(DIRS_MOST), now, Phase::Ramp { ahead: 0 });
                }
                // Worse than before: back. A little better: the best is somewhere between.
                let between = (f64::from(self.workers) * f64::from(base.workers)).sqrt().round() as u32;
                let next = if gain + doubt < 1.0 { base.workers } else { between };
                self.go(next, now, Phase::Hold);
            } else {
                self.base = Some(self.window);
                if twice > self.workers {
                    self.go(twice, now, Phase::Ramp { ahead: 0 });
                } else if demand.queued > 0 {
                    self.phase = Phase::Hold;
                }
            }
        } else if ahead < self.ahead && demand.queued > 0 && self.workers < self.most {
            let unheard = now.saturating_sub(self.window.since);
            if waits
                && twice > self.workers
                && self.base.is_some()
                && self.processors.task <= AHEAD_LONGEST
                && unheard.as_secs_f64() >= AHEAD_TASKS * self.processors.task
            {
                self.go(twice, now, Phase::Ramp { ahead: ahead + 1 });
            } else if self.processors.waiting.is_none() && unheard >= BLIND && self.workers < BLIND_MOST {
                let twice =
                    (self.workers * 2).min(BLIND_MOST).min(u32::try_from(demand.queued).unwrap_or(u32::MAX).saturating_add(self.workers));
                self.go(twice, now, Phase::Ramp { ahead: ahead + 1 });
            }
        }
    }

    /// Whether the window says enough to be believed.
    fn complete(&self, now: Duration) -> bool {
        let window = &self.window;
        let elapsed = now.saturating_sub(window.since).as_secs_f64();
        let tasks = window.samples >= window.workers.clamp(4, 64) && elapsed >= TASKS * window.task();
        let error = window.error();
        tasks && window.ticks >= TICKS && (error <= PRECISE || window.ticks >= TICKS * LONGER)
    }

    fn hold(&mut self, now: Duration) {
        if !self.complete(now) {
            return;
        }
        self.remember_fewest();
        let error = self.window.error();
        match self.base.as_mut() {
            Some(base) if base.workers == self.window.workers => {
                let before = base.goodput(&self.prices);
                let after = self.window.goodput(&self.prices);
                let ratio = after.zip(before).map_or(1.0, |(after, before)| after / before);
                if (ratio.ln()).abs() > CHANGED.max(3.0 * error) {
                    *base = self.window;
                    self.failed_probes = 0;
                    self.wait = 0;
                    self.step = 1.5;
                    self.fewest = None;
                } else {
                    base.merge(&self.window);
                }
            }
            _ => self.base = Some(self.window),
        }
        self.held += 1;
        self.window = Window::new(self.workers, now);
        if self.held > self.wait {
            self.probe(now);
        }
    }

    fn probe(&mut self, now: Duration) {
        if self.processors.full && self.workers >= self.processors.ceiling() {
            // More workers would only queue for a processor.
            self.upwards = false;
        }
        if self.processors.full && self.workers <= self.processors.count {
            if now.saturating_sub(self.last_full_probe) < self.full_wait {
                return;
            }
            self.last_full_probe = now;
            self.full_wait = (self.full_wait * 2).min(FULL_PROBE_LONGEST);
        }
        if !self.upwards && self.workers == self.least {
            self.upwards = true;
        } else if self.upwards && self.workers == self.most {
            self.upwards = false;
        }
        let workers = f64::from(self.workers);
        let next = if self.upwards {
            ((workers * self.step).round() as u32).max(self.workers + 1)
        } else if self.doubtful() {
            1
        } else {
            ((workers / self.step).round() as u32).min(self.workers.saturating_sub(1))
        };
        let next = next.clamp(self.least, self.most);
        if next < self.workers || next > self.workers && !self.is_too_late_for(next) {
            self.go(next, now, Phase::Probe);
        }
    }

    /// Whether one stream might do better, which nearby steps cannot find behind a hump of the curve: only if all workers together
    /// do less than four of the fewest ever measured did.
    fn doubtful(&self) -> bool {
        let all = self.base.and_then(|base| base.goodput(&self.prices));
        let one = self.fewest.filter(|fewest| fewest.workers > 1).and_then(|fewest| fewest.each(&self.prices));
        self.failed_probes >= 2 && all.zip(one).is_some_and(|(all, one)| all < 4.0 * one)
    }

    fn weigh_probe(&mut self, now: Duration) {
        let Some(base) = self.base else {
            self.phase = Phase::Hold;
            return;
        };
        let Some(gain) = self.gain(&base) else { return };
        let error = self.window.error();
        let hopeless = self.window.ticks >= 2 && self.window.samples >= self.workers.clamp(4, 64) / 2 && gain + 3.0 * error < 0.9;
        if !hopeless && !self.complete(now) {
            return;
        }
        self.remember_fewest();
        // More workers must gain; fewer win at equal utility, or noise would keep what a passing change of the store brought.
        let doubt = (DOUBT * error.hypot(base.error())).clamp(0.01, 0.1);
        let needed = if self.workers < base.workers { 1.0 } else { 1.0 + doubt };
        if gain > needed {
            self.base = Some(self.window);
            self.failed_probes = 0;
            self.wait = 0;
            self.held = 0;
            self.step = (self.step * 1.25).min(2.0);
            self.phase = Phase::Hold;
            self.probe(now);
            if self.phase == Phase::Hold {
                self.window = Window::new(self.workers, now);
            }
        } else {
            self.retreat(base.workers, now);
        }
    }

    /// Back from a probe that brought nothing.
    fn retreat(&mut self, workers: u32, now: Duration) {
        // At a bound there is only one direction to fail in.
        self.failed_probes += if workers == self.least || workers == self.most { 2 } else { 1 };
        self.upwards = !self.upwards;
        self.held = 0;
        self.step = if self.failed_probes % 4 >= 2 { 1.25 } else { 1.5 };
        self.wait = if self.failed_probes < 4 { 0 } else { (2_u32 << (self.failed_probes / 2).min(8)).min(LONGEST_WAIT) };
        self.go(workers, now, Phase::Hold);
    }

    fn hold_or_judge(&mut self, now: Duration) {
        match self.phase {
            Phase::Hold => self.hold(now),
            Phase::Probe => self.weigh_probe(now),
            Phase::Ramp { .. } | Phase::Gauge { .. } => {}
        }
    }

    /// Too many workers on full processors: down to what fills them, measured if the last measure is old.
    fn descend(&mut self, now: Duration) {
        if self.workers <= self.processors.ceiling() && !self.processors.is_outdated(now) {
            return;
        }
        self.base = None;
        if self.processors.measures_again(now) {
            self.go(self.processors.count, now, Phase::Gauge { from: self.workers });
        } else {
            self.go(self.processors.filling(), now, Phase::Hold);
        }
    }
}

impl Tuner for Climb {
    fn sample(&mut self, sample: &Sample) {
        // A task faster than the clock still took something: a nanosecond keeps every rate finite.
        let wall = sample.ended.saturating_sub(sample.started).as_secs_f64().max(1e-9);
        // A listing that found nothing was work all the same.
        let entries = if sample.bytes == 0 { sample.entries.max(1) } else { sample.entries } as f64;
        if !sample.failed {
            self.prices.learn(sample.op, entries, sample.bytes as f64, wall);
        }
        let within = self.settle_until.is_none() && sample.started >= self.window.since;
        // The gauge is of tasks that never queued for a processor: what began among too many workers did.
        if within || !matches!(self.phase, Phase::Gauge { .. }) {
            self.processors.add(wall, sample.cpu.as_secs_f64());
        }
        if within {
            self.window.add(sample, entries, wall, &self.prices);
        }
    }

    fn tick(&mut self, now: Duration, demand: Demand) -> Limits {
        self.queued = demand.queued;
        self.processors.observe(demand.busy, now);
        if let Some(until) = self.settle_until {
            if demand.busy <= self.workers || now >= until {
                self.settle_until = None;
                self.window = Window::new(self.workers, now);
                self.processors.restart();
            }
        } else {
            self.window.observe(demand.busy);
        }
        let starved = demand.queued == 0 && demand.busy < self.workers;
        if demand.throttled || starved {
            // What is measured now is the throttle or the want of work. Only ever fewer from here.
            if let (Phase::Probe, Some(base)) = (self.phase, self.base)
                && base.workers < self.workers
            {
                self.go(base.workers, now, Phase::Hold);
            }
            self.window = Window::new(self.workers, now);
            self.processors.restart();
            return Limits { workers: self.workers };
        }
        let weighed = self.processors.weigh(self.workers, now);
        match self.phase {
            Phase::Ramp { ahead } => self.ramp(ahead, now, demand),
            Phase::Gauge { from } if weighed => {
                let next = if from <= self.processors.ceiling() { from } else { self.processors.filling() };
                self.go(next, now, Phase::Hold);
            }
            Phase::Gauge { .. } => {}
            Phase::Hold | Phase::Probe if weighed && self.processors.full && self.workers > self.processors.count => {
                self.descend(now);
                self.hold_or_judge(now);
            }
            Phase::Hold | Phase::Probe => self.hold_or_judge(now),
        }
        // With nothing in the queue a probe upwards waits: its workers would find no task.
        if demand.queued == 0
            && self.phase == Phase::Probe
            && let Some(base) = self.base
            && base.workers < self.workers
        {
            self.go(base.workers, now, Phase::Hold);
        }
        Limits { workers: self.workers }
    }

    fn limit(&mut self, most: u32) {
        self.most = most.clamp(self.least, self.own_most);
        if self.workers > self.most {
            // What was measured before was with more workers elsewhere, too.
            (self.base, self.settle_until) = (None, None);
            self.workers = self.most;
            self.phase = Phase::Hold;
            self.window.workers = self.most;
        }
    }

    fn servers_are_near(&mut self, now: Duration) {
        self.ahead = 0;
        self.least = self.least.min(NEAR_LEAST);
        if self.base.is_none() && matches!(self.phase, Phase::Ramp { .. }) {
            let few = (NEAR_EACH * self.processors.count).clamp(NEAR_LEAST, NEAR_MOST);
            self.go(self.workers.min(few), now, Phase::Ramp { ahead: 0 });
        }
    }

    fn name(&self) -> &'static str {
        "climb"
    }
}
