//! One run of a job at a time, on one node or on several that share a home directory.
//!
//! The evidence, best first: a file lock that is refused; the same boot and a live process; a heartbeat. A file lock that is
//! granted says nothing about other nodes: some file systems keep locks to themselves or have none.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::text;

/// Seconds after which a run on another node that has shown no sign of life counts as gone: a dozen heartbeats.
pub(super) const SILENCE: i64 = 60;

/// Bytes of a lock file that are read at most.
const TEXT_MOST: usize = 4096;

/// This process, so that other processes can tell whether it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Here {
    pub host: String,
    /// Drawn by the kernel at boot.
    pub boot: [u8; 16],
    pub pid: u32,
    /// When the process started, in ticks since boot: tells it from a later one with its number.
    pub born: u64,
    /// The namespace in which `pid` counts.
    pub space: u64,
}

impl Here {
    /// What cannot be found out is zero or empty.
    pub fn find() -> Self {
        let pid = std::process::id();
        Here {
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            boot: std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().and_then(|words| unhex(&words)).unwrap_or_default(),
            pid,
            born: born(pid).unwrap_or(0),
            space: std::fs::metadata("/proc/self/ns/pid").map_or(0, |space| space.ino()),
        }
    }
}

/// When a living process of this pid namespace started; `None` if there is none, or only its corpse.
pub(super) fn born(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may itself hold brackets and spaces.
    let after = &stat[stat.iter().rposition(|b| *b == b')')? + 1..];
    let mut fields = std::str::from_utf8(after).ok()?.split_ascii_whitespace();
    match fields.next()? {
        "Z" | "X" => None,
        _ => fields.nth(18)?.parse().ok(),
    }
}

/// Who a lock file speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub here: Here,
    /// Seconds since 1970 at which the run began, and of its last sign of life.
    pub since: i64,
    pub heartbeat: i64,
    /// Whether it let go of the lock itself.
    pub released: bool,
}

impl Holder {
    /// Always of one length for one run, so that it can be written over the one before.
    fn text(&self) -> String {
        let mut out = String::new();
        text::put(&mut out, "host", &self.here.host);
        text::put(&mut out, "boot", &self.here.boot.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        text::put(&mut out, "pid", &self.here.pid.to_string());
        text::put(&mut out, "born", &self.here.born.to_string());
        text::put(&mut out, "space", &self.here.space.to_string());
        text::put(&mut out, "since", &self.since.to_string());
        text::put(&mut out, "heartbeat", &format!("{:<20}", self.heartbeat));
        text::put(&mut out, "state", if self.released { "released" } else { "running " });
        out
    }

    pub fn parse(words: &str) -> Option<Self> {
        Some(Holder {
            here: Here {
                host: text::one(words, "host")?,
                boot: unhex(&text::one(words, "boot")?)?,
                pid: text::number(words, "pid")?,
                born: text::number(words, "born")?,
                space: text::number(words, "space")?,
            },
            since: text::number(words, "since")?,
            heartbeat: text::number(words, "heartbeat")?,
            released: text::one(words, "state")?.trim() == "released",
        })
    }

    /// Whether the holder is still active, as far as `here` shows at `now` (seconds since 1970). `locked`: the file lock was
    /// granted to us. `born` is [`born`].
    pub fn is_at_work(&self, here: &Here, now: i64, locked: bool, born: impl Fn(u32) -> Option<u64>) -> bool {
        let same_boot = self.here.boot == here.boot;
        if self.released || locked && (same_boot || self.here.host == here.host) {
            return false;
        }
        if same_boot && self.here.space == here.space {
            return born(self.here.pid) == Some(self.here.born);
        }
        now.saturating_sub(self.heartbeat) < SILENCE
    }
}

/// A lock, held until it is dropped. A kill frees it for this node at once, for others after `SILENCE`.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
    holder: Mutex<Holder>,
}

impl Lock {
    /// `Ok(Err(holder))` if another run has it, with what is known of that one.
    pub fn take(path: &Path, here: &Here, now: i64) -> io::Result<Result<Lock, Option<Holder>>> {
        let file = loop {
            let file = options().create(true).open(path)?;
            let locked = match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => true,
                Err(Errno::WOULDBLOCK) => return Ok(Err(read(&file))),
                Err(Errno::INTR) => continue,
                // A file system without locks.
                Err(_) => false,
            };
            if !is_there(path, &file) {
                continue; // removed by the run that held it, between our two calls
            }
            match read(&file) {
                Some(holder) if holder.is_at_work(here, now, locked, born) => return Ok(Err(Some(holder))),
                _ => break file,
            }
        };
        let holder = Holder { here: here.clone(), since: now, heartbeat: now, released: false };
        let words = holder.text();
        // On a full disk the file lock has to do.
        let _words_are_for_others = file.write_all_at(words.as_bytes(), 0).and_then(|()| file.set_len(words.len() as u64));
        Ok(Ok(Lock { file, path: path.to_path_buf(), holder: Mutex::new(holder) }))
    }

    /// A heartbeat. Returns the new holder if another node took the lock, after this process was stopped for longer than
    /// `SILENCE`.
    pub fn heartbeat(&self, now: i64) -> Option<Holder> {
        let mut holder = self.holder.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(other) = holder_of(&self.path)
            && other.here != holder.here
        {
            return Some(other);
        }
        holder.heartbeat = now;
        let _next_one_may_work = self.file.write_all_at(holder.text().as_bytes(), 0);
        None
    }

    /// The last heartbeat is said to have been then when the lock is dropped: who looks after an old run has not gone on with it.
    pub fn keep_heartbeat(&self, at: i64) {
        self.holder.lock().unwrap_or_else(std::sync::PoisonError::into_inner).heartbeat = at;
    }

    pub fn since(&self) -> i64 {
        self.holder.lock().unwrap_or_else(std::sync::PoisonError::into_inner).since
    }

    /// Removes the file while the lock is held; those who wait for it look whether it is still there.
    pub fn remove(self) {
        let _best_effort = std::fs::remove_file(&self.path);
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let holder = self.holder.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if read(&self.file).is_none_or(|found| found.here == holder.here) {
            holder.released = true;
            let _best_effort = self.file.write_all_at(holder.text().as_bytes(), 0);
        }
    }
}

/// What the lock file says, without taking it.
pub(super) fn holder_of(path: &Path) -> Option<Holder> {
    read(&options().open(path).ok()?)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options
}

fn read(file: &File) -> Option<Holder> {
    let mut words = [0; TEXT_MOST];
    let got = file.read_at(&mut words, 0).ok()?;
    Holder::parse(&String::from_utf8_lossy(&words[..got]))
}

fn is_there(path: &Path, file: &File) -> bool {
    match (std::fs::symlink_metadata(path), file.metadata()) {
        (Ok(named), Ok(open)) => (named.dev(), named.ino()) == (open.dev(), open.ino()),
        _ => false,
    }
}

fn unhex(words: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = words.bytes().filter_map(|b| char::from(b).to_digit(16).map(|d| d as u8)).collect();
    let mut bytes = [0; 16];
    if digits.len() != 32 {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Some(bytes)
}
