//! `haul du`: how much and how many, by all processors and in flat memory.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, Kind, MetaMask, show};
use haul_core::filter::{Filter, Verdict};
use haul_core::job::Bounds;
use haul_core::pool::{Pool, Stage};
use haul_core::survey::{self, Descend, Piece, Survey, Visitor};
use haul_core::team::wire::{Cursor, put_all, put_bytes};
use haul_core::{Error, Result};
use haul_run::open;
use haul_run::scope;

use super::object_usage;
use crate::ranks::shared::{self, Outbox, Shared};
use crate::render::listing::{Class, Counts, Listed, Usage};
use crate::units;

/// Files with several names are counted once as long as this many can be remembered.
const LINKS_KEPT: usize = 1 << 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub bytes: u64,
    pub files: u64,
    pub dirs: u64,
}

impl Sum {
    /// Of one name that counts as so many bytes.
    pub fn of(entry: &Entry, bytes: u64) -> Sum {
        let dirs = u64::from(entry.kind == Kind::Dir);
        Sum { bytes, files: 1 - dirs, dirs }
    }

    pub fn merge(&mut self, other: Sum) {
        // A hostile listing claims any size.
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.files = self.files.saturating_add(other.files);
        self.dirs = self.dirs.saturating_add(other.dirs);
    }

    /// A record for rank 0, of a directory or something else with a name.
    pub fn record(self, kind: u8, name: &[u8]) -> Vec<u8> {
        let mut record = vec![kind];
        put_bytes(&mut record, name);
        put_all(&mut record, &[self.bytes, self.files, self.dirs]);
        record
    }

    /// The name and the sum of [`Sum::record`], behind the kind.
    pub fn read(from: &mut Cursor<'_>) -> Option<(Vec<u8>, Sum)> {
        Some((from.bytes()?.to_vec(), Sum { bytes: from.number()?, files: from.number()?, dirs: from.number()? }))
    }
}

/// Which names of a tree are meant.
#[derive(Clone, Copy, Debug)]
pub struct Chosen<'a> {
    pub filter: &'a Filter,
    pub bounds: Bounds,
    pub one_file_system: bool,
}

impl Chosen<'_> {
    /// Whether an entry below `top` is meant; a directory that is not is not entered.
    pub fn admits(&self, entry: &Entry, top: &Entry) -> bool {
        self.admits_at(&entry.name.path(), entry, top)
    }

    /// [`Chosen::admits`] with another path for filters.
    pub fn admits_at(&self, path: &[u8], entry: &Entry, top: &Entry) -> bool {
        let is_dir = entry.kind == Kind::Dir;
        let excluded = !self.filter.is_empty() && self.filter.check(path, is_dir) == Verdict::Exclude;
        !excluded && (!self.one_file_system || entry.dev == top.dev) && (is_dir || self.bounds.admit(entry))
    }
}

/// Files with several names, so that each counts once.
#[derive(Default)]
pub struct Links(Mutex<HashSet<(u64, u64)>>);

impl Links {
    /// Another name of this file has been here before.
    pub fn seen(&self, entry: &Entry) -> bool {
        entry.kind != Kind::Dir && entry.nlink > 1 && self.has((entry.dev, entry.ino))
    }

    fn has(&self, file: (u64, u64)) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.len() < LINKS_KEPT && !seen.insert(file)
    }
}

/// A file as all nodes number it: the file system of the argument has another number on each, and what is mounted below it, too.
fn file_of(entry: &Entry, top: &Entry) -> (u64, u64) {
    if entry.dev == top.dev {
        return (0, entry.ino);
    }
    let known = format!("{} {} {} {:?}", entry.dev, entry.ino, entry.size, entry.mtime);
    (haul_core::hash::xxh128(known.as_bytes()) as u64 | 1 << 63, entry.ino)
}

/// What has been counted so far.
struct Tally {
    depth: u32,
    by_dir: Mutex<BTreeMap<Vec<u8>, Sum>>,
    links: Links,
    errors: AtomicU64,
}

/// Records for rank 0: the sum of a directory, a file with several names, a number of errors.
const SUM: u8 = 0;
const LINK: u8 = 1;
const ERRORS: u8 = 2;

impl Tally {
    fn new(depth: u32) -> Arc<Tally> {
        Arc::new(Tally { depth, by_dir: Mutex::default(), links: Links::default(), errors: AtomicU64::new(0) })
    }

    fn by_dir(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Sum>> {
        self.by_dir.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts something in a directory and in all above it.
    fn add(&self, dir: &Dir, sum: Sum) {
        let mut sums = self.by_dir();
        let mut at = Some(dir);
        while let Some(dir) = at {
            if dir.depth() <= self.depth {
                let own: &mut Sum = sums.entry(dir.path()).or_default();
                own.merge(sum);
            }
            at = dir.parent();
        }
    }

    /// Takes a record of another rank.
    fn take(&self, record: &[u8]) -> Option<()> {
        let (kind, rest) = record.split_first()?;
        let mut from = Cursor(rest);
        match *kind {
            SUM => {
                let (path, sum) = Sum::read(&mut from)?;
                self.by_dir().entry(path).or_default().merge(sum);
            }
            LINK => {
                let (file, size, path) = ((from.number()?, from.number()?), from.number()?, from.bytes()?);
                if !self.links.has(file) {
                    let dir = path.split(|b| *b == b'/').filter(|_| !path.is_empty()).fold(Dir::root(), |dir, part| dir.child(part));
                    self.add(&dir, Sum { bytes: size, ..Sum::default() });
                }
            }
            ERRORS => {
                self.errors.fetch_add(from.number()?, Ordering::Relaxed);
            }
            _ => return None,
        }
        from.is_empty().then_some(())
    }

    /// Sends all to rank 0.
    fn send(&self, to: &Outbox) {
        for (path, sum) in std::mem::take(&mut *self.by_dir()) {
            to.put(&sum.record(SUM, &path));
        }
        to.put(&shared::count(ERRORS, self.errors.swap(0, Ordering::Relaxed)));
        to.flush();
    }
}

fn link(entry: &Entry, top: &Entry) -> Vec<u8> {
    let (device, number) = file_of(entry, top);
    let mut record = vec![LINK];
    put_all(&mut record, &[device, number, entry.size]);
    put_bytes(&mut record, &entry.name.dir.path());
    record
}

/// Sums of the directories down to a depth, the top under the empty path.
pub struct Sums {
    pub by_dir: BTreeMap<Vec<u8>, Sum>,
    /// Of object stores: sums of the storage classes, markers of directories included in their bytes.
    pub by_class: BTreeMap<String, Sum>,
    pub errors: u64,
}

impl Sums {
    /// Path, level and sum of each directory down to a depth, the top first.
    fn down_to(&self, depth: u32) -> impl DoubleEndedIterator<Item = (&[u8], u32, Sum)> {
        let level = |path: &[u8]| if path.is_empty() { 0 } else { path.split(|b| *b == b'/').count() as u32 };
        self.by_dir.iter().map(move |(path, sum)| (&path[..], level(path), *sum)).filter(move |(_, level, _)| *level <= depth)
    }

    fn usage<'a>(&self, place: &'a [u8], (path, level, sum): (&[u8], u32, Sum)) -> Listed<'a> {
        // Which directory the errors were in is not kept.
        let errors = (level == 0).then_some(self.errors);
        Listed::Usage(Usage::of(place, path, Counts { level, bytes: sum.bytes, files: sum.files, directories: sum.dirs, errors }))
    }
}

/// How `count` counts.
#[derive(Clone, Copy, Debug)]
pub struct How<'a> {
    /// Directories down to this depth get a sum of their own; 0 for the top alone.
    pub depth: u32,
    pub chosen: Chosen<'a>,
    /// Of object stores: versions that are not the latest count, too.
    pub versions: bool,
    pub threads: usize,
}

/// Adds up everything below a directory, or one file; with all ranks, if there are several.
pub fn count(
    asked: &open::Argument<'_>,
    how: How<'_>,
    cancel: &Cancel,
    failed: &(dyn Fn(&Error) + Sync),
    ranks: Option<Shared<'_>>,
) -> Result<Sums> {
    if let Some(scope) = scope::of(asked)? {
        return object_usage::count(&scope, how, failed, ranks);
    }
    let (opened, top) = open::existing(asked)?;
    if opened.leaf.is_some() {
        return Ok(Sums { by_dir: BTreeMap::from([(Vec::new(), Sum::of(&top, top.size))]), by_class: BTreeMap::new(), errors: 0 });
    }
    let tally = Tally::new(how.depth);
    tally.by_dir().insert(Vec::new(), Sum::of(&top, 0));
    let of_others = tally.clone();
    let stage = ranks.map(|ranks| ranks.stage(0, move |record| of_others.take(record)));
    survey((asked, &opened, &top), how, (cancel, failed), &tally, (stage, None))?;
    let by_dir = std::mem::take(&mut *tally.by_dir());
    Ok(Sums { by_dir, by_class: BTreeMap::new(), errors: tally.errors.load(Ordering::Relaxed) })
}

/// This rank's part of what rank 0 counts.
pub fn help(stage: Stage, asked: &open::Argument<'_>, how: How<'_>, cancel: &Cancel, failed: &(dyn Fn(&Error) + Sync)) -> Result<()> {
    let (stage, (opened, top)) = shared::opened(stage, || open::existing(asked))?;
    let outbox = Outbox::of(&stage);
    survey((asked, &opened, &top), how, (cancel, failed), &Tally::new(how.depth), (Some(stage), Some(&outbox)))
}

type Failed<'a> = &'a (dyn Fn(&Error) + Sync);

/// Counts what this rank finds; `outbox` for another rank than the first.
fn survey(
    (asked, opened, top): (&open::Argument<'_>, &open::Opened, &Entry),
    how: How<'_>,
    (cancel, failed): (&Cancel, Failed<'_>),
    tally: &Tally,
    (stage, outbox): (Option<Stage>, Option<&Outbox>),
) -> Result<()> {
    let visit = |entry: &Entry| {
        if !how.chosen.admits(entry, top) {
            return Descend::No;
        }
        let several = entry.kind != Kind::Dir && entry.nlink > 1;
        let counts = entry.kind != Kind::Dir
            && match outbox {
                // Whether it counts, rank 0 knows.
                Some(outbox) if several => {
                    outbox.put(&link(entry, top));
                    false
                }
                _ => !several || !tally.links.has(file_of(entry, top)),
            };
        let own = (entry.kind == Kind::Dir).then(|| entry.name.dir.child(&entry.name.leaf));
        tally.add(own.as_ref().unwrap_or(&entry.name.dir), Sum::of(entry, if counts { entry.size } else { 0 }));
        Descend::Yes
    };
    let failed = |e: Error, _| {
        tally.errors.fetch_add(1, Ordering::Relaxed);
        failed(&e.at(&asked.path));
    };
    let spill = std::env::temp_dir();
    let survey = Survey { store: &*opened.store, threads: how.threads, want: MetaMask::NONE, cancel, spill: &spill };
    let leads = outbox.is_none();
    let pool = Pool::new(how.threads, cancel, &spill, stage);
    if leads {
        pool.push([Piece::Dir(Dir::root())]);
    }
    let flush = || {
        if let Some(outbox) = outbox {
            tally.send(outbox);
        }
    };
    survey.run_in(&pool, survey::BATCH, Visitor { visit: &visit, failed: &failed }, &flush)
}

fn shown(path: &[u8], below: &[u8]) -> String {
    let mut whole = path.to_vec();
    if !below.is_empty() {
        if !whole.ends_with(b"/") {
            whole.push(b'/');
        }
        whole.extend_from_slice(below);
    }
    show(&whole)
}

/// Bytes, files and path of every directory down to `depth`, deepest first and the top last, as du has it.
pub fn du(path: &[u8], depth: u32, human: bool, sums: &Sums, out: &mut dyn Write) -> io::Result<()> {
    for (below, _, sum) in sums.down_to(depth).rev() {
        let size = if human { units::bytes(sum.bytes) } else { sum.bytes.to_string() };
        writeln!(out, "{size}\t{}\t{}", units::files(sum.files), shown(path, below))?;
    }
    Ok(())
}

/// The sums as JSON, with the storage classes first, if asked for.
pub fn du_json(path: &[u8], depth: u32, by_class: bool, sums: &Sums, out: &mut dyn Write) -> io::Result<()> {
    for (class, sum) in sums.by_class.iter().filter(|_| by_class) {
        Listed::Class(Class::of(path, class, sum.bytes, sum.files)).write(out)?;
    }
    sums.down_to(depth).rev().try_for_each(|line| sums.usage(path, line).write(out))
}

/// Bytes, objects and name of every storage class.
pub fn by_class(human: bool, sums: &Sums, out: &mut dyn Write) -> io::Result<()> {
    for (class, sum) in &sums.by_class {
        let size = if human { units::bytes(sum.bytes) } else { sum.bytes.to_string() };
        writeln!(out, "{size}\t{}\t{}", units::files(sum.files), show(class.as_bytes()))?;
    }
    Ok(())
}
