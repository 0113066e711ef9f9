//! Which names are one file.

use std::collections::{HashMap, HashSet};

use crate::entry::Entry;

/// Hard-linked files that are tracked in memory (about 100 bytes each); the rest spill to disk and are done at the end.
const MOST: usize = 100_000;

/// Leaders by device and inode, forgotten when the last of their names has been seen.
#[derive(Debug, Default)]
pub struct HardLinks {
    leaders: HashMap<(u64, u64), Leader>,
    /// Files of which a copy was verified in this run, so that their other names may go from the source.
    verified: HashSet<(u64, u64)>,
}

#[derive(Debug)]
struct Leader {
    path: Box<[u8]>,
    left: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Role {
    /// The first name of its file: its content moves.
    Leader,
    /// Another name of the file at this path.
    Follower(Box<[u8]>),
    /// Too many to follow: to be sorted on disk.
    Later,
}

impl HardLinks {
    pub fn meet(&mut self, entry: &Entry, path: impl FnOnce() -> Vec<u8>) -> Role {
        let key = (entry.dev, entry.ino);
        if let Some(leader) = self.leaders.get_mut(&key) {
            let path = leader.path.clone();
            leader.left = leader.left.saturating_sub(1);
            if leader.left == 0 {
                self.leaders.remove(&key);
            }
            return Role::Follower(path);
        }
        if self.leaders.len() >= MOST {
            return Role::Later;
        }
        self.leaders.insert(key, Leader { path: path().into(), left: entry.nlink - 1 });
        Role::Leader
    }

    pub fn verified(&mut self, entry: &Entry) {
        if entry.nlink > 1 && entry.ino != 0 && self.verified.len() < MOST {
            self.verified.insert((entry.dev, entry.ino));
        }
    }

    /// Whether a copy of this file is known to have been verified; `false` also where there were too many to remember.
    pub fn is_verified(&self, dev: u64, ino: u64) -> bool {
        self.verified.contains(&(dev, ino))
    }

    /// The name that leads this file, as long as not all of its names have been met.
    pub fn leader(&self, dev: u64, ino: u64) -> Option<Box<[u8]>> {
        self.leaders.get(&(dev, ino)).map(|leader| leader.path.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Dir, Kind, Name};

    #[test]
    fn the_first_name_leads_and_a_file_is_forgotten_when_all_its_names_are_seen() {
        let mut entry = Entry::bare(Name::new(&Dir::root(), b"a"), Kind::File);
        (entry.nlink, entry.ino, entry.dev) = (3, 7, 1);
        let mut links = HardLinks::default();
        assert_eq!(links.meet(&entry, || b"a".to_vec()), Role::Leader);
        assert_eq!(links.meet(&entry, || unreachable!()), Role::Follower(b"a"[..].into()));
        assert_eq!(links.meet(&entry, || unreachable!()), Role::Follower(b"a"[..].into()));
        assert!(links.leaders.is_empty());
    }
}
