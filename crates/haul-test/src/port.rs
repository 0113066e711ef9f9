//! Ports for servers that tests start.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// A port of loopback that nobody listens at, below those that the system gives to clients: a server takes a while until it listens,
/// and tests make connections by the thousand meanwhile.
pub fn free_port() -> io::Result<u16> {
    const TRIES: usize = 100;
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let any = || 10_000 + (RandomState::new().build_hasher().finish() % 20_000) as u16;
    std::iter::repeat_with(any).take(TRIES).find(is_free).ok_or_else(|| io::Error::other("no port is free"))
}
