//! Everything a policy means, decided in one place and without looking at a disk: two entries in, one step out.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::entry::{Entry, Kind, MetaMask, OwnerNames, Time, TimeRange};
use crate::event::{Action, Why};

/// When are two files the same?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compare {
    SizeAndTime,
    /// Sizes alone.
    Size,
    /// Sizes, then content.
    Content,
    /// Everything is copied.
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    pub compare: Compare,
    /// Times closer than this are the same.
    pub window: Duration,
    /// Leave files that are newer at the destination.
    pub update: bool,
    /// Make nothing new.
    pub existing: bool,
    /// Touch nothing that is there.
    pub ignore_existing: bool,
    /// Something of another kind gives way.
    pub force: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Policy::DEFAULT
    }
}

impl Policy {
    pub const DEFAULT: Policy = Policy {
        compare: Compare::SizeAndTime,
        window: Duration::ZERO,
        update: false,
        existing: false,
        ignore_existing: false,
        force: false,
    };

    /// Whether a small new file may be created in place: only where a rerun recognizes a torn one by size and time.
    pub fn allows_direct(&self) -> bool {
        self.compare == Compare::SizeAndTime && !self.update && !self.existing && !self.ignore_existing
    }
}

/// What to do with one name of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub act: Act,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Make a directory, or go into one that is there; then what is in it.
    Enter {
        exists: bool,
        attributes: bool,
    },
    /// Move the content.
    File {
        replace: bool,
    },
    /// Hash both sides, then decide.
    Compare,
    /// Symlink or special file.
    Node {
        replace: bool,
    },
    /// Content is right, these attributes are not.
    SetMeta,
    Keep,
    /// Something of another kind is in the way: remove it, then as if nothing had been there.
    Clear,
    /// A non-empty directory or a type clash that must not be resolved.
    Refuse,
}

impl Step {
    pub fn action(&self, kind: Kind) -> Action {
        match (self.act, kind) {
            (Act::Enter { exists: false, .. }, _) => Action::MakeDir,
            (Act::Enter { attributes: true, .. } | Act::SetMeta, _) => Action::SetMeta,
            (Act::File { replace: false }, _) => Action::Create,
            (Act::File { replace: true } | Act::Compare, _) => Action::Replace,
            (Act::Node { .. }, Kind::Link) => Action::Link,
            (Act::Node { .. }, _) => Action::Special,
            (Act::Clear, _) => Action::Replace,
            _ => Action::Keep,
        }
    }
}

/// The pure planner.
#[derive(Clone, Debug)]
pub struct Planner {
    pub policy: Policy,
    /// The coarser time resolution of the two stores.
    pub resolution: Duration,
    /// The destination stores times in a resolution that nobody knows.
    pub cuts: bool,
    /// The times that both stores can store.
    pub range: TimeRange,
    /// Attributes that are both wanted and keepable; ownership only as far as this user may set it.
    pub keep: MetaMask,
    /// `AttributeCaps::link_sets` of the destination.
    pub link_sets: MetaMask,
    /// `AttributeCaps::groups` of the destination.
    pub groups: Option<Vec<u32>>,
    /// Nothing is set: modes are compared as they are, also bits that could not be.
    pub compares_only: bool,
}

impl Planner {
    pub fn decide(&self, source: &Entry, target: Option<&Entry>) -> Step {
        let step = |act, why| Step { act, why };
        let Some(target) = target else {
            if self.policy.existing {
                return step(Act::Keep, Why::Policy);
            }
            return match source.kind {
                Kind::Dir => step(Act::Enter { exists: false, attributes: true }, Why::New),
                Kind::File | Kind::Unknown => step(Act::File { replace: false }, Why::New),
                _ => step(Act::Node { replace: false }, Why::New),
            };
        };
        match (source.kind, target.kind) {
            (Kind::Dir, Kind::Dir) => {
                let differ = self.differing(source, target);
                let attributes = !differ.is_empty();
                step(Act::Enter { exists: true, attributes }, if attributes { Why::Attributes(differ) } else { Why::Same })
            }
            (Kind::File, Kind::File) => self.decide_file(source, target),
            (s, t) if s == t => {
                if self.policy.ignore_existing {
                    return step(Act::Keep, Why::Policy);
                }
                let same = match s {
                    Kind::Link => source.target == target.target,
                    Kind::Char | Kind::Block => source.rdev == target.rdev,
                    _ => true,
                };
                match self.differing(source, target) {
                    differ if !same => step(Act::Node { replace: true }, Why::Target(differ)),
                    MetaMask::NONE => step(Act::Keep, Why::Same),
                    differ => step(Act::SetMeta, Why::Attributes(differ)),
                }
            }
            _ if self.policy.ignore_existing => step(Act::Keep, Why::Policy),
            // Whether a directory in the way is empty is known only when it is removed.
            (_, Kind::Dir) => step(Act::Clear, Why::Type),
            (Kind::Dir, _) => step(Act::Clear, Why::Type),
            // Somebody put a device or a pipe there to be written to.
            (_, Kind::Char | Kind::Block | Kind::Fifo) => step(Act::Clear, Why::Type),
            (Kind::File, _) => step(Act::File { replace: true }, Why::Type),
            _ => step(Act::Node { replace: true }, Why::Type),
        }
    }

    fn decide_file(&self, source: &Entry, target: &Entry) -> Step {
        let step = |act, why| Step { act, why };
        let replace = Act::File { replace: true };
        if self.policy.ignore_existing {
            return step(Act::Keep, Why::Policy);
        }
        if self.policy.update && target.mtime > source.mtime && !self.same_time(source.mtime, target.mtime) {
            return step(Act::Keep, Why::Newer);
        }
        let sized = source.size == target.size;
        // Where the destination keeps no time of the file's, that of its writing says at least whether the file is younger.
        let timed = match target.have.has(MetaMask::BASIC) && !target.have.has(MetaMask::MTIME) {
            // An equal ETag tells it where the clocks of two services differ.
            true => target.mtime >= source.mtime || (target.version != 0 && target.version == source.version),
            false => self.same_time(source.mtime, target.mtime),
        };
        let differ = self.differing(source, target);
        match self.policy.compare {
            Compare::Never => step(replace, Why::Forced(differ)),
            _ if !sized => step(replace, Why::Size(differ)),
            Compare::Content => step(Act::Compare, Why::Content(differ)),
            Compare::SizeAndTime if !timed => step(replace, Why::Time(differ)),
            _ => match differ {
                MetaMask::NONE => step(Act::Keep, Why::Same),
                differ => step(Act::SetMeta, Why::Attributes(differ)),
            },
        }
    }

    /// Whether the destination's time is the source's, as far as the two can store it. Whole seconds are what `scp -p`, SFTP and rsync to
    /// an old system leave.
    pub fn same_time(&self, source: Time, target: Time) -> bool {
        let [fitting, copy] = [source, target].map(|time| time.within(self.range));
        let whole = target.nanos == 0 && source.secs == target.secs;
        fitting.same(copy, self.resolution, self.policy.window) || whole || (self.cuts && source.is_cut_to(target))
    }

    pub fn attributes_differ(&self, source: &Entry, target: &Entry) -> bool {
        !self.differing(source, target).is_empty()
    }

    /// The attributes that differ, are to be kept and are known of both entries. One that this user could not set does not count,
    /// or every run would try it again.
    pub fn differing(&self, source: &Entry, target: &Entry) -> MetaMask {
        let keep = if source.kind == Kind::Link { self.keep.and(self.link_sets) } else { self.keep };
        let known = keep.and(source.have).and(target.have);
        let takes_group = self.groups.as_ref().is_none_or(|groups| groups.contains(&source.gid));
        let owner = known.has(MetaMask::OWNER) && self.groups.is_none();
        let group = known.has(MetaMask::GROUP) && takes_group;
        // A place that keeps names was written from a machine whose numbers may be others.
        let named = |a: Option<&[u8]>, b: Option<&[u8]>, same: bool| match (a, b) {
            (Some(a), Some(b)) if a != OwnerNames::NONE && b != OwnerNames::NONE => a == b,
            _ => same,
        };
        let same_uid = named(source.user_name(), target.user_name(), source.uid == target.uid);
        let same_gid = named(source.group_name(), target.group_name(), source.gid == target.gid);
        let same_user = owner || same_uid;
        let same_group = group || same_gid;
        let when = |condition: bool, bit: u32| if condition { bit } else { 0 };
        // Where the ownership is not the source's, a file is to have neither bit, whatever it has now.
        let (given, compared) = match (source.kind == Kind::Dir, self.keep.has(MetaMask::SETID)) {
            (true, false) => (0o1777, 0o1777),
            (false, false) => (0o777, 0o777),
            (true, true) => {
                // Without the group the bit goes to whatever group the directory has, which this user may have to be in.
                let settable = self.groups.as_ref().is_none_or(|groups| groups.contains(&target.gid));
                let setgid = if self.keep.has(MetaMask::GROUP) { group } else { settable };
                let bits = 0o1777 | when(same_user, 0o4000) | when(setgid, 0o2000);
                (bits, bits)
            }
            (false, true) if self.compares_only && known.has(MetaMask::SETID) => (0o7777, 0o7777),
            (false, true) => (0o1777 | when(same_user, 0o4000) | when(same_user && same_group, 0o2000), 0o7777),
        };
        let mode = known.has(MetaMask::MODE) && source.kind != Kind::Link && source.mode & given != target.mode & compared;
        let time = known.has(MetaMask::MTIME) && self.policy.compare != Compare::Size && !self.same_time(source.mtime, target.mtime);
        let xattrs = known.any(MetaMask::ACL.with(MetaMask::XATTR))
            && source.xattrs.is_some()
            && target.xattrs.is_some()
            && source.xattrs != target.xattrs;
        let acls = xattrs && !xattrs_of(source, true).eq(xattrs_of(target, true));
        let others = xattrs && (!acls || !xattrs_of(source, false).eq(xattrs_of(target, false)));
        let differ = [
            (time, MetaMask::MTIME),
            (mode, MetaMask::MODE),
            (owner && !same_uid, MetaMask::OWNER),
            (group && !same_gid, MetaMask::GROUP),
            (acls, MetaMask::ACL),
            (others, MetaMask::XATTR),
        ];
        differ.into_iter().filter(|(differs, _)| *differs).fold(MetaMask::NONE, |all, (_, mask)| all.with(mask))
    }
}

/// The extended attributes of an entry that are ACLs, or those that are none.
fn xattrs_of(entry: &Entry, acls: bool) -> impl Iterator<Item = &(Box<[u8]>, Box<[u8]>)> {
    entry.xattrs.iter().flat_map(|xattrs| xattrs.iter()).filter(move |(name, _)| name.starts_with(b"system.") == acls)
}
