//! Striped servers (GFD.20, section 4): data connections go to data nodes, other machines than the one that takes the commands, and one
//! transfer uses all of them. To the server each block goes to the next node (SPAS names them); from it each node sends its own blocks to a
//! port of its own (SPOR).

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use haul_core::error::{Error, ErrorKind, Result};

use super::data::Data;
use super::passive::{passive_socket, plain_port};
use super::reply::Reply;
use super::session::Session;

/// Data nodes of one server. A session has a connection to each.
const MOST: usize = 64;
/// Other programs than data nodes listen below.
const LEAST_PORT: u16 = 1024;

/// The data connections over which blocks go out: one, or one for each data node.
#[derive(Debug)]
pub struct Outlets {
    pub each: Vec<Data>,
    next: usize,
}

impl Outlets {
    pub fn turn(&mut self) -> usize {
        let turn = self.next;
        self.next = (turn + 1) % self.each.len().max(1);
        turn
    }

    /// Whether the server has closed one of them.
    pub fn is_closed(&self) -> bool {
        self.each.iter().any(Data::is_closed)
    }
}

/// Whether data may go to an address that a server at `peer` names: any host's that other clients of the server could reach, too. Not this
/// machine's own, and not one of this network's that only this machine can reach.
pub fn is_acceptable(at: SocketAddr, peer: IpAddr) -> bool {
    let (ip, peer) = (at.ip().to_canonical(), peer.to_canonical());
    let IpAddr::V4(v4) = ip else { return false };
    let is_inner = |ip: IpAddr| matches!(ip, IpAddr::V4(v4) if is_private(v4));
    let is_host = !(v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast() || v4.octets()[0] == 0);
    let is_theirs = (!v4.is_loopback() || peer.is_loopback()) && (!v4.is_link_local() || ip == peer);
    at.port() >= LEAST_PORT && is_host && is_theirs && (!is_inner(ip) || is_inner(peer) || peer.is_loopback())
}

/// Whether an address is of a network of its own, or behind a provider's translation of addresses.
pub fn is_private(v4: Ipv4Addr) -> bool {
    v4.is_private() || v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64
}

/// The data nodes that a reply to SPAS names; `None` if it names none, too many, or one that data may not go to.
fn nodes(reply: &Reply, peer: IpAddr) -> Option<Vec<SocketAddr>> {
    let lines = || reply.more.iter().filter_map(|line| passive_socket(line));
    if reply.code != 229 || lines().count() > MOST {
        return None;
    }
    Some(lines().collect()).filter(|all: &Vec<SocketAddr>| !all.is_empty() && all.iter().all(|at| is_acceptable(*at, peer)))
}

/// Their addresses, if they can be used.
pub fn addresses(reply: &Reply, peer: IpAddr) -> Vec<IpAddr> {
    nodes(reply, peer).map_or_else(Vec::new, |all| all.iter().map(SocketAddr::ip).collect())
}

impl Session {
    /// The data connections that a reply to EPSV, PASV or SPAS announces.
    pub fn outlets(&mut self, reply: &Reply, op: &'static str) -> Result<Outlets> {
        let each = match self.features.stripes() {
            0 => vec![self.connected(reply, op)?],
            _ => {
                let all = nodes(reply, self.control.peer).ok_or_else(|| {
                    Error::new(ErrorKind::Other, op).because(format!("the server named no usable data nodes: {}", reply.shown()))
                })?;
                all.into_iter().map(|at| self.connected_to(at, op)).collect::<Result<_>>()?
            }
        };
        Ok(Outlets { each, next: 0 })
    }

    /// Authenticates both ends of each, with the first transfer, whose command was sent; `None` where the server refuses that.
    pub fn guarded_outlets(&mut self, outlets: Outlets, op: &'static str) -> Result<Option<Outlets>> {
        let Outlets { each, next } = outlets;
        let guarded = each.into_iter().map(|data| self.guarded_blocks(data, op)).collect::<Result<Option<Vec<Data>>>>()?;
        Ok(guarded.map(|each| Outlets { each, next }))
    }

    /// Offers each data node a port of this machine; `None` where the server does not take that.
    pub fn offer_each(&mut self, op: &'static str) -> Result<Option<Vec<TcpListener>>> {
        let IpAddr::V4(own) = self.control.local.to_canonical() else { return Ok(None) };
        let listeners = (0..self.features.stripes()).map(|_| self.bind(op)).collect::<Result<Vec<_>>>()?;
        let named: Vec<String> = listeners.iter().map(|(_, port)| plain_port(own, *port)).collect();
        let taken = self.ask("SPOR", named.join(" ").as_bytes(), op)?.is_done();
        Ok(taken.then(|| listeners.into_iter().map(|(listener, _)| listener).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(code: u16, lines: &[String]) -> Reply {
        Reply { code, text: b"Entering Striped Passive Mode.".to_vec(), more: lines.iter().map(|line| line.as_bytes().to_vec()).collect() }
    }

    #[test]
    fn data_nodes_are_read() {
        let peer = "130.1.2.3".parse().expect("an address");
        let count = |lines: &[&str]| addresses(&reply(229, &lines.iter().map(|line| line.to_string()).collect::<Vec<_>>()), peer).len();
        assert_eq!(count(&[" 130,1,2,4,16,1", " 140,1,2,4,16,1", "End"]), 2);
        assert_eq!(count(&["End"]), 0);
        // This machine's, this network's, nobody's, and a port of something else.
        for bad in [" 127,0,0,1,16,1", " 10,0,0,1,16,1", " 0,0,0,0,16,1", " 224,0,0,1,16,1", " 169,254,169,254,16,1", " 130,1,2,4,0,22"] {
            assert_eq!(count(&[" 130,1,2,4,16,1", bad, "End"]), 0, "{bad}");
        }
        assert!(addresses(&reply(500, &[" 130,1,2,4,16,1".into()]), peer).is_empty());
        let many: Vec<String> = (0..10_000).map(|n| format!(" 130,1,{},{},16,1", n / 250, n % 250)).collect();
        assert!(addresses(&reply(229, &many), peer).is_empty());
        assert_eq!(addresses(&reply(229, &many[..64]), peer).len(), 64);
    }

    #[test]
    fn nodes_may_be_where_the_server_is() {
        for (at, peer, expected) in [
            ("127.0.0.2:2000", "127.0.0.1", true),
            ("10.0.0.2:2000", "10.9.0.1", true),
            ("10.0.0.2:2000", "127.0.0.1", true),
            ("192.168.0.2:2000", "130.0.0.1", false),
            ("130.0.0.2:2000", "10.0.0.1", true),
            ("[2001:db8::1]:2000", "2001:db8::2", false),
        ] {
            assert_eq!(is_acceptable(at.parse().expect("an address"), peer.parse().expect("an address")), expected, "{at} {peer}");
        }
    }
}
