//! Data sets: files of chosen sizes and shapes, the same bytes, names and times for the same words and seed.
//!
//! ```text
//! words -> Spec ----> Plan -----------> make   (parallel, goes on where it was interrupted)
//! a tree -> Profile ^   pure: every     verify (against the plan; there is no second copy)
//!                       file computed
//! ```
//!
//! Nothing is kept of a set beside the set itself: a file is as planned if its size and its time are the planned ones, and the
//! time of an incomplete one is another.

mod admit;
mod content;
mod hand;
mod law;
mod look;
mod make;
mod names;
mod order;
mod plan;
mod preset;
mod profile;
mod read;
mod skeleton;
mod spec;
#[cfg(test)]
mod tests;
mod verify;

pub use look::Standing;
pub(crate) use make::close;
pub use make::{How, Made, Tally, make};
pub use plan::{Bin, Entry, File, Histogram, Kind, Options, Plan, Totals, mtime};
pub use preset::{PRESETS, Preset};
pub use profile::Profile;
pub use read::read;
pub use skeleton::Shape;
pub use spec::{Set, SizeParser, Spec};
pub use verify::{Difference, Verified, verify};
