//! What a listing yields: names as a directory node and a leaf, kinds, attributes, stamps.
//!
//! A full path is built only for messages. Below a store's root a name is a chain of nodes, so that a
//! tree deeper than PATH_MAX costs nothing and no system call ever resolves more than one component.

pub mod codec;
mod name;
mod show;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use name::{Dir, Leaf, Name, check_leaf};
pub use show::{show, show_text, unshown};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Kind {
    File,
    Dir,
    Link,
    Fifo,
    Socket,
    Char,
    Block,
    /// A name whose kind the listing did not say.
    Unknown,
}

impl Kind {
    pub fn is_special(self) -> bool {
        matches!(self, Kind::Fifo | Kind::Socket | Kind::Char | Kind::Block)
    }

    pub fn word(self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Dir => "directory",
            Kind::Link => "symlink",
            Kind::Fifo => "fifo",
            Kind::Socket => "socket",
            Kind::Char => "character device",
            Kind::Block => "block device",
            Kind::Unknown => "entry",
        }
    }
}

/// A point in time: seconds since 1970-01-01 UTC, which may be negative, and nanoseconds after them, below 10^9.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Time {
    pub secs: i64,
    pub nanos: u32,
}

impl Time {
    pub fn as_nanos(self) -> i128 {
        i128::from(self.secs) * 1_000_000_000 + i128::from(self.nanos)
    }

    /// Equal after truncation to `resolution`, as file systems and SFTP truncate, or within the allowed window.
    pub fn same(self, other: Time, resolution: Duration, window: Duration) -> bool {
        let cut = |time: Time| time.as_nanos().div_euclid(resolution.as_nanos().max(1) as i128);
        let apart = (self.as_nanos() - other.as_nanos()).unsigned_abs();
        cut(self) == cut(other) || apart <= window.as_nanos()
    }

    /// As a place with this range stores it: the nearest time that fits (timestamp_truncate in Linux).
    pub fn within(self, (first, last): TimeRange) -> Time {
        if first < self.secs && self.secs < last { self } else { Time { secs: self.secs.clamp(first, last), nanos: 0 } }
    }

    /// Whether `copy` is this time in as few decimal places as it has, 100 ns or coarser, or in whole seconds.
    pub fn is_cut_to(self, copy: Time) -> bool {
        let places = |nanos: u32| (2..=9).map(|n| 10_u32.pow(n)).take_while(|unit| nanos.is_multiple_of(*unit)).last();
        self.secs == copy.secs && places(copy.nanos).is_some_and(|unit| self.nanos - self.nanos % unit == copy.nanos)
    }
}

/// The first and the last second that a place stores as a time.
pub type TimeRange = (i64, i64);

/// The version of a content; compared for equality only. `version` is the inode of a local file or a hash of an ETag. Neither
/// ctime (chmod changes it: `Source::change` has it for the journal) nor the device number (nodes that mount one file system differ
/// in it).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stamp {
    pub size: u64,
    pub mtime: Time,
    pub version: u64,
}

impl Stamp {
    /// Whether it has more than a size: a server may give neither a time nor an ETag.
    #[must_use]
    pub fn tells_versions(&self) -> bool {
        self.version != 0 || self.mtime != Time::default()
    }
}

/// A set of attributes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct MetaMask(pub u16);

impl MetaMask {
    pub const NONE: Self = MetaMask(0);
    pub const MTIME: Self = MetaMask(1);
    /// Permission bits without setuid, setgid and sticky on files.
    pub const MODE: Self = MetaMask(2);
    pub const OWNER: Self = MetaMask(4);
    pub const GROUP: Self = MetaMask(8);
    pub const ACL: Self = MetaMask(16);
    /// `user.*`, and as root `security.capability` and `trusted.*`.
    pub const XATTR: Self = MetaMask(32);
    /// setuid and setgid bits; kept only where the ownership was.
    pub const SETID: Self = MetaMask(64);
    /// `security.selinux`.
    pub const CONTEXT: Self = MetaMask(128);
    /// Size and kind are known: every complete entry has it.
    pub const BASIC: Self = MetaMask(256);
    /// All that can be given to a file: those above but `BASIC`.
    pub const SETTABLE: Self = MetaMask(255);
    pub const ATIME: Self = MetaMask(512);
    /// Beside refused attributes only: mode or times were refused for want of permission, not because they are not supported.
    pub const DENIED: Self = MetaMask(1024);
    /// [`Entry::ctime`]: never kept, asked for where a name is to be removed on proof.
    pub const CTIME: Self = MetaMask(2048);

    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    pub fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        MetaMask(self.0 | other.0)
    }
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        MetaMask(self.0 & !other.0)
    }
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        MetaMask(self.0 & other.0)
    }

    const WORDS: [(MetaMask, &'static str); 9] = [
        (MetaMask::MTIME, "times"),
        (MetaMask::MODE, "mode"),
        (MetaMask::OWNER, "owner"),
        (MetaMask::GROUP, "group"),
        (MetaMask::ACL, "acl"),
        (MetaMask::XATTR, "xattr"),
        (MetaMask::SETID, "setid"),
        (MetaMask::CONTEXT, "context"),
        (MetaMask::ATIME, "atime"),
    ];

    /// As lists of attributes and the summary name them.
    pub fn words(self) -> Vec<&'static str> {
        Self::WORDS.iter().filter(|(mask, _)| self.has(*mask)).map(|(_, word)| *word).collect()
    }

    /// The attribute that has this word.
    pub fn of_word(word: &str) -> Option<MetaMask> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(mask, _)| *mask)
    }
}

impl fmt::Debug for MetaMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().join(","))
    }
}

/// Extended attributes in the order of their names, ACLs among them in their xattr form.
pub type Xattrs = Vec<(Box<[u8]>, Box<[u8]>)>;

/// One thing in a listing, with as much of it as the store was asked for: `have` says what is true.
#[derive(Clone, Debug)]
pub struct Entry {
    pub name: Name,
    pub kind: Kind,
    pub have: MetaMask,
    /// Bytes; 0 for what is no file. Unknown for standard input (`have` lacks BASIC).
    pub size: u64,
    pub mtime: Time,
    /// Permission bits with setuid, setgid and sticky: `st_mode & 0o7777`.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Device number of a device node, as `makedev(3)` packs it.
    pub rdev: u64,
    pub nlink: u32,
    pub ino: u64,
    pub dev: u64,
    /// Bytes that the file holds on disk; less than `size` means holes.
    pub stored: u64,
    /// `Stamp::version`.
    pub version: u64,
    /// ctime in nanoseconds since 1970; 0 where the store has none.
    pub ctime: u64,
    /// Where a symlink points.
    pub target: Option<Box<[u8]>>,
    pub xattrs: Option<Box<Xattrs>>,
    /// The names of owner and group, where the place keeps them beside the numbers, or is to.
    pub owners: Option<Arc<OwnerNames>>,
    /// What an object store keeps of a file beside attributes, as it was opened.
    pub headers: Option<Arc<Headers>>,
}

/// Headers and tags of an object, for a copy of it in another object store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// By their names in lower case.
    pub headers: Vec<(String, String)>,
    /// `a=b&c=d`, escaped as in a URL.
    pub tags: Option<String>,
    /// Attributes that the object does not store, whatever its entry has in their place: a copy in an object store lacks them, too.
    pub lacks: MetaMask,
}

/// Names for `Entry::uid` and `Entry::gid`; empty if unknown, [`OwnerNames::NONE`] if the number is known to have no name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerNames {
    pub user: Box<[u8]>,
    pub group: Box<[u8]>,
}

impl OwnerNames {
    /// Of a number without a name.
    pub const NONE: &'static [u8] = b"-";

    /// `None` where nothing is known of either.
    pub fn of(user: Box<[u8]>, group: Box<[u8]>) -> Option<Arc<OwnerNames>> {
        (!user.is_empty() || !group.is_empty()).then(|| Arc::new(OwnerNames { user, group }))
    }
}

impl Entry {
    /// A name and a kind, nothing else known.
    pub fn bare(name: Name, kind: Kind) -> Self {
        Entry {
            name,
            kind,
            have: MetaMask::NONE,
            size: 0,
            mtime: Time::default(),
            mode: 0,
            uid: 0,
            gid: 0,
            rdev: 0,
            nlink: 1,
            ino: 0,
            dev: 0,
            stored: 0,
            version: 0,
            ctime: 0,
            target: None,
            xattrs: None,
            owners: None,
            headers: None,
        }
    }

    /// The owner's name, if the place keeps it; may be [`OwnerNames::NONE`].
    pub fn user_name(&self) -> Option<&[u8]> {
        self.owners.as_ref().map(|names| &*names.user).filter(|name| !name.is_empty())
    }

    /// The group's.
    pub fn group_name(&self) -> Option<&[u8]> {
        self.owners.as_ref().map(|names| &*names.group).filter(|name| !name.is_empty())
    }

    /// The classes of its extended attributes.
    pub fn xattr_classes(&self) -> MetaMask {
        let class = |name: &[u8]| match name {
            b"system.posix_acl_access" | b"system.posix_acl_default" | b"system.nfs4_acl" => MetaMask::ACL,
            b"security.selinux" => MetaMask::CONTEXT,
            _ => MetaMask::XATTR,
        };
        let names = self.xattrs.iter().flat_map(|xattrs| xattrs.iter().map(|(name, _)| name));
        names.fold(MetaMask::NONE, |classes, name| classes.with(class(name)))
    }

    pub fn stamp(&self) -> Stamp {
        Stamp { size: self.size, mtime: self.mtime, version: self.version }
    }

    /// A directory that is only a part of keys: no attribute of its own, and no object that stands for it.
    pub fn is_implied(&self) -> bool {
        let own = MetaMask::MTIME.with(MetaMask::MODE).with(MetaMask::OWNER).with(MetaMask::GROUP);
        self.kind == Kind::Dir && self.version == 0 && !self.have.any(own)
    }

    pub fn is_bare(&self) -> bool {
        !self.have.has(MetaMask::BASIC)
    }

    pub fn is_sparse(&self) -> bool {
        self.stored < self.size && self.size > 0
    }
}

/// The one order of listings: by bytes, a directory as its name and a slash, as in a flat listing of keys.
pub fn order(a: (&[u8], bool), b: (&[u8], bool)) -> Ordering {
    let key = |(leaf, dir): (&[u8], bool), i: usize| -> i16 {
        match leaf.get(i) {
            Some(byte) => i16::from(*byte),
            None if dir && i == leaf.len() => i16::from(b'/'),
            None => -1,
        }
    };
    let shared = a.0.len().min(b.0.len());
    a.0[..shared].cmp(&b.0[..shared]).then_with(|| {
        let at = (shared..=shared + 1).map(|i| key(a, i).cmp(&key(b, i))).find(|o| o.is_ne());
        at.unwrap_or(Ordering::Equal)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_sorts_as_its_name_and_a_slash() {
        let mut names = vec![("a", true), ("a!", false), ("a0", false), ("a", false), ("a-b", true), ("b", false), ("", false)];
        names.sort_by(|x, y| order((x.0.as_bytes(), x.1), (y.0.as_bytes(), y.1)));
        assert_eq!(names, [("", false), ("a", false), ("a!", false), ("a-b", true), ("a", true), ("a0", false), ("b", false)]);
    }

    #[test]
    fn times_compare_at_the_coarser_grain() {
        let t = |secs, nanos| Time { secs, nanos };
        let (none, second) = (Duration::ZERO, Duration::from_secs(1));
        assert!(!t(5, 1).same(t(5, 0), none, none));
        assert!(t(5, 999_999_999).same(t(5, 0), second, none));
        assert!(!t(6, 0).same(t(5, 0), second, none));
        assert!(!t(6, 0).same(t(5, 160_000_000), second, none), "what was written a second later is something else");
        assert!(t(6, 0).same(t(5, 0), none, second));
    }

    #[test]
    fn a_copy_in_fewer_decimal_places_is_cut() {
        let t = |secs, nanos| Time { secs, nanos };
        let exact = t(5, 123_456_789);
        assert!([0, 100_000_000, 123_000_000, 123_456_000, 123_456_700].iter().all(|nanos| exact.is_cut_to(t(5, *nanos))));
        assert!([1, 123_456_780, 123_456_800, 200_000_000].iter().all(|nanos| !exact.is_cut_to(t(5, *nanos))));
        assert!(!exact.is_cut_to(t(4, 0)) && !t(5, 0).is_cut_to(exact));
    }

    #[test]
    fn times_beyond_a_range_are_its_limits() {
        let t = |secs, nanos| Time { secs, nanos };
        let range = (0, 100);
        assert_eq!([t(-5, 3), t(5, 3), t(100, 3), t(500, 0)].map(|time| time.within(range)), [t(0, 0), t(5, 3), t(100, 0), t(100, 0)]);
        assert_eq!(t(-5, 3).within((i64::MIN, i64::MAX)), t(-5, 3));
    }
}
