//! A directory of this machine, by system calls relative to open directories, so that the file system alone is measured.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_core::cancel::Cancel;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Space;
use rustix::fs::{self, AtFlags, Mode, OFlags, RawDir, XattrFlags};
use rustix::io::Errno;

use super::operation::Operation;
use super::place::{Layout, OpRunner, Place, TREES, Task, is_file, leaf};
use super::window::Done;
use crate::data::close;

/// Bytes of a listing that one call returns at the most, as glibc has it.
const LISTING: usize = 32 << 10;

#[derive(Debug)]
pub struct LocalPlace {
    top: OwnedFd,
    path: PathBuf,
}

fn fail(e: Errno, op: &'static str) -> Error {
    Error::io(e.into(), op)
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn open_dir(at: impl AsFd, leaf: &str) -> Result<OwnedFd> {
    fs::openat(at, leaf, DIRECTORY, Mode::empty()).map_err(|e| fail(e, "open directory").at(leaf.as_bytes()))
}

impl LocalPlace {
    /// Makes the directory `leaf` in `dir`, which may be a link.
    pub fn make(dir: &Path, leaf: &str) -> Result<LocalPlace> {
        let above = fs::open(dir, DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty()).map_err(|e| {
            let e = fail(e, "open directory").at(dir.as_os_str().as_bytes());
            if e.kind() == ErrorKind::NotFound { e.hint("make it first, with `haul mkdir`") } else { e }
        })?;
        let path = dir.join(leaf);
        fs::mkdirat(&above, leaf, Mode::from_raw_mode(0o700)).map_err(|e| {
            let e = fail(e, "make directory").at(path.as_os_str().as_bytes());
            if e.kind() == ErrorKind::Denied { e.hint("name a directory that you may write to") } else { e }
        })?;
        Ok(LocalPlace { top: open_dir(&above, leaf)?, path })
    }

    /// Makes something for a moment, to see whether it can be made.
    fn tried(&self, what: &str, make: impl Fn(&str) -> rustix::io::Result<()>) -> Option<String> {
        let made = make("probe");
        let _ = fs::unlinkat(&self.top, "probe", AtFlags::empty());
        made.err().map(|e| format!("the file system keeps no {what} ({e})"))
    }
}

impl Place for LocalPlace {
    fn words(&self) -> String {
        haul_core::entry::show(self.path.as_os_str().as_bytes())
    }

    fn refuses(&self, operation: Operation) -> Option<String> {
        match operation {
            Operation::Setxattr | Operation::Getxattr => self.tried("extended attributes of users", |_| {
                fs::fsetxattr(&self.top, "user.haul-bench", b"1", XattrFlags::empty())?;
                fs::fremovexattr(&self.top, "user.haul-bench")
            }),
            Operation::Symlink => self.tried("symlinks", |probe| fs::symlinkat("none", &self.top, probe)),
            Operation::Hardlink => self.tried("hard links", |probe| {
                fs::openat(&self.top, "probed", OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o600))?;
                let linked = fs::linkat(&self.top, "probed", &self.top, probe, AtFlags::empty());
                fs::unlinkat(&self.top, "probed", AtFlags::empty()).and(linked)
            }),
            _ => None,
        }
    }

    fn space(&self) -> Result<Option<Space>> {
        let stat = fs::fstatvfs(&self.top).map_err(|e| fail(e, "ask for space").at(self.path.as_os_str().as_bytes()))?;
        // Some file systems make inodes as they are needed and say 0 of all numbers.
        let files = if stat.f_files == 0 { u64::MAX } else { stat.f_favail };
        Ok(Some(Space { bytes: stat.f_bavail.saturating_mul(stat.f_frsize), files }))
    }

    fn lay(&self, layout: &Layout) -> Result<()> {
        let make = |at: &OwnedFd, leaf: &str| match fs::mkdirat(at, leaf, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(e) => Err(fail(e, "make directory").at(self.path.as_os_str().as_bytes())),
        };
        for name in TREES {
            make(&self.top, name)?;
            let tree = open_dir(&self.top, name)?;
            layout.leaves().iter().try_for_each(|leaf| make(&tree, leaf))?;
        }
        Ok(())
    }

    fn clear(&self, _: &Cancel) -> Result<()> {
        TREES.iter().try_for_each(|tree| remove(&self.path.join(tree)))
    }

    fn remove(&self) -> Result<()> {
        remove(&self.path)
    }

    fn works_in_thread(&self) -> bool {
        true
    }

    fn runner(&self, task: Task) -> Result<Box<dyn OpRunner>> {
        let open = |tree: usize| open_dir(&self.top, TREES[tree]);
        let dirs = matches!(task.operation, Operation::Mkdir | Operation::Rmdir);
        let (tree, other) = (open(if dirs { 0 } else { task.shape.tree })?, open(1 - task.shape.tree)?);
        let (here, there) = (open_dir(&tree, ".")?, open_dir(&other, ".")?);
        let buffer = if task.operation == Operation::Read { vec![0; task.pattern.record()] } else { Vec::new() };
        let (names, value) = task.attributes();
        Ok(Box::new(LocalRunner { task, tree, other, here, there, leaf: String::new(), buffer, value, names }))
    }
}

/// Removes a tree; links are removed and not followed.
fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(e, "remove").at(path.as_os_str().as_bytes())),
        _ => Ok(()),
    }
}

struct LocalRunner {
    task: Task,
    tree: OwnedFd,
    other: OwnedFd,
    /// The directories that were entered, in both trees, and their name.
    here: OwnedFd,
    there: OwnedFd,
    leaf: String,
    buffer: Vec<u8>,
    /// Of each extended attribute.
    value: Vec<u8>,
    names: Vec<String>,
}

impl LocalRunner {
    fn open(&self, leaf: &str, flags: OFlags) -> rustix::io::Result<File> {
        fs::openat(&self.here, leaf, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::from_raw_mode(0o666)).map(File::from)
    }

    /// Opens, writes the segment in records, and closes.
    fn write(&self, leaf: &str, flags: OFlags, index: u64, segment: u64) -> Result<Done> {
        let named = |e: std::io::Error| Error::io(e, self.task.operation.word());
        let (pattern, size) = (&self.task.pattern, self.task.shape.size);
        let seed = self.task.seed(index, segment);
        let mut file = self.open(leaf, flags | OFlags::WRONLY).map_err(|e| named(e.into()))?;
        if segment > 0 {
            file.seek(SeekFrom::End(0)).map_err(named)?;
        }
        let record = pattern.record() as u64;
        let mut requests = 0;
        while requests * record < size {
            let length = (size - requests * record).min(record) as usize;
            file.write_all(pattern.bytes(seed, requests, length)).map_err(named)?;
            requests += 1;
        }
        if self.task.manner.fsync {
            file.sync_all().map_err(named)?;
        }
        close(file.into())?;
        // A file without bytes has been made all the same.
        Ok(Done { files: 1, bytes: size, requests: requests.max(1) })
    }

    fn read(&mut self, leaf: &str, index: u64) -> Result<Done> {
        let named = |e: Errno| fail(e, "read");
        let file = self.open(leaf, OFlags::RDONLY).map_err(named)?;
        let size = self.task.shape.whole();
        let (mut at, mut requests) = (0, 0);
        while at < size {
            let want = (size - at).min(self.buffer.len() as u64) as usize;
            let got = match rustix::io::read(&file, &mut self.buffer[..want]) {
                Err(Errno::INTR) => continue,
                got => got.map_err(named)?,
            };
            requests += 1;
            if got == 0 {
                return Err(Error::new(ErrorKind::Corrupt, "read").because(format!("{at} bytes where {size} were written")));
            }
            self.task.verify(index, at, &self.buffer[..got])?;
            at += got as u64;
        }
        close(file.into())?;
        Ok(Done { files: 1, bytes: size, requests: requests.max(1) })
    }

    fn attributes(&mut self, leaf: &str, set: bool) -> Result<Done> {
        let named = |e: Errno| fail(e, if set { "set extended attribute" } else { "get extended attribute" });
        let file = self.open(leaf, if set { OFlags::WRONLY } else { OFlags::RDONLY }).map_err(named)?;
        let mut got = vec![0; if set { 0 } else { self.value.len() + 1 }];
        for name in &self.names {
            if set {
                fs::fsetxattr(&file, name, &self.value, XattrFlags::empty()).map_err(named)?;
                continue;
            }
            let length = fs::fgetxattr(&file, name, &mut got[..]).map_err(named)?;
            if self.task.manner.verify && got[..length] != self.value[..] {
                let e = Error::new(ErrorKind::Corrupt, "get extended attribute");
                return Err(e.because("the value is not the one that was set"));
            }
        }
        if set && self.task.manner.fsync {
            fs::fsync(&file).map_err(named)?;
        }
        close(file.into())?;
        Ok(Done::ONE)
    }

    fn operate(&mut self, leaf: &str, index: u64) -> Result<Done> {
        use Operation as Op;
        let beside = |letter| super::place::leaf(letter, self.task.thread, index);
        let done = match self.task.operation {
            Op::Create => return self.write(leaf, OFlags::CREATE | OFlags::EXCL, index, 0),
            Op::Append => return self.write(leaf, OFlags::empty(), index, self.task.shape.appended),
            Op::Overwrite => return self.write(leaf, OFlags::empty(), index, 0),
            Op::TruncateOverwrite => return self.write(leaf, OFlags::TRUNC, index, 0),
            Op::Read => return self.read(leaf, index),
            Op::Setxattr => return self.attributes(leaf, true),
            Op::Getxattr => return self.attributes(leaf, false),
            Op::Stat => fs::statat(&self.here, leaf, AtFlags::SYMLINK_NOFOLLOW).map(drop),
            Op::Chmod => fs::chmodat(&self.here, leaf, Mode::from_raw_mode(0o646), AtFlags::empty()),
            Op::Rename => fs::renameat(&self.here, leaf, &self.there, leaf),
            Op::Symlink => {
                let target = format!("../../{}/{}/{leaf}", TREES[self.task.shape.tree], self.leaf);
                fs::symlinkat(target, &self.there, beside('s'))
            }
            Op::Hardlink => fs::linkat(&self.here, leaf, &self.there, beside('h'), AtFlags::empty()),
            Op::Mkdir => fs::mkdirat(&self.here, beside('d'), Mode::from_raw_mode(0o777)),
            Op::Rmdir => fs::unlinkat(&self.here, beside('d'), AtFlags::REMOVEDIR),
            Op::Delete | Op::DeleteRenamed => fs::unlinkat(&self.here, leaf, AtFlags::empty()),
            Op::Readdir | Op::LsL | Op::Cleanup => Err(Errno::OPNOTSUPP),
        };
        done.map(|()| Done::ONE).map_err(|e| fail(e, self.task.operation.word()))
    }
}

/// Names of files in a directory.
fn count(dir: &OwnedFd, buffer: &mut Vec<u8>) -> rustix::io::Result<u64> {
    let again = fs::openat(dir, ".", DIRECTORY, Mode::empty())?;
    buffer.clear();
    buffer.reserve(LISTING);
    let mut listing = RawDir::new(&again, buffer.spare_capacity_mut());
    let mut names = 0;
    while let Some(entry) = listing.next() {
        names += u64::from(is_file(entry?.file_name().to_bytes()));
    }
    Ok(names)
}

impl OpRunner for LocalRunner {
    fn enter(&mut self, number: u64) -> Result<()> {
        self.leaf = self.task.layout.leaf(self.task.thread, number);
        self.here = open_dir(&self.tree, &self.leaf)?;
        self.there = open_dir(&self.other, &self.leaf)?;
        Ok(())
    }

    fn work(&mut self, index: u64) -> Result<Done> {
        let leaf = leaf('f', self.task.thread, index);
        self.operate(&leaf, index).map_err(|e| e.at(leaf.as_bytes()))
    }

    fn list(&mut self, first: u64, files: u64) -> Result<Done> {
        let found = count(&self.here, &mut self.buffer).map_err(|e| fail(e, "list").at(self.leaf.as_bytes()))?;
        self.task.listed(found, files, self.leaf.as_bytes())?;
        if self.task.operation == Operation::LsL {
            for index in first..first + files {
                let leaf = leaf('f', self.task.thread, index);
                fs::statat(&self.here, &*leaf, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| fail(e, "stat").at(leaf.as_bytes()))?;
            }
        }
        Ok(Done { files, ..Done::ONE })
    }
}
