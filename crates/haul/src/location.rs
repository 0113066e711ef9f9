//! Addresses, as this program's backends write them.

pub use haul_core::place::{Location, Scheme};
pub use haul_stores::registry::{parse, schemes};
