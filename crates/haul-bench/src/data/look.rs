//! How much of a set exists, by looking up all of its names and counting all others; and whether it may be created there.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use haul_core::cancel::Cancel;
use haul_core::units::{bytes, count};
use haul_core::{Error, ErrorKind, Result};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstatvfs, openat, readlinkat, statat};
use rustix::io::Errno;

use super::content::Content;
use super::plan::{BLOCK, File, Kind, Plan, mtime};
use super::worker::{BUFFER, each};

/// The coarsest times of file systems in use: two seconds (FAT).
const TIME_GRAIN: i64 = 2;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Files and links that are as planned, by size and time, not by content.
    pub complete: u64,
    /// Blocks of the complete ones, in bytes.
    pub allocated: u64,
    pub dirs: u64,
    /// Incomplete files: they hold the beginning of what is planned, and have another time. Nothing is lost when they are written
    /// again.
    pub begun: u64,
    /// Planned names that something else has, a file of the set that was changed among them.
    pub other: u64,
    pub foreign: u64,
    /// One of the names that are in the way, below the top.
    pub example: Option<Vec<u8>>,
}

impl Standing {
    pub fn is_empty(&self) -> bool {
        self.complete + self.dirs + self.begun + self.other + self.foreign == 0
    }

    /// Whether this is the same set, or what an interrupted run has left of it.
    pub fn resumes(&self) -> bool {
        self.other == 0 && self.foreign == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Absent,
    Complete,
    /// Incomplete, if it holds the beginning of what is planned: see [`holds_beginning`].
    Torn,
    Other,
}

/// Looks an entry up. Links are complete if they lead where they should.
pub fn look(dir: BorrowedFd<'_>, name: &[u8], file: &File, target: impl FnOnce() -> Vec<u8>) -> Result<Found> {
    let stat = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(Found::Absent),
        // A name that cannot be looked up cannot be there.
        Err(Errno::ILSEQ | Errno::NAMETOOLONG | Errno::INVAL) => return Ok(Found::Absent),
        Err(e) => return Err(Error::io(e.into(), "look up").at(name)),
    };
    if let Kind::Symlink(_) = file.kind {
        let same = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
            && readlinkat(dir, name, Vec::new()).is_ok_and(|found| found.as_bytes() == target());
        return Ok(if same { Found::Complete } else { Found::Other });
    }
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(Found::Other);
    }
    let size = stat.st_size.cast_unsigned();
    Ok(match same_time(&stat, file.seed) {
        _ if size > file.size => Found::Other,
        true if size == file.size => Found::Complete,
        true => Found::Other,
        false => Found::Torn,
    })
}

/// How far a file holds what is planned.
pub enum Held {
    /// All that it has is right, and it ends there.
    Until(u64),
    /// The byte there is another, or behind the planned end.
    DiffersAt(u64),
}

pub fn held(mut from: std::fs::File, name: &[u8], file: &File, content: &Content, cancel: &Cancel) -> Result<Held> {
    let length = (file.size + 1).min(BUFFER as u64) as usize;
    let (mut found, mut planned, mut at) = (vec![0; length], vec![0; length], 0);
    loop {
        cancel.check()?;
        let read = match from.read(&mut found) {
            Ok(0) => return Ok(Held::Until(at)),
            Ok(read) => read,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::io(e, "read").at(name)),
        };
        let known = ((file.size - at) as usize).min(read);
        content.fill(file.seed, at, &mut planned[..known]);
        if found[..known] != planned[..known] {
            let first = found.iter().zip(&planned).position(|(a, b)| a != b).unwrap_or(0);
            return Ok(Held::DiffersAt(at + first as u64));
        }
        if known < read {
            return Ok(Held::DiffersAt(file.size));
        }
        at += read as u64;
    }
}

/// Whether a file holds the beginning of what is planned, or all of it. Not so for one that cannot be read.
pub fn holds_beginning(dir: BorrowedFd<'_>, name: &[u8], file: &File, content: &Content, cancel: &Cancel) -> Result<bool> {
    // A name that is a pipe by now does not block.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(fd) = openat(dir, name, flags, Mode::empty()) else { return Ok(false) };
    let from = std::fs::File::from(fd);
    let is_file = from.metadata().map_err(|e| Error::io(e, "look up").at(name))?.is_file();
    Ok(is_file && matches!(held(from, name, file, content, cancel)?, Held::Until(_)))
}

fn same_time(stat: &Stat, seed: u64) -> bool {
    (stat.st_mtime - mtime(seed).secs).abs() <= TIME_GRAIN
}

/// Looks every planned name up, and counts all others. As many system calls as there are names.
pub fn survey(plan: &Plan, top: BorrowedFd<'_>, threads: usize, cancel: &Cancel) -> Result<Standing> {
    if is_empty(top)? {
        return Ok(Standing::default());
    }
    let found = Mutex::new(Standing::default());
    each((plan, top), plan.skeleton.entries(), threads, cancel, |[worker, _], number| {
        let file = plan.file(number);
        let dir = match worker.dir(plan.skeleton.dir_of(number)) {
            Ok(dir) => dir,
            Err(e) if is_absent(&e) => return Ok(()),
            Err(e) => return Err(e),
        };
        let target = || if let Kind::Symlink(to) = file.kind { plan.target(number, to) } else { Vec::new() };
        let name = plan.file_name(number);
        let mut look = look(dir, &name, &file, target)?;
        if look == Found::Torn && !holds_beginning(dir, &name, &file, &plan.content, cancel)? {
            look = Found::Other;
        }
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        match look {
            Found::Absent => {}
            Found::Complete => {
                found.complete += 1;
                if file.kind == Kind::Regular {
                    found.allocated += plan.content.stored(file.seed, file.size).next_multiple_of(BLOCK);
                }
            }
            Found::Torn => found.begun += 1,
            Found::Other => {
                found.other += 1;
                found.example.get_or_insert_with(|| plan.path(number));
            }
        }
        Ok(())
    })?;
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (listed, dirs) = listed(plan, top, threads, cancel)?;
    found.dirs = dirs;
    let known = found.complete + found.begun + found.other + dirs;
    // Names may be listed twice, or be removed meanwhile.
    found.foreign = listed.saturating_sub(known);
    if found.foreign > 0 && known == 0 {
        found.example = names(top)?.next().transpose()?;
    }
    Ok(found)
}

/// Names in all planned directories that are there, and how many of these there are without the top.
pub fn listed(plan: &Plan, top: BorrowedFd<'_>, threads: usize, cancel: &Cancel) -> Result<(u64, u64)> {
    let all = AtomicU64::new(names(top)?.count() as u64);
    let dirs = AtomicU64::new(0);
    each((plan, top), plan.skeleton.dirs(), threads, cancel, |[worker, _], dir| {
        if dir == 0 {
            return Ok(());
        }
        match worker.dir(dir) {
            Ok(opened) => {
                all.fetch_add(names(opened)?.count() as u64, Ordering::Relaxed);
                dirs.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(e) if is_absent(&e) => Ok(()),
            Err(e) => Err(e),
        }
    })?;
    Ok((all.into_inner(), dirs.into_inner()))
}

/// There is no such directory, or something else under its name, which is then counted as foreign.
pub fn is_absent(e: &Error) -> bool {
    let errno = std::error::Error::source(e).and_then(|e| e.downcast_ref::<std::io::Error>()).and_then(std::io::Error::raw_os_error);
    e.kind() == ErrorKind::NotFound || e.kind() == ErrorKind::BadName || matches!(errno, Some(libc::ENOTDIR | libc::ELOOP | libc::EINVAL))
}

fn is_empty(dir: BorrowedFd<'_>) -> Result<bool> {
    names(dir)?.next().transpose().map(|first| first.is_none())
}

/// The names in a directory without its own two.
fn names(dir: BorrowedFd<'_>) -> Result<impl Iterator<Item = Result<Vec<u8>>>> {
    // A separate descriptor, because a listing changes its position.
    let listing = Dir::read_from(dir.as_fd()).map_err(|e| Error::io(e.into(), "list"))?;
    Ok(listing.filter_map(|entry| match entry {
        Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => None,
        Ok(entry) => Some(Ok(entry.file_name().to_bytes().to_vec())),
        Err(e) => Some(Err(Error::io(e.into(), "list"))),
    }))
}

/// Whether a set may be created in a directory with this content.
pub fn admit(standing: &Standing, add: bool) -> Result<()> {
    if standing.is_empty() || standing.resumes() {
        return Ok(());
    }
    let example = standing.example.as_deref().map_or(String::new(), |name| format!(" (for one, {})", haul_core::entry::show(name)));
    let refuse = |why: String, hint: &str| Err(Error::new(ErrorKind::Usage, "make data").because(why).hint(hint));
    let taken = standing.other;
    match () {
        () if taken > 0 => {
            let names =
                if taken == 1 { "one name of the data set is".into() } else { format!("{} names of the data set are", count(taken)) };
            refuse(
                format!("{names} in use by something else{example}"),
                "nothing was overwritten; name another directory, or move these files away",
            )
        }
        () if add => Ok(()),
        () => {
            let names = if standing.foreign == 1 { "one name".into() } else { format!("{} names", count(standing.foreign)) };
            refuse(
                format!("the directory is not empty: it has {names} that are not in the data set{example}"),
                "name another directory, or add the data set with --add",
            )
        }
    }
}

/// Asks for space and inodes before anything is made.
pub fn room(plan: &Plan, top: BorrowedFd<'_>, standing: &Standing) -> Result<()> {
    let free = fstatvfs(top).map_err(|e| Error::io(e.into(), "ask for free space"))?;
    let totals = plan.totals();
    let dirs = totals.dirs.saturating_sub(standing.dirs);
    let needed = totals.allocated.saturating_sub(standing.allocated) + dirs * BLOCK;
    let inodes = (totals.files + totals.symlinks).saturating_sub(standing.complete) + dirs;
    let left = if rustix::process::geteuid().is_root() { free.f_bfree } else { free.f_bavail }.saturating_mul(free.f_frsize);
    let refuse = |why: String| Err(Error::new(ErrorKind::NoSpace, "make data").because(why).hint(SMALLER));
    if needed > left {
        return refuse(format!("the data set needs {}, and the file system has {} free", bytes(needed), bytes(left)));
    }
    // File systems that make inodes as they are needed say 0 of 0.
    if free.f_files > 0 && inodes > free.f_favail {
        return refuse(format!("the data set needs {} inodes, and the file system has {} free", count(inodes), count(free.f_favail)));
    }
    Ok(())
}

const SMALLER: &str = "--scale N makes the data set N times smaller; nothing was created";
