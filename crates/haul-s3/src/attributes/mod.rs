//! File attributes in an object's metadata: haul's own keys, rclone's and s3cmd's.
//!
//! | key | value | also written by |
//! |---|---|---|
//! | `mtime` | `1704164645.678`: seconds since 1970, up to nine decimals | rclone |
//! | `mode` | `100644`, `40755`, `120777`: `st_mode` in octal | rclone with `-M` |
//! | `uid`, `gid` | decimal | rclone with `-M`, s3fs |
//! | `haul-owner`, `haul-group` | their names, of printable ASCII; `-` for a number without a name | |
//! | `rdev` | `10300000000`: major number times 2^32 plus minor, in hexadecimal | rclone with `-M` |
//! | `haul-kind` | `fifo`, `socket`, `char`, `block`: of what is no file, where the mode is not kept | |
//! | `haul-xattrs` | `xa:BASE64`: which classes are kept (x: attributes, a: ACLs, c: context), and the attributes | |
//!
//! The body of a symlink is where it points, as s3fs and FSx write it. Read are also `atime`, `md5chksum` (rclone),
//! `s3cmd-attrs`, `mc-attrs` (MinIO's client), s3fs's decimal `mode`, and `file-mtime`, `file-permissions`,
//! `file-owner`, `file-group` (DataSync, File Gateway, FSx). Any writer of an object may set these: an invalid
//! value counts as missing.

mod read;
mod write;
mod xattrs;

#[cfg(test)]
mod tests;

use haul_core::entry::{Entry, Kind, MetaMask, OwnerNames, Time, Xattrs};

pub use read::{read, user_metadata};
pub use write::{MOST, Written, cost, cost_of, write};

/// The keys that haul writes.
pub const NAMES: [&str; 9] = ["mtime", "mode", "uid", "gid", "haul-owner", "haul-group", "rdev", "haul-kind", "haul-xattrs"];

/// Seconds that a time may be from 1970, either way: some 35,000 years, so that no arithmetic overflows.
const FARTHEST: i64 = 1 << 40;

/// Bytes of the name of a user or a group: LOGIN_NAME_MAX.
const LONGEST_OWNER: usize = 256;

/// Whether it can be the name of a user or a group, and be sent in a header.
fn is_owner_name(name: &[u8]) -> bool {
    (1..=LONGEST_OWNER).contains(&name.len()) && name.iter().all(u8::is_ascii_graphic)
}

/// A symlink's target is shorter: PATH_MAX.
const LONGEST_TARGET: u64 = 4096;

/// The `mode` of every symlink that s3fs writes, in decimal. In octal it would be a directory with permissions that
/// are not used.
const DECIMAL_LINK: &str = "41471";

/// What an object's metadata says of the file that it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileAttributes {
    pub kind: Option<Kind>,
    pub mtime: Option<Time>,
    pub atime: Option<Time>,
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    /// Names that go with the two numbers.
    pub user: Option<Box<[u8]>>,
    pub group: Option<Box<[u8]>>,
    /// As `makedev(3)` packs it.
    pub rdev: Option<u64>,
    /// The classes that were kept, and the attributes of them all; that there were none is known too.
    pub xattrs: Option<(MetaMask, Xattrs)>,
    /// Of the content, as another tool has computed it before it sent it.
    pub md5: Option<[u8; 16]>,
}

impl FileAttributes {
    /// Whether there is nothing at all about a file in it.
    pub fn is_empty(&self) -> bool {
        *self == FileAttributes { md5: self.md5, ..FileAttributes::default() }
    }

    /// The attributes that are not stored, of those that an entry has all the same: the time of the upload, no extended attributes.
    pub fn lacks(&self) -> MetaMask {
        let time = if self.mtime.is_none() { MetaMask::MTIME } else { MetaMask::NONE };
        xattrs::ALL.without(self.xattrs.as_ref().map_or(MetaMask::NONE, |(classes, _)| *classes)).with(time)
    }

    /// Sets the known attributes of an entry and marks them in its `have`. A kind that does not fit the size (a fifo with content,
    /// an empty link) is ignored. A directory stays one. A symlink's target is in the object's body.
    pub fn apply(&self, entry: &mut Entry) {
        if let Some(kind) = self.kind.filter(|kind| fits(*kind, entry.size) && entry.kind != Kind::Dir) {
            entry.kind = kind;
        }
        let mut have = MetaMask::NONE;
        if let Some(mtime) = self.mtime {
            entry.mtime = mtime;
            have = have.with(MetaMask::MTIME);
        }
        if let Some(mode) = self.mode {
            entry.mode = mode & 0o7777;
            have = have.with(MetaMask::MODE).with(MetaMask::SETID);
        }
        if let Some(uid) = self.uid {
            entry.uid = uid;
            have = have.with(MetaMask::OWNER);
        }
        if let Some(gid) = self.gid {
            entry.gid = gid;
            have = have.with(MetaMask::GROUP);
        }
        let name = |name: &Option<Box<[u8]>>, id: Option<u32>| name.clone().filter(|_| id.is_some()).unwrap_or_default();
        entry.owners = OwnerNames::of(name(&self.user, self.uid), name(&self.group, self.gid));
        if let Some(rdev) = self.rdev.filter(|_| matches!(entry.kind, Kind::Char | Kind::Block)) {
            entry.rdev = rdev;
        }
        if let Some((classes, xattrs)) = &self.xattrs {
            entry.xattrs = Some(Box::new(xattrs.clone()));
            have = have.with(*classes);
        }
        entry.have = entry.have.with(have);
    }
}

fn fits(kind: Kind, size: u64) -> bool {
    match kind {
        Kind::File => true,
        Kind::Link => (1..LONGEST_TARGET).contains(&size),
        Kind::Dir | Kind::Fifo | Kind::Socket | Kind::Char | Kind::Block => size == 0,
        Kind::Unknown => false,
    }
}

/// The type bits of `st_mode`; `None` for what has none.
fn bits_of(kind: Kind) -> Option<u32> {
    match kind {
        Kind::File => Some(0o100_000),
        Kind::Dir => Some(0o040_000),
        Kind::Link => Some(0o120_000),
        Kind::Fifo => Some(0o010_000),
        Kind::Socket => Some(0o140_000),
        Kind::Char => Some(0o020_000),
        Kind::Block => Some(0o060_000),
        Kind::Unknown => None,
    }
}

fn kind_of(bits: u32) -> Option<Kind> {
    const KINDS: [Kind; 7] = [Kind::File, Kind::Dir, Kind::Link, Kind::Fifo, Kind::Socket, Kind::Char, Kind::Block];
    KINDS.into_iter().find(|kind| bits_of(*kind) == Some(bits))
}

/// The words of `haul-kind`: only those kinds that neither a key nor a link's mode tells.
fn word_of(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Fifo => Some("fifo"),
        Kind::Socket => Some("socket"),
        Kind::Char => Some("char"),
        Kind::Block => Some("block"),
        Kind::File | Kind::Dir | Kind::Link | Kind::Unknown => None,
    }
}
