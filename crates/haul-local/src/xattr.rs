//! Extended attributes and ACLs: which of them move, how they are read and set.

use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::entry::{MetaMask, Xattrs};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

pub(super) const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
pub(super) const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";
const NFS4_ACL: &[u8] = b"system.nfs4_acl";

/// Every kind of attribute that lives in extended ones.
pub(super) const ALL: MetaMask = MetaMask(MetaMask::ACL.0 | MetaMask::XATTR.0 | MetaMask::CONTEXT.0);

/// The longest value and the longest list that Linux has.
const MOST: usize = 64 * 1024;

/// Which kind of attribute a name belongs to; `None` for what never moves. `trusted.lov` and its kin say
/// where Lustre keeps a file's data; `lustre.*` is the same to unprivileged users.
pub(super) fn class(name: &[u8], privileged: bool) -> Option<MetaMask> {
    if name.starts_with(b"user.") {
        return Some(MetaMask::XATTR);
    }
    match name {
        ACCESS_ACL | DEFAULT_ACL | NFS4_ACL => Some(MetaMask::ACL),
        b"security.selinux" => Some(MetaMask::CONTEXT),
        b"trusted.lov" | b"trusted.lma" | b"trusted.link" => None,
        b"security.capability" if privileged => Some(MetaMask::XATTR),
        _ if privileged && name.starts_with(b"trusted.") => Some(MetaMask::XATTR),
        _ => None,
    }
}

/// The permission bits that an ACL amounts to, of owner, mask (or group where there is none) and others; `None` if it is not
/// in the form that Linux gives them: a version, then a tag, bits and an id for each entry.
pub(super) fn mode_of_acl(acl: &[u8]) -> Option<u32> {
    const USER_OBJ: u16 = 0x01;
    const GROUP_OBJ: u16 = 0x04;
    const MASK: u16 = 0x10;
    const OTHER: u16 = 0x20;
    let (version, entries) = acl.split_first_chunk::<4>()?;
    let bits = |wanted: u16| {
        let entry = entries.as_chunks::<8>().0.iter().find(|entry| u16::from_le_bytes([entry[0], entry[1]]) == wanted)?;
        Some(u32::from(u16::from_le_bytes([entry[2], entry[3]])) & 0o7)
    };
    let group = bits(MASK).or_else(|| bits(GROUP_OBJ));
    (u32::from_le_bytes(*version) == 2).then_some(())?;
    Some(bits(USER_OBJ)? << 6 | group? << 3 | bits(OTHER)?)
}

/// The path by which the inode behind a descriptor is reached, `O_PATH` ones included. A symlink opened so is not followed further.
pub(super) fn proc_path(fd: BorrowedFd<'_>) -> Vec<u8> {
    format!("/proc/self/fd/{}", fd.as_raw_fd()).into_bytes()
}

/// Whether a name has no extended attribute at all, as most have none. `false` also where that takes more than one
/// call: before Linux 6.13 there is no `listxattrat`, and going through `/proc` costs three times as much.
pub(super) fn has_none(dir: BorrowedFd<'_>, leaf: &[u8], follow: bool) -> bool {
    /// The number is the same on every architecture: listxattrat came after the tables were unified.
    const LISTXATTRAT: libc::c_long = 465;
    static MISSING: AtomicBool = AtomicBool::new(false); // what the kernel lacks once it lacks always
    if MISSING.load(Ordering::Relaxed) || leaf.len() > 255 || leaf.is_empty() {
        return false;
    }
    let mut name = [0u8; 256];
    name[..leaf.len()].copy_from_slice(leaf);
    let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    // SAFETY: the name ends in a zero byte and outlives the call; with no buffer the kernel writes nothing and
    // answers with the length that a list would have.
    let length = unsafe { libc::syscall(LISTXATTRAT, dir.as_raw_fd(), name.as_ptr(), flags, std::ptr::null_mut::<u8>(), 0usize) };
    if length < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
        MISSING.store(true, Ordering::Relaxed);
    }
    length == 0
}

/// How to reach one inode's extended attributes.
#[derive(Clone, Copy)]
pub(super) enum XattrTarget<'a> {
    Fd(BorrowedFd<'a>),
    /// A path of [`proc_path`], or with one component behind it; the flag says whether a link there is followed.
    Path(&'a [u8], bool),
}

impl XattrTarget<'_> {
    fn list(self, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            XattrTarget::Fd(fd) => rustix::fs::flistxattr(fd, buffer),
            XattrTarget::Path(path, true) => rustix::fs::listxattr(path, buffer),
            XattrTarget::Path(path, false) => rustix::fs::llistxattr(path, buffer),
        }
    }

    fn get(self, name: &[u8], buffer: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            XattrTarget::Fd(fd) => rustix::fs::fgetxattr(fd, name, buffer),
            XattrTarget::Path(path, true) => rustix::fs::getxattr(path, name, buffer),
            XattrTarget::Path(path, false) => rustix::fs::lgetxattr(path, name, buffer),
        }
    }

    pub fn set(self, name: &[u8], value: &[u8]) -> rustix::io::Result<()> {
        match self {
            XattrTarget::Fd(fd) => rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty()),
            XattrTarget::Path(path, true) => rustix::fs::setxattr(path, name, value, XattrFlags::empty()),
            XattrTarget::Path(path, false) => rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()),
        }
    }

    pub fn remove(self, name: &[u8]) -> rustix::io::Result<()> {
        let done = match self {
            XattrTarget::Fd(fd) => rustix::fs::fremovexattr(fd, name),
            XattrTarget::Path(path, true) => rustix::fs::removexattr(path, name),
            XattrTarget::Path(path, false) => rustix::fs::lremovexattr(path, name),
        };
        match done {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
            done => done,
        }
    }

    /// Names of the kinds that are wanted. One call where there are none; a file system without them has none.
    fn names(self, want: MetaMask, privileged: bool) -> rustix::io::Result<Vec<Box<[u8]>>> {
        let mut small = [0u8; 1024];
        let mut large = Vec::new();
        let list: &[u8] = match self.list(&mut small) {
            Ok(length) => &small[..length],
            Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
            Err(Errno::RANGE) => {
                large.resize(MOST, 0);
                let length = self.list(&mut large)?;
                &large[..length]
            }
            Err(errno) => return Err(errno),
        };
        let wanted = |name: &&[u8]| !name.is_empty() && class(name, privileged).is_some_and(|class| want.has(class));
        Ok(list.split(|byte| *byte == 0).filter(wanted).map(Box::from).collect())
    }

    /// Attributes of the kinds that are wanted, in the order of their names.
    pub fn read(self, want: MetaMask, privileged: bool) -> rustix::io::Result<Xattrs> {
        let mut names = self.names(want, privileged)?;
        names.sort();
        let mut found = Xattrs::with_capacity(names.len());
        for name in names {
            let mut small = [0u8; 1024];
            match self.get(&name, &mut small) {
                Ok(length) => found.push((name, small[..length].into())),
                Err(Errno::RANGE) => {
                    let mut large = vec![0; MOST];
                    let length = self.get(&name, &mut large)?;
                    large.truncate(length);
                    found.push((name, large.into()));
                }
                Err(Errno::NODATA) => {} // removed since it was listed
                Err(errno) => return Err(errno),
            }
        }
        Ok(found)
    }
}

/// The result of setting extended attributes.
#[derive(Default)]
pub(super) struct Set {
    pub refused: MetaMask,
    /// An access ACL was set or removed: the permission bits may no longer be what they were.
    pub access_changed: bool,
    /// A directory has a default ACL now that it may not have had.
    pub default_set: bool,
}

/// Makes the kinds in `keep` as they are in `theirs`; what they lack is removed unless `fresh`, which says that
/// there is nothing to remove. What the file system refuses is in the answer.
pub(super) fn make_like(
    inode: XattrTarget<'_>,
    theirs: &Xattrs,
    keep: MetaMask,
    fresh: bool,
    dir: bool,
    privileged: bool,
) -> rustix::io::Result<Set> {
    let mut set = Set::default();
    if !fresh && keep.any(MetaMask::XATTR) {
        for name in inode.names(MetaMask::XATTR, privileged)? {
            if theirs.binary_search_by(|(known, _)| known.cmp(&name)).is_err() {
                refusable(inode.remove(&name), MetaMask::XATTR, &mut set.refused)?;
            }
        }
    }
    let mut access = false;
    let mut default = false;
    for (name, value) in theirs {
        let Some(class) = class(name, privileged).filter(|class| keep.has(*class)) else { continue };
        if !dir && **name == *DEFAULT_ACL {
            continue;
        }
        let done = refusable(inode.set(name, value), class, &mut set.refused)?;
        access |= **name == *ACCESS_ACL;
        default |= **name == *DEFAULT_ACL && done;
    }
    if keep.has(MetaMask::ACL) {
        set.access_changed = access || !fresh;
        set.default_set = default;
        if !access && !fresh {
            refusable(inode.remove(ACCESS_ACL), MetaMask::ACL, &mut set.refused)?;
        }
        if !default && !fresh && dir {
            refusable(inode.remove(DEFAULT_ACL), MetaMask::ACL, &mut set.refused)?;
        }
    }
    Ok(set)
}

/// True if it was done; a refusal is noted; what is neither is an error. ENOSPC is a refusal too: ext4 says
/// so when an attribute does not fit beside an inode, whatever room the disk has, and a disk that is
/// really full says it again at the next write.
fn refusable(done: rustix::io::Result<()>, class: MetaMask, refused: &mut MetaMask) -> rustix::io::Result<bool> {
    match done {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS | Errno::NOSPC | Errno::TOOBIG | Errno::INVAL | Errno::RANGE) => {
            *refused = refused.with(class);
            Ok(false)
        }
        Err(errno) => Err(errno),
    }
}

/// Convenience for what is open for reading or writing.
pub(super) fn read_fd(fd: impl AsFd, want: MetaMask, privileged: bool) -> rustix::io::Result<Xattrs> {
    XattrTarget::Fd(fd.as_fd()).read(want, privileged)
}
