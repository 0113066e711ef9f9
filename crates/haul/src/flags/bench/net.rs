//! bench net.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use haul_bench::net::{Direction, Plan};
use haul_run::location::Location;

use crate::flags::connect::{Connect, ConnectArgs};
use crate::flags::other::{host_of, server_of};
use crate::flags::{Environment, Refusal};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetFlags {
    pub host: Location,
    /// The seed is that of the flags, or 0.
    pub plan: Plan,
    /// `None` for one that the run draws.
    pub seed: Option<u64>,
    /// The run directory.
    pub out: Option<PathBuf>,
    pub connect: Connect,
}

#[derive(Clone, Copy, ValueEnum)]
enum Directions {
    Out,
    In,
    Both,
}

/// Measure network throughput to a host, by streams and direction, without any disk
///
/// Generated data goes through the code that transfers files; no disk is read or written, unless the directory of an FTP server
/// is named: then files of at most 256 MiB per stream are written and read there, and removed. It logs in once. To resume an
/// interrupted run, run the same command with its --out.
#[derive(Args)]
#[command(
    override_usage = "haul bench net [OPTIONS] HOST",
    before_help = "Examples:
  haul bench net cluster
  haul bench net --streams 1,8,32 --seconds 10 --repeat 6 --out run1 me@cluster
  haul bench net --no-direct cluster            without direct TCP connections
  haul bench net --small cluster                files of 6.35 KiB, in bundles
  haul bench net sftp://archive                 /dev/zero and /dev/null on the host
  haul bench net gsiftp://grid                  the same by FTP and GridFTP
  haul bench net ftp://archive/scratch          files in that directory, removed afterwards"
)]
pub struct NetArgs {
    /// HOST, USER@HOST, ssh://HOST:PORT, sftp://HOST for plain SFTP, or an FTP server: ftp://HOST, gsiftp://HOST and so on, with a
    /// directory to write and read files in it
    #[arg(value_name = "HOST", value_hint = ValueHint::Hostname)]
    host: OsString,
    /// Use these numbers of streams (workers, and direct connections or SSH sessions)
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2,4,6,8,16", value_parser = clap::value_parser!(u32).range(1..=64))]
    streams: Vec<u32>,
    /// Measure each point for SECS, after the connections have ramped up
    #[arg(long, value_name = "SECS", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Measure sending (out), receiving (in) or both in turn
    #[arg(long, value_name = "DIRECTION", value_enum, default_value = "both")]
    direction: Directions,
    /// Measure each point N times, in rounds; comparisons need at least 4, a 95 % interval needs 6
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Transfer files of 6.35 KiB in bundles, not large files in chunks
    #[arg(long)]
    small: bool,
    /// Use this seed for the order in each round (default: random, and printed)
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Keep samples in DIR (default: below the state directory); an interrupted run in DIR resumes
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,
    #[command(flatten)]
    connect: ConnectArgs,
}

impl NetArgs {
    pub(super) fn resolve(self, _: &Environment<'_>) -> Result<NetFlags, Refusal> {
        if self.host.as_bytes().starts_with(b"s3://") {
            return Err("bench net measures the network to a host without disks; an object store always stores: \
                 `haul bench files s3://BUCKET/PREFIX` and `haul bench compare DIR s3://BUCKET/PREFIX` measure one"
                .into());
        }
        let mut streams = self.streams;
        streams.sort_unstable();
        streams.dedup();
        Ok(NetFlags {
            host: server_of(&self.host).map_or_else(|| host_of(&self.host), Ok)?,
            plan: Plan {
                streams,
                directions: match self.direction {
                    Directions::Out => vec![Direction::Out],
                    Directions::In => vec![Direction::In],
                    Directions::Both => Direction::BOTH.to_vec(),
                },
                seconds: Duration::from_secs(self.seconds.into()),
                repeat: self.repeat,
                small: self.small,
                seed: self.seed.unwrap_or(0),
            },
            seed: self.seed,
            out: self.out,
            connect: self.connect.resolve(),
        })
    }
}
