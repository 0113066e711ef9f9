//! A place with nothing in it: what a dry run compares with where the destination does not exist yet.

use std::time::Duration;

use super::{Caps, Flow, Place, Proof, Source, Store, WriteStyle};
use crate::entry::{Dir, Entry, Kind, MetaMask, Name};
use crate::error::{Error, ErrorKind, Result};

/// An empty directory with the abilities of a local file system. Nothing can be written to it.
#[derive(Debug)]
pub struct Empty {
    caps: Caps,
    place: Place,
}

impl Default for Empty {
    fn default() -> Self {
        let all = [
            MetaMask::MTIME,
            MetaMask::MODE,
            MetaMask::OWNER,
            MetaMask::GROUP,
            MetaMask::ACL,
            MetaMask::XATTR,
            MetaMask::SETID,
            MetaMask::CONTEXT,
        ];
        let sets = all.into_iter().fold(MetaMask::NONE, MetaMask::with);
        let caps = Caps {
            write: WriteStyle::Anywhere,
            holes: true,
            read_ranges: true,
            dirs: true,
            links: true,
            specials: true,
            hard_links: true,
            sets,
            link_sets: sets,
            lists: MetaMask::BASIC.with(MetaMask::MTIME),
            remote: false,
            mtime_resolution: Duration::from_nanos(1),
            atomic_commit: true,
            direct_create: true,
            bundle_bytes: 1 << 20,
            bundle_files: 1000,
            proof: Proof::Cache,
            ..Caps::minimal()
        };
        let root = b"/".to_vec();
        let place = Place { scheme: "empty", endpoint: String::new(), account: String::new(), volume: String::new(), root };
        Empty { caps, place }
    }
}

impl Store for Empty {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn stat(&self, name: &Name, _want: MetaMask) -> Result<Entry> {
        match name.leaf.is_empty() {
            true => {
                let mut root = Entry::bare(name.clone(), Kind::Dir);
                (root.have, root.mode) = (MetaMask::BASIC.with(MetaMask::MTIME).with(MetaMask::MODE), 0o755);
                Ok(root)
            }
            false => Err(Error::new(ErrorKind::NotFound, "stat").on(name)),
        }
    }

    fn list(&self, dir: &Dir, _each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        match dir.is_root() {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::NotFound, "list").on(&Name::of(dir))),
        }
    }

    fn open(&self, entry: &Entry, _follow: bool) -> Result<Box<dyn Source>> {
        Err(Error::new(ErrorKind::NotFound, "open").on(&entry.name))
    }
}
