//! Hosts that do not exist, do not answer, stop answering or are cut off again and again.

use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

use haul_test::program::Running;

use crate::ssh::support::{DIRECTIONS, SAME, World, plenty};

/// ssh's own patience, shorter than haul's defaults: it is the user's to set.
const SHORT: &str = "--ssh-option ServerAliveInterval=1 --ssh-option ServerAliveCountMax=2 --ssh-option ConnectTimeout=3";

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its number").port();
    (listener, port)
}

#[test]
fn a_host_that_has_no_address_is_named() {
    let w = World::new("src: a=5");
    // A name that is reserved for not existing; ssh asks nobody for the address of what it reaches by a command.
    for words in ["cp src host.invalid:x", "cp host.invalid:x .", "ls host.invalid:"] {
        w.says(10, words, &["host.invalid", "Could not resolve hostname", "check the host name"]);
    }
}

#[test]
#[ignore = "full"]
fn a_port_at_which_nobody_listens_or_speaks_ssh_is_named() {
    let w = World::new("src: a=5");
    let (listening, closed) = listener();
    drop(listening);
    for words in [format!("cp --port {closed} src 127.0.0.1:x"), format!("cp src ssh://127.0.0.1:{closed}/x")] {
        w.says(10, &words, &["127.0.0.1", "Connection refused", "--port"]);
    }
    let (_silent, port) = listener();
    let words = format!("cp --ssh-option ConnectTimeout=2 src ssh://127.0.0.1:{port}/x");
    w.says(10, &words, &["127.0.0.1", "timed out", "check that the host is up"]);
    let (other, port) = listener();
    std::thread::spawn(move || {
        for mut stream in other.incoming().flatten() {
            // The client may be gone.
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    w.says(10, &format!("cp --ssh-option ConnectTimeout=5 src ssh://127.0.0.1:{port}/x"), &["127.0.0.1"]);
}

/// Starts a run with the flags in either direction, and has it `harmed` when some files have arrived; after that another run finishes.
fn when_it_has_begun(flags: &str, harmed: impl Fn(&World, Running, &str)) {
    for (ends, copy) in DIRECTIONS {
        let w = plenty("");
        let mut run = w.haul(&format!("cp --bwlimit 6M {flags} {ends}")).start();
        run.until("it has begun", || w.has(copy) && w.list(copy).len() > 3);
        harmed(&w, run, copy);
        w.server.thaw();
        w.haul(&format!("cp {flags} {ends}")).ends(0);
        w.assert_same("src", copy, SAME);
    }
}

#[test]
#[ignore = "full"]
fn a_host_that_hangs_for_a_while_is_reached_anew() {
    when_it_has_begun(SHORT, |w, run, copy| {
        assert!(w.server.freeze() > 0, "there was a connection");
        run.wait().code(0);
        assert!(w.server.logins() >= 2);
        w.assert_same("src", copy, SAME);
    });
}

#[test]
#[ignore = "full"]
fn a_host_that_hangs_for_good_ends_the_run_and_the_next_goes_on() {
    when_it_has_begun(&format!("--chunk-size 1M {SHORT}"), |w, run, _| {
        w.server.freeze_all();
        run.wait().code(10).err_has("testhost").out_has("same command");
    });
}

#[test]
#[ignore = "full"]
fn what_a_lost_connection_has_left_is_removed_by_the_next_run() {
    let w = World::new("");
    // New files would have their own names from the beginning.
    for (tree, size) in [("src", 3000), ("there", 2000)] {
        haul_test::tree::spread(&w.path(tree), 10, 400, size).expect("made");
    }
    let mut run = w.haul(&format!("cp --bwlimit 4M {SHORT} src/ testhost:~/there")).start();
    run.until("a staging file", || !w.staging("there").is_empty());
    run.until("files under their staging names, and nobody to go on with them", || {
        w.server.freeze_all();
        let is_so = !w.staging("there").is_empty();
        if !is_so {
            w.server.thaw();
        }
        is_so
    });
    run.wait().code(10);
    w.server.thaw();
    w.haul("cp src/ testhost:~/there").ends(0);
    w.assert_same("src", "there", SAME);
    w.assert_clean("there");
}

#[test]
#[ignore = "full"]
fn nothing_moving_for_as_long_as_the_user_said_ends_the_run() {
    when_it_has_begun("--timeout 3s", |w, run, _| {
        w.server.freeze_all();
        run.wait().code(30).out_has("--timeout").out_has("same command");
    });
}

#[test]
#[ignore = "full"]
fn a_host_that_hangs_before_the_run_has_begun_is_given_up_too() {
    // A subsystem that takes everything and answers nothing.
    let w = World::served("src: a=5", "Subsystem sftp /bin/sleep 1000");
    for words in ["cp --timeout 2s src/ testhost:~/there", "cp --timeout 2s testhost:~/src back"] {
        w.says(10, words, &["testhost", "does not answer"]);
    }
}

/// Cuts the connection whenever there has been one for a short while, until the run is over; how often.
fn cut_again_and_again(w: &World, run: &mut Running, most: usize) -> usize {
    let mut cuts = 0;
    while run.is_running() && cuts < most {
        std::thread::sleep(Duration::from_millis(350));
        if w.server.sessions() > cuts && w.server.cut() > 0 {
            cuts += 1;
        }
    }
    cuts
}

#[test]
fn a_connection_that_is_cut_every_moment_loses_nothing() {
    for (ends, copy) in DIRECTIONS {
        let w = World::new("src: big=10M");
        haul_test::tree::spread(&w.path("src/many"), 10, 100, 3000).expect("made");
        let mut cuts = 0;
        // Each run either comes through or says how to go on; one that is left alone does the rest.
        for _ in 0..8 {
            let mut run = w.haul(&format!("cp --bwlimit 3M --chunk-size 1M {ends}")).start();
            cuts += cut_again_and_again(&w, &mut run, 12);
            let ended = run.wait().code_of(&[0, 10]);
            if ended.status.success() {
                break;
            }
            ended.says("testhost").says("same command");
        }
        assert!(cuts >= 3, "{cuts} cuts");
        w.haul(&format!("cp --chunk-size 1M {ends}")).ends(0);
        w.assert_same("src", copy, SAME);
        w.assert_clean(copy);
    }
}
