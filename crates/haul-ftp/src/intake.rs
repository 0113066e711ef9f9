//! What a server sends in extended block mode (MODE E; GFD.20, section 3): it connects to this machine once, and the connection stays open
//! from one transfer to the next, so that many can be asked for ahead.
//!
//! The receiver takes blocks in the order of the file and no others. Over one connection no server was seen to send them in another; one that
//! does is served in stream mode. With a connection of each data node the next block is always the first of one of them.

use std::io::{self, Read as _};
use std::net::{IpAddr, TcpListener};
use std::time::Duration;

use haul_core::error::{Error, ErrorKind, Remedy, Result};

use super::control::{command, failure};
use super::data::{Data, Opening};
use super::extended::{END_OF_DATA, END_OF_FILE, HEADER};
use super::features::{cannot, get};
use super::reply::Reply;
use super::session::Session;
use super::stripes::is_private;

/// The sender closes the connection after this transfer.
const CLOSES: u8 = 4;
/// Blocks without bytes in one transfer.
const EMPTY_MOST: u32 = 1000;
/// Bytes that are read at a time where headers are looked for.
const BUFFER: usize = 64 << 10;
/// How long a server may take to connect to this machine for the first time: a firewall in between says nothing.
const FIRST: Duration = Duration::from_secs(3);

/// The data connections from the server: one, or one of each data node.
#[derive(Debug)]
pub struct Intake {
    inlets: Vec<Inlet>,
}

impl Intake {
    fn of(each: Vec<Data>) -> Intake {
        Intake { inlets: each.into_iter().map(|data| Inlet { data, buffer: Vec::new(), used: 0 }).collect() }
    }

    pub fn is_closed(&self) -> bool {
        self.inlets.iter().any(|inlet| inlet.data.is_closed())
    }

    /// Whether several data nodes send one transfer. Another one needs a session of its own.
    pub fn is_striped(&self) -> bool {
        self.inlets.len() > 1
    }
}

/// A data connection, and bytes of it that belong to the next block.
#[derive(Debug)]
struct Inlet {
    data: Data,
    buffer: Vec<u8>,
    used: usize,
}

impl Inlet {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.used == self.buffer.len() {
            return self.data.read(into);
        }
        let count = into.len().min(self.buffer.len() - self.used);
        into[..count].copy_from_slice(&self.buffer[self.used..self.used + count]);
        self.used += count;
        Ok(count)
    }

    /// Descriptor, count and offset of the next block.
    fn header(&mut self) -> io::Result<(u8, u64, u64)> {
        while self.buffer.len() - self.used < HEADER {
            self.buffer.drain(..self.used);
            self.used = 0;
            let has = self.buffer.len();
            self.buffer.resize(has + BUFFER, 0);
            let count = self.data.read(&mut self.buffer[has..]);
            self.buffer.truncate(has + count.as_ref().map_or(0, |count| *count));
            match count {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
                _ => {}
            }
        }
        let header = &self.buffer[self.used..self.used + HEADER];
        let number = |at: usize| header[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let found = (header[0], number(1), number(9));
        self.used += HEADER;
        Ok(found)
    }
}

/// What was read of one connection's share of a transfer.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// A block whose bytes are still to be read: how many, and where they belong.
    block: Option<(u64, u64)>,
    end_of_data: bool,
}

/// One transfer's place in what the server sends.
#[derive(Debug, Default)]
pub struct Incoming {
    /// Where the next byte belongs, from the transfer's start.
    next: u64,
    most: u64,
    /// Of the present block, which comes over `from`.
    left: u64,
    from: usize,
    /// One for each connection, as soon as something was read.
    shares: Vec<Share>,
    empty: u32,
    /// Connections that the server has said it ends.
    ends: u64,
    pub closes: bool,
}

impl Incoming {
    pub fn new(most: u64) -> Incoming {
        Incoming { most, ..Incoming::default() }
    }

    pub fn is_over(&self) -> bool {
        let all = self.shares.len() as u64;
        self.left == 0 && all > 0 && self.ends == all && self.shares.iter().all(|share| share.end_of_data && share.block.is_none())
    }

    /// Bytes in their order; 0 at the end of the transfer.
    /// Error: `InvalidData` for blocks that are out of their order, overlap, leave gaps, or exceed the transfer, and for wrong counts of
    /// ends.
    pub fn read(&mut self, intake: &mut Intake, into: &mut [u8]) -> io::Result<usize> {
        self.shares.resize(intake.inlets.len(), Share::default());
        loop {
            if self.left > 0 {
                let most = into.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                let count = intake.inlets[self.from].read(&mut into[..most])?;
                if count == 0 && most > 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                (self.next, self.left) = (self.next + count as u64, self.left - count as u64);
                return Ok(count);
            }
            if self.is_over() {
                return Ok(0);
            }
            if let Some(from) = self.shares.iter().position(|share| share.block.is_some_and(|(_, offset)| offset == self.next)) {
                self.from = from;
                self.left = self.shares[from].block.take().map_or(0, |(count, _)| count);
                continue;
            }
            // Each sends its blocks in their order: the next one is the first of a connection.
            match self.shares.iter().position(|share| share.block.is_none() && !share.end_of_data) {
                Some(from) => self.header(from, &mut intake.inlets[from])?,
                None => return Err(self.mismatch()),
            }
        }
    }

    /// All connections have ended, or have a block that is not the next one.
    fn mismatch(&self) -> io::Error {
        let strange = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        match self.shares.iter().find_map(|share| share.block) {
            Some((count, offset)) => {
                strange(format!("the server sent {count} bytes for {offset}, and {} to {} were to follow", self.next, self.most))
            }
            None => strange(format!("the server's ends of data do not add up: {} over {} connections", self.ends, self.shares.len())),
        }
    }

    /// Reads what follows over a connection.
    fn header(&mut self, from: usize, inlet: &mut Inlet) -> io::Result<()> {
        let strange = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let all = self.shares.len() as u64;
        let (descriptor, count, offset) = inlet.header()?;
        if descriptor & !(END_OF_DATA | END_OF_FILE | CLOSES) != 0 {
            return Err(strange(format!("the server sent a block with the unknown descriptor {descriptor}")));
        }
        // One of them may count for all, or each for itself.
        if descriptor & END_OF_FILE != 0 {
            if offset == 0 || count > 0 || self.ends.checked_add(offset).is_none_or(|ends| ends > all) {
                return Err(strange(format!("the server's ends of data do not add up: {offset} over {all} connections")));
            }
            self.ends += offset;
        }
        self.shares[from].end_of_data |= descriptor & END_OF_DATA != 0;
        self.closes |= descriptor & CLOSES != 0;
        if count == 0 {
            self.empty += 1;
            if self.empty > EMPTY_MOST {
                return Err(strange("the server sends blocks without bytes".into()));
            }
            return Ok(());
        }
        if offset < self.next || offset.checked_add(count).is_none_or(|end| end > self.most) {
            return Err(strange(format!("the server sent {count} bytes for {offset}, and {} to {} were to follow", self.next, self.most)));
        }
        self.shares[from].block = Some((count, offset));
        Ok(())
    }
}

/// Whether a server at `peer` can be expected to reach this machine under its address: not through a translation of addresses.
pub fn is_reachable(own: IpAddr, peer: IpAddr) -> bool {
    let is_inner = |address: IpAddr| match address.to_canonical() {
        IpAddr::V4(v4) => is_private(v4) || v4.is_link_local() || v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    };
    !is_inner(own) || is_inner(peer)
}

impl Session {
    /// Enters extended block mode and offers the server a port of this machine for its data, or one to each of its data nodes; `false` where
    /// it cannot reach it, or refuses. A server without data nodes is not asked again.
    pub fn offer(&mut self, striped: bool, op: &'static str) -> Result<bool> {
        if !get(&self.features.extended_reads) || !is_reachable(self.control.local, self.control.peer) {
            cannot(&self.features.extended_reads);
            return Ok(false);
        }
        (self.announced, self.blocks, self.intake, self.offered) = (None, None, None, None);
        self.control.send(&command("MODE", b"E")?, op)?;
        self.offered = match striped {
            true => {
                self.control.reply(op)?.done(op)?;
                self.offer_each(op)?
            }
            // The reply to MODE is read with that to the port.
            false => self.listen(1, op).ok().flatten().map(|listener| vec![listener]),
        };
        if self.offered.is_none() {
            if !striped {
                cannot(&self.features.extended_reads);
            }
            self.ask("MODE", b"S", op)?.done(op).inspect_err(|_| self.control.give_up())?;
        }
        Ok(self.offered.is_some())
    }

    /// Asks for transfers in extended block mode: has the server connect to this machine with the first, unless it has done so before. The
    /// replies to them are still to be read.
    /// Error: `Unsupported` if the server does not connect: it is not asked again.
    pub fn ask_blocks(&mut self, transfers: &[u8], op: &'static str) -> Result<()> {
        if self.intake.is_some() {
            return self.control.send(transfers, op);
        }
        if self.offered.is_none() && !self.offer(false, op)? {
            return Err(unsupported("the server cannot connect to this machine", op));
        }
        let listeners = self.offered.take().unwrap_or_default();
        self.busy = true;
        self.control.send(transfers, op)?;
        let each = listeners.into_iter().map(|listener| self.inlet(listener, op)).collect::<Result<Vec<Data>>>()?;
        self.intake = Some(Intake::of(each));
        Ok(())
    }

    /// The connection that the server makes to a port, after it was asked for a transfer.
    fn inlet(&mut self, listener: TcpListener, op: &'static str) -> Result<Data> {
        let refused = match self.control.await_data(&listener, FIRST.min(self.wait), op) {
            Ok(said) if said.is_none_or(Reply::is_begun) => None,
            // A refusal comes without a connection, which is then made for the next transfer.
            Ok(_) => Some("the server refused the first transfer"),
            Err(_) => {
                cannot(&self.features.extended_reads);
                Some("the server does not connect to this machine")
            }
        };
        if let Some(why) = refused {
            self.control.give_up();
            return Err(unsupported(why, op));
        }
        let opening = self.guarded(Opening::Awaited(listener), op);
        self.ready(opening, op)
    }

    pub fn is_extended(&self) -> bool {
        self.blocks.is_some() || self.intake.is_some() || self.offered.is_some()
    }

    /// The error of a transfer whose blocks could not be read. The session is over.
    pub fn blocks_failed(&mut self, e: io::Error, op: &'static str) -> Error {
        self.intake = None;
        self.control.give_up();
        match e.kind() {
            io::ErrorKind::InvalidData => {
                cannot(&self.features.extended_reads);
                Error::new(ErrorKind::Io, op).remedy_is(Remedy::Again).because(e.to_string())
            }
            _ => failure(e, op),
        }
    }
}

fn unsupported(why: &str, op: &'static str) -> Error {
    Error::new(ErrorKind::Unsupported, op).remedy_is(Remedy::Again).because(why)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;

    fn block(descriptor: u8, count: u64, offset: u64, bytes: &[u8]) -> Vec<u8> {
        [&[descriptor][..], &count.to_be_bytes(), &offset.to_be_bytes(), bytes].concat()
    }

    fn data(sent: &[u8]) -> Data {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut far = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        far.write_all(sent).expect("sent");
        drop(far);
        Data::incoming(listener.accept().expect("a connection").0, Duration::from_secs(5)).expect("a stream")
    }

    /// What is read of a transfer of at most 10 bytes.
    fn read(sent: Vec<u8>) -> io::Result<Vec<u8>> {
        read_of(vec![data(&sent)])
    }

    fn read_of(each: Vec<Data>) -> io::Result<Vec<u8>> {
        let (mut intake, mut incoming) = (Intake::of(each), Incoming::new(10));
        let (mut all, mut buffer) = (Vec::new(), [0; 4]);
        loop {
            match incoming.read(&mut intake, &mut buffer)? {
                0 => return Ok(all),
                count => all.extend_from_slice(&buffer[..count]),
            }
        }
    }

    #[test]
    fn blocks_become_the_file() {
        let end = block(END_OF_DATA | END_OF_FILE, 0, 1, b"");
        for sent in [
            [block(0, 10, 0, b"0123456789"), end.clone()].concat(),
            [block(0, 4, 0, b"0123"), block(0, 6, 4, b"456789"), end.clone()].concat(),
            [block(END_OF_FILE, 0, 1, b""), block(0, 4, 0, b"0123"), block(END_OF_DATA, 6, 4, b"456789")].concat(),
        ] {
            assert_eq!(read(sent).expect("the file"), b"0123456789");
        }
        assert_eq!(read(end).expect("nothing"), b"");
    }

    #[test]
    fn wrong_blocks_are_refused() {
        let end = block(END_OF_DATA | END_OF_FILE, 0, 1, b"");
        for (what, sent) in [
            ("out of range", [block(0, 11, 0, b"0123456789a"), end.clone()].concat()),
            ("behind the end", [block(0, 1, 10, b"a"), end.clone()].concat()),
            ("a gap", [block(0, 2, 2, b"23"), end.clone()].concat()),
            ("twice", [block(0, 4, 0, b"0123"), block(0, 4, 0, b"0123"), end.clone()].concat()),
            ("an overlap", [block(0, 4, 0, b"0123"), block(0, 4, 2, b"2345"), end.clone()].concat()),
            ("a huge block", [block(0, u64::MAX, 0, b"0123"), end.clone()].concat()),
            ("a sum that overflows", [block(0, 4, 0, b"0123"), block(0, u64::MAX, 4, b"2345"), end.clone()].concat()),
            ("two ends where there is one connection", [block(0, 4, 0, b"0123"), block(END_OF_DATA | END_OF_FILE, 0, 2, b"")].concat()),
            ("no end at all", [block(0, 4, 0, b"0123"), block(END_OF_DATA | END_OF_FILE, 0, 0, b"")].concat()),
            ("data after their end", [block(END_OF_DATA, 0, 0, b""), block(0, 4, 0, b"0123"), end.clone()].concat()),
            ("two ends of data", [block(END_OF_DATA, 0, 0, b""), end.clone()].concat()),
            ("an unknown descriptor", [block(32, 4, 0, b"0123"), end.clone()].concat()),
            ("empty blocks", block(0, 0, 0, b"").repeat(2000)),
        ] {
            assert_eq!(read(sent).expect_err(what).kind(), io::ErrorKind::InvalidData, "{what}");
        }
        for cut in [0, 5, 16, 17, 20] {
            let sent = block(0, 4, 0, b"0123");
            assert_eq!(read(sent[..cut].to_vec()).expect_err("cut").kind(), io::ErrorKind::UnexpectedEof, "{cut}");
        }
    }

    #[test]
    fn blocks_of_two_nodes_become_the_file() {
        let end = |ends| block(END_OF_DATA | END_OF_FILE, 0, ends, b"");
        let (first, second) = ([block(0, 4, 0, b"0123"), block(0, 2, 8, b"89")].concat(), block(0, 4, 4, b"4567"));
        // Each counts its own end, or one counts both.
        for [one, other] in [[end(1), end(1)], [end(2), block(END_OF_DATA, 0, 0, b"")], [block(END_OF_DATA, 0, 0, b""), end(2)]] {
            for turned in [false, true] {
                let mut sent = [[first.clone(), one.clone()].concat(), [second.clone(), other.clone()].concat()];
                if turned {
                    sent.reverse();
                }
                assert_eq!(read_of(sent.iter().map(|sent| data(sent)).collect()).expect("the file"), b"0123456789");
            }
        }
        for (what, one, other) in [
            ("a gap", [block(0, 4, 0, b"0123"), end(1)].concat(), [block(0, 2, 8, b"89"), end(1)].concat()),
            ("both send the same", [first.clone(), end(1)].concat(), [block(0, 4, 0, b"0123"), end(1)].concat()),
            ("an end too many", [first.clone(), end(2)].concat(), [second.clone(), end(1)].concat()),
            ("an end too few", [first.clone(), end(1)].concat(), [second.clone(), block(END_OF_DATA, 0, 0, b"")].concat()),
        ] {
            assert_eq!(read_of(vec![data(&one), data(&other)]).expect_err(what).kind(), io::ErrorKind::InvalidData, "{what}");
        }
        let cut = read_of(vec![data(&[first, end(1)].concat()), data(&second)]);
        assert_eq!(cut.expect_err("cut").kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn translated_addresses_are_not_offered() {
        for (own, peer, expected) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("10.0.0.1", "10.9.0.1", true),
            ("192.168.1.2", "130.1.2.3", false),
            ("100.64.1.2", "130.1.2.3", false),
            ("130.1.2.4", "10.0.0.1", true),
            ("130.1.2.4", "140.0.0.1", true),
            ("fd00::1", "2001:db8::1", false),
            ("2001:db8::2", "2001:db8::1", true),
        ] {
            assert_eq!(is_reachable(own.parse().expect("an address"), peer.parse().expect("an address")), expected, "{own} {peer}");
        }
    }
}
