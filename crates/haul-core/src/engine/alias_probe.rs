//! Whether a directory of the destination is one of the source by another route: another address of this machine, a second mount, a
//! gateway.
//!
//! Between directories of one device inodes tell. Elsewhere a name made for this run at the destination is looked for at the source.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};

use crate::bundle::{Bundle, Outcome};
use crate::entry::{Dir, Entry, Kind, MetaMask, Name};
use crate::error::{Error, ErrorKind, Result};
use crate::journal;
use crate::lock::lock;
use crate::store::{MetaSpec, Store, Token};

use super::context::Context;
use super::tries::{retry, retry_gone};

/// What a probe was made for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Scope {
    /// One device of a root, 0 where the source has none: a probe in any of its directories speaks for all.
    Device(usize, u64),
    /// One directory of the source or the destination.
    Dir(usize, Vec<u8>),
}

/// Answers so far. Whoever needs one that is being found out waits for it.
#[derive(Debug, Default)]
pub struct AliasProbe {
    known: Mutex<HashMap<Scope, Arc<Mutex<Option<bool>>>>>,
}

impl AliasProbe {
    /// Whether the directory `dir` of the destination is the one of the same path below this root.
    /// `device` is that of the entries that are to go, 0 where it is not known.
    pub fn is_source(&self, cx: &Context, root: usize, dir: &Dir, device: u64) -> Result<bool> {
        let store = &*cx.job.roots[root].store;
        let on = |store: &dyn Store| store.extensions().identity.map(|(device, _)| device);
        let is_one = |source: u64| on(cx.target()) == Some(source) && (device == 0 || device == source);
        // Keys of one bucket are one object only if they are equal.
        if cx.ends.same_system && (!cx.target().caps().dirs || on(store).is_some_and(is_one)) {
            return Ok(false);
        }
        let there = (cx.target(), dir);
        self.once(cx, Scope::Device(root, device), || {
            if probe(cx, there, (store, dir))? {
                return Ok(true);
            }
            if !cx.job.remove_source {
                return Ok(false);
            }
            // A source that caches its directories, or is a layer of the destination, does not show what was made there: the other way
            // round it shows. Where nothing can be made nothing can be removed either.
            Ok(probe(cx, (store, dir), there).unwrap_or(false))
        })
    }

    /// Whether a directory of the source is the destination's root. It is asked where the end of the destination's path is the
    /// directory's.
    pub fn is_target(&self, cx: &Context, root: usize, entry: &Entry) -> Result<bool> {
        let path = entry.name.path();
        // On one system paths and inodes tell: `Job::avoid`.
        if cx.ends.same_system || !cx.writes() || !ends_with(&cx.target().place().root, &path) {
            return Ok(false);
        }
        let dir = entry.name.dir.child(&entry.name.leaf);
        self.once(cx, Scope::Dir(root, [&b"/"[..], &path].concat()), || {
            probe(cx, (cx.target(), &Dir::root()), (&*cx.job.roots[root].store, &dir))
        })
    }

    /// Whether a directory of the destination is a root of the source, or one that was named. It is asked where the end of the
    /// source's path is the directory's.
    pub fn is_root(&self, cx: &Context, dir: &Dir) -> Result<bool> {
        let path = dir.path();
        for (root, at) in cx.job.roots.iter().enumerate() {
            let parts = match &at.pick {
                crate::job::Pick::Names(names) => names.iter().map(|leaf| Dir::root().child(leaf)).collect(),
                _ => vec![Dir::root()],
            };
            for part in parts {
                let full = [&at.store.place().root[..], b"/", &part.path()].concat();
                let scope = || Scope::Dir(root, [&path[..], b"//", &part.path()].concat());
                if cx.writes()
                    && ends_with(&full, &path)
                    && self.once(cx, scope(), || probe(cx, (cx.target(), dir), (&*at.store, &part)))?
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn once(&self, cx: &Context, scope: Scope, probe: impl FnOnce() -> Result<bool>) -> Result<bool> {
        let answer = lock(&self.known).entry(scope).or_default().clone();
        let mut answer = lock(&answer);
        if let Some(same) = *answer {
            return Ok(same);
        }
        cx.cancel.check()?;
        let same = probe()?;
        *answer = Some(same);
        Ok(same)
    }
}

/// Whether the parts of `end` are the last parts of `path`.
fn ends_with(path: &[u8], end: &[u8]) -> bool {
    let length = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    path[..length].strip_suffix(end).is_some_and(|above| above.is_empty() || above.ends_with(b"/"))
}

/// The probe's content: what an answer for any name is not likely to have in size.
const CONTENT: &[u8] = b"made by haul to find out whether two directories are one; it may be removed\n";

/// A directory of a store.
type Place<'a> = (&'a dyn Store, &'a Dir);

/// Makes a name at one place and looks for it at the other. Servers may refuse names that begin with a dot: then it is tried once more
/// without.
fn probe(cx: &Context, made: Place<'_>, seen: Place<'_>) -> Result<bool> {
    let number = || RandomState::new().hash_one(std::process::id());
    // The form of a staging name: no listing shows it.
    let leaf = format!(".haul-{:016x}{:016x}", number(), number());
    match probe_with(cx, made, seen, leaf.as_bytes())? {
        Err(e) if e.kind() == ErrorKind::Denied => probe_with(cx, made, seen, &leaf.as_bytes()[1..])?,
        found => found,
    }
}

/// # Errors
/// What keeps the name from being made or removed; what keeps it from being looked for is in the result.
fn probe_with(cx: &Context, (store, at): Place<'_>, (other, from): Place<'_>, leaf: &[u8]) -> Result<Result<bool>> {
    let name = Name::new(at, leaf);
    let mut entry = Entry::bare(name.clone(), Kind::File);
    (entry.size, entry.mode, entry.have) = (CONTENT.len() as u64, 0o600, MetaMask::BASIC);
    let staged = journal::staged(&Token(leaf.into()));
    let is_target = std::ptr::addr_eq(store, cx.target());
    let staging = store.extensions().unfinished.staging(&entry).filter(|_| is_target);
    let intent = staging.and_then(|_| cx.journal.intent(&at.path(), &mut std::iter::once(&staged[..])).ok());
    let failed = |e: Error| {
        let reason = format!("whether the destination is the source itself could not be found out: {}", e.reason());
        Error::new(e.kind(), "probe").on(&name).because(reason)
    };
    // The directory may have its final time, or be the source's.
    let above = Name::of(at);
    let before = if store.caps().dirs { store.stat(&above, MetaMask::MTIME).ok() } else { None };
    retry(|| {
        let mut bundle = Bundle { data: CONTENT.to_vec(), direct: true, ..Bundle::default() };
        bundle.push(entry.clone());
        (bundle.items[0].at, bundle.items[0].outcome) = (0..CONTENT.len(), Outcome::Read);
        store.put_bundle(&mut bundle);
        match bundle.items.pop().map(|item| item.outcome) {
            Some(Outcome::Failed(e)) => Err(e),
            _ => Ok(()),
        }
    })
    .map_err(failed)?;
    let found = retry(|| match other.stat(&Name::new(from, leaf), MetaMask::NONE) {
        Ok(found) => Ok(found.kind == Kind::File && found.size == CONTENT.len() as u64),
        // A server that answers every name, without a length, is none that has the file.
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Vanished | ErrorKind::Unsupported) => Ok(false),
        Err(e) => Err(e),
    });
    retry_gone(|| store.remove(&[Entry::bare(name.clone(), Kind::File)]).pop().unwrap_or(Ok(()))).map_err(failed)?;
    if let Some(before) = &before {
        store.set_meta(&[MetaSpec { name: &above, entry: before, keep: MetaMask::MTIME }]);
    }
    if let Some(intent) = intent {
        cx.journal.placed(intent);
    }
    Ok(found.map_err(failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_ends_with_whole_parts() {
        assert!(ends_with(b"/a/b/c", b"b/c") && ends_with(b"/a/b/c//", b"c") && ends_with(b"b/c", b"b/c"));
        assert!(!ends_with(b"/a/bb/c", b"b/c") && !ends_with(b"/a", b"b/a"));
    }
}
