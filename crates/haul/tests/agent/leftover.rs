//! What an agent leaves behind on the remote host: nothing.

use std::fs;
use std::os::unix::net::UnixListener;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use rustix::process::{Signal, kill_process};

use crate::support::{BOUND, World, staging, until};

const SLOW: &str = "cp --chunk-size 1M --bwlimit 2M src/ testhost:~/there";

fn world() -> World {
    let w = World::new("");
    w.tree("src: big=20M a=5");
    w
}

/// A run in the middle of its file.
fn slow(w: &World) -> crate::support::Running {
    let run = w.haul(SLOW).start();
    until("it has begun", || !staging(&w.join("there")).is_empty());
    assert!(!w.agents().is_empty() && !w.sockets().is_empty(), "an agent is at work");
    run
}

#[track_caller]
fn assert_nothing_left(w: &World) {
    w.assert_no_agents();
    assert_eq!(w.sockets(), Vec::<String>::new());
    until("ssh has taken its control socket away", || crate::support::names(&w.join("near-run/haul-0")).is_empty());
}

#[test]
fn a_normal_end_leaves_nothing() {
    let w = World::new("");
    w.tree("src: big=3M a=5");
    for words in ["cp src/ testhost:~/there", "cp --no-direct testhost:~/there/ back", "ls testhost:~/there", "cp testhost:~/absent x"] {
        w.haul(words).run();
        assert_nothing_left(&w);
    }
}

#[test]
fn a_killed_program_leaves_nothing() {
    let w = world();
    let run = slow(&w);
    run.signal(Signal::KILL);
    assert!(run.wait(BOUND).was_killed());
    assert_nothing_left(&w);
}

#[test]
fn an_interrupted_program_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let w = world();
        let run = slow(&w);
        run.signal(signal);
        run.wait(BOUND).code(20);
        assert_nothing_left(&w);
    }
}

#[test]
fn a_cut_leaves_nothing() {
    let w = world();
    let run = slow(&w);
    fs::write(w.server.path("authorized_keys"), "").expect("written");
    assert!(w.server.cut() > 0);
    run.wait(BOUND).code(10);
    assert_nothing_left(&w);
}

/// The time of a socket, an hour ago.
fn make_old(path: &std::path::Path) {
    let then = SystemTime::now() - Duration::from_secs(3600);
    let secs = then.duration_since(SystemTime::UNIX_EPOCH).expect("later").as_secs() as i64;
    let time = Timespec { tv_sec: secs, tv_nsec: 0 };
    utimensat(CWD, path, &Timestamps { last_access: time, last_modification: time }, AtFlags::SYMLINK_NOFOLLOW).expect("set");
}

#[test]
fn sockets_of_killed_agents_go_with_the_next_one() {
    let w = world();
    let run = slow(&w);
    for agent in w.agents() {
        kill_process(agent, Signal::STOP).expect("it runs");
    }
    run.signal(Signal::KILL);
    assert!(run.wait(BOUND).was_killed());
    for agent in w.agents() {
        kill_process(agent, Signal::KILL).expect("it is there");
    }
    w.assert_no_agents();
    let left = w.sockets();
    assert_eq!(left.len(), 1, "a killed agent cannot clean up");
    let directory = w.join("far-run/haul-0");
    make_old(&directory.join(&left[0]));
    // Those that somebody listens on stay, however old, and so does what is no agent's.
    let _living = UnixListener::bind(directory.join("agent-0123456789abcdef")).expect("bound");
    make_old(&directory.join("agent-0123456789abcdef"));
    fs::write(directory.join("notes"), "mine").expect("written");
    make_old(&directory.join("notes"));
    w.haul("ls testhost:~/src").run().code(0);
    w.assert_no_agents();
    assert_eq!(w.sockets(), ["agent-0123456789abcdef"]);
    assert!(directory.join("notes").exists());
}

#[test]
fn without_a_place_for_its_socket_the_agent_works_all_the_same() {
    let w = World::new("");
    w.tree("src: big=3M a=5");
    // Others may enter it: it is not used, and neither is what stands in it.
    fs::create_dir(w.join("far-run/haul-0")).expect("made");
    w.tool("chmod", &["777", "far-run/haul-0"]);
    w.haul("cp src/ testhost:~/there").run().code(0).says("by haul on the remote host");
    assert_eq!(w.sockets(), Vec::<String>::new());
}
