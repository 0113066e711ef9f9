//! Threads, which the limits of this process may refuse.

use std::io;
use std::thread::{Builder, JoinHandle};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::process::{Resource, getrlimit};

use crate::error::{Error, ErrorKind, Result};
use crate::retry::Scope;

/// Bytes of a thread's stack. They count as address space, used or not.
pub const STACK: usize = 1 << 20;

/// Starts a thread with a small stack, where `std::thread::spawn` would panic. It inherits the scope of retries.
///
/// Errors: `Limit` if the system has no thread.
pub fn spawn<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    let retries = Scope::current();
    let work = move || {
        let _retries = retries.enter();
        work()
    };
    has_room().map_err(no_thread)?;
    Builder::new().name(name.into()).stack_size(STACK).spawn(work).map_err(no_thread)
}

/// Whether the address space has room for one more thread. One that gets its stack but no room for its signal stack (sigaltstack(2)) ends
/// the process: the standard library panics before any of our code runs.
fn has_room() -> io::Result<()> {
    if getrlimit(Resource::As).current.is_none() {
        return Ok(());
    }
    // SAFETY: a new mapping at an address that the kernel chooses, which nothing refers to, and which goes at once.
    unsafe {
        let room = mmap_anonymous(std::ptr::null_mut(), 2 * STACK, ProtFlags::empty(), MapFlags::PRIVATE)?;
        munmap(room, 2 * STACK)?;
    }
    Ok(())
}

/// A thread that the system does not give, with the limits that may be why.
pub fn no_thread(e: io::Error) -> Error {
    let limits = [(Resource::Nproc, "processes and threads (ulimit -u)", 1), (Resource::As, "KiB of address space (ulimit -v)", 1024)];
    let set = limits.into_iter().filter_map(|(resource, words, unit)| Some(format!("{} {words}", getrlimit(resource).current? / unit)));
    let set: Vec<String> = set.collect();
    let limits = if set.is_empty() { "limits of the system or of the job's cgroup".into() } else { format!("limits: {}", set.join(", ")) };
    let error = Error::io(e, "start a thread").kind_is(ErrorKind::Limit);
    let reason = error.reason();
    error.because(format!("{reason}; {limits}")).hint("raise the limit or use fewer workers (-j 2), and run the same command again")
}
