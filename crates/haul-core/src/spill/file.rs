//! The file without a name, and how a record stands in it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, Mode, OFlags};

/// Bytes that a record takes besides its own.
pub(super) const HEADER: usize = 4;

/// Space is given back in steps of this many bytes.
const FREE_STEP: u64 = 1 << 20;

/// Names tried where a file cannot be made without one.
const NAME_ATTEMPTS: u32 = 1000;

/// A temporary file for the owner's eyes only, made at the first write and gone when it is dropped.
#[derive(Debug)]
pub(super) struct SpillFile {
    dir: PathBuf,
    file: Option<File>,
}

impl SpillFile {
    pub(super) fn new(dir: &Path) -> SpillFile {
        SpillFile { dir: dir.to_owned(), file: None }
    }

    /// Another one, empty, in the same directory.
    pub(super) fn sibling(&self) -> SpillFile {
        SpillFile::new(&self.dir)
    }

    pub(super) fn write(&mut self, parts: &[&[u8]], mut at: u64) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(make(&self.dir)?),
        };
        for part in parts {
            file.write_all_at(part, at)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Adds exactly `size` bytes, found at `at`, to `into`, which has room for them.
    pub(super) fn read(&self, into: &mut Vec<u8>, size: usize, at: u64) -> io::Result<()> {
        let before = into.len();
        into.resize(before + size, 0);
        match &self.file {
            Some(file) => file.read_exact_at(&mut into[before..], at),
            None if size == 0 => Ok(()),
            None => Err(damaged()),
        }
    }

    /// The record whose length stands at `start`, before its bytes; all of it before `end`.
    pub(super) fn read_forwards(&self, start: u64, end: u64) -> io::Result<Vec<u8>> {
        let length = self.read_length(start, end)?;
        let mut record = Vec::with_capacity(length);
        self.read(&mut record, length, start + HEADER as u64)?;
        Ok(record)
    }

    /// The record that ends at `end`, with its length behind its bytes.
    pub(super) fn read_backwards(&self, end: u64) -> io::Result<Vec<u8>> {
        let behind = end.checked_sub(HEADER as u64).ok_or_else(damaged)?;
        let length = self.read_length_at(behind)?;
        let start = behind.checked_sub(length as u64).ok_or_else(damaged)?;
        let mut record = Vec::with_capacity(length);
        self.read(&mut record, length, start)?;
        Ok(record)
    }

    /// The length of the record at `start`, which must be over before `end`.
    pub(super) fn read_length(&self, start: u64, end: u64) -> io::Result<usize> {
        let length = self.read_length_at(start)?;
        if start + (HEADER + length) as u64 > end { Err(damaged()) } else { Ok(length) }
    }

    fn read_length_at(&self, at: u64) -> io::Result<usize> {
        let mut length = Vec::with_capacity(HEADER);
        self.read(&mut length, HEADER, at)?;
        length_at(&length, 0).ok_or_else(damaged)
    }

    /// Gives back what is behind `size`. Only space is lost if that fails.
    pub(super) fn truncate(&self, size: u64) {
        if let Some(file) = &self.file {
            let _space_only = file.set_len(size);
        }
    }

    /// Punches a hole from `from` to about `to` once that is worth a call; returns where it starts now. File systems without holes
    /// keep the space.
    pub(super) fn free(&self, from: u64, to: u64) -> u64 {
        let to = to - to % FREE_STEP;
        match &self.file {
            Some(file) if to > from => {
                let _space_only = rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, from, to - from);
                to
            }
            _ => from,
        }
    }
}

fn make(dir: &Path) -> io::Result<File> {
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(dir, flags | OFlags::TMPFILE | OFlags::EXCL, mode) {
        Ok(file) => Ok(file.into()),
        // The directory itself is missing, closed or full: a name would not help.
        Err(error @ (rustix::io::Errno::ACCESS | rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT | rustix::io::Errno::ROFS)) => {
            Err(error.into())
        }
        Err(_) => make_named(dir),
    }
}

/// For file systems and kernels without O_TMPFILE: made under a name that is taken away at once.
fn make_named(dir: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    for attempt in 0..NAME_ATTEMPTS {
        let path = dir.join(format!(".haul-spill-{}-{attempt}", std::process::id()));
        match rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => {
                rustix::fs::unlink(&path)?;
                return Ok(file.into());
            }
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "no free name for a temporary file"))
}

pub(super) fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a temporary file no longer holds what was written to it")
}

pub(super) fn header(record: &[u8]) -> io::Result<[u8; HEADER]> {
    let length = u32::try_from(record.len()).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a record of 4 GiB or more"))?;
    Ok(length.to_le_bytes())
}

pub(super) fn append(buffer: &mut Vec<u8>, header: [u8; HEADER], record: &[u8]) {
    buffer.extend_from_slice(&header);
    buffer.extend_from_slice(record);
}

/// The length that stands at `at`; `None` if the bytes end before.
pub(super) fn length_at(bytes: &[u8], at: usize) -> Option<usize> {
    let header = bytes.get(at..)?.first_chunk::<HEADER>()?;
    Some(u32::from_le_bytes(*header) as usize)
}

/// The record whose length stands at `at`. It is all there: the caller has seen to that.
pub(super) fn record_bytes(bytes: &[u8], at: usize) -> &[u8] {
    let length = length_at(bytes, at).expect("a buffer holds whole records");
    &bytes[at + HEADER..at + HEADER + length]
}

/// Makes room for `more` bytes by doubling, but never for more than `most` in all, which must suffice.
pub(super) fn reserve(buffer: &mut Vec<u8>, more: usize, most: usize) {
    let need = buffer.len() + more;
    debug_assert!(need <= most);
    if need > buffer.capacity() {
        let target = need.max(buffer.capacity() * 2).min(most);
        buffer.reserve_exact(target - buffer.len());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn files_have_no_name_and_one_reader() {
        let dir = tempfile::tempdir().unwrap();
        for file in [make(dir.path()).unwrap(), make_named(dir.path()).unwrap(), make_named(dir.path()).unwrap()] {
            let meta = file.metadata().unwrap();
            assert_eq!((meta.mode() & 0o7777, meta.nlink()), (0o600, 0));
            file.write_all_at(b"abc", 7).unwrap();
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_name_that_is_taken_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let taken = dir.path().join(format!(".haul-spill-{}-0", std::process::id()));
        std::fs::write(&taken, "mine").unwrap();
        make_named(dir.path()).unwrap().write_all_at(b"x", 0).unwrap();
        assert_eq!(std::fs::read(&taken).unwrap(), b"mine");
    }

    #[test]
    fn space_is_given_back_where_that_is_possible() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = SpillFile::new(dir.path());
        file.write(&[&vec![1; 4 << 20]], 0).unwrap();
        assert_eq!(file.free(0, FREE_STEP - 1), 0);
        assert_eq!(file.free(0, 3 * FREE_STEP + 5), 3 * FREE_STEP);
        let mut rest = Vec::new();
        file.read(&mut rest, 1 << 20, 3 << 20).unwrap();
        assert!(rest.iter().all(|&byte| byte == 1));
        let inner = file.file.as_ref().unwrap();
        let can = rustix::fs::fallocate(inner, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, FREE_STEP).is_ok();
        assert!(!can || inner.metadata().unwrap().blocks() * 512 < 2 * FREE_STEP);
        file.truncate(0);
        assert_eq!(file.read_forwards(0, 10).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = SpillFile::new(dir.path());
        file.write(&[&u32::MAX.to_le_bytes(), b"abcd", &9u32.to_le_bytes()], 0).unwrap();
        assert_eq!(file.read_forwards(0, 12).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(file.read_backwards(12).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(file.read_backwards(3).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_missing_directory_is_an_error_at_the_first_write() {
        let mut file = SpillFile::new(Path::new("/nonexistent/dir"));
        assert_eq!(file.write(&[b"x"], 0).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
