//! The pieces of an address as text, and what is wrong with one.

use std::fmt;

use crate::entry::show;

/// Why an argument is no address, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError {
    /// The argument as it may be shown; empty when it may hold a secret.
    shown: String,
    reason: String,
    next_step: String,
}

impl AddressError {
    pub(super) fn new(shown: String, reason: String, next_step: String) -> Self {
        AddressError { shown, reason, next_step }
    }
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

/// An error that does not know yet which argument it is about.
#[derive(Debug)]
pub struct Fault {
    reason: String,
    next_step: String,
    /// The argument may hold a password and must not be shown.
    secret: bool,
}

impl Fault {
    pub fn new(reason: impl Into<String>, next_step: impl Into<String>) -> Self {
        Fault { reason: reason.into(), next_step: next_step.into(), secret: false }
    }

    /// The argument may hold a secret: it is not shown.
    #[must_use]
    pub fn hidden(self) -> Self {
        Fault { secret: true, ..self }
    }

    pub fn is_hidden(&self) -> bool {
        self.secret
    }

    /// The error of an argument, which is shown unless it may hold a secret.
    pub(super) fn about(self, argument: &[u8]) -> AddressError {
        let shown = if self.secret { String::new() } else { show(argument) };
        AddressError::new(shown, self.reason, self.next_step)
    }
}

/// The user in front of the `@`, if there is one, and the rest. `advice` is what to do in place of a password, which is refused.
///
/// # Errors
/// A password, or what can be no user's name.
pub fn split_user<'a>(scheme: &str, authority: &'a [u8], advice: &str) -> Result<(Option<String>, &'a [u8]), Fault> {
    let Some(at) = authority.iter().rposition(|byte| *byte == b'@') else { return Ok((None, authority)) };
    let (login, machine) = (&authority[..at], &authority[at + 1..]);
    if login.contains(&b':') {
        return Err(Fault::new(format!("a password or key in the {scheme} address"), advice).hidden());
    }
    Ok((Some(user_text(login)?), machine))
}

/// What stands between `://` and the next slash, and the rest from that slash on.
pub fn split_authority(rest: &[u8]) -> (&[u8], &[u8]) {
    rest.split_at(rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len()))
}

/// Splits `host:port` and `[v6]:port`; brackets stay on the host.
pub fn split_port(machine: &[u8]) -> Result<(&[u8], Option<u16>), Fault> {
    let search_from = machine.iter().rposition(|b| *b == b']').map_or(0, |at| at + 1);
    let Some(colon) = machine[search_from..].iter().position(|b| *b == b':').map(|at| at + search_from) else {
        return Ok((machine, None));
    };
    let digits = &machine[colon + 1..];
    let port = std::str::from_utf8(digits).ok().filter(|d| d.bytes().all(|b| b.is_ascii_digit())).and_then(|d| d.parse::<u16>().ok());
    match port {
        Some(port) if port > 0 => Ok((&machine[..colon], Some(port))),
        _ => Err(Fault::new("the port must be a number from 1 to 65535", "write HOST:PORT; an IPv6 address goes in brackets")),
    }
}

/// A host name or address, brackets taken off. What would be an option to ssh, or cannot be a name, is refused.
pub fn host_text(host: &[u8]) -> Result<String, Fault> {
    let inner = host.strip_prefix(b"[").and_then(|h| h.strip_suffix(b"]"));
    let bracketed = inner.is_some();
    let good = |b: &u8| {
        b.is_ascii_graphic()
            && !matches!(b, b'[' | b']' | b'/' | b'@' | b'\\' | b'"' | b'\'' | b'`' | b'$' | b';' | b'&' | b'|' | b'<' | b'>')
    };
    match std::str::from_utf8(inner.unwrap_or(host)) {
        Ok("") => Err(Fault::new("no host", "write the host name before the path")),
        Ok(name) if name.starts_with('-') => Err(Fault::new("a host's name cannot begin with -", "for a local file write ./NAME")),
        Ok(name) if name.bytes().all(|b| good(&b)) && (bracketed == name.contains(':')) => Ok(name.to_string()),
        Ok(name) if name.is_ascii() => Err(Fault::new("not a valid host name", "for a local file with a colon in its name write ./NAME")),
        // Names beyond ASCII: the resolver may know them.
        Ok(name)
            if !bracketed && !name.chars().any(|c| c.is_control() || c.is_whitespace()) && name.bytes().all(|b| b >= 0x80 || good(&b)) =>
        {
            Ok(name.to_string())
        }
        _ => Err(Fault::new("not a valid host name", "for a local file with a colon in its name write ./NAME")),
    }
}

pub fn user_text(user: &[u8]) -> Result<String, Fault> {
    let bad = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '/' | ':' | '[' | ']');
    match std::str::from_utf8(user) {
        Ok(name) if !name.is_empty() && !name.starts_with('-') && !name.contains(bad) => Ok(name.to_string()),
        _ => Err(Fault::new("not a valid user name", "write USER@HOST:PATH; for a local file write ./NAME")),
    }
}

pub(super) fn unescape(path: &[u8]) -> Result<Vec<u8>, Fault> {
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
pub(super) fn escape(path: &[u8], out: &mut Vec<u8>) {
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
