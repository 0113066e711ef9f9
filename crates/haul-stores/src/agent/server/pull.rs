//! Files that go from one far side to another, or stay on one: this end reads what the other end has opened, so that
//! the bytes pass nobody else.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::hash::{Algorithm, Hasher};
use haul_core::store::{Sink, Source};
use rustix::io::Errno;

use super::Agent;
use super::data::{port, secret};
use super::files::Open;
use crate::agent::direct::{self, EncryptedLink, Listener};
use crate::agent::encrypt::{Acceptor, Connector};
use crate::agent::link::{IDLE_TIMEOUT, Link, Ticket};
use crate::agent::ops;
use crate::agent::wire::{Parser, Writer, protocol_error};
use crate::lock::lock;

/// Connections to another far side.
const LINKS: u32 = 4;
/// Bytes that one request reads, and requests that are under way for one range.
const PIECE: u64 = 256 << 10;
const AHEAD: usize = 16;

/// Other far sides that this one reads from, by the number that the asking end has given them.
#[derive(Default)]
pub struct LinkedPeers(Mutex<HashMap<u64, Vec<Arc<Link>>>>);

impl Agent {
    /// Secret; answers with the port. Who comes there may read what has been opened here, and nothing else.
    pub(super) fn listen_for_reader(self: &Arc<Self>, from: &mut Parser<'_>, to: &mut Writer) -> Result<()> {
        let listener = Listener::new(None, Acceptor::new(secret(from)?))?;
        to.number(listener.port()?.into());
        let agent = self.clone();
        let each: Arc<dyn Fn(EncryptedLink) + Send + Sync> = Arc::new(move |sealed| agent.serve_encrypted(sealed, true));
        let take = move || listener.accept(None, super::ABANDONED, &each);
        std::thread::Builder::new().name("accept".into()).spawn(take).map_err(haul_core::rlimit::no_thread)?;
        Ok(())
    }

    /// Number of the other far side, secret, address, port.
    pub(super) fn link_peer(&self, from: &mut Parser<'_>) -> Result<()> {
        let (number, secret) = (from.number()?, secret(from)?);
        let address: IpAddr = from.words()?.parse().map_err(|_| protocol_error("an impossible address"))?;
        let at = SocketAddr::new(address, port(from)?);
        let connector = Connector::new(secret);
        let mut links = Vec::new();
        for connection in 0..LINKS {
            let mut sealed = direct::connect(at, &connector, connection, IDLE_TIMEOUT)?;
            if connection == 0 {
                sealed.welcomed()?;
            }
            let EncryptedLink { output, input, transport, over, .. } = sealed;
            links.push(Link::start(output, input, transport, over, false, Arc::default(), IDLE_TIMEOUT)?);
        }
        lock(&self.linked_peers.0).insert(number, links);
        Ok(())
    }

    /// File being written here, number of the far side that has the source (0 is this one), number of the source there, range,
    /// whether its hash is wanted, which is the answer.
    pub(super) fn pull(&self, from: &mut Parser<'_>, to: &mut Writer) -> Result<()> {
        let file = self.files.get(from.number()?)?;
        let (peer, number, at, wanted) = (from.number()?, from.number()?, from.range()?, from.flag()?);
        let mut hasher = wanted.then(|| Algorithm::Xxh128.begin());
        let sink = file.sink()?;
        if peer == 0 {
            let source = self.files.get(number)?;
            copy_here(&source, sink, at, hasher.as_mut())?;
        } else {
            let links = lock(&self.linked_peers.0).get(&peer).cloned();
            let links: Vec<Arc<Link>> = links.unwrap_or_default().into_iter().filter(|link| !link.is_over()).collect();
            fetch(&links, number, sink, at, hasher.as_mut())?;
        }
        to.bytes(&hasher.map(Hasher::finish).unwrap_or_default());
        Ok(())
    }
}

/// Both files are this machine's: the kernel copies where nobody has to see the bytes.
fn copy_here(source: &Open, sink: &dyn Sink, at: Range<u64>, hasher: Option<&mut Hasher>) -> Result<()> {
    let source: &dyn Source = source.source()?;
    let mut left = at;
    if hasher.is_none()
        && let (Some(from), Some(to)) = (source.fd(), sink.fd())
    {
        while !left.is_empty() {
            let wanted = usize::try_from(left.end - left.start).unwrap_or(usize::MAX).min(16 << 20);
            let (mut off_in, mut off_out) = (left.start, left.start);
            match rustix::fs::copy_file_range(from, Some(&mut off_in), to, Some(&mut off_out), wanted) {
                Ok(count) if count > 0 => left.start += count as u64,
                Err(Errno::INTR) => {}
                Err(e @ (Errno::NOSPC | Errno::DQUOT)) => return Err(Error::io(e.into(), "write")),
                // A file system that cannot, or a file that shrank: reading tells.
                _ => break,
            }
        }
    }
    if left.is_empty() {
        return Ok(());
    }
    let mut reader = Hashing { from: source.read(left.clone())?, hasher };
    sink.write(left, &mut reader)
}

struct Hashing<'a, 'b> {
    from: Box<dyn std::io::Read + Send + 'a>,
    hasher: Option<&'b mut Hasher>,
}

impl std::io::Read for Hashing<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.from.read(buffer)?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&buffer[..count]);
        }
        Ok(count)
    }
}

fn fetch(links: &[Arc<Link>], number: u64, sink: &dyn Sink, at: Range<u64>, mut hasher: Option<&mut Hasher>) -> Result<()> {
    // The words by which the asking end knows that the bytes have to go another way.
    let apart = || Error::new(ErrorKind::NotFound, "pull").because("the two remote hosts are not connected");
    let lost_as = |e: Error| if e.remedy() == Remedy::Reconnect { apart() } else { e };
    let mut under_way: VecDeque<(Range<u64>, Ticket)> = VecDeque::new();
    let mut asked = at.start;
    while asked < at.end || !under_way.is_empty() {
        while asked < at.end && under_way.len() < AHEAD {
            let piece = asked..(asked + PIECE).min(at.end);
            let link = links.iter().min_by_key(|link| link.load()).ok_or_else(apart)?;
            let mut to = Writer::new();
            to.number(number).range(&piece);
            let ticket = link.ask(ops::READ, &[&to.out], piece.end - piece.start).map_err(lost_as)?;
            under_way.push_back((piece.clone(), ticket));
            asked = piece.end;
        }
        let Some((piece, ticket)) = under_way.pop_front() else { break };
        let frame = ticket.wait().map_err(lost_as)?;
        let bytes = frame.body().0;
        if bytes.len() as u64 != piece.end - piece.start {
            return Err(protocol_error("an unexpected byte range"));
        }
        if let Some(hasher) = &mut hasher {
            hasher.update(bytes);
        }
        sink.write(piece, &mut &*bytes)?;
    }
    Ok(())
}
