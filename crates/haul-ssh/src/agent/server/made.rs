//! Generated roots: a source without cost and a sink that keeps nothing, to measure the network with the code that moves files.
//! They have a request of their own; no path leads to them.

use std::sync::Arc;

use haul_core::error::Result;

use super::{Agent, Root};
use crate::agent::measure::Tally;
use crate::agent::wire::{Parser, Writer, protocol_error};
use haul_core::lock::lock;

/// The kinds of what is made up, as they stand in the request.
pub const SOURCE: u8 = 0;
pub const SINK: u8 = 1;

impl Agent {
    /// Number, kind, and of a source directories, files in each, bytes of each; answers as the opening of a directory.
    pub(super) fn open_made_up(&self, from: &mut Parser<'_>, to: &mut Writer) -> Result<()> {
        let number = from.number()?;
        let root = match from.byte()? {
            SOURCE => {
                let (dirs, files, size) = (from.number()?, from.number()?, from.number()?);
                let count =
                    dirs.checked_mul(files).and_then(|all| all.checked_add(dirs)).ok_or_else(|| protocol_error("too many files"))?;
                count.checked_add(2).ok_or_else(|| protocol_error("too many files"))?;
                Root::made_up(self.options.measuring.source(dirs, files, size))
            }
            SINK => Root::made_up(self.options.measuring.sink()),
            _ => return Err(protocol_error("an unknown kind of generated root")),
        };
        let place = root.store.place();
        to.bytes(&place.root).bytes(place.scheme.as_bytes()).number(0).number(0).caps(root.store.caps());
        lock(&self.roots).insert(number, Arc::new(root));
        Ok(())
    }

    /// Nanoseconds of this machine's clock, bytes and files that the sinks have taken, and the load.
    pub(super) fn tally(&self, to: &mut Writer) {
        let Tally { bytes, files, load } = self.options.measuring.tally();
        to.duration(load.at).number(bytes).number(files);
        to.duration(load.own).duration(load.ssh).duration(load.busy).duration(load.all).number(load.processors);
    }
}
