//! What a log amounts to: a pure fold over its records.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::chunks::Chunks;
use super::identity::Identity;
use super::log::Reader;
use super::record::{Record, VERSION, token_of};
use crate::entry::{Stamp, Time};
use crate::hash::xxh128;
use crate::store::Token;

/// An unfinished write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its number in the journal: whoever goes on with it says so of later chunks, without opening it again.
    pub session: u32,
    /// Below the target's root.
    pub path: Box<[u8]>,
    pub stamp: Stamp,
    /// Chunk size in bytes; what landed counts in these, whatever the run asks for now.
    pub chunk: u64,
    pub token: Token,
    pub landed: Chunks,
}

impl Session {
    /// Whether anything landed under another boot or on another host.
    pub fn foreign(&self) -> bool {
        self.landed.any_foreign()
    }

    /// Bytes that landed.
    pub fn bytes(&self) -> u64 {
        let whole = self.landed.count().saturating_mul(self.chunk);
        let last = self.chunks() - 1;
        let short = match u32::try_from(last) {
            Ok(index) if self.landed.has(index) => {
                self.chunk - self.stamp.size.saturating_sub(last.saturating_mul(self.chunk)).min(self.chunk)
            }
            _ => 0,
        };
        let parts = self.landed.parts().map(|(_, bytes)| bytes.min(self.chunk)).fold(0, u64::saturating_add);
        whole.saturating_sub(short).saturating_add(parts).min(self.stamp.size)
    }

    fn chunks(&self) -> u64 {
        self.stamp.size.div_ceil(self.chunk.max(1)).max(1)
    }
}

/// Names below one directory.
pub(super) type Leaves = HashSet<Box<[u8]>>;

/// A directory, and names in it that are about to be created.
pub(super) type Intent = (Box<[u8]>, Vec<Box<[u8]>>);

/// A log as far as it has been read. Memory goes with what is open, not with what the log holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fold {
    boot: [u8; 16],
    host: String,
    /// Whether the records that come now are from this boot of this host.
    own: bool,
    pub identity: Option<Identity>,
    pub sessions: BTreeMap<u32, Session>,
    /// Open intents of the run that appended last.
    pub open: BTreeMap<u32, Intent>,
    /// Names in open intents of runs before that, by directory.
    pub unfinished: HashMap<Box<[u8]>, Leaves>,
    /// Times of the source's directories before names of them were removed, by the hash of the path.
    pub dir_times: HashMap<u128, Time>,
    /// Above every session number seen.
    pub next_session: u32,
    /// Whether the last run came to its end.
    pub finished: bool,
}

impl Fold {
    pub fn new(boot: [u8; 16], host: &str) -> Self {
        Fold { boot, host: host.to_string(), ..Fold::default() }
    }

    /// Folds a log up to its first bad record; says where the good part ends, in bytes.
    pub fn read(boot: [u8; 16], host: &str, from: impl Read) -> io::Result<(Self, u64)> {
        let mut fold = Fold::new(boot, host);
        let mut reader = Reader::new(from)?;
        while let Some(record) = reader.next()? {
            fold.apply(record);
        }
        if reader.is_void() {
            fold.forget_receipts();
        }
        Ok((fold, reader.end()))
    }

    pub fn apply(&mut self, record: Record) {
        match record {
            Record::Begun { version, identity, boot, host, .. } => {
                self.own = version == VERSION && boot == self.boot && host == self.host;
                if !self.own {
                    // What an earlier run of this boot landed in part, the run of another one went on with.
                    self.sessions.values_mut().for_each(|session| session.landed.clear_parts());
                }
                self.identity = Some(identity);
                self.finished = false;
                self.inherit();
            }
            Record::Opened { session, path, stamp, chunk, token } => {
                let path = path.into_boxed_slice();
                // A second write under the same token began from nothing and took the place of the first.
                self.sessions.retain(|_, old| old.token != token || old.path != path);
                self.next_session = self.next_session.max(session.saturating_add(1));
                self.sessions.insert(session, Session { session, path, stamp, chunk, token, landed: Chunks::default() });
            }
            Record::WriteOutcome { session, receipt } => {
                if let Some(open) = self.sessions.get_mut(&session)
                    && u64::from(receipt.index) < open.chunks()
                {
                    open.landed.insert(receipt, self.own);
                }
            }
            Record::Part { session, index, bytes } => {
                if self.own
                    && let Some(open) = self.sessions.get_mut(&session)
                    && u64::from(index) < open.chunks()
                {
                    open.landed.insert_part(index, bytes);
                }
            }
            Record::Committed { session } => {
                if let Some(done) = self.sessions.remove(&session) {
                    let (dir, leaf) = split(&done.path);
                    self.placed(dir, [leaf]);
                }
            }
            Record::Dropped { session } => {
                self.sessions.remove(&session);
            }
            Record::Intent { bundle, dir, leaves } => {
                let leaves = leaves.into_iter().map(Vec::into_boxed_slice).collect();
                if let Some((dir, leaves)) = self.open.insert(bundle, (dir.into(), leaves)) {
                    self.unfinished.entry(dir).or_default().extend(leaves);
                }
            }
            Record::Placed { bundle } => {
                if let Some((dir, leaves)) = self.open.remove(&bundle) {
                    self.placed(&dir, leaves.iter().map(|leaf| &leaf[..]));
                }
            }
            // A later run has taken its time from the first record.
            Record::DirTime { path, mtime } => {
                self.dir_times.entry(path).or_insert(mtime);
            }
            Record::Finished => {
                self.dir_times.clear();
                self.sessions.clear();
                self.open.clear();
                self.unfinished.clear();
                self.finished = true;
            }
        }
    }

    /// What another rank of the last run has left. Its own records of a write are later than those that stand here.
    pub fn merge(&mut self, other: Fold) {
        self.inherit();
        for session in other.sessions.into_values() {
            self.sessions.retain(|_, old| old.token != session.token || old.path != session.path);
            let number = self.next_session;
            self.next_session += 1;
            self.sessions.insert(number, Session { session: number, ..session });
        }
        let open = other.open.into_values().map(|(dir, leaves)| (dir, leaves.into_iter().collect()));
        for (dir, leaves) in other.unfinished.into_iter().chain(open) {
            let leaves: Leaves = leaves;
            self.unfinished.entry(dir).or_default().extend(leaves);
        }
        for (path, mtime) in other.dir_times {
            self.dir_times.entry(path).or_insert(mtime);
        }
        self.identity = self.identity.take().or(other.identity);
    }

    /// The run that had these intents open is over.
    fn inherit(&mut self) {
        for (_, (dir, leaves)) in std::mem::take(&mut self.open) {
            self.unfinished.entry(dir).or_default().extend(leaves);
        }
    }

    /// These names have been done again.
    fn placed<'a>(&mut self, dir: &[u8], leaves: impl IntoIterator<Item = &'a [u8]>) {
        if let Some(unfinished) = self.unfinished.get_mut(dir) {
            for leaf in leaves {
                unfinished.remove(leaf);
            }
            if unfinished.is_empty() {
                self.unfinished.remove(dir);
            }
        }
    }

    /// Keeps the unfinished writes, so that they can be removed, but not what landed in them.
    pub fn forget_receipts(&mut self) {
        for session in self.sessions.values_mut() {
            session.landed = Chunks::default();
        }
    }

    /// What is at the target of a job that is given up.
    pub fn into_leftovers(mut self) -> Leftovers {
        self.inherit();
        let names = self.unfinished.values().flatten().filter(|leaf| token_of(leaf).is_none()).count() as u64;
        let small = staged_in(&self.unfinished).map(|(dir, token)| (staged_path(dir, &token), token)).collect();
        let landed = self.sessions.values().map(Session::bytes).fold(0, u64::saturating_add);
        let large = self.sessions.into_values().map(|session| (session.path, session.token)).collect();
        Leftovers { large, landed, small, names }
    }

    /// With `forget`, every unfinished write is stale.
    pub fn into_progress(mut self, forget: bool) -> Progress {
        self.inherit();
        let mut sessions: HashMap<Box<[u8]>, Vec<Session>> = HashMap::new();
        for session in self.sessions.into_values() {
            sessions.entry(session.path.clone()).or_default().push(session);
        }
        let rerun = self.identity.is_some() && !self.finished;
        Progress { sessions: Mutex::new(sessions), unfinished: self.unfinished, dir_times: self.dir_times, forget, rerun }
    }
}

/// What a run left at the target without having come to its end. Paths are below the target's root.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    pub large: Vec<(Box<[u8]>, Token)>,
    /// Bytes of the large ones that landed.
    pub landed: u64,
    /// Staged small files: their own names are not known, so the path ends in the token.
    pub small: Vec<(Box<[u8]>, Token)>,
    /// Names created in place that may be incomplete.
    pub names: u64,
}

fn staged_path(dir: &[u8], token: &Token) -> Box<[u8]> {
    let slash: &[u8] = if dir.is_empty() { b"" } else { b"/" };
    [dir, slash, &token.0].concat().into()
}

/// The tokens among names of open intents.
fn staged_in(unfinished: &HashMap<Box<[u8]>, Leaves>) -> impl Iterator<Item = (&[u8], Token)> {
    unfinished.iter().flat_map(|(dir, leaves)| leaves.iter().filter_map(|leaf| Some((&**dir, token_of(leaf)?))))
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|b| *b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// What earlier runs of the job left open.
#[derive(Debug, Default)]
pub struct Progress {
    sessions: Mutex<HashMap<Box<[u8]>, Vec<Session>>>,
    unfinished: HashMap<Box<[u8]>, Leaves>,
    dir_times: HashMap<u128, Time>,
    forget: bool,
    rerun: bool,
}

/// How a large file is to be begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resume {
    Fresh,
    /// A write of another version of the file: to be abandoned and dropped, then begun afresh.
    Stale(Session),
    /// To be attached by its token; if the store has given it up, to be dropped and begun afresh.
    Continue(Session),
}

impl Progress {
    /// How to begin the file at `path` below the target's root, whose source has one of these stamps. Each session is returned once.
    pub fn take(&self, path: &[u8], stamps: &[Stamp]) -> Resume {
        let mut sessions = self.lock();
        let Some(found) = sessions.get_mut(path) else {
            return Resume::Fresh;
        };
        let same = found.iter().rposition(|session| stamps.contains(&session.stamp)).filter(|_| !self.forget);
        let taken = match same {
            Some(at) => Some(Resume::Continue(found.remove(at))),
            None => found.pop().map(Resume::Stale),
        };
        if found.is_empty() {
            sessions.remove(path);
        }
        taken.unwrap_or(Resume::Fresh)
    }

    /// Whether the file was about to be created in place and must be copied again. `dir` is its directory's path below the
    /// target's root.
    pub fn unfinished(&self, dir: &[u8], leaf: &[u8]) -> bool {
        self.unfinished.get(dir).is_some_and(|leaves| leaves.contains(leaf))
    }

    /// Small files that were staged when an earlier run ended: a path in their directory, and the token.
    pub fn staged(&self) -> impl Iterator<Item = (Box<[u8]>, Token)> {
        staged_in(&self.unfinished).map(|(dir, token)| (staged_path(dir, &token), token))
    }

    /// Whether `unfinished` holds for any name in the directory: asked once for all of them.
    pub fn unfinished_in(&self, dir: &[u8]) -> bool {
        self.unfinished.contains_key(dir)
    }

    /// Whether `unfinished` holds for any name at all.
    pub fn any_unfinished(&self) -> bool {
        !self.unfinished.is_empty()
    }

    /// The time that a directory of the source had before an earlier run removed names of it.
    pub fn dir_time(&self, path: impl FnOnce() -> Vec<u8>) -> Option<Time> {
        if self.dir_times.is_empty() { None } else { self.dir_times.get(&xxh128(&path())).copied() }
    }

    /// Whether an earlier run of the job did not come to its end, even if it left nothing open.
    pub fn is_rerun(&self) -> bool {
        self.rerun
    }

    /// Whether there is an unfinished write of any version of this file.
    pub fn is_begun(&self, path: &[u8]) -> bool {
        !self.forget && self.lock().contains_key(path)
    }

    /// Whether there was nothing to go on with.
    pub fn is_empty(&self) -> bool {
        self.unfinished.is_empty() && self.lock().is_empty()
    }

    /// The sessions that were not taken, in order of opening: a complete run abandons them at its end.
    pub fn leftovers(&self) -> Vec<Session> {
        let mut left: Vec<Session> = std::mem::take(&mut *self.lock()).into_values().flatten().collect();
        left.sort_unstable_by_key(|session| session.session);
        left
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Vec<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
