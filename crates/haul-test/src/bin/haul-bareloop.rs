//! The bare loop of system calls that a copy of small files cannot do without, as the yardstick for benchmarks.
//!
//! `haul-bareloop THREADS SRC DST` copies one directory of files, or a directory of such directories, to DST, which must not exist.
//! A file costs openat, fstat, read, openat, write, futimens and two closes; nothing is checked, kept or told.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, Timespec, Timestamps, fstat, futimens, mkdirat, openat};
use rustix::io::{Errno, Result, read, write};

/// Names that a thread takes at a time.
const BATCH: usize = 64;

struct Pair {
    source: OwnedFd,
    destination: OwnedFd,
    names: Vec<CString>,
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [threads, source, destination] = arguments.as_slice() else {
        eprintln!("usage: haul-bareloop THREADS SRC DST");
        return ExitCode::FAILURE;
    };
    let Some(threads) = threads.to_str().and_then(|text| text.parse::<usize>().ok()).filter(|threads| (1..=1024).contains(threads)) else {
        eprintln!("haul-bareloop: THREADS is a number from 1 to 1024");
        return ExitCode::FAILURE;
    };
    let copied = mkdirat(CWD, destination, Mode::from_raw_mode(0o755))
        .and_then(|()| Ok((open_directory(CWD, source)?, open_directory(CWD, destination)?)))
        .and_then(|(source, destination)| copy(threads, source, destination));
    match copied {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("haul-bareloop: {error}");
            ExitCode::FAILURE
        }
    }
}

fn copy(threads: usize, source: OwnedFd, destination: OwnedFd) -> Result<()> {
    let mut pairs = Vec::new();
    let (names, directories) = list(&source)?;
    for name in directories {
        mkdirat(&destination, &name, Mode::from_raw_mode(0o755))?;
        let (source, destination) = (open_directory(&source, &name)?, open_directory(&destination, &name)?);
        let (names, _deeper) = list(&source)?;
        pairs.push(Pair { source, destination, names });
    }
    pairs.push(Pair { source, destination, names });
    let batches: Vec<(&Pair, &[CString])> =
        pairs.iter().flat_map(|pair| pair.names.chunks(BATCH).map(move |names| (pair, names))).collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let worker = || -> Result<()> {
            let mut buffer = vec![0; 1 << 20];
            while let Some((pair, names)) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                for name in *names {
                    copy_file(pair, name, &mut buffer)?;
                }
            }
            Ok(())
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or(Err(Errno::IO)))
    })
}

fn copy_file(pair: &Pair, name: &CString, buffer: &mut [u8]) -> Result<()> {
    let source = openat(&pair.source, name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let stat = fstat(&source)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let size = stat.st_size as u64;
    // One byte more than the size, so that the first read of a small file also meets its end.
    let wanted = (size as usize + 1).min(buffer.len());
    let mut count = read(&source, &mut buffer[..wanted])?;
    let destination = openat(&pair.destination, name, flags, Mode::from_raw_mode(stat.st_mode & 0o777))?;
    let mut copied = 0;
    while count > 0 {
        let mut written = 0;
        while written < count {
            written += write(&destination, &buffer[written..count])?;
        }
        copied += count as u64;
        if copied >= size {
            break;
        }
        count = read(&source, &mut *buffer)?;
    }
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT },
        last_modification: Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as i64 },
    };
    futimens(&destination, &times)
}

fn open_directory<P: rustix::path::Arg>(parent: impl std::os::fd::AsFd, path: P) -> Result<OwnedFd> {
    openat(parent, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// The names of the regular files, and of the directories.
fn list(directory: &OwnedFd) -> Result<(Vec<CString>, Vec<CString>)> {
    let (mut files, mut directories) = (Vec::new(), Vec::new());
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        match entry.file_type() {
            FileType::RegularFile => files.push(entry.file_name().to_owned()),
            FileType::Directory if entry.file_name() != c"." && entry.file_name() != c".." => {
                directories.push(entry.file_name().to_owned())
            }
            _ => {}
        }
    }
    Ok((files, directories))
}
