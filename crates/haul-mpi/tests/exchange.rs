//! Messages over MPI: ranks that mpirun starts, with the library for which the program is built. Needs Open MPI, or
//! MPICH with `HAUL_TEST_MPIRUN=mpirun.mpich`.

use std::path::{Path, PathBuf};
use std::process::Command;

use haul_test::program::{Ended, Program};
use haul_test::scratch::Scratch;

fn example() -> PathBuf {
    let test = std::env::current_exe().expect("procfs");
    test.parent().and_then(Path::parent).expect("below the directory of the profile").join("examples/exchange")
}

/// The example under mpirun.
fn run(ranks: u32, words: &str) -> Ended {
    let scratch = Scratch::new();
    let mut mpirun = Command::new(std::env::var_os("HAUL_TEST_MPIRUN").unwrap_or_else(|| "mpirun".into()));
    mpirun.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/").env("LC_ALL", "C.UTF-8");
    // Open MPI refuses root and more ranks than processors, and its search for graphics cards hangs where something listens at
    // the ports of X servers. MPICH knows none of these.
    mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    mpirun.env("OMPI_MCA_rmaps_base_oversubscribe", "1").env("HWLOC_COMPONENTS", "-gl");
    // Open MPI keeps a directory for each host and user, which several that start and end at once take from each other.
    mpirun.env("TMPDIR", &scratch.home).env("OMPI_MCA_orte_tmpdir_base", &scratch.home);
    mpirun.args(["-n", &ranks.to_string()]).arg(example()).args(words.split_whitespace());
    Program::new(mpirun).run()
}

/// The codes that the ranks have learned of each other.
#[track_caller]
fn codes(ended: &Ended) -> Vec<u32> {
    let list = ended.out.rsplit("codes [").next().and_then(|tail| tail.split(']').next()).expect("codes");
    list.split(", ").map(|code| code.parse().unwrap_or_else(|_| panic!("no code: {ended}"))).collect()
}

#[test]
fn messages_of_all_sizes_arrive_in_order_among_all_ranks() {
    for ranks in [1, 2, 4] {
        let ended = run(ranks, "all").code(0);
        assert_eq!(codes(&ended), vec![0; ranks as usize], "{ended}");
    }
}

#[test]
fn every_rank_learns_how_the_others_end() {
    assert_eq!(codes(&run(4, "codes").code(0)), [3, 4, 5, 6]);
}

/// Open MPI would keep a processor busy for each rank that waits.
#[test]
fn ranks_that_wait_use_next_to_no_processor() {
    let ended = run(4, "idle 3").code(0);
    assert!(codes(&ended).iter().all(|percent| *percent < 15), "{ended}");
}

#[test]
fn a_rank_that_is_killed_is_named_with_its_node() {
    let ended = run(3, "die 1");
    assert!(!ended.status.success(), "{ended}");
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let named = ended.err.lines().chain(ended.out.lines()).any(|line| {
        // Open MPI: "process rank 1 with PID 0 on node vm exited on signal 9"; MPICH: "PID 17 RUNNING AT vm", "EXIT CODE: 9".
        line.contains(&node) && (line.contains("process rank 1") || line.contains("RUNNING AT"))
    });
    assert!(named, "{ended}");
}

#[test]
fn a_rank_that_reads_nothing_is_named_and_holds_up_no_other() {
    assert_eq!(codes(&run(3, "deaf").code(0)), [0; 3]);
}

#[test]
fn a_rank_that_is_told_to_stop_does_not_wait_for_one_that_hangs() {
    let ended = run(2, "stuck");
    // The code of the first, which ends both.
    assert_eq!(ended.status.code(), Some(4), "{ended}");
}
