//! slurm: a job script for a transfer.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use haul_core::place::Scheme;
use haul_core::place::url::without_password;
use haul_core::spec::Selection;
use haul_run::location::Location;

use super::connect::Connect;
use super::{Command, Environment, Parsed, Refusal, parse};
use crate::units::{self, Rate};

/// A script to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmFlags {
    pub operation: JobOperation,
    /// Behind the operation: options, then the addresses behind `--`.
    pub words: Vec<OsString>,
    /// What these words mean.
    pub subject: Subject,
    pub batch: Batch,
    pub resources: Resources,
    pub work: Work,
    pub output: Option<PathBuf>,
    pub submit: bool,
}

/// What a job is about: what can be counted before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub sources: Vec<Location>,
    pub selection: Selection,
    pub connect: Connect,
}

/// The batch system and what its script says beside the resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    pub pbs: bool,
    pub name: Option<String>,
    pub partition: Option<String>,
    pub account: Option<String>,
    pub log: Option<String>,
    /// Lines as they are: `--exclusive`.
    pub options: Vec<String>,
    pub modules: Vec<String>,
    pub mpi: Option<String>,
    pub requeue: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resources {
    pub nodes: u32,
    /// Of all nodes together.
    pub tasks: u32,
    pub cpus: u32,
    pub time: Option<Duration>,
}

/// What is to be moved and how fast, for the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    pub rate: u64,
    pub files_rate: u64,
    pub size: Option<u64>,
    pub files: Option<u64>,
    /// How long the sources may be counted; zero for not at all.
    pub survey: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum JobOperation {
    Cp,
    Sync,
    Mv,
    Check,
    Sum,
    Du,
    Rm,
}

impl JobOperation {
    pub fn word(self) -> &'static str {
        match self {
            JobOperation::Cp => "cp",
            JobOperation::Sync => "sync",
            JobOperation::Mv => "mv",
            JobOperation::Check => "check",
            JobOperation::Sum => "sum",
            JobOperation::Du => "du",
            JobOperation::Rm => "rm",
        }
    }

    /// Whether it goes on where it was stopped.
    pub fn resumes(self) -> bool {
        matches!(self, JobOperation::Cp | JobOperation::Sync | JobOperation::Mv)
    }

    /// Whether it can be told when to stop.
    pub fn has_deadline(self) -> bool {
        self.resumes() || self == JobOperation::Check
    }

    /// Whether it reads the data, too.
    pub fn reads(self) -> bool {
        !matches!(self, JobOperation::Du | JobOperation::Rm)
    }
}

/// Write or submit a batch script for a copy or another command
///
/// The script runs `haul cp SRC... DST` (or --command) with the options behind --. Its time limit follows from the size of SRC,
/// which is counted first, and from --rate and --files-rate. The run stops before its limit and the job runs again and resumes;
/// with --pbs or --no-requeue, submit it again. Several tasks run haul-mpi.
#[derive(Args)]
#[command(
    override_usage = "haul slurm [OPTIONS] SRC... DST [-- COPY OPTIONS]
       haul slurm [OPTIONS] --command sum|du|rm PATH... [-- OPTIONS]",
    before_help = "Examples:
  haul slurm --partition transfer /scratch/me/run7 /archive/me/ > job.sh
  haul slurm --submit run7 /archive/me/ -- -a --verify
  haul slurm --nodes 4 --module openmpi -O job.sh run7 /archive/me/ -- -a
  haul slurm --pbs --time 12h run7 /archive/me/ > job.pbs
  haul slurm --submit --nodes 2 --module openmpi --command rm /scratch/me/run6 -- -r"
)]
pub struct SlurmArgs {
    /// One or more SRC, then DST, as in `haul cp`; or what the command takes
    #[arg(value_name = "SRC", required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,
    /// Options of the copy: -a --verify
    #[arg(value_name = "COPY OPTIONS", last = true, allow_hyphen_values = true)]
    copy: Vec<OsString>,
    /// Run this command
    #[arg(long, value_enum, value_name = "COMMAND", default_value = "cp", help_heading = "Job")]
    command: JobOperation,
    /// Submit the job with sbatch and print its ID
    #[arg(long, help_heading = "Job")]
    submit: bool,
    /// Write the script to FILE (default: standard output, or nowhere with --submit)
    #[arg(short = 'O', long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Job")]
    output: Option<PathBuf>,
    /// Write a script for PBS
    #[arg(long, help_heading = "Job")]
    pbs: bool,
    /// Set the partition, or the queue of PBS
    #[arg(long, visible_alias = "queue", value_name = "NAME", help_heading = "Job")]
    partition: Option<String>,
    /// Charge the job to NAME
    #[arg(long, value_name = "NAME", help_heading = "Job")]
    account: Option<String>,
    /// Set the job's name (default: haul-SRC)
    #[arg(long, value_name = "NAME", help_heading = "Job")]
    job_name: Option<String>,
    /// Use N nodes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65536), help_heading = "Job")]
    nodes: u32,
    /// Use N tasks on all nodes together (default: one per node); several run haul-mpi
    #[arg(long, visible_alias = "ntasks", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_048_576), help_heading = "Job")]
    tasks: Option<u32>,
    /// Give each task N CPUs
    #[arg(long, visible_alias = "cpus-per-task", value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096), help_heading = "Job")]
    cpus: u32,
    /// Set the time limit (default: estimated from the size of SRC, at most 24h)
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration, help_heading = "Job")]
    time: Option<Duration>,
    /// Load this module first (repeatable)
    #[arg(long, value_name = "NAME", help_heading = "Job")]
    module: Vec<String>,
    /// Start tasks with `srun --mpi=TYPE` (pmix, pmi2)
    #[arg(long, value_name = "TYPE", help_heading = "Job")]
    mpi: Option<String>,
    /// Write the job's output to FILE (default: haul-JOBID.log)
    #[arg(long, value_name = "FILE", help_heading = "Job")]
    job_log: Option<String>,
    /// Add a line to the script: --option=--exclusive (repeatable)
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true, help_heading = "Job")]
    option: Vec<String>,
    /// Do not run the job again when its time limit stopped it
    #[arg(long, help_heading = "Job")]
    no_requeue: bool,
    /// Assume this throughput for the time limit
    #[arg(long, value_name = "RATE", default_value = "500M", value_parser = units::parse_rate, help_heading = "Estimate")]
    rate: Rate,
    /// Assume so many files per second
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..), help_heading = "Estimate")]
    files_rate: u64,
    /// Assume this size of SRC, and do not count it
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size, help_heading = "Estimate")]
    size: Option<u64>,
    /// Assume so many files in SRC, and do not count them
    #[arg(long, value_name = "N", help_heading = "Estimate")]
    files: Option<u64>,
    /// Count SRC for at most DURATION; 0: not at all
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = units::parse_duration, help_heading = "Estimate")]
    survey: Duration,
}

impl SlurmArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<SlurmFlags, Refusal> {
        let tasks = self.tasks.unwrap_or(self.nodes);
        if tasks < self.nodes {
            return Err(format!("{tasks} tasks are fewer than {} nodes; give each node a task", self.nodes));
        }
        if self.pbs && self.submit {
            return Err("--submit is for Slurm; write the script with --pbs and submit it with qsub".into());
        }
        if self.time.is_some_and(|time| time.is_zero()) {
            return Err("--time 0 leaves the job no time; name a duration, as in --time 2h".into());
        }
        let given = self.copy.iter().any(|word| word == "--requeue");
        let options = self.copy.len();
        let mut words = self.copy;
        words.push("--".into());
        words.extend(self.paths);
        // A script is kept, and each node that runs it shows its words.
        if let Some(word) = words.iter().find(|word| without_password(word.as_bytes()) != word.as_bytes()) {
            let shown = haul_core::entry::show(&without_password(word.as_bytes()));
            return Err(format!("the password of '{shown}' would be written into the script; put it into ~/.netrc"));
        }
        let (subject, is_unlimited) = inner(self.command, &words, environment)?;
        // One that ignores the job's limit is killed by it.
        let requeue = !self.no_requeue && self.command.resumes() && !is_unlimited;
        // Only Slurm lets a job requeue itself; PBS runs it again when a node has failed.
        if requeue && !self.pbs && !given {
            words.insert(options, "--requeue".into());
        }
        let for_lines = [&self.partition, &self.account, &self.job_name, &self.job_log, &self.mpi];
        let lines = for_lines.into_iter().flatten().chain(&self.option).chain(&self.module);
        if let Some(word) = lines.into_iter().find(|word| !fits_a_line(word)) {
            let shown = haul_core::entry::show(word.as_bytes());
            return Err(format!("'{shown}' cannot be written into a line of the script: letters, digits and _.,:=+@%/- only"));
        }
        Ok(SlurmFlags {
            operation: self.command,
            words,
            subject,
            batch: Batch {
                pbs: self.pbs,
                name: self.job_name,
                partition: self.partition,
                account: self.account,
                log: self.job_log,
                options: self.option,
                modules: self.module,
                mpi: self.mpi,
                requeue,
            },
            resources: Resources { nodes: self.nodes, tasks, cpus: self.cpus, time: self.time },
            work: Work {
                rate: self.rate.0.ok_or("--rate 0 would never end; name a rate above")?,
                files_rate: self.files_rate,
                size: self.size,
                files: self.files,
                survey: self.survey,
            },
            output: self.output,
            submit: self.submit,
        })
    }
}

/// The words of a copy, read now rather than when the job runs; and whether it ignores the job's limit.
fn inner(operation: JobOperation, words: &[OsString], environment: &Environment<'_>) -> Result<(Subject, bool), Refusal> {
    let argv: Vec<OsString> = ["haul", operation.word()].into_iter().map(OsString::from).chain(words.iter().cloned()).collect();
    let parsed = parse(&argv, environment).map_err(|e| first_paragraph(&e.text.plain))?;
    let Parsed::Run(invocation) = parsed else { return Err("--help is no option of a job".into()) };
    let is_dir = |place: &Location| place.scheme == Scheme::LOCAL && is_directory(&place.path);
    let (sources, selection, connect, is_unlimited) = match invocation.command {
        Command::Copy(flags) => (flags.spec.sources, flags.spec.selection, flags.connect, flags.batch.unlimited),
        Command::Check(flags) => (flags.spec.sources, flags.spec.selection, flags.connect, flags.batch.unlimited),
        Command::Sum(flags) => (flags.sources, flags.selection, flags.connect, false),
        Command::Du(flags) => (flags.places, flags.selection, flags.connect, false),
        Command::Rm(flags) => match flags.places.iter().find(|place| !flags.recursive && is_dir(place)) {
            None => (flags.places, flags.selection, flags.connect, false),
            Some(place) => return Err(format!("{place} is a directory, which rm removes with -r: add `-- -r`")),
        },
        other => return Err(format!("{other:?} is no copy")),
    };
    Ok((Subject { sources, selection, connect }, is_unlimited))
}

fn is_directory(path: &[u8]) -> bool {
    std::path::Path::new(std::ffi::OsStr::from_bytes(path)).symlink_metadata().is_ok_and(|facts| facts.is_dir())
}

fn first_paragraph(text: &str) -> Refusal {
    text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ").trim().to_string()
}

/// Whether a word means itself in a line for sbatch or qsub and in the shell, and is one word there.
fn fits_a_line(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.,:=+@%/-".contains(&b))
}
