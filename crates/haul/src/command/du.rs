//! `haul du` and `haul tree`: how much and how many, by all processors and in flat memory.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, Kind, MetaMask, show};
use haul_core::filter::{Filter, Verdict};
use haul_core::job::Bounds;
use haul_core::survey::{Descend, Survey};
use haul_core::{Error, Result};

use super::scope::Scope;
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
    fn add(&mut self, entry: &Entry, bytes: u64) {
        // A hostile listing claims any size.
        self.bytes = self.bytes.saturating_add(bytes);
        match entry.kind {
            Kind::Dir => self.dirs += 1,
            _ => self.files += 1,
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
    /// Directories count with their own size, as `tree --du` has it.
    pub with_dirs: bool,
    pub filter: &'a Filter,
    pub bounds: Bounds,
    pub one_file_system: bool,
    /// Of object stores: versions that are not the latest count, too.
    pub versions: bool,
}

/// Adds up everything below a directory, or one file.
pub fn count(asked: &open::Argument<'_>, how: How<'_>, cancel: &Cancel, failed: &(dyn Fn(&Error) + Sync)) -> Result<Sums> {
    if let Some(scope) = Scope::of(asked)? {
        return weigh::count(asked, &scope, how);
    }
    let (opened, top) = open::existing(asked)?;
    let by_dir = Mutex::new(BTreeMap::new());
    let errors = std::sync::atomic::AtomicU64::new(0);
    let seen: Mutex<HashSet<(u64, u64)>> = Mutex::default();
    let tally = |entry: &Entry| {
        let is_dir = entry.kind == Kind::Dir;
        let excluded = !how.filter.is_empty() && how.filter.check(&entry.name.path(), is_dir) == Verdict::Exclude;
        if excluded || (how.one_file_system && entry.dev != top.dev) || (!is_dir && !how.bounds.admit(entry)) {
            return Descend::No;
        }
        let twice = entry.kind != Kind::Dir && entry.nlink > 1 && {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.len() < LINKS_KEPT && !seen.insert((entry.dev, entry.ino))
        };
        let counts = !twice && (entry.kind != Kind::Dir || how.with_dirs);
        let bytes = if counts { entry.size } else { 0 };
        let mut sums = by_dir.lock().unwrap_or_else(PoisonError::into_inner);
        let own = (entry.kind == Kind::Dir).then(|| entry.name.dir.child(&entry.name.leaf));
        let mut at: Option<&Dir> = Some(own.as_ref().unwrap_or(&entry.name.dir));
        while let Some(dir) = at {
            if dir.depth() <= how.depth {
                let sum: &mut Sum = sums.entry(dir.path()).or_default();
                sum.add(entry, bytes);
            }
            at = dir.parent();
        }
        Descend::Yes
    };
    if opened.leaf.is_some() {
        let mut sum = Sum::default();
        sum.add(&top, top.size);
        return Ok(Sums { by_dir: BTreeMap::from([(Vec::new(), sum)]), by_class: BTreeMap::new(), errors: 0 });
    }
    // The top counts as a directory, as `tree` has it.
    let mut own = Sum::default();
    own.add(&top, if how.with_dirs { top.size } else { 0 });
    by_dir.lock().unwrap_or_else(PoisonError::into_inner).insert(Vec::new(), own);
    let spill = std::env::temp_dir();
    let survey = Survey { store: &*opened.store, threads: open::threads(), want: MetaMask::NONE, cancel, spill: &spill };
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

/// What `tree` tells, as JSON.
pub fn tree_json(path: &[u8], depth: u32, sums: &Sums, out: &mut dyn Write) -> io::Result<()> {
    sums.down_to(depth).try_for_each(|line| sums.usage(path, line).write(out))
}

/// Bytes, objects and name of every storage class.
pub fn by_class(human: bool, sums: &Sums, out: &mut dyn Write) -> io::Result<()> {
    for (class, sum) in &sums.by_class {
        let size = if human { units::bytes(sum.bytes) } else { sum.bytes.to_string() };
        writeln!(out, "{size}\t{}\t{}", files_word(sum.files), show(class.as_bytes()))?;
    }
    Ok(())
}

/// Directories down to `depth` with their sizes, then the line that `tree --du -h` ends with.
pub fn tree(path: &[u8], depth: u32, human: bool, sums: &Sums, out: &mut dyn Write) -> io::Result<()> {
    let size = |bytes: u64| if human { tree_size(bytes) } else { bytes.to_string() };
    for (below, level, sum) in sums.down_to(depth) {
        let leaf = below.rsplit(|b| *b == b'/').next().unwrap_or_default();
        let name = if level == 0 { show(path) } else { show(leaf) };
        writeln!(out, "{}[{:>5}]  {name}  ({})", "    ".repeat(level as usize), size(sum.bytes), files_word(sum.files))?;
    }
    let total = sums.by_dir.get(&b""[..]).copied().unwrap_or_default();
    let plural = |n: u64, one: &str, many: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {many}") };
    let what = format!("{}, {}", plural(total.dirs, "directory", "directories"), plural(total.files, "file", "files"));
    if human { writeln!(out, "\n{:>5} used in {what}", size(total.bytes)) } else { writeln!(out, "\n{} bytes used in {what}", total.bytes) }
}

/// `tree -h`'s sizes: "4.9G", "120K", "17".
fn tree_size(bytes: u64) -> String {
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut value = bytes as f64;
    let mut unit = ' ';
    for next in ['K', 'M', 'G', 'T', 'P', 'E'] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if value < 10.0 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
}

fn files_word(n: u64) -> String {
    if n == 1 { "1 file".into() } else { format!("{} files", units::count(n)) }
}
