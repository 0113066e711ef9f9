//! When a file at the destination is taken for the same.

use std::time::Duration;

use clap::Args;
use haul_core::plan::{Compare, Policy};

use super::Refusal;
use crate::units;

#[derive(Args)]
#[command(next_help_heading = "Comparison")]
pub struct SameArgs {
    /// Compare by content (default: by size and modification time)
    #[arg(short, long)]
    checksum: bool,
    /// Compare by size only
    #[arg(long)]
    size_only: bool,
    /// Treat times that differ by up to DURATION as equal: 1s for FAT, 2s for some archives
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    modify_window: Option<Duration>,
}

impl SameArgs {
    pub(super) fn resolve(&self) -> Result<Policy, Refusal> {
        let compare = match (self.checksum, self.size_only) {
            (true, true) => return Err("-c (--checksum) and --size-only contradict each other; leave one out".into()),
            (true, false) => Compare::Content,
            (false, true) => Compare::Size,
            (false, false) => Compare::SizeAndTime,
        };
        Ok(Policy { compare, window: self.modify_window.unwrap_or(Duration::ZERO), ..Policy::DEFAULT })
    }
}

/// Which of those that differ are copied.
#[derive(Args)]
#[command(next_help_heading = "Comparison")]
pub struct UpdateArgs {
    /// Copy all files, even identical ones
    #[arg(short = 'I', long)]
    ignore_times: bool,
    /// Skip files that are newer at the destination
    #[arg(short, long)]
    update: bool,
    /// Skip files that the destination does not have
    #[arg(long)]
    existing: bool,
    /// Skip files that the destination already has
    #[arg(long)]
    ignore_existing: bool,
}

impl UpdateArgs {
    pub(super) fn resolve(&self, policy: Policy, force: bool) -> Result<Policy, Refusal> {
        let compare = match (self.ignore_times, policy.compare) {
            (false, compare) => compare,
            (true, Compare::Content) => return Err("-I copies everything and -c only what differs; leave one out".into()),
            (true, Compare::Size) => return Err("-I copies everything and --size-only only what differs; leave one out".into()),
            (true, _) => Compare::Never,
        };
        Ok(Policy { compare, update: self.update, existing: self.existing, ignore_existing: self.ignore_existing, force, ..policy })
    }
}
