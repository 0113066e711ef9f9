//! A program on a terminal of its own, and a person who reads and types there.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

/// A program, and what is on its screen. Dropping it kills the program.
#[derive(Debug)]
pub struct Terminal {
    person: File,
    child: Child,
    seen: Vec<u8>,
    /// Up to where `expect` has looked.
    at: usize,
}

impl Terminal {
    /// Starts the command with all three of its streams on a new terminal that controls it.
    pub fn start(mut command: Command) -> io::Result<Terminal> {
        let (person, program) = pair()?;
        let stream = || program.try_clone().map(Stdio::from);
        command.stdin(stream()?).stdout(stream()?).stderr(stream()?);
        let take_terminal = || {
            rustix::process::setsid()?;
            // SAFETY: the descriptor is the terminal that was just put there, and the call touches no memory of ours.
            if unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        };
        // SAFETY: the closure makes two system calls between fork and exec.
        unsafe { command.pre_exec(take_terminal) };
        Ok(Terminal { person: File::from(person), child: command.spawn()?, seen: Vec::new(), at: 0 })
    }

    /// Waits for words that come after those of the last call.
    ///
    /// Errors: `TimedOut`, or `UnexpectedEof` if the program has ended; both with the screen.
    pub fn expect(&mut self, words: &str, bound: Duration) -> io::Result<()> {
        let until = Instant::now() + bound;
        loop {
            let new = &self.seen[self.at..];
            if let Some(found) = new.windows(words.len()).position(|part| part == words.as_bytes()) {
                self.at += found + words.len();
                return Ok(());
            }
            if !self.read(until)? {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("it ended without {words:?}:\n{}", self.screen())));
            }
        }
    }

    pub fn send_line(&mut self, line: &str) -> io::Result<()> {
        self.person.write_all(format!("{line}\n").as_bytes())
    }

    /// Everything that was shown.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// Waits for its end; then the screen has all.
    pub fn end(&mut self, bound: Duration) -> io::Result<ExitStatus> {
        let until = Instant::now() + bound;
        while self.read(until)? {}
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > until {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("it does not end:\n{}", self.screen())));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// `false` when nobody has the terminal open any more, or the program itself has ended.
    fn read(&mut self, until: Instant) -> io::Result<bool> {
        loop {
            let mut polled = [PollFd::from_borrowed_fd(self.person.as_fd(), PollFlags::IN)];
            let short = rustix::time::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            if poll(&mut polled, Some(&short))? > 0 {
                let mut buffer = [0; 4096];
                // EIO is how a terminal tells that its last user is gone.
                let count = self.person.read(&mut buffer).or_else(|e| if e.raw_os_error() == Some(libc::EIO) { Ok(0) } else { Err(e) })?;
                self.seen.extend_from_slice(&buffer[..count]);
                return Ok(count > 0);
            }
            if self.child.try_wait()?.is_some() {
                return Ok(false);
            }
            if Instant::now() > until {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("nothing more came:\n{}", self.screen())));
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may be gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The person's end and the program's end.
fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (mut person, mut program) = (-1, -1);
    let null = std::ptr::null_mut();
    // SAFETY: both numbers are written by the call; the name and the settings are not asked for.
    if unsafe { libc::openpty(&mut person, &mut program, null, std::ptr::null_mut(), std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both are new descriptors, which nobody else owns.
    let pair = unsafe { (OwnedFd::from_raw_fd(person), OwnedFd::from_raw_fd(program)) };
    // The program must have no hold on the person's end, or it would never see it close.
    rustix::io::fcntl_setfd(&pair.0, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::fcntl_setfd(&pair.1, rustix::io::FdFlags::CLOEXEC)?;
    Ok(pair)
}
