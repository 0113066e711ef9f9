//! Owners between machines: by name, as rsync does, and by number where a name is not known at both ends.
//!
//! | source | destination | becomes |
//! |---|---|---|
//! | 0 | | 0 |
//! | has a name | knows it | the number of that name there |
//! | has a name | does not | the same number, without setuid and setgid bits: it may be another user's |
//! | has no name | has no name for it either | the same number |
//! | has no name | has a name for it | the same number, without setuid and setgid bits |
//!
//! The source's name is the one that an entry brings ([`Entry::owners`]: of objects), else the one that the source's machine has
//! for the number. Where the destination keeps names, entries are sent with them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::bundle::Item;
use crate::entry::{Entry, Kind, MetaMask, OwnerNames};
use crate::error::{ErrorKind, Result};
use crate::job::Job;
use crate::store::Who;

use super::tries::retry;

/// Owners that are remembered at the most.
const KNOWN_MOST: usize = 100_000;

/// Owner, group and their names, as an entry had them.
type Before = (u32, u32, Option<Arc<OwnerNames>>);

/// A number that no file has: to chown(2) it means "as it is".
const NOBODY: u32 = u32::MAX;

/// What an owner of the source is at the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapped {
    id: u32,
    /// It is the same user or group, as far as anybody can tell.
    sure: bool,
    /// What the source calls it.
    name: Box<[u8]>,
}

/// Which owner: of which root, the number there, and the name that came with it.
type Asked = (usize, Who, u32, Box<[u8]>);

/// Which roots are on other machines than the destination, and what was found out of their owners.
#[derive(Debug)]
pub struct Owners {
    job: Arc<Job>,
    foreign: Vec<bool>,
    known: Mutex<HashMap<Asked, Mapped>>,
    warned: AtomicBool,
}

impl Owners {
    pub fn of(job: Arc<Job>) -> Owners {
        let kept = job.keep.any(MetaMask::OWNER.with(MetaMask::GROUP).with(MetaMask::SETID));
        let there = job.target.place();
        let is_foreign = |scheme: &str, endpoint: &str| (scheme, endpoint) != (there.scheme, &*there.endpoint);
        let foreign = job.roots.iter().map(|root| {
            let here = root.store.place();
            kept && !job.numeric_ids && is_foreign(here.scheme, &here.endpoint)
        });
        Owners { foreign: foreign.collect(), known: Mutex::default(), warned: AtomicBool::new(false), job: job.clone() }
    }

    fn maps(&self, root: usize) -> bool {
        self.foreign.get(root).is_some_and(|foreign| *foreign)
    }

    /// Maps owner and group of a source's entry to the destination's numbers, once per entry. Returns the first name whose setuid
    /// or setgid bit is left out for that.
    pub fn map(&self, root: usize, entry: &mut Entry) -> Option<Vec<u8>> {
        if !self.maps(root) {
            return None;
        }
        let mut sure = [true; 2];
        let came = entry.owners.take().map_or_else(OwnerNames::default, |names| OwnerNames::clone(&names));
        let mut names = [came.user, came.group];
        for (i, (who, class)) in [(Who::User, MetaMask::OWNER), (Who::Group, MetaMask::GROUP)].into_iter().enumerate() {
            if entry.have.has(class) {
                let id = if who == Who::User { &mut entry.uid } else { &mut entry.gid };
                let mapped = self.mapped((root, who, *id, std::mem::take(&mut names[i])));
                (*id, sure[i], names[i]) = (mapped.id, mapped.sure, mapped.name);
            }
        }
        if self.job.target.caps().attributes.owner_names {
            let [user, group] = names;
            entry.owners = OwnerNames::of(user, group);
        }
        let [user, group] = sure;
        let group = group && (user || entry.kind == Kind::Dir);
        let doubtful = (if user { 0 } else { 0o4000 }) | (if group { 0 } else { 0o2000 });
        if entry.kind != Kind::Link && entry.mode & doubtful != 0 {
            entry.mode &= !doubtful;
            if self.job.keep.has(MetaMask::SETID) && !self.warned.swap(true, Ordering::Relaxed) {
                return Some(entry.name.path());
            }
        }
        None
    }

    fn mapped(&self, asked: Asked) -> Mapped {
        let id = asked.2;
        if id == 0 {
            return Mapped { id, sure: true, name: asked.3 };
        }
        // One asks, the others wait for the answer.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mapped) = known.get(&asked) {
            return mapped.clone();
        }
        match self.look_up_owner(&asked) {
            Ok(mapped) => {
                // Who may write objects can make up any number of names.
                if known.len() < KNOWN_MOST {
                    known.insert(asked, mapped.clone());
                }
                mapped
            }
            // The connection is gone, and the run with it.
            Err(_) => Mapped { id, sure: false, name: asked.3 },
        }
    }

    fn look_up_owner(&self, (root, who, id, came): &Asked) -> Result<Mapped> {
        let (source, target, who, id) = (&self.job.roots[*root].store, &self.job.target, *who, *id);
        let ask = || {
            let name = match &came[..] {
                b"" => source.extensions().owners.name(who, id)?,
                OwnerNames::NONE => None,
                _ => Some(came.clone()),
            };
            Ok(match name {
                Some(name) => match target.extensions().owners.id(who, &name)? {
                    Some(id) => Mapped { id, sure: true, name },
                    None => Mapped { id, sure: false, name },
                },
                None => Mapped { id, sure: target.extensions().owners.name(who, id)?.is_none(), name: OwnerNames::NONE.into() },
            })
        };
        match retry(ask) {
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(Mapped { id, sure: false, name: came.clone() }),
            answer => answer,
        }
    }

    /// Before a bundle is read: entries that are read anew have the source's numbers again, the others those of the destination.
    pub fn begin(&self, root: usize, items: &mut [Item]) -> Vec<Before> {
        if !self.maps(root) {
            return Vec::new();
        }
        let take = |Item { entry, .. }: &mut Item| {
            (std::mem::replace(&mut entry.uid, NOBODY), std::mem::replace(&mut entry.gid, NOBODY), entry.owners.take())
        };
        items.iter_mut().map(take).collect()
    }

    /// After it was read, for each item in the order of `before`; `true` if its owner is mapped already.
    pub fn end(before: Option<&Before>, entry: &mut Entry) -> bool {
        match before {
            Some(before) if (entry.uid, entry.gid) == (NOBODY, NOBODY) => {
                (entry.uid, entry.gid, entry.owners) = before.clone();
                true
            }
            _ => false,
        }
    }
}
