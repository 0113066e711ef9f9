//! The journal of a job: what must be known after a kill -9, and nothing else.
//!
//! A rerun walks again, and the destination's listing shows which files are done. The journal has what no listing can show:
//! unfinished writes with the chunks that landed, and small files about to be created under their final names.
//!
//! ```text
//! State::open(root) -> State::begin -> JobDir (locked) -> JobDir::journal -> (Journal, Progress)
//!     Opened -> (Part* WriteOutcome)* -> Committed | Dropped  one large file
//!     Intent -> Placed                                  one bundle of small files created in place
//! JobDir::finish: a small record stays        JobDir::keep: the journal stays, and the same command resumes
//! ```
//!
//! The log is `u32 len | u32 crc32c | payload`, little endian, behind a header of eight bytes. Reading stops at the first
//! invalid frame, so that a kill at any byte shortens the log and never changes it. Nothing is synced per record: a kill
//! needs only write(2).

mod chunks;
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

pub use chunks::Chunks;
pub use identity::Identity;
pub use jobs::{Clean, Cleaning, Glance, JobInfo, JobState, Pick, glance};
pub use lock::Here;
pub use progress::{Progress, Resume, Session};
pub use record::{Record, staged};
pub use state::{Begin, JobDir, State, default_root};
pub use writer::{Hook, Journal};
