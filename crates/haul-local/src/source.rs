//! A file that is open for reading.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use haul_core::entry::{Kind, MetaMask, Name, Stamp, Xattrs};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::hash::xxh128;
use haul_core::signature::{Signature, SignatureBuilder};
use haul_core::store::{NearData, OnChunks, Source, SourceExtensions};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Advice, Mode, OFlags, SeekFrom, fadvise, openat};
use rustix::io::Errno;

use super::dirs::Handle;
use super::facts::{Facts, look_at};
use super::fail;

/// Files from this size on are read with more read-ahead.
const LARGE: u64 = 1 << 20;

/// Never blocks on a fifo, never becomes the terminal's owner.
pub(super) const READ: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

#[derive(Debug)]
pub(super) struct FileSource {
    fd: OwnedFd,
    name: Name,
    privileged: bool,
}

/// Opens one component for reading; `Changed` for what is no longer a file.
pub(super) fn open_file(handle: &Handle, leaf: &[u8], follow: bool) -> Result<OwnedFd> {
    let flags = if follow { READ.difference(OFlags::NOFOLLOW) } else { READ };
    openat(handle, leaf, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::LOOP if !follow => changed("open", "it is now a symlink, which is not followed"),
        Errno::NXIO | Errno::NODEV => changed("open", "it is no longer a regular file"),
        errno => fail(errno, "open"),
    })
}

pub(super) fn changed(op: &'static str, reason: &str) -> Error {
    Error::new(ErrorKind::Changed, op).because(reason)
}

/// A file that has content but no size is copied as a small one, or not at all.
pub(super) fn endless() -> Error {
    let e = Error::new(ErrorKind::Unsupported, "read").because("its size is unknown before it is read, and it is large");
    e.hint("copy it through a pipe: haul cp - DST < FILE")
}

/// Whether the open file is the one that was listed.
pub(super) fn compare(facts: &Facts, listed: Option<Stamp>) -> Result<()> {
    if facts.kind != Kind::File {
        return Err(changed("open", "it is no longer a regular file"));
    }
    match listed {
        Some(stamp) if stamp != facts.stamp() => Err(changed("read", "its size, time or inode changed since it was listed")),
        _ => Ok(()),
    }
}

impl FileSource {
    pub fn new(handle: &Arc<Handle>, name: &Name, listed: Option<Stamp>, follow: bool, privileged: bool) -> Result<Self> {
        let source = FileSource { fd: open_file(handle, &name.leaf, follow)?, name: name.clone(), privileged };
        let facts = look_at(&source.fd).map_err(|e| fail(e, "stat"))?;
        compare(&facts, listed)?;
        if facts.size == 0 && rustix::io::pread(&source.fd, &mut [0_u8; 8][..], 0).is_ok_and(|count| count > 0) {
            return Err(endless());
        }
        if facts.size >= LARGE {
            // Advice only.
            let _ = fadvise(&source.fd, 0, None, Advice::Sequential);
        }
        Ok(source)
    }

    /// The name under which its errors go: a staging file's are those of the file that it is to become.
    pub fn named(self, name: &Name) -> Self {
        FileSource { name: name.clone(), ..self }
    }

    pub fn drop_cache(&self) -> Result<()> {
        drop_cache(&self.fd).map_err(|e| e.on(&self.name))
    }
}

/// Drops the page cache of a file, so that a read reaches the medium. Dirty pages stay: the caller has synced.
pub fn drop_cache(fd: impl AsFd) -> Result<()> {
    fadvise(fd, 0, None, Advice::DontNeed).map_err(|e| fail(e, "drop cache"))
}

impl Source for FileSource {
    fn read(&self, at: Range<u64>) -> Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(Reader { source: self, at }))
    }

    fn stamp(&self) -> Result<Stamp> {
        look_at(&self.fd).map(|facts| facts.stamp()).map_err(|e| fail(e, "stat").on(&self.name))
    }

    fn change(&self) -> Result<u64> {
        let found = rustix::fs::fstat(&self.fd).map_err(|e| fail(e, "stat").on(&self.name))?;
        let ctime = i128::from(found.st_ctime) * 1_000_000_000 + i128::from(found.st_ctime_nsec);
        Ok(xxh128(&ctime.to_le_bytes()) as u64)
    }

    fn data(&self, at: Range<u64>) -> Result<Vec<Range<u64>>> {
        let mut parts = Vec::new();
        let mut from = at.start;
        while from < at.end {
            let start = match rustix::fs::seek(&self.fd, SeekFrom::Data(from)) {
                Ok(start) => start,
                Err(Errno::NXIO) => break, // nothing but a hole up to the end
                Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(vec![at]),
                Err(e) => return Err(fail(e, "find data").on(&self.name)),
            };
            if start >= at.end {
                break;
            }
            let end = rustix::fs::seek(&self.fd, SeekFrom::Hole(start)).map_err(|e| fail(e, "find hole").on(&self.name))?.min(at.end);
            if end <= start {
                break; // truncated in between: reading will say so
            }
            parts.push(start..end);
            from = end;
        }
        Ok(parts)
    }

    fn xattrs(&self, want: MetaMask) -> Result<Xattrs> {
        super::xattr::read_fd(&self.fd, want, self.privileged).map_err(|e| fail(e, "read extended attributes").on(&self.name))
    }

    fn extensions(&self) -> SourceExtensions<'_> {
        SourceExtensions { reports_holes: true, fd: Some(self.fd.as_fd()), near_data: self, ..SourceExtensions::default() }
    }
}

impl NearData for FileSource {
    fn signature(&self, average: u32, each: &mut OnChunks<'_>) -> Result<Option<Signature>> {
        let mut builder = SignatureBuilder::new(average)?;
        let mut buffer = vec![0; 1 << 20];
        let mut at = 0;
        loop {
            let count = rustix::io::retry_on_intr(|| rustix::io::pread(&self.fd, &mut buffer[..], at))
                .map_err(|e| fail(e, "read").on(&self.name))?;
            if count == 0 {
                return Ok(Some(builder.finish()));
            }
            let before = builder.chunks().len();
            builder.push(&buffer[..count]);
            at += count as u64;
            each(count as u64, &builder.chunks()[before..])?;
        }
    }
}

struct Reader<'a> {
    source: &'a FileSource,
    at: Range<u64>,
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.at.end.saturating_sub(self.at.start)).unwrap_or(usize::MAX);
        let want = buffer.len().min(left);
        if want == 0 {
            return Ok(0);
        }
        let name = &self.source.name;
        match rustix::io::retry_on_intr(|| rustix::io::pread(&self.source.fd, &mut buffer[..want], self.at.start)) {
            Ok(0) => Err(changed("read", "it became shorter while it was read").on(name).into()),
            Ok(count) => {
                self.at.start += count as u64;
                Ok(count)
            }
            Err(e) => Err(fail(e, "read").on(name).into()),
        }
    }
}
