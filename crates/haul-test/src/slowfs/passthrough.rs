//! The requests, each done below the backing directory after its delay.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{self as sys, AtFlags, Dir, FallocateFlags, Mode, OFlags, Stat, Timespec, Timestamps, XattrFlags};
use rustix::process::{Gid, Uid};

use super::node::{Nodes, lock};
use super::{Counts, Faults, Options};

const GENERATION: Generation = Generation(0);
const CAPABILITY: &[u8] = b"security.capability";

type Result<T> = std::result::Result<T, rustix::io::Errno>;

pub(super) struct Passthrough {
    nodes: Nodes,
    options: Options,
    faults: Arc<Faults>,
    counts: Arc<Counts>,
}

thread_local! {
    /// Whether this thread has a umask of its own.
    static OWN_UMASK: Cell<bool> = const { Cell::new(false) };
}

impl Passthrough {
    pub(super) fn new(backing: &Path, options: Options, faults: Arc<Faults>, counts: Arc<Counts>) -> io::Result<Passthrough> {
        let root = sys::open(backing, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Passthrough { nodes: Nodes::new(root), options, faults, counts })
    }

    fn metadata(&self) {
        self.counts.metadata.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.counts.wait(self.options.metadata_delay);
    }

    fn data(&self) {
        self.counts.data.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.counts.wait(self.options.data_delay);
    }

    fn found(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr> {
        let parent = self.nodes.get(parent)?;
        let descriptor = sys::openat(&parent.descriptor, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let stat = sys::fstat(&descriptor)?;
        let attributes = attributes(&stat);
        self.nodes.found(stat.st_ino, descriptor, name.as_bytes());
        Ok(attributes)
    }

    /// Makes a name with `make` under the caller's umask, gives it to the caller and looks it up.
    fn make(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        umask: u32,
        make: impl FnOnce(&OwnedFd) -> Result<()>,
    ) -> Result<FileAttr> {
        let directory = self.nodes.get(parent)?;
        with_umask(umask);
        make(&directory.descriptor)?;
        give(request, &directory.descriptor, name)?;
        self.found(parent, name)
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
    ) -> Result<(FileAttr, u64, FopenFlags)> {
        let directory = self.nodes.get(parent)?;
        with_umask(umask);
        let wanted = open_flags(flags) | OFlags::NOFOLLOW | OFlags::CREATE;
        let file = match sys::openat(&directory.descriptor, name, wanted | OFlags::EXCL, Mode::from_raw_mode(mode)) {
            Ok(file) => {
                give(request, &directory.descriptor, name)?;
                file
            }
            Err(rustix::io::Errno::EXIST) if flags & libc::O_EXCL == 0 => {
                sys::openat(&directory.descriptor, name, wanted, Mode::from_raw_mode(mode))?
            }
            Err(error) => return Err(error),
        };
        let attributes = self.found(parent, name)?;
        let handle = self.nodes.open(file, name.as_bytes(), flags & libc::O_ACCMODE != libc::O_RDONLY);
        Ok((attributes, handle, self.fopen_flags(name.as_bytes())))
    }

    /// A file with a scripted read fault is read past the page cache: a short read of a cached file would look like its end.
    fn fopen_flags(&self, name: &[u8]) -> FopenFlags {
        if self.faults.on_read(name) { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::empty() }
    }

    fn set(&self, number: INodeNo, change: Change, handle: Option<FileHandle>) -> Result<FileAttr> {
        let node = self.nodes.get(number)?;
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

    fn open_node(&self, number: INodeNo, flags: i32) -> Result<(u64, FopenFlags)> {
        let node = self.nodes.get(number)?;
        self.faults.open(&node.name).map_err(rustix::io::Errno::from_raw_os_error)?;
        let file = sys::open(node.proc_path(), open_flags(flags), Mode::empty())?;
        let handle = self.nodes.open(file, &node.name, flags & libc::O_ACCMODE != libc::O_RDONLY);
        Ok((handle, self.fopen_flags(&node.name)))
    }

    fn read_at(&self, handle: FileHandle, offset: u64, size: u32) -> Result<Vec<u8>> {
        let handle = self.nodes.handle(handle.0)?;
        let allowed = self.faults.read(&handle.name, offset, size as usize).map_err(rustix::io::Errno::from_raw_os_error)?;
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

    fn write_at(&self, handle: FileHandle, offset: u64, data: &[u8]) -> Result<u32> {
        let handle = self.nodes.handle(handle.0)?;
        self.faults.write(&handle.name, offset, data.len()).map_err(rustix::io::Errno::from_raw_os_error)?;
        let count = rustix::io::pwrite(&handle.file, data, offset)?;
        Ok(count as u32)
    }

    fn list(&self, handle: FileHandle, offset: u64, reply: &mut ReplyDirectory) -> Result<()> {
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

    fn xattr(&self, name: &OsStr) -> Result<()> {
        if !self.options.xattrs {
            // ENOSYS: the kernel remembers, answers EOPNOTSUPP itself and asks no more.
            return Err(rustix::io::Errno::NOSYS);
        }
        if name.as_bytes() != CAPABILITY {
            self.metadata();
        }
        Ok(())
    }
}

/// What a SETATTR changes.
#[derive(Default)]
struct Change {
    mode: Option<u32>,
    owner: Option<u32>,
    group: Option<u32>,
    size: Option<u64>,
    accessed: Option<TimeOrNow>,
    modified: Option<TimeOrNow>,
}

/// What a request has led to, or its error.
macro_rules! answer {
    ($reply:ident, $result:expr, $value:pat => $ok:expr) => {
        match $result {
            Ok($value) => $ok,
            Err(error) => $reply.error(errno(error)),
        }
    };
}

impl Filesystem for Passthrough {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let mut wanted = vec![InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_ATOMIC_O_TRUNC, InitFlags::FUSE_AUTO_INVAL_DATA];
        if self.options.xattrs {
            wanted.extend([InitFlags::FUSE_POSIX_ACL, InitFlags::FUSE_DONT_MASK]);
        }
        for flag in wanted {
            config.add_capabilities(flag).map_err(|missing| io::Error::other(format!("slowfs: this kernel's FUSE lacks {missing:?}")))?;
        }
        // An error names the nearest value, which is set then.
        let _ = config.set_max_write(1 << 20);
        let _ = config.set_max_background(512);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.metadata();
        self.entry(self.found(parent, name), reply);
    }

    fn forget(&self, _request: &Request, number: INodeNo, lookups: u64) {
        self.nodes.forget(number, lookups);
    }

    fn getattr(&self, _request: &Request, number: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        self.metadata();
        let stat = self.nodes.get(number).and_then(|node| sys::fstat(&node.descriptor));
        self.attr(number, stat.map(|stat| attributes(&stat)), reply);
    }

    fn setattr(
        &self,
        _request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        owner: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _flags_changed: Option<SystemTime>,
        _backed_up: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.metadata();
        let change = Change { mode, owner, group, size, accessed, modified };
        self.attr(number, self.set(number, change, handle), reply);
    }

    fn readlink(&self, _request: &Request, number: INodeNo, reply: ReplyData) {
        self.metadata();
        answer!(reply, self.nodes.get(number).and_then(|node| sys::readlinkat(&node.descriptor, "", Vec::new())), target => reply.data(target.as_bytes()));
    }

    fn mknod(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, device: u32, reply: ReplyEntry) {
        self.metadata();
        let kind = sys::FileType::from_raw_mode(mode);
        let made = self.make(request, parent, name, umask, |directory| {
            // FUSE carries the kernel's 32-bit encoding of a device number: 12 bits of major inside 20 bits of minor.
            let device = sys::makedev((device & 0xfff00) >> 8, (device & 0xff) | ((device >> 12) & 0xfff00));
            sys::mknodat(directory, name, kind, Mode::from_raw_mode(mode & 0o7777), device)
        });
        self.entry(made, reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        self.metadata();
        let mode = Mode::from_raw_mode(mode & 0o7777);
        self.entry(self.make(request, parent, name, umask, |directory| sys::mkdirat(directory, name, mode)), reply);
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.metadata();
        done(self.nodes.get(parent).and_then(|node| sys::unlinkat(&node.descriptor, name, AtFlags::empty())), reply);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.metadata();
        done(self.nodes.get(parent).and_then(|node| sys::unlinkat(&node.descriptor, name, AtFlags::REMOVEDIR)), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        self.metadata();
        self.entry(self.make(request, parent, name, 0, |directory| sys::symlinkat(target, directory, name)), reply);
    }

    fn rename(&self, _request: &Request, parent: INodeNo, name: &OsStr, to: INodeNo, new: &OsStr, flags: RenameFlags, reply: ReplyEmpty) {
        self.metadata();
        let renamed = self.nodes.get(parent).and_then(|from| {
            let to = self.nodes.get(to)?;
            sys::renameat_with(&from.descriptor, name, &to.descriptor, new, sys::RenameFlags::from_bits_retain(flags.bits()))
        });
        done(renamed, reply);
    }

    fn link(&self, _request: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.metadata();
        let linked = self.nodes.get(number).and_then(|node| {
            let parent = self.nodes.get(parent)?;
            sys::linkat(sys::CWD, node.proc_path(), &parent.descriptor, name, AtFlags::SYMLINK_FOLLOW)
        });
        self.entry(linked.and_then(|()| self.found(parent, name)), reply);
    }

    fn open(&self, _request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.metadata();
        answer!(reply, self.open_node(number, flags.0), (handle, flags) => reply.opened(FileHandle(handle), flags));
    }

    fn create(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, flags: i32, reply: ReplyCreate) {
        self.metadata();
        answer!(reply, self.create(request, parent, name, mode & 0o7777, umask, flags), (attributes, handle, flags) => reply.created(&self.options.cache, &attributes, GENERATION, FileHandle(handle), flags));
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.data();
        answer!(reply, self.read_at(handle, offset, size), bytes => reply.data(&bytes));
    }

    fn write(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.data();
        answer!(reply, self.write_at(handle, offset, data), count => reply.written(count));
    }

    fn flush(&self, _request: &Request, _number: INodeNo, handle: FileHandle, _lock_owner: LockOwner, reply: ReplyEmpty) {
        self.metadata();
        let flushed = self.nodes.handle(handle.0).and_then(|handle| match handle.writes {
            true => self.faults.flush(&handle.name).map_err(rustix::io::Errno::from_raw_os_error),
            false => Ok(()),
        });
        done(flushed, reply);
    }

    fn release(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, _: Option<LockOwner>, _: bool, reply: ReplyEmpty) {
        self.nodes.close(handle.0);
        reply.ok();
    }

    fn fsync(&self, _request: &Request, _number: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.metadata();
        let sync = |handle: Arc<super::node::Handle>| if data_only { sys::fdatasync(&handle.file) } else { sys::fsync(&handle.file) };
        done(self.nodes.handle(handle.0).and_then(sync), reply);
    }

    fn fsyncdir(&self, request: &Request, number: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.fsync(request, number, handle, data_only, reply);
    }

    fn opendir(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        answer!(reply, self.open_node(number, libc::O_RDONLY | libc::O_DIRECTORY), (handle, _) => reply.opened(FileHandle(handle), FopenFlags::empty()));
    }

    fn readdir(&self, _request: &Request, _number: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        self.metadata();
        answer!(reply, self.list(handle, offset, &mut reply), () => reply.ok());
    }

    fn releasedir(&self, _request: &Request, _number: INodeNo, handle: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        self.nodes.close(handle.0);
        reply.ok();
    }

    fn statfs(&self, _request: &Request, number: INodeNo, reply: ReplyStatfs) {
        self.metadata();
        match self.nodes.get(number).and_then(|node| sys::fstatvfs(&node.descriptor)) {
            Ok(s) => {
                let (block, fragment, name) = (s.f_bsize as u32, s.f_frsize as u32, s.f_namemax as u32);
                reply.statfs(s.f_blocks, s.f_bfree, s.f_bavail, s.f_files, s.f_ffree, block, name, fragment);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setxattr(&self, _: &Request, number: INodeNo, name: &OsStr, value: &[u8], flags: i32, _position: u32, reply: ReplyEmpty) {
        let set = self.xattr(name).and_then(|()| {
            let node = self.nodes.get(number)?;
            sys::setxattr(node.proc_path(), name, value, XattrFlags::from_bits_retain(flags as u32))
        });
        done(set, reply);
    }

    fn getxattr(&self, _request: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let value = self.xattr(name).and_then(|()| {
            let node = self.nodes.get(number)?;
            let mut value = vec![0; 1 << 16];
            let length = sys::getxattr(node.proc_path(), name, &mut value)?;
            value.truncate(length);
            Ok(value)
        });
        sized(value, size, reply);
    }

    fn listxattr(&self, _request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self.xattr(OsStr::new("")).and_then(|()| {
            let node = self.nodes.get(number)?;
            let mut names = vec![0; 1 << 16];
            let length = sys::listxattr(node.proc_path(), &mut names)?;
            names.truncate(length);
            Ok(names)
        });
        sized(names, size, reply);
    }

    fn removexattr(&self, _request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.xattr(name).and_then(|()| sys::removexattr(self.nodes.get(number)?.proc_path(), name));
        done(removed, reply);
    }

    fn access(&self, _request: &Request, _number: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        // Either the kernel decides by mode and ACL, or everything is allowed.
        reply.error(Errno::ENOSYS);
    }

    fn fallocate(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, length: u64, mode: i32, reply: ReplyEmpty) {
        self.metadata();
        let flags = FallocateFlags::from_bits_retain(mode as u32);
        done(self.nodes.handle(handle.0).and_then(|handle| sys::fallocate(&handle.file, flags, offset, length)), reply);
    }

    fn lseek(&self, _request: &Request, _number: INodeNo, handle: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        self.metadata();
        let sought = self.nodes.handle(handle.0).and_then(|handle| match whence {
            libc::SEEK_DATA => sys::seek(&handle.file, sys::SeekFrom::Data(offset as u64)),
            libc::SEEK_HOLE => sys::seek(&handle.file, sys::SeekFrom::Hole(offset as u64)),
            _ => Err(rustix::io::Errno::INVAL),
        });
        answer!(reply, sought, offset => reply.offset(offset as i64));
    }
}

impl Passthrough {
    fn entry(&self, result: Result<FileAttr>, reply: ReplyEntry) {
        answer!(reply, result, attributes => reply.entry(&self.options.cache, &attributes, GENERATION));
    }

    fn attr(&self, number: INodeNo, result: Result<FileAttr>, reply: ReplyAttr) {
        answer!(reply, result, attributes => reply.attr(&self.options.cache, &FileAttr { ino: number, ..attributes }));
    }
}

fn done(result: Result<()>, reply: ReplyEmpty) {
    answer!(reply, result, () => reply.ok());
}

fn sized(result: Result<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match result {
        Ok(bytes) if size == 0 => reply.size(bytes.len() as u32),
        Ok(bytes) if bytes.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(bytes) => reply.data(&bytes),
        Err(error) => reply.error(errno(error)),
    }
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

/// Sets this thread's umask, and this thread's only: the backing file system then applies it as the caller's own would be, or not at all below a
/// default ACL.
fn with_umask(umask: u32) {
    OWN_UMASK.with(|own| {
        if !own.get() {
            // SAFETY: CLONE_FS only gives this thread its own umask, root and working directory; no memory or descriptor is concerned.
            let result = unsafe { libc::unshare(libc::CLONE_FS) };
            assert_eq!(result, 0, "unshare(CLONE_FS) needs no rights and cannot fail");
            own.set(true);
        }
    });
    rustix::process::umask(Mode::from_raw_mode(umask & 0o777));
}

/// Gives a new name to the caller; the group stays the directory's below a setgid directory.
fn give(request: &Request, directory: &OwnedFd, name: &OsStr) -> Result<()> {
    let stat = sys::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let parent = sys::fstat(directory)?;
    let group = if parent.st_mode & libc::S_ISGID != 0 { stat.st_gid } else { request.gid() };
    if (stat.st_uid, stat.st_gid) == (request.uid(), group) {
        return Ok(());
    }
    sys::chownat(directory, name, Some(Uid::from_raw(request.uid())), Some(Gid::from_raw(group)), AtFlags::SYMLINK_NOFOLLOW)?;
    if stat.st_mode & (libc::S_ISUID | libc::S_ISGID) != 0 && stat.st_mode & libc::S_IFMT != libc::S_IFLNK {
        sys::chmodat(directory, name, Mode::from_raw_mode(stat.st_mode & 0o7777), AtFlags::empty())?;
    }
    Ok(())
}

fn open_flags(flags: i32) -> OFlags {
    let dropped = libc::O_APPEND | libc::O_DIRECT | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_NOCTTY;
    OFlags::from_bits_retain((flags & !dropped) as u32) | OFlags::CLOEXEC
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: libc::UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Timespec { tv_sec: after.as_secs() as i64, tv_nsec: i64::from(after.subsec_nanos()) },
            // fuser 0.18 subtracts the nanoseconds, too, from a time before 1970; taking both numbers as they are gives back what the kernel sent.
            Err(before) => {
                let before = before.duration();
                Timespec { tv_sec: -(before.as_secs() as i64), tv_nsec: i64::from(before.subsec_nanos()) }
            }
        },
    }
}

fn system_time(seconds: i64, nanoseconds: u64) -> SystemTime {
    let whole = match u64::try_from(seconds) {
        Ok(seconds) => UNIX_EPOCH + Duration::from_secs(seconds),
        Err(_) => UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs()),
    };
    whole + Duration::from_nanos(nanoseconds)
}

fn kind(kind: sys::FileType) -> Option<FileType> {
    match kind {
        sys::FileType::RegularFile => Some(FileType::RegularFile),
        sys::FileType::Directory => Some(FileType::Directory),
        sys::FileType::Symlink => Some(FileType::Symlink),
        sys::FileType::Fifo => Some(FileType::NamedPipe),
        sys::FileType::Socket => Some(FileType::Socket),
        sys::FileType::CharacterDevice => Some(FileType::CharDevice),
        sys::FileType::BlockDevice => Some(FileType::BlockDevice),
        sys::FileType::Unknown => None,
    }
}

fn attributes(stat: &Stat) -> FileAttr {
    let (major, minor) = (sys::major(stat.st_rdev), sys::minor(stat.st_rdev));
    FileAttr {
        ino: INodeNo(stat.st_ino),
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: system_time(stat.st_atime, stat.st_atime_nsec),
        mtime: system_time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: system_time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: kind(sys::FileType::from_raw_mode(stat.st_mode)).unwrap_or(FileType::RegularFile),
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12),
        blksize: 4096,
        flags: 0,
    }
}
