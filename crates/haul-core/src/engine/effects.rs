//! Changes that the plan of a name needs first, or in place of a copy: renames, links, removals, modes of directories. The plan
//! continues afterwards.

use crate::store::ServerSideOp;
use std::sync::Arc;
use std::time::Instant;

use crate::entry::{Entry, Kind, MetaMask};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Action, Why};
use crate::hint::Hint;
use crate::plan::{Act, Step};
use crate::schedule::DirWork;
use crate::store::{Flow, Found, MetaSpec, remove_emptied};
use crate::tune::Op;

use super::backup::back_up_by_rename;
use super::context::Context;
use super::deletes::{delete_tree, gives_way};
use super::references::link;
use super::route_plan::{Plans, decide, place, sort_out};
use super::sources::remove_sources;
use super::task::Effect;
use super::tries::{retry, retry_gone};

/// Does what plans of names of one directory wait for.
pub fn perform(cx: &Arc<Context>, work: &Arc<DirWork>, effects: Vec<Effect>) {
    let began = Instant::now();
    let mut plans = Plans::default();
    cx.clock.measured(Op::Other, |load| {
        load.entries = effects.len() as u64;
        for effect in effects {
            if cx.cancel.is_set() {
                plans.next.done += 1;
                continue;
            }
            one(cx, work, effect, &mut plans);
        }
    });
    cx.out.report().times.effects += began.elapsed();
    plans.hand_on(cx, work);
}

fn one(cx: &Context, work: &Arc<DirWork>, effect: Effect, plans: &mut Plans) {
    match effect {
        Effect::Rename(entry) => match rename(cx, work, &entry) {
            true => plans.next.done += 1,
            false => decide(cx, work, entry, None, plans),
        },
        Effect::Clear { entry, target } => match clear(cx, work, &entry, target.clone()) {
            Ok(step) => place(cx, work, entry, Some(&target), step, false, plans),
            Err(e) => {
                plans.next.done += 1;
                cx.out.fail(&e, entry.kind);
            }
        },
        Effect::Open { entry, target, step } => {
            open(cx, work, &entry, target);
            sort_out(cx, work, entry, step, false, plans);
        }
        Effect::Link { entry, step, equal } => match equal.iter().any(|reference| link(cx, work, &entry, reference)) {
            true => plans.next.done += 1,
            false => sort_out(cx, work, entry, step, false, plans),
        },
        Effect::RemoveSource(entry) => {
            remove_sources(cx, work, std::slice::from_ref(&entry));
            plans.next.done += 1;
        }
    }
}

/// `mv` within one file system: renames the entry with all below it. `false` if it has to be copied and removed.
fn rename(cx: &Context, work: &DirWork, entry: &Entry) -> bool {
    let root = &cx.job.roots[work.root];
    work.touch();
    let name = cx.target_name(&entry.name);
    let renamed = match cx.job.dry {
        true => root.renames == Some(entry.dev),
        false => matches!(cx.target().extensions().server_side.perform(&*root.store, entry, &name, ServerSideOp::Rename), Ok(Some(_))),
    };
    if !renamed {
        return false;
    }
    if cx.job.links.hard && entry.nlink > 1 && cx.ranks.is_none() {
        // It is placed, and there is nothing to remove.
        cx.post_pass.placed(&cx.out, entry.ino, b"");
    }
    cx.out.report().renamed.add(entry.kind, 1);
    cx.out.item(Action::Rename, Why::New, entry);
    true
}

/// It gets its own mode again when all that is in it is done. That this fails shows in what is made in it.
fn open(cx: &Context, work: &DirWork, entry: &Entry, mut target: Entry) {
    target.mode |= 0o700;
    let name = cx.target_name(&entry.name);
    let spec = MetaSpec { name: &name, entry: &target, keep: MetaMask::MODE };
    let opened = cx.target().set_meta(&[spec]).pop().is_some_and(|set| set.is_ok_and(|landed| landed.refused.is_empty()));
    if opened {
        cx.post_pass.reopened(&cx.out, work, entry);
    }
}

/// Something of another kind stands where an entry belongs. Without force only what holds nothing gives way.
fn clear(cx: &Context, work: &DirWork, entry: &Entry, mut target: Entry) -> Result<Step> {
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
    let refused = || {
        let reason = format!("it is a {} at the source and a {} at the destination", entry.kind.word(), target.kind.word());
        Error::new(ErrorKind::Usage, "replace").on(&entry.name).because(reason)
    };
    if target.kind == Kind::Dir && (cx.ends.stays(&target) || cx.ends.is_source(&target)) {
        return Err(refused().hint("it is kept: it is a mount point, the source, or the journal directory"));
    }
    if target.kind != Kind::Dir {
        // Somebody put a device or a pipe there to be written to.
        let may = cx.job.policy.force || cx.job.backup.is_some();
        if !may && (target.kind.is_special() || !gives_way(cx, &target)?) {
            return Err(refused().advise(Hint::ReplaceOrKeep));
        }
        if cx.writes() {
            work.touch();
            if !back_up_by_rename(cx, &target.name)? {
                retry_gone(|| cx.target().remove(std::slice::from_ref(&target)).pop().unwrap_or(Ok(())))?;
            }
        }
        return Ok(next);
    }
    let dir = target.name.dir.child(&target.name.leaf);
    let mut empty = true;
    retry(|| {
        cx.target().list(&dir, &mut |_| {
            empty = false;
            Flow::Stop
        })
    })?;
    cx.target().extensions().system.forget(&dir);
    if !empty && !cx.job.policy.force && !gives_way(cx, &target)? {
        return Err(refused().advise(Hint::ReplaceTree));
    }
    if cx.writes() {
        work.touch();
        if empty {
            let removed = retry_gone(|| cx.target().remove(std::slice::from_ref(&target)).pop().unwrap_or(Ok(())));
            removed.or_else(|e| remove_emptied(cx.target(), &target, e))?;
        } else if !back_up_by_rename(cx, &target.name)? {
            delete_tree(cx, target);
        }
    } else if !empty && cx.job.backup.is_none() {
        delete_tree(cx, target);
    }
    Ok(next)
}
