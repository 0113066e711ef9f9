//! What is about to be replaced or deleted is kept under another name, where a directory for that was given.

use crate::entry::{Dir, Name};
use crate::error::{Error, ErrorKind, Result};

use super::context::Context;
use super::tries::{gone_is_done, retry};

/// The file that is about to be replaced gets another name first, so that it is never gone.
pub fn back_up(cx: &Context, name: &Name) -> Result<()> {
    let Some(kept) = backup_name(cx, name)? else { return Ok(()) };
    let kept = in_backup(cx, &kept, || match retry(|| cx.target().make_hard_link(&kept, name)) {
        Err(e) if e.kind() == ErrorKind::Unsupported => retry(|| cx.target().rename(name, &kept, true)),
        kept => kept,
    });
    gone_is_done(kept)
}

/// Moves what is to be deleted or replaced to the backup directory; `false` without one.
pub fn back_up_by_rename(cx: &Context, name: &Name) -> Result<bool> {
    let Some(kept) = backup_name(cx, name)? else { return Ok(false) };
    gone_is_done(in_backup(cx, &kept, || retry(|| cx.target().rename(name, &kept, true)))).map(|()| true)
}

/// Runs `keep`, again after making missing directories above `kept`. `NotFound` then means that the name does not exist, or that
/// an earlier call whose answer was lost moved it.
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
        retry(|| cx.target().make_dirs(&[dir]).pop().unwrap_or(Ok(false)))?;
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

/// Whether a path is `below` or a directory on the way to it.
pub fn leads_to(path: &[u8], below: &[u8]) -> bool {
    path.is_empty() || below.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}
