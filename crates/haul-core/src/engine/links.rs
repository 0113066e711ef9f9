//! Further names of files: made when the first name has landed, or when it is known which name is the first.

use std::sync::Arc;

use crate::entry::{Dir, Entry, Kind, MetaMask, Name, Time};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Action, Why};
use crate::plan::{Act, Compare};
use crate::schedule::DirWork;

use super::context::Context;
use super::late::{Late, lock, spilled};
use super::replace::back_up;

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
    dev: u64,
    ino: u64,
    path: Vec<u8>,
}

impl Alias {
    const FIXED: usize = 40;

    fn of(work: &DirWork, entry: &Entry) -> Self {
        Alias { root: work.root, size: entry.size, mtime: entry.mtime, dev: entry.dev, ino: entry.ino, path: entry.name.path() }
    }

    fn encode(&self) -> Vec<u8> {
        let mut record = (self.root as u32).to_be_bytes().to_vec();
        record.extend(self.mtime.nanos.to_be_bytes());
        record.extend(self.size.to_be_bytes());
        record.extend(self.mtime.secs.to_be_bytes());
        record.extend(self.dev.to_be_bytes());
        record.extend(self.ino.to_be_bytes());
        record.extend_from_slice(&self.path);
        record
    }

    fn decode(record: &[u8]) -> Option<Self> {
        let (fixed, path) = record.split_at_checked(Self::FIXED)?;
        let short = |at: usize| Some(u32::from_be_bytes(fixed[at..at + 4].try_into().ok()?));
        let long = |at: usize| Some(u64::from_be_bytes(fixed[at..at + 8].try_into().ok()?));
        let mtime = Time { secs: long(16)?.cast_signed(), nanos: short(4)? };
        Some(Alias { root: short(0)? as usize, size: long(8)?, mtime, dev: long(24)?, ino: long(32)?, path: path.to_vec() })
    }
}

pub(super) fn is_one_file(a: &Entry, b: &Entry) -> bool {
    a.ino != 0 && (a.dev, a.ino) == (b.dev, b.ino)
}

impl Late {
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

pub(super) fn hard_links(cx: &Arc<Context>) {
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
pub(super) fn late_leaders(cx: &Arc<Context>) {
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
        // The content under the first name may be one that nobody compared, as an earlier run left it.
        if kind == Kind::File && !cx.hard().is_verified(alias.dev, alias.ino) {
            return copy_now(cx, alias.root, &alias.path);
        }
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
    super::look::copy_one(cx, root, path);
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
        if there.is_some() {
            back_up(cx, name)?;
        }
        cx.retry(|| cx.target().make_hard_link(name, existing))?;
    }
    Ok(true)
}
