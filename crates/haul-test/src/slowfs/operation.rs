//! What requests do below the backing directory.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use fuser::{FileAttr, FileHandle, FopenFlags, INodeNo, ReplyDirectory, TimeOrNow};
use rustix::fs::{self as sys, AtFlags, Dir, Mode, OFlags, Timestamps};
use rustix::process::{Gid, Uid};

use super::attributes::{attributes, kind, timespec};
use super::passthrough::{Passthrough, Result};
use haul_core::lock::lock;

/// What a SETATTR changes.
#[derive(Default)]
pub(super) struct Change {
    pub(super) mode: Option<u32>,
    pub(super) owner: Option<u32>,
    pub(super) group: Option<u32>,
    pub(super) size: Option<u64>,
    pub(super) accessed: Option<TimeOrNow>,
    pub(super) modified: Option<TimeOrNow>,
}

impl Passthrough {
    pub(super) fn found(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr> {
        let parent = self.nodes.get(parent)?;
        let descriptor = sys::openat(&parent.descriptor, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let stat = sys::fstat(&descriptor)?;
        let attributes = attributes(&stat);
        self.nodes.found(stat.st_ino, descriptor, name.as_bytes());
        Ok(attributes)
    }

    /// Makes a name with `make` and looks it up.
    pub(super) fn make(&self, parent: INodeNo, name: &OsStr, make: impl FnOnce(&OwnedFd) -> Result<()>) -> Result<FileAttr> {
        make(&self.nodes.get(parent)?.descriptor)?;
        self.found(parent, name)
    }

    pub(super) fn create(&self, parent: INodeNo, name: &OsStr, mode: u32, flags: i32) -> Result<(FileAttr, u64, FopenFlags)> {
        let directory = self.nodes.get(parent)?;
        let exclusive = OFlags::from_bits_retain((flags & libc::O_EXCL) as u32);
        let wanted = open_flags(flags) | OFlags::NOFOLLOW | OFlags::CREATE | exclusive;
        let file = sys::openat(&directory.descriptor, name, wanted, Mode::from_raw_mode(mode))?;
        let attributes = self.found(parent, name)?;
        let handle = self.nodes.open(file, name.as_bytes(), flags & libc::O_ACCMODE != libc::O_RDONLY);
        Ok((attributes, handle, self.fopen_flags(name.as_bytes())))
    }

    /// A file with a scripted read fault is read past the page cache: a short read of a cached file would look like its end.
    pub(super) fn fopen_flags(&self, name: &[u8]) -> FopenFlags {
        if self.faults.on_read(name) { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::empty() }
    }

    pub(super) fn set(&self, number: INodeNo, change: Change, handle: Option<FileHandle>) -> Result<FileAttr> {
        let node = self.nodes.get(number)?;
        if change.owner.is_some() || change.group.is_some() || change.mode.is_some() {
            self.faults.set(&node.name)?;
        }
        if change.owner.is_some() || change.group.is_some() {
            let (owner, group) = (change.owner.map(Uid::from_raw), change.group.map(Gid::from_raw));
            sys::chownat(&node.descriptor, "", owner, group, AtFlags::EMPTY_PATH)?;
        }
        // After the owner, whose change clears the setuid bit.
        if let Some(mode) = change.mode {
            sys::chmod(node.proc_path(), Mode::from_raw_mode(mode & 0o7777))?;
        }
        if let Some(size) = change.size {
            match handle {
                Some(handle) => sys::ftruncate(&self.nodes.handle(handle.0)?.file, size)?,
                None => sys::ftruncate(sys::open(node.proc_path(), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?, size)?,
            }
        }
        if change.accessed.is_some() || change.modified.is_some() {
            let times = Timestamps { last_access: timespec(change.accessed), last_modification: timespec(change.modified) };
            sys::utimensat(&node.descriptor, "", &times, AtFlags::EMPTY_PATH)?;
        }
        Ok(attributes(&sys::fstat(&node.descriptor)?))
    }

    pub(super) fn open_node(&self, number: INodeNo, flags: i32) -> Result<(u64, FopenFlags)> {
        let node = self.nodes.get(number)?;
        self.faults.open(&node.name)?;
        let file = sys::open(node.proc_path(), open_flags(flags), Mode::empty())?;
        let handle = self.nodes.open(file, &node.name, flags & libc::O_ACCMODE != libc::O_RDONLY);
        Ok((handle, self.fopen_flags(&node.name)))
    }

    pub(super) fn read_at(&self, handle: FileHandle, offset: u64, size: u32) -> Result<Vec<u8>> {
        let handle = self.nodes.handle(handle.0)?;
        let allowed = self.faults.read(&handle.name, offset, size as usize)?;
        let mut buffer = vec![0; allowed];
        let mut filled = 0;
        while filled < allowed {
            match rustix::io::pread(&handle.file, &mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        buffer.truncate(filled);
        self.faults.corrupt(&handle.name, offset, &mut buffer);
        Ok(buffer)
    }

    pub(super) fn write_at(&self, handle: FileHandle, offset: u64, data: &[u8]) -> Result<u32> {
        let handle = self.nodes.handle(handle.0)?;
        let count = rustix::io::pwrite(&handle.file, data, offset)?;
        Ok(count as u32)
    }

    pub(super) fn list(&self, handle: FileHandle, offset: u64, reply: &mut ReplyDirectory) -> Result<()> {
        let handle = self.nodes.handle(handle.0)?;
        let mut listing = lock(&handle.listing);
        if offset == 0 {
            listing.clear();
            for entry in Dir::read_from(&handle.file)? {
                let entry = entry?;
                let Some(kind) = kind(entry.file_type()) else { continue };
                listing.push((entry.ino(), kind, entry.file_name().to_bytes().to_vec()));
            }
        }
        for (index, (number, kind, name)) in listing.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(*number), index as u64 + 1, *kind, OsStr::from_bytes(name)) {
                break;
            }
        }
        Ok(())
    }
}

fn open_flags(flags: i32) -> OFlags {
    let dropped = libc::O_APPEND | libc::O_DIRECT | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_NOCTTY;
    OFlags::from_bits_retain((flags & !dropped) as u32) | OFlags::CLOEXEC
}
