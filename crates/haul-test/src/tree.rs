//! Trees for tests, from a line of text, from a seed, or in bulk.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, mkdirat, openat, utimensat};

use crate::content::{self, Random};

/// A directory in which trees are made. It is not removed: give it a path below a temporary directory.
#[derive(Debug, Clone)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Works in this directory, made when it is absent (its parents too).
    pub fn new(root: impl Into<PathBuf>) -> io::Result<Tree> {
        let root = root.into();
        fs::create_dir_all(&root)?;
        Ok(Tree { root })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// A path below it.
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// Makes what the text says. Items are separated by blanks; parents are made as needed:
    ///
    /// | item | makes |
    /// |---|---|
    /// | `src:` | the directory `src`, and puts it before the names (also link targets after `=>`) of what follows |
    /// | `a=1K` | a file of that size (`K`, `M`, `G` are powers of 1024) with content by [`content`] |
    /// | `a=1K:0600` | the same with a mode; `d/:0700` and `x:0600` too; `x:0600` alone changes what is there, or makes an empty file |
    /// | `d/` | a directory |
    /// | `s=~1G@0+4K,1M+8K` | a sparse file with data in these places (`OFFSET+LENGTH`), none when there is no `@` |
    /// | `l->target` | a symlink |
    /// | `h=>a` | a hard link to `a` |
    /// | `p\|` | a fifo |
    ///
    /// Errors: `InvalidInput` with the item that was not understood, or the system call's error.
    pub fn build(&self, text: &str) -> io::Result<()> {
        let mut prefix = String::new();
        for item in text.split_whitespace() {
            if let Some(directory) = item.strip_suffix(':') {
                fs::create_dir_all(self.join(directory))?;
                prefix = format!("{directory}/");
                continue;
            }
            self.item(&prefix, item).map_err(|error| io::Error::new(error.kind(), format!("tree item {item:?}: {error}")))?;
        }
        Ok(())
    }

    fn item(&self, prefix: &str, item: &str) -> io::Result<()> {
        let place = |name: &str| -> io::Result<PathBuf> {
            let path = self.root.join(format!("{prefix}{name}"));
            fs::create_dir_all(path.parent().ok_or(ErrorKind::InvalidInput)?)?;
            Ok(path)
        };
        if let Some((name, target)) = item.split_once("->") {
            return symlink(target, place(name)?);
        }
        if let Some((name, leader)) = item.split_once("=>") {
            return fs::hard_link(self.root.join(format!("{prefix}{leader}")), place(name)?);
        }
        if let Some(name) = item.strip_suffix('|') {
            return Ok(rustix::fs::mkfifoat(CWD, place(name)?, Mode::from_raw_mode(0o644))?);
        }
        let (item, mode) = match item.rsplit_once(':') {
            Some((item, mode)) => (item, Some(u32::from_str_radix(mode, 8).map_err(|_| invalid("mode"))?)),
            None => (item, None),
        };
        let path = match item.split_once('=') {
            Some((name, size)) => {
                let path = place(name)?;
                match size.strip_prefix('~') {
                    Some(sparse) => write_sparse(&path, sparse)?,
                    None => write_file(&path, parse_size(size)?)?,
                }
                path
            }
            None if item.ends_with('/') => {
                let path = place(item.trim_end_matches('/'))?;
                fs::create_dir_all(&path)?;
                path
            }
            None if mode.is_some() => {
                let path = place(item)?;
                if fs::symlink_metadata(&path).is_err() {
                    write_file(&path, 0)?;
                }
                path
            }
            None => return Err(invalid("want NAME=SIZE, NAME/, NAME->TARGET, NAME=>NAME, NAME| or NAME:MODE")),
        };
        match mode {
            Some(mode) => fs::set_permissions(path, fs::Permissions::from_mode(mode)),
            None => Ok(()),
        }
    }

    /// Sets the modification time of a name (a symlink itself, not what it points to), in seconds since 1970 and nanoseconds.
    pub fn set_mtime(&self, path: impl AsRef<Path>, seconds: i64, nanoseconds: u32) -> io::Result<()> {
        set_mtime(&self.join(path), seconds, nanoseconds)
    }

    /// Makes about `files` files and a third as many of all else (directories, symlinks, hard links, fifos), the same for the same seed.
    ///
    /// Sizes are 0 to 64 KiB, one in fifty up to 1 MiB; modes vary but stay readable and writable by the owner; times have nanoseconds.
    pub fn random(&self, seed: u64, files: usize) -> io::Result<()> {
        let mut random = Random::new(seed);
        let mut directories = vec![PathBuf::new()];
        let mut made: Vec<PathBuf> = Vec::new();
        let mut names = 0;
        while made.len() < files {
            names += 1;
            let parent = directories[random.below(directories.len() as u64) as usize].clone();
            let name = parent.join(format!("{}{names}", ["a", "file ", "é-", "X_", "-n"][random.below(5) as usize]));
            let path = self.join(&name);
            match random.below(20) {
                0 | 1 => {
                    fs::create_dir(&path)?;
                    fs::set_permissions(&path, fs::Permissions::from_mode([0o755, 0o700, 0o775][random.below(3) as usize]))?;
                    directories.push(name);
                }
                2 => symlink(["..", "absent", "a1", "/etc/passwd"][random.below(4) as usize], &path)?,
                3 if !made.is_empty() => fs::hard_link(self.join(&made[random.below(made.len() as u64) as usize]), &path)?,
                4 => rustix::fs::mkfifoat(CWD, &path, Mode::from_raw_mode(0o600))?,
                _ => {
                    let size = if random.below(50) == 0 { random.below(1 << 20) } else { random.below(1 << 16) };
                    write_file(&path, size)?;
                    fs::set_permissions(&path, fs::Permissions::from_mode([0o644, 0o600, 0o755, 0o664][random.below(4) as usize]))?;
                    made.push(name);
                }
            }
            set_mtime(&path, 1_000_000_000 + random.below(700_000_000) as i64, random.below(1_000_000_000) as u32)?;
        }
        // Last, since what was made inside has changed them.
        for directory in directories.iter().rev() {
            set_mtime(&self.join(directory), 1_000_000_000 + random.below(700_000_000) as i64, random.below(1_000_000_000) as u32)?;
        }
        Ok(())
    }
}

/// Makes `count` files of `size` bytes in `directory` (made when absent), named `f0000000` and so on, with two threads.
pub fn flat(directory: &Path, count: u64, size: u64) -> io::Result<()> {
    bulk(directory, None, count, size)
}

/// Makes `directories` directories `d00000` and so on with `files` files of `size` bytes each, with two threads.
pub fn spread(directory: &Path, directories: u64, files: u64, size: u64) -> io::Result<()> {
    bulk(directory, Some(directories), files, size)
}

/// The time that bulk files carry: old, so that a run's own times cannot be taken for it.
const BULK_TIME: i64 = 1_600_000_000;

fn bulk(root: &Path, directories: Option<u64>, files: u64, size: u64) -> io::Result<()> {
    fs::create_dir_all(root)?;
    let root = openat(CWD, root, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let root = &root;
    thread::scope(|scope| {
        let workers = [0, 1].map(|worker| {
            scope.spawn(move || -> io::Result<()> {
                let Some(directories) = directories else { return fill_directory(root, "", (worker..files).step_by(2), size) };
                (worker..directories).step_by(2).try_for_each(|number| {
                    let name = format!("d{number:05}");
                    mkdirat(root, &name, Mode::from_raw_mode(0o755))?;
                    let directory = openat(root, &name, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
                    fill_directory(&directory, &name, 0..files, size)?;
                    Ok(rustix::fs::futimens(&directory, &times(BULK_TIME, 0))?)
                })
            })
        });
        workers.into_iter().try_for_each(|worker| worker.join().expect("the generator does not panic"))
    })
}

fn fill_directory(directory: &OwnedFd, salt: &str, numbers: impl Iterator<Item = u64>, size: u64) -> io::Result<()> {
    let mut buffer = vec![0; size.min(1 << 20) as usize];
    for number in numbers {
        let name = format!("f{number:07}");
        let file = openat(directory, &name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC, Mode::from_raw_mode(0o644))?;
        let seed = content::seed(salt.as_bytes()) ^ content::seed(name.as_bytes());
        write_content(&file, seed, 0, size, &mut buffer)?;
        rustix::fs::futimens(&file, &times(BULK_TIME + (number % 1000) as i64, (number % 1000) * 1_001))?;
    }
    Ok(())
}

/// Writes a file of `size` bytes whose content is given by its last component.
pub fn write_file(path: &Path, size: u64) -> io::Result<()> {
    let file = OwnedFd::from(fs::File::create(path)?);
    let mut buffer = vec![0; size.min(1 << 20) as usize];
    write_content(&file, file_seed(path), 0, size, &mut buffer)
}

/// The seed of the content that [`write_file`] gives.
pub fn file_seed(path: &Path) -> u64 {
    content::seed(path.file_name().unwrap_or_else(|| OsStr::new("")).as_bytes())
}

pub(crate) fn write_content(file: &OwnedFd, seed: u64, from: u64, length: u64, buffer: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < length {
        let count = (length - done).min(buffer.len() as u64) as usize;
        content::fill(seed, from + done, &mut buffer[..count]);
        let written = rustix::io::pwrite(file, &buffer[..count], from + done)?;
        done += written as u64;
    }
    Ok(())
}

/// Sets a modification time, of a symlink itself too; the access time becomes the same.
pub fn set_mtime(path: &Path, seconds: i64, nanoseconds: u32) -> io::Result<()> {
    Ok(utimensat(CWD, path, &times(seconds, u64::from(nanoseconds)), AtFlags::SYMLINK_NOFOLLOW)?)
}

pub(crate) fn times(seconds: i64, nanoseconds: u64) -> Timestamps {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds as i64 };
    Timestamps { last_access: time, last_modification: time }
}

fn write_sparse(path: &Path, text: &str) -> io::Result<()> {
    let (size, extents) = text.split_once('@').unwrap_or((text, ""));
    let file = OwnedFd::from(fs::File::create(path)?);
    rustix::fs::ftruncate(&file, parse_size(size)?)?;
    let mut buffer = vec![0; 1 << 16];
    for extent in extents.split(',').filter(|extent| !extent.is_empty()) {
        let (offset, length) = extent.split_once('+').ok_or_else(|| invalid("want OFFSET+LENGTH"))?;
        write_content(&file, file_seed(path), parse_size(offset)?, parse_size(length)?, &mut buffer)?;
    }
    Ok(())
}

fn parse_size(text: &str) -> io::Result<u64> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().map(|number| number << shift).map_err(|_| invalid("size"))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, format!("cannot read: {what}"))
}
