//! Runs in a job of a batch system, as their environment tells them; tests/slurm.rs has a real one.

use std::os::unix::fs::PermissionsExt;
use std::time::{SystemTime, UNIX_EPOCH};

use haul_test::compare::What;
use haul_test::program::Program;
use haul_test::scratch::entries;

use crate::support::{CHUNK, COPY, World};

/// A run that takes a minute, in a job that ends in 8 s.
fn in_a_short_job(w: &World, flags: &str) -> Program {
    let end = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() + 8;
    let run = w.haul(&format!("{COPY} --bwlimit 100K {flags} src/ dst"));
    run.env("SLURM_JOB_ID", "17").env("SLURM_CPUS_ON_NODE", "1").env("SLURM_JOB_END_TIME", end.to_string())
}

#[test]
fn a_run_stops_before_the_limit_of_its_job_and_resumes() {
    let w = World::new("src: file=6M");
    let ended = in_a_short_job(&w, "").ends(75).says("Slurm job 17: 1 CPU on this node; stops in").says("run the same command again");
    assert_eq!(ended.finished()["ending"], "deadline");
    assert!(w.journal().exists());
    // The variables of a job that is over, in a terminal that it started, stop nothing.
    let again = w.haul(&format!("{COPY} src/ dst")).env("SLURM_JOB_ID", "17").env("SLURM_JOB_END_TIME", "1000");
    assert!(again.ends(0).number("resumed_bytes") > 0);
    w.assert_done("dst", What::USUAL, "after the job's limit");
}

#[test]
#[ignore = "full"]
fn the_limit_of_a_job_can_be_ignored() {
    let w = World::new("src: file=1M");
    let ended = in_a_short_job(&w, "--deadline none").ends(0).says("--deadline none ignores the job's time limit");
    assert_eq!(ended.finished()["ending"], "complete");
    let w = World::new("src: file=6M");
    in_a_short_job(&w, "--deadline 1s").ends(75).says("--deadline comes before the job's time limit");
    let refused = w.haul("cp --requeue -n src/ dst").ends(1);
    refused.says("--requeue has no effect with --dry-run");
}

/// A program of this name in `bin`, which the run finds.
fn program(w: &World, name: &str, script: &str) -> String {
    let path = w.path("bin").join(name);
    std::fs::create_dir_all(w.path("bin")).expect("made");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("set");
    format!("{}:/usr/bin:/bin", w.path("bin").display())
}

#[test]
fn waiting_for_another_run_does_not_move_the_stop() {
    let w = World::new("src: file=6M");
    let first = w.slow("");
    let mut second = in_a_short_job(&w, "--wait -j 1").start();
    // The run would stop 3 s after its start; nothing of them is left once it need not wait any more.
    std::thread::sleep(std::time::Duration::from_secs(9));
    assert!(second.is_running(), "it waits");
    first.signal(rustix::process::Signal::INT);
    first.wait().code(20);
    let ended = second.wait().code(75);
    assert_eq!(ended.finished()["ending"], "deadline");
    assert!(ended.number("bytes") <= CHUNK, "it ended what it had begun, no more: {ended}");
}

#[test]
fn a_job_is_requeued_when_its_limit_stops_the_run() {
    let w = World::new("src: file=6M");
    let path = program(&w, "scontrol", "echo \"$@\" >>asked");
    in_a_short_job(&w, "--requeue").env("PATH", &path).ends(75).says("requeues Slurm job 17 to resume");
    assert_eq!(std::fs::read_to_string(w.path("asked")).expect("it was asked"), "requeue 17\n");
    // The job's second run resumes, though its command line says to start over; nothing is requeued once all is done.
    let again = w.haul(&format!("{COPY} --restart --requeue src/ dst")).env("PATH", &path);
    let again = again.env("SLURM_JOB_ID", "17").env("SLURM_RESTART_COUNT", "1").ends(0).says("Slurm job 17, restart 1");
    assert!(again.number("resumed_bytes") > 0);
    assert_eq!(std::fs::read_to_string(w.path("asked")).expect("as before"), "requeue 17\n");
    w.assert_done("dst", What::USUAL, "after the second run");
}

#[test]
fn a_job_that_cannot_resume_is_not_requeued() {
    let w = World::new("src: file=6M");
    let path = program(&w, "scontrol", "echo \"$@\" >>asked");
    let run = in_a_short_job(&w, "--requeue").env("PATH", &path).env("HAUL_STATE_DIR", "/dev/null/state").ends(75);
    run.says("does not requeue Slurm job 17: without a journal it would start over each time").never_says("requeues");
    assert!(!w.path("asked").exists());
}

#[test]
fn a_job_that_cannot_be_requeued_is_an_error_with_its_reason() {
    let w = World::new("src: file=6M");
    let path = program(&w, "scontrol", "echo 'Requested operation is presently disabled for job 17' >&2; exit 1");
    let ended = in_a_short_job(&w, "--requeue").env("PATH", &path).ends(75);
    ended.says("requeue the job: scontrol: Requested operation is presently disabled for job 17").says("scontrol requeue 17");
    let w = World::new("src: file=1K");
    w.haul("cp --requeue src/ dst").ends(1).says("this is no Slurm job");
    let stream = w.haul("cp --requeue src/file -").env("PATH", &path).env("SLURM_JOB_ID", "17");
    stream.ends(1).says("a stream cannot be resumed");
}

#[test]
fn the_time_left_is_asked_where_no_variable_says_it() {
    let w = World::new("src: file=6M");
    let path = program(&w, "squeue", "[ \"$*\" = \"--noheader --jobs 17 --format %L\" ] && echo 0:07");
    let run = w.haul(&format!("{COPY} --bwlimit 100K src/ dst")).env("PATH", &path).env("SLURM_JOB_ID", "17");
    run.ends(75).says("Slurm job 17: stops in");
}

#[test]
fn a_task_of_an_array_speaks_of_itself_alone() {
    let w = World::new("src: file=6M");
    let path = program(&w, "squeue", "[ \"$*\" = \"--noheader --jobs 17_3 --format %L\" ] && echo 0:07");
    program(&w, "scontrol", "echo \"$@\" >>asked");
    let run = w.haul(&format!("{COPY} --bwlimit 100K --requeue src/ dst")).env("PATH", &path);
    let run = run.env("SLURM_JOB_ID", "17").env("SLURM_ARRAY_JOB_ID", "17").env("SLURM_ARRAY_TASK_ID", "3");
    run.ends(75).says("Slurm job 17_3: stops in").says("requeues Slurm job 17_3 to resume");
    assert_eq!(std::fs::read_to_string(w.path("asked")).expect("it was asked"), "requeue 17_3\n");
}

#[test]
fn several_tasks_do_not_copy_the_same_tree() {
    let w = World::new("src: file=1K");
    for (variables, words) in [
        (&[("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "4")][..], "srun has started 4 tasks"),
        (&[("OMPI_COMM_WORLD_SIZE", "2")], "mpirun has started 2 tasks"),
        (&[("PMI_SIZE", "2")], "mpirun has started 2 tasks"),
    ] {
        for command in ["cp src/ dst", "sync --delete src/ dst", "rm -r src"] {
            let run = variables.iter().fold(w.haul(command), |run, (name, value)| run.env(name, value));
            run.ends(1).says(words).says("use haul-mpi");
        }
        let check = variables.iter().fold(w.haul("check src/ src/"), |run, (name, value)| run.env(name, value));
        check.ends(2).says(words);
    }
    assert_eq!((entries(&w.path("src")).len(), w.path("dst").exists()), (1, false));
    // What only looks works, and so do a batch script, a job array and tasks that say that they differ.
    let step = w.haul("ls src").env("SLURM_PROCID", "1").env("SLURM_STEP_NUM_TASKS", "4");
    step.ends(0);
    let script = w.haul("cp src/ dst").env("SLURM_PROCID", "0").env("SLURM_NTASKS", "4").env("SLURM_ARRAY_TASK_COUNT", "4");
    script.ends(0);
    let apart = w.haul("cp src/ dst2").env("SLURM_PROCID", "1").env("SLURM_STEP_NUM_TASKS", "4").env("HAUL_TASKS", "independent");
    apart.ends(0);
}
