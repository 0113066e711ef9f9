//! --verify against a destination that does not give back what it was given.

use std::fs;

use haul_test::compare::What;
use haul_test::slowfs::{Fault, FaultKind, Options, SlowFs};

use crate::support::{CHUNK_WORDS, Place, number, staging};

#[test]
fn every_file_is_read_back_once() {
    let place = Place::new();
    place.tree("src: large=700K empty=0 d/e=5K d/odd=300001 l->d");
    haul_test::tree::spread(&place.join("src/many"), 3, 100, 2000).expect("made");
    let ended = place.haul(&format!("cp --json --verify --chunk-size {CHUNK_WORDS} src/ dst")).run().code(0);
    let end = ended.finished();
    assert_eq!(number(&end, "verified_files"), 304, "{ended}");
    assert_eq!(number(&end, "verified_bytes"), (700 << 10) + (5 << 10) + 300_001 + 300 * 2000, "{ended}");
    assert!(end["proof"].as_str().is_some_and(|proof| proof.starts_with("reread")), "{ended}");
    place.assert_done("src", "dst", What::USUAL, "verified");
    // Nothing is left to verify.
    let again = place.haul("cp --json --verify src/ dst").run().code(0);
    assert_eq!(number(&again.finished(), "verified_files"), 0, "{again}");
}

#[test]
fn one_file_under_another_name() {
    for size in ["5K", "400K"] {
        let place = Place::new();
        place.tree(&format!("src: a={size} dst: x/"));
        let ended = place.haul("cp --json --verify src/a dst/b").run().code(0);
        assert_eq!(number(&ended.finished(), "verified_files"), 1, "{ended}");
        assert_eq!(fs::read(place.join("src/a")).expect("read"), fs::read(place.join("dst/b")).expect("read"));
        place.tree(&format!("src: b={size}"));
        place.haul("cp --json --remove-source-files src/a dst/c").run().code(0);
        assert!(!place.join("src/a").exists() && place.join("src/b").exists());
    }
}

fn lying(place: &Place, fault: Fault) -> SlowFs {
    fs::create_dir_all(place.join("back/dst")).expect("made");
    let mounted = SlowFs::mount(&place.join("back"), Options { threads: 8, ..Options::fast() }).expect("FUSE");
    mounted.faults().add(fault);
    mounted
}

/// A small file is damaged under its own name, a large one under its staging name.
const BOTH: [(&str, &str); 2] = [("small=40K", "small"), ("large=600K", ".haul-")];

#[test]
fn a_copy_that_reads_back_differently_once_is_copied_again() {
    for (what, name) in BOTH {
        let place = Place::new();
        place.tree(&format!("src: {what} other=3K big=500K"));
        let mounted = lying(&place, Fault::once(name, FaultKind::CorruptRead { at: 1000 }));
        let command = format!("cp --json --verify -j 1 --chunk-size {CHUNK_WORDS} src/ {}/dst", mounted.path().display());
        let ended = place.haul(&command).run().code(0);
        assert!(number(&ended.finished(), "retries") > 0, "{ended}");
        assert_eq!(mounted.faults().struck(), 1, "{what}");
        mounted.faults().clear();
        drop(mounted);
        place.assert_done("src", "back/dst", What::USUAL, what);
    }
}

#[test]
fn a_copy_that_always_reads_back_differently_is_reported_and_not_left() {
    for (what, name) in BOTH {
        let place = Place::new();
        place.tree(&format!("src: {what} other=3K"));
        let leaf = what.split('=').next().unwrap_or_default();
        let mounted = lying(&place, Fault::always(name, FaultKind::CorruptRead { at: 1000 }));
        // Staged for its second try, the small one has another name.
        if name != ".haul-" {
            mounted.faults().add(Fault::always(".haul-", FaultKind::CorruptRead { at: 1000 }));
        }
        let command = format!("cp --json --verify --chunk-size {CHUNK_WORDS} src/ {}/dst", mounted.path().display());
        let ended = place.haul(&command).run().code(23).says(leaf);
        assert_eq!(ended.finished()["errors"][0], "corrupt", "{ended}");
        assert_eq!(number(&ended.finished(), "failed"), 1, "{ended}");
        assert!(!place.join("back/dst").join(leaf).exists(), "{what}: the bad copy is there\n{ended}");
        assert_eq!(staging(&place.join("back/dst")).len(), 0, "{ended}");
        assert!(place.join("back/dst/other").exists());
        // The next run does it again, and finds the store healed.
        mounted.faults().clear();
        let again = place.haul(&command).run().code(0);
        assert!(number(&again.finished(), "verified_files") >= 1, "{again}");
        drop(mounted);
        place.assert_done("src", "back/dst", What::USUAL, what);
    }
}

#[test]
fn an_old_large_file_stands_when_the_new_one_reads_back_differently() {
    let place = Place::new();
    place.tree("src: large=600K back/dst: large=500K");
    let old = fs::read(place.join("back/dst/large")).expect("read");
    let mounted = lying(&place, Fault::always(".haul-", FaultKind::CorruptRead { at: 70_000 }));
    let command = format!("cp --json --verify --chunk-size {CHUNK_WORDS} src/ {}/dst", mounted.path().display());
    place.haul(&command).run().code(23);
    drop(mounted);
    assert!(fs::read(place.join("back/dst/large")).expect("read") == old);
}

/// What landed and was not judged yet is done again by the next run: it must not pass for verified.
#[test]
fn a_kill_between_landing_and_judging() {
    let place = Place::new();
    place.tree("src: a=3K b=4K");
    let command = "cp --json --verify -j 1 src/ dst";
    // Killed right after the intent, and after each later record but the last.
    for record in 1..20 {
        let killed = place.haul(command).kill_at(record).run().was_killed();
        if !killed {
            break;
        }
        let before = fs::metadata(place.join("dst/a")).is_ok();
        let again = place.haul(command).run().code(0);
        let verified = number(&again.finished(), "verified_files");
        assert!(verified > 0 || before, "record {record}: {again}");
        place.assert_done("src", "dst", What::USUAL, "judged");
        fs::remove_dir_all(place.join("dst")).expect("removed");
    }
}
