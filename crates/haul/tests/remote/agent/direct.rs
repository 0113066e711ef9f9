//! Data connections beside ssh: made where they can be, in either direction, and nowhere else.

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use haul_test::compare::What;
use haul_test::link::{End, Options};
use haul_test::program::{Ended, Program, until};

use crate::agent::network::{Tcp, drop_incoming, over_a_link, tcp_of};
use crate::agent::proxy::{DONE, Harm, TLS_LISTEN, harming, port_of, tampering};
use crate::agent::support::{HAUL, World};

/// Runs to a good end; which TCP sockets the program had in the meantime. ssh's are not among them: it connects.
#[track_caller]
pub fn watched(haul: Program) -> (Ended, HashSet<Tcp>) {
    let mut run = haul.start();
    let mut seen = HashSet::new();
    while run.is_running() {
        seen.extend(tcp_of(run.pid()));
        std::thread::sleep(Duration::from_millis(5));
    }
    (run.wait().code(0), seen)
}

pub fn established(seen: &HashSet<Tcp>) -> Vec<Tcp> {
    seen.iter().copied().filter(|one| one.established).collect()
}

/// So many ports in a row that nobody uses, here at least.
pub fn free_ports(count: u16) -> (u16, u16) {
    use std::hash::BuildHasher;
    let random = std::collections::hash_map::RandomState::new().hash_one(std::process::id());
    let first = 20_000 + (random % 10_000) as u16;
    let is_free = |low: &u16| (*low..*low + count).all(|port| TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).is_ok());
    let low = (first..first + 2_000).step_by(usize::from(count)).find(is_free).expect("ports that are free");
    (low, low + count - 1)
}

/// A run of a second or so, in which the connections can be seen.
pub const PUT: &str = "cp --bwlimit 8M --chunk-size 1M src/ testhost:~/there";
pub const GET: &str = "cp --bwlimit 8M --chunk-size 1M testhost:~/src/ here";

pub fn world() -> World {
    World::new("src: big=8M a=5 d/b=300K")
}

/// What earlier runs have stored about the host.
pub fn cached(w: &World) -> std::path::PathBuf {
    w.state.join("hosts/testhost")
}

#[test]
fn they_are_used_where_they_can_be_made() {
    let w = world();
    for (words, copy) in [(PUT, "there"), (GET, "here")] {
        let (_, seen) = watched(w.haul(words));
        assert!(!established(&seen).is_empty(), "{words}: {seen:?}");
        w.assert_same("src", copy, What::USUAL);
    }
    assert!(!cached(&w).exists());
    assert_eq!(w.server.logins(), 2);
}

/// All of 127.0.0.0/8 is this machine, so that both addresses would do. haul there listens where it believes that ssh arrived.
#[test]
fn a_host_that_says_it_is_elsewhere_is_tried_where_ssh_reached_it() {
    let mut w = world();
    w.agent = w.script("elsewhere", &format!("#!/bin/sh\nSSH_CONNECTION='127.0.0.1 1 127.7.7.7 22' exec {HAUL} \"$@\"\n"));
    let (_, seen) = watched(w.haul(PUT));
    let [here, elsewhere] = [[1, 0, 0, 127], [7, 7, 7, 127]].map(|address| u128::from(u32::from_be_bytes(address)));
    assert!(seen.iter().all(|one| one.address == here && one.address != elsewhere), "{seen:?}");
    w.assert_same("src", "there", What::USUAL);
    w.haul("doctor --json testhost").ends(0).out_has("127.0.0.1").never_says("\"address\":\"127.7.7.7");
}

/// Looks where the port is open while it is: before the program here learns of it.
#[test]
fn the_port_is_open_at_one_address_for_one_peer_and_no_longer_than_needed() {
    let mut w = world();
    let opened: Arc<Mutex<Vec<(u16, String)>>> = Arc::default();
    let found = opened.clone();
    (w.agent, _) = tampering(&w, move |request, frame| {
        if request == TLS_LISTEN && frame.kind == DONE && !frame.body.is_empty() {
            let port = port_of(&frame);
            let table = fs::read_to_string("/proc/net/tcp").expect("procfs");
            let end = format!(":{port:04X} 00000000:0000 0A");
            let listens = table.lines().filter(|line| line.contains(&end)).map(|line| line.trim().to_string()).collect::<String>();
            // Another machine, as far as the agent can see, is turned away without a word.
            let stranger = connect_from(Ipv4Addr::new(127, 0, 0, 2), port);
            found.lock().expect("held").push((port, listens));
            assert_eq!(answer(stranger), b"");
        }
        frame.bytes()
    });
    let mut run = w.haul(PUT).start();
    until("data connections", || {
        assert!(run.is_running(), "it went by too fast");
        tcp_of(run.pid()).iter().any(|one| one.established)
    });
    let (port, listens) = opened.lock().expect("held").first().cloned().expect("a port was opened");
    assert!(listens.contains(&format!(" 0100007F:{port:04X} ")), "{listens}");
    let mut still = false;
    until("the port is closed", || {
        still = run.is_running();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err()
    });
    assert!(still, "it went by too fast");
    run.wait().code(0);
    w.assert_same("src", "there", What::USUAL);
}

/// A connection from one of this machine's addresses.
fn connect_from(from: Ipv4Addr, port: u16) -> TcpStream {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
    // The programs of other tests must not inherit it.
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a socket");
    bind(&socket, &SocketAddrV4::new(from, 0)).expect("bound");
    connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).expect("connected");
    TcpStream::from(socket)
}

#[test]
fn a_site_may_switch_them_off_and_bound_them() {
    let mut w = world();
    let set = |w: &World, variables: &str| w.script("site", &format!("#!/bin/sh\n{variables} exec {HAUL} \"$@\"\n"));
    w.agent = set(&w, "HAUL_DATA_CONNECTIONS=off");
    let (ended, seen) = watched(w.haul(PUT));
    ended.says("ssh sessions");
    assert!(established(&seen).is_empty() && !cached(&w).exists(), "{seen:?}");
    w.haul("doctor testhost").ends(0).says("no data connections: they are switched off").never_says("--data-ports");
    let (port, _) = free_ports(1);
    w.agent = set(&w, &format!("HAUL_DATA_STREAMS=1 HAUL_DATA_PORTS={port}:{port} HAUL_DATA_CIPHERS=TLS_CHACHA20_POLY1305_SHA256"));
    let (_, seen) = watched(w.haul(&format!("{GET} --streams 3")));
    let used = established(&seen);
    assert!(used.len() == 1 && used[0].remote == port, "{seen:?}");
    w.assert_same("src", "here", What::USUAL);
    // What holds for the other end holds for this one, too.
    w.agent = HAUL.into();
    let (ended, seen) = watched(w.haul(&format!("{GET} -I")).env("HAUL_DATA_CONNECTIONS", "off"));
    ended.says("ssh sessions");
    assert!(established(&seen).is_empty(), "{seen:?}");
}

/// What a stranger is answered until it is cut off.
fn answer(mut stranger: TcpStream) -> Vec<u8> {
    stranger.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    let mut received = Vec::new();
    // It is reset or closed.
    let ended = stranger.read_to_end(&mut received);
    assert!(ended.is_ok_and(|count| count == 0) || received.is_empty(), "{received:?}");
    received
}

#[test]
fn no_direct_makes_none() {
    let w = world();
    for (words, copy) in [(PUT, "there"), (GET, "here")] {
        let (_, seen) = watched(w.haul(&format!("{words} --no-direct")));
        assert_eq!(seen, HashSet::new(), "{words}");
        w.assert_same("src", copy, What::USUAL);
    }
    let (_, seen) = watched(w.haul("check -c --no-direct src/ testhost:~/there"));
    assert_eq!(seen, HashSet::new());
}

#[test]
fn only_the_named_ports_are_used() {
    let w = world();
    let (low, high) = free_ports(2);
    for (words, copy) in [(PUT, "there"), (GET, "here")] {
        let mut run = w.haul(&format!("{words} --data-ports {low}:{high}")).start();
        let (mut seen, mut remote) = (HashSet::new(), HashSet::new());
        while run.is_running() {
            seen.extend(tcp_of(run.pid()));
            remote.extend(w.agents().into_iter().flat_map(tcp_of));
        }
        run.wait().code(0);
        let used = established(&seen);
        assert!(!used.is_empty(), "{words}: {seen:?}");
        assert!(used.iter().all(|one| (low..=high).contains(&one.remote)), "{words}: {used:?}");
        let listened: Vec<Tcp> = remote.iter().copied().filter(|one| one.listens).collect();
        assert!(listened.iter().all(|one| (low..=high).contains(&one.local)), "{words}: {listened:?}");
        assert!(seen.iter().all(|one| !one.listens), "{words}: this machine listens: {seen:?}");
        w.assert_same("src", copy, What::USUAL);
    }
}

/// Takes ports and stays silent on them.
fn occupied(low: u16, high: u16) -> Vec<TcpListener> {
    (low..=high).map(|port| TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).expect("it was free")).collect()
}

#[test]
fn ports_that_are_all_taken_leave_ssh_and_are_not_remembered() {
    let w = world();
    let (low, high) = free_ports(3);
    let taken = occupied(low, high);
    let (_, seen) = watched(w.haul(&format!("{PUT} --data-ports {low}:{high}")));
    assert_eq!(established(&seen), [], "all ports are taken");
    w.assert_same("src", "there", What::USUAL);
    assert!(!cached(&w).exists(), "nothing was stored about the network");
    drop(taken);
    let (_, seen) = watched(w.haul(GET));
    assert!(!established(&seen).is_empty(), "{seen:?}");
}

#[test]
fn what_was_remembered_holds_for_a_day_and_not_for_ports_that_are_named() {
    let w = world();
    let (low, high) = free_ports(3);
    w.write(cached(&w), "");
    let (_, seen) = watched(w.haul(GET));
    assert_eq!(established(&seen), [], "it was remembered");
    assert!(cached(&w).exists());
    // Ports that are named are tried all the same; once it works it is forgotten.
    w.remove("here");
    let (_, seen) = watched(w.haul(&format!("{GET} --data-ports {low}:{high}")));
    assert!(!established(&seen).is_empty() && !cached(&w).exists(), "{seen:?}");
    // And after a day everything is tried again.
    w.write(cached(&w), "");
    w.set_time(cached(&w), SystemTime::now() - Duration::from_secs(25 * 3600));
    w.remove("here");
    let (_, seen) = watched(w.haul(GET));
    assert!(!established(&seen).is_empty(), "{seen:?}");
}

#[test]
#[ignore = "full"]
fn strangers_on_the_port_disturb_nothing() {
    let mut w = world();
    let strangers: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
    let came = strangers.clone();
    // They are there first.
    (w.agent, _) = tampering(&w, move |request, frame| {
        if request == TLS_LISTEN && frame.kind == DONE && !frame.body.is_empty() {
            for words in [&b""[..], b"GET / HTTP/1.0\r\n\r\n", &[0; 100_000], &[0xff; 37], b"x"] {
                let mut stranger = connect_from(Ipv4Addr::LOCALHOST, port_of(&frame));
                // It may be closed under our hands.
                let _ = stranger.write_all(words);
                came.lock().expect("held").push(stranger);
            }
        }
        frame.bytes()
    });
    for (words, copy) in [(PUT, "there"), (GET, "here")] {
        let (_, seen) = watched(w.haul(words));
        assert!(!established(&seen).is_empty(), "{seen:?}");
        w.assert_same("src", copy, What::USUAL);
        let strangers = std::mem::take(&mut *strangers.lock().expect("held"));
        assert_eq!(strangers.len(), 5);
        for stranger in strangers {
            assert_eq!(answer(stranger), b"");
        }
    }
}

/// Ports that the firewalls of the two ends know; the system gives none of them to who connects.
const LOW: u16 = 21_000;
const HIGH: u16 = 21_010;

/// Puts and gets over a link whose ends drop what comes to the ports from outside.
fn behind_firewalls(local: bool, remote: bool, flags: &str, check: impl Fn(&World, &[Tcp], &str)) {
    let (w, link) = over_a_link(Options { delay: Duration::from_millis(3), ..Options::default() }, "");
    w.tree("src: big=8M a=5 d/b=300K");
    let close = |end: &End| drop_incoming(end, LOW, HIGH);
    if local {
        close(link.near());
    }
    if remote {
        close(link.far());
    }
    for (words, copy) in [(PUT, "there"), (GET, "here")] {
        // Long enough that attempts which come to nothing are over before the end.
        let words = words.replace("8M", "2M");
        let (ended, seen) = watched(w.haul(&format!("{words} --data-ports {LOW}:{HIGH} {flags}")));
        let ended = ended.code(0).says("by haul on the remote host");
        w.assert_same("src", copy, What::USUAL);
        check(&w, &established(&seen), &format!("{words}: {seen:?}\n{ended}"));
    }
    assert_eq!(w.server.logins(), 2);
}

#[test]
#[ignore = "full"]
fn this_end_connects_where_the_remote_one_lets_it() {
    behind_firewalls(true, false, "--accept", |w, used, what| {
        assert!(!used.is_empty() && used.iter().all(|one| (LOW..=HIGH).contains(&one.remote)), "{what}");
        assert!(!cached(w).exists());
    });
}

#[test]
#[ignore = "full"]
fn the_remote_end_connects_back_where_only_that_is_let_through() {
    behind_firewalls(false, true, "--accept", |w, used, what| {
        assert!(!used.is_empty() && used.iter().all(|one| (LOW..=HIGH).contains(&one.local)), "{what}");
        assert!(!cached(w).exists());
    });
}

#[test]
#[ignore = "full"]
fn ssh_does_behind_two_firewalls_and_the_next_run_knows() {
    behind_firewalls(true, true, "--accept", |w, used, what| {
        assert_eq!(used, [], "{what}");
        assert!(cached(w).exists(), "{what}");
    });
}

#[test]
#[ignore = "full"]
fn without_accept_this_machine_does_not_listen() {
    behind_firewalls(false, true, "", |w, used, what| {
        assert!(used.is_empty() && !what.contains("listens: true"), "{what}");
        assert!(cached(w).exists(), "{what}");
    });
}

#[test]
#[ignore = "full"]
fn connections_that_are_cut_or_damaged_later_leave_the_data_to_ssh() {
    // Limited, so that there is something left to move when connections are made for the second time.
    for (harm, words, copy) in [
        (Harm::Cut, "cp --chunk-size 4M --bwlimit 30M src/ testhost:~/there", "there"),
        (Harm::Cut, "cp --chunk-size 4M --bwlimit 30M testhost:~/src/ here", "here"),
        (Harm::Flip, "cp --chunk-size 4M --bwlimit 30M src/ testhost:~/there", "there"),
        (Harm::Flip, "cp --chunk-size 4M --bwlimit 30M testhost:~/src/ here", "here"),
    ] {
        let mut w = World::new("src: big=40M other=30M a=5 d/b=300K d/c=200K");
        let connections;
        (w.agent, connections) = harming(&w, harm, 2 << 20);
        w.haul(words).ends(0).says("testhost: data connections failed twice").says("--no-direct");
        w.assert_same("src", copy, What::USUAL);
        w.assert_clean(copy);
        assert!(cached(&w).exists());
        // The next run makes none and says nothing.
        let made = connections.load(Ordering::Relaxed);
        w.remove(copy);
        w.haul(words).ends(0).says("ssh sessions").never_says("data connections");
        w.assert_same("src", copy, What::USUAL);
        assert_eq!(connections.load(Ordering::Relaxed), made, "{harm:?} {words}");
    }
}

#[test]
fn doctor_finds_out_that_connections_are_cut_after_they_opened() {
    let mut w = World::new("");
    (w.agent, _) = harming(&w, Harm::Cut, 2 << 20);
    w.haul("doctor testhost").ends(0).says("which fails after").says("open and then fail");
    assert!(cached(&w).exists());
    w.agent = HAUL.into();
    w.haul("doctor testhost").ends(0).says("16.0 MiB transferred").never_says("open and then fail");
    assert!(!cached(&w).exists());
}

#[test]
fn the_number_of_streams_can_be_fixed() {
    let w = world();
    // All connections are made while the first data move; bits of them can be seen for a second.
    for (words, copy) in [(PUT, "there"), (GET, "here")] {
        let (ended, seen) = watched(w.haul(&format!("{words} --streams 7")));
        ended.code(0).says("(7 streams, TLS 1.3)");
        assert_eq!(established(&seen).len(), 7, "{words}: {seen:?}");
        w.assert_same("src", copy, What::USUAL);
    }
    let (ended, seen) = watched(w.haul(&format!("{PUT} -I --streams 1")));
    ended.code(0).says("(1 stream, TLS 1.3)");
    assert_eq!(established(&seen).len(), 1, "{seen:?}");
    w.haul(&format!("{PUT} -I --streams 3 --no-direct")).ends(0).says("(up to 3 ssh sessions)");
    w.haul("cp --streams 0 src/ testhost:~/there").ends(1);
}
