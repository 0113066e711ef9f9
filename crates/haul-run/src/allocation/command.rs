//! Commands of Slurm, with a bound on every wait.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Result};

/// A controller that answers does so in well under a second.
const ASK: Duration = Duration::from_secs(5);

/// A controller under load may take its time; the job has a minute.
const ORDER: Duration = Duration::from_secs(20);

/// Between looks at a command that has not ended.
const LOOK: Duration = Duration::from_millis(20);

/// The time that is left of a job, as `squeue` says it; `None` where it does not, or there is no limit.
pub fn time_left(job: &str) -> Option<Duration> {
    let mut command = Command::new("squeue");
    command.args(["--noheader", "--jobs", job, "--format", "%L"]);
    least_left(&run(command, ASK).ok()?)
}

/// The least of several lines: tasks of a job array that share an ID have a limit each.
pub fn least_left(text: &str) -> Option<Duration> {
    text.lines().filter_map(|line| parse_left(line.trim())).min()
}

/// `5:30`, `1:00:00`, `2-03:04:05`; words such as UNLIMITED are no time.
pub fn parse_left(text: &str) -> Option<Duration> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (days.parse::<u64>().ok()?, clock),
        None => (0, text),
    };
    let parts = clock.split(':').map(|part| part.parse::<u64>().ok()).collect::<Option<Vec<_>>>()?;
    if parts.len() > 3 {
        return None;
    }
    let seconds = parts.iter().try_fold(0u64, |seconds, part| seconds.checked_mul(60)?.checked_add(*part))?;
    days.checked_mul(86_400)?.checked_add(seconds).map(Duration::from_secs)
}

/// What a partition allows one job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    pub name: String,
    pub time: Option<Duration>,
    pub nodes: Option<u32>,
}

/// What `sinfo` says of a partition, by default of Slurm's default; `None` where it does not answer.
pub fn partition(name: Option<&str>) -> Option<Partition> {
    let mut command = Command::new("sinfo");
    command.args(["--noheader", "--format", "%P|%l|%s"]);
    if let Some(name) = name {
        command.args(["--partition", name]);
    }
    parse_partition(&run(command, ASK).ok()?, name)
}

/// Of several partitions the job waits for the one that allows most.
pub fn parse_partition(text: &str, name: Option<&str>) -> Option<Partition> {
    let lines = text.lines().filter_map(|line| {
        let (partition, limits) = line.trim().split_once('|')?;
        let (time, nodes) = limits.split_once('|')?;
        // The default one has a star.
        (name.is_some() || partition.ends_with('*')).then_some((partition.trim_end_matches('*'), time, nodes))
    });
    let limits = lines.map(|(name, time, nodes)| {
        let nodes = nodes.rsplit('-').next().and_then(|most| most.parse().ok());
        Partition { name: name.into(), time: parse_left(time), nodes }
    });
    limits.reduce(|one, other| {
        let name = if one.name == other.name { one.name } else { format!("{},{}", one.name, other.name) };
        let most = |one: Option<u32>, other: Option<u32>| one.zip(other).map(|(one, other)| one.max(other));
        Partition { name, time: one.time.zip(other.time).map(|(one, other)| one.max(other)), nodes: most(one.nodes, other.nodes) }
    })
}

/// Whether `srun` without `--mpi` starts tasks that know nothing of each other.
pub fn starts_no_mpi() -> bool {
    let mut command = Command::new("scontrol");
    command.args(["show", "config"]);
    run(command, ASK).is_ok_and(|text| {
        let settings = text.lines().filter_map(|line| line.split_once('='));
        settings.into_iter().any(|(name, value)| name.trim() == "MpiDefault" && value.trim() == "none")
    })
}

/// Has the job run once more, from its beginning. Slurm ends it for that: nothing may be left to do.
///
/// # Errors
/// What `scontrol` said.
pub fn requeue(job: &str) -> Result<()> {
    let mut command = Command::new("scontrol");
    command.args(["requeue", job]);
    run(command, ORDER).map(drop).map_err(|e| {
        let again = format!("run `scontrol requeue {job}`, or submit the job again");
        Error::new(e.kind(), "requeue the job").because(e.reason()).hint(again)
    })
}

/// Runs a command to its end and returns its standard output.
///
/// # Errors
/// `NotFound` if there is no such program, `TimedOut`, else the last line of its standard error.
pub fn run(command: Command, most: Duration) -> Result<String> {
    run_with(command, Stdio::null(), most)
}

/// The same with a standard input.
///
/// # Errors
/// See [`run`].
pub fn run_with(mut command: Command, input: Stdio, most: Duration) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |e: std::io::Error| Error::io(e, "start").at(name.as_bytes());
    let mut child = command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
    let output = child.stdout.take().map(gather);
    let errors = child.stderr.take().map(gather);
    let Some(status) = wait(&mut child, most) else {
        let _ = child.kill(); // it may have ended just now
        let _ = child.wait();
        let reason = format!("{name} has not answered within {} s", most.as_secs());
        return Err(Error::new(ErrorKind::TimedOut, "run").because(reason));
    };
    let text = |thread: Option<std::thread::JoinHandle<String>>| thread.and_then(|thread| thread.join().ok()).unwrap_or_default();
    let (output, errors) = (text(output), text(errors));
    if status.success() {
        return Ok(output);
    }
    let said = errors.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no message");
    let own = format!("{name}: ");
    let said = said.strip_prefix(&own).unwrap_or(said);
    Err(Error::new(ErrorKind::Other, "run").because(format!("{name}: {said} ({status})")))
}

/// So much of a command's output is read; the rest is thrown away.
const MOST_OUTPUT: u64 = 1 << 20;

fn gather(from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut from = from;
        let mut bytes = Vec::new();
        let _ = from.by_ref().take(MOST_OUTPUT).read_to_end(&mut bytes); // what came is what there is
        let _ = std::io::copy(&mut from, &mut std::io::sink()); // so that the writer can go on
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(child: &mut Child, most: Duration) -> Option<std::process::ExitStatus> {
    let begun = Instant::now();
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if begun.elapsed() >= most {
            return None;
        }
        std::thread::sleep(LOOK);
    }
}
