//! kill -9 at each record of the journal, and at any moment.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use haul_test::compare::What;
use haul_test::content::Random;
use haul_test::slowfs::{Options, SlowFs};
use haul_test::tree::{Tree, spread};
use haul_test::volume::Mounted;
use rustix::process::Signal;

use crate::support::{CHUNK, COPY, World};

/// Small, empty and large files, some of which the destination has in another version; links and directories.
const TREE: &str = "src: a=1K b=17 empty=0 c=200K:0600 big=300K bigger=1000K odd=260K:0755 \
     d/e=5K d/empty=0 d/big=513K:0640 d/deep/er/f=2K d/h=>a d/twin=>bigger d/l->../a p| none/ locked/x=3K locked/:0555 \
     old: a=900 big=290K odd=300K d/e=5K d/big=500K d/twin=3K";

/// Bytes of files that the destination has whole, each inode once.
fn whole(source: &Path, target: &Path, seen: &mut HashSet<u64>) -> u64 {
    let mut sum = 0;
    for entry in fs::read_dir(source).expect("the source").flatten() {
        let copy = target.join(entry.file_name());
        let ours = entry.path().symlink_metadata().expect("the source");
        if ours.is_dir() {
            if copy.is_dir() {
                sum += whole(&entry.path(), &copy, seen);
            }
        } else if ours.is_file()
            && let Ok(theirs) = copy.symlink_metadata()
            && theirs.is_file()
            && (ours.len(), ours.modified().ok()) == (theirs.len(), theirs.modified().ok())
            && seen.insert(ours.ino())
        {
            sum += ours.len();
        }
    }
    sum
}

/// Runs once for every K until the K-th record does not come any more.
fn kill_at_every_record(flags: &str, workers: u64) {
    let w = World::new(TREE);
    let sum: u64 = [1 << 10, 17, 200 << 10, 300 << 10, 1000 << 10, 260 << 10, 5 << 10, 513 << 10, 2 << 10, 3 << 10].iter().sum();
    let command = format!("{COPY} -a {flags} -j {workers} src/ dst");
    let mut resumed = 0;
    for record in 1.. {
        w.begin_anew();
        let when = format!("{flags} -j {workers}, killed at record {record}");
        let first = w.haul(&command).killed_at(record).run();
        if !first.was_killed() {
            first.code(0);
            w.assert_done("dst", What::ALL, &when);
            assert!(record > 40, "only {record} records");
            assert!(resumed > 10, "only {resumed} runs went on within a file");
            return;
        }
        let (landed, _) = w.landed();
        let kept = whole(&w.path("src"), &w.path("dst"), &mut HashSet::new());
        let second = w.haul(&command).ends(0);
        w.assert_done("dst", What::ALL, &when);
        // Another worker may have put a file in place and not have recorded it yet.
        let went_on = second.number("resumed_bytes");
        assert!(went_on == landed || (workers > 1 && went_on < landed), "{when}: {went_on} of {landed}\n{second}");
        resumed += u64::from(went_on > 0);
        // A rerun does small files of unfinished bundles again; of large ones what no receipt speaks of.
        let small: u64 = 212 << 10;
        let again = (second.number("bytes") + went_on + kept).saturating_sub(sum);
        assert!(again <= small + workers * CHUNK, "{when}: {again} bytes moved again ({went_on} landed, {kept} were there)\n{second}");
    }
}

#[test]
#[ignore = "full"]
fn at_every_record_with_one_worker() {
    kill_at_every_record("", 1);
}

#[test]
#[ignore = "full"]
fn at_every_record_with_three_workers_and_verify() {
    kill_at_every_record("--verify", 3);
}

#[test]
fn at_any_moment_until_it_is_done() {
    for seed in [1, 2] {
        let mut random = Random::new(seed);
        let w = World::new("src: large/one=9M large/two=3M large/three=700K");
        Tree::new(w.path("src")).expect("made").random(seed, 300).expect("made");
        let command = format!("{COPY} -a --bwlimit 40M src/ dst");
        let mut kills = 0;
        loop {
            let mut run = w.haul(&command).start();
            // Longer each time: on a busy machine a run needs a while to begin.
            sleep(Duration::from_millis(20 + 5 * kills + random.below(150)));
            let killed = run.is_running();
            run.signal(Signal::KILL);
            let ended = run.wait();
            if !killed || !ended.was_killed() {
                ended.code(0);
                break;
            }
            kills += 1;
            assert!(kills < 200, "seed {seed}: it never gets done");
        }
        assert!(kills > 0);
        w.assert_done("dst", What::ALL, &format!("seed {seed}, killed {kills} times"));
    }
}

#[test]
fn a_kill_loses_no_file_that_was_there_before() {
    let w = World::new("src: a=600K b=40K old: a=500K b=41K");
    for record in 1..30 {
        w.begin_anew();
        let run = w.haul(&format!("{COPY} src/ dst")).killed_at(record).run();
        for name in ["a", "b"] {
            let [is, old, new] = ["dst", "old", "src"].map(|tree| w.read(format!("{tree}/{name}")));
            assert!(is == old || is == new, "{name} is neither old nor new at record {record}");
        }
        if !run.was_killed() {
            return;
        }
    }
    panic!("more records than chunks");
}

#[test]
fn staging_is_where_the_file_will_be() {
    let w = World::new("src: d/a=600K");
    w.killed_at(4, &format!("{COPY} src/ dst"));
    let found = w.staging("dst");
    assert_eq!(found.iter().map(|path| path.parent()).collect::<Vec<_>>(), [Some(&*w.path("dst/d"))], "{found:?}");
}

/// Small files over old ones, killed while one of them has its staging name.
fn killed_while_staging(w: &World) -> SlowFs {
    spread(&w.path("src"), 2, 40, 3000).expect("made");
    spread(&w.path("back/dst"), 2, 40, 2000).expect("made");
    let slow = Options { metadata_delay: Duration::from_millis(20), threads: 8, ..Options::fast() };
    let mounted = SlowFs::mount(&w.path("back"), slow).expect("FUSE");
    let mut run = w.haul(&format!("cp --json src/ {}/dst", mounted.path().display())).start();
    while w.staging("back/dst").is_empty() {
        assert!(run.is_running(), "it staged nothing");
    }
    run.signal(Signal::KILL);
    assert!(run.wait().was_killed());
    assert!(!w.staging("back/dst").is_empty(), "what the kill left");
    mounted
}

#[test]
fn staged_small_files_are_removed_with_their_job() {
    let w = World::new("");
    let _mounted = killed_while_staging(&w);
    w.haul("jobs").ends(0).says("small files to repeat");
    w.haul("jobs clean").ends(0).says("unfinished file");
    w.assert_clean("back/dst");
    w.haul("jobs").ends(0).says("no jobs");
}

#[test]
#[ignore = "full"]
fn staged_small_files_of_a_version_that_is_no_more_are_removed() {
    let w = World::new("");
    let mounted = killed_while_staging(&w);
    w.remove("src");
    spread(&w.path("src"), 2, 40, 4000).expect("made");
    w.haul(&format!("cp --json src/ {}/dst", mounted.path().display())).ends(0);
    w.assert_done("back/dst", What::USUAL, "after the source was made again");
}

/// Removing names changes the times of the source's directories, and the link counts of its files.
#[test]
fn a_move_killed_at_every_record_keeps_directory_times_and_hard_links() {
    let w = World::new("kept: a=1K b/c=2K b/d/e=3K b/twin=>a big=300K b/d/alias=>big");
    w.tree("dst/");
    w.sh("find kept -exec touch -h -d '2020-02-02 02:02:02' {} +");
    let _elsewhere = Mounted::tmpfs(&w.path("dst"), "size=64M");
    let command = "mv --chunk-size 64K -j 1 src dst";
    for record in 1.. {
        w.sh("rm -rf src dst/src && cp -a kept src");
        w.remove(&w.state);
        let first = w.haul(command).killed_at(record).run();
        let is_whole = !first.was_killed();
        if is_whole {
            first.code(0);
        } else if w.has("src") {
            w.haul(command).ends(0);
        }
        println!("record {record}");
        w.assert_same("kept", "dst/src", What::ALL);
        assert!(!w.has("src"), "record {record}");
        if is_whole {
            assert!(record > 10, "only {record} records");
            return;
        }
    }
}
