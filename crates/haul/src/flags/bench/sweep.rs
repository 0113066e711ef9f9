//! bench sweep.

use std::ffi::OsString;

use clap::{Args, ValueHint};
use haul_bench::sweep::Grid;

use super::comparison::{ComparisonArgs, ComparisonFlags};
use crate::flags::{Environment, Refusal, location};
use crate::location::Location;
use crate::units;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepFlags {
    pub source: Location,
    pub destination: Location,
    pub grid: Grid,
    pub comparison: ComparisonFlags,
}

/// Measure a copy over a grid of workers, chunk sizes and logins
///
/// Each point runs `haul cp` with these settings into a fresh directory below DST that is removed afterwards; haul's own tuning
/// is measured too and compared with the best point. DST must be empty; nothing else is changed.
#[derive(Args)]
#[command(
    override_usage = "haul bench sweep [OPTIONS] SRC DST",
    before_help = "Examples:
  haul bench sweep data /scratch/me/empty                       1, 2, 4, 8 and 16 workers
  haul bench sweep --workers 4,16 --chunk 1MiB,8MiB data cluster:/scratch/me/empty
  haul bench sweep cluster:/scratch/me/data /scratch/me/empty   the other direction"
)]
pub struct SweepArgs {
    /// A directory or file to copy: a local path, HOST:PATH or s3://BUCKET/KEY
    #[arg(value_name = "SRC", value_hint = ValueHint::AnyPath)]
    source: OsString,
    /// An empty or new directory; SRC or DST must be on this machine
    #[arg(value_name = "DST", value_hint = ValueHint::DirPath)]
    destination: OsString,
    /// Try these numbers of workers (haul cp -j)
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_value = "1,2,4,8,16",
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Vec<u32>,
    /// Try these chunk sizes (haul cp --chunk-size)
    #[arg(long, value_name = "SIZE,SIZE,...", value_delimiter = ',', value_parser = chunk)]
    chunk: Vec<u64>,
    /// Try these numbers of workers per file (haul cp --concurrency)
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    concurrency: Vec<u32>,
    /// Try these numbers of SSH logins (haul cp --logins)
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=16))]
    connections: Vec<u32>,
    #[command(flatten)]
    comparison: ComparisonArgs,
}

impl SweepArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<SweepFlags, Refusal> {
        Ok(SweepFlags {
            source: location(&self.source, environment)?,
            destination: location(&self.destination, environment)?,
            grid: Grid { workers: self.workers, chunks: self.chunk, concurrency: self.concurrency, logins: self.connections },
            comparison: self.comparison.resolve(),
        })
    }
}

fn chunk(text: &str) -> Result<u64, String> {
    match units::parse_size(text)? {
        size if size < 64 << 10 => Err("at least 64K".into()),
        size => Ok(size),
    }
}
