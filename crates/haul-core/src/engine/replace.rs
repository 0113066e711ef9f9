//! What stands in the way gives way: something of another kind, and what `--backup-dir` keeps.

use std::sync::Arc;

use crate::entry::{Dir, Entry, Kind, MetaMask, Name};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Why;
use crate::plan::{Act, Step};
use crate::schedule::DirWork;
use crate::store::{Flow, Found, remove_emptied};

use super::context::{Context, gone_is_done};
use super::deletes::delete_tree;

/// Something of another kind stands where an entry belongs. Without `--force` only what holds nothing gives way.
pub fn clear(cx: &Arc<Context>, work: &Arc<DirWork>, entry: &Entry, target: Option<Entry>) -> Result<Step> {
    let Some(mut target) = target else { return Ok(cx.planner.decide(entry, None)) };
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
    let refuse = |hint: &str| {
        let reason = format!("it is a {} at the source and a {} at the destination", entry.kind.word(), target.kind.word());
        Err(Error::new(ErrorKind::Usage, "replace").on(&entry.name).because(reason).hint(hint.to_string()))
    };
    if target.kind == Kind::Dir && (cx.stays(&target) || cx.is_source(&target)) {
        return refuse("it is kept: it is a mount point, the source, or the journal directory");
    }
    if target.kind != Kind::Dir {
        if !cx.job.force && cx.job.backup.is_none() {
            return refuse("--force replaces it, --backup-dir keeps it elsewhere");
        }
        if cx.writes() {
            work.touch();
            if !back_up_by_rename(cx, &target.name)? {
                cx.retry_gone(|| cx.target().remove(std::slice::from_ref(&target)).pop().unwrap_or(Ok(())))?;
            }
        }
        return Ok(next);
    }
    let dir = target.name.dir.child(&target.name.leaf);
    let mut empty = true;
    cx.retry(|| {
        cx.target().list(&dir, &mut |_| {
            empty = false;
            Flow::Stop
        })
    })?;
    cx.target().forget(&dir);
    if !empty && !cx.job.force {
        return refuse("the directory is not empty: --force replaces it with all that is in it");
    }
    if cx.writes() {
        work.touch();
        if empty {
            let removed = cx.retry_gone(|| cx.target().remove(std::slice::from_ref(&target)).pop().unwrap_or(Ok(())));
            removed.or_else(|e| remove_emptied(cx.target(), &target, e))?;
        } else if !back_up_by_rename(cx, &target.name)? {
            delete_tree(cx, target);
        }
    } else if !empty && cx.job.backup.is_none() {
        delete_tree(cx, target);
    }
    Ok(next)
}

/// `--backup-dir`: the file that is about to be replaced gets another name first, so that it is never gone.
pub fn back_up(cx: &Context, name: &Name) -> Result<()> {
    let Some(kept) = backup_name(cx, name)? else { return Ok(()) };
    let kept = in_backup(cx, &kept, || match cx.retry(|| cx.target().make_hard_link(&kept, name)) {
        Err(e) if e.kind() == ErrorKind::Unsupported => cx.retry(|| cx.target().rename(name, &kept, true)),
        kept => kept,
    });
    gone_is_done(kept)
}

/// Moves what is to be deleted or replaced to the backup directory; `false` without one.
pub(super) fn back_up_by_rename(cx: &Context, name: &Name) -> Result<bool> {
    let Some(kept) = backup_name(cx, name)? else { return Ok(false) };
    gone_is_done(in_backup(cx, &kept, || cx.retry(|| cx.target().rename(name, &kept, true)))).map(|()| true)
}

/// Runs `keep`, and once more after the directories above `kept` have been made if they were missing. `NotFound` then means
/// that the name does not exist, or that an earlier call whose answer was lost has moved it.
fn in_backup(cx: &Context, kept: &Name, keep: impl Fn() -> Result<()>) -> Result<()> {
    match keep() {
        Err(e) if e.kind() == ErrorKind::NotFound && cx.target().caps().dirs => {}
        answer => return answer,
    }
    let mut above = Vec::new();
    let mut at = Some(&kept.dir);
    while let Some(dir) = at.filter(|dir| !dir.is_root()) {
        above.push((dir, 0o700));
        at = dir.parent();
    }
    above.reverse();
    // One after the other: a store may look at a directory's path before it makes something in it.
    for dir in above {
        cx.retry(|| cx.target().make_dirs(&[dir]).pop().unwrap_or(Ok(false)))?;
    }
    keep()
}

fn backup_name(cx: &Context, name: &Name) -> Result<Option<Name>> {
    let Some(backup) = &cx.job.backup else { return Ok(None) };
    let mut path = backup.clone();
    path.push(b'/');
    path.extend(name.path());
    let bad = || Error::new(ErrorKind::BadName, "back up").on(name);
    Name::parse(&Dir::root(), &path).map(Some).ok_or_else(bad)
}
