//! bench sweep.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use haul_bench::sweep::{Direction, Grid};

use super::comparison::{ComparisonArgs, ComparisonFlags};
use crate::flags::{Environment, Refusal, location};
use crate::location::Location;
use crate::units;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepFlags {
    pub source: Location,
    pub destination: Location,
    pub grid: Grid,
    /// Empty where both are on this machine.
    pub directions: Vec<Direction>,
    /// Where copies go that are read back.
    pub back: Option<PathBuf>,
    pub comparison: ComparisonFlags,
}

/// Measure a copy over a grid of workers, chunk sizes and directions
///
/// Each point runs `haul cp` with these settings into a fresh directory below DST that is removed afterwards; haul's own tuning
/// is measured too and compared with the best point. DST must be empty; nothing else is changed.
#[derive(Args)]
#[command(
    override_usage = "haul bench sweep [OPTIONS] SRC DST",
    before_help = "Examples:
  haul bench sweep data /scratch/me/empty                   1, 2, 4, 8 and 16 workers
  haul bench sweep --workers 4,16 --chunk 1MiB,8MiB data cluster:/scratch/me/empty
  haul bench sweep --direction both --back /scratch/back data cluster:/scratch/me/empty"
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
    /// Measure put, get or both, seen from this machine; the reverse of SRC to DST needs --back
    #[arg(long, value_name = "WAY", value_parser = ["put", "get", "both"])]
    direction: Option<String>,
    /// Copy back from DST into DIR, an empty or new directory on this machine
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    back: Option<PathBuf>,
    #[command(flatten)]
    comparison: ComparisonArgs,
}

impl SweepArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<SweepFlags, Refusal> {
        let (source, destination) = (location(&self.source, environment)?, location(&self.destination, environment)?);
        let natural = match (source.is_remote(), destination.is_remote()) {
            (false, true) => Some(Direction::Put),
            (true, false) => Some(Direction::Get),
            _ => None,
        };
        let directions = match (self.direction.as_deref(), natural) {
            (None, natural) => natural.into_iter().collect(),
            (Some(_), None) => return Err("--direction needs one local and one remote place".into()),
            (Some("put"), Some(Direction::Put)) => vec![Direction::Put],
            (Some("get"), Some(Direction::Get)) => vec![Direction::Get],
            (Some(_), Some(Direction::Get)) => return Err("to measure put as well, name the local place as SRC".into()),
            (Some("get"), Some(Direction::Put)) => vec![Direction::Get],
            (Some(_), Some(Direction::Put)) => vec![Direction::Put, Direction::Get],
        };
        let reads_back = natural == Some(Direction::Put) && directions.contains(&Direction::Get);
        match (&self.back, reads_back) {
            (None, true) => return Err("name an empty directory for the copies that are read back with --back DIR".into()),
            (Some(_), false) => return Err("--back is for --direction get or both, with SRC on this machine".into()),
            _ => {}
        }
        Ok(SweepFlags {
            source,
            destination,
            grid: Grid { workers: self.workers, chunks: self.chunk, concurrency: self.concurrency, logins: self.connections },
            directions,
            back: self.back,
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
