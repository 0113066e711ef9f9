//! The bytes of a file: a pattern computed from its name, so that any part can be verified without being stored.
//!
//! One block of noise is shared by all. Each record of each file begins at another place of it, so that a record of another
//! file, another place or an earlier version of the same file is seen. Nothing is computed while the clock runs: a record is
//! a slice of the noise. The noise does not compress; two records in 65,536 are the same, at the same size.

use crate::order::mix;

/// Different places at which a record may begin.
const SPREAD: usize = 64 << 10;

#[derive(Debug)]
pub struct Pattern {
    noise: Box<[u8]>,
    record: usize,
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Of the bytes of a thread's file, which differ by how often it was written over.
pub fn seed(thread: u32, index: u64, version: u32) -> u64 {
    mix(index.wrapping_mul(GOLDEN) ^ u64::from(thread) ^ (u64::from(version) << 32))
}

impl Pattern {
    /// With records of at most `record` bytes.
    pub fn new(record: usize) -> Pattern {
        let record = record.max(1);
        let words = (record + SPREAD).div_ceil(8);
        let noise: Vec<u8> = (1..=words as u64).flat_map(|at| mix(at.wrapping_mul(GOLDEN)).to_le_bytes()).collect();
        Pattern { noise: noise.into(), record }
    }

    /// Bytes that one call reads or writes at the most.
    pub fn record(&self) -> usize {
        self.record
    }

    /// The first `length` bytes of a record, of the record's size at the most.
    pub fn bytes(&self, seed: u64, number: u64, length: usize) -> &[u8] {
        let at = mix(seed.wrapping_add(number.wrapping_mul(GOLDEN))) as usize % SPREAD;
        &self.noise[at..at + length.min(self.record)]
    }

    /// The same for any part of a file: slices that follow each other.
    pub fn parts(&self, seed: u64, from: u64, to: u64) -> impl Iterator<Item = &[u8]> {
        let record = self.record as u64;
        let mut at = from;
        std::iter::from_fn(move || {
            let (number, skip) = (at / record, (at % record) as usize);
            let length = (record - skip as u64).min(to.checked_sub(at)?) as usize;
            at += length as u64;
            (length > 0).then(|| &self.bytes(seed, number, skip + length)[skip..])
        })
    }

    /// The first place where `read`, which begins at `from` in the file, is not what was written.
    pub fn wrong(&self, seed: u64, from: u64, read: &[u8]) -> Option<u64> {
        let mut at = 0;
        for part in self.parts(seed, from, from + read.len() as u64) {
            let got = &read[at..at + part.len()];
            if got != part {
                let place = got.iter().zip(part).position(|(a, b)| a != b).unwrap_or(0);
                return Some(from + (at + place) as u64);
            }
            at += part.len();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_bit_and_every_mistaken_identity_is_seen() {
        let pattern = Pattern::new(4096);
        let own = seed(3, 77, 0);
        let file: Vec<u8> = pattern.parts(own, 0, 10_000).flatten().copied().collect();
        for (from, to) in [(0, 10_000), (4095, 4097), (4096, 8192), (9999, 10_000), (5, 5)] {
            assert_eq!(pattern.wrong(own, from, &file[from as usize..to as usize]), None);
        }
        for at in [0, 4095, 4096, 9999] {
            let mut flipped = file.clone();
            flipped[at] ^= 0x10;
            assert_eq!(pattern.wrong(own, 0, &flipped), Some(at as u64));
        }
        for other in [seed(2, 77, 0), seed(3, 78, 0), seed(3, 77, 1)] {
            assert!(pattern.wrong(other, 0, &file).is_some(), "{other:?}");
        }
        // A record in the place of its neighbour.
        assert!(pattern.wrong(own, 0, &file[4096..8192]).is_some());
    }
}
