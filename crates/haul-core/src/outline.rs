//! What two versions of a large file have in common, found out from an outline of each.
//!
//! An [`Outline`] is the file cut into pieces, with length and hash of each. Where to cut depends on the content
//! around the cut and not on the offset, so bytes inserted at the front change the first piece or two and the rest
//! of the outline stays as it was. Each end outlines the version that lies there, [`compare()`] says of every byte
//! of the new version whether the old one has it, and only what it lacks has to move.
//!
//! # Where pieces end
//!
//! As in FastCDC (Xia et al., USENIX ATC 2016; IEEE TPDS 31(9), 2020): a gear hash of the last 64 bytes rolls
//! along, and a piece ends behind a byte where certain bits of it are zero. The first half of the average length is
//! skipped; up to the average two bits more must be zero than the average asks for and behind it two fewer, which
//! keeps lengths near each other; four averages end a piece in any case. Random content comes in pieces of 1.19
//! averages; a run of equal bytes, such as zeros, in the longest ones.
//!
//! The cuts are part of the protocol between two versions of haul: another table or another rule makes outlines that
//! have nothing in common. A test pins them. That is why they are made here, in 100 lines, rather than by the
//! `fastcdc` crate, which is free to change them (5.0.0 did, for some sizes in one of its forms) and which wants a
//! whole piece in one buffer, up to 4 averages of it, where [`Outliner`] takes what was read and keeps none of it.
//! Speed does not decide: see below.
//!
//! # What is trusted
//!
//! That two pieces are equal is concluded from length and hash alone, so a collision would put wrong bytes into a
//! file. The hash is BLAKE3's first 24 bytes. Against accidents 16 would do. Against somebody who prepares two
//! pieces with one hash, and gets one into the old version and one into the new, 16 bytes stand for 2^64 hashes,
//! which money buys, 20 for 2^80, 24 for 2^96, which nobody has. The four bytes above 20 are 0.02 % of the file.
//!
//! # Figures
//!
//! One core with AVX-512, 1 GiB of random bytes in memory, average 16 KiB, pushed 1 MiB at a time:
//!
//! | | |
//! |---|---|
//! | outline | 1.93 GB/s; 1.40 with pieces of 8 KiB, 2.25 of 32 KiB, 2.75 of 1 MiB; 1.68 pushed 64 KiB at a time |
//! | `fastcdc` 5.0.0 (v2020, the same bounds) with BLAKE3 | 1.86 GB/s |
//! | the cuts alone | 4.1 GB/s; `fastcdc` 3.8 |
//! | BLAKE3 alone, of pieces as long as these | 3.4 GB/s; of 16 KiB sharp 7.9 |
//! | the outline's length | 55,151 pieces, 1.54 MB encoded, 0.144 % of the file |
//! | 1 % changed in 100 places and 10 bytes in front | 1.41 % to move, 1.70 % with both outlines; compared in 11 ms |
//!
//! BLAKE3 takes most of the time: it hashes 16 blocks of 1 KiB side by side, and few pieces are multiples of that.
//! Skipping a quarter of the average instead of half, as usual, costs a tenth of the speed and finds the same within
//! 3 % of what moves.

mod compare;
mod cut;

use crate::error::{Error, ErrorKind, Result};

pub use compare::{Part, compare, moved};
pub use cut::Outliner;

/// Bytes of a piece's hash.
pub const HASH: usize = 24;

/// Averages that an outline can be asked for: powers of two. The window of the gear hash has to fit into the bytes
/// skipped, and four averages into the length of a piece.
const AVERAGES: std::ops::RangeInclusive<u32> = 1 << 10..=1 << 28;

/// The first byte of an encoded outline. It stands for the table, the rule of the cuts, the hash and the form alike:
/// whoever changes one of them takes the next number.
const FORM: u8 = 1;

const HEADER: usize = 2;
const ENTRY: usize = 4 + HASH;

/// The average piece, in bytes, for a version of `size` bytes: a power of two from 16 KiB up to 256 MiB. Both ends
/// must use the same, so one of them chooses and tells the other.
///
/// 16 KiB up to 4 GiB, then so that random content has at most 2^18 pieces (7 MB encoded) up to 64 TiB. Shorter
/// pieces would find more of what many small changes left, but the outline, 0.14 % of the file at 16 KiB, doubles
/// with each halving.
pub fn piece_size(size: u64) -> u32 {
    const PIECES: u64 = 1 << 18;
    let wanted = size.div_ceil(PIECES).clamp(16 << 10, 1 << 28).next_power_of_two();
    u32::try_from(wanted).expect("it is at most 2^28")
}

/// A run of bytes between two cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Piece {
    /// The first 24 bytes of the content's BLAKE3.
    pub hash: [u8; HASH],
    /// In bytes, never 0.
    pub length: u32,
}

/// One version of a file as the pieces that it consists of. [`Outliner`] makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    average: u32,
    size: u64,
    pieces: Vec<Piece>,
}

impl Outline {
    /// The average that was asked for, in bytes. Outlines of different averages have next to nothing in common.
    pub fn average(&self) -> u32 {
        self.average
    }

    /// Bytes of the version: the sum of its pieces.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// In the order of the file; none for an empty one.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// For the wire: form and base-two logarithm of the average in a byte each, then for each piece its length
    /// in 4 bytes, little endian, and its hash.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + self.pieces.len() * ENTRY);
        bytes.extend([FORM, self.average.trailing_zeros() as u8]);
        for piece in &self.pieces {
            bytes.extend(piece.length.to_le_bytes());
            bytes.extend(piece.hash);
        }
        bytes
    }

    /// Takes an outline from a peer that may be hostile, for a file of `size` bytes and in pieces of `average`. What it
    /// returns adds up to `size` and takes at most as much memory as `bytes`.
    ///
    /// `Unsupported` if it is of a form that this version does not know, `Changed` if it is the outline of another
    /// size (the file grew or shrank), `Broken` if it is no outline or not of that average. With the first two the
    /// whole file can still be moved.
    pub fn decode(bytes: &[u8], average: u32, size: u64) -> Result<Outline> {
        let broken = |reason: &str| Error::new(ErrorKind::Broken, "compare").because(format!("the other end sent no outline: {reason}"));
        let Some((&[form, logarithm], entries)) = bytes.split_first_chunk::<HEADER>() else {
            return Err(broken("it is too short"));
        };
        if form != FORM {
            return Err(Error::new(ErrorKind::Unsupported, "compare").because("the other end outlines files in another way"));
        }
        if !is_average(average) || u32::from(logarithm) != average.trailing_zeros() {
            return Err(broken("its pieces are not of the size asked for"));
        }
        let (entries, rest) = entries.as_chunks::<ENTRY>();
        if !rest.is_empty() {
            return Err(broken("its last piece is cut off"));
        }
        let mut pieces = Vec::with_capacity(entries.len());
        let mut sum = 0;
        for (index, entry) in entries.iter().enumerate() {
            let (length, hash) = entry.split_first_chunk().expect("an entry begins with 4 bytes of length");
            let length = u32::from_le_bytes(*length);
            // Only the end of the file makes a piece shorter than the least.
            let least = if index + 1 == entries.len() { 1 } else { cut::least(average) };
            if !(least..=cut::most(average)).contains(&length) {
                return Err(broken("a piece is too short or too long"));
            }
            pieces.push(Piece { hash: hash.try_into().expect("the rest of an entry is the hash"), length });
            sum += u64::from(length);
        }
        if sum != size {
            let reason = format!("the other end outlined {sum} bytes of a file of {size}");
            return Err(Error::new(ErrorKind::Changed, "compare").because(reason));
        }
        Ok(Outline { average, size, pieces })
    }
}

fn is_average(average: u32) -> bool {
    average.is_power_of_two() && AVERAGES.contains(&average)
}
