//! Whether standard output was closed when the program started: the runtime opens the null device in its place before `main`.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_closed() {
    // SAFETY: the descriptor is only asked for its flags.
    let stdout = unsafe { BorrowedFd::borrow_raw(1) };
    CLOSED.store(rustix::io::fcntl_getfd(stdout).is_err(), Ordering::Relaxed);
}

// SAFETY: the function uses nothing that is set up later.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_CLOSED: extern "C" fn() = note_closed;

/// Whether data written to standard output would be lost.
pub fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}
