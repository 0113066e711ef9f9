//! The file mode creation mask belongs to the process, and a run that keeps modes wants none: its threads get one of their own.

use haul_core::error::Result;
use haul_core::rlimit;
use rustix::fs::Mode;
use rustix::thread::UnshareFlags;

/// Whether threads here can have a mask of their own. Some containers forbid it.
pub fn can_be_apart() -> bool {
    rlimit::spawn("umask", unshare).is_ok_and(|thread| thread.join().unwrap_or(false))
}

/// Does the work on a thread whose mask is 0, and so is that of the threads which it starts; those of all others stay. Where
/// [`can_be_apart`] denies, the mask is left alone.
///
/// Errors: `Limit` where the system gives no thread.
pub fn without_mask<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    with_mask(0, |_| work())
}

/// The same with a mask; `work` gets whether it is in force.
///
/// Errors: as [`without_mask`].
pub fn with_mask<T: Send>(mask: u32, work: impl FnOnce(bool) -> T + Send) -> Result<T> {
    let apart = || {
        let is_apart = unshare();
        if is_apart {
            rustix::process::umask(Mode::from_raw_mode(mask));
        }
        work(is_apart)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, apart).map_err(rlimit::no_thread)?;
        thread.join().map_or_else(|panic| std::panic::resume_unwind(panic), Ok)
    })
}

/// The calling thread's working directory and mask are its own from now on.
fn unshare() -> bool {
    // SAFETY: no descriptors are unshared, which is all that makes the call unsafe.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }.is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

    use super::*;

    #[test]
    fn only_the_threads_of_the_work_have_no_mask() {
        let place = tempfile::tempdir().expect("a directory");
        let make = |name: &str| {
            let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o777).open(place.path().join(name));
            made.and_then(|file| file.metadata()).expect("made").mode() & 0o777
        };
        let before = make("before");
        assert!(can_be_apart() && before != 0o777, "this test needs a mask");
        let within = without_mask(|| std::thread::scope(|scope| scope.spawn(|| make("within")).join().expect("made")));
        let within = within.expect("a thread");
        assert_eq!((within, make("after")), (0o777, before));
    }
}
