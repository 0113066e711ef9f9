//! The records of one bucket: lookups in the current file, and new records that wait for the next one.
//!
//! A file never changes: new records are merged with it into a new file, which replaces it. Of two writers at once the last
//! wins; the other's records are requested again. Beyond 256 MiB, some six million objects, random blocks of the old file are
//! dropped.

#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use haul_core::entry::Time;
use haul_core::hash::xxh128;
use haul_core::spill::Sorter;

use super::file::{Position, Stored, Writer};
use super::merge::{Thinning, change, compare, merge};
use super::record::{self, HASH, Known, Modified, Object};
use crate::state_file::{StateFile, random};
use haul_core::lock::lock;

/// How much is held and written.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the file.
    pub file: u64,
    /// Bytes of new records in memory; twice that while they are written.
    pub memory: usize,
    /// Records after which [`Index::maybe_flush`] writes, if they are also a quarter of those in the file: however
    /// many there are, each is written only a few times.
    pub records: u64,
    /// Time after which it writes fewer.
    pub after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { file: 256 << 20, memory: 3 << 20, records: 100_000, after: Duration::from_secs(600) }
    }
}

/// The index of one bucket. Clones are the same index.
#[derive(Clone, Debug)]
pub struct Index(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    place: StateFile,
    scope: u128,
    limits: Limits,
    stored: Mutex<Option<Arc<Stored>>>,
    pending: Mutex<Pending>,
    /// Held while a file is written.
    flushing: Mutex<()>,
}

/// Records since the last flush.
#[derive(Debug, Default)]
struct Pending {
    sorter: Option<Sorter>,
    /// Changes in the sorter.
    count: u64,
    /// When they were first seen.
    since: Option<Instant>,
    /// After a failure nothing more is kept until the next run.
    gave_up: bool,
}

impl Index {
    /// The index of `bucket` at `endpoint` (as one spelling for one server: scheme, host and port) in haul's state directory. One
    /// that is missing, damaged or unreadable is empty. Nothing is created before there is a record.
    pub fn open(state: &Path, endpoint: &str, bucket: &str, limits: Limits) -> Index {
        let scope = xxh128(format!("{endpoint}\0{bucket}").as_bytes());
        let place = StateFile::new(state, scope);
        let stored = Mutex::new(Stored::open(&place.path(), scope).map(Arc::new));
        Index(Arc::new(Shared { place, scope, limits, stored, pending: Mutex::default(), flushing: Mutex::default() }))
    }

    /// Records in the file; an estimate.
    pub fn records(&self) -> u64 {
        lock(&self.0.stored).as_ref().map_or(0, |stored| stored.records)
    }

    /// For lookups of one thread, in the file of this moment.
    pub fn cursor(&self) -> Cursor {
        let stored = lock(&self.0.stored).clone();
        let at = stored.and_then(|stored| Some((stored, Position::new()?)));
        Cursor { shared: self.0.clone(), at }
    }

    /// Remembers an object, in place of what was known of its key. For lookups after the next flush.
    pub fn add(&self, object: &Object<'_>) {
        if let Some(details) = record::encode(object.size, object.modified, &object.known) {
            self.0.put(object.key, Some((&record::hash_of(object.etag), &details)));
        }
    }

    /// The object is gone. Not needed for correctness: only so that the file does not keep it.
    pub fn forget(&self, key: &[u8]) {
        let known = lock(&self.0.stored).is_some() || lock(&self.0.pending).count > 0;
        if known {
            self.0.put(key, None);
        }
    }

    /// Writes new records if they are many or old. About a second per million records: not for a thread that others wait for.
    ///
    /// # Errors
    /// As [`Index::flush`].
    pub fn maybe_flush(&self, now: Instant) -> io::Result<bool> {
        let enough = self.0.limits.records.max(self.records() / 4);
        let due = {
            let mut pending = lock(&self.0.pending);
            let any = pending.count > 0;
            let since = if any { *pending.since.get_or_insert(now) } else { now };
            any && (pending.count >= enough || now.saturating_duration_since(since) >= self.0.limits.after)
        };
        if due { self.flush() } else { Ok(false) }
    }

    /// Writes new records: whether there were any. To be called at the end of a run; records since the last flush are lost
    /// otherwise.
    ///
    /// # Errors
    /// Those of the file system, once: after that nothing is kept any more.
    pub fn flush(&self) -> io::Result<bool> {
        let written = self.0.flush();
        if written.is_err() {
            self.0.give_up();
        }
        written
    }
}

impl Shared {
    fn give_up(&self) {
        *lock(&self.pending) = Pending { gave_up: true, ..Pending::default() };
    }

    fn put(&self, key: &[u8], value: Option<(&[u8; HASH], &[u8])>) {
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

    fn flush(&self) -> io::Result<bool> {
        let _one_at_a_time = lock(&self.flushing);
        let Pending { sorter, count, .. } = {
            let mut pending = lock(&self.pending);
            let gave_up = pending.gave_up;
            std::mem::replace(&mut *pending, Pending { gave_up, ..Pending::default() })
        };
        let Some(sorter) = sorter else { return Ok(false) };
        self.place.replace(|file| {
            // Not the one that was opened at first: others may have replaced it since.
            let old = Stored::open(&self.place.path(), self.scope);
            let old = old.as_ref().map(|old| (old, Thinning::new(old, count, self.limits.file, random())));
            // The estimate behind the thinning may be off by that much.
            let mut writer = Writer::new(file, self.scope, self.limits.file + self.limits.file / 8)?;
            merge(old, sorter.finish()?, &mut writer)?;
            writer.finish()
        })?;
        *lock(&self.stored) = Stored::open(&self.place.path(), self.scope).map(Arc::new);
        Ok(true)
    }
}

/// Looks objects up: fastest in the order of their keys, when each block is read once.
pub struct Cursor {
    shared: Arc<Shared>,
    at: Option<(Arc<Stored>, Position)>,
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("stored", &self.at.as_ref().map(|(stored, _)| stored)).finish_non_exhaustive()
    }
}

impl Cursor {
    /// What is known of the object that a listing gives so; `None` if nothing is known of exactly that version.
    pub fn lookup(&mut self, key: &[u8], etag: &[u8], size: u64, listed: Time) -> Option<Known> {
        let (stored, position) = self.at.as_mut()?;
        let (row, hash) = (position.find(stored, key)?, record::hash_of(etag));
        if row.hash != hash {
            return None;
        }
        let (known_size, modified, known) = record::decode(row.details)?;
        if known_size != size || !modified.allows(listed) {
            return None;
        }
        if modified.is_wide()
            && let Some(details) = record::encode(size, Modified::at(listed), &known)
        {
            self.shared.put(key, Some((&hash, &details)));
        }
        Some(known)
    }
}
