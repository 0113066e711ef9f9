//! Tokens of unfinished writes: which staging file, by name, inode and birth time.

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Token;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, StatxFlags};

use haul_core::store::staging::is_staging;

/// The token of a write into the existing file; no staging name has this form.
pub(super) const IN_PLACE: &[u8] = b"in-place";

/// Identity of a staging file: inode, and birth time where the file system has it (else zeros), since inodes are reused.
pub(super) type Birth = (u64, i64, u32);

pub(super) fn birth(fd: &OwnedFd) -> rustix::io::Result<Birth> {
    birth_and_size(fd, b"").map(|(birth, _)| birth)
}

/// Of one component below `dir`; an empty leaf is `dir` itself.
pub(super) fn birth_and_size(dir: impl AsFd, leaf: &[u8]) -> rustix::io::Result<(Birth, u64)> {
    let flags = if leaf.is_empty() { AtFlags::EMPTY_PATH } else { AtFlags::SYMLINK_NOFOLLOW };
    let st = rustix::fs::statx(dir, leaf, flags, StatxFlags::INO | StatxFlags::BTIME | StatxFlags::SIZE)?;
    let known = st.stx_mask & StatxFlags::BTIME.bits() != 0;
    let birth = if known { (st.stx_ino, st.stx_btime.tv_sec, st.stx_btime.tv_nsec) } else { (st.stx_ino, 0, 0) };
    Ok((birth, st.stx_size))
}

/// A birth time counts where both have one: not every client of a file system knows it.
pub(super) fn is_same(one: Birth, other: Birth) -> bool {
    let unknown = |birth: Birth| (birth.1, birth.2) == (0, 0);
    one.0 == other.0 && (unknown(one) || unknown(other) || one == other)
}

/// The staging file of a token.
pub(super) struct Staging {
    pub leaf: Vec<u8>,
    pub born: Option<Birth>,
}

/// `.haul-<digits>@<inode>.<seconds>.<nanoseconds>`
pub(super) fn token_of(staging: &[u8], (ino, seconds, nanos): Birth) -> Token {
    let mut token = staging.to_vec();
    token.extend_from_slice(format!("@{ino}.{seconds}.{nanos}").as_bytes());
    Token(token.into())
}

/// The leaf of the unfinished file that a token names, beside the final name; `None` for a write in place and
/// for what is no token of a local store.
pub fn unfinished_leaf(token: &Token) -> Option<&[u8]> {
    token.0.split(|byte| *byte == b'@').next().filter(|leaf| is_staging(leaf))
}

/// `None` for a write in place. Tokens come from journals and from other hosts.
pub(super) fn staging_of(token: &Token) -> Result<Option<Staging>> {
    if &*token.0 == IN_PLACE {
        return Ok(None);
    }
    let cut = token.0.iter().position(|byte| *byte == b'@').unwrap_or(token.0.len());
    let (leaf, rest) = token.0.split_at(cut);
    if !is_staging(leaf) {
        return Err(Error::new(ErrorKind::BadName, "attach").because("the token is not the name of a staging file"));
    }
    let words = std::str::from_utf8(rest).unwrap_or_default();
    let mut parts = words.trim_start_matches('@').split('.');
    let mut part = || parts.next().unwrap_or_default();
    let born = match (part().parse(), part().parse(), part().parse()) {
        (Ok(ino), Ok(seconds), Ok(nanos)) => Some((ino, seconds, nanos)),
        _ => None,
    };
    Ok(Some(Staging { leaf: leaf.to_vec(), born }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_file_and_which_one_it_is() {
        let leaf = b".haul-0123456789abcdef0123456789abcdef";
        for born in [(7, 1_700_000_000, 999_999_999), (u64::MAX, -1, 0), (7, 0, 0)] {
            let staging = staging_of(&token_of(leaf, born)).expect("it is a token").expect("it is no write in place");
            assert_eq!((&staging.leaf[..], staging.born), (&leaf[..], Some(born)));
        }
        let torn = staging_of(&Token(leaf[..].into())).expect("a name").expect("it is no write in place");
        assert_eq!(torn.born, None);
        assert!(staging_of(&Token(b".haul-0123/../x@1.2.3"[..].into())).is_err());
    }

    #[test]
    fn an_inode_that_is_used_again_is_another_file() {
        assert!(is_same((7, 5, 5), (7, 5, 5)) && is_same((7, 0, 0), (7, 5, 5)));
        assert!(!is_same((7, 5, 5), (7, 5, 6)) && !is_same((7, 5, 5), (8, 5, 5)) && !is_same((7, 0, 0), (8, 0, 0)));
    }
}
