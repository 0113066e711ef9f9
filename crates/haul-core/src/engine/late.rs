//! What must wait until everything has landed: hard links, deletes, directories that would lock us out.
//!
//! All of it waits on disk past a few MiB. The order is the safety: links need their leaders, deletes need
//! a run without a failure, times of directories come when nothing is made or removed in them any more.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::entry::{Dir, Entry, Kind, MetaMask, Name, Time};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Action, Warning, Why};
use crate::filter::Verdict;
use crate::job::{MaxDelete, Mode};
use crate::plan::{Act, Compare, Step};
use crate::report::Ending;
use crate::schedule::DirWork;
use crate::spill::{Sorter, SpillQueue, SpillStack};
use crate::store::{Depth, Flow, Found, MetaSpec, Token};

use super::context::Context;
use super::supervise::Supervisor;

/// Bytes each queue keeps in memory.
const IN_MEMORY: usize = 2 << 20;
/// Entries removed by one call.
const LOT: usize = 256;

pub struct Late {
    /// Leader's path and link's path.
    links: Mutex<SpillQueue>,
    /// Names of files with many names that did not fit in memory, by device and inode.
    linked: Mutex<Option<Sorter>>,
    doomed: Mutex<SpillQueue>,
    /// Directories whose attributes come last, deepest first.
    dirs: Mutex<Option<Sorter>>,
    /// Names that stand on both sides, for `--max-delete N%`.
    matched: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Two byte strings in one record.
fn pair(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut record = (a.len() as u32).to_le_bytes().to_vec();
    record.extend_from_slice(a);
    record.extend_from_slice(b);
    record
}

fn unpair(record: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = record.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

/// One of several names of a file, with what the source said of the file.
struct Alias {
    root: usize,
    size: u64,
    mtime: Time,
    ino: u64,
    path: Vec<u8>,
}

impl Alias {
    const FIXED: usize = 32;

    fn of(work: &DirWork, entry: &Entry) -> Self {
        Alias { root: work.root, size: entry.size, mtime: entry.mtime, ino: entry.ino, path: entry.name.path() }
    }

    fn encode(&self) -> Vec<u8> {
        let mut record = (self.root as u32).to_be_bytes().to_vec();
        record.extend(self.mtime.nanos.to_be_bytes());
        record.extend(self.size.to_be_bytes());
        record.extend(self.mtime.secs.to_be_bytes());
        record.extend(self.ino.to_be_bytes());
        record.extend_from_slice(&self.path);
        record
    }

    fn decode(record: &[u8]) -> Option<Self> {
        let (fixed, path) = record.split_at_checked(Self::FIXED)?;
        let short = |at: usize| Some(u32::from_be_bytes(fixed[at..at + 4].try_into().ok()?));
        let long = |at: usize| Some(u64::from_be_bytes(fixed[at..at + 8].try_into().ok()?));
        let mtime = Time { secs: long(16)?.cast_signed(), nanos: short(4)? };
        Some(Alias { root: short(0)? as usize, size: long(8)?, mtime, ino: long(24)?, path: path.to_vec() })
    }
}

fn is_one_file(a: &Entry, b: &Entry) -> bool {
    a.ino != 0 && (a.dev, a.ino) == (b.dev, b.ino)
}

/// Whether the content that stands there would be replaced by the source's.
fn would_move(cx: &Context, entry: &Entry, target: &Entry) -> bool {
    matches!(cx.planner.decide(entry, Some(target)).act, Act::File { .. })
}

fn linked(cx: &Context, entry: &Entry) {
    {
        let mut report = cx.report();
        report.made.add(entry.kind, 1);
        report.hard_links += 1;
    }
    cx.item(Action::HardLink, Why::SameFile, entry);
}

/// Longer paths first is not enough; a parent sorts before its children, so the reverse is deepest first.
fn reversed(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    b.cmp(a)
}

impl Late {
    pub fn new(spill: &Path) -> Self {
        Late {
            links: Mutex::new(SpillQueue::new(spill, IN_MEMORY)),
            linked: Mutex::new(Some(Sorter::new(spill, IN_MEMORY, <[u8]>::cmp))),
            doomed: Mutex::new(SpillQueue::new(spill, IN_MEMORY)),
            dirs: Mutex::new(Some(Sorter::new(spill, IN_MEMORY, reversed))),
            matched: AtomicU64::new(0),
        }
    }

    /// Without u+wx nothing could be made in it any more, by this run or by one that goes on with it.
    pub fn must_wait(&self, entry: &Entry) -> bool {
        entry.mode & 0o300 != 0o300
    }

    pub fn matched(&self) {
        self.matched.fetch_add(1, Ordering::Relaxed);
    }

    /// The directory's attributes are set (again) at the very end.
    pub fn dir(&self, cx: &Context, work: &DirWork) {
        if let Some(entry) = &work.entry {
            self.dir_at(cx, work.dir.path(), work.root, entry.mtime);
        }
    }

    /// A directory in `above` that was opened to write in it gets its own mode at the very end.
    pub fn reopened(&self, cx: &Context, above: &DirWork, entry: &Entry) {
        self.dir_at(cx, entry.name.path(), above.root, entry.mtime);
    }

    /// The time comes along: when names were removed from the source it is not the directory's any more.
    fn dir_at(&self, cx: &Context, path: Vec<u8>, root: usize, mtime: Time) {
        let mut record = path;
        record.push(0);
        record.extend((root as u32).to_le_bytes());
        record.extend(mtime.secs.to_le_bytes());
        record.extend(mtime.nanos.to_le_bytes());
        if let Some(sorter) = lock(&self.dirs).as_mut() {
            spilled(cx, sorter.push(&record));
        }
    }

    /// Another name of a file that is copied under `leader`; `target` is what has that name at the destination.
    pub fn link(&self, cx: &Context, work: &Arc<DirWork>, leader: &[u8], entry: &Entry, target: Option<&Entry>) {
        if !cx.writes() {
            let first = Name::parse(&Dir::root(), leader).and_then(|first| cx.target().stat(&first, cx.planner.keep).ok());
            return match (first, target) {
                (Some(first), Some(target)) if is_one_file(&first, target) && !would_move(cx, entry, &first) => {
                    cx.report().kept.add(entry.kind, 1);
                    cx.keep(Why::Same, entry);
                }
                _ => linked(cx, entry),
            };
        }
        spilled(cx, lock(&self.links).push(&pair(leader, &Alias::of(work, entry).encode())));
        self.dir(cx, work);
    }

    pub fn link_later(&self, cx: &Context, work: &Arc<DirWork>, entry: &Entry) {
        let mut record = entry.dev.to_be_bytes().to_vec();
        record.extend(entry.ino.to_be_bytes());
        record.extend(Alias::of(work, entry).encode());
        if let Some(sorter) = lock(&self.linked).as_mut() {
            spilled(cx, sorter.push(&record));
        }
        self.dir(cx, work);
    }

    /// A name that only the destination has.
    pub fn extra(&self, cx: &Context, work: &Arc<DirWork>, target: Entry) {
        if cx.job.backup.as_ref().is_some_and(|backup| leads_to(&target.name.path(), backup)) {
            return;
        }
        if cx.job.mode == Mode::Check {
            cx.report().extra += 1;
            return cx.item(Action::Extra, Why::Extra, &target);
        }
        self.doom(cx, work, target);
    }

    pub fn doom(&self, cx: &Context, work: &Arc<DirWork>, target: Entry) {
        if !cx.job.delete || cx.job.mode != Mode::Copy {
            return;
        }
        let mut record = target.ino.to_le_bytes().to_vec();
        record.push(KINDS.iter().position(|kind| *kind == target.kind).unwrap_or(KINDS.len()) as u8);
        record.extend(target.name.path());
        spilled(cx, lock(&self.doomed).push(&record));
        self.dir(cx, work);
    }
}

/// Whether a path is `below` or a directory on the way to it.
fn leads_to(path: &[u8], below: &[u8]) -> bool {
    below.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// A spill that cannot be written leaves work undone, which is a failure of the run.
pub fn spilled(cx: &Context, written: std::io::Result<()>) {
    if let Err(e) = written {
        let e = Error::io(e, "spill").hint("the state directory must have room: --state-dir names another").kind_is(ErrorKind::NoSpace);
        cx.fail(&e, Kind::Unknown);
    }
}

/// Everything that waits. `false` if the run was stopped.
pub fn finish(cx: &Arc<Context>, supervisor: &mut Supervisor) -> bool {
    // The two apart: leaders that had to wait are copied in between.
    let done = supervisor.aside("linking", late_leaders)
        && supervisor.aside("linking", hard_links)
        && supervisor.aside("deleting", deletes)
        && supervisor.aside("finishing", leftovers)
        && supervisor.aside("finishing", directories);
    cx.sched.last_feed();
    done && supervisor.until_idle("finishing")
}

fn hard_links(cx: &Arc<Context>) {
    loop {
        let next = lock(&cx.late.links).pop();
        match next {
            Ok(Some(record)) => {
                let Some((leader, alias)) = unpair(&record).and_then(|(leader, alias)| Some((leader, Alias::decode(alias)?))) else {
                    continue;
                };
                hard_link(cx, leader, &alias);
            }
            Ok(None) => return,
            Err(e) => return spilled(cx, Err(e)),
        }
        if cx.cancel.is_set() {
            return;
        }
    }
}

/// Names of one file among which a leader is looked for at most.
const CANDIDATES: usize = 1024;

/// Names of one file, as they come from the sorter.
#[derive(Default)]
struct Group {
    key: Vec<u8>,
    /// The first [`CANDIDATES`].
    names: Vec<Alias>,
    leader: Option<Box<[u8]>>,
}

/// Files with many names of which none could lead when it was met. One that the walk found whole leads, else one
/// of which an earlier run landed something, else the first in order; it is copied now.
fn late_leaders(cx: &Arc<Context>) {
    let Some(sorter) = lock(&cx.late.linked).take() else { return };
    let sorted = match sorter.finish() {
        Ok(sorted) => sorted,
        Err(e) => return spilled(cx, Err(e)),
    };
    let mut group = Group::default();
    for record in sorted {
        let record = match record {
            Ok(record) => record,
            Err(e) => return spilled(cx, Err(e)),
        };
        let Some((key, rest)) = record.split_at_checked(16) else { continue };
        let Some(alias) = Alias::decode(rest) else { continue };
        if group.key != key {
            lead(cx, &mut group);
            group = Group { key: key.to_vec(), leader: known_leader(cx, key), ..Group::default() };
        }
        group.names.push(alias);
        if group.leader.is_some() || group.names.len() >= CANDIDATES {
            lead(cx, &mut group);
        }
        if cx.cancel.is_set() {
            return;
        }
    }
    lead(cx, &mut group);
}

fn known_leader(cx: &Context, key: &[u8]) -> Option<Box<[u8]>> {
    let (dev, ino) = key.split_first_chunk::<8>()?;
    cx.hard().leader(u64::from_be_bytes(*dev), u64::from_be_bytes(ino.try_into().ok()?))
}

/// Chooses a leader if there is none yet; the other names wait to be linked to it.
fn lead(cx: &Arc<Context>, group: &mut Group) {
    let mut names = std::mem::take(&mut group.names);
    if group.leader.is_none() && !names.is_empty() {
        let begun = names.iter().position(|alias| cx.past.is_begun(&alias.path)).unwrap_or(0);
        let first = names.swap_remove(begun);
        copy_now(cx, first.root, &first.path);
        group.leader = Some(first.path.into());
    }
    for alias in names {
        if let Some(leader) = &group.leader {
            spilled(cx, lock(&cx.late.links).push(&pair(leader, &alias.encode())));
        }
    }
}

fn hard_link(cx: &Arc<Context>, leader: &[u8], alias: &Alias) {
    let root = Dir::root();
    let (Some(existing), Some(name)) = (Name::parse(&root, leader), Name::parse(&root, &alias.path)) else { return };
    let there = cx.target().stat(&name, MetaMask::NONE).ok();
    let first = cx.retry(|| cx.target().stat(&existing, MetaMask::NONE));
    let kind = first.as_ref().map_or(Kind::File, |first| first.kind);
    let made = match first {
        // The first name vanished or failed, and what stands there, if anything, is old: this one comes by itself.
        Ok(first) if !is_copy(cx, &first, alias) => return copy_now(cx, alias.root, &alias.path),
        Err(e) if e.kind() == ErrorKind::NotFound && cx.writes() => return copy_now(cx, alias.root, &alias.path),
        Ok(first) => link_to(cx, &existing, &first, &name, there.as_ref()),
        // It would have been made by now.
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(true),
        Err(e) => Err(e),
    };
    let mut entry = Entry::bare(name.clone(), kind);
    match made {
        Ok(true) => linked(cx, &entry),
        Ok(false) => {
            cx.report().kept.add(kind, 1);
            cx.keep(Why::Same, &entry);
        }
        Err(e) => return cx.fail(&e.on(&name), kind),
    }
    if cx.job.remove_source && cx.writes() {
        entry.ino = alias.ino;
        for removed in cx.job.roots[alias.root].store.remove(&[entry]) {
            if let Err(e) = removed {
                cx.fail_source(e.on(&name), Kind::File);
            }
        }
    }
}

/// Whether what stands under the first name is the file that this is another name of. If nothing failed, it is.
fn is_copy(cx: &Context, first: &Entry, alias: &Alias) -> bool {
    let timed = cx.planner.keep.has(MetaMask::MTIME) && cx.job.policy.compare != Compare::Size;
    let report = cx.report();
    report.failed + report.vanished == 0
        || (first.size == alias.size && (!timed || first.mtime.same(alias.mtime, cx.planner.grain, cx.job.policy.window)))
}

/// As a listing does: what is found faster than it is moved must not pile up.
fn copy_now(cx: &Arc<Context>, root: usize, path: &[u8]) {
    super::walk::copy_one(cx, root, path);
    while let Some(task) = cx.sched.relieve() {
        super::supervise::perform(cx, task);
    }
}

/// `false` if the two names are one file already.
fn link_to(cx: &Context, existing: &Name, first: &Entry, name: &Name, there: Option<&Entry>) -> Result<bool> {
    if there.is_some_and(|there| is_one_file(there, first)) {
        return Ok(false);
    }
    if there.is_some_and(|there| there.kind == Kind::Dir) {
        return Err(Error::new(ErrorKind::Usage, "link").because("a directory is in the way"));
    }
    if cx.writes() {
        back_up(cx, name)?;
        cx.retry(|| cx.target().make_hard_link(name, existing))?;
    }
    Ok(true)
}

/// After everything has landed, and not at all if anything failed to list or to copy.
fn deletes(cx: &Arc<Context>) {
    let topmost = lock(&cx.late.doomed).len();
    if topmost == 0 || cx.cancel.is_set() {
        return;
    }
    if cx.impaired.load(Ordering::Relaxed) && !cx.job.ignore_errors {
        return skip_deletes(cx, topmost);
    }
    let mut doomed = std::mem::replace(&mut *lock(&cx.late.doomed), SpillQueue::new(&cx.spill, IN_MEMORY));
    if let Some(most) = cx.job.max_delete {
        let mut again = SpillQueue::new(&cx.spill, IN_MEMORY);
        let mut count = 0;
        loop {
            let record = match doomed.pop() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(e) => return spilled(cx, Err(e)),
            };
            match doomed_entry(&record, &mut None) {
                Some(entry) if entry.kind == Kind::Dir => would_go(cx, &entry, &mut |_| count += 1),
                Some(_) => count += 1,
                None => {}
            }
            spilled(cx, again.push(&record));
        }
        doomed = again;
        // Whatever went wrong while they were counted, the count is not to be trusted.
        if cx.cancel.is_set() || (cx.impaired.load(Ordering::Relaxed) && !cx.job.ignore_errors) {
            return skip_deletes(cx, topmost);
        }
        let limit = match most {
            MaxDelete::Count(n) => n,
            MaxDelete::Percent(percent) => (cx.late.matched.load(Ordering::Relaxed) + count) * u64::from(percent) / 100,
        };
        if count > limit {
            let why = format!("--max-delete allows {limit}, {count} names would be deleted: nothing was");
            cx.report().deletes_skipped = Some(why.clone());
            cx.report().ending = Ending::TooManyDeletes;
            return cx.warn(Warning::DeletesSkipped(why));
        }
    }
    let mut parent = None;
    let mut lot = Vec::new();
    loop {
        let record = match doomed.pop() {
            Ok(record) => record,
            Err(e) => return spilled(cx, Err(e)),
        };
        let entry = record.as_deref().and_then(|record| doomed_entry(record, &mut parent));
        if lot.len() >= LOT || (record.is_none() && !lot.is_empty()) {
            delete_lot(cx, std::mem::take(&mut lot));
        }
        match (record, entry) {
            (None, _) => return,
            (_, Some(entry)) if entry.kind == Kind::Dir => delete_tree(cx, entry),
            (_, Some(entry)) => lot.push(entry),
            (_, None) => {}
        }
        if cx.cancel.is_set() {
            return;
        }
    }
}

/// Kinds by the byte that stands for them in a record.
const KINDS: [Kind; 7] = [Kind::File, Kind::Dir, Kind::Link, Kind::Fifo, Kind::Socket, Kind::Char, Kind::Block];

fn skip_deletes(cx: &Context, topmost: u64) {
    let why = format!("{topmost} names that only the destination has were left, because something could not be listed or copied");
    cx.report().deletes_skipped = Some(why.clone());
    cx.warn(Warning::DeletesSkipped(why));
}

/// The record as an entry; consecutive names of one directory share its node, and with it a descriptor.
fn doomed_entry(record: &[u8], parent: &mut Option<(Vec<u8>, Dir)>) -> Option<Entry> {
    let (ino, rest) = record.split_first_chunk::<8>()?;
    let (kind, path) = rest.split_first()?;
    let cut = path.iter().rposition(|b| *b == b'/');
    let (above, leaf) = cut.map_or((&b""[..], path), |i| (&path[..i], &path[i + 1..]));
    let dir = match parent {
        Some((known, dir)) if known == above => dir.clone(),
        _ => {
            let mut dir = Dir::root();
            for part in above.split(|b| *b == b'/').filter(|part| !part.is_empty()) {
                dir = dir.child(part);
            }
            *parent = Some((above.to_vec(), dir.clone()));
            dir
        }
    };
    let kind = KINDS.get(usize::from(*kind)).copied().unwrap_or(Kind::Unknown);
    let mut entry = Entry::bare(Name::new(&dir, leaf), kind);
    entry.ino = u64::from_le_bytes(*ino);
    Some(entry)
}

fn delete_lot(cx: &Context, mut lot: Vec<Entry>) {
    if cx.job.dry {
        for entry in &lot {
            deleted(cx, entry);
        }
        return;
    }
    if cx.job.backup.is_some() {
        let keep = |entry: &Entry| match entry.kind {
            // What it held is kept by now, below a directory of its name.
            Kind::Dir => Ok(false),
            _ => back_up_by_rename(cx, &entry.name),
        };
        lot.retain(|entry| match keep(entry) {
            Ok(true) => {
                deleted(cx, entry);
                false
            }
            Ok(false) => true,
            Err(e) => {
                cx.fail(&e.on(&entry.name), entry.kind);
                false
            }
        });
    }
    let removed = cx.target().remove(&lot);
    let removed = cx.retry_each(removed, |i| cx.target().remove(&lot[i..=i]).pop().unwrap_or(Ok(())));
    for (removed, entry) in removed.into_iter().zip(&lot) {
        match removed {
            Ok(()) => deleted(cx, entry),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => cx.fail(&e.on(&entry.name), entry.kind),
        }
    }
}

fn deleted(cx: &Context, entry: &Entry) {
    cx.report().deleted.add(entry.kind, 1);
    cx.item(Action::Delete, Why::Extra, entry);
}

/// Whether the filter keeps a name that only the destination has.
fn protected(cx: &Context, entry: &Entry) -> bool {
    !cx.job.delete_excluded
        && !cx.job.filter.is_empty()
        && cx.job.filter.check(&entry.name.path(), entry.kind == Kind::Dir) == Verdict::Exclude
}

/// Everything below a directory that may be removed, parents before their children, in bounded memory; and
/// whether the filters protect it, in which case nothing below it is looked at.
fn below(cx: &Context, name: &Name, each: &mut dyn FnMut(&Entry, bool)) {
    let mut stack = SpillStack::new(&cx.spill, IN_MEMORY);
    spilled(cx, stack.push(&name.path()));
    loop {
        let path = match stack.pop() {
            Ok(Some(path)) => path,
            Ok(None) => return,
            Err(e) => return spilled(cx, Err(e)),
        };
        let Some(name) = Name::parse(&Dir::root(), &path) else { continue };
        let dir = name.dir.child(&name.leaf);
        let listed = cx.target().list(&dir, Depth::One, &mut |found| {
            if let Ok(entry) = found {
                let kept = protected(cx, &entry);
                each(&entry, kept);
                if entry.kind == Kind::Dir && !kept {
                    spilled(cx, stack.push(&entry.name.path()));
                }
            }
            if cx.cancel.is_set() { Flow::Stop } else { Flow::Go }
        });
        if let Err(e) = listed {
            cx.fail(&e.on(&name), Kind::Dir);
        }
        cx.target().forget(&dir);
        if cx.cancel.is_set() {
            return;
        }
    }
}

/// What [`delete_tree`] would remove: neither what the filters protect nor a directory above such a name.
fn would_go(cx: &Context, top: &Entry, each: &mut dyn FnMut(&Entry)) {
    let mut keepers = std::collections::HashSet::new();
    if !cx.job.filter.is_empty() && !cx.job.delete_excluded {
        let length = top.name.path().len();
        below(cx, &top.name, &mut |entry, kept| {
            let path = entry.name.path();
            let slashes = path.iter().enumerate().skip(length).filter(|(_, byte)| kept && **byte == b'/');
            keepers.extend(slashes.map(|(i, _)| path[..i].to_vec()));
        });
    }
    below(cx, &top.name, &mut |entry, kept| {
        if !kept && !keepers.contains(&entry.name.path()) {
            each(entry);
        }
    });
    if !keepers.contains(&top.name.path()) {
        each(top);
    }
}

/// A directory with all that is in it, children before parents. Each round lists again and removes some, so
/// that a directory of any size is emptied in the memory of one lot. What the filters protect stays, and so
/// do the directories above it.
pub fn delete_tree(cx: &Context, top: Entry) {
    if cx.job.dry {
        return would_go(cx, &top, &mut |entry| deleted(cx, entry));
    }
    let mut keepers: std::collections::HashSet<Vec<u8>> = std::collections::HashSet::new();
    let mut stack = vec![(top.name.dir.child(&top.name.leaf), top)];
    while let Some((dir, _)) = stack.last() {
        if cx.cancel.is_set() {
            return;
        }
        let (mut files, mut inner, mut kept) = (Vec::new(), None, false);
        let listed = cx.target().list(dir, Depth::One, &mut |found| {
            match found {
                Ok(entry) if protected(cx, &entry) || keepers.contains(&entry.name.path()) => kept = true,
                Ok(entry) if entry.kind == Kind::Dir => inner = Some(entry),
                Ok(entry) => files.push(entry),
                Err(_) => kept = true,
            }
            if files.len() >= LOT || inner.is_some() { Flow::Stop } else { Flow::Go }
        });
        let failed_before = cx.tally.failed.load(Ordering::Relaxed);
        if let Err(e) = listed {
            return cx.fail(&e.on(&Name::of(dir)), Kind::Dir);
        }
        let more = files.len() >= LOT;
        delete_lot(cx, files);
        if let Some(entry) = inner {
            stack.push((entry.name.dir.child(&entry.name.leaf), entry));
        } else if !more && let Some((dir, entry)) = stack.pop() {
            cx.target().forget(&dir);
            if kept {
                cx.warn(Warning::Note(format!("{}/: not removed: something in it stays", crate::entry::show(&dir.path()))));
                keepers.insert(entry.name.path());
            } else {
                delete_lot(cx, vec![entry]);
            }
        }
        if cx.tally.failed.load(Ordering::Relaxed) > failed_before {
            return;
        }
    }
}

fn directories(cx: &Arc<Context>) {
    let Some(sorter) = lock(&cx.late.dirs).take() else { return };
    if !cx.makes_dirs() {
        return;
    }
    let sorted = match sorter.finish() {
        Ok(sorted) => sorted,
        Err(e) => return spilled(cx, Err(e)),
    };
    let mut before: Vec<u8> = Vec::new();
    for record in sorted {
        let record = match record {
            Ok(record) => record,
            Err(e) => return spilled(cx, Err(e)),
        };
        if record == before {
            continue;
        }
        if let Some((rest, nanos)) = record.split_last_chunk::<4>()
            && let Some((rest, secs)) = rest.split_last_chunk::<8>()
            && let Some((path, root)) = rest.split_last_chunk::<4>()
            && let Some(name) = Name::parse(&Dir::root(), &path[..path.len().saturating_sub(1)])
        {
            let mtime = Time { secs: i64::from_le_bytes(*secs), nanos: u32::from_le_bytes(*nanos) };
            late_directory(cx, &name, u32::from_le_bytes(*root) as usize, mtime);
        }
        before = record;
        if cx.cancel.is_set() {
            return;
        }
    }
}

fn late_directory(cx: &Context, name: &Name, root: usize, mtime: Time) {
    let source = &cx.job.roots[root].store;
    let set = cx.retry(|| source.stat(name, cx.job.keep)).and_then(|mut entry| {
        cx.transform(&mut entry);
        entry.mtime = mtime;
        let spec = [MetaSpec { name, entry: &entry, keep: cx.job.keep }];
        let landed = cx.retry(|| cx.target().set_meta(&spec).pop().unwrap_or(Ok(Default::default())))?;
        cx.refused(&entry, landed.refused);
        Ok(())
    });
    if let Err(e) = set
        && e.kind() != ErrorKind::NotFound
    {
        cx.fail(&e.on(name), Kind::Dir);
    }
}

/// Unfinished writes of an earlier run that this one had no use for.
fn leftovers(cx: &Arc<Context>) {
    if !cx.writes() || cx.cancel.is_set() || cx.impaired.load(Ordering::Relaxed) {
        return;
    }
    for session in cx.past.leftovers() {
        if abandon(cx, &session.path, &session.token) {
            cx.journal.dropped(session.session);
        }
    }
    for (path, token) in cx.past.staged() {
        abandon(cx, &path, &token);
    }
}

/// Whether nothing is left of an unfinished write.
fn abandon(cx: &Context, path: &[u8], token: &Token) -> bool {
    let Some(name) = Name::parse(&Dir::root(), path) else { return false };
    // The directory may have its final times by now, and removing something in it changes them.
    let dir = Name::of(&name.dir);
    let before = cx.target().stat(&dir, MetaMask::MTIME);
    let gone = match cx.target().abandon(&name, token) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            cx.warn(Warning::Note(format!("{e}")));
            false
        }
        _ => true,
    };
    if let Ok(entry) = &before {
        cx.target().set_meta(&[MetaSpec { name: &dir, entry, keep: cx.job.keep.and(MetaMask::MTIME) }]);
    }
    gone
}

/// Something of another kind stands where an entry belongs. Without `--force` only what holds nothing gives way.
pub fn clear(cx: &Arc<Context>, work: &Arc<DirWork>, entry: &Entry, target: Option<Entry>) -> Result<Step> {
    let Some(mut target) = target else { return Ok(cx.planner.decide(entry, None)) };
    target.name = cx.target_name(&entry.name);
    if entry.kind == Kind::Dir && target.kind == Kind::Link && cx.job.links.keep_dirlinks {
        let leaf: &[u8] = &target.name.leaf;
        if let Some(Found::Entry(inside)) = cx.target().stat_many(&work.dir, &[leaf], MetaMask::NONE, true).pop()
            && inside.kind == Kind::Dir
        {
            return Ok(Step { act: Act::Enter { exists: true, attributes: false }, why: Why::Same });
        }
    }
    let next = cx.planner.decide(entry, None);
    let next = Step { why: Why::Type, ..next };
    let refuse = |hint: &str| {
        let reason = format!("it is a {} at the source and a {} at the destination", entry.kind.word(), target.kind.word());
        Err(Error::new(ErrorKind::Usage, "replace").on(&entry.name).because(reason).hint(hint.to_string()))
    };
    if target.kind != Kind::Dir {
        if !cx.job.force && cx.job.backup.is_none() {
            return refuse("--force replaces it, --backup-dir keeps it elsewhere");
        }
        if cx.writes() {
            work.touch();
            if !back_up_by_rename(cx, &target.name)? {
                cx.target().remove(std::slice::from_ref(&target)).pop().unwrap_or(Ok(()))?;
            }
        }
        return Ok(next);
    }
    let dir = target.name.dir.child(&target.name.leaf);
    let mut empty = true;
    cx.target().list(&dir, Depth::One, &mut |_| {
        empty = false;
        Flow::Stop
    })?;
    cx.target().forget(&dir);
    if !empty && !cx.job.force {
        return refuse("the directory is not empty: --force replaces it with all that is in it");
    }
    if cx.writes() {
        work.touch();
        if empty {
            cx.target().remove(std::slice::from_ref(&target)).pop().unwrap_or(Ok(()))?;
        } else if !back_up_by_rename(cx, &target.name)? {
            delete_tree(cx, target);
        }
    } else if !empty && cx.job.backup.is_none() {
        delete_tree(cx, target);
    }
    Ok(next)
}

/// `--backup-dir`: the file that is about to be replaced gets another name first, so that it is never gone.
pub fn back_up(cx: &Context, name: &Name) -> Result<()> {
    let Some(kept) = backup_name(cx, name)? else { return Ok(()) };
    match cx.target().make_hard_link(&kept, name) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) if e.kind() == ErrorKind::Unsupported => cx.target().rename(name, &kept, true),
        other => other,
    }
}

/// Moves what is to be deleted or replaced to the backup directory; `false` without one.
fn back_up_by_rename(cx: &Context, name: &Name) -> Result<bool> {
    let Some(kept) = backup_name(cx, name)? else { return Ok(false) };
    cx.target().rename(name, &kept, true).map(|()| true)
}

fn backup_name(cx: &Context, name: &Name) -> Result<Option<Name>> {
    let Some(backup) = &cx.job.backup else { return Ok(None) };
    let mut path = backup.clone();
    path.push(b'/');
    path.extend(name.path());
    let bad = || Error::new(ErrorKind::BadName, "back up").on(name);
    let kept = Name::parse(&Dir::root(), &path).ok_or_else(bad)?;
    let mut above = Vec::new();
    let mut at = Some(&kept.dir);
    while let Some(dir) = at.filter(|dir| !dir.is_root()) {
        above.push((dir, 0o700));
        at = dir.parent();
    }
    above.reverse();
    for made in cx.target().make_dirs(&above) {
        made?;
    }
    Ok(Some(kept))
}

/// What a full disk or a spent quota leaves undone, and what to do.
pub fn explain(cx: &Context, e: Error) -> Error {
    if !matches!(e.kind(), ErrorKind::NoSpace | ErrorKind::Quota) {
        return e;
    }
    let planned = cx.tally.planned_bytes.load(Ordering::Relaxed);
    let missing = planned.saturating_sub(cx.meter.moved() + cx.tally.resumed_bytes.load(Ordering::Relaxed));
    let free = cx.target().space().ok().flatten().map_or(0, |space| space.bytes);
    let kept = if cx.journal.keeps() { "what has landed is kept" } else { "what has landed stays" };
    let least = if cx.sched.standing().walked { "" } else { "at least " };
    e.hint(format!("{least}{} more to move, {} free; {kept}: make room and run the same command again", human(missing), human(free)))
}

/// Bytes with a unit, as in "3.20 GiB".
pub fn human(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.2} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.2} PiB")
}
