//! Ranks that do one job: what they leave, what they print, how they end. Needs root and Open MPI.

mod commands;
mod lines;
mod slurm;
mod stores;
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
        ("ls src", "several ranks do cp, sync, mv, check, sum, du and rm together"),
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

/// Rank 0 has a record when the job begins. Another has one when it begins with a file: here it gets directories at once, as rank 0
/// needs seconds for its own.
#[test]
fn a_killed_rank_ends_the_job_and_others_resume_it() {
    let w = tree();
    let words = "cp -a --chunk-size 64K --bwlimit 600K src/ dst";
    for record in [1, 3] {
        let kill = format!("HAUL_TEST_KILL_AT_RECORD={record} exec haul-mpi {words}");
        let ended = w.with_other(3, words, &kill).run();
        assert!(!ended.status.success() && was_killed(&ended), "{ended}");
        assert!(!w.path("dst/large").exists(), "it has not come to its end: {ended}");
    }
    // The small files make fewer records than that: only whoever writes down the chunks of the large one comes so far.
    w.tree("src: large=24M");
    let words = "cp -a --chunk-size 64K --bwlimit 8M src/ dst";
    let ended = w.script(3, &format!("HAUL_TEST_KILL_AT_RECORD=200 exec {} {words}", program().display())).run();
    assert!(!ended.status.success() && was_killed(&ended), "{ended}");
    let resumed = w.ranks(2, "cp -a --json src/ dst").ends(0);
    assert!(resumed.number("resumed_bytes") > 0, "{resumed}");
    w.assert_same("src", "dst", What::ALL);
    w.assert_clean("dst");
    let again = w.ranks(3, "cp -a --json src/ dst").ends(0);
    assert_eq!(again.finished()["bytes"], 0, "{again}");
}

/// In the words of Open MPI and of MPICH.
fn was_killed(ended: &haul_test::program::Ended) -> bool {
    ended.err.contains("exited on signal 9") || ended.out.contains("EXIT CODE: 9")
}

#[test]
fn a_file_that_changes_meanwhile_is_named_and_the_rest_is_copied() {
    let w = tree();
    let changing = w.path("src/large");
    let job = w.ranks(3, "cp -a --chunk-size 64K --bwlimit 4M src/ dst").start();
    let over = std::sync::atomic::AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::io::Write;
            // Bounded, as the other thread may fail.
            for _ in 0..5_000 {
                if over.load(std::sync::atomic::Ordering::SeqCst) {
                    break;
                }
                fs::OpenOptions::new().append(true).open(&changing).and_then(|mut file| file.write_all(b"more")).expect("written");
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        let ended = job.wait();
        over.store(true, std::sync::atomic::Ordering::SeqCst);
        ended
    });
    let ended = ended.code(23);
    assert!(ended.err.contains("large") && ended.err.contains("changed"), "{ended}");
    assert!(!w.path("dst/large").exists());
    w.sh("rm src/large");
    w.ranks(2, "check src/ dst").ends(0);
}

#[test]
fn a_dry_run_of_several_ranks_names_what_one_process_does_and_leaves_nothing() {
    let w = tree();
    w.sh("cp -a src dst; echo changed >dst/a; rm -r dst/many/d00003; mkdir -p dst/extra/of/it; echo x >dst/extra/of/it/f");
    for words in ["sync -n --delete src/ dst", "cp -n -a src/ new", "mv -n src/ elsewhere/", "sync -n -i --delete src/ dst"] {
        let before = w.sh("find . -newer src/a -o -name extra | sort; du -sb .");
        let (one, many) = (w.haul(words).ends(0), w.ranks(3, words).ends(0));
        // Which of two names of one file comes first is not decided.
        let items = |text: &str| {
            // Of the summary only the first word ends in a colon.
            let is_item = |line: &&str| {
                line.contains('/')
                    && !line.starts_with(' ')
                    && !line.contains(" of ")
                    && !line.split(' ').next().is_some_and(|word| word.ends_with(':'))
            };
            let mut lines: Vec<String> = text.lines().filter(is_item).map(str::to_string).collect();
            lines.retain(|line| !line.contains("d/e/f/g") && !line.contains("many/g"));
            lines.sort();
            lines
        };
        assert_eq!(items(&many.out), items(&one.out), "{words}");
        assert!(many.out.contains("DRY RUN") || many.err.contains("DRY RUN"), "{many}");
        assert_eq!(w.sh("find . -newer src/a -o -name extra | sort; du -sb ."), before, "{words}");
        assert!(!w.path("new").exists() && !w.path("elsewhere").exists());
    }
}

#[test]
fn a_list_of_names_is_read_by_the_first_rank_and_copied_by_all() {
    let w = tree();
    w.write("list", "a\nmany/d00003\nmany/d00005/f0000007\nlarge\nd/e\nmissing\n");
    let words = "cp -a -r --files-from";
    w.haul(&format!("{words} list src one")).ends(23);
    w.ranks(3, &format!("{words} list src many")).ends(23).says("missing");
    w.sh("diff -r one many");
    w.ranks(3, &format!("{words} - src piped")).stdin(w.path("list")).ends(23);
    w.sh("diff -r one piped");
    w.ranks(2, "cp --exclude-from - src/ dst").stdin(w.path("list")).ends(1).says("standard input reaches the first rank only");
    w.ranks(2, "check --files-from list src one").ends(23).says("missing");
}
