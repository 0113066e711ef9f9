//! The requests, each done below the backing directory after its delay.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{self as sys, AtFlags, FallocateFlags, Mode, OFlags};

use super::attributes::attributes;
use super::node::Nodes;
use super::operation::Change;
use super::{Faults, Options};

const GENERATION: Generation = Generation(0);
/// How long the kernel may believe a name or an attribute.
const CACHE: Duration = Duration::from_secs(1);

pub(super) type Result<T> = std::result::Result<T, rustix::io::Errno>;

pub(super) struct Passthrough {
    pub(super) nodes: Nodes,
    options: Options,
    pub(super) faults: Arc<Faults>,
}

impl Passthrough {
    pub(super) fn new(backing: &Path, options: Options, faults: Arc<Faults>) -> io::Result<Passthrough> {
        let root = sys::open(backing, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Passthrough { nodes: Nodes::new(root), options, faults })
    }

    fn metadata(&self) {
        thread::sleep(self.options.metadata_delay);
    }

    fn data(&self) {
        thread::sleep(self.options.data_delay);
    }
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
        for flag in [InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_ATOMIC_O_TRUNC, InitFlags::FUSE_AUTO_INVAL_DATA] {
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

    fn mknod(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, device: u32, reply: ReplyEntry) {
        self.metadata();
        let kind = sys::FileType::from_raw_mode(mode);
        let made = self.make(parent, name, |directory| {
            // FUSE carries the kernel's 32-bit encoding of a device number: 12 bits of major inside 20 bits of minor.
            let device = sys::makedev((device & 0xfff00) >> 8, (device & 0xff) | ((device >> 12) & 0xfff00));
            sys::mknodat(directory, name, kind, Mode::from_raw_mode(mode & 0o7777), device)
        });
        self.entry(made, reply);
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        self.metadata();
        let mode = Mode::from_raw_mode(mode & 0o7777);
        self.entry(self.make(parent, name, |directory| sys::mkdirat(directory, name, mode)), reply);
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.metadata();
        done(self.nodes.get(parent).and_then(|node| sys::unlinkat(&node.descriptor, name, AtFlags::empty())), reply);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.metadata();
        done(self.nodes.get(parent).and_then(|node| sys::unlinkat(&node.descriptor, name, AtFlags::REMOVEDIR)), reply);
    }

    fn symlink(&self, _: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        self.metadata();
        self.entry(self.make(parent, name, |directory| sys::symlinkat(target, directory, name)), reply);
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

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, flags: i32, reply: ReplyCreate) {
        self.metadata();
        answer!(reply, self.create(parent, name, mode & 0o7777, flags), (attributes, handle, flags) => reply.created(&CACHE, &attributes, GENERATION, FileHandle(handle), flags));
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
            true => self.faults.flush(&handle.name),
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

    fn access(&self, _request: &Request, _number: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        // ENOSYS: everything is allowed, and the kernel asks no more.
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
        answer!(reply, result, attributes => reply.entry(&CACHE, &attributes, GENERATION));
    }

    fn attr(&self, number: INodeNo, result: Result<FileAttr>, reply: ReplyAttr) {
        answer!(reply, result, attributes => reply.attr(&CACHE, &FileAttr { ino: number, ..attributes }));
    }
}

fn done(result: Result<()>, reply: ReplyEmpty) {
    answer!(reply, result, () => reply.ok());
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}
