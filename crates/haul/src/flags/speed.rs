//! How fast: haul finds the number of workers itself, these are for those who know better.

use clap::Args;
use haul_core::spec::Performance;

use super::Refusal;
use crate::units::{self, Rate};

#[derive(Args)]
#[command(next_help_heading = "Performance")]
pub struct WorkersArgs {
    /// Use N workers (default: auto-tuned)
    #[arg(short = 'j', long, visible_alias = "numworkers", value_name = "N", value_parser = workers)]
    pub(super) workers: Option<u32>,
}

#[derive(Args)]
#[command(next_help_heading = "Performance")]
pub struct SpeedArgs {
    #[command(flatten)]
    workers: WorkersArgs,
    /// Limit throughput to RATE per second: 400M, 1.5G, 10Gbit (without a unit KiB as in rsync; 0: unlimited)
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    bwlimit: Option<Rate>,
}

fn workers(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(number @ 1..=4096) => Ok(number),
        Ok(number) => Err(format!("{number} is not in 1..=4096")),
        Err(_) => Err("-j is a number of workers, 1..=4096; to go through another host write -J HOST".into()),
    }
}

impl SpeedArgs {
    pub(super) fn resolve(&self) -> Performance {
        Performance { workers: self.workers.workers, bandwidth: self.bwlimit.and_then(|rate| rate.0), ..Performance::default() }
    }
}

/// The smallest chunk: below it a chunk costs more to note than to move.
const CHUNK_LEAST: u64 = 64 << 10;

#[derive(Args)]
#[command(next_help_heading = "Performance")]
pub struct TransportArgs {
    /// Set the chunk size of large files, at least 64K (default: 16M, on most remote hosts 4M)
    #[arg(long, visible_alias = "part-size", value_name = "SIZE", value_parser = units::parse_size)]
    chunk_size: Option<u64>,
    /// Let at most N workers transfer chunks of the same file (-j limits all of them together)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    concurrency: Option<u32>,
    /// Use N data connections per host (default: auto-tuned)
    #[arg(long, visible_alias = "parallel", value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    streams: Option<u8>,
    /// Compress data on the network (no effect on local copies)
    #[arg(short = 'z', long)]
    compress: bool,
    /// Copy changed files whole, without delta transfer (always so for local copies)
    #[arg(short = 'W', long)]
    whole_file: bool,
}

impl TransportArgs {
    /// Adds to what [`SpeedArgs`] say.
    pub(super) fn resolve(&self, performance: Performance) -> Result<Performance, Refusal> {
        match self.chunk_size {
            Some(chunk) if chunk < CHUNK_LEAST => Err("--chunk-size is below 64 KiB, the smallest useful chunk; write 64K or more".into()),
            chunk => Ok(Performance {
                chunk,
                concurrency: self.concurrency,
                streams: self.streams.map(usize::from),
                compress: self.compress,
                whole_file: self.whole_file,
                ..performance
            }),
        }
    }
}
