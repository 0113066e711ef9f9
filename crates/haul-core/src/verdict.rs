//! What limited a run, from where its time went, and what to try next. Pure: a report in, words out.
//!
//! The order of the questions is the order of how sure the answers are:
//!
//! ```text
//! nothing to judge? -> the rate limit? -> processors, here or there? -> a slow node, a full file system, uneven ranks?
//!                   -> too little work (one file, a straggler, few files)? -> too few workers as asked for? -> the kind of work that took the largest share
//! ```

mod advice;
mod balance;
mod stage;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use crate::limiter::Limiter;
pub use balance::{Balance, Curve, FLAT, balance};
pub use stage::{Share, Stage, shares};

use crate::entry::show;
use crate::hint::Choice;
use crate::pace::Alone;
use crate::report::Report;
use crate::store::{AddressForm, Place, RemoteWork};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub limiter: Limiter,
    /// Goes behind "Bottleneck:".
    pub sentence: String,
    /// What to try, the most promising first; never empty.
    pub next: Vec<String>,
}

/// What the verdict is made of, beside the report.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    pub processors: u32,
    /// The user said how many.
    pub workers_fixed: bool,
    /// Bytes a second that were allowed.
    pub limit: Option<f64>,
    /// What options are called.
    pub names: fn(Choice) -> &'static str,
}

/// The two ends of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    pub source: End,
    pub destination: End,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// As the user would type it, without credentials.
    pub words: String,
    /// Where it is reached over a network; `None` for one on this machine.
    pub remote: Option<RemoteHost>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteHost {
    /// The host, with user and port where they were given; the endpoint of a service.
    pub host: String,
    pub ssh: bool,
}

impl End {
    fn of(place: &Place) -> End {
        let ssh = place.form == AddressForm::Host;
        let words = match ssh && !place.endpoint.contains(':') {
            true => format!("{}:{}", place.endpoint, show(&place.root)),
            false => place.words(),
        };
        let remote = (!place.endpoint.is_empty()).then(|| RemoteHost { host: place.endpoint.clone(), ssh });
        End { words, remote }
    }
}

impl Ends {
    pub fn of(source: &Place, destination: &Place) -> Ends {
        Ends { source: End::of(source), destination: End::of(destination) }
    }
}

/// Below this a share of the run limits nothing: what it hides is larger.
const ALONE: f64 = 0.6;
/// A tail of one file is what limited a run from here on: without it the run would have been a third shorter.
const TAIL: f64 = 0.34;
/// The bytes of a file that is smaller in the mean are sent at once: 64 KiB take 5 ms at 100 Mbit/s.
const TINY: u64 = 64 << 10;
/// With more workers than this a user means it.
const FEW_WORKERS: u32 = 8;

/// Seconds of a run in which start and end weigh as much as what it did.
const SHORT: f64 = 0.5;

/// Names what limited the run. Pure.
pub fn verdict(report: &Report, machine: Machine, ends: &Ends) -> Verdict {
    let facts = Facts::of(report, machine, ends);
    let (limiter, sentence) = find_limiter(&facts);
    Verdict { limiter, sentence, next: advice::next(limiter, &facts) }
}

/// What the questions are asked of.
struct Facts<'a> {
    report: &'a Report,
    machine: Machine,
    ends: &'a Ends,
    /// Seconds.
    wall: f64,
    /// Processors that were busy, and those that were wanted.
    cores: f64,
    wanted: f64,
    shares: Vec<Share>,
}

impl<'a> Facts<'a> {
    fn of(report: &'a Report, machine: Machine, ends: &'a Ends) -> Self {
        let wall = report.elapsed.as_secs_f64().max(1e-9);
        let cores = report.times.cpu.as_secs_f64() / wall;
        let wanted = cores + report.times.queued.as_secs_f64() / wall;
        Facts { report, machine, ends, wall, cores, wanted, shares: shares(report) }
    }

    fn name(&self, choice: Choice) -> &'static str {
        (self.machine.names)(choice)
    }

    /// The kind of work with the largest share.
    fn most(&self) -> Share {
        self.shares.first().copied().unwrap_or(Share { stage: Stage::Planning, time: Duration::ZERO, share: 0.0 })
    }

    fn share_of(&self, stage: Stage) -> f64 {
        self.shares.iter().find(|share| share.stage == stage).map_or(0.0, |share| share.share)
    }

    fn part(&self, of: Duration) -> f64 {
        of.as_secs_f64() / self.wall
    }

    fn workers(&self) -> u32 {
        self.report.workers_end.max(1)
    }

    fn end(&self, stage: Stage) -> &'a End {
        if stage.is_source() { &self.ends.source } else { &self.ends.destination }
    }

    fn remote_work(&self, stage: Stage) -> Option<RemoteWork> {
        if stage.is_source() { self.report.remote_source } else { self.report.remote_destination }
    }

    /// Whether anything was made, removed or set at the destination.
    fn changed(&self) -> bool {
        let r = self.report;
        r.made.total() + r.renamed.total() + r.deleted.total() + r.hard_links + r.attributes > 0
    }

    /// The remote hosts' names, for what lies between.
    fn hosts(&self) -> String {
        let host = |end: &'a End| end.remote.as_ref().map(|remote| remote.host.as_str());
        match (host(&self.ends.source), host(&self.ends.destination)) {
            (Some(a), Some(b)) if a != b => format!("{a} and {b}"),
            (Some(a), _) | (None, Some(a)) => a.to_string(),
            (None, None) => "the other end".into(),
        }
    }

    /// Whether that end takes or gives a whole file by one request, and files are so small that this is what they cost.
    fn are_requests(&self, stage: Stage) -> bool {
        let files = self.report.made.files;
        let service = self.end(stage).remote.as_ref().is_some_and(|remote| !remote.ssh);
        service && files > 0 && self.report.file_bytes / files < TINY
    }

    /// The kind of work in words, and what it is if it is the limit.
    fn words(&self, stage: Stage) -> (Limiter, String) {
        let remote = self.end(stage).remote.is_some();
        let at = if remote { format!(" {}", self.end(stage).words) } else { String::new() };
        let told = self.remote_work(stage).is_some();
        match stage {
            Stage::SourceReads | Stage::DestinationWrites if !told && self.are_requests(stage) => {
                let mean = bytes(self.report.file_bytes / self.report.made.files);
                (Limiter::Requests, format!("request latency of{at}, one request per file ({mean} on average)"))
            }
            Stage::SourceReads if remote && !told => (Limiter::NetworkOrSource, format!("the network or {}", self.ends.source.words)),
            Stage::DestinationWrites if remote && !told => {
                (Limiter::NetworkOrDestination, format!("the network or {}", self.ends.destination.words))
            }
            Stage::SourceReads => (Limiter::SourceReads, format!("reading the source{at}")),
            Stage::DestinationWrites => (Limiter::DestinationWrites, format!("writing the destination{at}")),
            Stage::SourceMetadata => (Limiter::SourceMetadata, format!("metadata operations at the source{at}")),
            Stage::DestinationMetadata if !self.changed() => {
                (Limiter::DestinationMetadata, format!("listing and looking up names at the destination{at}"))
            }
            Stage::DestinationMetadata => (Limiter::DestinationMetadata, format!("metadata operations at the destination{at}")),
            Stage::Network => (Limiter::Network, format!("the network to {}", self.hosts())),
            Stage::Copying if remote => (Limiter::Copying, format!("server-side copy at {}", self.ends.destination.words)),
            Stage::Copying => (Limiter::Copying, "in-kernel copy".into()),
            Stage::Hashing => (Limiter::Hashing, "hashing and comparing content".into()),
            Stage::Verifying if self.report.verified_files > 0 => {
                (Limiter::Verifying, format!("rereading the destination{at} for {}", self.name(Choice::Verify)))
            }
            Stage::Verifying => (Limiter::Verifying, format!("reading the destination{at} for comparison")),
            Stage::Planning => (Limiter::Processors, "sorting and comparing names".into()),
            Stage::Throttled => (Limiter::Limit, self.name(Choice::Limit).into()),
        }
    }
}

fn find_limiter(facts: &Facts<'_>) -> (Limiter, String) {
    let Facts { report, wall, .. } = facts;
    if report.dry {
        return (Limiter::DryRun, "dry run: nothing was copied".into());
    }
    let anything = report.made.total() + report.kept.total() + report.passed_over + report.deleted.total() + report.bytes;
    if *wall < SHORT || anything == 0 {
        return (Limiter::TooShort, "run too short for analysis".into());
    }
    let throttled = facts.share_of(Stage::Throttled);
    if throttled > 0.3 {
        return (
            Limiter::Limit,
            format!("{}, which throttled workers for {} of their time", facts.name(Choice::Limit), percent(throttled)),
        );
    }
    processors(facts)
        .or_else(|| ranks(facts))
        .or_else(|| little_work(facts))
        .or_else(|| few_workers(facts))
        .unwrap_or_else(|| largest(facts))
}

/// What held the ranks up together.
fn ranks(facts: &Facts<'_>) -> Option<(Limiter, String)> {
    let all = &facts.report.ranks;
    let (_, what) = facts.words(facts.most().stage);
    let mostly = format!("mostly {what} ({} of the work)", percent(facts.most().share));
    match balance(all, facts.report.curve) {
        Balance::Even => None,
        Balance::Uneven { rank, node, busy } => {
            let (most, median) = (seconds(busy.max), seconds(busy.median));
            let sentence = format!("uneven work: rank {rank} on {node} was busy for {most}, the median rank for {median}; {mostly}");
            Some((Limiter::Imbalance, sentence))
        }
        Balance::SlowNode { node, factor } => {
            let sentence = format!("a slow node: {node} takes {factor:.1} times as long as the median node for the same work, {mostly}");
            Some((Limiter::SlowNode, sentence))
        }
        Balance::Saturated(Curve { fewer, more, gain }) => {
            let gained = match gain {
                gain if gain < 1.0 => format!("{} less", percent(1.0 - gain)),
                gain => format!("only {} more", percent(gain - 1.0)),
            };
            let sentence = format!("a saturated file system: {more} workers on all ranks transferred {gained} than {fewer}, {mostly}");
            Some((Limiter::Saturated, sentence))
        }
    }
}

fn processors(facts: &Facts<'_>) -> Option<(Limiter, String)> {
    let most = facts.most();
    let (_, what) = facts.words(most.stage);
    let here = f64::from(facts.machine.processors);
    if facts.wanted > 0.85 * here {
        let limiter = if most.stage == Stage::Hashing { Limiter::Hashing } else { Limiter::Processors };
        let others = match facts.cores < 0.7 * here {
            true => format!(", {} waiting for CPU", seconds(facts.report.times.queued)),
            false => String::new(),
        };
        let busy = format!("{:.1} of {} cores used by haul{others}", facts.cores, facts.machine.processors);
        let whose = if facts.report.ranks.len() > 1 { "all ranks" } else { "this machine" };
        return Some((limiter, format!("CPU of {whose} ({busy}), mostly {what} ({} of the work)", percent(most.share))));
    }
    for (work, end) in [(facts.report.remote_source, &facts.ends.source), (facts.report.remote_destination, &facts.ends.destination)] {
        let Some((work, remote)) = work.zip(end.remote.as_ref()) else { continue };
        let cores = work.cpu.as_secs_f64() / facts.wall;
        if work.processors > 0 && cores > 0.85 * f64::from(work.processors) {
            let sentence = format!("CPU of {} ({cores:.1} of {} cores used by haul)", remote.host, work.processors);
            return Some((Limiter::RemoteProcessors, sentence));
        }
    }
    None
}

/// Workers that had nothing to do because there was nothing left but what others were doing.
fn little_work(facts: &Facts<'_>) -> Option<(Limiter, String)> {
    let pace = &facts.report.pace;
    // Of several ranks, only the first one's is known.
    if facts.report.ranks.len() > 1 {
        return None;
    }
    let (_, what) = facts.words(facts.most().stage);
    let allowed = !facts.machine.workers_fixed || facts.workers() > 1;
    let mostly = format!("mostly {what} ({} of the work)", percent(facts.most().share));
    // A stream has no size, and no other worker could have helped with it.
    if let Some(file) = pace.file.as_ref().filter(|file| file.size > 0) {
        let (alone, since) = (facts.part(file.alone), facts.part(file.since));
        if alone > ALONE && since > 0.8 {
            let while_alone = format!("{} was the only work left for {} of the run", named(file), percent(alone));
            return Some((Limiter::OneFile, format!("a single large file: {while_alone}, {mostly}")));
        }
        // One worker alone always ends with a last file.
        if alone > TAIL && allowed {
            let sentence = format!("one last file: {} was the only work left for {} of the run, {mostly}", named(file), percent(alone));
            return Some((Limiter::Straggler, sentence));
        }
    }
    let tail = pace.tail.as_secs_f64();
    let busy = if tail > 0.0 { pace.tail_work / tail } else { 0.0 };
    let peak = f64::from(facts.report.workers_peak.max(4));
    if facts.part(pace.tail) > ALONE && busy <= peak / 2.0 && allowed {
        let lasted = percent(facts.part(pace.tail));
        let sentence = format!("too little work: for {lasted} of the run only {busy:.1} workers on average were busy, {mostly}");
        return Some((Limiter::FewFiles, sentence));
    }
    None
}

/// Whether more workers than the user allows would most likely have gained: those there are only wait.
fn few_workers(facts: &Facts<'_>) -> Option<(Limiter, String)> {
    let workers = facts.workers();
    let idle = facts.report.times.idle.as_secs_f64();
    let supplied = facts.part(facts.report.pace.hungry + facts.report.pace.tail) < 0.5;
    let waits = facts.wanted < 0.5 * f64::from(workers.min(facts.machine.processors));
    if !facts.machine.workers_fixed || workers > FEW_WORKERS || !supplied || !waits || idle > 0.25 * facts.wall * f64::from(workers) {
        return None;
    }
    let (most, count) = (facts.most(), workers_words(workers));
    let (_, what) = facts.words(most.stage);
    let (name, share) = (facts.name(Choice::Workers), percent(most.share));
    let sentence = format!("{name}: {count}, waiting for {what} ({share} of the work); without {name} haul would try more");
    Some((Limiter::Workers, sentence))
}

fn largest(facts: &Facts<'_>) -> (Limiter, String) {
    let most = facts.most();
    let (limiter, what) = facts.words(most.stage);
    let workers = workers_words(facts.workers());
    let way = match facts.remote_work(Stage::Network).or(facts.report.remote_destination).and_then(|work| work.round_trip) {
        Some(trip) if most.stage == Stage::Network => format!(", round trip {}", milliseconds(trip)),
        _ => String::new(),
    };
    let sentence = format!(
        "{what}: {} of the workers' time, with {workers} and {:.1} of {} cores busy{way}",
        percent(most.share),
        facts.cores,
        facts.machine.processors
    );
    (limiter, sentence)
}

/// The file's own name and its size.
fn named(file: &Alone) -> String {
    let leaf = file.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    format!("{} ({})", show(leaf), bytes(file.size))
}

fn percent(share: f64) -> String {
    format!("{}%", (share * 100.0).round())
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", units[unit]) }
}

fn workers_words(n: u32) -> String {
    if n == 1 { "1 worker".into() } else { format!("{n} workers") }
}
