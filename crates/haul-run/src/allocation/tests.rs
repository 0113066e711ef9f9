use std::collections::BTreeMap;

use super::*;

const START: SystemTime = SystemTime::UNIX_EPOCH;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn variables(text: &str) -> BTreeMap<String, String> {
    text.split_whitespace().filter_map(|word| word.split_once('=')).map(|(name, value)| (name.into(), value.into())).collect()
}

/// The allocation of an environment; its node file is as old as the epoch.
fn given(environment: &str, node_file: &str) -> Option<Allocation> {
    let variables = variables(environment);
    let file = |path: &Path| (path == Path::new("/nodes")).then(|| (node_file.to_string(), START));
    read(&World { variable: &|name| variables.get(name).cloned(), file: &file, host: "n02.site.example" })
}

#[test]
fn without_a_job_there_is_no_allocation() {
    assert_eq!(given("HOME=/root SLURM_CONF=/etc/slurm.conf PBS_O_HOME=/root", ""), None);
    assert_eq!(given("SLURM_JOB_ID=12;reboot", ""), None);
    assert_eq!(given("SLURM_JOB_ID= PBS_JOBID=", ""), None);
}

#[test]
fn slurm_counts_the_cpus_of_this_node() {
    // The script of a batch job, as Slurm 22.05 starts it.
    let job =
        given("SLURM_JOB_ID=17 SLURM_CPUS_ON_NODE=3 SLURM_JOB_CPUS_PER_NODE=3 SLURM_JOB_NODELIST=n1 SLURM_NTASKS=3 SLURM_PROCID=0", "")
            .unwrap();
    assert_eq!((job.system, job.job.as_str(), job.nodes, job.cpus, job.restarts), (System::Slurm, "17", 1, Some(3), 0));
    // A shell of salloc: this node is not known by a number.
    let nodes = "SLURM_JOBID=8 SLURM_JOB_CPUS_PER_NODE=48(x2),24 SLURM_JOB_NODELIST=n[01-03]";
    let job = given(&format!("{nodes} SLURMD_NODENAME=n03"), "").unwrap();
    assert_eq!((job.nodes, job.cpus), (3, Some(24)));
    assert_eq!(given(&format!("{nodes} SLURM_NODEID=2"), "").unwrap().cpus, Some(24));
    assert_eq!(given(nodes, "").unwrap().cpus, Some(48));
    // Broken values are as good as none.
    let job = given("SLURM_JOB_ID=8 SLURM_JOB_CPUS_PER_NODE=48(y2) SLURM_JOB_NODELIST=n[1 SLURM_TASKS_PER_NODE=2(x5)", "").unwrap();
    assert_eq!((job.nodes, job.cpus), (5, None));
}

#[test]
fn slurm_says_when_a_job_ends_or_is_asked() {
    let unasked = |_: &str| -> Option<Duration> { panic!("the variable says it") };
    let job = given("SLURM_JOB_ID=17 SLURM_JOB_END_TIME=1000 SLURM_RESTART_COUNT=2", "").unwrap();
    assert_eq!(job.left(START + seconds(400), &unasked), Some(seconds(600)));
    assert_eq!(job.left(START + seconds(2000), &unasked), None, "the variables of a job that has ended");
    assert_eq!(job.title(), "Slurm job 17, restart 2");
    let asked = |job: &str| (job == "17").then_some(seconds(90));
    assert_eq!(given("SLURM_JOB_ID=17", "").unwrap().left(START, &asked), Some(seconds(90)));
}

#[test]
fn a_task_of_an_array_is_not_the_whole_array() {
    let job = |environment: &str| given(environment, "").unwrap().job;
    assert_eq!(job("SLURM_JOB_ID=17 SLURM_ARRAY_JOB_ID=17 SLURM_ARRAY_TASK_ID=3"), "17_3");
    assert_eq!(job("SLURM_JOB_ID=19 SLURM_ARRAY_JOB_ID=17 SLURM_ARRAY_TASK_ID=1"), "19", "its own number");
    for broken in
        ["", "SLURM_ARRAY_TASK_ID=3", "SLURM_ARRAY_JOB_ID=17 SLURM_ARRAY_TASK_ID=3;reboot", "SLURM_ARRAY_JOB_ID=17 SLURM_ARRAY_TASK_ID="]
    {
        assert_eq!(job(&format!("SLURM_JOB_ID=17 {broken}")), "17", "{broken}");
    }
}

#[test]
fn pbs_has_a_file_of_nodes() {
    let job = given("PBS_JOBID=5.server PBS_NODEFILE=/nodes PBS_WALLTIME=3600", "n01\nn02\nn02\n\nn01\n").unwrap();
    assert_eq!((job.system, job.nodes, job.cpus), (System::Pbs, 2, Some(2)));
    let unasked = |_: &str| -> Option<Duration> { panic!("PBS has nothing to ask") };
    assert_eq!(job.left(START + seconds(600), &unasked), Some(seconds(3000)));
    assert_eq!(job.title(), "PBS job 5.server");
    let job = given("PBS_JOBID=5 NCPUS=8 PBS_WALLTIME=60 PBS_NODEFILE=/missing", "").unwrap();
    assert_eq!((job.nodes, job.cpus, job.left(START, &unasked)), (1, Some(8), None));
}

#[test]
fn a_run_stops_a_twentieth_before_the_limit() {
    for (left, stops) in [(0, 0), (3, 0), (60, 55), (600, 570), (1200, 1140), (86_400, 86_340)] {
        assert_eq!(stop_after(seconds(left)), seconds(stops), "{left}");
    }
}

#[test]
fn tasks_of_a_node_share_its_cpus() {
    let processors = |usable, given, environment: &str| {
        let variables = variables(environment);
        bounded(usable, given, &|name| variables.get(name).cloned())
    };
    assert_eq!(processors(64, None, ""), 64);
    assert_eq!(processors(64, Some(16), "SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=4"), 16, "the script of a job is one process");
    let step = "SLURM_STEP_ID=0 SLURM_STEP_TASKS_PER_NODE=4(x2),2";
    assert_eq!(processors(64, Some(16), &format!("{step} SLURM_NODEID=1")), 4);
    assert_eq!(processors(64, Some(16), &format!("{step} SLURM_NODEID=2")), 8);
    assert_eq!(processors(64, Some(16), &format!("{step} SLURM_CPUS_PER_TASK=3")), 3);
    assert_eq!(processors(64, Some(16), "OMPI_COMM_WORLD_LOCAL_SIZE=32"), 1);
    assert_eq!(processors(2, Some(16), &format!("{step} SLURM_CPUS_PER_TASK=3")), 2, "the system allows no more");
}

#[test]
fn several_tasks_of_one_command_line_are_found() {
    let tasks = |environment: &str| {
        let variables = variables(environment);
        tasks::read(&|name| variables.get(name).cloned()).map(|tasks| (tasks.by, tasks.count))
    };
    assert_eq!(tasks("SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4"), Some(("srun", 4)));
    assert_eq!(tasks("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1"), None);
    assert_eq!(tasks("SLURM_PROCID=0 SLURM_NTASKS=4"), None, "the script of a job");
    assert_eq!(tasks("SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_TASK_COUNT=9"), None, "a job array");
    assert_eq!(tasks("OMPI_COMM_WORLD_SIZE=2"), Some(("mpirun", 2)));
    assert_eq!(tasks("PMI_SIZE=8 PMI_RANK=0"), Some(("mpirun", 8)));
    assert_eq!(tasks("PMI_SIZE=1"), None);
    assert_eq!(tasks("HAUL_TASKS=independent SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4"), None);
}

#[test]
fn squeue_writes_times_in_several_forms() {
    use super::command::{least_left, parse_left};
    for (text, left) in [("5:30", 330), ("59", 59), ("1:00:00", 3600), ("2-03:04:05", 183_845), ("0:00", 0)] {
        assert_eq!(parse_left(text), Some(seconds(left)), "{text}");
    }
    for text in ["UNLIMITED", "NOT_SET", "INVALID", "", "1:2:3:4", "99999999999999999999-00:00:00"] {
        assert_eq!(parse_left(text), None, "{text}");
    }
    // The tasks of an array that share an ID.
    assert_eq!(least_left("1:00:00\n  59:30\nUNLIMITED\n"), Some(seconds(3570)));
    assert_eq!((least_left("UNLIMITED\nINVALID\n"), least_left("")), (None, None));
}

#[test]
fn a_command_that_hangs_is_given_up() {
    let ran = |words: &str, most| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", words]);
        command::run(command, most).map_err(|e| (e.kind(), e.reason()))
    };
    use haul_core::ErrorKind as K;
    assert_eq!(ran("echo 5:30", seconds(60)), Ok("5:30\n".into()));
    assert_eq!(ran("exec sleep 1000", Duration::from_millis(100)).unwrap_err().0, K::TimedOut);
    let (kind, reason) = ran("echo slurm_requeue error: Invalid job id >&2; exit 1", seconds(60)).unwrap_err();
    assert!(kind == K::Other && reason.contains("Invalid job id") && reason.contains("sh:"), "{reason}");
    assert_eq!(command::run(std::process::Command::new("/missing/squeue"), seconds(60)).unwrap_err().kind(), K::NotFound);
}
