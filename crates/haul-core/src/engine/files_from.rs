//! A list of paths in place of a walk.

use std::sync::Arc;
use std::time::Duration;

use crate::entry::{Dir, Entry, Kind, MetaMask, Name};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Verdict;
use crate::schedule::{DirWork, PendingDir};

use super::context::Context;
use super::dirs::{enter_now, fresh_target, top};
use super::names::push;
use super::route_plan::first_attributes;
use super::task::{DestinationState, Name as Named};
use super::tries::retry;

/// Sorts paths, so that one stack of open directories serves all. Directories above them are made as they are at the source,
/// without their other entries.
pub fn feed(cx: &Arc<Context>, root: usize, paths: impl Iterator<Item = Result<Vec<u8>>>) {
    let top = top(root, None, fresh_target(cx), None);
    cx.sched.hold(&top);
    let mut open: Vec<Arc<DirWork>> = vec![top.clone()];
    let mut drained = Duration::ZERO;
    let mut paths = paths.peekable();
    let mut walked: Option<Vec<u8>> = None;
    while let Some(path) = paths.next() {
        if cx.cancel.is_set() {
            break;
        }
        let path = match path {
            Ok(path) => path,
            Err(e) => {
                cx.out.fail(&e, Kind::Unknown);
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
            let work = step_into(cx, &parent, part).map_err(Some)?.ok_or(None)?;
            open.push(work);
            Ok::<_, Option<Error>>(())
        });
        match entered {
            Ok(()) => {}
            Err(e) => {
                e.iter().for_each(|e| cx.out.fail(e, Kind::Dir));
                continue;
            }
        }
        let work = open.last().expect("the top stays").clone();
        let entry = Entry::bare(Name::new(&work.dir, leaf), Kind::Unknown);
        let there = DestinationState::in_dir(&work);
        push(cx, &work, vec![Named { entry, there }], &mut drained);
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
            .and_then(|name| retry(|| cx.job.roots[root].store.stat(&name, MetaMask::NONE)).ok())
            .is_some_and(|entry| (entry.kind == Kind::Dir) == as_dir),
    }
}

fn is_below(path: &[u8], above: &[u8]) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// A directory on the way to a listed name; it stays open until the list has passed it. `None` where nothing new is made.
fn step_into(cx: &Arc<Context>, parent: &Arc<DirWork>, leaf: &[u8]) -> Result<Option<Arc<DirWork>>> {
    let name = Name::new(&parent.dir, leaf);
    let mut entry = retry(|| cx.source(parent).stat(&name, cx.planner.keep)).map_err(|e| e.on(&name))?;
    if entry.kind != Kind::Dir {
        return Err(Error::new(ErrorKind::NotFound, "list").on(&name).because("is not a directory"));
    }
    cx.transform(parent.root, &mut entry);
    first_attributes(cx, parent.root, &mut entry);
    let target = if parent.fresh {
        None
    } else {
        match retry(|| cx.target().stat(&name, cx.planner.keep)) {
            Ok(target) => Some(target),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) => return Err(e.on(&name)),
        }
    };
    let exists = target.as_ref().is_some_and(|t| t.kind == Kind::Dir);
    if !exists && cx.planner.policy.existing {
        return Ok(None);
    }
    let differ = target.as_ref().map(|t| cx.planner.differing(&entry, t));
    let attributes = differ.is_none_or(|differ| !differ.is_empty());
    let differ = differ.unwrap_or_default();
    let pending = PendingDir { parent: parent.clone(), entry, make: !exists, fresh: !exists, attributes, differ, closed: true };
    enter_now(cx, pending).map(Some)
}
