//! The bytes of a file: a pattern computed from its name, so that any part can be verified without being stored.
//!
//! One block of noise is shared by all. Each record of each file begins at another place of it, so that a record of another
//! file, another place or an earlier version of the same file is seen. Nothing is computed while the clock runs: a record is
//! a slice of the noise. The noise does not compress; two records in 65,536 are the same, at the same size.

use crate::order::mix;

/// Different places at which a record may begin.
const SPREAD: usize = 64 << 10;

/// Whose bytes: a thread's file, and how often it was written over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub thread: u32,
    pub index: u64,
    pub version: u32,
}

#[derive(Debug)]
pub struct Pattern {
    noise: Box<[u8]>,
    record: usize,
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

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
    pub fn bytes(&self, key: Key, number: u64, length: usize) -> &[u8] {
        let file = mix(key.index.wrapping_mul(GOLDEN) ^ u64::from(key.thread) ^ (u64::from(key.version) << 32));
        let at = mix(file.wrapping_add(number.wrapping_mul(GOLDEN))) as usize % SPREAD;
        &self.noise[at..at + length.min(self.record)]
    }

    /// The same for any part of a file: slices that follow each other.
    pub fn parts(&self, key: Key, from: u64, to: u64) -> impl Iterator<Item = &[u8]> {
        let record = self.record as u64;
        let mut at = from;
        std::iter::from_fn(move || {
            let (number, skip) = (at / record, (at % record) as usize);
            let length = (record - skip as u64).min(to.checked_sub(at)?) as usize;
            at += length as u64;
            (length > 0).then(|| &self.bytes(key, number, skip + length)[skip..])
        })
    }

    /// The first place where `read`, which begins at `from` in the file, is not what was written.
    pub fn wrong(&self, key: Key, from: u64, read: &[u8]) -> Option<u64> {
        let mut at = 0;
        for part in self.parts(key, from, from + read.len() as u64) {
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

    const KEY: Key = Key { thread: 3, index: 77, version: 0 };

    fn whole(pattern: &Pattern, key: Key, size: u64) -> Vec<u8> {
        pattern.parts(key, 0, size).flatten().copied().collect()
    }

    #[test]
    fn any_part_can_be_verified() {
        let pattern = Pattern::new(1000);
        let file = whole(&pattern, KEY, 4321);
        assert_eq!(file.len(), 4321);
        for (from, to) in [(0, 4321), (999, 1001), (1000, 2000), (4320, 4321), (5, 5)] {
            assert_eq!(pattern.parts(KEY, from, to).flatten().copied().collect::<Vec<_>>(), file[from as usize..to as usize]);
            assert_eq!(pattern.wrong(KEY, from, &file[from as usize..to as usize]), None);
        }
    }

    #[test]
    fn one_wrong_bit_and_every_mistaken_identity_is_seen() {
        let pattern = Pattern::new(4096);
        let file = whole(&pattern, KEY, 10_000);
        for at in [0, 4095, 4096, 9999] {
            let mut flipped = file.clone();
            flipped[at] ^= 0x10;
            assert_eq!(pattern.wrong(KEY, 0, &flipped), Some(at as u64));
        }
        for other in [Key { thread: 2, ..KEY }, Key { index: 78, ..KEY }, Key { version: 1, ..KEY }] {
            assert!(pattern.wrong(other, 0, &file).is_some(), "{other:?}");
        }
        // A record in the place of its neighbour.
        assert!(pattern.wrong(KEY, 0, &file[4096..8192]).is_some());
        assert!(pattern.wrong(KEY, 0, &[0; 4096]).is_some());
    }
}
