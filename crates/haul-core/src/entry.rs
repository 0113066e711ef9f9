//! What a listing yields: names as a directory node and a leaf, kinds, attributes, stamps.
//!
//! A full path is built only for messages. Below a store's root a name is a chain of nodes, so that a
//! tree deeper than PATH_MAX costs nothing and no system call ever resolves more than one component.

pub mod codec;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Memory};
use std::time::Duration;

use smallvec::SmallVec;

/// A directory below a store's root. The same node names the directory on both sides of a copy; a
/// store keeps what it knows of it (a descriptor, a handle) in a cache of its own under `id`.
#[derive(Clone)]
pub struct Dir(Arc<Node>);

struct Node {
    parent: Option<Dir>,
    leaf: Box<[u8]>,
    id: u64,
    depth: u32,
}

impl Dir {
    pub fn root() -> Self {
        Self::node(None, Box::default())
    }

    /// The directory `leaf` in this one. The caller has checked the leaf: see [`check_leaf`].
    pub fn child(&self, leaf: &[u8]) -> Self {
        Self::node(Some(self.clone()), leaf.into())
    }

    fn node(parent: Option<Dir>, leaf: Box<[u8]>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1); // identity only: nothing is ever read out of it
        let depth = parent.as_ref().map_or(0, |p| p.0.depth + 1);
        Dir(Arc::new(Node { parent, leaf, id: NEXT.fetch_add(1, Memory::Relaxed), depth }))
    }

    pub fn parent(&self) -> Option<&Dir> {
        self.0.parent.as_ref()
    }

    /// Empty for the root.
    pub fn leaf(&self) -> &[u8] {
        &self.0.leaf
    }

    /// Unique in the process and never used twice.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// 0 for the root.
    pub fn depth(&self) -> u32 {
        self.0.depth
    }

    pub fn is_root(&self) -> bool {
        self.0.parent.is_none()
    }

    /// `a/b` for messages, keys and journals; empty for the root.
    pub fn path(&self) -> Vec<u8> {
        let mut leaves = Vec::new();
        let mut at = self;
        while let Some(parent) = at.parent() {
            leaves.push(at.leaf());
            at = parent;
        }
        leaves.reverse();
        leaves.join(&b'/')
    }
}

impl PartialEq for Dir {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}
impl Eq for Dir {}

impl fmt::Debug for Dir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", show(&self.path()))
    }
}

/// A chain of a hundred thousand nodes must not be dropped by recursion.
impl Drop for Node {
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(Dir(node)) = next {
            next = Arc::into_inner(node).and_then(|mut node| node.parent.take());
        }
    }
}

/// A name below a store's root. An empty leaf is the directory itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Name {
    pub dir: Dir,
    pub leaf: Leaf,
}

/// One component of a path. Most are short and need no allocation of their own: a walk makes two names a file.
pub type Leaf = SmallVec<[u8; 24]>;

impl Name {
    pub fn new(dir: &Dir, leaf: &[u8]) -> Self {
        Name { dir: dir.clone(), leaf: leaf.into() }
    }

    /// The name under which a directory's own attributes are read and set.
    pub fn of(dir: &Dir) -> Self {
        match dir.parent() {
            Some(parent) => Name { dir: parent.clone(), leaf: dir.leaf().into() },
            None => Name { dir: dir.clone(), leaf: Leaf::new() },
        }
    }

    /// Splits `a/b/c` into nodes below `root`. For names that come from people, lists and journals;
    /// `None` if a part is empty, `.` or `..`, but an empty path is the root itself.
    pub fn parse(root: &Dir, path: &[u8]) -> Option<Self> {
        if path.is_empty() {
            return Some(Name::of(root));
        }
        let mut dir = root.clone();
        let mut parts = path.split(|b| *b == b'/').peekable();
        while let Some(part) = parts.next() {
            check_leaf(part).ok()?;
            if parts.peek().is_none() {
                return Some(Name::new(&dir, part));
            }
            dir = dir.child(part);
        }
        None
    }

    pub fn path(&self) -> Vec<u8> {
        let mut path = self.dir.path();
        if !path.is_empty() && !self.leaf.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(&self.leaf);
        path
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show(&self.path()))
    }
}

/// Why a leaf from a listing is no file name: it is empty, `.` or `..`, or has a slash or a zero byte in it.
pub fn check_leaf(leaf: &[u8]) -> Result<(), &'static str> {
    match leaf {
        b"" => Err("the name is empty"),
        b"." | b".." => Err("the name would leave the directory"),
        _ if leaf.contains(&b'/') => Err("the name has a slash in it"),
        _ if leaf.contains(&0) => Err("the name has a zero byte in it"),
        _ => Ok(()),
    }
}

/// A name as a terminal may show it: control characters and bytes that are not UTF-8 escaped in the
/// manner of Rust and C (`\n`, `\x1b`, `\xff`), so that a hostile name cannot write to the screen.
pub fn show(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for part in name.utf8_chunks() {
        for c in part.valid().chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                '\\' => out.push_str("\\\\"),
                c if is_deceptive(c) => push_escaped(c, &mut out),
                c => out.push(c),
            }
        }
        for byte in part.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// What [`show`] made readable, as the bytes that it was.
pub fn unshown(shown: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(shown.len());
    let mut rest = shown;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let escape = &rest[at + 1..];
        let (plain, used): (Vec<u8>, usize) = match escape.as_bytes() {
            [b'n', ..] => (vec![b'\n'], 1),
            [b't', ..] => (vec![b'\t'], 1),
            [b'r', ..] => (vec![b'\r'], 1),
            [b'\\', ..] => (vec![b'\\'], 1),
            [b'x', ..] => match escape.get(1..3).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                Some(byte) => (vec![byte], 3),
                None => (vec![b'\\'], 0),
            },
            [b'u', b'{', ..] => {
                let end = escape.find('}').unwrap_or(0);
                let letter = escape.get(2..end).and_then(|digits| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32);
                letter.map_or((vec![b'\\'], 0), |c| (c.to_string().into_bytes(), end + 1))
            }
            _ => (vec![b'\\'], 0),
        };
        bytes.extend(plain);
        rest = &escape[used..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// Text for people that may hold an argument as it was typed: what [`show`] escapes in names is escaped here, but for line ends,
/// tabs and backslashes, which belong to the text.
pub fn show_text(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| is_deceptive(c) && c != '\n' && c != '\t';
    if !text.contains(harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\r' => out.push_str("\\r"),
            c if harmful(c) => push_escaped(c, &mut out),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Characters that a terminal acts on, that reorder the text around them, or that nobody can see. The joiners U+200C and U+200D are
/// none: names in Persian, in Indic scripts and with emoji need them.
fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Marks and embeddings of direction; separators of lines and paragraphs.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
            // Without width.
            | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            // Tags, a second ASCII that is not drawn.
            | '\u{e0000}'..='\u{e007f}')
}

fn push_escaped(c: char, out: &mut String) {
    if c.is_ascii() {
        out.push_str(&format!("\\x{:02x}", c as u32));
    } else {
        out.extend(c.escape_unicode());
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    pub secs: i64,
    pub nanos: u32,
}

impl Time {
    pub fn as_nanos(self) -> i128 {
        i128::from(self.secs) * 1_000_000_000 + i128::from(self.nanos)
    }

    /// Equal once both are cut off to `grain`, as file systems and SFTP do it (and so one that was rounded up is another), or
    /// within rsync's `--modify-window`.
    pub fn same(self, other: Time, grain: Duration, window: Duration) -> bool {
        let cut = |time: Time| time.as_nanos().div_euclid(grain.as_nanos().max(1) as i128);
        let apart = (self.as_nanos() - other.as_nanos()).unsigned_abs();
        cut(self) == cut(other) || apart <= window.as_nanos() || self.is_clamped_to(other) || other.is_clamped_to(self)
    }

    /// Whether `limit` is the first or last second that some file system can hold and this time lies beyond it: the kernel
    /// sets the nearest time that the file system has (timestamp_truncate in Linux), and says nothing.
    fn is_clamped_to(self, limit: Time) -> bool {
        /// Before 1901 (32 bit), 1970 (unsigned) and 1980 (FAT).
        const FIRST: [i64; 3] = [i32::MIN as i64, 0, 315_532_800];
        /// After 2038 (32 bit; ext4 with small inodes, XFS without bigtime), 2106 (unsigned: NFSv3, SFTP), 2107 (FAT),
        /// 2446 (ext4) and 2486 (XFS).
        const LAST: [i64; 5] = [i32::MAX as i64, u32::MAX as i64, 4_354_819_198, 15_032_385_535, 16_299_260_424];
        (self.secs < limit.secs && FIRST.contains(&limit.secs)) || (self.secs > limit.secs && LAST.contains(&limit.secs))
    }
}

/// Which version of the content this is; compared for equality only. `version` is the inode of a local
/// file or a hash of what a store calls a version (an ETag). Neither ctime (a chmod does not change the
/// content) nor the device number (it differs between the nodes that mount one file system).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    pub size: u64,
    pub mtime: Time,
    pub version: u64,
}

/// A set of attributes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
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
    pub const ATIME: Self = MetaMask(512);

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

    /// The words of `--preserve=LIST` and of the summary.
    pub fn words(self) -> Vec<&'static str> {
        const WORDS: [(MetaMask, &str); 9] = [
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
        WORDS.iter().filter(|(mask, _)| self.has(*mask)).map(|(_, word)| *word).collect()
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
    /// Where a symlink points.
    pub target: Option<Box<[u8]>>,
    pub xattrs: Option<Box<Xattrs>>,
    /// The names of owner and group, where the place keeps them beside the numbers, or is to.
    pub owners: Option<Arc<OwnerNames>>,
}

/// Names that go with `Entry::uid` and `Entry::gid`; empty where nothing is known, [`OwnerNames::NONE`] where it is known that
/// the number has no name.
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
            target: None,
            xattrs: None,
            owners: None,
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

    pub fn stamp(&self) -> Stamp {
        Stamp { size: self.size, mtime: self.mtime, version: self.version }
    }

    pub fn is_bare(&self) -> bool {
        !self.have.has(MetaMask::BASIC)
    }

    pub fn is_sparse(&self) -> bool {
        self.stored < self.size && self.size > 0
    }
}

/// The one order of listings: by bytes, a directory as its name and a slash, so that a depth-first walk
/// and a flat listing of keys meet.
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
    fn paths_round_trip_and_hostile_ones_are_refused() {
        let root = Dir::root();
        for path in ["", "a", "a/b", "..x/\u{fe}/c d"] {
            assert_eq!(Name::parse(&root, path.as_bytes()).map(|n| n.path()), Some(path.as_bytes().to_vec()));
        }
        for path in ["/", "a/", "/a", "a//b", ".", "a/../b", "..", "a/.", "a\0b"] {
            assert!(Name::parse(&root, path.as_bytes()).is_none(), "{path:?}");
        }
    }

    #[test]
    fn a_chain_of_a_million_directories_is_dropped_without_recursion() {
        let mut dir = Dir::root();
        for _ in 0..1_000_000 {
            dir = dir.child(b"d");
        }
        assert_eq!(dir.depth(), 1_000_000);
    }

    #[test]
    fn a_directory_sorts_as_its_name_and_a_slash() {
        let mut names = vec![("a", true), ("a!", false), ("a0", false), ("a", false), ("a-b", true), ("b", false), ("", false)];
        names.sort_by(|x, y| order((x.0.as_bytes(), x.1), (y.0.as_bytes(), y.1)));
        assert_eq!(names, [("", false), ("a", false), ("a!", false), ("a-b", true), ("a", true), ("a0", false), ("b", false)]);
    }

    #[test]
    fn shown_names_cannot_write_to_the_terminal() {
        assert_eq!(show(b"a\x1b[2J\n\xff\\"), "a\\x1b[2J\\n\\xff\\\\");
        assert_eq!(show("caf\u{e9} \u{202e}x".as_bytes()), "caf\u{e9} \\u{202e}x");
        for hidden in ['\u{85}', '\u{9b}', '\u{61c}', '\u{200b}', '\u{2028}', '\u{2029}', '\u{2066}', '\u{feff}', '\u{e0041}', '\u{e007f}']
        {
            let escaped = format!("a\\u{{{:x}}}b", hidden as u32);
            assert_eq!(show(format!("a{hidden}b").as_bytes()), escaped);
            assert_eq!(show_text(&format!("a{hidden}b")), escaped);
        }
        let ordinary =
            "\u{646}\u{645}\u{6cc}\u{200c}\u{62e}\u{648} \u{1f468}\u{200d}\u{1f469} e\u{301} \u{6771}\u{4eac} \u{928}\u{94d}\u{200d}";
        assert_eq!(show(ordinary.as_bytes()), ordinary);
        assert_eq!(show_text("a\tb\\\nc\r\x1b[m\x7f"), "a\tb\\\nc\\r\\x1b[m\\x7f");
    }

    #[test]
    fn a_shown_path_is_found_again() {
        for path in [&b"/plain"[..], b"/a\\b", b"/\xff\xfe", b"/new\nline\t", "/\u{202e}x\u{85}y\u{e9}".as_bytes(), b"/\\x41\\"] {
            assert_eq!(unshown(&show(path)), path, "{}", show(path));
        }
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
}
