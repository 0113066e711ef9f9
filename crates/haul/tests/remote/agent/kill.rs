//! Ends in the middle: of the program, of the remote haul, of the connection.

use std::fs;
use std::io::Write;
use std::time::Duration;

use haul_test::compare::What;
use haul_test::content::Random;
use haul_test::tree::spread;
use rustix::process::{Signal, kill_process};

use crate::agent::support::World;

/// The destination has only whole files: a large one is as in `src`, and one over an old one as in `src` or `old`.
/// A new small file may be incomplete: it is copied again.
#[track_caller]
fn assert_nothing_torn(w: &World, copy: &str, when: &str) {
    for name in ["large", "d/other"] {
        let torn = w.has(format!("{copy}/{name}")) && w.read(format!("{copy}/{name}")) != w.read(format!("src/{name}"));
        assert!(!torn, "{when}\n{copy}/{name} is torn");
    }
    for path in w.list("old").iter().filter(|path| !path.ends_with('/')) {
        let [is, old, new] = [copy, "old", "src"].map(|tree| w.read(format!("{tree}/{path}")));
        assert!(is == old || is == new, "{when}\n{copy}/{path} is neither old nor new");
    }
}

const DIRECTIONS: [(&str, &str, &str); 2] = [("src/", "testhost:~/there", "there"), ("testhost:~/src/", "here", "here")];

#[test]
#[ignore = "full"]
fn a_killed_run_goes_on_inside_the_file() {
    for (from, to, copy) in DIRECTIONS {
        for flags in ["", "--no-direct"] {
            for record in [4, 9] {
                let w = World::new("src: big=12M");
                let words = format!("cp --json --chunk-size 1M -j 2 {flags} {from} {to}");
                let when = format!("{words}, killed at record {record}");
                let first = w.haul(&format!("{words} --bwlimit 20M")).killed_at(record).run();
                assert!(first.was_killed(), "{when}: {first}");
                assert!(!w.has(format!("{copy}/big")), "{when}: there is no such name before it is whole");
                let second = w.haul(&words).ends(0);
                let resumed = second.number("resumed_bytes");
                assert!(resumed > 0, "{when}: {second}");
                assert_eq!(second.number("bytes") + resumed, 12 << 20, "{when}: only the rest moves\n{second}");
                w.assert_same("src", copy, What::USUAL);
                w.assert_clean(copy);
                w.assert_no_agents();
            }
        }
    }
}

fn mixed() -> World {
    let w = World::new("src: large=10M d/other=3M");
    spread(&w.path("src/many"), 5, 300, 3000).expect("made");
    spread(&w.path("old/many"), 2, 200, 2000).expect("made");
    w.sh("cp -a old there && cp -a old here");
    w
}

/// Runs with something bad happening three times, then once more in peace.
fn disturbed(flags: &str, seed: u64, disturb: impl Fn(&World) -> bool) {
    let mut random = Random::new(seed);
    for (from, to, copy) in DIRECTIONS {
        let w = mixed();
        let words = format!("cp -a --chunk-size 1M {flags} {from} {to}");
        let mut run = w.haul(&format!("{words} --bwlimit 8M")).start();
        run.until("a staging file", || !w.staging(copy).is_empty());
        let mut disturbed = 0;
        while disturbed < 3 && run.is_running() {
            std::thread::sleep(Duration::from_millis(150 + random.below(250)));
            disturbed += u32::from(disturb(&w));
        }
        assert!(disturbed > 0, "seed {seed}: {words}: it went by too fast");
        let ended = run.wait();
        let when = format!("seed {seed}: {words}: disturbed {disturbed} times\n{ended}");
        assert_nothing_torn(&w, copy, &when);
        if !ended.status.success() {
            ended.code_of(&[10, 23]).says("again");
        }
        w.haul(&words).ends(0);
        w.assert_same("src", copy, What { root: false, ..What::ALL });
        w.assert_clean(copy);
        w.assert_no_agents();
    }
}

fn kill_agents(w: &World) -> bool {
    w.agents().into_iter().filter(|agent| kill_process(*agent, Signal::KILL).is_ok()).count() > 0
}

#[test]
#[ignore = "full"]
fn the_remote_haul_may_be_killed() {
    for (flags, seed) in [("", 1), ("--no-direct", 2)] {
        disturbed(flags, seed, kill_agents);
    }
}

#[test]
#[ignore = "full"]
fn the_connection_may_be_cut() {
    for (flags, seed) in [("", 3), ("--no-direct", 4)] {
        disturbed(flags, seed, |w| w.server.cut() > 0);
    }
}

#[test]
#[ignore = "full"]
fn a_host_that_is_gone_for_good_ends_it_with_a_hint() {
    for (from, to, copy) in DIRECTIONS {
        let w = mixed();
        let words = format!("cp --chunk-size 1M --bwlimit 4M {from} {to}");
        let mut run = w.haul(&words).start();
        run.until("a staging file", || !w.staging(copy).is_empty());
        // Nobody is let in again.
        w.server.write("authorized_keys", "");
        assert!(w.server.cut() > 0);
        let ended = run.wait().code(10).says("again");
        assert_nothing_torn(&w, copy, &ended.to_string());
        fs::copy(w.server.path("user_key.pub"), w.server.path("authorized_keys")).expect("written");
        w.haul(&words.replace("4M", "100M")).ends(0);
        w.assert_same("src", copy, What::USUAL);
    }
}

#[test]
#[ignore = "full"]
fn a_remote_haul_that_hangs_is_given_up_with_timeout() {
    for (from, to, copy) in DIRECTIONS {
        let w = mixed();
        let words = format!("cp --chunk-size 1M {from} {to}");
        let mut run = w.haul(&format!("{words} --bwlimit 4M --timeout 2s")).start();
        run.until("a staging file", || !w.staging(copy).is_empty());
        let agents = w.agents();
        assert!(!agents.is_empty());
        for agent in &agents {
            kill_process(*agent, Signal::STOP).expect("it runs");
        }
        let ended = run.wait().code_of(&[10, 30]);
        for agent in agents {
            kill_process(agent, Signal::CONT).expect("it is stopped");
        }
        w.assert_no_agents();
        assert_nothing_torn(&w, copy, &ended.to_string());
        w.haul(&words).ends(0);
        w.assert_same("src", copy, What::USUAL);
    }
}

/// What comes through a pipe cannot be read again: what a lost connection has taken with it is kept until it has arrived.
#[test]
fn a_pipe_loses_nothing_with_a_connection() {
    for (flags, copy) in [("--no-direct", "by-haul"), ("--no-agent", "by-sftp")] {
        let w = World::new("");
        let words = format!("cp {flags} - testhost:~/{copy}");
        let mut run = if flags == "--no-agent" { w.plain(&words) } else { w.haul(&words) }.piped();
        let content = haul_test::content::bytes(7, 12 << 20);
        let mut input = run.input();
        let (first, rest) = content.split_at(4 << 20);
        // Of these only what is left in the pipe has not set out when they are taken.
        let (unanswered, rest) = rest.split_at(2 << 20);
        input.write_all(first).expect("it reads");
        run.until("a part of it on the host", || {
            w.staging(".").first().is_some_and(|file| fs::metadata(file).is_ok_and(|there| there.len() >= 3 << 20))
        });
        assert!(w.server.freeze() > 0, "there was a connection");
        input.write_all(unanswered).expect("it reads");
        w.server.cut();
        input.write_all(rest).expect("it reads");
        drop(input);
        run.wait().code(0);
        assert!(w.server.logins() >= 2 && w.read(copy) == content, "{words}: another content");
    }
}
