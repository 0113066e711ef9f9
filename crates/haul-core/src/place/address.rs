//! Addresses: `/path`, `host:path`, `ssh://user@host:port/path`, `s3://bucket/key`, `-`.
//!
//! Bytes, not text: a local name need not be UTF-8. As in scp, a colon before the first slash means a host, but an
//! argument that exists locally is local, so that `wrfout_d01_2024-01-01_00:00:00` is a file.

use std::ffi::OsStr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::text::{self, AddressError, Fault, host_text, user_text};
use crate::entry::show;

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
        parse: parse_file,
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

/// A parsed address. Holds no credentials: a password in an address is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    pub scheme: Scheme,
    /// For S3, the profile that says server and keys.
    pub user: Option<String>,
    /// Without brackets; the bucket for S3, and none for all of them.
    pub host: Option<String>,
    pub port: Option<u16>,
    /// Without slashes at its end, but for `/` itself. For ssh, relative to the login directory unless it begins with a slash; for
    /// S3 the key, empty for the bucket.
    pub path: Vec<u8>,
    /// Whether the path or the key ended in a slash.
    pub trailing_slash: bool,
}

impl Location {
    /// Reads an argument, an address of one of `schemes`. `exists` says whether a local path is there; it is asked only when the
    /// argument would otherwise be a host's.
    ///
    /// # Errors
    /// What is no address, and what holds a password.
    pub fn parse(argument: &OsStr, schemes: &[Scheme], exists: &dyn Fn(&Path) -> bool) -> Result<Location, AddressError> {
        let text = argument.as_bytes();
        let of = |word: &[u8]| schemes.iter().find(|scheme| word.eq_ignore_ascii_case(scheme.word.as_bytes())).copied();
        let fail = |reason: &str, next_step: &str| Err(AddressError::new(show(text), reason.into(), next_step.into()));
        if text.is_empty() {
            return fail("an empty address", "for the current directory write .");
        }
        if text.contains(&0) {
            return fail("a zero byte in an address", "no path can hold one");
        }
        if text == b"-" {
            return Ok(Location::at(Scheme::STDIO, None, None, None, b""));
        }
        if let Some((word, rest)) = split_scheme(text) {
            if let Some(scheme) = of(word) {
                return (scheme.parse)(scheme, rest).map_err(|e| e.about(text));
            }
            // `login.site.org://path` is scp's form with a doubled slash; no scheme has a dot in its name.
            if !word.contains(&b'.') {
                let words: Vec<&str> = schemes.iter().map(|scheme| scheme.word).collect();
                let next_step = match word.to_ascii_lowercase().as_slice() {
                    b"scp" | b"rsync" => "write HOST:PATH, or ssh://USER@HOST:PORT/PATH".to_string(),
                    _ => format!("there are {}; a host is written HOST:PATH", words.join(", ")),
                };
                let fault = Fault::new("no such scheme", next_step);
                let secret = text::split_authority(rest).0.rsplitn(2, |byte| *byte == b'@').nth(1).is_some_and(|user| user.contains(&b':'));
                return Err(if secret { fault.hidden() } else { fault }.about(text));
            }
        }
        match split_host(text) {
            Some((None, host, path)) if path.starts_with(b"/") && of(host).is_some() && !exists(Path::new(argument)) => {
                let (host, path) = (host.to_ascii_lowercase(), path.trim_ascii_start());
                let (host, path) = (show(&host), show(&path[path.iter().take_while(|b| **b == b'/').count()..]));
                let slashes = if host == "file" { ":///" } else { "://" };
                fail(
                    "a scheme is followed by two slashes",
                    &format!("write {host}{slashes}{path}; for a host named {host} ssh://{host}/{path}"),
                )
            }
            Some((user, host, path)) if !exists(Path::new(argument)) => match schemes.iter().find(|scheme| scheme.short) {
                Some(scheme) => parse_short(*scheme, user, host, path).map_err(|e| e.about(text)),
                None => {
                    let next_step = format!("for a local file with a colon in its name write ./{}", show(text));
                    fail("this build has no remote hosts", &next_step)
                }
            },
            _ => Ok(Location::local(text)),
        }
    }

    /// A path of this machine, with the slash at its end noted.
    pub fn local(path: &[u8]) -> Location {
        Location::at(Scheme::LOCAL, None, None, None, path)
    }

    /// Of the parts of an address: the slash at the end of the path is noted.
    pub fn at(scheme: Scheme, user: Option<String>, host: Option<String>, port: Option<u16>, path: &[u8]) -> Location {
        let trailing_slash = path.ends_with(b"/");
        let end = match scheme.keys {
            true => path.len() - usize::from(trailing_slash),
            false => path.iter().rposition(|b| *b != b'/').map_or(path.len().min(1), |at| at + 1),
        };
        Location { scheme, user, host, port, path: path[..end].to_vec(), trailing_slash }
    }

    /// Whether it names something that is not on this machine's file systems, nor standard input or output.
    pub fn is_remote(&self) -> bool {
        self.scheme != Scheme::LOCAL && self.scheme != Scheme::STDIO
    }

    /// Whether the contents of a directory are meant: a slash at the end, or, where there are directories, `.`, `..` or nothing (a
    /// host's login directory) as the last component.
    pub fn means_contents(&self) -> bool {
        let last = self.path.rsplit(|b| *b == b'/').next().unwrap_or_default();
        self.trailing_slash || self.path.is_empty() || (!self.scheme.keys && matches!(last, b"." | b".."))
    }

    /// `user@host:port`, IPv6 addresses in brackets.
    pub fn authority(&self) -> String {
        let mut text = String::new();
        if let Some(user) = &self.user {
            text.push_str(user);
            text.push('@');
        }
        match &self.host {
            Some(host) if host.contains(':') => text.push_str(&format!("[{host}]")),
            Some(host) => text.push_str(host),
            None => {}
        }
        if let Some(port) = self.port {
            text.push_str(&format!(":{port}"));
        }
        text
    }

    fn push_slash(&self, text: &mut Vec<u8>) {
        if self.trailing_slash && (self.scheme.keys || self.path != b"/") {
            text.push(b'/');
        }
    }

    /// The address as bytes that [`Location::parse`] reads as the same location, given the same local files.
    pub fn to_bytes(&self) -> Vec<u8> {
        if self.scheme == Scheme::STDIO {
            return if self.path.is_empty() { b"-".to_vec() } else { self.path.clone() };
        }
        let mut path = self.path.clone();
        self.push_slash(&mut path);
        // Two colons in a row are rsync's daemons, so such a path needs the longer form.
        let is_short = self.scheme.short && self.port.is_none() && !self.path.starts_with(b":") && !self.path.starts_with(b"//");
        if self.scheme == Scheme::LOCAL {
            return path;
        }
        if is_short {
            return [self.authority().as_bytes(), b":", &path].concat();
        }
        let mut text = format!("{}://{}", self.scheme.word, self.authority()).into_bytes();
        if self.scheme.keys {
            text.push(b'/');
        } else if !self.path.starts_with(b"/") && (self.scheme.home || !self.path.is_empty()) {
            text.extend_from_slice(if self.scheme.home { b"/~/" } else { b"/" });
        }
        if self.scheme.escapes {
            text::escape(&path, &mut text);
        } else {
            text.extend_from_slice(&path);
        }
        text
    }
}

/// As it may be shown on a terminal; no credentials are in it.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show(&self.to_bytes()))
    }
}

/// `scheme` and what follows `://`.
fn split_scheme(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.windows(3).position(|w| w == b"://")?;
    let word = &text[..at];
    let good = word.first().is_some_and(u8::is_ascii_alphabetic)
        && word.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    good.then_some((word, &text[at + 3..]))
}

/// scp's rule: a colon before the first slash. Returns user, host and path, brackets still on.
#[expect(clippy::type_complexity, reason = "three parts of one split, used once")]
fn split_host(text: &[u8]) -> Option<(Option<&[u8]>, &[u8], &[u8])> {
    let head = text.split(|b| *b == b'/').next().unwrap_or_default();
    // In brackets there may be colons, and a zone with an @ is not a user.
    let open = head.iter().position(|b| *b == b'[').filter(|at| *at == 0 || head[*at - 1] == b'@');
    let colon = match open {
        Some(open) => {
            let close = open + head[open..].iter().position(|b| *b == b']')?;
            if head.get(close + 1) != Some(&b':') {
                return None;
            }
            close + 1
        }
        None => head.iter().position(|b| *b == b':')?,
    };
    let (login, path) = (&text[..colon], &text[colon + 1..]);
    let (user, host) = match login.iter().rposition(|b| *b == b'@') {
        Some(at) if open.is_none_or(|open| at < open) => (Some(&login[..at]), &login[at + 1..]),
        _ => (None, login),
    };
    (!host.is_empty()).then_some((user, host, path))
}

fn parse_short(scheme: Scheme, user: Option<&[u8]>, host: &[u8], path: &[u8]) -> Result<Location, Fault> {
    if path.starts_with(b":") {
        return Err(Fault::new("rsync daemons (HOST::MODULE) are not supported", "write HOST:PATH; an IPv6 address goes in brackets"));
    }
    let host = host_text(host)?;
    let user = user.map(user_text).transpose()?;
    Ok(Location::at(scheme, user, Some(host), None, path))
}

/// `file:///path`.
fn parse_file(scheme: Scheme, rest: &[u8]) -> Result<Location, Fault> {
    let (authority, path) = text::split_authority(rest);
    if !(authority.is_empty() || authority == b"localhost") || path.is_empty() {
        return Err(Fault::new("a file URL needs an absolute local path", "write file:///PATH, or HOST:PATH for another machine"));
    }
    Ok(Location::at(scheme, None, None, None, &text::unescape(path)?))
}
