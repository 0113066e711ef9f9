//! One large file: opened once, moved in chunks by one worker or by several, finished by whoever lands the last.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::bundle::Spent;
use crate::entry::{Entry, Kind, MetaMask, Name, Stamp};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::journal::{self, Resume, Session};
use crate::plan::{Act, Step};
use crate::retry;
use crate::schedule::DirWork;
use crate::store::{Chunk, Landed, Receipt, Sink, Source, Spec, Token, WriteStyle, chunk_size, chunks};

use super::carry;
use super::compare;
use super::context::{Context, Flight};
use super::delta::Delta;
use super::shown::{self, Shown};
use super::within;

/// A chunk that is made smaller for the sake of a slow way is not made smaller than this: bytes.
const LEAST_CHUNK: u64 = 1 << 20;

/// A file on its way, shared by the workers that move it.
pub struct OpenFile {
    pub work: Arc<DirWork>,
    pub(super) step: Step,
    /// Tries so far beyond the first: a changed source or a failed check is done once more.
    tries: AtomicU32,
    /// What an earlier try in this run has cost.
    spent: Mutex<retry::Spent>,
    /// Whether other workers may join, and how many there may be.
    open_to_all: AtomicBool,
    most: u32,
    /// What an earlier try in this run has landed.
    kept: Mutex<Option<Kept>>,
    /// Files of the trees of `--link-dest` that are to be compared first, by the number of their tree.
    references: Mutex<Vec<(usize, Entry)>>,
    state: Mutex<State>,
}

/// A write that failed on the way and is to be taken up again.
struct Kept {
    token: Token,
    chunk: u64,
    receipts: Vec<Receipt>,
    session: Option<u32>,
}

struct State {
    entry: Entry,
    ends: Option<Arc<Ends>>,
    /// Indices not yet handed out.
    left: Vec<Chunk>,
    receipts: Vec<Receipt>,
    active: u32,
    /// Of these, those that take no more chunks.
    leaving: u32,
    error: Option<Error>,
}

/// Both ends of an open file.
pub(super) struct Ends {
    pub source: Box<dyn Source>,
    pub sink: Box<dyn Sink>,
    pub session: Option<u32>,
    pub chunk: u64,
    pub delta: Option<Delta>,
    pub shown: Shown,
    pub flight: Arc<Flight>,
    flight_id: u64,
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenFile({:?})", self.lock().entry.name)
    }
}

impl OpenFile {
    pub fn new(cx: &Context, work: &Arc<DirWork>, entry: Entry, step: Step) -> Arc<Self> {
        Self::linkable(cx, work, entry, step, Vec::new())
    }

    /// A new file that is linked, not copied, if one of these has the same content.
    pub fn linkable(cx: &Context, work: &Arc<DirWork>, entry: Entry, step: Step, references: Vec<(usize, Entry)>) -> Arc<Self> {
        let state = State { entry, ends: None, left: Vec::new(), receipts: Vec::new(), active: 0, leaving: 0, error: None };
        Arc::new(OpenFile {
            work: work.clone(),
            step,
            tries: AtomicU32::new(0),
            spent: Mutex::default(),
            open_to_all: AtomicBool::new(false),
            most: cx.job.writers.unwrap_or(u32::MAX),
            kept: Mutex::default(),
            references: Mutex::new(references),
            state: Mutex::new(state),
        })
    }

    /// The file has come out wrong once, at this cost.
    pub fn second_try(&self, spent: retry::Spent) {
        self.tries.store(1, Ordering::Relaxed);
        self.count_on(spent);
    }

    /// What was tried of the file counts for what is tried now.
    pub fn count_on(&self, spent: retry::Spent) {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner) = spent;
    }

    pub fn name(&self) -> Name {
        self.lock().entry.name.clone()
    }

    pub(super) fn entry(&self) -> Entry {
        self.lock().entry.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Chunks that other workers may take.
    pub fn chunks_left(&self) -> usize {
        if self.open_to_all.load(Ordering::Relaxed) { self.lock().left.len() } else { 0 }
    }

    /// Whether a chunk is there for one more worker.
    pub fn wants_workers(&self) -> bool {
        if !self.open_to_all.load(Ordering::Relaxed) {
            return false;
        }
        let state = self.lock();
        !state.left.is_empty() && state.active < self.most
    }
}

/// Moves chunks of the file until none is left, and finishes it if this worker is the last one out.
pub fn perform(cx: &Arc<Context>, file: &Arc<OpenFile>) {
    let _tried = retry::count_on(*file.spent.lock().unwrap_or_else(PoisonError::into_inner));
    if file.step.act == Act::Compare && file.tries.load(Ordering::Relaxed) == 0 && !file.open_to_all.load(Ordering::Relaxed) {
        match compare::compare(cx, file) {
            Ok(true) => return,
            Ok(false) => {}
            Err(e) => return give_up(cx, file, e),
        }
    }
    let references = std::mem::take(&mut *file.references.lock().unwrap_or_else(PoisonError::into_inner));
    if !references.is_empty() && compare::settled_by_link(cx, file, &references) {
        return;
    }
    if cx.copies(&file.work) && matches!(file.step.act, Act::File { .. }) && file.tries.load(Ordering::Relaxed) == 0 {
        match within::copy(cx, file) {
            Ok(true) => return,
            Ok(false) => {}
            Err(e) => return give_up(cx, file, e),
        }
    }
    let ends = match open(cx, file) {
        Ok(Some(ends)) => ends,
        Ok(None) => return,
        Err(e) => return give_up(cx, file, e),
    };
    // Over a network the next chunk sets out while the destination has not said yet that it has the one before.
    let ahead = usize::from(!cx.target().caps().cheap_stat);
    let mut carried: VecDeque<carry::Carried> = VecDeque::new();
    let mut leaves = false;
    loop {
        let surplus = cx.sched.surplus();
        let chunk = {
            let mut state = file.lock();
            if state.error.is_some() || cx.cancel.is_set() {
                state.left.clear();
            }
            // A limit that was lowered holds in the middle of a file too, as long as somebody stays with it.
            if !leaves && surplus > state.leaving as usize && state.active - state.leaving > 1 {
                leaves = true;
                state.leaving += 1;
            }
            if leaves { None } else { state.left.pop() }
        };
        let last = chunk.is_none();
        let moved = carry::move_chunk(cx, &ends, chunk, &mut carried, ahead);
        let mut state = file.lock();
        match moved {
            Ok(receipt) => state.receipts.extend(receipt),
            Err(e) => {
                state.error.get_or_insert(e);
            }
        }
        if last && carried.is_empty() {
            break;
        }
    }
    let last = {
        let mut state = file.lock();
        state.active -= 1;
        state.leaving -= u32::from(leaves);
        state.active == 0
    };
    if last {
        cx.sched.unshare(file);
        finish(cx, file, &ends);
    }
}

/// The first worker opens both ends; the others join. `None` if there is nothing left to join.
fn open(cx: &Arc<Context>, file: &Arc<OpenFile>) -> Result<Option<Arc<Ends>>> {
    let mut state = file.lock();
    if let Some(ends) = &state.ends {
        let ends = ends.clone();
        if state.left.is_empty() || state.active >= file.most {
            return Ok(None);
        }
        state.active += 1;
        return Ok(Some(ends));
    }
    let began = Instant::now();
    let mut spent = Spent::default();
    let opened = open_ends(cx, file, &mut state, &mut spent);
    {
        let mut report = cx.report();
        report.times.opening += spent.reading;
        report.times.hashing += spent.hashing;
        report.times.metadata += began.elapsed().saturating_sub(spent.sum());
    }
    let ends = opened?;
    state.active = 1;
    state.ends = Some(ends.clone());
    let (from, to) = (cx.source(&file.work).caps(), cx.target().caps());
    let in_order = shown::is_in_order(&*ends.source, &*ends.sink, ends.chunk);
    let gains = !in_order && (to.writers_per_file > 1 || from.readers_per_file > 1);
    if gains && file.most > 1 && to.write != WriteStyle::InOrder && state.left.len() > 1 {
        file.open_to_all.store(true, Ordering::Relaxed);
        drop(state);
        cx.sched.share(file);
    }
    Ok(Some(ends))
}

/// What it takes at the source goes to `spent.reading`, comparing versions to `spent.hashing`. An answer that brings the
/// content is counted as reading, and is in `spent` for its sum only.
fn open_ends(cx: &Context, file: &OpenFile, state: &mut State, spent: &mut Spent) -> Result<Arc<Ends>> {
    let (flight_id, flight) = cx.take_off(&state.entry.name, state.entry.size, "open");
    let ends = open_both(cx, file, state, (flight_id, &flight), spent);
    if ends.is_err() {
        cx.touch_down(flight_id);
    }
    ends
}

fn open_both(
    cx: &Context,
    file: &OpenFile,
    state: &mut State,
    (flight_id, flight): (u64, &Arc<Flight>),
    spent: &mut Spent,
) -> Result<Arc<Ends>> {
    let began = Instant::now();
    let source = cx.retry(|| cx.source(&file.work).open(&state.entry, cx.job.links.follow)).map_err(Error::of_source)?;
    let wanted = cx.job.keep.and(MetaMask::ACL.with(MetaMask::XATTR).with(MetaMask::CONTEXT));
    if !wanted.is_empty() {
        state.entry.xattrs = Some(Box::new(cx.retry(|| source.xattrs(wanted)).map_err(Error::of_source)?));
    }
    if source.came_with_open() {
        let took = began.elapsed();
        cx.report().times.reading += took;
        // It is in what the caller measures: for the sum only.
        spent.writing += took;
    } else {
        spent.reading += began.elapsed();
    }
    let name = cx.target_name(&state.entry.name);
    let caps = cx.target().caps();
    let in_place =
        cx.job.in_place && matches!(file.step.act, Act::File { replace: true } | Act::Compare) && cx.may_write_in_place(&name)?;
    let path = name.path();
    let stamp = state.entry.stamp();
    let mut session = None;
    let mut opened: Option<(Box<dyn Sink>, u64)> = None;
    let mut parts: HashMap<u32, u64> = HashMap::new();
    if let Some(kept) = file.kept.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let spec = spec(cx, &state.entry, kept.chunk, false);
        // What was given up meanwhile begins anew.
        if let Ok(sink) = cx.retry(|| cx.target().attach(&name, &kept.token, &spec)) {
            state.receipts = kept.receipts;
            state.receipts.retain(|receipt| sink.keeps(receipt));
            session = kept.session;
            opened = Some((sink, kept.chunk));
        } else if let Some(session) = kept.session {
            cx.journal.dropped(session);
        }
    }
    let resume = if in_place || opened.is_some() { Resume::Fresh } else { cx.past.take(&path, &stamp) };
    match resume {
        Resume::Fresh => {}
        Resume::Stale(old) => {
            cx.retry(|| cx.target().abandon(&name, &old.token))?;
            cx.journal.dropped(old.session);
        }
        Resume::Continue(old) if caps.attach => {
            let spec = spec(cx, &state.entry, old.chunk, in_place);
            match cx.retry(|| cx.target().attach(&name, &old.token, &spec)) {
                Ok(sink) => {
                    let there = staged_size(cx, &name, &state.entry)?;
                    let within = |index: u32| there.saturating_sub(u64::from(index) * old.chunk);
                    state.receipts = trusted(cx, &old, &*sink, &state.entry, spent);
                    state.receipts.retain(|receipt| {
                        let start = u64::from(receipt.index) * old.chunk;
                        within(receipt.index) >= old.chunk.min(state.entry.size.saturating_sub(start))
                    });
                    // A hash is that of a whole chunk.
                    if !cx.job.verify {
                        parts.extend(old.landed.parts().map(|(index, bytes)| (index, bytes.min(within(index)))));
                    }
                    session = Some(old.session);
                    opened = Some((sink, old.chunk));
                }
                Err(e) if e.kind() == ErrorKind::NotFound => cx.journal.dropped(old.session),
                Err(e) => return Err(e),
            }
        }
        Resume::Continue(old) => cx.journal.dropped(old.session),
    }
    file.work.touch();
    let (sink, chunk) = match opened {
        Some(opened) => opened,
        None => {
            // A source that gives a file only from its start gives it in one piece.
            // A chunk whose hash is wanted is lost as a whole. The parts of a service have the size that was asked for.
            let steps = cx.job.verify && !matches!(caps.write, WriteStyle::Parts { .. });
            let two_seconds = cx.step.measured().filter(|_| steps).map_or(u64::MAX, |bytes| bytes.saturating_mul(2));
            let asked = cx.job.chunk.min(two_seconds.max(LEAST_CHUNK));
            let asked = if cx.source(&file.work).caps().read_ranges { asked } else { asked.max(state.entry.size) };
            let asked = shown::fitting(asked, &*source, caps.cheap_stat);
            let chunk = chunk_size(asked, state.entry.size, caps.write);
            // A kill between the file and its session would leave one that nobody knows of.
            let intent = if in_place { None } else { announce(cx, &name, &state.entry) };
            let sink = cx.retry(|| cx.target().create(&name, &spec(cx, &state.entry, chunk, in_place)))?;
            if !in_place {
                session = cx.journal.open_session(&path, &stamp, chunk, &sink.token()).ok();
            }
            if let Some(intent) = intent {
                cx.journal.placed(intent);
            }
            (sink, chunk)
        }
    };
    let landed: std::collections::HashSet<u32> = state.receipts.iter().map(|r| r.index).collect();
    let rest = |chunk: Chunk| {
        let landed = parts.get(&chunk.index).copied().unwrap_or(0).min(chunk.at.end - chunk.at.start);
        Chunk { at: chunk.at.start + landed..chunk.at.end, ..chunk }
    };
    state.left = chunks(state.entry.size, chunk).filter(|c| !landed.contains(&c.index)).map(rest).collect();
    let left: u64 = state.left.iter().map(|c| c.at.end - c.at.start).sum();
    let resumed = state.entry.size - left;
    if resumed > 0 {
        cx.report().resumed_bytes += resumed;
        cx.tally.resumed_bytes.fetch_add(resumed, Ordering::Relaxed);
    }
    let shown = Shown::new(chunk, landed.iter().copied());
    // Handed out from the end, so kept the other way round.
    state.left.reverse();
    // What was changed meanwhile, or came out wrong, moves as a whole the second time.
    let changes = matches!(file.step.act, Act::File { replace: true } | Act::Compare) && !in_place;
    let delta = if changes && file.tries.load(Ordering::Relaxed) == 0 && cx.source(&file.work).outlines() {
        flight.doing("compare");
        let began = Instant::now();
        let found = Delta::find(cx, &*source, &state.entry, &name);
        spent.hashing += began.elapsed();
        found?
    } else {
        None
    };
    Ok(Arc::new(Ends { source, sink, session, chunk, delta, shown, flight: flight.clone(), flight_id }))
}

/// Says in the journal under which token the file is about to be staged.
fn announce(cx: &Context, name: &Name, entry: &Entry) -> Option<u32> {
    let token = journal::staged(&staging_token(cx, name, entry)?);
    cx.journal.intent(&name.dir.path(), &mut std::iter::once(&token[..])).ok()
}

/// Bytes of the unfinished write of a file: less than what landed if somebody has cut it since. Where it has no name of its
/// own, it keeps what it was given.
fn staged_size(cx: &Context, name: &Name, entry: &Entry) -> Result<u64> {
    let Some(token) = staging_token(cx, name, entry) else { return Ok(u64::MAX) };
    match cx.retry(|| cx.target().stat(&Name::new(&name.dir, &token.0), MetaMask::NONE)) {
        Ok(staged) => Ok(staged.size),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(0),
        Err(e) => Err(e),
    }
}

fn staging_token(cx: &Context, name: &Name, entry: &Entry) -> Option<Token> {
    cx.target().staging(&Entry { name: name.clone(), xattrs: None, target: None, ..entry.clone() })
}

pub(super) fn spec<'a>(cx: &Context, entry: &'a Entry, chunk: u64, in_place: bool) -> Spec<'a> {
    Spec { entry, keep: cx.job.keep, chunk, in_place, sync: cx.job.sync || cx.job.remove_source }
}

/// What an earlier run landed: as it says, if it was this boot of this machine; else only where a hash
/// proves it, for a page cache does not survive a crash. Reading it again is counted as verifying, and is in `spent` for
/// its sum only.
fn trusted(cx: &Context, old: &Session, sink: &dyn Sink, entry: &Entry, spent: &mut Spent) -> Vec<Receipt> {
    if !old.landed.any_foreign() || cx.target().caps().durable {
        return old.landed.receipts().filter(|receipt| sink.keeps(receipt)).collect();
    }
    let Ok(written) = sink.reread() else { return Vec::new() };
    let mut again = Spent::default();
    let proven = |receipt: &Receipt| {
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
    let receipts = old.landed.receipts().filter(proven).collect();
    cx.report().times.verifying += again.reading;
    spent.hashing += again.hashing;
    spent.writing += again.reading;
    receipts
}

/// All chunks have landed, or one has failed.
fn finish(cx: &Arc<Context>, file: &Arc<OpenFile>, ends: &Arc<Ends>) {
    let (began, mut spent) = (Instant::now(), Spent::default());
    let (mut entry, mut receipts, error) = {
        let mut state = file.lock();
        (state.entry.clone(), std::mem::take(&mut state.receipts), state.error.take())
    };
    receipts.sort_by_key(|r| r.index);
    receipts.dedup_by_key(|r| r.index);
    let outcome = match error {
        Some(e) => Err(e),
        None if cx.cancel.is_set() => cx.cancel.check().map(|()| Landed::default()),
        None => seal(cx, file, ends, &mut entry, &receipts, &mut spent),
    };
    cx.touch_down(ends.flight_id);
    {
        let mut report = cx.report();
        report.times.opening += spent.metadata;
        report.times.verifying += spent.reading;
        report.times.hashing += spent.hashing;
        report.times.metadata += began.elapsed().saturating_sub(spent.sum());
    }
    match outcome {
        Ok(landed) => {
            if let Some(session) = ends.session {
                cx.journal.committed(session);
            }
            {
                let mut report = cx.report();
                report.made.files += 1;
                report.file_bytes += entry.size;
            }
            cx.tally.done_files.fetch_add(1, Ordering::Relaxed);
            cx.refused(&entry, landed.refused);
            let action = Step { act: if file.step.act == Act::Compare { Act::File { replace: true } } else { file.step.act }, ..file.step };
            cx.item(action.action(Kind::File), file.step.why, &entry);
            if cx.job.remove_source {
                super::small::remove_sources(cx, &file.work, std::slice::from_ref(&entry));
            }
            cx.sched.items_done(&file.work, 1);
        }
        Err(e) => failed(cx, file, ends, entry, receipts, e),
    }
}

/// The source is still what was read, what was written is what was read, then the final name. What verifying takes goes to
/// `spent.reading` and `spent.hashing`, what the last look at the source takes to `spent.metadata`. Where the content goes
/// with the commit, that is counted as writing, and is in `spent` for its sum only.
fn seal(cx: &Context, file: &OpenFile, ends: &Ends, entry: &mut Entry, receipts: &[Receipt], spent: &mut Spent) -> Result<Landed> {
    ends.shown.finish(cx, &*ends.source, &*ends.sink)?;
    let began = Instant::now();
    let now = cx.retry(|| ends.source.stamp()).map_err(Error::of_source);
    spent.metadata += began.elapsed();
    let now: Stamp = now?;
    if now != entry.stamp() {
        return Err(Error::new(ErrorKind::Changed, "read").on(&entry.name));
    }
    let mut to_verify = cx.job.verify;
    if to_verify {
        ends.flight.doing("verify");
        // A connection that is lost while it is read back is made again for the whole of it.
        let verified = cx.retry(|| {
            let began = Instant::now();
            let written = ends.sink.reread();
            spent.reading += began.elapsed();
            super::verify::large(cx, &*ends.source, &*written?, entry, ends.chunk, receipts, spent)
        });
        match verified {
            Ok(()) => to_verify = false,
            Err(e) if e.kind() == ErrorKind::Unsupported => {} // only a committed file can be read here
            Err(e) => return Err(e),
        }
    }
    ends.flight.doing("commit");
    let name = cx.target_name(&entry.name);
    if matches!(file.step.act, Act::File { replace: true } | Act::Compare) {
        super::replace::back_up(cx, &name)?;
    }
    let began = Instant::now();
    let landed = commit(cx, ends, &name, entry, receipts);
    if ends.sink.goes_with_commit() {
        let took = began.elapsed();
        cx.report().times.writing += took;
        spent.writing += took;
    }
    let landed = landed?;
    if to_verify {
        ends.flight.doing("verify");
        super::verify::landed(cx, &*ends.source, &name, entry, ends.chunk, receipts, spent)?;
    }
    Ok(landed)
}

/// An answer may be lost after the deed: when the write is not known any more and its name has what was sent, it is done.
fn commit(cx: &Context, ends: &Ends, name: &Name, entry: &Entry, receipts: &[Receipt]) -> Result<Landed> {
    let mut tries = 0;
    cx.retry(|| {
        tries += 1;
        match ends.sink.commit(entry, receipts) {
            Err(e) if e.kind() == ErrorKind::NotFound && tries > 1 => match cx.target().stat(name, MetaMask::NONE) {
                Ok(there) if is_as_sent(cx, entry, &there) => Ok(Landed { refused: MetaMask::NONE, ino: there.ino }),
                _ => Err(e),
            },
            answer => answer,
        }
    })
}

fn is_as_sent(cx: &Context, sent: &Entry, there: &Entry) -> bool {
    let timed = !cx.planner.keep.has(MetaMask::MTIME) || sent.mtime.same(there.mtime, cx.planner.grain, std::time::Duration::ZERO);
    there.kind == Kind::File && there.size == sent.size && timed
}

fn failed(cx: &Arc<Context>, file: &Arc<OpenFile>, ends: &Arc<Ends>, entry: Entry, receipts: Vec<Receipt>, e: Error) {
    // A stale handle may be good again once the file has been opened anew. What was tried as often as may be is given up.
    let curable = matches!(e.kind(), ErrorKind::Changed | ErrorKind::Corrupt) || (e.remedy() != Remedy::None && !e.kind().ends_the_run());
    let once_more = curable && !e.is_exhausted() && file.tries.load(Ordering::Relaxed) == 0;
    // What landed of an interrupted file, or of one that met a full disk, is kept for the next run.
    let keep = e.kind().ends_the_run() && cx.journal.keeps() && ends.session.is_some();
    // Where parts are kept by a service, one that failed is no reason to send the others again.
    let parts = matches!(cx.target().caps().write, WriteStyle::Parts { .. }) && cx.target().caps().attach;
    let parts = parts
        && !matches!(e.kind(), ErrorKind::Changed | ErrorKind::Corrupt | ErrorKind::NotFound | ErrorKind::Vanished | ErrorKind::BadName);
    let keep = keep || (parts && (once_more || (cx.journal.keeps() && ends.session.is_some())));
    if !keep {
        if let Err(trouble) = ends.sink.abort() {
            cx.warn(crate::event::Warning::Note(format!("{trouble}")));
        }
        if let Some(session) = ends.session {
            cx.journal.dropped(session);
        }
    }
    if once_more && !cx.cancel.is_set() {
        cx.done_anew(&e);
        match cx.retry(|| cx.source(&file.work).stat(&entry.name, cx.job.keep)) {
            Ok(mut fresh) if fresh.kind == Kind::File => {
                let fresh_stamp = fresh.stamp();
                cx.transform(file.work.root, &mut fresh);
                let again = OpenFile::new(cx, &file.work, fresh, file.step);
                again.second_try(retry::Spent::on(&e));
                if parts && fresh_stamp == entry.stamp() {
                    let kept = Kept { token: ends.sink.token(), chunk: ends.chunk, receipts, session: ends.session };
                    *again.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
                }
                return cx.sched.push_large(again);
            }
            _ => {}
        }
    }
    give_up(cx, file, e);
}

fn give_up(cx: &Arc<Context>, file: &OpenFile, e: Error) {
    let name: Name = file.lock().entry.name.clone();
    let e = e.on(&name);
    let e = match e.kind() {
        ErrorKind::Changed => e.hint("nothing was put in its place; copy it when nobody writes to it"),
        ErrorKind::Corrupt if e.next_step().is_none() => e.hint("the copy was discarded; check this disk and this machine's memory"),
        _ => super::space::explain(cx, e),
    };
    cx.fail(&e, Kind::File);
    cx.sched.items_done(&file.work, 1);
}
