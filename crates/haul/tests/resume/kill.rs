//! kill -9 at each record of the journal, and at any moment.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_test::compare::What;
use haul_test::content::Random;
use haul_test::slowfs::{Options, SlowFs};

use crate::support::{BOUND, CHUNK, CHUNK_WORDS, Place, copy_tree, number, staging};

/// Small, empty and large files, some of which stand at the destination in another version; links and directories.
fn small_tree(place: &Place) {
    place.tree(
        "src: a=1K b=17 empty=0 c=200K:0600 big=300K bigger=1000K odd=260K:0755 \
         d/e=5K d/empty=0 d/big=513K:0640 d/deep/er/f=2K d/h=>a d/twin=>bigger d/l->../a p| none/ locked/x=3K locked/:0555",
    );
    place.tree("old: a=900 big=290K odd=300K d/e=5K d/big=500K d/twin=3K");
}

/// Bytes of files that stand whole at the destination, each inode once.
fn whole(source: &Path, target: &Path, seen: &mut HashSet<u64>) -> u64 {
    let mut sum = 0;
    for entry in fs::read_dir(source).expect("the source").flatten() {
        let there = target.join(entry.file_name());
        let ours = entry.path().symlink_metadata().expect("the source");
        if ours.is_dir() {
            if there.is_dir() {
                sum += whole(&entry.path(), &there, seen);
            }
        } else if ours.is_file()
            && let Ok(theirs) = there.symlink_metadata()
            && theirs.is_file()
            && (ours.len(), ours.modified().ok()) == (theirs.len(), theirs.modified().ok())
            && seen.insert(std::os::unix::fs::MetadataExt::ino(&ours))
        {
            sum += ours.len();
        }
    }
    sum
}

/// Runs once for every K until the K-th record does not come any more.
fn kill_at_every_record(flags: &str, workers: u64) {
    let place = Place::new();
    small_tree(&place);
    let sum: u64 = [1 << 10, 17, 200 << 10, 300 << 10, 1000 << 10, 260 << 10, 5 << 10, 513 << 10, 2 << 10, 3 << 10].iter().sum();
    let command = format!("cp --json -a {flags} --chunk-size {CHUNK_WORDS} -j {workers} src/ dst");
    let mut resumed = 0;
    for record in 1.. {
        for left in ["dst", "state"] {
            let _absent = fs::remove_dir_all(place.join(left));
        }
        copy_tree(&place.join("old"), &place.join("dst"));
        let when = format!("{flags} -j {workers}, killed at record {record}");
        let first = place.haul(&command).kill_at(record).run();
        if !first.was_killed() {
            first.code(0);
            place.assert_done("src", "dst", What::ALL, &when);
            assert!(record > 40, "only {record} records");
            assert!(resumed > 10, "only {resumed} runs went on within a file");
            return;
        }
        let (landed, _) = place.landed(&place.identity("src", "dst"));
        let stands = whole(&place.join("src"), &place.join("dst"), &mut HashSet::new());
        let second = place.haul(&command).run().code(0);
        place.assert_done("src", "dst", What::ALL, &when);
        let end = second.finished();
        // Another worker may have put a file in place and not have said so yet.
        let went_on = number(&end, "resumed_bytes");
        assert!(went_on == landed || (workers > 1 && went_on < landed), "{when}: {went_on} of {landed}\n{second}");
        resumed += u64::from(went_on > 0);
        // A rerun does small files of unfinished bundles again; of large ones what no receipt speaks of.
        let small: u64 = 212 << 10;
        let again = (number(&end, "bytes") + went_on + stands).saturating_sub(sum);
        assert!(again <= small + workers * CHUNK, "{when}: {again} bytes moved again ({went_on} landed, {stands} stood)\n{second}");
    }
}

#[test]
fn at_every_record_with_one_worker() {
    kill_at_every_record("", 1);
}

#[test]
fn at_every_record_with_three_workers_and_verify() {
    kill_at_every_record("--verify", 3);
}

#[test]
fn at_any_moment_until_it_is_done() {
    for seed in [1, 2] {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let place = Place::new();
        haul_test::tree::Tree::new(place.join("src")).expect("made").random(seed, 300).expect("made");
        place.tree("src: large/one=9M large/two=3M large/three=700K");
        let command = format!("cp --json -a --bwlimit 40M --chunk-size {CHUNK_WORDS} src/ dst");
        let mut kills = 0;
        loop {
            let mut run = place.haul(&command).start();
            // Longer each time: on a busy machine a run needs a while to begin.
            std::thread::sleep(Duration::from_millis(20 + 5 * kills + random.below(150)));
            let killed = run.is_running();
            run.signal(rustix::process::Signal::KILL);
            let ended = run.wait(Duration::from_secs(60));
            if !killed || !ended.was_killed() {
                ended.code(0);
                break;
            }
            kills += 1;
            assert!(kills < 200, "seed {seed}: it never gets done");
        }
        println!("seed {seed}: killed {kills} times");
        assert!(kills > 0);
        place.assert_done("src", "dst", What::ALL, &format!("seed {seed}"));
    }
}

#[test]
fn a_kill_loses_no_file_that_stood_before() {
    let place = Place::new();
    place.tree("src: a=600K b=40K");
    place.tree("old: a=500K b=41K");
    let command = format!("cp --chunk-size {CHUNK_WORDS} src/ dst");
    for record in 1..30 {
        for left in ["dst", "state"] {
            let _absent = fs::remove_dir_all(place.join(left));
        }
        copy_tree(&place.join("old"), &place.join("dst"));
        let run = place.haul(&command).kill_at(record).run();
        for name in ["a", "b"] {
            let is = fs::read(place.join("dst").join(name)).expect("one of the two");
            let of = |tree: &str| fs::read(place.join(tree).join(name)).expect("it is there");
            assert!(is == of("old") || is == of("src"), "{name} is neither old nor new at record {record}");
        }
        if !run.was_killed() {
            return;
        }
    }
    panic!("more records than chunks");
}

#[test]
fn staging_is_where_the_file_will_be() {
    let place = Place::new();
    place.tree("src: d/a=600K");
    assert!(place.haul(&format!("cp --chunk-size {CHUNK_WORDS} src/ dst")).kill_at(4).run().was_killed());
    let found = staging(&place.join("dst"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].parent(), Some(&*place.join("dst/d")));
}

/// Small files over old ones, killed while one of them has its staging name.
fn killed_while_staging(place: &Place) -> SlowFs {
    haul_test::tree::spread(&place.join("src"), 2, 40, 3000).expect("made");
    haul_test::tree::spread(&place.join("back/dst"), 2, 40, 2000).expect("made");
    let slow = Options { metadata_delay: Duration::from_millis(20), threads: 8, ..Options::fast() };
    let mounted = SlowFs::mount(&place.join("back"), slow).expect("FUSE");
    let mut run = place.haul(&format!("cp --json src/ {}/dst", mounted.path().display())).start();
    while staging(&place.join("back/dst")).is_empty() {
        assert!(run.is_running(), "it staged nothing");
    }
    run.signal(rustix::process::Signal::KILL);
    assert!(run.wait(BOUND).was_killed());
    assert_ne!(staging(&place.join("back/dst")), Vec::<PathBuf>::new(), "what the kill left");
    mounted
}

#[test]
fn staged_small_files_are_removed_with_their_job() {
    let place = Place::new();
    let _mounted = killed_while_staging(&place);
    place.haul("jobs").run().code(0).says("small files to repeat");
    place.haul("jobs clean").run().code(0).says("unfinished file");
    assert_eq!(staging(&place.join("back/dst")), Vec::<PathBuf>::new());
    place.haul("jobs").run().code(0).says("no jobs");
}

#[test]
fn staged_small_files_of_a_version_that_is_no_more_are_removed() {
    let place = Place::new();
    let mounted = killed_while_staging(&place);
    fs::remove_dir_all(place.join("src")).expect("removed");
    haul_test::tree::spread(&place.join("src"), 2, 40, 4000).expect("made");
    place.haul(&format!("cp --json src/ {}/dst", mounted.path().display())).run().code(0);
    place.assert_done("src", "back/dst", What::USUAL, "after the source was made again");
}
