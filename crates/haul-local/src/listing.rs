//! Listing directories and looking names up.

use std::sync::TryLockError;

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::error::{ErrorKind, Result};
use haul_core::store::{Flow, Found};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, OFlags, RawDir, SeekFrom, openat};
use rustix::io::Errno;

use super::dirs::{Handle, leaf_of};
use super::facts::{kind_of, look, look_quick};
use super::xattr::{self, XattrTarget};
use super::{Shared, fail};
use haul_core::store::staging::Shown;

/// Bytes that one `getdents64` may fill: some 1,500 names.
const BUFFER: usize = 64 * 1024;

impl Shared {
    /// Names, kinds and inodes, one call for some thousand of them; all else is `stat_many`'s.
    pub(super) fn list(&self, dir: &Dir, shown: Shown, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        let handle = self.dirs.get(dir)?;
        let named = |e: Errno| fail(e, "list").on(&Name::of(dir));
        if handle.path_only {
            return Err(named(Errno::ACCESS));
        }
        // The descriptor itself has one position: it serves one listing at a time.
        match handle.listing.try_lock() {
            Ok(_listing) => {
                // The first time too: btrfs fixes what an open directory shows when it is opened or rewound.
                rustix::fs::seek(&*handle, SeekFrom::Start(0)).map_err(named)?;
                list_fd(handle.as_fd(), dir, shown, each)
            }
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let own = openat(&*handle, c".", flags, Mode::empty()).map_err(named)?;
                list_fd(own.as_fd(), dir, shown, each)
            }
        }
    }

    pub(super) fn stat(&self, name: &Name, want: MetaMask) -> Result<Entry> {
        let handle = self.dirs.get(&name.dir)?;
        self.stat_in(&handle, name.clone(), want, false)
    }

    pub(super) fn stat_many(&self, dir: &Dir, leaves: &[&[u8]], want: MetaMask, follow: bool) -> Vec<Found> {
        let handle = match self.dirs.get(dir) {
            Ok(handle) => handle,
            // A directory that is not there has nothing in it.
            Err(e) if e.kind() == ErrorKind::NotFound => return leaves.iter().map(|_| Found::Absent).collect(),
            Err(e) => return leaves.iter().map(|_| Found::Failed(e.again())).collect(),
        };
        let find = |leaf: &&[u8]| match self.stat_in(&handle, Name::new(dir, leaf), want, follow) {
            Ok(entry) => Found::Entry(entry),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                if follow && look(&*handle, leaf, false).is_ok() {
                    return Found::Failed(e.because("the symlink points to nothing"));
                }
                Found::Absent
            }
            Err(e) => Found::Failed(e),
        };
        leaves.iter().map(find).collect()
    }

    fn stat_in(&self, handle: &Handle, name: Name, want: MetaMask, follow: bool) -> Result<Entry> {
        if !name.leaf.is_empty() {
            leaf_of(&name.leaf, "stat").map_err(|e| e.on(&name))?;
        }
        let looked =
            if self.file_system.speaks_at_close { look(handle, &name.leaf, follow) } else { look_quick(handle, &name.leaf, follow) };
        let facts = looked.map_err(|e| fail(e, "stat").on(&name))?;
        let mut entry = facts.entry(name);
        if entry.kind == Kind::Link {
            let target = rustix::fs::readlinkat(handle, &*entry.name.leaf, Vec::new()).map_err(|e| fail(e, "read link").on(&entry.name))?;
            entry.target = Some(target.into_bytes().into());
        }
        if want.any(xattr::ALL) {
            self.look_up_xattrs(handle, &mut entry, want, follow)?;
        }
        Ok(entry)
    }

    /// One call for a name without attributes, by `listxattrat` or through `/proc`, so that no file is opened and no device or
    /// fifo touched; two more for each attribute wanted.
    fn look_up_xattrs(&self, handle: &Handle, entry: &mut Entry, want: MetaMask, follow: bool) -> Result<()> {
        if xattr::has_none(handle.as_fd(), &entry.name.leaf, follow) {
            entry.have = entry.have.with(want.and(xattr::ALL));
            entry.xattrs = Some(Box::default());
            return Ok(());
        }
        let mut path = xattr::proc_path(handle.as_fd());
        if !entry.name.leaf.is_empty() {
            path.push(b'/');
            path.extend_from_slice(&entry.name.leaf);
        }
        let inode = XattrTarget::Path(&path, follow || entry.name.leaf.is_empty());
        let found = inode.read(want, self.rules.privileged).map_err(|e| fail(e, "read extended attributes").on(&entry.name))?;
        entry.have = entry.have.with(want.and(xattr::ALL));
        entry.xattrs = Some(Box::new(found));
        Ok(())
    }

    pub(super) fn read_xattrs(&self, entries: &mut [Entry], want: MetaMask) -> Vec<Result<()>> {
        let read = |entry: &mut Entry| {
            let handle = self.dirs.get(&entry.name.dir)?;
            if !entry.name.leaf.is_empty() {
                leaf_of(&entry.name.leaf, "read extended attributes").map_err(|e| e.on(&entry.name))?;
            }
            self.look_up_xattrs(&handle, entry, want, false)
        };
        entries.iter_mut().map(read).collect()
    }
}

fn list_fd(fd: BorrowedFd<'_>, dir: &Dir, shown: Shown, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
    let mut buffer = Vec::with_capacity(BUFFER);
    let mut raw = RawDir::new(fd, buffer.spare_capacity_mut());
    while let Some(next) = raw.next() {
        let next = match next {
            Ok(next) => next,
            Err(e) => return Err(fail(e, "list").on(&Name::of(dir))),
        };
        let leaf = next.file_name().to_bytes();
        if leaf == b"." || leaf == b".." || !shown.admits(leaf) {
            continue;
        }
        let kind = kind_of(next.file_type());
        let name = Name::new(dir, leaf);
        let found = match leaf_of(leaf, "list") {
            // A corrupt file system or a hostile server.
            Err(e) => Err(e.on(&name)),
            Ok(_) if kind == Kind::Unknown => match look(fd, leaf, false) {
                Ok(facts) => {
                    let mut entry = Entry::bare(name, facts.kind);
                    entry.ino = facts.ino;
                    Ok(entry)
                }
                Err(Errno::NOENT) => continue,
                Err(e) => Err(fail(e, "stat").on(&name)),
            },
            Ok(_) => {
                let mut entry = Entry::bare(name, kind);
                entry.ino = next.ino();
                Ok(entry)
            }
        };
        if each(found) == Flow::Stop {
            break;
        }
    }
    Ok(())
}
