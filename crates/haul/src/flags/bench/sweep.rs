//! bench sweep.

use clap::Args;

use crate::flags::{Environment, Refusal};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepFlags {}

/// Time a copy over a grid of workers, chunk sizes and directions
#[derive(Args)]
#[command(override_usage = "haul bench sweep [OPTIONS] SRC DST")]
pub struct SweepArgs {}

impl SweepArgs {
    pub(super) fn resolve(self, _: &Environment<'_>) -> Result<SweepFlags, Refusal> {
        Ok(SweepFlags {})
    }
}
