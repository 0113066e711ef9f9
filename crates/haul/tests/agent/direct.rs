//! Data connections beside ssh: made where they can be, in either direction, and nowhere else.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use haul_test::compare::What;
use haul_test::link::{End, Options};
use haul_test::program::{Ended, Program, until};

use crate::network::{Tcp, drop_incoming, over_a_link, tcp_of};
use crate::proxy::{Harm, harming};
use crate::support::{HAUL, World};

/// Runs to a good end; which TCP sockets the program had in the meantime. ssh's are not among them: it connects.
#[track_caller]
fn watched(haul: Program) -> (Ended, HashSet<Tcp>) {
    let mut run = haul.start();
    let mut seen = HashSet::new();
    while run.is_running() {
        seen.extend(tcp_of(run.pid()));
        std::thread::sleep(Duration::from_millis(5));
    }
    (run.wait().code(0), seen)
}

fn established(seen: &HashSet<Tcp>) -> Vec<Tcp> {
    seen.iter().copied().filter(|one| one.established).collect()
}

/// So many ports in a row that nobody uses, here at least.
fn free_ports(count: u16) -> (u16, u16) {
    use std::hash::BuildHasher;
    let random = std::collections::hash_map::RandomState::new().hash_one(std::process::id());
    let first = 20_000 + (random % 10_000) as u16;
    let is_free = |low: &u16| (*low..*low + count).all(|port| TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).is_ok());
    let low = (first..first + 2_000).step_by(usize::from(count)).find(is_free).expect("ports that are free");
    (low, low + count - 1)
}

/// A run of a second or so, in which the connections can be seen.
const PUT: &str = "cp --bwlimit 8M --chunk-size 1M src/ testhost:~/there";
const GET: &str = "cp --bwlimit 8M --chunk-size 1M testhost:~/src/ here";

fn world() -> World {
    World::new("src: big=8M a=5 d/b=300K")
}

/// What earlier runs have stored about the host.
fn cached(w: &World) -> std::path::PathBuf {
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

/// All of 127.0.0.0/8 is this machine, so that both addresses would do.
#[test]
fn a_host_that_says_it_is_elsewhere_is_tried_where_ssh_reached_it() {
    let mut w = world();
    w.agent = w.script("elsewhere", &format!("#!/bin/sh\nSSH_CONNECTION='127.0.0.1 1 127.7.7.7 22' exec {HAUL} \"$@\"\n"));
    let (_, seen) = watched(w.haul(PUT));
    let places: HashSet<u128> = established(&seen).iter().map(|one| one.address).collect();
    assert_eq!(places, HashSet::from([u128::from(u32::from_be_bytes([1, 0, 0, 127]))]), "{seen:?}");
    w.assert_same("src", "there", What::USUAL);
    w.haul("doctor --json testhost").ends(0).out_has("127.0.0.1").never_says("\"address\":\"127.7.7.7");
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
        let listened: Vec<Tcp> = remote.union(&seen).copied().filter(|one| one.listens).collect();
        assert!(!listened.is_empty() && listened.iter().all(|one| (low..=high).contains(&one.local)), "{words}: {listened:?}");
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
fn strangers_on_the_port_disturb_nothing() {
    let w = world();
    let (port, _) = free_ports(1);
    for (words, copy) in [(PUT, "there"), (GET, "here")] {
        let mut run = w.haul(&format!("{words} --data-ports {port}:{port}")).start();
        let mut strangers = Vec::new();
        until("the port is open", || {
            assert!(run.is_running(), "it went by too fast");
            strangers.extend(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok());
            !strangers.is_empty()
        });
        for (i, words) in [&b""[..], b"GET / HTTP/1.0\r\n\r\n", &[0; 100_000], &[0xff; 37], b"x"].into_iter().enumerate() {
            let mut stranger = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap_or_else(|e| panic!("stranger {i}: {e}"));
            // It may be closed under our hands.
            let _ = stranger.write_all(words);
            strangers.push(stranger);
        }
        let mut seen = HashSet::new();
        while run.is_running() {
            seen.extend(tcp_of(run.pid()));
        }
        run.wait().code(0);
        assert!(seen.iter().any(|one| one.established && one.remote == port), "{seen:?}");
        w.assert_same("src", copy, What::USUAL);
        for mut stranger in strangers {
            stranger.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
            let mut received = Vec::new();
            // It is reset or closed.
            let _ = stranger.read_to_end(&mut received);
            assert_eq!(received, b"");
        }
    }
}

/// Ports that the firewalls of the two ends know; the system gives none of them to who connects.
const LOW: u16 = 21_000;
const HIGH: u16 = 21_010;

/// Puts and gets over a link whose ends drop what comes to the ports from outside.
fn behind_firewalls(local: bool, remote: bool, check: impl Fn(&World, &[Tcp], &str)) {
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
        let (ended, seen) = watched(w.haul(&format!("{words} --data-ports {LOW}:{HIGH}")));
        let ended = ended.code(0).says("by haul on the remote host");
        w.assert_same("src", copy, What::USUAL);
        check(&w, &established(&seen), &format!("{words}: {seen:?}\n{ended}"));
    }
    assert_eq!(w.server.logins(), 2);
}

#[test]
fn this_end_connects_where_the_remote_one_lets_it() {
    behind_firewalls(true, false, |w, used, what| {
        assert!(!used.is_empty() && used.iter().all(|one| (LOW..=HIGH).contains(&one.remote)), "{what}");
        assert!(!cached(w).exists());
    });
}

#[test]
fn the_remote_end_connects_back_where_only_that_is_let_through() {
    behind_firewalls(false, true, |w, used, what| {
        assert!(!used.is_empty() && used.iter().all(|one| (LOW..=HIGH).contains(&one.local)), "{what}");
        assert!(!cached(w).exists());
    });
}

#[test]
fn ssh_does_behind_two_firewalls_and_the_next_run_knows() {
    behind_firewalls(true, true, |w, used, what| {
        assert_eq!(used, [], "{what}");
        assert!(cached(w).exists(), "{what}");
    });
}

#[test]
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
        ended.code(0).says("(7 streams)");
        assert_eq!(established(&seen).len(), 7, "{words}: {seen:?}");
        w.assert_same("src", copy, What::USUAL);
    }
    let (ended, seen) = watched(w.haul(&format!("{PUT} -I --streams 1")));
    ended.code(0).says("(1 stream)");
    assert_eq!(established(&seen).len(), 1, "{seen:?}");
    w.haul(&format!("{PUT} -I --streams 3 --no-direct")).ends(0).says("(up to 3 ssh sessions)");
    w.haul("cp --streams 0 src/ testhost:~/there").ends(1);
}
