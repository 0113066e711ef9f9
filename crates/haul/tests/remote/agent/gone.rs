//! A client that is gone without a word: the agent leaves by itself, its port closes, and the system's log has it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use haul_test::compare::What;
use haul_test::link::Options;
use haul_test::program::until;
use rustix::process::Signal;

use crate::agent::network::{drop_incoming, over_a_link, tcp_of};
use crate::agent::proxy::{DONE, Frame, HELLO, MAGIC, TLS_LISTEN, port_of};
use crate::agent::support::{HAUL, World};

/// What the agents of this world write to the system's log, which is a socket of the test.
struct SystemLog(UnixDatagram);

impl SystemLog {
    /// From now on agents run with this log, and with these variables.
    fn of(w: &mut World, variables: &str) -> SystemLog {
        w.tree("dev/");
        let socket = UnixDatagram::bind(w.path("dev/log")).expect("bound");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        let dev = w.path("dev").display().to_string();
        // Devices of its own around the socket.
        let mounts = format!(
            "for name in null zero urandom random tty; do : >>{dev}/$name && mount --bind /dev/$name {dev}/$name; done && \
             ln -sfn /proc/self/fd {dev}/fd && mount --rbind {dev} /dev"
        );
        w.agent = w.script(
            "logged",
            &format!("#!/bin/sh\nexport {variables}\nexec unshare -m sh -c '{mounts} && exec \"$0\" \"$@\"' {HAUL} \"$@\"\n"),
        );
        SystemLog(socket)
    }

    /// The next line, behind its head `<38>haul[PID]: `: the facility "auth" and the severity "info".
    #[track_caller]
    fn next(&self) -> String {
        let mut line = [0; 1000];
        let count = self.0.recv(&mut line).expect("a line comes");
        let line = String::from_utf8_lossy(&line[..count]).into_owned();
        let text = line.strip_prefix("<38>haul[").and_then(|rest| rest.split_once("]: "));
        text.filter(|(pid, _)| pid.parse::<u32>().is_ok()).unwrap_or_else(|| panic!("{line:?}")).1.to_string()
    }

    /// The next line; it must have these parts in their order.
    #[track_caller]
    fn has(&self, parts: &[&str]) -> String {
        let line = self.next();
        let mut rest = &line[..];
        for part in parts {
            rest = rest.split_once(part).unwrap_or_else(|| panic!("no {part:?} in {line:?}")).1;
        }
        line
    }
}

const PUT: &str = "cp --bwlimit 2M --chunk-size 1M src/ testhost:~/there";

/// Less than half a minute between the last sign of life and the end of the process.
const SILENCE: &str = "HAUL_TEST_SILENCE=3";

#[test]
fn the_log_says_who_came_where_it_listened_and_that_it_ended() {
    let mut w = World::new("src: big=3M");
    let log = SystemLog::of(&mut w, SILENCE);
    w.haul(PUT).ends(0);
    let version = env!("CARGO_PKG_VERSION");
    let began = log.next();
    assert_eq!(began, format!("agent {version} began: uid 0 from 127.0.0.1"));
    log.has(&["agent listens on 127.0.0.1:", " for ", " connections from 127.0.0.1"]);
    log.has(&["agent ended after ", " s: the client ended"]);
    w.assert_no_agents();
}

#[test]
fn the_agent_of_a_client_behind_a_dead_link_leaves() {
    let (mut w, link) = over_a_link(Options { delay: Duration::from_millis(3), ..Options::default() }, "");
    w.tree("src: big=30M");
    let log = SystemLog::of(&mut w, SILENCE);
    let mut run = w.haul(PUT).start();
    log.has(&["began: uid 0 from 10.99.0.1"]);
    log.has(&["listens on 10.99.0.2:"]);
    run.until("a staging file", || !w.staging("there").is_empty());
    assert!(!w.agents().is_empty());
    for end in [link.near(), link.far()] {
        drop_incoming(end, 1, 65_534);
    }
    // Nobody there learns of its end.
    run.signal(Signal::KILL);
    log.has(&["agent ended after ", " s: the client gives no sign of life"]);
    w.assert_no_agents();
    assert_eq!(w.sockets(), [""; 0]);
}

#[test]
#[ignore = "full"]
fn the_agent_of_a_stopped_client_leaves_and_the_run_goes_on_with_another() {
    let mut w = World::new("src: big=8M");
    let log = SystemLog::of(&mut w, SILENCE);
    let mut run = w.haul(PUT).start();
    log.has(&["began: "]);
    run.until("a staging file", || !w.staging("there").is_empty());
    run.signal(Signal::STOP);
    log.has(&["listens on "]);
    log.has(&["agent ended after ", " s: the client gives no sign of life"]);
    w.assert_no_agents();
    run.signal(Signal::CONT);
    run.wait().code(0);
    w.assert_same("src", "there", What::USUAL);
    w.assert_clean("there");
}

/// The client is the test, over a real login: it asks for a port, says that it lives, and never connects.
#[test]
fn a_port_to_which_nobody_connects_is_closed() {
    let mut w = World::new("");
    let log = SystemLog::of(&mut w, "HAUL_TEST_LISTENING=2");
    let mut ssh = Command::new("ssh");
    ssh.arg("-F").arg(w.server.config()).arg("testhost").arg(&w.agent).arg("agent");
    let mut ssh = ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("ssh runs");
    let (mut to, mut from) = (ssh.stdin.take().expect("piped"), ssh.stdout.take().expect("piped"));
    let mut greeting = [0; MAGIC.len()];
    from.read_exact(&mut greeting).expect("it greets");
    assert_eq!(greeting, MAGIC);
    // Version 7 alone; a fingerprint, any port, one connection.
    let listen = [&[7; 32][..], &[0, 1]].concat();
    for (id, kind, body) in [(0, HELLO, vec![7, 7, 1, b'x', 0]), (1, TLS_LISTEN, listen)] {
        to.write_all(&Frame { kind, id, body }.bytes()).expect("it reads");
    }
    let mut answer = || loop {
        let frame = Frame::read(&mut from).expect("it answers");
        // Heartbeats come in between.
        if frame.kind == DONE {
            return frame;
        }
    };
    let port = match (answer(), answer()) {
        (hello, listen) if hello.id == 0 => port_of(&listen),
        (listen, _) => port_of(&listen),
    };
    log.has(&["began: "]);
    log.has(&[&format!("listens on 127.0.0.1:{port} for 1 connections")]);
    let listens = || w.agents().into_iter().flat_map(tcp_of).any(|one| one.listens && one.local == port);
    assert!(listens(), "it does not listen");
    until("the port is closed", || !listens());
    TcpStream::connect(("127.0.0.1", port)).expect_err("nobody listens");
    // The agent itself is there as before.
    assert_eq!(w.agents().len(), 1);
    drop(to);
    log.has(&["agent ended after ", "the client ended"]);
    ssh.wait().expect("it was started");
    w.assert_no_agents();
}
