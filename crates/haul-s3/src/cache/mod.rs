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
//!
//! **The file never changes**: new records are merged with it into a new file, which replaces it. Readers and writers in any number of
//! processes, on any machine, need no lock: of two writers at once the last wins, and the other's records are requested again. Beyond
//! 256 MiB, some six million objects, random blocks of the old file are dropped.

mod block;
mod file;
mod merge;
mod record;

#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Time};
use haul_core::hash::xxh128;
use haul_core::lock::lock;
use haul_core::spill::Sorter;

use super::attributes::{self, FileAttributes};
use super::bucket::{Head, Put};
use super::put_options::Pair;
use super::state_file::StateFile;
use file::{Position, Stored, Writer};
use merge::{change, compare, merge};
pub(super) use record::Known;
use record::{HASH, Modified};

/// Seconds: an object that is younger than this by the service's clock may have been written twice within one second.
const SETTLED: i64 = 2;

#[derive(Clone, Copy, Debug)]
struct Limits {
    file: u64,
    /// Bytes of new records in memory; twice that while they are written.
    memory: usize,
    /// New records that are written at once, if they are also a quarter of those in the file: each is written only a few times.
    records: u64,
    /// Time after which fewer are written.
    after: Duration,
}

const LIMITS: Limits = Limits { file: 256 << 20, memory: 3 << 20, records: 100_000, after: Duration::from_secs(600) };

/// The cache of one bucket, written from time to time and by [`MetadataCache::flush`].
#[derive(Debug)]
pub struct MetadataCache {
    place: StateFile,
    scope: u128,
    limits: Limits,
    stored: Mutex<Option<Arc<Stored>>>,
    pending: Mutex<Pending>,
    flushing: Mutex<()>,
}

/// Changes since the last flush.
#[derive(Debug, Default)]
struct Pending {
    sorter: Option<Sorter>,
    count: u64,
    /// When the first of them was seen.
    since: Option<Instant>,
    /// After a failure nothing more is kept until the next run.
    gave_up: bool,
}

impl MetadataCache {
    /// The cache of `bucket` at `endpoint` in haul's state directory. A file that cannot be read counts as missing; none is created
    /// before there is a record.
    pub fn open(state: &Path, endpoint: &str, bucket: &str) -> MetadataCache {
        Self::bounded(state, endpoint, bucket, LIMITS)
    }

    fn bounded(state: &Path, endpoint: &str, bucket: &str, limits: Limits) -> MetadataCache {
        let scope = xxh128(format!("{endpoint}\0{bucket}").as_bytes());
        let place = StateFile::new(state, scope);
        let stored = Mutex::new(Stored::open(&place.path(), scope).map(Arc::new));
        MetadataCache { place, scope, limits, stored, pending: Mutex::default(), flushing: Mutex::default() }
    }

    /// For lookups of one thread, in the file of this moment.
    pub(super) fn cursor(&self) -> Cursor<'_> {
        let stored = lock(&self.stored).clone();
        Cursor { cache: self, at: stored.and_then(|stored| Some((stored, Position::new()?))) }
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
        if let Some(details) = known(size, attributes, target).and_then(|known| record::encode(size, modified, &known)) {
            self.listed(key, etag, &details);
        }
    }

    /// Remembers what a listing said of an object: details of [`details`]. For lookups after the next flush.
    pub(super) fn listed(&self, key: &[u8], etag: &str, details: &[u8]) {
        if !etag.is_empty() {
            self.put(key, &[&record::hash_of(etag.as_bytes()), details].concat());
            self.flush_if_due(Instant::now());
        }
    }

    /// The object is gone. Not needed for correctness: only so that the file does not keep it.
    pub(super) fn forget(&self, key: &[u8]) {
        if lock(&self.stored).is_some() || lock(&self.pending).count > 0 {
            self.put(key, &[]);
        }
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        let Some(change) = change(key, value) else { return };
        let mut pending = lock(&self.pending);
        if pending.gave_up {
            return;
        }
        match self.push(&mut pending, &change) {
            Ok(()) => pending.count += 1,
            Err(_) => *pending = Pending { gave_up: true, ..Pending::default() },
        }
    }

    fn push(&self, pending: &mut Pending, change: &[u8]) -> io::Result<()> {
        let sorter = match &mut pending.sorter {
            Some(sorter) => sorter,
            none => none.insert(Sorter::new(self.place.make_dir()?, self.limits.memory, compare)),
        };
        sorter.push(change)
    }

    /// Records in the file; an estimate.
    fn records(&self) -> u64 {
        lock(&self.stored).as_ref().map_or(0, |stored| stored.records)
    }

    /// Writes new records if they are many or old, about a second per million.
    fn flush_if_due(&self, now: Instant) {
        let enough = self.limits.records.max(self.records() / 4);
        let due = {
            let mut pending = lock(&self.pending);
            let since = *pending.since.get_or_insert(now);
            pending.count > 0 && (pending.count >= enough || now.saturating_duration_since(since) >= self.limits.after)
        };
        if due {
            self.flush();
        }
    }

    /// Writes the file, at the end of a run. A failure costs look-ups in the next run and is not reported; nothing is kept after it.
    pub fn flush(&self) {
        if self.write().is_err() {
            *lock(&self.pending) = Pending { gave_up: true, ..Pending::default() };
        }
    }

    fn write(&self) -> io::Result<()> {
        let _one_at_a_time = lock(&self.flushing);
        let Pending { sorter, count, .. } = {
            let mut pending = lock(&self.pending);
            let gave_up = pending.gave_up;
            std::mem::replace(&mut *pending, Pending { gave_up, ..Pending::default() })
        };
        let Some(sorter) = sorter else { return Ok(()) };
        let open = || Stored::open(&self.place.path(), self.scope);
        self.place.replace(|file| {
            // The estimate behind the choice of blocks may be off by that much.
            let mut writer = Writer::new(file, self.scope, self.limits.file + self.limits.file / 8)?;
            // Not the one that was opened at first: others may have replaced it since.
            merge(open().as_ref(), sorter.finish()?, count, self.limits.file, &mut writer)?;
            writer.finish()
        })?;
        *lock(&self.stored) = open().map(Arc::new);
        Ok(())
    }
}

/// Looks objects up: fastest in the order of their keys, when each block is read once.
pub(super) struct Cursor<'a> {
    cache: &'a MetadataCache,
    at: Option<(Arc<Stored>, Position)>,
}

impl Cursor<'_> {
    /// What is known of the object that a listing gives so; `None` if nothing is known of exactly that version.
    pub fn lookup(&mut self, key: &[u8], etag: &str, size: u64, listed: Time) -> Option<Known> {
        let (stored, position) = self.at.as_mut()?;
        let (hash, details) = position.find(stored, key)?.split_at_checked(HASH)?;
        let (known_size, modified, known) = record::decode(details).filter(|_| hash == record::hash_of(etag.as_bytes()))?;
        if known_size != size || !modified.allows(listed) {
            return None;
        }
        if modified.is_wide()
            && let Some(details) = record::encode(size, Modified::at(listed), &known)
        {
            self.cache.put(key, &[hash, &details].concat());
        }
        Some(known)
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
    cache.is_none_or(|cache| cache.records() == 0)
}

/// Whether an object cannot have been written once more within the second of its time.
pub(super) fn is_settled(now: Time, modified: Time) -> bool {
    now.secs - modified.secs >= SETTLED
}
