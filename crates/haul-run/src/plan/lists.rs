//! Lists that come from files: filter rules, and the names of `--files-from`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, BufRead, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use haul_core::entry::{Dir, show};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::filter::{Filter, Verdict};
use haul_core::job::{Listed, Pick};
use haul_core::spill::Sorter;
use haul_core::store::{Flow, Store};
use haul_local::trusted;
use rustix::fs::OFlags;

use crate::location::{self, Location};
use haul_core::spec::{FilterRule, Input};

/// The rules in the order of the command line; the first that matches decides.
pub fn filter(rules: &[FilterRule], zero: bool) -> Result<Filter> {
    let mut filter = Filter::default();
    for rule in rules {
        let added = match rule {
            FilterRule::Include(pattern) => filter.include(pattern),
            FilterRule::Exclude(pattern) => filter.exclude(pattern),
            FilterRule::IncludeFrom(input) => filter.patterns(&read(input)?, Verdict::Include, zero),
            FilterRule::ExcludeFrom(input) => filter.patterns(&read(input)?, Verdict::Exclude, zero),
            FilterRule::RulesFrom(input) => filter.rules(&read(input)?, zero),
        };
        added.map_err(|reason| Error::new(ErrorKind::Usage, "filter").because(reason).hint("`haul help filters` explains the rules"))?;
    }
    Ok(filter)
}

fn read(input: &Input) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    open(input)?.read_to_end(&mut text).map_err(|e| Error::io(e, "read list"))?;
    Ok(text)
}

fn open(input: &Input) -> Result<Box<dyn BufRead>> {
    Ok(match input {
        Input::Stdin => Box::new(io::BufReader::new(io::stdin())),
        Input::File(path) => Box::new(io::BufReader::new(trusted::open(path, OFlags::RDONLY, "open list")?)),
    })
}

/// A path as it would be met on a walk: a directory's names before those that only begin like it.
fn by_parts(a: &[u8], b: &[u8]) -> Ordering {
    let key = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    a.iter().map(key).cmp(b.iter().map(key))
}

/// Directories in front of `/./` in one list at the most: each is opened as a source.
const MOST_BASES: usize = 64;

/// The names of `--files-from`, sorted and each once, whatever their number: by the directory below the source that they are relative
/// to, which is in front of `/./` in their lines.
#[derive(Default)]
pub struct Names(BTreeMap<Vec<u8>, Group>);

/// Names relative to one directory.
struct Group {
    paths: Sorter,
    /// Directories whose immediate entries are meant, which are written with a slash at the end.
    entries_of: Vec<Vec<u8>>,
    /// All of the directory: where listed directories are entered and it is one of them.
    is_all: bool,
}

/// Reads the list. `enters`: listed directories are meant with all below them.
pub fn listed(input: &Input, zero: bool, enters: bool, spill: &Path) -> Result<Names> {
    let mut from = open(input)?;
    let mut names = Names::default();
    let end = if zero { 0 } else { b'\n' };
    let (mut line, mut is_first) = (Vec::new(), true);
    loop {
        line.clear();
        if from.read_until(end, &mut line).map_err(|e| Error::io(e, "read list"))? == 0 {
            break;
        }
        let mut text = line.strip_suffix(&[end]).unwrap_or(&line);
        if !zero {
            text = text.strip_suffix(b"\r").unwrap_or(text);
            if std::mem::take(&mut is_first) {
                // Editors on Windows write it.
                text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
            }
            if matches!(text, [] | [b'#' | b';', ..]) {
                continue;
            }
        }
        let relative = text.strip_prefix(b"./").unwrap_or(text);
        let cut = relative.windows(3).position(|part| part == b"/./");
        let (base, rest) = cut.map_or((&b""[..], relative), |at| (&relative[..at], &relative[at + 3..]));
        let base = clean(base)?.unwrap_or_default();
        if !names.0.contains_key(&base) && names.0.len() > MOST_BASES {
            let e = Error::new(ErrorKind::Usage, "--files-from").because(format!("more than {MOST_BASES} directories are in front of /./"));
            return Err(e.hint("name a source for each, or copy them one by one"));
        }
        let group = names.0.entry(base).or_insert_with(|| Group {
            paths: Sorter::new(spill, 8 << 20, by_parts).dedup(),
            entries_of: Vec::new(),
            is_all: false,
        });
        let path = clean(rest)?;
        let has_slash = text.ends_with(b"/") || text.ends_with(b"/.");
        match &path {
            None if text.is_empty() => continue,
            None if enters => group.is_all = true,
            None => group.entries_of.push(Vec::new()),
            Some(path) if has_slash && !enters => group.entries_of.push(path.clone()),
            Some(_) => {}
        }
        if let Some(path) = path {
            group.paths.push(&path).map_err(|e| Error::io(e, "sort list"))?;
        }
    }
    Ok(names)
}

impl Names {
    /// The directories below the source that the names are relative to, but for the source itself.
    pub fn bases(&self) -> Vec<Vec<u8>> {
        self.0.keys().filter(|base| !base.is_empty()).cloned().collect()
    }

    /// The names that are relative to `base`, which `store` has opened.
    pub fn pick(&mut self, base: &[u8], store: &dyn Store, spill: &Path) -> Result<Pick> {
        let Some(mut group) = self.0.remove(base) else { return Paths::new(spill).pick() };
        if group.is_all {
            return Ok(Pick::Contents);
        }
        for path in &group.entries_of {
            let dir = path.split(|b| *b == b'/').filter(|part| !part.is_empty()).fold(Dir::root(), |dir, part| dir.child(part));
            let mut trouble = Ok(());
            let listed = store.list(&dir, &mut |found| {
                trouble = found.and_then(|entry| group.paths.push(&entry.name.path()).map_err(|e| Error::io(e, "sort list")));
                if trouble.is_ok() { Flow::Go } else { Flow::Stop }
            });
            trouble?;
            match listed {
                // It is reported as a name that is not there, or is a file.
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Changed | ErrorKind::Vanished) => {}
                listed => listed?,
            }
        }
        finished(group.paths)
    }
}

/// The addresses of a list that has no base: what `haul cp --files-from LIST DST` copies.
pub fn addresses(input: &Input, zero: bool) -> Result<Vec<Location>> {
    let mut text = Vec::new();
    open(input)?.read_to_end(&mut text).map_err(|e| Error::io(e, "read list"))?;
    let lines = text.split(|byte| *byte == if zero { 0 } else { b'\n' });
    let lines = lines.map(|line| line.strip_suffix(b"\r").filter(|_| !zero).unwrap_or(line));
    let lines = lines.filter(|line| !line.is_empty() && (zero || !matches!(line[0], b'#' | b';')));
    let address = |line: &[u8]| {
        let wrong = |reason: String| Error::new(ErrorKind::Usage, "--files-from").because(reason);
        let location = location::parse(OsStr::from_bytes(line), &|_| false).map_err(|e| wrong(e.to_string()))?;
        match location.is_remote() && !location.means_contents() {
            true => Ok(location),
            false => {
                let e = wrong(format!("{}: without a source the list must have addresses of files", show(line)));
                Err(e.hint("write them like https://HOST/FILE, or name the directory that the names are in as SRC"))
            }
        }
    };
    let found: Vec<Location> = lines.map(address).collect::<Result<_>>()?;
    if found.is_empty() {
        return Err(Error::new(ErrorKind::Usage, "--files-from").because("the list is empty"));
    }
    Ok(found)
}

/// Paths that were found by a listing, each once and in the order of a walk.
pub struct Paths(Sorter);

impl Paths {
    pub fn new(spill: &Path) -> Paths {
        Paths(Sorter::new(spill, 8 << 20, by_parts).dedup())
    }

    /// `path` is one that a name can have: relative, without empty parts, `.` and `..`.
    pub fn push(&mut self, path: &[u8]) -> Result<()> {
        self.0.push(path).map_err(|e| Error::io(e, "sort list"))
    }

    pub fn pick(self) -> Result<Pick> {
        finished(self.0)
    }
}

fn finished(sorter: Sorter) -> Result<Pick> {
    let sorted = sorter.finish().map_err(|e| Error::io(e, "sort list"))?;
    Ok(Pick::Listed(Arc::new(Listed::new(sorted))))
}

/// Without a leading slash, `.` parts and slashes at the end; `..` would leave the source. `None` for the source itself.
fn clean(line: &[u8]) -> Result<Option<Vec<u8>>> {
    let parts: Vec<&[u8]> = line.split(|b| *b == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
    if parts.contains(&&b".."[..]) {
        let e = Error::new(ErrorKind::Usage, "--files-from").because(format!("{}: .. would leave the source", show(line)));
        return Err(e.hint("names are relative to the source; remove the line"));
    }
    Ok((!parts.is_empty()).then(|| parts.join(&b'/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_names_are_cleaned_and_stay_below_the_source() {
        assert_eq!(clean(b"/a//b/./c/").unwrap(), Some(b"a/b/c".to_vec()));
        assert_eq!(clean(b"./").unwrap(), None);
        assert!(clean(b"a/../b").is_err());
        assert_eq!(clean(b"..x").unwrap(), Some(b"..x".to_vec()));
    }

    #[test]
    fn names_of_one_directory_stand_together() {
        let mut names = vec![&b"a-b"[..], b"a/z", b"a", b"a/b/c", b"b"];
        names.sort_by(|a, b| by_parts(a, b));
        assert_eq!(names, [&b"a"[..], b"a/b/c", b"a/z", b"a-b", b"b"]);
    }
}
