//! bench data.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use haul_bench::data::{Options, Shape, Spec};
use haul_run::location::Scheme;

use crate::flags::{Environment, Refusal, location};
use crate::units;

/// What to make.
#[derive(Clone, Debug)]
pub enum Wanted {
    Spec(Spec),
    /// As a tree that is there; so many files instead of as many.
    Like(PathBuf, Option<u64>),
}

#[derive(Clone, Debug)]
pub struct DataFlags {
    pub wanted: Wanted,
    pub dir: PathBuf,
    pub options: Options,
    /// 1 for all of it.
    pub scale: u64,
    /// `None`: as many as there are processors.
    pub workers: Option<u32>,
    pub add: bool,
    pub dry: bool,
    /// Compare only, and create nothing.
    pub verify: bool,
}

/// Create a reproducible data set: files of chosen sizes and shapes
///
/// The same SPEC, options and --seed give the same bytes, names and times everywhere. The bytes do not compress without
/// --compressible. Run an interrupted command again to resume it. DIR holds nothing but the data.
#[derive(Args)]
#[command(
    override_usage = "haul bench data [OPTIONS] SPEC DIR\n       haul bench data [OPTIONS] --like TREE DIR",
    before_help = "Examples:
  haul bench data 1000x10MiB /scratch/me/set
  haul bench data 10x1GiB,37760x6.5kB --per-dir 500 /scratch/me/mixed
  haul bench data lognormal:median=64KiB,sigma=2,count=10000 --depth 3 set
  haul bench data uniform:min=4KiB,max=1MiB,count=500 --odd-names 20 set
  haul bench data 1000x10MiB --scale 100 set     a hundred times smaller
  haul bench data --like ~/project --count 5000 set
  haul bench data --verify 1000x10MiB copy       verify a copy byte by byte"
)]
pub struct DataArgs {
    /// SPEC: COUNTxSIZE, lognormal, uniform, or several joined by , or +; then DIR
    #[arg(value_name = "SPEC DIR", required = true, num_args = 1..=2, value_hint = ValueHint::DirPath)]
    words: Vec<OsString>,
    /// Use another seed for content, names and times
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Imitate TREE: sizes, directories, name lengths and links
    #[arg(long, value_name = "TREE", value_hint = ValueHint::DirPath, help_heading = "Files")]
    like: Option<PathBuf>,
    /// Create N files with --like (default: as many as TREE has)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000), requires = "like", help_heading = "Files")]
    count: Option<u64>,
    /// Make the data set N times smaller (first fewer files, then smaller ones)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..), help_heading = "Files")]
    scale: u64,
    /// Make PERCENT of every block compressible
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = percent(100), help_heading = "Files")]
    compressible: u32,
    /// Leave PERCENT of the files' length as holes
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = percent(100), help_heading = "Files")]
    sparse: u32,
    /// Add PERCENT hard links per hundred files
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = percent(1000), help_heading = "Files")]
    hard_links: u32,
    /// Add PERCENT symlinks per hundred files
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = percent(1000), help_heading = "Files")]
    symlinks: u32,
    /// Give every file N extended attributes
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = percent(1000), help_heading = "Files")]
    xattrs: u32,
    /// Give PERCENT of files and directories odd names: spaces, newlines, escapes, non-UTF-8, 255 bytes
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = percent(100), help_heading = "Files")]
    odd_names: u32,
    /// Put N files in each directory (default: 1000)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Directories")]
    per_dir: Option<u64>,
    /// Create N levels of directories; the last level holds the files
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000), help_heading = "Directories")]
    depth: Option<u32>,
    /// Create N subdirectories in each directory above the last level
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Directories")]
    width: Option<u64>,
    /// Put all files in one directory
    #[arg(long, conflicts_with_all = ["per_dir", "depth", "width"], help_heading = "Directories")]
    flat: bool,
    /// Use N workers (default: one per core)
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,
    /// Allow other files in DIR
    #[arg(long)]
    add: bool,
    /// Show what would be created, and create nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Verify every byte of DIR against SPEC, and create nothing
    #[arg(long, conflicts_with_all = ["dry_run", "add"])]
    verify: bool,
}

fn percent(most: i64) -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=most)
}

impl DataArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<DataFlags, Refusal> {
        let (wanted, dir) = match (self.like, &self.words[..]) {
            (Some(tree), [dir]) => (Wanted::Like(tree, self.count), dir),
            (Some(_), _) => return Err("--like says what to make; leave SPEC out and give DIR alone".into()),
            (None, [spec, dir]) => {
                let text = spec.to_str().ok_or("SPEC is no text; write it like 1000x10MiB")?;
                (Wanted::Spec(Spec::parse(text, &units::parse_size)?), dir)
            }
            (None, _) => return Err("SPEC and DIR are both needed, as in: haul bench data 1000x10MiB /scratch/me/set".into()),
        };
        let place = location(dir, environment)?;
        if place.scheme != Scheme::LOCAL {
            let shown = haul_core::entry::show(dir.as_bytes());
            return Err(format!("'{shown}' is not on this machine; make the data in a directory here, and copy it there with haul cp"));
        }
        Ok(DataFlags {
            wanted,
            dir: haul_run::open::path_of(&place.to_bytes()),
            options: Options {
                seed: self.seed,
                shape: Shape { flat: self.flat, per_dir: self.per_dir, depth: self.depth, width: self.width },
                compressible: self.compressible,
                sparse: self.sparse,
                hard_links: self.hard_links,
                symlinks: self.symlinks,
                xattrs: self.xattrs,
                odd_names: self.odd_names,
            },
            scale: self.scale,
            workers: self.workers,
            add: self.add,
            dry: self.dry_run,
            verify: self.verify,
        })
    }
}
