//! What `haul jobs` shows and removes.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::identity::is_id;
use super::lock::{self, Here, Lock};
use super::progress::Leftovers;
use super::state::{FIGURES, State, fail, others, read_logs, remove, unix};
use super::text;
use crate::entry::unshown;
use crate::error::Result;
use crate::store::Token;

/// A job that left something in the state directory. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobInfo {
    pub id: String,
    pub sources: Vec<String>,
    pub target: String,
    /// As [`super::Identity::reached`].
    pub reached: String,
    pub command: String,
    /// As [`super::Begin::directory`]; `None` also for a job of an earlier version.
    pub directory: Option<Vec<u8>>,
    /// As [`super::Begin::arguments`]; empty for a job of an earlier version.
    pub arguments: Vec<Vec<u8>>,
    /// As [`super::Begin::spec`]; `None` for a job of an earlier version.
    pub spec: Option<String>,
    /// When its last run began.
    pub started: Option<i64>,
    /// The last sign of life of a run that is not finished.
    pub heartbeat: Option<i64>,
    pub state: JobState,
    /// What its last run took, if that came to an end: see [`JobDir::note`](super::JobDir::note).
    pub figures: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    Running {
        pid: u32,
        host: String,
    },
    Unfinished {
        /// Large files that are partly there, by path below the target's root.
        staging: Vec<(Box<[u8]>, Token)>,
        /// Bytes of them that landed.
        landed: u64,
        /// Small files that may be there under a staging name.
        small: u64,
        /// Small files that the next run does again.
        names: u64,
    },
    Finished {
        record: String,
        /// When it finished.
        at: Option<i64>,
    },
}

/// What the names of a job's files tell of it, without its journal being read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    pub id: String,
    pub finished: bool,
    pub sources: Vec<String>,
    pub target: String,
}

/// The jobs below a state directory, in no order; what cannot be read is left out, and nothing is made.
pub fn glance(root: &Path) -> Vec<Glance> {
    let look = |entry: std::fs::DirEntry| {
        let id = entry.file_name().to_str().filter(|id| is_id(id))?.to_string();
        let about = ["job", "record"].iter().find_map(|name| read_text(&entry.path().join(name)).ok()?)?;
        let finished = !entry.path().join("journal").exists();
        let target = text::one(&about, "target").unwrap_or_default();
        Some(Glance { id, finished, sources: text::all(&about, "source").collect(), target })
    };
    std::fs::read_dir(root.join("jobs")).into_iter().flatten().flatten().filter_map(look).collect()
}

/// Which jobs to remove: all that are named (all, if none is) and old enough. None that is at work.
#[derive(Clone, Debug, Default)]
pub struct Pick {
    pub ids: Vec<String>,
    /// No sign of life for this long.
    pub older_than: Option<Duration>,
}

impl Pick {
    /// Whether the job is meant, at work or not.
    pub fn means(&self, info: &JobInfo, now: SystemTime) -> bool {
        let named = self.ids.is_empty() || self.ids.contains(&info.id);
        named && self.older_than.is_none_or(|age| unix(now).saturating_sub(info.seen()) >= age.as_secs() as i64)
    }
}

/// What `State::clean` found.
#[derive(Debug, Default)]
pub struct Clean {
    pub jobs: Vec<Cleaning>,
    /// Picked, but at work.
    pub running: Vec<JobInfo>,
    /// Named, but not there.
    pub unknown: Vec<String>,
}

/// A job about to be removed, locked for the lifetime of this value. The caller first abandons its unfinished writes: the journal
/// has their only record.
#[derive(Debug)]
pub struct Cleaning {
    pub info: JobInfo,
    /// Unfinished writes: path below the target's root, and token.
    pub leftovers: Vec<(Box<[u8]>, Token)>,
    dir: PathBuf,
    lock: Lock,
}

impl State {
    /// Every job, those that began last first. A job whose files cannot be read is left out.
    pub fn list(&self, now: SystemTime) -> Result<Vec<JobInfo>> {
        let jobs = self.jobs();
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&jobs).map_err(|error| fail(error, "list", &jobs))? {
            let entry = entry.map_err(|error| fail(error, "list", &jobs))?;
            let name = entry.file_name();
            if let Some(id) = name.to_str().filter(|id| is_id(id)) {
                found.extend(inspect(&entry.path(), id, self.here(), unix(now)).ok());
            }
        }
        found.sort_by(|a, b| b.started.cmp(&a.started).then_with(|| a.id.cmp(&b.id)));
        Ok(found)
    }

    /// Locks the jobs that `pick` means; each is removed by [`Cleaning::remove`].
    pub fn clean(&self, pick: &Pick, now: SystemTime) -> Result<Clean> {
        let all = self.list(now)?;
        let mut clean = Clean::default();
        clean.unknown.extend(pick.ids.iter().filter(|id| !all.iter().any(|info| info.id == **id)).cloned());
        for info in all {
            if !pick.means(&info, now) {
                continue;
            }
            let dir = self.jobs().join(&info.id);
            match Lock::take(&dir.join("lock"), self.here(), unix(now)) {
                Ok(Ok(lock)) => {
                    // A job that has to stay is as old as before.
                    if let Some(seen) = info.heartbeat.or(info.started) {
                        lock.keep_heartbeat(seen);
                    }
                    // Looked at again now that nobody changes it.
                    match read_logs(&dir, self.here()) {
                        Ok((fold, _)) => {
                            let left = fold.into_leftovers();
                            let leftovers = left.large.into_iter().chain(left.small).collect();
                            clean.jobs.push(Cleaning { info, leftovers, dir, lock });
                        }
                        Err(error) => return Err(fail(error, "read the journal", &dir)),
                    }
                }
                Ok(Err(_)) => clean.running.push(info),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(fail(error, "lock the job", &dir)),
            }
        }
        Ok(clean)
    }
}

impl JobInfo {
    /// The last that was heard of it.
    fn seen(&self) -> i64 {
        let finished = match self.state {
            JobState::Finished { at, .. } => at,
            _ => None,
        };
        [self.started, self.heartbeat, finished].into_iter().flatten().max().unwrap_or(0)
    }
}

impl Cleaning {
    pub fn remove(self) -> Result<()> {
        for name in ["journal", "journal.new", "job", "job.new", "record", "record.new", FIGURES, "figures.new"] {
            let path = self.dir.join(name);
            remove(&path).map_err(|error| fail(error, "remove", &path))?;
        }
        for path in others(&self.dir).unwrap_or_default() {
            remove(&path).map_err(|error| fail(error, "remove", &path))?;
        }
        self.lock.remove();
        match std::fs::remove_dir(&self.dir) {
            // A new run of the job has begun in it already.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            result => result.map_err(|error| fail(error, "remove", &self.dir)),
        }
    }
}

fn inspect(dir: &Path, id: &str, here: &Here, now: i64) -> io::Result<JobInfo> {
    let holder = lock::holder_of(&dir.join("lock"));
    let about = read_text(&dir.join("job"))?;
    let record = read_text(&dir.join("record"))?;
    let journal = dir.join("journal");
    let at_work = holder.as_ref().filter(|holder| holder.is_at_work(here, now, false, lock::born));
    let mut identity = None;
    let state = match (at_work, &record) {
        (Some(holder), _) => JobState::Running { pid: holder.here.pid, host: holder.here.host.clone() },
        (None, Some(record)) if !journal.try_exists()? => finished(record),
        (None, _) => {
            let (fold, _) = read_logs(dir, here)?;
            match &record {
                Some(record) if fold.finished => finished(record),
                _ => {
                    identity = fold.identity.clone();
                    let Leftovers { large, landed, small, names } = fold.into_leftovers();
                    JobState::Unfinished { staging: large, landed, small: small.len() as u64, names }
                }
            }
        }
    };
    let about = about.or(record).unwrap_or_default();
    let mut info = JobInfo {
        id: id.to_string(),
        sources: text::all(&about, "source").collect(),
        target: text::one(&about, "target").unwrap_or_default(),
        reached: text::one(&about, "reached").unwrap_or_default(),
        command: text::one(&about, "command").unwrap_or_default(),
        directory: text::one(&about, "directory").map(|directory| unshown(&directory)),
        arguments: text::all(&about, "argument").map(|argument| unshown(&argument)).collect(),
        spec: text::one(&about, "spec"),
        started: text::number(&about, "started"),
        heartbeat: holder.map(|holder| holder.heartbeat),
        state,
        figures: read_text(&dir.join(FIGURES))?,
    };
    // The file beside it may be missing, as after a full disk.
    if let Some(identity) = identity.filter(|_| info.sources.is_empty()) {
        info.sources = identity.sources;
        info.target = identity.target;
        info.reached = identity.reached;
    }
    Ok(info)
}

fn finished(record: &str) -> JobState {
    JobState::Finished { record: text::rest(record).to_string(), at: text::number(record, "finished") }
}

fn read_text(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
