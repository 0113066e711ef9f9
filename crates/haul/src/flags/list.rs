//! ls, du, tree and cat: looking, not touching.

use haul_run::location::Location;
use haul_ssh::ssh;
use std::ffi::OsString;

use clap::{ArgMatches, Args, ValueHint};

use super::bucket::versioned;
use super::connect::{AskArgs, Connect};
use super::select::SelectArgs;
use super::speed::WorkersArgs;
use super::{Environment, Refusal, locations};
use haul_core::spec::Selection;
use haul_s3::flags as objects;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LsFlags {
    /// At least one: the current directory when none was named.
    pub places: Vec<Location>,
    pub long: bool,
    /// Names that begin with a dot too.
    pub all: bool,
    pub human: bool,
    pub recursive: bool,
    /// Only of objects, as the three below.
    pub etag: bool,
    pub versions: bool,
    pub uploads: bool,
    pub selection: Selection,
    /// `-j`.
    pub workers: Option<u32>,
    pub connect: Connect,
}

/// List files, objects, object versions, unfinished uploads and buckets
///
/// Listing objects costs one request per 1,000 of them; `haul head` shows their other metadata.
#[derive(Args)]
#[command(
    override_usage = "haul ls [OPTIONS] [PATH...]",
    before_help = "Examples:
  haul ls -lh /scratch/me       with modes, owners, sizes, times
  haul ls -R data/              recursively
  haul ls -R --json data/       one JSON object per line
  haul ls s3://                 all buckets
  haul ls -l 's3://b/2024-*/x*.nc'
  haul ls --uploads s3://b      unfinished multipart uploads"
)]
pub struct LsArgs {
    /// Directories, files, buckets or keys
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,
    /// Show modes, owners, sizes and times (objects: classes, sizes and times)
    #[arg(short, long)]
    long: bool,
    /// Show names that begin with a dot too (objects are always shown)
    #[arg(short, long)]
    all: bool,
    /// Show sizes as 5.24 GiB (help is --help)
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// List directories recursively
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Show ETags of objects
    #[arg(long)]
    etag: bool,
    /// List all versions and delete markers of objects, with their IDs
    #[arg(long, visible_alias = "versions")]
    all_versions: bool,
    /// List unfinished multipart uploads instead of objects
    #[arg(long, conflicts_with_all = ["all_versions", "etag"])]
    uploads: bool,
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    speed: WorkersArgs,
    #[command(flatten)]
    connect: AskArgs,
}

/// The addresses, or the current directory.
fn places(paths: &[OsString], environment: &Environment<'_>) -> Result<Vec<Location>, Refusal> {
    if paths.is_empty() { Ok(vec![Location::local(b".")]) } else { locations(paths, environment) }
}

impl LsArgs {
    pub(super) fn resolve(self, given: &ArgMatches, environment: &Environment<'_>) -> Result<LsFlags, Refusal> {
        let mut connect = self.connect.resolve();
        let (mut paths, mut etag) = (self.paths, self.etag);
        // `-e` of s5cmd, which takes no value: no program to run as ssh has such a name.
        let mut ssh: ssh::Flags = connect.get();
        if let Some(place) = ssh.ssh.take_if(|command| command.as_encoded_bytes().starts_with(b"s3://")) {
            paths.insert(0, place);
            etag = true;
            connect.change(|flags: &mut ssh::Flags| flags.ssh = None);
        }
        let objects: haul_s3::Flags = connect.get();
        let places = match paths.is_empty() {
            // Whoever names a service and no path wants to see what is there.
            true if objects.endpoint_url.is_some() || objects.profile.is_some() => locations(&[OsString::from("s3://")], environment)?,
            _ => places(&paths, environment)?,
        };
        let (versions, uploads) = (self.all_versions, self.uploads);
        if (versions || uploads || etag)
            && let Some(other) = places.iter().find(|place| !place.scheme.keys || place.host.is_none())
        {
            return Err(format!("{other} is no place in a bucket; --all-versions, --uploads and --etag are for s3://BUCKET/..."));
        }
        Ok(LsFlags {
            places,
            long: self.long,
            all: self.all,
            human: self.human_readable,
            recursive: self.recursive,
            etag,
            versions,
            uploads,
            selection: self.select.resolve(given, environment)?,
            workers: self.speed.workers,
            connect,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuFlags {
    pub places: Vec<Location>,
    /// Sums of each storage class, too.
    pub by_class: bool,
    /// Versions that are not the latest count, too.
    pub versions: bool,
    /// Levels of directories to show; 0 with `-s`, `None` is all.
    pub depth: Option<u32>,
    pub human: bool,
    pub selection: Selection,
    /// `-j`.
    pub workers: Option<u32>,
    pub connect: Connect,
}

/// Show sizes and file counts of directories
#[derive(Args)]
#[command(
    override_usage = "haul du [OPTIONS] [PATH...]",
    before_help = "Examples:
  haul du -sh /scratch/me          only the total
  haul du -h -d 1 /scratch/me      one line per directory in it
  haul du -h --by-class s3://b/    totals of STANDARD, GLACIER, ...
  haul du -s --json /scratch/me    exact numbers, one JSON object per line"
)]
pub struct DuArgs {
    /// Directories, files or keys
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,
    /// Show only the total of each PATH
    #[arg(short, long)]
    summarize: bool,
    /// Show sizes as 5.24 GiB (help is --help)
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// Show N levels of directories (default: all)
    #[arg(short = 'd', long, visible_alias = "max-depth", value_name = "N")]
    depth: Option<u32>,
    /// Show totals per storage class (objects)
    #[arg(long, visible_alias = "group")]
    by_class: bool,
    /// Count noncurrent versions too (objects)
    #[arg(long, visible_alias = "versions")]
    all_versions: bool,
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    speed: WorkersArgs,
    #[command(flatten)]
    connect: AskArgs,
}

impl DuArgs {
    pub(super) fn resolve(self, given: &ArgMatches, environment: &Environment<'_>) -> Result<DuFlags, Refusal> {
        if self.summarize && self.depth.is_some_and(|depth| depth > 0) {
            return Err("-s shows no levels and -d some; leave one out".into());
        }
        let places = places(&self.paths, environment)?;
        if (self.by_class || self.all_versions)
            && let Some(other) = places.iter().find(|place| !place.scheme.keys)
        {
            return Err(format!("{other} is no object store; --by-class and --all-versions are for s3:// addresses"));
        }
        Ok(DuFlags {
            places,
            by_class: self.by_class,
            versions: self.all_versions,
            depth: if self.summarize { Some(0) } else { self.depth },
            human: self.human_readable,
            selection: self.select.resolve(given, environment)?,
            workers: self.speed.workers,
            connect: self.connect.resolve(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeFlags {
    pub places: Vec<Location>,
    /// Names that begin with a dot too.
    pub all: bool,
    pub dirs_only: bool,
    /// Sizes too, those of directories with all that is in them.
    pub sizes: bool,
    /// Levels to show, at least 1; `None` is all.
    pub depth: Option<u32>,
    pub human: bool,
    pub selection: Selection,
    /// `-j`.
    pub workers: Option<u32>,
    pub connect: Connect,
}

/// Show directories and files as a tree
#[derive(Args)]
#[command(
    override_usage = "haul tree [OPTIONS] [PATH...]",
    before_help = "Examples:
  haul tree data
  haul tree -d -L 2 host:data   directories only, two levels
  haul tree --du -h data        with sizes; directories include everything below
  haul tree --json s3://b/run7/ one JSON object per line"
)]
pub struct TreeArgs {
    /// Directories or key prefixes
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,
    /// Show names that begin with a dot too (objects are always shown)
    #[arg(short, long)]
    all: bool,
    /// List directories only
    #[arg(short, long)]
    dirs_only: bool,
    /// Show sizes; those of directories include everything below
    #[arg(long)]
    du: bool,
    /// Show sizes as 4.9G, 120K (help is --help)
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// Show N levels (default: all)
    #[arg(short = 'L', long, visible_alias = "level", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    speed: WorkersArgs,
    #[command(flatten)]
    connect: AskArgs,
}

impl TreeArgs {
    pub(super) fn resolve(self, given: &ArgMatches, environment: &Environment<'_>) -> Result<TreeFlags, Refusal> {
        Ok(TreeFlags {
            places: places(&self.paths, environment)?,
            all: self.all,
            dirs_only: self.dirs_only,
            sizes: self.du || self.human_readable,
            depth: self.depth,
            human: self.human_readable,
            selection: self.select.resolve(given, environment)?,
            workers: self.speed.workers,
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
    /// Read this version of the object (default: the latest)
    #[arg(long, value_name = "ID", value_parser = objects::version)]
    version_id: Option<String>,
    #[command(flatten)]
    connect: AskArgs,
}

impl CatArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<CatFlags, Refusal> {
        let places = locations(&self.paths, environment)?;
        let connect = versioned(self.connect.resolve(), self.version_id, &places)?;
        Ok(CatFlags { places, connect })
    }
}
