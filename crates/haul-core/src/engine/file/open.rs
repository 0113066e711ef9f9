//! Both ends of a file opened, where an earlier try or an earlier run left off.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::bundle::Spent;
use crate::engine::clock::Flight;
use crate::engine::context::Context;
use crate::engine::tries::retry;
use crate::entry::{Entry, Kind, MetaMask, Name, Stamp};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Warning;
use crate::journal::{self, Resume, Session};
use crate::store::{Chunk, Receipt, Sink, Source, Spec, Token, WriteStyle, chunk_size, chunks};

use super::delta::Delta;
use super::open_file::{Borrowed, Ends, OpenFile, State};
use super::ordered_verify::{self, Shown};
use super::waiting::Waiting;

/// A chunk that is made smaller for the sake of a slow way is not made smaller than this: bytes.
const LEAST_CHUNK: u64 = 1 << 20;

/// A write that has been begun, here or before.
pub struct Write {
    pub sink: Box<dyn Sink>,
    chunk: u64,
    pub session: Option<u32>,
    /// Of a write in place, until it is whole.
    pub intent: Option<u32>,
    receipts: Vec<Receipt>,
    /// Of chunks that have not landed as a whole, how many of their first bytes have.
    parts: HashMap<u32, u64>,
}

/// The first worker opens both ends; the others join. `None` if there is nothing left to join.
pub fn join(cx: &Context, file: &Arc<OpenFile>) -> Result<Option<Arc<Ends>>> {
    let mut state = file.state();
    if let Some(ends) = &state.ends {
        let ends = ends.clone();
        if !state.left.is_offered() || state.active >= file.most {
            return Ok(None);
        }
        state.active += 1;
        return Ok(Some(ends));
    }
    let (began, mut spent) = (Instant::now(), Spent::default());
    let flight = cx.clock.begin(&state.entry.name, state.entry.size, "open");
    let opened = open(cx, file, &mut state, &flight, &mut spent);
    {
        let mut report = cx.out.report();
        report.times.opening += spent.reading;
        report.times.hashing += spent.hashing;
        report.times.metadata += began.elapsed().saturating_sub(spent.sum());
    }
    let ends = Arc::new(opened.inspect_err(|_| cx.clock.end(&flight))?);
    state.active = 1;
    state.ends = Some(ends.clone());
    let in_order = is_in_order(cx, &ends);
    if in_order {
        state.left.keep_order();
    }
    if file.most > 1 && !in_order && state.left.len() > 1 {
        file.open_to_all.store(true, Ordering::Relaxed);
        if file.borrowed.is_some() {
            file.lends.store(true, Ordering::Relaxed);
        }
        drop(state);
        cx.sched.share(file);
        if let Some(ranks) = &cx.ranks {
            ranks.offer(cx);
        }
    }
    Ok(Some(ends))
}

/// Whether only one worker can move chunks, from the first to the last.
fn is_in_order(cx: &Context, ends: &Ends) -> bool {
    let is_written = cx.target().caps().write == WriteStyle::InOrder && !ends.sink.extensions().state.takes_ranges();
    is_written
        || ends.sink.extensions().in_order
        || ends.source.extensions().in_order
        || ordered_verify::is_in_order(&*ends.source, &*ends.sink, ends.chunk)
}

/// Lets other workers join, once the destination takes ranges.
pub fn share(cx: &Context, file: &Arc<OpenFile>, ends: &Ends) {
    if file.most <= 1 || cx.target().caps().write != WriteStyle::InOrder || file.open_to_all.load(Ordering::Relaxed) {
        return;
    }
    let left = file.state().left.len();
    if left < 2 || is_in_order(cx, ends) {
        return;
    }
    file.open_to_all.store(true, Ordering::Relaxed);
    cx.sched.share(file);
}

/// Opening counts as `spent.reading`, comparing versions as `spent.hashing`; content that comes with the answer to open counts as
/// reading.
fn open(cx: &Context, file: &OpenFile, state: &mut State, flight: &Arc<Flight>, spent: &mut Spent) -> Result<Ends> {
    let source = open_source(cx, file, &mut state.entry, spent)?;
    let entry = &state.entry;
    let name = cx.target_name(&entry.name);
    if let Some(Borrowed { token, chunk, .. }) = &file.borrowed {
        if retry(|| source.stamp()).map_err(Error::of_source)? != entry.stamp() {
            return Err(Error::new(ErrorKind::Changed, "read").on(&entry.name));
        }
        let sink = retry(|| cx.target().extensions().unfinished.attach(&name, token, &spec(cx, entry, *chunk, false)))?;
        let shown = Shown::new(*chunk, std::iter::empty());
        return Ok(Ends {
            source,
            sink,
            session: None,
            stamp: entry.stamp(),
            intent: None,
            chunk: *chunk,
            delta: None,
            digested: false,
            shown,
            flight: flight.clone(),
        });
    }
    let in_place = cx.job.in_place && file.replaces() && may_write_in_place(cx, &name)?;
    // Before the first byte is read: what changes after this is another version for the next run.
    let change = retry(|| source.change()).map_err(Error::of_source)?;
    let stamp = Stamp { version: entry.version ^ change, ..entry.stamp() };
    let chunk = |most| chunk_of(cx, file, &*source, entry, most);
    let mut begun = kept(cx, file, entry, &name, stamp);
    if begun.is_none() && !in_place {
        begun = earlier(cx, entry, &name, stamp, chunk, spent)?;
    }
    file.work.touch();
    let write = match begun {
        Some(write) => write,
        None => anew(cx, entry, &name, stamp, chunk(u64::MAX), in_place)?,
    };
    let landed: HashSet<u32> = write.receipts.iter().map(|r| r.index).collect();
    let rest = |chunk: Chunk| {
        let landed = write.parts.get(&chunk.index).copied().unwrap_or(0).min(chunk.at.end - chunk.at.start);
        Chunk { at: chunk.at.start + landed..chunk.at.end, ..chunk }
    };
    let left: Vec<Chunk> = chunks(entry.size, write.chunk).filter(|c| !landed.contains(&c.index)).map(rest).collect();
    let resumed = entry.size - left.iter().map(|c| c.at.end - c.at.start).sum::<u64>();
    if resumed > 0 {
        cx.out.report().resumed_bytes += resumed;
        cx.out.tally.resumed_bytes.fetch_add(resumed, Ordering::Relaxed);
    }
    if file.replaces() && !in_place {
        cx.warn_of_gap();
    }
    // What was changed meanwhile, or came out wrong, moves as a whole the second time.
    let compares = file.replaces() && !in_place && !file.is_second_try() && cx.job.delta && cx.source(&file.work).caps().signatures;
    let delta = if compares && !(cx.job.sparse && entry.is_sparse()) {
        flight.doing("compare");
        let began = Instant::now();
        let found = Delta::find(cx.target(), &cx.meter, &source, entry, &name);
        spent.hashing += began.elapsed();
        found?
    } else {
        None
    };
    let caps = cx.target().caps();
    let lends = cx.ranks.is_some() && caps.attach && caps.write != WriteStyle::InOrder && !in_place && delta.is_none();
    file.lends.store(lends, Ordering::Relaxed);
    (state.left, state.receipts) = (Waiting::new(left, cx.source(&file.work).caps().tuning.runs, file.most), write.receipts);
    let Write { sink, chunk, session, intent, .. } = Write { receipts: Vec::new(), ..write };
    let digested = source.extensions().near_data.reach().is_some() && cx.digests.are_shared(cx.source(&file.work), cx.target());
    let shown = Shown::new(chunk, landed.into_iter());
    Ok(Ends { source, sink, session, stamp, intent, chunk, delta, digested, shown, flight: flight.clone() })
}

fn open_source(cx: &Context, file: &OpenFile, entry: &mut Entry, spent: &mut Spent) -> Result<Arc<dyn Source>> {
    let began = Instant::now();
    // What changed once is taken as it is now: it may be growing.
    let as_it_is = file.is_second_try() && file.borrowed.is_none();
    let listed = if as_it_is { Entry { have: MetaMask::NONE, ..entry.clone() } } else { entry.clone() };
    let source = retry(|| cx.source(&file.work).open(&listed, cx.job.links.follow)).map_err(Error::of_source)?;
    if as_it_is {
        let now = retry(|| source.stamp()).map_err(Error::of_source)?;
        (entry.size, entry.mtime, entry.version) = (now.size, now.mtime, now.version);
    }
    // A listing over a network does not tell it.
    if cx.job.remove_source && entry.ctime == 0 && entry.ino != 0 {
        let now = retry(|| cx.source(&file.work).stat(&entry.name, MetaMask::CTIME)).map_err(Error::of_source)?;
        if now.stamp() == entry.stamp() {
            entry.ctime = now.ctime;
        }
    }
    entry.headers = source.extensions().headers.cloned();
    let wanted = cx.job.keep.and(MetaMask::ACL.with(MetaMask::XATTR).with(MetaMask::CONTEXT));
    if !wanted.is_empty() {
        entry.xattrs = Some(Box::new(retry(|| source.xattrs(wanted)).map_err(Error::of_source)?));
    }
    if source.extensions().has_prefetched_content {
        let took = began.elapsed();
        cx.out.report().times.reading += took;
        // It is in what the caller measures: for the sum only.
        spent.writing += took;
    } else {
        spent.reading += began.elapsed();
    }
    Ok(source.into())
}

/// Whether a file may be written in place. One with several names is staged: the others would change with it.
fn may_write_in_place(cx: &Context, name: &Name) -> Result<bool> {
    let found = retry(|| cx.target().stat(name, MetaMask::NONE))?;
    // A symlink is replaced, as it is where nothing is written in place: what it points to is another file.
    if found.kind != Kind::File || found.nlink <= 1 {
        return Ok(found.kind == Kind::File);
    }
    if !cx.in_place_refused.swap(true, Ordering::Relaxed) {
        let shown = crate::entry::show(&name.path());
        let note = "has other hard links: it and all such files are replaced, not updated in place";
        cx.out.warn(Warning::Note(format!("{shown}: {note}")));
    }
    Ok(false)
}

/// What an earlier try of this run has landed. What was given up meanwhile begins anew.
fn kept(cx: &Context, file: &OpenFile, entry: &Entry, name: &Name, stamp: Stamp) -> Option<Write> {
    let kept = file.take_kept()?;
    if kept.stamp != stamp {
        // Its parts are of another version. What cannot be removed is in no one's way.
        let _ = retry(|| cx.target().extensions().unfinished.abandon(name, &kept.token));
        if let Some(session) = kept.session {
            cx.journal.dropped(session);
        }
        return None;
    }
    match retry(|| cx.target().extensions().unfinished.attach(name, &kept.token, &spec(cx, entry, kept.chunk, false))) {
        Ok(sink) => {
            let receipts: Vec<Receipt> = kept.receipts.into_iter().filter(|receipt| sink.extensions().state.keeps(receipt)).collect();
            if let Some(session) = kept.session {
                let path = name.path().into_boxed_slice();
                let landed = journal::Chunks::default();
                let write = Session { session, path, stamp, chunk: kept.chunk, token: kept.token, landed };
                cx.journal.restate(&write, &receipts, []);
            }
            Some(Write { sink, chunk: kept.chunk, session: kept.session, intent: None, receipts, parts: HashMap::new() })
        }
        Err(_) => {
            if let Some(session) = kept.session {
                cx.journal.dropped(session);
            }
            None
        }
    }
}

/// The receipts of an earlier run that still hold: all of them under the same boot of this machine, else those whose hash matches,
/// since a page cache does not survive a crash. Rereading counts as verifying. `chunk_of` is the chunk size for a write with chunks
/// of so many bytes at the most.
fn earlier(
    cx: &Context,
    entry: &Entry,
    name: &Name,
    stamp: Stamp,
    chunk_of: impl Fn(u64) -> u64,
    spent: &mut Spent,
) -> Result<Option<Write>> {
    // Versions before this one wrote no ctime into the journal.
    let mut old = match cx.past.take(&name.path(), &[stamp, entry.stamp()]) {
        Resume::Fresh => return Ok(None),
        Resume::Continue(old) if entry.stamp().tells_versions() => cx.journal.take_up(old, cx.target().caps().durable),
        Resume::Stale(old) | Resume::Continue(old) => {
            retry(|| cx.target().extensions().unfinished.abandon(name, &old.token))?;
            cx.journal.dropped(old.session);
            return Ok(None);
        }
    };
    let (asked, had) = (old.chunk, std::mem::replace(&mut old.stamp, stamp));
    // A hash is that of a whole chunk, and not one landed in the time of a run: the next may be as short.
    if cx.job.verify && !in_parts(cx) && old.landed.count() == 0 {
        old.chunk = chunk_of((asked / 4).max(LEAST_CHUNK));
    }
    let attached = match cx.target().caps().attach {
        true => retry(|| cx.target().extensions().unfinished.attach(name, &old.token, &spec(cx, entry, old.chunk, false))).map(Some),
        false => Ok(None),
    };
    let sink = match attached {
        Ok(Some(sink)) => sink,
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {
            cx.journal.dropped(old.session);
            return Ok(None);
        }
    };
    let there = staged_size(cx, name, entry, &old.token)?;
    let within = |index: u32| there.saturating_sub(u64::from(index) * old.chunk);
    let mut receipts = trusted(cx, &old, &*sink, entry, spent);
    receipts.retain(|receipt| {
        let start = u64::from(receipt.index) * old.chunk;
        within(receipt.index) >= old.chunk.min(entry.size.saturating_sub(start))
    });
    // A hash is that of a whole chunk.
    let parts = match cx.job.verify {
        true => HashMap::new(),
        false => old.landed.parts().map(|(index, bytes)| (index, bytes.min(within(index)))).collect(),
    };
    let all = receipts.len() as u64 == old.landed.count() && old.landed.parts().all(|(index, bytes)| parts.get(&index) == Some(&bytes));
    if !all || old.chunk != asked || had != stamp {
        // What is missing now would count again once later writes have made the file as long.
        cx.journal.restate(&old, &receipts, parts.iter().map(|(index, bytes)| (*index, *bytes)));
    }
    Ok(Some(Write { sink, chunk: old.chunk, session: Some(old.session), intent: None, receipts, parts }))
}

/// Begins to write a file of an unknown size. What an earlier run left of another one is abandoned.
pub fn stream(cx: &Context, file: &OpenFile, entry: &Entry, chunk: u64) -> Result<Write> {
    let name = cx.target_name(&entry.name);
    if let Resume::Stale(old) | Resume::Continue(old) = cx.past.take(&name.path(), &[entry.stamp()]) {
        retry(|| cx.target().extensions().unfinished.abandon(&name, &old.token))?;
        cx.journal.dropped(old.session);
    }
    let in_place = cx.job.in_place && file.replaces() && may_write_in_place(cx, &name)?;
    anew(cx, entry, &name, entry.stamp(), chunk, in_place)
}

fn anew(cx: &Context, entry: &Entry, name: &Name, stamp: Stamp, chunk: u64, in_place: bool) -> Result<Write> {
    // A kill between the file and its session would leave one that nobody knows of. What is written in place has no session: that
    // it was begun is known until it is whole.
    let intent = if in_place { begin_in_place(cx, name) } else { announce(cx, name, entry) };
    let sink = retry(|| cx.target().create(name, &spec(cx, entry, chunk, in_place)))?;
    let mut write = Write { sink, chunk, session: None, intent, receipts: Vec::new(), parts: HashMap::new() };
    if !in_place {
        write.session = cx.journal.open_session(&name.path(), &stamp, chunk, &write.sink.token()).ok();
        if let Some(intent) = write.intent.take() {
            cx.journal.placed(intent);
        }
    }
    Ok(write)
}

fn begin_in_place(cx: &Context, name: &Name) -> Option<u32> {
    cx.journal.intent(&name.dir.path(), &mut std::iter::once(&name.leaf[..])).ok()
}

/// A chunk with a hash is lost as a whole, so it is about two seconds' work, at most `most` bytes. Parts of an object store have the
/// size asked for. A source without ranges is read in one piece.
fn chunk_of(cx: &Context, file: &OpenFile, source: &dyn Source, entry: &Entry, most: u64) -> u64 {
    let caps = cx.target().caps();
    let steps = cx.job.verify && !in_parts(cx);
    let second = cx.step.measured().or(cx.meter.limit()).filter(|_| steps);
    let two_seconds = second.map_or(u64::MAX, |bytes| bytes.saturating_mul(2));
    let asked = cx.job.chunk.min(two_seconds.max(LEAST_CHUNK)).min(most);
    let is_one = entry.size <= cx.job.one_part && in_parts(cx);
    let in_pieces = !is_one && cx.source(&file.work).caps().read_ranges && !source.extensions().in_order;
    let asked = if in_pieces { asked } else { asked.max(entry.size) };
    let chunk = chunk_size(ordered_verify::fitting(asked, source, !caps.remote), entry.size, caps.write);
    chunk.checked_next_multiple_of(caps.tuning.chunk_unit.max(1)).unwrap_or(chunk)
}

fn in_parts(cx: &Context) -> bool {
    matches!(cx.target().caps().write, WriteStyle::Parts { .. })
}

/// Says in the journal under which token the file is about to be staged.
fn announce(cx: &Context, name: &Name, entry: &Entry) -> Option<u32> {
    let token = journal::staged(&cx.target().extensions().unfinished.staging(&there(name, entry))?);
    cx.journal.intent(&name.dir.path(), &mut std::iter::once(&token[..])).ok()
}

/// Bytes of the unfinished write of a file: less than what landed if somebody has truncated it since.
fn staged_size(cx: &Context, name: &Name, entry: &Entry, token: &Token) -> Result<u64> {
    let Some(token) = cx.target().extensions().unfinished.staged(&there(name, entry), token) else { return Ok(u64::MAX) };
    match retry(|| cx.target().stat(&Name::new(&name.dir, &token.0), MetaMask::NONE)) {
        Ok(staged) => Ok(staged.size),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(0),
        Err(e) => Err(e),
    }
}

/// The entry under its name at the target.
fn there(name: &Name, entry: &Entry) -> Entry {
    Entry { name: name.clone(), xattrs: None, target: None, ..entry.clone() }
}

pub fn spec<'a>(cx: &Context, entry: &'a Entry, chunk: u64, in_place: bool) -> Spec<'a> {
    Spec { entry, keep: cx.job.keep, chunk, in_place, sync: cx.job.sync || cx.job.remove_source }
}

/// What an earlier run landed: as it says, if it was this boot of this machine; else only where a hash
/// proves it, for a page cache does not survive a crash. Reading it again is counted as verifying, and is in `spent` for
/// its sum only.
fn trusted(cx: &Context, old: &Session, sink: &dyn Sink, entry: &Entry, spent: &mut Spent) -> Vec<Receipt> {
    if !old.landed.any_foreign() || cx.target().caps().durable {
        return old.landed.receipts().filter(|receipt| sink.extensions().state.keeps(receipt)).collect();
    }
    let Ok(written) = sink.reread() else { return Vec::new() };
    let mut again = Spent::default();
    let verified = |receipt: &Receipt| {
        if !old.landed.is_foreign(receipt.index) {
            return true;
        }
        let start = u64::from(receipt.index) * old.chunk;
        let part = start..(start + old.chunk).min(entry.size);
        let whole = receipt
            .hash
            .is_some_and(|hash| part.start <= part.end && cx.meter.hash(&*written, part, &mut again).is_ok_and(|found| found == hash));
        if whole {
            cx.journal.landed(old.session, receipt);
        }
        whole
    };
    let receipts = old.landed.receipts().filter(verified).collect();
    cx.out.report().times.verifying += again.reading;
    spent.hashing += again.hashing;
    spent.writing += again.reading;
    receipts
}
