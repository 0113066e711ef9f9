//! bench files.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use haul_bench::files::place::Manner;
use haul_bench::files::{Count, Operation, Settings};
use haul_run::location::Location;

use crate::flags::connect::{Connect, ConnectArgs};
use crate::flags::{Environment, Refusal, location};
use crate::units;

/// The reference's files.
const SIZE: &str = "4K";
/// Files of each thread, and how long an operation is measured at the most, where neither was said: a useful table within
/// minutes from any place.
const COUNT: u64 = 4096;
const LIMIT: Duration = Duration::from_secs(10);
/// Bytes that a thread's buffer may have.
const MOST_RECORD: u64 = 64 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesFlags {
    pub place: Location,
    pub connect: Connect,
    pub settings: Settings,
    /// The run directory for the samples.
    pub out: Option<PathBuf>,
    /// Leave the files there.
    pub keep: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SameDir {
    #[value(name = "Y", alias = "y")]
    Yes,
    #[value(name = "N", alias = "n")]
    No,
    Both,
}

/// Measure metadata and small-file rates: create, stat, read, rename, delete, ...
///
/// All threads start together, and counting stops when the first one finishes, as in smallfile. haul works in a new directory
/// below DIR, haul-bench-files-..., removes it at the end, and changes nothing else.
#[derive(Args)]
#[command(
    override_usage = "haul bench files [OPTIONS] DIR",
    before_help = "Examples:
  haul bench files /scratch/me                        the default operations
  haul bench files --same-dir both --threads 1,2,4,8,16,32 --total 1024 \\
       --operation create /efs
  haul bench files --operation create,read --file-size 1M --fsync /scratch/me
  haul bench files --operation create,stat,delete s3://bucket/try/",
    after_help = "Operations: create append overwrite truncate-overwrite read stat chmod rename
setxattr getxattr symlink hardlink mkdir rmdir readdir ls-l delete
delete-renamed cleanup.
Prerequisites are created first, uncounted: stat alone creates files."
)]
pub struct FilesArgs {
    /// An existing directory: a local path, HOST:DIR, sftp://HOST/DIR, s3://BUCKET/PREFIX/
    #[arg(value_name = "DIR", required = true, value_hint = ValueHint::DirPath)]
    place: OsString,
    /// Measure these operations, in this order
    #[arg(long, visible_alias = "operations", value_name = "LIST", default_value = "create,stat,read,rename,delete", value_delimiter = ',', value_parser = operation)]
    operation: Vec<Operation>,
    /// Use these numbers of threads, one run each
    #[arg(long, value_name = "LIST", default_value = "1,2,4,8", value_delimiter = ',', value_parser = threads)]
    threads: Vec<u32>,
    /// Use these file sizes, one run each
    #[arg(long, value_name = "LIST", default_value = SIZE, value_delimiter = ',', value_parser = units::parse_size)]
    file_size: Vec<u64>,
    /// Use N files per thread (default: 4096, but at most 10 s per operation)
    #[arg(long, visible_alias = "files", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000), conflicts_with = "total")]
    file_count: Option<u64>,
    /// Use N files in total, split over the threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    total: Option<u64>,
    /// Share directories between threads (Y), give each thread its own (N), or run both
    #[arg(long, value_name = "Y|N|both", default_value = "N", hide_possible_values = true)]
    same_dir: SameDir,
    /// Put N files in each directory
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    files_per_dir: u64,
    /// Read or write SIZE bytes per call (default: the file size, at most 1M)
    #[arg(long, value_name = "SIZE", value_parser = record)]
    record_size: Option<u64>,
    /// fsync each file before the next
    #[arg(long)]
    fsync: bool,
    /// Compare the data read with the data written; a wrong byte is a failure
    #[arg(long)]
    verify_read: bool,
    /// Limit each operation to DURATION: 30s
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    duration: Option<Duration>,
    /// Repeat everything N times; the tables show medians
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Use extended attribute values of SIZE bytes
    #[arg(long, value_name = "SIZE", default_value = "32B", value_parser = xattr_size)]
    xattr_size: u64,
    /// Use N extended attributes per file
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    xattr_count: u32,
    /// Keep samples in DIR (default: below the state directory); an interrupted run in DIR resumes
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,
    /// Keep the files of the last case
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

fn operation(text: &str) -> Result<Operation, String> {
    let word = text.trim();
    Operation::parse(word).ok_or_else(|| {
        let known: Vec<&str> = Operation::ALL.iter().map(|(_, word)| *word).collect();
        format!("'{word}' is not an operation; use {}", known.join(", "))
    })
}

fn threads(text: &str) -> Result<u32, String> {
    match text.trim().parse() {
        Ok(threads @ 1..=1024) => Ok(threads),
        _ => Err("a number of threads is from 1 to 1024".to_string()),
    }
}

/// Refuses a value that is given twice.
fn once<T: PartialEq + std::fmt::Display>(all: Vec<T>) -> Result<Vec<T>, Refusal> {
    match all.iter().enumerate().find(|(at, one)| all[..*at].contains(one)) {
        Some((_, twice)) => Err(format!("'{twice}' is given twice; use --repeat to measure more than once")),
        None => Ok(all),
    }
}

fn record(text: &str) -> Result<u64, String> {
    match units::parse_size(text)? {
        size @ 1..=MOST_RECORD => Ok(size),
        _ => Err("a record is from 1 byte to 64 MiB".into()),
    }
}

/// XATTR_SIZE_MAX of the kernel.
fn xattr_size(text: &str) -> Result<u64, String> {
    match units::parse_size(text)? {
        size @ 0..=65_536 => Ok(size),
        _ => Err("a value has at most 64 KiB".into()),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    match units::parse_duration(text)? {
        Duration::ZERO => Err("must be above 0".into()),
        duration => Ok(duration),
    }
}

impl FilesArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<FilesFlags, Refusal> {
        let place = location(&self.place, environment)?;
        if self.operation.iter().all(|op| *op == Operation::Cleanup) {
            return Err("nothing would be measured".into());
        }
        let counted = self.file_count.is_some() || self.total.is_some();
        let count = match (self.file_count, self.total) {
            (_, Some(total)) => Count::Total(total),
            (count, None) => Count::Each(count.unwrap_or(COUNT)),
        };
        let settings = Settings {
            operations: self.operation,
            threads: once(self.threads)?,
            sizes: once(self.file_size)?,
            same_dir: match self.same_dir {
                SameDir::Yes => vec![true],
                SameDir::No => vec![false],
                SameDir::Both => vec![true, false],
            },
            count,
            files_per_dir: self.files_per_dir,
            record: self.record_size,
            manner: Manner {
                fsync: self.fsync,
                verify: self.verify_read,
                xattr_size: usize::try_from(self.xattr_size).unwrap_or(0),
                xattr_count: self.xattr_count,
            },
            limit: self.duration.or((!counted).then_some(LIMIT)),
            repeat: self.repeat,
        };
        let connect = self.connect.resolve();
        Ok(FilesFlags { place, connect, settings, out: self.out, keep: self.keep })
    }
}
