//! Everything about names that is not the content of a file: directories, nodes, links, removal, attributes.

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{MetaSpec, WriteOutcome};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, linkat, mkdirat, mknodat, openat, renameat, renameat_with, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::sync::atomic::Ordering;

use super::bundle::{SYNC_EACH, sync_each_file_system};
use super::dirs::{Handle, leaf_of};
use super::facts::{look, look_at};
use super::meta::{self, Now, Target};
use super::sink::{directory_there, put_in_place};
use super::source::{changed, open_file};
use super::xattr::{ACCESS_ACL, DEFAULT_ACL};
use super::{Shared, fail};
use rustix::fd::AsFd;

impl Shared {
    pub(super) fn make_dir(&self, dir: &Dir, mode: u32) -> Result<bool> {
        let Some(parent) = dir.parent() else { return Ok(false) };
        let leaf = leaf_of(dir.leaf(), "make directory")?;
        let handle = self.dirs.get(parent)?;
        let inherits = self.inherits_acl(&handle);
        let wanted = self.rules.new_dir_mode(mode, inherits);
        // Whom an inherited ACL names gets in only as far as the group's bits go.
        let made = mkdirat(&*handle, leaf, Mode::from_raw_mode(if inherits.is_some() { 0o700 } else { wanted }));
        match made {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                let there = look(&*handle, leaf, false).map_err(|e| fail(e, "stat"))?;
                return match there.kind {
                    Kind::Dir => Ok(false),
                    Kind::Link if self.dirs.leads_to_dir(dir) => Ok(false),
                    kind => Err(Error::new(ErrorKind::Exists, "make directory").because(format!("a {} has this name", kind.word()))),
                };
            }
            Err(e) => return Err(fail(e, "make directory")),
        }
        if inherits.is_some() || wanted & self.rules.umask != 0 {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            // A mask of 0777 leaves a directory that its owner cannot open: then by the path of an O_PATH descriptor.
            let opened = openat(&*handle, leaf, flags, Mode::empty());
            let target = match &opened {
                Ok(fd) => Target::Open(fd.as_fd()),
                Err(_) => Target::named(&*handle, leaf).map_err(|e| fail(e, "open"))?,
            };
            let facts = target.facts().map_err(|e| fail(e, "stat"))?;
            if facts.kind != Kind::Dir {
                return Err(changed("make directory", "it was replaced while it was being created"));
            }
            if inherits.is_some() && self.rules.keep_acls {
                target
                    .inode()
                    .remove(DEFAULT_ACL)
                    .and_then(|()| target.inode().remove(ACCESS_ACL))
                    .map_err(|e| fail(e, "remove inherited ACL"))?;
            }
            target.chmod(wanted | facts.mode & 0o2000).map_err(|e| fail(e, "set mode"))?;
        }
        Ok(true)
    }

    pub(super) fn make_node(&self, name: &Name, entry: &Entry, keep: MetaMask) -> Result<WriteOutcome> {
        let leaf = leaf_of(&name.leaf, "create")?;
        let handle = self.dirs.get(&name.dir)?;
        let make = |leaf: &[u8]| match (entry.kind, &entry.target) {
            (Kind::Link, Some(target)) => symlinkat(&**target, &*handle, leaf),
            (kind, _) => match node_type(kind) {
                Some(kind) => mknodat(&*handle, leaf, kind, Mode::from_raw_mode(0o600), entry.rdev),
                None => Err(Errno::INVAL),
            },
        };
        let made = match make(leaf) {
            Err(Errno::EXIST) => {
                if look(&*handle, leaf, false).is_ok_and(|there| there.kind == Kind::Dir) {
                    return Err(Error::new(ErrorKind::Exists, "create").because("a directory has this name"));
                }
                let staging = self.staging_leaf(leaf, entry.stamp());
                let again = match make(&staging) {
                    Err(Errno::EXIST) => unlinkat(&*handle, &staging[..], AtFlags::empty()).and_then(|()| make(&staging)),
                    made => made,
                };
                again.map(|()| Some(staging))
            }
            made => made.map(|()| None),
        };
        let staging = made.map_err(|e| match e {
            Errno::PERM | Errno::INVAL => {
                fail(e, "create").because(format!("this user or this file system cannot create a {} here", entry.kind.word()))
            }
            e => fail(e, "create"),
        })?;
        let at = staging.as_deref().unwrap_or(leaf);
        let set = self.dress_node(&handle, at, entry, keep).and_then(|landed| {
            staging.as_ref().map_or(Ok(()), |staging| put_in_place(&handle, staging, leaf))?;
            Ok(landed)
        });
        if set.is_err() {
            // The first error counts.
            let _ = unlinkat(&*handle, at, AtFlags::empty());
        }
        set
    }

    fn dress_node(&self, handle: &Handle, leaf: &[u8], entry: &Entry, keep: MetaMask) -> Result<WriteOutcome> {
        let target = Target::named(handle, leaf).map_err(|e| fail(e, "open"))?;
        let facts = target.facts().map_err(|e| fail(e, "stat"))?;
        if facts.kind != entry.kind {
            return Err(changed("create", "it was replaced while it was being created"));
        }
        let inherits = self.inherits_acl(handle).filter(|_| entry.kind != Kind::Link);
        let otherwise = self.rules.new_mode(entry, keep, inherits);
        let now = Now { facts: Some(facts), mode: facts.mode, otherwise, fresh: true, inherited: inherits.is_some() };
        meta::set(&target, entry, keep, now, &self.rules).map(|(landed, _)| landed)
    }

    pub(super) fn make_hard_link(&self, name: &Name, existing: &Name) -> Result<()> {
        self.link_from(self, name, existing)
    }

    /// `existing` is a name of the other root.
    pub(super) fn link_from(&self, other: &Shared, name: &Name, existing: &Name) -> Result<()> {
        let leaf = leaf_of(&name.leaf, "link")?;
        let source_leaf = leaf_of(&existing.leaf, "link")?;
        let source = other.dirs.get(&existing.dir)?;
        let handle = self.dirs.get(&name.dir)?;
        let refused = |e: Errno| match e {
            Errno::MLINK => fail(e, "link").kind_is(ErrorKind::Unsupported),
            Errno::XDEV => fail(e, "link").kind_is(ErrorKind::Unsupported).because("the two names are on different file systems"),
            e => fail(e, "link"),
        };
        match linkat(&*source, source_leaf, &*handle, leaf, AtFlags::empty()) {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST) => {}
            Err(e) => return Err(refused(e)),
        }
        let wanted = look(&*source, source_leaf, false).map_err(|e| fail(e, "stat"))?;
        if let Ok(there) = look(&*handle, leaf, false) {
            if there.kind == Kind::Dir {
                return Err(directory_there());
            }
            // Two names of one file: rename would do nothing and leave the staging name behind.
            if (there.ino, there.dev) == (wanted.ino, wanted.dev) {
                return Ok(());
            }
        }
        let staging = self.staging_leaf(leaf, wanted.stamp());
        let link = || linkat(&*source, source_leaf, &*handle, &staging[..], AtFlags::empty());
        match link() {
            Err(Errno::EXIST) => unlinkat(&*handle, &staging[..], AtFlags::empty()).and_then(|()| link()),
            made => made,
        }
        .map_err(refused)?;
        let named = put_in_place(&handle, &staging, leaf);
        // If another made the same link meanwhile the staging name is still there.
        // It is usually gone.
        let _ = unlinkat(&*handle, &staging[..], AtFlags::empty());
        named
    }

    pub(super) fn set_meta(&self, spec: &MetaSpec<'_>) -> Result<WriteOutcome> {
        let MetaSpec { name, entry, keep } = *spec;
        let handle = self.dirs.get(&name.dir)?;
        if !name.leaf.is_empty() {
            leaf_of(&name.leaf, "open")?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match entry.kind {
            Kind::Dir if name.leaf.is_empty() => openat(&*handle, c".", flags, Mode::empty()).ok(),
            Kind::Dir => openat(&*handle, &*name.leaf, flags, Mode::empty()).ok(),
            _ => None,
        };
        let through_link; // -K
        let target = match &opened {
            Some(fd) => Target::Open(fd.as_fd()),
            None => match Target::named(&*handle, &name.leaf).map_err(|e| fail(e, "open"))? {
                _ if entry.kind == Kind::Dir && self.dirs.leads_to_dir(&name.dir.child(&name.leaf)) => {
                    through_link = self.dirs.get(&name.dir.child(&name.leaf))?;
                    Target::Open(through_link.as_fd())
                }
                named => named,
            },
        };
        let facts = target.facts().map_err(|e| fail(e, "stat"))?;
        if facts.kind != entry.kind {
            return Err(changed("set attributes", "its type has changed"));
        }
        let (landed, default_set) = meta::set(&target, entry, keep, Now::found(facts), &self.rules)?;
        if default_set {
            self.acl_epoch.fetch_add(1, Ordering::Relaxed);
        }
        Ok(landed)
    }

    pub(super) fn remove(&self, entry: &Entry) -> Result<()> {
        let name = &entry.name;
        let leaf = leaf_of(&name.leaf, "remove")?;
        let handle = self.dirs.get(&name.dir)?;
        let mut kind = entry.kind;
        if entry.ino != 0 || kind == Kind::Unknown {
            let there = look(&*handle, leaf, false).map_err(|e| fail(e, "stat"))?;
            let other_kind = kind != Kind::Unknown && there.kind != kind;
            if (entry.ino != 0 && there.ino != entry.ino) || other_kind {
                return Err(changed("remove", "something else has this name now; it was kept"));
            }
            kind = there.kind;
        }
        let flags = if kind == Kind::Dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        unlinkat(&*handle, leaf, flags).map_err(|e| match e {
            Errno::ISDIR | Errno::NOTDIR => changed("remove", "something else has this name now; it was kept"),
            e => fail(e, "remove"),
        })
    }

    pub(super) fn rename(&self, from: &Name, to: &Name, replace: bool) -> Result<()> {
        let (from_leaf, to_leaf) = (leaf_of(&from.leaf, "rename")?, leaf_of(&to.leaf, "rename")?);
        let (source, target) = (self.dirs.get(&from.dir)?, self.dirs.get(&to.dir)?);
        if replace {
            // rename(2) would put a directory in the place of an empty one.
            if look(&*target, to_leaf, false).is_ok_and(|there| there.kind == Kind::Dir) {
                return Err(directory_there());
            }
            return renameat(&*source, from_leaf, &*target, to_leaf).map_err(|e| fail(e, "rename"));
        }
        rename_new(&source, from_leaf, &target, to_leaf).map_err(|e| fail(e, "rename"))
    }

    pub(super) fn take_over(&self, other: &Shared, from: &Name, to: &Name) -> Result<()> {
        let (from_leaf, to_leaf) = (leaf_of(&from.leaf, "rename")?, leaf_of(&to.leaf, "rename")?);
        let (source, target) = (other.dirs.get(&from.dir)?, self.dirs.get(&to.dir)?);
        rename_new(&source, from_leaf, &target, to_leaf).map_err(|e| match e {
            Errno::XDEV | Errno::BUSY => fail(e, "rename").kind_is(ErrorKind::Unsupported),
            e => fail(e, "rename"),
        })
    }

    /// Few files are synced one by one, with their directories; many by one `syncfs`.
    pub(super) fn sync(&self, names: &[&Name]) -> Result<()> {
        let mut handles: Vec<(u64, &Name, std::sync::Arc<Handle>)> = Vec::new();
        for name in names {
            if !handles.iter().rev().any(|(id, ..)| *id == name.dir.id()) {
                handles.push((name.dir.id(), name, self.dirs.get(&name.dir)?));
            }
        }
        let Some((_, first, _)) = handles.first() else { return Ok(()) };
        if names.len() > SYNC_EACH {
            return sync_each_file_system(handles.iter().map(|(.., handle)| &**handle)).map_err(|e| fail(e, "sync").on(first));
        }
        for name in names {
            let handle = self.dirs.get(&name.dir)?;
            let sync = || {
                let fd = open_file(&handle, leaf_of(&name.leaf, "sync")?, false)?;
                match look_at(&fd).map_err(|e| fail(e, "stat"))?.kind {
                    Kind::File | Kind::Dir => rustix::fs::fsync(&fd).map_err(|e| fail(e, "sync")),
                    _ => Ok(()),
                }
            };
            match sync() {
                // A link has nothing but its name.
                Err(e) if e.kind() == ErrorKind::Changed => {}
                synced => synced.map_err(|e| e.on(name))?,
            }
        }
        handles
            .iter()
            .filter(|(.., handle)| !handle.path_only)
            .try_for_each(|(_, name, handle)| rustix::fs::fsync(&**handle).map_err(|e| fail(e, "sync directory").on(name)))
    }
}

fn node_type(kind: Kind) -> Option<FileType> {
    match kind {
        Kind::Fifo => Some(FileType::Fifo),
        Kind::Socket => Some(FileType::Socket),
        Kind::Char => Some(FileType::CharacterDevice),
        Kind::Block => Some(FileType::BlockDevice),
        _ => None,
    }
}

/// Renames to a name that nothing may have.
fn rename_new(source: &Handle, from_leaf: &[u8], target: &Handle, to_leaf: &[u8]) -> rustix::io::Result<()> {
    match renameat_with(source, from_leaf, target, to_leaf, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        renamed => return renamed,
    }
    // Without renameat2: a link fails if the name is taken; what cannot be linked is checked and renamed.
    match linkat(source, from_leaf, target, to_leaf, AtFlags::empty()) {
        Ok(()) => unlinkat(source, from_leaf, AtFlags::empty()),
        Err(e @ (Errno::EXIST | Errno::XDEV | Errno::NOENT)) => Err(e),
        Err(_) if look(target, to_leaf, false).is_ok() => Err(Errno::EXIST),
        Err(_) => renameat(source, from_leaf, target, to_leaf),
    }
}
