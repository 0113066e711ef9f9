//! Ends in the middle: of the program, of the remote haul, of the connection.

use std::fs;
use std::path::Path;
use std::time::Duration;

use haul_test::compare::What;
use haul_test::content::Random;
use haul_test::tree::spread;
use rustix::process::{Signal, kill_process};

use crate::support::{BOUND, World, staging, until};

/// What stands at the destination is whole: a large file is as in `src`, and one over an old one as in `src` or `old`.
/// A small file that is new may be half there: it is done again.
#[track_caller]
fn assert_nothing_torn(w: &World, copy: &str, when: &str) {
    for name in ["large", "d/other"] {
        if w.join(copy).join(name).exists() {
            assert!(w.content(&format!("{copy}/{name}")) == w.content(&format!("src/{name}")), "{when}\n{copy}/{name} is torn");
        }
    }
    for path in files(&w.join("old")) {
        let is = w.content(&format!("{copy}/{path}"));
        let of = |tree: &str| w.content(&format!("{tree}/{path}"));
        assert!(is == of("old") || is == of("src"), "{when}\n{copy}/{path} is neither old nor new");
    }
}

/// Paths of the files below a directory.
fn files(top: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(top).expect("a directory").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        match entry.file_type().expect("known").is_dir() {
            true => found.extend(files(&entry.path()).into_iter().map(|below| format!("{name}/{below}"))),
            false => found.push(name),
        }
    }
    found
}

const SIZE: u64 = 12 << 20;

#[test]
fn a_killed_run_goes_on_inside_the_file() {
    for (from, to, copy) in [("src/", "testhost:~/there", "there"), ("testhost:~/src/", "here", "here")] {
        for flags in ["", "--no-direct"] {
            for record in [4, 9] {
                let w = World::new("");
                w.tree("src: big=12M");
                let words = format!("cp --json --chunk-size 1M -j 2 {flags} {from} {to}");
                let when = format!("{words}, killed at record {record}");
                let first = w.haul(&format!("{words} --bwlimit 20M")).env("HAUL_TEST_KILL_AT_RECORD", record.to_string()).run();
                assert!(first.was_killed(), "{when}: {first}");
                assert!(!w.join(copy).join("big").exists(), "{when}: nothing stands under the name before it is whole");
                let second = w.haul(&words).run().code(0);
                let resumed = second.number("resumed_bytes");
                assert!(resumed > 0, "{when}: {second}");
                assert_eq!(second.number("bytes") + resumed, SIZE, "{when}: only the rest moves\n{second}");
                w.assert_same("src", copy, What::USUAL);
                w.assert_clean(copy);
                w.assert_no_agents();
            }
        }
    }
}

fn mixed(w: &World) {
    w.tree("src: large=10M d/other=3M");
    spread(&w.join("src/many"), 5, 300, 3000).expect("made");
    spread(&w.join("old/many"), 2, 200, 2000).expect("made");
    w.tool("cp", &["-a", "old", "there"]);
    w.tool("cp", &["-a", "old", "here"]);
}

const WAYS: [(&str, &str, &str); 2] = [("src/", "testhost:~/there", "there"), ("testhost:~/src/", "here", "here")];

/// Runs with something bad happening three times, then once more in peace.
fn disturbed(flags: &str, seed: u64, disturb: impl Fn(&World) -> bool) {
    let mut random = Random::new(seed);
    for (from, to, copy) in WAYS {
        let w = World::new("");
        mixed(&w);
        let words = format!("cp -a --chunk-size 1M {flags} {from} {to}");
        let mut run = w.haul(&format!("{words} --bwlimit 8M")).start();
        until("it has begun", || !staging(&w.join(copy)).is_empty());
        let mut disturbed = 0;
        while disturbed < 3 && run.is_running() {
            std::thread::sleep(Duration::from_millis(150 + random.below(250)));
            disturbed += u32::from(disturb(&w));
        }
        assert!(disturbed > 0, "seed {seed}: {words}: it went by too fast");
        let ended = run.wait(BOUND);
        let when = format!("seed {seed}: {words}: disturbed {disturbed} times\n{ended}\n{}", w.server.log());
        println!("seed {seed}: {words}: disturbed {disturbed} times: {}", ended.status);
        assert_nothing_torn(&w, copy, &when);
        match ended.status.code() {
            Some(0) => {}
            Some(10 | 23) => assert!(ended.err.contains("again") || ended.out.contains("again"), "{when}: how to go on is said"),
            _ => panic!("{when}"),
        }
        w.haul(&words).run().code(0);
        w.assert_same("src", copy, What { root: false, ..What::ALL });
        w.assert_clean(copy);
        w.assert_no_agents();
    }
}

fn kill_agents(w: &World) -> bool {
    let agents = w.agents();
    agents.into_iter().map(|agent| kill_process(agent, Signal::KILL)).filter(Result::is_ok).count() > 0
}

#[test]
fn the_far_haul_may_be_killed() {
    for (flags, seed) in [("", 1), ("--no-direct", 2)] {
        disturbed(flags, seed, kill_agents);
    }
}

#[test]
fn the_connection_may_be_cut() {
    for (flags, seed) in [("", 3), ("--no-direct", 4)] {
        disturbed(flags, seed, |w| w.server.cut() > 0);
    }
}

#[test]
fn a_host_that_is_gone_for_good_ends_it_with_a_hint() {
    for (from, to, copy) in WAYS {
        let w = World::new("");
        mixed(&w);
        let words = format!("cp --chunk-size 1M --bwlimit 4M {from} {to}");
        let run = w.haul(&words).start();
        until("it has begun", || !staging(&w.join(copy)).is_empty());
        // Nobody is let in again.
        fs::write(w.server.path("authorized_keys"), "").expect("written");
        assert!(w.server.cut() > 0);
        let ended = run.wait(BOUND).code(10).says("again");
        assert_nothing_torn(&w, copy, &ended.to_string());
        fs::copy(w.server.path("user_key.pub"), w.server.path("authorized_keys")).expect("written");
        w.haul(&words.replace("4M", "100M")).run().code(0);
        w.assert_same("src", copy, What::USUAL);
    }
}

#[test]
fn a_far_haul_that_hangs_is_given_up_when_told_to() {
    for (from, to, copy) in WAYS {
        let w = World::new("");
        mixed(&w);
        let words = format!("cp --chunk-size 1M {from} {to}");
        let run = w.haul(&format!("{words} --bwlimit 4M --timeout 2s")).start();
        until("it has begun", || !staging(&w.join(copy)).is_empty());
        let agents = w.agents();
        assert!(!agents.is_empty());
        for agent in &agents {
            kill_process(*agent, Signal::STOP).expect("it runs");
        }
        let ended = run.wait(BOUND);
        assert!(matches!(ended.status.code(), Some(10 | 30)), "{ended}");
        for agent in agents {
            kill_process(agent, Signal::CONT).expect("it is stopped");
        }
        w.assert_no_agents();
        assert_nothing_torn(&w, copy, &ended.to_string());
        w.haul(&words).run().code(0);
        w.assert_same("src", copy, What::USUAL);
    }
}
