//! Standard output and standard error for text that is no run's output: help, pages, completions, usage errors.

use std::io::{self, ErrorKind, IsTerminal, Write};

use crate::flags::Text;

/// Writes to standard output. A reader that has gone (`haul help | head -1`) is a quiet end, not an error.
pub fn print(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes to standard output, in colour where that is wanted and there is a terminal.
pub fn print_text(text: &Text, color: bool) -> io::Result<()> {
    let styled = color && io::stdout().is_terminal();
    print(if styled { text.styled.as_bytes() } else { text.plain.as_bytes() })
}

/// Writes to standard error; nobody is left to hear that this failed.
pub fn complain(text: &Text, color: bool) {
    let styled = color && io::stderr().is_terminal();
    let _ = io::stderr().lock().write_all(if styled { text.styled.as_bytes() } else { text.plain.as_bytes() });
}
