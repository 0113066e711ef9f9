//! run: many command lines in one process.

use std::ffi::OsString;

use clap::{Args, ValueHint};

use haul_core::spec::Input;

use super::select::input;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchFlags {
    pub from: Input,
    /// Lines that are at work at the same time; at least 1.
    pub jobs: u16,
    /// The first line that fails ends the rest.
    pub exit_on_error: bool,
}

/// Run haul commands from a file, in one process
///
/// Each line is a command without `haul`: cp, sync, mv, rm, ls, cat, mb ... Words are quoted as in a shell, but variables
/// and local wildcards are not expanded. # starts a comment. A line may also be a transfer spec, as `haul jobs show --json`
/// prints it. Lines run in order, or in parallel with --jobs; parallel lines
/// print only results, errors and listings. The exit code is that of the most severe line.
#[derive(Args)]
#[command(
    override_usage = "haul run [OPTIONS] FILE",
    before_help = "Examples:
  haul run commands.txt
  printf 'cp a s3://b/\\nrm s3://b/old\\n' | haul run -
  haul run --jobs 16 commands.txt     16 lines at a time"
)]
pub struct BatchArgs {
    /// Command lines (- reads standard input)
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    from: OsString,
    /// Run up to N lines at the same time, in any order
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Start no further line after one has failed
    #[arg(long)]
    exit_on_error: bool,
}

impl BatchArgs {
    pub(super) fn resolve(self) -> BatchFlags {
        BatchFlags { from: input(&self.from), jobs: self.jobs, exit_on_error: self.exit_on_error }
    }
}
