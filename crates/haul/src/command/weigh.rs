//! Objects for `haul du` and `tree`, from plain listings: one request for 1,000 objects.

use std::collections::BTreeMap;

use haul_core::entry::{Dir, Entry, Kind, Name};
use haul_core::error::Result;
use haul_core::filter::Verdict;
use haul_stores::s3::inventory::Object;

use super::du::{Chosen, How, Sum, Sums};
use super::scope::Scope;

/// A listing in the order of keys becomes sums.
struct Scales {
    /// Levels with sums of their own.
    depth: u32,
    sums: Sums,
    /// The directories that the last key is in.
    dirs: Vec<Vec<u8>>,
}

impl Scales {
    fn add(&mut self, path: &[u8], object: &Object) {
        let class = if object.class.is_empty() { "STANDARD" } else { &object.class };
        let marker = path.ends_with(b"/");
        let of_class = self.sums.by_class.entry(class.to_string()).or_default();
        of_class.bytes = of_class.bytes.saturating_add(object.size);
        of_class.files += u64::from(!marker);
        let mut parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        let _leaf = parts.pop();
        let shared = parts.iter().zip(&self.dirs).take_while(|(part, dir)| **part == dir.as_slice()).count();
        self.dirs.truncate(shared);
        for part in &parts[shared..] {
            self.dirs.push(part.to_vec());
            // A directory counts in itself and in all above it, as du has it.
            for depth in 0..=self.dirs.len() {
                self.at(depth, |sum| sum.dirs += 1);
            }
        }
        for depth in 0..=self.dirs.len() {
            self.at(depth, |sum| {
                sum.bytes = sum.bytes.saturating_add(object.size);
                sum.files += u64::from(!marker);
            });
        }
    }

    /// The sum of the directory so many levels down on the way to the last key.
    fn at(&mut self, depth: usize, change: impl FnOnce(&mut Sum)) {
        let path = self.dirs[..depth].join(&b'/');
        // A key may begin with a slash: what has no name is no directory of its own.
        if depth <= self.depth as usize && (depth == 0 || !path.is_empty()) {
            change(self.sums.by_dir.entry(path).or_default());
        }
    }
}

/// Adds up what is below a prefix, or one object, or what a pattern matches.
pub fn count(scope: &Scope, how: How<'_>) -> Result<Sums> {
    let sums = Sums { by_dir: BTreeMap::new(), by_class: BTreeMap::new(), errors: 0 };
    let mut scales = Scales { depth: how.depth, sums, dirs: Vec::new() };
    let one_object = each(scope, how.chosen, how.versions, &mut |path, object| scales.add(path, object))?;
    scales.at(0, |sum| sum.dirs += u64::from(!one_object));
    Ok(scales.sums)
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
        if admits(chosen, path, object) {
            found(path, object);
        }
    })
}
