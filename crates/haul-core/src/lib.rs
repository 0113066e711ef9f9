//! The engine of haul and the contract that its stores keep.
//!
//! It knows no backend, no terminal, no MPI and no async runtime. Data flows one way:
//!
//! ```text
//! Job -> walk ==> plan ==> schedule ==> move ==> finish file -> delete -> finalise dirs -> verify -> Report
//! ```

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod bundle;
pub mod cancel;
pub mod engine;
pub mod entry;
pub mod error;
pub mod event;
pub mod filter;
pub mod forecast;
pub mod hash;
pub mod job;
pub mod journal;
pub mod meter;
pub mod outline;
pub mod pace;
pub mod place;
pub mod plan;
pub mod report;
pub mod retry;
pub mod rlimit;
mod schedule;
pub mod spill;
pub mod store;
pub mod survey;
pub mod tune;
pub mod units;
pub mod verdict;

pub use error::{Error, ErrorKind, Remedy, Result};
