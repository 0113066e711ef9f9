//! bench data.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use haul_bench::data::{Options, Shape, Spec};

use crate::flags::{Environment, Refusal, location};
use crate::location::Scheme;
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
    /// Compare what is there and make nothing.
    pub verify: bool,
}

/// Make a data set: files of chosen sizes and shapes, the same each time
///
/// The same SPEC, options and --seed give the same bytes, names and times everywhere. The bytes do not compress unless
/// --compressible says so. A run that was interrupted goes on when it is given again. Nothing but the data is left in DIR.
#[derive(Args)]
#[command(
    override_usage = "haul bench data [OPTIONS] SPEC DIR\n       haul bench data [OPTIONS] --like TREE DIR",
    before_help = "Examples:
  haul bench data 1000x10MiB /scratch/me/set
  haul bench data 10x1GiB,37760x6.5kB --per-dir 500 /scratch/me/mixed
  haul bench data lognormal:median=64KiB,sigma=2,count=10000 --depth 3 set
  haul bench data uniform:min=4KiB,max=1MiB,count=500 --odd-names 20 set
  haul bench data kaust:small set            the 37,760 files of a published study
  haul bench data uab --scale 100 set        a hundredth of another
  haul bench data --like ~/project --count 5000 set
  haul bench data --verify 1000x10MiB copy   is that copy right, byte by byte?

Presets: kaust (small, files, project), efs (data-1m), epcc (bin1M, bin500M,
bin1G, bin2G), uab (many, large, single), arcts (single, many).
kaust:small is one of the sets; without :SET each set has a directory."
)]
pub struct DataArgs {
    /// SPEC, what to make: COUNTxSIZE, lognormal, uniform, a preset, or several joined by , or +; and DIR, where
    #[arg(value_name = "SPEC DIR", required = true, num_args = 1..=2, value_hint = ValueHint::DirPath)]
    words: Vec<OsString>,
    /// Another number makes other bytes, names and times
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// As TREE: its sizes, directories, names' lengths and links, not its content
    #[arg(long, value_name = "TREE", value_hint = ValueHint::DirPath, help_heading = "Files")]
    like: Option<PathBuf>,
    /// With --like: so many files (else as many as TREE has)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000), requires = "like", help_heading = "Files")]
    count: Option<u64>,
    /// Make it N times smaller: fewer files, then smaller ones
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..), help_heading = "Files")]
    scale: u64,
    /// Let so many percent of every block compress
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = percent(100), help_heading = "Files")]
    compressible: u32,
    /// Leave so many percent of the files' length as holes
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = percent(100), help_heading = "Files")]
    sparse: u32,
    /// Add hard links, so many for every hundred files
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = percent(1000), help_heading = "Files")]
    hard_links: u32,
    /// Add symbolic links, so many for every hundred files
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = percent(1000), help_heading = "Files")]
    symlinks: u32,
    /// Give every file so many extended attributes
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = percent(1000), help_heading = "Files")]
    xattrs: u32,
    /// Give so many percent of the files and directories names with spaces, newlines, escapes, bytes that are no text, 255 bytes
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = percent(100), help_heading = "Files")]
    odd_names: u32,
    /// Files in a directory (else 1000)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Directories")]
    per_dir: Option<u64>,
    /// Levels of directories; the files are in the last
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000), help_heading = "Directories")]
    depth: Option<u32>,
    /// Directories in each directory above the last level
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Directories")]
    width: Option<u64>,
    /// All files in one directory
    #[arg(long, conflicts_with_all = ["per_dir", "depth", "width"], help_heading = "Directories")]
    flat: bool,
    /// Fix the number of workers (else one a processor)
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,
    /// Other things may be in DIR
    #[arg(long)]
    add: bool,
    /// Say what would be made, and make nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Compare every byte of DIR with what SPEC makes, and make nothing
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
            dir: crate::open::path_of(&place.to_bytes()),
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
