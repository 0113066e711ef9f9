//! Further names of files, met on the way: what waits to be linked.

use crate::entry::{Dir, Entry, Kind, MetaMask, Name, codec};
use crate::event::{Action, Why};
use crate::plan::Act;
use crate::schedule::DirWork;

use super::context::Context;
use super::post_pass::sort;
use crate::lock::lock;

/// Two byte strings in one record.
pub fn pair(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut record = (a.len() as u32).to_le_bytes().to_vec();
    record.extend_from_slice(a);
    record.extend_from_slice(b);
    record
}

pub fn unpair(record: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = record.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

/// One of several names of a file, with what the source said of the file.
pub struct Alias {
    pub root: usize,
    pub entry: Entry,
}

impl Alias {
    pub fn encode(work: &DirWork, entry: &Entry) -> Vec<u8> {
        [&(work.root as u32).to_be_bytes()[..], &codec::encode_as(entry, &entry.name.path())].concat()
    }

    pub fn again(&self) -> Vec<u8> {
        [&(self.root as u32).to_be_bytes()[..], &codec::encode(&self.entry)].concat()
    }

    /// The name is the path, as one leaf.
    pub fn decode(record: &[u8]) -> Option<Self> {
        let (root, entry) = record.split_first_chunk::<4>()?;
        Some(Alias { root: u32::from_be_bytes(*root) as usize, entry: codec::decode(&Dir::root(), entry)? })
    }

    pub fn path(&self) -> &[u8] {
        &self.entry.name.leaf
    }
}

pub fn is_one_file(a: &Entry, b: &Entry) -> bool {
    a.ino != 0 && (a.dev, a.ino) == (b.dev, b.ino)
}

/// Whether another name of a file is planned by itself. Where the destination has no inode numbers nobody can tell whether its name
/// is a hard link already, and linking one that is right would replace it, and back it up, in every run.
pub fn is_by_itself(entry: &Entry, target: &Entry, act: Act) -> bool {
    let is_right = entry.kind != Kind::File || matches!(act, Act::Keep | Act::SetMeta | Act::Compare);
    target.ino == 0 && entry.kind == target.kind && is_right
}

/// Another name of a file that is copied under `leader`; `target` is what has that name at the destination.
pub fn link(cx: &Context, work: &DirWork, leader: &[u8], entry: &Entry, target: Option<&Entry>) {
    if !cx.writes() {
        let first = Name::parse(&Dir::root(), leader).and_then(|first| cx.target().stat(&first, cx.planner.keep).ok());
        return match (first, target) {
            (Some(first), Some(target)) if is_one_file(&first, target) && !would_move(cx, entry, &first) => {
                cx.out.report().kept.add(entry.kind, 1);
                cx.out.keep(Why::Same, entry);
            }
            _ => {
                let mut entry = entry.clone();
                entry.target = Some(leader.into());
                linked(cx, &entry, target.map_or(Why::SameFile, |target| differing(cx, &entry, target)));
            }
        };
    }
    cx.out.spilled(lock(&cx.post_pass.links).push(&pair(leader, &Alias::encode(work, entry))));
    cx.post_pass.dir(&cx.out, work);
}

/// Another name of a file of which it is not known yet under which name it is copied.
pub fn link_later(cx: &Context, work: &DirWork, entry: &Entry) {
    let device = cx.ranks.as_ref().map_or(entry.dev, |ranks| ranks.device(cx, work.root, entry));
    let mut record = device.to_be_bytes().to_vec();
    record.extend(entry.ino.to_be_bytes());
    record.extend(Alias::encode(work, entry));
    match &cx.ranks {
        Some(ranks) => ranks.linked(cx, entry.ino, record),
        None => sort(&cx.post_pass.linked, &cx.out, &record),
    }
    cx.post_pass.dir(&cx.out, work);
}

/// Whether the content that stands there would be replaced by the source's.
fn would_move(cx: &Context, entry: &Entry, target: &Entry) -> bool {
    matches!(cx.planner.decide(entry, Some(target)).act, Act::File { .. })
}

/// What is different about a name that becomes another name of a file.
pub fn differing(cx: &Context, entry: &Entry, target: &Entry) -> Why {
    match cx.planner.decide(entry, Some(target)).why {
        why @ (Why::Size(_) | Why::Time(_) | Why::Content(_) | Why::Attributes(_)) => why,
        _ => Why::Attributes(MetaMask::NONE),
    }
}

/// `entry` has the first name of the file as its target.
pub fn linked(cx: &Context, entry: &Entry, why: Why) {
    {
        let mut report = cx.out.report();
        report.made.add(entry.kind, 1);
        report.hard_links += 1;
    }
    cx.out.item(Action::HardLink, why, entry);
}
