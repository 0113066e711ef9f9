//! Two runs of one job at a time, and one after the other with other flags.

use std::thread::sleep;
use std::time::Duration;

use haul_test::compare::What;
use rustix::process::Signal;

use crate::support::{COPY, World};

fn world() -> World {
    World::new("src: file=6M small=2K")
}

fn command(flags: &str) -> String {
    format!("{COPY} {flags} src/ dst")
}

#[test]
fn the_second_says_who_is_running_and_stops() {
    let w = world();
    let mut first = w.slow("");
    for flags in ["", "-v -j 3", "--verify", "-a"] {
        w.haul(&command(flags)).ends(75).says("another run of this job is active: process").says("wait for it with --wait");
    }
    assert!(first.is_running(), "the first is not disturbed");
    first.signal(Signal::KILL);
    assert!(first.wait().was_killed());
    // A corpse holds nothing.
    w.haul(&command("")).ends(0);
    w.assert_done("dst", What::USUAL, "after the first was killed");
}

#[test]
fn the_second_waits_where_it_is_asked_to_and_can_be_ended() {
    let w = world();
    let first = w.slow("");
    let ended = w.haul(&command("--wait")).start();
    let mut second = w.haul(&command("--wait")).start();
    sleep(Duration::from_millis(500));
    ended.signal(Signal::TERM);
    ended.within(Duration::from_secs(10)).code(20);
    assert!(second.is_running());
    first.signal(Signal::INT);
    first.wait().code(20);
    assert_eq!(second.wait().code(0).finished()["ending"], "complete");
    w.assert_done("dst", What::USUAL, "after the wait");
}

#[test]
fn other_flags_find_the_same_sessions_and_restart_forgets_them() {
    for (flags, resumes) in [("-v -j 3", true), ("-a --progress=5", true), ("--verify", true), ("--restart", false)] {
        let w = world();
        w.killed_at(12, &command("-j 1"));
        let (landed, _) = w.landed();
        assert!(landed > 0);
        let again = w.haul(&command(flags)).ends(0);
        assert_eq!(again.number("resumed_bytes"), if resumes { landed } else { 0 }, "{again}");
        if resumes {
            again.says("resuming an earlier run").says("from an earlier run");
        }
        w.assert_done("dst", What::USUAL, flags);
        w.haul(&command("")).ends(0).never_says("resuming");
    }
}
