//! A place with nothing in it: what a dry run compares with where the destination does not exist yet.

use super::{Caps, Flow, Place, Source, Store};
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
        let mut caps = Caps::posix();
        caps.attributes.lists = MetaMask::BASIC.with(MetaMask::MTIME);
        let place = Place { scheme: "empty", root: b"/".to_vec(), ..Place::default() };
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
