//! What compare and sweep have in common.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use haul_bench::comparison::Caches;

use crate::flags::connect::{Connect, ConnectArgs};
use crate::units;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparisonFlags {
    pub repeat: u32,
    pub warmup: u32,
    /// `None`: random, or that of the run that is resumed.
    pub seed: Option<u64>,
    pub limit: Duration,
    pub caches: Caches,
    /// The run directory.
    pub out: Option<PathBuf>,
    pub connect: Connect,
}

#[derive(Args)]
pub struct ComparisonArgs {
    /// Measure each N times
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,
    /// Run N times first, uncounted
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    warmup: u32,
    /// Use this seed for the order in each round (default: random, and printed)
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Stop a copy that takes longer, and do not repeat it
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = limit)]
    limit: Duration,
    /// Drop the local caches before each copy, keep them warm, or drop them if permitted (auto)
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = caches)]
    caches: Caches,
    /// Keep samples in DIR (default: below the state directory); an interrupted run in DIR resumes
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,
    #[command(flatten)]
    connect: ConnectArgs,
}

impl ComparisonArgs {
    pub(super) fn resolve(self) -> ComparisonFlags {
        ComparisonFlags {
            repeat: self.repeat,
            warmup: self.warmup,
            seed: self.seed,
            limit: self.limit,
            caches: self.caches,
            out: self.out,
            connect: self.connect.resolve(),
        }
    }
}

fn limit(text: &str) -> Result<Duration, String> {
    match units::parse_duration(text)? {
        limit if limit < Duration::from_millis(100) => Err("at least 100ms".into()),
        limit => Ok(limit),
    }
}

fn caches(text: &str) -> Result<Caches, String> {
    let found = Caches::ALL.iter().find(|(_, word)| *word == text);
    found.map(|(caches, _)| *caches).ok_or_else(|| "there are drop, warm and auto".to_string())
}
