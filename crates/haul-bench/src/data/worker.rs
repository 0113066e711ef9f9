//! Workers with their open directories and a buffer, and how work is distributed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use haul_core::cancel::Cancel;
use haul_core::{Error, Result};
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::plan::Plan;
use crate::order::stride;

/// Large enough that the cost of a call is small, small enough for the second-level cache.
pub const BUFFER: usize = 1 << 20;
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
    /// The directory that is open, and the directories above it as far as they are kept.
    at: Option<u64>,
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

    /// A directory, opened name by name: a path may be longer than the system takes.
    pub fn dir(&mut self, dir: u64) -> Result<BorrowedFd<'_>> {
        if self.at != Some(dir) {
            self.enter(dir)?;
        }
        Ok(self.open.last().map_or(self.top, |(_, fd)| fd.as_fd()))
    }

    fn enter(&mut self, dir: u64) -> Result<()> {
        self.at = None;
        let route = self.plan.route(dir);
        let kept = self.open.iter().zip(&route).take_while(|((open, _), wanted)| open == *wanted).count();
        self.open.truncate(kept);
        for step in &route[kept..] {
            let above = self.open.last().map_or(self.top, |(_, fd)| fd.as_fd());
            let name = self.plan.dir_name(*step);
            let opened = openat(above, name.as_slice(), DIRECTORY, Mode::empty())
                .map_err(|e| Error::io(e.into(), "open directory").at(&self.plan.dir_path(*step)))?;
            if self.open.len() >= MOST_OPEN {
                // Only the last is of use from here on; the next directory begins at the top.
                self.open.clear();
            }
            self.open.push((*step, opened));
        }
        self.at = Some(dir);
        Ok(())
    }
}

/// Calls `work` for every number below `count` once, in so many threads, with two workers of the thread; the first error stops
/// all. Batches that follow each other are far apart, so that threads are in different directories.
pub fn each<'a>(
    (plan, top): (&'a Plan, BorrowedFd<'a>),
    count: u64,
    threads: usize,
    cancel: &Cancel,
    work: impl Fn(&mut [Worker<'a>; 2], u64) -> Result<()> + Sync,
) -> Result<()> {
    let (all, next, failed) = (count.div_ceil(BATCH), AtomicU64::new(0), Mutex::new(None));
    let step = stride(all);
    let batches = || {
        let mut workers = [Worker::new(plan, top), Worker::new(plan, top)];
        loop {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            if nth >= all {
                return Ok(());
            }
            let start = (u128::from(nth) * u128::from(step) % u128::from(all)) as u64 * BATCH;
            for number in start..(start + BATCH).min(count) {
                cancel.check()?;
                work(&mut workers, number)?;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                if let Err(e) = batches() {
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.get_or_insert(e);
                    cancel.set(haul_core::cancel::Stop::Failure);
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}
