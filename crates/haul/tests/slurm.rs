//! Jobs of a real Slurm: see `haul_test::slurm`. Needs root and Debian's slurmctld, slurmd, slurm-client and munge.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use haul_test::compare::What;
use haul_test::program::Program;
use haul_test::scratch::{Scratch, entries};
use haul_test::slurm::Slurm;

/// A cluster, and a directory in which jobs are submitted.
struct World {
    slurm: Slurm,
    scratch: Scratch,
}

impl World {
    fn new(slots: u32, tree: &str) -> World {
        World { slurm: Slurm::start(slots).expect("Slurm"), scratch: Scratch::with(tree) }
    }

    fn haul(&self, words: &str) -> Program {
        self.scratch.haul(words).env("SLURM_CONF", self.slurm.config())
    }

    /// Waits until a job is in this state; panics with its log when that takes too long.
    #[track_caller]
    fn until(&self, job: &str, state: &str) {
        let until = Instant::now() + Duration::from_secs(150);
        while self.slurm.job(job, "JobState") != state {
            assert!(Instant::now() < until, "job {job} is {}, not {state}\n{}", self.slurm.job(job, "JobState"), self.log(job));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What a job has printed so far.
    fn log(&self, job: &str) -> String {
        fs::read_to_string(self.scratch.path(format!("haul-{job}.log"))).unwrap_or_default()
    }

    #[track_caller]
    fn submit(&self, words: &str) -> String {
        let submitted = self.haul(&format!("slurm --submit {words}")).ends(0);
        submitted.out.trim().to_string()
    }
}

#[test]
fn a_job_stops_before_its_limit_is_requeued_and_finishes() {
    let w = World::new(2, "src: large=6M small=2K d/x=3K");
    // At 100 KiB a second it takes a minute, and the limit is a minute; the second run has a few seconds of work left.
    let job = w.submit("--cpus 1 --time 1m src/ dst -- --bwlimit 100K --chunk-size 64K");
    w.until(&job, "COMPLETED");
    let log = w.log(&job);
    assert!(log.contains(&format!("Slurm job {job}: 1 CPU on this node; stops in ")), "{log}");
    assert!(log.contains("stopped at the deadline") && log.contains(&format!("requeues Slurm job {job} to resume")), "{log}");
    assert!(log.contains(&format!("Slurm job {job}, restart 1: ")) && log.contains("resuming an earlier run"), "{log}");
    assert_eq!((w.slurm.job(&job, "Restarts").as_str(), w.slurm.job(&job, "ExitCode").as_str()), ("1", "0:0"), "{log}");
    w.scratch.assert_same("src", "dst", What::USUAL);
    w.scratch.assert_clean("dst");
}

#[test]
fn one_task_of_an_array_is_requeued_alone() {
    let w = World::new(2, "src: file=2M");
    let haul = w.scratch.haul("").command().get_program().display().to_string();
    // The task that has the array's number stops and is requeued, while the other one runs.
    let script = format!(
        "#!/bin/bash
echo \"$SLURM_ARRAY_TASK_ID begins\"
[ \"$SLURM_JOB_ID\" = \"$SLURM_ARRAY_JOB_ID\" ] || exec sleep 20
echo \"$SLURM_ARRAY_TASK_ID\" >first
[ -n \"$SLURM_RESTART_COUNT\" ] || slow='--bwlimit 100K --deadline 3s'
exec {haul} --state-dir state cp --requeue --chunk-size 64K $slow src/ dst
"
    );
    fs::write(w.scratch.path("job.sh"), script).expect("written");
    let here = w.scratch.path("").display().to_string();
    let words = ["--parsable", "--array=0-1", "--time=5", "--requeue", "--open-mode=append", "--output=haul-%A_%a.log", "--chdir", &here];
    let job = w.slurm.ask("sbatch", &[&words[..], &[&format!("{here}/job.sh")]].concat()).expect("submitted").trim().to_string();
    let tasks = ["0", "1"].map(|task| format!("{job}_{task}"));
    tasks.iter().for_each(|task| w.until(task, "COMPLETED"));
    let first = fs::read_to_string(w.scratch.path("first")).expect("its task");
    for task in &tasks {
        let (log, is_first) = (w.log(task), task.ends_with(&format!("_{}", first.trim())));
        assert_eq!(log.matches(" begins").count(), if is_first { 2 } else { 1 }, "{task}: {log}");
        assert!(!is_first || log.contains(&format!("requeues Slurm job {task} to resume")), "{log}");
    }
    w.scratch.assert_same("src", "dst", What::USUAL);
}

#[test]
fn jobs_end_with_the_exit_code_of_the_run() {
    let w = World::new(4, "src: file=300K");
    let mut odd = w.scratch.path("src/").into_os_string();
    odd.push("it's\n#SBATCH --wrap=false $(touch pwned)");
    fs::write(&odd, "content").expect("written");
    let hostile = w.haul("slurm --submit --cpus 1").arg(&odd).arg("dst/").ends(0);
    let stopped = w.submit("--cpus 1 --no-requeue --time 10m src/ late -- --bwlimit 30K --chunk-size 64K --deadline 2s");
    // Elsewhere: a run that fails removes the empty directory that it made.
    let missing = w.submit("--cpus 1 --size 1G absent other");
    let hostile = hostile.out.trim();
    w.until(hostile, "COMPLETED");
    w.until(&stopped, "FAILED");
    w.until(&missing, "FAILED");
    assert_eq!(w.slurm.job(&stopped, "ExitCode"), "75:0", "{}", w.log(&stopped));
    assert_eq!(w.slurm.job(&missing, "ExitCode"), "23:0", "{}", w.log(&missing));
    let name = odd.to_string_lossy().rsplit('/').next().expect("a name").to_string();
    assert_eq!(entries(&w.scratch.path("dst")), [name], "{}", w.log(hostile));
    assert!(!w.scratch.path("pwned").exists());
    // sbatch's own words for what it refuses, and nothing is submitted.
    let refused = w.haul("slurm --submit --partition nowhere --time 1h src/ dst").ends(1);
    refused.says("submit the job: sbatch: ").says("Invalid partition");
}

#[test]
fn a_script_is_what_sbatch_takes() {
    let w = World::new(2, "src: file=3K");
    w.haul("slurm -O job.sh --cpus 1 --partition main --job-name mine --job-log mine.log --option=--exclusive src/ dst -- -a").ends(0);
    let job = w.slurm.ask(
        "sbatch",
        &["--parsable", "--chdir", &w.scratch.path("").display().to_string(), &w.scratch.path("job.sh").display().to_string()],
    );
    let job = job.expect("submitted").trim().to_string();
    w.until(&job, "COMPLETED");
    assert_eq!(w.slurm.job(&job, "JobName"), "mine");
    assert_eq!(w.slurm.job(&job, "TimeLimit"), "00:30:00");
    assert!(fs::read_to_string(w.scratch.path("mine.log")).expect("its log").contains(&format!("Slurm job {job}")));
    w.scratch.assert_same("src", "dst", What::USUAL);
}

/// Slurm lets a job wait for ever that asks for more than its partition allows.
#[test]
fn a_job_asks_for_no_more_than_its_partition_allows() {
    let w = World::new(2, "src: file=3K");
    let cut = w.haul("slurm --submit --cpus 1 --time 2h --partition short src/ dst").ends(0);
    let job = cut.says("cut to 5m00s, the limit of partition short").out.trim().to_string();
    w.until(&job, "COMPLETED");
    assert_eq!(w.slurm.job(&job, "TimeLimit"), "00:05:00");
    let module = "--nodes 3 --module haul --partition short --time 1m --mpi pmix";
    let fewer = w.haul(&format!("slurm {module} src/ dst")).ends(0).says("1 node in place of 3: the limit of partition short");
    assert!(fewer.out.contains("#SBATCH --nodes=1\n#SBATCH --ntasks=3\n"), "{fewer}");
    // The default one has no limit.
    assert!(w.haul("slurm --time 2h src/ dst").ends(0).out.contains("--time=02:00:00"));
}

#[test]
fn what_would_not_run_is_not_written() {
    let w = World::new(2, "src: file=3K");
    let several = "slurm --nodes 1 --tasks 2 --module haul";
    w.haul(&format!("{several} src/ dst")).ends(1).says("srun starts no MPI here").says("add --mpi pmix");
    w.haul(&format!("{several} --mpi pmix src/ dst")).ends(0).says("--mpi=pmix haul-mpi cp");
    // Copied to where haul-mpi is not.
    let haul = w.scratch.path("haul");
    fs::copy(w.scratch.haul("").command().get_program(), &haul).expect("copied");
    let alone = w.scratch.program(Command::new(&haul), "slurm --tasks 2 --mpi pmix src/ dst");
    alone.ends(1).says("haul-mpi, which is neither beside haul nor in the path");
    // It does not ask to be run again, as the limit kills it.
    let unlimited = w.haul("slurm --time 1h src/ dst -- --deadline none").ends(0);
    assert!(!unlimited.out.contains("cp --requeue") && unlimited.out.contains("#SBATCH --no-requeue\n"), "{unlimited}");
}

#[test]
fn a_step_of_several_tasks_is_refused_and_one_task_runs() {
    let w = World::new(4, "src: file=3K");
    let step = |tasks: &str| {
        let haul = w.scratch.haul("cp src/ dst").command();
        let mut srun = Command::new("srun");
        srun.args(["--quiet", "-n", tasks]).arg(haul.get_program()).args(haul.get_args());
        w.scratch.program(srun, "").env("SLURM_CONF", w.slurm.config())
    };
    let refused = step("3").ends(1).says("srun has started 3 tasks of this command");
    assert!(refused.says("use haul-mpi").err.matches("each would do all of the work").count() == 3);
    assert!(!w.scratch.path("dst").exists());
    step("1").ends(0).says("1 CPU on this node");
    w.scratch.assert_same("src", "dst", What::USUAL);
}
