//! `sshftp://`: Globus's GridFTP server, started through a real sshd on loopback.

use haul_test::program::Program;
use haul_test::scratch::Scratch;
use haul_test::sshd::Sshd;
use haul_test::world::Served;

/// `@` is the working directory at the server.
type World = Served<Sshd>;

/// `script` starts the server, in the place that its own tool has for a user's own; none where it is empty.
fn world(lines: &str, script: &str) -> World {
    let (scratch, sshd) = (Scratch::new(), Sshd::start(lines).expect("sshd is installed"));
    if !script.is_empty() {
        scratch.write(sshd.path("home/.globus/sshftp"), format!("#!/bin/sh\n{script}\n"));
        scratch.chmod(sshd.path("home/.globus/sshftp"), 0o755);
    }
    let url = format!("sshftp://testhost{}", scratch.work.display());
    World::new(scratch, sshd, url).filled(20)
}

fn haul(w: &World, words: &str) -> Program {
    w.haul(words).arg("-F").arg(w.server.config())
}

#[track_caller]
fn ends(w: &World, code: i32, words: &str) -> String {
    haul(w, words).ends(code).text()
}

/// As root it lets nobody in without these options; other users need none.
const SERVER: &str = "exec env GLOBUS_HOSTNAME=localhost /usr/sbin/globus-gridftp-server -ssh -allow-root -auth-level 0";

#[test]
fn trees_go_both_ways_in_one_login() {
    let w = world("", SERVER);
    let before = w.server.logins();
    let text = ends(&w, 0, "cp -j 6 src/ @/there");
    assert!(text.contains("WARNING: sshftp:// encrypts the login and the commands, but not the data"), "{text}");
    assert_eq!(w.server.logins(), before + 1);
    w.same("src", "there");
    ends(&w, 0, "cp -j 6 --chunk-size 1M @/there/ back");
    w.same("src", "back");
    let text = ends(&w, 0, "cp src/ @/there");
    assert!(text.contains("nothing to transfer"), "{text}");
    w.write("there/d/n7", "changed");
    ends(&w, 1, "check src/ @/there");
    ends(&w, 0, "sync --delete --verify src/ @/there");
    ends(&w, 0, "check -c src/ @/there");
    assert!(ends(&w, 0, "ls @/there/d/sub/").contains("-deep"));
    ends(&w, 0, "rm -r @/there");
    assert!(!w.has("there"));
}

#[test]
fn names_that_the_server_would_mangle_are_refused() {
    let w = world("", SERVER);
    for name in ["café", "a\tb", "\u{7f}x"] {
        w.write(format!("src/d/{name}"), name);
    }
    let text = ends(&w, 23, "cp src/ @/there");
    assert!(text.contains("café") && text.contains("printable ASCII"), "{text}");
    let names = w.entries("there/d");
    assert!(names.len() == 24 && names.iter().all(|name| w.has(format!("src/d/{name}"))), "{names:?}");
    let text = ends(&w, 23, "cat @/src/d/café");
    assert!(text.contains("printable ASCII"), "{text}");
}

#[test]
fn a_host_without_a_server_says_what_to_install() {
    let w = world("", "");
    // A machine that has the script for all users serves it from there.
    assert!(!w.has("/etc/grid-security/sshftp"), "this machine must have none");
    let text = ends(&w, 1, "cp src/d/a.txt @/there");
    assert!(
        text.contains("testhost")
            && text.contains("no GridFTP server is set up for ssh")
            && text.contains("globus-gridftp-server-enable-sshftp"),
        "{text}"
    );
}

#[test]
fn few_sessions_are_enough() {
    let w = world("MaxSessions 2", SERVER);
    ends(&w, 0, "cp -j 8 src/ @/there");
    w.same("src", "there");
}

#[test]
fn a_server_that_speaks_something_else_is_an_error() {
    for (script, part) in [("echo 'welcome to the machine'", "no FTP reply"), ("exit 3", ""), ("echo 421 closed", "421 closed")] {
        let w = world("", script);
        let ended = haul(&w, "cp --retries 0 src/d/a.txt @/there").run().err_has(part);
        assert!(!ended.status.success() && !ended.err.is_empty(), "{script}\n{ended}");
    }
}

#[test]
fn logins_that_ssh_refuses_are_its_own_words() {
    let w = world("", SERVER);
    w.server.write("authorized_keys", "");
    let text = ends(&w, 10, "cp src/d/a.txt @/there");
    assert!(text.contains("Permission denied"), "{text}");
}
