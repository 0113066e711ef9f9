//! The usual form of a URL: `scheme://user@host:port/path`.

use super::address::{Location, Scheme};
use super::text::unescape;
pub use super::text::{Fault, host_text, split_authority, split_port, split_user, user_text};

/// `user@host:port/path`, with `/~/` for the login directory and `%xx` where the scheme has them.
///
/// # Errors
///
/// A password, no host, or what can be no host, user, port or path.
pub fn parse(scheme: Scheme, rest: &[u8]) -> Result<Location, Fault> {
    let (authority, path) = split_authority(rest);
    let advice = "omit it and let haul ask, or use a key or ~/.netrc; change it if this was logged";
    let (user, machine) = split_user(scheme.word, authority, advice)?;
    let (host, port) = split_port(machine)?;
    let host = host_text(host)?;
    let path = if scheme.escapes { unescape(path)? } else { path.to_vec() };
    let path = match path.strip_prefix(b"/~") {
        Some(home) if scheme.home && (home.is_empty() || home.starts_with(b"/")) => {
            let start = home.iter().position(|b| *b != b'/').unwrap_or(home.len());
            &home[start..]
        }
        _ => &path,
    };
    Ok(Location::at(scheme, user, Some(host), port, path))
}
