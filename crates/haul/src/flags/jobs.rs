//! jobs: what runs have left behind.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::connect::{Connect, ConnectArgs};
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

/// List, show, resume and clean up what runs have left: journals and unfinished files
#[derive(Args)]
#[command(
    override_usage = "haul jobs [list [--all]]\n       haul jobs show JOB\n       haul jobs resume JOB\n       haul jobs clean [OPTIONS] [JOB...]",
    before_help = "Examples:
  haul jobs                           running, interrupted and finished jobs
  haul jobs resume 3f9c               run an interrupted job again, from where it stopped
  haul jobs clean --older-than 30d    forget the old ones, and remove their unfinished files
  haul jobs clean -F lab.conf 3f9c    one whose host or store is reached by these flags"
)]
pub struct JobsArgs {
    #[command(subcommand)]
    command: Option<JobsSubcommand>,
}

#[derive(Subcommand)]
enum JobsSubcommand {
    /// Running and interrupted jobs, and the last 20 that have finished (done without a word, too)
    List {
        /// All that have finished
        #[arg(short, long)]
        all: bool,
    },
    /// What is known of one job
    Show {
        /// The job's id, or the beginning of it
        #[arg(value_name = "JOB")]
        job: String,
    },
    /// Run an interrupted job again, with its recorded arguments, in its directory, from its journal
    Resume {
        /// The job's id, or the beginning of it
        #[arg(value_name = "JOB")]
        job: String,
    },
    /// Forget jobs that are not running, and remove their unfinished files
    Clean {
        /// Ids, or beginnings of them; without one all that are not running
        #[arg(value_name = "JOB")]
        jobs: Vec<String>,
        /// Only those that ended longer ago: 30d
        #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
        older_than: Option<Duration>,
        /// Say what would go, and do nothing
        #[arg(short = 'n', long)]
        dry_run: bool,
        #[command(flatten)]
        connect: Box<ConnectArgs>,
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
