//! The open journal: appends, and never stands in the way of the run.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::compact;
use super::log::{HEADER, VOID_AT, frame};
use super::progress::{Fold, Session};
use super::record::{self, Record};
use crate::entry::{Stamp, Time, show};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::xxh128;
use crate::store::{Receipt, Token};

/// Bytes that wait for a flush at most: some 2,000 receipts.
const BUFFER: usize = 64 << 10;

/// Log size in bytes from which on it is compacted: about three million small files, or the receipts of 2 TB in 1 MiB chunks.
pub(super) const COMPACT_FROM: u64 = 64 << 20;

/// Called after the n-th record, from 1, has been written. Must not call the journal.
pub type Hook = Box<dyn Fn(u64) + Send + Sync>;

/// Where a run writes down what it has begun and what landed. Shared by every worker.
///
/// No failure of the journal is a failure of the run: when it cannot be written (home full, read-only), it
/// turns itself off, [`keeps`](Self::keeps) is false from then on and [`trouble`](Self::trouble) says why.
/// Without a journal an unfinished write begins from nothing next time, and small files must be staged.
#[derive(Clone)]
pub struct Journal(Arc<Shared>);

struct Shared {
    keeps: AtomicBool,
    sessions: AtomicU32,
    bundles: AtomicU32,
    /// What earlier runs left stands in another rank's journal.
    beside: bool,
    trouble: Mutex<Option<String>>,
    log: Mutex<Option<Log>>,
}

struct Log {
    file: File,
    path: PathBuf,
    /// Bytes in the file that are ours; what a failed write left beyond them is overwritten or cut by the reader.
    end: u64,
    buffer: Vec<u8>,
    begun: Record,
    hook: Option<Hook>,
    appended: u64,
    /// Compact when the log is longer than this, in bytes.
    compact_at: u64,
    off: bool,
}

impl Journal {
    /// For runs without a journal: keeps nothing, and refuses intents.
    pub fn none() -> Self {
        Self::start(None, 0, false)
    }

    fn start(log: Option<Log>, next_session: u32, beside: bool) -> Self {
        Journal(Arc::new(Shared {
            keeps: AtomicBool::new(log.is_some()),
            sessions: AtomicU32::new(next_session),
            bundles: AtomicU32::new(0),
            beside,
            trouble: Mutex::new(None),
            log: Mutex::new(log),
        }))
    }

    /// Opens the journal at `path`: compacted to what is open in `fold`, or, if that fails, the first `good` bytes and then
    /// `begun`. Says whether all of `fold` is in it.
    pub(super) fn begin(path: &Path, fold: &Fold, good: u64, begun: Record) -> (Self, bool) {
        let rewritten = rewrite(path, fold, &begun);
        let whole = rewritten.is_ok();
        match rewritten.or_else(|_| append(path, good, &begun)) {
            Ok((file, end)) => (Self::over(file, path, end, begun, fold.next_session), whole),
            Err(error) => {
                let log = OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW).open(path).ok();
                let journal = match log {
                    Some(file) => Self::over(file, path, good, begun, fold.next_session),
                    None => Self::start(None, fold.next_session, false),
                };
                journal.0.turn_off(path, error);
                (journal, false)
            }
        }
    }

    /// Opens the journal of another rank than the first, which has in its own what earlier runs left.
    pub(super) fn beside(path: &Path, next_session: u32, begun: Record) -> Self {
        match rewrite(path, &Fold::default(), &begun) {
            Ok((file, end)) => Self::start(Some(Log::new(file, path, end, begun)), next_session, true),
            Err(error) => {
                let journal = Self::start(None, next_session, true);
                journal.0.turn_off(path, error);
                journal
            }
        }
    }

    /// An unfinished write of an earlier run is taken up: under which number it is in this journal from now on. Where the store is
    /// not `durable`, what another host has landed is recorded here only once it has been seen to be there.
    #[must_use]
    pub fn take_up(&self, old: Session, durable: bool) -> Session {
        if !self.0.beside {
            return old;
        }
        let Ok(session) = self.open_session(&old.path, &old.stamp, old.chunk, &old.token) else { return old };
        for receipt in old.landed.receipts().filter(|receipt| durable || !old.landed.is_foreign(receipt.index)) {
            self.landed(session, &receipt);
        }
        for (index, bytes) in old.landed.parts() {
            self.landed_part(session, index, bytes);
        }
        Session { session, ..old }
    }

    /// Appends to `file` from `end` on.
    pub(super) fn over(file: File, path: &Path, end: u64, begun: Record, next_session: u32) -> Self {
        Self::start(Some(Log::new(file, path, end, begun)), next_session, false)
    }

    /// For tests that stop at a record: with a hook, each record is written before the call returns.
    #[must_use]
    pub fn with_hook(self, hook: Hook) -> Self {
        if let Some(log) = self.0.log().as_mut() {
            log.hook = Some(hook);
        }
        self
    }

    /// Whether what is appended is kept.
    pub fn keeps(&self) -> bool {
        self.0.keeps.load(Ordering::Relaxed)
    }

    /// Why the journal turned itself off; given out once.
    pub fn trouble(&self) -> Option<String> {
        self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Numbers a write and records it before it returns. A resumed session keeps its number.
    pub fn open_session(&self, path: &[u8], stamp: &Stamp, chunk: u64, token: &Token) -> Result<u32> {
        let session = self.0.sessions.fetch_add(1, Ordering::Relaxed);
        let _unrecorded_is_begun_anew = self.0.append(When::Through, |to| record::put_opened(to, session, path, stamp, chunk, token));
        Ok(session)
    }

    /// Records what of the write still holds, before it returns: nothing that was recorded of it until now counts any more.
    pub fn restate(&self, old: &Session, receipts: &[Receipt], parts: impl IntoIterator<Item = (u32, u64)>) {
        let number = old.session;
        let opened = |to: &mut Vec<u8>| record::put_opened(to, number, &old.path, &old.stamp, old.chunk, &old.token);
        let stated = self.0.with(|log| {
            let mut whole = frame(&mut log.buffer, opened);
            for receipt in receipts {
                whole &= frame(&mut log.buffer, |to| record::put_landed(to, number, receipt));
            }
            for (index, bytes) in parts {
                whole &= frame(&mut log.buffer, |to| record::put_part(to, number, index, bytes));
            }
            log.flush()?;
            log.count();
            Ok(whole)
        });
        if stated != Some(true) {
            self.0.void();
        }
    }

    /// A chunk is in the destination; of a foreign one that has been hashed again, too. Buffered.
    pub fn landed(&self, session: u32, receipt: &Receipt) {
        self.0.append(When::Later, |to| record::put_landed(to, session, receipt));
    }

    /// The first `bytes` of a chunk are in the destination. Buffered.
    pub fn landed_part(&self, session: u32, index: u32, bytes: u64) {
        self.0.append(When::Later, |to| record::put_part(to, session, index, bytes));
    }

    /// The file has its final name. Buffered: a rerun finds the session open, but the file in its place.
    pub fn committed(&self, session: u32) {
        self.0.append(When::Later, |to| record::put_committed(to, session));
    }

    /// Records that the write was abandoned, before it returns: a later write under the same token must not inherit its receipts.
    pub fn dropped(&self, session: u32) {
        if !self.0.append(When::Through, |to| record::put_dropped(to, session)) {
            self.0.void();
        }
    }

    /// Records that these names of `dir` below the target's root are about to be created in place, with one write(2).
    /// `Unsupported` if that failed: then they must be staged.
    pub fn intent(&self, dir: &[u8], leaves: &mut dyn Iterator<Item = &[u8]>) -> Result<u32> {
        let bundle = self.0.bundles.fetch_add(1, Ordering::Relaxed);
        if self.0.append(When::Through, |to| record::put_intent(to, bundle, dir, leaves)) {
            Ok(bundle)
        } else {
            Err(Error::new(ErrorKind::Unsupported, "write the journal").at(dir).because("the journal is off"))
        }
    }

    /// Every name of the bundle is whole or gone. Buffered.
    pub fn placed(&self, bundle: u32) {
        self.0.append(When::Later, |to| record::put_placed(to, bundle));
    }

    /// Records the time of a directory of the source, by its path below the root, before a name of it is removed.
    pub fn dir_time(&self, path: &[u8], mtime: Time) {
        self.0.append(When::Through, |to| record::put_dir_time(to, xxh128(path), mtime));
    }

    /// Writes what is buffered: past this a kill does not lose it. A crash of the system may.
    pub fn flush(&self) {
        self.0.with(|log| log.flush());
    }

    /// Flushes, and waits until the log is on stable storage.
    pub fn sync(&self) {
        self.0.with(|log| {
            log.flush()?;
            log.file.sync_data()
        });
    }

    /// The job is done: says so in the log and closes it.
    pub(super) fn finish(&self) {
        self.0.append(When::Through, |to| Record::Finished.encode(to));
        self.close();
    }

    /// Writes what is buffered and lets go of the log. Nothing is kept from here on.
    pub(super) fn close(&self) {
        self.flush();
        self.0.keeps.store(false, Ordering::Relaxed);
        *self.0.log() = None;
    }

    #[cfg(test)]
    pub(super) fn compact_at(&self, bytes: u64) {
        if let Some(log) = self.0.log().as_mut() {
            log.compact_at = bytes;
        }
    }

    #[cfg(test)]
    pub(super) fn length(&self) -> u64 {
        self.0.log().as_ref().map_or(0, |log| log.end + log.buffer.len() as u64)
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("keeps", &self.keeps()).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    /// Before the call returns.
    Through,
    Later,
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Option<Log>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the record was taken, and with `Through` written.
    fn append(&self, when: When, payload: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.with(|log| log.append(when, payload)).unwrap_or(false)
    }

    /// `None` if there is no journal, or none any more.
    fn with<T>(&self, act: impl FnOnce(&mut Log) -> io::Result<T>) -> Option<T> {
        let mut log = self.log();
        let log = log.as_mut().filter(|log| !log.off)?;
        match act(log) {
            Ok(done) => Some(done),
            Err(error) => {
                log.off = true;
                log.buffer = Vec::new();
                self.say(&log.path, error);
                None
            }
        }
    }

    fn turn_off(&self, path: &Path, error: io::Error) {
        if let Some(log) = self.log().as_mut() {
            log.off = true;
        }
        self.say(path, error);
    }

    fn say(&self, path: &Path, error: io::Error) {
        self.keeps.store(false, Ordering::Relaxed);
        let reason = Error::io(error, "write").reason();
        let path = show(path.as_os_str().as_encoded_bytes());
        let words =
            format!("{path}: the journal cannot be written: {reason}; the run continues, but interrupted large files cannot be resumed");
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
    }

    /// Invalidates all receipts by changing one existing byte, which works on a full disk.
    fn void(&self) {
        if let Some(log) = self.log().as_mut() {
            let _read_only_cannot_be_helped = log.file.write_all_at(&[1], VOID_AT);
        }
    }
}

impl Log {
    fn new(file: File, path: &Path, end: u64, begun: Record) -> Log {
        Log {
            file,
            path: path.to_path_buf(),
            end,
            buffer: Vec::with_capacity(BUFFER + 4096),
            begun,
            hook: None,
            appended: 0,
            compact_at: COMPACT_FROM.max(end.saturating_mul(2)),
            off: false,
        }
    }

    fn append(&mut self, when: When, payload: impl FnOnce(&mut Vec<u8>)) -> io::Result<bool> {
        if !frame(&mut self.buffer, payload) {
            return Ok(false);
        }
        if when == When::Through || self.buffer.len() >= BUFFER || self.hook.is_some() {
            self.flush()?;
        }
        self.count();
        Ok(true)
    }

    fn count(&mut self) {
        self.appended += 1;
        if let Some(hook) = &self.hook {
            hook(self.appended);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.file.write_all_at(&self.buffer, self.end)?;
            self.end += self.buffer.len() as u64;
            self.buffer.clear();
            self.buffer.shrink_to(BUFFER * 2);
        }
        if self.end > self.compact_at {
            self.compact();
        }
        Ok(())
    }

    /// Compacts from the log itself: keeping in memory what is open would hold the names of every bundle in flight. If it fails
    /// the log stays, and the next attempt is at twice the length.
    fn compact(&mut self) {
        if let Ok((file, end)) = self.anew() {
            self.file = file;
            self.end = end;
        }
        self.compact_at = COMPACT_FROM.max(self.end.saturating_mul(2));
    }

    fn anew(&self) -> io::Result<(File, u64)> {
        let Record::Begun { boot, host, .. } = &self.begun else {
            return Err(io::Error::other("no run has begun"));
        };
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))?;
        let (fold, good) = Fold::read(*boot, host, BufReader::with_capacity(256 << 10, file))?;
        if good != self.end {
            return Err(io::Error::other("the log does not read back as written"));
        }
        rewrite(&self.path, &fold, &self.begun)
    }
}

/// What the last flush left is written when nobody holds the journal any more.
impl Drop for Shared {
    fn drop(&mut self) {
        self.with(|log| log.flush());
    }
}

/// Replaces the log atomically. Synced: only here could a crash lose more than the last records.
fn rewrite(path: &Path, fold: &Fold, begun: &Record) -> io::Result<(File, u64)> {
    // Not the extension, which numbers the ranks.
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let write = || {
        let file = open().truncate(true).open(&beside)?;
        let mut out = BufWriter::with_capacity(256 << 10, &file);
        let length = compact::write(fold, begun, &mut out)?;
        out.flush()?;
        drop(out);
        file.sync_data()?;
        std::fs::rename(&beside, path)?;
        Ok((file, length))
    };
    let result = write();
    if result.is_err() {
        let _best_effort = std::fs::remove_file(&beside);
    }
    result
}

/// The old log without its torn tail, and `begun` behind it.
fn append(path: &Path, good: u64, begun: &Record) -> io::Result<(File, u64)> {
    let file = open().open(path)?;
    file.set_len(good)?;
    let mut buffer = if good == 0 { HEADER.to_vec() } else { Vec::new() };
    frame(&mut buffer, |to| begun.encode(to));
    file.write_all_at(&buffer, good)?;
    Ok((file, good + buffer.len() as u64))
}

fn open() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options
}
