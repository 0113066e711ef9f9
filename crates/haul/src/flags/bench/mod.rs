//! bench: data sets, measurements, reports.

use clap::{Args, Subcommand};

use super::{Environment, Refusal};

pub mod compare;
pub mod data;
pub mod files;
pub mod net;
pub mod report;

pub use compare::CompareFlags;
pub use data::DataFlags;
pub use files::FilesFlags;
pub use net::NetFlags;
pub use report::ReportFlags;

#[derive(Debug)]
pub enum BenchCommand {
    Data(Box<DataFlags>),
    Files(Box<FilesFlags>),
    Net(Box<NetFlags>),
    Compare(Box<CompareFlags>),
    Report(ReportFlags),
}

/// Measure storage, networks and other tools
///
/// Each measurement writes its raw samples and an HTML report to a directory: --out, or one below the state directory.
#[derive(Args)]
#[command(
    override_usage = "haul bench data|files|net|compare|report [OPTIONS] ...",
    before_help = "Examples:
  haul bench files --same-dir both /scratch/me    files per second, one directory or several
  haul bench net cluster                          network only, by number of streams
  haul bench compare data /scratch/me/copies      haul against cp, rsync, ...
  haul bench data 1000x10MiB /scratch/me/set      create a test data set"
)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: BenchSubcommand,
}

#[derive(Subcommand)]
enum BenchSubcommand {
    Data(data::DataArgs),
    Files(Box<files::FilesArgs>),
    Net(Box<net::NetArgs>),
    Compare(Box<compare::CompareArgs>),
    Report(ReportFlags),
}

impl BenchArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<BenchCommand, Refusal> {
        Ok(match self.command {
            BenchSubcommand::Data(args) => BenchCommand::Data(Box::new(args.resolve(environment)?)),
            BenchSubcommand::Files(args) => BenchCommand::Files(Box::new(args.resolve(environment)?)),
            BenchSubcommand::Net(args) => BenchCommand::Net(Box::new(args.resolve(environment)?)),
            BenchSubcommand::Compare(args) => BenchCommand::Compare(Box::new(args.resolve(environment)?)),
            BenchSubcommand::Report(args) => BenchCommand::Report(args),
        })
    }
}
