//! A cache of what listings do not have: kind, mode and times of objects by key and ETag, in a file that may be lost.
//!
//! A listing has key, size, ETag and time, but not the metadata with the attributes. A sync sends one HEAD request for each key
//! that is not found here.
//!
//! **What is trusted.** A record counts only for a listing with the same key, ETag, size and time; after an upload of our own,
//! whose time the server has not reported, with a time within the window of the upload. Checksums find damage, not forgery: the
//! file is the user's own (mode 0600). No content of it makes the program fail or take more memory.
//!
//! **A wrong record** makes attributes compare wrongly for an object whose ETag, size and time are unchanged. That needs a server
//! that changes metadata without the time, or two uploads of one content with different attributes within the resolution of the
//! server's clock: younger objects are not cached. Content is never affected, and the file may be deleted.

mod block;
mod file;
mod index;
mod merge;
mod record;

use std::path::Path;
use std::time::Instant;

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Time};

use super::attributes::{self, FileAttributes};
use super::bucket::{Head, Put};
use super::put_options::Pair;
pub(super) use index::Cursor;
use index::{Index, Limits};
pub(super) use record::Known;
use record::{Modified, Object};

/// Seconds: an object that is younger than this by the service's clock may have been written twice within one second.
const SETTLED: i64 = 2;

/// The cache of one bucket, written from time to time and by [`MetadataCache::flush`].
#[derive(Debug)]
pub struct MetadataCache(Index);

impl MetadataCache {
    /// `state` is haul's state directory. A file that cannot be read counts as missing.
    pub fn open(state: &Path, endpoint: &str, bucket: &str) -> MetadataCache {
        MetadataCache(Index::open(state, endpoint, bucket, Limits::default()))
    }

    pub(super) fn cursor(&self) -> Cursor {
        self.0.cursor()
    }

    /// From an answer to HEAD or GET.
    pub(super) fn saw(&self, key: &[u8], head: &Head, target: Option<&[u8]>) {
        if head.answered.is_some_and(|now| is_settled(now, head.modified)) {
            self.add(key, &head.etag, head.size, Modified::of_header(head.modified.secs), &head.attributes, target);
        }
    }

    /// From an upload of our own, by the service's times before and after it.
    pub(super) fn wrote(&self, key: &[u8], size: u64, put: &Put, metadata: &[Pair], target: Option<&[u8]>) {
        let (Some(from), Some(until)) = (put.since, put.until) else { return };
        let second = |time: Time, more: i64| Time { secs: time.secs + more, nanos: 0 };
        let modified = Modified { not_before: second(from, -1), not_after: second(until, 1) };
        let found = attributes::read(metadata.iter().map(|(name, value)| (&**name, value.as_str())));
        self.add(key, &put.etag, size, modified, &found, target);
    }

    fn add(&self, key: &[u8], etag: &str, size: u64, modified: Modified, attributes: &FileAttributes, target: Option<&[u8]>) {
        if etag.is_empty() {
            return;
        }
        let Some(known) = known(size, attributes, target) else { return };
        self.0.add(&Object { key, etag: etag.as_bytes(), size, modified, known });
        // Without a file the next run asks again.
        let _ = self.0.maybe_flush(Instant::now());
    }

    /// Remembers what a listing said of an object: details of [`details`].
    pub(super) fn listed(&self, key: &[u8], etag: &str, details: &[u8]) {
        if let Some((size, modified, known)) = record::decode(details).filter(|_| !etag.is_empty()) {
            self.0.add(&Object { key, etag: etag.as_bytes(), size, modified, known });
            let _ = self.0.maybe_flush(Instant::now());
        }
    }

    fn is_empty(&self) -> bool {
        self.0.records() == 0
    }

    pub(super) fn forget(&self, key: &[u8]) {
        self.0.forget(key);
    }

    /// Writes the file, at the end of a run. A failure costs look-ups in the next run and is not reported.
    pub fn flush(&self) {
        let _ = self.0.flush();
    }
}

/// What is known of an object by its metadata; `None` for a symlink whose target is not known.
fn known(size: u64, attributes: &FileAttributes, target: Option<&[u8]>) -> Option<Known> {
    let mut entry = Entry::bare(Name::of(&Dir::root()), Kind::File);
    entry.size = size;
    attributes.apply(&mut entry);
    if entry.kind == Kind::Link && target.is_none() {
        return None;
    }
    let xattrs = entry.xattrs.as_ref().is_some_and(|xattrs| !xattrs.is_empty());
    let classes = MetaMask::XATTR.with(MetaMask::ACL).with(MetaMask::CONTEXT);
    Some(Known {
        kind: entry.kind,
        // That there are none is known; which there are is asked for again.
        have: if xattrs { entry.have.without(classes) } else { entry.have },
        mtime: entry.mtime,
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        owners: entry.owners.clone(),
        rdev: entry.rdev,
        xattrs,
        target: target.map(Into::into),
    })
}

/// What a listing says of an object, as bytes; `None` for what it does not say enough of.
pub(super) fn details(size: u64, modified: Time, attributes: &FileAttributes) -> Option<Box<[u8]>> {
    record::encode(size, Modified::at(modified), &known(size, attributes, None)?).map(Into::into)
}

/// What [`details`] has made.
pub(super) fn of_details(details: &[u8]) -> Option<Known> {
    record::decode(details).map(|(_, _, known)| known)
}

/// Whether no run before this one knew any of a bucket's objects.
pub(super) fn is_unknown(cache: Option<&MetadataCache>) -> bool {
    cache.is_none_or(MetadataCache::is_empty)
}

/// Whether an object cannot have been written once more within the second of its time.
pub(super) fn is_settled(now: Time, modified: Time) -> bool {
    now.secs - modified.secs >= SETTLED
}
