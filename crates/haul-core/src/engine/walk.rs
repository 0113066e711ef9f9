//! From a source root to names: directories are made and listed, and lots of their names handed on. Everything
//! here is a task of the pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::entry::{Dir, Entry, Kind, MetaMask, Name, check_leaf, show};
use crate::error::{Error, ErrorKind, Remedy};
use crate::event::{Action, Why};
use crate::filter::Verdict;
use crate::job::{Mode, Pick};
use crate::schedule::{DirWork, Name as Named, PendingDir, There};
use crate::store::Flow;
use crate::tune::Op;

use super::context::Context;
use super::merge::list_merged;
use super::planned::differs;

/// Names are handed on in lots of this many.
pub(super) const LOT: usize = 512;

/// Begins with one source root.
pub fn feed(cx: &Arc<Context>, root: usize) {
    match &cx.job.roots[root].pick {
        Pick::Contents => cx.timed(|times| &mut times.walking, || feed_contents(cx, root)),
        Pick::Names(names) => {
            let work = top(root, None, fresh_target(cx), false);
            cx.sched.hold(&work);
            let entries = names.iter().map(|leaf| Entry::bare(Name::new(&work.dir, leaf), Kind::Unknown));
            let named = entries.map(|entry| Named { entry, there: there(&work) }).collect();
            cx.sched.push_names(&work, named);
            cx.sched.items_done(&work, 1);
        }
        Pick::Listed(open) => super::listing::feed_listed(cx, root, open()),
    }
}

fn feed_contents(cx: &Arc<Context>, root: usize) {
    let name = Name::of(&Dir::root());
    let looked = || cx.retry(|| cx.job.roots[root].store.stat(&name, cx.job.keep));
    let entry = match cx.timed(|times| &mut times.source_listing, looked) {
        Ok(entry) => entry,
        Err(e) => return cx.fail(&e.on(&name), Kind::Dir),
    };
    count_found(cx, &entry);
    let mut entry = entry;
    cx.transform(root, &mut entry);
    let looked = || cx.retry(|| cx.target().stat(&name, cx.job.keep));
    let attributes = match cx.timed(|times| &mut times.target_listing, looked) {
        Ok(target) => cx.planner.attributes_differ(&entry, &target),
        Err(_) => true,
    };
    if cx.job.mode == Mode::Check {
        if attributes && cx.job.keep.without(MetaMask::MTIME) != MetaMask::NONE {
            differs(cx, &entry, Why::Attributes);
        } else {
            cx.report().kept.add(Kind::Dir, 1);
        }
    } else if attributes && cx.job.dry && (cx.target().caps().dirs || cx.target().caps().markers) {
        would_set_meta(cx, Why::Attributes, &entry);
    }
    let work = top(root, Some(entry), fresh_target(cx), attributes);
    cx.sched.push_listable(vec![work]);
}

pub(super) fn top(root: usize, entry: Option<Entry>, fresh: bool, attributes: bool) -> Arc<DirWork> {
    Arc::new(DirWork {
        dir: entry.as_ref().map_or_else(Dir::root, |e| e.name.dir.clone()),
        root,
        parent: None,
        entry,
        fresh,
        attributes,
        touched: AtomicBool::new(false),
        made: false,
        closed: false,
    })
}

/// Whether nothing stands at the destination yet. Asked for the top only: there one listing saves a look-up
/// of every name in it.
pub(super) fn fresh_target(cx: &Context) -> bool {
    let mut empty = true;
    let listed = cx.timed(
        |times| &mut times.target_listing,
        || {
            cx.target().list(&Dir::root(), &mut |_| {
                empty = false;
                Flow::Stop
            })
        },
    );
    empty && listed.is_ok()
}

pub(super) fn there(work: &DirWork) -> There {
    if work.fresh { There::Absent } else { There::Unknown }
}

/// A dry run's way of setting attributes.
pub(super) fn would_set_meta(cx: &Context, why: Why, entry: &Entry) {
    cx.report().attributes += 1;
    cx.item(Action::SetMeta, why, entry);
}

/// A dry run's way of making a directory.
pub(super) fn would_make_dir(cx: &Context, why: Why, entry: &Entry) {
    cx.report().made.dirs += 1;
    cx.item(Action::MakeDir, why, entry);
}

pub(super) fn count_found(cx: &Context, entry: &Entry) {
    cx.tally.found.fetch_add(1, Ordering::Relaxed);
    cx.report().found.add(entry.kind, 1);
}

/// Makes directories of one parent, then lets them be listed.
pub fn make(cx: &Arc<Context>, batch: Vec<PendingDir>) {
    let Some(parent) = batch.first().map(|d| d.parent.clone()) else { return };
    let count = batch.len();
    let batch = batch.into_iter().map(|dir| remembered(cx, dir));
    let (wanted, there): (Vec<_>, Vec<_>) = batch.partition(|d: &PendingDir| d.make && cx.makes_dirs());
    // A marker is made with its attributes, when all that is in the directory has come.
    let marked = |d: &PendingDir| d.make && cx.keeps_dirs();
    for new in there.iter().filter(|d| marked(d)) {
        cx.report().made.dirs += 1;
        cx.item(Action::MakeDir, Why::New, &new.entry);
    }
    let mut works: Vec<Arc<DirWork>> = there.into_iter().map(|d| (marked(&d), d)).map(|(made, d)| enter(d, made)).collect();
    if !wanted.is_empty() {
        cx.measured(Op::Other, |load| {
            load.entries = wanted.len() as u64;
            let dirs: Vec<Dir> = wanted.iter().map(dir_of).collect();
            let asked: Vec<(&Dir, u32)> = dirs.iter().zip(&wanted).map(|(dir, d)| (dir, d.entry.mode)).collect();
            let began = std::time::Instant::now();
            let made = cx.target().make_dirs(&asked);
            let mut repeated = vec![false; asked.len()];
            let made = cx.retry_each(made, |i| {
                repeated[i] = true;
                cx.target().make_dirs(&asked[i..=i]).pop().unwrap_or(Ok(false))
            });
            cx.report().times.metadata += began.elapsed();
            parent.touch();
            for (((pending, dir), made), repeated) in wanted.into_iter().zip(dirs).zip(made).zip(repeated) {
                match made {
                    Ok(new) => {
                        // It was not there when it was asked for first: that call has made it, and its answer was lost.
                        let ours = new || repeated;
                        if ours {
                            cx.report().made.dirs += 1;
                            cx.item(Action::MakeDir, Why::New, &pending.entry);
                        }
                        let mut pending = pending;
                        pending.fresh &= new;
                        works.push(enter_as(pending, dir, ours));
                    }
                    Err(e) => {
                        load.failed = true;
                        let e = e.on(&pending.entry.name).hint("nothing below it was copied");
                        cx.fail(&e, Kind::Dir);
                    }
                }
            }
        });
    }
    let (closed, open): (Vec<_>, Vec<_>) = works.into_iter().partition(|w| w.closed);
    cx.sched.push_listable(open);
    for work in closed {
        cx.sched.hold(&work);
        cx.sched.items_done(&work, 1);
    }
    cx.sched.items_done(&parent, count);
}

/// What waited on disk comes back without its extended attributes: they are read again.
fn remembered(cx: &Context, mut pending: PendingDir) -> PendingDir {
    if pending.entry.is_bare()
        && let Ok(mut entry) = cx.source(&pending.parent).stat(&pending.entry.name, cx.planner.keep)
    {
        cx.transform(pending.parent.root, &mut entry);
        pending.entry = entry;
    }
    pending
}

fn dir_of(pending: &PendingDir) -> Dir {
    pending.parent.dir.child(&pending.entry.name.leaf)
}

fn enter(pending: PendingDir, made: bool) -> Arc<DirWork> {
    let dir = dir_of(&pending);
    enter_as(pending, dir, made)
}

fn enter_as(pending: PendingDir, dir: Dir, made: bool) -> Arc<DirWork> {
    Arc::new(DirWork {
        dir,
        root: pending.parent.root,
        fresh: pending.fresh,
        attributes: pending.attributes,
        closed: pending.closed,
        parent: Some(pending.parent),
        entry: Some(pending.entry),
        touched: AtomicBool::new(false),
        made,
    })
}

/// Lists a directory of the source, and of the destination where the two must be merged.
pub fn list(cx: &Arc<Context>, work: &Arc<DirWork>) {
    let began = std::time::Instant::now();
    let mut relieved = std::time::Duration::ZERO;
    if let Some(ancestor) = cx.job.links.follow.then(|| same_ancestor(work)).flatten() {
        let e = Error::new(ErrorKind::Usage, "list").at(&work.dir.path());
        cx.fail(&e.because(format!("a symlink leads back to {}/", crate::entry::show(&ancestor))), Kind::Dir);
    } else {
        let merged = (cx.job.delete || (cx.job.mode == Mode::Check && !cx.job.one_way) || !cx.target().caps().cheap_stat) && !work.fresh;
        let listed = if merged { list_merged(cx, work, &mut relieved) } else { list_source(cx, work, &mut relieved) };
        if let Err(e) = listed
            && e.kind() != ErrorKind::Cancelled
        {
            cx.fail(&e.on(&Name::of(&work.dir)), Kind::Dir);
        }
    }
    cx.report().times.walking += began.elapsed().saturating_sub(relieved);
    cx.sched.items_done(work, 1);
}

/// With `-L` a link may lead to a directory above it.
fn same_ancestor(work: &DirWork) -> Option<Vec<u8>> {
    let entry = work.entry.as_ref()?;
    let mut above = work.parent.as_ref();
    while let Some(at) = above {
        if let Some(e) = &at.entry
            && (e.dev, e.ino) == (entry.dev, entry.ino)
            && e.ino != 0
        {
            return Some(at.dir.path());
        }
        above = at.parent.as_ref();
    }
    None
}

fn list_source(cx: &Arc<Context>, work: &Arc<DirWork>, relieved: &mut std::time::Duration) -> crate::Result<()> {
    let dir_path = (!cx.job.filter.is_empty()).then(|| work.dir.path());
    let mut lot = Vec::with_capacity(LOT);
    let handed = std::cell::RefCell::new(Handed::new(!cx.source(work).caps().cheap_stat));
    let mut each = |found: crate::Result<Entry>| {
        if cx.cancel.is_set() {
            return Flow::Stop;
        }
        if !handed.borrow_mut().is_new(&found) {
            return Flow::Go;
        }
        match found {
            Err(e) => cx.fail_source(e.on(&Name::of(&work.dir)), Kind::Unknown),
            Ok(entry) => {
                if admitted(cx, work, &entry) && selected(cx, dir_path.as_deref(), &entry) {
                    lot.push(Named { entry, there: there(work) });
                }
            }
        }
        if lot.len() >= LOT {
            push(cx, work, std::mem::replace(&mut lot, Vec::with_capacity(LOT)), relieved);
        }
        Flow::Go
    };
    let began = std::time::Instant::now();
    let listed = cx.retry(|| {
        let listed = cx.source(work).list(&work.dir, &mut each);
        listed.map_err(|e| if handed.borrow_mut().begin_again() { e } else { e.remedy_is(Remedy::None) })
    });
    cx.report().times.source_listing += began.elapsed().saturating_sub(*relieved);
    push(cx, work, lot, relieved);
    cx.cancel.check()?;
    listed.map_err(Error::of_source)
}

/// What a listing has given so far. Names that went on their way cannot be called back, so that one that breaks off
/// and is begun again must not give them twice.
struct Handed {
    any: bool,
    /// Hashes of what came; `None` when they are not kept (a listing of this machine does not break off) or are too many.
    names: Option<Vec<u128>>,
    /// What came before the listing was begun again.
    past: std::collections::HashSet<u128>,
}

impl Handed {
    /// 8 MiB of them.
    const MOST: usize = 512 << 10;

    fn new(keep: bool) -> Self {
        Handed { any: false, names: keep.then(Vec::new), past: Default::default() }
    }

    fn is_new(&mut self, found: &crate::Result<Entry>) -> bool {
        self.any = true;
        if self.names.is_none() && self.past.is_empty() {
            return true;
        }
        let hash = match found {
            Ok(entry) => crate::hash::xxh128(&entry.name.leaf),
            Err(e) => crate::hash::xxh128(e.to_string().as_bytes()),
        };
        if self.past.contains(&hash) {
            return false;
        }
        match &mut self.names {
            Some(names) if names.len() + self.past.len() < Self::MOST => names.push(hash),
            names => *names = None,
        }
        true
    }

    /// Whether the listing may begin again.
    fn begin_again(&mut self) -> bool {
        match &mut self.names {
            Some(names) => self.past.extend(names.drain(..)),
            None => return !self.any,
        }
        true
    }
}

/// Hands names on; while too many are queued, works on them instead of listing.
pub(super) fn push(cx: &Arc<Context>, work: &Arc<DirWork>, lot: Vec<Named>, relieved: &mut std::time::Duration) {
    if lot.is_empty() {
        return;
    }
    cx.tally.pulse.fetch_add(1, Ordering::Relaxed);
    cx.sched.push_names(work, lot);
    while let Some(task) = cx.sched.relieve() {
        let began = std::time::Instant::now();
        super::supervise::perform(cx, task);
        *relieved += began.elapsed();
    }
}

/// A leaf that is no file name cannot have come from an honest listing.
pub(super) fn admitted(cx: &Context, work: &DirWork, entry: &Entry) -> bool {
    if !cx.target().caps().file_names {
        return true;
    }
    match check_leaf(&entry.name.leaf) {
        Ok(()) => true,
        Err(reason) => {
            let e = Error::new(ErrorKind::BadName, "list").at(&work.dir.path());
            let leaf = show(&entry.name.leaf);
            cx.fail(&e.because(format!("a name in it, \"{leaf}\", cannot be copied: {reason}")), entry.kind);
            false
        }
    }
}

pub(super) fn selected(cx: &Context, dir_path: Option<&[u8]>, entry: &Entry) -> bool {
    let undecided = entry.kind == Kind::Unknown || (cx.job.links.follow && entry.kind == Kind::Link);
    match dir_path {
        Some(dir) if !cx.job.filter.is_empty() && !undecided => {
            cx.job.filter.check_with(dir, &entry.name.leaf, entry.kind == Kind::Dir) == Verdict::Include
        }
        _ => true,
    }
}

/// Makes one directory at once, for a list of names that goes on below it. The caller closes its open item.
pub(super) fn enter_now(cx: &Arc<Context>, pending: PendingDir) -> crate::Result<Arc<DirWork>> {
    let dir = dir_of(&pending);
    let mut made = false;
    if pending.make && cx.makes_dirs() {
        pending.parent.touch();
        let mut calls = 0;
        let new = cx.retry(|| {
            calls += 1;
            cx.target().make_dirs(&[(&dir, pending.entry.mode)]).pop().unwrap_or(Ok(false))
        });
        made = new.map_err(|e| e.on(&pending.entry.name))? || calls > 1;
        if made {
            cx.report().made.dirs += 1;
            cx.item(Action::MakeDir, Why::New, &pending.entry);
        }
    } else if pending.make && cx.keeps_dirs() {
        made = true;
        cx.report().made.dirs += 1;
        cx.item(Action::MakeDir, Why::New, &pending.entry);
    } else if pending.make && !cx.writes() {
        would_make_dir(cx, Why::New, &pending.entry);
    } else if pending.attributes && !cx.writes() {
        would_set_meta(cx, Why::Attributes, &pending.entry);
    }
    let work = enter_as(pending, dir, made);
    cx.sched.hold(&work);
    Ok(work)
}
