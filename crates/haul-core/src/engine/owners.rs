//! Owners between machines: by name, as rsync does, and by number where a name is not known at both ends.
//!
//! | source | destination | becomes |
//! |---|---|---|
//! | 0 | | 0 |
//! | has a name | knows it | the number of that name there |
//! | has a name | does not | the same number; setuid and setgid bits are left out, for it may be somebody else's |
//! | has no name | has no name for it either | the same number |
//! | has no name | has a name for it | the same number, without setuid and setgid bits |

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::bundle::Item;
use crate::entry::{Entry, Kind, MetaMask};
use crate::error::{ErrorKind, Result};
use crate::event::Warning;
use crate::job::Job;
use crate::store::Who;

use super::context::Context;

/// A number that no file has: to chown(2) it means "as it is".
const NOBODY: u32 = u32::MAX;

/// What an owner of the source is at the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapped {
    id: u32,
    /// It is the same user or group, as far as anybody can tell.
    sure: bool,
}

/// Which roots are on other machines than the destination, and what was found out of their owners.
#[derive(Debug, Default)]
pub struct Owners {
    foreign: Vec<bool>,
    known: Mutex<HashMap<(usize, Who, u32), Mapped>>,
    warned: AtomicBool,
}

impl Owners {
    pub fn of(job: &Job) -> Owners {
        let kept = job.keep.any(MetaMask::OWNER.with(MetaMask::GROUP).with(MetaMask::SETID));
        let there = job.target.place();
        let is_foreign = |scheme: &str, endpoint: &str| (scheme, endpoint) != (there.scheme, &*there.endpoint);
        let foreign = job.roots.iter().map(|root| {
            let here = root.store.place();
            kept && !job.numeric_ids && is_foreign(here.scheme, &here.endpoint)
        });
        Owners { foreign: foreign.collect(), ..Owners::default() }
    }

    fn maps(&self, root: usize) -> bool {
        self.foreign.get(root).is_some_and(|foreign| *foreign)
    }
}

impl Context {
    /// Gives an entry of a source the owner and group that it is to have at the destination. Not twice: a number that was
    /// mapped is the destination's.
    pub(super) fn map_owner(&self, root: usize, entry: &mut Entry) {
        if !self.owners.maps(root) {
            return;
        }
        let mut sure = [true; 2];
        for (sure, (who, class)) in sure.iter_mut().zip([(Who::User, MetaMask::OWNER), (Who::Group, MetaMask::GROUP)]) {
            if entry.have.has(class) {
                let id = if who == Who::User { &mut entry.uid } else { &mut entry.gid };
                let mapped = self.mapped(root, who, *id);
                (*id, *sure) = (mapped.id, mapped.sure);
            }
        }
        let [user, group] = sure;
        let group = group && (user || entry.kind == Kind::Dir);
        let doubtful = (if user { 0 } else { 0o4000 }) | (if group { 0 } else { 0o2000 });
        if entry.kind != Kind::Link && entry.mode & doubtful != 0 {
            entry.mode &= !doubtful;
            if self.job.keep.has(MetaMask::SETID) && !self.owners.warned.swap(true, Ordering::Relaxed) {
                self.warn(Warning::Note(format!(
                    "setuid and setgid bits are left out where the owner has not the same name at both ends, first of {}; \
                     --numeric-ids keeps owners and bits by number",
                    crate::entry::show(&entry.name.path())
                )));
            }
        }
    }

    fn mapped(&self, root: usize, who: Who, id: u32) -> Mapped {
        if id == 0 {
            return Mapped { id, sure: true };
        }
        // One asks, the others wait for the answer.
        let mut known = self.owners.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mapped) = known.get(&(root, who, id)) {
            return *mapped;
        }
        match self.look_up_owner(root, who, id) {
            Ok(mapped) => {
                known.insert((root, who, id), mapped);
                mapped
            }
            // The connection is gone, and the run with it.
            Err(_) => Mapped { id, sure: false },
        }
    }

    fn look_up_owner(&self, root: usize, who: Who, id: u32) -> Result<Mapped> {
        let (source, target) = (&self.job.roots[root].store, self.target());
        let ask = || {
            Ok(match source.owner_name(who, id)? {
                Some(name) => match target.owner_id(who, &name)? {
                    Some(id) => Mapped { id, sure: true },
                    None => Mapped { id, sure: false },
                },
                None => Mapped { id, sure: target.owner_name(who, id)?.is_none() },
            })
        };
        match self.retry(ask) {
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(Mapped { id, sure: false }),
            answer => answer,
        }
    }

    /// Before a bundle is read: what is read anew has the source's numbers again, what is not has those of the destination.
    pub(super) fn begin_owners(&self, root: usize, items: &mut [Item]) -> Vec<(u32, u32)> {
        if !self.owners.maps(root) {
            return Vec::new();
        }
        let take = |item: &mut Item| (std::mem::replace(&mut item.entry.uid, NOBODY), std::mem::replace(&mut item.entry.gid, NOBODY));
        items.iter_mut().map(take).collect()
    }

    /// After it was read, for each item in the order of `before`; `true` if its owner is mapped already.
    pub(super) fn end_owners(before: Option<&(u32, u32)>, entry: &mut Entry) -> bool {
        match before {
            Some(before) if (entry.uid, entry.gid) == (NOBODY, NOBODY) => {
                (entry.uid, entry.gid) = *before;
                true
            }
            _ => false,
        }
    }
}
