//! A tree compared with its manifest.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use haul_core::entry::codec::{kind_number, kind_of};
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Time};
use haul_core::event::{Action, Why};
use haul_core::hash::Algorithm;
use haul_core::lock::lock;
use haul_core::meter::Meter;
use haul_core::pool::{Item, Pool, Stage};
use haul_core::spill::Sorter;
use haul_core::store::Store;
use haul_core::survey::{self, Descend, Piece, Survey, Visitor};
use haul_core::team::counts::{put_error, take_error};
use haul_core::team::wire::{Cursor, put_bytes};
use haul_core::{Error, ErrorKind, Result, varint};
use haul_run::open;

use super::line::{Format, Line, Lines, below};
use crate::command::sum::{Reading, digest};
use crate::ranks::shared::{Outbox, Shared};
use crate::render::json::Checks;

/// A name that is not as the manifest has it.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// `Missing`, `Differs`, or `Extra`: in the tree, not in the manifest.
    pub action: Action,
    pub why: Why,
    /// As the manifest has it; of what is extra below the tree.
    pub path: &'a [u8],
    /// By the manifest, where it has sizes; of what is extra by the tree.
    pub size: Option<u64>,
}

/// Receives names that differ, and errors of those that could not be read.
#[derive(Clone, Copy)]
pub struct Reports<'a> {
    pub found: &'a (dyn Fn(Found<'_>) + Sync),
    pub failed: &'a (dyn Fn(&Error, Kind) + Sync),
}

/// Lines that are compared together.
const TOGETHER: usize = 32;
/// Lines that may have been compared before the one whose turn it is.
const AHEAD: u64 = 32 << 10;

/// What all ranks do: compare lines, look for files that are in none.
const LINES: u8 = 0;
const EXTRAS: u8 = 1;

/// Records for rank 0: what came of a line, a file of the tree, a directory that cannot be listed.
const COMPARED: u8 = 0;
const THERE: u8 = 1;
const UNLISTED: u8 = 2;

/// Lines that follow each other.
struct Batch {
    first: u64,
    lines: Vec<(Line, Algorithm)>,
}

impl Item for Batch {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        varint::put(&mut out, self.first);
        for (line, algorithm) in &self.lines {
            put_bytes(&mut out, algorithm.word().as_bytes());
            put_bytes(&mut out, &line.digest);
            put_bytes(&mut out, &line.path);
            // Of the stamp nothing but the size is compared.
            varint::put(&mut out, line.stamp.map_or(0, |(size, _)| size.saturating_add(1)));
        }
        out
    }

    fn decode(bytes: &[u8]) -> Option<Batch> {
        let mut from = Cursor(bytes);
        let (first, mut lines) = (from.number()?, Vec::new());
        while !from.is_empty() {
            let algorithm = Algorithm::of_word(&from.text()?)?;
            let (digest, path, size) = (from.bytes()?.to_vec(), from.bytes()?.to_vec(), from.number()?);
            let stamp = size.checked_sub(1).map(|size| (size, Time::default()));
            lines.push((Line { digest, stamp, path }, algorithm));
        }
        Some(Batch { first, lines })
    }

    fn is_open(&self) -> bool {
        false
    }
}

type Compared = Result<Option<(Action, Why)>>;

const DIFFERENCES: [(Action, Why); 4] = [
    (Action::Missing, Why::New),
    (Action::Differs, Why::Type),
    (Action::Differs, Why::Size(MetaMask::NONE)),
    (Action::Differs, Why::Content(MetaMask::NONE)),
];

fn put_compared(at: u64, compared: &Compared) -> Vec<u8> {
    let mut out = vec![COMPARED];
    varint::put(&mut out, at);
    match compared {
        Ok(None) => out.push(0),
        Ok(Some(found)) => out.push(2 + DIFFERENCES.iter().position(|known| known == found).unwrap_or(3) as u8),
        Err(e) => {
            out.push(1);
            put_error(&mut out, e);
        }
    }
    out
}

fn take_compared(from: &mut Cursor<'_>) -> Option<(u64, Compared)> {
    let at = from.number()?;
    Some((
        at,
        match from.number()? {
            0 => Ok(None),
            1 => Err(take_error(from)?),
            n => Ok(Some(*DIFFERENCES.get(usize::try_from(n).ok()?.checked_sub(2)?)?)),
        },
    ))
}

/// Lines on their way, reported in the order of the manifest whoever compares them.
#[derive(Default)]
struct Turns {
    /// The one that is to be reported next.
    next: u64,
    lines: BTreeMap<u64, Line>,
    compared: BTreeMap<u64, Compared>,
}

impl Turns {
    /// Takes what came of one; `None` for one that was not asked for.
    fn settle(&mut self, at: u64, compared: Compared) -> Option<()> {
        (self.lines.contains_key(&at) && self.compared.insert(at, compared).is_none()).then_some(())
    }

    fn report(&mut self, counts: &mut Checks, told: &Reports<'_>) {
        while let Some(compared) = self.compared.remove(&self.next) {
            if let Some(line) = self.lines.remove(&self.next) {
                report(&line, compared, counts, told);
            }
            self.next += 1;
        }
    }
}

/// A tree and what it is compared with.
#[derive(Clone, Copy)]
pub struct Tree<'a> {
    pub opened: &'a open::Opened,
    /// As it was typed.
    pub path: &'a [u8],
    /// Where the manifest is in it, if it is: it is not extra.
    pub manifest: Option<&'a [u8]>,
}

/// Reads every file of a manifest again and, unless `one_way`, looks for files that it does not have.
pub fn check(
    manifest: &mut (dyn BufRead + Send),
    tree: Tree<'_>,
    one_way: bool,
    reading: Reading<'_>,
    told: Reports<'_>,
    ranks: Option<Shared<'_>>,
) -> Result<Checks> {
    let spill = std::env::temp_dir();
    let turns: Arc<(Mutex<Turns>, Condvar)> = Arc::default();
    let counts = Mutex::new(Checks::default());
    let source = Mutex::new((Lines::new(manifest), Sorter::new(&spill, 8 << 20, <[u8]>::cmp), 0u64));
    let of_others = turns.clone();
    let stage = ranks.map(|ranks| {
        ranks.stage(LINES, move |record| {
            let (&COMPARED, rest) = record.split_first()? else { return None };
            let mut from = Cursor(rest);
            let (at, compared) = take_compared(&mut from)?;
            lock(&of_others.0).settle(at, compared)?;
            of_others.1.notify_all();
            from.is_empty().then_some(())
        })
    });
    let settle = |at, compared| {
        let mut turns_now = lock(&turns.0);
        let _ = turns_now.settle(at, compared); // it was asked for
        turns_now.report(&mut lock(&counts), &told);
        turns.1.notify_all();
    };
    let feed = || -> Result<Option<Vec<Batch>>> {
        let mut source = lock(&source);
        let (lines, listed, at) = &mut *source;
        let mut held = lock(&turns.0);
        held.report(&mut lock(&counts), &told);
        if *at - held.next >= AHEAD {
            drop(turns.1.wait_timeout(held, Duration::from_millis(100)).unwrap_or_else(PoisonError::into_inner));
            return Ok(Some(Vec::new()));
        }
        drop(held);
        let batch = lines.batch(TOGETHER)?;
        if batch.is_empty() {
            return Ok(None);
        }
        for (n, (line, _)) in batch.iter().enumerate() {
            listed.push(&line.path).map_err(|e| Error::io(e, "spill"))?;
            lock(&turns.0).lines.insert(*at + n as u64, line.clone());
        }
        let first = *at;
        *at += batch.len() as u64;
        Ok(Some(vec![Batch { first, lines: batch }]))
    };
    let pool = Pool::new(reading.threads(&*tree.opened.store), reading.cancel, &spill, stage);
    pool.run_fed(&|batch: Batch| compare_batch(&batch, tree, reading, &settle), &|| (), Some(&feed))?;
    lock(&turns.0).report(&mut lock(&counts), &told);
    let mut checks = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (lines, listed, _) = source.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !one_way {
        let unseen = AtomicU64::new(0);
        let failed = |e: &Error, kind| {
            unseen.fetch_add(1, Ordering::Relaxed);
            (told.failed)(e, kind);
        };
        checks.extra = extras(tree, listed, lines.format.map(|f| f.0), reading, Reports { failed: &failed, ..told }, ranks)?;
        // A tree of which a part was not seen is not verified.
        checks.failed += unseen.into_inner();
    }
    Ok(checks)
}

/// This rank's part of what rank 0 compares.
pub fn help(stage: Stage, phase: u8, tree: Tree<'_>, reading: Reading<'_>) -> Result<()> {
    let outbox = Outbox::of(&stage);
    let spill = std::env::temp_dir();
    if phase == EXTRAS {
        let found = |record: &[u8]| outbox.put(&[&[THERE], record].concat());
        let failed = |e: &Error, kind| {
            let mut record = vec![UNLISTED, kind_number(kind)];
            put_error(&mut record, e);
            outbox.put(&record);
        };
        return walk(tree.opened, reading, Some(stage), &found, &failed, &|| outbox.flush());
    }
    let pool = Pool::new(reading.threads(&*tree.opened.store), reading.cancel, &spill, Some(stage));
    let settle = |at, compared| outbox.put(&put_compared(at, &compared));
    // Lines are reported in their order: one that waits here holds up the others.
    let work = |batch: Batch| {
        compare_batch(&batch, tree, reading, &settle);
        outbox.flush();
    };
    pool.run(&work, &|| outbox.flush())
}

fn compare_batch(batch: &Batch, tree: Tree<'_>, reading: Reading<'_>, settle: &(dyn Fn(u64, Compared) + Sync)) {
    for (at, (line, algorithm)) in (batch.first..).zip(&batch.lines) {
        if reading.cancel.is_set() {
            return;
        }
        settle(at, compare_line(&*tree.opened.store, tree.path, line, *algorithm, reading.meter));
    }
}

fn report(line: &Line, compared: Compared, counts: &mut Checks, told: &Reports<'_>) {
    match compared {
        Ok(None) => counts.same += 1,
        Ok(Some((action, why))) => {
            match action {
                Action::Missing => counts.missing += 1,
                _ => counts.differing += 1,
            }
            (told.found)(Found { action, why, path: &line.path, size: line.stamp.map(|(size, _)| size) });
        }
        Err(e) => {
            counts.failed += 1;
            (told.failed)(&e, Kind::File);
        }
    }
}

/// `None`: it is as the line says.
fn compare_line(store: &dyn Store, tree: &[u8], line: &Line, algorithm: Algorithm, meter: &Meter) -> Result<Option<(Action, Why)>> {
    let bad = || Error::new(ErrorKind::BadName, "check").at(&line.path).because("is no path below the directory");
    let name = Name::parse(&Dir::root(), below(tree, &line.path)).ok_or_else(bad)?;
    let entry = match store.stat(&name, MetaMask::NONE) {
        Ok(entry) => entry,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Some((Action::Missing, Why::New))),
        Err(e) => return Err(e.on(&name)),
    };
    let differs = |why| Ok(Some((Action::Differs, why)));
    if entry.kind != Kind::File {
        return differs(Why::Type);
    }
    if line.stamp.is_some_and(|(size, _)| size != entry.size) {
        return differs(Why::Size(MetaMask::NONE));
    }
    let found = digest(store, &entry, algorithm, meter).map_err(|e| e.on(&name))?;
    if found == line.digest { Ok(None) } else { differs(Why::Content(MetaMask::NONE)) }
}

/// Files of the tree as this rank finds them: path, zero byte, size.
fn walk(
    opened: &open::Opened,
    reading: Reading<'_>,
    stage: Option<Stage>,
    found: &(dyn Fn(&[u8]) + Sync),
    failed: &(dyn Fn(&Error, Kind) + Sync),
    flush: &(dyn Fn() + Sync),
) -> Result<()> {
    let visit = |entry: &Entry| {
        if entry.kind == Kind::File {
            // No path has a zero byte, so that these sort as the paths do.
            found(&[&entry.name.path()[..], b"\0", &entry.size.to_be_bytes()].concat());
        }
        Descend::Yes
    };
    let (threads, spill) = (open::threads(reading.workers), std::env::temp_dir());
    let survey = Survey { store: &*opened.store, threads, want: MetaMask::NONE, cancel: reading.cancel, spill: &spill };
    let leads = stage.as_ref().is_none_or(Stage::leads);
    let pool = Pool::new(threads, reading.cancel, &spill, stage);
    if leads {
        pool.push([Piece::Dir(Dir::root())]);
    }
    survey.run_in(&pool, survey::BATCH, Visitor { visit: &visit, failed: &|e, kind| failed(&e, kind) }, flush)
}

/// Files that the manifest does not have: two sorted streams, merged.
fn extras(
    tree: Tree<'_>,
    listed: Sorter,
    format: Option<Format>,
    reading: Reading<'_>,
    told: Reports<'_>,
    ranks: Option<Shared<'_>>,
) -> Result<u64> {
    let spill = std::env::temp_dir();
    let there = Arc::new(Mutex::new(Sorter::new(&spill, 8 << 20, <[u8]>::cmp)));
    let unlisted: Arc<Mutex<Vec<(Error, Kind)>>> = Arc::default();
    let stage = ranks.map(|ranks| {
        let (there, unlisted) = (there.clone(), unlisted.clone());
        ranks.stage(EXTRAS, move |record| match record.split_first()? {
            (&THERE, record) => lock(&there).push(record).ok(),
            (&UNLISTED, rest) => {
                let (kind, rest) = rest.split_first()?;
                lock(&unlisted).push((take_error(&mut Cursor(rest))?, kind_of(*kind)));
                Some(())
            }
            _ => None,
        })
    });
    let found = |record: &[u8]| {
        if let Err(e) = lock(&there).push(record) {
            (told.failed)(&Error::io(e, "spill"), Kind::File);
        }
    };
    walk(tree.opened, reading, stage, &found, told.failed, &|| ())?;
    for (e, kind) in lock(&unlisted).drain(..) {
        (told.failed)(&e, kind);
    }
    let there = std::mem::replace(&mut *lock(&there), Sorter::new(&spill, 0, <[u8]>::cmp));
    let sorted = |sorter: Sorter| sorter.finish().map_err(|e| Error::io(e, "sort"));
    let mut listed = sorted(listed)?.peekable();
    let mut extra = 0;
    for record in sorted(there)? {
        let record = record.map_err(|e| Error::io(e, "sort"))?;
        let (path, size) = record.split_at(record.iter().position(|byte| *byte == 0).unwrap_or(record.len()));
        let known = loop {
            let Some(Ok(line)) = listed.peek() else { break false };
            let line = if format == Some(Format::Coreutils) { below(tree.path, line) } else { line };
            match line.cmp(path) {
                std::cmp::Ordering::Less => drop(listed.next()),
                order => break order.is_eq(),
            }
        };
        if !known && tree.manifest != Some(path) {
            extra += 1;
            let size = size.get(1..).and_then(|size| size.try_into().ok()).map(u64::from_be_bytes);
            (told.found)(Found { action: Action::Extra, why: Why::Extra, path, size });
        }
    }
    Ok(extra)
}
