//! Further names of files: made when the first name has landed, or when it is known which name is the first.

use std::sync::Arc;

use crate::entry::{Dir, Entry, Kind, MetaMask, Name};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Why;
use crate::plan::Compare;

use super::aliases::{Alias, differing, is_by_itself, is_one_file, linked, pair, unpair};
use super::backup::back_up;
use super::context::Context;
use super::lookup::copy_one;
use super::post_pass::sorted;
use super::tries::retry;
use crate::lock::lock;

pub fn hard_links(cx: &Arc<Context>) {
    loop {
        let next = lock(&cx.post_pass.links).pop();
        match next {
            Ok(Some(record)) => {
                let Some((leader, alias)) = unpair(&record).and_then(|(leader, alias)| Some((leader, Alias::decode(alias)?))) else {
                    continue;
                };
                hard_link(cx, leader, &alias);
            }
            Ok(None) => return,
            Err(e) => return cx.out.spilled(Err(e)),
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

/// Hard-linked files without a leader so far. The leader is a name that the walk found complete, else one that an earlier run
/// began, else the first in order.
pub fn late_leaders(cx: &Arc<Context>) {
    let mut group = Group::default();
    for record in sorted(&cx.post_pass.linked, &cx.out) {
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
    if cx.job.remove_source && cx.ranks.is_some() {
        names.iter().for_each(|alias| cx.post_pass.met(&cx.out, alias.entry.ino));
    }
    if group.leader.is_none() && !names.is_empty() {
        let begun = names.iter().position(|alias| cx.past.is_begun(alias.path())).unwrap_or(0);
        let first = names.swap_remove(begun);
        copy_now(cx, first.root, first.path());
        group.leader = Some(first.path().into());
    }
    for alias in names {
        if let Some(leader) = &group.leader {
            cx.out.spilled(lock(&cx.post_pass.links).push(&pair(leader, &alias.again())));
        }
    }
}

fn hard_link(cx: &Arc<Context>, leader: &[u8], alias: &Alias) {
    let root = Dir::root();
    let (Some(existing), Some(name)) = (Name::parse(&root, leader), Name::parse(&root, alias.path())) else { return };
    let there = cx.target().stat(&name, MetaMask::NONE).ok();
    if let Some(there) = &there
        && is_by_itself(&alias.entry, there, cx.planner.decide(&alias.entry, Some(there)).act)
    {
        return copy_now(cx, alias.root, alias.path());
    }
    let first = retry(|| cx.target().stat(&existing, MetaMask::NONE));
    let kind = first.as_ref().map_or(Kind::File, |first| first.kind);
    let made = match first {
        // The first name vanished or failed, and what stands there, if anything, is old: this one comes by itself.
        Ok(first) if !is_copy(cx, &first, alias) => return copy_now(cx, alias.root, alias.path()),
        Err(e) if e.kind() == ErrorKind::NotFound && cx.writes() => return copy_now(cx, alias.root, alias.path()),
        Ok(first) => link_to(cx, &existing, &first, &name, there.as_ref()),
        // It would have been made by now.
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(true),
        Err(e) => Err(e),
    };
    let mut entry = Entry::bare(name.clone(), kind);
    match made {
        Ok(true) => {
            entry.target = Some(leader.into());
            linked(cx, &entry, there.as_ref().map_or(Why::SameFile, |there| differing(cx, &alias.entry, there)));
        }
        Ok(false) => {
            cx.out.report().kept.add(kind, 1);
            cx.out.keep(Why::Same, &entry);
        }
        Err(e) => return cx.out.fail(&e.on(&name), kind),
    }
    if cx.job.remove_source && cx.writes() {
        // The content under the first name may be one that nobody compared, as an earlier run left it.
        if kind == Kind::File && !cx.hard().is_verified(alias.entry.dev, alias.entry.ino) {
            return copy_now(cx, alias.root, alias.path());
        }
        cx.post_pass.placed(&cx.out, alias.entry.ino, &alias.again());
    }
}

/// Whether what stands under the first name is the file that this is another name of. If nothing failed, it is.
fn is_copy(cx: &Context, first: &Entry, alias: &Alias) -> bool {
    let timed = cx.planner.keep.has(MetaMask::MTIME) && cx.job.policy.compare != Compare::Size;
    let report = cx.out.report();
    report.failed + report.vanished == 0
        || (first.size == alias.entry.size && (!timed || cx.planner.same_time(alias.entry.mtime, first.mtime)))
}

/// As a listing does: what is found faster than it is moved must not pile up.
fn copy_now(cx: &Arc<Context>, root: usize, path: &[u8]) {
    copy_one(cx, root, path);
    while let Some(task) = cx.sched.drain() {
        (cx.perform)(cx, task);
        cx.sched.drained();
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
        retry(|| cx.target().make_hard_link(name, existing))?;
    }
    Ok(true)
}
