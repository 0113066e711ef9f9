//! What is remembered of an object, and its bytes.
//!
//! ```text
//! value   = hashed ETag | details
//! details = kind and XATTRS | size | not before | not after | mtime | have | mode | uid | gid | names of both | rdev | target
//! ```
//! Numbers are of variable length, seconds relative to `EPOCH`.

use std::sync::Arc;

use haul_core::entry::codec::{kind_number, kind_of};
use haul_core::entry::{Kind, MetaMask, OwnerNames, Time};
use haul_core::hash::xxh128;
use haul_core::team::wire::{Cursor, put_all, put_bytes};
use haul_core::varint;

/// Longest key in bytes: the protocol's own bound.
pub const KEY_MOST: usize = 1024;

/// Longest target of a symlink in bytes, as Linux bounds it.
const TARGET_MOST: usize = 4096;

const OWNER_MOST: usize = 256;

/// Bytes of a hashed ETag.
pub const HASH: usize = 16;

/// Most bytes of a record's value: hash, kind, fifteen numbers, two names and a target.
pub const VALUE_MOST: usize = HASH + 1 + 15 * varint::MOST + 2 * OWNER_MOST + TARGET_MOST;

/// 2023-11-14: near it times are short.
const EPOCH: i64 = 1_700_000_000;

/// Windows wider than this many seconds are narrowed to the first time that was seen in them: an upload in parts may
/// carry the time at which it began, hours ago. For less it is not worth writing the record again.
const WIDE: i64 = 5;

const KIND: u8 = 7;
const XATTRS: u8 = 1 << 3;

/// What the listing does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub kind: Kind,
    /// Which of the attributes below are true.
    pub have: MetaMask,
    pub mtime: Time,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub owners: Option<Arc<OwnerNames>>,
    pub rdev: u64,
    /// Whether there are extended attributes; they are not kept here.
    pub xattrs: bool,
    /// Of a symlink, and only of one.
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

/// Of an ETag as the server gives it; quotes around it do not count.
pub fn hash_of(etag: &[u8]) -> [u8; HASH] {
    let bare = etag.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(etag);
    xxh128(bare).to_le_bytes()
}

/// The details of a record as bytes; `None` for what cannot be kept.
pub fn encode(size: u64, modified: Modified, known: &Known) -> Option<Vec<u8>> {
    let target = known.target.as_deref().unwrap_or_default();
    let owners = known.owners.as_ref().map_or([&[][..]; 2], |names| [&names.user, &names.group]);
    if target.len() > TARGET_MOST || owners.iter().any(|name| name.len() > OWNER_MOST) {
        return None;
    }
    let mut out = vec![kind_number(known.kind) | if known.xattrs { XATTRS } else { 0 }];
    varint::put(&mut out, size);
    for time in [modified.not_before, modified.not_after, known.mtime] {
        let away = time.secs.wrapping_sub(EPOCH);
        // The sign goes to the lowest bit, so that small negative numbers are short too.
        put_all(&mut out, &[((away << 1) ^ (away >> 63)).cast_unsigned(), time.nanos.into()]);
    }
    put_all(&mut out, &[known.have.0.into(), known.mode.into(), known.uid.into(), known.gid.into()]);
    owners.into_iter().for_each(|name| put_bytes(&mut out, name));
    varint::put(&mut out, known.rdev);
    put_bytes(&mut out, target);
    Some(out)
}

pub fn decode(details: &[u8]) -> Option<(u64, Modified, Known)> {
    let (&flags, rest) = details.split_first()?;
    let from = &mut Cursor(rest);
    let size = from.number()?;
    let modified = Modified { not_before: time(from)?, not_after: time(from)? };
    let kind = kind_of(flags & KIND);
    let known = Known {
        kind,
        mtime: time(from)?,
        have: MetaMask(from.number()?.try_into().ok()?),
        mode: from.small()?,
        uid: from.small()?,
        gid: from.small()?,
        owners: OwnerNames::of(from.bytes()?.into(), from.bytes()?.into()),
        rdev: from.number()?,
        xattrs: flags & XATTRS != 0,
        target: Some(from.bytes()?.into()).filter(|_| kind == Kind::Link),
    };
    from.is_empty().then_some((size, modified, known))
}

fn time(from: &mut Cursor<'_>) -> Option<Time> {
    let folded = from.number()?;
    let away = (folded >> 1).cast_signed() ^ -(folded & 1).cast_signed();
    let nanos = from.small()?;
    (nanos < 1_000_000_000).then_some(Time { secs: EPOCH.wrapping_add(away), nanos })
}
