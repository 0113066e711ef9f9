//! The work after all transfers. The order is the safety: links need their leaders, deletes a run without a failure, and times of
//! directories come last.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::entry::{Dir, Kind, MetaMask, Name};
use crate::error::ErrorKind;
use crate::event::Warning;
use crate::store::{MetaSpec, Token};
use crate::team::message::Pile;

use super::context::Context;
use super::deletes::deletes;
use super::dirs::set_marker;
use super::emptied;
use super::links::{hard_links, late_leaders};
use super::post_pass::{LateDir, sorted};
use super::route_plan::first_attributes;
use super::sources::remove_linked;
use super::supervise::Supervisor;
use super::tries::retry;

/// Everything that waits. `false` if the run was stopped.
pub fn finish(cx: &Arc<Context>, supervisor: &mut Supervisor) -> bool {
    // The two apart: leaders that had to wait are copied in between.
    let done = supervisor.aside("linking", late_leaders)
        && supervisor.aside("linking", hard_links)
        && supervisor.aside("removing", remove_linked)
        && supervisor.aside("deleting", deletes)
        && supervisor.aside("finishing", leftovers)
        && supervisor.aside("finishing", directories);
    cx.sched.last_feed();
    done && supervisor.until_idle("finishing") && supervisor.aside("removing", emptied::remove)
}

pub fn directories(cx: &Arc<Context>) {
    if !cx.keeps_dirs() {
        return;
    }
    let mut before: Vec<u8> = Vec::new();
    for record in sorted(&cx.post_pass.dirs, &cx.out) {
        if record == before {
            continue;
        }
        if let Some(late) = LateDir::decode(&record)
            && let Some(name) = late.name()
        {
            late_directory(cx, &name, &late, &record);
        }
        before = record;
        if cx.cancel.is_set() {
            return;
        }
    }
}

fn late_directory(cx: &Context, name: &Name, late: &LateDir, record: &[u8]) {
    let source = &cx.job.roots[late.root].store;
    let set = retry(|| source.stat(name, cx.job.keep)).and_then(|mut entry| {
        cx.transform(late.root, &mut entry);
        first_attributes(cx, late.root, &mut entry);
        entry.mtime = late.mtime;
        // Other ranks may still have to go through it.
        if let Some(ranks) = cx.ranks.as_ref().filter(|ranks| !ranks.leads() && cx.post_pass.must_wait(&entry)) {
            ranks.leave(cx, Pile::Dirs, record);
            return Ok(());
        }
        let landed = if cx.target().caps().markers {
            set_marker(cx, &**source, name, &entry)?
        } else {
            let spec = [MetaSpec { name, entry: &entry, keep: cx.job.keep }];
            retry(|| cx.target().set_meta(&spec).pop().unwrap_or(Ok(Default::default())))?
        };
        cx.out.refused(&entry, landed.refused);
        Ok(())
    });
    if let Err(e) = set
        && e.kind() != ErrorKind::NotFound
    {
        cx.out.fail(&e.on(name), Kind::Dir);
    }
}

/// Unfinished writes of an earlier run that this one had no use for.
pub fn leftovers(cx: &Arc<Context>) {
    if !cx.writes() || cx.cancel.is_set() || cx.out.impaired.load(Ordering::Relaxed) {
        return;
    }
    for session in cx.past.leftovers() {
        if abandon(cx, &session.path, &session.token) {
            cx.journal.dropped(session.session);
        }
    }
    for (path, token) in cx.past.staged() {
        abandon(cx, &path, &token);
    }
}

/// Whether nothing is left of an unfinished write.
fn abandon(cx: &Context, path: &[u8], token: &Token) -> bool {
    let Some(name) = Name::parse(&Dir::root(), path) else { return false };
    // The directory may have its final times by now, and removing something in it changes them.
    let dir = Name::of(&name.dir);
    let before = cx.target().stat(&dir, MetaMask::MTIME);
    let gone = match cx.target().extensions().unfinished.abandon(&name, token) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            cx.out.warn(Warning::Note(format!("{e}")));
            false
        }
        _ => true,
    };
    if let Ok(entry) = &before
        && cx.target().caps().dirs
    {
        cx.target().set_meta(&[MetaSpec { name: &dir, entry, keep: cx.job.keep.and(MetaMask::MTIME) }]);
    }
    gone
}
