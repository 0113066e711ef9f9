//! What a worker has at hand: its way to the directory that it works in, and a buffer. And how work is dealt out.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use haul_core::cancel::Cancel;
use haul_core::{Error, Result};
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::plan::Plan;

/// Large enough that a call costs little beside its bytes, small enough for the second cache.
pub const BUFFER: usize = 1 << 20;
/// Entries that a worker takes at once.
const BATCH: u64 = 256;
/// Directories above the current one that are kept open.
const MOST_OPEN: usize = 32;

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens the top of a set; a symbolic link to a directory is followed, because the user named it.
pub fn open_top(dir: &Path) -> Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    openat(CWD, dir, flags, Mode::empty()).map_err(|e| Error::io(e.into(), "open directory").at(dir.as_os_str().as_encoded_bytes()))
}

pub struct Worker<'a> {
    pub plan: &'a Plan,
    top: BorrowedFd<'a>,
    /// The part and directory that is open, and the directories above it as far as they are kept.
    at: Option<(usize, u64)>,
    open: Vec<(u64, OwnedFd)>,
    pub buffer: Vec<u8>,
}

impl<'a> Worker<'a> {
    pub fn new(plan: &'a Plan, top: BorrowedFd<'a>) -> Self {
        Worker { plan, top, at: None, open: Vec::new(), buffer: Vec::new() }
    }

    /// The buffer, made when it is first needed.
    pub fn buffer(&mut self) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(BUFFER, 0);
        buffer
    }

    /// A directory of a part, opened name by name: a path may be longer than the system takes.
    pub fn dir(&mut self, part: usize, dir: u64) -> Result<BorrowedFd<'_>> {
        if self.at != Some((part, dir)) {
            self.enter(part, dir)?;
        }
        Ok(self.open.last().map_or(self.top, |(_, fd)| fd.as_fd()))
    }

    fn enter(&mut self, part: usize, dir: u64) -> Result<()> {
        let same = self.at.take().is_some_and(|(before, _)| before == part);
        let way = self.plan.parts[part].way(dir);
        let kept = match same {
            true => self.open.iter().zip(&way).take_while(|((open, _), wanted)| open == *wanted).count(),
            false => 0,
        };
        self.open.truncate(kept);
        for step in &way[kept..] {
            let above = self.open.last().map_or(self.top, |(_, fd)| fd.as_fd());
            let name = self.plan.parts[part].dir_name(*step);
            let opened = openat(above, name.as_slice(), DIRECTORY, Mode::empty())
                .map_err(|e| Error::io(e.into(), "open directory").at(&self.plan.parts[part].dir_path(*step)))?;
            if self.open.len() >= MOST_OPEN {
                // Only the last is of use from here on; the next directory begins at the top.
                self.open.clear();
            }
            self.open.push((*step, opened));
        }
        self.at = Some((part, dir));
        Ok(())
    }
}

/// Every number of every part once, in batches, to whoever asks. Batches that follow each other are far apart, so that workers are
/// in different directories.
pub struct Batches {
    /// For each part, its first batch, and how many numbers it has.
    parts: Vec<(u64, u64)>,
    all: u64,
    step: u64,
    next: AtomicU64,
}

impl Batches {
    pub fn new(counts: impl Iterator<Item = u64>) -> Batches {
        let mut all = 0;
        let parts: Vec<(u64, u64)> = counts
            .map(|count| {
                let first = all;
                all += count.div_ceil(BATCH);
                (first, count)
            })
            .collect();
        let shares = |mut a: u64, mut b: u64| {
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a > 1
        };
        // A step without a common factor visits every batch once; this one is the golden section of them.
        let step = (all * 5 / 8..).find(|step| !shares(*step, all)).unwrap_or(1);
        Batches { parts, all, step: step.max(1), next: AtomicU64::new(0) }
    }

    pub fn of_entries(plan: &Plan) -> Batches {
        Batches::new(plan.parts.iter().map(|part| part.skeleton.entries()))
    }

    /// Calls `each` with the part and number of every one.
    pub fn work(&self, cancel: &Cancel, mut each: impl FnMut(usize, u64) -> Result<()>) -> Result<()> {
        loop {
            let nth = self.next.fetch_add(1, Ordering::Relaxed);
            if nth >= self.all {
                return Ok(());
            }
            let batch = (u128::from(nth) * u128::from(self.step) % u128::from(self.all)) as u64;
            let part = self.parts.partition_point(|(first, _)| *first <= batch) - 1;
            let (first, count) = self.parts[part];
            let start = (batch - first) * BATCH;
            for number in start..(start + BATCH).min(count) {
                cancel.check()?;
                each(part, number)?;
            }
        }
    }
}

/// Runs `work` in so many threads; the first error stops all.
pub fn together(threads: usize, halt: &Cancel, work: impl Fn() -> Result<()> + Sync) -> Result<()> {
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                if let Err(e) = work() {
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.get_or_insert(e);
                    halt.set(haul_core::cancel::Stop::Failure);
                }
            });
        }
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(e) => Err(e),
        None => Ok(()),
    }
}
