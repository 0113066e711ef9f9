//! Addresses, as this program's backends write them.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_core::error::{Error, Result};
use rustix::io::FdFlags;

pub use crate::registry::{parse, schemes};
pub use haul_core::place::{Location, Scheme};

/// The descriptor that a local path names: `/dev/stdin`, `/dev/fd/3`, `/proc/self/fd/3`, however it is written.
fn descriptor(path: &[u8]) -> Option<RawFd> {
    let at = path.iter().rposition(|byte| *byte == b'/')?;
    let (above, leaf) = (Path::new(OsStr::from_bytes(&path[..at])), std::str::from_utf8(&path[at + 1..]).ok()?);
    let is_in = |directory: &str| above == Path::new(directory) || above.canonicalize().is_ok_and(|real| real == Path::new(directory));
    match leaf {
        "stdin" => is_in("/dev").then_some(0),
        "stdout" => is_in("/dev").then_some(1),
        "stderr" => is_in("/dev").then_some(2),
        number => {
            let number: RawFd = number.parse().ok().filter(|number| *number >= 0)?;
            let own = format!("/proc/{}/fd", std::process::id());
            (is_in(&own) || above == Path::new("/dev/fd") || above == Path::new("/proc/self/fd")).then_some(number)
        }
    }
}

/// An operand that is read or written as a stream: an open descriptor by its path is what `-` is, whose descriptor is `usual`.
pub fn operand(location: Location, usual: RawFd) -> Location {
    if location.scheme != Scheme::LOCAL || location.trailing_slash {
        return location;
    }
    let path = match location.path.contains(&b'/') {
        true => location.path.clone(),
        false => [b"./", &location.path[..]].concat(),
    };
    match descriptor(&path) {
        None => location,
        Some(number) if number == usual => Location::at(Scheme::STDIO, None, None, None, b""),
        Some(number) => Location::at(Scheme::STDIO, None, None, None, format!("/dev/fd/{number}").as_bytes()),
    }
}

/// The descriptor of a location of standard input or output, which is `usual` if it names no other.
pub fn descriptor_of(location: &Location, usual: RawFd) -> RawFd {
    location.path.rsplit(|byte| *byte == b'/').next().and_then(|leaf| std::str::from_utf8(leaf).ok()?.parse().ok()).unwrap_or(usual)
}

/// A descriptor that this process has inherited, as one of its own.
///
/// # Errors
/// `EBADF` also for those that the program has opened itself.
pub fn inherited(number: RawFd) -> Result<OwnedFd> {
    if number == 1 && crate::stream::is_closed() {
        return Err(Error::io(io::Error::from(rustix::io::Errno::BADF), "open standard output"));
    }
    // SAFETY: the number is only asked for its flags and duplicated; both fail if nothing is open there.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    let is_inherited = rustix::io::fcntl_getfd(fd).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC));
    let own = if is_inherited { fd.try_clone_to_owned() } else { Err(io::Error::from(rustix::io::Errno::BADF)) };
    own.map_err(|e| Error::io(e, "open").at(format!("/dev/fd/{number}").as_bytes()))
}
