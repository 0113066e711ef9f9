//! bench compare.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::contest::{ContestArgs, ContestFlags};
use crate::flags::{Environment, Refusal, location};
use crate::location::Location;
use crate::units;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompareFlags {
    /// Source and destination; `None` where only the table is to be printed.
    pub places: Option<(Location, Location)>,
    /// Empty: all that are found and fit.
    pub tools: Vec<String>,
    pub table: Option<PathBuf>,
    /// What tools that can are told to do at once.
    pub threads: Option<u32>,
    /// As it was written, and in bytes.
    pub extrapolate: Option<(String, u64)>,
    pub contest: ContestFlags,
}

/// Time other tools beside haul on the same work, and check every copy
///
/// Each round runs every tool once, in an order of chance, into a fresh directory below DST that is removed again. A copy that
/// is not the same as SRC counts as wrong, however fast it was. DST must be empty; nothing else is touched.
#[derive(Args)]
#[command(
    override_usage = "haul bench compare [OPTIONS] SRC DST\n       haul bench compare --print-table [--table FILE]",
    before_help = "Examples:
  haul bench compare data /scratch/me/empty              all tools found here, five times
  haul bench compare --tools haul,rsync,scp data cluster:/scratch/me/empty
  haul bench compare --extrapolate 13TB data s3://bucket/empty/
  haul bench compare --print-table > tools.conf          the command lines, to be changed and
  haul bench compare --table tools.conf data /mnt/empty  used

The copies are made by other programs as their users would run them; --print-table shows how."
)]
pub struct CompareArgs {
    /// A directory or file to copy: here, HOST:PATH or s3://BUCKET/KEY
    #[arg(value_name = "SRC", required_unless_present = "print_table", value_hint = ValueHint::AnyPath)]
    source: Option<OsString>,
    /// An empty directory, or one to be made; SRC or DST is on this machine
    #[arg(value_name = "DST", required_unless_present = "print_table", value_hint = ValueHint::DirPath)]
    destination: Option<OsString>,
    /// Only these, in this order; the others are held against the first
    #[arg(long, value_name = "NAME,NAME,...", value_delimiter = ',')]
    tools: Vec<String>,
    /// Add the tools in FILE, or change those with the same names
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    table: Option<PathBuf>,
    /// Print the table of tools and how they are run, and do nothing else
    #[arg(long)]
    print_table: bool,
    /// How much a tool does at once that must be told (else the number of processors, at least 4)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Also say how long so much of the same would take: 13TB
    #[arg(long, value_name = "SIZE", value_parser = named_size)]
    extrapolate: Option<(String, u64)>,
    #[command(flatten)]
    contest: ContestArgs,
}

impl CompareArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<CompareFlags, Refusal> {
        let places = match (&self.source, &self.destination) {
            _ if self.print_table => None,
            (Some(source), Some(destination)) => Some((location(source, environment)?, location(destination, environment)?)),
            _ => return Err("SRC and DST are needed".into()),
        };
        let tools: Vec<String> = self.tools.iter().map(|name| name.trim().to_string()).filter(|name| !name.is_empty()).collect();
        for (at, name) in tools.iter().enumerate() {
            if tools[..at].contains(name) {
                return Err(format!("--tools names {name} twice"));
            }
        }
        Ok(CompareFlags {
            places,
            tools,
            table: self.table,
            threads: self.threads,
            extrapolate: self.extrapolate,
            contest: self.contest.resolve(),
        })
    }
}

fn named_size(text: &str) -> Result<(String, u64), String> {
    units::parse_size(text).map(|bytes| (text.to_string(), bytes))
}
