//! A signature on the wire: form and base-two logarithm of the average in a byte each, then for each chunk its length in 4 bytes,
//! little endian, and its hash. It is sent while it is made, in parts of any length.

use super::{CdcChunk, HASH, Signature, cut, is_average};
use crate::error::{Error, ErrorKind, Result};

/// The first byte: the version of gear table, rule of cuts, hash and form.
const FORM: u8 = 1;

/// Bytes of a chunk.
pub const ENTRY: usize = 4 + HASH;

/// What comes before the chunks.
pub fn header(average: u32) -> [u8; 2] {
    [FORM, average.trailing_zeros() as u8]
}

/// Appends some chunks.
pub fn encode(chunks: &[CdcChunk], to: &mut Vec<u8>) {
    for chunk in chunks {
        to.extend(chunk.length.to_le_bytes());
        to.extend(chunk.hash);
    }
}

/// A signature from a hostile peer, as its parts arrive. Takes at most as much memory as they.
#[derive(Debug)]
pub struct Incoming {
    signature: Signature,
    has_header: bool,
    /// The beginning of what is still cut off.
    cut: Vec<u8>,
}

impl Incoming {
    /// For a signature in chunks of `average`, which is what the peer was asked for.
    pub fn new(average: u32) -> Incoming {
        Incoming { signature: Signature { average, size: 0, chunks: Vec::new() }, has_header: false, cut: Vec::new() }
    }

    /// Takes the next bytes and gives the chunks that are complete with them.
    ///
    /// # Errors
    /// `Unsupported`: a form that this version does not know; the whole file can still be moved. `Broken`: no signature, or another
    /// average.
    pub fn push(&mut self, bytes: &[u8]) -> Result<&[CdcChunk]> {
        let before = self.signature.chunks.len();
        self.cut.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.cut);
        let mut rest = &bytes[..];
        if !self.has_header
            && let Some((&[form, logarithm], entries)) = rest.split_first_chunk()
        {
            self.check_header(form, logarithm)?;
            (self.has_header, rest) = (true, entries);
        }
        if self.has_header {
            let (entries, cut) = rest.as_chunks::<ENTRY>();
            for entry in entries {
                self.take(entry)?;
            }
            rest = cut;
        }
        self.cut = rest.to_vec();
        Ok(&self.signature.chunks[before..])
    }

    /// The whole signature, of `size` bytes. `Changed`: it is that of another size, and the whole file can still be moved. `Broken`:
    /// the last chunk is cut off.
    pub fn finish(self, size: u64) -> Result<Signature> {
        if !self.has_header {
            return Err(broken("it is too short"));
        }
        if !self.cut.is_empty() {
            return Err(broken("its last chunk is cut off"));
        }
        if self.signature.size != size {
            let reason = format!("the other end made a signature of {} bytes of a file of {size}", self.signature.size);
            return Err(Error::new(ErrorKind::Changed, "compare").because(reason));
        }
        Ok(self.signature)
    }

    fn check_header(&self, form: u8, logarithm: u8) -> Result<()> {
        if form != FORM {
            return Err(Error::new(ErrorKind::Unsupported, "compare").because("the other end makes signatures of another form"));
        }
        if !is_average(self.signature.average) || u32::from(logarithm) != self.signature.average.trailing_zeros() {
            return Err(broken("its chunks are not of the size asked for"));
        }
        Ok(())
    }

    fn take(&mut self, entry: &[u8; ENTRY]) -> Result<()> {
        let (length, hash) = entry.split_first_chunk().expect("an entry begins with 4 bytes of length");
        let length = u32::from_le_bytes(*length);
        let average = self.signature.average;
        // Only the end of the file makes a chunk shorter than the least.
        let follows_short = self.signature.chunks.last().is_some_and(|last| last.length < cut::least(average));
        if follows_short || !(1..=cut::most(average)).contains(&length) {
            return Err(broken("a chunk is too short or too long"));
        }
        self.signature.chunks.push(CdcChunk { hash: hash.try_into().expect("the rest of an entry is the hash"), length });
        self.signature.size = self.signature.size.saturating_add(u64::from(length));
        Ok(())
    }
}

fn broken(reason: &str) -> Error {
    Error::new(ErrorKind::Broken, "compare").because(format!("the other end sent no signature: {reason}"))
}
