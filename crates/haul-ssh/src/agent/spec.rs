//! A [`Spec`] that is kept: by the sink that may have to open its file again, and while a request is served.

use haul_core::entry::{Entry, MetaMask};
use haul_core::store::Spec;

pub struct OwnedSpec {
    pub entry: Entry,
    pub keep: MetaMask,
    pub chunk: u64,
    pub in_place: bool,
    pub sync: bool,
}

impl OwnedSpec {
    pub fn of(spec: &Spec<'_>) -> OwnedSpec {
        OwnedSpec { entry: spec.entry.clone(), keep: spec.keep, chunk: spec.chunk, in_place: spec.in_place, sync: spec.sync }
    }

    pub fn get(&self) -> Spec<'_> {
        Spec { entry: &self.entry, keep: self.keep, chunk: self.chunk, in_place: self.in_place, sync: self.sync }
    }
}
