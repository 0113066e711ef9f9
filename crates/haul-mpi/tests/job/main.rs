//! Ranks that do one job: what they leave, what they print, how they end. Needs root and Open MPI.

mod slurm;
mod support;

use std::fs;
use std::os::unix::fs::symlink;

use haul_test::compare::What;
use haul_test::tree::spread;

use support::{World, program};

/// Large and small files, links, empty directories.
fn tree() -> World {
    let w = World::new("src: large=6M d/e/f/g=3K empty/ a=1");
    spread(&w.path("src/many"), 20, 20, 3000).expect("made");
    symlink("a", w.path("src/link")).expect("made");
    fs::hard_link(w.path("src/d/e/f/g"), w.path("src/many/g")).expect("made");
    w
}

#[test]
fn ranks_copy_sync_check_and_move_one_tree() {
    let w = tree();
    let ended = w.ranks(4, "cp -a src/ dst").ends(0);
    w.assert_same("src", "dst", What::ALL);
    w.assert_clean("dst");
    // One display: the plan, the summary.
    assert_eq!((ended.out.matches("copies the contents of").count(), ended.out.matches("Completed:").count()), (1, 1), "{ended}");
    ended.says("Ranks:       4 on 1 node; each (min / median / max): ");
    w.ranks(1, "why").ends(0).says("Ranks: 4 on 1 node; each (min / median / max): ");
    fs::write(w.path("src/a"), "another").expect("written");
    fs::remove_file(w.path("src/d/e/f/g")).expect("removed");
    fs::write(w.path("dst/extra"), "x").expect("written");
    let differs = w.ranks(3, "check src/ dst").ends(1);
    for line in ["differs     a", "extra       d/e/f/g", "extra       extra"] {
        assert_eq!(differs.out.lines().filter(|own| *own == line).count(), 1, "{line}: {differs}");
    }
    w.ranks(3, "sync -a --delete src/ dst").ends(0);
    w.assert_same("src", "dst", What::ALL);
    w.ranks(2, "check src/ dst").ends(0);
    w.sh("cp -a src before");
    w.ranks(3, "mv src/ moved").ends(0);
    w.assert_same("before", "moved", What::ALL);
    assert!(!w.path("src/large").exists());
}

#[test]
fn the_job_ends_with_the_most_severe_code_and_names_what_failed() {
    let w = tree();
    w.tree("dst: a/in-the-way=1 many/d3/f0/in-the-way=1");
    let ended = w.ranks(3, "cp --json src/ dst").ends(23);
    let failed: Vec<&str> = ended.out.lines().filter(|line| line.contains("\"event\":\"failed\"")).collect();
    assert!(!failed.is_empty(), "{ended}");
    assert_eq!(ended.out.matches("\"event\":\"finished\"").count(), 1, "{ended}");
    assert_eq!(ended.finished()["failed"], failed.len(), "{ended}");
}

#[test]
fn a_rank_that_sees_something_else_is_found_before_anything_is_copied() {
    let w = World::new("src: a=1K\nplace: ");
    let other = "exec unshare --mount sh -c 'mount -t tmpfs none src && exec haul-mpi cp src/ place/dst'";
    let other_source = w.with_other(2, "cp src/ place/dst", other).ends(1);
    other_source.says("src: is a directory for rank 0 on ").says("and another one for rank 1 on ");
    assert!(!w.path("place/dst").exists());
    let other = "exec unshare --mount sh -c 'mount -t tmpfs none place && exec haul-mpi cp src/ place/dst'";
    w.with_other(3, "cp src/ place/dst", other).ends(1).says("place: is a directory for rank 0 on ");
    let other = "exec unshare --mount sh -c 'mount -t tmpfs none src && exec haul-mpi cp src/a place/dst'";
    let missing = w.with_other(2, "cp src/a place/dst", other).ends(1);
    missing.says("src/a: is a file for rank 0 on ").says("but does not exist for rank 1 on ");
    assert!(!w.path("place/dst").exists());
}

#[test]
fn different_programs_and_words_are_found_first() {
    let w = World::new("src: a=1K");
    fs::copy(program(), w.path("old")).expect("copied");
    // Behind the end of the program, where nothing is loaded from.
    w.sh("printf x >>old");
    let other = w.with_other(3, "cp src/ dst", "exec ./old cp src/ dst").ends(1);
    other.says("rank 0 on ").says(" and rank 2 on ").says("two builds").says("install the same haul-mpi");
    w.with_other(2, "cp src/ dst", "exec haul-mpi cp src/ dst2").ends(1).says("have different command lines");
    assert!(!w.path("dst").exists() && !w.path("dst2").exists());
}

#[test]
fn what_ranks_cannot_do_is_refused_once() {
    let w = World::new("src: a=1K");
    for (words, reason) in [
        ("ls src", "several ranks do cp, sync, mv and check together"),
        ("cp -n src/ dst", "a dry run is for one process"),
        ("cp src/a -", "a stream cannot be shared"),
        ("cp --no-such-option src dst", "unexpected argument"),
    ] {
        let ended = w.ranks(2, words).ends(1).says(reason);
        assert_eq!(ended.err.matches(reason).count(), 1, "{ended}");
    }
    let version = w.ranks(2, "--version").ends(0);
    assert_eq!(version.out, "haul 0.1.0\n");
    // One rank is as good as haul.
    w.ranks(1, "cp src/ dst").ends(0);
    w.assert_same("src", "dst", What::USUAL);
}

#[test]
fn ranks_of_another_mpi_do_not_copy_the_same_tree() {
    let w = World::new("src: a=1K");
    let alone = |words: &str| w.program(std::process::Command::new(program()), words).env("HWLOC_COMPONENTS", "-gl");
    // As the mpirun of MPICH leaves it to a program of Open MPI, which knows nothing of it.
    let ended = alone("cp src/ dst").env("PMI_SIZE", "4").env("PMI_RANK", "2").ends(1);
    ended.says("mpirun has started 4 tasks, but ").says(" sees one rank").says("start it with the mpirun of that MPI");
    assert!(!w.path("dst").exists());
    alone("cp src/ dst").ends(0);
}

#[test]
fn a_killed_rank_ends_the_job_and_others_resume_it() {
    let w = tree();
    for record in [4, 9] {
        let kill = format!("HAUL_TEST_KILL_AT_RECORD={record} exec haul-mpi cp -a --chunk-size 64K --bwlimit 4M src/ dst");
        let ended = w.with_other(3, "cp -a --chunk-size 64K --bwlimit 4M src/ dst", &kill).run();
        // The rank may have had no so many records to write.
        let killed = ended.err.contains("exited on signal 9") || ended.out.contains("EXIT CODE: 9");
        assert!(killed != ended.status.success(), "{ended}");
    }
    w.ranks(2, "cp -a src/ dst").ends(0);
    w.assert_same("src", "dst", What::ALL);
    w.assert_clean("dst");
    let again = w.ranks(3, "cp -a --json src/ dst").ends(0);
    assert_eq!(again.finished()["bytes"], 0, "{again}");
}
