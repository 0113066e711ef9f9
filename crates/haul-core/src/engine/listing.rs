//! Listings in order: two of them merged by name, or a list of paths from a file.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::entry::{Dir, Entry, Kind, MetaMask, Name, Time, order};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Verdict;
use crate::schedule::{DirWork, Name as Named, PendingDir, There};
use crate::spill::{Sorted as Spilled, Sorter};
use crate::store::{Flow, Store};

use super::context::Context;
use super::walk;

/// Names that are sorted in memory, over all listings of the run: at some 250 bytes each, 8 MiB.
const IN_MEMORY: usize = 32 << 10;
/// Names that each listing may sort in memory whatever the others do, and by which it asks for more.
const BLOCK: usize = 1024;
const SORT_BYTES: usize = 2 << 20;

/// Names of listings that are held in memory at this moment.
pub type Sorting = Arc<AtomicUsize>;

/// One listing's part of what may be held in memory.
struct Room {
    names: usize,
    shared: Sorting,
}

impl Room {
    fn new(shared: &Sorting) -> Self {
        shared.fetch_add(BLOCK, Relaxed);
        Room { names: BLOCK, shared: shared.clone() }
    }

    /// Asks for one block more.
    fn grow(&mut self) -> bool {
        let grown = self.shared.fetch_update(Relaxed, Relaxed, |all| (all + BLOCK <= IN_MEMORY).then_some(all + BLOCK)).is_ok();
        self.names += if grown { BLOCK } else { 0 };
        grown
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.shared.fetch_sub(self.names, Relaxed);
    }
}

/// A directory's entries in the order of [`order`].
pub struct Sorted {
    memory: std::vec::IntoIter<Entry>,
    spilled: Option<(Spilled, Dir)>,
    _room: Option<Room>,
}

impl Sorted {
    pub fn empty() -> Self {
        Sorted { memory: Vec::new().into_iter(), spilled: None, _room: None }
    }
}

impl Iterator for Sorted {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some((spilled, dir)) = &mut self.spilled {
            return spilled.next().map(|record| match record {
                Ok(bytes) => {
                    decode(dir, &bytes).ok_or_else(|| Error::new(ErrorKind::Other, "sort").because("a spilled listing cannot be read back"))
                }
                Err(e) => Err(Error::io(e, "sort")),
            });
        }
        self.memory.next().map(Ok)
    }
}

/// A directory of the source. Begun again from nothing where the store says that it may be.
pub fn sorted_source(cx: &Context, work: &DirWork) -> Result<Sorted> {
    cx.retry(|| sorted_once(cx, cx.source(work), &work.dir, Error::of_source)).map_err(Error::of_source)
}

/// The same of the destination.
pub fn sorted_target(cx: &Context, work: &DirWork) -> Result<Sorted> {
    cx.retry(|| sorted_once(cx, cx.target(), &work.dir, std::convert::identity))
}

fn sorted_once(cx: &Context, store: &dyn Store, dir: &Dir, met: fn(Error) -> Error) -> Result<Sorted> {
    let mut room = Room::new(&cx.sorting);
    let mut memory: Vec<Entry> = Vec::new();
    let mut sorter: Option<Sorter> = None;
    let mut trouble = None;
    store.list(dir, &mut |found| {
        let entry = match found {
            Ok(entry) => entry,
            Err(e) => {
                cx.fail(&met(e), Kind::Unknown);
                return Flow::Go;
            }
        };
        if cx.cancel.is_set() {
            return Flow::Stop;
        }
        memory.push(entry);
        if memory.len() >= room.names && !room.grow() {
            let sorter = sorter.get_or_insert_with(|| Sorter::new(&cx.spill, SORT_BYTES, compare_encoded));
            for entry in memory.drain(..) {
                if let Err(e) = sorter.push(&encode(&entry)) {
                    trouble = Some(e);
                    return Flow::Stop;
                }
            }
        }
        Flow::Go
    })?;
    cx.cancel.check()?;
    if let Some(e) = trouble {
        return Err(Error::io(e, "sort"));
    }
    let Some(mut sorter) = sorter else {
        memory.sort_unstable_by(by_name);
        return Ok(Sorted { memory: memory.into_iter(), spilled: None, _room: Some(room) });
    };
    for entry in memory.drain(..) {
        sorter.push(&encode(&entry)).map_err(|e| Error::io(e, "sort"))?;
    }
    let spilled = sorter.finish().map_err(|e| Error::io(e, "sort"))?;
    Ok(Sorted { memory: Vec::new().into_iter(), spilled: Some((spilled, dir.clone())), _room: None })
}

/// By bytes of the leaf alone: on both sides of one directory that is enough, and a name that is a
/// directory here and a file there still meets.
fn by_name(a: &Entry, b: &Entry) -> Ordering {
    order((&a.name.leaf, false), (&b.name.leaf, false))
}

/// Both sides of a directory, name by name.
pub fn merge(sources: Sorted, targets: Sorted) -> impl Iterator<Item = Result<(Option<Entry>, Option<Entry>)>> {
    let (mut sources, mut targets) = (sources.peekable(), targets.peekable());
    std::iter::from_fn(move || {
        let side = match (sources.peek(), targets.peek()) {
            (None, None) => return None,
            (Some(Ok(a)), Some(Ok(b))) => by_name(a, b),
            (Some(_), None) | (Some(Err(_)), _) => Ordering::Less,
            (None, Some(_)) | (_, Some(Err(_))) => Ordering::Greater,
        };
        let source = if side.is_le() { sources.next().transpose() } else { Ok(None) };
        let target = if side.is_ge() { targets.next().transpose() } else { Ok(None) };
        Some(source.and_then(|s| target.map(|t| (s, t))))
    })
}

/// Beside the kind: it is known that there are no extended attributes.
const NO_XATTRS: u8 = 0x80;
const FIXED: usize = 1 + 2 + 8 * 9 + 4 * 5;

/// An entry without link target, xattrs and names of owners, which are read again when they are needed.
pub fn encode(e: &Entry) -> Vec<u8> {
    let mut out = Vec::with_capacity(FIXED + e.name.leaf.len());
    out.push(match e.kind {
        Kind::File => 0,
        Kind::Dir => 1,
        Kind::Link => 2,
        Kind::Fifo => 3,
        Kind::Socket => 4,
        Kind::Char => 5,
        Kind::Block => 6,
        Kind::Unknown => 7,
    });
    let no_xattrs = e.xattrs.as_ref().is_some_and(|xattrs| xattrs.is_empty());
    out[0] |= if no_xattrs { NO_XATTRS } else { 0 };
    let again = e.target.is_some() || e.owners.is_some();
    let have = if again || (e.xattrs.is_some() && !no_xattrs) { MetaMask::NONE } else { e.have };
    out.extend(have.0.to_le_bytes());
    for word in [e.size, e.mtime.secs.cast_unsigned(), e.rdev, e.ino, e.dev, e.stored, e.version, 0, 0] {
        out.extend(word.to_le_bytes());
    }
    for word in [e.mtime.nanos, e.mode, e.uid, e.gid, e.nlink] {
        out.extend(word.to_le_bytes());
    }
    out.extend_from_slice(&e.name.leaf);
    out
}

pub fn decode(dir: &Dir, bytes: &[u8]) -> Option<Entry> {
    let (fixed, leaf) = bytes.split_at_checked(FIXED)?;
    let kinds = [Kind::File, Kind::Dir, Kind::Link, Kind::Fifo, Kind::Socket, Kind::Char, Kind::Block, Kind::Unknown];
    let mut entry = Entry::bare(Name::new(dir, leaf), *kinds.get(usize::from(fixed[0] & !NO_XATTRS))?);
    entry.xattrs = (fixed[0] & NO_XATTRS != 0).then(Box::default);
    entry.have = MetaMask(u16::from_le_bytes(fixed[1..3].try_into().ok()?));
    let long = |i: usize| Some(u64::from_le_bytes(fixed[3 + i * 8..11 + i * 8].try_into().ok()?));
    let short = |i: usize| Some(u32::from_le_bytes(fixed[75 + i * 4..79 + i * 4].try_into().ok()?));
    (entry.size, entry.rdev, entry.ino) = (long(0)?, long(2)?, long(3)?);
    (entry.dev, entry.stored, entry.version) = (long(4)?, long(5)?, long(6)?);
    entry.mtime = Time { secs: long(1)?.cast_signed(), nanos: short(0)? };
    (entry.mode, entry.uid, entry.gid, entry.nlink) = (short(1)?, short(2)?, short(3)?, short(4)?);
    Some(entry)
}

fn compare_encoded(a: &[u8], b: &[u8]) -> Ordering {
    a.get(FIXED..).cmp(&b.get(FIXED..))
}

/// `--files-from`: paths in order, so that one stack of open directories serves them all. Directories on
/// the way are made as they are at the source, without what else is in them.
pub fn feed_listed(cx: &Arc<Context>, root: usize, paths: crate::job::Listed) {
    let top = walk::top(root, None, walk::fresh_target(cx), false);
    cx.sched.hold(&top);
    let mut open: Vec<Arc<DirWork>> = vec![top.clone()];
    let mut relieved = Duration::ZERO;
    let mut paths = paths.peekable();
    let mut walked: Option<Vec<u8>> = None;
    while let Some(path) = paths.next() {
        if cx.cancel.is_set() {
            break;
        }
        let path = match path {
            Ok(path) => path,
            Err(e) => {
                cx.fail(&e, Kind::Unknown);
                continue;
            }
        };
        // A directory and something in it, both listed: one way to each name, not two at a time.
        if cx.job.recurse_listed {
            if walked.as_ref().is_some_and(|above| is_below(&path, above)) {
                continue;
            }
            walked = Some(path.clone());
        } else if let Some(Ok(next)) = paths.peek()
            && is_below(next, &path)
        {
            continue;
        }
        // Nothing is made on the way to a name that is not wanted.
        if is_excluded(cx, root, &path) {
            continue;
        }
        let parts: Vec<&[u8]> = path.split(|b| *b == b'/').collect();
        let Some((leaf, above)) = parts.split_last() else { continue };
        let shared = above.iter().zip(&open[1..]).take_while(|(part, work)| **part == work.dir.leaf()).count();
        for work in open.drain(shared + 1..).rev() {
            cx.sched.items_done(&work, 1);
        }
        let entered = above[shared..].iter().try_for_each(|part| {
            let parent = open.last().expect("the top stays").clone();
            let work = step_into(cx, &parent, part)?;
            open.push(work);
            Ok::<_, Error>(())
        });
        if let Err(e) = entered {
            cx.fail(&e, Kind::Dir);
            continue;
        }
        let work = open.last().expect("the top stays").clone();
        let entry = Entry::bare(Name::new(&work.dir, leaf), Kind::Unknown);
        let there = if work.fresh { There::Absent } else { There::Unknown };
        walk::push(cx, &work, vec![Named { entry, there }], &mut relieved);
    }
    for work in open.into_iter().rev() {
        cx.sched.items_done(&work, 1);
    }
}

/// Whether the filters exclude a listed path; what it is is looked up only where that makes a difference.
fn is_excluded(cx: &Context, root: usize, path: &[u8]) -> bool {
    let excluded = |is_dir| cx.job.filter.check(path, is_dir) == Verdict::Exclude;
    match (cx.job.filter.is_empty(), excluded(false), excluded(true)) {
        (true, ..) | (_, false, false) => false,
        (_, true, true) => true,
        (_, _, as_dir) => Name::parse(&Dir::root(), path)
            .and_then(|name| cx.retry(|| cx.job.roots[root].store.stat(&name, MetaMask::NONE)).ok())
            .is_some_and(|entry| (entry.kind == Kind::Dir) == as_dir),
    }
}

fn is_below(path: &[u8], above: &[u8]) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// A directory on the way to a listed name; it stays open until the list has passed it.
fn step_into(cx: &Arc<Context>, parent: &Arc<DirWork>, leaf: &[u8]) -> Result<Arc<DirWork>> {
    let name = Name::new(&parent.dir, leaf);
    let mut entry = cx.retry(|| cx.source(parent).stat(&name, cx.planner.keep)).map_err(|e| e.on(&name))?;
    if entry.kind != Kind::Dir {
        return Err(Error::new(ErrorKind::NotFound, "list").on(&name).because("is not a directory"));
    }
    cx.transform(parent.root, &mut entry);
    let target = if parent.fresh {
        None
    } else {
        match cx.retry(|| cx.target().stat(&name, cx.planner.keep)) {
            Ok(target) => Some(target),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) => return Err(e.on(&name)),
        }
    };
    let exists = target.as_ref().is_some_and(|t| t.kind == Kind::Dir);
    let attributes = target.as_ref().is_none_or(|t| cx.planner.attributes_differ(&entry, t));
    let pending = PendingDir { parent: parent.clone(), entry, make: !exists, fresh: !exists, attributes, closed: true };
    walk::enter_now(cx, pending)
}
