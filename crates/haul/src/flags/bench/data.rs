//! bench data.

use clap::Args;

use crate::flags::{Environment, Refusal};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFlags {}

/// Make a data set: files of chosen sizes and shapes, the same each time
#[derive(Args)]
#[command(override_usage = "haul bench data [OPTIONS] SPEC DIR")]
pub struct DataArgs {}

impl DataArgs {
    pub(super) fn resolve(self, _: &Environment<'_>) -> Result<DataFlags, Refusal> {
        Ok(DataFlags {})
    }
}
