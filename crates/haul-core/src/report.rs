//! What a run did: sums that add up over runs and ranks, and the one sentence that names what limited it.

use std::ops::AddAssign;
use std::time::Duration;

use crate::entry::{Kind, MetaMask};
use crate::error::{Error, ErrorKind};
use crate::store::Place;

/// Failures that are kept in full; beyond that only their number and kinds are, and `--failed-to` has the names.
pub const FAILURES_KEPT: usize = 100;

/// A failure as the report keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub path: Vec<u8>,
    pub op: &'static str,
    pub kind: ErrorKind,
    pub reason: String,
    pub next_step: Option<String>,
}

impl Failure {
    pub fn of(error: &Error) -> Self {
        Failure {
            path: error.path().unwrap_or_default().to_vec(),
            op: error.op(),
            kind: error.kind(),
            reason: error.reason(),
            next_step: error.next_step().map(str::to_string),
        }
    }
}

/// Counts of one thing, by kind of entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    pub files: u64,
    pub dirs: u64,
    pub links: u64,
    pub specials: u64,
}

impl Kinds {
    pub fn add(&mut self, kind: Kind, n: u64) {
        match kind {
            Kind::File | Kind::Unknown => self.files += n,
            Kind::Dir => self.dirs += n,
            Kind::Link => self.links += n,
            _ => self.specials += n,
        }
    }

    pub fn total(&self) -> u64 {
        self.files + self.dirs + self.links + self.specials
    }
}

impl AddAssign for Kinds {
    fn add_assign(&mut self, o: Self) {
        self.files += o.files;
        self.dirs += o.dirs;
        self.links += o.links;
        self.specials += o.specials;
    }
}

/// Work time by kind, summed over workers: with N workers it grows N times as fast as the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub walking: Duration,
    pub reading: Duration,
    pub writing: Duration,
    pub metadata: Duration,
    pub hashing: Duration,
    pub verifying: Duration,
    /// Waiting for `--bwlimit`.
    pub throttled: Duration,
    /// Workers that had nothing to do.
    pub idle: Duration,
    /// Processor time of all threads.
    pub cpu: Duration,
}

impl AddAssign for Times {
    fn add_assign(&mut self, o: Self) {
        self.walking += o.walking;
        self.reading += o.reading;
        self.writing += o.writing;
        self.metadata += o.metadata;
        self.hashing += o.hashing;
        self.verifying += o.verifying;
        self.throttled += o.throttled;
        self.idle += o.idle;
        self.cpu += o.cpu;
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    #[default]
    Complete,
    /// A signal; the journal is kept.
    Interrupted,
    Deadline,
    /// Nothing moved for as long as `--timeout` allows; the journal is kept.
    Timeout,
    /// A failure of the whole run: the first failure says which.
    Stopped,
    /// `--max-delete` would have been passed; nothing was deleted.
    TooManyDeletes,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub ending: Ending,
    pub dry: bool,
    /// Entries found at the source.
    pub found: Kinds,
    /// Entries made or replaced at the destination.
    pub made: Kinds,
    /// Hard links among `made.files`.
    pub hard_links: u64,
    /// What `mv` gave another name, directories with all that is below them.
    pub renamed: Kinds,
    /// Entries that were right already.
    pub kept: Kinds,
    /// Entries of which only attributes were set.
    pub attributes: u64,
    pub deleted: Kinds,
    /// Special files and links that were not asked for.
    pub skipped: Kinds,
    /// Source entries that vanished while the run went on.
    pub vanished: u64,
    pub failed: u64,
    /// Whether any failure was of another kind than vanished; worst first, see `exit.rs`.
    pub failed_kinds: Vec<ErrorKind>,
    pub failures: Vec<Failure>,
    /// Bytes that passed through this run.
    pub bytes: u64,
    /// Sizes of the files in `made`: more than `bytes` where holes, reflinks and resumed chunks moved nothing.
    pub file_bytes: u64,
    /// Bytes landed by an earlier run.
    pub resumed_bytes: u64,
    /// Bytes of changed files that the destination's old versions had.
    pub reused_bytes: u64,
    pub verified_files: u64,
    pub verified_bytes: u64,
    /// How `--verify` read, when it did.
    pub proof: Option<&'static str>,
    /// Number of entries for which each attribute was refused, in the order of `MetaMask::words`.
    pub refused: Vec<(&'static str, u64)>,
    /// For `check`.
    pub missing: u64,
    pub extra: u64,
    pub differing: u64,
    pub retries: u64,
    pub elapsed: Duration,
    pub times: Times,
    pub workers_peak: u32,
    pub workers_end: u32,
    /// Deletes that were called off, and why.
    pub deletes_skipped: Option<String>,
    /// One sentence: what limited the run.
    pub limited_by: String,
}

impl Report {
    pub fn refuse(&mut self, mask: MetaMask) {
        for word in mask.words() {
            self.refuse_n(word, 1);
        }
    }

    fn refuse_n(&mut self, word: &'static str, n: u64) {
        match self.refused.iter_mut().find(|(w, _)| *w == word) {
            Some((_, count)) => *count += n,
            None => self.refused.push((word, n)),
        }
    }

    pub fn fail(&mut self, error: &Error) {
        if error.kind() == ErrorKind::Vanished {
            self.vanished += 1;
        } else {
            self.failed += 1;
        }
        if !self.failed_kinds.contains(&error.kind()) {
            self.failed_kinds.push(error.kind());
        }
        if self.failures.len() < FAILURES_KEPT {
            self.failures.push(Failure::of(error));
        }
    }

    /// Files a second and bytes a second.
    pub fn rates(&self) -> (f64, f64) {
        let seconds = self.elapsed.as_secs_f64().max(1e-9);
        (self.made.files as f64 / seconds, self.bytes as f64 / seconds)
    }
}

impl AddAssign for Report {
    fn add_assign(&mut self, o: Self) {
        if self.ending == Ending::Complete {
            self.ending = o.ending;
        }
        self.dry |= o.dry;
        self.found += o.found;
        self.made += o.made;
        self.hard_links += o.hard_links;
        self.renamed += o.renamed;
        self.kept += o.kept;
        self.attributes += o.attributes;
        self.deleted += o.deleted;
        self.skipped += o.skipped;
        self.vanished += o.vanished;
        self.failed += o.failed;
        for kind in o.failed_kinds {
            if !self.failed_kinds.contains(&kind) {
                self.failed_kinds.push(kind);
            }
        }
        self.failed_kinds.sort();
        let room = FAILURES_KEPT.saturating_sub(self.failures.len());
        self.failures.extend(o.failures.into_iter().take(room));
        self.bytes += o.bytes;
        self.file_bytes += o.file_bytes;
        self.resumed_bytes += o.resumed_bytes;
        self.reused_bytes += o.reused_bytes;
        self.verified_files += o.verified_files;
        self.verified_bytes += o.verified_bytes;
        self.proof = self.proof.or(o.proof);
        for (word, n) in o.refused {
            self.refuse_n(word, n);
        }
        self.missing += o.missing;
        self.extra += o.extra;
        self.differing += o.differing;
        self.retries += o.retries;
        self.elapsed = self.elapsed.max(o.elapsed);
        self.times += o.times;
        self.workers_peak += o.workers_peak;
        self.workers_end += o.workers_end;
        self.deletes_skipped = self.deletes_skipped.take().or(o.deletes_skipped);
        if self.limited_by.is_empty() {
            self.limited_by = o.limited_by;
        }
    }
}

/// What the verdict is made of, beside the report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    pub processors: u32,
    /// `-j` was given.
    pub workers_fixed: bool,
    /// Bytes a second of `--bwlimit`.
    pub limit: Option<f64>,
}

/// The ends that are reached over a network, as the user would write them; `None` for one on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    pub source: Option<String>,
    pub destination: Option<String>,
}

impl Ends {
    pub fn of(source: &Place, destination: &Place) -> Ends {
        let far = |place: &Place| match place.scheme {
            _ if place.endpoint.is_empty() => None,
            "ssh" if !place.endpoint.contains(':') => Some(format!("{}:{}", place.endpoint, crate::entry::show(&place.root))),
            _ => Some(place.words()),
        };
        Ends { source: far(source), destination: far(destination) }
    }
}

/// Names what limited the run, in one sentence, from where the workers' time went. Pure.
pub fn verdict(report: &Report, machine: Machine, ends: &Ends) -> String {
    let t = &report.times;
    let wall = report.elapsed.as_secs_f64();
    if report.dry {
        return "nothing was copied: a dry run".into();
    }
    if wall < 0.05 || report.made.total() + report.kept.total() == 0 {
        return "too short to say what limited it".into();
    }
    let seconds = |d: Duration| d.as_secs_f64();
    let busy = [t.walking, t.reading, t.writing, t.metadata, t.hashing, t.verifying, t.throttled]
        .iter()
        .map(|d| seconds(*d))
        .sum::<f64>()
        .max(1e-9);
    let share = |d: Duration| (seconds(d) / busy * 100.0).round() as u32;
    if seconds(t.throttled) > 0.3 * busy {
        return format!("--bwlimit: workers waited for it {}% of their time", share(t.throttled));
    }
    let cores = seconds(t.cpu) / wall;
    let parts = [
        (t.walking, "looking names up and listing directories"),
        (t.reading, "reading the source"),
        (t.writing, "writing the destination"),
        (t.metadata, "creating files and setting attributes at the destination"),
        (t.hashing, "hashing"),
        (t.verifying, "rereading the destination for --verify"),
    ];
    let (most, what) = parts.iter().max_by_key(|(d, _)| *d).copied().unwrap_or((Duration::ZERO, "nothing"));
    if cores > 0.85 * f64::from(machine.processors) {
        return format!(
            "this machine's processors ({cores:.1} of {} busy), mostly {what} ({}% of the work)",
            machine.processors,
            share(most)
        );
    }
    let far = if most == t.writing { &ends.destination } else { &ends.source };
    let what = match far {
        // Nobody here can tell how much of it was the way.
        Some(far) if most == t.reading || most == t.writing => format!("the network or {far}"),
        _ => what.to_string(),
    };
    if machine.workers_fixed && report.workers_end > 0 && seconds(t.idle) < 0.1 * wall * f64::from(report.workers_end) {
        return format!(
            "waiting on {what} ({}% of the work) with the {} of -j; without -j haul would try more",
            share(most),
            workers(report.workers_end)
        );
    }
    format!(
        "{what}: {}% of the workers' time, with {} and {cores:.1} of {} processors busy",
        share(most),
        workers(report.workers_end.max(1)),
        machine.processors
    )
}

fn workers(n: u32) -> String {
    if n == 1 { "1 worker".into() } else { format!("{n} workers") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran() -> Report {
        let mut r = Report { elapsed: Duration::from_secs(10), workers_end: 8, ..Report::default() };
        r.made.files = 10;
        r.times.writing = Duration::from_secs(60);
        r.times.walking = Duration::from_secs(2);
        r.times.cpu = Duration::from_secs(4);
        r
    }
    const MACHINE: Machine = Machine { processors: 4, workers_fixed: false, limit: None };

    #[test]
    fn the_verdict_names_where_the_time_went() {
        assert!(verdict(&ran(), MACHINE, &Ends::default()).starts_with("writing the destination: 97% of the workers' time"));
        let mut r = ran();
        r.times.cpu = Duration::from_secs(39);
        assert!(verdict(&r, MACHINE, &Ends::default()).starts_with("this machine's processors (3.9 of 4 busy), mostly writing"));
        r.times.throttled = Duration::from_secs(50);
        assert!(verdict(&r, MACHINE, &Ends::default()).starts_with("--bwlimit"));
        let fixed = Machine { workers_fixed: true, ..MACHINE };
        assert!(verdict(&ran(), fixed, &Ends::default()).contains("8 workers of -j"));
    }

    #[test]
    fn over_a_network_the_verdict_does_not_blame_the_disk() {
        let place = |scheme, endpoint: &str| Place { scheme, endpoint: endpoint.into(), volume: String::new(), root: b"/a b\n".to_vec() };
        let (here, host) = (place("local", ""), place("ssh", "ana@cluster"));
        let said = |report: &Report, from: &Place, to: &Place| verdict(report, MACHINE, &Ends::of(from, to));
        assert!(said(&ran(), &here, &host).starts_with("the network or ana@cluster:/a b\\n: 97% of the workers' time"));
        assert!(said(&ran(), &host, &here).starts_with("writing the destination: 97%"));
        let mut read = ran();
        (read.times.reading, read.times.writing) = (read.times.writing, Duration::ZERO);
        assert!(said(&read, &place("ssh", "cluster:2222"), &here).starts_with("the network or ssh://cluster:2222/a b\\n: 97%"));
        read.times.cpu = Duration::from_secs(39);
        assert!(said(&read, &host, &here).contains("busy), mostly reading the source (97% of the work)"));
    }

    #[test]
    fn reports_add_up() {
        let (a, b) = (ran(), ran());
        let mut sum = Report::default();
        sum += a.clone();
        sum += b;
        assert_eq!((sum.made.files, sum.times.writing, sum.elapsed), (20, Duration::from_secs(120), a.elapsed));
        let mut one = a.clone();
        one += Report::default();
        let mut expected = a;
        expected.workers_end = 8;
        assert_eq!(one, expected, "nothing added changes nothing");
    }
}
