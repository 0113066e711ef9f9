//! mkdir and rm.

use std::ffi::OsString;

use clap::{ArgMatches, Args, ValueHint};
use haul_core::job::Bounds;
use haul_core::spec::Selection;
use haul_run::location::{Location, Scheme};

use super::bucket::versioned;
use super::connect::{AskArgs, Connect};
use super::select::SelectArgs;
use super::speed::WorkersArgs;
use super::{Environment, Refusal, locations};
use haul_s3::flags as objects;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkdirFlags {
    pub places: Vec<Location>,
    pub parents: bool,
    pub connect: Connect,
}

/// Create directories
#[derive(Args)]
#[command(
    override_usage = "haul mkdir [OPTIONS] DIR...",
    before_help = "Examples:
  haul mkdir -p /scratch/me/run7/out"
)]
pub struct MkdirArgs {
    /// The directories
    #[arg(value_name = "DIR", required = true, value_hint = ValueHint::DirPath)]
    paths: Vec<OsString>,
    /// Create missing parents; do not fail if a directory exists
    #[arg(short, long)]
    parents: bool,
    #[command(flatten)]
    connect: AskArgs,
}

impl MkdirArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<MkdirFlags, Refusal> {
        let places = locations(&self.paths, environment)?;
        refuse_stdio(&places)?;
        Ok(MkdirFlags { places, parents: self.parents, connect: self.connect.resolve() })
    }
}

pub(super) fn refuse_stdio(places: &[Location]) -> Result<(), Refusal> {
    if places.iter().any(|p| p.scheme == Scheme::STDIO) {
        Err("- is standard input or output; for a file named - write ./-".into())
    } else {
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RmFlags {
    pub places: Vec<Location>,
    pub recursive: bool,
    /// `-f`: what is not there is no error.
    pub ignore_missing: bool,
    /// `--force`: also the home or working directory, a mount point or a whole bucket.
    pub force: bool,
    pub dry: bool,
    /// Only of objects: every version, for good.
    pub versions: bool,
    /// Uploads that were begun and not completed, in place of objects.
    pub uploads: bool,
    /// Of uploads only `--older-than`.
    pub selection: Selection,
    /// `-j`.
    pub workers: Option<u32>,
    pub connect: Connect,
}

/// Remove files, and with -r directories
///
/// The home or working directory, a mount point or a whole bucket need --force (not -f). Objects are removed in batches of 1,000.
/// With filters, PATH itself and directories that keep something stay.
#[derive(Args)]
#[command(
    override_usage = "haul rm [OPTIONS] PATH...",
    before_help = "Examples:
  haul rm -r scratch/run7       many workers: fast on slow metadata servers
  haul rm -rn scratch/run7      show what would be removed
  haul rm -r --exclude '*.nc' --older-than 30d scratch/run7
  haul rm 's3://b/run7/*.tmp'   wildcards in keys; ** crosses slashes, * does not
  haul rm --uploads --older-than 7d s3://b"
)]
pub struct RmArgs {
    /// Files, directories or objects
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,
    /// Remove directories and their contents
    #[arg(short, long)]
    recursive: bool,
    /// Ignore missing files
    #[arg(short = 'f', long)]
    ignore_missing: bool,
    /// Allow removing the home or working directory, a mount point or a whole bucket
    #[arg(long)]
    force: bool,
    /// Show what would be removed, and do nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Remove this version of an object permanently
    #[arg(long, value_name = "ID", value_parser = objects::version, conflicts_with_all = ["all_versions", "uploads", "recursive"])]
    version_id: Option<String>,
    /// Remove all versions and delete markers of objects permanently
    #[arg(long, conflicts_with = "uploads")]
    all_versions: bool,
    /// Remove unfinished multipart uploads instead of objects; they can no longer be resumed
    #[arg(long)]
    uploads: bool,
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    speed: WorkersArgs,
    #[command(flatten)]
    connect: AskArgs,
}

impl RmArgs {
    pub(super) fn resolve(self, given: &ArgMatches, environment: &Environment<'_>) -> Result<RmFlags, Refusal> {
        let places = locations(&self.paths, environment)?;
        refuse_stdio(&places)?;
        let of_objects = self.version_id.is_some() || self.all_versions || self.uploads;
        if of_objects && let Some(other) = places.iter().find(|place| !place.scheme.keys) {
            return Err(format!("{other} is no object store; versions and uploads are for s3:// addresses"));
        }
        let selection = self.select.resolve(given, environment)?;
        let only_older = Bounds { older: selection.bounds.older, ..Bounds::default() };
        if self.uploads && (!selection.filters.is_empty() || selection.bounds != only_older) {
            return Err("of the filters, --uploads takes --older-than alone".into());
        }
        let connect = versioned(self.connect.resolve(), self.version_id, &places)?;
        Ok(RmFlags {
            versions: self.all_versions,
            uploads: self.uploads,
            selection,
            places,
            recursive: self.recursive,
            ignore_missing: self.ignore_missing,
            force: self.force,
            dry: self.dry_run,
            workers: self.speed.workers,
            connect,
        })
    }
}
