//! The attributes of one name, as the system reports them.

use haul_core::entry::{Entry, Kind, MetaMask, Name, Stamp, Time};
use rustix::fs::{AtFlags, FileType, Stat, Statx, StatxFlags};

/// Attributes that a look at an inode yields; extended ones cost calls of their own.
pub(super) const LOOKED: MetaMask =
    MetaMask(MetaMask::BASIC.0 | MetaMask::MTIME.0 | MetaMask::MODE.0 | MetaMask::SETID.0 | MetaMask::OWNER.0 | MetaMask::GROUP.0);

/// The fields of `statx` that an entry has; atime and birth time, which some servers must fetch, are not among them.
const MASK: StatxFlags = StatxFlags::TYPE
    .union(StatxFlags::MODE)
    .union(StatxFlags::NLINK)
    .union(StatxFlags::UID)
    .union(StatxFlags::GID)
    .union(StatxFlags::MTIME)
    .union(StatxFlags::CTIME)
    .union(StatxFlags::INO)
    .union(StatxFlags::SIZE)
    .union(StatxFlags::BLOCKS);

#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub kind: Kind,
    /// `st_mode & 0o7777`.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Bytes; 0 for what is no file.
    pub size: u64,
    pub mtime: Time,
    /// Nanoseconds since 1970.
    pub ctime: u64,
    pub nlink: u32,
    pub ino: u64,
    pub dev: u64,
    pub rdev: u64,
    pub stored: u64,
}

/// Looks at one component below `dir`; an empty leaf is `dir` itself. Without `AT_STATX_DONT_SYNC`, which on NFS, FUSE and Lustre
/// may answer from an old cache and hide a changed file.
pub(super) fn look(dir: impl rustix::fd::AsFd, leaf: &[u8], follow: bool) -> rustix::io::Result<Facts> {
    let mut flags = AtFlags::NO_AUTOMOUNT;
    if leaf.is_empty() {
        flags |= AtFlags::EMPTY_PATH;
    } else if !follow {
        flags |= AtFlags::SYMLINK_NOFOLLOW;
    }
    rustix::fs::statx(dir, leaf, flags, MASK).map(|st| Facts::from(&st))
}

/// The same for local disks, which have every field at hand: `statx` copies twice as much out of the kernel.
pub(super) fn look_quick(dir: impl rustix::fd::AsFd, leaf: &[u8], follow: bool) -> rustix::io::Result<Facts> {
    let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    if leaf.is_empty() { look_at(dir) } else { rustix::fs::statat(dir, leaf, flags).map(|st| Facts::from(&st)) }
}

/// Looks at what is open.
pub(super) fn look_at(fd: impl rustix::fd::AsFd) -> rustix::io::Result<Facts> {
    rustix::fs::fstat(fd).map(|st| Facts::from(&st))
}

pub(super) fn kind_of(kind: FileType) -> Kind {
    match kind {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Dir,
        FileType::Symlink => Kind::Link,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::Char,
        FileType::BlockDevice => Kind::Block,
        FileType::Unknown => Kind::Unknown,
    }
}

impl Facts {
    pub fn stamp(&self) -> Stamp {
        Stamp { size: self.size, mtime: self.mtime, version: self.ino }
    }

    pub fn fill(&self, entry: &mut Entry) {
        entry.kind = self.kind;
        entry.have = entry.have.with(LOOKED);
        entry.size = self.size;
        entry.mtime = self.mtime;
        entry.mode = self.mode;
        entry.uid = self.uid;
        entry.gid = self.gid;
        entry.rdev = self.rdev;
        entry.nlink = self.nlink;
        entry.ino = self.ino;
        entry.dev = self.dev;
        entry.stored = self.stored;
        entry.version = self.ino;
        entry.ctime = self.ctime;
    }

    pub fn entry(&self, name: Name) -> Entry {
        let mut entry = Entry::bare(name, self.kind);
        self.fill(&mut entry);
        entry
    }
}

/// Compared for equality only, so that it may wrap.
fn nanoseconds(secs: i64, nanos: u64) -> u64 {
    secs.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(nanos)
}

impl From<&Statx> for Facts {
    fn from(st: &Statx) -> Self {
        let kind = kind_of(FileType::from_raw_mode(st.stx_mode.into()));
        let file = kind == Kind::File;
        Facts {
            kind,
            mode: u32::from(st.stx_mode) & 0o7777,
            uid: st.stx_uid,
            gid: st.stx_gid,
            size: if file { st.stx_size } else { 0 },
            mtime: Time { secs: st.stx_mtime.tv_sec, nanos: st.stx_mtime.tv_nsec },
            ctime: nanoseconds(st.stx_ctime.tv_sec, st.stx_ctime.tv_nsec.into()),
            nlink: st.stx_nlink,
            ino: st.stx_ino,
            dev: rustix::fs::makedev(st.stx_dev_major, st.stx_dev_minor),
            rdev: rustix::fs::makedev(st.stx_rdev_major, st.stx_rdev_minor),
            stored: if file { st.stx_blocks * 512 } else { 0 },
        }
    }
}

// Field types of `struct stat` differ between architectures.
#[expect(clippy::unnecessary_cast, reason = "the types differ between architectures")]
impl From<&Stat> for Facts {
    fn from(st: &Stat) -> Self {
        let kind = kind_of(FileType::from_raw_mode(st.st_mode as u32));
        let file = kind == Kind::File;
        Facts {
            kind,
            mode: st.st_mode as u32 & 0o7777,
            uid: st.st_uid,
            gid: st.st_gid,
            size: if file { st.st_size as u64 } else { 0 },
            mtime: Time { secs: st.st_mtime as i64, nanos: st.st_mtime_nsec as u32 },
            ctime: nanoseconds(st.st_ctime as i64, st.st_ctime_nsec as u64),
            nlink: st.st_nlink as u32,
            ino: st.st_ino as u64,
            dev: st.st_dev as u64,
            rdev: st.st_rdev as u64,
            stored: if file { st.st_blocks as u64 * 512 } else { 0 },
        }
    }
}
