//! Makes a data set: directories level by level, then files by all workers, then what names them, then the directories' times.
//!
//! A file costs four system calls (create, write, time, close), each relative to a directory that is open. A large one is
//! written by one worker as long as there are others; who finds no more work helps with those that are under way.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use haul_core::cancel::Cancel;
use haul_core::{Error, ErrorKind, Result};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, XattrFlags, fchmod, fsetxattr, fstat, ftruncate, futimens};
use rustix::fs::{linkat, mkdirat, openat, symlinkat, unlinkat, utimensat};
use rustix::io::{Errno, pwrite};

use super::admit::{admit, room};
use super::hand::{BUFFER, Hand, Lots, open_top, together};
use super::look::{BEGUN, Found, LARGE, holds_beginning, look, survey};
use super::order::mix;
use super::plan::{File, Kind, Plan, mtime};

/// What a worker takes of a large file at once, in bytes.
const PIECE: u64 = 64 << 20;
/// Failures that are told; the others are counted.
const MOST_FAILURES: usize = 20;
const XATTR_BYTES: usize = 32;

/// How a set is made.
#[derive(Clone, Copy)]
pub struct How<'a> {
    pub threads: usize,
    /// Other things may be in the directory.
    pub add: bool,
    pub cancel: &'a Cancel,
    pub tally: &'a Tally,
}

/// What is made so far, for whoever looks while it is made.
#[derive(Debug, Default)]
pub struct Tally {
    /// Files and links.
    pub entries: AtomicU64,
    /// Lengths of files; pieces of large ones count as they are written.
    pub bytes: AtomicU64,
    pub dirs: AtomicU64,
    /// Entries that were there as planned, not in `entries`.
    pub kept: AtomicU64,
}

/// What a run has made.
#[derive(Debug)]
pub struct Made {
    /// Files and links of this run.
    pub entries: u64,
    pub bytes: u64,
    pub dirs: u64,
    /// Files and links that were there as planned.
    pub kept: u64,
    /// Names that could not be made.
    pub failed: u64,
    /// The first of them.
    pub failures: Vec<Error>,
    pub elapsed: Duration,
    /// A signal stopped it; what is there is complete, and the same call goes on.
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
            // It is empty, and nobody asked for that.
            let _gone = unlinkat(CWD, dir, AtFlags::REMOVEDIR);
        }
        return Err(e.at(shown));
    }
    let work = Work { plan, top: top.as_fd(), how, look_first: !standing.is_empty(), failures: Mutex::default(), large: large(plan) };
    let ended = work.all();
    work.drop_begun();
    let interrupted = matches!(&ended, Err(e) if e.kind() == ErrorKind::Cancelled);
    if !interrupted {
        ended.map_err(|e| e.at(shown))?;
    }
    let (failed, failures) = work.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let Tally { entries, bytes, dirs, kept } = how.tally;
    let (entries, bytes, dirs, kept) = (of(entries), of(bytes), of(dirs), of(kept));
    Ok(Made { entries, bytes, dirs, kept, failed, failures, elapsed: began.elapsed(), interrupted })
}

/// A large file under way.
struct Large {
    part: usize,
    number: u64,
    file: File,
    next: AtomicU64,
    left: AtomicU64,
    /// Bytes, as they are in the tally.
    written: AtomicU64,
    done: AtomicBool,
    open: Mutex<Option<Arc<OwnedFd>>>,
    /// As it was made; it has [`BEGUN`] until it is complete.
    mode: AtomicU64,
}

fn large(plan: &Plan) -> Vec<Large> {
    if plan.totals().largest < LARGE {
        return Vec::new();
    }
    let of_part = |(part, set): (usize, &super::plan::Part)| {
        let files = (0..set.skeleton.entries()).map(|number| (number, set.file(number)));
        let files = files.filter(|(_, file)| file.kind == Kind::Regular && file.size >= LARGE);
        let large = files.map(|(number, file)| Large {
            part,
            number,
            file,
            next: AtomicU64::new(0),
            left: AtomicU64::new(file.size.div_ceil(PIECE)),
            written: AtomicU64::new(0),
            done: AtomicBool::new(false),
            open: Mutex::default(),
            mode: AtomicU64::new(0),
        });
        large.collect::<Vec<_>>()
    };
    plan.parts.iter().enumerate().flat_map(of_part).collect()
}

struct Work<'a> {
    plan: &'a Plan,
    top: BorrowedFd<'a>,
    how: How<'a>,
    /// Something of the set is there.
    look_first: bool,
    failures: Mutex<(u64, Vec<Error>)>,
    large: Vec<Large>,
}

impl Work<'_> {
    fn all(&self) -> Result<()> {
        self.dirs()?;
        self.files()?;
        self.hard_links()?;
        self.dir_times()
    }

    fn together(&self, work: impl Fn(&mut Hand<'_>) -> Result<()> + Sync) -> Result<()> {
        together(self.how.threads, self.how.cancel, || work(&mut Hand::new(self.plan, self.top)))
    }

    /// Level by level, because a directory needs the one above.
    fn dirs(&self) -> Result<()> {
        for depth in 0..=self.plan.totals().depth {
            let levels: Vec<_> = self.plan.parts.iter().map(|part| part.skeleton.level(depth)).collect();
            let lots = Lots::new(levels.iter().map(|level| level.end - level.start));
            self.together(|hand| {
                lots.work(self.how.cancel, |part, nth| {
                    let (set, dir) = (&self.plan.parts[part], levels[part].start + nth);
                    let name = set.dir_name(dir);
                    if name.is_empty() {
                        return Ok(());
                    }
                    let above = match set.skeleton.parent(dir) {
                        Some(parent) => hand.dir(part, parent),
                        None => Ok(self.top),
                    };
                    match above.and_then(|above| mkdir(above, &name)) {
                        Ok(true) => drop(self.how.tally.dirs.fetch_add(1, Ordering::Relaxed)),
                        Ok(false) => {}
                        Err(e) => self.failed(e, &set.dir_path(dir))?,
                    }
                    Ok(())
                })
            })?;
        }
        Ok(())
    }

    fn files(&self) -> Result<()> {
        let (lots, next) = (Lots::of_entries(self.plan), AtomicU64::new(0));
        self.together(|hand| {
            while let Some(large) = self.large.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                if self.begin(hand, large)? {
                    self.pieces(hand, large)?;
                }
            }
            lots.work(self.how.cancel, |part, number| {
                let set = &self.plan.parts[part];
                let file = set.file(number);
                let made = match file.kind {
                    Kind::HardLink(_) => return Ok(()),
                    Kind::Regular if file.size >= LARGE => return Ok(()),
                    Kind::Regular => self.regular(hand, part, number, &file),
                    Kind::Symlink(to) => self.symlink(hand, part, number, to, &file),
                };
                self.count(made, part, number)
            })?;
            self.large.iter().try_for_each(|large| self.pieces(hand, large))
        })
    }

    /// After the files, because what is linked to must be there.
    fn hard_links(&self) -> Result<()> {
        if self.plan.totals().hard_links == 0 {
            return Ok(());
        }
        let lots = Lots::of_entries(self.plan);
        self.together(|hand| {
            let mut there = Hand::new(self.plan, self.top);
            lots.work(self.how.cancel, |part, number| {
                let file = self.plan.parts[part].file(number);
                match file.kind {
                    Kind::HardLink(leader) => self.count(self.hard_link(hand, &mut there, part, number, leader, &file), part, number),
                    _ => Ok(()),
                }
            })
        })
    }

    /// At last, because what is made in a directory changes its time.
    fn dir_times(&self) -> Result<()> {
        let lots = Lots::new(self.plan.parts.iter().map(|part| part.skeleton.dirs()));
        self.together(|hand| {
            lots.work(self.how.cancel, |part, dir| {
                let set = &self.plan.parts[part];
                if dir == 0 && set.folder.is_empty() {
                    return Ok(());
                }
                let set_time =
                    hand.dir(part, dir).and_then(|fd| futimens(fd, &times(set.dir_seed(dir))).map_err(|e| Error::io(e.into(), "set time")));
                // A directory that could not be made has been told.
                match set_time {
                    Err(e) if e.kind() != ErrorKind::NotFound => self.failed(e, &set.dir_path(dir)),
                    _ => Ok(()),
                }
            })
        })
    }

    fn count(&self, made: Result<bool>, part: usize, number: u64) -> Result<()> {
        let tally = self.how.tally;
        match made {
            Ok(true) => drop(tally.entries.fetch_add(1, Ordering::Relaxed)),
            Ok(false) => drop(tally.kept.fetch_add(1, Ordering::Relaxed)),
            Err(e) => self.failed(e, &self.plan.parts[part].path(number))?,
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
        let mut failures: MutexGuard<'_, (u64, Vec<Error>)> = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
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
            Found::Begun => Ok(Some(true)),
            Found::Torn if holds_beginning(dir, name, file, &self.plan.content, self.how.cancel)? => Ok(Some(true)),
            Found::Torn | Found::Other => Err(Error::new(ErrorKind::Exists, "create").at(name)),
        }
    }

    fn regular(&self, hand: &mut Hand<'_>, part: usize, number: u64, file: &File) -> Result<bool> {
        let set = &self.plan.parts[part];
        let (name, mut buffer) = (set.file_name(number), hand.buffer());
        let made = hand.dir(part, set.skeleton.dir_of(number)).and_then(|dir| {
            let Some(again) = self.wanted(dir, &name, file, Vec::new)? else { return Ok(false) };
            let fd = create(dir, &name, again)?;
            let written = AtomicU64::new(0);
            let complete = self.write(&fd, file, 0..file.size, &mut buffer, &written).and_then(|()| self.finish(&fd, file));
            let complete = complete.and_then(|()| close(fd));
            if let Err(e) = complete {
                // What is not complete would be taken for data.
                self.how.tally.bytes.fetch_sub(written.into_inner(), Ordering::Relaxed);
                let _gone = unlinkat(dir, name.as_slice(), AtFlags::empty());
                return Err(e);
            }
            Ok(true)
        });
        hand.buffer = buffer;
        made
    }

    /// Writes the data of a range; holes are left out.
    fn write(&self, fd: &OwnedFd, file: &File, range: Range<u64>, buffer: &mut [u8], written: &AtomicU64) -> Result<()> {
        let mut at = range.start;
        let count = |bytes: u64| {
            self.how.tally.bytes.fetch_add(bytes, Ordering::Relaxed);
            written.fetch_add(bytes, Ordering::Relaxed);
        };
        while let Some(data) = self.plan.content.next_data(file.seed, at..range.end) {
            let piece = data.start..data.end.min(data.start + BUFFER as u64);
            let bytes = &mut buffer[..(piece.end - piece.start) as usize];
            self.plan.content.fill(file.seed, piece.start, bytes);
            write_all(fd, bytes, piece.start)?;
            count(piece.end - at);
            at = piece.end;
            if at < range.end {
                self.how.cancel.check()?;
            }
        }
        count(range.end - at);
        Ok(())
    }

    /// Length, attributes and time.
    fn finish(&self, fd: &OwnedFd, file: &File) -> Result<()> {
        if self.plan.content.ends_in_hole(file.seed, file.size) {
            ftruncate(fd, file.size).map_err(|e| Error::io(e.into(), "set length"))?;
        }
        for number in 0..self.plan.xattrs {
            let value = format!("{:032x}", u128::from(mix(file.seed ^ u64::from(number))) << 64 | u128::from(file.seed));
            debug_assert_eq!(value.len(), XATTR_BYTES);
            fsetxattr(fd, format!("user.haul.{number}"), value.as_bytes(), XattrFlags::empty()).map_err(|e| {
                let e = Error::io(e.into(), "set extended attribute");
                // More than an inode holds is "no space" in the words of some file systems, and is not the disk's.
                let e = if e.kind() == ErrorKind::NoSpace { e.kind_is(ErrorKind::Unsupported) } else { e };
                e.hint("this file system takes none or not so many; give a smaller --xattrs, or leave it out")
            })?;
        }
        futimens(fd, &times(file.seed)).map_err(|e| Error::io(e.into(), "set time"))
    }

    fn symlink(&self, hand: &mut Hand<'_>, part: usize, number: u64, to: u64, file: &File) -> Result<bool> {
        let set = &self.plan.parts[part];
        let (name, target) = (set.file_name(number), set.target(number, to));
        let dir = hand.dir(part, set.skeleton.dir_of(number))?;
        if self.wanted(dir, &name, file, || target.clone())?.is_none() {
            return Ok(false);
        }
        symlinkat(target.as_slice(), dir, name.as_slice()).map_err(|e| Error::io(e.into(), "make symbolic link"))?;
        let timed = utimensat(dir, name.as_slice(), &times(file.seed), AtFlags::SYMLINK_NOFOLLOW);
        timed.map_err(|e| Error::io(e.into(), "set time")).map(|()| true)
    }

    fn hard_link(&self, hand: &mut Hand<'_>, there: &mut Hand<'_>, part: usize, number: u64, leader: u64, file: &File) -> Result<bool> {
        let set = &self.plan.parts[part];
        let name = set.file_name(number);
        let dir = hand.dir(part, set.skeleton.dir_of(number))?;
        match self.wanted(dir, &name, file, Vec::new)? {
            None => return Ok(false),
            Some(true) => unlinkat(dir, name.as_slice(), AtFlags::empty()).map_err(|e| Error::io(e.into(), "remove"))?,
            Some(false) => {}
        }
        let from = there.dir(part, set.skeleton.dir_of(leader))?;
        linkat(from, set.file_name(leader).as_slice(), dir, name.as_slice(), AtFlags::empty())
            .map_err(|e| Error::io(e.into(), "make hard link"))
            .map(|()| true)
    }

    /// Creates a large file, for all who will write it. `false` if there is nothing to write.
    fn begin(&self, hand: &mut Hand<'_>, large: &Large) -> Result<bool> {
        self.how.cancel.check()?;
        let set = &self.plan.parts[large.part];
        let name = set.file_name(large.number);
        let made = hand.dir(large.part, set.skeleton.dir_of(large.number)).and_then(|dir| {
            let Some(again) = self.wanted(dir, &name, &large.file, Vec::new)? else { return Ok(None) };
            let fd = create(dir, &name, again)?;
            let stat = fstat(&fd).map_err(|e| Error::io(e.into(), "look up"))?;
            large.mode.store(u64::from(stat.st_mode & 0o7777 | 0o400), Ordering::Relaxed);
            fchmod(&fd, Mode::from_raw_mode(BEGUN)).map_err(|e| Error::io(e.into(), "set mode"))?;
            Ok(Some(fd))
        });
        match made {
            Ok(Some(fd)) => *large.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(fd)),
            Ok(None) => self.count(Ok(false), large.part, large.number)?,
            Err(e) => self.count(Err(e), large.part, large.number)?,
        }
        Ok(large.open.lock().unwrap_or_else(PoisonError::into_inner).is_some())
    }

    /// Writes pieces of a large file until none is left; who writes the last one completes it.
    fn pieces(&self, hand: &mut Hand<'_>, large: &Large) -> Result<()> {
        let Some(fd) = large.open.lock().unwrap_or_else(PoisonError::into_inner).clone() else { return Ok(()) };
        let mut buffer = hand.buffer();
        let ended = loop {
            let start = large.next.fetch_add(1, Ordering::Relaxed).saturating_mul(PIECE);
            if start >= large.file.size {
                break Ok(());
            }
            let range = start..(start + PIECE).min(large.file.size);
            if let Err(e) = self.how.cancel.check().and_then(|()| self.write(&fd, &large.file, range, &mut buffer, &large.written)) {
                break Err(e);
            }
            if large.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                break self.complete(&fd, large);
            }
        };
        hand.buffer = buffer;
        // A failed piece leaves a file that is never complete; `drop_begun` takes it away.
        ended.or_else(|e| self.failed(e, &self.plan.parts[large.part].path(large.number)))
    }

    fn complete(&self, fd: &OwnedFd, large: &Large) -> Result<()> {
        let mode = Mode::from_raw_mode(large.mode.load(Ordering::Relaxed) as u32);
        fchmod(fd, mode).map_err(|e| Error::io(e.into(), "set mode"))?;
        self.finish(fd, &large.file)?;
        // Others may still hold the descriptor: what close would say is asked for with one of its own.
        fd.try_clone().map_err(|e| Error::io(e, "close")).and_then(close)?;
        large.done.store(true, Ordering::Release);
        *large.open.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.count(Ok(true), large.part, large.number)
    }

    /// Large files that are not complete go: a copy would take them for data.
    fn drop_begun(&self) {
        let mut hand = Hand::new(self.plan, self.top);
        for large in self.large.iter().filter(|large| !large.done.load(Ordering::Acquire)) {
            if large.open.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
                continue;
            }
            self.how.tally.bytes.fetch_sub(large.written.load(Ordering::Relaxed), Ordering::Relaxed);
            let set = &self.plan.parts[large.part];
            if let Ok(dir) = hand.dir(large.part, set.skeleton.dir_of(large.number)) {
                let _gone = unlinkat(dir, set.file_name(large.number).as_slice(), AtFlags::empty());
            }
        }
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

/// A new file, or what is left of one that was begun.
fn create(dir: BorrowedFd<'_>, name: &[u8], again: bool) -> Result<OwnedFd> {
    let how = if again { OFlags::TRUNC } else { OFlags::EXCL };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | how;
    openat(dir, name, flags, Mode::from_raw_mode(0o666)).map_err(|e| Error::io(e.into(), "create"))
}

/// Where a network file system says that the disk or the quota was full.
fn close(fd: OwnedFd) -> Result<()> {
    // SAFETY: the descriptor was this function's own, and nobody has it any more.
    match unsafe { libc::close(fd.into_raw_fd()) } {
        0 => Ok(()),
        _ => match std::io::Error::last_os_error() {
            // The descriptor is gone all the same.
            e if e.kind() == std::io::ErrorKind::Interrupted => Ok(()),
            e => Err(Error::io(e, "close")),
        },
    }
}

fn write_all(fd: &OwnedFd, mut bytes: &[u8], mut at: u64) -> Result<()> {
    while !bytes.is_empty() {
        match pwrite(fd, bytes, at) {
            Ok(0) => return Err(Error::io(std::io::ErrorKind::WriteZero.into(), "write")),
            Ok(n) => (bytes, at) = (&bytes[n..], at + n as u64),
            Err(Errno::INTR) => {}
            Err(e) => return Err(Error::io(e.into(), "write")),
        }
    }
    Ok(())
}
