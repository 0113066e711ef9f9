//! Reads what a tree looks like.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, Kind, MetaMask};
use haul_core::survey::{Descend, Survey};
use haul_core::{Error, Result};
use haul_local::{Local, Options};

use super::profile::Profile;

#[derive(Default)]
struct Found {
    profile: Profile,
    /// Files and links, and directories, directly in each directory.
    dirs: HashMap<Vec<u8>, (u64, u64)>,
    /// Files with several names: device and inode.
    links: HashSet<(u64, u64)>,
}

/// What a tree looks like. Directories that cannot be read count as empty and are passed to `unreadable`. `spill` is a directory
/// for names that do not fit into memory.
pub fn read(dir: &Path, threads: usize, cancel: &Cancel, spill: &Path, unreadable: &(dyn Fn(Error) + Sync)) -> Result<Profile> {
    let store = Local::open(dir, Options::default())?;
    let found = Mutex::new(Found { dirs: [(Vec::new(), (0, 0))].into(), ..Found::default() });
    let visit = |entry: &Entry| {
        found.lock().unwrap_or_else(PoisonError::into_inner).note(entry);
        Descend::Yes
    };
    let survey = Survey { store: &store, threads, want: MetaMask::NONE, cancel, spill };
    survey.run(&Dir::root(), &visit, &|e, _| unreadable(e))?;
    let Found { mut profile, dirs, .. } = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (path, (entries, subdirs)) in dirs {
        let depth = if path.is_empty() { 0 } else { path.split(|byte| *byte == b'/').count() as u32 };
        profile.dir(depth, entries, subdirs);
    }
    Ok(profile)
}

impl Found {
    fn note(&mut self, entry: &Entry) {
        let is_dir = entry.kind == Kind::Dir;
        match entry.kind {
            Kind::Dir => {
                self.dirs.entry(entry.name.path()).or_default();
            }
            Kind::File if entry.nlink > 1 && !self.links.insert((entry.dev, entry.ino)) => self.profile.hard_links += 1,
            Kind::File => self.profile.file(entry.size),
            Kind::Link => self.profile.symlinks += 1,
            _ => {
                self.profile.specials += 1;
                return;
            }
        }
        self.profile.name(&entry.name.leaf, is_dir);
        let above = self.dirs.entry(entry.name.dir.path()).or_default();
        if is_dir { above.1 += 1 } else { above.0 += 1 }
    }
}
