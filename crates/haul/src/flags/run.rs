//! How a run behaves: dry, bounded in time, resumed, waited for.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use haul_core::spec::Limits;

use super::{Environment, Refusal};
use crate::units::{self, When};

#[derive(Args)]
#[command(next_help_heading = "Safety")]
pub struct RetryArgs {
    /// Retry transient errors up to N times (default: 9) within 3 minutes, and reconnect up to N times (default: 3)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1000))]
    pub(super) retries: Option<u32>,
}

#[derive(Args)]
#[command(next_help_heading = "Safety")]
pub struct RunArgs {
    /// Stop cleanly after a DURATION or at a TIME (5h30m, 06:00, 2026-01-31T06:00; exit code 75; resumable)
    #[arg(long, value_name = "DURATION|TIME", value_parser = units::parse_when)]
    deadline: Option<When>,
    /// Abort when no progress was made for DURATION: 60s, 5m
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    retry: RetryArgs,
    /// Write the names that failed to FILE, for --files-from
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    failed_to: Option<PathBuf>,
}

impl RunArgs {
    /// The limits, and the file of `--failed-to`.
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<(Limits, Option<PathBuf>), Refusal> {
        let ahead = |when: When| when.ahead(environment.now, &environment.zone);
        let deadline = self.deadline.map(ahead).transpose().map_err(|reason| format!("--deadline: {reason}; name a later one"))?;
        if deadline.is_some_and(|d| d.is_zero()) {
            return Err("--deadline 0 would stop before anything is done; give it a time, or leave it out".into());
        }
        // rsync's --timeout 0 is none at all; every wait here has a bound.
        let timeout = self.timeout.filter(|t| !t.is_zero());
        Ok((Limits { timeout, retries: self.retry.retries, deadline }, self.failed_to))
    }
}
