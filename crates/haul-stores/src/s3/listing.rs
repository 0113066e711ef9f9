//! Listings below a prefix: pages of keys, the next one requested while one is processed.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::PoisonError;

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Flow;

use super::Objects;
use super::address;
use super::cache::{Cursor, Known};
use super::checksum;
use super::inventory::{Line, Object};
use super::look::whole_seconds;
use crate::http_client::parallel::in_parallel;

/// Skipped objects that are remembered. Beyond that, an object hides its directory.
const HIDDEN_MOST: usize = 4096;

impl Objects {
    /// Every page, in order.
    fn pages(&self, prefix: &[u8], delimiter: bool, each: &mut dyn FnMut(Vec<Line>) -> Flow) -> Result<()> {
        let (mut last, mut wrong) = (Vec::new(), None);
        self.bucket.unchecked_lines(prefix, delimiter, &mut |lines| {
            if lines.iter().any(|line| !line.key().starts_with(prefix) || line.key().is_empty()) {
                wrong = Some("the service lists keys outside of the prefix");
            } else if lines.first().is_some_and(|first| first.key() <= &last[..] && !last.is_empty()) {
                // A listing that goes round would never end.
                wrong = Some("the service lists keys out of order");
            }
            if wrong.is_some() {
                return Flow::Stop;
            }
            if let Some(line) = lines.last() {
                last = line.key().to_vec();
            }
            each(lines)
        })?;
        wrong.map_or(Ok(()), |why| Err(Error::new(ErrorKind::Other, "list").because(why)))
    }

    pub(super) fn list_below(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        let prefix = self.dir_key(dir);
        let mut held = Held { stack: Vec::new() };
        let mut cursor = self.cache.as_ref().map(|cache| cache.cursor());
        // Markers of this page's directories, in their order.
        let markers: RefCell<VecDeque<Result<Entry>>> = RefCell::default();
        let mut give = |line: Line, clash: bool| -> Flow {
            let leaf = &line.key()[prefix.len()..];
            let beside = |part: &[u8]| address::name_beside(part).filter(|_| self.options.map_keys);
            match line {
                Line::Prefix(_) if leaf == b"/" && dir.is_root() && !self.options.map_keys => {
                    let e = Error::new(ErrorKind::BadName, "list").on(&Name::of(dir));
                    each(Err(e.because("keys that begin with a slash are left out")))
                }
                Line::Prefix(_) => {
                    let name = Name::new(dir, &self.leaf(&leaf[..leaf.len() - 1]));
                    let looked = markers.borrow_mut().pop_front();
                    each(Ok(looked.and_then(Result::ok).unwrap_or_else(|| {
                        let mut entry = Entry::bare(name, Kind::Dir);
                        entry.mode = 0o755;
                        entry.have = if self.options.look { MetaMask::NONE } else { MetaMask::BASIC };
                        entry
                    })))
                }
                // The directory's own marker.
                Line::Object(ref found) if leaf.is_empty() => match found.size {
                    0 => Flow::Go,
                    size => match beside(b"") {
                        Some(name) => each(Ok(self.listed(Name::new(dir, &name), found, cursor.as_mut()))),
                        None => each(Err(with_content(&Name::of(dir), size))),
                    },
                },
                Line::Object(ref found) if clash => {
                    self.hide(&found.key);
                    if let Some(name) = beside(leaf) {
                        return each(Ok(self.listed(Name::new(dir, &name), found, cursor.as_mut())));
                    }
                    let name = Name::new(dir, leaf);
                    let e = Error::new(ErrorKind::BadName, "list")
                        .on(&name)
                        .because("there is both an object with this key and objects below it");
                    each(Err(e.hint(format!("the object is left out ({} bytes); give one of the two another key", found.size))))
                }
                Line::Object(ref found) => each(Ok(self.listed(Name::new(dir, &self.leaf(leaf)), found, cursor.as_mut()))),
            }
        };
        let mut stopped = false;
        let paged = self.pages(&prefix, true, &mut |lines| {
            if self.options.look {
                let below = |line: &Line| match line {
                    Line::Prefix(key) => {
                        Some(Name::new(dir, &self.leaf(&key[prefix.len()..key.len() - 1]))).filter(|name| !name.leaf.is_empty())
                    }
                    Line::Object(_) => None,
                };
                let dirs: Vec<Name> = lines.iter().filter_map(below).collect();
                markers.borrow_mut().extend(in_parallel(&self.bucket.client.threads, &dirs, AT_ONCE, |name| self.look_dir(name)));
            }
            for line in lines {
                if held.push(line, &mut give) == Flow::Stop {
                    stopped = true;
                    return Flow::Stop;
                }
            }
            Flow::Go
        });
        paged.or_else(|e| self.unseen(e))?;
        if !stopped {
            held.finish(&mut give);
        }
        Ok(())
    }

    /// From now on the name of this object means the directory below it.
    fn hide(&self, key: &[u8]) {
        let mut hidden = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        if hidden.len() < HIDDEN_MOST {
            hidden.insert(key.to_vec());
        }
    }

    pub(super) fn is_hidden(&self, key: &[u8]) -> bool {
        self.hidden.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    /// The entry of an object by its listing and the cache. Without its attributes it may be a symlink as well as a file.
    fn listed(&self, name: Name, found: &Object, cursor: Option<&mut Cursor>) -> Entry {
        let mut entry = Entry::bare(name, Kind::Unknown);
        let modified = found.modified.unwrap_or_default();
        entry.size = found.size;
        entry.stored = found.size;
        entry.mode = 0o644;
        entry.mtime = whole_seconds(modified);
        entry.version = checksum::version(&found.etag);
        let known = cursor.and_then(|cursor| cursor.lookup(&found.key, found.etag.as_bytes(), found.size, modified));
        match known {
            Some(known) => {
                apply(known, &mut entry, self.options.server_times);
                if self.uses_service_times() {
                    entry.mtime = whole_seconds(modified);
                }
                self.restrain(&mut entry);
            }
            None if !self.options.look => {
                entry.kind = Kind::File;
                entry.have = MetaMask::BASIC.with(if self.options.server_times { MetaMask::MTIME } else { MetaMask::NONE });
            }
            None => {}
        }
        entry
    }
}

fn apply(known: Known, entry: &mut Entry, server_times: bool) {
    entry.kind = known.kind;
    entry.have = known.have.with(MetaMask::BASIC);
    if known.have.has(MetaMask::MTIME) {
        entry.mtime = known.mtime;
    } else if server_times {
        entry.have = entry.have.with(MetaMask::MTIME);
    }
    if known.have.has(MetaMask::MODE) {
        entry.mode = known.mode;
    }
    (entry.uid, entry.gid, entry.rdev) = (known.uid, known.gid, known.rdev);
    entry.owners = known.owners;
    entry.target = known.target;
    if !known.xattrs {
        entry.xattrs = Some(Box::default());
    }
    if entry.kind != Kind::File {
        (entry.size, entry.stored) = (0, 0);
    }
}

/// Concurrent look-ups of directory markers.
const AT_ONCE: usize = 16;

/// The error for a marker with content, which is neither a directory nor may be lost.
pub(super) fn with_content(name: &Name, size: u64) -> Error {
    let e = Error::new(ErrorKind::BadName, "list").on(name);
    e.because(format!("the key ends in a slash and the object has content ({size} bytes)")).hint("give it another key")
}

/// Objects whose key may yet turn out to be a directory's as well: `a` comes before `a-b`, and that before `a/`.
struct Held {
    stack: Vec<Line>,
}

impl Held {
    fn push(&mut self, line: Line, give: &mut dyn FnMut(Line, bool) -> Flow) -> Flow {
        while let Some(top) = self.stack.pop() {
            if line.key().starts_with(top.key()) {
                let clash = matches!(line, Line::Prefix(_)) && line.key().len() == top.key().len() + 1;
                if clash {
                    if give(top, true) == Flow::Stop {
                        return Flow::Stop;
                    }
                } else {
                    self.stack.push(top);
                }
                break;
            }
            if give(top, false) == Flow::Stop {
                return Flow::Stop;
            }
        }
        match line {
            Line::Prefix(_) => give(line, false),
            Line::Object(_) => {
                self.stack.push(line);
                Flow::Go
            }
        }
    }

    fn finish(&mut self, give: &mut dyn FnMut(Line, bool) -> Flow) {
        while let Some(top) = self.stack.pop() {
            if give(top, false) == Flow::Stop {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(keys: &[&str]) -> Vec<String> {
        let mut out = Vec::new();
        let mut give = |line: Line, clash: bool| {
            out.push(format!("{}{}", String::from_utf8_lossy(line.key()), if clash { "!" } else { "" }));
            Flow::Go
        };
        let mut held = Held { stack: Vec::new() };
        for key in keys {
            let line = match key.ends_with('/') {
                true => Line::Prefix(key.as_bytes().to_vec()),
                false => {
                    Line::Object(Object { key: key.as_bytes().to_vec(), size: 0, etag: String::new(), modified: None, class: "".into() })
                }
            };
            held.push(line, &mut give);
        }
        held.finish(&mut give);
        out.sort();
        out
    }

    #[test]
    fn a_key_that_is_a_directory_too_is_told_apart_however_much_lies_between() {
        assert_eq!(reported(&["a", "a-b", "a-c", "a/", "a0"]), ["a!", "a-b", "a-c", "a/", "a0"]);
        assert_eq!(reported(&["a", "a!", "a!/", "a/", "ab"]), ["a!", "a!!", "a!/", "a/", "ab"]);
        assert_eq!(reported(&["a", "ab", "abc", "b/"]), ["a", "ab", "abc", "b/"]);
        assert_eq!(reported(&["a/"]), ["a/"]);
    }
}
