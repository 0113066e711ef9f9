//! What a storage and a link can do: data sets, workloads, other tools run as processes, and what all of them took.
//!
//! ```text
//! data -> files | net | compare -> record (a run directory) -> report (HTML, terminal)
//!                     process ^                  stats ^
//! ```

pub mod compare;
pub mod comparison;
pub mod data;
pub mod device;
pub mod discard;
pub mod files;
pub mod net;
pub mod order;
pub mod plot;
pub mod process;
pub mod record;
pub mod report;
pub mod stats;
pub mod synthetic;
