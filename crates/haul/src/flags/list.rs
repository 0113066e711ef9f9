//! ls, du, tree and cat: looking, not touching.

use std::ffi::OsString;

use clap::{ArgMatches, Args, ValueHint};

use super::connect::{Connect, ConnectArgs};
use super::select::{Select, SelectArgs};
use super::speed::{Speed, SpeedArgs};
use super::{Environment, Refusal, locations};
use crate::location::Location;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LsFlags {
    /// At least one: the current directory when none was named.
    pub places: Vec<Location>,
    pub long: bool,
    /// Names that begin with a dot too.
    pub all: bool,
    pub human: bool,
    pub recursive: bool,
    pub speed: Speed,
    pub connect: Connect,
}

/// List names
#[derive(Args)]
#[command(
    override_usage = "haul ls [OPTIONS] [PATH...]",
    before_help = "Examples:
  haul ls -lh /scratch/me       modes, owners, sizes, times
  haul ls -R data/              everything below"
)]
pub struct LsArgs {
    /// What to list
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,
    /// Modes, owners, sizes and times too
    #[arg(short, long)]
    long: bool,
    /// Names that begin with a dot too
    #[arg(short, long)]
    all: bool,
    /// Sizes as 5.24 GiB (help is --help)
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// All that is below, too
    #[arg(short = 'R', long)]
    recursive: bool,
    #[command(flatten)]
    speed: SpeedArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The addresses, or the current directory.
fn places(paths: &[OsString], environment: &Environment<'_>) -> Result<Vec<Location>, Refusal> {
    if paths.is_empty() { Ok(vec![Location::local(b".")]) } else { locations(paths, environment) }
}

impl LsArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<LsFlags, Refusal> {
        Ok(LsFlags {
            places: places(&self.paths, environment)?,
            long: self.long,
            all: self.all,
            human: self.human_readable,
            recursive: self.recursive,
            speed: self.speed.resolve(),
            connect: self.connect.resolve(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuFlags {
    pub places: Vec<Location>,
    /// Levels of directories to show; 0 with `-s`, `None` is all.
    pub depth: Option<u32>,
    pub human: bool,
    pub select: Select,
    pub speed: Speed,
    pub connect: Connect,
}

/// Sizes and counts of directories
#[derive(Args)]
#[command(
    override_usage = "haul du [OPTIONS] [PATH...]",
    before_help = "Examples:
  haul du -sh /scratch/me          one line
  haul du -h -d 1 /scratch/me      a line for each directory in it"
)]
pub struct DuArgs {
    /// What to measure
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,
    /// Only the total of each PATH
    #[arg(short, long)]
    summarize: bool,
    /// Sizes as 5.24 GiB (help is --help)
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// Show N levels of directories
    #[arg(short = 'd', long, visible_alias = "max-depth", value_name = "N")]
    depth: Option<u32>,
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    speed: SpeedArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

impl DuArgs {
    pub(super) fn resolve(self, given: &ArgMatches, environment: &Environment<'_>) -> Result<DuFlags, Refusal> {
        if self.summarize && self.depth.is_some_and(|depth| depth > 0) {
            return Err("-s shows no levels and -d some; leave one out".into());
        }
        Ok(DuFlags {
            places: places(&self.paths, environment)?,
            depth: if self.summarize { Some(0) } else { self.depth },
            human: self.human_readable,
            select: self.select.resolve(given, environment)?,
            speed: self.speed.resolve(),
            connect: self.connect.resolve(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeFlags {
    pub places: Vec<Location>,
    /// Sizes of directories with all that is in them.
    pub du: bool,
    pub depth: Option<u32>,
    pub human: bool,
    pub select: Select,
    pub speed: Speed,
    pub connect: Connect,
}

/// A tree with counts and sizes
#[derive(Args)]
#[command(
    override_usage = "haul tree [OPTIONS] [PATH...]",
    before_help = "Examples:
  haul tree --du -h data        sizes, and at the end how much in how many files
  haul tree -d 2 data           two levels"
)]
pub struct TreeArgs {
    /// What to show
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,
    /// Sizes, those of directories with all that is in them
    #[arg(long)]
    du: bool,
    /// Sizes as 5.24 GiB (help is --help)
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// Show N levels
    #[arg(short = 'd', long, visible_short_alias = 'L', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    speed: SpeedArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

impl TreeArgs {
    pub(super) fn resolve(self, given: &ArgMatches, environment: &Environment<'_>) -> Result<TreeFlags, Refusal> {
        Ok(TreeFlags {
            places: places(&self.paths, environment)?,
            du: self.du,
            depth: self.depth,
            human: self.human_readable,
            select: self.select.resolve(given, environment)?,
            speed: self.speed.resolve(),
            connect: self.connect.resolve(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatFlags {
    pub places: Vec<Location>,
    pub connect: Connect,
}

/// Write files to standard output
#[derive(Args)]
#[command(
    override_usage = "haul cat [OPTIONS] PATH...",
    before_help = "Examples:
  haul cat run7/log.txt
  haul cat part.* > whole"
)]
pub struct CatArgs {
    /// The files, in this order
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,
    #[command(flatten)]
    connect: ConnectArgs,
}

impl CatArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<CatFlags, Refusal> {
        Ok(CatFlags { places: locations(&self.paths, environment)?, connect: self.connect.resolve() })
    }
}
