//! Small things of one directory, many at a time: whole files in bundles, links and special files, attributes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::bundle::{Bundle, Item, Outcome, Spent};
use crate::entry::{Kind, MetaMask, Name};
use crate::error::{Error, ErrorKind, Remedy};
use crate::event::Why;
use crate::journal;
use crate::plan::{Act, Step};
use crate::report::Times;
use crate::retry::{Again, Spent as Tried};
use crate::schedule::DirWork;
use crate::store::{MetaSpec, Store, WriteOutcome};
use crate::tune::Op;

use super::backup::back_up;
use super::clock::Load;
use super::context::Context;
use super::file::{self, open_file::OpenFile};
use super::owners::Owners;
use super::sources::remove_sources;
use super::space::explain;
use super::task::{Check, Placing, Small};
use super::tries::{retry, retry_each};

/// Does small things of one directory.
pub fn perform(cx: &Arc<Context>, work: &Arc<DirWork>, items: Vec<Small>, bundle: &mut Bundle) {
    let mut direct = Vec::new();
    let mut staged = Vec::new();
    let mut nodes = Vec::new();
    let mut metas = Vec::new();
    let may_direct = cx.job.policy.allows_direct() && cx.target().caps().direct_create;
    for item in items {
        match item.step.act {
            Act::File { replace: false } if may_direct && !item.staged => direct.push(item),
            Act::File { .. } => staged.push(item),
            Act::Node { .. } => nodes.push(item),
            _ => metas.push(item),
        }
    }
    for (items, direct) in [(direct, true), (staged, false)] {
        if !items.is_empty() {
            cx.clock.measured(Op::Bundle, |load| move_files(cx, work, items, direct, bundle, load));
        }
    }
    if !nodes.is_empty() {
        cx.clock.measured(Op::Other, |load| make_nodes(cx, work, nodes, load));
    }
    if !metas.is_empty() {
        cx.clock.measured(Op::Other, |load| set_metas(cx, work, metas, load));
    }
}

fn move_files(cx: &Arc<Context>, work: &Arc<DirWork>, items: Vec<Small>, direct: bool, bundle: &mut Bundle, load: &mut Load) {
    let steps: Vec<Step> = items.iter().map(|item| item.step).collect();
    bundle.clear();
    bundle.keep = if cx.job.remove_source { cx.job.keep.with(MetaMask::CTIME) } else { cx.job.keep };
    bundle.follow = cx.job.links.follow;
    bundle.direct = direct;
    // What waits to be verified under its staging name is synced when it has its own.
    let holds = !direct && items.first().is_some_and(|item| cx.holds(&item.entry));
    bundle.sync = (cx.job.sync || cx.job.remove_source) && !holds;
    for item in items {
        bundle.push(item.entry);
    }
    let Some(first) = bundle.items.first() else { return };
    let flight = cx.clock.begin(&first.entry.name, bundle.listed_bytes(), "read");
    let began = Instant::now();
    let owners = cx.owners.begin(work.root, &mut bundle.items);
    cx.source(work).get_bundle(bundle);
    let got = std::mem::take(&mut bundle.spent);
    let mut times = got_times(got, began.elapsed(), is_far(cx.source(work)));
    let bytes = bundle.data.len() as u64;
    load.bytes = bytes;
    load.entries = bundle.items.len() as u64;
    for (i, item) in bundle.items.iter_mut().enumerate() {
        match Owners::end(owners.get(i), &mut item.entry) {
            true => cx.override_attributes(&mut item.entry),
            false => cx.transform(work.root, &mut item.entry),
        }
        item.outcome = match std::mem::replace(&mut item.outcome, Outcome::Listed) {
            Outcome::Failed(e) => Outcome::Failed(e.of_source()),
            outcome => outcome,
        };
    }
    flight.doing("write");
    flight.moved.store(bytes, std::sync::atomic::Ordering::Relaxed);
    let stopped = cx.meter.take(bytes).is_err();
    let mut intent = None;
    let mut held = Vec::new();
    if !stopped {
        work.touch();
        let (put_intent, took) = put(cx, work, bundle, holds.then_some(&mut held));
        intent = put_intent;
        times += put_times(bundle.spent, took, is_far(cx.target()));
    }
    cx.clock.end(&flight);
    cx.out.report().times += times;
    account(cx, work, bundle, &steps, load, (stopped, intent, held));
}

fn is_far(store: &dyn Store) -> bool {
    !store.place().endpoint.is_empty()
}

/// Where the time of a `get_bundle` went: as the store says, and the rest to the way, or to reading where there is none.
fn got_times(spent: Spent, took: Duration, remote: bool) -> Times {
    let rest = took.saturating_sub(spent.sum());
    let mut times = Times { opening: spent.metadata, reading: spent.reading + spent.writing, hashing: spent.hashing, ..Times::default() };
    *(if remote { &mut times.network } else { &mut times.reading }) += rest;
    times
}

/// The same of a `put_bundle`.
fn put_times(spent: Spent, took: Duration, remote: bool) -> Times {
    let rest = took.saturating_sub(spent.sum());
    let mut times = Times { metadata: spent.metadata, writing: spent.reading + spent.writing, hashing: spent.hashing, ..Times::default() };
    *(if remote { &mut times.network } else { &mut times.writing }) += rest;
    times
}

/// Writes the intent before the first name is created, and returns it open if the files are to be verified first; also how long
/// the store took. With `held` the files get only their staging names, which are put there in the bundle's order.
fn put(cx: &Context, work: &DirWork, bundle: &mut Bundle, held: Option<&mut Vec<Name>>) -> (Option<u32>, Duration) {
    if let Some(leaf) = cx.job.rename.as_ref().filter(|_| work.dir.is_root()) {
        for item in &mut bundle.items {
            item.entry.name.leaf = leaf[..].into();
        }
    }
    let names = bundle.direct || cx.past_intents || (cx.job.verify && held.is_none());
    let staging = |item: &Item| cx.target().extensions().unfinished.staging(&item.entry).map(|token| journal::staged(&token));
    let tokens: Vec<Vec<u8>> = if bundle.direct { Vec::new() } else { bundle.items.iter().filter_map(staging).collect() };
    let leaves = bundle.items.iter().filter(|_| names).map(|item| &*item.entry.name.leaf);
    let mut leaves = leaves.chain(tokens.iter().map(Vec::as_slice)).peekable();
    let intent = if leaves.peek().is_some() { cx.journal.intent(&work.dir.path(), &mut leaves).ok() } else { None };
    drop(leaves);
    // Without a journal nobody would know of a torn file but by its size and time: staging is safer.
    bundle.direct &= intent.is_some();
    let began = Instant::now();
    match held {
        Some(held) => hold(cx, bundle, held),
        None => cx.target().put_bundle(bundle),
    }
    let took = began.elapsed();
    // What a lost connection has left under a staging name is not removed by anybody but a later run that knows of it.
    if bundle.items.iter().any(|item| matches!(&item.outcome, Outcome::Failed(e) if is_lost(e))) {
        return (None, took);
    }
    if cx.job.verify {
        return (intent, took);
    }
    if let Some(id) = intent {
        cx.journal.placed(id);
    }
    (None, took)
}

/// Puts the files under their staging names, as if these were new files.
fn hold(cx: &Context, bundle: &mut Bundle, held: &mut Vec<Name>) {
    for item in &mut bundle.items {
        let staging = cx.target().extensions().unfinished.staging(&item.entry).map(|token| Name::new(&item.entry.name.dir, &token.0));
        let name = item.entry.name.clone();
        item.entry.name = staging.unwrap_or_else(|| name.clone());
        held.push(name);
    }
    bundle.direct = true;
    cx.target().put_bundle(bundle);
    for (item, held) in bundle.items.iter_mut().zip(held) {
        std::mem::swap(&mut item.entry.name, held);
        item.outcome = match std::mem::replace(&mut item.outcome, Outcome::Listed) {
            Outcome::Failed(e) => Outcome::Failed(e.renamed(&item.entry.name)),
            outcome => outcome,
        };
    }
}

/// Turns outcomes into counts, events, checks and second tries.
fn account(
    cx: &Arc<Context>,
    work: &Arc<DirWork>,
    bundle: &mut Bundle,
    steps: &[Step],
    load: &mut Load,
    (stopped, intent, held): (bool, Option<u32>, Vec<Name>),
) {
    let refused = bundle.items.iter().filter(|item| !matches!(item.outcome, Outcome::Written(_))).map(|item| item.at.len() as u64);
    cx.meter.refuse(refused.sum());
    let (mut files, mut file_bytes, mut closed) = (0, 0, 0);
    let mut checks = Vec::new();
    let items = std::mem::take(&mut bundle.items);
    let mut held = held.into_iter();
    for (item, step) in items.into_iter().zip(steps) {
        let held = held.next();
        let mut entry = item.entry;
        if cx.job.rename.is_some() {
            entry.name = source_name(cx, work, &entry.name);
        }
        match item.outcome {
            Outcome::Written(landed) => {
                files += 1;
                file_bytes += entry.size;
                cx.out.refused(&entry, landed.refused);
                cx.out.item(step.action(Kind::File), step.why, &entry);
                if cx.job.verify {
                    let content = &bundle.data[item.at];
                    let (hash, digest) = (crate::hash::xxh128(content), cx.digests.of_bytes(cx, content));
                    checks.push(Check { work: work.clone(), entry, hash, digest, step: *step, held, placing: None });
                    continue;
                }
                closed += 1;
            }
            Outcome::Failed(e) if e.kind() == ErrorKind::Changed && !cx.cancel.is_set() => {
                // It is no longer the small file that was listed.
                if let Err(e) = file::failure::again(cx, work, &entry, *step, e, |_| None) {
                    load.failed = true;
                    closed += 1;
                    cx.out.fail(&explain(cx, e.on(&entry.name)), Kind::File);
                }
            }
            Outcome::Failed(e) if may_pass(cx, &e) => {
                // A second try goes the way of large files: alone, staged, and with the engine's retry.
                let again = Again { attempt: e.tries(), of: cx.job.retries.tries, wait: Duration::ZERO };
                let file = OpenFile::new(&cx.job, work, entry, *step);
                match e.kind() {
                    ErrorKind::Corrupt => file.second_try(Tried::on(&e), None),
                    _ => file.count_on(Tried::on(&e)),
                }
                cx.out.retried(&e.on(&file.name()), again);
                cx.sched.push_large(file);
            }
            Outcome::Failed(e) => {
                load.failed = true;
                closed += 1;
                cx.out.fail(&explain(cx, e.on(&entry.name)), Kind::File);
            }
            Outcome::Listed | Outcome::Read if stopped => closed += 1,
            Outcome::Listed | Outcome::Read => {
                closed += 1;
                let e = Error::new(ErrorKind::Other, "write").on(&entry.name);
                cx.out.fail(&e.because("the store did not say what became of it"), Kind::File);
            }
        }
    }
    if let Some(bundle) = intent {
        let placing = Placing::new(bundle, checks.len());
        checks.iter_mut().for_each(|check| check.placing = Some(placing.clone()));
        if checks.is_empty() {
            cx.journal.placed(bundle);
        }
    }
    {
        let mut report = cx.out.report();
        report.made.files += files;
        report.file_bytes += file_bytes;
    }
    cx.out.tally.done_files.fetch_add(files, std::sync::atomic::Ordering::Relaxed);
    cx.sched.push_check(checks.into_iter());
    cx.sched.items_done(work, closed);
}

/// Whether a file of a bundle is tried again.
fn may_pass(cx: &Context, e: &Error) -> bool {
    let lost = e.remedy() == Remedy::Reconnect;
    e.remedy() != Remedy::None && !cx.cancel.is_set() && (lost || e.tries() < cx.job.retries.tries)
}

fn is_lost(e: &Error) -> bool {
    e.remedy() == Remedy::Reconnect || e.kind().ends_the_run()
}

/// For the one file that is copied to another name.
fn source_name(cx: &Context, work: &DirWork, name: &Name) -> Name {
    match &cx.job.roots[work.root].pick {
        crate::job::Pick::Names(names) if name.dir.is_root() => match names.first() {
            Some(leaf) => Name::new(&name.dir, leaf),
            None => name.clone(),
        },
        _ => name.clone(),
    }
}

fn make_nodes(cx: &Arc<Context>, work: &Arc<DirWork>, items: Vec<Small>, load: &mut Load) {
    let began = Instant::now();
    load.entries = items.len() as u64;
    work.touch();
    let mut made = Vec::new();
    for item in &items {
        if cx.cancel.is_set() {
            break;
        }
        let name = cx.target_name(&item.entry.name);
        let backed_up = match item.step.act {
            Act::Node { replace: true } => back_up(cx, &name),
            _ => Ok(()),
        };
        match backed_up.and_then(|()| retry(|| cx.target().make_node(&name, &item.entry, cx.job.keep))) {
            Ok(landed) => {
                done_node(cx, item, landed);
                made.push(item.entry.clone());
            }
            Err(e) => {
                load.failed = true;
                cx.out.fail(&explain(cx, e.on(&item.entry.name)), item.entry.kind);
            }
        }
    }
    if cx.job.remove_source {
        remove_sources(cx, work, &made);
    }
    cx.out.report().times.metadata += began.elapsed();
    cx.sched.items_done(work, items.len());
}

fn done_node(cx: &Context, item: &Small, landed: WriteOutcome) {
    cx.out.report().made.add(item.entry.kind, 1);
    cx.out.refused(&item.entry, landed.refused);
    cx.out.item(item.step.action(item.entry.kind), item.step.why, &item.entry);
}

/// Files that are as they should be, but for what the options of the destination ask for; in a dry run those with other attributes, too.
fn refresh(cx: &Arc<Context>, work: &Arc<DirWork>, items: Vec<Small>, load: &mut Load) {
    let began = Instant::now();
    load.entries = items.len() as u64;
    for item in &items {
        if cx.cancel.is_set() {
            break;
        }
        let keeps = item.step.why == Why::Same;
        match retry(|| cx.target().extensions().options.apply(&cx.target_name(&item.entry.name), item.entry.kind, !cx.writes())) {
            Ok(lacked) if keeps && lacked.is_empty() => {
                cx.out.tally.kept.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                cx.out.report().kept.add(item.entry.kind, 1);
                cx.out.keep(Why::Same, &item.entry);
            }
            Ok(lacked) => cx.out.set_meta(if lacked.is_empty() { item.step.why } else { Why::Options(lacked) }, &item.entry),
            Err(e) => {
                load.failed = true;
                cx.out.fail(&e.on(&item.entry.name), item.entry.kind);
            }
        }
    }
    cx.out.report().times.metadata += began.elapsed();
    cx.sched.items_done(work, items.len());
}

fn set_metas(cx: &Arc<Context>, work: &Arc<DirWork>, items: Vec<Small>, load: &mut Load) {
    let (fresh, mut items): (Vec<Small>, Vec<Small>) = items.into_iter().partition(|item| item.step.why == Why::Same || !cx.writes());
    if !fresh.is_empty() {
        refresh(cx, work, fresh, load);
    }
    if items.is_empty() {
        return;
    }
    let began = Instant::now();
    load.entries = items.len() as u64;
    let names: Vec<Name> = items.iter().map(|item| cx.target_name(&item.entry.name)).collect();
    // They are set together with the attributes.
    for (item, name) in
        items.iter_mut().zip(&names).filter(|(item, _)| item.entry.kind == Kind::File && cx.target().extensions().options.are_set())
    {
        // A failure is that of `set_meta`, too.
        let lacked = retry(|| cx.target().extensions().options.apply(name, item.entry.kind, true)).unwrap_or_default();
        item.step.why = if lacked.is_empty() { item.step.why } else { Why::Options(lacked) };
    }
    let specs: Vec<MetaSpec<'_>> =
        names.iter().zip(&items).map(|(name, item)| MetaSpec { name, entry: &item.entry, keep: cx.to_set(&item.entry) }).collect();
    let set = cx.target().set_meta(&specs);
    let set = retry_each(set, |i| cx.target().set_meta(&specs[i..=i]).pop().unwrap_or(Ok(WriteOutcome::default())));
    let mut set_entries = Vec::new();
    for (landed, item) in set.into_iter().zip(&items) {
        match landed {
            Ok(landed) => {
                cx.out.refused(&item.entry, landed.refused);
                if !landed.refused.has(MetaMask::DENIED) {
                    cx.out.set_meta(item.step.why, &item.entry);
                }
                set_entries.push(item.entry.clone());
            }
            Err(e) => {
                load.failed = true;
                cx.out.fail(&e.on(&item.entry.name), item.entry.kind);
            }
        }
    }
    if cx.job.remove_source {
        remove_sources(cx, work, &set_entries);
    }
    cx.out.report().times.metadata += began.elapsed();
    cx.sched.items_done(work, items.len());
}
