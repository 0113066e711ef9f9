//! Makes a data set: directories level by level, then files by all workers, then what names them, then the directories' times.
//!
//! A file costs four system calls (create, write, time, close), each relative to a directory that is open.

use std::fs::File as Written;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use haul_core::cancel::Cancel;
use haul_core::{Error, ErrorKind, Result};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, XattrFlags, fsetxattr, ftruncate, futimens};
use rustix::fs::{linkat, mkdirat, openat, symlinkat, unlinkat, utimensat};
use rustix::io::Errno;
use serde::Serialize;

use super::look::{Found, admit, holds_beginning, look, room, survey};
use super::order::mix;
use super::plan::{File, Kind, Plan, mtime};
use super::worker::{BUFFER, Worker, each, open_top};

/// Failures that are reported; the others are counted.
const MOST_FAILURES: usize = 20;

#[derive(Clone, Copy)]
pub struct How<'a> {
    pub threads: usize,
    /// Other things may be in the directory.
    pub add: bool,
    pub cancel: &'a Cancel,
    pub tally: &'a Tally,
}

/// Progress, read while the set is made.
#[derive(Debug, Default)]
pub struct Tally {
    /// Files and links.
    pub entries: AtomicU64,
    /// Lengths of files, counted as they are written.
    pub bytes: AtomicU64,
    pub dirs: AtomicU64,
    /// Entries that were there as planned, not in `entries`.
    pub kept: AtomicU64,
}

#[derive(Debug, Serialize)]
pub struct Made {
    #[serde(rename = "files")]
    pub entries: u64,
    pub bytes: u64,
    pub dirs: u64,
    /// Files and links that were there as planned.
    pub kept: u64,
    /// Names that could not be made.
    pub failed: u64,
    #[serde(skip)]
    pub failures: Vec<Error>,
    pub seconds: f64,
    /// A signal stopped it; all files are complete, and the same call resumes.
    pub interrupted: bool,
}

/// Makes a set in a directory, which is made as well if only its own name is missing.
///
/// Errors, before anything is made: `Usage` where the directory holds something else, `NoSpace` where bytes or inodes would not
/// do. Later: what ends a run (disk full, read-only, no extended attributes there). Names that cannot be made are in the result.
pub fn make(plan: &Plan, dir: &Path, how: How<'_>) -> Result<Made> {
    let began = Instant::now();
    let shown = dir.as_os_str().as_encoded_bytes();
    let new = match mkdirat(CWD, dir, Mode::from_raw_mode(0o777)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(Errno::NOENT) => {
            let e = Error::io(Errno::NOENT.into(), "make directory").at(shown).because("the directory above it is missing");
            return Err(e.hint("make that first, with mkdir -p"));
        }
        Err(e) => return Err(Error::io(e.into(), "make directory").at(shown)),
    };
    let top = open_top(dir)?;
    let standing = survey(plan, top.as_fd(), how.threads, how.cancel)?;
    let admitted = admit(&standing, how.add).and_then(|()| room(plan, top.as_fd(), &standing));
    if let Err(e) = admitted {
        if new {
            let _ = unlinkat(CWD, dir, AtFlags::REMOVEDIR);
        }
        return Err(e.at(shown));
    }
    let work = Work { plan, top: top.as_fd(), how, look_first: !standing.is_empty(), failures: Mutex::default() };
    let ended = work.all();
    let interrupted = matches!(&ended, Err(e) if e.kind() == ErrorKind::Cancelled);
    if !interrupted {
        ended.map_err(|e| e.at(shown))?;
    }
    let (failed, failures) = work.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let Tally { entries, bytes, dirs, kept } = how.tally;
    let (entries, bytes, dirs, kept) = (of(entries), of(bytes), of(dirs), of(kept));
    Ok(Made { entries, bytes, dirs, kept, failed, failures, seconds: began.elapsed().as_secs_f64(), interrupted })
}

struct Work<'a> {
    plan: &'a Plan,
    top: BorrowedFd<'a>,
    how: How<'a>,
    /// Something of the set is there.
    look_first: bool,
    failures: Mutex<(u64, Vec<Error>)>,
}

impl Work<'_> {
    fn all(&self) -> Result<()> {
        self.dirs()?;
        self.files()?;
        self.hard_links()?;
        self.dir_times()
    }

    fn each(&self, count: u64, work: impl Fn(&mut [Worker<'_>; 2], u64) -> Result<()> + Sync) -> Result<()> {
        each((self.plan, self.top), count, self.how.threads, self.how.cancel, work)
    }

    /// Level by level, because a directory needs the one above.
    fn dirs(&self) -> Result<()> {
        for depth in 0..=self.plan.totals().depth {
            let level = self.plan.skeleton.level(depth);
            self.each(level.end - level.start, |[worker, _], nth| {
                let dir = level.start + nth;
                let Some(parent) = self.plan.skeleton.parent(dir) else { return Ok(()) };
                match worker.dir(parent).and_then(|above| mkdir(above, &self.plan.dir_name(dir))) {
                    Ok(true) => drop(self.how.tally.dirs.fetch_add(1, Ordering::Relaxed)),
                    Ok(false) => {}
                    Err(e) => self.failed(e, &self.plan.dir_path(dir))?,
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn files(&self) -> Result<()> {
        self.each(self.plan.skeleton.entries(), |[worker, _], number| {
            let file = self.plan.file(number);
            let made = match file.kind {
                Kind::HardLink(_) => return Ok(()),
                Kind::Regular => self.regular(worker, number, &file),
                Kind::Symlink(to) => self.symlink(worker, number, to, &file),
            };
            self.count(made, number)
        })
    }

    /// After the files, which must exist.
    fn hard_links(&self) -> Result<()> {
        if self.plan.totals().hard_links == 0 {
            return Ok(());
        }
        self.each(self.plan.skeleton.entries(), |[worker, there], number| {
            let file = self.plan.file(number);
            match file.kind {
                Kind::HardLink(leader) => self.count(self.hard_link(worker, there, number, leader, &file), number),
                _ => Ok(()),
            }
        })
    }

    /// At the end, because creating names in a directory changes its time.
    fn dir_times(&self) -> Result<()> {
        self.each(self.plan.skeleton.dirs(), |[worker, _], dir| {
            if dir == 0 {
                return Ok(());
            }
            let times = times(self.plan.dir_seed(dir));
            // A directory that could not be made was reported before.
            match worker.dir(dir).and_then(|fd| futimens(fd, &times).map_err(|e| Error::io(e.into(), "set time"))) {
                Err(e) if e.kind() != ErrorKind::NotFound => self.failed(e, &self.plan.dir_path(dir)),
                _ => Ok(()),
            }
        })
    }

    fn count(&self, made: Result<bool>, number: u64) -> Result<()> {
        let tally = self.how.tally;
        match made {
            Ok(true) => drop(tally.entries.fetch_add(1, Ordering::Relaxed)),
            Ok(false) => drop(tally.kept.fetch_add(1, Ordering::Relaxed)),
            Err(e) => self.failed(e, &self.plan.path(number))?,
        }
        Ok(())
    }

    /// Keeps a failure of one name; an error is one of the whole run.
    fn failed(&self, e: Error, path: &[u8]) -> Result<()> {
        if e.kind().ends_the_run() || e.kind() == ErrorKind::Unsupported {
            return Err(e);
        }
        let e = match e.kind() {
            ErrorKind::BadName => e.hint("this file system takes no such names; --odd-names 0 makes none"),
            ErrorKind::Other if !path.is_ascii() => e.hint("this file system may take no such names; --odd-names 0 makes none"),
            _ => e,
        };
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.0 += 1;
        if failures.1.len() < MOST_FAILURES {
            let mut named = Error::new(e.kind(), e.op()).at(path).because(e.reason());
            if let Some(hint) = e.next_step() {
                named = named.hint(hint);
            }
            failures.1.push(named);
        }
        Ok(())
    }

    /// Whether an entry still has to be made; with it, whether something incomplete is under its name.
    fn wanted(&self, dir: BorrowedFd<'_>, name: &[u8], file: &File, target: impl FnOnce() -> Vec<u8>) -> Result<Option<bool>> {
        if !self.look_first {
            return Ok(Some(false));
        }
        match look(dir, name, file, target)? {
            Found::Absent => Ok(Some(false)),
            Found::Complete => Ok(None),
            Found::Torn if holds_beginning(dir, name, file, &self.plan.content, self.how.cancel)? => Ok(Some(true)),
            Found::Torn | Found::Other => Err(Error::new(ErrorKind::Exists, "create").at(name)),
        }
    }

    fn regular(&self, worker: &mut Worker<'_>, number: u64, file: &File) -> Result<bool> {
        let set = self.plan;
        let (name, mut buffer) = (set.file_name(number), worker.buffer());
        let made = worker.dir(set.skeleton.dir_of(number)).and_then(|dir| {
            let Some(again) = self.wanted(dir, &name, file, Vec::new)? else { return Ok(false) };
            let to = create(dir, &name, again)?;
            let mut written = 0;
            let complete = self.write(&to, file, &mut buffer, &mut written).and_then(|()| self.finish(&to, file));
            if let Err(e) = complete.and_then(|()| close(to.into())) {
                // An incomplete file would look like data.
                self.how.tally.bytes.fetch_sub(written, Ordering::Relaxed);
                let _ = unlinkat(dir, name.as_slice(), AtFlags::empty());
                return Err(e);
            }
            Ok(true)
        });
        worker.buffer = buffer;
        made
    }

    /// Writes the data of a file; holes are left out.
    fn write(&self, to: &Written, file: &File, buffer: &mut [u8], written: &mut u64) -> Result<()> {
        let mut count = |at: u64| {
            self.how.tally.bytes.fetch_add(at - *written, Ordering::Relaxed);
            *written = at;
        };
        let mut at = 0;
        while let Some(data) = self.plan.content.next_data(file.seed, at..file.size) {
            let piece = data.start..data.end.min(data.start + BUFFER as u64);
            let bytes = &mut buffer[..(piece.end - piece.start) as usize];
            self.plan.content.fill(file.seed, piece.start, bytes);
            to.write_all_at(bytes, piece.start).map_err(|e| Error::io(e, "write"))?;
            at = piece.end;
            count(at);
            if at < file.size {
                self.how.cancel.check()?;
            }
        }
        count(file.size);
        Ok(())
    }

    fn finish(&self, fd: &Written, file: &File) -> Result<()> {
        if self.plan.content.ends_in_hole(file.seed, file.size) {
            ftruncate(fd, file.size).map_err(|e| Error::io(e.into(), "set length"))?;
        }
        for number in 0..self.plan.xattrs {
            let value = format!("{:032x}", u128::from(mix(file.seed ^ u64::from(number))) << 64 | u128::from(file.seed));
            fsetxattr(fd, format!("user.haul.{number}"), value.as_bytes(), XattrFlags::empty()).map_err(|e| {
                let e = Error::io(e.into(), "set extended attribute");
                // More than an inode holds is "no space" in the words of some file systems, and is not the disk's.
                let e = if e.kind() == ErrorKind::NoSpace { e.kind_is(ErrorKind::Unsupported) } else { e };
                e.hint("this file system takes none or not so many; give a smaller --xattrs, or leave it out")
            })?;
        }
        futimens(fd, &times(file.seed)).map_err(|e| Error::io(e.into(), "set time"))
    }

    fn symlink(&self, worker: &mut Worker<'_>, number: u64, to: u64, file: &File) -> Result<bool> {
        let set = self.plan;
        let (name, target) = (set.file_name(number), set.target(number, to));
        let dir = worker.dir(set.skeleton.dir_of(number))?;
        if self.wanted(dir, &name, file, || target.clone())?.is_none() {
            return Ok(false);
        }
        symlinkat(target.as_slice(), dir, name.as_slice()).map_err(|e| Error::io(e.into(), "make symbolic link"))?;
        let timed = utimensat(dir, name.as_slice(), &times(file.seed), AtFlags::SYMLINK_NOFOLLOW);
        timed.map_err(|e| Error::io(e.into(), "set time")).map(|()| true)
    }

    fn hard_link(&self, worker: &mut Worker<'_>, there: &mut Worker<'_>, number: u64, leader: u64, file: &File) -> Result<bool> {
        let set = self.plan;
        let name = set.file_name(number);
        let dir = worker.dir(set.skeleton.dir_of(number))?;
        match self.wanted(dir, &name, file, Vec::new)? {
            None => return Ok(false),
            Some(true) => unlinkat(dir, name.as_slice(), AtFlags::empty()).map_err(|e| Error::io(e.into(), "remove"))?,
            Some(false) => {}
        }
        let from = there.dir(set.skeleton.dir_of(leader))?;
        linkat(from, set.file_name(leader).as_slice(), dir, name.as_slice(), AtFlags::empty())
            .map_err(|e| Error::io(e.into(), "make hard link"))
            .map(|()| true)
    }
}

fn times(seed: u64) -> Timestamps {
    let time = mtime(seed);
    let time = Timespec { tv_sec: time.secs, tv_nsec: time.nanos.into() };
    Timestamps { last_access: time, last_modification: time }
}

/// `false` if it is there.
fn mkdir(above: BorrowedFd<'_>, name: &[u8]) -> Result<bool> {
    match mkdirat(above, name, Mode::from_raw_mode(0o777)) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(e) => Err(Error::io(e.into(), "make directory")),
    }
}

/// A new file, or an incomplete one.
fn create(dir: BorrowedFd<'_>, name: &[u8], again: bool) -> Result<Written> {
    let how = if again { OFlags::TRUNC } else { OFlags::EXCL };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | how;
    openat(dir, name, flags, Mode::from_raw_mode(0o666)).map(Written::from).map_err(|e| Error::io(e.into(), "create"))
}

/// Network file systems report a full disk or quota here.
pub fn close(fd: OwnedFd) -> Result<()> {
    // SAFETY: the descriptor is owned and given up here, so nobody closes it twice.
    match unsafe { libc::close(fd.into_raw_fd()) } {
        0 => Ok(()),
        _ => match std::io::Error::last_os_error() {
            // The descriptor is closed all the same.
            e if e.kind() == std::io::ErrorKind::Interrupted => Ok(()),
            e => Err(Error::io(e, "close")),
        },
    }
}
