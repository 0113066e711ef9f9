//! Where a server says that it listens for data: the replies to EPSV (RFC 2428), PASV (RFC 959) and SPAS.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::data::Announced;
use super::reply::Reply;

/// The data connection that a reply to EPSV announces.
pub fn passive(reply: &Reply, peer: IpAddr) -> Option<Announced> {
    let port = extended_port(&reply.text).filter(|_| reply.code == 229)?;
    Some(Announced::Passive(SocketAddr::new(peer, port)))
}

/// The port of `Entering Extended Passive Mode (|||6446|)` (RFC 2428).
pub fn extended_port(text: &[u8]) -> Option<u16> {
    let inner = &text[text.iter().position(|byte| *byte == b'(')? + 1..];
    let mark = *inner.first()?;
    let mut parts = inner.split(|byte| *byte == mark);
    let port = parts.nth(3)?;
    parts.next()?;
    std::str::from_utf8(port).ok()?.parse().ok().filter(|port| *port > 0)
}

/// The address that a reply to PASV names.
pub fn passive_address(text: &[u8]) -> Option<Ipv4Addr> {
    passive_numbers(text).map(|[a, b, c, d, ..]| Ipv4Addr::new(a, b, c, d))
}

/// Address and port of the same, and of each line of a reply to SPAS.
pub fn passive_socket(text: &[u8]) -> Option<SocketAddr> {
    Some(SocketAddr::new(passive_address(text)?.into(), passive_port(text)?))
}

/// The port of `Entering Passive Mode (h1,h2,h3,h4,p1,p2)`, with or without brackets.
pub fn passive_port(text: &[u8]) -> Option<u16> {
    let [.., high, low] = passive_numbers(text)?;
    Some(u16::from(high) << 8 | u16::from(low)).filter(|port| *port > 0)
}

/// An address and a port as PORT and SPOR name them.
pub fn plain_port(address: Ipv4Addr, port: u16) -> String {
    let [a, b, c, d] = address.octets();
    format!("{a},{b},{c},{d},{},{}", port >> 8, port & 255)
}

fn passive_numbers(text: &[u8]) -> Option<[u8; 6]> {
    let text = std::str::from_utf8(text).ok()?;
    let numbers = text.split(|c: char| !c.is_ascii_digit() && c != ',').find(|part| part.matches(',').count() == 5)?;
    let numbers: Vec<u8> = numbers.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read() {
        assert_eq!(extended_port(b"Entering Extended Passive Mode (|||6446|)"), Some(6446));
        assert_eq!(extended_port(b"ok (!!!1!)."), Some(1));
        for bad in [&b""[..], b"(", b"(|||0|)", b"(|||70000|)", b"(|||x|)", b"(||6446|)", b"(|||6446"] {
            assert_eq!(extended_port(bad), None, "{bad:?}");
        }
        assert_eq!(passive_port(b"Entering Passive Mode (10,0,0,1,4,1)."), Some(1025));
        assert_eq!(passive_port(b"Entering Passive Mode 10,0,0,1,4,1"), Some(1025));
        for bad in [&b""[..], b"(1,2,3,4,5)", b"(1,2,3,4,256,1)", b"(1,2,3,4,0,0)", b"(1,2,3,4,5,6,7)", b"\xff"] {
            assert_eq!(passive_port(bad), None, "{bad:?}");
        }
    }
}
