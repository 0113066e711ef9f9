//! Hosts that are not there, do not answer, fall silent or are cut off again and again.

use std::net::TcpListener;
use std::time::Duration;

use haul_test::compare::{What, assert_same};

use crate::support::{BOUND, Running, World};

/// ssh's own patience, shorter than haul's defaults: it is the user's to set.
const SHORT: &str = "--ssh-option ServerAliveInterval=1 --ssh-option ServerAliveCountMax=2 --ssh-option ConnectTimeout=3";

const SAME: What = What { mtime: Some(1_000_000_000), ..What::USUAL };

fn plenty(w: &World) {
    w.tree("src: big=20M");
    haul_test::tree::spread(&w.path("src/many"), 5, 80, 4000).expect("made");
}

/// Looks until it is so; a run that never comes that far fails the test.
#[track_caller]
fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !so() {
        assert!(begun.elapsed() < BOUND, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn names(path: &std::path::Path) -> usize {
    let each = |entry: std::fs::DirEntry| 1 + if entry.file_type().is_ok_and(|kind| kind.is_dir()) { names(&entry.path()) } else { 0 };
    std::fs::read_dir(path).into_iter().flatten().flatten().map(each).sum()
}

#[test]
fn a_host_that_has_no_address_is_said() {
    let w = World::new("");
    w.tree("src: a=5");
    // A name that is reserved for not being there; ssh asks nobody for the address of what it reaches by a command.
    for words in ["cp src host.invalid:x", "cp host.invalid:x .", "ls host.invalid:"] {
        w.says(10, words, &["host.invalid", "Could not resolve hostname", "check the host name"]);
    }
}

#[test]
fn a_port_at_which_nobody_listens_is_said() {
    let w = World::new("");
    w.tree("src: a=5");
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its number").port();
    w.says(10, &format!("cp --port {closed} src 127.0.0.1:x"), &["127.0.0.1", "Connection refused", "--port"]);
}

#[test]
fn a_port_that_never_speaks_is_given_up() {
    let w = World::new("");
    w.tree("src: a=5");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("its number").port();
    let words = format!("cp --ssh-option ConnectTimeout=2 src ssh://127.0.0.1:{port}/x");
    w.says(10, &words, &["127.0.0.1", "timed out", "check that the host is up"]);
}

#[test]
fn a_port_that_speaks_something_else_is_said() {
    use std::io::Write;
    let w = World::new("");
    w.tree("src: a=5");
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = other.local_addr().expect("its number").port();
    std::thread::spawn(move || {
        for stream in other.incoming().flatten() {
            let mut stream = stream;
            let _as_it_goes = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    w.says(10, &format!("cp --ssh-option ConnectTimeout=5 src ssh://127.0.0.1:{port}/x"), &["127.0.0.1"]);
}

#[test]
fn a_host_that_hangs_for_a_while_is_reached_anew() {
    for (words, done) in [("src/ testhost:~/there", "there"), ("testhost:~/src/ back", "back")] {
        let w = World::new("");
        plenty(&w);
        let words = format!("cp --bwlimit 6M {SHORT} {words}");
        let running = Running::start(w.command(&words));
        until("it has begun", || names(&w.path(done)) > 3);
        assert!(w.server.freeze() > 0, "there was a connection");
        w.ended(0, &words, running.end(&words));
        assert!(w.server.logins() >= 2, "{}", w.server.log());
        assert_same(&w.path("src"), &w.path(done), SAME);
    }
}

#[test]
fn a_host_that_hangs_for_good_ends_the_run_and_the_next_goes_on() {
    for (words, done) in [("src/ testhost:~/there", "there"), ("testhost:~/src/ back", "back")] {
        let w = World::new("");
        plenty(&w);
        let words = format!("cp --bwlimit 6M --chunk-size 1M {SHORT} {words}");
        let running = Running::start(w.command(&words));
        until("it has begun", || names(&w.path(done)) > 3);
        w.server.freeze_all();
        let (out, err) = w.ended(10, &words, running.end(&words));
        assert!(err.contains("testhost") && out.contains("same command"), "{out}\n{err}");
        w.server.thaw();
        w.ends(0, &words.replace("--bwlimit 6M", ""));
        assert_same(&w.path("src"), &w.path(done), SAME);
    }
}

#[test]
fn nothing_moving_for_as_long_as_the_user_said_ends_the_run() {
    for (words, done) in [("src/ testhost:~/there", "there"), ("testhost:~/src/ back", "back")] {
        let w = World::new("");
        plenty(&w);
        let words = format!("cp --bwlimit 6M --timeout 3s {words}");
        let running = Running::start(w.command(&words));
        until("it has begun", || names(&w.path(done)) > 3);
        w.server.freeze_all();
        let (out, _) = w.ended(30, &words, running.end(&words));
        assert!(out.contains("--timeout") && out.contains("same command"), "{out}");
        w.server.thaw();
        w.ends(0, &words.replace("--bwlimit 6M", ""));
        assert_same(&w.path("src"), &w.path(done), SAME);
    }
}

#[test]
fn a_host_that_hangs_before_the_run_has_begun_is_given_up_too() {
    let w = World::new("");
    w.tree("src: a=5");
    // A subsystem that takes everything and answers nothing.
    let mute = World::new("Subsystem sftp /bin/sleep 1000");
    mute.tree("src: a=5");
    for words in ["cp --timeout 2s src/ testhost:~/there", "cp --timeout 2s testhost:~/src back"] {
        let ran = mute.haul(words);
        let err = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(10), "{words}\n{err}");
        assert!(err.contains("testhost") && err.contains("does not answer"), "{err}");
    }
}

/// Cuts the connection whenever there has been one for a short while, until the run is over; how often.
fn cut_again_and_again(w: &World, running: &mut Running, most: usize) -> usize {
    let mut cuts = 0;
    while !running.is_over() && cuts < most {
        std::thread::sleep(Duration::from_millis(350));
        if w.server.sessions() > cuts && w.server.cut() > 0 {
            cuts += 1;
        }
    }
    cuts
}

#[test]
fn a_connection_that_is_cut_every_moment_loses_nothing() {
    for (words, done) in [("src/ testhost:~/there", "there"), ("testhost:~/src/ back", "back")] {
        let w = World::new("");
        w.tree("src: big=10M");
        haul_test::tree::spread(&w.path("src/many"), 10, 100, 3000).expect("made");
        let words = format!("cp --bwlimit 3M --chunk-size 1M {words}");
        let mut cuts = 0;
        // Each run either comes through or says how to go on; one that is left alone does the rest.
        for run in 0..8 {
            let mut running = Running::start(w.command(&words));
            cuts += cut_again_and_again(&w, &mut running, 12);
            let ended = running.end(&words);
            let said = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
            match ended.status.code() {
                Some(0) => break,
                Some(10) => assert!(said.contains("testhost") && said.contains("same command"), "no way on is said\n{said}"),
                code => panic!("{words}: {code:?} in run {run}\n{said}\n{}", w.server.log()),
            }
        }
        assert!(cuts >= 3, "{cuts} cuts");
        w.ends(0, &words.replace("--bwlimit 3M", ""));
        assert_same(&w.path("src"), &w.path(done), SAME);
        let left: Vec<_> = std::fs::read_dir(w.path(done)).expect("it is there").flatten().map(|entry| entry.file_name()).collect();
        assert!(!left.iter().any(|name| name.as_encoded_bytes().starts_with(b".haul-")), "{left:?}");
    }
}
