//! One point: the engine moves generated files in one direction with a fixed number of workers and connections until the time is
//! over. The receiver counts, by its own clock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use haul_core::cancel::{Cancel, Stop};
use haul_core::engine::{self, Setup};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::job::Job;
use haul_core::journal::{Journal, Progress as Past};
use haul_core::report::{Ending, Report};
use haul_core::store::Store;
use haul_core::tune::{Fixed, Limits};
use haul_ssh::agent::{Load, Pending, Streams};
use serde_json::Value;

use super::limit::Limit;
use super::plan::{Direction, Plan, Point};
use super::remote::{Files, Remote};
use super::{CONTENDER, ROUND_TRIP, load};
use crate::discard::{Counts, Discard};
use crate::files::histogram::Histogram;
use crate::record::{Outcome, Sample};

/// Bytes of a chunk, as copies to and from other machines have it.
const CHUNK: u64 = 4 << 20;
/// How often it is counted.
const EVERY: Duration = Duration::from_millis(200);
/// How often it is looked whether the run is to stop.
const LOOK: Duration = Duration::from_millis(20);
/// Longer than a link may be silent: within it either data arrive, or the link reports its loss.
const SILENCE: Duration = Duration::from_secs(75);
/// How long the host may take to report its counts after the transfer.
const ANSWER: Duration = Duration::from_secs(30);
/// Round trips in which a connection finds its rate: it doubles in each, and begins with ten packets.
const FINDING: u32 = 15;

/// How long one point takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// In which the connections find their rate; it counts for nothing.
    pub warm_up: Duration,
    pub counted: Duration,
}

impl Window {
    /// At least half a second, and fifteen round trips up to ten seconds.
    pub fn of(seconds: Duration, round_trip: Duration) -> Window {
        Window { warm_up: (round_trip * FINDING).clamp(Duration::from_millis(500), Duration::from_secs(10)), counted: seconds }
    }
}

/// Measures `count` round trips one after the other, as a sample.
pub fn round_trips(remote: &Remote<'_>, count: usize, at: String) -> Result<Sample> {
    // The first one warms caches.
    remote.ping()?;
    let begun = Instant::now();
    let (mut times, mut least) = (Histogram::default(), Duration::MAX);
    for _ in 0..count {
        let time = remote.ping()?;
        times.add(time.as_nanos() as u64);
        least = least.min(time);
    }
    Ok(Sample {
        contender: ROUND_TRIP.into(),
        repetition: 1,
        at,
        seconds: Some(begun.elapsed().as_secs_f64()),
        operations: Some(count as u64),
        latency: times.latency(),
        more: [("min_seconds".to_string(), least.as_secs_f64().into())].into(),
        ..Sample::default()
    })
}

pub fn round_trip(samples: &[Sample]) -> Option<&Sample> {
    samples.iter().rfind(|sample| sample.contender == ROUND_TRIP)
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Moment {
    /// Since the run began, by the clock here.
    asked: Duration,
    /// Of the clock of the end that takes the data.
    at: Duration,
    bytes: u64,
    files: u64,
    here: Load,
    there: Option<Load>,
}

/// Measures one point. A failure is in the sample, and is returned too if the host cannot be used any more. `stop` ends it
/// early, with a sample that does not count.
pub fn measure(remote: &Remote<'_>, plan: &Plan, point: Point, window: Window, stop: &Cancel, at: String) -> (Sample, Option<Error>) {
    let mut sample = Sample {
        contender: CONTENDER.into(),
        repetition: point.repetition,
        at,
        factors: point.factors(),
        seconds: None,
        ..Sample::default()
    };
    let failed = match run(remote, plan, point, window, stop, &mut sample) {
        Ok(()) => None,
        Err(e) => {
            (sample.outcome, sample.reason) = (Outcome::Failed, Some(e.reason()));
            Some(e)
        }
    };
    if stop.is_set() {
        (sample.outcome, sample.reason) = (Outcome::Interrupted, None);
        return (sample, None);
    }
    (sample, failed)
}

fn run(remote: &Remote<'_>, plan: &Plan, point: Point, window: Window, stop: &Cancel, sample: &mut Sample) -> Result<()> {
    let streams = remote.sync(point.streams)?;
    let counts = Arc::new(Counts::default());
    let files = Files::of(plan);
    let ((source, target), channels) = match point.direction {
        Direction::Out => {
            let (sink, channels) = remote.sink(point.streams, &counts)?;
            ((files.here(), sink), channels)
        }
        Direction::In => {
            let (source, channels) = remote.source(files, point.streams)?;
            let here: Arc<dyn Store> = Arc::new(Discard::counting(counts.clone()));
            ((source, here), channels)
        }
    };
    let streams = streams.unwrap_or(Streams { links: channels, direct: false });
    let distant = if point.direction == Direction::Out { target.clone() } else { source.clone() };
    let as_it_comes = point.direction == Direction::In && !plan.small;
    let mut moments = Moments { remote, counts: &counts, as_it_comes, begun: Instant::now(), all: Vec::new() };
    let report = move_files(job(point, window, source, target), point.streams, stop, &mut moments)?;
    drain(remote, &distant, stop)?;
    if stop.is_set() {
        return Ok(());
    }
    fill(sample, remote, streams, window, &moments.answered(point.direction, stop)?);
    if let Some(failure) = report.failures.first() {
        let e = Error::new(failure.kind, failure.op).because(failure.reason.clone());
        return Err(failure.next_step.iter().fold(e, |e, next| e.hint(next.clone())));
    }
    match report.ending {
        Ending::Deadline | Ending::Complete if sample.bytes.is_some_and(|bytes| bytes > 0) => Ok(()),
        Ending::Deadline | Ending::Complete => {
            Err(Error::new(ErrorKind::TimedOut, "measure").because("nothing arrived while it was measured"))
        }
        _ => Err(Error::new(ErrorKind::Broken, "measure").because("the run was stopped")),
    }
}

/// Moments, and the answers of the remote end to the questions that were asked at them.
struct Moments<'a> {
    remote: &'a Remote<'a>,
    /// Of the destination here, or of SFTP acknowledgements.
    counts: &'a Counts,
    /// Count bytes as they are received, not as they are written, which is in the order of the bytes in their files.
    as_it_comes: bool,
    begun: Instant,
    all: Vec<(Moment, Option<Pending>)>,
}

impl Moments<'_> {
    fn take(&mut self) -> Result<()> {
        let asked = self.begun.elapsed();
        let pending = self.remote.tally()?;
        let here = load::now();
        let get = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        let received = if self.as_it_comes { self.remote.received() } else { None };
        let bytes = received.unwrap_or_else(|| get(&self.counts.bytes));
        self.all.push((Moment { asked, at: here.at, bytes, files: get(&self.counts.files), here, there: None }, pending));
        Ok(())
    }

    /// The counts of the receiving end. `TimedOut` without an answer after `ANSWER`.
    fn answered(self, direction: Direction, stop: &Cancel) -> Result<Vec<Moment>> {
        let until = Instant::now() + ANSWER;
        let answer = |(mut moment, pending): (Moment, Option<Pending>)| {
            if let Some(pending) = pending {
                await_answer(|| pending.is_answered(), until, stop)?;
                let tally = pending.wait()?;
                moment.there = Some(tally.load);
                if direction == Direction::Out {
                    (moment.at, moment.bytes, moment.files) = (tally.load.at, tally.bytes, tally.files);
                }
            }
            Ok(moment)
        };
        self.all.into_iter().map(answer).collect()
    }
}

/// Waits until there is an answer. `Cancelled` when the run is to stop, `TimedOut` when it takes longer than `until`.
fn await_answer(is_there: impl Fn() -> bool, until: Instant, stop: &Cancel) -> Result<()> {
    while !is_there() {
        stop.check()?;
        if Instant::now() >= until {
            return Err(Error::new(ErrorKind::TimedOut, "measure").because("the host does not report what it has received"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn move_files(job: Job, streams: u32, stop: &Cancel, moments: &mut Moments<'_>) -> Result<Report> {
    let cancel = Cancel::default();
    moments.begun = Instant::now();
    moments.take()?;
    let moments = Mutex::new(moments);
    let over = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut next = Instant::now() + EVERY;
            while !over.load(Ordering::Relaxed) {
                if stop.is_set() {
                    cancel.set(Stop::Signal);
                }
                if Instant::now() >= next {
                    next += EVERY;
                    // The run itself finds out that the host is gone.
                    let _one_moment_less = moments.lock().unwrap_or_else(PoisonError::into_inner).take();
                }
                std::thread::sleep(LOOK);
            }
        });
        let report = engine::run(job, setup(streams, cancel.clone()));
        over.store(true, Ordering::Relaxed);
        report
    });
    Ok(report)
}

fn job(point: Point, window: Window, source: Arc<dyn Store>, target: Arc<dyn Store>) -> Job {
    Job {
        workers: Some(point.streams),
        chunk: CHUNK,
        // A retry would falsify the measurement.
        retries: haul_core::retry::Policy::of(Some(0)),
        deadline: Some(window.warm_up + window.counted),
        ..Job::copying(source, target)
    }
}

fn setup(workers: u32, cancel: Cancel) -> Setup {
    Setup {
        observer: Arc::new(()),
        journal: Journal::none(),
        past: Past::default(),
        cancel,
        tuner: Box::new(Fixed(Limits { workers })),
        most_workers: workers,
        processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        spill: std::env::temp_dir(),
        heartbeat: Box::new(|| {}),
        sentence: String::new(),
        show_progress: Arc::default(),
        team: None,
    }
}

/// Waits until nothing of the run is on its way any more, lest it slows the next down or is counted with it: the workers let go
/// of the store, and what was asked for ahead has come.
fn drain(remote: &Remote<'_>, store: &Arc<dyn Store>, stop: &Cancel) -> Result<()> {
    let (mut last, mut since) = (remote.under_way(), Instant::now());
    while (Arc::strong_count(store) > 1 || remote.under_way() > 0) && !stop.is_set() {
        let now = remote.under_way();
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if since.elapsed() > SILENCE {
            return Err(Error::new(ErrorKind::TimedOut, "measure").because("the host no longer answers"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Fills in the results from the moments after the warm-up.
fn fill(sample: &mut Sample, remote: &Remote<'_>, streams: Streams, window: Window, moments: &[Moment]) {
    let number = |value: f64| Value::from((value * 1e6).round() / 1e6);
    let mut more: Vec<(String, Value)> = vec![
        ("links".into(), streams.links.into()),
        ("route".into(), route(remote, streams).into()),
        ("warm_up_seconds".into(), number(window.warm_up.as_secs_f64())),
    ];
    if let Some(begun) = moments.first() {
        // Behind the end of the run less and less is on its way.
        let in_run = || moments.iter().filter(|m| m.asked <= window.warm_up + window.counted);
        let since = |m: &Moment| m.at.saturating_sub(begun.at);
        sample.series = in_run().map(|m| (since(m).as_secs_f64(), m.bytes.saturating_sub(begun.bytes))).collect();
        let mut counted = in_run().filter(|m| since(m) >= window.warm_up);
        if let (Some(first), Some(last)) = (counted.next(), counted.next_back()) {
            let (seconds, bytes) = (last.at.saturating_sub(first.at).as_secs_f64(), last.bytes.saturating_sub(first.bytes));
            (sample.seconds, sample.bytes, sample.files) = (Some(seconds), Some(bytes), Some(last.files.saturating_sub(first.files)));
            let here = load::since(&last.here, &first.here);
            let there = last.there.zip(first.there).map(|(last, first)| load::since(&last, &first));
            sample.limited_by = Some(Limit::of(&here, there.as_ref(), streams).word().into());
            for (side, used) in [("here", Some(here)), ("there", there)] {
                let Some(used) = used else { continue };
                // By the clock of that machine; the time that was counted is about the same.
                more.push((format!("{side}_cpu_seconds"), number(used.own.as_secs_f64())));
                more.push((format!("{side}_ssh_seconds"), number(used.ssh.as_secs_f64())));
                more.extend(load::share(&used).map(|share| (format!("{side}_busy"), number(share))));
            }
        }
    }
    sample.more = more.into_iter().collect();
}

fn route(remote: &Remote<'_>, streams: Streams) -> &'static str {
    match remote {
        Remote::Agent(_) if streams.direct => "direct",
        Remote::Agent(_) => "ssh",
        Remote::Sftp(_) => "sftp",
        Remote::Ftp(..) => "ftp",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_never_comes_is_not_waited_for_for_ever() {
        let (now, stop) = (Instant::now(), Cancel::default());
        assert!(await_answer(|| true, now, &stop).is_ok());
        assert_eq!(await_answer(|| false, now, &stop).unwrap_err().kind(), ErrorKind::TimedOut);
        stop.set(Stop::Signal);
        assert_eq!(await_answer(|| false, now + Duration::from_secs(600), &stop).unwrap_err().kind(), ErrorKind::Cancelled);
    }

    #[test]
    fn a_long_way_has_a_long_warm_up() {
        let of = |millis| Window::of(Duration::from_secs(5), Duration::from_millis(millis)).warm_up;
        assert_eq!((of(0), of(100), of(60_000)), (Duration::from_millis(500), Duration::from_millis(1500), Duration::from_secs(10)));
    }
}
