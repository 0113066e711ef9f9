//! mkdir and rm.

use std::ffi::OsString;

use clap::{Args, ValueHint};

use super::connect::{Connect, ConnectArgs};
use super::speed::{Speed, SpeedArgs};
use super::{Environment, Refusal, locations};
use crate::location::{Location, Scheme};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkdirFlags {
    pub places: Vec<Location>,
    pub parents: bool,
    pub connect: Connect,
}

/// Make directories
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
    /// Their parents too; a directory that is there is no error
    #[arg(short, long)]
    parents: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

impl MkdirArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<MkdirFlags, Refusal> {
        let places = locations(&self.paths, environment)?;
        refuse_stdio(&places)?;
        Ok(MkdirFlags { places, parents: self.parents, connect: self.connect.resolve() })
    }
}

fn refuse_stdio(places: &[Location]) -> Result<(), Refusal> {
    if places.iter().any(|p| p.scheme == Scheme::Stdio) {
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
    /// `--force`: also `/`, the home directory, a mount point or a whole bucket.
    pub force: bool,
    pub dry: bool,
    pub speed: Speed,
    pub connect: Connect,
}

/// Remove files, and with -r directories
///
/// The root, the home directory, a mount point or a whole bucket need --force too, which -f is not.
#[derive(Args)]
#[command(
    override_usage = "haul rm [OPTIONS] PATH...",
    before_help = "Examples:
  haul rm -r scratch/run7       many workers: fast where metadata is slow
  haul rm -rn scratch/run7      says what would go"
)]
pub struct RmArgs {
    /// What to remove
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,
    /// Directories and all that is in them
    #[arg(short, long)]
    recursive: bool,
    /// What is not there is no error
    #[arg(short = 'f', long)]
    ignore_missing: bool,
    /// Also /, the home directory, a mount point or a whole bucket
    #[arg(long)]
    force: bool,
    /// Say what would be removed, and do nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    speed: SpeedArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

impl RmArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<RmFlags, Refusal> {
        let places = locations(&self.paths, environment)?;
        refuse_stdio(&places)?;
        Ok(RmFlags {
            places,
            recursive: self.recursive,
            ignore_missing: self.ignore_missing,
            force: self.force,
            dry: self.dry_run,
            speed: self.speed.resolve(),
            connect: self.connect.resolve(),
        })
    }
}
