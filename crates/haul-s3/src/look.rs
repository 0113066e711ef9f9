//! Look-ups of names: objects, symlinks among them, and directories that are parts of keys.

use std::io::Read;

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Time};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Found;

use super::Objects;
use super::address;
use super::bucket::Head;
use super::checksum;
use haul_net::http_client::agent::read_error;
use haul_net::http_client::parallel::in_parallel;

/// The owner of what has none: no file has this one (chown(2)).
const NOBODY: u32 = u32::MAX;
/// The longest target of a symlink: PATH_MAX.
const TARGET_MOST: u64 = 4096;
const AT_ONCE: usize = 16;
/// Links that are followed one after the other before it counts as a loop.
const LINKS_MOST: usize = 40;

impl Objects {
    /// What there is to be seen of an object; nothing of one that may not be looked at, where that does not matter.
    pub(super) fn head(&self, key: &[u8]) -> Result<Option<Head>> {
        self.bucket.head(key).or_else(|e| self.unseen(e).map(|()| None))
    }

    /// # Errors
    /// That access is denied matters, or it is another error.
    pub(super) fn unseen(&self, e: Error) -> Result<()> {
        if !self.options.blind || e.kind() != ErrorKind::Denied {
            return Err(e);
        }
        let address = self.bucket.address();
        self.bucket.client.say_once(format!("no permission to look at what is in {address}: nothing is compared with it, all is sent"));
        Ok(())
    }

    pub(super) fn look(&self, name: &Name, want: MetaMask) -> Result<Entry> {
        if name.leaf.is_empty() {
            return self.look_dir(name);
        }
        let key = self.key(name, "stat")?;
        let beside = self.options.map_keys && address::is_beside(&name.leaf);
        if !beside && self.is_hidden(&key) {
            return self.look_dir(name);
        }
        if !beside && self.was_listed_without_any(&key) {
            return Err(no_object());
        }
        let mut asked = false;
        let head = self.recent.take(&key, || {
            asked = true;
            self.recent.take_ahead(&key, || self.head(&key))
        });
        match head? {
            Some(head) => {
                let mut entry = self.entry_of(name.clone(), &key, &head, want)?;
                self.presume_missing(&mut entry);
                self.saw(&key, &head, entry.target.as_deref());
                if self.options.browses && asked {
                    self.recent.keep(&key, Some(head));
                }
                Ok(entry)
            }
            // MinIO lists nothing below a key that is an object: what is there would seem to be lost.
            None if self.options.one_object && !self.bucket.client.is_minio() => Err(no_object()),
            None => {
                let mut below = key;
                below.push(b'/');
                let any = self.bucket.any_below(&below).or_else(|e| self.unseen(e).map(|()| false))?;
                if any { self.look_dir(name) } else { Err(no_object()) }
            }
        }
    }

    /// What is to be written to has neither owners nor extended attributes where its metadata say nothing of them: those of the source
    /// are new. A source that says nothing changes none.
    pub(super) fn presume_missing(&self, entry: &mut Entry) {
        if !self.options.server_times {
            entry.have = entry.have.with(MetaMask::ACL).with(MetaMask::XATTR);
            // There are servers that keep no attributes of markers.
            let is_dir = entry.kind == Kind::Dir && !entry.have.any(MetaMask::MTIME.with(MetaMask::MODE));
            for (id, class) in [(&mut entry.uid, MetaMask::OWNER), (&mut entry.gid, MetaMask::GROUP)] {
                if !entry.have.has(class) && !is_dir {
                    (*id, entry.have) = (NOBODY, entry.have.with(class));
                }
            }
        }
    }

    /// Removes attributes that anybody who may write objects could use to harm those who copy them.
    pub(super) fn restrain(&self, entry: &mut Entry) {
        if !self.options.distrust {
            return;
        }
        if entry.kind != Kind::Dir {
            entry.mode &= !0o6000;
        }
        if let Some(xattrs) = &mut entry.xattrs {
            xattrs.retain(|(name, _)| !name.starts_with(b"security.") && !name.starts_with(b"trusted."));
        }
    }

    /// A directory, with the attributes of its marker if there is one.
    pub(super) fn look_dir(&self, name: &Name) -> Result<Entry> {
        let marker = self.marker_key(name, "stat")?;
        let listed = if self.pages.is_touched(&marker) { None } else { self.as_listed(&marker) };
        let mut entry = Entry::bare(name.clone(), Kind::Dir);
        entry.mode = 0o755;
        let is_known = matches!(&listed, Some(Some(marker)) if marker.size == 0 && self.apply_marker(marker, &mut entry, None));
        let asks = !is_known && !marker.is_empty() && !matches!(listed, Some(None));
        let head = if asks { self.head(&marker)? } else { None };
        // One with content is a file of its own by its other name.
        match head.filter(|head| head.size == 0 || !self.options.map_keys) {
            _ if is_known => {}
            Some(head) => {
                self.saw(&marker, &head, None);
                head.attributes.apply(&mut entry);
                self.presume_missing(&mut entry);
                entry.kind = Kind::Dir;
                entry.version = checksum::version(&head.etag);
                self.restrain(&mut entry);
            }
            None => self.unmarked(&mut entry, marker.is_empty()),
        }
        if entry.xattrs.is_none() {
            entry.xattrs = Some(Box::default());
        }
        entry.have = entry.have.with(MetaMask::BASIC);
        Ok(entry)
    }

    pub(super) fn unmarked(&self, entry: &mut Entry, whole_bucket: bool) {
        // What is to be written to has the attributes of no source yet: a run that was killed has made the keys in a directory before
        // its marker.
        if !self.options.server_times && !whole_bucket {
            entry.have = entry.have.with(MetaMask::MODE).with(MetaMask::MTIME);
            self.presume_missing(entry);
        }
        entry.xattrs = Some(Box::default());
        entry.have = entry.have.with(MetaMask::BASIC);
    }

    /// The entry of an object: the attributes in its metadata, and the service's time where there is none.
    pub(super) fn entry_of(&self, name: Name, key: &[u8], head: &Head, want: MetaMask) -> Result<Entry> {
        let mut entry = Entry::bare(name, Kind::File);
        // For who makes something of an object that says nothing of it.
        entry.mode = 0o644;
        entry.size = head.size;
        entry.stored = head.size;
        entry.version = checksum::version(&head.etag);
        entry.mtime = head.modified;
        entry.have = MetaMask::BASIC;
        if self.options.server_times {
            entry.have = entry.have.with(MetaMask::MTIME);
        }
        head.attributes.apply(&mut entry);
        if self.uses_service_times() {
            entry.mtime = head.modified;
        }
        self.restrain(&mut entry);
        if !want.any(MetaMask::ACL.with(MetaMask::XATTR).with(MetaMask::CONTEXT)) {
            entry.xattrs = None;
        } else if entry.xattrs.is_none() {
            entry.xattrs = Some(Box::default());
        }
        if entry.kind == Kind::Link {
            entry.target = Some(self.target_of(key, head)?);
        }
        if entry.kind != Kind::File {
            (entry.size, entry.stored) = (0, 0);
        }
        Ok(entry)
    }

    /// `--server-times`, for a source: the times in metadata are ignored, so that listings and answers agree.
    pub(super) fn uses_service_times(&self) -> bool {
        self.options.server_times && !self.options.look
    }

    fn target_of(&self, key: &[u8], head: &Head) -> Result<Box<[u8]>> {
        if head.size > TARGET_MOST {
            return Err(Error::new(ErrorKind::BadName, "read link").because("the target is longer than a path may be"));
        }
        let (_, mut answer) = self.bucket.get(key, None, Some(&head.etag))?;
        let mut target = Vec::new();
        let read = answer.body.as_reader().take(TARGET_MOST).read_to_end(&mut target);
        read.map_err(|e| read_error("read link", &e, "the service").tried(answer.tries))?;
        Ok(target.into())
    }

    pub(super) fn look_many(&self, dir: &Dir, leaves: &[&[u8]], want: MetaMask, follow: bool) -> Vec<Found> {
        let one = |leaf: &&[u8]| {
            let name = Name::new(dir, leaf);
            let looked = self.look(&name, want).and_then(|entry| if follow { self.followed(entry, want) } else { Ok(entry) });
            match looked {
                Ok(entry) => Found::Entry(entry),
                Err(e) if e.kind() == ErrorKind::NotFound && e.op() != "follow" => Found::Absent,
                Err(e) => Found::Failed(e.on(&name)),
            }
        };
        in_parallel(&self.bucket.client.threads, leaves, AT_ONCE, one)
    }

    /// The target of a link within this store, under the link's own name. Links out of the store count as dangling.
    fn followed(&self, entry: Entry, want: MetaMask) -> Result<Entry> {
        if entry.kind != Kind::Link {
            return Ok(entry);
        }
        let own = entry.name.clone();
        Ok(Entry { name: own, ..self.walked(entry, want)? })
    }

    /// The file at the end of a chain of links, under its own name.
    pub(super) fn end_of_links(&self, name: &Name) -> Result<Entry> {
        let entry = self.look(name, MetaMask::NONE)?;
        self.walked(entry, MetaMask::NONE)
    }

    fn walked(&self, entry: Entry, want: MetaMask) -> Result<Entry> {
        let mut at = entry;
        for _ in 0..LINKS_MOST {
            if at.kind != Kind::Link {
                return Ok(at);
            }
            let name = self.led_to(&at)?;
            at = self.look(&name, want).map_err(|e| Error::new(e.kind(), "follow").because(e.reason()))?;
        }
        Err(Error::new(ErrorKind::Other, "follow").because("too many levels of symlinks"))
    }

    pub(super) fn led_to(&self, link: &Entry) -> Result<Name> {
        let nowhere = || Error::new(ErrorKind::NotFound, "follow").because("the symlink points out of the prefix");
        let target = link.target.as_deref().unwrap_or_default();
        if target.starts_with(b"/") {
            return Err(nowhere());
        }
        let mut parts: Vec<Vec<u8>> =
            link.name.dir.path().split(|b| *b == b'/').filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect();
        for part in target.split(|b| *b == b'/') {
            match part {
                b"" | b"." => {}
                b".." => drop(parts.pop().ok_or_else(nowhere)?),
                leaf => parts.push(leaf.to_vec()),
            }
        }
        Name::parse(&Dir::root(), &parts.join(&b'/')).ok_or_else(nowhere)
    }

    pub(super) fn complete(&self, entry: &mut Entry, want: MetaMask) -> Result<()> {
        let found = self.look(&entry.name, want).map_err(|e| e.on(&entry.name))?;
        entry.xattrs = Some(found.xattrs.unwrap_or_default());
        entry.have = entry.have.with(want.and(MetaMask::ACL.with(MetaMask::XATTR)));
        Ok(())
    }
}

fn no_object() -> Error {
    Error::new(ErrorKind::NotFound, "stat").because("no such object")
}

/// The service's time in whole seconds: an answer to HEAD has no more, and the two must agree.
pub(super) fn whole_seconds(time: Time) -> Time {
    Time { nanos: 0, ..time }
}
