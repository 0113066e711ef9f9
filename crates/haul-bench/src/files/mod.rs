//! Metadata and small-file rates, as smallfile measures them, of a local directory or any store.
//!
//! ```text
//! Settings -> cases (threads, size, directories) -> steps (each operation after its prerequisites)
//!          -> threads start together -> the window closes when the first ends -> Measured
//! ```

pub mod histogram;
pub mod local;
pub mod operation;
pub mod pattern;
pub mod place;
mod run;
mod settings;
pub mod store;
mod thread;
pub mod window;

pub use local::LocalPlace;
pub use operation::{Operation, Step, steps};
pub use place::{PREFIX, Place};
pub use run::{Event, Measured, run};
pub use settings::{Case, Count, Settings};
pub use store::StorePlace;

#[cfg(test)]
mod tests;
