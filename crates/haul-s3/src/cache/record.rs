//! What is remembered of an object, and its bytes.
//!
//! ```text
//! details = kind and XATTRS | size | not before | not after | mtime | have | mode | uid | gid | names of both | rdev | target, of a link
//! ```
//! Numbers are of variable length, seconds relative to `EPOCH`.

use std::sync::Arc;

use haul_core::entry::{Kind, MetaMask, OwnerNames, Time};
use haul_core::hash::xxh128;
use haul_core::varint::{self, put, take};

/// Longest key in bytes: the protocol's own bound.
pub const KEY_MOST: usize = 1024;

/// Longest target of a symlink in bytes, as Linux bounds it.
const TARGET_MOST: usize = 4096;

/// Most bytes of a record's details: a byte, fifteen numbers, two names and a target.
pub const DETAILS_MOST: usize = 1 + 15 * varint::MOST + 2 * OWNER_MOST + TARGET_MOST;

/// Longest name of an owner.
const OWNER_MOST: usize = 256;

/// Bytes of a hashed ETag.
pub const HASH: usize = 16;

/// 2023-11-14: near it times are short.
const EPOCH: i64 = 1_700_000_000;

/// Windows wider than this many seconds are narrowed to the first time that was seen in them: an upload in parts may
/// carry the time at which it began, hours ago. For less it is not worth writing the record again.
const WIDE: i64 = 5;

const KIND: u8 = 7;
const XATTRS: u8 = 1 << 3;

const KINDS: [Kind; 8] = [Kind::File, Kind::Dir, Kind::Link, Kind::Fifo, Kind::Socket, Kind::Char, Kind::Block, Kind::Unknown];

/// What the listing does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub kind: Kind,
    /// Which of the attributes below are true.
    pub have: MetaMask,
    pub mtime: Time,
    /// `st_mode & 0o7777`.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub owners: Option<Arc<OwnerNames>>,
    /// As in `Entry`.
    pub rdev: u64,
    /// Whether there are extended attributes; they are not kept here.
    pub xattrs: bool,
    /// Where a symlink points.
    pub target: Option<Box<[u8]>>,
}

/// The server's time of an object, `LastModified`, as a listing has it: between these two, both included. They differ where the
/// server has not reported it yet, after an upload of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modified {
    pub not_before: Time,
    pub not_after: Time,
}

impl Modified {
    pub fn at(time: Time) -> Modified {
        Modified { not_before: time, not_after: time }
    }

    /// From a header, which has no fraction of a second where a listing of the same server may have one.
    pub fn of_header(secs: i64) -> Modified {
        Modified { not_before: Time { secs, nanos: 0 }, not_after: Time { secs, nanos: 999_999_999 } }
    }

    pub fn allows(self, listed: Time) -> bool {
        self.not_before <= listed && listed <= self.not_after
    }

    pub fn is_wide(self) -> bool {
        self.not_after.secs.saturating_sub(self.not_before.secs) > WIDE
    }
}

/// One object and what is known of it.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    /// 1 to `KEY_MOST` bytes.
    pub key: &'a [u8],
    /// As the server gives it; quotes round it do not count.
    pub etag: &'a [u8],
    /// Bytes.
    pub size: u64,
    pub modified: Modified,
    pub known: Known,
}

pub fn hash_of(etag: &[u8]) -> [u8; HASH] {
    let bare = etag.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(etag);
    xxh128(bare).to_le_bytes()
}

/// The details of a record as bytes; `None` for what cannot be kept.
pub fn encode(size: u64, modified: Modified, known: &Known) -> Option<Vec<u8>> {
    let target = known.target.as_deref().unwrap_or_default();
    let none = Box::default();
    let owners = known.owners.as_ref().map_or([&none, &none], |names| [&names.user, &names.group]);
    if target.len() > TARGET_MOST || owners.iter().any(|name| name.len() > OWNER_MOST) {
        return None;
    }
    let kind = KINDS.iter().position(|kind| *kind == known.kind)?;
    let mut out = vec![kind as u8 | if known.xattrs { XATTRS } else { 0 }];
    put(&mut out, size);
    for time in [modified.not_before, modified.not_after, known.mtime] {
        put_time(&mut out, time);
    }
    for number in [known.have.0.into(), known.mode, known.uid, known.gid] {
        put(&mut out, number.into());
    }
    for name in owners {
        put_bytes(&mut out, name);
    }
    put(&mut out, known.rdev);
    if known.kind == Kind::Link {
        put_bytes(&mut out, target);
    }
    Some(out)
}

pub fn decode(details: &[u8]) -> Option<(u64, Modified, Known)> {
    let (&flags, mut rest) = details.split_first()?;
    let from = &mut rest;
    let size = take(from)?;
    let modified = Modified { not_before: take_time(from)?, not_after: take_time(from)? };
    let kind = KINDS[usize::from(flags & KIND)];
    let known = Known {
        kind,
        mtime: take_time(from)?,
        have: MetaMask(take(from)?.try_into().ok()?),
        mode: take(from)?.try_into().ok()?,
        uid: take(from)?.try_into().ok()?,
        gid: take(from)?.try_into().ok()?,
        owners: OwnerNames::of(take_bytes(from)?.into(), take_bytes(from)?.into()),
        rdev: take(from)?,
        xattrs: flags & XATTRS != 0,
        target: if kind == Kind::Link { Some(take_bytes(from)?.into()) } else { None },
    };
    rest.is_empty().then_some((size, modified, known))
}

/// Bytes with their number before them.
pub fn take_bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take(from)?).ok()?;
    let (bytes, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(bytes)
}

pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_time(out: &mut Vec<u8>, time: Time) {
    let away = time.secs.wrapping_sub(EPOCH);
    // The sign goes to the lowest bit, so that small negative numbers are short too.
    put(out, ((away << 1) ^ (away >> 63)) as u64);
    put(out, time.nanos.into());
}

fn take_time(from: &mut &[u8]) -> Option<Time> {
    let folded = take(from)?;
    let away = (folded >> 1) as i64 ^ -((folded & 1) as i64);
    let nanos = take(from)?.try_into().ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Time { secs: EPOCH.wrapping_add(away), nanos })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time() -> impl Strategy<Value = Time> {
        let secs = prop_oneof![any::<i64>(), EPOCH - 1000..EPOCH + 1000, Just(i64::MIN), Just(i64::MAX)];
        (secs, 0..1_000_000_000u32).prop_map(|(secs, nanos)| Time { secs, nanos })
    }

    prop_compose! {
        fn known()(
            kind in 0..8usize, have: u16, mtime in time(), mode: u32, uid: u32, gid: u32,
            rdev in prop_oneof![Just(0), any::<u64>()], xattrs: bool,
            target in proptest::collection::vec(any::<u8>(), 0..60),
            user in "[a-z]{0,9}", group in "[a-z]{0,300}",
        ) -> Known {
            let owners = OwnerNames::of(user.into_bytes().into(), group.into_bytes()[..].iter().copied().take(OWNER_MOST).collect());
            let (have, kind) = (MetaMask(have), KINDS[kind]);
            let target = (kind == Kind::Link).then(|| target.into());
            Known { kind, have, mtime, mode, uid, gid, owners, rdev, xattrs, target }
        }
    }

    proptest! {
        #[test]
        fn details_round_trip(size: u64, not_before in time(), not_after in time(), known in known()) {
            let modified = Modified { not_before, not_after };
            let bytes = encode(size, modified, &known).unwrap();
            prop_assert!(bytes.len() <= DETAILS_MOST);
            prop_assert_eq!(decode(&bytes), Some((size, modified, known)));
            for end in 0..bytes.len() {
                prop_assert_eq!(decode(&bytes[..end]), None);
            }
        }

        #[test]
        fn any_bytes_are_details_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn a_target_that_no_system_has_is_not_kept() {
        let target = |length| {
            let target = Some(vec![b'x'; length].into());
            let known = Known {
                kind: Kind::Link,
                have: MetaMask(u16::MAX),
                mtime: Time { secs: i64::MIN, nanos: 999_999_999 },
                mode: u32::MAX,
                uid: u32::MAX,
                gid: u32::MAX,
                owners: None,
                rdev: u64::MAX,
                xattrs: true,
                target,
            };
            encode(u64::MAX, Modified::at(known.mtime), &known)
        };
        assert!(target(TARGET_MOST).unwrap().len() <= DETAILS_MOST);
        assert!(target(TARGET_MOST + 1).is_none());
    }

    #[test]
    fn quotes_do_not_make_another_version() {
        assert_eq!(hash_of(b"\"abc\""), hash_of(b"abc"));
        assert_ne!(hash_of(b"\"abc"), hash_of(b"abc"));
        assert_ne!(hash_of(b"W/\"abc\""), hash_of(b"abc"));
    }
}
