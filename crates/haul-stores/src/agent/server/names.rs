//! Names of one root, as one frame carries them.

use haul_core::entry::{Dir, Entry, MetaMask, Name};
use haul_core::error::Result;
use haul_core::store::Spec;

use super::Root;
use crate::agent::wire::Parser;

/// Directories are numbered in the order in which the frame names them.
pub struct Names<'a> {
    root: &'a Root,
    dirs: Vec<Dir>,
}

impl<'a> Names<'a> {
    pub fn of(root: &'a Root) -> Self {
        Names { root, dirs: Vec::new() }
    }

    pub fn dir(&mut self, from: &mut Parser<'_>) -> Result<Dir> {
        let root = self.root;
        from.dir(&mut self.dirs, &mut |path| root.dir(path))
    }

    pub fn name(&mut self, from: &mut Parser<'_>) -> Result<Name> {
        let dir = self.dir(from)?;
        Ok(Name::new(&dir, from.bytes()?))
    }

    pub fn entry(&mut self, from: &mut Parser<'_>) -> Result<Entry> {
        let name = self.name(from)?;
        from.attributes(name)
    }

    pub fn entries(&mut self, from: &mut Parser<'_>) -> Result<Vec<Entry>> {
        (0..from.count()?).map(|_| self.entry(from)).collect()
    }
}

/// What a file is to become, as it came.
pub struct Wanted {
    entry: Entry,
    keep: MetaMask,
    chunk: u64,
    in_place: bool,
    sync: bool,
}

impl Wanted {
    pub fn read(names: &mut Names<'_>, from: &mut Parser<'_>) -> Result<Wanted> {
        let entry = names.entry(from)?;
        Ok(Wanted { entry, keep: from.mask()?, chunk: from.number()?, in_place: from.flag()?, sync: from.flag()? })
    }

    pub fn spec(&self) -> Spec<'_> {
        Spec { entry: &self.entry, keep: self.keep, chunk: self.chunk, in_place: self.in_place, sync: self.sync }
    }
}
