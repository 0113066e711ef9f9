//! Where text goes. Nothing here panics or reports: a sink that cannot be written stays shut and says why when asked.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use haul_core::team::Transport;

use super::live::Size;
use crate::rank_lines::{Lines, Stream, Writer};

/// Held back before a write, so that `-v` and `--json` cost one system call for some hundred lines.
const BUFFER: usize = 64 << 10;

/// Standard output may be someone else's non-blocking pipe: waits that often and that long for room.
const WAITS: u32 = 200;
const WAIT: Duration = Duration::from_millis(10);

pub struct Sink {
    to: Box<dyn Write + Send>,
    buffer: Vec<u8>,
    failed: Option<io::Error>,
}

impl Sink {
    pub fn new(to: Box<dyn Write + Send>) -> Self {
        Sink { to, buffer: Vec::new(), failed: None }
    }

    pub fn line(&mut self, text: &str) {
        self.bytes(text.as_bytes());
        self.bytes(b"\n");
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER {
            self.flush();
        }
    }

    pub fn flush(&mut self) {
        if self.failed.is_none()
            && let Err(error) = self.write_buffer()
        {
            self.failed = Some(error);
        }
        self.buffer.clear();
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        let mut rest = self.buffer.as_slice();
        let mut waits = 0;
        while !rest.is_empty() {
            match self.to.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => rest = &rest[n..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock && waits < WAITS => {
                    waits += 1;
                    std::thread::sleep(WAIT);
                }
                Err(e) => return Err(e),
            }
        }
        self.to.flush()
    }

    /// Why the last write failed; said once.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }
}

/// Names in the form that `--files-from` reads.
#[derive(Debug, Default)]
pub struct Names {
    zero: bool,
    left_out: u64,
}

impl Names {
    /// With `zero` each name ends in a zero byte (`--from0`), else in a newline.
    pub fn new(zero: bool) -> Self {
        Names { zero, left_out: 0 }
    }

    /// The root itself has no name to list. A name with a line end in it cannot be told in lines: it is left
    /// out and counted. `#` and `;` begin comments in such lists, `./` before them makes names of them.
    pub fn put(&mut self, path: &[u8], sink: &mut Sink) {
        let Some(first) = path.first() else { return };
        if self.zero {
            sink.bytes(path);
            sink.bytes(b"\0");
        } else if path.contains(&b'\n') || path.contains(&b'\r') {
            self.left_out += 1;
        } else {
            if matches!(first, b'#' | b';') {
                sink.bytes(b"./");
            }
            sink.bytes(path);
            sink.bytes(b"\n");
        }
    }

    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// The two streams and what is known of the terminal.
pub struct Outputs {
    pub stdout: Box<dyn Write + Send>,
    pub stderr: Box<dyn Write + Send>,
    /// EndpointRequest before each frame: terminals change their size.
    pub size: Box<dyn Fn() -> Size + Send>,
    /// Called once when standard output was closed at its other end (`| head`). Must not call the renderer.
    pub stdout_gone: Box<dyn Fn() + Send>,
}

impl Outputs {
    /// This process's own. Duplicates, because the standard library's are line-buffered and locked by others.
    /// Where standard output receives data, all text goes to standard error.
    /// Another rank than the first leaves its lines to that.
    pub fn of(data_on_stdout: bool, lines: Option<&Arc<Lines>>) -> Self {
        let lines = lines.filter(|lines| lines.rank() > 0);
        let of = |stream, fd: std::os::fd::BorrowedFd<'_>| match lines {
            None => own(fd),
            Some(lines) => Box::new(Writer { lines: lines.clone(), stream }),
        };
        Outputs {
            stdout: if data_on_stdout { of(Stream::Err, io::stderr().as_fd()) } else { of(Stream::Out, io::stdout().as_fd()) },
            stderr: of(Stream::Err, io::stderr().as_fd()),
            size: Box::new(terminal_size),
            stdout_gone: Box::new(|| {}),
        }
    }
}

fn own(fd: std::os::fd::BorrowedFd<'_>) -> Box<dyn Write + Send> {
    match fd.try_clone_to_owned() {
        Ok(fd) => Box::new(File::from(fd)),
        Err(_) => Box::new(io::sink()),
    }
}

/// Size of the terminal behind standard error; 80 x 24 where it does not say.
fn terminal_size() -> Size {
    match rustix::termios::tcgetwinsize(io::stderr()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => Size { columns: size.ws_col.into(), rows: size.ws_row.into() },
        _ => Size::default(),
    }
}

/// Whether a terminal of this TERM obeys the few control sequences of the live view.
pub fn can_draw(term: Option<&str>) -> bool {
    term.is_some_and(|name| !name.is_empty() && name != "dumb")
}
