//! One error type. Its origin sets kind and remedy; only `retry` reads the remedy, and only `exit.rs` of the program maps kinds to
//! exit codes.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::entry::{Name, show};
use crate::hint::Hint;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The class of a failure: what a caller, an exit code or a message may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The thing named is not there.
    NotFound,
    /// A source entry that was listed is gone: rsync's "vanished", exit code 24. Made only by [`Error::of_source`]: a store does
    /// not know its role.
    Vanished,
    /// Something stands where the call needed nothing to stand.
    Exists,
    /// No permission.
    Denied,
    /// The disk is full.
    NoSpace,
    /// A quota is used up.
    Quota,
    /// A limit of this process or its user is reached, or a file is too large for where it goes.
    Limit,
    /// The destination takes no writes at all.
    ReadOnly,
    /// The source is no longer what it was listed as.
    Changed,
    /// What was read back is not what was written.
    Corrupt,
    /// The store cannot do this; `Caps` says so beforehand.
    Unsupported,
    /// The run was told to stop.
    Cancelled,
    /// Another run holds what this one needs.
    Busy,
    /// A wait reached its bound.
    TimedOut,
    /// The connection or the device behind a store is gone.
    Broken,
    /// A name that cannot be made at the destination, or that would leave it.
    BadName,
    /// The request makes no sense: a directory into itself, a file over a directory.
    Usage,
    /// Reading or writing failed below us (EIO and its kin).
    Io,
    /// Anything else.
    Other,
}

impl ErrorKind {
    /// Fatal errors: the engine drains, keeps the journal and reports one message.
    pub fn ends_the_run(self) -> bool {
        matches!(self, Self::NoSpace | Self::Quota | Self::ReadOnly | Self::Cancelled | Self::Broken)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "not found",
            Self::Vanished => "vanished after it was listed",
            Self::Exists => "already exists",
            Self::Denied => "permission denied",
            Self::NoSpace => "no space left",
            Self::Quota => "quota exceeded",
            Self::Limit => "limit reached",
            Self::ReadOnly => "read-only file system",
            Self::Changed => "changed while it was read",
            Self::Corrupt => "content differs from the data sent",
            Self::Unsupported => "not supported here",
            Self::Cancelled => "stopped",
            Self::Busy => "in use by another run",
            Self::TimedOut => "timed out",
            Self::Broken => "connection lost",
            Self::BadName => "name not possible here",
            Self::Usage => "cannot be done",
            Self::Io => "input/output error",
            Self::Other => "failed",
        })
    }
}

/// What the caller may do about an error. Decided where the error is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Remedy {
    None,
    /// The same call may work at once.
    Again,
    /// The same call may work after this long.
    After(Duration),
    /// The same call may work at once if it is given a name; what is open has to be opened anew.
    Reopen,
    Reconnect,
}

/// A failure of one operation on one name.
///
/// `Display` gives `path: operation: reason`, with the system's own words where there are any, and a
/// next step behind a semicolon where one is known.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    remedy: Remedy,
    op: &'static str,
    path: Option<Box<[u8]>>,
    detail: Option<String>,
    hint: Option<String>,
    code: Option<Hint>,
    source: Option<io::Error>,
    tries: u32,
    exhausted: bool,
    written: u64,
    advanced: bool,
}

impl Error {
    pub fn new(kind: ErrorKind, op: &'static str) -> Self {
        let inner = Inner {
            kind,
            remedy: Remedy::None,
            op,
            path: None,
            detail: None,
            hint: None,
            code: None,
            source: None,
            tries: 1,
            exhausted: false,
            written: 0,
            advanced: false,
        };
        Error(Box::new(inner))
    }

    /// Classifies a system error by its errno.
    pub fn io(error: io::Error, op: &'static str) -> Self {
        let (kind, remedy) = classify(&error);
        let mut made = Self::new(kind, op);
        made.0.remedy = remedy;
        made.0.hint = match error.raw_os_error() {
            Some(libc::EFBIG) => Some(crate::limits::file_too_large()),
            Some(libc::EMFILE) => Some(crate::limits::too_few_descriptors()),
            _ => None,
        };
        made.0.source = Some(error);
        made
    }

    /// Names what failed, unless a name is there already: the innermost knows best.
    pub fn on(mut self, name: &Name) -> Self {
        if self.0.path.is_none() {
            self.0.path = Some(name.path().into());
        }
        self
    }

    /// Names what the user knows in place of what was worked on: the file, not its staging file.
    pub fn renamed(mut self, name: &Name) -> Self {
        self.0.path = Some(name.path().into());
        self
    }

    pub fn at(mut self, path: &[u8]) -> Self {
        if self.0.path.as_deref().is_none_or(<[u8]>::is_empty) {
            self.0.path = Some(path.into());
        }
        self
    }

    /// The reason in words, in place of the kind's own.
    pub fn because(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// What the user can do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self.0.code = None;
        self
    }

    /// The same where it takes an option of the program, which has the words for it.
    pub fn advise(mut self, code: Hint) -> Self {
        self.0.hint = Some(code.to_string());
        self.0.code = Some(code);
        self
    }

    pub fn remedy_is(mut self, remedy: Remedy) -> Self {
        self.0.remedy = remedy;
        self
    }

    /// How often it was tried by who gives this error on, the first time included.
    pub fn tried(mut self, tries: u32) -> Self {
        self.0.tries = tries.max(1);
        self
    }

    /// The bound of tries is reached, after `tries` of them and this time since the first failed: nobody is to try again.
    pub fn exhausted(mut self, tries: u32, since: Duration) -> Self {
        if tries > 1 {
            let reason = self.reason();
            let words = if tries == 2 { "twice".to_string() } else { format!("{tries} times") };
            self.0.detail = Some(format!("{reason} (tried {words} in {:.1} s)", since.as_secs_f64()));
        }
        (self.0.tries, self.0.exhausted, self.0.remedy) = (tries.max(1), true, Remedy::None);
        self
    }

    /// Of a range that was to be written, how many of its first bytes are in the destination in spite of the failure.
    pub fn wrote(mut self, bytes: u64) -> Self {
        self.0.written = bytes;
        self
    }

    /// See [`Error::wrote`]; 0 where it is not known.
    pub fn written(&self) -> u64 {
        self.0.written
    }

    /// Whether part of the operation was completed before the failure and is not repeated: tries are counted anew from here.
    pub fn advanced(mut self, advanced: bool) -> Self {
        self.0.advanced = advanced;
        self
    }

    /// See [`Error::advanced`].
    pub fn has_advanced(&self) -> bool {
        self.0.advanced
    }

    pub fn tries(&self) -> u32 {
        self.0.tries
    }

    pub fn is_exhausted(&self) -> bool {
        self.0.exhausted
    }

    pub fn kind_is(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Says that the source gave this error: a name that was listed there and is not found any more has vanished.
    pub fn of_source(self) -> Self {
        if self.kind() == ErrorKind::NotFound { self.kind_is(ErrorKind::Vanished) } else { self }
    }

    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    pub fn remedy(&self) -> Remedy {
        self.0.remedy
    }

    pub fn op(&self) -> &'static str {
        self.0.op
    }

    /// The name that failed, relative to the root of its store or absolute, as raw bytes.
    pub fn path(&self) -> Option<&[u8]> {
        self.0.path.as_deref()
    }

    pub fn next_step(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// What [`Error::next_step`] says less exactly.
    pub fn code(&self) -> Option<&Hint> {
        self.0.code.as_ref()
    }

    /// The reason without path, operation and next step.
    pub fn reason(&self) -> String {
        match (&self.0.detail, &self.0.source) {
            (Some(detail), _) => detail.clone(),
            (None, Some(source)) => system_words(source),
            (None, None) => self.0.kind.to_string(),
        }
    }

    /// The same failure for another name: a directory that could not be made fails all that is in it.
    pub fn again(&self) -> Error {
        let mut copy = Error::new(self.0.kind, self.0.op).because(self.reason());
        copy.0.remedy = self.0.remedy;
        copy.0.path = self.0.path.clone();
        (copy.0.hint, copy.0.code) = (self.0.hint.clone(), self.0.code.clone());
        (copy.0.tries, copy.0.exhausted) = (self.0.tries, self.0.exhausted);
        copy
    }
}

/// "No space left on device", without Rust's "(os error 28)".
fn system_words(error: &io::Error) -> String {
    let words = error.to_string();
    match words.find(" (os error") {
        Some(end) => words[..end].to_string(),
        None => words,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.0.path {
            write!(f, "{}: ", show(path))?;
        }
        write!(f, "{}: {}", self.0.op, self.reason())?;
        if let Some(hint) = &self.0.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|e| e as _)
    }
}

/// An `Error` on its way through `std::io::Read` and back.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::other(error)
    }
}

impl Error {
    /// Unwraps an `Error` that travelled inside an `io::Error`, or classifies the system's own.
    pub fn from_io(error: io::Error, op: &'static str) -> Self {
        if error.get_ref().is_some_and(|inner| inner.is::<Error>()) {
            let inner = error.into_inner().expect("checked above");
            return *inner.downcast::<Error>().expect("checked above");
        }
        Self::io(error, op)
    }
}

/// errno(3) to kind and remedy. ESTALE is worth one more try: on NFS the next lookup finds the new handle.
fn classify(error: &io::Error) -> (ErrorKind, Remedy) {
    use ErrorKind as K;
    match error.raw_os_error() {
        Some(libc::ENOENT) => (K::NotFound, Remedy::None),
        Some(libc::EEXIST | libc::ENOTEMPTY) => (K::Exists, Remedy::None),
        Some(libc::EACCES | libc::EPERM) => (K::Denied, Remedy::None),
        Some(libc::ENOSPC) => (K::NoSpace, Remedy::None),
        Some(libc::EDQUOT) => (K::Quota, Remedy::None),
        Some(libc::EFBIG) => (K::Limit, Remedy::None),
        Some(libc::EROFS) => (K::ReadOnly, Remedy::None),
        Some(libc::EOPNOTSUPP | libc::ENOSYS) => (K::Unsupported, Remedy::None),
        Some(libc::EBUSY | libc::ETXTBSY) => (K::Busy, Remedy::None),
        Some(libc::ETIMEDOUT) => (K::TimedOut, Remedy::After(Duration::from_secs(1))),
        Some(libc::ENOTCONN | libc::ECONNRESET | libc::EPIPE | libc::ESHUTDOWN) => (K::Broken, Remedy::Reconnect),
        Some(libc::ENAMETOOLONG | libc::EILSEQ) => (K::BadName, Remedy::None),
        Some(libc::EIO) => (K::Io, Remedy::None),
        Some(libc::ESTALE) => (K::Io, Remedy::Reopen),
        Some(libc::EAGAIN | libc::EINTR) => (K::Io, Remedy::Again),
        Some(libc::EMFILE) => (K::Limit, Remedy::None),
        Some(libc::ENFILE | libc::ENOMEM) => (K::Other, Remedy::After(Duration::from_millis(100))),
        _ => match error.kind() {
            io::ErrorKind::NotFound => (K::NotFound, Remedy::None),
            io::ErrorKind::UnexpectedEof => (K::Changed, Remedy::None),
            _ => (K::Other, Remedy::None),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_path_operation_reason_and_next_step() {
        let e = Error::io(io::Error::from_raw_os_error(libc::ENOSPC), "write").at(b"a/b\n").hint("free 3 GiB and run again");
        assert_eq!(e.to_string(), "a/b\\n: write: No space left on device; free 3 GiB and run again");
        assert_eq!(e.kind(), ErrorKind::NoSpace);
    }

    #[test]
    fn an_error_survives_the_way_through_io() {
        let e: io::Error = Error::new(ErrorKind::Cancelled, "read").into();
        assert_eq!(Error::from_io(e, "write").kind(), ErrorKind::Cancelled);
    }
}
