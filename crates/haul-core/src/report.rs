//! What a run did: sums that add up over runs and ranks. What limited it is judged in `verdict.rs`.

use std::ops::{AddAssign, SubAssign};
use std::time::Duration;

use crate::bundle::Spent;
use crate::entry::{Kind, MetaMask};
use crate::error::{Error, ErrorKind};
use crate::hint::Hint;
use crate::limiter::Limiter;
use crate::option_set::OptionSet;
use crate::pace::Pace;
use crate::spread::RankWork;
use crate::store::RemoteWork;
use crate::verdict::Curve;

/// Failures that are kept in full; beyond that only their number and kinds are, and the events have the names.
pub const FAILURES_KEPT: usize = 100;

/// A failure as the report keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub path: Vec<u8>,
    pub op: &'static str,
    pub kind: ErrorKind,
    pub reason: String,
    pub next_step: Option<String>,
    /// The same as data, where it takes an option of the program.
    pub code: Option<Hint>,
}

impl Failure {
    pub fn of(error: &Error) -> Self {
        Failure {
            path: error.path().unwrap_or_default().to_vec(),
            op: error.op(),
            kind: error.kind(),
            reason: error.reason(),
            next_step: error.next_step().map(str::to_string),
            code: error.code().cloned(),
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

impl SubAssign for Kinds {
    fn sub_assign(&mut self, o: Self) {
        self.files -= o.files;
        self.dirs -= o.dirs;
        self.links -= o.links;
        self.specials -= o.specials;
    }
}

/// Work time by kind, summed over workers: with N workers it grows N times as fast as the clock.
///
/// Every moment of a worker is in one of these, but for `source_listing` and `target_listing`, which are parts of `walking`,
/// and for `cpu` and `queued`, which run beside them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Listing, looking up and planning.
    pub walking: Duration,
    /// Of `walking`: waiting for listings and look-ups of the source.
    pub source_listing: Duration,
    /// Of `walking`: the same of the destination.
    pub target_listing: Duration,
    /// Opening files at the source and reading their attributes.
    pub opening: Duration,
    pub reading: Duration,
    pub writing: Duration,
    /// Reading and writing in one call of the system that holds both ends: nobody here can tell them apart.
    pub copying: Duration,
    /// Making files and directories and setting attributes at the destination.
    pub metadata: Duration,
    /// Renames, links and removals that make way for a name or stand for its copy.
    pub effects: Duration,
    /// Hashing, and comparing what a changed file has in common with its old version.
    pub hashing: Duration,
    /// Reading the destination back.
    pub verifying: Duration,
    /// What calls took longer than the other machine worked on them, where it says how long that was.
    pub network: Duration,
    /// Waiting for the rate that is allowed.
    pub throttled: Duration,
    /// Workers that had nothing to do.
    pub idle: Duration,
    /// Processor time of all threads.
    pub cpu: Duration,
    /// Time in which threads could have run and had no processor, where the kernel tells.
    pub queued: Duration,
}

impl Times {
    /// All that workers did or waited for within a task.
    pub fn busy(&self) -> Duration {
        let reads = self.opening + self.reading + self.copying + self.hashing;
        self.walking + reads + self.writing + self.metadata + self.effects + self.verifying + self.network + self.throttled
    }
}

/// What moving bytes took. The meter counts what was throttled.
impl From<Spent> for Times {
    fn from(s: Spent) -> Times {
        Times { reading: s.reading, writing: s.writing, copying: s.copying, metadata: s.metadata, hashing: s.hashing, ..Times::default() }
    }
}

impl AddAssign for Times {
    fn add_assign(&mut self, o: Self) {
        self.walking += o.walking;
        self.source_listing += o.source_listing;
        self.target_listing += o.target_listing;
        self.opening += o.opening;
        self.reading += o.reading;
        self.writing += o.writing;
        self.copying += o.copying;
        self.metadata += o.metadata;
        self.effects += o.effects;
        self.hashing += o.hashing;
        self.verifying += o.verifying;
        self.network += o.network;
        self.throttled += o.throttled;
        self.idle += o.idle;
        self.cpu += o.cpu;
        self.queued += o.queued;
    }
}

/// Why deletes were called off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// Something could not be listed or copied; so many names that only the destination has were left.
    Impaired { names: u64 },
    /// More names than are allowed would be deleted; none was.
    TooMany { allowed: u64, names: u64 },
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    #[default]
    Complete,
    /// A signal; the journal is kept.
    Interrupted,
    Deadline,
    /// Nothing moved for as long as is allowed; the journal is kept.
    Timeout,
    /// A failure of the whole run: the first failure says which.
    Stopped,
    /// More would have been deleted than is allowed; nothing was.
    TooManyDeletes,
}

impl Ending {
    /// As JSON has it.
    pub fn word(self) -> &'static str {
        match self {
            Ending::Complete => "complete",
            Ending::Interrupted => "interrupted",
            Ending::Deadline => "deadline",
            Ending::Timeout => "timeout",
            Ending::Stopped => "stopped",
            Ending::TooManyDeletes => "too-many-deletes",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub ending: Ending,
    pub dry: bool,
    /// Entries found at the source.
    pub found: Kinds,
    /// Entries made or replaced at the destination.
    pub made: Kinds,
    /// Those of them in whose place something was.
    pub replaced: Kinds,
    /// Hard links among `made.files`.
    pub hard_links: u64,
    /// What `mv` gave another name, directories with all that is below them.
    pub renamed: Kinds,
    /// Entries that were right already.
    pub kept: Kinds,
    /// Entries of which only attributes were set.
    pub attributes: u64,
    /// Number of these that lacked each option of the destination, by its word.
    pub options_set: Vec<(&'static str, u64)>,
    pub deleted: Kinds,
    /// Entries that a move left at the source: what the policy keeps, and directories that are not empty.
    pub left: Kinds,
    /// Special files and links that were not asked for, and what the policy leaves as it is.
    pub skipped: Kinds,
    /// Number of the latter.
    pub passed_over: u64,
    /// Source entries that vanished while the run went on.
    pub vanished: u64,
    pub failed: u64,
    /// Whether any failure was of another kind than vanished; worst first, see `exit.rs`.
    pub failed_kinds: Vec<ErrorKind>,
    /// The source is on a read-only file system, and something was to be deleted there.
    pub read_only_source: bool,
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
    /// How verification read, when it did.
    pub proof: Option<&'static str>,
    /// Number of entries for which each attribute was refused, in the order of `MetaMask::words`.
    pub refused: Vec<(&'static str, u64)>,
    /// Of these, entries of which they were refused for want of permission.
    pub denied: Vec<(&'static str, u64)>,
    /// For `check`.
    pub missing: u64,
    pub extra: u64,
    pub differing: u64,
    pub retries: u64,
    pub elapsed: Duration,
    pub times: Times,
    pub workers_peak: u32,
    pub workers_end: u32,
    /// Deletes were called off.
    pub deletes_skipped: Option<Skipped>,
    /// How busy the workers were over the run.
    pub pace: Pace,
    /// What each of several ranks did, in their order; this process alone has at most itself.
    pub ranks: Vec<RankWork>,
    /// What more workers of all ranks together brought, where that was measured.
    pub curve: Option<Curve>,
    /// What the other machine did for the source and for the destination, where there is one that says.
    pub remote_source: Option<RemoteWork>,
    pub remote_destination: Option<RemoteWork>,
    pub limiter: Limiter,
    /// One sentence: what limited the run.
    pub limited_by: String,
    /// What to try next, the most promising first.
    pub next: Vec<String>,
}

impl Report {
    pub fn refuse(&mut self, mask: MetaMask) {
        mask.words().into_iter().for_each(|word| count_word(&mut self.refused, word, 1));
        if mask.has(MetaMask::DENIED) {
            let denied = mask.and(MetaMask::MODE.with(MetaMask::MTIME));
            denied.words().into_iter().for_each(|word| count_word(&mut self.denied, word, 1));
        }
    }

    /// Entries made where nothing was.
    pub fn created(&self) -> Kinds {
        let Kinds { files, dirs, links, specials } = self.replaced;
        let made = self.made;
        Kinds {
            files: made.files.saturating_sub(files),
            dirs: made.dirs.saturating_sub(dirs),
            links: made.links.saturating_sub(links),
            specials: made.specials.saturating_sub(specials),
        }
    }

    /// Entries that were right already, and those that the policy leaves.
    pub fn leave(&mut self, kept: Kinds, passed_over: Kinds) {
        self.kept += kept;
        self.skipped += passed_over;
        self.passed_over += passed_over.total();
    }

    /// One entry of which only attributes are set, and options.
    pub fn set_attributes(&mut self, options: OptionSet) {
        self.attributes += 1;
        options.words().into_iter().for_each(|word| count_word(&mut self.options_set, word, 1));
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

    /// Those of all ranks, of which each has `own`.
    pub fn processors(&self, own: u32) -> u32 {
        if self.ranks.len() > 1 { self.ranks.iter().map(|work| work.processors).sum() } else { own }
    }

    /// Files a second and bytes a second.
    pub fn rates(&self) -> (f64, f64) {
        let seconds = self.elapsed.as_secs_f64().max(1e-9);
        (self.made.files as f64 / seconds, self.bytes as f64 / seconds)
    }
}

fn count_word(counts: &mut Vec<(&'static str, u64)>, word: &'static str, n: u64) {
    match counts.iter_mut().find(|(known, _)| *known == word) {
        Some((_, count)) => *count += n,
        None => counts.push((word, n)),
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
        o.options_set.into_iter().for_each(|(word, n)| count_word(&mut self.options_set, word, n));
        self.deleted += o.deleted;
        self.left += o.left;
        self.skipped += o.skipped;
        self.passed_over += o.passed_over;
        self.vanished += o.vanished;
        self.failed += o.failed;
        for kind in o.failed_kinds {
            if !self.failed_kinds.contains(&kind) {
                self.failed_kinds.push(kind);
            }
        }
        self.failed_kinds.sort();
        self.read_only_source |= o.read_only_source;
        let room = FAILURES_KEPT.saturating_sub(self.failures.len());
        self.failures.extend(o.failures.into_iter().take(room));
        self.bytes += o.bytes;
        self.file_bytes += o.file_bytes;
        self.resumed_bytes += o.resumed_bytes;
        self.reused_bytes += o.reused_bytes;
        self.verified_files += o.verified_files;
        self.verified_bytes += o.verified_bytes;
        self.proof = self.proof.or(o.proof);
        o.refused.into_iter().for_each(|(word, n)| count_word(&mut self.refused, word, n));
        o.denied.into_iter().for_each(|(word, n)| count_word(&mut self.denied, word, n));
        self.missing += o.missing;
        self.extra += o.extra;
        self.differing += o.differing;
        self.retries += o.retries;
        self.elapsed = self.elapsed.max(o.elapsed);
        self.times += o.times;
        self.workers_peak += o.workers_peak;
        self.workers_end += o.workers_end;
        self.deletes_skipped = self.deletes_skipped.take().or(o.deletes_skipped);
        if self.pace.is_empty() {
            self.pace = o.pace;
        }
        self.ranks.extend(o.ranks);
        self.ranks.sort_by_key(|work| work.rank);
        self.curve = self.curve.or(o.curve);
        self.remote_source = self.remote_source.or(o.remote_source);
        self.remote_destination = self.remote_destination.or(o.remote_destination);
        if self.limited_by.is_empty() {
            (self.limiter, self.limited_by, self.next) = (o.limiter, o.limited_by, o.next);
        }
    }
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
