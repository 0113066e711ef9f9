//! Objects for `haul du` and `tree`, from plain listings: one request for 1,000 objects.

use std::collections::BTreeMap;

use haul_core::entry::{Dir, Entry, Kind, Name};
use haul_core::error::Result;
use haul_core::filter::Verdict;
use haul_core::store::Flow;
use haul_stores::s3::inventory::{Line, Object};

use super::du::{Chosen, How, Sum, Sums};
use super::scope::{Match, Scope, What, nothing};
use crate::open::Argument;

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
pub fn count(asked: &Argument<'_>, scope: &Scope, how: How<'_>) -> Result<Sums> {
    let sums = Sums { by_dir: BTreeMap::new(), by_class: BTreeMap::new(), errors: 0 };
    let mut scales = Scales { depth: how.depth, sums, dirs: Vec::new() };
    let one_object = each(asked, scope, how.chosen, how.versions, &mut |path, object| scales.add(path, object))?;
    scales.at(0, |sum| sum.dirs += u64::from(!one_object));
    Ok(scales.sums)
}

/// Whether filters and bounds admit an object.
fn admits(chosen: Chosen<'_>, path: &[u8], object: &Object) -> bool {
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

/// Calls `found` for the objects that are meant, with their paths below the place. Returns whether the place is one object.
pub fn each(
    asked: &Argument<'_>,
    scope: &Scope,
    chosen: Chosen<'_>,
    versions: bool,
    found: &mut dyn FnMut(&[u8], &Object),
) -> Result<bool> {
    let bucket = scope.bucket();
    let (mut prefix, mut cut) = match &scope.what {
        What::Below(prefix) => (prefix.clone(), prefix.len()),
        What::Key(key) => (key.clone(), key.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1)),
        What::Like(_) => (scope.prefix().to_vec(), 0),
    };
    // Without a slash it is the object, and where there is none what is below it.
    if let What::Key(key) = &scope.what
        && !versions
        && bucket.first(key)?.is_none_or(|first| first.key != *key)
    {
        prefix.push(b'/');
        cut = prefix.len();
    }
    let one_object = matches!(&scope.what, What::Key(key) if prefix == *key);
    let mut lines = 0;
    let mut take = |object: &Object| {
        lines += 1;
        if let Some(path) = object.key.get(cut..).filter(|path| !path.is_empty() && admits(chosen, path, object)) {
            found(path, object);
        }
    };
    let own = |key: &[u8]| match &scope.what {
        What::Key(own) if one_object => key == own,
        What::Key(_) | What::Below(_) => true,
        What::Like(_) => scope.admits(key, true),
    };
    match &scope.what {
        What::Like(wild) if !versions => wild.walk(bucket, true, &mut |found| {
            if let Match::Line(Line::Object(object)) | Match::Within(Line::Object(object)) = found {
                take(&object);
            }
            Flow::Go
        })?,
        _ if versions => bucket.versions(&prefix, &mut |versions| {
            versions.iter().filter(|version| !version.deleted && own(&version.object.key)).for_each(|version| take(&version.object));
            Flow::Go
        })?,
        _ => bucket.lines(&prefix, false, &mut |lines| {
            for line in &lines {
                if let Line::Object(object) = line
                    && own(&object.key)
                {
                    take(object);
                }
            }
            Flow::Go
        })?,
    }
    if lines == 0 && !scope.prefix().is_empty() {
        return Err(nothing(asked, matches!(scope.what, What::Like(_))));
    }
    Ok(one_object)
}
