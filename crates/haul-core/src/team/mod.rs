//! Several processes that do one job: ranks, which give each other work.
//!
//! Rank 0 owns the roots. A directory belongs to the rank that took it; an idle rank asks and gets a lease: directories not yet
//! listed, with all below them, or names of a large directory. The directory that a lease is from is complete only when its reply
//! has come, and the job when all that was given away has been confirmed.
//!
//! Here is what needs neither the engine nor a clock: the policy, the messages, the transport. `engine/ranks/` does what they
//! say, `engine/steps.rs` the steps at the end that all ranks do together.

pub mod counts;
pub mod message;
pub mod policy;
mod transport;
pub mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use transport::{Transport, threads};

/// The ranks of a job, for one of them.
#[derive(Clone)]
pub struct Team {
    pub transport: Arc<dyn Transport>,
    /// A rank that has not responded for so long counts as gone; all begin to run within this time.
    pub silence: Duration,
}

impl Team {
    pub fn new(transport: Arc<dyn Transport>) -> Team {
        Team { transport, silence: Duration::from_secs(50) }
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.transport.rank(), self.transport.ranks())
    }
}
