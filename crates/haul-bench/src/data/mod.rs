//! Data sets: files of chosen sizes and shapes, the same bytes, names and times for the same words and seed.
//!
//! ```text
//! words -> Spec ----> Plan -----------> make   (parallel, resumes an interrupted run)
//! a tree -> Profile ^   pure: every     verify (against the plan; there is no second copy)
//!                       file computed
//! ```
//!
//! Nothing is stored about a set: a file is complete if it has the planned size and time, which is set last.

mod content;
mod law;
mod look;
mod make;
mod names;
mod order;
mod plan;
mod profile;
mod skeleton;
mod spec;
#[cfg(test)]
mod tests;
mod verify;
mod worker;

pub use look::Standing;
pub(crate) use make::close;
pub use make::{How, Made, Tally, make};
pub use plan::{Bin, File, Kind, Options, Plan, Totals, mtime};
pub use profile::{Profile, read};
pub use skeleton::Shape;
pub use spec::{SizeParser, Spec};
pub use verify::{Difference, Verified, verify};
