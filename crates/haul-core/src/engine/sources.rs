//! The source of a move: a name of it goes only on proof, taken at that moment.
//!
//! Callers have verified the copy. What is asked here, right before the removal, is whether the name still is what was read, and
//! whether the destination is not the source itself by another route.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::entry::{Dir, Entry, Kind, MetaMask, Name, Time};
use crate::error::{Error, ErrorKind};
use crate::event::Warning;
use crate::job::Pick;
use crate::schedule::DirWork;
use crate::spill::SpillQueue;
use crate::store::Found;

use super::aliases::Alias;
use super::context::Context;
use super::post_pass::{IN_MEMORY, sorted};
use super::tries::{gone_is_done, look_up, retry_each};

/// Removes entries of one directory of the source, whose copies are verified. Names of files with several names wait until all of
/// them are placed: see [`remove_linked`].
pub fn remove_sources(cx: &Context, work: &DirWork, entries: &[Entry]) {
    let is_linked = |entry: &Entry| cx.job.links.hard && entry.nlink > 1;
    {
        let mut hard = cx.hard();
        entries.iter().for_each(|entry| hard.verified(entry));
    }
    for entry in entries.iter().filter(|entry| is_linked(entry)) {
        cx.post_pass.placed(&cx.out, entry.ino, &Alias::encode(work, entry));
    }
    let alone: Vec<&Entry> = entries.iter().filter(|entry| !is_linked(entry)).collect();
    if alone.is_empty() || cx.cancel.is_set() {
        return;
    }
    work.timed.call_once(|| record_time(cx, work.root, &work.dir, work.entry.as_ref().map(|entry| entry.mtime)));
    remove(cx, work.root, &work.dir, &alone);
}

/// A run that goes on with this one gives the copy of the directory the time that the source's has now. Of one whose entry is not at
/// hand it is looked up: no name of it has been removed, or its time is recorded already.
fn record_time(cx: &Context, root: usize, dir: &Dir, mtime: Option<Time>) {
    let named = dir.is_root() && !matches!(cx.job.roots[root].pick, Pick::Contents);
    if named || !cx.keeps_dirs() || !cx.job.keep.has(MetaMask::MTIME) || !cx.journal.keeps() {
        return;
    }
    let look_up = || cx.job.roots[root].store.stat(&Name::of(dir), MetaMask::NONE).ok().map(|entry| entry.mtime);
    let known = cx.past.dir_time(|| dir.path());
    if let Some(mtime) = known.or(mtime).or_else(look_up) {
        cx.journal.dir_time(&dir.path(), mtime);
    }
}

/// Removes the names of files with several names, if each of them that the run met is placed; else all of them stay, so that the
/// next run finds them linked.
pub fn remove_linked(cx: &Arc<Context>) {
    let mut group = Group { ino: [0; 8], met: 0, placed: 0, names: SpillQueue::new(&cx.spill, IN_MEMORY), ready: Vec::new() };
    for record in sorted(&cx.post_pass.held, &cx.out) {
        let Some((ino, rest)) = record.split_first_chunk::<8>() else { continue };
        if group.ino != *ino {
            group.end(cx);
            group.ino = *ino;
        }
        match rest.split_first() {
            Some((0, _)) => group.met += 1,
            Some((_, alias)) => {
                group.placed += 1;
                cx.out.spilled(group.names.push(alias));
            }
            None => {}
        }
        if cx.cancel.is_set() {
            return;
        }
    }
    group.end(cx);
    group.remove_ready(cx);
}

/// Names that are removed together.
const BATCH: usize = 512;

/// The names of one inode.
struct Group {
    ino: [u8; 8],
    met: u64,
    placed: u64,
    names: SpillQueue,
    /// Those of groups before this one that can go.
    ready: Vec<Alias>,
}

impl Group {
    fn end(&mut self, cx: &Context) {
        // What failed on the rank that met it is not counted here.
        let failed = cx.ranks.is_some() && cx.out.impaired.load(Ordering::Relaxed);
        let complete = self.placed >= self.met && !failed;
        loop {
            let alias = match self.names.pop() {
                Ok(Some(record)) => Alias::decode(&record),
                Ok(None) => break,
                Err(e) => return cx.out.spilled(Err(e)),
            };
            let Some(alias) = alias else { continue };
            if complete {
                self.ready.push(alias);
            } else {
                cx.out.left_behind(alias.entry.kind);
                let shown = crate::entry::show(alias.path());
                cx.out.warn(Warning::Note(format!("{shown}: kept at the source: other hard links of it were not moved")));
            }
            if self.ready.len() >= BATCH {
                self.remove_ready(cx);
            }
        }
        (self.met, self.placed) = (0, 0);
    }

    /// A request for each directory, not for each name.
    fn remove_ready(&mut self, cx: &Context) {
        let parse = |alias: Alias| Some((alias.root, Entry { name: Name::parse(&Dir::root(), alias.path())?, ..alias.entry }));
        let mut names: Vec<(usize, Entry)> = self.ready.drain(..).filter_map(parse).collect();
        let key = |(root, entry): &(usize, Entry)| (*root, entry.name.dir.path());
        names.sort_by_cached_key(key);
        for names in names.chunk_by(|a, b| key(a) == key(b)) {
            let (root, dir) = (names[0].0, &names[0].1.name.dir);
            record_time(cx, root, dir, None);
            let entries: Vec<&Entry> = names.iter().map(|(_, entry)| entry).collect();
            remove(cx, root, dir, &entries);
        }
    }
}

fn remove(cx: &Context, root: usize, dir: &Dir, entries: &[&Entry]) {
    let Some(first) = entries.first() else { return };
    let is_renamed = dir.is_root() && cx.job.rename.as_ref().is_some_and(|leaf| leaf[..] != *first.name.leaf);
    let alias = if is_renamed { Ok(false) } else { cx.alias.is_source(cx, root, dir, first.dev) };
    if let Some(refused) = alias.map_or_else(|e| Some(e.hint("the source was kept")), |same| same.then(is_itself)) {
        return entries.iter().for_each(|entry| cx.out.fail(&refused.again().renamed(&entry.name), entry.kind));
    }
    let source = &*cx.job.roots[root].store;
    let leaves: Vec<&[u8]> = entries.iter().map(|entry| &*entry.name.leaf).collect();
    let found = look_up(source, dir, &leaves, MetaMask::CTIME, cx.job.links.follow);
    let mut removable = Vec::with_capacity(entries.len());
    for (found, entry) in found.into_iter().zip(entries) {
        match found {
            Found::Entry(now) if is_as_read(entry, &now) => removable.push((*entry).clone()),
            Found::Entry(_) => {
                let e = Error::new(ErrorKind::Changed, "move").on(&entry.name).because("it changed after it was read; the source was kept");
                cx.out.fail_source(e.hint("run the same command again: it moves what is there then"), entry.kind);
            }
            Found::Absent => {}
            Found::Failed(e) => cx.out.fail_source(e.on(&entry.name), entry.kind),
        }
    }
    let again = |i: usize| gone_is_done(source.remove(&removable[i..=i]).pop().unwrap_or(Ok(())));
    for (removed, entry) in retry_each(source.remove(&removable), again).into_iter().zip(&removable) {
        if let Err(e) = removed {
            cx.out.fail_source(e.on(&entry.name), entry.kind);
        }
    }
}

fn is_itself() -> Error {
    let e = Error::new(ErrorKind::Usage, "move").because("source and destination are the same file, reached by another route");
    e.hint("the source was kept")
}

/// Whether a name of the source still is what was read of it.
fn is_as_read(read: &Entry, now: &Entry) -> bool {
    if read.kind != now.kind || read.target.is_some() && read.target != now.target {
        return false;
    }
    if read.kind == Kind::File && read.size != now.size {
        return false;
    }
    let differs = |a: u64, b: u64| a != 0 && b != 0 && a != b;
    // Removing or adding another name of the file changes its ctime.
    let ctime = read.nlink == 1 && differs(read.ctime, now.ctime);
    if ctime || differs(read.version, now.version) || differs(read.ino, now.ino) {
        return false;
    }
    // An equal ETag says more than a time, which listings and headers give in different resolutions.
    let is_tagged = read.ino == 0 && read.version != 0 && now.version != 0;
    let timed = read.have.has(MetaMask::MTIME) && now.have.has(MetaMask::MTIME);
    is_tagged || !timed || read.mtime == now.mtime
}
