//! Reads what a tree looks like, in parallel and in bounded memory: waiting directories are paths that spill to a file.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};

use haul_core::cancel::Cancel;
use haul_core::spill::SpillStack;
use haul_core::{Error, Result};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};

use super::profile::Profile;
use super::worker::open_top;

/// Bytes of waiting paths in memory.
const WAITING: usize = 1 << 20;
/// Files with several names are one file as long as this many can be remembered.
const LINKS_KEPT: usize = 1 << 20;

struct State {
    waiting: SpillStack,
    running: usize,
    failed: Option<Error>,
}

/// What a tree looks like. Directories that cannot be read count as empty and are handed to `unreadable`.
pub fn read(dir: &Path, threads: usize, cancel: &Cancel, spill: &Path, unreadable: &(dyn Fn(Error) + Sync)) -> Result<Profile> {
    let top = open_top(dir)?;
    let mut waiting = SpillStack::new(spill, WAITING);
    waiting.push(b"").map_err(|e| Error::io(e, "spill"))?;
    let state = Mutex::new(State { waiting, running: 0, failed: None });
    let (wake, links, all) = (Condvar::new(), Mutex::new(HashSet::new()), Mutex::new(Profile::default()));
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let next = || {
        let mut state = lock();
        loop {
            if cancel.is_set() || state.failed.is_some() {
                return None;
            }
            match state.waiting.pop() {
                Err(e) => state.failed = Some(Error::io(e, "spill")),
                Ok(Some(path)) => {
                    state.running += 1;
                    return Some(path);
                }
                Ok(None) if state.running == 0 => return None,
                Ok(None) => state = wake.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let mut own = Profile::default();
                while let Some(path) = next() {
                    let listed = list(&top, &path, &mut own, &links, cancel);
                    let mut state = lock();
                    state.running -= 1;
                    let below = listed.unwrap_or_else(|e| {
                        unreadable(e.at(&path));
                        Vec::new()
                    });
                    for path in below {
                        if let Err(e) = state.waiting.push(&path) {
                            state.failed.get_or_insert(Error::io(e, "spill"));
                        }
                    }
                    wake.notify_all();
                }
                wake.notify_all();
                all.lock().unwrap_or_else(PoisonError::into_inner).add(own);
            });
        }
    });
    cancel.check()?;
    match lock().failed.take() {
        Some(e) => Err(e),
        None => Ok(std::mem::take(&mut *all.lock().unwrap_or_else(PoisonError::into_inner))),
    }
}

/// Counts what is in one directory; its directories.
fn list(top: &OwnedFd, path: &[u8], own: &mut Profile, links: &Mutex<HashSet<(u64, u64)>>, cancel: &Cancel) -> Result<Vec<Vec<u8>>> {
    let depth = if path.is_empty() { 0 } else { path.split(|b| *b == b'/').count() as u32 };
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut opened: Option<OwnedFd> = None;
    let missing = |e: Error, own: &mut Profile| {
        own.dir(depth, 0, 0);
        e
    };
    // Name by name: a path may be longer than the system takes.
    for name in path.split(|b| *b == b'/').filter(|name| !name.is_empty()) {
        let above = opened.as_ref().map_or(top.as_fd(), AsFd::as_fd);
        let next = openat(above, name, flags, Mode::empty()).map_err(|e| missing(Error::io(e.into(), "open directory"), own))?;
        opened = Some(next);
    }
    let dir = opened.as_ref().map_or(top.as_fd(), AsFd::as_fd);
    let listing = Dir::read_from(dir).map_err(|e| missing(Error::io(e.into(), "list"), own))?;
    let (mut entries, mut below) = (0, Vec::new());
    for entry in listing {
        cancel.check()?;
        let Ok(entry) = entry else { break };
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        // What has gone in between is not there.
        let Ok(stat) = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                own.name(name, true);
                below.push(if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() });
                continue;
            }
            FileType::RegularFile => {
                let again = stat.st_nlink > 1 && {
                    let mut links = links.lock().unwrap_or_else(PoisonError::into_inner);
                    links.len() < LINKS_KEPT && !links.insert((stat.st_dev, stat.st_ino))
                };
                if again { own.hard_links += 1 } else { own.file(stat.st_size.cast_unsigned()) }
            }
            FileType::Symlink => own.symlinks += 1,
            _ => {
                own.specials += 1;
                continue;
            }
        }
        own.name(name, false);
        entries += 1;
    }
    own.dir(depth, entries, below.len() as u64);
    Ok(below)
}
