//! What every stage may use: the job and its planner, and groups of which a stage takes what it needs.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cancel::Cancel;
use crate::entry::{Entry, Kind, MetaMask, Name, OwnerNames};
use crate::event::{Observer, Warning};
use crate::job::{Job, Links, Mode, ModeChange};
use crate::journal::{Journal, Progress as Past};
use crate::meter::Meter;
use crate::plan::Planner;
use crate::schedule::{BundleLimit, DirWork};
use crate::store::Store;

use super::alias_probe::AliasProbe;
use super::clock::Clock;
use super::digest::Digests;
use super::hardlinks::HardLinks;
use super::identity::Identity;
use super::owners::Owners;
use super::post_pass::PostPass;
use super::ranks::Ranks;
use super::reporter::Reporter;
use super::step::Step;
use super::task::{Scheduler, Task};

/// Files up to this size travel in bundles: read and written whole, by one call each.
pub const SMALL: u64 = 256 << 10;

/// Does one task and takes it off the scheduler's books. `true` if nothing is left to do.
pub type Perform = fn(&Arc<Context>, Task) -> bool;

pub struct Context {
    pub job: Arc<Job>,
    pub planner: Planner,
    pub out: Reporter,
    pub clock: Clock,
    pub ends: Identity,
    pub alias: AliasProbe,
    pub cancel: Cancel,
    pub meter: Arc<Meter>,
    pub journal: Journal,
    pub past: Past,
    /// Whether an earlier run left bundles unfinished; asked for every name, so kept apart.
    pub past_intents: bool,
    pub sched: Scheduler,
    /// For a task that has to make room in the queues before it can go on.
    pub perform: Perform,
    hard: Mutex<HardLinks>,
    pub post_pass: PostPass,
    /// Names of listings that are held in memory at this moment.
    pub sorting: Arc<AtomicUsize>,
    pub spill: PathBuf,
    pub owners: Owners,
    pub step: Step,
    /// That files with several names are not written in place was said.
    pub in_place_refused: AtomicBool,
    gap_reported: AtomicBool,
    pub digests: Digests,
    /// The others, where several processes do this job.
    pub ranks: Option<Ranks>,
}

/// What an earlier run left, and where this one keeps what may be left of it.
pub struct Records {
    pub journal: Journal,
    pub past: Past,
    /// Where what grows is spilled to.
    pub spill: PathBuf,
}

impl Context {
    pub fn new(job: Job, observer: Arc<dyn Observer>, records: Records, cancel: Cancel, ranks: Option<Ranks>, perform: Perform) -> Self {
        let Records { journal, past, spill } = records;
        let caps = job.target.caps().clone();
        // Where names cannot share a file, each gets one of its own.
        let (hard, specials) = (job.links.hard && caps.hard_links, job.links.specials && caps.specials);
        // Special files that it cannot have are skipped and counted.
        let links = Links { hard, specials, ..job.links };
        // A source goes on the evidence of its copy, not on the word of a write.
        let verify = job.verify || job.remove_source;
        let job = Arc::new(Job { sparse: job.sparse && caps.holes, links, verify, ..job });
        let sources = || job.roots.iter().map(|root| root.store.caps());
        let resolution =
            sources().map(|source| source.attributes.mtime_resolution).max().unwrap_or_default().max(caps.attributes.mtime_resolution);
        let ranges = sources().map(|source| source.attributes.mtime_range);
        let range = ranges.fold(caps.attributes.mtime_range, |(first, last), other| (first.max(other.0), last.min(other.1)));
        let keep = job.keep.and(caps.attributes.sets);
        let planner = Planner {
            policy: job.policy,
            resolution,
            cuts: caps.attributes.mtime_resolution.is_zero(),
            range,
            keep,
            link_sets: caps.attributes.link_sets,
            groups: caps.attributes.groups.clone(),
            compares_only: job.mode == Mode::Check,
        };
        let bundle = BundleLimit {
            bytes: sources().map(|source| source.tuning.bundle_bytes).fold(caps.tuning.bundle_bytes, usize::min) as u64,
            files: sources().map(|source| source.tuning.bundle_files).fold(caps.tuning.bundle_files, usize::min),
        };
        let slow = job.limit.is_some() || caps.remote || sources().any(|source| source.remote);
        Context {
            out: Reporter::new(&job, observer, cancel.clone()),
            clock: Clock::start(),
            ends: Identity::of(job.clone()),
            alias: AliasProbe::default(),
            meter: Arc::new(Meter::new(cancel.clone(), ranks.as_ref().map_or(job.limit, |ranks| ranks.share_limit(job.limit)))),
            past_intents: past.any_unfinished(),
            sched: Scheduler::new(bundle, job.workers.unwrap_or(2), &spill),
            perform,
            post_pass: PostPass::new(&spill),
            sorting: Arc::default(),
            planner,
            cancel,
            journal,
            past,
            hard: Mutex::default(),
            spill,
            in_place_refused: AtomicBool::new(false),
            gap_reported: AtomicBool::new(false),
            digests: Digests::default(),
            owners: Owners::of(job.clone()),
            step: Step::new(slow),
            ranks,
            job,
        }
    }

    pub fn source(&self, work: &DirWork) -> &dyn Store {
        &*self.job.roots[work.root].store
    }

    pub fn target(&self) -> &dyn Store {
        &*self.job.target
    }

    pub fn writes(&self) -> bool {
        !self.job.dry && self.job.mode == Mode::Copy
    }

    /// Where directories are only parts of names there is nothing to make.
    pub fn makes_dirs(&self) -> bool {
        self.writes() && self.target().caps().dirs
    }

    /// Directories of the destination are nothing but parts of names: they have no attributes, and an empty one is not there.
    pub fn made_of_names(&self) -> bool {
        !self.target().caps().dirs && !self.target().caps().markers
    }

    /// Whether directories have something that their attributes can be given to.
    pub fn keeps_dirs(&self) -> bool {
        self.writes() && (self.target().caps().dirs || self.target().caps().markers)
    }

    /// What is set on a name that exists: not extended attributes of which the source says nothing, as objects of other tools do.
    pub fn to_set(&self, entry: &Entry) -> MetaMask {
        let asked = self.planner.keep.and(MetaMask::ACL.with(MetaMask::XATTR));
        self.job.keep.without(asked.without(entry.have))
    }

    /// Whether a directory of this source gets something that carries its attributes: not one that is only a part of keys, where the
    /// destination's are nothing else.
    pub fn marks(&self, root: usize, entry: &Entry) -> bool {
        self.target().caps().dirs || !(self.job.roots[root].store.caps().markers && entry.is_implied())
    }

    /// Whether markers of this source are copied like objects.
    fn copies_markers(&self, root: usize) -> bool {
        self.target().caps().markers && self.job.roots[root].store.caps().markers
    }

    /// Whether a directory that is at both ends has a marker at the source alone, which is copied even if it says nothing of attributes.
    pub fn lacks_marker(&self, root: usize, entry: &Entry, target: &Entry) -> bool {
        // A whole bucket, which cannot have one, counts as implied.
        self.copies_markers(root) && entry.version != 0 && target.version == 0 && !target.is_implied()
    }

    /// Whether markers of this source are given what the options of the destination ask for.
    pub fn refreshes_markers(&self, root: usize) -> bool {
        self.copies_markers(root) && self.job.mode == Mode::Copy && self.target().extensions().options.are_set()
    }

    /// Whether the destination copies a file of this size by itself. With `--verify` the content passes through here, unless both ends compute
    /// digests of it; a move trusts one system that holds both ends, but not what passed between two.
    pub fn copies(&self, work: &DirWork, size: u64) -> bool {
        let within = self.target().extensions().server_side.copies(self.source(work), size);
        let trusted = !self.verifies_copies() || self.digests.are_shared(self.source(work), self.target());
        within && self.writes() && self.job.backup.is_none() && trusted && !self.job.links.follow
    }

    /// Whether what the destination copies by itself is to be verified.
    pub fn verifies_copies(&self) -> bool {
        self.job.verify && !(self.job.remove_source && self.target().caps().copies)
    }

    /// Whether a small file that is to be verified keeps its staging name until then, so that what it replaces stands.
    pub fn holds(&self, target: &Entry) -> bool {
        self.job.verify
            && self.job.keep.has(MetaMask::MODE)
            && self.target().caps().direct_create
            && self.target().extensions().unfinished.staging(target).is_some()
    }

    /// Warns once, before the first file is replaced, where a reader may find neither the old file nor the new one.
    pub fn warn_of_gap(&self) {
        if !self.target().caps().atomic_commit && !self.gap_reported.swap(true, Ordering::Relaxed) {
            let words = "the destination cannot replace files atomically: each updated file is absent for a moment";
            self.out.warn(Warning::Note(words.to_string()));
        }
    }

    pub fn hard(&self) -> MutexGuard<'_, HardLinks> {
        self.hard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name that a source entry gets at the destination.
    pub fn target_name(&self, name: &Name) -> Name {
        match &self.job.rename {
            Some(leaf) if name.dir.is_root() => Name::new(&name.dir, leaf),
            _ => name.clone(),
        }
    }

    pub fn target_leaf<'a>(&'a self, name: &'a Name) -> &'a [u8] {
        match &self.job.rename {
            Some(leaf) if name.dir.is_root() => leaf,
            _ => &name.leaf,
        }
    }

    /// Maps owners to the destination's numbers, applies `--chmod` and `--chown`, and gives a directory the time that it had before an
    /// interrupted move: once for each entry that comes from a root.
    pub fn transform(&self, root: usize, entry: &mut Entry) {
        if entry.kind == Kind::Dir
            && let Some(mtime) = self.past.dir_time(|| entry.name.path())
        {
            entry.mtime = mtime;
        }
        if let Some(first) = self.owners.map(root, entry) {
            self.out.warn(Warning::SetIdLeft(first));
        }
        self.override_attributes(entry);
    }

    pub fn override_attributes(&self, entry: &mut Entry) {
        if let Some((uid, gid)) = self.job.owner {
            if let Some(names) = entry.owners.take() {
                let kept = |name: &[u8], id: Option<u32>| if id.is_none() { name.into() } else { Box::default() };
                entry.owners = OwnerNames::of(kept(&names.user, uid), kept(&names.group, gid));
            }
            entry.uid = uid.unwrap_or(entry.uid);
            entry.gid = gid.unwrap_or(entry.gid);
            // What was asked for is known, also of a source that has no owners.
            let known = |id: Option<u32>, class| if id.is_some() { class } else { MetaMask::NONE };
            entry.have = entry.have.with(known(uid, MetaMask::OWNER)).with(known(gid, MetaMask::GROUP));
        }
        let is_dir = entry.kind == Kind::Dir;
        let means = |change: &ModeChange| if is_dir { change.dirs } else { change.files };
        if (is_dir || entry.kind == Kind::File || entry.kind.is_special()) && self.job.chmod.iter().any(means) {
            entry.mode = ModeChange::apply(&self.job.chmod, entry.mode, is_dir);
            entry.have = entry.have.with(MetaMask::MODE);
        }
    }
}
