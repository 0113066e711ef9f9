//! What a storage and a link can do: data sets, workloads, other tools run as processes, and what all of them took.
//!
//! ```text
//! data -> files | net | sweep | compare -> record (a run directory) -> report (HTML, terminal)
//!                     process ^                  stats ^
//! ```

pub mod net;
pub mod process;
pub mod record;
pub mod stats;
