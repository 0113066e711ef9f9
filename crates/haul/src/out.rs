//! Standard output and standard error for text that is no run's output: help, pages, completions, usage errors.

use std::borrow::Cow;
use std::io::{self, ErrorKind, IsTerminal};
use std::sync::{Arc, OnceLock};

use haul_core::entry::{Kind, show_text};
use haul_core::job::Mode;

use std::sync::atomic::{AtomicBool, Ordering};

use crate::exit::Exit;
use crate::flags::Text;
use crate::rank_lines::{self, Lines, Stream};
use crate::render;
use crate::render::json::{Failed, Record};

/// Where the output of this process goes if it is a rank: set once, before anything is done.
static LINES: OnceLock<Arc<Lines>> = OnceLock::new();

pub fn through(lines: Arc<Lines>) {
    let _ = LINES.set(lines); // a process is a rank of one job
}

/// Writes whole lines.
pub fn write(stream: Stream, bytes: &[u8]) -> io::Result<()> {
    match LINES.get() {
        Some(lines) => lines.write(stream, bytes),
        None => rank_lines::print(stream, bytes),
    }
}

/// On standard error; nobody is left to hear that this failed.
fn tell(line: &str) {
    let _ = write(Stream::Err, format!("{line}\n").as_bytes());
}

/// Writes to standard output. A reader that has gone (`haul help | head -1`) is a quiet end, not an error.
pub fn print(bytes: &[u8]) -> io::Result<()> {
    match write(Stream::Out, bytes) {
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
    // It may quote the command line. Escape sequences of its own make the styled form no text to clean.
    let clean = show_text(&text.plain);
    let styled = color && io::stderr().is_terminal() && matches!(clean, Cow::Borrowed(_));
    let _ = write(Stream::Err, if styled { text.styled.as_bytes() } else { clean.as_bytes() });
}

/// An error that ended a command, and its exit code.
pub fn error(error: &haul_core::Error) -> Exit {
    error_in(error, Mode::Copy)
}

/// Errors that end a command are printed on standard output as JSON, too: set once, before anything is done.
static JSON: AtomicBool = AtomicBool::new(false);

pub fn errors_as_json() {
    JSON.store(true, Ordering::Relaxed);
}

/// An event `error` on standard output, with `--json` only.
pub fn record(error: &haul_core::Error) {
    if JSON.load(Ordering::Relaxed) {
        let line = render::json::line(&Record::Error(Failed::of(error, Kind::Unknown)), &render::Clock::system().utc());
        let _ = print(format!("{line}\n").as_bytes());
    }
}

pub fn error_in(error: &haul_core::Error, mode: Mode) -> Exit {
    record(error);
    tell(&format!("haul: {}", describe(error)));
    Exit::of_error(error, mode)
}

/// An error that the command's own document on standard output has, and its exit code.
pub fn error_of_document(error: &haul_core::Error) -> Exit {
    failure(error);
    Exit::of_error(error, Mode::Copy)
}

/// One failure among others.
pub fn failure(error: &haul_core::Error) {
    tell(&format!("haul: {}", describe(error)));
}

/// A line for people that is no error.
pub fn say(line: &str) {
    tell(&format!("haul: {}", show_text(line)));
}

/// The same for a list, without the program's name.
pub fn say_plainly(line: &str) {
    tell(&show_text(line));
}

fn describe(error: &haul_core::Error) -> String {
    let path =
        error.path().map_or(String::new(), |path| format!("{}: ", if path.is_empty() { ".".into() } else { haul_core::entry::show(path) }));
    let next = crate::hints::next_step(error).map_or(String::new(), |next| format!("\n  try: {next}"));
    show_text(&format!("{path}{}: {}{next}", error.op(), error.reason())).into_owned()
}

/// A command that goes through several arguments: the first code that is no success, if any. "Nothing was done" holds only where
/// every argument was refused.
pub fn of_arguments(exits: &[Exit]) -> Exit {
    let first = exits.iter().copied().find(|exit| *exit != Exit::Success).unwrap_or(Exit::Success);
    if first == Exit::Usage && exits.iter().any(|exit| *exit != Exit::Usage) { Exit::Partial } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_argument_among_others_is_a_partial_failure() {
        use Exit::{Connection, Partial, Success, Usage};
        for (exits, end) in [
            (vec![], Success),
            (vec![Success, Success], Success),
            (vec![Usage], Usage),
            (vec![Usage, Usage], Usage),
            (vec![Success, Usage], Partial),
            (vec![Usage, Success], Partial),
            (vec![Usage, Partial], Partial),
            (vec![Success, Connection, Usage], Connection),
        ] {
            assert_eq!(of_arguments(&exits), end, "{exits:?}");
        }
    }
}
