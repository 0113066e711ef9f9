//! Ranks that do one job: what they leave, what they print, how they end. Needs root and Open MPI.

mod commands;
mod lines;
mod slurm;
mod stores;
mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use haul_test::compare::What;
use haul_test::tree::spread;

use haul_test::program::Ended;

use support::{RANK, World, program};

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

/// Lines of a shell in which each rank is in a mount namespace of its own, made ready by `before`.
fn own_mounts(before: &str, words: &str) -> String {
    format!("exec unshare --mount sh -c '{before} && exec {} {words}'", program().display())
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
    let other = "exec unshare --mount sh -c 'mount -t tmpfs none src && touch src/b && exec haul-mpi cp src/ place/dst'";
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

/// Each rank has a file system of its own under one path, as with /tmp and /dev/shm: the inode of its root is the same everywhere.
#[test]
fn ranks_on_disks_of_their_own_copy_nothing() {
    let w = World::new("src: a=1K b=2K d/c=3K\nlocal: \nplace: ");
    let all = |before: &str, words: &str| w.script(3, &own_mounts(before, words));
    let seen_by_one = |ended: Ended, path: &str| {
        let ended = ended.code_of(&[1, 2]).says("use a file system that all nodes have mounted");
        assert!(ended.err.contains(path) && ended.err.contains("rank 0 on "), "{ended}");
    };
    let same_root = "mount -t tmpfs none local && touch -d @1000000000 local";
    for words in
        ["cp -a src/ local", "cp -a --verify src/ local/new", "mv --mkpath src/ local/new/dst", "cp src/a local/", "sync -a src/ local/"]
    {
        seen_by_one(all(same_root, words).run(), "local: ");
    }
    assert!(w.path("src/d/c").exists());
    // One rank has a replica.
    w.sh("cp -a src copy");
    for words in ["cp -a src/ place/dst", "mv src/ place/dst", "check src/ place", "sum src", "du src", "rm -r src"] {
        let other = format!("exec unshare --mount sh -c 'mount --bind copy src && exec haul-mpi {words}'");
        seen_by_one(w.with_other(3, words, &other).run(), "src/: is another one for rank 2 on ");
    }
    // All have the same names, sizes, times and inode numbers.
    let trees = format!("mount -t tmpfs none local && printf %s%1000d {RANK} 7 >local/a && touch -d @1000000000 local/a local");
    seen_by_one(all(&trees, "cp -a local/ place/dst").run(), "local/a: is another one for rank 1 on ");
    assert!(w.path("src/a").exists() && !w.path("place/dst").exists());
}

/// What one rank writes into an overlay no other one sees, though it sees what they write.
#[test]
fn a_rank_whose_writes_stay_with_it_is_found() {
    let w = World::new("src: a=1K\nplace: \nupper: \nwork: ");
    // The times of both are the same, as those of a root may be.
    w.sh("touch -d @1000000000 place");
    let mount = "mount -t tmpfs none upper && mkdir upper/u upper/w && touch -d @1000000000 upper/u && mount -t overlay -o lowerdir=place,upperdir=upper/u,workdir=upper/w none place";
    let other = format!("exec unshare --mount sh -c '{mount} && exec haul-mpi cp -a src/ place/dst'");
    w.with_other(2, "cp -a src/ place/dst", &other).ends(1).says("place: rank 0 on ").says("does not see a file that rank 1 on ");
    assert!(!w.path("place/dst").exists());
    w.assert_clean("place");
}

#[test]
fn the_look_at_a_destination_leaves_nothing() {
    let w = World::new("src: a=1K d/b=2K");
    w.sh("touch -d @1000000000 src src/d");
    w.ranks(2, "cp -a src/ dst").ends(0);
    // Nothing to set: the time of the directory is as it was.
    w.ranks(3, "cp -a src/ dst").ends(0).never_says("Attributes:");
    assert_eq!(w.sh("stat -c %Y dst; ls -A dst").split_whitespace().collect::<Vec<_>>(), ["1000000000", "a", "d"]);
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
    let words = "cp -a --chunk-size 64K --bwlimit 1800K src/ dst";
    for record in [1, 3] {
        let kill = format!("HAUL_TEST_KILL_AT_RECORD={record} exec haul-mpi {words}");
        let ended = w.with_other(3, words, &kill).run();
        assert!(!ended.status.success() && was_killed(&ended), "{ended}");
        assert!(!w.path("dst/large").exists(), "it has not come to its end: {ended}");
    }
    // The small files make fewer records than that: only whoever writes down the chunks of the large one comes so far.
    w.tree("src: large=24M");
    let words = "cp -a --chunk-size 64K --bwlimit 24M src/ dst";
    let ended = w.script(3, &format!("HAUL_TEST_KILL_AT_RECORD=200 exec {} {words}", program().display())).run();
    assert!(!ended.status.success() && was_killed(&ended), "{ended}");
    let resumed = w.ranks(2, "cp -a --json src/ dst").ends(0);
    assert!(resumed.number("resumed_bytes") > 0, "{resumed}");
    w.assert_same("src", "dst", What::ALL);
    w.assert_clean("dst");
    let again = w.ranks(3, "cp -a --json src/ dst").ends(0);
    assert_eq!(again.finished()["bytes"], 0, "{again}");
}

/// It hangs: mpirun sees a process that runs.
#[test]
fn a_rank_that_hangs_ends_the_others_soon() {
    let w = World::new("src: large=8M");
    let words = "cp -a --chunk-size 64K --bwlimit 500K src/ dst";
    let mut job = w.with_other(3, words, &format!("echo $$ >pid; exec haul-mpi {words}")).env("HAUL_TEST_SILENCE", "3").start();
    job.until("the last rank runs, and something is staged", || w.path("pid").exists() && !w.staging("dst").is_empty());
    w.sh("kill -STOP $(cat pid)");
    // Not after the two minutes for which a rank with another error waits for the others.
    let ended = job.within(Duration::from_secs(40));
    assert!(!ended.status.success() && ended.err.contains("rank 2 ") && ended.err.contains(" has not responded for 3 s"), "{ended}");
}

/// All ranks together: at least the time for what they move, less what passes at once.
#[test]
fn the_rate_limit_is_that_of_the_job() {
    let w = World::new("src: a=1M b=1M c=1M d=1M");
    let began = Instant::now();
    w.ranks(4, "cp -a --bwlimit 2M src/ dst").ends(0);
    assert!(began.elapsed() > Duration::from_millis(1700), "{:?}", began.elapsed());
    let began = Instant::now();
    w.ranks(4, "sum --bwlimit 2M src").ends(0);
    assert!(began.elapsed() > Duration::from_millis(1700), "{:?}", began.elapsed());
}

/// In the words of Open MPI and of MPICH.
fn was_killed(ended: &Ended) -> bool {
    ended.err.contains("exited on signal 9") || ended.out.contains("EXIT CODE: 9")
}

#[test]
fn a_file_that_changes_meanwhile_is_named_and_the_rest_is_copied() {
    let w = tree();
    let changing = w.path("src/large");
    let job = w.ranks(3, "cp -a --chunk-size 64K --bwlimit 12M src/ dst").start();
    let over = std::sync::atomic::AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::io::Write;
            // Bounded, as the other thread may fail.
            for _ in 0..5_000 {
                if over.load(std::sync::atomic::Ordering::SeqCst) {
                    break;
                }
                fs::OpenOptions::new().write(true).open(&changing).and_then(|mut file| file.write_all(b"more")).expect("written");
                std::thread::sleep(Duration::from_millis(20));
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
