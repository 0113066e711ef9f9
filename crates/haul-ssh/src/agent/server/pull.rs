//! Copies between two remote hosts, or within one: this host reads what the other has opened, so that the bytes pass no
//! third machine.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::hash::{Algorithm, Hasher};
use haul_core::store::{Sink, Source};

use super::Agent;
use super::data::Peer;
use super::files::Open;
use crate::agent::direct::{self, EncryptedLink, Until};
use crate::agent::link::{IDLE_TIMEOUT, Link, Ticket};
use crate::agent::ops;
use crate::agent::wire::{Parser, Writer, pack, protocol_error};
use haul_core::lock::lock;
use haul_local::copy_range;

const LINKS: usize = 4;
/// Bytes that one request reads, and requests that are in flight for one range.
const PIECE: u64 = 256 << 10;
const AHEAD: usize = 16;

/// Other remote hosts that this one reads from, by the number that the requesting end has given them.
#[derive(Default)]
pub struct LinkedPeers(Mutex<HashMap<u64, Vec<Arc<Link>>>>);

impl Agent {
    /// Key and address of another remote host; answers with the port, at which that host may read.
    pub(super) fn listen_for_reader(self: &Arc<Self>, from: &mut Parser<'_>, to: &mut Writer) -> Result<()> {
        let (key, address) = from.get()?;
        let peer = Peer { key, address, reader: true };
        self.accept(None, peer, Until { count: LINKS, within: self.options.listening, over: || false }, to)
    }

    /// Number of the other remote host, key, address, port.
    pub(super) fn link_peer(&self, from: &mut Parser<'_>) -> Result<()> {
        let (number, key, at) = from.get()?;
        let site = &self.options.site;
        site.check()?;
        let config = self.identity()?.connector(key, &site.suites)?;
        let links = Mutex::default();
        let (made, failed) = direct::connect_all(LINKS, |_| {
            let EncryptedLink { output, input, transport, over, .. } = direct::connect(at, config.clone(), IDLE_TIMEOUT)?;
            lock::<Vec<_>>(&links).push(Link::start(output, input, transport, over, false, Arc::default(), IDLE_TIMEOUT)?);
            Ok(true)
        });
        if made == 0 {
            let no_thread = || Error::new(ErrorKind::Other, "connect").because("the system gives no more threads");
            return Err(failed.unwrap_or_else(no_thread));
        }
        let links = links.into_inner().unwrap_or_default();
        lock(&self.linked_peers.0).insert(number, links);
        Ok(())
    }

    /// The file written here, the remote host that has the source (0: this one), the source's number there, the range, and whether
    /// its hash is wanted, which is the answer.
    pub(super) fn pull(&self, from: &mut Parser<'_>, to: &mut Writer) -> Result<()> {
        let file = self.files.get(from.get()?)?;
        let ((peer, number), at, wanted): (_, _, bool) = (from.get()?, from.range()?, from.get()?);
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
        to.put(hasher.and_then(|hasher| hasher.finish().try_into().ok()).map_or(0, u128::from_be_bytes));
        Ok(())
    }
}

/// Both files are on this host: the kernel copies unless a hash is wanted.
fn copy_here(source: &Open, sink: &dyn Sink, at: Range<u64>, hasher: Option<&mut Hasher>) -> Result<()> {
    let source: &dyn Source = source.source()?;
    let mut left = at;
    if hasher.is_none()
        && let (Some(from), Some(to)) = (source.extensions().fd, sink.extensions().fd)
    {
        left.start += copy_range(from, left.start, to, left.clone())?;
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
    // By this operation and kind the requesting end knows that the bytes have to pass through it.
    let apart = || Error::new(ErrorKind::NotFound, "pull").because("the two remote hosts are not connected");
    let lost_as = |e: Error| if e.remedy() == Remedy::Reconnect { apart() } else { e };
    let mut under_way: VecDeque<(Range<u64>, Ticket)> = VecDeque::new();
    let mut asked = at.start;
    while asked < at.end || !under_way.is_empty() {
        while asked < at.end && under_way.len() < AHEAD {
            let piece = asked..(asked + PIECE).min(at.end);
            let link = links.iter().min_by_key(|link| link.load()).ok_or_else(apart)?;
            let ticket = link.ask(ops::READ, &[&pack((number, &piece))], piece.end - piece.start).map_err(lost_as)?;
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
