//! The frames of the log: how records follow one another in the file.

use std::io::{self, Read};

use super::record::Record;
use crate::fill::fill;

/// The first bytes of every log. The byte at [`VOID_AT`] becomes 1 when a run that cannot append any more abandons a write: then
/// no receipt in the log counts.
pub(super) const HEADER: [u8; 8] = *b"haulj1\0\n";
pub(super) const VOID_AT: u64 = 6;

/// The largest payload in bytes: far more than a bundle of the longest names, so that a garbage length is detected.
pub(super) const PAYLOAD_MOST: usize = 64 << 20;

const FRAME: usize = 8;

/// Appends one frame to `buffer`. `false`, and the buffer as before, if the payload is empty or too large.
pub(super) fn frame(buffer: &mut Vec<u8>, payload: impl FnOnce(&mut Vec<u8>)) -> bool {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; FRAME]);
    payload(buffer);
    let length = buffer.len() - start - FRAME;
    if length == 0 || length > PAYLOAD_MOST {
        buffer.truncate(start);
        return false;
    }
    let crc = crc32c::crc32c(&buffer[start + FRAME..]);
    buffer[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
    buffer[start + 4..start + FRAME].copy_from_slice(&crc.to_le_bytes());
    true
}

/// Reads records up to the first frame that does not hold.
#[derive(Debug)]
pub(super) struct Reader<R> {
    from: R,
    payload: Vec<u8>,
    end: u64,
    void: bool,
    done: bool,
}

impl<R: Read> Reader<R> {
    /// `from` should be buffered. A foreign or torn header makes an empty log.
    pub fn new(mut from: R) -> io::Result<Self> {
        let mut header = [0; HEADER.len()];
        let got = fill(&mut from, &mut header)?;
        let void = header[VOID_AT as usize] == 1;
        header[VOID_AT as usize] &= !1;
        let holds = got == header.len() && header == HEADER;
        let end = if holds { HEADER.len() as u64 } else { 0 };
        Ok(Reader { from, payload: Vec::new(), end, void: holds && void, done: !holds })
    }

    /// Whether the receipts are not to be trusted.
    pub fn is_void(&self) -> bool {
        self.void
    }

    /// Where the last good record ends, in bytes from the start of the log; 0 if there is not even a header.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The next record; `None` from the end or the first bad frame on. An error is the file system's own.
    pub fn next(&mut self) -> io::Result<Option<Record>> {
        if self.done {
            return Ok(None);
        }
        let record = self.read()?;
        self.done = record.is_none();
        Ok(record)
    }

    fn read(&mut self) -> io::Result<Option<Record>> {
        let mut head = [0; FRAME];
        if fill(&mut self.from, &mut head)? < FRAME {
            return Ok(None);
        }
        let [a, b, c, d, crc @ ..] = head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length == 0 || length > PAYLOAD_MOST {
            return Ok(None);
        }
        self.payload.clear();
        // Grows with what is there, not with what the length claims.
        self.from.by_ref().take(length as u64).read_to_end(&mut self.payload)?;
        if self.payload.len() < length || crc32c::crc32c(&self.payload) != u32::from_le_bytes(crc) {
            return Ok(None);
        }
        let record = Record::decode(&self.payload);
        if record.is_some() {
            self.end += (FRAME + length) as u64;
        }
        Ok(record)
    }
}
