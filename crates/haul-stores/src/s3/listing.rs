//! What is below a prefix: pages of keys, the next one asked for while one is worked on.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{PoisonError, mpsc};

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Flow;

use super::Objects;
use super::address;
use super::checksum;
use super::fault;
use super::index::{Cursor, Known};
use super::look::{at_once, whole_seconds};
use super::xml::{self, Listed};

/// Objects that are remembered as being left out. Beyond that, one of them stands in the place of its directory.
const HIDDEN_MOST: usize = 4096;

/// An object as a listing has it.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub key: Vec<u8>,
    pub size: u64,
    pub etag: String,
    pub modified: haul_core::entry::Time,
}

enum Line {
    Object(Found),
    Prefix(Vec<u8>),
}

impl Line {
    fn key(&self) -> &[u8] {
        match self {
            Line::Object(found) => &found.key,
            Line::Prefix(key) => key,
        }
    }
}

/// One page, in order, and how to get the next.
struct Page {
    lines: Vec<Line>,
    next: Option<String>,
}

impl Objects {
    fn lines(&self, prefix: &[u8], delimiter: bool, token: Option<&str>) -> Result<Page> {
        let body = self.bucket.page(prefix, delimiter, token, b"", 1000)?;
        let mut lines = Vec::with_capacity(1000);
        let page = xml::list_objects(&body, &mut |listed| {
            lines.push(match listed {
                Listed::Object(object) => Line::Object(Found {
                    key: object.key.to_vec(),
                    size: object.size,
                    etag: object.etag.to_string(),
                    modified: object.modified.unwrap_or_default(),
                }),
                Listed::Prefix(key) => Line::Prefix(key.to_vec()),
            });
        });
        let page = page.map_err(|e| fault::document("list", &self.bucket.name, e))?;
        // Objects and prefixes come in two lists, each in order.
        lines.sort_by(|a, b| a.key().cmp(b.key()));
        if lines.iter().any(|line| !line.key().starts_with(prefix) || line.key().is_empty()) {
            return Err(Error::new(ErrorKind::Other, "list").because("the service lists keys that were not asked for"));
        }
        if page.truncated && page.token.is_none() {
            return Err(Error::new(ErrorKind::Other, "list").because("the service says that there is more and not where"));
        }
        Ok(Page { lines, next: page.token.filter(|_| page.truncated) })
    }

    /// Every page, in order; the next one is under way while one is worked on.
    fn pages(&self, prefix: &[u8], delimiter: bool, each: &mut dyn FnMut(Vec<Line>) -> Flow) -> Result<()> {
        let first = self.lines(prefix, delimiter, None)?;
        let mut last = first.lines.last().map(|line| line.key().to_vec()).unwrap_or_default();
        let Some(mut token) = first.next else {
            each(first.lines);
            return Ok(());
        };
        std::thread::scope(|scope| {
            let (give, take) = mpsc::sync_channel::<Result<Page>>(1);
            let fetch = move || {
                loop {
                    let page = self.lines(prefix, delimiter, Some(&token));
                    let first = page.as_ref().ok().and_then(|page| page.lines.first()).map(|line| line.key().to_vec());
                    let page = match first {
                        // A listing that goes round would never end.
                        Some(first) if first <= last => {
                            Err(Error::new(ErrorKind::Other, "list").because("the service lists keys out of their order"))
                        }
                        _ => page,
                    };
                    if let Some(line) = page.as_ref().ok().and_then(|page| page.lines.last()) {
                        last = line.key().to_vec();
                    }
                    let next = page.as_ref().ok().and_then(|page| page.next.clone());
                    // A token that does not change would go round for ever.
                    let again = next.as_ref() == Some(&token);
                    if give.send(page).is_err() {
                        return;
                    }
                    match next {
                        Some(next) if !again => token = next,
                        _ => return,
                    }
                }
            };
            let spawned = std::thread::Builder::new().name("haul-list".into()).spawn_scoped(scope, fetch);
            spawned.map_err(haul_core::rlimit::no_thread)?;
            if each(first.lines) == Flow::Stop {
                return Ok(());
            }
            for page in take {
                if each(page?.lines) == Flow::Stop {
                    return Ok(());
                }
            }
            Ok(())
        })
    }

    pub(super) fn list_below(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        let prefix = self.dir_key(dir);
        let mut held = Held { stack: Vec::new() };
        let mut cursor = self.learning.as_ref().map(|learning| learning.cursor());
        // Markers of this page's directories, in their order.
        let markers: RefCell<VecDeque<Result<Entry>>> = RefCell::default();
        let mut give = |line: Line, clash: bool| -> Flow {
            let leaf = &line.key()[prefix.len()..];
            let beside = |part: &[u8]| address::name_beside(part).filter(|_| self.options.map_keys);
            match line {
                Line::Prefix(_) if leaf == b"/" && dir.is_root() && !self.options.map_keys => {
                    let e = Error::new(ErrorKind::BadName, "list").on(&Name::of(dir));
                    each(Err(e.because("there are keys that begin with a slash here, and they are left out")))
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
                        .because("there are both an object of this key and objects below it");
                    each(Err(e.hint(format!("the object is left out ({} bytes); give one of the two another key", found.size))))
                }
                Line::Object(ref found) => each(Ok(self.listed(Name::new(dir, &self.leaf(leaf)), found, cursor.as_mut()))),
            }
        };
        let mut stopped = false;
        self.pages(&prefix, true, &mut |lines| {
            if self.options.look {
                let below = |line: &Line| match line {
                    Line::Prefix(key) => {
                        Some(Name::new(dir, &self.leaf(&key[prefix.len()..key.len() - 1]))).filter(|name| !name.leaf.is_empty())
                    }
                    Line::Object(_) => None,
                };
                let dirs: Vec<Name> = lines.iter().filter_map(below).collect();
                markers.borrow_mut().extend(at_once(&self.bucket.client.lanes, &dirs, AT_ONCE, |name| self.look_dir(name)));
            }
            for line in lines {
                if held.push(line, &mut give) == Flow::Stop {
                    stopped = true;
                    return Flow::Stop;
                }
            }
            Flow::Go
        })?;
        if !stopped {
            held.finish(&mut give);
        }
        Ok(())
    }

    /// From now on the name of this object is that of the directory below it.
    fn hide(&self, key: &[u8]) {
        let mut hidden = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        if hidden.len() < HIDDEN_MOST {
            hidden.insert(key.to_vec());
        }
    }

    pub(super) fn is_hidden(&self, key: &[u8]) -> bool {
        self.hidden.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    /// What a listing tells of an object, and what was learned of it before. Without its attributes it may be a symlink
    /// as well as a file.
    fn listed(&self, name: Name, found: &Found, cursor: Option<&mut Cursor>) -> Entry {
        let mut entry = Entry::bare(name, Kind::Unknown);
        entry.size = found.size;
        entry.stored = found.size;
        entry.mode = 0o644;
        entry.mtime = whole_seconds(found.modified);
        entry.version = checksum::version(&found.etag);
        let known = cursor.and_then(|cursor| cursor.lookup(&found.key, found.etag.as_bytes(), found.size, found.modified));
        match known {
            Some(known) => {
                apply(known, &mut entry, self.options.server_times);
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

/// Directories' markers that are looked up at the same time.
const AT_ONCE: usize = 16;

/// An object that is to be no directory, and to be lost with none.
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

    fn told(keys: &[&str]) -> Vec<String> {
        let mut out = Vec::new();
        let mut give = |line: Line, clash: bool| {
            out.push(format!("{}{}", String::from_utf8_lossy(line.key()), if clash { "!" } else { "" }));
            Flow::Go
        };
        let mut held = Held { stack: Vec::new() };
        for key in keys {
            let line = match key.ends_with('/') {
                true => Line::Prefix(key.as_bytes().to_vec()),
                false => Line::Object(Found { key: key.as_bytes().to_vec(), size: 0, etag: String::new(), modified: Default::default() }),
            };
            held.push(line, &mut give);
        }
        held.finish(&mut give);
        out.sort();
        out
    }

    #[test]
    fn a_key_that_is_a_directory_too_is_told_apart_however_much_lies_between() {
        assert_eq!(told(&["a", "a-b", "a-c", "a/", "a0"]), ["a!", "a-b", "a-c", "a/", "a0"]);
        assert_eq!(told(&["a", "a!", "a!/", "a/", "ab"]), ["a!", "a!!", "a!/", "a/", "ab"]);
        assert_eq!(told(&["a", "ab", "abc", "b/"]), ["a", "ab", "abc", "b/"]);
        assert_eq!(told(&["a/"]), ["a/"]);
    }
}
