//! Names of a store as paths on the server.

use haul_core::entry::{Dir, Name, check_leaf};
use haul_core::error::{Error, ErrorKind, Result};

/// Bytes of a name. No server says how many it takes; file systems do not take more.
pub const NAME_MOST: usize = 255;

/// Why a name is refused that is not plain.
pub const LOSES: &str = "the server drops all but printable ASCII from names in clear text (gsiftp:// can transmit them)";

/// `directory/name`, where the root of everything is empty.
pub fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if directory.ends_with(b"/") || name.is_empty() { b"" } else { b"/" };
    [directory, slash, name].concat()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    Any,
    Text,
    Plain,
}

pub fn is_plain(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b' '..=b'~'))
}

/// A leaf that can be sent, and that leads nowhere else.
pub fn checked<'a>(name: &'a Name, names: Names, op: &'static str) -> Result<&'a [u8]> {
    let bad = |reason: &str| Err(Error::new(ErrorKind::BadName, op).on(name).because(reason.to_string()));
    match check_leaf(&name.leaf) {
        Err(reason) => bad(reason),
        Ok(()) if name.leaf.len() > NAME_MOST => bad("the name has more than 255 bytes"),
        Ok(()) if name.leaf.iter().any(|byte| matches!(byte, b'\r' | b'\n')) => bad("FTP cannot transmit a name with a line break"),
        Ok(()) if names == Names::Plain && !is_plain(&name.leaf) => bad(LOSES),
        Ok(()) if names == Names::Text && std::str::from_utf8(&name.leaf).is_err() => bad("the name is not UTF-8, as the server requires"),
        Ok(()) => Ok(&name.leaf),
    }
}

/// The path of a directory, each part of it checked.
pub fn dir(root: &[u8], dir: &Dir, names: Names, op: &'static str) -> Result<Vec<u8>> {
    let mut at = Some(dir);
    while let Some(part) = at.filter(|part| !part.is_root()) {
        checked(&Name::of(part), names, op)?;
        at = part.parent();
    }
    let path = join(root, &dir.path());
    Ok(if path.is_empty() { b"/".to_vec() } else { path })
}

/// The path of a name; of the directory itself if the leaf is empty.
pub fn path(root: &[u8], name: &Name, names: Names, op: &'static str) -> Result<Vec<u8>> {
    let above = dir(root, &name.dir, names, op)?;
    if name.leaf.is_empty() { Ok(above) } else { Ok(join(&above, checked(name, names, op)?)) }
}
