//! why: what limited a run.

use std::ffi::OsString;

use clap::{Args, ValueHint};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhyFlags {
    /// A job's id or the beginning of it, or a directory of `haul bench`; `None` is the last run.
    pub what: Option<OsString>,
}

/// Explain what limited a run, where its time went, and what to try next
///
/// Without an argument it explains the user's last run, interrupted or not. Dry runs, check and single commands such as ls
/// are not recorded.
#[derive(Args)]
#[command(
    override_usage = "haul why [OPTIONS] [RUN|JOB]",
    before_help = "Examples:
  haul why                    the last copy
  haul why 3f2a               a job of `haul jobs`, by a prefix of its ID
  haul why bench/2026-03-01   the results of a run of haul bench"
)]
pub struct WhyArgs {
    /// A job's ID or a prefix of it, or the directory of a run of haul bench
    #[arg(value_name = "RUN|JOB", value_hint = ValueHint::AnyPath)]
    what: Option<OsString>,
}

impl WhyArgs {
    pub(super) fn resolve(self) -> WhyFlags {
        WhyFlags { what: self.what }
    }
}
