//! check and sum: are they the same, and were they then?

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Args, ValueEnum, ValueHint};
use haul_core::entry::MetaMask;
use haul_core::plan::Policy;

use super::connect::{Connect, ConnectArgs};
use super::keep::{Keep, KeepArgs};
use super::run::{Run, RunArgs};
use super::same::SameArgs;
use super::select::{Input, Listed, ListedArgs, Select, SelectArgs};
use super::speed::{Speed, SpeedArgs};
use super::{Environment, Refusal, location, locations};
use crate::location::{Location, Scheme};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFlags {
    pub against: Against,
    /// The tree that is judged.
    pub tree: Location,
    /// Only what is missing or differs at DST, not what is there besides.
    pub one_way: bool,
    /// Attributes that must be equal too; time alone without `-a`, `-p` and so on.
    pub keep: Keep,
    pub policy: Policy,
    pub select: Select,
    pub listed: Listed,
    /// Lists for `--files-from`, beside the one on standard output.
    pub missing_to: Option<PathBuf>,
    pub extra_to: Option<PathBuf>,
    pub differing_to: Option<PathBuf>,
    pub run: Run,
    pub speed: Speed,
    pub connect: Connect,
}

/// What a tree is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Against {
    Source(Location),
    /// A list that `haul sum` or sha256sum and its kin have written.
    Manifest(Input),
}

/// Compare two trees, or a tree with its manifest
///
/// It lists missing, extra and differing names, in a form for --files-from. Exit code 0: identical, 1: different, 2: usage error.
#[derive(Args)]
#[command(
    override_usage = "haul check [OPTIONS] SRC DST\n       haul check [OPTIONS] --manifest FILE DIR",
    before_help = "Examples:
  haul check data/ /backup/data                   by size and time
  haul check --checksum data/ /backup/data        by content
  haul check --manifest data.sums /archive/data   years later, without the source"
)]
pub struct CheckArgs {
    /// SRC and DST, or with --manifest one DIR
    #[arg(value_name = "DIR", value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,
    /// Compare DIR with the manifest FILE (- reads standard input)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Comparison")]
    manifest: Option<OsString>,
    /// Do not list files that only DST has
    #[arg(long, help_heading = "Comparison")]
    one_way: bool,
    #[command(flatten)]
    same: SameArgs,
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    listed: ListedArgs,
    #[command(flatten)]
    keep: KeepArgs,
    /// Write the names that DST lacks to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    missing_to: Option<PathBuf>,
    /// Write the names that only DST has to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    extra_to: Option<PathBuf>,
    /// Write the names that differ to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    differing_to: Option<PathBuf>,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    speed: SpeedArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

impl CheckArgs {
    pub(super) fn resolve(self, given: &ArgMatches, environment: &Environment<'_>) -> Result<CheckFlags, Refusal> {
        let manifest = self.manifest.as_ref().map(Input::from);
        let (against, tree) = match (manifest, self.paths.as_slice()) {
            (None, [source, target]) => (Against::Source(location(source, environment)?), location(target, environment)?),
            (None, _) => return Err("check takes two addresses, SRC and DST; or --manifest FILE and one DIR".into()),
            (Some(manifest), [tree]) => (Against::Manifest(manifest), location(tree, environment)?),
            (Some(_), _) => return Err("with --manifest check takes one address, the DIR that is to be proven".into()),
        };
        let two = matches!(&against, Against::Source(l) if l.scheme == Scheme::STDIO) || tree.scheme == Scheme::STDIO;
        if two {
            return Err("- has no names to compare; write it to a file first".into());
        }
        let select = self.select.resolve(given, environment)?;
        let listed = self.listed.resolve(&select, usize::from(against == Against::Manifest(Input::Stdin)))?;
        Ok(CheckFlags {
            against,
            tree,
            one_way: self.one_way,
            keep: KeepArgs::resolve(given, Keep::only(MetaMask::MTIME), environment)?,
            policy: self.same.resolve()?,
            select,
            listed,
            missing_to: self.missing_to,
            extra_to: self.extra_to,
            differing_to: self.differing_to,
            run: self.run.resolve(environment)?,
            speed: self.speed.resolve(),
            connect: self.connect.resolve(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumFlags {
    pub sources: Vec<Location>,
    pub format: SumFormat,
    /// `-o`; `None` is standard output.
    pub output: Option<PathBuf>,
    pub select: Select,
    pub listed: Listed,
    pub run: Run,
    pub speed: Speed,
    pub connect: Connect,
}

/// How a manifest is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SumFormat {
    /// Path, size, mtime and BLAKE3: recommended for `haul check --manifest`
    Blake3,
    /// As sha256sum writes it
    Sha256sum,
    /// As md5sum writes it
    Md5sum,
    /// As sha1sum writes it
    Sha1sum,
    /// As sha512sum writes it
    Sha512sum,
    /// As xxh128sum writes it: fast, not cryptographic
    Xxh128sum,
}

/// Write a manifest: path, size, time and hash of every file
#[derive(Args)]
#[command(
    override_usage = "haul sum [OPTIONS] PATH...",
    before_help = "Examples:
  haul sum data/ -o data.sums                      for `haul check --manifest data.sums data/`
  haul sum --format sha256sum data/ > SHA256SUMS   for `sha256sum -c`
  haul sum --json data/                            one JSON object per file; with -o,
                                                   write the manifest too"
)]
pub struct SumArgs {
    /// Files and directories
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,
    /// Set the format of the manifest
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "blake3", help_heading = "Output")]
    format: SumFormat,
    /// Write to FILE, atomically
    #[arg(short = 'o', long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    output: Option<PathBuf>,
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    listed: ListedArgs,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    speed: SpeedArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

impl SumArgs {
    pub(super) fn resolve(self, given: &ArgMatches, environment: &Environment<'_>) -> Result<SumFlags, Refusal> {
        let sources = locations(&self.paths, environment)?;
        let select = self.select.resolve(given, environment)?;
        let listed = self.listed.resolve(&select, sources.iter().filter(|s| s.scheme == Scheme::STDIO).count())?;
        Ok(SumFlags {
            sources,
            format: self.format,
            output: self.output,
            select,
            listed,
            run: self.run.resolve(environment)?,
            speed: self.speed.resolve(),
            connect: self.connect.resolve(),
        })
    }
}
