//! What an agent leaves behind on the remote host: nothing.

use std::os::unix::net::UnixListener;

use haul_test::program::{Running, until};
use haul_test::tree::set_mtime;
use rustix::process::{Signal, kill_process};

use crate::agent::support::World;

const SLOW: &str = "cp --chunk-size 1M --bwlimit 2M src/ testhost:~/there";

fn world() -> World {
    World::new("src: big=20M a=5")
}

/// A run in the middle of its file.
fn slow(w: &World) -> Running {
    let mut run = w.haul(SLOW).start();
    run.until("a staging file", || !w.staging("there").is_empty());
    assert!(!w.agents().is_empty() && !w.sockets().is_empty(), "an agent is at work");
    run
}

#[track_caller]
fn assert_nothing_left(w: &World) {
    w.assert_no_agents();
    assert_eq!(w.sockets(), Vec::<String>::new());
    until("ssh has taken its control socket away", || w.entries("local-run/haul-0").is_empty());
}

#[test]
fn a_normal_end_leaves_nothing() {
    let w = World::new("src: big=3M a=5");
    for words in ["cp src/ testhost:~/there", "cp --no-direct testhost:~/there/ back", "ls testhost:~/there", "cp testhost:~/absent x"] {
        w.haul(words).run();
        assert_nothing_left(&w);
    }
}

#[test]
#[ignore = "full"]
fn a_killed_or_interrupted_program_leaves_nothing() {
    for (signal, code) in [(Signal::KILL, None), (Signal::INT, Some(20)), (Signal::TERM, Some(20)), (Signal::HUP, Some(20))] {
        let w = world();
        let run = slow(&w);
        run.signal(signal);
        assert_eq!(run.wait().status.code(), code, "{signal:?}");
        assert_nothing_left(&w);
    }
}

#[test]
fn a_cut_leaves_nothing() {
    let w = world();
    let run = slow(&w);
    w.server.write("authorized_keys", "");
    assert!(w.server.cut() > 0);
    run.wait().code(10);
    assert_nothing_left(&w);
}

#[test]
fn sockets_of_killed_agents_go_with_the_next_one() {
    let w = world();
    let run = slow(&w);
    for agent in w.agents() {
        kill_process(agent, Signal::STOP).expect("it runs");
        let status = || std::fs::read_to_string(format!("/proc/{agent}/status")).unwrap_or_default();
        until("the agent has stopped", || status().contains("State:\tT"));
    }
    run.signal(Signal::KILL);
    assert!(run.wait().was_killed());
    for agent in w.agents() {
        kill_process(agent, Signal::KILL).expect("it is there");
    }
    w.assert_no_agents();
    let left = w.sockets();
    assert_eq!(left.len(), 1, "a killed agent cannot clean up");
    let directory = w.path("remote-run/haul-0");
    let make_old = |name: &str| set_mtime(&directory.join(name), 1_600_000_000, 0).expect("set");
    make_old(&left[0]);
    // Those that somebody listens on stay, however old, and so does what is no agent's.
    let _living = UnixListener::bind(directory.join("agent-0123456789abcdef")).expect("bound");
    make_old("agent-0123456789abcdef");
    w.write("remote-run/haul-0/notes", "mine");
    make_old("notes");
    w.haul("ls testhost:~/src").ends(0);
    w.assert_no_agents();
    assert_eq!(w.sockets(), ["agent-0123456789abcdef"]);
    assert!(directory.join("notes").exists());
}

#[test]
fn without_a_place_for_its_socket_the_agent_works_all_the_same() {
    let w = World::new("src: big=3M a=5");
    // Others may enter it: it is not used, and neither is what it contains.
    w.tree("remote-run/haul-0/:0777");
    w.haul("cp src/ testhost:~/there").ends(0).says("by haul on the remote host");
    assert_eq!(w.sockets(), Vec::<String>::new());
}
