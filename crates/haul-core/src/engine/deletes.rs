//! Names that only the destination has: kept on disk until everything has landed, then removed, or none of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::entry::{Dir, Entry, Kind, Name, codec};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Action, Warning, Why};
use crate::filter::Verdict;
use crate::hint::Hint;
use crate::job::Mode;
use crate::report::{Ending, Skipped};
use crate::schedule::DirWork;
use crate::spec::MaxDelete;
use crate::spill::{SpillQueue, SpillStack};
use crate::store::{Flow, remove_emptied};

use super::backup::{back_up_by_rename, leads_to};
use super::context::Context;
use super::post_pass::IN_MEMORY;
use super::tries::{gone_is_done, retry_each};
use crate::lock::lock;

/// Entries removed by one call.
const BATCH: usize = 256;

/// A name that only the destination has.
pub fn extra(cx: &Context, work: &DirWork, target: &Entry) {
    if cx.ends.stays(target) {
        return;
    }
    if cx.job.backup.as_ref().is_some_and(|backup| leads_to(&target.name.path(), backup)) {
        return;
    }
    if cx.job.mode == Mode::Check {
        if target.kind.is_special() && !cx.job.links.specials {
            return;
        }
        cx.out.report().extra += 1;
        return cx.out.item(Action::Extra, Why::Extra, target);
    }
    mark_for_deletion(cx, work, target);
}

/// It goes when all has landed.
pub fn mark_for_deletion(cx: &Context, work: &DirWork, target: &Entry) {
    if cx.job.deletion.is_none() || cx.job.mode != Mode::Copy || cx.ends.stays(target) {
        return;
    }
    let mut record = target.ino.to_le_bytes().to_vec();
    record.push(codec::kind_number(target.kind));
    record.extend(target.name.path());
    cx.out.spilled(lock(&cx.post_pass.to_delete).push(&record));
    cx.post_pass.dir(&cx.out, work);
}

/// After everything has landed, and not at all if anything failed to list or to copy.
pub fn deletes(cx: &Arc<Context>) {
    let topmost = topmost(cx);
    if topmost == 0 || cx.cancel.is_set() {
        return;
    }
    if is_unsafe(cx) {
        return skip_deletes(cx, topmost);
    }
    if is_nothing_listed(cx, topmost, cx.post_pass.listed.load(Ordering::Relaxed)) {
        return;
    }
    if is_limited(cx) {
        count(cx);
    }
    let (matched, counted) = (cx.post_pass.matched.load(Ordering::Relaxed), cx.post_pass.counted.load(Ordering::Relaxed));
    if are_allowed(cx, topmost, matched, counted) {
        remove_marked(cx);
    }
}

/// How many names are to be deleted, of a tree only its top.
pub fn topmost(cx: &Context) -> u64 {
    lock(&cx.post_pass.to_delete).len()
}

/// A source that lists nothing may be a file system that is not mounted. Says so if that is why nothing is deleted.
pub fn is_nothing_listed(cx: &Context, topmost: u64, listed: u64) -> bool {
    if listed > 0 || cx.job.policy.force {
        return false;
    }
    let names = if topmost == 1 { "1 name".to_string() } else { format!("{topmost} names") };
    let e = Error::new(ErrorKind::Usage, "delete").because(format!("the source lists nothing, and the destination has {names}"));
    cx.out.fail(&e.advise(Hint::NothingListed), Kind::Dir);
    true
}

/// Something could not be listed or copied, so that a name may only look like one too many.
fn is_unsafe(cx: &Context) -> bool {
    cx.out.impaired.load(Ordering::Relaxed) && cx.job.deletion.is_none_or(|deletion| !deletion.ignore_errors)
}

pub fn is_limited(cx: &Context) -> bool {
    cx.job.deletion.is_some_and(|deletion| deletion.most.is_some())
}

/// Counts what would be deleted, with all that is below.
pub fn count(cx: &Arc<Context>) {
    let mut to_delete = std::mem::replace(&mut *lock(&cx.post_pass.to_delete), SpillQueue::new(&cx.spill, IN_MEMORY));
    let mut count = 0;
    loop {
        let record = match to_delete.pop() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(e) => return cx.out.spilled(Err(e)),
        };
        match doomed_entry(&record, &mut None) {
            Some(entry) if entry.kind == Kind::Dir => would_go(cx, &entry, &mut |_| count += 1),
            Some(_) => count += 1,
            None => {}
        }
        cx.out.spilled(lock(&cx.post_pass.to_delete).push(&record));
    }
    cx.post_pass.counted.store(count + cx.post_pass.replaced.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Whether a run that deletes removes what stands in the way of an entry of another type. It counts for `--max-delete`; of a share nothing
/// can be known before all has been counted.
pub fn gives_way(cx: &Context, target: &Entry) -> Result<bool> {
    let Some(deletion) = cx.job.deletion else { return Ok(false) };
    let most = match deletion.most {
        None => return Ok(true),
        // The others' deletes are not known before the end.
        _ if cx.ranks.is_some() => return Ok(false),
        Some(MaxDelete::Percent(_)) => return Ok(false),
        Some(MaxDelete::Count(most)) => most,
    };
    let mut count = 0;
    match target.kind {
        Kind::Dir => would_go(cx, target, &mut |_| count += 1),
        _ => count = 1,
    }
    let before = cx.post_pass.replaced.fetch_add(count, Ordering::Relaxed);
    if before + count <= most {
        return Ok(true);
    }
    cx.post_pass.replaced.fetch_sub(count, Ordering::Relaxed);
    let e = Error::new(ErrorKind::Usage, "replace").on(&target.name);
    Err(e.because(format!("{count} names would be deleted to make room, more than --max-delete allows")))
}

/// Whether what was counted may go, where that is limited; if not, says so.
pub fn are_allowed(cx: &Context, topmost: u64, matched: u64, counted: u64) -> bool {
    // Whatever went wrong while they were counted, the count is not to be trusted.
    if cx.cancel.is_set() || is_unsafe(cx) {
        skip_deletes(cx, topmost);
        return false;
    }
    let Some(most) = cx.job.deletion.and_then(|deletion| deletion.most) else { return true };
    let limit = match most {
        MaxDelete::Count(n) => n,
        MaxDelete::Percent(percent) => (matched + counted) * u64::from(percent) / 100,
    };
    if counted <= limit {
        return true;
    }
    let why = Skipped::TooMany { allowed: limit, names: counted };
    cx.out.report().deletes_skipped = Some(why.clone());
    cx.out.report().ending = Ending::TooManyDeletes;
    cx.out.warn(Warning::DeletesSkipped(why));
    false
}

/// Deletes what was marked.
pub fn remove_marked(cx: &Arc<Context>) {
    let mut to_delete = std::mem::replace(&mut *lock(&cx.post_pass.to_delete), SpillQueue::new(&cx.spill, IN_MEMORY));
    let (mut parent, mut checked) = (None, None);
    let mut batch = Vec::new();
    loop {
        let record = match to_delete.pop() {
            Ok(record) => record,
            Err(e) => return cx.out.spilled(Err(e)),
        };
        let entry = record.as_deref().and_then(|record| doomed_entry(record, &mut parent));
        if let Some(entry) = &entry
            && checked.replace(entry.name.dir.id()).is_none_or(|before| before != entry.name.dir.id())
            && is_in_source(cx, entry)
        {
            return;
        }
        if batch.len() >= BATCH || (record.is_none() && !batch.is_empty()) {
            delete_batch(cx, std::mem::take(&mut batch));
        }
        match (record, entry) {
            (None, _) => return,
            (_, Some(entry)) if entry.kind == Kind::Dir => delete_tree(cx, entry),
            (_, Some(entry)) => batch.push(entry),
            (_, None) => {}
        }
        if cx.cancel.is_set() {
            return;
        }
    }
}

/// Whether the destination's directory is the source's by another route: then nothing is too many.
fn is_in_source(cx: &Context, entry: &Entry) -> bool {
    // A directory above it may be the source's, under the name of one of the source's own.
    let mut above = Dir::root();
    let path = entry.name.dir.path();
    for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && !cx.job.dry) {
        let dir = Entry::bare(Name::new(&above, part), Kind::Dir);
        above = above.child(part);
        if is_source(cx, &dir) {
            cx.out.fail(&is_the_source(entry), entry.kind);
            return true;
        }
    }
    let alias = |root| cx.alias.is_source(cx, root, &entry.name.dir, 0);
    let refused = match (0..cx.job.roots.len()).map(alias).find(|same| !matches!(same, Ok(false))) {
        _ if cx.job.dry => return false,
        None | Some(Ok(false)) => return false,
        Some(Ok(true)) => is_the_source(entry),
        Some(Err(e)) => e.advise(Hint::DeleteNothing),
    };
    cx.out.fail(&refused, entry.kind);
    true
}

/// Whether a directory of the destination is one that is copied, by another name or another route.
fn is_source(cx: &Context, dir: &Entry) -> bool {
    cx.ends.is_source(dir)
        || cx.alias.is_root(cx, &dir.name.dir.child(&dir.name.leaf)).unwrap_or_else(|e| {
            cx.out.fail(&e, Kind::Dir);
            true
        })
}

fn skip_deletes(cx: &Context, topmost: u64) {
    let why = Skipped::Impaired { names: topmost };
    cx.out.report().deletes_skipped = Some(why.clone());
    cx.out.warn(Warning::DeletesSkipped(why));
}

/// The record as an entry; consecutive names of one directory share its node, and with it a descriptor.
fn doomed_entry(record: &[u8], parent: &mut Option<(Vec<u8>, Dir)>) -> Option<Entry> {
    let (ino, rest) = record.split_first_chunk::<8>()?;
    let (kind, path) = rest.split_first()?;
    let cut = path.iter().rposition(|b| *b == b'/');
    let (above, leaf) = cut.map_or((&b""[..], path), |i| (&path[..i], &path[i + 1..]));
    let dir = match parent {
        Some((known, dir)) if known == above => dir.clone(),
        _ => {
            let mut dir = Dir::root();
            for part in above.split(|b| *b == b'/').filter(|part| !part.is_empty()) {
                dir = dir.child(part);
            }
            *parent = Some((above.to_vec(), dir.clone()));
            dir
        }
    };
    let mut entry = Entry::bare(Name::new(&dir, leaf), codec::kind_of(*kind));
    entry.ino = u64::from_le_bytes(*ino);
    Some(entry)
}

fn is_the_source(entry: &Entry) -> Error {
    let e = Error::new(ErrorKind::Usage, "delete").on(&entry.name).because("it is the source, reached by another route");
    e.advise(Hint::DeleteNothing)
}

fn delete_batch(cx: &Context, mut batch: Vec<Entry>) {
    if cx.job.dry {
        for entry in &batch {
            deleted(cx, entry);
        }
        return;
    }
    if cx.job.backup.is_some() {
        let keep = |entry: &Entry| match entry.kind {
            // What it held is kept by now, below a directory of its name.
            Kind::Dir => Ok(false),
            _ => back_up_by_rename(cx, &entry.name),
        };
        batch.retain(|entry| match keep(entry) {
            Ok(true) => {
                deleted(cx, entry);
                false
            }
            Ok(false) => true,
            Err(e) => {
                cx.out.fail(&e.on(&entry.name), entry.kind);
                false
            }
        });
    }
    let removed = cx.target().remove(&batch);
    let removed = retry_each(removed, |i| gone_is_done(cx.target().remove(&batch[i..=i]).pop().unwrap_or(Ok(()))));
    for (removed, entry) in removed.into_iter().zip(&batch) {
        match removed.or_else(|e| remove_emptied(cx.target(), entry, e)) {
            Ok(()) => deleted(cx, entry),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => cx.out.fail(&e.on(&entry.name), entry.kind),
        }
    }
}

fn deleted(cx: &Context, entry: &Entry) {
    cx.out.report().deleted.add(entry.kind, 1);
    cx.out.item(Action::Delete, Why::Extra, entry);
}

/// Whether the filter keeps a name that only the destination has. An entry of unknown kind is kept if it would be as a file or as
/// a directory.
pub fn protected(cx: &Context, entry: &Entry) -> bool {
    if cx.job.deletes_excluded() || cx.job.filter.is_empty() {
        return false;
    }
    let excluded = |is_dir| cx.job.filter.check(&entry.name.path(), is_dir) == Verdict::Exclude;
    match entry.kind {
        Kind::Dir => excluded(true),
        Kind::Unknown => excluded(false) || (cx.target().caps().dirs && excluded(true)),
        _ => excluded(false),
    }
}

/// Everything below a directory that may be removed, parents first, in bounded memory; and whether the filters protect it, which
/// leaves all below it alone.
fn below(cx: &Context, name: &Name, each: &mut dyn FnMut(&Entry, bool)) {
    let mut stack = SpillStack::new(&cx.spill, IN_MEMORY);
    cx.out.spilled(stack.push(&name.path()));
    loop {
        let path = match stack.pop() {
            Ok(Some(path)) => path,
            Ok(None) => return,
            Err(e) => return cx.out.spilled(Err(e)),
        };
        let Some(name) = Name::parse(&Dir::root(), &path) else { continue };
        let dir = name.dir.child(&name.leaf);
        let listed = cx.target().list(&dir, &mut |found| {
            if let Ok(entry) = found {
                let kept = protected(cx, &entry) || cx.ends.stays(&entry) || cx.ends.is_source(&entry);
                each(&entry, kept);
                if entry.kind == Kind::Dir && !kept {
                    cx.out.spilled(stack.push(&entry.name.path()));
                }
            }
            if cx.cancel.is_set() { Flow::Stop } else { Flow::Go }
        });
        if let Err(e) = listed {
            cx.out.fail(&e.on(&name), Kind::Dir);
        }
        cx.target().extensions().system.forget(&dir);
        if cx.cancel.is_set() {
            return;
        }
    }
}

/// What [`delete_tree`] would remove: neither what the filters protect nor a directory above such a name.
fn would_go(cx: &Context, top: &Entry, each: &mut dyn FnMut(&Entry)) {
    let mut keepers = std::collections::HashSet::new();
    if !cx.job.filter.is_empty() && !cx.job.deletes_excluded() {
        let length = top.name.path().len();
        below(cx, &top.name, &mut |entry, kept| {
            let path = entry.name.path();
            let slashes = path.iter().enumerate().skip(length).filter(|(_, byte)| kept && **byte == b'/');
            keepers.extend(slashes.map(|(i, _)| path[..i].to_vec()));
        });
    }
    below(cx, &top.name, &mut |entry, kept| {
        if !kept && !keepers.contains(&entry.name.path()) {
            each(entry);
        }
    });
    if !keepers.contains(&top.name.path()) {
        each(top);
    }
}

/// Removes a directory tree, children first. Each round lists again and removes one batch, so that memory is bounded. What the
/// filters protect stays, with the directories above it.
pub fn delete_tree(cx: &Context, top: Entry) {
    if is_source(cx, &top) {
        return cx.out.fail(&is_the_source(&top), Kind::Dir);
    }
    if cx.job.dry {
        return would_go(cx, &top, &mut |entry| deleted(cx, entry));
    }
    let mut keepers: std::collections::HashSet<Vec<u8>> = std::collections::HashSet::new();
    let mut stack = vec![(top.name.dir.child(&top.name.leaf), top)];
    while let Some((dir, _)) = stack.last() {
        if cx.cancel.is_set() {
            return;
        }
        let (mut files, mut inner, mut kept) = (Vec::new(), None, false);
        let listed = cx.target().list(dir, &mut |found| {
            match found {
                Ok(entry) if protected(cx, &entry) || cx.ends.stays(&entry) || keepers.contains(&entry.name.path()) => kept = true,
                Ok(entry) if entry.kind == Kind::Dir => inner = Some(entry),
                Ok(entry) => files.push(entry),
                Err(_) => kept = true,
            }
            if files.len() >= BATCH || inner.is_some() { Flow::Stop } else { Flow::Go }
        });
        let failed_before = cx.out.tally.failed.load(Ordering::Relaxed);
        if let Err(e) = listed {
            return cx.out.fail(&e.on(&Name::of(dir)), Kind::Dir);
        }
        let more = files.len() >= BATCH;
        delete_batch(cx, files);
        if let Some(entry) = inner.take_if(|entry| is_source(cx, entry)) {
            cx.out.fail(&is_the_source(&entry), Kind::Dir);
            keepers.insert(entry.name.path());
            continue;
        }
        if let Some(entry) = inner {
            stack.push((entry.name.dir.child(&entry.name.leaf), entry));
        } else if !more && let Some((dir, entry)) = stack.pop() {
            cx.target().extensions().system.forget(&dir);
            if kept {
                cx.out.warn(Warning::Note(format!("{}/: not removed: it is not empty", crate::entry::show(&dir.path()))));
                keepers.insert(entry.name.path());
            } else {
                delete_batch(cx, vec![entry]);
            }
        }
        if cx.out.tally.failed.load(Ordering::Relaxed) > failed_before {
            return;
        }
    }
}
