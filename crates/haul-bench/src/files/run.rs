//! The cases one after the other, and in each the operations one after the other, each by all threads together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use haul_core::cancel::Cancel;
use haul_core::error::{Error, ErrorKind, Result};
use serde_json::Value;

use super::operation::{Operation, Step, steps};
use super::pattern::Pattern;
use super::place::{Layout, Place, Shape, Task};
use super::settings::{Case, Settings};
use super::thread::{Common, Gate, LOOK};
use super::window::{Tally, Window};
use crate::record::{Outcome, Sample};

/// How long threads may take to stop; one in a call to a dead mount never does.
const GRACE: Duration = Duration::from_secs(10);
/// Why there is no number where the time was over before anything was done.
const NOTHING: &str = "no operation ended within the time; give --duration more or --file-size less";
/// How long the threads are given to wake up before they begin together, and how long more for each.
const AWAKE: Duration = Duration::from_millis(1);
const AWAKE_EACH: Duration = Duration::from_micros(20);

#[derive(Debug)]
pub enum Event<'a> {
    /// The `number`-th of `of` cases begins, from 1.
    Case {
        case: Case,
        repetition: u32,
        number: usize,
        of: usize,
    },
    /// Files are made for an operation that comes next.
    Preparing(Operation),
    Measured(&'a Measured),
    /// The time limit passed before all files were made for the next operation.
    Short {
        operation: Operation,
        reached: u64,
        asked: u64,
    },
    /// An operation has no files: the one before it reached none within its time.
    Nothing(Operation),
}

#[derive(Debug)]
pub struct Measured {
    pub operation: Operation,
    pub case: Case,
    /// From 1.
    pub repetition: u32,
    /// RFC 3339, UTC.
    pub at: String,
    /// Files of each thread; of the first one where they differ.
    pub each: u64,
    pub asked: u64,
    pub tally: Tally,
    /// How long the window was open.
    pub seconds: f64,
    /// It closed because the time was over.
    pub limited: bool,
    pub interrupted: bool,
    pub failure: Option<Error>,
    /// Processor time of the threads within the window, in user mode and in the kernel, seconds; `None` where other threads
    /// do the work for them.
    pub processor: Option<(f64, f64)>,
}

impl Measured {
    /// The share of the files that count, from 0 to 1.
    pub fn share(&self) -> f64 {
        self.tally.files as f64 / self.asked.max(1) as f64
    }

    pub fn factors(operation: Operation, case: Case, each: u64) -> BTreeMap<String, Value> {
        let factors: [(&str, Value); 5] = [
            ("operation", operation.word().into()),
            ("threads", case.threads.into()),
            ("file_size", case.size.into()),
            ("same_dir", if case.same_dir { "Y" } else { "N" }.into()),
            ("file_count", each.into()),
        ];
        factors.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    pub fn sample(&self) -> Sample {
        let (outcome, reason) = match &self.failure {
            _ if self.interrupted => (Outcome::Interrupted, None),
            None if self.tally.files == 0 && self.tally.requests == 0 => (Outcome::Failed, Some(NOTHING.into())),
            None => (Outcome::Ok, None),
            Some(e) => {
                let outcome = if self.tally.wrong > 0 { Outcome::Wrong } else { Outcome::Failed };
                (outcome, Some(format!("{} failed, the first: {e}", self.tally.failures)))
            }
        };
        let more: [(&str, Value); 5] = [
            ("asked_files", self.asked.into()),
            ("share", self.share().into()),
            ("whole_files", (self.tally.reached - self.tally.failures.min(self.tally.reached)).into()),
            ("whole_seconds", self.tally.whole().into()),
            ("limited_by_duration", self.limited.into()),
        ];
        Sample {
            contender: self.operation.word().into(),
            repetition: self.repetition,
            at: self.at.clone(),
            factors: Self::factors(self.operation, self.case, self.each),
            outcome,
            reason,
            seconds: Some(self.seconds),
            files: Some(self.tally.files),
            bytes: self.operation.moves_bytes().then_some(self.tally.bytes),
            operations: Some(self.tally.requests),
            user: self.processor.map(|(user, _)| user),
            system: self.processor.map(|(_, system)| system),
            caches: Some("not dropped".into()),
            latency: self.tally.times.latency(),
            series: self.tally.series.sums(),
            more: more.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
            ..Sample::default()
        }
    }
}

/// All threads of one operation, each as it ended.
struct Worked {
    parts: Vec<(u32, Tally)>,
    /// Of the window.
    end: u64,
    failure: Option<Error>,
    limited: bool,
}

struct Work<'a> {
    place: &'a Arc<dyn Place>,
    settings: &'a Settings,
    case: Case,
    layout: Arc<Layout>,
    pattern: Arc<Pattern>,
    cancel: &'a Cancel,
}

impl Work<'_> {
    /// With the first files of each thread, as many as `usable` says.
    fn operate(&self, operation: Operation, shape: Shape, usable: &[u64]) -> Result<Worked> {
        let mut shape = shape;
        if operation.writes() {
            // The pattern is that of the content to be written.
            shape.after(operation);
        }
        let common = Arc::new(Common {
            operation,
            files_per_dir: self.layout.files_per_dir,
            clock: Instant::now(),
            window: Window::default(),
            gate: Gate::default(),
            cancel: self.cancel.clone(),
        });
        let active: Vec<(u32, u64)> = usable.iter().enumerate().filter(|(_, n)| **n > 0).map(|(at, n)| (at as u32, *n)).collect();
        let mut runners = Vec::new();
        for (thread, _) in &active {
            let (layout, pattern) = (self.layout.clone(), self.pattern.clone());
            runners.push(self.place.runner(Task { thread: *thread, operation, shape, manner: self.settings.manner, layout, pattern })?);
        }
        let (to, from) = mpsc::channel();
        let mut begun = 0;
        for ((thread, count), mut runner) in active.iter().copied().zip(runners) {
            let (shared, to) = (common.clone(), to.clone());
            let work = move || {
                let (tally, failure) = shared.work(&mut *runner, count);
                // Nobody listens to a thread that took too long to stop.
                let _heard = to.send((thread, tally, failure));
            };
            if let Err(e) = std::thread::Builder::new().name(format!("bench-{thread}")).spawn(work) {
                common.gate.deadline.store(0, Ordering::Relaxed);
                common.gate.open(0, self.cancel, || {});
                return Err(Error::io(e, "start a thread").hint("ask for fewer --threads"));
            }
            begun += 1;
        }
        let limit = self.settings.limit.map_or(u64::MAX, |limit| limit.as_nanos().min(u128::from(u64::MAX / 2)) as u64);
        common.gate.open(begun, self.cancel, || {
            let start = common.now() + (AWAKE + AWAKE_EACH * begun as u32).as_nanos() as u64;
            let deadline = start.saturating_add(limit);
            common.gate.start.store(start, Ordering::Relaxed);
            common.gate.deadline.store(deadline, Ordering::Relaxed);
            common.window.close(deadline);
        });
        drop(to);
        let (mut parts, mut failure, mut cancelled) = (Vec::new(), None, None);
        while parts.len() < begun {
            match from.recv_timeout(LOOK) {
                Ok((thread, tally, error)) => {
                    parts.push((thread, tally));
                    failure = failure.or(error);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let since: &mut Instant = match self.cancel.is_set() {
                        true => cancelled.get_or_insert_with(Instant::now),
                        false => continue,
                    };
                    if since.elapsed() > GRACE {
                        let reason = format!("{} of {begun} threads are stuck in {}", begun - parts.len(), operation.word());
                        return Err(Error::new(ErrorKind::TimedOut, "stop").at(self.place.words().as_bytes()).because(reason));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::new(ErrorKind::Other, operation.word()).because("a thread ended without a result"));
                }
            }
        }
        let asked: u64 = usable.iter().sum();
        let reached: u64 = parts.iter().map(|(_, tally)| tally.reached).sum();
        let limited = reached < asked && failure.is_none() && !self.cancel.is_set();
        Ok(Worked { parts, end: common.window.end(), failure, limited })
    }
}

/// Measures all cases and repetitions, except those that `have` knows. The place is emptied before each case. `Cancelled` after
/// `each` has received the operation that was under way; `TimedOut` when a thread could not be stopped.
pub fn run(
    place: &Arc<dyn Place>,
    settings: &Settings,
    cancel: &Cancel,
    have: &dyn Fn(Operation, Case, u64, u32) -> bool,
    each: &mut dyn FnMut(Event<'_>) -> Result<()>,
) -> Result<()> {
    let plan = steps(&settings.operations);
    let cases = settings.cases();
    let of = cases.len() * settings.repeat as usize;
    for repetition in 1..=settings.repeat {
        for (at, case) in cases.iter().copied().enumerate() {
            let layout = Arc::new(settings.layout(case));
            let files = layout.counts.first().copied().unwrap_or(0);
            let known = |op, shape| have(op, sized(case, op, shape), files, repetition);
            let mut shape = Shape::new(case.size);
            let is_known = |step: &Step| {
                let known = !matches!(step, Step::Measure(op) if !known(*op, shape));
                shape.after(match step {
                    Step::Clear => Operation::Create,
                    Step::Prepare(op) | Step::Measure(op) => *op,
                });
                known
            };
            if plan.iter().all(is_known) {
                continue;
            }
            each(Event::Case { case, repetition, number: (repetition as usize - 1) * cases.len() + at + 1, of })?;
            let pattern = Arc::new(Pattern::new(settings.record_of(case.size)));
            let work = Work { place, settings, case, layout, pattern, cancel };
            work.case(&plan, repetition, &known, each)?;
        }
    }
    Ok(())
}

/// What is appended to files is read, too.
fn sized(case: Case, operation: Operation, shape: Shape) -> Case {
    Case { size: if operation == Operation::Read { shape.whole() } else { case.size }, ..case }
}

impl Work<'_> {
    fn case(
        &self,
        plan: &[Step],
        repetition: u32,
        known: &dyn Fn(Operation, Shape) -> bool,
        each: &mut dyn FnMut(Event<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut shape = Shape::new(self.case.size);
        let mut usable = self.layout.counts.clone();
        self.place.clear(self.cancel)?;
        self.place.lay(&self.layout)?;
        for step in plan {
            self.cancel.check()?;
            let (operation, counted) = match step {
                Step::Clear => {
                    self.place.clear(self.cancel)?;
                    self.place.lay(&self.layout)?;
                    usable.clone_from(&self.layout.counts);
                    shape.after(Operation::Create);
                    continue;
                }
                Step::Prepare(operation) => (*operation, false),
                Step::Measure(operation) => (*operation, !known(*operation, shape)),
            };
            if operation == Operation::Create {
                usable.clone_from(&self.layout.counts);
            }
            if usable.iter().sum::<u64>() == 0 {
                each(Event::Nothing(operation))?;
                continue;
            }
            if !counted {
                each(Event::Preparing(operation))?;
            }
            let at = format!("{:.3}", jiff::Timestamp::now());
            let worked = self.operate(operation, shape, &usable)?;
            let asked = usable.iter().sum();
            let case = sized(self.case, operation, shape);
            shape.after(operation);
            let mut parts = worked.parts.into_iter();
            let Some((thread, mut all)) = parts.next() else { continue };
            let mut reached = vec![0; usable.len()];
            reached[thread as usize] = all.reached;
            for (thread, tally) in parts {
                reached[thread as usize] = tally.reached;
                all.merge(&tally);
            }
            if !operation.only_looks() {
                // After a time limit only the first files are as the next operation needs them.
                usable = reached;
            }
            if !counted {
                if let Some(e) = worked.failure {
                    return Err(e);
                }
                if worked.limited {
                    each(Event::Short { operation, reached: all.reached, asked })?;
                }
                continue;
            }
            let measured = Measured {
                operation,
                case,
                repetition,
                at,
                each: self.layout.counts.first().copied().unwrap_or(0),
                asked,
                seconds: all.seconds(worked.end),
                processor: self.place.works_in_thread().then_some(all.processor),
                tally: all,
                limited: worked.limited,
                interrupted: self.cancel.is_set(),
                failure: worked.failure,
            };
            each(Event::Measured(&measured))?;
        }
        self.cancel.check()
    }
}
