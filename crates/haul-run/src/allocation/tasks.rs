//! The tasks that srun or mpirun has started beside this one. Pure.

use super::lists::Counts;

/// What started several tasks of the same command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tasks {
    pub by: &'static str,
    pub count: u32,
}

/// Set to `independent` by scripts whose tasks do different things.
pub const CHOICE: &str = "HAUL_TASKS";

/// The tasks that run this command line, if they are several.
///
/// Only a step of srun has a number of its own: the script of a job with 4 tasks is one process, whatever `SLURM_NTASKS` says.
pub fn read(variable: &dyn Fn(&str) -> Option<String>) -> Option<Tasks> {
    if variable(CHOICE).as_deref() == Some("independent") {
        return None;
    }
    let several = |by, name: &str| {
        let count = variable(name)?.trim().parse().ok().filter(|count| *count > 1)?;
        Some(Tasks { by, count })
    };
    several("mpirun", "OMPI_COMM_WORLD_SIZE").or_else(|| several("mpirun", "PMI_SIZE")).or_else(|| {
        variable("SLURM_PROCID")?;
        several("srun", "SLURM_STEP_NUM_TASKS")
    })
}

/// The tasks of this step or of mpirun on this node, 1 or more.
pub fn on_this_node(variable: &dyn Fn(&str) -> Option<String>) -> u32 {
    let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
    let local = number("OMPI_COMM_WORLD_LOCAL_SIZE").or_else(|| number("MPI_LOCALNRANKS"));
    let of_step = || Counts::parse(&variable("SLURM_STEP_TASKS_PER_NODE")?)?.at(number("SLURM_NODEID").unwrap_or(0));
    local.or_else(of_step).unwrap_or(1).max(1)
}

/// What `--cpus-per-task` gave to each task of a step.
pub fn cpus_each(variable: &dyn Fn(&str) -> Option<String>) -> Option<u32> {
    variable("SLURM_STEP_ID")?;
    variable("SLURM_CPUS_PER_TASK")?.trim().parse().ok().filter(|cpus| *cpus > 0)
}
