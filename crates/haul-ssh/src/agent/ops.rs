//! Requests between two hauls. Arguments and answers are described where they are written and read: `store`, `source` and `sink` on
//! the local side, `server` on the other.

/// The version of the protocol. Both ends speak the same: haul installs itself on the remote host. Whatever else changes,
/// The first request begins with the first and the last version that the requesting end speaks, and with its program's version in words;
/// the answer to it with the version that is spoken and the remote program's.
pub const VERSION: u64 = 7;
/// What the remote haul prints before its first frame, so that it is found behind whatever a login script has printed.
pub const MAGIC: &[u8] = b"\nhaul-agent-speaks\n";
/// What the remote shell prints in front of the program that it is about to become.
pub const STARTING: &[u8] = b"haul-agent-starts ";
/// What the remote shell prints where there is no haul.
pub const MISSING: &[u8] = b"\nhaul-agent-missing ";

pub const HELLO: u8 = 16;
pub const LOOK: u8 = 17;
pub const MAKE_PATH: u8 = 18;
pub const ROOT: u8 = 19;
pub const STAT: u8 = 20;
pub const STAT_MANY: u8 = 21;
pub const LIST: u8 = 22;
pub const OPEN: u8 = 23;
pub const CREATE: u8 = 24;
pub const ATTACH: u8 = 25;
pub const REOPEN: u8 = 26;
pub const REREAD: u8 = 27;
pub const CLOSE: u8 = 28;
pub const READ: u8 = 29;
pub const WRITE: u8 = 30;
pub const HOLE: u8 = 31;
pub const STAMP: u8 = 32;
pub const EXTENTS: u8 = 33;
pub const XATTRS: u8 = 34;
pub const HASH: u8 = 35;
pub const COMMIT: u8 = 36;
pub const ABORT: u8 = 37;
pub const ABANDON: u8 = 38;
pub const GET_BUNDLE: u8 = 39;
pub const PUT_BUNDLE: u8 = 40;
pub const MAKE_DIRS: u8 = 41;
pub const MAKE_NODE: u8 = 42;
pub const HARD_LINK: u8 = 43;
pub const SET_META: u8 = 44;
pub const READ_XATTRS: u8 = 45;
pub const REMOVE: u8 = 46;
pub const RENAME: u8 = 47;
pub const DIGEST: u8 = 48;
pub const SETTLE: u8 = 49;
pub const FORGET: u8 = 51;
pub const SIGNATURE: u8 = 54;
pub const REUSE: u8 = 55;
pub const FACTS: u8 = 56;
pub const PULL: u8 = 57;
pub const TAKE: u8 = 60;
/// A generated root: see `server/made.rs`.
pub const MADE_UP: u8 = 61;
/// What the generated sinks of the remote host have received, and the load of its processors, by its own clock.
pub const TALLY: u8 = 62;
pub const WORKED: u8 = 63;
/// Names and numbers of users and groups.
pub const OWNER_NAME: u8 = 64;
pub const OWNER_ID: u8 = 65;
/// The file system of a root.
pub const VOLUME: u8 = 66;
/// Data connections by TLS; see `server/data.rs` and `server/pull.rs`.
pub const TLS_LISTEN: u8 = 80;
pub const TLS_CONNECT: u8 = 81;
pub const TLS_READER: u8 = 82;
pub const TLS_LINK_PEER: u8 = 83;

/// The longest range that one READ or WRITE carries.
pub const PIECE: u64 = 1 << 20;
