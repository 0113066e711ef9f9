//! A directory of this machine, by system calls relative to open directories, so that the file system alone is measured.

use std::ffi::{CStr, CString};
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
use super::place::{Layout, Leaf, OpRunner, Place, Role, Task, Tree};
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

fn open_dir(at: impl AsFd, leaf: &CStr) -> Result<OwnedFd> {
    fs::openat(at, leaf, DIRECTORY, Mode::empty()).map_err(|e| fail(e, "open directory").at(leaf.to_bytes()))
}

/// `open_dir` for a directory that the user named, which may be a link.
fn open_named(path: &Path) -> Result<OwnedFd> {
    let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
    fs::open(path, flags, Mode::empty()).map_err(|e| {
        let e = fail(e, "open directory").at(path.as_os_str().as_bytes());
        match e.kind() {
            ErrorKind::NotFound => e.hint("make it first, with `haul mkdir`"),
            _ => e,
        }
    })
}

fn c_string(text: &str) -> CString {
    CString::new(text).expect("names of the benchmark have no zero byte")
}

impl LocalPlace {
    /// Makes the directory `leaf` in `dir`.
    pub fn make(dir: &Path, leaf: &str) -> Result<LocalPlace> {
        let above = open_named(dir)?;
        let path = dir.join(leaf);
        let leaf = c_string(leaf);
        let hint = "name a directory that you may write to";
        fs::mkdirat(&above, &leaf, Mode::from_raw_mode(0o700)).map_err(|e| {
            let e = fail(e, "make directory").at(path.as_os_str().as_bytes());
            if e.kind() == ErrorKind::Denied { e.hint(hint) } else { e }
        })?;
        Ok(LocalPlace { top: open_dir(&above, &leaf)?, path })
    }
}

impl Place for LocalPlace {
    fn words(&self) -> String {
        haul_core::entry::show(self.path.as_os_str().as_bytes())
    }

    fn refuses(&self, operation: Operation) -> Option<String> {
        match operation {
            Operation::Setxattr | Operation::Getxattr => {
                let tried = fs::fsetxattr(&self.top, c"user.haul-bench", b"1", XattrFlags::empty());
                let _gone = fs::fremovexattr(&self.top, c"user.haul-bench");
                tried.err().map(|e| format!("the file system keeps no extended attributes of users ({e})"))
            }
            Operation::Symlink => self.tried("symlinks", |probe| fs::symlinkat(c"none", &self.top, probe)),
            Operation::Hardlink => self.tried("hard links", |probe| {
                let file = c"probed";
                fs::openat(&self.top, file, OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o600))?;
                let linked = fs::linkat(&self.top, file, &self.top, probe, AtFlags::empty());
                fs::unlinkat(&self.top, file, AtFlags::empty()).and(linked)
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
        let mode = Mode::from_raw_mode(0o755);
        let leaves: Vec<CString> = layout.leaves().iter().map(|leaf| c_string(leaf)).collect();
        for tree in Tree::BOTH {
            let make = |at: &OwnedFd, leaf: &CStr| match fs::mkdirat(at, leaf, mode) {
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(e) => Err(fail(e, "make directory").at(self.path.as_os_str().as_bytes())),
            };
            let name = c_string(tree.leaf());
            make(&self.top, &name)?;
            let tree = open_dir(&self.top, &name)?;
            leaves.iter().try_for_each(|leaf| make(&tree, leaf))?;
        }
        Ok(())
    }

    fn clear(&self, _: &Cancel) -> Result<()> {
        Tree::BOTH.iter().try_for_each(|tree| remove(&self.path.join(tree.leaf())))
    }

    fn remove(&self) -> Result<()> {
        remove(&self.path)
    }

    fn works_in_thread(&self) -> bool {
        true
    }

    fn runner(&self, task: Task) -> Result<Box<dyn OpRunner>> {
        let open = |tree: Tree| open_dir(&self.top, &c_string(tree.leaf()));
        let (tree, other) = (task.shape.tree, task.shape.tree.other());
        let needs_other = matches!(task.operation, Operation::Rename | Operation::Symlink | Operation::Hardlink);
        let dirs = matches!(task.operation, Operation::Mkdir | Operation::Rmdir);
        let tree = open(if dirs { Tree::First } else { tree })?;
        let other = if needs_other { Some(open(other)?) } else { None };
        let buffer = if task.operation == Operation::Read { vec![0; task.pattern.record()] } else { Vec::new() };
        let value = task.pattern.parts(task.content(0).key(0), 0, task.manner.xattr_size as u64).flatten().copied().collect();
        let names = (0..task.manner.xattr_count).map(|at| c_string(&format!("user.haul-bench-{at}"))).collect();
        let here = open_dir(&tree, c".")?;
        let there = other.as_ref().map(|other| open_dir(other, c".")).transpose()?;
        Ok(Box::new(LocalRunner { task, tree, other, here, there, leaf: String::new(), buffer, value, names }))
    }
}

impl LocalPlace {
    /// Makes something for a moment, to see whether it can be made.
    fn tried(&self, what: &str, make: impl Fn(&CStr) -> rustix::io::Result<()>) -> Option<String> {
        let probe = c"probe";
        let made = make(probe);
        let _gone = fs::unlinkat(&self.top, probe, AtFlags::empty());
        made.err().map(|e| format!("the file system keeps no {what} ({e})"))
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
    other: Option<OwnedFd>,
    here: OwnedFd,
    there: Option<OwnedFd>,
    /// Of the directory that was entered.
    leaf: String,
    buffer: Vec<u8>,
    /// Of each extended attribute.
    value: Vec<u8>,
    names: Vec<CString>,
}

impl LocalRunner {
    fn open(&self, leaf: &CStr, flags: OFlags) -> rustix::io::Result<File> {
        fs::openat(&self.here, leaf, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::from_raw_mode(0o666)).map(File::from)
    }

    /// Opens, writes the segment in records, and closes.
    fn write(&self, leaf: &CStr, flags: OFlags, index: u64, segment: u64) -> Result<Done> {
        let op = self.task.operation.word();
        let named = |e: std::io::Error| Error::io(e, op).at(leaf.to_bytes());
        let (pattern, size) = (&self.task.pattern, self.task.shape.size);
        let key = self.task.content(index).key(segment);
        let mut file = self.open(leaf, flags | OFlags::WRONLY).map_err(|e| named(e.into()))?;
        if segment > 0 {
            file.seek(SeekFrom::End(0)).map_err(named)?;
        }
        let record = pattern.record() as u64;
        let mut requests = 0;
        while requests * record < size {
            let length = (size - requests * record).min(record) as usize;
            file.write_all(pattern.bytes(key, requests, length)).map_err(named)?;
            requests += 1;
        }
        if self.task.manner.fsync {
            file.sync_all().map_err(named)?;
        }
        close(file.into()).map_err(|e| e.at(leaf.to_bytes()))?;
        // A file without bytes has been made all the same.
        Ok(Done { files: 1, bytes: size, requests: requests.max(1) })
    }

    fn read(&mut self, leaf: &CStr, index: u64) -> Result<Done> {
        let named = |e: Errno| fail(e, "read").at(leaf.to_bytes());
        let file = self.open(leaf, OFlags::RDONLY).map_err(named)?;
        let (size, content) = (self.task.shape.whole(), self.task.content(index));
        let (mut at, mut requests) = (0, 0);
        while at < size {
            let want = (size - at).min(self.buffer.len() as u64) as usize;
            let got = match rustix::io::read(&file, &mut self.buffer[..want]) {
                Err(Errno::INTR) => continue,
                got => got.map_err(named)?,
            };
            requests += 1;
            let short = || format!("{at} bytes where {size} were written");
            if got == 0 {
                return Err(Error::new(ErrorKind::Corrupt, "read").at(leaf.to_bytes()).because(short()));
            }
            if self.task.manner.verify
                && let Some(wrong) = content.wrong(&self.task.pattern, at, &self.buffer[..got])
            {
                return Err(wrong_byte(leaf.to_bytes(), wrong));
            }
            at += got as u64;
        }
        close(file.into()).map_err(|e| e.at(leaf.to_bytes()))?;
        Ok(Done { files: 1, bytes: size, requests: requests.max(1) })
    }

    fn attributes(&mut self, leaf: &CStr, set: bool) -> Result<Done> {
        let named = |e: Errno| fail(e, if set { "set extended attribute" } else { "get extended attribute" }).at(leaf.to_bytes());
        let file = self.open(leaf, if set { OFlags::WRONLY } else { OFlags::RDONLY }).map_err(named)?;
        let mut got = vec![0; if set { 0 } else { self.value.len() + 1 }];
        for name in &self.names {
            if set {
                fs::fsetxattr(&file, name, &self.value, XattrFlags::empty()).map_err(named)?;
                continue;
            }
            let length = fs::fgetxattr(&file, name, &mut got[..]).map_err(named)?;
            if self.task.manner.verify && got[..length] != self.value[..] {
                let e = Error::new(ErrorKind::Corrupt, "get extended attribute").at(leaf.to_bytes());
                return Err(e.because("the value is not the one that was set"));
            }
        }
        if set && self.task.manner.fsync {
            fs::fsync(&file).map_err(named)?;
        }
        close(file.into()).map_err(|e| e.at(leaf.to_bytes()))?;
        Ok(Done { files: 1, bytes: 0, requests: 1 })
    }

    fn there(&self) -> &OwnedFd {
        self.there.as_ref().unwrap_or(&self.here)
    }
}

/// Bytes that were read and are not those that were written.
pub(super) fn wrong_byte(leaf: &[u8], at: u64) -> Error {
    Error::new(ErrorKind::Corrupt, "read").at(leaf).because(format!("byte {at} is not what was written"))
}

/// Names of files in a directory, without `.` and `..`.
fn count(dir: &OwnedFd, buffer: &mut Vec<u8>) -> rustix::io::Result<u64> {
    let again = fs::openat(dir, c".", DIRECTORY, Mode::empty())?;
    buffer.clear();
    buffer.reserve(LISTING);
    let mut listing = RawDir::new(&again, buffer.spare_capacity_mut());
    let mut names = 0;
    while let Some(entry) = listing.next() {
        names += u64::from(entry?.file_name().to_bytes().first() == Some(&(Role::File as isize as u8)));
    }
    Ok(names)
}

impl OpRunner for LocalRunner {
    fn enter(&mut self, number: u64) -> Result<()> {
        self.leaf = self.task.layout.leaf(self.task.thread, number);
        let leaf = c_string(&self.leaf);
        self.here = open_dir(&self.tree, &leaf)?;
        if let Some(other) = &self.other {
            self.there = Some(open_dir(other, &leaf)?);
        }
        Ok(())
    }

    fn work(&mut self, index: u64) -> Result<Done> {
        use Operation as Op;
        let thread = self.task.thread;
        let file = Leaf::new(Role::File, thread, index);
        let leaf = file.c_str();
        let named = |role| Leaf::new(role, thread, index);
        let moved = Done { files: 1, bytes: 0, requests: 1 };
        let done = match self.task.operation {
            Op::Create => return self.write(leaf, OFlags::CREATE | OFlags::EXCL, index, 0),
            Op::Append => return self.write(leaf, OFlags::empty(), index, self.task.shape.appended),
            Op::Overwrite => return self.write(leaf, OFlags::empty(), index, 0),
            Op::TruncateOverwrite => return self.write(leaf, OFlags::TRUNC, index, 0),
            Op::Read => return self.read(leaf, index),
            Op::Setxattr => return self.attributes(leaf, true),
            Op::Getxattr => return self.attributes(leaf, false),
            Op::Stat => fs::statat(&self.here, leaf, AtFlags::SYMLINK_NOFOLLOW).map(|_| moved),
            Op::Chmod => fs::chmodat(&self.here, leaf, Mode::from_raw_mode(0o646), AtFlags::empty()).map(|()| moved),
            Op::Rename => fs::renameat(&self.here, leaf, self.there(), leaf).map(|()| moved),
            Op::Symlink => {
                let target = format!("../../{}/{}/{}\0", self.task.shape.tree.leaf(), self.leaf, haul_core::entry::show(file.bytes()));
                let target = CStr::from_bytes_until_nul(target.as_bytes()).expect("it ends in a zero byte");
                fs::symlinkat(target, self.there(), named(Role::Symlink).c_str()).map(|()| moved)
            }
            Op::Hardlink => {
                let link = named(Role::Hardlink);
                fs::linkat(&self.here, leaf, self.there(), link.c_str(), AtFlags::empty()).map(|()| moved)
            }
            Op::Mkdir => fs::mkdirat(&self.here, named(Role::Dir).c_str(), Mode::from_raw_mode(0o777)).map(|()| moved),
            Op::Rmdir => fs::unlinkat(&self.here, named(Role::Dir).c_str(), AtFlags::REMOVEDIR).map(|()| moved),
            Op::Delete | Op::DeleteRenamed => fs::unlinkat(&self.here, leaf, AtFlags::empty()).map(|()| moved),
            Op::Readdir | Op::LsL | Op::Cleanup => Err(Errno::OPNOTSUPP),
        };
        done.map_err(|e| fail(e, self.task.operation.word()).at(leaf.to_bytes()))
    }

    fn list(&mut self, first: u64, files: u64) -> Result<Done> {
        let named = |e: Errno| fail(e, "list").at(self.leaf.as_bytes());
        let found = count(&self.here, &mut self.buffer).map_err(named)?;
        if found < files {
            let e = Error::new(ErrorKind::Corrupt, "list").at(self.leaf.as_bytes());
            return Err(e.because(format!("{found} files are listed where {files} are")));
        }
        if self.task.operation == Operation::LsL {
            for index in first..first + files {
                let leaf = Leaf::new(Role::File, self.task.thread, index);
                fs::statat(&self.here, leaf.c_str(), AtFlags::SYMLINK_NOFOLLOW).map_err(|e| fail(e, "stat").at(leaf.bytes()))?;
            }
        }
        Ok(Done { files, bytes: 0, requests: 1 })
    }
}
