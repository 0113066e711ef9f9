//! jobs: what runs have left behind.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::connect::{AskArgs, Connect};
use crate::units;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobsCommand {
    /// Without `all`, those that have finished only as far as they are among the last.
    List { all: bool },
    /// One job, by its id or the beginning of it.
    Show(String),
    /// Likewise.
    Resume(String),
    Clean {
        /// Empty: all that are not running.
        jobs: Vec<String>,
        /// Only those that ended longer ago.
        older_than: Option<Duration>,
        dry: bool,
        /// How the destinations of the jobs are reached.
        connect: Box<Connect>,
    },
}

/// List, show, resume and clean up jobs: their journals and unfinished files
#[derive(Args)]
#[command(
    override_usage = "haul jobs [list [--all]]\n       haul jobs show JOB\n       haul jobs resume JOB\n       haul jobs clean [OPTIONS] [JOB...]",
    before_help = "Examples:
  haul jobs                           running, interrupted and finished jobs
  haul jobs resume 3f9c               resume an interrupted job
  haul jobs clean --older-than 30d    remove old journals and their unfinished files
  haul jobs clean -F lab.conf 3f9c    reach its host with these options"
)]
pub struct JobsArgs {
    #[command(subcommand)]
    command: Option<JobsSubcommand>,
}

#[derive(Subcommand)]
enum JobsSubcommand {
    /// List running and interrupted jobs, and the last 20 finished ones (default)
    List {
        /// List all finished jobs
        #[arg(short, long)]
        all: bool,
    },
    /// Show one job
    Show {
        /// The job's ID, or a prefix of it
        #[arg(value_name = "JOB")]
        job: String,
    },
    /// Resume an interrupted job with its recorded arguments and directory
    Resume {
        /// The job's ID, or a prefix of it
        #[arg(value_name = "JOB")]
        job: String,
    },
    /// Remove the journals and unfinished files of jobs that are not running
    Clean {
        /// IDs or prefixes of them (default: all jobs that are not running)
        #[arg(value_name = "JOB")]
        jobs: Vec<String>,
        /// Remove only jobs that ended more than DURATION ago: 30d
        #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
        older_than: Option<Duration>,
        /// Show what would be removed, and do nothing
        #[arg(short = 'n', long)]
        dry_run: bool,
        #[command(flatten)]
        connect: Box<AskArgs>,
    },
}

impl JobsArgs {
    pub(super) fn resolve(self) -> JobsCommand {
        match self.command {
            None => JobsCommand::List { all: false },
            Some(JobsSubcommand::List { all }) => JobsCommand::List { all },
            Some(JobsSubcommand::Show { job }) => JobsCommand::Show(job),
            Some(JobsSubcommand::Resume { job }) => JobsCommand::Resume(job),
            Some(JobsSubcommand::Clean { jobs, older_than, dry_run, connect }) => {
                JobsCommand::Clean { jobs, older_than, dry: dry_run, connect: Box::new(connect.resolve()) }
            }
        }
    }
}
