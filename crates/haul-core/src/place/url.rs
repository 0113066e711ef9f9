//! The usual form of a URL: `scheme://user@host:port/path`.

use super::address::{Location, Scheme};
use super::text::unescape;
pub use super::text::{Fault, host_text, split_authority, split_port, split_user, user_text};

/// A word of a command line without the password of an address in it: such words are shown and recorded.
pub fn without_password(word: &[u8]) -> Vec<u8> {
    let Some(start) = word.windows(3).position(|part| part == b"://").map(|at| at + 3) else { return word.to_vec() };
    let authority = split_authority(&word[start..]).0;
    let Some(at) = authority.iter().rposition(|byte| *byte == b'@') else { return word.to_vec() };
    match authority[..at].iter().position(|byte| *byte == b':') {
        Some(colon) => [&word[..start + colon], &word[start + at..]].concat(),
        None => word.to_vec(),
    }
}

/// `user@host:port/path`, with `/~/` for the login directory and `%xx` where the scheme has them.
///
/// # Errors
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

#[cfg(test)]
mod tests {
    use super::without_password;

    #[test]
    fn passwords_leave_words() {
        for (word, expected) in [
            ("ftp://me:secret@host/a", "ftp://me@host/a"),
            ("--option=ftp://me:s@cret@host:21/a:b@c", "--option=ftp://me@host:21/a:b@c"),
            ("ftp://me@host:21/a:b@c", "ftp://me@host:21/a:b@c"),
            ("ftp://host:21/", "ftp://host:21/"),
            ("a:b@c", "a:b@c"),
            ("://", "://"),
        ] {
            assert_eq!(String::from_utf8_lossy(&without_password(word.as_bytes())), expected);
        }
    }
}
