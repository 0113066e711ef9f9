//! `haul slurm`: counts the sources, writes a script, submits it.

mod estimate;
mod script;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use haul_core::cancel::{Cancel, Stop};
use haul_core::error::{Error, ErrorKind, Result};
use haul_run::allocation::command;
use haul_run::hosts::Hosts;
use haul_run::open::Argument;
use haul_run::{open, plan};

use super::du;
use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::slurm::{Batch, SlurmFlags, Subject};
use crate::out;

use estimate::{Size, Stopped};
use script::Script;

pub fn run(flags: &SlurmFlags, global: &Global) -> Exit {
    written(flags, global).unwrap_or_else(|e| out::error(&e))
}

fn written(flags: &SlurmFlags, global: &Global) -> Result<Exit> {
    let size = size(flags)?;
    let stopped = match flags.operation {
        operation if !operation.resumes() => Stopped::StartsOver,
        _ if flags.batch.requeue && !flags.batch.pbs => Stopped::Requeued,
        _ => Stopped::Resubmitted,
    };
    let several = flags.resources.tasks > 1;
    let program = program(several, &flags.batch)?;
    let partition = if flags.batch.pbs { None } else { command::partition(flags.batch.partition.as_deref()) };
    let partition = partition.unwrap_or_default();
    let limit = estimate::limit(size, &flags.work, flags.resources.time, stopped).within(partition.time, &partition.name, stopped);
    let mut resources = flags.resources.clone();
    if let Some(most) = partition.nodes.filter(|most| *most < resources.nodes) {
        let nodes = crate::text::things(u64::from(most), "node");
        out::say(&format!("{nodes} in place of {}: the limit of partition {}", resources.nodes, partition.name));
        resources.nodes = most;
    }
    if several && !flags.batch.pbs && flags.batch.mpi.is_none() && command::starts_no_mpi() {
        let e = Error::new(ErrorKind::Usage, "start tasks").because("srun starts no MPI here unless told to (MpiDefault = none)");
        return Err(e.hint("add --mpi pmix, or another of `srun --mpi=list`: the one that the MPI of haul-mpi is built for"));
    }
    if !global.quiet {
        out::say(&format!("time limit {}: {}", estimate::slurm_time(limit.time), limit.because));
    }
    let directory = std::env::current_dir().map_err(|e| Error::io(e, "read the working directory"))?;
    let source = flags.subject.sources.first().map(|source| source.path.clone()).unwrap_or_default();
    let label = source.split(|b| *b == b'/').rfind(|part| !part.is_empty() && *part != b".").unwrap_or_default();
    let text = Script {
        batch: &flags.batch,
        resources: &resources,
        limit: &limit,
        operation: flags.operation,
        words: &flags.words,
        directory: &directory,
        program: &program,
        label,
    }
    .text();
    if let Some(file) = &flags.output {
        super::output::write(file, |to| to.write_all(&text).map_err(|e| Error::io(e, "write")))?;
    }
    if flags.submit {
        let job = submit(&text)?;
        return print(format!("{job}\n").as_bytes());
    }
    if flags.output.is_some() { Ok(Exit::Success) } else { print(&text) }
}

fn print(text: &[u8]) -> Result<Exit> {
    out::print(text).map(|()| Exit::Success).map_err(|e: io::Error| Error::io(e, "write"))
}

/// This program, or the one over MPI beside it or in the path; that of the module where modules are loaded.
fn program(several: bool, batch: &Batch) -> Result<PathBuf> {
    let name = if several { "haul-mpi" } else { "haul" };
    if !batch.modules.is_empty() {
        return Ok(name.into());
    }
    let beside = std::env::current_exe().ok().map(|path| path.with_file_name(name)).filter(|path| path.exists());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_in_path = || std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
    if let Some(program) = beside {
        return Ok(program);
    }
    if several && !is_in_path() {
        let e =
            Error::new(ErrorKind::Usage, "start tasks").because("several tasks run haul-mpi, which is neither beside haul nor in the path");
        return Err(e.hint("build it with `cargo build --release -p haul-mpi`, or name its module with --module; one task needs haul only"));
    }
    Ok(name.into())
}

/// What is known of the sources: as given, else counted while it takes no longer than allowed.
fn size(flags: &SlurmFlags) -> Result<Size> {
    let work = &flags.work;
    let given = Size { bytes: work.size, files: work.files };
    if flags.resources.time.is_some() || given != Size::default() || work.survey.is_zero() {
        return Ok(given);
    }
    match count(&flags.subject, work.survey) {
        Ok(sum) => Ok(Size { bytes: flags.operation.reads().then_some(sum.bytes), files: Some(sum.files) }),
        Err(e) if e.kind() == ErrorKind::Cancelled => {
            out::say(&format!("counting takes longer than {} s: name --size and --files for an estimate", work.survey.as_secs()));
            Ok(Size::default())
        }
        Err(e) => Err(e),
    }
}

fn count(Subject { sources, selection, connect }: &Subject, most: Duration) -> Result<du::Sum> {
    let filter = plan::filter(&selection.filters, false)?;
    let chosen = du::Chosen { filter: &filter, bounds: selection.bounds, one_file_system: selection.one_file_system };
    let how = du::How { depth: 0, chosen, versions: false, threads: open::processors() };
    let hosts = Hosts::new(connect).printing(out::say);
    let cancel = Cancel::default();
    let (stop, (done, waits)) = (cancel.clone(), std::sync::mpsc::channel::<()>());
    let bound = std::thread::spawn(move || {
        if waits.recv_timeout(most) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            stop.set(Stop::Deadline);
        }
    });
    let counted = sources.iter().try_fold(du::Sum::default(), |mut whole, source| {
        // What cannot be listed is an error of the job, not of its script.
        let sums = du::count(&Argument::new(source, &hosts), how, &cancel, &|_| (), None)?;
        cancel.check()?;
        whole.merge(sums.by_dir.get(&Vec::new()).copied().unwrap_or_default());
        Ok(whole)
    });
    drop(done);
    let _ = bound.join(); // it only waits
    counted
}

/// How long sbatch may take.
const SUBMIT: Duration = Duration::from_secs(60);

/// The job's number.
fn submit(text: &[u8]) -> Result<String> {
    let mut sbatch = std::process::Command::new("sbatch");
    sbatch.arg("--parsable");
    let failed = |e: Error| {
        let hint = if e.kind() == ErrorKind::NotFound {
            "run this where Slurm's commands are"
        } else {
            "write the script with -O FILE, and see what sbatch says"
        };
        // Nothing was done.
        Error::new(ErrorKind::Usage, "submit the job").because(e.reason()).hint(hint)
    };
    let script = haul_bench::process::unnamed(text).map_err(|e| Error::io(e, "write the script"))?;
    let said = command::run_with(sbatch, script.into(), SUBMIT).map_err(failed)?;
    // With several clusters the name of one follows.
    let job = said.trim().split(';').next().unwrap_or_default();
    if job.is_empty() || !job.bytes().all(|b| b.is_ascii_digit()) {
        let reason = format!("sbatch printed '{}', which is no job ID", haul_core::entry::show(said.trim().as_bytes()));
        return Err(failed(Error::new(ErrorKind::Other, "submit").because(reason)));
    }
    Ok(job.to_string())
}
