//! Descriptors of directories: found again by node, bounded in number.
//!
//! Below the root every call resolves one component against the descriptor of its directory and follows
//! no symlink, so that a directory that is swapped for a link while a run goes on leads nowhere.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use haul_core::entry::{Dir, Name, check_leaf};
use haul_core::error::{Error, ErrorKind, Result};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat};
use rustix::io::Errno;

use super::fail;
use haul_core::lock::lock;

/// One open directory.
#[derive(Debug)]
pub(super) struct Handle {
    fd: OwnedFd,
    /// Opened with `O_PATH` because we may not read it: names in it resolve, listing does not.
    pub path_only: bool,
    /// Held while the descriptor's own position is used for a listing.
    pub listing: Mutex<()>,
    /// 0 when not known; else the epoch in which it was looked up, shifted, and the answer below it.
    default_acl: AtomicU64,
}

/// What the default ACL of a directory leaves of the mode that something new in it is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inherited {
    /// These permission bits, of owner, mask (or group) and others.
    Mode(u32),
    /// It could not be read.
    Unknown,
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Handle {
    pub fn new(fd: OwnedFd, path_only: bool) -> Self {
        Handle { fd, path_only, listing: Mutex::new(()), default_acl: AtomicU64::new(0) }
    }

    /// The default ACL of a directory, if any. Looked up once, and again after this store set a default ACL anywhere.
    pub fn default_acl(&self, epoch: u64) -> Option<Inherited> {
        /// Below the epoch: there is one, and its bits are known.
        const THERE: u64 = 0o2000;
        const KNOWN: u64 = 0o1000;
        let mut known = self.default_acl.load(Ordering::Relaxed);
        if known >> 11 != epoch {
            let found = match self.read_default_acl() {
                Err(Errno::NODATA | Errno::OPNOTSUPP) => 0,
                Ok(Some(bits)) => THERE | KNOWN | u64::from(bits),
                // Where it cannot be read there may be one.
                Ok(None) | Err(_) => THERE,
            };
            known = epoch << 11 | found;
            self.default_acl.store(known, Ordering::Relaxed);
        }
        let bits = (known & 0o777) as u32;
        (known & THERE != 0).then_some(if known & KNOWN != 0 { Inherited::Mode(bits) } else { Inherited::Unknown })
    }

    fn read_default_acl(&self) -> Result<Option<u32>, Errno> {
        let name = super::xattr::DEFAULT_ACL;
        let mut value = [0u8; 4096];
        let length = if self.path_only {
            rustix::fs::getxattr(super::xattr::proc_path(self.fd.as_fd()), name, &mut value)?
        } else {
            rustix::fs::fgetxattr(&self.fd, name, &mut value)?
        };
        Ok(super::xattr::mode_of_acl(&value[..length]))
    }
}

struct Slot {
    handle: Arc<Handle>,
    used: u64,
}

#[derive(Default)]
struct Table {
    slots: HashMap<u64, Slot>,
    clock: u64,
}

impl Table {
    fn touch(&mut self, id: u64) -> Option<&Arc<Handle>> {
        self.clock += 1;
        let slot = self.slots.get_mut(&id)?;
        slot.used = self.clock;
        Some(&slot.handle)
    }

    /// What comes back is closed by the caller, out of the lock.
    fn insert(&mut self, id: u64, handle: Arc<Handle>, limit: usize) -> Vec<Slot> {
        self.clock += 1;
        let mut out: Vec<Slot> = self.slots.insert(id, Slot { handle, used: self.clock }).into_iter().collect();
        if self.slots.len() > limit {
            // An eighth at a time, so that finding the oldest costs little per directory.
            let mut ages: Vec<u64> = self.slots.values().map(|slot| slot.used).collect();
            let (_, bound, _) = ages.select_nth_unstable(limit / 8);
            let bound = *bound;
            let old: Vec<u64> = self.slots.iter().filter(|(_, slot)| slot.used <= bound).map(|(id, _)| *id).collect();
            out.extend(old.iter().filter_map(|id| self.slots.remove(id)));
        }
        out
    }
}

/// The open directories of one store.
pub(super) struct Dirs {
    root: Arc<Handle>,
    keep_dirlinks: bool,
    follow: bool,
    limit: usize,
    table: Mutex<Table>,
}

impl std::fmt::Debug for Dirs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dirs(at most {})", self.limit)
    }
}

impl Dirs {
    pub fn new(root: Handle, keep_dirlinks: bool, follow: bool, limit: usize) -> Self {
        Dirs { root: Arc::new(root), keep_dirlinks, follow, limit: limit.max(8), table: Mutex::default() }
    }

    pub fn root(&self) -> &Arc<Handle> {
        &self.root
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    pub fn forget(&self, dir: &Dir) {
        let slot = self.table().slots.remove(&dir.id());
        drop(slot);
    }

    /// The descriptor of `dir`. On a miss the path is opened from the nearest open ancestor, one component per call; of a long
    /// path the end and evenly spaced directories are kept, for the way back up.
    pub fn get(&self, dir: &Dir) -> Result<Arc<Handle>> {
        if dir.is_root() {
            return Ok(self.root.clone());
        }
        let mut missing = vec![dir];
        let mut handle = {
            let mut table = self.table();
            if let Some(handle) = table.touch(dir.id()) {
                return Ok(handle.clone());
            }
            let mut at = dir.parent();
            let found = loop {
                match at {
                    None => break self.root.clone(),
                    Some(above) if above.is_root() => break self.root.clone(),
                    Some(above) => {
                        if let Some(handle) = table.touch(above.id()) {
                            break handle.clone();
                        }
                        missing.push(above);
                        at = above.parent();
                    }
                }
            };
            // The places kept along a very long path stay in use as long as something below them is.
            while let Some(above) = at.filter(|_| missing.len() > 64) {
                table.touch(above.id());
                at = above.parent();
            }
            found
        };
        let window = self.limit / 4;
        let spacing = (missing.len() / window).max(1);
        for (left, next) in missing.iter().enumerate().rev() {
            handle = Arc::new(self.open_child(&handle, next)?);
            if left < window || left % spacing == 0 {
                let old = self.table().insert(next.id(), handle.clone(), self.limit);
                drop(old);
            }
        }
        Ok(handle)
    }

    /// Opens the directory `dir` below its parent's descriptor, never through a symlink but for `-K`.
    fn open_child(&self, parent: &Handle, dir: &Dir) -> Result<Handle> {
        let leaf = leaf_of(dir.leaf(), "open").map_err(|e| e.on(&Name::of(dir)))?;
        // With -L the user asked for what links point to, wherever that is; nobody else gets past NOFOLLOW.
        let nofollow = if self.follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | nofollow;
        let mut tries = 0;
        let errno = loop {
            match openat(parent, leaf, flags | OFlags::RDONLY, Mode::empty()) {
                Ok(fd) => return Ok(Handle::new(fd, false)),
                Err(Errno::MFILE | Errno::NFILE) if tries == 0 => {
                    tries += 1;
                    let all = std::mem::take(&mut self.table().slots);
                    drop(all);
                }
                Err(errno) => break errno,
            }
        };
        match errno {
            // A directory that we may search but not read still takes and gives files by name.
            Errno::ACCESS => match openat(parent, leaf, flags | OFlags::PATH, Mode::empty()) {
                Ok(fd) => Ok(Handle::new(fd, true)),
                Err(_) => Err(fail(errno, "open").on(&Name::of(dir))),
            },
            Errno::NOTDIR | Errno::LOOP if self.keep_dirlinks => self.open_beneath(dir),
            Errno::NOTDIR | Errno::LOOP => {
                Err(Error::new(ErrorKind::Changed, "open").on(&Name::of(dir)).because("it is a symlink or a file, not a directory"))
            }
            errno => Err(fail(errno, "open").on(&Name::of(dir))),
        }
    }

    /// `-K`: the whole path from the real root, wherever its links lead as long as that is beneath it.
    fn open_beneath(&self, dir: &Dir) -> Result<Handle> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        match rustix::fs::openat2(&*self.root, dir.path(), flags, Mode::empty(), resolve) {
            Ok(fd) => Ok(Handle::new(fd, false)),
            Err(Errno::NOSYS) => Err(Error::new(ErrorKind::Unsupported, "open")
                .on(&Name::of(dir))
                .because("this kernel cannot follow a link to a directory safely (openat2 is missing)")),
            Err(Errno::XDEV) => {
                Err(Error::new(ErrorKind::Usage, "open").on(&Name::of(dir)).because("the symlink points outside the destination"))
            }
            Err(errno) => Err(fail(errno, "open").on(&Name::of(dir))),
        }
    }

    /// Whether `dir`, which is no directory itself, is a link to one that `-K` lets us use.
    pub fn leads_to_dir(&self, dir: &Dir) -> bool {
        self.keep_dirlinks && self.open_beneath(dir).is_ok()
    }
}

/// The one gate that every leaf passes before a system call: one component, not `.` nor `..`.
pub(super) fn leaf_of<'a>(leaf: &'a [u8], op: &'static str) -> Result<&'a [u8]> {
    match check_leaf(leaf) {
        Ok(()) => Ok(leaf),
        Err(reason) => Err(Error::new(ErrorKind::BadName, op).because(reason)),
    }
}
