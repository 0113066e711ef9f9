//! A file that is being written: under a staging name until it is complete, or in place if requested.

mod old;

use std::io::{self, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use haul_core::entry::{Entry, Kind, MetaMask, Name, Stamp};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::lock::lock;
use haul_core::receipt;
use haul_core::store::{Fill, Receipt, Sink, SinkExtensions, SinkState, Source, Spec, Token, WriteOutcome};
use haul_core::stripe::Layout;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, fallocate, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::copy::{close, write_all};
use super::dirs::{Handle, Inherited, leaf_of};
use super::facts::{Facts, look, look_at};
use super::meta::{self, Now, Target};
use super::source::FileSource;
use super::token::{IN_PLACE, birth, is_same, staging_of, token_of};
use super::{Shared, fail, lustre};

/// Files from this size on get their room before the first byte, so that a full disk is known at once.
const PREALLOCATE: u64 = 1 << 20;

pub(super) const WRITE: OFlags =
    OFlags::WRONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NOCTTY).union(OFlags::NONBLOCK);

#[derive(Debug)]
pub(super) struct FileSink {
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    name: Name,
    /// `None` when the file is written in place.
    staging: Option<Vec<u8>>,
    token: Token,
    fd: OwnedFd,
    /// This sink made the file: there is nothing in it that it did not write.
    made: bool,
    inherits: Option<Inherited>,
    keep: MetaMask,
    size: u64,
    chunk: u64,
    sync: bool,
    /// The end of what this sink wrote: a hole behind it is one already, unless space was reserved.
    written: AtomicU64,
    reserved: AtomicBool,
    /// Whose turn it is to write: who waits for the inode's lock spins in the kernel (half of the processor time of a download by
    /// 8 workers), who waits here sleeps.
    turn: Mutex<()>,
    /// The file that has the final name, once a part of it has been used, and what it was then.
    old: Mutex<Option<(Arc<OwnedFd>, Stamp)>>,
}

/// Makes the staging file of `leaf`, in place of one that was left over.
pub(super) fn stage(handle: &Handle, staging: &[u8], mode: u32, layout: Option<Layout>) -> Result<OwnedFd> {
    let flags = WRITE | OFlags::CREATE | OFlags::EXCL;
    let make = || match layout {
        Some(layout) => lustre::create(handle, staging, mode, layout),
        None => openat(handle, staging, flags, Mode::from_raw_mode(mode)),
    };
    match make() {
        Err(Errno::EXIST) => {
            unlinkat(handle, staging, AtFlags::empty()).map_err(|e| fail(e, "remove leftover"))?;
            make()
        }
        made => made,
    }
    .map_err(|e| fail(e, "create"))
}

/// The last step: what was staged gets its name.
pub(super) fn put_in_place(handle: &Handle, staging: &[u8], leaf: &[u8]) -> Result<()> {
    renameat(handle, staging, handle, leaf).map_err(|e| match e {
        Errno::ISDIR | Errno::NOTEMPTY => directory_there(),
        Errno::EXIST if look(handle, leaf, false).is_ok_and(|facts| facts.kind == Kind::Dir) => directory_there(),
        e => fail(e, "rename"),
    })
}

/// The file with the staging name is not the one that was written here.
pub(super) fn another_writes() -> Error {
    Error::new(ErrorKind::Busy, "rename").because("another run is writing the same file")
}

/// Nothing has the staging name any more; it is not the source that is missing.
fn staging_gone(op: &'static str) -> Error {
    let e = Error::new(ErrorKind::Busy, op).because("its staging file is gone: another run wrote the same file, or it was removed");
    e.hint("let the other run finish, then run the same command again")
}

pub(super) fn directory_there() -> Error {
    Error::new(ErrorKind::Exists, "rename").because("a directory has this name")
}

impl FileSink {
    pub fn create(shared: &Arc<Shared>, name: &Name, spec: &Spec<'_>) -> Result<Self> {
        leaf_of(&name.leaf, "create")?;
        let handle = shared.dirs.get(&name.dir)?;
        let staging = (!spec.in_place).then(|| shared.staging_leaf(&name.leaf, spec.entry.stamp()));
        let (fd, made) = match &staging {
            Some(staging) => (stage(&handle, staging, 0o600, shared.layout(spec.entry.size, spec.chunk))?, true),
            None => match openat(&*handle, &*name.leaf, WRITE | OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(0o600)) {
                Ok(fd) => (fd, true),
                Err(Errno::EXIST) => (open_in_place(&handle, &name.leaf)?, false),
                Err(e) => return Err(fail(e, "create")),
            },
        };
        let token = match &staging {
            Some(staging) => token_of(staging, birth(&fd).map_err(|e| fail(e, "stat"))?),
            None => Token(IN_PLACE.into()),
        };
        let sink = Self::new(shared, handle, name, spec, staging, token, fd, made);
        if let Err(error) = sink.preallocate(spec.entry) {
            // The first error counts.
            let _ = sink.abort();
            return Err(error);
        }
        Ok(sink)
    }

    pub fn attach(shared: &Arc<Shared>, name: &Name, token: &Token, spec: &Spec<'_>) -> Result<Self> {
        leaf_of(&name.leaf, "attach")?;
        let handle = shared.dirs.get(&name.dir)?;
        let staging = staging_of(token)?;
        let fd = match &staging {
            None => open_in_place(&handle, &name.leaf)?,
            Some(staging) => {
                let lost = |why: &str| Error::new(ErrorKind::NotFound, "attach").because(why);
                let (staging, born) = (&staging.leaf, staging.born);
                let fd = openat(&*handle, &staging[..], WRITE, Mode::empty()).map_err(|e| match e {
                    Errno::LOOP | Errno::NXIO => lost("the staging name is no file"),
                    e => fail(e, "attach"),
                })?;
                // Somebody else's file, or another name of one, is not ours to write.
                let facts = look_at(&fd).map_err(|e| fail(e, "stat"))?;
                let owner = rustix::process::geteuid().as_raw();
                if facts.kind != Kind::File || facts.nlink != 1 || (facts.uid != owner && facts.uid != spec.entry.uid) {
                    return Err(lost("the staging name is no file of ours"));
                }
                // Staging names are the same for every run: a run without a journal may have begun anew under this one.
                let now = birth(&fd).map_err(|e| fail(e, "stat"))?;
                if !born.is_some_and(|born| is_same(born, now)) {
                    return Err(lost("the staging file is another one now"));
                }
                fd
            }
        };
        Ok(Self::new(shared, handle, name, spec, staging.map(|staging| staging.leaf), token.clone(), fd, false))
    }

    #[expect(clippy::too_many_arguments, reason = "two callers; a struct would be the sink itself")]
    fn new(
        shared: &Arc<Shared>,
        handle: Arc<Handle>,
        name: &Name,
        spec: &Spec<'_>,
        staging: Option<Vec<u8>>,
        token: Token,
        fd: OwnedFd,
        made: bool,
    ) -> Self {
        FileSink {
            inherits: shared.inherits_acl(&handle),
            shared: shared.clone(),
            handle,
            name: name.clone(),
            staging,
            token,
            fd,
            made,
            keep: spec.keep,
            size: spec.entry.size,
            chunk: spec.chunk,
            sync: spec.sync,
            written: AtomicU64::new(0),
            reserved: AtomicBool::new(false),
            turn: Mutex::default(),
            old: Mutex::default(),
        }
    }

    fn preallocate(&self, entry: &Entry) -> Result<()> {
        let wanted = self.made && self.shared.file_system.preallocates && entry.size >= PREALLOCATE && !entry.is_sparse();
        if !wanted || entry.is_bare() {
            return Ok(());
        }
        match fallocate(&self.fd, FallocateFlags::KEEP_SIZE, 0, entry.size) {
            Err(e @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(fail(e, "reserve space")),
            reserved => {
                self.reserved.store(reserved.is_ok(), Ordering::Relaxed);
                Ok(()) // a saving only
            }
        }
    }

    fn file_leaf(&self) -> &[u8] {
        self.staging.as_deref().unwrap_or(&self.name.leaf)
    }

    fn failed(&self, errno: Errno, op: &'static str) -> Error {
        fail(errno, op).on(&self.name)
    }

    fn put(&self, bytes: &[u8], at: u64) -> Result<()> {
        let _turn = (!self.shared.file_system.parallel_writes).then(|| lock(&self.turn));
        write_all(&self.fd, bytes, at).map_err(|e| self.failed(e, "write"))
    }

    fn zeros(&self, at: Range<u64>) -> Result<()> {
        self.write(at, &mut io::repeat(0))
    }

    fn finish(&self, entry: &Entry, receipts: &[Receipt]) -> Result<WriteOutcome> {
        receipt::complete(entry.size, self.chunk, receipts)?;
        self.old_is_the_same()?;
        let facts = look_at(&self.fd).map_err(|e| fail(e, "stat"))?;
        if facts.size != entry.size || self.size > entry.size {
            rustix::fs::ftruncate(&self.fd, entry.size).map_err(|e| fail(e, "truncate"))?;
        }
        if self.shared.file_system.speaks_at_close {
            rustix::io::dup(&self.fd).and_then(close).map_err(|e| fail(e, "write"))?;
        }
        let rules = &self.shared.rules;
        let mut otherwise = rules.new_mode(entry, self.keep, self.inherits);
        if !self.made && self.staging.is_none() {
            otherwise = facts.mode;
        } else if self.staging.is_some() && !self.keep.has(MetaMask::MODE) {
            // Without modes to keep, a replaced file keeps its mode.
            if let Ok(old) = look(&*self.handle, &self.name.leaf, false)
                && old.kind == Kind::File
            {
                otherwise = old.mode & 0o777;
            }
        }
        let inherited = self.inherits.is_some() && (self.made || self.staging.is_some());
        let now = Now { facts: Some(facts), mode: facts.mode, otherwise, fresh: self.made && !inherited, inherited };
        let (landed, _) = meta::set(&Target::Open(self.fd.as_fd()), entry, self.keep, now, rules)?;
        if self.sync {
            rustix::fs::fsync(&self.fd).map_err(|e| fail(e, "sync"))?;
        }
        if let Some(staging) = &self.staging {
            // Concurrent runs share the staging name: only the file that was written here may be renamed.
            if look(&*self.handle, staging, false).is_ok_and(|there| (there.ino, there.dev) != (facts.ino, facts.dev)) {
                return Err(another_writes());
            }
            let renamed = put_in_place(&self.handle, staging, &self.name.leaf);
            // An earlier commit whose answer was lost has renamed it already.
            let ours = || look(&*self.handle, &self.name.leaf, false).is_ok_and(|there| there.ino == facts.ino && there.dev == facts.dev);
            match renamed {
                Err(e) if e.kind() == ErrorKind::NotFound && ours() => {}
                Err(e) if e.kind() == ErrorKind::NotFound => return Err(staging_gone("rename")),
                renamed => renamed?,
            }
        }
        if self.sync {
            rustix::fs::fsync(&*self.handle).map_err(|e| fail(e, "sync directory"))?;
        }
        Ok(WriteOutcome { ino: facts.ino, ..landed })
    }
}

/// The existing regular file, for writing; it is neither created nor truncated.
fn open_in_place(handle: &Handle, leaf: &[u8]) -> Result<OwnedFd> {
    let no_file =
        || Error::new(ErrorKind::Exists, "open").because("the existing file is not a regular file and cannot be updated in place");
    let fd = openat(handle, leaf, WRITE, Mode::empty()).map_err(|e| match e {
        Errno::LOOP | Errno::NXIO | Errno::ISDIR | Errno::NODEV => no_file(),
        e => fail(e, "open"),
    })?;
    let facts = look_at(&fd).map_err(|e| fail(e, "stat"))?;
    match facts.kind {
        Kind::File if facts.nlink > 1 => {
            let e = Error::new(ErrorKind::Exists, "open").because("it has other hard links, which would change too");
            Err(e.hint("omit --inplace"))
        }
        Kind::File => Ok(fd),
        _ => Err(no_file()),
    }
}

/// By name, whichever file has it: one of another run under this name was of the same version of the same source.
pub(super) fn abandon(shared: &Shared, name: &Name, token: &Token) -> Result<()> {
    let Some(staging) = staging_of(token)? else { return Ok(()) };
    let handle = match shared.dirs.get(&name.dir) {
        Ok(handle) => handle,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    match unlinkat(&*handle, &staging.leaf[..], AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        // A read-only file system refuses before it looks.
        Err(_) if matches!(look(&*handle, &staging.leaf, false), Err(Errno::NOENT)) => Ok(()),
        Err(e) => Err(fail(e, "remove")),
    }
}

impl Sink for FileSink {
    fn token(&self) -> Token {
        self.token.clone()
    }

    fn write(&self, at: Range<u64>, from: &mut dyn Read) -> Result<()> {
        let mut next = at.start;
        let written = self.shared.with_buffer(|buffer| -> Result<()> {
            while next < at.end {
                // Whole buffers: each write takes a turn.
                let want = usize::try_from(at.end - next).unwrap_or(usize::MAX).min(buffer.len());
                let mut count = 0;
                while count < want {
                    count += match from.read(&mut buffer[count..want]) {
                        Ok(0) => return Err(Error::new(ErrorKind::Changed, "read").on(&self.name).because("it ended before its size")),
                        Ok(count) => count,
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                        Err(e) => return Err(Error::from_io(e, "read").on(&self.name)),
                    };
                }
                self.put(&buffer[..count], next)?;
                next += count as u64;
            }
            Ok(())
        });
        self.written.fetch_max(next, Ordering::Relaxed);
        written.map_err(|e| e.wrote(next - at.start))
    }

    fn write_bytes(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.put(bytes, at)?;
        self.written.fetch_max(at + bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn hole(&self, at: Range<u64>) -> Result<()> {
        // The end of the file is set at commit; a hole there needs nothing now.
        let is_reserved = self.reserved.load(Ordering::Relaxed);
        if at.is_empty() || (self.made && !is_reserved && at.start >= self.written.load(Ordering::Relaxed)) {
            return Ok(());
        }
        if is_reserved {
            // Nothing is punched behind the end of a file.
            rustix::fs::ftruncate(&self.fd, self.size).map_err(|e| self.failed(e, "truncate"))?;
        }
        match fallocate(&self.fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at.start, at.end - at.start) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => self.zeros(at),
            Err(e) => Err(self.failed(e, "punch hole")),
        }
    }

    fn reread(&self) -> Result<Box<dyn Source>> {
        let open = || {
            // A hole at the end is made of nothing but the size.
            if look_at(&self.fd).map_err(|e| fail(e, "stat"))?.size < self.size {
                rustix::fs::ftruncate(&self.fd, self.size).map_err(|e| fail(e, "truncate"))?;
            }
            rustix::fs::fsync(&self.fd).map_err(|e| fail(e, "sync"))?;
            let ours = look_at(&self.fd).map_err(|e| fail(e, "stat"))?;
            let name = Name::new(&self.name.dir, self.file_leaf());
            let listed = Stamp { size: ours.size, mtime: ours.mtime, version: ours.ino };
            let source = FileSource::new(&self.handle, &name, Some(listed), false, self.shared.rules.privileged);
            let source = source.map_err(|e| match e.kind() {
                ErrorKind::NotFound | ErrorKind::Changed if self.staging.is_some() => staging_gone("read back"),
                _ => e,
            })?;
            let source = source.named(&self.name);
            source.drop_cache()?;
            Ok(source)
        };
        Ok(Box::new(open().map_err(|e: Error| e.on(&self.name))?))
    }

    fn commit(&self, entry: &Entry, receipts: &[Receipt]) -> Result<WriteOutcome> {
        self.finish(entry, receipts).map_err(|e| e.on(&self.name))
    }

    fn abort(&self) -> Result<()> {
        // By now the name may be that of another run's file.
        let foreign = |there: Facts| look_at(&self.fd).is_ok_and(|ours| (ours.ino, ours.dev) != (there.ino, there.dev));
        if look(&*self.handle, self.file_leaf(), false).is_ok_and(foreign) {
            return Ok(());
        }
        let leaf = match &self.staging {
            Some(staging) => &staging[..],
            None if self.made => &self.name.leaf,
            None => return Ok(()), // what was written over is gone
        };
        match unlinkat(&*self.handle, leaf, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(self.failed(e, "remove")),
        }
    }

    fn extensions(&self) -> SinkExtensions<'_> {
        // A file system that speaks at close may have lost bytes that it took before it says that it is full.
        let keeps_in_failure = !self.shared.file_system.speaks_at_close;
        SinkExtensions { keeps_in_failure, fd: Some(self.fd.as_fd()), fill: self, state: self, ..SinkExtensions::default() }
    }
}

impl Fill for FileSink {
    fn reuse(&self, old: &Stamp, from: u64, at: Range<u64>) -> Result<()> {
        self.copy_old(old, from, at).map_err(|e| e.on(&self.name))
    }
}

impl SinkState for FileSink {
    fn sync(&self) -> Result<()> {
        rustix::fs::fsync(&self.fd).map_err(|e| self.failed(e, "sync"))
    }
}
