//! What is the same thing by another name, and what is none of this run's business.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::entry::{Dir, Entry, Kind, MetaMask, Name};
use crate::job::{Job, Pick};
use crate::store::Store;

/// Device and inode.
type Inode = (u64, u64);

pub struct Identity {
    job: Arc<Job>,
    /// Both ends are one system, so that equal device and inode mean the same file.
    pub same_system: bool,
    /// The device of the destination's root, where it is known.
    target_device: OnceLock<Option<u64>>,
    /// The device of the destination's directory that was asked for last, by its id.
    last_device: Mutex<Option<(u64, Option<u64>)>>,
    /// What is copied, as far as the destination's system has the same.
    source_roots: OnceLock<Vec<Inode>>,
}

impl Identity {
    pub fn of(job: Arc<Job>) -> Self {
        let target = job.target.place();
        let places = || job.roots.iter().map(|root| root.store.place());
        let same_host = places().all(|place| (place.scheme, &place.endpoint) == (target.scheme, &target.endpoint));
        let same_system = same_host && places().all(|place| place.volume == target.volume);
        Identity { same_system, target_device: OnceLock::new(), last_device: Mutex::default(), source_roots: OnceLock::new(), job }
    }

    fn target_stat(&self, name: &Name) -> Option<Entry> {
        self.job.target.stat(name, MetaMask::NONE).ok()
    }

    /// Whether a name is one inode at both ends.
    pub fn is_one_inode(&self, entry: &Entry, target: &Entry) -> bool {
        self.same_system && (entry.dev, entry.ino) == (target.dev, target.ino)
    }

    /// Whether an entry of the destination lies on another file system than its root, where nothing is deleted.
    fn is_across(&self, target: &Entry) -> bool {
        if !self.job.one_file_system {
            return false;
        }
        let device = |name: &Name| self.target_stat(name).map(|entry| entry.dev);
        let root = *self.target_device.get_or_init(|| device(&Name::of(&Dir::root())));
        let dir = &target.name.dir;
        let place = match target.kind {
            Kind::Dir => device(&target.name),
            _ if dir.is_root() => root,
            // Names come directory by directory.
            _ => {
                let mut last = self.last_device.lock().unwrap_or_else(PoisonError::into_inner);
                if last.as_ref().is_none_or(|(id, _)| *id != dir.id()) {
                    *last = Some((dir.id(), device(&Name::of(dir))));
                }
                last.as_ref().and_then(|(_, device)| *device)
            }
        };
        place.is_some() && place != root
    }

    /// Whether an entry that only the destination has is to be left alone: it is on another file system, or the directory of the
    /// journals.
    pub fn stays(&self, target: &Entry) -> bool {
        self.is_across(target) || self.is_state(target)
    }

    fn is_state(&self, target: &Entry) -> bool {
        let Some((dev, ino)) = self.job.state.filter(|_| target.kind == Kind::Dir && self.job.target.place().endpoint.is_empty()) else {
            return false;
        };
        let found = |entry: Entry| (entry.dev, entry.ino) == (dev, ino);
        (target.ino == ino || target.ino == 0) && self.target_stat(&target.name).is_some_and(found)
    }

    /// Whether a directory of the destination is one that is copied, by another name: bind mounts make that possible.
    pub fn is_source(&self, target: &Entry) -> bool {
        if !self.same_system || target.kind != Kind::Dir {
            return false;
        }
        let inode = |store: &dyn Store, name: &Name| -> Option<Inode> {
            let entry = store.stat(name, MetaMask::NONE).ok().filter(|entry| entry.kind == Kind::Dir && entry.ino != 0)?;
            Some((entry.dev, entry.ino))
        };
        let find = || {
            let mut roots = Vec::new();
            for root in &self.job.roots {
                match &root.pick {
                    Pick::Names(names) => roots.extend(names.iter().filter_map(|leaf| inode(&*root.store, &Name::new(&Dir::root(), leaf)))),
                    _ => roots.extend(inode(&*root.store, &Name::of(&Dir::root()))),
                }
            }
            roots
        };
        let roots = self.source_roots.get_or_init(find);
        inode(&*self.job.target, &target.name).is_some_and(|found| roots.contains(&found))
    }
}
