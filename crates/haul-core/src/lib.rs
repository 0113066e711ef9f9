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
pub mod fill;
pub mod filter;
pub mod forecast;
pub mod hash;
pub mod hint;
pub mod intern;
pub mod job;
pub mod journal;
pub mod limiter;
mod limits;
pub mod lock;
pub mod meter;
pub mod option_set;
pub mod pace;
pub mod place;
pub mod plan;
pub mod pool;
pub mod receipt;
pub mod report;
pub mod retry;
pub mod rlimit;
pub mod schedule;
pub mod signature;
pub mod spec;
pub mod spill;
pub mod spread;
pub mod store;
pub mod stripe;
pub mod survey;
pub mod team;
pub mod tune;
pub mod units;
pub mod user_names;
pub mod varint;
pub mod verdict;

pub use error::{Error, ErrorKind, Remedy, Result};
