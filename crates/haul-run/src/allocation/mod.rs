//! What a batch system has given to this process: the variables of Slurm and PBS. Reading them is pure.
//!
//! ```text
//! variables -> Allocation (job, nodes, CPUs) -> ends (asks squeue where no variable says) -> stop_after -> Job::deadline
//! ```

use std::path::Path;
use std::time::{Duration, SystemTime};

pub mod command;
mod lists;
pub mod tasks;

#[cfg(test)]
mod tests;

use lists::Counts;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    Slurm,
    Pbs,
}

impl System {
    pub fn name(self) -> &'static str {
        match self {
            System::Slurm => "Slurm",
            System::Pbs => "PBS",
        }
    }
}

/// A job of a batch system, in which this process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    pub system: System,
    /// As the commands of the system take it: `17`, of a task of an array `17_3`.
    pub job: String,
    pub nodes: u32,
    /// CPUs on this node, shared by the tasks of the job there.
    pub cpus: Option<u32>,
    /// How often the job has been requeued.
    pub restarts: u32,
    end: End,
}

/// What the variables say of the time limit.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    At(SystemTime),
    /// The batch system has to be asked.
    Unsaid,
    Never,
}

/// What reading may know of the world.
pub struct World<'a> {
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// A file's text, and when it was written.
    pub file: &'a dyn Fn(&Path) -> Option<(String, SystemTime)>,
    pub host: &'a str,
}

impl World<'_> {
    fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        (self.variable)(name)?.trim().parse().ok()
    }

    fn counts(&self, name: &str) -> Option<Counts> {
        Counts::parse(&(self.variable)(name)?)
    }
}

/// Reads the world; `None` outside any job.
pub fn read(world: &World<'_>) -> Option<Allocation> {
    slurm(world).or_else(|| pbs(world))
}

fn slurm(world: &World<'_>) -> Option<Allocation> {
    let job = (world.variable)("SLURM_JOB_ID").or_else(|| (world.variable)("SLURM_JOBID"))?;
    // It becomes an argument of scontrol.
    if job.is_empty() || !job.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let job = task_of_array(&job, world).unwrap_or(job);
    let names = (world.variable)("SLURM_JOB_NODELIST").or_else(|| (world.variable)("SLURM_NODELIST")).and_then(|list| lists::nodes(&list));
    let here = (world.variable)("SLURMD_NODENAME").unwrap_or_else(|| world.host.to_string());
    let position = names.iter().flatten().position(|name| *name == here).and_then(|at| u32::try_from(at).ok());
    let node = position.or_else(|| world.number("SLURM_NODEID")).unwrap_or(0);
    let per_node = world.counts("SLURM_JOB_CPUS_PER_NODE");
    let cpus = world.number("SLURM_CPUS_ON_NODE").or_else(|| per_node.as_ref()?.at(node));
    let counted = || per_node.as_ref().or(world.counts("SLURM_TASKS_PER_NODE").as_ref()).map_or(1, |counts| small(counts.nodes()));
    let nodes =
        world.number("SLURM_JOB_NUM_NODES").or_else(|| names.as_ref().map(|names| small(names.len() as u64))).unwrap_or_else(counted);
    let end = world.number("SLURM_JOB_END_TIME").and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    let restarts = world.number("SLURM_RESTART_COUNT").unwrap_or(0);
    Some(Allocation { system: System::Slurm, job, nodes, cpus, restarts, end: end.map_or(End::Unsaid, End::At) })
}

/// One task of an array has the array's number, and as a number alone that means all of its tasks. The others have their own,
/// as has a job that was submitted from a task and has its variables.
fn task_of_array(job: &str, world: &World<'_>) -> Option<String> {
    let digits = |name: &str| (world.variable)(name).filter(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()));
    let (array, task) = digits("SLURM_ARRAY_JOB_ID").zip(digits("SLURM_ARRAY_TASK_ID"))?;
    (array == job).then(|| format!("{array}_{task}"))
}

fn pbs(world: &World<'_>) -> Option<Allocation> {
    let job = (world.variable)("PBS_JOBID").filter(|job| !job.is_empty())?;
    let file = (world.variable)("PBS_NODEFILE").and_then(|path| (world.file)(Path::new(&path)));
    let lines: Vec<&str> = file.iter().flat_map(|(text, _)| text.lines()).map(str::trim).filter(|line| !line.is_empty()).collect();
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_string();
    let mut names: Vec<String> = lines.iter().map(|line| short(line)).collect();
    let slots = names.iter().filter(|name| **name == short(world.host)).count();
    names.sort_unstable();
    names.dedup();
    let cpus = world.number("NCPUS").or_else(|| world.number("PBS_NUM_PPN"));
    let cpus = cpus.or_else(|| (slots > 0).then(|| small(slots as u64)));
    // The file is written when the job begins, and nothing else says when that was.
    let limit = world.number("PBS_WALLTIME").map(Duration::from_secs);
    let end = file.as_ref().zip(limit).and_then(|((_, begun), limit)| begun.checked_add(limit));
    Some(Allocation {
        system: System::Pbs,
        job,
        nodes: small(names.len() as u64).max(1),
        cpus,
        restarts: 0,
        end: end.map_or(End::Never, End::At),
    })
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The least and the most that is kept free before the limit of a job.
const MARGIN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// When a run has to stop that has so long: 5% earlier, but at least 5 s and at most 60 s.
pub fn stop_after(left: Duration) -> Duration {
    left.saturating_sub((left / 20).clamp(MARGIN.0, MARGIN.1))
}

impl Allocation {
    /// The time that is left of the job; `None` without a limit. `ask` is asked where no variable says it.
    ///
    /// Past its end a job has no limit: its variables have outlived it, in a terminal that a job started.
    pub fn left(&self, now: SystemTime, ask: &dyn Fn(&str) -> Option<Duration>) -> Option<Duration> {
        match &self.end {
            End::At(end) => end.duration_since(now).ok().filter(|left| !left.is_zero()),
            End::Unsaid => ask(&self.job),
            End::Never => None,
        }
    }

    /// `Slurm job 17, restart 1`
    pub fn title(&self) -> String {
        let restarts = if self.restarts > 0 { format!(", restart {}", self.restarts) } else { String::new() };
        format!("{} job {}{restarts}", self.system.name(), self.job)
    }
}

/// The allocation of this process, as its environment has it.
pub fn here() -> Option<Allocation> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    read(&World { variable: &variable, file: &small_file, host: &host })
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// No list of nodes is longer.
const LONGEST_LIST: u64 = 16 << 20;

fn small_file(path: &Path) -> Option<(String, SystemTime)> {
    use std::io::Read;
    let file = std::fs::File::open(path).ok()?;
    let written = file.metadata().ok().filter(std::fs::Metadata::is_file)?.modified().ok()?;
    let mut text = String::new();
    file.take(LONGEST_LIST).read_to_string(&mut text).ok()?;
    Some((text, written))
}

/// The processors that this process may use: those of the system (affinity, cgroup), of its job, and its share among the
/// tasks of the job on this node.
pub fn processors() -> u32 {
    let usable = std::thread::available_parallelism().map_or(1, |n| small(n.get() as u64));
    bounded(usable, here().and_then(|job| job.cpus), &variable)
}

/// `usable` is what the system allows to this process alone, `given` what its job has on this node.
fn bounded(usable: u32, given: Option<u32>, variable: &dyn Fn(&str) -> Option<String>) -> u32 {
    let shared = given.map_or(usable, |given| given / tasks::on_this_node(variable));
    usable.min(tasks::cpus_each(variable).unwrap_or(shared)).max(1)
}
