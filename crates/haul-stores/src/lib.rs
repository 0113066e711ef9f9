//! The places that haul moves data between, one folder a backend.

#![warn(clippy::print_stdout, clippy::print_stderr)]

#[cfg(feature = "memory")]
pub mod discard;
#[cfg(feature = "local")]
pub mod local;
#[cfg(feature = "memory")]
pub mod memory;
#[cfg(feature = "memory")]
pub mod synthetic;
