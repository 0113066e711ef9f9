//! What was learned of objects whose listing does not say it: kind, mode and times by key and ETag, in a file that may
//! be lost.
//!
//! A listing of a bucket says key, size, ETag and time, but not the metadata in which haul keeps the attributes of a
//! file. Without this index a sync would ask for them with one request a key. It asks only for those that it does not
//! find here.
//!
//! **Format.** One file for each endpoint and bucket, `<state>/objects/<hash>`: sorted records in compressed blocks of
//! 32 KiB with a checksum each, a table of blocks in blocks of its own, and a table of those (at most 2 MiB, usually
//! some KiB) that is all a reader holds besides one block of each. It never changes: who has learned something merges
//! it with the file of that moment into a new one and renames that into place, so that readers, also those on other
//! machines, need no lock. Of two that do so at once the last wins; what the other had learned is asked for again.
//! Beyond 256 MiB, some six million objects, blocks of the old file are left out by chance.
//!
//! **What is trusted.** A record counts only for a listing with the same key, ETag, size and time; after an upload of
//! our own, whose time the server has not told, with a time within the window that the upload took. Checksums find
//! damage, not forgery: the file is the user's own (mode 0600), and who can write it can as well change what it
//! describes. But no content makes the program fail or take more memory.
//!
//! **The worst that a wrong record could do** is that attributes are compared wrongly for an object whose ETag, size
//! and time are all unchanged. That needs a server that changes metadata without changing the time, or two uploads of
//! one content with different attributes within the grain of the server's clock (a second at worst): who learns from
//! an answer should leave out objects younger than that by the server's own clock. Content is never concerned.
//! Deleting the file costs requests, nothing else.

mod block;
mod file;
mod home;
mod leaf;
mod merge;
mod record;
mod table;
mod writer;

#[cfg(test)]
mod tests;

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use haul_core::entry::Time;
use haul_core::error::{Error, Result};
use haul_core::hash::xxh128;
use haul_core::spill::Sorter;

use file::{Position, Stored};
use home::Fresh;
pub(super) use home::Home;
use merge::{Thinning, change, compare, merge};
use record::{HASH, Version};
pub use record::{KEY_MOST, Known, Learned, Modified, TARGET_MOST};
use writer::Writer;

/// How much is held and written.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the file.
    pub file: u64,
    /// Bytes of what was learned and not written yet, in memory; twice that while it is written.
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
    home: Home,
    scope: u128,
    limits: Limits,
    stored: Mutex<Option<Arc<Stored>>>,
    pending: Mutex<Pending>,
    /// Held while a file is written.
    flushing: Mutex<()>,
}

/// What was learned since the last flush.
#[derive(Debug, Default)]
struct Pending {
    sorter: Option<Sorter>,
    /// Changes in the sorter.
    count: u64,
    /// When somebody first saw that there are any.
    since: Option<Instant>,
    /// Why they could not be kept.
    failure: Option<io::Error>,
    /// After a failure nothing more is learned: it is told once, and tried again in the next run.
    gave_up: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Index {
    /// The index of `bucket` at `endpoint` (as one spelling for one server: scheme, host and port) in the state
    /// directory `state`. One that is missing, damaged or unreadable is empty. Nothing is made before something is
    /// learned.
    pub fn open(state: &Path, endpoint: &str, bucket: &str) -> Index {
        Self::open_with(state, endpoint, bucket, Limits::default())
    }

    pub fn open_with(state: &Path, endpoint: &str, bucket: &str, limits: Limits) -> Index {
        let scope = xxh128(format!("{endpoint}\0{bucket}").as_bytes());
        let home = Home::new(state.join("objects"), scope);
        let stored = Stored::open(&home.path(), scope).map(Arc::new);
        Index(Arc::new(Shared { home, scope, limits, stored: Mutex::new(stored), pending: Mutex::default(), flushing: Mutex::default() }))
    }

    /// Where the file is, or will be.
    pub fn path(&self) -> PathBuf {
        self.0.home.path()
    }

    /// Records in the file; an estimate.
    pub fn records(&self) -> u64 {
        locked(&self.0.stored).as_ref().map_or(0, |stored| stored.records)
    }

    /// Bytes allocated, without those of cursors.
    pub fn memory(&self) -> usize {
        let pending = locked(&self.0.pending).sorter.as_ref().map_or(0, Sorter::memory);
        pending + locked(&self.0.stored).as_ref().map_or(0, |stored| stored.memory())
    }

    /// For lookups of one thread, in the file of this moment.
    pub fn cursor(&self) -> Cursor {
        let stored = locked(&self.0.stored).clone();
        let at = stored.and_then(|stored| Some((stored, Position::new()?)));
        Cursor { shared: self.0.clone(), at }
    }

    /// Remembers an object, in place of what was known of its key. For lookups after the next flush.
    pub fn learn(&self, learned: &Learned<'_>) {
        if let Some(details) = record::encode(learned.size, learned.modified, &learned.known) {
            self.0.put(learned.key, Some((&record::hash_of(learned.etag), &details)));
        }
    }

    /// The object is gone. Not needed for correctness: only so that the file does not keep it.
    pub fn forget(&self, key: &[u8]) {
        let known = locked(&self.0.stored).is_some() || locked(&self.0.pending).count > 0;
        if known {
            self.0.put(key, None);
        }
    }

    /// Writes what was learned if it is much or has waited for long. To be called now and then, not by a thread that
    /// others wait for: it takes about a second for a million records.
    ///
    /// # Errors
    /// As [`Index::flush`].
    pub fn maybe_flush(&self, now: Instant) -> Result<bool> {
        let enough = self.0.limits.records.max(self.records() / 4);
        let due = {
            let mut pending = locked(&self.0.pending);
            let waited = match pending.since {
                Some(since) => now.saturating_duration_since(since),
                None => Duration::ZERO,
            };
            if pending.count > 0 && pending.since.is_none() {
                pending.since = Some(now);
            }
            pending.failure.is_some() || pending.count > 0 && (pending.count >= enough || waited >= self.0.limits.after)
        };
        if due { self.flush() } else { Ok(false) }
    }

    /// Writes what was learned, if anything was: whether a file was written. To be called at the end of a run; what
    /// was learned since the last flush is lost otherwise.
    ///
    /// # Errors
    /// What the file system answered, once: after that nothing is learned any more. Costs requests, nothing else.
    pub fn flush(&self) -> Result<bool> {
        let written = self.0.flush();
        if written.is_err() {
            let mut pending = locked(&self.0.pending);
            *pending = Pending { gave_up: true, ..Pending::default() };
        }
        written.map_err(|error| Error::io(error, "keep what is known of the objects").at(self.path().as_os_str().as_bytes()))
    }
}

impl Shared {
    fn put(&self, key: &[u8], value: Option<(&[u8; HASH], &[u8])>) {
        let Some(change) = change(key, value) else { return };
        let mut pending = locked(&self.pending);
        if pending.gave_up || pending.failure.is_some() {
            return;
        }
        match self.push(&mut pending, &change) {
            Ok(()) => pending.count += 1,
            Err(error) => pending.failure = Some(error),
        }
    }

    fn push(&self, pending: &mut Pending, change: &[u8]) -> io::Result<()> {
        let sorter = match &mut pending.sorter {
            Some(sorter) => sorter,
            none => {
                self.home.make_dir()?;
                none.insert(Sorter::new(self.home.dir(), self.limits.memory, compare))
            }
        };
        sorter.push(change)
    }

    fn flush(&self) -> io::Result<bool> {
        let _one_at_a_time = locked(&self.flushing);
        let Pending { sorter, count, failure, gave_up, .. } = {
            let mut pending = locked(&self.pending);
            let gave_up = pending.gave_up;
            std::mem::replace(&mut *pending, Pending { gave_up, ..Pending::default() })
        };
        if let Some(failure) = failure {
            return Err(failure);
        }
        match sorter {
            Some(sorter) if !gave_up => self.write(sorter, count)?.commit()?,
            _ => return Ok(false),
        }
        *locked(&self.stored) = Stored::open(&self.home.path(), self.scope).map(Arc::new);
        Ok(true)
    }

    /// A new file, not in place yet.
    fn write(&self, sorter: Sorter, count: u64) -> io::Result<Fresh> {
        let fresh = self.home.fresh()?;
        let nonce = u128::from(home::drawn()) << 64 | u128::from(home::drawn());
        // Not the one that was opened at first: others may have learned something since.
        let old = Stored::open(&self.home.path(), self.scope);
        let old = old.as_ref().map(|old| (old, Thinning::new(old, count, self.limits.file, home::drawn())));
        // The estimate behind the thinning may be off by that much.
        let most = self.limits.file + self.limits.file / 8;
        let mut writer = Writer::new(fresh.file(), self.scope, nonce, most)?;
        merge(old, sorter.finish()?, &mut writer)?;
        writer.finish()?;
        let written = fresh.file().metadata().and_then(|meta| meta.modified());
        self.home.clean(written.unwrap_or(SystemTime::UNIX_EPOCH));
        Ok(fresh)
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
    pub fn lookup(&mut self, key: &[u8], etag: &[u8], size: u64, modified: Time) -> Option<Known> {
        let (stored, position) = self.at.as_mut()?;
        let row = position.find(stored, key)?;
        let version = Version::new(etag, size, modified);
        let found = record::matching(row.hash, row.details, &version)?;
        if found.narrow
            && let Some(details) = record::encode(size, Modified::At(modified), &found.known)
        {
            self.shared.put(key, Some((&version.hash, &details)));
        }
        Some(found.known)
    }

    /// Bytes allocated, without the 100 KB of the decompressor.
    pub fn memory(&self) -> usize {
        self.at.as_ref().map_or(0, |(_, position)| position.memory())
    }
}
