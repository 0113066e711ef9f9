//! A file that is being written: beside its final name until it is whole, or in place if that was asked for.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use haul_core::entry::{Entry, Kind, MetaMask, Name, Stamp};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::receipt;
use haul_core::store::{Chunk, Landed, Receipt, Sink, Source, Spec, Token};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, StatxFlags, fallocate, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::dirs::{Handle, Inherited, leaf_of};
use super::facts::{Facts, look, look_at};
use super::meta::{self, Now, Target};
use super::source::{FileSource, open_file};
use super::{Shared, fail};
use crate::staging::{is_staging, staging_leaf};

/// The token of a write into the existing file; no staging name has this form.
const IN_PLACE: &[u8] = b"in-place";

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
    /// The end of what this sink wrote: a hole behind it is one already.
    written: AtomicU64,
    /// The file that has the final name, once a part of it has been used, and what it was then.
    old: Mutex<Option<(Arc<OwnedFd>, Stamp)>>,
}

/// Makes the staging file of `leaf`, in place of one that was left over.
pub(super) fn stage(handle: &Handle, staging: &[u8], mode: u32) -> Result<OwnedFd> {
    let flags = WRITE | OFlags::CREATE | OFlags::EXCL;
    match openat(handle, staging, flags, Mode::from_raw_mode(mode)) {
        Err(Errno::EXIST) => {
            unlinkat(handle, staging, AtFlags::empty()).map_err(|e| fail(e, "remove leftover"))?;
            openat(handle, staging, flags, Mode::from_raw_mode(mode))
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

/// What has the staging name is not what was written here.
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

pub(super) fn write_all(fd: impl AsFd, mut bytes: &[u8], mut at: u64) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(&fd, bytes, at) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => {
                bytes = &bytes[count..];
                at += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Closes for the answer: NFS and its like tell of a full disk or a quota only then.
pub(super) fn close(fd: OwnedFd) -> rustix::io::Result<()> {
    use rustix::fd::IntoRawFd;
    // SAFETY: the descriptor was owned and is given up here; nobody else has its number.
    match unsafe { libc::close(fd.into_raw_fd()) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error().raw_os_error() {
            // The descriptor is gone all the same.
            None | Some(libc::EINTR) => Ok(()),
            Some(code) => Err(Errno::from_raw_os_error(code)),
        },
    }
}

impl FileSink {
    pub fn create(shared: &Arc<Shared>, name: &Name, spec: &Spec<'_>) -> Result<Self> {
        leaf_of(&name.leaf, "create")?;
        let handle = shared.dirs.get(&name.dir)?;
        let staging = (!spec.in_place).then(|| staging_leaf(&name.leaf, spec.entry.stamp()));
        let (fd, made) = match &staging {
            Some(staging) => (stage(&handle, staging, 0o600)?, true),
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
            let _first_error_counts = sink.abort();
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
            _ => Ok(()), // a saving only
        }
    }

    fn file_leaf(&self) -> &[u8] {
        self.staging.as_deref().unwrap_or(&self.name.leaf)
    }

    fn failed(&self, errno: Errno, op: &'static str) -> Error {
        fail(errno, op).on(&self.name)
    }

    fn zeros(&self, at: Range<u64>) -> Result<()> {
        self.write(at, &mut io::repeat(0))
    }

    fn finish(&self, entry: &Entry, receipts: &[Receipt]) -> Result<Landed> {
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
            // Who does not keep modes keeps that of the file that is replaced.
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
            // Two runs that know nothing of each other share the name: what is renamed must be what was written here.
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
        Ok(Landed { ino: facts.ino, ..landed })
    }
}

impl FileSink {
    /// The file that has the final name, if it is what `stamp` says.
    fn old(&self, stamp: &Stamp) -> Result<Arc<OwnedFd>> {
        let mut old = self.old.lock().unwrap_or_else(PoisonError::into_inner);
        match &*old {
            Some((fd, known)) if known == stamp => return Ok(fd.clone()),
            Some(_) => return Err(old_changed()),
            None => {}
        }
        let fd = open_file(&self.handle, &self.name.leaf, false)?;
        if look_at(&fd).map_err(|e| fail(e, "stat"))?.stamp() != *stamp {
            return Err(old_changed());
        }
        let fd = Arc::new(fd);
        *old = Some((fd.clone(), *stamp));
        Ok(fd)
    }

    fn copy_old(&self, stamp: &Stamp, from: u64, at: Range<u64>) -> Result<()> {
        let old = self.old(stamp)?;
        let (mut from, mut to) = (from, at.start);
        while to < at.end {
            let wanted = usize::try_from(at.end - to).unwrap_or(usize::MAX).min(16 << 20);
            let (mut off_in, mut off_out) = (from, to);
            let copied = match rustix::fs::copy_file_range(&*old, Some(&mut off_in), &self.fd, Some(&mut off_out), wanted) {
                Ok(count) if count > 0 => count,
                Err(Errno::INTR) => continue,
                Err(e @ (Errno::NOSPC | Errno::DQUOT)) => return Err(fail(e, "write")),
                // A file system that cannot, or a file that shrank: reading tells.
                _ => self.shared.with_buffer(|buffer| {
                    let wanted = wanted.min(buffer.len());
                    match rustix::io::retry_on_intr(|| rustix::io::pread(&*old, &mut buffer[..wanted], from)) {
                        Ok(0) => Err(old_changed()),
                        Ok(count) => write_all(&self.fd, &buffer[..count], to).map(|()| count).map_err(|e| fail(e, "write")),
                        Err(e) => Err(fail(e, "read")),
                    }
                })?,
            };
            from += copied as u64;
            to += copied as u64;
        }
        self.written.fetch_max(at.end, Ordering::Relaxed);
        Ok(())
    }

    /// What was taken from the old file was taken from one version of it.
    fn old_is_the_same(&self) -> Result<()> {
        match &*self.old.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((fd, stamp)) if look_at(&**fd).map_err(|e| fail(e, "stat"))?.stamp() != *stamp => Err(old_changed()),
            _ => Ok(()),
        }
    }
}

fn old_changed() -> Error {
    Error::new(ErrorKind::Changed, "reuse").because("the destination's old file was changed while it was compared")
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

/// Which file a staging file is: inode, and time of birth where the file system tells it (else zeros), for
/// inodes are used again.
pub(super) type Birth = (u64, i64, u32);

fn birth(fd: &OwnedFd) -> rustix::io::Result<Birth> {
    birth_and_size(fd, b"").map(|(birth, _)| birth)
}

/// Of one component below `dir`; an empty leaf is `dir` itself.
pub(super) fn birth_and_size(dir: impl AsFd, leaf: &[u8]) -> rustix::io::Result<(Birth, u64)> {
    let flags = if leaf.is_empty() { AtFlags::EMPTY_PATH } else { AtFlags::SYMLINK_NOFOLLOW };
    let st = rustix::fs::statx(dir, leaf, flags, StatxFlags::INO | StatxFlags::BTIME | StatxFlags::SIZE)?;
    let told = st.stx_mask & StatxFlags::BTIME.bits() != 0;
    let birth = if told { (st.stx_ino, st.stx_btime.tv_sec, st.stx_btime.tv_nsec) } else { (st.stx_ino, 0, 0) };
    Ok((birth, st.stx_size))
}

/// A time of birth counts where both have one: not every client of a file system is told it.
pub(super) fn is_same(one: Birth, other: Birth) -> bool {
    let untold = |birth: Birth| (birth.1, birth.2) == (0, 0);
    one.0 == other.0 && (untold(one) || untold(other) || one == other)
}

/// What a token says of a staging file.
struct Staging {
    leaf: Vec<u8>,
    born: Option<Birth>,
}

/// `.haul-<digits>@<inode>.<seconds>.<nanoseconds>`
fn token_of(staging: &[u8], (ino, seconds, nanos): Birth) -> Token {
    let mut token = staging.to_vec();
    token.extend_from_slice(format!("@{ino}.{seconds}.{nanos}").as_bytes());
    Token(token.into())
}

/// The leaf of the unfinished file that a token names, beside the final name; `None` for a write in place and
/// for what is no token of a local store.
pub fn unfinished_leaf(token: &Token) -> Option<&[u8]> {
    token.0.split(|byte| *byte == b'@').next().filter(|leaf| is_staging(leaf))
}

/// `None` for a write in place. Tokens come from journals and from other hosts.
fn staging_of(token: &Token) -> Result<Option<Staging>> {
    if &*token.0 == IN_PLACE {
        return Ok(None);
    }
    let cut = token.0.iter().position(|byte| *byte == b'@').unwrap_or(token.0.len());
    let (leaf, rest) = token.0.split_at(cut);
    if !is_staging(leaf) {
        return Err(Error::new(ErrorKind::BadName, "attach").because("the token is not the name of a staging file"));
    }
    let words = std::str::from_utf8(rest).unwrap_or_default();
    let mut parts = words.trim_start_matches('@').split('.');
    let mut part = || parts.next().unwrap_or_default();
    let born = match (part().parse(), part().parse(), part().parse()) {
        (Ok(ino), Ok(seconds), Ok(nanos)) => Some((ino, seconds, nanos)),
        _ => None,
    };
    Ok(Some(Staging { leaf: leaf.to_vec(), born }))
}

/// By name, whichever file it is: one that another run began under this name was of the same version of the same
/// source, and the caller has no use for it.
pub(super) fn abandon(shared: &Shared, name: &Name, token: &Token) -> Result<()> {
    let Some(staging) = staging_of(token)? else { return Ok(()) };
    let handle = match shared.dirs.get(&name.dir) {
        Ok(handle) => handle,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    match unlinkat(&*handle, &staging.leaf[..], AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(e) => Err(fail(e, "remove")),
    }
}

impl Sink for FileSink {
    fn token(&self) -> Token {
        self.token.clone()
    }

    fn write(&self, at: Range<u64>, from: &mut dyn Read) -> Result<()> {
        self.shared.with_buffer(|buffer| {
            let mut next = at.start;
            while next < at.end {
                let want = usize::try_from(at.end - next).unwrap_or(usize::MAX).min(buffer.len());
                let count = match from.read(&mut buffer[..want]) {
                    Ok(0) => return Err(Error::new(ErrorKind::Changed, "read").on(&self.name).because("it ended before its size")),
                    Ok(count) => count,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    Err(e) => return Err(Error::from_io(e, "read").on(&self.name)),
                };
                write_all(&self.fd, &buffer[..count], next).map_err(|e| self.failed(e, "write"))?;
                next += count as u64;
            }
            self.written.fetch_max(at.end, Ordering::Relaxed);
            Ok(())
        })
    }

    fn hole(&self, at: Range<u64>) -> Result<()> {
        // The end of the file is set at commit; a hole there needs nothing now.
        if at.is_empty() || (self.made && at.start >= self.written.load(Ordering::Relaxed)) {
            return Ok(());
        }
        match fallocate(&self.fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at.start, at.end - at.start) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => self.zeros(at),
            Err(e) => Err(self.failed(e, "punch hole")),
        }
    }

    fn reuse(&self, old: &Stamp, from: u64, at: Range<u64>) -> Result<()> {
        self.copy_old(old, from, at).map_err(|e| e.on(&self.name))
    }

    fn landed(&self, _: &Chunk) -> Result<Box<[u8]>> {
        Ok(Box::default())
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

    fn commit(&self, entry: &Entry, receipts: &[Receipt]) -> Result<Landed> {
        self.finish(entry, receipts).map_err(|e| e.on(&self.name))
    }

    fn abort(&self) -> Result<()> {
        // What another run has put in its place by now is that run's.
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

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_file_and_which_one_it_is() {
        let leaf = b".haul-0123456789abcdef0123456789abcdef";
        for born in [(7, 1_700_000_000, 999_999_999), (u64::MAX, -1, 0), (7, 0, 0)] {
            let staging = staging_of(&token_of(leaf, born)).expect("it is a token").expect("it is no write in place");
            assert_eq!((&staging.leaf[..], staging.born), (&leaf[..], Some(born)));
        }
        let torn = staging_of(&Token(leaf[..].into())).expect("a name").expect("it is no write in place");
        assert_eq!(torn.born, None);
        assert!(staging_of(&Token(b".haul-0123/../x@1.2.3"[..].into())).is_err());
    }

    #[test]
    fn an_inode_that_is_used_again_is_another_file() {
        assert!(is_same((7, 5, 5), (7, 5, 5)) && is_same((7, 0, 0), (7, 5, 5)));
        assert!(!is_same((7, 5, 5), (7, 5, 6)) && !is_same((7, 5, 5), (8, 5, 5)) && !is_same((7, 0, 0), (8, 0, 0)));
    }
}
