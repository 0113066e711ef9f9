//! What must wait until everything has landed: hard links, deletes, directories that would lock us out.
//!
//! All of it waits on disk past a few MiB. The order is the safety: links need their leaders, deletes need
//! a run without a failure, times of directories come when nothing is made or removed in them any more.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::entry::{Dir, Entry, Kind, MetaMask, Name, Time};
use crate::error::{Error, ErrorKind};
use crate::event::Warning;
use crate::schedule::DirWork;
use crate::spill::{Sorter, SpillQueue};
use crate::store::{MetaSpec, Token};

use super::context::Context;
use super::deletes::deletes;
use super::links::{hard_links, late_leaders};
use super::supervise::Supervisor;

/// Bytes each queue keeps in memory.
pub(super) const IN_MEMORY: usize = 2 << 20;

pub struct Late {
    /// Leader's path and link's path.
    pub(super) links: Mutex<SpillQueue>,
    /// Names of files with many names that did not fit in memory, by device and inode.
    pub(super) linked: Mutex<Option<Sorter>>,
    pub(super) doomed: Mutex<SpillQueue>,
    /// Directories whose attributes come last, deepest first.
    pub(super) dirs: Mutex<Option<Sorter>>,
    /// The source's directories that a move is done with, deepest first.
    pub(super) emptied: Mutex<Option<Sorter>>,
    /// Names that stand on both sides, for `--max-delete N%`.
    pub(super) matched: AtomicU64,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Longer paths first is not enough; a parent sorts before its children, so the reverse is deepest first.
fn reversed(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    b.cmp(a)
}

impl Late {
    pub fn new(spill: &Path) -> Self {
        Late {
            links: Mutex::new(SpillQueue::new(spill, IN_MEMORY)),
            linked: Mutex::new(Some(Sorter::new(spill, IN_MEMORY, <[u8]>::cmp))),
            doomed: Mutex::new(SpillQueue::new(spill, IN_MEMORY)),
            dirs: Mutex::new(Some(Sorter::new(spill, IN_MEMORY, reversed))),
            emptied: Mutex::new(Some(Sorter::new(spill, IN_MEMORY, reversed))),
            matched: AtomicU64::new(0),
        }
    }

    /// Without u+wx nothing could be made in it any more, by this run or by one that goes on with it.
    pub fn must_wait(&self, entry: &Entry) -> bool {
        entry.mode & 0o300 != 0o300
    }

    /// The directory's attributes are set (again) at the very end.
    pub fn dir(&self, cx: &Context, work: &DirWork) {
        if let Some(entry) = &work.entry {
            self.dir_at(cx, work.dir.path(), work.root, entry.mtime);
        }
    }

    /// A directory in `above` that was opened to write in it gets its own mode at the very end.
    pub fn reopened(&self, cx: &Context, above: &DirWork, entry: &Entry) {
        self.dir_at(cx, entry.name.path(), above.root, entry.mtime);
    }

    /// The time comes along: when names were removed from the source it is not the directory's any more.
    fn dir_at(&self, cx: &Context, path: Vec<u8>, root: usize, mtime: Time) {
        let mut record = path;
        record.push(0);
        record.extend((root as u32).to_le_bytes());
        record.extend(mtime.secs.to_le_bytes());
        record.extend(mtime.nanos.to_le_bytes());
        if let Some(sorter) = lock(&self.dirs).as_mut() {
            spilled(cx, sorter.push(&record));
        }
    }
}

/// A spill that cannot be written leaves work undone, which is a failure of the run.
pub fn spilled(cx: &Context, written: std::io::Result<()>) {
    if let Err(e) = written {
        let e = Error::io(e, "spill").hint("the state directory must have room: --state-dir names another").kind_is(ErrorKind::NoSpace);
        cx.fail(&e, Kind::Unknown);
    }
}

/// Everything that waits. `false` if the run was stopped.
pub fn finish(cx: &Arc<Context>, supervisor: &mut Supervisor) -> bool {
    // The two apart: leaders that had to wait are copied in between.
    let done = supervisor.aside("linking", late_leaders)
        && supervisor.aside("linking", hard_links)
        && supervisor.aside("deleting", deletes)
        && supervisor.aside("finishing", leftovers)
        && supervisor.aside("finishing", directories);
    cx.sched.last_feed();
    done && supervisor.until_idle("finishing") && supervisor.aside("removing", super::emptied::remove)
}

fn directories(cx: &Arc<Context>) {
    let Some(sorter) = lock(&cx.late.dirs).take() else { return };
    if !cx.keeps_dirs() {
        return;
    }
    let sorted = match sorter.finish() {
        Ok(sorted) => sorted,
        Err(e) => return spilled(cx, Err(e)),
    };
    let mut before: Vec<u8> = Vec::new();
    for record in sorted {
        let record = match record {
            Ok(record) => record,
            Err(e) => return spilled(cx, Err(e)),
        };
        if record == before {
            continue;
        }
        if let Some((rest, nanos)) = record.split_last_chunk::<4>()
            && let Some((rest, secs)) = rest.split_last_chunk::<8>()
            && let Some((path, root)) = rest.split_last_chunk::<4>()
            && let Some(name) = Name::parse(&Dir::root(), &path[..path.len().saturating_sub(1)])
        {
            let mtime = Time { secs: i64::from_le_bytes(*secs), nanos: u32::from_le_bytes(*nanos) };
            late_directory(cx, &name, u32::from_le_bytes(*root) as usize, mtime);
        }
        before = record;
        if cx.cancel.is_set() {
            return;
        }
    }
}

fn late_directory(cx: &Context, name: &Name, root: usize, mtime: Time) {
    let source = &cx.job.roots[root].store;
    let set = cx.retry(|| source.stat(name, cx.job.keep)).and_then(|mut entry| {
        cx.transform(root, &mut entry);
        entry.mtime = mtime;
        let spec = [MetaSpec { name, entry: &entry, keep: cx.job.keep }];
        let landed = cx.retry(|| cx.target().set_meta(&spec).pop().unwrap_or(Ok(Default::default())))?;
        cx.refused(&entry, landed.refused);
        Ok(())
    });
    if let Err(e) = set
        && e.kind() != ErrorKind::NotFound
    {
        cx.fail(&e.on(name), Kind::Dir);
    }
}

/// Unfinished writes of an earlier run that this one had no use for.
fn leftovers(cx: &Arc<Context>) {
    if !cx.writes() || cx.cancel.is_set() || cx.impaired.load(Ordering::Relaxed) {
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
    let gone = match cx.target().abandon(&name, token) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            cx.warn(Warning::Note(format!("{e}")));
            false
        }
        _ => true,
    };
    if let Ok(entry) = &before {
        cx.target().set_meta(&[MetaSpec { name: &dir, entry, keep: cx.job.keep.and(MetaMask::MTIME) }]);
    }
    gone
}
