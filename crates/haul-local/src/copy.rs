//! Bytes into and between open files.

use std::io;
use std::ops::Range;

use haul_core::error::{Error, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;

/// Bytes that one call of the kernel copies at the most.
const STEP: usize = 16 << 20;

pub(super) fn write_all(fd: impl AsFd, mut bytes: &[u8], mut at: u64) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(&fd, bytes, at) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => {
                bytes = &bytes[count..];
                at += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Closes and reports errors: NFS and the like report a full disk or a quota only then.
pub(super) fn close(fd: OwnedFd) -> rustix::io::Result<()> {
    use rustix::fd::IntoRawFd;
    // SAFETY: the descriptor was owned and is given up here; nobody else has its number.
    match unsafe { libc::close(fd.into_raw_fd()) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error().raw_os_error() {
            // The descriptor is gone all the same.
            None | Some(libc::EINTR) => Ok(()),
            Some(code) => Err(Errno::from_raw_os_error(code)),
        },
    }
}

/// Fills `at` from `from_at` on of another file, in the kernel as far as the file systems can; returns the number of bytes. A full
/// disk is an error.
pub fn copy_range(from: impl AsFd, from_at: u64, to: impl AsFd, at: Range<u64>) -> Result<u64> {
    let mut copied = 0;
    while at.start + copied < at.end {
        let wanted = usize::try_from(at.end - at.start - copied).unwrap_or(usize::MAX).min(STEP);
        let (mut off_in, mut off_out) = (from_at + copied, at.start + copied);
        match rustix::fs::copy_file_range(&from, Some(&mut off_in), &to, Some(&mut off_out), wanted) {
            Ok(count) if count > 0 => copied += count as u64,
            Err(Errno::INTR) => {}
            Err(e @ (Errno::NOSPC | Errno::DQUOT)) => return Err(Error::io(e.into(), "write")),
            // A file system that cannot, or a file that became shorter: reading shows which.
            _ => break,
        }
    }
    Ok(copied)
}
