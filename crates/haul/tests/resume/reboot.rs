//! A run that goes on after the system went down: what it had landed may have been in memory only.

use std::fs;
use std::os::unix::fs::FileExt;

use haul_core::journal::{Begin, Here, State};
use haul_test::compare::What;

use crate::support::{CHUNK, CHUNK_WORDS, Place, number, staging};

/// Everything that landed so far is now from another boot.
fn reboot(place: &Place) {
    let elsewhere = Here { boot: [7; 16], ..Here::find() };
    let state = State::open_as(place.join("state"), elsewhere).expect("it is there");
    let job = state.begin(&place.identity("src", "dst"), Begin::default()).expect("nobody holds it");
    let (_journal, past) = job.journal().expect("it can be read");
    let sessions = past.leftovers();
    assert_eq!(sessions.len(), 1);
    job.keep();
}

fn interrupted(flags: &str) -> (Place, String, u64) {
    let place = Place::new();
    place.tree("src: file=900K");
    let command = format!("cp --json -j 1 {flags} --chunk-size {CHUNK_WORDS} src/ dst");
    assert!(place.haul(&command).kill_at(10).run().was_killed());
    let (landed, _) = place.landed(&place.identity("src", "dst"));
    assert_eq!(landed, 7 * CHUNK);
    (place, command, landed)
}

/// What a crash may leave of a chunk: zeros.
fn lose_chunk(place: &Place, index: u64) {
    let left = staging(&place.join("dst")).remove(0);
    let file = fs::File::options().write(true).open(left).expect("it is there");
    file.write_all_at(&vec![0; CHUNK as usize], index * CHUNK).expect("written");
}

#[test]
fn chunks_with_a_hash_are_hashed_again() {
    let (place, command, landed) = interrupted("--verify");
    reboot(&place);
    lose_chunk(&place, 2);
    let again = place.haul(&command).run().code(0);
    assert_eq!(number(&again.finished(), "resumed_bytes"), landed - CHUNK, "{again}");
    place.assert_done("src", "dst", What::USUAL, "after a reboot");
}

#[test]
fn chunks_without_a_hash_are_done_again() {
    let (place, command, _) = interrupted("");
    reboot(&place);
    lose_chunk(&place, 3);
    let again = place.haul(&command).run().code(0);
    assert_eq!(number(&again.finished(), "resumed_bytes"), 0, "{again}");
    place.assert_done("src", "dst", What::USUAL, "after a reboot");
}

#[test]
fn two_reboots_and_a_kill_in_between() {
    let (place, command, landed) = interrupted("--verify");
    reboot(&place);
    lose_chunk(&place, 0);
    // The second run proves or redoes chunks, and is killed as well.
    assert!(place.haul(&command).kill_at(10).run().was_killed());
    let (now, _) = place.landed(&place.identity("src", "dst"));
    assert!(now >= landed, "{now} of {landed}");
    reboot(&place);
    lose_chunk(&place, 1);
    let again = place.haul(&command).run().code(0);
    assert!(number(&again.finished(), "resumed_bytes") >= landed - 2 * CHUNK, "{again}");
    place.assert_done("src", "dst", What::USUAL, "after two reboots");
}
