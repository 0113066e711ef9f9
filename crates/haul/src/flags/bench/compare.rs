//! bench compare.

use clap::Args;

use crate::flags::{Environment, Refusal};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompareFlags {}

/// Time other tools beside haul on the same work, and check every copy
#[derive(Args)]
#[command(override_usage = "haul bench compare [OPTIONS] SRC DST")]
pub struct CompareArgs {}

impl CompareArgs {
    pub(super) fn resolve(self, _: &Environment<'_>) -> Result<CompareFlags, Refusal> {
        Ok(CompareFlags {})
    }
}
