//! Verifies a data set, or a copy of it: every byte is compared with the computed one.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use haul_core::cancel::Cancel;
use haul_core::{Error, ErrorKind, Result};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, readlinkat, statat};
use rustix::io::Errno;
use serde::{Serialize, Serializer};

use super::look::{Held, held, is_absent, listed};
use super::make::Tally;
use super::plan::{File, Kind, Plan};
use super::worker::{Worker, each, open_top};

/// Differences that are reported; the others are counted.
const MOST_REPORTED: usize = 20;

#[derive(Debug, Default, Serialize)]
pub struct Verified {
    pub same: u64,
    /// Bytes that were read and are right.
    pub bytes: u64,
    pub missing: u64,
    pub differing: u64,
    /// Names that the set does not have.
    pub extra: u64,
    pub unreadable: u64,
    /// The first of those that are not the same.
    pub differences: Vec<Difference>,
}

impl Verified {
    pub fn is_same(&self) -> bool {
        self.missing + self.differing + self.extra + self.unreadable == 0
    }
}

#[derive(Debug, Serialize)]
pub struct Difference {
    /// Below the top.
    #[serde(serialize_with = "lossy")]
    pub path: Vec<u8>,
    /// `missing`.
    pub what: String,
}

fn lossy<S: Serializer>(path: &[u8], to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_str(&String::from_utf8_lossy(path))
}

enum Answer {
    Same(u64),
    Missing,
    Differs(String),
}

/// Compares names, kinds, lengths, bytes, targets of links, and which names are one file; not times, modes and attributes.
/// `tally` counts what was compared.
pub fn verify(plan: &Plan, dir: &Path, threads: usize, cancel: &Cancel, tally: &Tally) -> Result<Verified> {
    let top = open_top(dir)?;
    let found = Mutex::new(Verified::default());
    each((plan, top.as_fd()), plan.skeleton.entries(), threads, cancel, |workers, number| {
        let answer = compare(workers, number, cancel);
        tally.entries.fetch_add(1, Ordering::Relaxed);
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        let (sum, what) = match answer {
            Ok(Answer::Same(bytes)) => {
                (found.same, found.bytes) = (found.same + 1, found.bytes + bytes);
                tally.bytes.fetch_add(bytes, Ordering::Relaxed);
                return Ok(());
            }
            Ok(Answer::Missing) => (&mut found.missing, "missing".into()),
            Ok(Answer::Differs(what)) => (&mut found.differing, what),
            Err(e) if e.kind() == ErrorKind::Cancelled => return Err(e),
            Err(e) => (&mut found.unreadable, format!("{}: {}", e.op(), e.reason())),
        };
        *sum += 1;
        if found.differences.len() < MOST_REPORTED {
            found.differences.push(Difference { path: plan.path(number), what });
        }
        Ok(())
    })?;
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (all, dirs) = listed(plan, top.as_fd(), threads, cancel)?;
    found.extra = all.saturating_sub(found.same + found.differing + found.unreadable + dirs);
    Ok(found)
}

fn compare([worker, there]: &mut [Worker<'_>; 2], number: u64, cancel: &Cancel) -> Result<Answer> {
    let plan = worker.plan;
    let (file, name) = (plan.file(number), plan.file_name(number));
    let dir = match worker.dir(plan.skeleton.dir_of(number)) {
        Ok(dir) => dir,
        Err(e) if is_absent(&e) => return Ok(Answer::Missing),
        Err(e) => return Err(e),
    };
    let stat = match statat(dir, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::ILSEQ | Errno::INVAL | Errno::NAMETOOLONG) => return Ok(Answer::Missing),
        Err(e) => return Err(Error::io(e.into(), "look up")),
    };
    let kind = FileType::from_raw_mode(stat.st_mode);
    Ok(match file.kind {
        Kind::Symlink(_) if kind != FileType::Symlink => Answer::Differs("not a symlink".into()),
        Kind::Symlink(to) => {
            let found = readlinkat(dir, name.as_slice(), Vec::new()).map_err(|e| Error::io(e.into(), "read link"))?;
            if found.as_bytes() == plan.target(number, to) { Answer::Same(0) } else { Answer::Differs("another target".into()) }
        }
        _ if kind != FileType::RegularFile => Answer::Differs("not a regular file".into()),
        _ if stat.st_size.cast_unsigned() != file.size => Answer::Differs(format!("{} bytes instead of {}", stat.st_size, file.size)),
        Kind::HardLink(leader) => {
            let leader_name = plan.file_name(leader);
            let other = there
                .dir(plan.skeleton.dir_of(leader))
                .and_then(|dir| statat(dir, leader_name.as_slice(), AtFlags::SYMLINK_NOFOLLOW).map_err(|e| Error::io(e.into(), "look up")));
            match other {
                Ok(other) if (other.st_dev, other.st_ino) == (stat.st_dev, stat.st_ino) => Answer::Same(0),
                // A copy that does not keep hard links is a file with the same bytes.
                _ => match content(plan, dir, &name, &file, cancel)? {
                    Answer::Same(_) => Answer::Differs("a separate file instead of a hard link, with the right bytes".into()),
                    other => other,
                },
            }
        }
        Kind::Regular => content(plan, dir, &name, &file, cancel)?,
    })
}

fn content(plan: &Plan, dir: BorrowedFd<'_>, name: &[u8], file: &File, cancel: &Cancel) -> Result<Answer> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(dir, name, flags, Mode::empty()).map_err(|e| Error::io(e.into(), "open"))?;
    Ok(match held(fd.into(), name, file, &plan.content, cancel)? {
        Held::Until(at) if at == file.size => Answer::Same(at),
        Held::Until(at) => Answer::Differs(format!("ends at byte {at}")),
        Held::DiffersAt(at) => Answer::Differs(format!("differs from byte {at} on")),
    })
}
