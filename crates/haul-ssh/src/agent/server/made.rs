//! Generated roots: a source without cost and a sink that keeps nothing, to measure the network with the code that moves files.
//! They have a request of their own; no path leads to them.

use std::sync::Arc;

use haul_core::error::Result;

use super::{Agent, Root};
use crate::agent::measure::MadeUp;
use crate::agent::wire::{Parser, Writer, protocol_error};
use haul_core::lock::lock;

impl Agent {
    /// The root's number and what it is; answers as the opening of a directory.
    pub(super) fn open_made_up(&self, from: &mut Parser<'_>, to: &mut Writer) -> Result<()> {
        let (number, what) = from.get()?;
        let root = match what {
            MadeUp::Source { dirs, files, size } => {
                let count =
                    dirs.checked_mul(files).and_then(|all| all.checked_add(dirs)).ok_or_else(|| protocol_error("too many files"))?;
                count.checked_add(2).ok_or_else(|| protocol_error("too many files"))?;
                Root::made_up(self.options.measuring.source(dirs, files, size))
            }
            MadeUp::Sink => Root::made_up(self.options.measuring.sink()),
        };
        let place = root.store.place();
        to.put((&place.root, place.scheme, (0_u64, 0_u64))).caps(root.store.caps());
        lock(&self.roots).insert(number, Arc::new(root));
        Ok(())
    }
}
