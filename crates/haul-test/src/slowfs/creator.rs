//! The user whose request makes a name: its umask and its owner.

use std::cell::Cell;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use fuser::Request;
use rustix::fs::{self as sys, AtFlags, Mode};
use rustix::process::{Gid, Uid};

use super::passthrough::Result;

thread_local! {
    /// Whether this thread has a umask of its own.
    static OWN_UMASK: Cell<bool> = const { Cell::new(false) };
}

/// Sets this thread's umask, and this thread's only: the backing file system then applies it as the caller's own would be, or not at all below a
/// default ACL.
pub(super) fn with_umask(umask: u32) {
    OWN_UMASK.with(|own| {
        if !own.get() {
            // SAFETY: CLONE_FS only gives this thread its own umask, root and working directory; no memory or descriptor is concerned.
            let result = unsafe { libc::unshare(libc::CLONE_FS) };
            assert_eq!(result, 0, "unshare(CLONE_FS) needs no rights and cannot fail");
            own.set(true);
        }
    });
    rustix::process::umask(Mode::from_raw_mode(umask & 0o777));
}

/// Gives a new name to the caller; the group stays the directory's below a setgid directory.
pub(super) fn give(request: &Request, directory: &OwnedFd, name: &OsStr) -> Result<()> {
    let stat = sys::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let parent = sys::fstat(directory)?;
    let group = if parent.st_mode & libc::S_ISGID != 0 { stat.st_gid } else { request.gid() };
    if (stat.st_uid, stat.st_gid) == (request.uid(), group) {
        return Ok(());
    }
    sys::chownat(directory, name, Some(Uid::from_raw(request.uid())), Some(Gid::from_raw(group)), AtFlags::SYMLINK_NOFOLLOW)?;
    if stat.st_mode & (libc::S_ISUID | libc::S_ISGID) != 0 && stat.st_mode & libc::S_IFMT != libc::S_IFLNK {
        sys::chmodat(directory, name, Mode::from_raw_mode(stat.st_mode & 0o7777), AtFlags::empty())?;
    }
    Ok(())
}
