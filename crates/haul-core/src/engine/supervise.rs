//! The calling thread of a run: starts workers, ticks the tuner, shows progress, flushes the journal, and watches signals, the
//! deadline, free space and stalls.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crate::cancel::Stop;
use crate::entry::Kind;
use crate::event::{Event, Progress, Warning};
use crate::forecast::Forecast;
use crate::limits;
use crate::pace::{Alone, Moment, Watch};
use crate::report::Report;
use crate::rlimit;
use crate::schedule::{Batches, Standing};
use crate::spread::RankWork;
use crate::store::Store;
use crate::team::message::Counts;
use crate::tune::{CostMeter, Demand, Limits, Op, Tuner};

use super::clock::{process_cpu, run_delay};
use super::context::Context;
use super::ranks::Ranks;
use super::space::shortage;
use super::workers::{self, Shared, guarded, ring};

const TICK_EARLY: Duration = Duration::from_millis(20);
const TICK: Duration = Duration::from_millis(100);
/// How long a stop waits for workers that are in a system call.
const GRACE: Duration = Duration::from_millis(700);
/// A server that has answered within this time is near.
const NEAR: Duration = Duration::from_millis(5);
/// Silence after which a run is called stalled.
const STALL: Duration = Duration::from_secs(10);

pub struct Supervisor {
    cx: Arc<Context>,
    tuner: Box<dyn Tuner>,
    cost: CostMeter,
    most: u32,
    processors: u32,
    /// Of the workers of all ranks.
    share: u32,
    shared: Arc<Shared>,
    spawned: u32,
    limits: Limits,
    peak: u32,
    heartbeat: Box<dyn FnMut() + Send>,
    show_progress: Arc<AtomicBool>,
    next: Timetable,
    rate: Rate,
    forecast: Forecast,
    pulse: (u64, Instant),
    stalled: bool,
    /// Workers have been given their grace.
    drained: bool,
    cpu_at_start: Duration,
    queued_at_start: Duration,
    queued: Duration,
    watch: Watch,
    /// No end of the job is round trips away.
    is_local: bool,
    /// Those that are have answered at once.
    servers_are_near: bool,
}

struct Timetable {
    tick: Instant,
    show: Instant,
    flush: Instant,
    beat: Instant,
    space: Instant,
}

/// Bytes and files over about the last five seconds.
#[derive(Default)]
struct Rate {
    points: std::collections::VecDeque<(Instant, u64, u64)>,
}

impl Rate {
    fn now(&mut self, at: Instant, bytes: u64, files: u64) -> (f64, f64) {
        self.points.push_back((at, bytes, files));
        while self.points.len() > 2 && self.points[1].0 + Duration::from_secs(5) < at {
            self.points.pop_front();
        }
        let Some((since, b, f)) = self.points.front() else { return (0.0, 0.0) };
        let seconds = at.duration_since(*since).as_secs_f64();
        if seconds < 0.05 {
            return (0.0, 0.0);
        }
        (bytes.saturating_sub(*b) as f64 / seconds, files.saturating_sub(*f) as f64 / seconds)
    }
}

impl Supervisor {
    pub fn start(
        cx: Arc<Context>,
        tuner: Box<dyn Tuner>,
        (most, processors): (u32, u32),
        heartbeat: Box<dyn FnMut() + Send>,
        show_progress: Arc<AtomicBool>,
    ) -> Self {
        let now = Instant::now();
        let room = limits::most_workers().unwrap_or(u32::MAX);
        if room < most && cx.job.workers.is_some() {
            cx.out.warn(Warning::Note(format!("workers limited to {room} by address space and open files (ulimit -v, -n)")));
        }
        let is_local = servers(&cx).next().is_none();
        let mut supervisor = Supervisor {
            is_local,
            servers_are_near: false,
            cx,
            tuner,
            cost: CostMeter::new(),
            most: most.clamp(1, room),
            processors,
            share: u32::MAX,
            shared: Arc::default(),
            spawned: 0,
            limits: Limits { workers: 1 },
            peak: 0,
            heartbeat,
            show_progress,
            next: Timetable { tick: now, show: now, flush: now, beat: now, space: now + Duration::from_secs(1) },
            rate: Rate::default(),
            forecast: Forecast::default(),
            pulse: (0, now),
            stalled: false,
            drained: false,
            cpu_at_start: process_cpu(),
            queued_at_start: run_delay(),
            queued: Duration::ZERO,
            watch: Watch::default(),
        };
        supervisor.tick();
        supervisor
    }

    /// Keeps the run going until there is nothing left to do; `false` if it was stopped before.
    pub fn until_idle(&mut self, phase: &'static str) -> bool {
        let cx = self.cx.clone();
        self.until(phase, || cx.sched.standing().idle)
    }

    /// Keeps the run going until something has happened; `false` if it was stopped before.
    pub fn until(&mut self, phase: &'static str, mut happened: impl FnMut() -> bool) -> bool {
        loop {
            if happened() {
                return !self.cx.cancel.is_set();
            }
            if !self.turn(phase) {
                return false;
            }
        }
    }

    /// Runs something outside the pool, with the display and the signals alive. `false` if stopped.
    pub fn aside(&mut self, phase: &'static str, work: fn(&Arc<Context>)) -> bool {
        let (cx, shared) = (self.cx.clone(), self.shared.clone());
        let done = Arc::new(AtomicBool::new(false));
        let finish = done.clone();
        let perform = move || {
            guarded(&cx, || cx.out.timed(|times| &mut times.metadata, || work(&cx)));
            shared.aside.fetch_sub(1, Ordering::Release);
            finish.store(true, Ordering::Release);
            ring(&shared);
        };
        // Counted from here on, so that a stop waits for it as for any worker.
        self.shared.aside.fetch_add(1, Ordering::Acquire);
        let handle = rlimit::spawn("aside", perform.clone());
        if handle.is_err() {
            // No thread can be had for it: it is done here, without a display.
            perform();
        }
        // Nothing wakes this thread when the other one ends, which is later than its work.
        while handle.is_ok() && !done.load(Ordering::Acquire) {
            if !self.turn(phase) {
                return false;
            }
        }
        // A file that the aside work queued is moved before the next thing.
        self.until_idle(phase)
    }

    /// One turn of the watch. `false`: the run is to stop and has been given its grace.
    fn turn(&mut self, phase: &'static str) -> bool {
        let began = self.cx.clock.began.elapsed();
        if self.cx.job.deadline.is_some_and(|deadline| began >= deadline) {
            self.cx.cancel.set(Stop::Deadline);
        }
        if self.cx.cancel.is_set() {
            self.cx.sched.close();
            self.drain();
            return false;
        }
        let now = Instant::now();
        if now >= self.next.tick {
            self.tick();
            self.next.tick = now + if began < Duration::from_secs(2) { TICK_EARLY } else { TICK };
        }
        if now >= self.next.flush {
            self.cx.journal.flush();
            if let Some(trouble) = self.cx.journal.trouble() {
                self.cx.out.warn(Warning::NoJournal(trouble));
            }
            self.next.flush = now + Duration::from_millis(200);
        }
        if let Some(ranks) = &self.cx.ranks {
            ranks.watch(&self.cx, now, || (self.counts(), self.work(ranks)));
        }
        if now >= self.next.beat {
            (self.heartbeat)();
            self.next.beat = now + Duration::from_secs(5);
        }
        if now >= self.next.show || self.show_progress.swap(false, Ordering::Relaxed) {
            self.show(now, phase);
            self.next.show = now + Duration::from_millis(150);
        }
        if now >= self.next.space {
            self.watch_space();
            self.next.space = now + Duration::from_secs(1);
        }
        let until = self.next.tick.min(self.next.show).saturating_duration_since(now);
        let (woken, wake) = &self.shared.wake;
        let woken = woken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = wake.wait_timeout_while(woken, until.max(Duration::from_millis(1)), |woken| !*woken);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
        true
    }

    /// What wakes this thread.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn tick(&mut self) {
        let samples = self.cx.clock.take_samples();
        for sample in &samples {
            self.tuner.sample(sample);
            self.cost.sample(sample);
        }
        let standing = self.cx.sched.standing();
        let demand =
            Demand { queued: standing.queued, busy: self.shared.busy.load(Ordering::Relaxed), throttled: self.cx.meter.is_throttling() };
        self.watch_pace(standing, demand.busy);
        self.share_workers();
        self.share_limit();
        let is_near = |store: &dyn Store| store.extensions().latency.is_some_and(|latency| latency < NEAR);
        if !self.is_local && !self.servers_are_near && servers(&self.cx).all(is_near) {
            self.servers_are_near = true;
            self.tuner.servers_are_near(self.cx.clock.began.elapsed());
        }
        let limits = self.tuner.tick(self.cx.clock.began.elapsed(), demand);
        let workers = limits.workers.clamp(1, self.most).min(self.share);
        if workers != self.limits.workers {
            self.limits = Limits { workers };
            self.cx.out.observer.on(&Event::Tuned(self.limits));
        }
        self.peak = self.peak.max(workers);
        // Where a call costs round trips, it costs them once for however many entries it carries.
        let is_local = self.is_local;
        let batch = |op, most| if is_local { self.cost.entries_at_once(op, most) } else { most };
        let (files, names, dirs) = (batch(Op::Bundle, 1000), batch(Op::Walk, 1000), batch(Op::Dirs, 64));
        self.cx.sched.set_limits(workers, Batches { files, names, dirs });
        while self.spawned < workers {
            match workers::spawn(&self.cx, &self.shared, self.spawned) {
                Ok(()) => self.spawned += 1,
                Err(e) if self.spawned == 0 => {
                    // Without any worker nothing would ever be done.
                    self.cx.out.fail(&e, Kind::Unknown);
                    self.cx.cancel.set(Stop::Failure);
                    break;
                }
                Err(e) => {
                    self.most = self.spawned;
                    self.cx.out.warn(Warning::Note(format!("workers limited to {}: {}", self.most, e.reason())));
                    break;
                }
            }
        }
    }

    /// Keeps to this rank's share of `--bwlimit`.
    fn share_limit(&self) {
        let Some(ranks) = self.cx.ranks.as_ref().filter(|ranks| ranks.leads()) else { return };
        ranks.limit(&self.cx, || self.work(ranks));
    }

    /// Keeps to this rank's share of the workers of all ranks, which rank 0 tunes unless the user has said how many there are.
    fn share_workers(&mut self) {
        let Some(ranks) = self.cx.ranks.as_ref().filter(|_| self.cx.job.workers.is_none()) else { return };
        if ranks.leads() && !self.cx.meter.is_throttling() {
            ranks.tune(&self.cx, || self.work(ranks));
        }
        let share = ranks.most_workers();
        if share != self.share {
            self.tuner.limit(share);
            self.share = share;
        }
    }

    fn watch_pace(&mut self, standing: Standing, busy: u32) {
        let queued = standing.queued > 0;
        let file = if Watch::wants_file(busy, queued, standing.walked) { self.cx.clock.slowest() } else { None };
        let moment = Moment {
            workers: self.limits.workers,
            busy,
            queued,
            walked: standing.walked,
            bytes: self.cx.meter.moved(),
            file: file.map(|f| Alone { path: f.path, size: f.size, since: f.since, alone: Duration::ZERO }),
        };
        self.watch.observe(self.cx.clock.began.elapsed(), moment);
    }

    fn show(&mut self, now: Instant, phase: &'static str) {
        let progress = self.progress(now, phase);
        let pulse = self.cx.out.tally.pulse.load(Ordering::Relaxed) + progress.moved_bytes + progress.found + self.cx.meter.hashed();
        // Other ranks may be at work where this one has nothing to do; who is stuck says so itself.
        let waits = self.cx.ranks.is_some() && self.cx.sched.running() == 0;
        if pulse != self.pulse.0 || waits {
            self.pulse = (pulse, now);
            self.stalled = false;
        }
        let idle = now.duration_since(self.pulse.1);
        let progress = Progress { idle, ..progress };
        if self.cx.job.timeout.is_some_and(|most| idle >= most) && !self.cx.meter.is_throttling() {
            self.cx.cancel.set(Stop::Timeout);
        }
        if idle >= STALL && !self.stalled && !self.cx.meter.is_throttling() {
            self.stalled = true;
            let waiting_for = match &progress.slowest {
                Some(flight) => format!("{} of {}", flight.doing, crate::entry::show(&flight.path)),
                None => phase.to_string(),
            };
            self.cx.out.warn(Warning::Stalled { seconds: idle.as_secs(), waiting_for });
        }
        self.cx.out.observer.on(&Event::Progress(&progress));
    }

    /// How far this process is.
    pub fn counts(&self) -> Counts {
        let tally = &self.cx.out.tally;
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let (planned, done) = ([get(&tally.planned_files), get(&tally.planned_bytes)], [get(&tally.done_files), self.cx.meter.moved()]);
        [get(&tally.found), planned[0], planned[1], done[0], done[1], get(&tally.resumed_bytes), get(&tally.kept), get(&tally.failed)]
    }

    /// What this rank has done so far.
    pub fn work(&self, ranks: &Ranks) -> RankWork {
        let report = self.cx.out.report();
        let (bytes, busy, workers) = (self.cx.meter.moved(), self.watch.pace.active, self.limits.workers);
        let elapsed = self.cx.clock.began.elapsed();
        RankWork { elapsed, bytes, busy, workers, ..ranks.work(&report, self.processors) }
    }

    fn progress(&mut self, now: Instant, phase: &'static str) -> Progress {
        // Before the counts: what is planned in between would be missing in totals that are final.
        let walk_done = self.cx.sched.standing().walked;
        let mut counts = self.counts();
        if let Some(ranks) = self.cx.ranks.as_ref().filter(|ranks| ranks.leads()) {
            counts.iter_mut().zip(ranks.counts()).for_each(|(own, others)| *own += others);
        }
        let spread = self.cx.ranks.as_ref().filter(|ranks| ranks.leads()).and_then(|ranks| ranks.spread(self.work(ranks)));
        let [found, planned_files, planned_bytes, files, bytes, resumed_bytes, kept, failed] = counts;
        let (rate_now, files_now) = self.rate.now(now, bytes, files);
        let elapsed = self.cx.clock.began.elapsed();
        self.forecast.observe(elapsed, bytes, files);
        Progress {
            elapsed,
            found,
            planned_files,
            planned_bytes,
            done_files: files,
            moved_bytes: bytes,
            resumed_bytes,
            kept,
            failed,
            walk_done,
            workers: self.limits.workers,
            rate_now,
            files_now,
            cost: self.forecast.cost(),
            slowest: self.cx.clock.slowest(),
            phase,
            idle: Duration::ZERO,
            spread,
        }
    }

    /// Warns once if what the walk has found cannot fit. Queried on a thread of its own: a dead mount never answers.
    fn watch_space(&self) {
        if !self.cx.writes() || self.shared.warned_space.load(Ordering::Relaxed) || self.shared.measuring.swap(true, Ordering::Acquire) {
            return;
        }
        let (cx, shared) = (self.cx.clone(), self.shared.clone());
        let asked = rlimit::spawn("space", move || {
            if let Ok(Some(space)) = cx.target().extensions().system.space()
                && let Some(short) = shortage(&cx, space)
                && !shared.warned_space.swap(true, Ordering::Relaxed)
            {
                cx.out.warn(short);
            }
            shared.measuring.store(false, Ordering::Release);
        });
        if asked.is_err() {
            self.shared.measuring.store(false, Ordering::Release);
        }
    }

    /// Waits for workers to come back, but not for one that is stuck in a system call, and that only once.
    fn drain(&mut self) {
        if std::mem::replace(&mut self.drained, true) {
            return self.cx.journal.flush();
        }
        let until = Instant::now() + GRACE;
        let under_way = || self.cx.sched.running() > 0 || self.shared.aside.load(Ordering::Acquire) > 0;
        while under_way() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.cx.journal.flush();
    }

    pub fn stop(&mut self) {
        let now = Instant::now();
        self.show(now, "done");
        self.watch_pace(self.cx.sched.standing(), self.shared.busy.load(Ordering::Relaxed));
        // Asked while the threads are there: what they waited goes with them.
        self.queued = run_delay().saturating_sub(self.queued_at_start);
        self.cx.sched.close();
        self.drain();
    }

    /// What only the supervisor knows of a run.
    pub fn measure(&mut self, report: &mut Report) {
        report.pace = std::mem::take(&mut self.watch.pace);
        report.times.queued = self.queued;
        report.elapsed = self.cx.clock.began.elapsed();
        report.bytes = self.cx.meter.arrived();
        report.retries = self.cx.out.tally.retries.load(Ordering::Relaxed);
        report.workers_peak = self.peak;
        report.workers_end = self.limits.workers;
        report.times.throttled = self.cx.meter.throttled();
        report.times.idle = Duration::from_nanos(self.shared.idle.load(Ordering::Relaxed));
        report.times.cpu = process_cpu().saturating_sub(self.cpu_at_start);
        if self.cx.job.verify && report.verified_files > 0 {
            report.proof = Some(self.cx.target().caps().proof.words_with(self.cx.digests.verified(), report.verified_files));
        }
    }
}

/// The ends of the job that are not on this machine.
fn servers(cx: &Context) -> impl Iterator<Item = &dyn Store> {
    cx.job.roots.iter().map(|root| &*root.store).chain([cx.target()]).filter(|store| store.caps().remote)
}
