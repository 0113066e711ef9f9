//! The state directory and a job's own directory in it.
//!
//! ```text
//! <root>/jobs/<id>/lock      who is at work on the job
//!                 /job       what the job is, for people and `haul jobs`
//!                 /journal   while it is not finished
//!                 /journal.N of rank N, where several processes do the job
//!                 /record    how it ended
//!                 /figures   what its last run took; of a finished job only this and the record are left
//! ```

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::identity::Identity;
use super::lock::{Here, Holder, Lock, SILENCE};
use super::progress::{Fold, Progress};
use super::record::{Record, VERSION};
use super::text;
use super::writer::Journal;
use crate::cancel::Cancel;
use crate::entry::show;
use crate::error::{Error, ErrorKind, Result};
use crate::hint::Hint;

/// Of the file with what a run took.
pub(super) const FIGURES: &str = "figures";

/// How often a run that waits for another looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The journals' directory: `$HAUL_STATE_DIR`, else `$XDG_STATE_HOME/haul`, else `$HOME/.local/state/haul`. Empty values count as
/// unset, and relative ones of the latter two (XDG). `None` if all are unset.
pub fn default_root(look: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |word: &str| look(word).filter(|value| !value.is_empty()).map(PathBuf::from);
    let absolute = |word: &str| path(word).filter(|path| path.is_absolute());
    path("HAUL_STATE_DIR")
        .or_else(|| absolute("XDG_STATE_HOME").map(|base| base.join("haul")))
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state/haul")))
}

/// The state directory of a user.
#[derive(Clone, Debug)]
pub struct State {
    root: PathBuf,
    here: Here,
}

/// How a run begins.
#[derive(Clone, Debug, Default)]
pub struct Begin {
    /// The command line, for `haul jobs`.
    pub command: String,
    /// The working directory, where it could be had, and the command line word by word: for `haul jobs resume`.
    pub directory: Option<Vec<u8>>,
    pub arguments: Vec<Vec<u8>>,
    /// The text of the transfer's spec; empty where there is none.
    pub spec: String,
    /// Discards receipts of earlier runs: their unfinished writes are stale. Names that were about to be created in place are
    /// still copied again.
    pub restart: bool,
    /// How long to wait for another run of the job; `None`: not at all.
    pub wait: Option<Duration>,
    /// Ends the wait.
    pub cancel: Cancel,
}

impl State {
    /// Makes the directory if it is missing.
    pub fn open(root: PathBuf) -> Result<State> {
        State::open_as(root, Here::find())
    }

    /// As `open`, for a process that passes for `here`.
    pub fn open_as(root: PathBuf, here: Here) -> Result<State> {
        let made = std::path::absolute(&root).and_then(|root| make_dir(&root.join("jobs")).map(|()| root));
        let root = made.map_err(|error| fail(error, "make the state directory", &root))?;
        Ok(State { root, here })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn here(&self) -> &Here {
        &self.here
    }

    pub(super) fn jobs(&self) -> PathBuf {
        self.root.join("jobs")
    }

    /// The journal of another rank than the first, once the first has opened its own: what earlier runs left, and where this rank
    /// writes. The lock is the first rank's. The progress is always that of a rerun, as the first rank has begun.
    pub fn join(&self, identity: &Identity, rank: u32, restart: bool) -> Result<(Journal, Progress)> {
        let dir = self.jobs().join(identity.id());
        let path = dir.join("journal");
        let (mut fold, _) = read_log(&path, &self.here).map_err(|error| unreadable(error, &path))?;
        if restart {
            fold.forget_receipts();
        }
        let Here { boot, host, pid, .. } = self.here.clone();
        let begun = Record::Begun { version: VERSION, identity: identity.clone(), boot, host, pid, unix_seconds: unix_now() };
        let journal = Journal::beside(&dir.join(format!("journal.{rank}")), fold.next_session, begun);
        Ok((journal, fold.into_progress(restart)))
    }

    /// Takes the job's lock. `Busy` if another run of the job holds it, with who and what to do; `Cancelled` if the wait was
    /// ended. Any other error: no journal can be kept.
    pub fn begin(&self, identity: &Identity, begin: Begin) -> Result<JobDir> {
        let path = self.jobs().join(identity.id());
        let until = begin.wait.and_then(|wait| Instant::now().checked_add(wait));
        let waits = begin.wait.is_some();
        let lock = loop {
            let taken = make_dir(&path).and_then(|()| Lock::take(&path.join("lock"), &self.here, unix_now()));
            let late = !waits || until.is_some_and(|until| Instant::now() >= until);
            match taken {
                Ok(Ok(lock)) => break lock,
                Ok(Err(holder)) if late => return Err(busy(holder.as_ref(), &self.here, unix_now())),
                Ok(Err(_)) => std::thread::sleep(LOOK_AGAIN),
                // `haul jobs clean` removed the directory between our two calls.
                Err(error) if error.kind() == io::ErrorKind::NotFound => std::thread::yield_now(),
                Err(error) => return Err(fail(error, "lock the job", &path)),
            }
            begin.cancel.check()?;
        };
        let job = JobDir { path, journal: Opened::default(), lock, identity: identity.clone(), begin, here: self.here.clone() };
        let _only_for_people = put_file(&job.path, "job", &job.about());
        let _those_of_the_run_before = remove(&job.path.join(FIGURES));
        Ok(job)
    }
}

/// Who holds the lock, and what can be done.
fn busy(holder: Option<&Holder>, here: &Here, now: i64) -> Error {
    let error = Error::new(ErrorKind::Busy, "start");
    let Some(holder) = holder else {
        return error.because("another run of this job is active").advise(Hint::Wait { kill: None, gone_in: None });
    };
    let silent = now.saturating_sub(holder.heartbeat).max(0);
    let pid = holder.here.pid;
    let error = error.because(format!(
        "another run of this job is active: process {pid} on {}, started {} ago, last heartbeat {} ago",
        holder.here.host,
        words(now.saturating_sub(holder.since)),
        words(silent)
    ));
    if holder.here.host == here.host {
        error.advise(Hint::Wait { kill: Some(pid), gone_in: None })
    } else {
        error.advise(Hint::Wait { kill: None, gone_in: Some(words(SILENCE - silent.min(SILENCE))) })
    }
}

/// Seconds, as a person says them.
fn words(seconds: i64) -> String {
    match seconds.max(0) {
        s @ 0..120 => format!("{s} s"),
        s @ 120..7_200 => format!("{} min", s / 60),
        s @ 7_200..172_800 => format!("{} h", s / 3_600),
        s => format!("{} days", s / 86_400),
    }
}

/// A job's directory, locked.
#[derive(Debug)]
pub struct JobDir {
    path: PathBuf,
    /// Before the lock, so that it is closed before another run can begin.
    journal: Opened,
    lock: Lock,
    identity: Identity,
    begin: Begin,
    here: Here,
}

/// The journal that was opened. Workers that are stuck may outlive the job's directory; what they append then is lost.
#[derive(Debug, Default)]
struct Opened(Mutex<Option<Journal>>);

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(journal) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            journal.close();
        }
    }
}

impl JobDir {
    /// Where the job's files are; files that spill are made here and unlinked at once.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn id(&self) -> String {
        self.identity.id()
    }

    /// Opens the journal, once: the progress of earlier runs, and where this run writes. A journal that cannot be read is an
    /// error, since it may name incomplete files; one that cannot be written is not, see [`Journal`].
    pub fn journal(&self) -> Result<(Journal, Progress)> {
        let path = self.path.join("journal");
        let (mut fold, good) = match read_logs(&self.path, &self.here) {
            Ok(read) => read,
            Err(_) if self.begin.restart => {
                if path.symlink_metadata().is_ok_and(|facts| facts.is_dir()) {
                    // One that cannot go is met again when the journal is to be written, and said then.
                    let _stays = std::fs::remove_dir_all(&path);
                }
                (Fold::new(self.here.boot, &self.here.host), 0)
            }
            Err(error) => return Err(unreadable(error, &path)),
        };
        if self.begin.restart {
            fold.forget_receipts();
        }
        let begun = Record::Begun {
            version: VERSION,
            identity: self.identity.clone(),
            boot: self.here.boot,
            host: self.here.host.clone(),
            pid: self.here.pid,
            unix_seconds: self.lock.since(),
        };
        let (journal, whole) = Journal::begin(&path, &fold, good, begun);
        if whole {
            // What they say is in the first one now.
            for other in others(&self.path).unwrap_or_default() {
                remove(&other).map_err(|error| fail(error, "remove", &other))?;
            }
        }
        *self.journal.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(journal.clone());
        Ok((journal, fold.into_progress(self.begin.restart)))
    }

    /// A heartbeat for other nodes, every 5 s. `Busy` if a run on another node took the lock after a minute without one: then this
    /// run must stop.
    pub fn heartbeat(&self, now: SystemTime) -> Result<()> {
        let now = unix(now);
        match self.lock.heartbeat(now) {
            None => Ok(()),
            Some(other) => Err(busy(Some(&other), &self.here, now)),
        }
    }

    /// Ends a complete job: only `record`, a short text, is kept. An error if that cannot be written; the lock is released in any
    /// case.
    pub fn finish(self, record: &str) -> Result<()> {
        if let Some(journal) = self.journal.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            journal.finish();
        }
        let mut about = self.about();
        text::put(&mut about, "finished", &unix_now().to_string());
        about.push('\n');
        about.push_str(record);
        let written = put_file(&self.path, "record", &about);
        for other in others(&self.path).unwrap_or_default() {
            remove(&other).map_err(|error| fail(error, "remove", &other))?;
        }
        for name in ["journal", "journal.new", "job"] {
            remove(&self.path.join(name)).map_err(|error| fail(error, "remove", &self.path.join(name)))?;
        }
        self.lock.remove();
        written.map_err(|error| fail(error, "write the record", &self.path))
    }

    /// Keeps what this run took, a short text, in the place of what the run before took: for [`JobInfo::figures`]. A run that is
    /// killed leaves none, so that those of an older one are not taken for its own.
    ///
    /// [`JobInfo::figures`]: super::JobInfo
    pub fn note(&self, figures: &str) -> Result<()> {
        put_file(&self.path, FIGURES, figures).map_err(|error| fail(error, "write the figures", &self.path))
    }

    /// Ends an incomplete job: flushes the journal, which stays for the next run. Dropping does the same.
    pub fn keep(self) {}

    fn about(&self) -> String {
        let mut about = String::new();
        for source in &self.identity.sources {
            text::put(&mut about, "source", source);
        }
        text::put(&mut about, "target", &self.identity.target);
        if !self.identity.reached.is_empty() {
            text::put(&mut about, "reached", &self.identity.reached);
        }
        text::put(&mut about, "command", &self.begin.command);
        if let Some(directory) = &self.begin.directory {
            text::put(&mut about, "directory", &show(directory));
        }
        for argument in &self.begin.arguments {
            text::put(&mut about, "argument", &show(argument));
        }
        if !self.begin.spec.is_empty() {
            text::put(&mut about, "spec", &self.begin.spec);
        }
        text::put(&mut about, "started", &self.lock.since().to_string());
        about
    }
}

/// The journals of the job's other ranks.
pub(super) fn others(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let rank = name.to_str().and_then(|name| name.strip_prefix("journal."));
        if rank.is_some_and(|rank| rank.bytes().all(|byte| byte.is_ascii_digit())) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Folds the logs of all ranks. Those of others are of no interest once the first one says that the job is finished.
pub(super) fn read_logs(dir: &Path, here: &Here) -> io::Result<(Fold, u64)> {
    let (mut fold, good) = read_log(&dir.join("journal"), here)?;
    if !fold.finished {
        for path in others(dir)? {
            fold.merge(read_log(&path, here)?.0);
        }
    }
    Ok((fold, good))
}

/// Folds a log as it looks from `here`; an absent one is empty.
pub(super) fn read_log(path: &Path, here: &Here) -> io::Result<(Fold, u64)> {
    match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path) {
        Ok(file) => Fold::read(here.boot, &here.host, BufReader::with_capacity(256 << 10, file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((Fold::new(here.boot, &here.host), 0)),
        Err(error) => Err(error),
    }
}

pub(super) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

pub(super) fn fail(error: io::Error, op: &'static str, path: &Path) -> Error {
    Error::io(error, op).at(path.as_os_str().as_encoded_bytes())
}

/// A journal that is there and cannot be read may name files that look whole and are not. A limit is no fault of it.
fn unreadable(error: io::Error, path: &Path) -> Error {
    let e = fail(error, "read the journal", path);
    if e.kind() == ErrorKind::Limit { e } else { e.kind_is(ErrorKind::Io).advise(Hint::ForgetJournal) }
}

fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The whole text or what was there before.
fn put_file(dir: &Path, name: &str, words: &str) -> io::Result<()> {
    let beside = dir.join(format!("{name}.new"));
    let write = |mut file: File| file.write_all(words.as_bytes());
    let options = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(&beside);
    let written = options.and_then(write).and_then(|()| std::fs::rename(&beside, dir.join(name)));
    if written.is_err() {
        let _best_effort = std::fs::remove_file(&beside);
    }
    written
}

pub(super) fn unix(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_secs() as i64,
        Err(before) => -(before.duration().as_secs() as i64),
    }
}

fn unix_now() -> i64 {
    unix(SystemTime::now())
}
