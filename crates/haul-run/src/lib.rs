//! haul as a library: the registry of backends, the places that addresses name, plans of transfers and their runs.
//!
//! `examples/copy.rs` is a program of thirty lines that copies a tree and prints its own progress.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod allocation;
pub mod hosts;
pub mod known;
pub mod location;
pub mod open;
pub mod outlet;
pub mod owners;
pub mod plan;
pub mod registry;
pub mod run;
pub mod scope;
pub mod stream;
mod transfer;
pub mod wild;
mod workers;

pub use transfer::transfer;
