//! In what two trees differ. Independent on purpose: it shares no code with the program that it judges.
//!
//! Both trees are walked together by descriptors, so that paths may be longer than `PATH_MAX` (some 400 levels with the usual limit of 1024 open
//! files). Kinds, bytes, link targets and device numbers are always compared, the rest as [`What`] says. As root nothing is hidden; an ordinary
//! user gets an error for what cannot be read, never silence.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Dir, FileType, Mode, OFlags, SeekFrom, Stat, fstat, getxattr, listxattr, open, openat, readlinkat, seek};
use rustix::io::Errno;

/// What is compared beside names, kinds, bytes, link targets and device numbers.
#[derive(Debug, Clone, Copy)]
pub struct What {
    /// The mode bits that must be equal (0 for none); never of symlinks.
    pub mode: u32,
    /// Owner and group.
    pub owner: bool,
    /// Modification times, to a resolution of so many nanoseconds; `None` for not at all.
    pub mtime: Option<u64>,
    /// Modification times of directories too.
    pub directory_mtime: bool,
    /// Modification times of symlinks too.
    pub symlink_mtime: bool,
    /// Which names share an inode, among the names in the tree.
    pub hard_links: bool,
    /// Holes: the second file may not have a quarter and 256 KiB more allocated than the first.
    pub holes: bool,
    /// Extended attributes `user.*`, `trusted.*`, `security.capability`, and both POSIX ACLs.
    pub xattrs: bool,
    /// The two top directories themselves too.
    pub root: bool,
}

impl What {
    /// Names, kinds, bytes, targets.
    pub const CONTENT: What = What {
        mode: 0,
        owner: false,
        mtime: None,
        directory_mtime: false,
        symlink_mtime: false,
        hard_links: false,
        holes: false,
        xattrs: false,
        root: false,
    };
    /// And modes without setuid and setgid, and times to the nanosecond.
    pub const USUAL: What = What { mode: 0o1777, mtime: Some(1), directory_mtime: true, symlink_mtime: true, ..What::CONTENT };
    /// And everything else.
    pub const ALL: What = What { mode: 0o7777, owner: true, hard_links: true, holes: true, xattrs: true, root: true, ..What::USUAL };
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// The path below the top, empty for the top itself.
    pub path: Vec<u8>,
    /// Which property differs: `missing`, `extra`, `kind`, `size`, `bytes`, `target`, `device`, `mode`, `owner`, `mtime`, `hard link`, `holes`, `xattr`.
    pub property: &'static str,
    /// Both values, first tree first.
    pub detail: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.path.escape_ascii(), self.property, self.detail)
    }
}

/// All differences of `b` from `a`, in the order of paths. Errors name the path that could not be read.
pub fn differences(a: &Path, b: &Path, what: What) -> io::Result<Vec<Difference>> {
    let top = |path: &Path| {
        open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| io::Error::new(errno.kind(), format!("compare: {}: {errno}", path.display())))
    };
    let mut walk = Walk { what, found: Vec::new(), leaders: [HashMap::new(), HashMap::new()], path: Vec::new() };
    walk.pair(&top(a)?, &top(b)?, true).map_err(|error| {
        io::Error::new(error.kind(), format!("compare: below {} and {}: {}: {error}", a.display(), b.display(), walk.path.escape_ascii()))
    })?;
    Ok(walk.found)
}

/// Whether the trees are the same.
pub fn same(a: &Path, b: &Path, what: What) -> io::Result<bool> {
    Ok(differences(a, b, what)?.is_empty())
}

/// Panics with the first fifty differences, or with the error.
#[track_caller]
pub fn assert_same(a: &Path, b: &Path, what: What) {
    match differences(a, b, what) {
        Err(error) => panic!("{error}"),
        Ok(found) if found.is_empty() => {}
        Ok(found) => {
            let lines: Vec<String> = found.iter().take(50).map(|difference| format!("  {difference}")).collect();
            panic!("{} differs from {} in {} places:\n{}", b.display(), a.display(), found.len(), lines.join("\n"));
        }
    }
}

struct Walk {
    what: What,
    found: Vec<Difference>,
    /// For each tree, the first name of every inode with several.
    leaders: [HashMap<(u64, u64), Vec<u8>>; 2],
    path: Vec<u8>,
}

impl Walk {
    fn differ(&mut self, property: &'static str, detail: String) {
        self.found.push(Difference { path: self.path.clone(), property, detail });
    }

    fn pair(&mut self, a: &OwnedFd, b: &OwnedFd, top: bool) -> io::Result<()> {
        let (stat_a, stat_b) = (fstat(a)?, fstat(b)?);
        let (kind_a, kind_b) = (kind(&stat_a), kind(&stat_b));
        if kind_a != kind_b {
            self.differ("kind", format!("{kind_a:?} and {kind_b:?}"));
            return Ok(());
        }
        if !top || self.what.root {
            self.attributes(kind_a, &stat_a, &stat_b);
            if self.what.xattrs {
                self.xattrs(a, b)?;
            }
        }
        if kind_a != FileType::Directory && self.what.hard_links {
            self.hard_links(&stat_a, &stat_b);
        }
        match kind_a {
            FileType::Directory => self.directory(a, b)?,
            FileType::RegularFile => self.file(a, b, &stat_a, &stat_b)?,
            FileType::Symlink => {
                let (a, b) = (readlinkat(a, "", Vec::new())?, readlinkat(b, "", Vec::new())?);
                if a != b {
                    self.differ("target", format!("{a:?} and {b:?}"));
                }
            }
            FileType::CharacterDevice | FileType::BlockDevice if stat_a.st_rdev != stat_b.st_rdev => {
                self.differ("device", format!("{:#x} and {:#x}", stat_a.st_rdev, stat_b.st_rdev));
            }
            _ => {}
        }
        Ok(())
    }

    fn directory(&mut self, a: &OwnedFd, b: &OwnedFd) -> io::Result<()> {
        let (names_a, names_b) = (names(a)?, names(b)?);
        let length = self.path.len();
        for name in names_a.union(&names_b) {
            if !self.path.is_empty() {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(name);
            match (names_a.contains(name), names_b.contains(name)) {
                (true, false) => self.differ("missing", "only in the first tree".to_owned()),
                (false, true) => self.differ("extra", "only in the second tree".to_owned()),
                _ => {
                    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    let (a, b) = (openat(a, name.as_slice(), flags, Mode::empty())?, openat(b, name.as_slice(), flags, Mode::empty())?);
                    self.pair(&a, &b, false)?;
                }
            }
            self.path.truncate(length);
        }
        Ok(())
    }

    fn attributes(&mut self, kind: FileType, a: &Stat, b: &Stat) {
        let what = self.what;
        if kind != FileType::Symlink && (a.st_mode ^ b.st_mode) & what.mode != 0 {
            self.differ("mode", format!("{:04o} and {:04o}", a.st_mode & 0o7777, b.st_mode & 0o7777));
        }
        if what.owner && (a.st_uid, a.st_gid) != (b.st_uid, b.st_gid) {
            self.differ("owner", format!("{}:{} and {}:{}", a.st_uid, a.st_gid, b.st_uid, b.st_gid));
        }
        let timed = match kind {
            FileType::Directory => what.directory_mtime,
            FileType::Symlink => what.symlink_mtime,
            _ => true,
        };
        if let Some(resolution) = what.mtime.filter(|_| timed) {
            let nanoseconds = |stat: &Stat| i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
            let resolution = i128::from(resolution.max(1));
            if nanoseconds(a).div_euclid(resolution) != nanoseconds(b).div_euclid(resolution) {
                self.differ("mtime", format!("{}.{:09} and {}.{:09}", a.st_mtime, a.st_mtime_nsec, b.st_mtime, b.st_mtime_nsec));
            }
        }
    }

    fn hard_links(&mut self, a: &Stat, b: &Stat) {
        let path = self.path.clone();
        let mut leader = |side: usize, stat: &Stat| match stat.st_nlink > 1 {
            true => self.leaders[side].entry((stat.st_dev, stat.st_ino)).or_insert_with(|| path.clone()).clone(),
            false => path.clone(),
        };
        let (a, b) = (leader(0, a), leader(1, b));
        if a != b {
            self.differ("hard link", format!("shares with {} and with {}", a.escape_ascii(), b.escape_ascii()));
        }
    }

    fn file(&mut self, a: &OwnedFd, b: &OwnedFd, stat_a: &Stat, stat_b: &Stat) -> io::Result<()> {
        let allocated = |stat: &Stat| stat.st_blocks as u64 * 512;
        if self.what.holes && allocated(stat_b) > allocated(stat_a) + allocated(stat_a) / 4 + (256 << 10) {
            self.differ("holes", format!("{} and {} bytes allocated", allocated(stat_a), allocated(stat_b)));
        }
        if stat_a.st_size != stat_b.st_size {
            self.differ("size", format!("{} and {}", stat_a.st_size, stat_b.st_size));
            return Ok(());
        }
        if let Some(offset) = first_difference(&reopen(a)?, &reopen(b)?, stat_a.st_size as u64)? {
            self.differ("bytes", format!("first at offset {offset} of {}", stat_a.st_size));
        }
        Ok(())
    }

    fn xattrs(&mut self, a: &OwnedFd, b: &OwnedFd) -> io::Result<()> {
        let (names_a, names_b) = (xattr_names(a)?, xattr_names(b)?);
        for name in names_a.union(&names_b) {
            let text = name.escape_ascii();
            match (xattr(a, name)?, xattr(b, name)?) {
                (Some(_), None) => self.differ("xattr", format!("{text} only in the first tree")),
                (None, Some(_)) => self.differ("xattr", format!("{text} only in the second tree")),
                (a, b) if a != b => self.differ("xattr", format!("{text} has another value")),
                _ => {}
            }
        }
        Ok(())
    }
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// A path to the file of an O_PATH descriptor itself, for the calls that take no such descriptor.
fn proc_path(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

fn reopen(descriptor: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(open(proc_path(descriptor), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

fn names(directory: &OwnedFd) -> io::Result<BTreeSet<Vec<u8>>> {
    let directory = openat(directory, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut names = BTreeSet::new();
    for entry in Dir::new(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.insert(name.to_vec());
        }
    }
    Ok(names)
}

/// The first byte that differs, passing over what is a hole in both.
fn first_difference(a: &OwnedFd, b: &OwnedFd, size: u64) -> io::Result<Option<u64>> {
    let mut buffers = [vec![0; 1 << 18], vec![0; 1 << 18]];
    let mut offset = 0;
    while offset < size {
        offset = next_data(a, offset, size)?.min(next_data(b, offset, size)?);
        let wanted = (size - offset).min(1 << 18) as usize;
        for (file, buffer) in [a, b].into_iter().zip(&mut buffers) {
            read_all(file, &mut buffer[..wanted], offset)?;
        }
        let (a, b) = (&buffers[0][..wanted], &buffers[1][..wanted]);
        if a != b {
            let at = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(0);
            return Ok(Some(offset + at as u64));
        }
        offset += wanted as u64;
    }
    Ok(None)
}

fn next_data(file: &OwnedFd, offset: u64, size: u64) -> io::Result<u64> {
    match seek(file, SeekFrom::Data(offset)) {
        Ok(data) => Ok(data),
        Err(Errno::NXIO) => Ok(size),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(offset),
        Err(error) => Err(error.into()),
    }
}

fn read_all(file: &OwnedFd, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::pread(file, &mut buffer[filled..], offset + filled as u64) {
            Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "the file is shorter than it said")),
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn xattr_names(file: &OwnedFd) -> io::Result<BTreeSet<Vec<u8>>> {
    let mut list = vec![0; 1 << 16];
    let length = match listxattr(proc_path(file), &mut list) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => 0,
        Err(error) => return Err(error.into()),
    };
    let compared = |name: &[u8]| {
        [b"user.".as_slice(), b"trusted.", b"system.posix_acl_"].iter().any(|prefix| name.starts_with(prefix))
            || name == b"security.capability"
    };
    Ok(list[..length].split(|byte| *byte == 0).filter(|name| compared(name)).map(<[u8]>::to_vec).collect())
}

fn xattr(file: &OwnedFd, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; 1 << 16];
    match getxattr(proc_path(file), name, &mut value) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
