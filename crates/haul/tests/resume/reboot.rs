//! A run that goes on after the system went down: what it had landed may have been in memory only.

use std::fs;
use std::os::unix::fs::FileExt;

use haul_core::journal::{Begin, Here, State};
use haul_test::compare::What;

use crate::support::{CHUNK, COPY, World};

/// Everything that landed so far is now from another boot; and of this chunk are left zeros, as after a crash.
fn reboot(w: &World, lost: u64) {
    let elsewhere = Here { boot: [7; 16], ..Here::find() };
    let state = State::open_as(w.state.clone(), elsewhere).expect("it is there");
    let job = state.begin(&w.identity(), Begin::default()).expect("nobody holds it");
    let (_journal, past) = job.journal().expect("it can be read");
    assert_eq!(past.leftovers().len(), 1);
    job.keep();
    let file = fs::File::options().write(true).open(w.staging("dst").remove(0)).expect("it is there");
    file.write_all_at(&vec![0; CHUNK as usize], lost * CHUNK).expect("written");
}

fn interrupted(flags: &str) -> (World, String, u64) {
    let w = World::new("src: file=900K");
    let command = format!("{COPY} -j 1 {flags} src/ dst");
    w.killed_at(10, &command);
    let (landed, _) = w.landed();
    assert_eq!(landed, 7 * CHUNK);
    (w, command, landed)
}

#[test]
fn chunks_with_a_hash_are_hashed_again_and_those_without_are_done_again() {
    for (flags, kept) in [("--verify", 6 * CHUNK), ("", 0)] {
        let (w, command, _) = interrupted(flags);
        reboot(&w, 2);
        assert_eq!(w.haul(&command).ends(0).number("resumed_bytes"), kept, "{flags}");
        w.assert_done("dst", What::USUAL, "after a reboot");
    }
}

#[test]
fn two_reboots_and_a_kill_in_between() {
    let (w, command, landed) = interrupted("--verify");
    reboot(&w, 0);
    // The second run verifies or repeats chunks, and is killed as well.
    w.killed_at(10, &command);
    let (now, _) = w.landed();
    assert!(now >= landed, "{now} of {landed}");
    reboot(&w, 1);
    assert!(w.haul(&command).ends(0).number("resumed_bytes") >= landed - 2 * CHUNK);
    w.assert_done("dst", What::USUAL, "after two reboots");
}
