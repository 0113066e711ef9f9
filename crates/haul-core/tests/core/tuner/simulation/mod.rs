//! A store in virtual time: workers take tasks, tasks pass through stages, stages share processors and a link. No clock, no
//! sleep; the same seed gives the same run.

use std::time::Duration;

use haul_core::tune::{CostMeter, Demand, Op, Sample, Tuner};

/// Splitmix64: enough randomness for task sizes.
#[derive(Clone, Copy)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform within the range.
    pub fn within(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[derive(Clone, Copy)]
pub enum Stage {
    /// Seconds that pass whatever else happens: a round trip.
    Wait(f64),
    /// Seconds of a processor.
    Cpu(f64),
    /// Units of the resource that all share.
    Shared(f64),
}

#[derive(Clone)]
pub struct Task {
    pub op: Op,
    pub bytes: u64,
    pub entries: u64,
    /// What it counts for when runs are compared.
    pub worth: f64,
    pub stages: Vec<Stage>,
}

/// From `at` (seconds) on the shared resource runs at `scale`, and `rivals` other streams take their share of it.
#[derive(Clone, Copy)]
pub struct Change {
    pub at: f64,
    pub scale: f64,
    pub rivals: f64,
}

/// What the task maker may look at.
pub struct Ask<'a> {
    pub random: &'a mut Random,
    pub costs: &'a CostMeter,
    /// Entries not taken yet.
    pub queued: u64,
    pub workers: u32,
    /// Seconds.
    pub now: f64,
}

pub struct Scenario {
    pub name: &'static str,
    pub processors: u32,
    pub most: u32,
    /// Units a second for that many streams together; straight lines between, flat beyond.
    pub curve: &'static [(f64, f64)],
    /// Whether the shared resource is the processors themselves, so that its users burn them.
    pub burns: bool,
    pub changes: Vec<Change>,
    /// Entries in all; with `None` there is always more and the run ends at `until`.
    pub entries: Option<u64>,
    /// Seconds.
    pub until: f64,
    pub make: fn(Ask<'_>) -> Task,
}

pub struct Outcome {
    /// Worth of what ended.
    pub worth: f64,
    /// When the last task ended, or the run's end. Seconds.
    pub seconds: f64,
    /// Workers after each tick.
    pub trace: Vec<(f64, u32)>,
    /// Worth by when it was done.
    pub ends: Vec<(f64, f64)>,
}

impl Outcome {
    pub fn rate(&self) -> f64 {
        self.worth / self.seconds
    }

    pub fn rate_between(&self, from: f64, to: f64) -> f64 {
        self.ends.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, worth)| worth).sum::<f64>() / (to - from)
    }

    /// The mean number of workers of the ticks within.
    pub fn workers_between(&self, from: f64, to: f64) -> f64 {
        let within: Vec<f64> =
            self.trace.iter().filter(|(at, _)| (from..to).contains(at)).map(|&(_, workers)| f64::from(workers)).collect();
        within.iter().sum::<f64>() / within.len().max(1) as f64
    }

    /// Each number of workers with the time when it began.
    pub fn steps(&self) -> String {
        let mut text = String::new();
        let mut last = 0;
        for &(at, workers) in &self.trace {
            if workers != last {
                text += &format!("{at:.2}:{workers} ");
                last = workers;
            }
        }
        text
    }
}

struct Active {
    task: Task,
    stage: usize,
    left: f64,
    started: f64,
    cpu: f64,
}

impl Active {
    fn current(&self) -> Stage {
        self.task.stages[self.stage]
    }
}

fn amount(stage: Stage) -> f64 {
    match stage {
        Stage::Wait(x) | Stage::Cpu(x) | Stage::Shared(x) => x,
    }
}

fn on_curve(curve: &[(f64, f64)], x: f64) -> f64 {
    let (mut last_x, mut last_y) = (0.0, 0.0);
    for &(next_x, next_y) in curve {
        if x <= next_x {
            return last_y + (next_y - last_y) * (x - last_x) / (next_x - last_x);
        }
        (last_x, last_y) = (next_x, next_y);
    }
    last_y
}

pub fn run(scenario: &Scenario, tuner: &mut dyn Tuner, seed: u64) -> Outcome {
    let mut random = Random(seed);
    let mut costs = CostMeter::new();
    let mut queued = scenario.entries.unwrap_or(u64::MAX);
    let mut now = 0.0_f64;
    let mut next_tick = 0.0_f64;
    let mut workers = 1_u32;
    let mut active: Vec<Active> = Vec::new();
    let mut outcome = Outcome { worth: 0.0, seconds: 0.0, trace: Vec::new(), ends: Vec::new() };
    let at = |seconds: f64| Duration::from_secs_f64(seconds);
    loop {
        if now >= next_tick {
            let demand = Demand { queued, busy: active.len() as u32, throttled: false };
            workers = tuner.tick(at(now), demand).workers;
            outcome.trace.push((now, workers));
            next_tick += if now < 2.0 { 0.02 } else { 0.1 };
        }
        while (active.len() as u32) < workers && queued > 0 {
            let task = (scenario.make)(Ask { random: &mut random, costs: &costs, queued, workers, now });
            if scenario.entries.is_some() {
                queued = queued.saturating_sub(task.entries.max(1));
            }
            let left = amount(task.stages[0]);
            active.push(Active { task, stage: 0, left, started: now, cpu: 0.0 });
        }
        if (active.is_empty() && queued == 0) || now >= scenario.until {
            outcome.seconds = now;
            return outcome;
        }
        let change = scenario.changes.iter().rev().find(|change| change.at <= now);
        let (scale, rivals) = change.map_or((1.0, 0.0), |change| (change.scale, change.rivals));
        let cpus = active.iter().filter(|one| matches!(one.current(), Stage::Cpu(_))).count() as f64;
        let shared = active.iter().filter(|one| matches!(one.current(), Stage::Shared(_))).count() as f64;
        let processor = (f64::from(scenario.processors) / cpus.max(1.0)).min(1.0);
        let burnt = (f64::from(scenario.processors) / shared.max(1.0)).min(1.0);
        let link = on_curve(scenario.curve, shared + rivals) * scale / (shared + rivals).max(1.0);
        let speed = |stage: Stage| match stage {
            Stage::Wait(_) => 1.0,
            Stage::Cpu(_) => processor,
            Stage::Shared(_) => link,
        };
        let mut step = next_tick.min(scenario.until) - now;
        for change in &scenario.changes {
            if change.at > now {
                step = step.min(change.at - now);
            }
        }
        for one in &active {
            step = step.min(one.left / speed(one.current()));
        }
        let step = step.max(1e-9);
        now += step;
        let mut place = 0;
        while place < active.len() {
            let one = &mut active[place];
            let stage = one.current();
            one.left -= step * speed(stage);
            one.cpu += match stage {
                Stage::Wait(_) => 0.0,
                Stage::Cpu(_) => step * processor,
                Stage::Shared(_) if scenario.burns => step * burnt,
                Stage::Shared(_) => 0.0,
            };
            if one.left > 1e-9 * speed(stage) {
                place += 1;
                continue;
            }
            one.stage += 1;
            if one.stage < one.task.stages.len() {
                one.left = amount(one.current());
                place += 1;
                continue;
            }
            let one = active.swap_remove(place);
            outcome.worth += one.task.worth;
            outcome.ends.push((now, one.task.worth));
            let sample = Sample {
                started: at(one.started),
                ended: at(now),
                op: one.task.op,
                bytes: one.task.bytes,
                entries: one.task.entries,
                cpu: at(one.cpu),
                failed: false,
            };
            costs.sample(&sample);
            tuner.sample(&sample);
        }
    }
}
