//! A job of a real Slurm that runs haul-mpi in several tasks.

use std::fs;
use std::time::{Duration, Instant};

use haul_test::compare::What;
use haul_test::slurm::Slurm;

use crate::support::{World, program};
use crate::tree;

/// Waits for the job's end and returns its state and its log.
#[track_caller]
fn ended(w: &World, slurm: &Slurm, job: &str) -> (String, String) {
    let until = Instant::now() + Duration::from_secs(100);
    let log = || fs::read_to_string(w.path(format!("haul-{job}.log"))).unwrap_or_default();
    loop {
        let state = slurm.job(job, "JobState");
        if !["PENDING", "CONFIGURING", "RUNNING", "COMPLETING"].contains(&state.as_str()) {
            return (state, log());
        }
        assert!(Instant::now() < until, "{state}: {}", log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A deadline in place of the job's limit, which is a minute at the least.
#[test]
fn a_job_of_several_tasks_is_requeued_and_resumes() {
    let (w, slurm) = (World::new("src: large=2M d/small=3K"), Slurm::start(2).expect("Slurm"));
    let options = "--deadline 3s --bwlimit 600K --chunk-size 64K";
    let run = w.haul(&format!("slurm --submit --cpus 1 --tasks 2 --time 10m --mpi pmix src/ dst -- -a {options}"));
    let job = run.env("SLURM_CONF", slurm.config()).env("HWLOC_COMPONENTS", "-gl").ends(0).out.trim().to_string();
    let (state, log) = ended(&w, &slurm, &job);
    assert_eq!(state, "COMPLETED", "{log}");
    let requeued = log.matches(&format!("requeues Slurm job {job} to resume")).count();
    assert!(requeued > 0 && slurm.job(&job, "Restarts") == requeued.to_string(), "{log}");
    assert!(log.contains("restart 1: ") && log.contains("resuming an earlier run"), "{log}");
    w.assert_same("src", "dst", What::ALL);
    w.assert_clean("dst");
}

#[test]
fn a_job_of_several_tasks_copies_one_tree() {
    let (w, slurm) = (tree(), Slurm::start(4).expect("Slurm"));
    let submit = |words: &str| {
        let run = w.haul(&format!("slurm --submit --cpus 1 --tasks 4 --time 10m {words}")).env("SLURM_CONF", slurm.config());
        run.env("HWLOC_COMPONENTS", "-gl").ends(0).out.trim().to_string()
    };
    assert!(program().exists(), "haul slurm takes the haul-mpi beside it");
    let job = submit("--mpi pmix src/ dst -- -a");
    let (state, log) = ended(&w, &slurm, &job);
    assert_eq!((state.as_str(), log.matches("Completed:").count()), ("COMPLETED", 1), "{log}");
    assert!(log.contains(&format!("Slurm job {job}: 1 CPU on this node; stops in ")), "{log}");
    w.assert_same("src", "dst", What::ALL);
    // Without it Open MPI does not start, and says so: no rank takes itself for the only one.
    let (state, log) = ended(&w, &slurm, &submit("--mpi none src/ apart"));
    assert!(state == "FAILED" && log.contains("PMIx"), "{state}: {log}");
    assert!(!w.path("apart").exists());
    // Other commands that several ranks do together.
    let (state, log) = ended(&w, &slurm, &submit("--mpi pmix --command sum dst -- -o sums"));
    assert_eq!(state, "COMPLETED", "{log}");
    w.haul("check --manifest sums dst").ends(0);
    let (state, log) = ended(&w, &slurm, &submit("--mpi pmix --command rm dst -- -r"));
    assert!(state == "COMPLETED" && !w.path("dst").exists(), "{state}: {log}");
}
