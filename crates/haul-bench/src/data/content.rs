//! The content of a file: bytes that depend on its seed and on their place, so that a misplaced piece is noticed.
//!
//! A counter through the finaliser of SplitMix64: one multiplication chain for eight bytes, several of which a processor has
//! under way at once, and any place can be had without those before it.

use std::ops::Range;

use crate::order::{mix, words};

/// The part that compresses is that of every block of this size, so that any compressor finds it.
const BLOCK: u64 = 4096;
/// Holes and data change at multiples of this: the block of most file systems times some, that a hole is worth a seek.
pub const STRIDE: u64 = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// Bytes of each block that do not compress; a multiple of eight.
    noise: u64,
    holes: u64,
}

impl Content {
    pub fn new(compressible: u32, sparse: u32) -> Content {
        let noise = (BLOCK * u64::from(100 - compressible.min(100)) / 100).next_multiple_of(8);
        Content { noise, holes: u64::from(sparse.min(100)) }
    }

    /// Fills `into` with what a file of this seed has from `at` on, zeros where it has holes.
    pub fn fill(&self, seed: u64, at: u64, into: &mut [u8]) {
        if self.holes == 0 {
            return self.data(seed, at, into);
        }
        let mut done = 0;
        while done < into.len() {
            let place = at + done as u64;
            let end = ((place / STRIDE + 1) * STRIDE - at).min(into.len() as u64) as usize;
            match self.is_hole(seed, place / STRIDE) {
                true => into[done..end].fill(0),
                false => self.data(seed, place, &mut into[done..end]),
            }
            done = end;
        }
    }

    fn data(&self, seed: u64, at: u64, into: &mut [u8]) {
        if self.noise == BLOCK {
            return words(at, into, |index| mix(seed.wrapping_add(index)));
        }
        let noise = self.noise / 8;
        words(at, into, |index| if index % (BLOCK / 8) < noise { mix(seed.wrapping_add(index)) } else { seed });
    }

    fn is_hole(&self, seed: u64, stride: u64) -> bool {
        self.holes_below(seed, stride + 1) > self.holes_below(seed, stride)
    }

    /// Evenly spread from a point that depends on the seed: small files are holes with the same probability.
    fn holes_below(&self, seed: u64, stride: u64) -> u64 {
        let phase = mix(seed) % 100;
        (stride + phase) * self.holes / 100 - phase * self.holes / 100
    }

    pub fn stored(&self, seed: u64, size: u64) -> u64 {
        if self.holes == 0 || size == 0 {
            return size;
        }
        let (whole, rest) = (size / STRIDE, size % STRIDE);
        let last = if rest > 0 && self.is_hole(seed, whole) { rest } else { 0 };
        size - self.holes_below(seed, whole) * STRIDE - last
    }

    /// Whether the length has to be set, because nothing is written at its end.
    pub fn ends_in_hole(&self, seed: u64, size: u64) -> bool {
        self.holes > 0 && size > 0 && self.is_hole(seed, (size - 1) / STRIDE)
    }

    /// The next piece of `range` that has to be written: whatever is before it is hole. `None` if nothing is left.
    pub fn next_data(&self, seed: u64, range: Range<u64>) -> Option<Range<u64>> {
        if self.holes == 0 || range.is_empty() {
            return (!range.is_empty()).then_some(range);
        }
        let strides = range.start / STRIDE..range.end.div_ceil(STRIDE);
        let first = strides.clone().find(|stride| !self.is_hole(seed, *stride))?;
        let end = (first..strides.end).find(|stride| self.is_hole(seed, *stride)).unwrap_or(strides.end);
        Some((first * STRIDE).max(range.start)..(end * STRIDE).min(range.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_piece_is_the_same_wherever_it_starts(seed: u64, at in 0u64..200_000, length in 0usize..200_000, percent in 0u32..=100, sparse in 0u32..=100) {
            let content = Content::new(percent, sparse);
            let mut whole = vec![1; at as usize + length];
            content.fill(seed, 0, &mut whole);
            let mut piece = vec![2; length];
            content.fill(seed, at, &mut piece);
            prop_assert!(piece == whole[at as usize..]);
        }

        #[test]
        fn what_is_stored_is_what_is_written(seed: u64, size in 0u64..2_000_000, sparse in 0u32..=100) {
            let content = Content::new(0, sparse);
            let (mut at, mut written) = (0, 0);
            while let Some(piece) = content.next_data(seed, at..size) {
                prop_assert!(piece.start >= at && piece.end <= size && !piece.is_empty());
                written += piece.end - piece.start;
                at = piece.end;
            }
            prop_assert_eq!(written, content.stored(seed, size));
        }
    }

    #[test]
    fn that_percentage_is_hole() {
        let size = 100 * STRIDE;
        for percent in [0, 1, 33, 50, 99, 100] {
            assert_eq!(Content::new(0, percent).stored(9, size), STRIDE * u64::from(100 - percent));
        }
        // Of many small files the same part is.
        let stored: u64 = (0..10_000).map(|seed| Content::new(0, 30).stored(mix(seed), 100)).sum();
        assert!((690_000..710_000).contains(&stored), "{stored}");
    }

    #[test]
    fn that_part_compresses() {
        for percent in [0, 25, 50, 75, 90] {
            let mut bytes = vec![0; 1 << 20];
            Content::new(percent, 0).fill(11, 0, &mut bytes);
            let packed = zstd::bulk::compress(&bytes, 3).unwrap().len() as f64 / bytes.len() as f64;
            let expected = 1.0 - f64::from(percent) / 100.0;
            assert!((packed - expected).abs() < 0.02, "{percent}: {packed}");
        }
    }
}
