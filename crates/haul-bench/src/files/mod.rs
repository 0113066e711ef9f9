//! How many operations on files a place bears: smallfile's job, on a local directory and on any store.
//!
//! ```text
//! Settings -> cases (threads, size, directories) -> steps (what each operation needs comes first)
//!          -> threads start together -> the window closes when the first ends -> Measured
//! ```

pub mod histogram;
pub mod left;
pub mod local;
pub mod operation;
pub mod pattern;
pub mod place;
mod run;
mod settings;
pub mod store;
mod thread;
pub mod window;

pub use left::{Left, mark};
pub use local::LocalPlace;
pub use operation::{Operation, Step, steps};
pub use place::{MARK, MARK_LINE, PREFIX, Place};
pub use run::{Event, Measured, run};
pub use settings::{Case, Count, Settings};
pub use store::StorePlace;

#[cfg(test)]
mod tests;
