//! Attributes as the kernel and FUSE have them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use rustix::fs::{self as sys, Stat, Timespec};

pub(super) fn timespec(time: Option<TimeOrNow>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: libc::UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Timespec { tv_sec: after.as_secs() as i64, tv_nsec: i64::from(after.subsec_nanos()) },
            // fuser 0.18 subtracts the nanoseconds, too, from a time before 1970; taking both numbers as they are gives back what the kernel sent.
            Err(before) => {
                let before = before.duration();
                Timespec { tv_sec: -(before.as_secs() as i64), tv_nsec: i64::from(before.subsec_nanos()) }
            }
        },
    }
}

fn system_time(seconds: i64, nanoseconds: u64) -> SystemTime {
    let whole = match u64::try_from(seconds) {
        Ok(seconds) => UNIX_EPOCH + Duration::from_secs(seconds),
        Err(_) => UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs()),
    };
    whole + Duration::from_nanos(nanoseconds)
}

pub(super) fn kind(kind: sys::FileType) -> Option<FileType> {
    match kind {
        sys::FileType::RegularFile => Some(FileType::RegularFile),
        sys::FileType::Directory => Some(FileType::Directory),
        sys::FileType::Symlink => Some(FileType::Symlink),
        sys::FileType::Fifo => Some(FileType::NamedPipe),
        sys::FileType::Socket => Some(FileType::Socket),
        sys::FileType::CharacterDevice => Some(FileType::CharDevice),
        sys::FileType::BlockDevice => Some(FileType::BlockDevice),
        sys::FileType::Unknown => None,
    }
}

pub(super) fn attributes(stat: &Stat) -> FileAttr {
    let (major, minor) = (sys::major(stat.st_rdev), sys::minor(stat.st_rdev));
    FileAttr {
        ino: INodeNo(stat.st_ino),
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: system_time(stat.st_atime, stat.st_atime_nsec),
        mtime: system_time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: system_time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: kind(sys::FileType::from_raw_mode(stat.st_mode)).unwrap_or(FileType::RegularFile),
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12),
        blksize: 4096,
        flags: 0,
    }
}
