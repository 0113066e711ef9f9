//! The allocator: mimalloc with small arenas. musl's own allocator costs half as much processor time again, and glibc's takes
//! 64 MiB of address space for each thread.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_long;
use std::io::Write;

use libmimalloc_sys as mi;
use rustix::process::{Resource, getrlimit};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

struct Allocator;

// SAFETY: mimalloc keeps the contract of each call; a refused allocation does not return.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: size and alignment are those of a layout.
        granted(unsafe { mi::mi_malloc_aligned(room(layout.size()), layout.align()) }.cast(), layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if room(layout.size()) > layout.size() {
            // SAFETY: as above; the block has that many bytes at least. Only what was asked for is touched.
            return unsafe {
                let block = self.alloc(layout);
                block.write_bytes(0, layout.size());
                block
            };
        }
        // SAFETY: as above.
        granted(unsafe { mi::mi_zalloc_aligned(layout.size(), layout.align()) }.cast(), layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller got the block from this allocator.
        unsafe { mi::mi_free(block.cast()) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        granted(unsafe { mi::mi_realloc_aligned(block.cast(), room(size), layout.align()) }.cast(), size)
    }
}

/// mimalloc's numbers of its options (`mi_option_e` of version 3); its crate has no names for them.
const PURGE_DELAY: mi::mi_option_t = 15;
const ARENA_RESERVE: mi::mi_option_t = 23;
/// KiB of address space that are reserved at a time. The default, 1 GiB, does not fit a job's limit.
const RESERVE: c_long = 32 << 10;
/// Milliseconds until free memory goes back to the system. With the default, a second, a walk of 1,000,000 files keeps 40 MiB
/// in place of 18.
const DELAY: c_long = 10;

/// Runs before mimalloc's own initialization and before the first allocation.
#[used]
#[unsafe(link_section = ".init_array.00100")]
static CONFIGURE: extern "C" fn() = configure;

extern "C" fn configure() {
    // SAFETY: there is one thread yet. Environment variables (MIMALLOC_...) still win.
    unsafe {
        mi::mi_option_set_default(ARENA_RESERVE, RESERVE);
        mi::mi_option_set_default(PURGE_DELAY, DELAY);
        // Each thread's exit handlers come from the C library's own allocator: one arena is enough for them.
        #[cfg(target_env = "gnu")]
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Bytes to ask mimalloc for. It keeps blocks of 64 to 512 KiB in regions of 4 MiB, one for each size and thread; what is larger
/// takes only its own room. Memory that is not touched costs address space alone.
#[inline]
fn room(size: usize) -> usize {
    const MEDIUM: usize = 64 << 10;
    const ALONE: usize = (512 << 10) + 1;
    if size > MEDIUM { size.max(ALONE) } else { size }
}

#[inline]
fn granted(block: *mut u8, size: usize) -> *mut u8 {
    if block.is_null() {
        refused(size);
    }
    block
}

/// Ends the program: whatever it did next would need memory. Nothing in here allocates.
#[cold]
fn refused(size: usize) -> ! {
    let mut text = [0; 512];
    let mut rest = &mut text[..];
    // What does not fit is cut off.
    let _ = write!(rest, "haul: memory: the system refused {size} bytes");
    if let Some(limit) = getrlimit(Resource::As).current {
        let _ = write!(rest, "; address space is limited to {} MiB (ulimit -v)", limit >> 20);
    }
    let _ = write!(rest, "\n  try: a higher limit or fewer workers (-j 2); to continue, run the same command again\n");
    let unused = rest.len();
    let length = text.len() - unused;
    // SAFETY: writes bytes that live, and ends the process; handlers of exit(3) might allocate.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), length);
        libc::_exit(crate::exit::Exit::Io.code().into())
    }
}
