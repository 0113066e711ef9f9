//! What a line of the journal says, and its bytes.
//!
//! Numbers are LEB128, byte strings have their length before them. The forms are strict: a payload with a
//! byte too many or too few is no record.

use super::identity::Identity;
use crate::entry::{Stamp, Time};
use crate::store::{Receipt, Token};
use crate::varint::{put as put_number, take as number};

/// The form of what follows; a log that begins otherwise is not read.
pub(super) const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A run began to append. What stands before the first of them counts as landed elsewhere.
    Begun {
        version: u32,
        identity: Identity,
        boot: [u8; 16],
        host: String,
        pid: u32,
        unix_seconds: i64,
    },
    /// A write was begun; `path` is below the target's root.
    Opened {
        session: u32,
        path: Vec<u8>,
        stamp: Stamp,
        chunk: u64,
        token: Token,
    },
    WriteOutcome {
        session: u32,
        receipt: Receipt,
    },
    /// The first bytes of a chunk landed.
    Part {
        session: u32,
        index: u32,
        bytes: u64,
    },
    Committed {
        session: u32,
    },
    Dropped {
        session: u32,
    },
    /// Names of `dir` that are about to be created in place. One that begins with `/` is the token of a small file about to be
    /// staged: see [`staged`].
    Intent {
        bundle: u32,
        dir: Vec<u8>,
        leaves: Vec<Vec<u8>>,
    },
    /// Every name of the bundle is whole or gone.
    Placed {
        bundle: u32,
    },
    /// Names of a directory of the source are about to be removed, which changes its time: what that was. `path` is the XXH3-128 of
    /// its path below the root.
    DirTime {
        path: u128,
        mtime: Time,
    },
    /// The job is done: nothing before this matters.
    Finished,
}

const BEGUN: u8 = 1;
const OPENED: u8 = 2;
const LANDED: u8 = 3;
const COMMITTED: u8 = 4;
const DROPPED: u8 = 5;
const INTENT: u8 = 6;
const PLACED: u8 = 7;
const FINISHED: u8 = 8;
const PART: u8 = 9;
const DIR_TIME: u8 = 10;

impl Record {
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Record::Begun { version, identity, boot, host, pid, unix_seconds } => {
                out.push(BEGUN);
                put_number(out, u64::from(*version));
                put_number(out, identity.sources.len() as u64);
                for source in &identity.sources {
                    put_bytes(out, source.as_bytes());
                }
                put_bytes(out, identity.target.as_bytes());
                out.extend_from_slice(boot);
                put_bytes(out, host.as_bytes());
                put_number(out, u64::from(*pid));
                out.extend_from_slice(&unix_seconds.to_le_bytes());
                if !identity.reached.is_empty() {
                    put_bytes(out, identity.reached.as_bytes());
                }
            }
            Record::Opened { session, path, stamp, chunk, token } => put_opened(out, *session, path, stamp, *chunk, token),
            Record::WriteOutcome { session, receipt } => put_landed(out, *session, receipt),
            Record::Part { session, index, bytes } => put_part(out, *session, *index, *bytes),
            Record::Committed { session } => put_committed(out, *session),
            Record::Dropped { session } => put_dropped(out, *session),
            Record::Intent { bundle, dir, leaves } => put_intent(out, *bundle, dir, &mut leaves.iter().map(Vec::as_slice)),
            Record::Placed { bundle } => put_placed(out, *bundle),
            Record::DirTime { path, mtime } => put_dir_time(out, *path, *mtime),
            Record::Finished => out.push(FINISHED),
        }
    }

    /// `None` if the payload is not wholly one record.
    pub fn decode(payload: &[u8]) -> Option<Record> {
        let (tag, rest) = payload.split_first()?;
        let mut rest = rest;
        let from = &mut rest;
        let record = match *tag {
            BEGUN => {
                let version = number32(from)?;
                let count = number(from)?;
                let mut identity = Identity::default();
                for _ in 0..count {
                    identity.sources.push(string(from)?);
                }
                identity.target = string(from)?;
                let boot = array(from)?;
                let host = string(from)?;
                let pid = number32(from)?;
                let unix_seconds = i64::from_le_bytes(array(from)?);
                if !from.is_empty() {
                    identity.reached = string(from)?;
                }
                Record::Begun { version, identity, boot, host, pid, unix_seconds }
            }
            OPENED => {
                let session = number32(from)?;
                let path = bytes(from)?.to_vec();
                let size = number(from)?;
                let mtime = Time { secs: i64::from_le_bytes(array(from)?), nanos: number32(from)? };
                let version = u64::from_le_bytes(array(from)?);
                let chunk = number(from)?;
                let token = Token(bytes(from)?.into());
                Record::Opened { session, path, stamp: Stamp { size, mtime, version }, chunk, token }
            }
            LANDED => {
                let session = number32(from)?;
                let index = number32(from)?;
                let [hashed] = array(from)?;
                let hash = match hashed {
                    0 => None,
                    1 => Some(u128::from_le_bytes(array(from)?)),
                    _ => return None,
                };
                Record::WriteOutcome { session, receipt: Receipt { index, tag: bytes(from)?.into(), hash } }
            }
            PART => Record::Part { session: number32(from)?, index: number32(from)?, bytes: number(from)? },
            COMMITTED => Record::Committed { session: number32(from)? },
            DROPPED => Record::Dropped { session: number32(from)? },
            INTENT => {
                let bundle = number32(from)?;
                let dir = bytes(from)?.to_vec();
                let mut leaves = Vec::new();
                while !from.is_empty() {
                    leaves.push(bytes(from)?.to_vec());
                }
                Record::Intent { bundle, dir, leaves }
            }
            PLACED => Record::Placed { bundle: number32(from)? },
            DIR_TIME => Record::DirTime {
                path: u128::from_le_bytes(array(from)?),
                mtime: Time { secs: i64::from_le_bytes(array(from)?), nanos: number32(from)? },
            },
            FINISHED => Record::Finished,
            _ => return None,
        };
        from.is_empty().then_some(record)
    }
}

pub(super) fn put_opened(out: &mut Vec<u8>, session: u32, path: &[u8], stamp: &Stamp, chunk: u64, token: &Token) {
    out.push(OPENED);
    put_number(out, u64::from(session));
    put_bytes(out, path);
    put_number(out, stamp.size);
    out.extend_from_slice(&stamp.mtime.secs.to_le_bytes());
    put_number(out, u64::from(stamp.mtime.nanos));
    out.extend_from_slice(&stamp.version.to_le_bytes());
    put_number(out, chunk);
    put_bytes(out, &token.0);
}

pub(super) fn put_landed(out: &mut Vec<u8>, session: u32, receipt: &Receipt) {
    out.push(LANDED);
    put_number(out, u64::from(session));
    put_number(out, u64::from(receipt.index));
    match receipt.hash {
        None => out.push(0),
        Some(hash) => {
            out.push(1);
            out.extend_from_slice(&hash.to_le_bytes());
        }
    }
    put_bytes(out, &receipt.tag);
}

pub(super) fn put_part(out: &mut Vec<u8>, session: u32, index: u32, bytes: u64) {
    out.push(PART);
    put_number(out, u64::from(session));
    put_number(out, u64::from(index));
    put_number(out, bytes);
}

pub(super) fn put_committed(out: &mut Vec<u8>, session: u32) {
    out.push(COMMITTED);
    put_number(out, u64::from(session));
}

pub(super) fn put_dropped(out: &mut Vec<u8>, session: u32) {
    out.push(DROPPED);
    put_number(out, u64::from(session));
}

pub(super) fn put_intent(out: &mut Vec<u8>, bundle: u32, dir: &[u8], leaves: &mut dyn Iterator<Item = &[u8]>) {
    out.push(INTENT);
    put_number(out, u64::from(bundle));
    put_bytes(out, dir);
    for leaf in leaves {
        put_bytes(out, leaf);
    }
}

/// How a token stands among the leaves of an intent.
pub fn staged(token: &Token) -> Vec<u8> {
    [b"/", &*token.0].concat()
}

/// The token that a leaf of an intent is, if it is no name.
pub fn token_of(leaf: &[u8]) -> Option<Token> {
    leaf.strip_prefix(b"/").map(|token| Token(token.into()))
}

pub(super) fn put_placed(out: &mut Vec<u8>, bundle: u32) {
    out.push(PLACED);
    put_number(out, u64::from(bundle));
}

pub(super) fn put_dir_time(out: &mut Vec<u8>, path: u128, mtime: Time) {
    out.push(DIR_TIME);
    out.extend_from_slice(&path.to_le_bytes());
    out.extend_from_slice(&mtime.secs.to_le_bytes());
    put_number(out, u64::from(mtime.nanos));
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn number32(from: &mut &[u8]) -> Option<u32> {
    u32::try_from(number(from)?).ok()
}

fn array<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*array)
}

fn bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(number(from)?).ok()?;
    let (bytes, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(bytes)
}

fn string(from: &mut &[u8]) -> Option<String> {
    std::str::from_utf8(bytes(from)?).ok().map(str::to_string)
}
