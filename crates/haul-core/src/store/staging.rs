//! Staging files: where they are, and that nothing else is taken for one.

use std::hash::{BuildHasher as _, RandomState};

use crate::entry::Stamp;
use crate::hash::{Algorithm, hex};

const PREFIX: &[u8] = b".haul-";
const DIGITS: usize = 32;
/// Bytes of a leaf on nearly all file systems.
const NAME_MAX: usize = 255;

/// The name under which `leaf` is written until it is whole: beside it, the same on every node, another for
/// every version of the source. The hash is one in which nobody can make two names collide.
pub fn staging_leaf(leaf: &[u8], stamp: Stamp) -> Vec<u8> {
    let mut hasher = Algorithm::Blake3.begin();
    hasher.update(&stamp.size.to_le_bytes());
    hasher.update(&stamp.mtime.secs.to_le_bytes());
    hasher.update(&stamp.mtime.nanos.to_le_bytes());
    hasher.update(&stamp.version.to_le_bytes());
    hasher.update(leaf);
    let mut name = PREFIX.to_vec();
    name.extend_from_slice(hex(&hasher.finish()[..DIGITS / 2]).as_bytes());
    name
}

/// Staging names of one opening of a store where only its name tells a staging file from another of the same name: there is neither an
/// inode nor a time of birth to be asked for. No other run makes, takes up or removes a file under them, but one that has their token.
#[derive(Debug)]
pub struct OwnNames(u64);

impl Default for OwnNames {
    fn default() -> OwnNames {
        OwnNames(RandomState::new().hash_one(std::process::id()))
    }
}

impl OwnNames {
    pub fn leaf(&self, leaf: &[u8], stamp: Stamp) -> Vec<u8> {
        staging_leaf(leaf, Stamp { version: stamp.version ^ self.0, ..stamp })
    }
}

/// The path of an old file while the new one gets its name, at a server that does not replace: another one each time, since what has
/// it after a kill may be the only copy. A leaf that would become too long is cut.
pub fn aside(path: &[u8]) -> Vec<u8> {
    let suffix = format!(".haul-old-{:08x}", RandomState::new().hash_one(path) as u32);
    let leaf = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let mut end = path.len().min(leaf + NAME_MAX - suffix.len());
    // Not within a character.
    while end < path.len() && path[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    [&path[..end], suffix.as_bytes()].concat()
}

/// Whether a leaf has the form of a staging name: `.haul-` and 32 lower-case hexadecimal digits.
pub fn is_staging(leaf: &[u8]) -> bool {
    leaf.strip_prefix(PREFIX).is_some_and(|rest| rest.len() == DIGITS && rest.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
}

/// Which names of a directory a listing gives.
#[derive(Clone, Copy)]
pub enum Shown {
    /// All but staging files.
    Names,
    /// Staging files only.
    Unfinished,
}

impl Shown {
    pub fn admits(self, leaf: &[u8]) -> bool {
        is_staging(leaf) == matches!(self, Shown::Unfinished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_opening_of_a_store_has_names_of_its_own() {
        let (one, other) = (OwnNames::default(), OwnNames::default());
        assert_eq!(one.leaf(b"a", Stamp::default()), one.leaf(b"a", Stamp::default()));
        assert_ne!(one.leaf(b"a", Stamp::default()), other.leaf(b"a", Stamp::default()));
        assert!(is_staging(&one.leaf(b"a", Stamp::default())));
    }

    #[test]
    fn an_old_file_is_put_aside_under_a_name_that_is_no_longer_than_names_are() {
        for (leaf, kept) in [("f".to_string(), 1), ("é".repeat(127), 236), ("x".repeat(255), 237)] {
            let path = aside(format!("a/{leaf}").as_bytes());
            let name = std::str::from_utf8(&path[2..]).expect("no half characters");
            assert!(name.starts_with(&leaf[..kept]) && name[kept..].starts_with(".haul-old-") && name.len() == kept + 18, "{name}");
        }
    }

    #[test]
    fn a_staging_name_is_known_as_one_and_differs_with_the_stamp() {
        let one = staging_leaf(&[b'x'; 255], Stamp::default());
        let other = staging_leaf(&[b'x'; 255], Stamp { size: 1, ..Stamp::default() });
        assert!(is_staging(&one) && is_staging(&other) && one != other);
        assert_eq!(one.len(), 38);
        for no in [&b".haul-"[..], b".haul-xyz", b".haul-0123456789abcdef0123456789ABCDEF", b"a.haul-0123456789abcdef0123456789abcdef"] {
            assert!(!is_staging(no));
        }
    }
}
