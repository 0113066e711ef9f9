//! `haul du`: how much and how many, by all processors and in flat memory.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, Kind, MetaMask, show};
use haul_core::filter::{Filter, Verdict};
use haul_core::job::Bounds;
use haul_core::survey::{Descend, Survey};
use haul_core::{Error, Result};

use super::scope;
use super::weigh;
use crate::open;
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

    /// The same where the paths that filters see are others.
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
        entry.kind != Kind::Dir && entry.nlink > 1 && {
            let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            seen.len() < LINKS_KEPT && !seen.insert((entry.dev, entry.ino))
        }
    }
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

/// Adds up everything below a directory, or one file.
pub fn count(asked: &open::Argument<'_>, how: How<'_>, cancel: &Cancel, failed: &(dyn Fn(&Error) + Sync)) -> Result<Sums> {
    if let Some(scope) = scope::of(asked)? {
        return weigh::count(&scope, how);
    }
    let (opened, top) = open::existing(asked)?;
    let by_dir = Mutex::new(BTreeMap::new());
    let errors = std::sync::atomic::AtomicU64::new(0);
    let links = Links::default();
    let tally = |entry: &Entry| {
        if !how.chosen.admits(entry, &top) {
            return Descend::No;
        }
        let sum_of_entry = Sum::of(entry, if entry.kind == Kind::Dir || links.seen(entry) { 0 } else { entry.size });
        let mut sums = by_dir.lock().unwrap_or_else(PoisonError::into_inner);
        let own = (entry.kind == Kind::Dir).then(|| entry.name.dir.child(&entry.name.leaf));
        let mut at: Option<&Dir> = Some(own.as_ref().unwrap_or(&entry.name.dir));
        while let Some(dir) = at {
            if dir.depth() <= how.depth {
                let sum: &mut Sum = sums.entry(dir.path()).or_default();
                sum.merge(sum_of_entry);
            }
            at = dir.parent();
        }
        Descend::Yes
    };
    if opened.leaf.is_some() {
        return Ok(Sums { by_dir: BTreeMap::from([(Vec::new(), Sum::of(&top, top.size))]), by_class: BTreeMap::new(), errors: 0 });
    }
    by_dir.lock().unwrap_or_else(PoisonError::into_inner).insert(Vec::new(), Sum::of(&top, 0));
    let spill = std::env::temp_dir();
    let survey = Survey { store: &*opened.store, threads: how.threads, want: MetaMask::NONE, cancel, spill: &spill };
    survey.run(&Dir::root(), &tally, &|e, _| {
        errors.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        failed(&e);
    })?;
    let by_dir = by_dir.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Sums { by_dir, by_class: BTreeMap::new(), errors: errors.into_inner() })
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
        writeln!(out, "{size}\t{}\t{}", files_word(sum.files), shown(path, below))?;
    }
    Ok(())
}

/// The same as JSON, with the storage classes first, if they are to be told.
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
        writeln!(out, "{size}\t{}\t{}", files_word(sum.files), show(class.as_bytes()))?;
    }
    Ok(())
}

fn files_word(n: u64) -> String {
    if n == 1 { "1 file".into() } else { format!("{} files", units::count(n)) }
}
