//! Pipes and sockets on which no read and no write waits longer than an idle timeout.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};

/// Fails with `TimedOut` when the other end takes or sends nothing for the idle timeout, with `BrokenPipe` once `over`
/// is set.
pub struct Bounded {
    fd: OwnedFd,
    idle_timeout: Duration,
    over: Arc<AtomicBool>,
}

impl Bounded {
    pub fn new(fd: OwnedFd, idle_timeout: Duration, over: Arc<AtomicBool>) -> io::Result<Bounded> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Bounded { fd, idle_timeout, over })
    }

    /// Whether a few bytes can be written at once: a pipe says so of a page, a socket of a third of its buffer.
    pub fn is_ready(&self) -> bool {
        let mut polled = [PollFd::from_borrowed_fd(self.fd.as_fd(), PollFlags::OUT)];
        poll(&mut polled, Some(&rustix::time::Timespec::default())).is_ok_and(|count| count > 0)
    }

    fn wait(&self, flags: PollFlags) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            let mut polled = [PollFd::from_borrowed_fd(self.fd.as_fd(), flags)];
            let wait = rustix::time::Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
            match poll(&mut polled, Some(&wait)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(e) => return Err(e.into()),
            }
            if self.over.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if begun.elapsed() > self.idle_timeout {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    fn again(&self, flags: PollFlags, mut call: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<usize> {
        loop {
            match call() {
                Ok(count) => return Ok(count),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => self.wait(flags)?,
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.again(PollFlags::IN, || rustix::io::read(&self.fd, &mut *buffer))
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.again(PollFlags::OUT, || rustix::io::write(&self.fd, bytes))
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.again(PollFlags::OUT, || rustix::io::writev(&self.fd, parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
