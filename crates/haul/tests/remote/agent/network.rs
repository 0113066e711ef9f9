//! Which connections a process has, and networks that let only some of them through.

use std::collections::HashSet;
use std::fs;

use haul_test::link::{End, Link, Options};
use rustix::process::Pid;

use super::support::{HAUL, World, server};

/// A TCP connection or a listening port, as `/proc/net/tcp` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tcp {
    pub local: u16,
    pub remote: u16,
    /// The other end's address, and this one's, as the kernel writes them.
    pub address: u128,
    pub own: u128,
    pub established: bool,
    pub listens: bool,
}

/// The TCP sockets of a process of haul, in its own network, without that of the ssh which it is logging in by.
pub fn tcp_of(pid: Pid) -> HashSet<Tcp> {
    let pid = pid.as_raw_pid();
    // Before it is haul it is a copy of this process, with the sockets of all tests.
    if !fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| fs::canonicalize(HAUL).is_ok_and(|haul| haul == exe)) {
        return HashSet::new();
    }
    // Those of ssh before and after: it may begin or end meanwhile.
    let before = sockets_of_children(pid);
    let inodes = sockets_of(&pid.to_string());
    let inodes = &(&inodes - &before) - &sockets_of_children(pid);
    let mut found = HashSet::new();
    for table in ["tcp", "tcp6"] {
        for line in fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default().lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let port = |word: &str| word.rsplit_once(':').and_then(|(_, port)| u16::from_str_radix(port, 16).ok()).unwrap_or(0);
            if let [_, local, remote, state, _, _, _, _, _, inode, ..] = words[..]
                && inodes.contains(inode)
            {
                let address =
                    |word: &str| word.split_once(':').and_then(|(address, _)| u128::from_str_radix(address, 16).ok()).unwrap_or(0);
                let (address, own) = (address(remote), address(local));
                found.insert(Tcp {
                    address,
                    own,
                    local: port(local),
                    remote: port(remote),
                    established: state == "01",
                    listens: state == "0A",
                });
            }
        }
    }
    found
}

/// The numbers of the sockets of all that a process has started.
fn sockets_of_children(pid: i32) -> HashSet<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    children.flat_map(|children| children.split_whitespace().flat_map(sockets_of).collect::<Vec<_>>()).collect()
}

/// The numbers of a process's sockets.
fn sockets_of(pid: &str) -> HashSet<String> {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    links
        .filter_map(|link| fs::read_link(link.path()).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_string()))
        .collect()
}

/// The program at one end of a link, the server at the other one.
pub fn over_a_link(options: Options, lines: &str) -> (World, Link) {
    over(Link::new(options).expect("namespaces and TUN devices: root"), lines)
}

pub fn over(link: Link, lines: &str) -> (World, Link) {
    let address = link.far().address().to_string();
    let lines = format!("{lines}\nListenAddress {address}");
    let mut w = World::on(|scratch| {
        let server = link.far().inside(|| server(scratch, &lines)).expect("in the namespace");
        server.move_to(&address);
        server
    });
    w.near = Some(link.near().clone());
    (w, link)
}

/// What comes to these ports of an end from now on is dropped without a word, as by a firewall.
pub fn drop_incoming(end: &End, low: u16, high: u16) {
    // The table of the end's own addresses is asked first; it makes room for a rule in front.
    for words in ["add pref 100 lookup local", &format!("add pref 50 iif tun0 ipproto tcp dport {low}-{high} blackhole"), "del pref 0"] {
        let done = end.command("ip").arg("rule").args(words.split_whitespace()).status().expect("iproute2");
        assert!(done.success(), "ip rule {words}");
    }
}
