//! check and sum: are they the same, and were they then?

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, ValueEnum, ValueHint};
use haul_core::entry::MetaMask;
use haul_core::plan::Compare;
use haul_core::spec::{Attributes, Input, Operation, Performance, Selection, TransferSpec};
use haul_run::location::{Location, Scheme};

use super::connect::{Connect, ConnectArgs};
use super::keep::KeepArgs;
use super::run::{BatchChoice, RetryArgs, Run, RunArgs};
use super::same::SameArgs;
use super::select::{ListedArgs, NulArgs, SelectArgs, input};
use super::shown::ids;
use super::speed::SpeedArgs;
use super::{Environment, Refusal, location, locations};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFlags {
    /// The list that the destination is compared with, in place of a source: one that `haul sum` or sha256sum and its kin wrote.
    pub manifest: Option<Input>,
    /// Its attributes must be equal too; without `-a`, `-p` and so on modification times alone, with `-c` none.
    pub spec: TransferSpec,
    /// Lists for `--files-from`, beside the one on standard output.
    pub missing_to: Option<PathBuf>,
    pub extra_to: Option<PathBuf>,
    pub differing_to: Option<PathBuf>,
    pub failed_to: Option<PathBuf>,
    pub batch: BatchChoice,
    pub connect: Connect,
}

impl CheckFlags {
    /// Only what is missing or differs at the destination is listed.
    pub fn is_one_way(&self) -> bool {
        self.spec.operation == Operation::Check { one_way: true }
    }
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

/// An option that says nothing beside `--manifest`: the manifest names the files and their content.
fn without_effect(given: &ArgMatches) -> Option<String> {
    let of_groups = [ids::<SelectArgs>(), ids::<SameArgs>(), ids::<KeepArgs>()].into_iter().flatten();
    let own = ["files_from", "deadline", "timeout", "failed_to"].map(String::from);
    let is_given = |id: &String| given.value_source(id) == Some(ValueSource::CommandLine);
    of_groups.chain(own).find(is_given).map(|id| format!("--{}", id.replace('_', "-")))
}

impl CheckArgs {
    pub(super) fn resolve(self, given: &ArgMatches, environment: &Environment<'_>) -> Result<CheckFlags, Refusal> {
        let manifest = self.manifest.as_ref().map(input);
        let (sources, tree) = match (&manifest, self.paths.as_slice()) {
            (None, [source, target]) => (vec![location(source, environment)?], location(target, environment)?),
            (None, _) => return Err("check takes two addresses, SRC and DST; or --manifest FILE and one DIR".into()),
            (Some(_), [tree]) => (Vec::new(), location(tree, environment)?),
            (Some(_), _) => return Err("with --manifest check takes one address, the DIR to verify".into()),
        };
        if let Some(option) = manifest.as_ref().and_then(|_| without_effect(given)) {
            return Err(format!("{option} has no effect with --manifest, which names the files to verify; omit it"));
        }
        if sources.iter().chain([&tree]).any(|place| place.scheme == Scheme::STDIO) {
            return Err("- has no names to compare; write it to a file first".into());
        }
        let mut selection = self.select.resolve(given, environment)?;
        self.listed.resolve(&mut selection, usize::from(manifest == Some(Input::Stdin)))?;
        selection.recurse_listed = selection.files_from.is_some();
        let Run { limits, failed_to, batch } = self.run.resolve(environment)?;
        let comparison = self.same.resolve()?;
        // Where the content decides, times count only where they are asked for.
        let always = if comparison.compare == Compare::Content { MetaMask::NONE } else { MetaMask::MTIME };
        let spec = TransferSpec {
            selection,
            comparison,
            attributes: KeepArgs::resolve(given, Attributes::only(always), environment)?,
            limits,
            performance: self.speed.resolve(),
            ..TransferSpec::new(Operation::Check { one_way: self.one_way }, sources, tree)
        };
        Ok(CheckFlags {
            manifest,
            spec,
            missing_to: self.missing_to,
            extra_to: self.extra_to,
            differing_to: self.differing_to,
            failed_to,
            batch,
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
    pub selection: Selection,
    pub retries: Option<u32>,
    pub performance: Performance,
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
    lists: NulArgs,
    #[command(flatten)]
    retry: RetryArgs,
    #[command(flatten)]
    speed: SpeedArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

impl SumArgs {
    pub(super) fn resolve(self, given: &ArgMatches, environment: &Environment<'_>) -> Result<SumFlags, Refusal> {
        let sources = locations(&self.paths, environment)?;
        let mut selection = self.select.resolve(given, environment)?;
        self.lists.resolve(&mut selection, sources.iter().filter(|s| s.scheme == Scheme::STDIO).count())?;
        Ok(SumFlags {
            sources,
            format: self.format,
            output: self.output,
            selection,
            retries: self.retry.retries,
            performance: self.speed.resolve(),
            connect: self.connect.resolve(),
        })
    }
}
