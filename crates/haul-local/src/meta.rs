//! Sets attributes in the order in which none undoes another: owner (which clears setuid bits and capabilities), extended
//! attributes, ACLs, mode, times.

use haul_core::entry::{Entry, Kind, MetaMask};
use haul_core::error::Result;
use haul_core::store::WriteOutcome;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid};
use rustix::io::Errno;

use super::dirs::Inherited;
use super::facts::{Facts, look_at};
use super::fail;
use super::xattr::{self, XattrTarget};

/// Something whose attributes can be set: open for reading or writing, or only named by an `O_PATH` descriptor.
pub(super) enum Target<'a> {
    Open(BorrowedFd<'a>),
    /// With its path of `xattr::proc_path`, through which calls reach just this inode.
    Named(OwnedFd, Vec<u8>),
}

impl<'a> Target<'a> {
    /// Pins what has a leaf without opening it, a device or a fifo included.
    pub fn named(dir: impl AsFd, leaf: &[u8]) -> rustix::io::Result<Target<'static>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = if leaf.is_empty() {
            rustix::fs::openat(dir, c".", flags, Mode::empty())?
        } else {
            rustix::fs::openat(dir, leaf, flags, Mode::empty())?
        };
        let path = xattr::proc_path(fd.as_fd());
        Ok(Target::Named(fd, path))
    }

    pub fn facts(&self) -> rustix::io::Result<Facts> {
        match self {
            Target::Open(fd) => look_at(fd),
            Target::Named(fd, _) => look_at(fd),
        }
    }

    pub fn inode(&self) -> XattrTarget<'_> {
        match self {
            Target::Open(fd) => XattrTarget::Fd(*fd),
            Target::Named(_, path) => XattrTarget::Path(path, true),
        }
    }

    fn chown(&self, uid: Option<u32>, gid: Option<u32>) -> rustix::io::Result<()> {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        match self {
            Target::Open(fd) => rustix::fs::fchown(fd, uid, gid),
            Target::Named(fd, _) => rustix::fs::chownat(fd, c"", uid, gid, AtFlags::EMPTY_PATH),
        }
    }

    pub fn chmod(&self, mode: u32) -> rustix::io::Result<()> {
        let mode = Mode::from_raw_mode(mode);
        match self {
            Target::Open(fd) => rustix::fs::fchmod(fd, mode),
            Target::Named(_, path) => rustix::fs::chmodat(CWD, &path[..], mode, AtFlags::empty()),
        }
    }

    fn set_mtime(&self, entry: &Entry) -> rustix::io::Result<()> {
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ },
            last_modification: Timespec { tv_sec: entry.mtime.secs, tv_nsec: entry.mtime.nanos.min(999_999_999).into() },
        };
        match self {
            Target::Open(fd) => rustix::fs::futimens(fd, &times),
            Target::Named(_, path) => rustix::fs::utimensat(CWD, &path[..], &times, AtFlags::empty()),
        }
    }
}

/// The state of a target before its attributes are set.
#[derive(Clone, Copy)]
pub(super) struct Now {
    pub facts: Option<Facts>,
    /// The permission bits of a target: setuid and setgid only with the owner or group of the source, and a directory keeps its
    /// inherited setgid bit unless the group was set too.
    pub mode: u32,
    /// The permission bits that it gets where the mode is not kept.
    pub otherwise: u32,
    /// Just made by us: no extended attributes of its own.
    pub fresh: bool,
    /// Just made in a directory with a default ACL: it has one like it, which stays unless ACLs are kept.
    pub inherited: bool,
}

impl Now {
    pub fn found(facts: Facts) -> Self {
        Now { facts: Some(facts), mode: facts.mode, otherwise: facts.mode, fresh: false, inherited: false }
    }
}

/// Rules of the whole store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// A FUSE file system, some of which answer ENOSYS or EIO where they cannot set an attribute.
    pub fuse: bool,
    /// Root: may keep owners, `trusted.*` and capabilities.
    pub privileged: bool,
    /// The process's own file mode creation mask.
    pub umask: u32,
    /// The mask of new files whose mode is not kept.
    pub user_umask: u32,
    /// The mask of new directories.
    pub dir_umask: u32,
    /// ACLs are kept.
    pub keep_acls: bool,
}

impl Rules {
    /// What an error says was refused of mode or times; `None` for a failure.
    fn refusal(&self, errno: Errno, attribute: MetaMask) -> Option<MetaMask> {
        match errno {
            Errno::PERM | Errno::ACCESS if !attribute.is_empty() => Some(attribute.with(MetaMask::DENIED)),
            Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP => Some(attribute),
            Errno::NOSYS | Errno::IO if self.fuse => Some(attribute),
            _ => None,
        }
    }

    /// The permission bits of a new file. A default ACL takes the place of the mask, as with open(2).
    pub fn new_mode(&self, entry: &Entry, keep: MetaMask, inherits: Option<Inherited>) -> u32 {
        let known = entry.have.has(MetaMask::MODE);
        let masked = match inherits.filter(|_| !keep.has(MetaMask::ACL)) {
            Some(Inherited::Mode(bits)) => bits,
            _ => 0o777 & !self.user_umask,
        };
        match (known && keep.has(MetaMask::MODE), known) {
            (true, _) => entry.mode & 0o777,
            (_, true) => entry.mode & masked,
            _ => 0o666 & masked,
        }
    }

    /// The mode of a new directory, which stays usable. Until its ACL is known nobody else may enter; where modes are kept its own
    /// comes at the end.
    pub fn new_dir_mode(&self, mode: u32, inherits: Option<Inherited>) -> u32 {
        let masked = match inherits.filter(|_| !self.keep_acls) {
            Some(_) if self.dir_umask == 0 => 0,
            Some(Inherited::Mode(bits)) => bits,
            _ => 0o777 & !self.dir_umask,
        };
        mode & masked | 0o700
    }

    /// The mode to create with: nobody may enter before owner, group and ACL are set. A group with no more rights than everybody
    /// gains nothing.
    pub fn creation_mode(&self, wanted: u32, entry: &Entry, keep: MetaMask, inherits: bool) -> u32 {
        let group_gains = (wanted >> 3) & !wanted & 0o7 != 0;
        let owner_changes = keep.any(MetaMask::OWNER.with(MetaMask::GROUP));
        let xattrs = keep.any(xattr::ALL) && entry.xattrs.as_ref().is_some_and(|theirs| !theirs.is_empty());
        if inherits || xattrs || (owner_changes && group_gains) { 0o600 } else { wanted }
    }
}

/// Sets those attributes in `keep` that `entry` has. Returns what the system refused, and whether a directory got a default ACL.
pub(super) fn set(target: &Target<'_>, entry: &Entry, keep: MetaMask, now: Now, rules: &Rules) -> Result<(WriteOutcome, bool)> {
    let keep = keep.and(entry.have.with(MetaMask::SETID).with(xattr::ALL));
    let mut refused = MetaMask::NONE;
    let mut facts = now.facts;
    let mut mode_is_known = true;

    let owners = keep.and(MetaMask::OWNER.with(MetaMask::GROUP));
    let link = entry.kind == Kind::Link;
    let special_bits = keep.has(MetaMask::SETID) && entry.mode & 0o6000 != 0;
    if facts.is_none() && (!owners.is_empty() || special_bits) {
        facts = Some(target.facts().map_err(|e| fail(e, "stat"))?);
    }
    if let Some(facts) = facts.as_mut().filter(|_| !owners.is_empty()) {
        mode_is_known = !set_owner(target, entry, owners, facts, rules, &mut refused).map_err(|e| fail(e, "set owner"))?;
    }

    let mut default_set = false;
    if now.inherited {
        if keep.has(MetaMask::ACL) {
            target.inode().remove(xattr::ACCESS_ACL).map_err(|e| fail(e, "remove inherited ACL"))?;
        }
        // The ACL may have taken something from the mode that it was made with.
        mode_is_known = false;
    }
    if let Some(theirs) = entry.xattrs.as_ref().filter(|theirs| keep.any(xattr::ALL) && !(now.fresh && theirs.is_empty())) {
        // The owner of a file needs the permission to write it to set `user.*` on it.
        if !now.fresh && !rules.privileged && !link && now.mode & 0o200 == 0 {
            mode_is_known &= target.chmod(now.mode | 0o200).is_err();
        }
        let set = xattr::make_like(target.inode(), theirs, keep, now.fresh, entry.kind == Kind::Dir, rules.privileged)
            .map_err(|e| fail(e, "set extended attributes"))?;
        refused = refused.with(set.refused);
        mode_is_known &= !set.access_changed;
        default_set = set.default_set;
    }

    if !link {
        let wanted = wanted_mode(entry, keep, &now, facts.as_ref(), &mut refused);
        if (!mode_is_known || wanted != now.mode)
            && let Err(errno) = target.chmod(wanted)
        {
            refused = refused.with(rules.refusal(errno, keep.and(MetaMask::MODE)).ok_or_else(|| fail(errno, "set mode"))?);
        }
    }
    if keep.has(MetaMask::MTIME)
        && let Err(errno) = target.set_mtime(entry)
    {
        refused = refused.with(rules.refusal(errno, MetaMask::MTIME).ok_or_else(|| fail(errno, "set times"))?);
    }
    Ok((WriteOutcome { refused, ino: facts.map_or(0, |facts| facts.ino) }, default_set))
}

/// Gives owner and group as far as we may; true if anything was changed. `facts` says afterwards what is so.
fn set_owner(
    target: &Target<'_>,
    entry: &Entry,
    owners: MetaMask,
    facts: &mut Facts,
    rules: &Rules,
    refused: &mut MetaMask,
) -> rustix::io::Result<bool> {
    let uid = (owners.has(MetaMask::OWNER) && facts.uid != entry.uid).then_some(entry.uid);
    let gid = (owners.has(MetaMask::GROUP) && facts.gid != entry.gid).then_some(entry.gid);
    if uid.is_none() && gid.is_none() {
        return Ok(false);
    }
    let refusal = |errno: &Errno| *errno == Errno::INVAL || rules.refusal(*errno, MetaMask::NONE).is_some();
    match target.chown(uid, gid) {
        Ok(()) => {
            facts.uid = uid.unwrap_or(facts.uid);
            facts.gid = gid.unwrap_or(facts.gid);
            return Ok(true);
        }
        Err(errno) if refusal(&errno) => {}
        Err(errno) => return Err(errno),
    }
    // Not both at once: a user may still give a file to another of the user's groups.
    if let (Some(_), Some(gid)) = (uid, gid) {
        *refused = refused.with(MetaMask::OWNER);
        match target.chown(None, Some(gid)) {
            Ok(()) => {
                facts.gid = gid;
                return Ok(true);
            }
            Err(errno) if refusal(&errno) => *refused = refused.with(MetaMask::GROUP),
            Err(errno) => return Err(errno),
        }
    } else {
        *refused = refused.with(if uid.is_some() { MetaMask::OWNER } else { MetaMask::GROUP });
    }
    Ok(false)
}

/// The permission bits that a target is to have: setuid and setgid only where the ownership they speak of is the
/// source's, and a directory keeps the setgid bit that it inherited where the group was to be kept and could not.
fn wanted_mode(entry: &Entry, keep: MetaMask, now: &Now, facts: Option<&Facts>, refused: &mut MetaMask) -> u32 {
    let dir = entry.kind == Kind::Dir;
    if !keep.has(MetaMask::MODE) {
        return now.otherwise & if dir || !now.fresh { 0o7777 } else { 0o777 };
    }
    let bits = entry.mode & if dir { 0o1777 } else { 0o777 };
    let inherited = if dir { now.mode & 0o2000 } else { 0 };
    if !keep.has(MetaMask::SETID) {
        return bits | inherited;
    }
    let same_user = facts.is_some_and(|facts| facts.uid == entry.uid);
    let same_group = facts.is_some_and(|facts| facts.gid == entry.gid);
    let setuid = if same_user { entry.mode & 0o4000 } else { 0 };
    let setgid = match dir {
        // Without the group the bit says only that new files take that of the directory.
        true if same_group || !keep.has(MetaMask::GROUP) => entry.mode & 0o2000,
        true => inherited,
        false if same_user && same_group => entry.mode & 0o2000,
        false => 0,
    };
    let bits = bits | setuid | setgid | (entry.mode & 0o1000);
    if entry.mode & 0o6000 & !bits != 0 {
        *refused = refused.with(MetaMask::SETID);
    }
    bits
}
