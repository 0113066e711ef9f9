//! Whether a set may be created in a directory, given its content and the free space.

use std::os::fd::BorrowedFd;

use haul_core::units::{bytes, count};
use haul_core::{Error, ErrorKind, Result};
use rustix::fs::fstatvfs;

use super::look::Standing;
use super::plan::{BLOCK, Plan};

/// Whether a set may be created in a directory with this content.
pub fn admit(standing: &Standing, add: bool) -> Result<()> {
    if standing.is_empty() || standing.resumes() {
        return Ok(());
    }
    let example = standing.example.as_deref().map_or(String::new(), |name| format!(" (for one, {})", haul_core::entry::show(name)));
    let refuse = |why: String, hint: &str| Err(Error::new(ErrorKind::Usage, "make data").because(why).hint(hint));
    let taken = standing.other;
    match () {
        () if taken > 0 => {
            let names =
                if taken == 1 { "one name of the data set is".into() } else { format!("{} names of the data set are", count(taken)) };
            refuse(
                format!("{names} in use by something else{example}"),
                "nothing was overwritten; name another directory, or move these files away",
            )
        }
        () if add => Ok(()),
        () => {
            let names = if standing.foreign == 1 { "one name".into() } else { format!("{} names", count(standing.foreign)) };
            refuse(
                format!("the directory is not empty: it has {names} that are not in the data set{example}"),
                "name another directory, or add the data set with --add",
            )
        }
    }
}

/// Asks for space and inodes before anything is made.
pub fn room(plan: &Plan, top: BorrowedFd<'_>, standing: &Standing) -> Result<()> {
    let free = fstatvfs(top).map_err(|e| Error::io(e.into(), "ask for free space"))?;
    let totals = plan.totals();
    let dirs = totals.dirs.saturating_sub(standing.dirs);
    let needed = totals.allocated.saturating_sub(standing.allocated) + dirs * BLOCK;
    let inodes = (totals.files + totals.symlinks).saturating_sub(standing.complete) + dirs;
    let left = if rustix::process::geteuid().is_root() { free.f_bfree } else { free.f_bavail }.saturating_mul(free.f_frsize);
    let refuse = |why: String| Err(Error::new(ErrorKind::NoSpace, "make data").because(why).hint(SMALLER));
    if needed > left {
        return refuse(format!("the data set needs {}, and the file system has {} free", bytes(needed), bytes(left)));
    }
    // File systems that make inodes as they are needed say 0 of 0.
    if free.f_files > 0 && inodes > free.f_favail {
        return refuse(format!("the data set needs {} inodes, and the file system has {} free", count(inodes), count(free.f_favail)));
    }
    Ok(())
}

const SMALLER: &str = "--scale N makes the data set N times smaller; nothing was created";
