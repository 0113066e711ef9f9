//! Objects for `haul du` and `tree`, from plain listings: one request for 1,000 objects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, Kind, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::filter::Verdict;
use haul_core::lock::lock;
use haul_core::pool::{Pool, Stage};
use haul_core::team::counts::{put_error, take_error};
use haul_core::team::wire::{Cursor, put_bytes};
use haul_run::open::Argument;
use haul_run::scope::{self, Scope, What};
use haul_s3::admin::{Range, leaf};
use haul_s3::inventory::Object;

use super::du::{Chosen, How, Sum, Sums};
use crate::ranks::shared::{self, Outbox, Shared};

/// A listing in the order of keys becomes sums.
#[derive(Default)]
struct Scales {
    /// Levels with sums of their own.
    depth: u32,
    by_dir: BTreeMap<Vec<u8>, Sum>,
    by_class: BTreeMap<String, Sum>,
    /// The directories that the last key is in.
    dirs: Vec<Vec<u8>>,
}

impl Scales {
    fn add(&mut self, path: &[u8], object: &Object) {
        let class = if object.class.is_empty() { "STANDARD" } else { &object.class };
        // A marker with content is an object like others.
        let marker = path.ends_with(b"/") && object.size == 0;
        let own = Sum { bytes: object.size, files: u64::from(!marker), dirs: 0 };
        self.by_class.entry(class.to_string()).or_default().merge(own);
        let mut parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        let _leaf = parts.pop();
        let shared = parts.iter().zip(&self.dirs).take_while(|(part, dir)| **part == dir.as_slice()).count();
        self.dirs.truncate(shared);
        for part in &parts[shared..] {
            self.dirs.push(part.to_vec());
            // A directory counts in itself and in all above it, as du has it.
            self.in_dirs(|sum| sum.dirs += 1);
        }
        self.in_dirs(|sum| sum.merge(own));
    }

    /// Changes the sums of the place and of all directories that the last key is in.
    fn in_dirs(&mut self, mut change: impl FnMut(&mut Sum)) {
        for depth in 0..=self.dirs.len().min(self.depth as usize) {
            let path = self.dirs[..depth].join(&b'/');
            // A key may begin with a slash: what has no name is no directory of its own.
            if depth == 0 || !path.is_empty() {
                change(self.by_dir.entry(path).or_default());
            }
        }
    }

    /// With the place itself, unless it is one object.
    fn sums(mut self, one_object: bool) -> Sums {
        self.dirs.clear();
        self.in_dirs(|sum| sum.dirs += u64::from(!one_object));
        Sums { by_dir: self.by_dir, by_class: self.by_class, errors: 0 }
    }
}

/// Adds up what is below a prefix, or one object, or what a pattern matches; what is below a prefix with all ranks.
pub fn count(scope: &Scope, how: How<'_>, failed: Failed<'_>, ranks: Option<Shared<'_>>) -> Result<Sums> {
    if let Some(ranks) = ranks.filter(|_| matches!(scope.what, What::Below(_)) && !how.versions) {
        return count_together(scope, how, failed, ranks);
    }
    let mut scales = Scales { depth: how.depth, ..Scales::default() };
    let one_object = each(scope, how.chosen, how.versions, &mut |path, object| scales.add(path, object))?;
    Ok(scales.sums(one_object))
}

type Failed<'a> = &'a (dyn Fn(&Error) + Sync);

/// What all do together: `du` of a directory is 0.
pub const RANGES: u8 = 1;
/// Ranges that a process reads at once.
const AT_ONCE: usize = 8;

/// Records for rank 0: the sum of a directory, of a storage class, the first and the last path of a range, an error.
const DIR: u8 = 0;
const CLASS: u8 = 1;
const EDGES: u8 = 2;
const FAILED: u8 = 3;

/// Sums of ranges of keys, and where the ranges begin and end.
#[derive(Default)]
struct Total {
    by_dir: BTreeMap<Vec<u8>, Sum>,
    by_class: BTreeMap<String, Sum>,
    edges: Vec<(Vec<u8>, Vec<u8>)>,
    /// Something is below the prefix, be it left out.
    any: bool,
    failed: Vec<Error>,
}

impl Total {
    fn take(&mut self, record: &[u8]) -> Option<()> {
        let (kind, rest) = record.split_first()?;
        let mut from = Cursor(rest);
        match *kind {
            DIR => {
                let (path, sum) = Sum::read(&mut from)?;
                self.by_dir.entry(path).or_default().merge(sum);
            }
            CLASS => {
                let (class, sum) = Sum::read(&mut from)?;
                self.by_class.entry(String::from_utf8(class).ok()?).or_default().merge(sum);
            }
            EDGES => {
                self.any = true;
                let (first, last) = (from.bytes()?.to_vec(), from.bytes()?.to_vec());
                if !first.is_empty() {
                    self.edges.push((first, last));
                }
            }
            FAILED => self.failed.push(take_error(&mut from)?),
            _ => return None,
        }
        from.is_empty().then_some(())
    }
}

/// A range's sums as records.
fn weighed(scope: &Scope, how: How<'_>, range: Range, pool: &Pool<Range>, put: &dyn Fn(&[u8])) {
    let mut scales = Scales { depth: how.depth, ..Scales::default() };
    let (mut any, mut first, mut last) = (false, Vec::new(), Vec::new());
    let read = scope.read_range(range, &|| pool.wants(), &|range| pool.push([range]), &mut |object| {
        any = true;
        // The directory's own marker has no path.
        let path = scope.below(&object.key);
        if (!path.is_empty() || object.size > 0) && admits(how.chosen, named(path, object), object) {
            scales.add(path, object);
            if first.is_empty() {
                first = path.to_vec();
            }
            last = path.to_vec();
        }
    });
    scales.by_dir.iter().for_each(|(path, sum)| put(&sum.record(DIR, path)));
    scales.by_class.iter().for_each(|(class, sum)| put(&sum.record(CLASS, class.as_bytes())));
    if any {
        let mut edges = vec![EDGES];
        put_bytes(&mut edges, &first);
        put_bytes(&mut edges, &last);
        put(&edges);
    }
    if let Err(e) = read {
        let mut failed = vec![FAILED];
        put_error(&mut failed, &e);
        put(&failed);
    }
}

fn count_together(scope: &Scope, how: How<'_>, failed: Failed<'_>, ranks: Shared<'_>) -> Result<Sums> {
    let total: Arc<Mutex<Total>> = Arc::default();
    let of_others = total.clone();
    let stage = ranks.stage(RANGES, move |record| lock(&of_others).take(record));
    let pool = Pool::new(AT_ONCE, &Cancel::default(), &std::env::temp_dir(), Some(stage));
    pool.push([Range::default()]);
    let put = |record: &[u8]| {
        let _ = lock(&total).take(record); // as it was made here
    };
    pool.run(&|range| weighed(scope, how, range, &pool, &put), &|| ())?;
    let Total { by_dir, by_class, mut edges, any, failed: errors } = std::mem::take(&mut *lock(&total));
    if let Some((first, rest)) = errors.split_first() {
        rest.iter().for_each(failed);
        return Err(first.again());
    }
    if !any && !scope.prefix().is_empty() {
        return Err(scope.nothing());
    }
    let mut scales = Scales { depth: how.depth, by_dir, by_class, dirs: Vec::new() };
    // A directory across the border of two ranges was counted in both.
    edges.sort();
    for pair in edges.windows(2) {
        let dirs = |path: &[u8]| {
            let mut dirs: Vec<Vec<u8>> = path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect();
            dirs.pop();
            dirs
        };
        let (one, other) = (dirs(&pair[0].1), dirs(&pair[1].0));
        let shared = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
        for level in 1..=shared {
            scales.dirs = one[..level].to_vec();
            scales.in_dirs(|sum| sum.dirs = sum.dirs.saturating_sub(1));
        }
    }
    Ok(scales.sums(false))
}

/// This rank's part of what rank 0 counts.
pub fn help(stage: Stage, asked: &Argument<'_>, how: How<'_>) -> Result<()> {
    let nothing = || Error::new(ErrorKind::Usage, "list").at(&asked.path).because("is in no object store");
    let (stage, scope) = shared::opened(stage, || scope::of(asked)?.ok_or_else(nothing))?;
    let outbox = Outbox::of(&stage);
    let pool = Pool::new(AT_ONCE, &Cancel::default(), &std::env::temp_dir(), Some(stage));
    pool.run(&|range| weighed(&scope, how, range, &pool, &|record| outbox.put(record)), &|| outbox.flush())
}

/// The path that filters see: a directory's own marker that has content goes by the name of the directory.
fn named<'a>(path: &'a [u8], object: &'a Object) -> &'a [u8] {
    if path.is_empty() { leaf(&object.key) } else { path }
}

/// Whether filters and bounds admit an object, or all below what ends in a slash.
pub fn admits(chosen: Chosen<'_>, path: &[u8], object: &Object) -> bool {
    if !chosen.filter.is_empty() {
        let above = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let out = |path: &[u8], dir| chosen.filter.check(path, dir) == Verdict::Exclude;
        let marker = path.ends_with(b"/");
        if above.into_iter().any(|at| out(&path[..at], true)) || (!marker && out(path, false)) {
            return false;
        }
    }
    let mut entry = Entry::bare(Name::new(&Dir::root(), b"x"), Kind::File);
    entry.size = object.size;
    entry.mtime = object.modified.unwrap_or_default();
    chosen.bounds.admit(&entry)
}

/// Whether filters admit a directory, whose path ends in a slash.
pub fn admits_dir(chosen: Chosen<'_>, path: &[u8]) -> bool {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    chosen.filter.is_empty() || !slashes.into_iter().any(|at| chosen.filter.check(&path[..at], true) == Verdict::Exclude)
}

/// Calls `found` for the objects that are meant and chosen, with their paths below the place. Returns whether the place is one
/// object.
pub fn each(scope: &Scope, chosen: Chosen<'_>, versions: bool, found: &mut dyn FnMut(&[u8], &Object)) -> Result<bool> {
    scope.objects(versions, &mut |path, object| {
        if admits(chosen, named(path, object), object) {
            found(path, object);
        }
    })
}
