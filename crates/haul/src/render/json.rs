//! `--json`: one event a line. These structs are the schema; `docs/json.md` describes it, and a test holds
//! the two together. Every key is always there, `null` where there is nothing to say. Keys may be added,
//! none is renamed or taken away within one `version`.

mod checked;
mod finished;
mod progress;

use std::borrow::Cow;
use std::time::Duration;

use haul_core::entry::{Entry, Kind, MetaMask, show};
use haul_core::error::{Error, ErrorKind};
use haul_core::event::{Action, Warning, Why};
use haul_core::retry::Again;
use serde::Serialize;

use crate::hints;

pub use checked::{Checked, Checks};
pub use finished::Finished;
pub use progress::Moment;

/// Goes up when a key changes its meaning.
pub const VERSION: u32 = 1;

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Record<'a> {
    Started {
        version: u32,
        plan: &'a str,
        dry: bool,
        job: Option<&'a str>,
        sources: &'a [String],
        destination: Option<&'a str>,
    },
    /// A command that could not begin, or that ended without a report.
    Error(Failed),
    Item(Item),
    Failed(Failed),
    Retried(Retried),
    Refused(Refused),
    Warned(Warned),
    Tuned {
        workers: u32,
    },
    Progress(Moment),
    Finished(Box<Finished>),
    Checked(Checked<'a>),
}

/// A path: text with what is no UTF-8 replaced, and then all bytes in hexadecimal as well.
#[derive(Serialize)]
pub struct Path {
    path: String,
    path_hex: Option<String>,
}

impl Path {
    pub(super) fn of(path: &[u8]) -> Self {
        let (path, path_hex) = text(path);
        Path { path: path.into_owned(), path_hex }
    }
}

/// Bytes as text, what is no UTF-8 replaced, and then all of them in hexadecimal as well.
pub fn text(bytes: &[u8]) -> (Cow<'_, str>, Option<String>) {
    let hex = std::str::from_utf8(bytes).is_err().then(|| haul_core::hash::hex(bytes));
    (String::from_utf8_lossy(bytes), hex)
}

#[derive(Serialize)]
pub struct Item {
    action: &'static str,
    why: &'static str,
    #[serde(flatten)]
    path: Path,
    kind: &'static str,
    size: Option<u64>,
    target: Option<String>,
    options: Vec<&'static str>,
    dry: bool,
}

impl Item {
    pub fn of(action: Action, why: Why, entry: &Entry, dry: bool) -> Self {
        Item {
            action: action.word(),
            why: why.word(),
            path: Path::of(&entry.name.path()),
            kind: kind_word(entry.kind),
            size: (entry.kind == Kind::File).then_some(entry.size),
            target: entry.target.as_ref().map(|target| String::from_utf8_lossy(target).into_owned()),
            options: why.options().words(),
            dry,
        }
    }

    /// Of a file that is known by a list.
    pub fn listed(action: Action, why: Why, path: &[u8], size: Option<u64>) -> Self {
        let kind = kind_word(Kind::File);
        Item { action: action.word(), why: why.word(), path: Path::of(path), kind, size, target: None, options: Vec::new(), dry: false }
    }
}

pub(super) fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Char => "character-device",
        Kind::Block => "block-device",
        Kind::File | Kind::Dir | Kind::Link | Kind::Fifo | Kind::Socket | Kind::Unknown => kind.word(),
    }
}

#[derive(Serialize)]
pub struct Failed {
    #[serde(flatten)]
    path: Path,
    kind: &'static str,
    operation: &'static str,
    error: &'static str,
    reason: String,
    next_step: Option<String>,
}

impl Failed {
    pub fn of(error: &Error, kind: Kind) -> Self {
        Failed {
            path: Path::of(error.path().unwrap_or_default()),
            kind: kind_word(kind),
            operation: error.op(),
            error: error_word(error.kind()),
            reason: error.reason(),
            next_step: hints::next_step(error),
        }
    }
}

#[derive(Serialize)]
pub struct Retried {
    #[serde(flatten)]
    path: Path,
    operation: &'static str,
    error: &'static str,
    reason: String,
    attempt: u32,
    attempts: u32,
    wait_seconds: f64,
}

impl Retried {
    pub fn of(error: &Error, again: Again) -> Self {
        Retried {
            path: Path::of(error.path().unwrap_or_default()),
            operation: error.op(),
            error: error_word(error.kind()),
            reason: error.reason(),
            attempt: again.attempt,
            attempts: again.of,
            wait_seconds: again.wait.as_secs_f64(),
        }
    }
}

pub fn error_word(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "not-found",
        ErrorKind::Vanished => "vanished",
        ErrorKind::Exists => "exists",
        ErrorKind::Denied => "denied",
        ErrorKind::NoSpace => "no-space",
        ErrorKind::Quota => "quota",
        ErrorKind::Limit => "limit",
        ErrorKind::ReadOnly => "read-only",
        ErrorKind::Changed => "changed",
        ErrorKind::Corrupt => "corrupt",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::Cancelled => "cancelled",
        ErrorKind::Busy => "busy",
        ErrorKind::TimedOut => "timed-out",
        ErrorKind::Broken => "broken",
        ErrorKind::BadName => "bad-name",
        ErrorKind::Usage => "usage",
        ErrorKind::Io => "io",
        _ => "other",
    }
}

#[derive(Serialize)]
pub struct Refused {
    #[serde(flatten)]
    path: Path,
    attributes: Vec<&'static str>,
}

impl Refused {
    pub fn of(entry: &Entry, refused: MetaMask) -> Self {
        Refused { path: Path::of(&entry.name.path()), attributes: refused.words() }
    }
}

#[derive(Serialize)]
pub struct Warned {
    warning: &'static str,
    message: String,
    needed: Option<u64>,
    free: Option<u64>,
    seconds: Option<u64>,
}

impl Warned {
    pub fn of(warning: &Warning) -> Self {
        let (needed, free) = match warning {
            Warning::SpaceShort { needed, free } | Warning::InodesShort { needed, free } => (Some(*needed), Some(*free)),
            _ => (None, None),
        };
        let seconds = match warning {
            Warning::Stalled { seconds, .. } => Some(*seconds),
            _ => None,
        };
        Warned { warning: warning.word(), message: super::lines::warning(warning), needed, free, seconds }
    }
}

fn seconds(d: Duration) -> f64 {
    (d.as_secs_f64() * 1e3).round() / 1e3
}

/// No more digits than mean something; what is no number is 0, for JSON has no other.
fn tenths(n: f64) -> f64 {
    if n.is_finite() { (n * 10.0).round() / 10.0 } else { 0.0 }
}

/// One line without its end. `time` is RFC 3339 in UTC.
pub fn line(record: &Record<'_>, time: &str) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        time: &'a str,
        #[serde(flatten)]
        record: &'a Record<'a>,
    }
    let line = serde_json::to_string(&Line { time, record }).expect("strings and numbers under string keys are always JSON");
    harmless(line)
}

/// JSON leaves control characters above 0x7e and those that reorder text as they are; as an escape they
/// cannot write to a terminal either. They can only stand within strings.
pub fn harmless(line: String) -> String {
    let hostile =
        |c: char| !c.is_ascii_graphic() && c != ' ' && (c.is_control() || show(c.encode_utf8(&mut [0; 4]).as_bytes()).starts_with('\\'));
    if line.is_ascii() && !line.contains('\x7f') || !line.chars().any(hostile) {
        return line;
    }
    let mut out = String::with_capacity(line.len() + 16);
    for c in line.chars() {
        match hostile(c) {
            true => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
            false => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests;
