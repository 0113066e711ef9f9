//! Parts of this rank's work as bytes for another, and parts of another's as work for this one.

use std::sync::Arc;

use crate::entry::{Dir, Entry, MetaMask, Name, check_leaf, codec};
use crate::plan::Act;
use crate::report::Kinds;
use crate::schedule::{self, DirWork, Lent, PendingDir};
use crate::store::Found;
use crate::team::message::Lease;
use crate::team::wire::{Cursor, put_bytes};
use crate::varint;

use super::context::Context;
use super::file::open_file::OpenFile;
use super::file::part;
use super::ranks::Ranks;
use super::task::{DestinationState, Name as Named, Small, Work};
use super::tries::{look_up, retry};

/// Numbers of devices differ from node to node: where they make a difference, the receiver looks again.
fn devices_matter(cx: &Context) -> bool {
    cx.job.one_file_system || cx.job.links.follow
}

/// `None` if nothing is left of it.
pub fn pack(cx: &Context, ranks: &Ranks, id: u64, part: Lent<Work>) -> Option<Vec<u8>> {
    let work = part.work().clone();
    let entry = work.entry.as_ref().map(codec::encode);
    let mut lease = Lease { id, root: work.root, path: work.dir.path(), entry, fresh: work.fresh, ..Lease::default() };
    match part {
        Lent::Dirs(_, dirs) => {
            for mut dir in dirs {
                if devices_matter(cx) {
                    dir.entry.have = MetaMask::NONE;
                }
                lease.dirs.push(dir.encode_below());
            }
        }
        Lent::Chunks(_, file, most) => {
            let (part, chunks) = part::lend(&file, most)?;
            ranks.lent_chunks(id, file, chunks);
            lease.part = Some(part);
        }
        Lent::Small(_, items) => {
            // Whoever has them now counts them once more.
            let (mut found, mut planned, mut bytes) = (Kinds::default(), 0, 0);
            for Small { entry, step, .. } in items {
                found.add(entry.kind, 1);
                if matches!(step.act, Act::File { .. }) {
                    (planned, bytes) = (planned + 1, bytes + entry.size);
                }
                lease.names.push(pack_name(cx, Named { entry, there: DestinationState::in_dir(&work) }));
            }
            cx.out.unplanned(found, planned, bytes);
        }
        Lent::Names(_, names) => lease.names.extend(names.into_iter().map(|named| pack_name(cx, named))),
    }
    Some(lease.encode())
}

fn pack_name(cx: &Context, named: Named) -> Vec<u8> {
    let Named { mut entry, mut there } = named;
    // Both sides or none: they are compared with each other.
    if devices_matter(cx) || (cx.job.links.hard && entry.nlink > 1) {
        entry.have = MetaMask::NONE;
        if let DestinationState::Listed(target) = &mut there {
            target.have = MetaMask::NONE;
        }
    }
    let mut out = Vec::new();
    let kind = match &there {
        DestinationState::Unknown => 0,
        DestinationState::Absent => 1,
        DestinationState::Listed(_) => 2,
    };
    varint::put(&mut out, kind);
    put_bytes(&mut out, &codec::encode(&entry));
    if let DestinationState::Listed(target) = there {
        put_bytes(&mut out, &codec::encode(&target));
    }
    out
}

fn unpack_name(dir: &Dir, bytes: &[u8]) -> Option<Named> {
    let mut from = Cursor(bytes);
    let kind = from.number()?;
    let entry = codec::decode(dir, from.bytes()?)?;
    let there = match kind {
        0 => DestinationState::Unknown,
        1 => DestinationState::Absent,
        _ => DestinationState::Listed(Box::new(codec::decode(dir, from.bytes()?)?)),
    };
    Some(Named { entry, there })
}

/// What another rank has lent: a node that stands for its directory, and what is to be done there.
pub struct Borrowed {
    pub work: Arc<DirWork>,
    pub dirs: Vec<PendingDir>,
    pub names: Vec<Named>,
    pub file: Option<Arc<OpenFile>>,
}

/// `None` for what does not belong to this job.
pub fn unpack(cx: &Context, from: u32, bytes: &[u8]) -> Option<Borrowed> {
    let lease = Lease::decode(bytes)?;
    cx.job.roots.get(lease.root)?;
    let mut dir = Dir::root();
    for part in lease.path.split(|b| *b == b'/').filter(|_| !lease.path.is_empty()) {
        if cx.target().caps().names.files {
            check_leaf(part).ok()?;
        }
        dir = dir.child(part);
    }
    let mut work =
        if devices_matter(cx) && lease.part.is_none() { chain(cx, lease.root, &dir) } else { DirWork::top(lease.root, dir.clone()) };
    // Who moves chunks only has no attributes to set.
    if let Some(bytes) = &lease.entry
        && work.entry.is_none()
        && lease.part.is_none()
    {
        work.entry = Some(codec::decode(&Name::of(&dir).dir, bytes)?);
    }
    work.fresh = lease.fresh;
    let number = schedule::Lease { rank: from, id: lease.id };
    // Of a file it is the file that gives back.
    work.lease = lease.part.is_none().then_some(number);
    let work = Arc::new(work);
    let dirs = lease.dirs.iter().map(|bytes| PendingDir::decode(work.clone(), bytes)).collect::<Option<Vec<_>>>()?;
    let names = lease.names.iter().map(|bytes| unpack_name(&dir, bytes)).collect::<Option<Vec<_>>>()?;
    let file = match &lease.part {
        Some(bytes) => Some(part::borrow(cx, &work, &dir, number, bytes)?),
        None => None,
    };
    Some(Borrowed { work, dirs, names, file })
}

/// A directory and all above it, as this node sees them.
fn chain(cx: &Context, root: usize, dir: &Dir) -> DirWork {
    let source = &*cx.job.roots[root].store;
    let follow = cx.job.links.follow;
    let look = |dir: &Dir| -> Option<Entry> {
        let Some(above) = dir.parent() else { return retry(|| source.stat(&Name::of(dir), MetaMask::NONE)).ok() };
        match look_up(source, above, &[dir.leaf()], MetaMask::NONE, follow).pop() {
            Some(Found::Entry(entry)) => Some(entry),
            _ => None,
        }
    };
    let mut all = vec![dir];
    while let Some(above) = all.last().and_then(|dir| dir.parent()) {
        all.push(above);
    }
    let mut above: Option<Arc<DirWork>> = None;
    for dir in all[1..].iter().rev() {
        let mut work = DirWork::top(root, (*dir).clone());
        (work.entry, work.parent) = (look(dir), above);
        above = Some(Arc::new(work));
    }
    let mut work = DirWork::top(root, dir.clone());
    (work.entry, work.parent) = (look(dir), above);
    work
}
