//! Names of one root, as one frame carries them.

use haul_core::entry::{Dir, Entry, Name};
use haul_core::error::Result;

use super::Root;
use crate::agent::spec::OwnedSpec;
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

    /// What a file is to become.
    pub fn spec(&mut self, from: &mut Parser<'_>) -> Result<OwnedSpec> {
        let entry = self.entry(from)?;
        Ok(OwnedSpec { entry, keep: from.mask()?, chunk: from.number()?, in_place: from.flag()?, sync: from.flag()? })
    }
}
