//! Listings of directories, made of pages of all keys below them.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Flow, Store};

use super::Objects;
use super::address;
use super::cache::{self, Cursor, Known};
use super::checksum;
use super::flat::FlatPage;
use super::inventory::Object;
use super::look::whole_seconds;
use super::pages::{Page, Pager, Step, after_all};
use haul_core::store::staging::is_staging;
use haul_net::http_client::parallel::in_parallel;

/// Objects beside a directory that are remembered. Beyond that, an object hides its directory.
pub const HIDDEN_MOST: usize = 4096;
/// Keys of one directory in a row after which the rest of it is passed over: a page, or nearly.
const PAGE: usize = 900;

/// The greatest character: behind a directory's slash it is behind all that is in it.
const LAST: &str = "\u{10ffff}";

impl Objects {
    /// The page of keys below `prefix` that begins at a position.
    fn fetch(&self, prefix: &[u8], at: &[u8], token: Option<&str>) -> Result<Page> {
        self.bucket.flat_objects(prefix, at, token, self.asks_metadata()).map(|answer| self.learn(answer))
    }

    /// Whether listings are asked for metadata: where the service has them there, and the cache knows none.
    fn asks_metadata(&self) -> bool {
        let unknown = || *self.unknown.get_or_init(|| cache::is_unknown(self.cache.as_deref()));
        self.options.look && self.bucket.client.is_minio() && unknown()
    }

    /// The page of an answer, whose metadata are remembered.
    fn learn(&self, FlatPage { page, now, .. }: FlatPage) -> Page {
        for object in &page.objects {
            if let (Some(cache), Some(details), Some(now)) = (&self.cache, &object.details, now)
                && cache::is_settled(now, object.modified.unwrap_or_default())
            {
                cache.listed(&object.key, &object.etag, details);
            }
        }
        page
    }

    /// With its first page, which was requested before: of no use where listings say more.
    #[must_use]
    pub(super) fn beginning_with(self, page: Option<FlatPage>) -> Self {
        let says_less = |page: &FlatPage| !page.metadata && !page.page.objects.is_empty() && self.asks_metadata();
        if let Some(page) = page.filter(|page| !says_less(page)) {
            self.pages.keep(&Arc::new(self.learn(page)));
        }
        self
    }

    /// What a listing of this run had for a key; `None` where it was not listed.
    pub(super) fn as_listed(&self, key: &[u8]) -> Option<Option<Object>> {
        let page = self.pages.covering(key)?;
        Some(page.objects.get(page.at(key)).filter(|object| object.key == key).cloned())
    }

    /// Whether a listing of this run had no key that begins with this name's, and nothing was written beside it since.
    pub(super) fn was_listed_without_any(&self, key: &[u8]) -> bool {
        let dir = &key[..key.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1)];
        // A probe is looked for after the listing, and may have been written through another address.
        if self.bucket.options.version.is_some() || self.pages.is_touched(dir) || is_staging(&key[dir.len()..]) {
            return false;
        }
        let has_none = |page: Arc<Page>| {
            let is_behind = |object: &Object| !object.key.starts_with(key);
            page.covers(&after_all(key)) && page.objects.get(page.at(key)).is_none_or(is_behind)
        };
        self.pages.covering(key).is_some_and(has_none)
    }

    pub(super) fn list_below(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        let prefix = self.dir_key(dir);
        let mut cursor = self.cache.as_ref().map(|cache| cache.cursor());
        let mut held = Held { stack: Vec::new() };
        let mut stopped = false;
        let mut child: Vec<u8> = Vec::new();
        let anywhere = || !self.bucket.client.from_start.load(Ordering::Relaxed);
        let fetch = |at: &[u8], token: Option<&str>| self.fetch(&prefix, at, token);
        let reuse = !self.pages.is_touched(&prefix);
        let pager =
            Pager { pages: &self.pages, threads: &self.bucket.client.threads, anywhere: &anywhere, fetch: &fetch, reuse, once: false };
        let paged = pager.each(&prefix, &mut |page, at| {
            let objects = &page.objects[page.at(at)..];
            // Of each directory only its first key is looked at: that of its marker, if it has one.
            let mut lines: Vec<Found<'_>> = Vec::new();
            let (mut i, mut ended) = (0, false);
            while let Some(object) = objects.get(i) {
                if !object.key.starts_with(&prefix) {
                    ended = true;
                    break;
                }
                let rest = &object.key[prefix.len()..];
                match rest.iter().position(|byte| *byte == b'/') {
                    None => {
                        lines.push(Found::Object(object));
                        i += 1;
                    }
                    Some(slash) => {
                        let own = &object.key[..prefix.len() + slash + 1];
                        if own != child {
                            child = own.to_vec();
                            lines.push(Found::Dir(child.clone(), (object.key == child).then_some(object)));
                        }
                        i += objects[i..].partition_point(|object| object.key.starts_with(&child));
                    }
                }
            }
            let mut looked = self.dirs(dir, &prefix, &lines, cursor.as_mut());
            let mut give = |line: &Found<'_>, clash: bool| self.give(dir, &prefix, line, clash, &mut looked, cursor.as_mut(), each);
            for line in lines {
                if held.push(line.kept(), &mut give) == Flow::Stop {
                    stopped = true;
                    return Step::Stop;
                }
            }
            let within = !child.is_empty() && objects.first().is_some_and(|first| first.key.starts_with(&child));
            let whole = within && objects.last().is_some_and(|last| last.key.starts_with(&child));
            match () {
                () if ended => Step::Stop,
                // A large directory is read when it is listed itself.
                () if whole && objects.len() >= PAGE && anywhere() => Step::Skip([&child[..], LAST.as_bytes(), b"\0"].concat()),
                () => Step::Next,
            }
        });
        paged.or_else(|e| self.unseen(e))?;
        if !stopped {
            let mut give =
                |line: &Found<'_>, clash: bool| self.give(dir, &prefix, line, clash, &mut VecDeque::new(), cursor.as_mut(), each);
            held.finish(&mut give);
        }
        Ok(())
    }

    /// Directories among the lines of a page, with the attributes of their markers.
    fn dirs(&self, dir: &Dir, prefix: &[u8], lines: &[Found<'_>], mut cursor: Option<&mut Cursor<'_>>) -> VecDeque<Entry> {
        let mut unknown = Vec::new();
        let mut entries = VecDeque::new();
        for line in lines {
            let Found::Dir(key, marker) = line else { continue };
            // One with content is a file of its own by its other name.
            let marker = marker.filter(|marker| marker.size == 0 || !self.options.map_keys);
            let name = Name::new(dir, &self.leaf(&key[prefix.len()..key.len() - 1]));
            let mut entry = Entry::bare(name, Kind::Dir);
            entry.mode = 0o755;
            if !self.options.look {
                entry.have = MetaMask::BASIC;
            } else {
                match marker {
                    None => self.unmarked(&mut entry, false),
                    Some(marker) if self.apply_marker(marker, &mut entry, cursor.as_deref_mut()) => {}
                    Some(_) if !entry.name.leaf.is_empty() => unknown.push(entries.len()),
                    Some(_) => {}
                }
            }
            entries.push_back(entry);
        }
        let looked = in_parallel(&self.bucket.client.threads, &unknown, AT_ONCE, |i| self.look_dir(&entries[*i].name));
        for (i, looked) in unknown.into_iter().zip(looked) {
            if let Ok(entry) = looked {
                entries[i] = entry;
            }
        }
        entries
    }

    /// Gives a directory the attributes of its marker; `false` if they are not known.
    pub(super) fn apply_marker(&self, marker: &Object, entry: &mut Entry, cursor: Option<&mut Cursor<'_>>) -> bool {
        let Some(known) = known_of(marker, cursor).filter(|known| !known.xattrs) else { return false };
        apply(known, entry, false);
        self.presume_missing(entry);
        entry.kind = Kind::Dir;
        entry.version = checksum::version(&marker.etag);
        self.restrain(entry);
        true
    }

    #[expect(clippy::too_many_arguments, reason = "a listing's state")]
    fn give(
        &self,
        dir: &Dir,
        prefix: &[u8],
        line: &Found<'_>,
        clash: bool,
        dirs: &mut VecDeque<Entry>,
        cursor: Option<&mut Cursor<'_>>,
        each: &mut dyn FnMut(Result<Entry>) -> Flow,
    ) -> Flow {
        let leaf = &line.key()[prefix.len()..];
        let beside = |part: &[u8]| address::name_beside(part).filter(|_| self.options.map_keys);
        let found = match line {
            Found::Dir(..) => {
                let entry = dirs.pop_front();
                if leaf == b"/" && dir.is_root() && !self.options.map_keys {
                    let e = Error::new(ErrorKind::BadName, "list").on(&Name::of(dir));
                    return each(Err(e.because("keys that begin with a slash are left out")));
                }
                return entry.map_or(Flow::Go, |entry| each(Ok(entry)));
            }
            Found::Object(found) => *found,
            Found::Kept(found) => found,
        };
        match () {
            // The directory's own marker.
            () if leaf.is_empty() => match found.size {
                0 => Flow::Go,
                size => match beside(b"") {
                    Some(name) => each(Ok(self.listed(Name::new(dir, &name), found, cursor))),
                    None => each(Err(with_content(&Name::of(dir), size))),
                },
            },
            () if clash => {
                self.hide(&found.key);
                if let Some(name) = beside(leaf) {
                    return each(Ok(self.listed(Name::new(dir, &name), found, cursor)));
                }
                let name = Name::new(dir, leaf);
                let e =
                    Error::new(ErrorKind::BadName, "list").on(&name).because("there is both an object with this key and objects below it");
                each(Err(e.hint(format!("the object is left out ({} bytes); give one of the two another key", found.size))))
            }
            () => each(Ok(self.listed(Name::new(dir, &self.leaf(leaf)), found, cursor))),
        }
    }

    /// The objects below a directory, if that is one of an object store.
    pub fn of(store: &dyn Store) -> Option<&Objects> {
        (store as &dyn Any).downcast_ref()
    }

    /// From now on the name of this object means the directory below it, for the first [`HIDDEN_MOST`] of them.
    pub fn hide(&self, key: &[u8]) {
        let mut hidden = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        if hidden.len() < HIDDEN_MOST {
            hidden.insert(key.to_vec());
        }
    }

    pub(super) fn is_hidden(&self, key: &[u8]) -> bool {
        self.hidden.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    /// The entry of an object by its listing and the cache. Without its attributes it may be a symlink as well as a file.
    fn listed(&self, name: Name, found: &Object, cursor: Option<&mut Cursor<'_>>) -> Entry {
        let mut entry = Entry::bare(name, Kind::Unknown);
        let modified = found.modified.unwrap_or_default();
        entry.size = found.size;
        entry.stored = found.size;
        entry.mode = 0o644;
        entry.mtime = whole_seconds(modified);
        entry.version = checksum::version(&found.etag);
        match known_of(found, cursor) {
            Some(known) => {
                apply(known, &mut entry, self.options.server_times);
                self.presume_missing(&mut entry);
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

/// A line of a listing: an object, or a directory with its marker.
#[derive(Clone)]
enum Found<'a> {
    Object(&'a Object),
    Dir(Vec<u8>, Option<&'a Object>),
    Kept(Box<Object>),
}

impl Found<'_> {
    fn key(&self) -> &[u8] {
        match self {
            Found::Object(object) => &object.key,
            Found::Dir(key, _) => key,
            Found::Kept(object) => &object.key,
        }
    }

    fn kept(self) -> Found<'static> {
        match self {
            Found::Object(object) => Found::Kept(Box::new(object.clone())),
            Found::Dir(key, _) => Found::Dir(key, None),
            Found::Kept(object) => Found::Kept(object),
        }
    }
}

fn known_of(found: &Object, cursor: Option<&mut Cursor<'_>>) -> Option<Known> {
    let said = found.details.as_deref().and_then(cache::of_details);
    said.or_else(|| cursor.and_then(|cursor| cursor.lookup(&found.key, &found.etag, found.size, found.modified.unwrap_or_default())))
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

const AT_ONCE: usize = 16;

/// The error for a marker with content, which is neither a directory nor may be lost.
pub(super) fn with_content(name: &Name, size: u64) -> Error {
    let e = Error::new(ErrorKind::BadName, "list").on(name);
    e.because(format!("the key ends in a slash and the object has content ({size} bytes)")).hint("give it another key")
}

/// Objects whose key may yet turn out to be a directory's as well: `a` comes before `a-b`, and that before `a/`.
struct Held {
    stack: Vec<Found<'static>>,
}

impl Held {
    fn push(&mut self, line: Found<'static>, give: &mut dyn FnMut(&Found<'_>, bool) -> Flow) -> Flow {
        let is_dir = matches!(line, Found::Dir(..));
        while let Some(top) = self.stack.pop() {
            if line.key().starts_with(top.key()) {
                let clash = is_dir && line.key().len() == top.key().len() + 1;
                if clash {
                    if give(&top, true) == Flow::Stop {
                        return Flow::Stop;
                    }
                } else {
                    self.stack.push(top);
                }
                break;
            }
            if give(&top, false) == Flow::Stop {
                return Flow::Stop;
            }
        }
        if is_dir {
            return give(&line, false);
        }
        self.stack.push(line);
        Flow::Go
    }

    fn finish(&mut self, give: &mut dyn FnMut(&Found<'_>, bool) -> Flow) {
        while let Some(top) = self.stack.pop() {
            if give(&top, false) == Flow::Stop {
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
        let mut give = |line: &Found<'_>, clash: bool| {
            out.push(format!("{}{}", String::from_utf8_lossy(line.key()), if clash { "!" } else { "" }));
            Flow::Go
        };
        let mut held = Held { stack: Vec::new() };
        for key in keys {
            let line = match key.ends_with('/') {
                true => Found::Dir(key.as_bytes().to_vec(), None),
                false => {
                    let listed = Object { key: key.as_bytes().to_vec(), ..Object::default() };
                    Found::Kept(Box::new(listed))
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
