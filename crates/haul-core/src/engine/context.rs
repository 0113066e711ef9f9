//! What every stage may use, and nothing else.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::cancel::{Cancel, Stop};
use crate::entry::{Dir, Entry, Kind, MetaMask, Name, OwnerNames};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Action, Event, InFlight, Observer, Warning, Why};
use crate::job::{Job, Links, Mode, ModeChange, Pick};
use crate::journal::{Journal, Progress as Past};
use crate::meter::Meter;
use crate::plan::Planner;
use crate::report::{Report, Times};
use crate::retry::{Again, Scope, Tries};
use crate::schedule::{DirWork, Scheduler};
use crate::store::{Found, Store, WriteStyle};
use crate::tune::{Op, Sample};

use super::hardlinks::HardLinks;
use super::late::Late;

/// Files up to this size travel in bundles: read and written whole, by one call each.
pub const SMALL: u64 = 256 << 10;

pub struct Context {
    pub job: Job,
    pub planner: Planner,
    pub observer: Arc<dyn Observer>,
    /// Whether the observer wants to hear of names that are left as they are.
    pub wants_keep: bool,
    pub wants_items: bool,
    pub cancel: Cancel,
    pub meter: Meter,
    pub journal: Journal,
    pub past: Past,
    /// Whether an earlier run left bundles unfinished; asked for every name, so kept apart.
    pub past_intents: bool,
    pub sched: Scheduler,
    pub tally: Tally,
    pub report: Mutex<Report>,
    pub samples: Mutex<Vec<Sample>>,
    pub began: Instant,
    pub flights: Mutex<HashMap<u64, Arc<Flight>>>,
    pub hard: Mutex<HardLinks>,
    pub late: Late,
    pub sorting: super::listing::Sorting,
    pub spill: PathBuf,
    /// Something could not be listed or copied: nothing is deleted.
    pub impaired: AtomicBool,
    /// Both ends are one system, so that equal device and inode mean the same file.
    pub same_system: bool,
    /// Both ends are reached in the same way, so that different devices are different file systems.
    pub same_host: bool,
    /// The device of the destination's root, where it is known.
    target_device: OnceLock<Option<u64>>,
    /// The device of the destination's directory that was asked for last, by its id.
    last_device: Mutex<Option<(u64, Option<u64>)>>,
    /// Device and inode of what is copied, as far as the destination's system has the same.
    source_roots: OnceLock<Vec<(u64, u64)>>,
    in_place_refused: AtomicBool,
    next_flight: AtomicU64,
    pub(super) owners: super::owners::Owners,
    pub(super) step: super::step::Step,
}

/// Counters for the display, and for noticing that nothing moves.
#[derive(Debug, Default)]
pub struct Tally {
    pub found: AtomicU64,
    pub planned_files: AtomicU64,
    pub planned_bytes: AtomicU64,
    /// Of these, those of files that are compared before they move, and have not been found to differ.
    pub compared_bytes: AtomicU64,
    pub done_files: AtomicU64,
    pub resumed_bytes: AtomicU64,
    pub kept: AtomicU64,
    pub failed: AtomicU64,
    pub retries: AtomicU64,
    /// Counts everything that happens.
    pub pulse: AtomicU64,
}

/// Something that a worker is in the middle of.
#[derive(Debug)]
pub struct Flight {
    pub name: Name,
    pub size: u64,
    pub moved: AtomicU64,
    pub since: Instant,
    pub doing: Mutex<&'static str>,
}

impl Flight {
    pub fn doing(&self, what: &'static str) {
        *self.doing.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }
}

/// What became of a removal that was asked for again.
pub fn gone_is_done(removed: Result<()>) -> Result<()> {
    match removed {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

impl Context {
    pub fn new(job: Job, observer: Arc<dyn Observer>, journal: Journal, past: Past, cancel: Cancel, spill: PathBuf) -> Self {
        let caps = job.target.caps().clone();
        // Parts have no holes. Where names cannot share a file, each gets one of its own.
        let links = Links { hard: job.links.hard && caps.hard_links, ..job.links };
        // A source goes on the evidence of its copy, not on the word of a write.
        let verify = job.verify || job.remove_source;
        let job = Job { sparse: job.sparse && !matches!(caps.write, WriteStyle::Parts { .. }), links, verify, ..job };
        let grain = job.roots.iter().map(|r| r.store.caps().mtime_grain).max().unwrap_or_default().max(caps.mtime_grain);
        let keep = job.keep.and(caps.sets);
        let planner = Planner { policy: job.policy, grain, keep, link_sets: caps.link_sets, groups: caps.groups.clone() };
        let bundle_bytes = job.roots.iter().map(|r| r.store.caps().bundle_bytes).min().unwrap_or(caps.bundle_bytes).min(caps.bundle_bytes);
        let bundle_most = job.roots.iter().map(|r| r.store.caps().bundle_files).min().unwrap_or(caps.bundle_files).min(caps.bundle_files);
        let same_system = job.roots.iter().all(|r| {
            let (a, b) = (r.store.place(), job.target.place());
            a.scheme == b.scheme && a.endpoint == b.endpoint && a.volume == b.volume
        });
        let same_host = job.roots.iter().all(|r| {
            let (a, b) = (r.store.place(), job.target.place());
            a.scheme == b.scheme && a.endpoint == b.endpoint
        });
        Context {
            wants_keep: observer.wants(Action::Keep),
            wants_items: observer.wants(if job.mode == Mode::Check { Action::Missing } else { Action::Create }),
            meter: Meter::new(cancel.clone(), job.limit),
            past_intents: past.any_unfinished(),
            sched: Scheduler::new(bundle_bytes as u64, bundle_most, job.workers.unwrap_or(2), &spill),
            late: Late::new(&spill),
            sorting: Default::default(),
            planner,
            observer,
            cancel,
            journal,
            past,
            tally: Tally::default(),
            report: Mutex::new(Report { dry: job.dry, ..Report::default() }),
            samples: Mutex::default(),
            began: Instant::now(),
            flights: Mutex::default(),
            hard: Mutex::default(),
            spill,
            impaired: AtomicBool::new(false),
            same_system,
            same_host,
            target_device: OnceLock::new(),
            last_device: Mutex::default(),
            source_roots: OnceLock::new(),
            in_place_refused: AtomicBool::new(false),
            next_flight: AtomicU64::new(0),
            owners: super::owners::Owners::of(&job),
            step: super::step::Step::new(
                job.limit.is_some() || !caps.cheap_stat || job.roots.iter().any(|root| !root.store.caps().cheap_stat),
            ),
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

    pub fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where directories are only parts of names there is nothing to make.
    pub fn makes_dirs(&self) -> bool {
        self.writes() && self.target().caps().dirs
    }

    /// Whether directories have something that their attributes can be given to.
    pub fn keeps_dirs(&self) -> bool {
        self.writes() && (self.target().caps().dirs || self.target().caps().markers)
    }

    /// Whether the destination's system holds the source too, and copies by itself. What is to be verified is read, so
    /// that it passes through here; a move is content with the word of the system.
    pub fn copies(&self, work: &DirWork) -> bool {
        let (from, to) = (self.source(work).place(), self.target().place());
        // A service copies for one account: whether that may read what another may is not known.
        let one_service = (from.scheme, &from.endpoint, &from.account) == (to.scheme, &to.endpoint, &to.account);
        let within = self.target().caps().copies && one_service;
        within && self.writes() && self.job.backup.is_none() && (!self.job.verify || self.job.remove_source) && !self.job.links.follow
    }

    /// `-x`: whether an entry of the destination lies on another file system than its root, where nothing is deleted.
    pub fn is_across(&self, target: &Entry) -> bool {
        if !self.job.one_file_system {
            return false;
        }
        let device = |name: &Name| self.target().stat(name, MetaMask::NONE).ok().map(|entry| entry.dev);
        let root = *self.target_device.get_or_init(|| device(&Name::of(&Dir::root())));
        let dir = &target.name.dir;
        let place = match target.kind {
            Kind::Dir => device(&target.name),
            _ if dir.is_root() => root,
            // Names come directory by directory.
            _ => {
                let mut last = self.last_device.lock().unwrap_or_else(PoisonError::into_inner);
                if last.as_ref().is_none_or(|(id, _)| *id != dir.id()) {
                    *last = Some((dir.id(), device(&Name::of(dir))));
                }
                last.as_ref().and_then(|(_, device)| *device)
            }
        };
        place.is_some() && place != root
    }

    /// Whether an entry that only the destination has is none of this run's business: on another file system, or the
    /// directory of the journals, this run's own among them.
    pub fn stays(&self, target: &Entry) -> bool {
        self.is_across(target) || self.is_state(target)
    }

    pub fn is_state(&self, target: &Entry) -> bool {
        let Some((dev, ino)) = self.job.state.filter(|_| target.kind == Kind::Dir && self.target().place().endpoint.is_empty()) else {
            return false;
        };
        let found = |entry: Entry| (entry.dev, entry.ino) == (dev, ino);
        (target.ino == ino || target.ino == 0) && self.target().stat(&target.name, MetaMask::NONE).is_ok_and(found)
    }

    /// Whether a directory of the destination is one that is copied, by another name: bind mounts make that possible.
    pub fn is_source(&self, target: &Entry) -> bool {
        if !self.same_system || target.kind != Kind::Dir {
            return false;
        }
        let identity = |store: &Arc<dyn Store>, name: &Name| {
            let entry = store.stat(name, MetaMask::NONE).ok().filter(|entry| entry.kind == Kind::Dir && entry.ino != 0)?;
            Some((entry.dev, entry.ino))
        };
        let find = || {
            let mut roots = Vec::new();
            for root in &self.job.roots {
                match &root.pick {
                    Pick::Names(names) => {
                        roots.extend(names.iter().filter_map(|leaf| identity(&root.store, &Name::new(&Dir::root(), leaf))))
                    }
                    _ => roots.extend(identity(&root.store, &Name::of(&Dir::root()))),
                }
            }
            roots
        };
        let roots = self.source_roots.get_or_init(find);
        identity(&self.job.target, &target.name).is_some_and(|found| roots.contains(&found))
    }

    /// Whether a small file that is to be verified keeps its staging name until then, so that what it replaces stands.
    pub fn holds(&self, target: &Entry) -> bool {
        self.job.verify
            && self.job.keep.has(MetaMask::MODE)
            && self.target().caps().direct_create
            && self.target().staging(target).is_some()
    }

    /// Whether a file may be written in place. One with several names is staged: the others would change with it.
    pub fn may_write_in_place(&self, name: &Name) -> Result<bool> {
        let found = self.retry(|| self.target().stat(name, MetaMask::NONE))?;
        // A symlink is replaced, as it is without `--inplace`: what it points to is another file.
        if found.kind != Kind::File || found.nlink <= 1 {
            return Ok(found.kind == Kind::File);
        }
        if !self.in_place_refused.swap(true, Ordering::Relaxed) {
            let shown = crate::entry::show(&name.path());
            let note = "has other names (hard links): it is replaced, not written in place; so are all such files";
            self.warn(Warning::Note(format!("{shown}: {note}")));
        }
        Ok(false)
    }

    pub fn hard(&self) -> MutexGuard<'_, HardLinks> {
        self.hard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take_report(&self) -> Report {
        std::mem::take(&mut *self.report())
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

    /// Owners as the destination numbers them, `--chmod` and `--chown`: what the destination is to show of an entry that has
    /// just come from a root.
    pub fn transform(&self, root: usize, entry: &mut Entry) {
        self.map_owner(root, entry);
        self.override_attributes(entry);
    }

    pub(super) fn override_attributes(&self, entry: &mut Entry) {
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

    /// One name is done, or would be.
    pub fn item(&self, action: Action, why: Why, entry: &Entry) {
        self.tally.pulse.fetch_add(1, Ordering::Relaxed);
        if self.wants_items {
            self.observer.on(&Event::Item { action, why, entry, dry: self.job.dry });
        }
    }

    /// An entry that a move leaves where it is.
    pub fn left_behind(&self, kind: Kind) {
        if self.job.remove_source {
            self.report().left.add(kind, 1);
        }
    }

    /// Left as it is; the caller counts.
    pub fn keep(&self, why: Why, entry: &Entry) {
        if self.wants_keep {
            self.observer.on(&Event::Item { action: Action::Keep, why, entry, dry: self.job.dry });
        }
    }

    /// One name failed for good. Failures of the whole run stop it; a stop itself is no failure.
    pub fn fail(&self, error: &Error, kind: Kind) {
        self.tally.pulse.fetch_add(1, Ordering::Relaxed);
        if error.kind() == ErrorKind::Cancelled {
            return;
        }
        if error.kind() != ErrorKind::Vanished {
            self.impaired.store(true, Ordering::Relaxed);
            self.tally.failed.fetch_add(1, Ordering::Relaxed);
        }
        if error.kind().ends_the_run() && !self.cancel.set(Stop::Failure) {
            return; // one message for a full disk, not one a worker
        }
        self.report().fail(error);
        self.observer.on(&Event::Failed { error, kind });
    }

    /// For what only the source can have said.
    pub fn fail_source(&self, error: Error, kind: Kind) {
        self.fail(&error.of_source(), kind);
    }

    pub fn warn(&self, warning: Warning) {
        self.observer.on(&Event::Warned(&warning));
    }

    pub fn refused(&self, entry: &Entry, refused: MetaMask) {
        if !refused.is_empty() {
            self.report().refuse(refused);
            self.observer.on(&Event::Refused { entry, refused });
        }
    }

    /// What holds for the tries of a thread of this run, its stores included.
    pub fn retries(self: &Arc<Self>) -> Scope {
        let cx = self.clone();
        Scope::new(self.job.retries, self.cancel.clone(), move |error, again| cx.retried(error, again))
    }

    /// Something failed and is tried again.
    pub fn retried(&self, error: &Error, again: Again) {
        self.tally.retries.fetch_add(1, Ordering::Relaxed);
        self.observer.on(&Event::Retried { error, again });
    }

    /// A file that is done anew from its start, by another call: not because a call failed, but because what came of it did.
    pub fn done_anew(&self, error: &Error) {
        self.retried(error, Again { attempt: 1, of: 2, wait: Duration::ZERO });
    }

    /// Calls again what its error says may be called again, as the run's policy allows.
    pub fn retry<T>(&self, call: impl FnMut() -> Result<T>) -> Result<T> {
        Tries::begin().call(call)
    }

    /// [`Context::retry`] after a call on many names: those that failed and may be tried again are, one by one, until a
    /// failure that ends the run.
    pub fn retry_each<T>(&self, answers: Vec<Result<T>>, mut again: impl FnMut(usize) -> Result<T>) -> Vec<Result<T>> {
        let mut over = false;
        let settle = |(i, answer): (usize, Result<T>)| {
            if over {
                return answer;
            }
            let mut first = Some(answer);
            let settled = self.retry(|| first.take().unwrap_or_else(|| again(i)));
            over = settled.as_ref().is_err_and(|e| e.kind().ends_the_run());
            settled
        };
        answers.into_iter().enumerate().map(settle).collect()
    }

    /// [`Context::retry`] for what takes a name away: if that is not there when the call is made again, the call before has
    /// taken it, and its answer was lost.
    pub fn retry_gone(&self, mut call: impl FnMut() -> Result<()>) -> Result<()> {
        let mut again = false;
        self.retry(|| {
            let done = call();
            if std::mem::replace(&mut again, true) { gone_is_done(done) } else { done }
        })
    }

    /// The same for looking names up.
    pub fn look_up(&self, store: &dyn Store, dir: &Dir, leaves: &[&[u8]], want: MetaMask, follow: bool) -> Vec<Found> {
        if leaves.is_empty() {
            return Vec::new();
        }
        let apart = |found: Found| match found {
            Found::Failed(e) => Err(e),
            found => Ok(found),
        };
        let answers = store.stat_many(dir, leaves, want, follow).into_iter().map(apart).collect();
        let again = |i: usize| store.stat_many(dir, &leaves[i..=i], want, follow).pop().map_or(Ok(Found::Absent), apart);
        self.retry_each(answers, again).into_iter().map(|answer| answer.unwrap_or_else(Found::Failed)).collect()
    }

    pub fn take_off(&self, name: &Name, size: u64, doing: &'static str) -> (u64, Arc<Flight>) {
        let flight =
            Arc::new(Flight { name: name.clone(), size, moved: AtomicU64::new(0), since: Instant::now(), doing: Mutex::new(doing) });
        let id = self.next_flight.fetch_add(1, Ordering::Relaxed);
        self.flights.lock().unwrap_or_else(PoisonError::into_inner).insert(id, flight.clone());
        (id, flight)
    }

    pub fn touch_down(&self, id: u64) {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    pub fn slowest(&self) -> Option<InFlight> {
        let flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        let flight = flights.values().min_by_key(|f| f.since)?;
        Some(InFlight {
            path: flight.name.path(),
            size: flight.size,
            moved: flight.moved.load(Ordering::Relaxed),
            since: flight.since.elapsed(),
            doing: *flight.doing.lock().unwrap_or_else(PoisonError::into_inner),
        })
    }

    /// Adds what `work` takes to one kind of work time.
    pub fn timed<T>(&self, kind: impl FnOnce(&mut Times) -> &mut Duration, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let value = work();
        *kind(&mut self.report().times) += began.elapsed();
        value
    }

    /// Measures a task: `work` returns what it dealt with.
    pub fn measured<T>(&self, op: Op, work: impl FnOnce(&mut Load) -> T) -> T {
        let (started, cpu) = (self.began.elapsed(), thread_cpu());
        let mut load = Load::default();
        let value = work(&mut load);
        if load.entries > 0 || load.bytes > 0 {
            let cpu = thread_cpu().saturating_sub(cpu);
            let sample =
                Sample { started, ended: self.began.elapsed(), op, bytes: load.bytes, entries: load.entries, cpu, failed: load.failed };
            self.samples.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
        }
        value
    }
}

/// What a measured piece of work dealt with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    pub bytes: u64,
    pub entries: u64,
    pub failed: bool,
}

fn thread_cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}
