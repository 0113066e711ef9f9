//! Schemes: how the addresses of a backend are written. Each backend has a [`Syntax`] in its folder.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use super::address::Location;
use super::url::Fault;

/// How the addresses of one scheme are written.
pub struct Syntax {
    /// In front of `://`, in lower case.
    pub word: &'static str,
    /// For `haul help addresses`: the forms, and what they name.
    pub help: &'static str,
    /// `host:path` without a word is of this scheme too.
    pub short: bool,
    /// Names come from `%xx` form; else the path is taken as it is written.
    pub escapes: bool,
    /// A path may be relative to the login directory, written `/~/path` in a URL.
    pub home: bool,
    /// What is in it are objects of a bucket: the path is a key, in which slashes and dots mean nothing.
    pub keys: bool,
    /// Reads what follows `://`.
    pub parse: fn(Scheme, &[u8]) -> Result<Location, Fault>,
}

/// A scheme, which is equal to those with the same word.
#[derive(Clone, Copy)]
pub struct Scheme(pub &'static Syntax);

impl Scheme {
    pub const LOCAL: Scheme = Scheme(&Syntax {
        word: "file",
        help: "/path, ./path, file:///path: local files",
        short: false,
        escapes: true,
        home: false,
        keys: false,
        parse: super::url::parse_file,
    });

    /// `-`.
    pub const STDIO: Scheme = Scheme(&Syntax {
        word: "-",
        help: "-: standard input or output",
        short: false,
        escapes: false,
        home: false,
        keys: false,
        parse: |_, _| Err(Fault::new("standard input and output are written as -", "for a file of this name write ./-")),
    });
}

impl Deref for Scheme {
    type Target = Syntax;

    fn deref(&self) -> &Syntax {
        self.0
    }
}

impl PartialEq for Scheme {
    fn eq(&self, other: &Scheme) -> bool {
        self.word == other.word
    }
}

impl Eq for Scheme {}

impl Hash for Scheme {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.word.hash(state);
    }
}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)
    }
}
