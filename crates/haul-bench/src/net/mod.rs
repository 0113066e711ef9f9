//! What the way to a host carries, by streams and direction, through the code that moves files and without any disk.
//!
//! ```text
//! plan (what is measured in which order)  ->  measure (one point: made-up files here, a sink there, or the other way round)
//!      far (the made-up places of a host) ------^                    -> Sample -> findings (pure: medians, the best point)
//! ```

mod far;
mod findings;
mod load;
mod measure;
mod plan;
mod served;

pub use far::Far;
pub use findings::{Beyond, Curve, Findings, Gain, Level, Limit, round_trip};
pub use measure::{Window, measure, round_trips};
pub use plan::{Direction, Plan, Point, SMALL};
pub use served::measuring;

/// What the samples of the round trip are called; those of the streams are called `haul`.
pub const ROUND_TRIP: &str = "round trip";
pub const CONTENDER: &str = "haul";
