//! --verify against a destination that does not give back what it was given.

use haul_test::compare::What;
use haul_test::slowfs::{Fault, FaultKind};

use crate::support::{COPY, World};

const CORRUPT: FaultKind = FaultKind::CorruptRead { at: 1000 };

#[test]
fn every_file_is_read_back_once() {
    let w = World::new("src: large=700K empty=0 d/e=5K d/odd=300001 l->d");
    haul_test::tree::spread(&w.path("src/many"), 3, 100, 2000).expect("made");
    let ended = w.haul(&format!("{COPY} --verify src/ dst")).ends(0);
    let bytes = (700 << 10) + (5 << 10) + 300_001 + 300 * 2000;
    assert_eq!((ended.number("verified_files"), ended.number("verified_bytes")), (304, bytes), "{ended}");
    assert!(ended.finished()["verified_by"].as_str().is_some_and(|proof| proof.starts_with("reread")), "{ended}");
    w.assert_done("dst", What::USUAL, "verified");
    // Nothing is left to verify.
    assert_eq!(w.haul("cp --json --verify src/ dst").ends(0).number("verified_files"), 0);
}

#[test]
fn one_file_under_another_name() {
    for size in ["5K", "400K"] {
        let w = World::new(&format!("src: a={size} dst: x/"));
        assert_eq!(w.haul("cp --json --verify src/a dst/b").ends(0).number("verified_files"), 1);
        assert_eq!(w.read("src/a"), w.read("dst/b"));
        w.tree(&format!("src: b={size}"));
        w.haul("cp --json --remove-source-files src/a dst/c").ends(0);
        assert!(!w.has("src/a") && w.has("src/b"));
    }
}

/// A small file is damaged under its own name, a large one under its staging name.
const BOTH: [(&str, &str); 2] = [("small=40K", "small"), ("large=600K", ".haul-")];

#[test]
fn a_copy_that_reads_back_differently_once_is_copied_again() {
    for (what, name) in BOTH {
        let w = World::new(&format!("src: {what} other=3K big=500K back/dst:"));
        let mounted = w.mount("back", &[Fault { times: 1, ..Fault::always(name, CORRUPT) }]);
        let ended = w.haul(&format!("{COPY} --verify -j 1 src/ {}/dst", mounted.path().display())).ends(0);
        assert!(ended.number("retries") > 0, "{ended}");
        assert_eq!(mounted.faults().struck(), 1, "{what}");
        mounted.faults().clear();
        drop(mounted);
        w.assert_done("back/dst", What::USUAL, what);
    }
}

#[test]
fn a_copy_that_always_reads_back_differently_is_reported_and_not_left() {
    for (what, name) in BOTH {
        let w = World::new(&format!("src: {what} other=3K back/dst:"));
        let leaf = what.split('=').next().unwrap_or_default();
        let mounted = w.mount("back", &[Fault::always(name, CORRUPT)]);
        // Staged for its second try, the small one has another name.
        if name != ".haul-" {
            mounted.faults().add(Fault::always(".haul-", CORRUPT));
        }
        let command = format!("{COPY} --verify src/ {}/dst", mounted.path().display());
        let ended = w.haul(&command).ends(23).says(leaf);
        assert_eq!((&ended.finished()["errors"][0], ended.number("failed")), (&"corrupt".into(), 1), "{ended}");
        assert!(!w.has(format!("back/dst/{leaf}")), "{what}: the bad copy is there\n{ended}");
        w.assert_clean("back/dst");
        assert!(w.has("back/dst/other"));
        // The next run does it again, and finds the store healed.
        mounted.faults().clear();
        assert!(w.haul(&command).ends(0).number("verified_files") >= 1);
        drop(mounted);
        w.assert_done("back/dst", What::USUAL, what);
    }
}

/// What landed and was not verified yet is copied again by the next run: it must not pass for verified.
#[test]
fn a_kill_between_landing_and_verification() {
    let w = World::new("src: a=3K b=4K");
    let command = "cp --json --verify -j 1 src/ dst";
    // Killed right after the intent, and after each later record but the last.
    for record in 1..20 {
        if !w.haul(command).killed_at(record).run().was_killed() {
            break;
        }
        let before = w.path("dst/a").exists();
        let again = w.haul(command).ends(0);
        assert!(again.number("verified_files") > 0 || before, "record {record}: {again}");
        w.assert_done("dst", What::USUAL, "verified");
        w.remove("dst");
    }
}

/// A chunk with a hash counts as a whole only, so what is sent in a short run must be more than one chunk.
#[test]
#[ignore = "full"]
fn short_runs_at_a_limited_rate_go_on_from_each_other() {
    let w = World::new("src: file=20M");
    let command = "cp --json --verify -j 1 --bwlimit 1M --deadline 12s src/ dst";
    w.haul(command).ends(75);
    let (landed, _) = w.landed();
    assert!(landed >= 2 << 20, "{landed}");
    assert!(w.haul("cp --json --verify src/ dst").ends(0).number("resumed_bytes") >= landed);
    w.assert_done("dst", What::USUAL, "verified");
}

/// A run in which not one chunk landed is followed by one with smaller chunks.
#[test]
fn a_chunk_that_a_run_did_not_land_is_smaller_in_the_next() {
    let w = World::new("src: file=20M");
    let command = "cp --json --verify -j 1 src/ dst";
    let killed = |done: &dyn Fn((u64, usize)) -> bool| {
        (1..20).any(|record| {
            assert!(w.haul(command).killed_at(record).run().was_killed(), "record {record}");
            done(w.landed())
        })
    };
    assert!(killed(&|(landed, open)| landed == 0 && open == 1), "killed before its first chunk landed");
    assert!(killed(&|(landed, _)| landed > 0), "killed behind its first chunk");
    let (landed, _) = w.landed();
    assert!(landed <= 4 << 20, "{landed}");
    assert_eq!(w.haul(command).ends(0).number("resumed_bytes"), landed);
    w.assert_done("dst", What::USUAL, "verified");
}
