//! Two runs of one job at a time, and one after the other with other flags.

use std::time::{Duration, Instant};

use haul_test::compare::What;
use rustix::process::Signal;

use crate::support::{BOUND, CHUNK_WORDS, Place, Running, number, staging};

fn command(flags: &str) -> String {
    format!("cp --json {flags} --chunk-size {CHUNK_WORDS} src/ dst")
}

/// A run that takes a minute, in the middle of its file.
pub fn slow(place: &Place, flags: &str) -> Running {
    let mut run = place.haul(&command(&format!("--bwlimit 100K {flags}"))).start();
    let until = Instant::now() + BOUND;
    // The journal's first records are on their way when there is something to go on with.
    while staging(&place.join("dst")).is_empty() {
        assert!(run.is_running() && Instant::now() < until, "it did not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    run
}

fn place() -> Place {
    let place = Place::new();
    place.tree("src: file=6M small=2K");
    place
}

#[test]
fn the_second_says_who_is_at_work_and_stops() {
    let place = place();
    let mut first = slow(&place, "");
    for flags in ["", "-v -j 3", "--verify", "-a"] {
        place.haul(&command(flags)).run().code(75).says("another run of this job is active: process").says("wait for it with --wait");
    }
    assert!(first.is_running(), "the first is not disturbed");
    first.signal(Signal::KILL);
    assert!(first.wait(BOUND).was_killed());
    // A corpse holds nothing.
    place.haul(&command("")).run().code(0);
    place.assert_done("src", "dst", What::USUAL, "after the first was killed");
}

#[test]
fn the_second_waits_when_told_to() {
    let place = place();
    let first = slow(&place, "");
    let mut second = place.haul(&command("--wait")).start();
    std::thread::sleep(Duration::from_millis(500));
    assert!(second.is_running());
    first.signal(Signal::INT);
    first.wait(BOUND).code(20);
    let second = second.wait(BOUND).code(0);
    assert_eq!(second.finished()["ending"], "complete");
    place.assert_done("src", "dst", What::USUAL, "after the wait");
}

#[test]
fn a_wait_can_be_ended() {
    let place = place();
    let first = slow(&place, "");
    let second = place.haul(&command("--wait")).start();
    std::thread::sleep(Duration::from_millis(500));
    second.signal(Signal::TERM);
    second.wait(Duration::from_secs(10)).code(20);
    first.signal(Signal::KILL);
    first.wait(BOUND);
}

#[test]
fn other_flags_find_the_same_sessions_and_restart_forgets_them() {
    for (flags, resumes) in [("-v -j 3", true), ("-a --progress=5", true), ("--verify", true), ("--restart", false)] {
        let place = place();
        assert!(place.haul(&command("-j 1")).kill_at(12).run().was_killed());
        let (landed, _) = place.landed(&place.identity("src", "dst"));
        assert!(landed > 0);
        let again = place.haul(&command(flags)).run().code(0);
        let resumed = number(&again.finished(), "resumed_bytes");
        assert_eq!(resumed, if resumes { landed } else { 0 }, "{again}");
        let again = if resumes { again.says("resuming an earlier run").says("from an earlier run") } else { again };
        place.assert_done("src", "dst", What::USUAL, flags);
        drop(again);
        place.haul(&command("")).run().code(0).never_says("resuming");
    }
}
