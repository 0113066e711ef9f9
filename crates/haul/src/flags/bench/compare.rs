//! bench compare.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use haul_bench::comparison::Caches;
use haul_run::location::Location;

use crate::flags::connect::{Connect, ConnectArgs};
use crate::flags::{Environment, Refusal, location};
use crate::units;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompareFlags {
    /// Source and destination; `None` where only the table is to be printed.
    pub places: Option<(Location, Location)>,
    pub options: CompareOptions,
    pub connect: Connect,
    /// The flags of `connect`, for haul as a tool.
    pub connect_words: Vec<OsString>,
}

/// Compare haul with other tools on the same data, and check every copy
///
/// Each round runs every tool once, in random order, into a fresh directory below DST that is removed afterwards. A copy that
/// differs from SRC counts as wrong. DST must be empty; nothing else is changed.
#[derive(Args)]
#[command(
    override_usage = "haul bench compare [OPTIONS] SRC DST\n       haul bench compare --print-table [--table FILE]",
    before_help = "Examples:
  haul bench compare data /scratch/me/empty              all installed tools, five times
  haul bench compare --tools haul,rsync,scp data cluster:/scratch/me/empty
  haul bench compare --tools haul -j 1,4,16 data cluster:/scratch/me/empty
  haul bench compare --extrapolate 13TB data s3://bucket/empty/
  haul bench compare --print-table > tools.conf          edit the command lines,
  haul bench compare --table tools.conf data /mnt/empty  then use them

The tools run with their usual options; --print-table shows the command lines."
)]
pub struct CompareArgs {
    /// A directory or file to copy: a local path, HOST:PATH or s3://BUCKET/KEY
    #[arg(value_name = "SRC", required_unless_present = "print_table", value_hint = ValueHint::AnyPath)]
    source: Option<OsString>,
    /// An empty or new directory; SRC or DST must be on this machine
    #[arg(value_name = "DST", required_unless_present = "print_table", value_hint = ValueHint::DirPath)]
    destination: Option<OsString>,
    #[command(flatten)]
    options: CompareOptions,
    #[command(flatten)]
    connect: ConnectArgs,
}

// No comment of documentation: it would replace that of the command.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct CompareOptions {
    /// Compare only these tools, in this order; the first is the baseline
    #[arg(long, value_name = "NAME,NAME,...", value_delimiter = ',')]
    pub tools: Vec<String>,
    /// Add the tools in FILE; they override tools of the same name
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub table: Option<PathBuf>,
    /// Print the table of tools and their command lines, and exit
    #[arg(long)]
    pub print_table: bool,
    /// Pass N threads to tools that need a number (default: number of cores, at least 4)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Also estimate the time for SIZE of the same data: 13TB
    #[arg(long, value_name = "SIZE", value_parser = named_size)]
    pub extrapolate: Option<(String, u64)>,
    /// Also run haul with these numbers of workers (haul cp -j)
    #[arg(short = 'j', long, value_name = "N,N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Vec<u32>,
    /// Measure each N times
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeat: u32,
    /// Run N times first, uncounted
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub warmup: u32,
    /// Use this seed for the order in each round (default: random, and printed)
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Stop a copy that takes longer, and do not repeat it
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = limit)]
    pub limit: Duration,
    /// Drop the local caches before each copy, keep them warm, or drop them if permitted (auto)
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = caches)]
    pub caches: Caches,
    /// Keep samples in DIR (default: below the state directory); an interrupted run in DIR resumes
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
}

impl CompareArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<CompareFlags, Refusal> {
        let mut options = self.options;
        let places = match (&self.source, &self.destination) {
            _ if options.print_table => None,
            (Some(source), Some(destination)) => Some((location(source, environment)?, location(destination, environment)?)),
            _ => return Err("SRC and DST are needed".into()),
        };
        options.tools = options.tools.iter().map(|name| name.trim().to_string()).filter(|name| !name.is_empty()).collect();
        for (at, name) in options.tools.iter().enumerate() {
            if options.tools[..at].contains(name) {
                return Err(format!("--tools names {name} twice"));
            }
        }
        options.workers.sort_unstable();
        options.workers.dedup();
        let connect_words = self.connect.words.clone();
        Ok(CompareFlags { places, options, connect: self.connect.resolve(), connect_words })
    }
}

fn named_size(text: &str) -> Result<(String, u64), String> {
    units::parse_size(text).map(|bytes| (text.to_string(), bytes))
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
