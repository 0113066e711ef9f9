//! Runs of haul-mpi under mpirun, in a directory of their own.

use std::ffi::OsString;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;

use haul_test::program::{Program, haul};
use haul_test::scratch::Scratch;

pub struct World(pub Scratch);

impl Deref for World {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.0
    }
}

/// The program that cargo has built for these tests.
pub fn program() -> PathBuf {
    haul().with_file_name("haul-mpi")
}

/// The `mpirun` of the MPI for which the programs are built.
fn launcher() -> OsString {
    std::env::var_os("HAUL_TEST_MPIRUN").unwrap_or_else(|| "mpirun".into())
}

/// The number of a rank, in its environment.
pub const RANK: &str = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}";

/// What the ranks have printed on standard error, without the words of mpirun about codes.
pub fn own(err: &str) -> Vec<&str> {
    const MPIRUN: [&str; 8] =
        ["-----", "Primary job", "a non-zero exit code", "mpirun detected", "mpirun has", "the job to be", "  Process name", "  Exit code"];
    let mut lines: Vec<&str> = err.lines().filter(|line| !line.is_empty() && !MPIRUN.iter().any(|words| line.starts_with(words))).collect();
    lines.sort_unstable();
    lines
}

impl World {
    pub fn new(tree: &str) -> World {
        World(Scratch::with(tree))
    }

    /// haul-mpi with these words.
    pub fn ranks(&self, ranks: u32, words: &str) -> Program {
        self.mpirun(ranks, &format!("exec {} {words}", program().display()))
    }

    /// Ranks that differ: the last one runs `other`, lines of a shell, where `haul-mpi` is the program.
    pub fn with_other(&self, ranks: u32, words: &str, other: &str) -> Program {
        let program = program().display().to_string();
        let other = other.replace("haul-mpi", &program);
        self.mpirun(ranks, &format!("[ {RANK} = {} ] && {{ {other}; }} || exec {program} {words}", ranks - 1))
    }

    /// Ranks that see mounts of their own, made by `script` before them all.
    pub fn in_namespace(&self, ranks: u32, script: &str, words: &str) -> Program {
        let mut run = Command::new("unshare");
        let launched = format!("{script} {} -n {ranks} {} {words}", launcher().display(), program().display());
        run.args(["--mount", "sh", "-c", &launched]);
        self.environment(self.program(run, ""))
    }

    /// Ranks that run lines of a shell.
    pub fn script(&self, ranks: u32, script: &str) -> Program {
        self.mpirun(ranks, script)
    }

    fn mpirun(&self, ranks: u32, script: &str) -> Program {
        let mut mpirun = Command::new(launcher());
        mpirun.args(["-n", &ranks.to_string(), "sh", "-c", script]);
        self.environment(self.program(mpirun, ""))
    }

    fn environment(&self, run: Program) -> Program {
        // Open MPI refuses root and more ranks than processors, and its search for graphics cards hangs where something listens
        // at the ports of X servers.
        let run = run.env("HWLOC_COMPONENTS", "-gl").env("OMPI_MCA_rmaps_base_oversubscribe", "1");
        // Open MPI keeps a directory for each host and user, which several that start and end at once take from each other.
        let run = run.env("TMPDIR", &self.home).env("OMPI_MCA_orte_tmpdir_base", &self.home);
        run.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    }
}
