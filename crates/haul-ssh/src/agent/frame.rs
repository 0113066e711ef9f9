//! Frames between two hauls: four bytes of length, one of kind, four of id, then the body.

use std::io::{self, Read, Write};

use haul_core::error::{Error, ErrorKind, Remedy, Result};

use super::wire::{Parser, protocol_error};
use crate::bounded::Bounded;

/// The longest frame that is accepted: a bundle and the results of its files.
pub const LONGEST: usize = (4 << 20) + (64 << 10);

/// Kinds of frames that are not requests.
pub mod kind {
    /// The whole answer, or the last part of it.
    pub const DONE: u8 = 1;
    pub const MORE: u8 = 2;
    pub const FAILED: u8 = 3;
    /// It has no id.
    pub const HEARTBEAT: u8 = 4;
    /// So many more parts of an answer may come.
    pub const CREDIT: u8 = 5;
    /// The rest of an answer is not wanted.
    pub const CANCEL: u8 = 6;
}

/// Bytes of kind and id.
pub const HEAD: usize = 5;

pub fn head(kind: u8, id: u32) -> [u8; HEAD] {
    let [a, b, c, d] = id.to_be_bytes();
    [kind, a, b, c, d]
}

/// The length of a frame with these parts behind its head.
pub fn length(parts: &[&[u8]]) -> usize {
    HEAD + parts.iter().map(|part| part.len()).sum::<usize>()
}

/// One frame as it came.
#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub id: u32,
    bytes: Vec<u8>,
}

impl Frame {
    /// `bytes`: kind, id and body.
    pub fn new(bytes: Vec<u8>) -> Result<Frame> {
        let Some((kind, id)) = bytes.first().copied().zip(bytes.get(1..).and_then(|rest| rest.first_chunk::<4>())) else {
            return Err(protocol_error("a frame without a head"));
        };
        Ok(Frame { kind, id: u32::from_be_bytes(*id), bytes })
    }

    pub fn body(&self) -> Parser<'_> {
        Parser(self.bytes.get(HEAD..).unwrap_or_default())
    }
}

/// Where frames go.
pub trait Output: Send {
    fn send(&mut self, head: [u8; HEAD], parts: &[&[u8]]) -> io::Result<()>;

    /// Whether a frame without a body would go out without a wait.
    fn is_ready(&self) -> bool;
}

/// Where frames come from; `None` at the end.
pub trait Input: Send {
    fn receive(&mut self) -> Result<Option<Frame>>;
}

/// Frames as they are: ssh encrypts them.
pub struct Plain<T>(pub T);

impl Output for Plain<Bounded> {
    fn send(&mut self, head: [u8; HEAD], parts: &[&[u8]]) -> io::Result<()> {
        let prefix = prefix(parts)?;
        write_all(&mut self.0, [&prefix[..], &head].into_iter().chain(parts.iter().copied()))
    }

    fn is_ready(&self) -> bool {
        self.0.is_ready()
    }
}

impl<T: Read + Send> Input for Plain<T> {
    fn receive(&mut self) -> Result<Option<Frame>> {
        receive(&mut |most, into| (&mut self.0).take(most as u64).read_to_end(into).map_err(|e| lost(&e.to_string())))
    }
}

/// What stands in front of a frame with these parts.
pub fn prefix(parts: &[&[u8]]) -> io::Result<[u8; 4]> {
    u32::try_from(length(parts)).map(u32::to_be_bytes).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Writes the slices, one behind the other, by as few calls as possible.
pub fn write_all<'a>(to: &mut dyn Write, slices: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
    let mut slices: Vec<io::IoSlice<'_>> = slices.map(io::IoSlice::new).collect();
    let mut left = &mut slices[..];
    while !left.is_empty() {
        match to.write_vectored(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => io::IoSlice::advance_slices(&mut left, count),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    to.flush()
}

/// Appends up to so many bytes of what comes next and returns how many; 0 at the end.
type Take<'a> = dyn FnMut(usize, &mut Vec<u8>) -> Result<usize> + 'a;

/// The next frame; `None` at the end.
pub fn receive(take: &mut Take<'_>) -> Result<Option<Frame>> {
    let mut prefix = Vec::with_capacity(4);
    if !take_all(take, 4, &mut prefix)? {
        return Ok(None);
    }
    let length = prefix.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    if !(HEAD..=LONGEST).contains(&length) {
        return Err(protocol_error("a frame of an impossible length"));
    }
    let mut bytes = Vec::with_capacity(length);
    if take_all(take, length, &mut bytes)? { Frame::new(bytes).map(Some) } else { Err(lost(CUT)) }
}

const CUT: &str = "it ended in the middle of a frame";

/// `false` if nothing comes any more.
fn take_all(take: &mut Take<'_>, count: usize, into: &mut Vec<u8>) -> Result<bool> {
    while into.len() < count {
        if take(count - into.len(), into)? == 0 {
            return if into.is_empty() { Ok(false) } else { Err(lost(CUT)) };
        }
    }
    Ok(true)
}

pub fn lost(reason: &str) -> Error {
    Error::new(ErrorKind::Broken, "receive").because(format!("the connection was lost: {reason}")).remedy_is(Remedy::Reconnect)
}
