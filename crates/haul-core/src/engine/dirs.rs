//! Directories: made before anything is put into them, given their attributes when everything in them is done.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::entry::{Dir, Entry, Kind, MetaMask, Name};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Why;
use crate::option_set::OptionSet;
use crate::schedule::{DirWork, PendingDir};
use crate::store::{Flow, MetaSpec, ServerSideOp, Spec, Store, WriteOutcome};
use crate::tune::Op;

use super::backup::leads_to;
use super::context::Context;
use super::route_plan::first_attributes;
use super::tries::{retry, retry_each};

/// Nothing but the top of a root, or its own attributes too, with those that are known to differ.
pub fn top(root: usize, entry: Option<Entry>, fresh: bool, attributes: Option<MetaMask>) -> Arc<DirWork> {
    let mut top = DirWork::top(root, entry.as_ref().map_or_else(Dir::root, |e| e.name.dir.clone()));
    (top.entry, top.fresh) = (entry, fresh);
    (top.attributes, top.differ) = (attributes.is_some(), attributes.unwrap_or_default());
    Arc::new(top)
}

/// Whether the destination's top is empty: one listing saves a look-up of each name in it.
pub fn fresh_target(cx: &Context) -> bool {
    let mut empty = true;
    let listed = cx.out.timed(
        |times| &mut times.target_listing,
        || {
            cx.target().list(&Dir::root(), &mut |_| {
                empty = false;
                Flow::Stop
            })
        },
    );
    empty && listed.is_ok()
}

/// Makes directories of one parent, then lets them be listed.
pub fn make(cx: &Arc<Context>, batch: Vec<PendingDir>) {
    let Some(parent) = batch.first().map(|d| d.parent.clone()) else { return };
    let count = batch.len();
    let batch = batch.into_iter().map(|dir| unless_target(cx, remembered(cx, dir)));
    let (wanted, there): (Vec<_>, Vec<_>) = batch.partition(|d: &PendingDir| d.make && cx.makes_dirs());
    // A marker is made with its attributes, when all that is in the directory has come.
    let marked = |d: &PendingDir| d.make && cx.keeps_dirs() && cx.marks(d.parent.root, &d.entry);
    for new in there.iter().filter(|d| marked(d)) {
        cx.out.made_dir(&new.entry);
    }
    let mut works: Vec<Arc<DirWork>> =
        there.into_iter().map(|d| (d.dir(), marked(&d), d)).map(|(dir, made, d)| d.enter(dir, made)).collect();
    if !wanted.is_empty() {
        cx.clock.measured(Op::Dirs, |load| {
            load.entries = wanted.len() as u64;
            let dirs: Vec<Dir> = wanted.iter().map(PendingDir::dir).collect();
            let asked: Vec<(&Dir, u32)> = dirs.iter().zip(&wanted).map(|(dir, d)| (dir, d.entry.mode)).collect();
            let began = Instant::now();
            let made = cx.target().make_dirs(&asked);
            let mut repeated = vec![false; asked.len()];
            let made = retry_each(made, |i| {
                repeated[i] = true;
                cx.target().make_dirs(&asked[i..=i]).pop().unwrap_or(Ok(false))
            });
            cx.out.report().times.metadata += began.elapsed();
            parent.touch();
            for (((pending, dir), made), repeated) in wanted.into_iter().zip(dirs).zip(made).zip(repeated) {
                match made {
                    Ok(new) => {
                        // It was not there when it was asked for first: that call has made it, and its answer was lost.
                        let ours = new || repeated;
                        if ours {
                            cx.out.made_dir(&pending.entry);
                        }
                        let mut pending = pending;
                        pending.fresh &= new;
                        works.push(pending.enter(dir, ours));
                    }
                    Err(e) => {
                        load.failed = true;
                        let e = e.on(&pending.entry.name).hint("its contents were not copied");
                        cx.out.fail(&e, Kind::Dir);
                    }
                }
            }
        });
    }
    let (closed, open): (Vec<_>, Vec<_>) = works.into_iter().partition(|w| w.closed);
    cx.sched.push_listable(open);
    for work in closed {
        cx.sched.hold(&work);
        cx.sched.items_done(&work, 1);
    }
    cx.sched.items_done(&parent, count);
}

/// A directory of the source that is the destination by another route is neither made nor listed: a copy of it would grow for ever.
fn unless_target(cx: &Context, mut pending: PendingDir) -> PendingDir {
    if pending.closed {
        return pending;
    }
    let refused = match cx.alias.is_target(cx, pending.parent.root, &pending.entry) {
        Ok(false) => return pending,
        Ok(true) => is_the_destination(&pending.entry.name),
        Err(e) => e,
    };
    cx.out.fail(&refused, Kind::Dir);
    (pending.make, pending.attributes, pending.closed) = (false, false, true);
    pending
}

/// A directory of the source that is the destination.
pub fn is_the_destination(name: &Name) -> Error {
    let e = Error::new(ErrorKind::Usage, "list").on(name).because("it is the destination itself, inside the source");
    e.hint("exclude it, or choose another destination")
}

/// What waited on disk comes back without its extended attributes: they are read again.
fn remembered(cx: &Context, mut pending: PendingDir) -> PendingDir {
    if pending.entry.is_bare()
        && let Ok(mut entry) = cx.source(&pending.parent).stat(&pending.entry.name, cx.planner.keep)
    {
        cx.transform(pending.parent.root, &mut entry);
        first_attributes(cx, pending.parent.root, &mut entry);
        pending.entry = entry;
    }
    pending
}

/// Makes one directory at once, for a list of names that goes on below it. The caller closes its open item.
pub fn enter_now(cx: &Context, pending: PendingDir) -> Result<Arc<DirWork>> {
    let dir = pending.dir();
    let mut made = pending.make && !cx.makes_dirs() && cx.keeps_dirs() && cx.marks(pending.parent.root, &pending.entry);
    if pending.make && cx.makes_dirs() {
        pending.parent.touch();
        let mut calls = 0;
        let new = retry(|| {
            calls += 1;
            cx.target().make_dirs(&[(&dir, pending.entry.mode)]).pop().unwrap_or(Ok(false))
        });
        made = new.map_err(|e| e.on(&pending.entry.name))? || calls > 1;
    }
    if made || (pending.make && !cx.writes() && cx.marks(pending.parent.root, &pending.entry)) {
        cx.out.made_dir(&pending.entry);
    } else if pending.attributes && !pending.make && !cx.writes() {
        cx.out.set_meta(Why::Attributes(pending.differ), &pending.entry);
    }
    let work = pending.enter(dir, made);
    cx.sched.hold(&work);
    Ok(work)
}

/// Directories of which everything is done get their own attributes. Those that would lock us out wait for the end.
pub fn finish(cx: &Arc<Context>, mut works: Vec<Arc<DirWork>>) {
    let began = Instant::now();
    if let Some(ranks) = &cx.ranks {
        works.retain(|work| !ranks.gives_back(cx, work));
    }
    if cx.job.remove_dirs && cx.writes() {
        works.iter().for_each(|work| cx.post_pass.emptied(&cx.out, work));
    }
    let mut due: Vec<(Name, &Arc<DirWork>, OptionSet)> = Vec::new();
    for work in &works {
        let Some(entry) = &work.entry else { continue };
        // Backups that are still to come change its time.
        let backed_up = cx.keeps_dirs() && cx.job.backup.as_ref().is_some_and(|backup| leads_to(&work.dir.path(), backup));
        if backed_up {
            cx.post_pass.dir(&cx.out, work);
            report_attributes(cx, work, entry, OptionSet::NONE);
        }
        // What is put into a directory changes its time only where directories are things.
        let touched = work.touched.load(Ordering::Relaxed) && cx.makes_dirs();
        let has_options = !work.made && cx.refreshes_markers(work.root);
        if !cx.marks(work.root, entry) {
        } else if touched || work.attributes || work.made {
            if !cx.keeps_dirs() || backed_up {
            } else if cx.post_pass.must_wait(entry) {
                cx.post_pass.dir(&cx.out, work);
                report_attributes(cx, work, entry, OptionSet::NONE);
            } else {
                let name = Name::of(&work.dir);
                // They are set together with the attributes; a failure is theirs, too.
                let lacked =
                    has_options.then(|| retry(|| cx.target().extensions().options.apply(&name, Kind::Dir, true)).unwrap_or_default());
                due.push((name, work, lacked.unwrap_or_default()));
            }
        } else if has_options {
            refresh(cx, work, entry);
        }
    }
    if !due.is_empty() {
        cx.clock.measured(Op::Other, |load| {
            load.entries = due.len() as u64;
            let named = due.iter().filter_map(|(name, work, _)| Some((name, *work, work.entry.as_ref()?)));
            let set: Vec<Result<WriteOutcome>> = if cx.target().caps().markers {
                named.map(|(name, work, entry)| set_marker(cx, cx.source(work), name, entry)).collect()
            } else {
                let specs: Vec<MetaSpec<'_>> = named.map(|(name, _, entry)| MetaSpec { name, entry, keep: cx.job.keep }).collect();
                let set = cx.target().set_meta(&specs);
                retry_each(set, |i| cx.target().set_meta(&specs[i..=i]).pop().unwrap_or(Ok(WriteOutcome::default())))
            };
            for (landed, (name, work, lacked)) in set.into_iter().zip(&due) {
                let Some(entry) = &work.entry else { continue };
                match landed {
                    Ok(landed) => {
                        cx.out.refused(entry, landed.refused);
                        if !landed.refused.has(MetaMask::DENIED) {
                            report_attributes(cx, work, entry, *lacked);
                        }
                    }
                    Err(e) => cx.out.fail(&e.on(name), Kind::Dir),
                }
            }
        });
    }
    cx.out.report().times.metadata += began.elapsed();
    for work in &works {
        if work.root + 1 == cx.job.roots.len() {
            cx.target().extensions().system.forget(&work.dir);
        }
        cx.source(work).extensions().system.forget(&work.dir);
    }
}

/// Sets the attributes of a directory that has a marker, or none yet. The marker of another object store is copied like an object.
pub fn set_marker(cx: &Context, source: &dyn Store, name: &Name, entry: &Entry) -> Result<WriteOutcome> {
    let mut entry = entry.clone();
    if source.caps().markers {
        if cx.target().extensions().server_side.copies(source, 0) {
            let spec = Spec { entry: &entry, keep: cx.job.keep, chunk: cx.job.chunk, in_place: false, sync: false };
            if let Some(landed) =
                retry(|| cx.target().extensions().server_side.perform(source, &entry, name, ServerSideOp::Copy(&spec, &|_| Ok(()))))?
            {
                return Ok(landed);
            }
        }
        entry.headers = retry(|| source.extensions().options.marker_headers(name)).map_err(Error::of_source)?;
    }
    let spec = [MetaSpec { name, entry: &entry, keep: cx.job.keep }];
    retry(|| cx.target().set_meta(&spec).pop().unwrap_or(Ok(WriteOutcome::default())))
}

/// The marker of a directory that is as it should be, but for what the options of the destination ask for.
fn refresh(cx: &Context, work: &DirWork, entry: &Entry) {
    let name = Name::of(&work.dir);
    match retry(|| cx.target().extensions().options.apply(&name, Kind::Dir, !cx.writes())) {
        Ok(lacked) if !lacked.is_empty() => cx.out.set_meta(Why::Options(lacked), entry),
        // The top of a root is not counted.
        Ok(_) if work.parent.is_some() => {
            cx.out.tally.kept.fetch_add(1, Ordering::Relaxed);
            cx.out.report().kept.add(Kind::Dir, 1);
            cx.out.keep(Why::Same, entry);
        }
        Ok(_) => {}
        Err(e) => cx.out.fail(&e.on(&name), Kind::Dir),
    }
}

/// A directory that was there and gets other attributes, or what it `lacked` of the options, is an item of the run; one that was made
/// is one already.
fn report_attributes(cx: &Context, work: &DirWork, entry: &Entry, lacked: OptionSet) {
    if work.attributes && !work.made {
        cx.out.set_meta(if lacked.is_empty() { Why::Attributes(work.differ) } else { Why::Options(lacked) }, entry);
    }
}
