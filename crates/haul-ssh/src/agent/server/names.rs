//! Names of one root, as one frame carries them.

use haul_core::entry::{Dir, Entry, Name};
use haul_core::error::Result;

use super::Root;
use crate::agent::wire::{Parser, protocol_error};

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
        let at: usize = from.get()?;
        if at == self.dirs.len() {
            self.dirs.push(self.root.dir(from.get()?)?);
        }
        self.dirs.get(at).cloned().ok_or_else(|| protocol_error("an unknown directory number"))
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
