//! By which route a host is reached, and what is printed about it.

use haul_test::compare::What;
use haul_test::program::Ended;

use crate::agent::support::{HAUL, World, without_a_place_for_sockets};

#[test]
fn the_first_line_names_the_route() {
    let w = World::new("src: a=5");
    let first = |ended: Ended| ended.code(0).out.lines().next().map(str::to_string).expect("a line");
    let line = first(w.haul("cp src/ testhost:~/one").run());
    let (before, after) = line.split_once("by haul on the remote host, direct TCP to testhost:").expect(&line);
    let port =
        after.strip_suffix(" (up to 4 streams, TLS 1.3)").or_else(|| after.split_once(" (up to 4 streams, TLS 1.3)").map(|(port, _)| port));
    assert!(port.is_some_and(|port| port.parse::<u16>().is_ok()) && !before.contains("SFTP"), "{line}");
    let line = first(w.haul("cp --no-direct src/ testhost:~/one").run());
    assert!(line.contains("by haul on the remote host (up to 8 ssh sessions)"), "{line}");
    for words in ["cp --no-agent src/ testhost:~/two", "cp src/ sftp://testhost~/three"] {
        let line = first(w.plain(words).run());
        assert!(line.contains("over plain SFTP") && !line.contains("by haul"), "{line}");
    }
    for copy in ["one", "two", "three"] {
        assert_eq!(w.read(format!("{copy}/a")), w.read("src/a"));
    }
}

#[test]
fn the_agent_may_be_a_command() {
    let w = World::new("src: a=5");
    w.plain("cp src/ testhost:~/there").arg("--agent").arg(format!("env XYZ=1 {HAUL}")).ends(0).says("by haul on the remote host");
    assert_eq!(w.read("there/a"), w.read("src/a"));
}

#[test]
fn one_session_is_announced_where_more_would_be_logins() {
    let w = World::new("src: a=5 big=9M");
    let single = "one ssh session: no private directory";
    for (flags, words) in [("", "(up to 4 streams or one ssh"), ("--no-direct", "(one ssh")] {
        let ended = without_a_place_for_sockets(w.haul(&format!("cp {flags} src/ testhost:~/there{flags}"))).ends(0);
        ended.says(single).says(words);
        w.assert_same("src", format!("there{flags}"), What::USUAL);
    }
    without_a_place_for_sockets(w.plain("cp --no-agent src/ testhost:~/plain")).ends(0).says(single);
    w.haul("cp src/ testhost:~/usual").ends(0).never_says(single);
    assert_eq!(w.server.logins(), 4);
}

#[test]
fn a_named_haul_must_exist() {
    let mut w = World::new("src: a=5");
    w.agent = w.path("no/such/haul");
    w.haul("cp src/ testhost:~/there").ends(1).says("no haul found on").says("--agent");
    assert!(!w.path("there").exists());
}

/// Puts a script where haul is looked for without being named.
fn found(w: &World, script: &str) {
    w.script("remote-home/bin/haul", &format!("#!/bin/sh\n{script}\n"));
}

const USAGE: &str = "echo 'error: unrecognized subcommand agent' >&2; echo 'Usage: haul COMMAND' >&2; exit 2";

#[test]
fn a_haul_without_the_agent_is_no_haul() {
    let mut w = World::new("src: a=5");
    found(&w, USAGE);
    w.plain("cp src/ testhost:~/one").ends(0).says("over plain SFTP");
    w.assert_same("src", "one", What { mtime: Some(1_000_000_000), ..What::USUAL });
    w.agent = w.path("remote-home/bin/haul");
    w.haul("cp src/ testhost:~/two").run().code_of(&[1, 10]).says("--agent");
    assert!(!w.path("two").exists());
}

#[test]
fn a_connection_that_is_cut_before_the_greeting_is_made_again() {
    let w = World::new("src: a=5");
    let marker = w.path("was-cut");
    found(&w, &format!("[ -e {0} ] && exec {HAUL} \"$@\"; touch {0}; kill -9 $PPID; sleep 60", marker.display()));
    w.plain("cp src/ testhost:~/there").ends(0).says("by haul on the remote host");
    assert!(marker.exists());
    assert_eq!(w.server.logins(), 2);
    assert_eq!(w.read("there/a"), w.read("src/a"));
}

#[test]
fn what_prints_without_end_is_no_haul() {
    let w = World::new("src: a=5");
    found(&w, "exec yes");
    w.plain("cp src/ testhost:~/one").ends(0).says("over plain SFTP");
    assert_eq!(w.read("one/a"), w.read("src/a"));
}

#[test]
fn noise_of_login_scripts_is_passed_over() {
    let w = World::new("src: a=5 d/b=900K");
    w.write("remote-home/.bashrc", "echo welcome; echo; printf 'haul-agent-speak\\n'; printf '\\0\\377\\n'; seq 2000\n");
    w.haul("cp -a src/ testhost:~/there").ends(0).says("by haul on the remote host").never_says("welcome");
    w.assert_same("src", "there", What { root: false, ..What::ALL });
    let noisy = std::process::Command::new("ssh").arg("-F").arg(w.server.config()).args(["testhost", "true"]).output().expect("ssh runs");
    assert!(noisy.stdout.starts_with(b"welcome"), "the login script does print");
}
