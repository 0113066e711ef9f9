//! The journal of a job: what must be known after a kill -9, and nothing else.
//!
//! A rerun walks again, and the destination's listing is the evidence that a file is done. What no
//! listing can show is kept here: which unfinished writes there are and which of their chunks landed,
//! and which small files were about to be created under their final names.
//!
//! ```text
//! State::open(root) -> State::begin -> JobDir (locked) -> JobDir::journal -> (Journal, Progress)
//!     Opened -> (Part* Landed)* -> Committed | Dropped  one large file
//!     Intent -> Placed                                  one bundle of small files created in place
//! JobDir::finish: a small record stays        JobDir::keep: the journal stays, the same command goes on
//! ```
//!
//! The log is `u32 len | u32 crc32c | payload`, little endian, behind a header of eight bytes. Reading
//! stops at the first frame that does not hold; a kill at any byte therefore leaves a log that says less,
//! never one that says something else. A kill needs only write(2), so nothing is synced record by record.

mod compact;
mod identity;
mod jobs;
mod lock;
mod log;
mod progress;
mod record;
mod state;
mod text;
mod writer;

#[cfg(test)]
mod tests;

pub use identity::Identity;
pub use jobs::{Clean, Cleaning, Glance, JobInfo, JobState, Pick, glance};
pub use lock::Here;
pub use progress::{Chunks, Progress, Resume, Session};
pub use record::{Record, staged};
pub use state::{Begin, JobDir, State, default_root};
pub use writer::{Hook, Journal};
