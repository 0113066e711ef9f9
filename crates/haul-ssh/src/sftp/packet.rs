//! The wire format of SFTP version 3 (draft-ietf-secsh-filexfer-02), as far as it is used. Names and handles are
//! bytes. What comes from the peer is checked here: nothing behind this module indexes into a packet.

use haul_core::entry::{Kind, Time};
use haul_core::error::{Error, ErrorKind, Result};

/// The longest packet that is taken from a peer; OpenSSH sends and takes 256 KiB.
pub const LONGEST: usize = (256 << 10) + 1024;

pub mod kind {
    pub const INIT: u8 = 1;
    pub const VERSION: u8 = 2;
    pub const OPEN: u8 = 3;
    pub const CLOSE: u8 = 4;
    pub const READ: u8 = 5;
    pub const WRITE: u8 = 6;
    pub const LSTAT: u8 = 7;
    pub const FSTAT: u8 = 8;
    pub const SETSTAT: u8 = 9;
    pub const FSETSTAT: u8 = 10;
    pub const OPENDIR: u8 = 11;
    pub const READDIR: u8 = 12;
    pub const REMOVE: u8 = 13;
    pub const MKDIR: u8 = 14;
    pub const RMDIR: u8 = 15;
    pub const REALPATH: u8 = 16;
    pub const STAT: u8 = 17;
    pub const RENAME: u8 = 18;
    pub const READLINK: u8 = 19;
    pub const SYMLINK: u8 = 20;
    pub const STATUS: u8 = 101;
    pub const HANDLE: u8 = 102;
    pub const DATA: u8 = 103;
    pub const NAME: u8 = 104;
    pub const ATTRS: u8 = 105;
    pub const EXTENDED: u8 = 200;
    pub const EXTENDED_REPLY: u8 = 201;
}

/// Section 6.3 of the draft.
pub mod open {
    pub const READ: u32 = 1;
    pub const WRITE: u32 = 2;
    pub const CREATE: u32 = 8;
    pub const EXCLUSIVE: u32 = 32;
}

/// Section 7 of the draft.
pub mod status {
    pub const OK: u32 = 0;
    pub const EOF: u32 = 1;
    pub const NO_SUCH_FILE: u32 = 2;
    pub const PERMISSION_DENIED: u32 = 3;
    pub const FAILURE: u32 = 4;
    pub const BAD_MESSAGE: u32 = 5;
    pub const NO_CONNECTION: u32 = 6;
    pub const CONNECTION_LOST: u32 = 7;
    pub const UNSUPPORTED: u32 = 8;
    // Of later versions.
    pub const NO_SUCH_PATH: u32 = 10;
    pub const FILE_EXISTS: u32 = 11;
    pub const WRITE_PROTECT: u32 = 12;
    pub const NO_SPACE: u32 = 14;
    pub const QUOTA: u32 = 15;
    pub const DIR_NOT_EMPTY: u32 = 18;
    pub const NOT_A_DIRECTORY: u32 = 19;
    pub const INVALID_NAME: u32 = 20;
}

/// Builds one request behind others in a buffer, so that many go out by one write.
pub struct Request<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Request<'a> {
    pub fn new(out: &'a mut Vec<u8>, kind: u8, id: u32) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.push(kind);
        out.extend_from_slice(&id.to_be_bytes());
        Request { out, start }
    }

    pub fn number(self, n: u32) -> Self {
        self.out.extend_from_slice(&n.to_be_bytes());
        self
    }

    pub fn long(self, n: u64) -> Self {
        self.out.extend_from_slice(&n.to_be_bytes());
        self
    }

    pub fn bytes(self, bytes: &[u8]) -> Self {
        self.out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        self.out.extend_from_slice(bytes);
        self
    }

    pub fn attrs(self, attrs: &Attrs) -> Self {
        attrs.encode(self.out);
        self
    }

    pub fn end(self) {
        let length = (self.out.len() - self.start - 4) as u32;
        self.out[self.start..self.start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// The attributes of section 5; `None` is unknown, or not to be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attrs {
    /// Bytes.
    pub size: Option<u64>,
    pub owner: Option<(u32, u32)>,
    /// `st_mode`, the type included.
    pub mode: Option<u32>,
    /// Access and modification, in seconds since 1970 as 32 bits without a sign.
    pub times: Option<(u32, u32)>,
}

/// The largest offset that a system knows.
const MOST: u64 = i64::MAX as u64;

const SIZE: u32 = 1;
const OWNER: u32 = 2;
const MODE: u32 = 4;
const TIMES: u32 = 8;
const EXTENDED: u32 = 0x8000_0000;

impl Attrs {
    fn encode(&self, out: &mut Vec<u8>) {
        let flag = |there: bool, bit: u32| if there { bit } else { 0 };
        let flags = flag(self.size.is_some(), SIZE)
            | flag(self.owner.is_some(), OWNER)
            | flag(self.mode.is_some(), MODE)
            | flag(self.times.is_some(), TIMES);
        out.extend_from_slice(&flags.to_be_bytes());
        if let Some(size) = self.size {
            out.extend_from_slice(&size.to_be_bytes());
        }
        let pair = |(a, b): (u32, u32)| [a.to_be_bytes(), b.to_be_bytes()].concat();
        out.extend(self.owner.map(pair).unwrap_or_default());
        out.extend(self.mode.map(u32::to_be_bytes).into_iter().flatten());
        out.extend(self.times.map(pair).unwrap_or_default());
    }

    pub fn kind(&self) -> Kind {
        match self.mode.map(|mode| mode & 0o170_000) {
            Some(0o100_000) => Kind::File,
            Some(0o040_000) => Kind::Dir,
            Some(0o120_000) => Kind::Link,
            Some(0o010_000) => Kind::Fifo,
            Some(0o140_000) => Kind::Socket,
            Some(0o020_000) => Kind::Char,
            Some(0o060_000) => Kind::Block,
            _ => Kind::Unknown,
        }
    }

    pub fn mtime(&self) -> Time {
        Time { secs: self.times.map_or(0, |(_, modified)| i64::from(modified)), nanos: 0 }
    }

    /// Whether the modification time is known. Servers send the lower 32 bits of theirs: one from 2038 on may be one before 1970.
    pub fn has_mtime(&self) -> bool {
        self.times.is_some_and(|(_, modified)| i32::try_from(modified).is_ok())
    }
}

/// A time as the protocol carries it without doubt: whole seconds from 1970 to 2038, the nearest of these for one beyond.
pub fn seconds(time: Time) -> u32 {
    time.secs.clamp(0, LAST) as u32
}

/// Whether a time is one that [`seconds`] changes.
pub fn is_beyond(time: Time) -> bool {
    !(0..=LAST).contains(&time.secs)
}

const LAST: i64 = i32::MAX as i64;

/// Reads a packet from its front; every error means that the peer does not speak the protocol.
#[derive(Debug)]
pub struct Parser<'a>(pub &'a [u8]);

impl<'a> Parser<'a> {
    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub fn number(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    pub fn long(&mut self) -> Result<u64> {
        Ok(u64::from(self.number()?) << 32 | u64::from(self.number()?))
    }

    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.number()? as usize;
        self.take(length)
    }

    pub fn attrs(&mut self) -> Result<Attrs> {
        let flags = self.number()?;
        let mut attrs = Attrs::default();
        if flags & SIZE != 0 {
            // No file has more, and sums of what is within the bound cannot overflow.
            attrs.size = Some(self.long().and_then(|size| if size > MOST { Err(protocol_error("an impossible size")) } else { Ok(size) })?);
        }
        if flags & OWNER != 0 {
            attrs.owner = Some((self.number()?, self.number()?));
        }
        if flags & MODE != 0 {
            attrs.mode = Some(self.number()?);
        }
        if flags & TIMES != 0 {
            attrs.times = Some((self.number()?, self.number()?));
        }
        if flags & EXTENDED != 0 {
            for _ in 0..self.number()? {
                self.bytes()?;
                self.bytes()?;
            }
        }
        Ok(attrs)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        match self.0.split_at_checked(length) {
            Some((taken, rest)) => {
                self.0 = rest;
                Ok(taken)
            }
            None => Err(protocol_error("a packet is shorter than it says")),
        }
    }
}

/// The operation of an error that means that the peer does not speak the protocol; no other message explains it better.
pub const SPEAK: &str = "speak SFTP";

/// The peer violates the protocol: nothing that it sends can be trusted any more.
pub fn protocol_error(reason: &str) -> Error {
    let e = Error::new(ErrorKind::Broken, SPEAK).because(format!("protocol error: {reason}"));
    e.hint("try `sftp`, and ask the server's administrator")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both_ways(attrs: Attrs) -> Attrs {
        let mut out = Vec::new();
        Request::new(&mut out, kind::SETSTAT, 7).bytes(b"\xff name").attrs(&attrs).end();
        let mut from = Parser(&out);
        assert_eq!(from.number().unwrap() as usize, out.len() - 4);
        assert_eq!((from.byte().unwrap(), from.number().unwrap()), (kind::SETSTAT, 7));
        assert_eq!(from.bytes().unwrap(), b"\xff name");
        let back = from.attrs().unwrap();
        assert_eq!(from.0, b"");
        back
    }

    #[test]
    fn attributes_go_both_ways_whichever_there_are() {
        for bits in 0..16 {
            let some = |bit: u32, n: u32| (bits & bit != 0).then_some(n);
            let attrs = Attrs {
                size: some(1, 9).map(|_| u64::MAX / 2 - 5),
                owner: some(2, 0).map(|_| (0o100_644, 0)),
                mode: some(4, 0o100_644),
                times: some(8, 0).map(|_| (0o100_644, 0)),
            };
            assert_eq!(both_ways(attrs), attrs, "{bits}");
        }
    }

    #[test]
    fn every_packet_that_is_cut_short_is_refused() {
        let mut out = Vec::new();
        let attrs = Attrs { size: Some(1), owner: Some((1, 2)), mode: Some(3), times: Some((4, 5)) };
        Request::new(&mut out, kind::OPEN, 1).bytes(b"name").number(3).attrs(&attrs).end();
        let read = |bytes: &[u8]| -> Result<Attrs> {
            let mut from = Parser(bytes);
            from.number()?;
            from.byte()?;
            from.number()?;
            from.bytes()?;
            from.number()?;
            from.attrs()
        };
        assert_eq!(read(&out).unwrap(), attrs);
        for end in 0..out.len() {
            assert_eq!(read(&out[..end]).unwrap_err().kind(), ErrorKind::Broken, "{end} of {}", out.len());
        }
    }

    #[test]
    fn a_length_beyond_the_packet_is_refused() {
        assert!(Parser(&[0xff, 0xff, 0xff, 0xff, 1]).bytes().is_err());
        // A count of extensions that is not there ends at the first of them.
        assert!(Parser(&[0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]).attrs().is_err());
        assert!(Parser(&[0, 0, 0, 1, 0x80, 0, 0, 0, 0, 0, 0, 0]).attrs().is_err());
    }

    #[test]
    fn times_outside_the_protocols_range_stay_at_its_ends() {
        assert_eq!(seconds(Time { secs: -5, nanos: 0 }), 0);
        assert_eq!(seconds(Time { secs: 1 << 40, nanos: 0 }), i32::MAX as u32);
        assert_eq!(seconds(Time { secs: 1_700_000_000, nanos: 9 }), 1_700_000_000);
    }
}
