//! bench report.

use clap::Args;

use crate::flags::{Environment, Refusal};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFlags {}

/// Make the report of runs again, and say how they differ
#[derive(Args)]
#[command(override_usage = "haul bench report [OPTIONS] RUN...")]
pub struct ReportArgs {}

impl ReportArgs {
    pub(super) fn resolve(self, _: &Environment<'_>) -> Result<ReportFlags, Refusal> {
        Ok(ReportFlags {})
    }
}
