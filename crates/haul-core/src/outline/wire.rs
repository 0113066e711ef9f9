//! An outline on the wire: form and base-two logarithm of the average in a byte each, then for each piece its length in 4 bytes,
//! little endian, and its hash. It is sent while it is made, in parts of any length.

use super::{HASH, Outline, Piece, cut, is_average};
use crate::error::{Error, ErrorKind, Result};

/// The first byte: the version of gear table, rule of cuts, hash and form.
const FORM: u8 = 1;

/// Bytes of a piece.
pub const ENTRY: usize = 4 + HASH;

/// What comes before the pieces.
pub fn header(average: u32) -> [u8; 2] {
    [FORM, average.trailing_zeros() as u8]
}

/// Appends some pieces.
pub fn encode(pieces: &[Piece], to: &mut Vec<u8>) {
    for piece in pieces {
        to.extend(piece.length.to_le_bytes());
        to.extend(piece.hash);
    }
}

/// An outline from a hostile peer, as its parts arrive. Takes at most as much memory as they.
#[derive(Debug)]
pub struct Incoming {
    outline: Outline,
    has_header: bool,
    /// The beginning of what is still cut off.
    cut: Vec<u8>,
}

impl Incoming {
    /// For an outline in pieces of `average`, which is what the peer was asked for.
    pub fn new(average: u32) -> Incoming {
        Incoming { outline: Outline { average, size: 0, pieces: Vec::new() }, has_header: false, cut: Vec::new() }
    }

    /// Takes the next bytes and gives the pieces that are complete with them.
    ///
    /// # Errors
    /// `Unsupported`: a form that this version does not know; the whole file can still be moved. `Broken`: no outline, or another
    /// average.
    pub fn push(&mut self, bytes: &[u8]) -> Result<&[Piece]> {
        let before = self.outline.pieces.len();
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
        Ok(&self.outline.pieces[before..])
    }

    /// The whole outline, of `size` bytes. `Changed`: it is that of another size, and the whole file can still be moved. `Broken`:
    /// the last piece is cut off.
    pub fn finish(self, size: u64) -> Result<Outline> {
        if !self.has_header {
            return Err(broken("it is too short"));
        }
        if !self.cut.is_empty() {
            return Err(broken("its last piece is cut off"));
        }
        if self.outline.size != size {
            let reason = format!("the other end outlined {} bytes of a file of {size}", self.outline.size);
            return Err(Error::new(ErrorKind::Changed, "compare").because(reason));
        }
        Ok(self.outline)
    }

    fn check_header(&self, form: u8, logarithm: u8) -> Result<()> {
        if form != FORM {
            return Err(Error::new(ErrorKind::Unsupported, "compare").because("the other end outlines files in another way"));
        }
        if !is_average(self.outline.average) || u32::from(logarithm) != self.outline.average.trailing_zeros() {
            return Err(broken("its pieces are not of the size asked for"));
        }
        Ok(())
    }

    fn take(&mut self, entry: &[u8; ENTRY]) -> Result<()> {
        let (length, hash) = entry.split_first_chunk().expect("an entry begins with 4 bytes of length");
        let length = u32::from_le_bytes(*length);
        let average = self.outline.average;
        // Only the end of the file makes a piece shorter than the least.
        let follows_short = self.outline.pieces.last().is_some_and(|last| last.length < cut::least(average));
        if follows_short || !(1..=cut::most(average)).contains(&length) {
            return Err(broken("a piece is too short or too long"));
        }
        self.outline.pieces.push(Piece { hash: hash.try_into().expect("the rest of an entry is the hash"), length });
        self.outline.size = self.outline.size.saturating_add(u64::from(length));
        Ok(())
    }
}

fn broken(reason: &str) -> Error {
    Error::new(ErrorKind::Broken, "compare").because(format!("the other end sent no outline: {reason}"))
}
