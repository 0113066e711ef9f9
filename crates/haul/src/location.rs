//! Addresses: `/path`, `host:path`, `ssh://user@host:port/path`, `s3://bucket/key`, `-`.
//!
//! Bytes, not text: a local name need not be UTF-8. As in scp, a colon before the first slash means a host, but an
//! argument that exists locally is local, so that `wrfout_d01_2024-01-01_00:00:00` is a file.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_core::entry::show;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    Local,
    /// `-`: standard input or output.
    Stdio,
    Ssh,
    Sftp,
    S3,
    Ftp,
    Ftps,
    Gsiftp,
    Sshftp,
}

/// How each scheme is written, and what it means.
pub const SCHEMES: [(Scheme, &str, &str); 9] = [
    (Scheme::Local, "file", "/path, ./path, file:///path: this machine's file systems"),
    (Scheme::Stdio, "-", "-: standard input or output"),
    (Scheme::Ssh, "ssh", "host:path, user@host:path, ssh://user@host:port/path: over ssh"),
    (Scheme::Sftp, "sftp", "sftp://user@host:port/path: over ssh, by plain SFTP only"),
    (Scheme::S3, "s3", "s3://[profile@]bucket/key: object stores"),
    (Scheme::Ftp, "ftp", "ftp://host/path"),
    (Scheme::Ftps, "ftps", "ftps://host/path: FTP in TLS"),
    (Scheme::Gsiftp, "gsiftp", "gsiftp://host:port/path: GridFTP"),
    (Scheme::Sshftp, "sshftp", "sshftp://user@host/path: GridFTP started through ssh"),
];

impl Scheme {
    pub fn word(self) -> &'static str {
        SCHEMES.iter().find(|(scheme, ..)| *scheme == self).map_or("", |(_, word, _)| word)
    }

    /// What stands before `://`, in any case.
    fn of(word: &[u8]) -> Option<Scheme> {
        SCHEMES.iter().find(|(s, name, _)| *s != Scheme::Stdio && word.eq_ignore_ascii_case(name.as_bytes())).map(|(s, ..)| *s)
    }

    /// Whether names come from `%xx` form. An S3 key is written as it is, as all its tools do.
    fn has_escapes(self) -> bool {
        self != Scheme::S3
    }

    /// Whether a path may be relative to the login directory, written `/~/path` in a URL.
    fn has_home(self) -> bool {
        matches!(self, Scheme::Ssh | Scheme::Sftp)
    }
}

/// The schemes that this program can open.
pub fn built() -> &'static [Scheme] {
    &[Scheme::Local, Scheme::Stdio, Scheme::Ssh, Scheme::Sftp, Scheme::S3]
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
    /// Without the slashes at its end, but for `/` itself. For ssh, relative to the login directory unless it begins with a slash;
    /// for S3 the key, from which at most one slash was taken, empty for the bucket itself.
    pub path: Vec<u8>,
    /// Whether the path or the key ended in a slash.
    pub trailing_slash: bool,
}

/// Why an argument is no address, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError {
    /// The argument as it may be shown; empty when it may hold a secret.
    shown: String,
    reason: String,
    next_step: String,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.shown.is_empty() {
            write!(f, "{}: ", self.shown)?;
        }
        write!(f, "{}; {}", self.reason, self.next_step)
    }
}

impl std::error::Error for AddressError {}

impl Location {
    /// Reads an argument. `exists` says whether a local path is there; it is asked only when the argument would otherwise be a host's.
    pub fn parse(argument: &OsStr, exists: &dyn Fn(&Path) -> bool) -> Result<Location, AddressError> {
        let text = argument.as_bytes();
        let fail = |reason: &str, next_step: &str| {
            Err(AddressError { shown: show(text), reason: reason.to_string(), next_step: next_step.to_string() })
        };
        if text.is_empty() {
            return fail("an empty address", "for the current directory write .");
        }
        if text.contains(&0) {
            return fail("a zero byte in an address", "no path can hold one");
        }
        if text == b"-" {
            return Ok(Location { scheme: Scheme::Stdio, user: None, host: None, port: None, path: Vec::new(), trailing_slash: false });
        }
        if let Some((word, rest)) = split_scheme(text) {
            if let Some(scheme) = Scheme::of(word) {
                return parse_url(scheme, rest).map_err(|e| e.about(text));
            }
            // `login.site.org://path` is scp's form with a doubled slash; no scheme has a dot in its name.
            if !word.contains(&b'.') {
                let words: Vec<&str> = built().iter().filter(|s| **s != Scheme::Stdio).map(|s| s.word()).collect();
                let next_step = match word.to_ascii_lowercase().as_slice() {
                    b"scp" | b"rsync" => "write HOST:PATH, or ssh://USER@HOST:PORT/PATH".to_string(),
                    b"http" | b"https" => "for an object store write s3://BUCKET/KEY and --endpoint-url URL".to_string(),
                    _ => format!("there are {}; a host is written HOST:PATH", words.join(", ")),
                };
                return fail("no such scheme", &next_step);
            }
        }
        match split_host(text) {
            Some((None, host, path)) if path.starts_with(b"/") && Scheme::of(host).is_some() && !exists(Path::new(argument)) => {
                let (host, path) = (host.to_ascii_lowercase(), path.trim_ascii_start());
                let (host, path) = (show(&host), show(&path[path.iter().take_while(|b| **b == b'/').count()..]));
                let slashes = if host == "file" { ":///" } else { "://" };
                fail(
                    "a scheme is followed by two slashes",
                    &format!("write {host}{slashes}{path}; for a host named {host} ssh://{host}/{path}"),
                )
            }
            Some((user, host, path)) if !exists(Path::new(argument)) => parse_scp(user, host, path).map_err(|e| e.about(text)),
            _ => Ok(Location::local(text)),
        }
    }

    /// A path of this machine, with the slash at its end noted.
    pub fn local(path: &[u8]) -> Location {
        Location::at(Scheme::Local, None, None, None, path)
    }

    fn at(scheme: Scheme, user: Option<String>, host: Option<String>, port: Option<u16>, path: &[u8]) -> Location {
        let trailing_slash = path.ends_with(b"/");
        let end = match scheme {
            Scheme::S3 => path.len() - usize::from(trailing_slash),
            _ => path.iter().rposition(|b| *b != b'/').map_or(path.len().min(1), |at| at + 1),
        };
        Location { scheme, user, host, port, path: path[..end].to_vec(), trailing_slash }
    }

    /// Whether the contents of a directory are meant rather than the directory: a slash at the end, or,
    /// where there are directories, `.` or `..` or nothing (a host's login directory) as the last part.
    pub fn means_contents(&self) -> bool {
        let last = self.path.rsplit(|b| *b == b'/').next().unwrap_or_default();
        self.trailing_slash || self.path.is_empty() || (self.scheme != Scheme::S3 && matches!(last, b"." | b".."))
    }

    /// Refuses what `built` lacks, and says what there is.
    pub fn require(&self, built: &[Scheme]) -> Result<(), AddressError> {
        if built.contains(&self.scheme) {
            return Ok(());
        }
        let words: Vec<&str> =
            built.iter().filter(|s| **s != Scheme::Stdio).map(|s| if *s == Scheme::Local { "local paths" } else { s.word() }).collect();
        let next_step = match self.scheme {
            Scheme::Stdio => "for a file named - write ./-".to_string(),
            Scheme::Ssh if self.port.is_none() => {
                format!("for a local file with a colon in its name write ./{}", show(&self.scp_form()))
            }
            _ => "see `haul help addresses`".to_string(),
        };
        let what =
            if self.scheme == Scheme::Stdio { "standard input and output are".to_string() } else { format!("{} is", self.scheme.word()) };
        Err(AddressError {
            shown: self.to_string(),
            reason: format!("{what} not built into this version, which has {}", words.join(", ")),
            next_step,
        })
    }

    fn scp_form(&self) -> Vec<u8> {
        let mut text = self.authority().into_bytes();
        text.push(b':');
        text.extend_from_slice(&self.path);
        self.push_slash(&mut text);
        text
    }

    /// `user@host:port`, IPv6 addresses in brackets.
    fn authority(&self) -> String {
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
        if self.trailing_slash && (self.scheme == Scheme::S3 || self.path != b"/") {
            text.push(b'/');
        }
    }

    /// The address as bytes that [`Location::parse`] reads as the same location, given the same local files.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self.scheme {
            Scheme::Stdio => b"-".to_vec(),
            Scheme::Local => {
                let mut text = self.path.clone();
                self.push_slash(&mut text);
                text
            }
            // Two colons in a row are rsync's daemons, so such a path needs the longer form.
            Scheme::Ssh if self.port.is_none() && !self.path.starts_with(b":") && !self.path.starts_with(b"//") => self.scp_form(),
            scheme => {
                let mut text = format!("{}://{}", scheme.word(), self.authority()).into_bytes();
                if scheme == Scheme::S3 {
                    text.push(b'/');
                } else if !self.path.starts_with(b"/") && (scheme.has_home() || !self.path.is_empty()) {
                    text.extend_from_slice(if scheme.has_home() { b"/~/" } else { b"/" });
                }
                let mut path = self.path.clone();
                self.push_slash(&mut path);
                if scheme.has_escapes() {
                    escape(&path, &mut text);
                } else {
                    text.extend_from_slice(&path);
                }
                text
            }
        }
    }
}

/// As it may be shown on a terminal; no credentials are in it.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show(&self.to_bytes()))
    }
}

/// An error that does not know yet which argument it is about.
struct Fault {
    reason: String,
    next_step: String,
    secret: bool,
}

impl Fault {
    fn new(reason: impl Into<String>, next_step: impl Into<String>) -> Self {
        Fault { reason: reason.into(), next_step: next_step.into(), secret: false }
    }

    fn about(self, argument: &[u8]) -> AddressError {
        let shown = if self.secret { String::new() } else { show(argument) };
        AddressError { shown, reason: self.reason, next_step: self.next_step }
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

fn parse_scp(user: Option<&[u8]>, host: &[u8], path: &[u8]) -> Result<Location, Fault> {
    if path.starts_with(b":") {
        return Err(Fault::new("rsync's daemons (HOST::MODULE) are not spoken to", "write HOST:PATH; an IPv6 address goes in brackets"));
    }
    let host = host_text(host)?;
    let user = user.map(user_text).transpose()?;
    Ok(Location::at(Scheme::Ssh, user, Some(host), None, path))
}

fn parse_url(scheme: Scheme, rest: &[u8]) -> Result<Location, Fault> {
    let slash = rest.iter().position(|b| *b == b'/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(slash);
    if scheme == Scheme::Local {
        if !(authority.is_empty() || authority == b"localhost") || path.is_empty() {
            return Err(Fault::new(
                "a file URL names this machine's absolute paths",
                "write file:///PATH, or HOST:PATH for another machine",
            ));
        }
        return Ok(Location::at(scheme, None, None, None, &unescape(path)?));
    }
    let (login, machine) = match authority.iter().rposition(|b| *b == b'@') {
        Some(at) => (Some(&authority[..at]), &authority[at + 1..]),
        None => (None, authority),
    };
    if login.is_some_and(|login| login.contains(&b':') || (scheme == Scheme::S3 && is_access_key(login))) {
        let next_step = match scheme {
            Scheme::S3 => "put the keys into the environment (AWS_ACCESS_KEY_ID ...) or into a profile, and change them if this was logged",
            _ => "leave it out and let haul ask, or use a key or ~/.netrc; change it if this was logged",
        };
        return Err(Fault { secret: true, ..Fault::new(format!("a password or key in the {} address", scheme.word()), next_step) });
    }
    let user = login.map(user_text).transpose().map_err(|fault| match scheme {
        Scheme::S3 => Fault::new("this is no profile's name", "write s3://PROFILE@BUCKET/KEY"),
        _ => fault,
    })?;
    // `s3://` alone is the service with all its buckets.
    if scheme == Scheme::S3 && machine.is_empty() && matches!(path, b"" | b"/") {
        return Ok(Location::at(scheme, user, None, None, b""));
    }
    let (host, port) = split_port(machine)?;
    let host = host_text(host)?;
    if scheme == Scheme::S3 {
        if port.is_some() {
            return Err(Fault::new("a bucket has no port", "name the server with --endpoint-url"));
        }
        return Ok(Location::at(scheme, user, Some(host), None, path.strip_prefix(b"/").unwrap_or(path)));
    }
    let path = unescape(path)?;
    let path = match path.strip_prefix(b"/~") {
        Some(home) if scheme.has_home() && (home.is_empty() || home.starts_with(b"/")) => {
            let start = home.iter().position(|b| *b != b'/').unwrap_or(home.len());
            &home[start..]
        }
        _ => &path,
    };
    Ok(Location::at(scheme, user, Some(host), port, path))
}

/// The form of AWS's access key ids, of keys that stay and of keys for a session.
fn is_access_key(login: &[u8]) -> bool {
    let known = login.starts_with(b"AKIA") || login.starts_with(b"ASIA");
    known && login.len() == 20 && login.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// Splits `host:port` and `[v6]:port`; brackets stay on the host.
fn split_port(machine: &[u8]) -> Result<(&[u8], Option<u16>), Fault> {
    let search_from = machine.iter().rposition(|b| *b == b']').map_or(0, |at| at + 1);
    let Some(colon) = machine[search_from..].iter().position(|b| *b == b':').map(|at| at + search_from) else {
        return Ok((machine, None));
    };
    let digits = &machine[colon + 1..];
    let port = std::str::from_utf8(digits).ok().filter(|d| d.bytes().all(|b| b.is_ascii_digit())).and_then(|d| d.parse::<u16>().ok());
    match port {
        Some(port) if port > 0 => Ok((&machine[..colon], Some(port))),
        _ => Err(Fault::new("the port is no number from 1 to 65535", "write HOST:PORT; an IPv6 address goes in brackets")),
    }
}

/// A host name or address, brackets taken off. What would be an option to ssh, or cannot be a name, is refused.
fn host_text(host: &[u8]) -> Result<String, Fault> {
    let inner = host.strip_prefix(b"[").and_then(|h| h.strip_suffix(b"]"));
    let bracketed = inner.is_some();
    let good = |b: &u8| {
        b.is_ascii_graphic()
            && !matches!(b, b'[' | b']' | b'/' | b'@' | b'\\' | b'"' | b'\'' | b'`' | b'$' | b';' | b'&' | b'|' | b'<' | b'>')
    };
    match std::str::from_utf8(inner.unwrap_or(host)) {
        Ok("") => Err(Fault::new("no host", "write the host's name before the path")),
        Ok(name) if name.starts_with('-') => Err(Fault::new("a host's name cannot begin with -", "for a local file write ./NAME")),
        Ok(name) if name.bytes().all(|b| good(&b)) && (bracketed == name.contains(':')) => Ok(name.to_string()),
        Ok(name) if name.is_ascii() => Err(Fault::new("this is no host's name", "for a local file with a colon in its name write ./NAME")),
        // Names beyond ASCII: the resolver may know them.
        Ok(name)
            if !bracketed && !name.chars().any(|c| c.is_control() || c.is_whitespace()) && name.bytes().all(|b| b >= 0x80 || good(&b)) =>
        {
            Ok(name.to_string())
        }
        _ => Err(Fault::new("this is no host's name", "for a local file with a colon in its name write ./NAME")),
    }
}

fn user_text(user: &[u8]) -> Result<String, Fault> {
    let bad = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '/' | ':' | '[' | ']');
    match std::str::from_utf8(user) {
        Ok(name) if !name.is_empty() && !name.starts_with('-') && !name.contains(bad) => Ok(name.to_string()),
        _ => Err(Fault::new("this is no user's name", "write USER@HOST:PATH; for a local file write ./NAME")),
    }
}

fn unescape(path: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, more)) = rest.split_first() {
        if *first != b'%' {
            out.push(*first);
            rest = more;
            continue;
        }
        let hex = more.get(..2).filter(|h| h.iter().all(u8::is_ascii_hexdigit)).and_then(|h| std::str::from_utf8(h).ok());
        match hex.and_then(|h| u8::from_str_radix(h, 16).ok()) {
            Some(0) => return Err(Fault::new("%00 in an address", "no path can hold a zero byte")),
            Some(byte) => out.push(byte),
            None => return Err(Fault::new("a % without two hexadecimal digits", "in this kind of address write %25 for a percent sign")),
        }
        rest = &more[2..];
    }
    Ok(out)
}

/// Escapes what would not come back or would not be seen: `%`, blanks, control characters, bytes that are not UTF-8.
fn escape(path: &[u8], out: &mut Vec<u8>) {
    for part in path.utf8_chunks() {
        for c in part.valid().chars() {
            let mut buffer = [0u8; 4];
            let text = c.encode_utf8(&mut buffer);
            if c == '%' || c.is_control() || c.is_whitespace() {
                text.bytes().for_each(|b| out.extend_from_slice(format!("%{b:02X}").as_bytes()));
            } else {
                out.extend_from_slice(text.as_bytes());
            }
        }
        part.invalid().iter().for_each(|b| out.extend_from_slice(format!("%{b:02X}").as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Location, AddressError> {
        Location::parse(OsStr::new(text), &|_| false)
    }

    fn parts(text: &str) -> (Scheme, String, String, bool) {
        let l = read(text).expect(text);
        (l.scheme, l.authority(), String::from_utf8_lossy(&l.path).into_owned(), l.trailing_slash)
    }

    #[test]
    fn every_form_is_read() {
        use Scheme as S;
        for (text, scheme, authority, path, slash) in [
            ("/path", S::Local, "", "/path", false),
            ("./path/", S::Local, "", "./path", true),
            ("a/b:c", S::Local, "", "a/b:c", false),
            ("/", S::Local, "", "/", true),
            ("//", S::Local, "", "/", true),
            ("a//", S::Local, "", "a", true),
            (":x", S::Local, "", ":x", false),
            ("user@host", S::Local, "", "user@host", false),
            ("file:///a%20b/", S::Local, "", "/a b", true),
            ("FILE://localhost/x", S::Local, "", "/x", false),
            ("-", S::Stdio, "", "", false),
            ("host:path", S::Ssh, "host", "path", false),
            ("host:", S::Ssh, "host", "", false),
            ("user@host:/p/", S::Ssh, "user@host", "/p", true),
            ("me@corp.org@host:p", S::Ssh, "me@corp.org@host", "p", false),
            ("chrisj@login.hpcx.ac.uk://home/bin2G", S::Ssh, "chrisj@login.hpcx.ac.uk", "//home/bin2G", false),
            ("login.hpcx.ac.uk://home", S::Ssh, "login.hpcx.ac.uk", "//home", false),
            ("host:a:b", S::Ssh, "host", "a:b", false),
            ("[::1]:p", S::Ssh, "[::1]", "p", false),
            ("u@[fe80::1%eth0]:/p", S::Ssh, "u@[fe80::1%eth0]", "/p", false),
            ("ssh://u@host:22/p", S::Ssh, "u@host:22", "/p", false),
            ("ssh://[::1]:22/p", S::Ssh, "[::1]:22", "/p", false),
            ("ssh://host/~/p", S::Ssh, "host", "p", false),
            ("ssh://host", S::Ssh, "host", "", false),
            ("ssh://host/", S::Ssh, "host", "/", true),
            ("sftp://host/a%2525", S::Sftp, "host", "/a%25", false),
            ("s3://", S::S3, "", "", false),
            ("s3:///", S::S3, "", "", false),
            ("s3://bucket/key", S::S3, "bucket", "key", false),
            ("s3://bucket/pre/", S::S3, "bucket", "pre", true),
            ("s3://bucket", S::S3, "bucket", "", false),
            ("s3://bucket/", S::S3, "bucket", "", false),
            ("s3://bucket//", S::S3, "bucket", "", true),
            ("s3://bucket//a//b//", S::S3, "bucket", "/a//b/", true),
            ("s3://bucket/a%20b", S::S3, "bucket", "a%20b", false),
            ("s3://lab@bucket/k/", S::S3, "lab@bucket", "k", true),
            ("s3://lab@", S::S3, "lab@", "", false),
            ("ftp://host/a?b#c", S::Ftp, "host", "/a?b#c", false),
            ("ftps://u@host:990/x", S::Ftps, "u@host:990", "/x", false),
            ("gsiftp://host:2811/x/", S::Gsiftp, "host:2811", "/x", true),
            ("sshftp://u@host/x", S::Sshftp, "u@host", "/x", false),
        ] {
            assert_eq!(parts(text), (scheme, authority.to_string(), path.to_string(), slash), "{text}");
        }
    }

    #[test]
    fn what_exists_locally_is_local() {
        let name = "wrfout_d01_2024-01-01_00:00:00";
        assert_eq!(parts(name).0, Scheme::Ssh);
        let here = Location::parse(OsStr::new(name), &|p| p == Path::new(name)).expect(name);
        assert_eq!((here.scheme, here.path), (Scheme::Local, name.as_bytes().to_vec()));
    }

    #[test]
    fn bad_addresses_say_what_to_write() {
        for (text, part) in [
            ("", "write ."),
            ("gs://bucket/x", "no such scheme"),
            ("host::module", "brackets"),
            ("ssh://host:99999/", "port"),
            ("ssh:///path", "no host"),
            ("ssh://::1/path", "brackets"),
            ("-oProxyCommand=x:y", "./NAME"),
            ("a b:c", "./NAME"),
            ("ssh://-x/y", "begin with -"),
            ("ftp://host/50%", "%25"),
            ("ftp://host/%00", "zero byte"),
            ("file://elsewhere/x", "HOST:PATH"),
            ("s3://b:9000/x", "--endpoint-url"),
            ("s3:///key", "no host"),
            ("s3://@bucket/x", "PROFILE@BUCKET"),
            ("s3://a b@bucket/x", "PROFILE@BUCKET"),
        ] {
            let e = read(text).expect_err(text).to_string();
            assert!(e.contains(part), "{text}: {e}");
        }
    }

    #[test]
    fn passwords_are_refused_and_never_shown() {
        for text in [
            "ftp://me:hunter2@host/x",
            "ssh://me:hunter2@host/x",
            "s3://AKIA:hunter2@bucket/x",
            "s3://AKIAIOSFODNN7EXAMPLE@bucket/x",
            "ftp://me:hun@ter2@host/",
        ] {
            let e = read(text).expect_err(text).to_string();
            assert!(!e.contains("hun") && !e.contains("AKIA") && e.contains("; "), "{e}");
        }
    }

    #[test]
    fn contents_are_meant_by_slashes_and_dots() {
        for (text, expected) in [
            ("a", false),
            ("a/", true),
            (".", true),
            ("..", true),
            ("a/.", true),
            ("a.", false),
            ("h:", true),
            ("s3://b/..", false),
            ("s3://b", true),
            ("/", true),
        ] {
            assert_eq!(read(text).expect(text).means_contents(), expected, "{text}");
        }
    }

    #[test]
    fn a_scheme_that_is_not_built_names_those_that_are() {
        let e = read("host:a:b").expect("an address").require(&[Scheme::Local]).expect_err("not built").to_string();
        assert_eq!(
            e,
            "host:a:b: ssh is not built into this version, which has local paths; for a local file with a colon in its name write ./host:a:b"
        );
        let e = read("s3://b/k").expect("an address").require(&[Scheme::Local, Scheme::Ssh]).expect_err("not built").to_string();
        assert!(e.contains("s3 is not built into this version, which has local paths, ssh"), "{e}");
        assert!(read("-").expect("an address").require(&[Scheme::Local]).is_err());
        assert!(read("-").expect("an address").require(built()).is_ok());
        assert!(read("x").expect("an address").require(built()).is_ok());
    }

    #[test]
    fn what_is_shown_cannot_write_to_the_terminal() {
        let l = Location::parse(OsStr::from_bytes(b"a\x1b[2J\xff"), &|_| false).expect("an address");
        assert_eq!(l.to_string(), "a\\x1b[2J\\xff");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn addresses_round_trip_and_never_panic(
            bytes in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..24),
                "(ssh|sftp|s3|ftp|file|gsiftp)://(u@)?(h|\\[::1\\]|b)(:[0-9]{1,5})?(/[a~:%./ 2Fé-]{0,10})?".prop_map(String::into_bytes),
                "(u@)?(h|\\[::1\\]|\\[)(:|/)[a~:%./ 2Fé@-]{0,10}".prop_map(String::into_bytes),
            ],
            there in any::<bool>(),
        ) {
            let exists = |_: &Path| there;
            if let Ok(location) = Location::parse(OsStr::from_bytes(&bytes), &exists) {
                let again = Location::parse(OsStr::from_bytes(&location.to_bytes()), &exists);
                // A host's path that would be local if it were there is not asked about twice in different forms.
                if !(there && location.scheme == Scheme::Ssh) {
                    prop_assert_eq!(again, Ok(location.clone()));
                }
                let _ = (location.to_string(), location.means_contents(), location.require(built()));
            }
        }
    }
}
