//! What a remote haul is measured with.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_core::store::Store;
use haul_ssh::agent::{Measuring, Tally};

use super::load;
use crate::discard::{Counts, Discard};
use crate::synthetic::Synthetic;

/// For `haul_ssh::agent::Options`.
pub fn measuring() -> Arc<dyn Measuring> {
    Arc::new(Served::default())
}

#[derive(Debug, Default)]
struct Served {
    counts: Arc<Counts>,
}

impl Measuring for Served {
    fn source(&self, dirs: u64, files: u64, size: u64) -> Arc<dyn Store> {
        Arc::new(Synthetic::new(dirs, files, size).repeating())
    }

    fn sink(&self) -> Arc<dyn Store> {
        Arc::new(Discard::counting(self.counts.clone()))
    }

    fn tally(&self) -> Tally {
        let Counts { bytes, files } = &*self.counts;
        Tally { bytes: bytes.load(Ordering::Relaxed), files: files.load(Ordering::Relaxed), load: load::now() }
    }
}
