//! From a source root to planned work: directories are made and listed, names looked up on both sides, and
//! the planner asked. Everything here is a task of the pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::file::OpenFile;
use crate::entry::{Dir, Entry, Kind, MetaMask, Name, check_leaf};
use crate::error::{Error, ErrorKind, Remedy};
use crate::event::{Action, Warning, Why};
use crate::filter::Verdict;
use crate::job::{Mode, Pick};
use crate::plan::{Act, Step};
use crate::schedule::{DirWork, Name as Named, PendingDir, Small, There};
use crate::store::{Depth, Flow, Found, MetaSpec, admits};
use crate::tune::Op;

use super::context::{Context, SMALL};
use super::hardlinks::Role;
use super::listing::{self, Sorted};

/// Names are handed on in lots of this many.
const LOT: usize = 512;

/// Begins with one source root.
pub fn feed(cx: &Arc<Context>, root: usize) {
    match &cx.job.roots[root].pick {
        Pick::Contents => feed_contents(cx, root),
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
    let entry = match cx.retry(|| cx.job.roots[root].store.stat(&name, cx.job.keep)) {
        Ok(entry) => entry,
        Err(e) => return cx.fail(&e.on(&name), Kind::Dir),
    };
    count_found(cx, &entry);
    let mut entry = entry;
    cx.transform(&mut entry);
    let attributes = match cx.retry(|| cx.target().stat(&name, cx.job.keep)) {
        Ok(target) => cx.planner.attributes_differ(&entry, &target),
        Err(_) => true,
    };
    if cx.job.mode == Mode::Check {
        if attributes && cx.job.keep.without(MetaMask::MTIME) != MetaMask::NONE {
            differs(cx, &entry, Why::Attributes);
        } else {
            cx.report().kept.add(Kind::Dir, 1);
        }
    } else if attributes && cx.job.dry && cx.target().caps().dirs {
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
    let listed = cx.target().list(&Dir::root(), Depth::One, &mut |_| {
        empty = false;
        Flow::Stop
    });
    empty && listed.is_ok()
}

pub(super) fn there(work: &DirWork) -> There {
    if work.fresh { There::Absent } else { There::Unknown }
}

/// A dry run's way of setting attributes.
fn would_set_meta(cx: &Context, why: Why, entry: &Entry) {
    cx.report().attributes += 1;
    cx.item(Action::SetMeta, why, entry);
}

/// A dry run's way of making a directory.
fn would_make_dir(cx: &Context, why: Why, entry: &Entry) {
    cx.report().made.dirs += 1;
    cx.item(Action::MakeDir, why, entry);
}

fn count_found(cx: &Context, entry: &Entry) {
    cx.tally.found.fetch_add(1, Ordering::Relaxed);
    cx.report().found.add(entry.kind, 1);
}

/// Makes directories of one parent, then lets them be listed.
pub fn make(cx: &Arc<Context>, batch: Vec<PendingDir>) {
    let Some(parent) = batch.first().map(|d| d.parent.clone()) else { return };
    let count = batch.len();
    let batch = batch.into_iter().map(|dir| remembered(cx, dir));
    let (wanted, there): (Vec<_>, Vec<_>) = batch.partition(|d: &PendingDir| d.make && cx.makes_dirs());
    let mut works: Vec<Arc<DirWork>> = there.into_iter().map(|d| enter(d, false)).collect();
    if !wanted.is_empty() {
        cx.measured(Op::Other, |load| {
            load.entries = wanted.len() as u64;
            let dirs: Vec<Dir> = wanted.iter().map(dir_of).collect();
            let asked: Vec<(&Dir, u32)> = dirs.iter().zip(&wanted).map(|(dir, d)| (dir, d.entry.mode)).collect();
            let began = std::time::Instant::now();
            let made = cx.target().make_dirs(&asked);
            let made = cx.retry_each(made, |i| cx.target().make_dirs(&asked[i..=i]).pop().unwrap_or(Ok(false)));
            cx.report().times.metadata += began.elapsed();
            parent.touch();
            for ((pending, dir), made) in wanted.into_iter().zip(dirs).zip(made) {
                match made {
                    Ok(new) => {
                        if new {
                            cx.report().made.dirs += 1;
                            cx.item(Action::MakeDir, Why::New, &pending.entry);
                        }
                        let mut pending = pending;
                        pending.fresh &= new;
                        works.push(enter_as(pending, dir, new));
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
        cx.transform(&mut entry);
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
            cx.fail_source(e.on(&Name::of(&work.dir)), Kind::Dir);
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
    let seen = std::cell::Cell::new(false);
    let mut each = |found: crate::Result<Entry>| {
        seen.set(true);
        if cx.cancel.is_set() {
            return Flow::Stop;
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
    // Names that went on their way cannot be called back: only a listing that gave none is begun again.
    let listed = cx.retry(|| {
        cx.source(work).list(&work.dir, Depth::One, &mut each).map_err(|e| if seen.get() { e.remedy_is(Remedy::None) } else { e })
    });
    push(cx, work, lot, relieved);
    cx.cancel.check()?;
    listed
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

fn list_merged(cx: &Arc<Context>, work: &Arc<DirWork>, relieved: &mut std::time::Duration) -> crate::Result<()> {
    let dir_path = work.dir.path();
    let sources = listing::sorted(cx, cx.source(work), &work.dir)?;
    // What cannot be listed at the destination is no reason to copy less, but nothing is deleted on that ground,
    // and its names are looked up: they may be there.
    let (targets, unmatched) = match listing::sorted(cx, cx.target(), &work.dir) {
        Ok(targets) => (targets, There::Absent),
        Err(e) => {
            cx.fail(&e.on(&Name::of(&work.dir)), Kind::Dir);
            (Sorted::empty(), There::Unknown)
        }
    };
    let mut folding = cx.target().caps().folds_case.then(Folding::default);
    let mut lot = Vec::with_capacity(LOT);
    let mut hand_on = |lot: Vec<Named>, folding: &mut Option<Folding>| {
        let lot = match folding {
            Some(folding) => folding.meet(cx, work, lot),
            None => lot,
        };
        push(cx, work, lot, relieved);
    };
    for pair in listing::merge(sources, targets) {
        cx.cancel.check()?;
        match pair? {
            (Some(source), target) => {
                if !admitted(cx, work, &source) {
                    continue;
                }
                if target.is_some() {
                    cx.late.matched();
                }
                if let Some(folding) = &mut folding {
                    folding.names.insert(lower(&source.name.leaf));
                }
                if !selected(cx, Some(&dir_path), &source) {
                    if let Some(target) = target.filter(|_| cx.job.delete_excluded) {
                        cx.late.doom(cx, work, target);
                    }
                    continue;
                }
                let there = target.map_or(unmatched.clone(), |t| There::Listed(Box::new(t)));
                lot.push(Named { entry: source, there });
                if lot.len() >= LOT {
                    hand_on(std::mem::replace(&mut lot, Vec::with_capacity(LOT)), &mut folding);
                }
            }
            (None, Some(target)) => {
                let protected = !cx.job.delete_excluded && !selected(cx, Some(&dir_path), &target);
                if protected || in_another_root(cx, work, &target) {
                    continue;
                }
                match &mut folding {
                    Some(folding) => folding.extras.push(target),
                    None => cx.late.extra(cx, work, target),
                }
            }
            (None, None) => {}
        }
    }
    hand_on(lot, &mut folding);
    if let Some(folding) = folding {
        folding.extras(cx, work);
    }
    Ok(())
}

/// A destination that folds case (or normalises names) lists under one spelling what the source has under
/// another. Whether two spellings are one only it can say: names that the listings do not pair are looked up,
/// and what was found that way is no extra.
#[derive(Default)]
struct Folding {
    /// The source's names in lower case.
    names: std::collections::HashSet<String>,
    /// Inodes found under other spellings.
    met: std::collections::HashSet<u64>,
    extras: Vec<Entry>,
}

fn lower(leaf: &[u8]) -> String {
    String::from_utf8_lossy(leaf).to_lowercase()
}

impl Folding {
    fn meet(&mut self, cx: &Context, work: &DirWork, mut lot: Vec<Named>) -> Vec<Named> {
        let (absent, leaves): (Vec<usize>, Vec<&[u8]>) = lot
            .iter()
            .enumerate()
            .filter(|(_, named)| matches!(named.there, There::Absent))
            .map(|(i, named)| (i, cx.target_leaf(&named.entry.name)))
            .unzip();
        let found = cx.look_up(cx.target(), &work.dir, &leaves, MetaMask::NONE, false);
        for (i, found) in absent.into_iter().zip(found) {
            match found {
                Found::Entry(entry) => {
                    self.met.insert(entry.ino);
                    lot[i].there = There::Listed(Box::new(entry));
                }
                Found::Absent => {}
                // Asked again, and reported, with the rest.
                Found::Failed(_) => lot[i].there = There::Unknown,
            }
        }
        lot
    }

    fn extras(self, cx: &Context, work: &Arc<DirWork>) {
        let Folding { names, met, extras } = self;
        for target in extras {
            let is_other_spelling = names.contains(&lower(&target.name.leaf)) || (target.ino != 0 && met.contains(&target.ino));
            if !is_other_spelling {
                cx.late.extra(cx, work, target);
            }
        }
    }
}

/// With several sources a name that one of them lacks may be another's. What cannot be asked counts as there.
fn in_another_root(cx: &Context, work: &DirWork, target: &Entry) -> bool {
    let gone = |e: &Error| matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Vanished);
    cx.job.roots.iter().enumerate().any(|(i, root)| {
        i != work.root && is_meant(&root.pick, &target.name) && !root.store.stat(&target.name, MetaMask::NONE).is_err_and(|e| gone(&e))
    })
}

/// Whether a name is among those that a root was picked for.
fn is_meant(pick: &Pick, name: &Name) -> bool {
    match pick {
        Pick::Names(names) => name.path().split(|b| *b == b'/').next().is_some_and(|first| names.contains(first)),
        _ => true,
    }
}

/// A leaf that is no file name cannot have come from an honest listing.
fn admitted(cx: &Context, work: &DirWork, entry: &Entry) -> bool {
    if !cx.target().caps().file_names {
        return true;
    }
    match check_leaf(&entry.name.leaf) {
        Ok(()) => true,
        Err(reason) => {
            let e = Error::new(ErrorKind::BadName, "list").at(&work.dir.path());
            cx.fail(&e.because(format!("a name in it cannot be copied: {reason}")), entry.kind);
            false
        }
    }
}

fn selected(cx: &Context, dir_path: Option<&[u8]>, entry: &Entry) -> bool {
    let undecided = entry.kind == Kind::Unknown || (cx.job.links.follow && entry.kind == Kind::Link);
    match dir_path {
        Some(dir) if !cx.job.filter.is_empty() && !undecided => {
            cx.job.filter.check_with(dir, &entry.name.leaf, entry.kind == Kind::Dir) == Verdict::Include
        }
        _ => true,
    }
}

/// What a lot of names came to.
#[derive(Default)]
struct Planned {
    small: Vec<Small>,
    large: Vec<Arc<OpenFile>>,
    dirs: Vec<PendingDir>,
    done: usize,
    /// Right already, counted here and told all at once.
    kept: crate::report::Kinds,
}

impl Planned {
    fn keep(&mut self, cx: &Context, why: Why, entry: &Entry) {
        self.kept.add(entry.kind, 1);
        cx.keep(why, entry);
    }
}

/// Looks names up on both sides and plans them.
pub fn look(cx: &Arc<Context>, work: &Arc<DirWork>, names: Vec<Named>) {
    let began = std::time::Instant::now();
    let planned = cx.measured(Op::Walk, |load| {
        load.entries = names.len() as u64;
        look_measured(cx, work, names)
    });
    let Planned { small, large, dirs, done, kept } = planned;
    cx.tally.kept.fetch_add(kept.total(), Ordering::Relaxed);
    {
        let mut report = cx.report();
        report.times.walking += began.elapsed();
        report.kept += kept;
    }
    cx.sched.planned(work, small, large, dirs, done);
}

fn look_measured(cx: &Arc<Context>, work: &Arc<DirWork>, mut names: Vec<Named>) -> Planned {
    let mut planned = Planned::default();
    let want = cx.planner.keep.and(MetaMask::ACL.with(MetaMask::XATTR).with(MetaMask::CONTEXT));
    complete(cx, work, &mut names, want, &mut planned);
    let mut targets = look_up_targets(cx, work, &names, want).into_iter();
    for Named { entry, there } in names {
        let unknown = is_unknown(&there, want);
        let target = match there {
            There::Absent => None,
            There::Listed(target) if !unknown => Some(*target),
            _ => match targets.next() {
                Some(Found::Entry(target)) => Some(target),
                Some(Found::Absent) | None => None,
                Some(Found::Failed(e)) => {
                    planned.done += 1;
                    cx.fail(&e.on(&entry.name), entry.kind);
                    continue;
                }
            },
        };
        plan_one(cx, work, entry, target, &mut planned);
    }
    planned
}

/// Looks up what the listing did not say of the source's names, and takes out those that are not wanted or not there.
fn complete(cx: &Context, work: &DirWork, names: &mut Vec<Named>, want: MetaMask, planned: &mut Planned) {
    let follow = cx.job.links.follow;
    let bare = |n: &Named| n.entry.is_bare() || (follow && n.entry.kind == Kind::Link);
    let leaves: Vec<&[u8]> = names.iter().filter(|n| bare(n)).map(|n| &*n.entry.name.leaf).collect();
    let mut looked = cx.look_up(cx.source(work), &work.dir, &leaves, want, follow).into_iter();
    let dir_path = (!cx.job.filter.is_empty()).then(|| work.dir.path());
    let mut found = crate::report::Kinds::default();
    let before = names.len();
    names.retain_mut(|named| {
        if bare(named) {
            // The filter could not judge it before.
            let late_kind = named.entry.kind == Kind::Unknown || (follow && named.entry.kind == Kind::Link);
            match looked.next() {
                Some(Found::Entry(entry)) => named.entry = entry,
                Some(Found::Failed(e)) => {
                    let e = e.on(&named.entry.name);
                    match follow {
                        // The link is there; that it leads nowhere is not something that happened meanwhile.
                        true => cx.fail(&e, named.entry.kind),
                        false => cx.fail_source(e, named.entry.kind),
                    }
                    return false;
                }
                Some(Found::Absent) | None => {
                    absent(cx, work, &named.entry, late_kind);
                    return false;
                }
            }
            let entry = &named.entry;
            if late_kind
                && let Some(dir) = &dir_path
                && cx.job.filter.check_with(dir, &entry.name.leaf, entry.kind == Kind::Dir) == Verdict::Exclude
            {
                return false;
            }
        }
        let entry = &mut named.entry;
        found.add(entry.kind, 1);
        if let Some(why) = passed_over(cx, work, entry) {
            if why == Why::NotAsked && entry.kind != Kind::File {
                cx.report().skipped.add(entry.kind, 1);
                cx.item(Action::Skip, why, entry);
            }
            return false;
        }
        cx.transform(entry);
        true
    });
    planned.done += before - names.len();
    cx.tally.found.fetch_add(found.total(), Ordering::Relaxed);
    cx.report().found += found;
}

/// A name of the source that is not there any more, or never was.
fn absent(cx: &Context, work: &DirWork, entry: &Entry, late_kind: bool) {
    let asked = matches!(cx.job.roots[work.root].pick, Pick::Names(_) | Pick::Listed(_)) && late_kind;
    let kind = if asked { ErrorKind::NotFound } else { ErrorKind::Vanished };
    let mut e = Error::new(kind, "read").on(&entry.name);
    if cx.job.links.follow && !asked && entry.kind == Kind::Link {
        e = e.kind_is(ErrorKind::NotFound).because("the symlink points to nothing");
    } else if asked {
        e = e.because("no such file or directory");
    }
    cx.fail(&e, entry.kind);
}

/// Why an entry is not even compared; `None` if it is.
fn passed_over(cx: &Context, work: &DirWork, entry: &Entry) -> Option<Why> {
    let links = cx.job.links;
    match entry.kind {
        Kind::Link if !links.copy => Some(Why::NotAsked),
        Kind::Link if links.safe && !is_safe(&work.dir, entry.target.as_deref().unwrap_or_default()) => Some(Why::NotAsked),
        kind if kind.is_special() && !links.specials => Some(Why::NotAsked),
        Kind::File if !cx.job.bounds.admit(entry) => Some(Why::NotAsked),
        _ => None,
    }
}

/// rsync's rule for `--safe-links`: relative, and never above the top of the tree on the way.
fn is_safe(dir: &Dir, target: &[u8]) -> bool {
    if target.is_empty() || target.starts_with(b"/") {
        return false;
    }
    let mut depth = i64::from(dir.depth());
    for part in target.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => depth -= 1,
            _ => depth += 1,
        }
        if depth < 0 {
            return false;
        }
    }
    true
}

/// Whether the destination is to be asked about a name.
fn is_unknown(there: &There, want: MetaMask) -> bool {
    match there {
        There::Unknown => true,
        There::Absent => false,
        There::Listed(entry) => entry.is_bare() || !want.is_empty(),
    }
}

/// What stands at the destination under the names of which that is not known, in their order.
fn look_up_targets(cx: &Context, work: &DirWork, names: &[Named], want: MetaMask) -> Vec<Found> {
    let unknown = names.iter().filter(|named| is_unknown(&named.there, want));
    let leaves: Vec<&[u8]> = unknown.map(|named| cx.target_leaf(&named.entry.name)).collect();
    cx.look_up(cx.target(), &work.dir, &leaves, want, false)
}

/// Asks the planner about one name and sorts the answer into the kinds of work there are.
fn plan_one(cx: &Arc<Context>, work: &Arc<DirWork>, entry: Entry, target: Option<Entry>, planned: &mut Planned) {
    if let Some(target) = &target
        && cx.same_system
        && entry.kind == Kind::File
        && entry.ino != 0
        && (entry.dev, entry.ino) == (target.dev, target.ino)
        && target.kind == Kind::File
    {
        planned.done += 1;
        // Named by the user it is a mistake; met in two trees that share files it is as it should be.
        let named = work.dir.is_root() && matches!(cx.job.roots[work.root].pick, Pick::Names(_));
        if cx.job.mode == Mode::Copy && (named || cx.job.remove_source) {
            let e = Error::new(ErrorKind::Usage, "copy").on(&entry.name);
            return cx.fail(&e.because("source and destination are the same file"), Kind::File);
        }
        return planned.keep(cx, Why::SameFile, &entry);
    }
    if let Err(e) = admits(cx.target().caps(), &entry) {
        planned.done += 1;
        return cx.fail(&e, entry.kind);
    }
    if work.root > 0 && entry.kind != Kind::Dir && shadowed(cx, work, &entry) {
        planned.done += 1;
        cx.warn(Warning::Note(format!("{}: left out: an earlier source has this name", crate::entry::show(&entry.name.path()))));
        return planned.keep(cx, Why::Shadowed, &entry);
    }
    let mut step = cx.planner.decide(&entry, target.as_ref());
    let mut staged = false;
    if cx.past_intents
        && entry.kind == Kind::File
        && target.as_ref().is_some_and(|target| target.kind == Kind::File)
        && cx.past.unfinished(&work.dir.path(), cx.target_leaf(&entry.name))
    {
        step = Step { act: Act::File { replace: true }, why: Why::Unfinished };
        staged = true;
    }
    if cx.job.mode == Mode::Check {
        return plan_check(cx, work, entry, target, step, planned);
    }
    if step.act == Act::Clear {
        step = match super::late::clear(cx, work, &entry, target.clone()) {
            Ok(step) => step,
            Err(e) => {
                planned.done += 1;
                return cx.fail(&e, entry.kind);
            }
        };
    } else if let (Act::Enter { exists: true, .. }, Some(target)) = (step.act, &target) {
        open_up(cx, work, &entry, target.clone());
    }
    // A name that the policy leaves as it is neither leads nor follows.
    let left = step.act == Act::Keep && matches!(step.why, Why::Policy | Why::Newer);
    if cx.job.links.hard && !matches!(entry.kind, Kind::Dir | Kind::Unknown) && entry.nlink > 1 && !left {
        // The run before this one may have chosen another of its names: what it copied is found first.
        if cx.past.is_rerun() && cx.writes() && matches!(step.act, Act::File { .. } | Act::Compare) {
            planned.done += 1;
            return cx.late.link_later(cx, work, &entry);
        }
        let role = cx.hard().meet(&entry, || entry.name.path());
        match role {
            Role::Leader => {}
            Role::Follower(leader) => {
                cx.late.link(cx, work, &leader, &entry, target.as_ref());
                planned.done += 1;
                return;
            }
            Role::Later => {
                cx.late.link_later(cx, work, &entry);
                planned.done += 1;
                return;
            }
        }
    }
    if target.is_none() && entry.kind == Kind::File && cx.job.mode == Mode::Copy && linked(cx, work, &entry) {
        planned.done += 1;
        return;
    }
    sort_out(cx, work, entry, step, staged, planned);
}

/// `--link-dest`: whether one of the reference trees had an equal file, which has this name now too. What cannot
/// be linked is copied.
fn linked(cx: &Context, work: &DirWork, entry: &Entry) -> bool {
    if cx.job.link_dest.is_empty() || cx.planner.decide(entry, None).act == Act::Keep {
        return false;
    }
    let want = cx.planner.keep.and(MetaMask::ACL.with(MetaMask::XATTR).with(MetaMask::CONTEXT));
    let leaf: &[u8] = cx.target_leaf(&entry.name);
    let name = Name::new(&work.dir, leaf);
    for reference in &cx.job.link_dest {
        let Some(Found::Entry(there)) = reference.store.stat_many(&work.dir, &[leaf], want, false).pop() else { continue };
        // `decide` is asked as if the reference stood at the destination; what has to be hashed first is not equal.
        let equal = Step { act: Act::Keep, why: Why::Same };
        if there.kind != Kind::File || cx.planner.decide(entry, Some(&there)) != equal {
            continue;
        }
        if cx.writes() {
            work.touch();
            match (reference.link)(&there.name, &name) {
                Ok(()) => {}
                Err(_) => continue,
            }
        }
        let mut report = cx.report();
        report.made.files += 1;
        report.hard_links += 1;
        drop(report);
        cx.item(Action::HardLink, Why::Same, entry);
        return true;
    }
    false
}

/// A directory of ours that is closed to us, as an earlier run left it, is opened: it gets its own mode again when
/// all that is in it is done. That this fails shows in what is made in it.
fn open_up(cx: &Context, work: &DirWork, entry: &Entry, mut target: Entry) {
    let ordinary_user = cx.planner.groups.is_some();
    if !ordinary_user || !cx.writes() || !cx.planner.keep.has(MetaMask::MODE) || target.mode & 0o300 == 0o300 {
        return;
    }
    target.mode |= 0o700;
    let name = cx.target_name(&entry.name);
    let spec = MetaSpec { name: &name, entry: &target, keep: MetaMask::MODE };
    let opened = cx.target().set_meta(&[spec]).pop().is_some_and(|set| set.is_ok_and(|landed| landed.refused.is_empty()));
    if opened {
        cx.late.reopened(cx, work, entry);
    }
}

/// Whether an earlier source has something of this name.
fn shadowed(cx: &Context, work: &DirWork, entry: &Entry) -> bool {
    cx.job.roots[..work.root].iter().any(|root| is_meant(&root.pick, &entry.name) && root.store.stat(&entry.name, MetaMask::NONE).is_ok())
}

fn plan_check(cx: &Arc<Context>, work: &Arc<DirWork>, entry: Entry, target: Option<Entry>, step: Step, planned: &mut Planned) {
    let Some(_) = target else {
        cx.report().missing += 1;
        cx.item(Action::Missing, Why::New, &entry);
        return match entry.kind {
            Kind::Dir => planned.dirs.push(pending(cx, work, entry, false, true, false)),
            _ => planned.done += 1,
        };
    };
    match step.act {
        Act::Enter { .. } => {
            if step.why == Why::Attributes && cx.job.keep.without(MetaMask::MTIME) != MetaMask::NONE {
                differs(cx, &entry, step.why);
            } else {
                planned.kept.add(Kind::Dir, 1);
            }
            planned.dirs.push(pending(cx, work, entry, false, false, false));
        }
        Act::Compare => planned.large.push(OpenFile::new(cx, work, entry, step)),
        Act::Keep => {
            planned.done += 1;
            planned.keep(cx, step.why, &entry);
        }
        _ => {
            planned.done += 1;
            differs(cx, &entry, step.why);
        }
    }
}

pub fn differs(cx: &Context, entry: &Entry, why: Why) {
    cx.report().differing += 1;
    cx.item(Action::Differs, why, entry);
}

fn pending(cx: &Context, work: &Arc<DirWork>, entry: Entry, make: bool, fresh: bool, attributes: bool) -> PendingDir {
    let mount = cx.job.one_file_system && work.entry.as_ref().is_some_and(|above| above.dev != entry.dev);
    let barred = cx.job.avoid.contains(&(entry.dev, entry.ino)) && entry.ino != 0;
    if barred {
        let e = Error::new(ErrorKind::Usage, "list").on(&entry.name).because("it is the destination itself, inside the source");
        cx.fail(&e.hint("exclude it or choose another destination"), Kind::Dir);
    }
    let unlisted = matches!(cx.job.roots[work.root].pick, Pick::Listed(_)) && !cx.job.recurse_listed;
    let (make, attributes) = (make && !barred, attributes && !barred);
    PendingDir { parent: work.clone(), entry, make, fresh, attributes, closed: mount || barred || unlisted }
}

fn sort_out(cx: &Arc<Context>, work: &Arc<DirWork>, entry: Entry, step: Step, staged: bool, planned: &mut Planned) {
    let small = |entry, step| Small { entry, step, staged };
    match step.act {
        Act::Enter { exists, attributes } => {
            let made_of_names = !cx.target().caps().dirs;
            if made_of_names {
            } else if !cx.writes() && !exists {
                would_make_dir(cx, Why::New, &entry);
            } else if !cx.writes() && attributes {
                would_set_meta(cx, step.why, &entry);
            } else if exists && !attributes {
                planned.keep(cx, step.why, &entry);
            }
            planned.dirs.push(pending(cx, work, entry, !exists, !exists, attributes));
        }
        // Its source goes too, but not on the word of size and time: the content is compared first.
        Act::Keep if cx.job.remove_source && cx.writes() && step.why == Why::Same && entry.kind == Kind::File => {
            count_planned(cx, &entry);
            planned.large.push(OpenFile::new(cx, work, entry, Step { act: Act::Compare, why: Why::Content }));
        }
        Act::Keep => {
            planned.done += 1;
            planned.keep(cx, step.why, &entry);
        }
        Act::Refuse | Act::Clear => {
            planned.done += 1;
            let e = Error::new(ErrorKind::Usage, "replace").on(&entry.name).because("something of another kind is in the way");
            cx.fail(&e, entry.kind);
        }
        Act::Compare => {
            count_planned(cx, &entry);
            planned.large.push(OpenFile::new(cx, work, entry, step));
        }
        _ if !cx.writes() => {
            planned.done += 1;
            if matches!(step.act, Act::File { .. }) {
                count_planned(cx, &entry);
                cx.report().file_bytes += entry.size;
            }
            match step.act {
                Act::SetMeta => cx.report().attributes += 1,
                _ => cx.report().made.add(entry.kind, 1),
            }
            cx.item(step.action(entry.kind), step.why, &entry);
        }
        Act::File { replace } => {
            count_planned(cx, &entry);
            let sparse = cx.job.sparse && entry.is_sparse() && entry.size >= 64 << 10;
            let whole = entry.size <= SMALL && !sparse && !(replace && (cx.job.in_place || cx.job.backup.is_some()));
            match whole {
                true => planned.small.push(small(entry, step)),
                false => planned.large.push(OpenFile::new(cx, work, entry, step)),
            }
        }
        Act::Node { .. } | Act::SetMeta => planned.small.push(small(entry, step)),
    }
}

fn count_planned(cx: &Context, entry: &Entry) {
    cx.tally.planned_files.fetch_add(1, Ordering::Relaxed);
    cx.tally.planned_bytes.fetch_add(entry.size, Ordering::Relaxed);
}

/// Makes one directory at once, for a list of names that goes on below it. The caller closes its open item.
pub(super) fn enter_now(cx: &Arc<Context>, pending: PendingDir) -> crate::Result<Arc<DirWork>> {
    let dir = dir_of(&pending);
    let mut made = false;
    if pending.make && cx.makes_dirs() {
        pending.parent.touch();
        made = cx
            .retry(|| cx.target().make_dirs(&[(&dir, pending.entry.mode)]).pop().unwrap_or(Ok(false)))
            .map_err(|e| e.on(&pending.entry.name))?;
        if made {
            cx.report().made.dirs += 1;
            cx.item(Action::MakeDir, Why::New, &pending.entry);
        }
    } else if pending.make && !cx.writes() {
        would_make_dir(cx, Why::New, &pending.entry);
    } else if pending.attributes && !cx.writes() {
        would_set_meta(cx, Why::Attributes, &pending.entry);
    }
    let work = enter_as(pending, dir, made);
    cx.sched.hold(&work);
    Ok(work)
}

/// One file by its path, for a name that had to wait: looked up and planned like any other.
pub(super) fn copy_one(cx: &Arc<Context>, root: usize, path: &[u8]) {
    let Some(name) = Name::parse(&Dir::root(), path) else { return };
    let work = Arc::new(DirWork {
        dir: name.dir.clone(),
        root,
        parent: None,
        entry: None,
        fresh: false,
        attributes: false,
        touched: AtomicBool::new(false),
        made: false,
        closed: true,
    });
    let lookup = cx.retry(|| cx.source(&work).stat(&name, cx.planner.keep)).and_then(|mut entry| {
        cx.transform(&mut entry);
        let target = match cx.retry(|| cx.target().stat(&cx.target_name(&name), cx.planner.keep)) {
            Ok(target) => Some(target),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        Ok((entry, target))
    });
    match lookup {
        Err(e) => cx.fail_source(e.on(&name), Kind::File),
        Ok((entry, target)) => {
            let mut step = cx.planner.decide(&entry, target.as_ref());
            let mut staged = false;
            if cx.past_intents && target.is_some() && cx.past.unfinished(&work.dir.path(), cx.target_leaf(&name)) {
                step = Step { act: Act::File { replace: true }, why: Why::Unfinished };
                staged = true;
            }
            let mut planned = Planned::default();
            cx.sched.hold(&work);
            sort_out(cx, &work, entry, step, staged, &mut planned);
            cx.sched.planned(&work, planned.small, planned.large, planned.dirs, planned.done);
        }
    }
}
