//! Listings in order: a directory's entries sorted, on disk where they are many, and two of them merged by name.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::entry::{Dir, Entry, Kind, codec, order};
use crate::error::{Error, ErrorKind, Result};
use crate::schedule::DirWork;
use crate::spill::{Sorted as Spilled, Sorter};
use crate::store::{Flow, Store};

use super::context::Context;
use super::tries::retry;

/// Names that are sorted in memory, over all listings of the run: at some 250 bytes each, 8 MiB.
const IN_MEMORY: usize = 32 << 10;
/// Names that each listing may sort in memory whatever the others do, and by which it asks for more.
const BLOCK: usize = 1024;
const SORT_BYTES: usize = 2 << 20;

/// One listing's part of what may be held in memory.
struct Room {
    names: usize,
    shared: Arc<AtomicUsize>,
}

impl Room {
    fn new(shared: &Arc<AtomicUsize>) -> Self {
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

/// A directory's entries in the order of [`order`], each name once: a directory in which files are renamed may list some twice.
pub struct Sorted {
    memory: std::vec::IntoIter<Entry>,
    spilled: Option<(Spilled, Dir)>,
    last: Option<Box<[u8]>>,
    _room: Option<Room>,
}

impl Sorted {
    pub fn empty() -> Self {
        Sorted { memory: Vec::new().into_iter(), spilled: None, last: None, _room: None }
    }
}

impl Iterator for Sorted {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some((spilled, dir)) = &mut self.spilled {
            return spilled.by_ref().find_map(|record| {
                let bytes = match record {
                    Ok(bytes) => bytes,
                    Err(e) => return Some(Err(Error::io(e, "sort"))),
                };
                if self.last.as_deref() == Some(codec::name(&bytes)) {
                    return None;
                }
                self.last = Some(codec::name(&bytes).into());
                let entry = codec::decode(dir, &bytes);
                Some(entry.ok_or_else(|| Error::new(ErrorKind::Other, "sort").because("a spilled listing cannot be read back")))
            });
        }
        self.memory.next().map(Ok)
    }
}

/// A directory of the source. Begun again from nothing where the store says that it may be.
pub fn source(cx: &Context, work: &DirWork) -> Result<Sorted> {
    retry(|| once(cx, cx.source(work), &work.dir, Error::of_source)).map_err(Error::of_source)
}

/// The same of the destination.
pub fn target(cx: &Context, work: &DirWork) -> Result<Sorted> {
    retry(|| once(cx, cx.target(), &work.dir, std::convert::identity))
}

fn once(cx: &Context, store: &dyn Store, dir: &Dir, met: fn(Error) -> Error) -> Result<Sorted> {
    let mut room = Room::new(&cx.sorting);
    let mut memory: Vec<Entry> = Vec::new();
    let mut sorter: Option<Sorter> = None;
    let mut trouble = None;
    store.list(dir, &mut |found| {
        let entry = match found {
            Ok(entry) => entry,
            Err(e) => {
                cx.out.fail(&met(e), Kind::Unknown);
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
                if let Err(e) = sorter.push(&codec::encode(&entry)) {
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
        memory.dedup_by(|a, b| a.name.leaf == b.name.leaf);
        return Ok(Sorted { memory: memory.into_iter(), spilled: None, last: None, _room: Some(room) });
    };
    for entry in memory.drain(..) {
        sorter.push(&codec::encode(&entry)).map_err(|e| Error::io(e, "sort"))?;
    }
    let spilled = sorter.finish().map_err(|e| Error::io(e, "sort"))?;
    Ok(Sorted { memory: Vec::new().into_iter(), spilled: Some((spilled, dir.clone())), last: None, _room: None })
}

/// By bytes of the leaf alone, so that a directory and a file of one name meet.
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

fn compare_encoded(a: &[u8], b: &[u8]) -> Ordering {
    codec::name(a).cmp(codec::name(b))
}
