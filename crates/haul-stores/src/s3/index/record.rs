//! What is remembered of an object, and its bytes.
//!
//! ```text
//! details = flags | size | modified | [end of the window] | mtime | have | mode | uid | gid | [names of both] | [rdev] | [target]
//! flags   = kind, in the lower three bits, and the bits below
//! ```
//! Numbers are of variable length, seconds relative to `EPOCH`.

use std::sync::Arc;

use haul_core::entry::{Kind, MetaMask, OwnerNames, Time};
use haul_core::hash::xxh128;
use haul_core::varint::{self, put, take};

/// Longest key in bytes: the protocol's own bound.
pub const KEY_MOST: usize = 1024;

/// Longest target of a symlink in bytes, as Linux bounds it.
pub const TARGET_MOST: usize = 4096;

/// Most bytes of a record's details: flags, fourteen numbers, two names and a target.
pub(super) const DETAILS_MOST: usize = 1 + 14 * varint::MOST + 2 * OWNER_MOST + TARGET_MOST;

/// Longest name of an owner.
const OWNER_MOST: usize = 256;

/// Bytes of a hashed ETag.
pub(super) const HASH: usize = 16;

/// 2023-11-14: near it times are short.
const EPOCH: i64 = 1_700_000_000;

/// Windows wider than this many seconds are narrowed to the first time that was seen in them: an upload in parts may
/// carry the time at which it began, hours ago. For less it is not worth writing the record again.
const WIDE: i64 = 5;

const KIND: u8 = 7;
const WINDOW: u8 = 1 << 3;
const XATTRS: u8 = 1 << 4;
const TARGET: u8 = 1 << 5;
const DEVICE: u8 = 1 << 6;
const OWNERS: u8 = 1 << 7;

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

/// The server's time of an object: `LastModified`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modified {
    /// As a listing says it.
    At(Time),
    /// Not told yet, after an upload of our own: the listing's time is between these two, both included.
    Within { not_before: Time, not_after: Time },
}

impl Modified {
    /// From a header, which has no fraction of a second where a listing of the same server may have one.
    pub fn of_header(secs: i64) -> Modified {
        Modified::Within { not_before: Time { secs, nanos: 0 }, not_after: Time { secs, nanos: 999_999_999 } }
    }

    fn allows(self, listed: Time) -> bool {
        match self {
            Modified::At(time) => time == listed,
            Modified::Within { not_before, not_after } => not_before <= listed && listed <= not_after,
        }
    }

    fn is_wide(self) -> bool {
        match self {
            Modified::At(_) => false,
            Modified::Within { not_before, not_after } => not_after.secs.saturating_sub(not_before.secs) > WIDE,
        }
    }
}

/// Something learned of one object.
#[derive(Clone, Debug)]
pub struct Learned<'a> {
    /// 1 to `KEY_MOST` bytes.
    pub key: &'a [u8],
    /// As the server gives it; quotes round it do not count.
    pub etag: &'a [u8],
    /// Bytes.
    pub size: u64,
    pub modified: Modified,
    pub known: Known,
}

/// What identifies a version of an object, as a listing gives it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    pub hash: [u8; HASH],
    pub size: u64,
    pub modified: Time,
}

impl Version {
    pub fn new(etag: &[u8], size: u64, modified: Time) -> Version {
        Version { hash: hash_of(etag), size, modified }
    }
}

pub(super) fn hash_of(etag: &[u8]) -> [u8; HASH] {
    let bare = etag.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(etag);
    xxh128(bare).to_le_bytes()
}

/// The details of a record as bytes; `None` for what cannot be kept.
pub(super) fn encode(size: u64, modified: Modified, known: &Known) -> Option<Vec<u8>> {
    let target = known.target.as_deref();
    if target.is_some_and(|target| target.len() > TARGET_MOST) {
        return None;
    }
    if known.owners.as_ref().is_some_and(|names| names.user.len().max(names.group.len()) > OWNER_MOST) {
        return None;
    }
    let (from, to) = match modified {
        Modified::At(time) => (time, None),
        Modified::Within { not_before, not_after } => (not_before, Some(not_after)),
    };
    let kind = KINDS.iter().position(|kind| *kind == known.kind)?;
    let flag = |condition: bool, bit: u8| if condition { bit } else { 0 };
    let mut out = Vec::with_capacity(48 + target.map_or(0, <[u8]>::len));
    out.push(
        kind as u8
            | flag(to.is_some(), WINDOW)
            | flag(known.xattrs, XATTRS)
            | flag(target.is_some(), TARGET)
            | flag(known.rdev != 0, DEVICE)
            | flag(known.owners.is_some(), OWNERS),
    );
    put(&mut out, size);
    put_time(&mut out, from);
    if let Some(to) = to {
        put_time(&mut out, to);
    }
    put_time(&mut out, known.mtime);
    put(&mut out, known.have.0.into());
    put(&mut out, known.mode.into());
    put(&mut out, known.uid.into());
    put(&mut out, known.gid.into());
    for name in known.owners.iter().flat_map(|names| [&names.user, &names.group]) {
        put(&mut out, name.len() as u64);
        out.extend_from_slice(name);
    }
    if known.rdev != 0 {
        put(&mut out, known.rdev);
    }
    if let Some(target) = target {
        put(&mut out, target.len() as u64);
        out.extend_from_slice(target);
    }
    Some(out)
}

/// What a record says if it is of the version asked for.
#[derive(Debug)]
pub(super) struct Match {
    pub known: Known,
    /// Whether the record should be written again with the time that was now seen.
    pub narrow: bool,
}

/// `None` if the record is of another version or is damaged.
pub(super) fn matching(hash: &[u8], details: &[u8], version: &Version) -> Option<Match> {
    if hash != version.hash {
        return None;
    }
    let (size, modified, known) = decode(details)?;
    let same = size == version.size && modified.allows(version.modified);
    same.then(|| Match { known, narrow: modified.is_wide() })
}

pub(super) fn decode(details: &[u8]) -> Option<(u64, Modified, Known)> {
    let (&flags, mut rest) = details.split_first()?;
    let from = &mut rest;
    let size = take(from)?;
    let start = take_time(from)?;
    let modified = match flags & WINDOW {
        0 => Modified::At(start),
        _ => Modified::Within { not_before: start, not_after: take_time(from)? },
    };
    let known = Known {
        kind: KINDS[usize::from(flags & KIND)],
        mtime: take_time(from)?,
        have: MetaMask(take(from)?.try_into().ok()?),
        mode: take(from)?.try_into().ok()?,
        uid: take(from)?.try_into().ok()?,
        gid: take(from)?.try_into().ok()?,
        owners: if flags & OWNERS == 0 { None } else { OwnerNames::of(take_bytes(from)?.into(), take_bytes(from)?.into()) },
        rdev: if flags & DEVICE == 0 { 0 } else { take(from)? },
        xattrs: flags & XATTRS != 0,
        target: if flags & TARGET == 0 { None } else { Some(take_bytes(from)?.into()) },
    };
    rest.is_empty().then_some((size, modified, known))
}

/// Bytes with their number before them.
pub(super) fn take_bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take(from)?).ok()?;
    let (bytes, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(bytes)
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
            target in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..60)),
            user in "[a-z]{0,9}", group in "[a-z]{0,300}",
        ) -> Known {
            let owners = OwnerNames::of(user.into_bytes().into(), group.into_bytes()[..].iter().copied().take(OWNER_MOST).collect());
            let (have, target) = (MetaMask(have), target.map(Into::into));
            Known { kind: KINDS[kind], have, mtime, mode, uid, gid, owners, rdev, xattrs, target }
        }
    }

    proptest! {
        #[test]
        fn details_round_trip(size: u64, from in time(), to in proptest::option::of(time()), known in known()) {
            let modified = match to {
                None => Modified::At(from),
                Some(not_after) => Modified::Within { not_before: from, not_after },
            };
            let bytes = encode(size, modified, &known).unwrap();
            prop_assert!(bytes.len() <= DETAILS_MOST);
            prop_assert_eq!(decode(&bytes), Some((size, modified, known)));
            for end in 0..bytes.len() {
                prop_assert_eq!(decode(&bytes[..end]), None);
            }
        }

        #[test]
        fn any_bytes_are_details_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _no_panic = decode(&bytes);
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
            encode(u64::MAX, Modified::Within { not_before: known.mtime, not_after: known.mtime }, &known)
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
