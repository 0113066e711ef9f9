//! Generated roots: a source whose bytes cost nothing and a sink that keeps nothing, so that the network can be measured by
//! the code that moves files, without any disk. They have a request of their own, and no path leads to them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_core::error::Result;

use super::{Agent, Root};

use crate::agent::wire::{Parser, Writer, protocol_error};
use crate::discard::{Counts, Discard};
use crate::load::Load;
use crate::lock::lock;
use crate::synthetic::Synthetic;

/// What the sinks of one agent have taken, together.
#[derive(Default)]
pub struct Made {
    counts: Arc<Counts>,
}

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
                Root::made_up(Synthetic::new(dirs, files, size).repeating())
            }
            SINK => Root::made_up(Discard::counting(self.made.counts.clone())),
            _ => return Err(protocol_error("an unknown kind of generated root")),
        };
        let place = root.store.place();
        to.bytes(&place.root).bytes(place.scheme.as_bytes()).number(0).number(0).caps(root.store.caps());
        lock(&self.roots).insert(number, Arc::new(root));
        Ok(())
    }

    /// Nanoseconds of this machine's clock, bytes and files that the sinks have taken, and the load.
    pub(super) fn tally(&self, to: &mut Writer) {
        let counts = &self.made.counts;
        let load = Load::now();
        to.duration(load.at);
        to.number(counts.bytes.load(Ordering::Relaxed)).number(counts.files.load(Ordering::Relaxed));
        to.duration(load.own).duration(load.ssh).duration(load.busy).duration(load.all).number(load.processors);
    }
}
