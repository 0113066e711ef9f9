//! How a run behaves: dry, bounded in time, resumed, waited for.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use haul_core::spec::Limits;

use super::{Environment, Refusal};
use crate::units::{self, Deadline};

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
    /// Stop cleanly after DURATION or at TIME (5h30m, 06:00, 2026-01-31T06:00; exit code 75; resumable); none: ignore the job's limit
    #[arg(long, value_name = "DURATION|TIME|none", value_parser = units::parse_deadline)]
    deadline: Option<Deadline>,
    /// Abort when no progress was made for DURATION: 60s, 5m
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    retry: RetryArgs,
    /// Write the names that failed to FILE, for --files-from
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    failed_to: Option<PathBuf>,
}

/// How a run is bounded, beside the limits of its spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub limits: Limits,
    pub failed_to: Option<PathBuf>,
    pub batch: BatchChoice,
}

/// What a run makes of the job of a batch system in which it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchChoice {
    /// Run on, whatever the time limit of the job: `--deadline none`.
    pub unlimited: bool,
    /// Have the job run again when its limit stops this run.
    pub requeue: bool,
}

impl RunArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<Run, Refusal> {
        let batch = BatchChoice { unlimited: self.deadline == Some(Deadline::None), requeue: false };
        let ahead = |deadline: Deadline| deadline.ahead(environment.now, &environment.zone).transpose();
        let deadline = self.deadline.and_then(ahead).transpose().map_err(|reason| format!("--deadline: {reason}; name a later one"))?;
        if deadline.is_some_and(|d| d.is_zero()) {
            return Err("--deadline 0 would stop before anything is done; give it a time, or leave it out".into());
        }
        // rsync's --timeout 0 is none at all; every wait here has a bound.
        let timeout = self.timeout.filter(|t| !t.is_zero());
        Ok(Run { limits: Limits { timeout, retries: self.retry.retries, deadline }, failed_to: self.failed_to, batch })
    }
}
