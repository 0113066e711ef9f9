//! What a server sends in extended block mode (MODE E; GFD.20, section 3): it connects to this machine once, and the connection stays open
//! from one transfer to the next, so that many can be asked for ahead.
//!
//! The receiver takes blocks in the order of the file and no others. Servers may send them in any order over several connections; over the one
//! that is offered here none was seen to, and one that does is served in stream mode.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use haul_core::error::{Error, ErrorKind, Remedy, Result};

use super::control::{command, failure};
use super::data::{Announced, Data, Opening};
use super::features::{cannot, get};
use super::session::Session;

const HEADER: usize = 17;
/// The connection carries no more of this transfer.
const END_OF_DATA: u8 = 8;
/// The offset is the number of connections that end with [`END_OF_DATA`].
const END_OF_FILE: u8 = 64;
/// The sender closes the connection after this transfer.
const CLOSES: u8 = 4;
/// Blocks without bytes in one transfer.
const EMPTY_MOST: u32 = 1000;
/// Bytes that are read at a time where headers are looked for.
const BUFFER: usize = 64 << 10;
/// How long a server may take to connect to this machine for the first time: a firewall in between says nothing.
const FIRST: Duration = Duration::from_secs(3);

/// A data connection from the server, and bytes of it that belong to the next block.
#[derive(Debug)]
pub struct Intake {
    data: Data,
    buffer: Vec<u8>,
    used: usize,
}

impl Intake {
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

    pub fn is_closed(&self) -> bool {
        self.data.is_closed()
    }
}

/// One transfer's place in what the server sends.
#[derive(Debug)]
pub struct Incoming {
    /// Where the next byte belongs, from the transfer's start.
    next: u64,
    /// Bytes of the transfer at the most.
    most: u64,
    /// Of the present block.
    left: u64,
    empty: u32,
    end_of_data: bool,
    end_of_file: bool,
    closes: bool,
}

impl Incoming {
    /// A transfer of at most `most` bytes.
    pub fn new(most: u64) -> Incoming {
        Incoming { next: 0, most, left: 0, empty: 0, end_of_data: false, end_of_file: false, closes: false }
    }

    pub fn is_over(&self) -> bool {
        self.end_of_data && self.end_of_file && self.left == 0
    }

    pub fn closes(&self) -> bool {
        self.closes
    }

    /// Bytes in their order; 0 at the end of the transfer.
    ///
    /// # Errors
    ///
    /// `InvalidData` for blocks that are out of their order, overlap, leave gaps, or exceed the transfer, and for counts of ends that do
    /// not add up.
    pub fn read(&mut self, intake: &mut Intake, into: &mut [u8]) -> io::Result<usize> {
        let strange = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        loop {
            if self.left > 0 {
                let most = into.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                let count = intake.read(&mut into[..most])?;
                if count == 0 && most > 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                (self.next, self.left) = (self.next + count as u64, self.left - count as u64);
                return Ok(count);
            }
            if self.is_over() {
                return Ok(0);
            }
            let (descriptor, count, offset) = intake.header()?;
            if descriptor & !(END_OF_DATA | END_OF_FILE | CLOSES) != 0 {
                return Err(strange(format!("the server sent a block with the unknown descriptor {descriptor}")));
            }
            if self.end_of_data && count > 0 {
                return Err(strange("the server sent a block after the end of data".into()));
            }
            let last = descriptor & END_OF_DATA != 0;
            if last && self.end_of_data || descriptor & END_OF_FILE != 0 && (self.end_of_file || offset != 1 || count > 0) {
                return Err(strange(format!("the server's ends of data do not add up: {offset} over one connection")));
            }
            self.end_of_data |= last;
            self.end_of_file |= descriptor & END_OF_FILE != 0;
            self.closes |= descriptor & CLOSES != 0;
            if count == 0 {
                self.empty += 1;
                if self.empty > EMPTY_MOST {
                    return Err(strange("the server sends blocks without bytes".into()));
                }
            } else if offset != self.next || offset.checked_add(count).is_none_or(|end| end > self.most) {
                return Err(strange(format!(
                    "the server sent {count} bytes for {offset}, and {} to {} were to follow",
                    self.next, self.most
                )));
            }
            self.left = count;
        }
    }
}

/// Whether a server at `peer` can be expected to reach this machine under its address: not through a translation of addresses.
fn is_reachable(own: IpAddr, peer: IpAddr) -> bool {
    let is_inner = |address: IpAddr| match address {
        IpAddr::V4(v4) => v4.is_private() || v4.is_link_local() || v4.is_loopback() || v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64,
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => v4.is_private() || v4.is_link_local() || v4.is_loopback(),
            None => v6.is_loopback() || v6.segments()[0] & 0xfe00 == 0xfc00 || v6.segments()[0] & 0xffc0 == 0xfe80,
        },
    };
    !is_inner(own) || is_inner(peer)
}

impl Session {
    /// Enters extended block mode and offers the server a port of this machine for its data; `false` where it cannot reach it, or does not want
    /// to: it is not asked again.
    pub fn offer(&mut self, op: &'static str) -> Result<bool> {
        if !get(&self.features.extended_reads) || !is_reachable(self.control.local, self.control.peer) {
            cannot(&self.features.extended_reads);
            return Ok(false);
        }
        (self.announced, self.blocks, self.intake) = (None, None, None);
        self.control.send(&command("MODE", b"E")?, op)?;
        // The reply to MODE is read with that to the port.
        match self.listen_behind(op) {
            Ok(Some(Announced::Active(listener))) => {
                self.offered = Some(listener);
                Ok(true)
            }
            _ => {
                cannot(&self.features.extended_reads);
                self.ask("MODE", b"S", op)?.done(op).inspect_err(|_| self.control.give_up())?;
                Ok(false)
            }
        }
    }

    /// Asks for transfers in extended block mode: has the server connect to this machine with the first, unless it has done so before. The
    /// replies to them are still to be read.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the server does not connect: it is not asked again.
    pub fn ask_blocks(&mut self, transfers: &[u8], op: &'static str) -> Result<()> {
        let unsupported = |why: &str| Error::new(ErrorKind::Unsupported, op).remedy_is(Remedy::Again).because(why.to_string());
        if self.intake.is_some() {
            return self.control.send(transfers, op);
        }
        if self.offered.is_none() && !self.offer(op)? {
            return Err(unsupported("the server cannot connect to this machine"));
        }
        let Some(listener) = self.offered.take() else { return Err(unsupported("there is no port")) };
        self.busy = true;
        self.control.send(transfers, op)?;
        match self.control.await_data(&listener, FIRST.min(self.wait), op) {
            Ok(None) => {}
            // A refusal comes without a connection, which is then made for the next transfer.
            Ok(Some(reply)) if !reply.is_begun() => {
                self.control.give_up();
                return Err(unsupported("the server refused the first transfer"));
            }
            Ok(Some(_)) => {}
            Err(_) => {
                cannot(&self.features.extended_reads);
                self.control.give_up();
                return Err(unsupported("the server does not connect to this machine"));
            }
        }
        let opening = self.guarded(Opening::Awaited(listener), op);
        if matches!(opening, Opening::Refused) {
            self.control.give_up();
            return Err(unsupported("the server refused the first transfer"));
        }
        let data = self.ready(opening, op)?;
        self.intake = Some(Intake { data, buffer: Vec::new(), used: 0 });
        Ok(())
    }

    /// Whether it is in extended block mode.
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;

    fn block(descriptor: u8, count: u64, offset: u64, bytes: &[u8]) -> Vec<u8> {
        [&[descriptor][..], &count.to_be_bytes(), &offset.to_be_bytes(), bytes].concat()
    }

    /// What is read of a transfer of at most 10 bytes.
    fn read(sent: Vec<u8>) -> io::Result<Vec<u8>> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut far = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        far.write_all(&sent).expect("sent");
        drop(far);
        let data = Data::incoming(listener.accept().expect("a connection").0, Duration::from_secs(5)).expect("a stream");
        let (mut intake, mut incoming) = (Intake { data, buffer: Vec::new(), used: 0 }, Incoming::new(10));
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
