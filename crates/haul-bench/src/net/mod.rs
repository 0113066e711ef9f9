//! Network throughput to a host, by streams and direction, through the code that moves files and without any disk.
//!
//! ```text
//! plan (points and their order)  ->  measure (one point: generated files at one end, a sink at the other)
//!      remote (stores of the host) ----^       -> Sample, with what limited it
//! ```

mod limit;
mod load;
mod measure;
mod plan;
mod remote;
mod served;

pub use limit::Limit;
pub use measure::{Window, measure, round_trip, round_trips};
pub use plan::{Direction, Plan, Point, SMALL};
pub use remote::Remote;
pub use served::measuring;

/// What the samples of the round trip are called; those of the streams are called `haul`.
pub const ROUND_TRIP: &str = "round trip";
pub const CONTENDER: &str = "haul";
