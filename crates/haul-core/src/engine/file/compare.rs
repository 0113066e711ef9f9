//! Files that are compared by content before they are copied, or in place of that.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::bundle::Spent;
use crate::engine::context::Context;
use crate::engine::digest::{self, Side};
use crate::engine::references::link;
use crate::engine::sources::remove_sources;
use crate::engine::tries::retry;
use crate::entry::{Entry, Kind, MetaMask, Name};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Why;
use crate::option_set::OptionSet;
use crate::plan::{Act, Compare, Step};
use crate::store::{MetaSpec, Source, Store, WriteOutcome, chunks};
use crate::tune::Op;

use super::open_file::{OpenFile, Reference};

/// A file whose content decides: reads both sides. `true` if that settled it.
pub fn settles(cx: &Context, file: &OpenFile) -> Result<bool> {
    if file.step.act != Act::Compare || file.is_second_try() || file.open_to_all.load(Ordering::Relaxed) {
        return Ok(false);
    }
    let entry = file.entry();
    let same = same_content(cx, file, &entry, (cx.target(), &cx.target_name(&entry.name)))?;
    if cx.job.mode == crate::job::Mode::Check {
        let attributes = if same { differing(cx, &entry)? } else { MetaMask::NONE };
        match attributes {
            _ if !same => cx.out.differs(file.step.why, &entry),
            MetaMask::NONE => {
                cx.out.report().kept.files += 1;
                cx.out.keep(Why::Same, &entry);
            }
            attributes => cx.out.differs(Why::Attributes(attributes), &entry),
        }
        cx.out.tally.done_files.fetch_add(1, Ordering::Relaxed);
        cx.sched.items_done(&file.work, 1);
        return Ok(true);
    }
    if !same {
        cx.out.tally.compared_bytes.fetch_sub(entry.size, Ordering::Relaxed);
    }
    if same {
        settle_attributes(cx, file, &entry)?;
    } else if !cx.writes() {
        would_copy(cx, file, &entry);
    }
    Ok(same || !cx.writes())
}

/// A dry run's way of copying.
fn would_copy(cx: &Context, file: &OpenFile, entry: &Entry) {
    let mut report = cx.out.report();
    report.made.files += 1;
    report.file_bytes += entry.size;
    drop(report);
    let act = if file.step.act == Act::Compare { Act::File { replace: true } } else { file.step.act };
    cx.out.item(Step { act, ..file.step }.action(Kind::File), file.step.why, entry);
    cx.sched.items_done(&file.work, 1);
}

/// Whether one of the references had the content, or this is a dry run, so that nothing is left to do.
pub fn settled_by_link(cx: &Context, file: &OpenFile) -> bool {
    let references = file.take_references();
    if references.is_empty() {
        return false;
    }
    let entry = file.entry();
    // What cannot be compared is copied, and says what is wrong with it.
    let same = |(tree, there): &&Reference| same_content(cx, file, &entry, (&*cx.job.link_dest[*tree], &there.name)).unwrap_or(false);
    let linked = references.iter().filter(same).any(|reference| link(cx, &file.work, &entry, reference));
    if linked {
        cx.out.tally.done_files.fetch_add(1, Ordering::Relaxed);
        cx.sched.items_done(&file.work, 1);
    } else if !cx.writes() {
        would_copy(cx, file, &entry);
    }
    linked || !cx.writes()
}

/// Reads the source's file and another.
fn same_content(cx: &Context, file: &OpenFile, entry: &Entry, (store, name): (&dyn Store, &Name)) -> Result<bool> {
    let began = Instant::now();
    let target = Entry { name: name.clone(), have: MetaMask::NONE, ..entry.clone() };
    let flight = cx.clock.begin(&entry.name, entry.size, "compare");
    let (mut ours_spent, mut theirs_spent) = (Spent::default(), Spent::default());
    let same = cx.clock.measured(Op::Chunk, |load| {
        load.bytes = entry.size * 2;
        load.entries = 1;
        // Bare: a store that reads ahead when a file is opened has no reason to.
        let bare = Entry { have: MetaMask::NONE, ..entry.clone() };
        let ours = retry(|| cx.source(&file.work).open(&bare, cx.job.links.follow)).map_err(Error::of_source)?;
        if retry(|| ours.stamp()).map_err(Error::of_source)? != entry.stamp() {
            return Err(Error::new(ErrorKind::Changed, "read").because("it changed since it was listed"));
        }
        let sides = [Side::source(cx.source(&file.work), &bare, &*ours), Side::of(store, &target)];
        if let Some(same) = digest::same(cx, sides, [&mut ours_spent, &mut theirs_spent])? {
            return Ok(same);
        }
        let theirs = retry(|| store.open(&target, false))?;
        if let Some(same) = told(cx, (&*ours, &mut ours_spent), (&*theirs, &mut theirs_spent), entry.size)? {
            return Ok(same);
        }
        let caps = cx.source(&file.work).caps().read_ranges && store.caps().read_ranges;
        let ranges = caps && !ours.extensions().in_order && !theirs.extensions().in_order;
        chunks(entry.size, if ranges { 64 << 20 } else { entry.size }).try_fold(true, |same, part| {
            let hash = |from: &dyn Source, spent: &mut Spent| retry(|| cx.meter.hash(from, part.at.clone(), spent));
            Ok::<_, Error>(same && hash(&*ours, &mut ours_spent).map_err(Error::of_source)? == hash(&*theirs, &mut theirs_spent)?)
        })
    });
    cx.clock.end(&flight);
    {
        let mut report = cx.out.report();
        report.times.reading += ours_spent.reading;
        report.times.verifying += theirs_spent.reading;
        report.times.hashing += ours_spent.hashing + theirs_spent.hashing;
        report.times.opening += began.elapsed().saturating_sub(ours_spent.sum() + theirs_spent.sum());
    }
    same
}

/// Whether two files have the same content. Where a store keeps a checksum of one of them, only the other is read, or neither.
fn told(
    cx: &Context,
    (ours, ours_spent): (&dyn Source, &mut Spent),
    (theirs, theirs_spent): (&dyn Source, &mut Spent),
    size: u64,
) -> Result<Option<bool>> {
    if let (Some(here), Some(there)) = (ours.extensions().checksum.text(), theirs.extensions().checksum.text()) {
        let kind = |claim: &str| claim.split_once(':').map(|(kind, _)| kind.to_string());
        if kind(&here) == kind(&there) {
            return Ok(Some(here == there));
        }
    }
    for (judging, read, spent) in [(theirs, ours, ours_spent), (ours, theirs, theirs_spent)] {
        if let Some(mut verifier) = retry(|| judging.extensions().checksum.verifier())? {
            cx.meter.look(read, 0..size, spent, &mut |bytes| verifier.update(bytes))?;
            if let Some(same) = verifier.verdict() {
                return Ok(Some(same));
            }
        }
    }
    Ok(None)
}

/// The attributes in which a file with the same content differs. Times count whatever the files were compared by.
fn differing(cx: &Context, entry: &Entry) -> Result<MetaMask> {
    let target = cx.target().stat(&cx.target_name(&entry.name), cx.planner.keep)?;
    let mut planner = cx.planner.clone();
    planner.policy.compare = Compare::SizeAndTime;
    Ok(planner.differing(entry, &target))
}

/// The content is the same: only attributes may be wrong.
fn settle_attributes(cx: &Context, file: &OpenFile, entry: &Entry) -> Result<()> {
    let name = cx.target_name(&entry.name);
    let differing = differing(cx, entry)?;
    cx.out.tally.done_files.fetch_add(1, Ordering::Relaxed);
    let differ = !differing.is_empty();
    // Options are set together with attributes that differ.
    let lacked = if cx.target().extensions().options.are_set() {
        retry(|| cx.target().extensions().options.apply(&name, Kind::File, differ || !cx.writes()))?
    } else {
        OptionSet::NONE
    };
    if differ || !lacked.is_empty() {
        let mut refused = MetaMask::NONE;
        if differ && cx.writes() {
            let spec = MetaSpec { name: &name, entry, keep: cx.to_set(entry) };
            let landed = retry(|| cx.target().set_meta(&[spec]).pop().unwrap_or(Ok(WriteOutcome::default())))?;
            cx.out.refused(entry, landed.refused);
            refused = landed.refused;
        }
        if !refused.has(MetaMask::DENIED) {
            cx.out.set_meta(if lacked.is_empty() { Why::Attributes(differing) } else { Why::Options(lacked) }, entry);
        }
    } else {
        cx.out.report().kept.files += 1;
        cx.out.keep(Why::Same, entry);
    }
    if cx.job.remove_source && cx.writes() {
        retry(|| cx.target().extensions().system.sync(&[&name]))?;
        remove_sources(cx, &file.work, std::slice::from_ref(entry));
    }
    cx.sched.items_done(&file.work, 1);
    Ok(())
}
