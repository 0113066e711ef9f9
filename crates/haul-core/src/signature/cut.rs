//! Where chunks end, and the making of a signature.

use super::{CdcChunk, Signature, is_average};
use crate::error::{Error, ErrorKind, Result};

/// Bytes that a gear hash remembers: one bit of shift for each.
const WINDOW: u32 = 64;

/// A pseudo-random number for each byte: the first 256 of SplitMix64 from state 0, shifted left by `shift`.
const fn gear(shift: u32) -> [u64; 256] {
    let mut table = [0; 256];
    let mut state = 0_u64;
    let mut index = 0;
    while index < table.len() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[index] = (mixed ^ (mixed >> 31)) << shift;
        index += 1;
    }
    table
}

static GEAR: [u64; 256] = gear(0);
/// For the first of two bytes that are taken in one step.
static GEAR_TWICE: [u64; 256] = gear(1);

/// The shortest chunk that does not end the file.
pub(super) fn least(average: u32) -> u32 {
    average / 2
}

pub(super) fn most(average: u32) -> u32 {
    average * 4
}

/// `bits` ones below the highest bit. High bits depend on most bytes; the highest is free so that [`scan`] can shift the mask.
fn mask(bits: u32) -> u64 {
    ((1 << bits) - 1) << (63 - bits)
}

/// Makes the [`Signature`] of one version from buffers of any size, of which it keeps nothing but the chunks.
pub struct SignatureBuilder {
    average: u32,
    /// What of the gear hash must be zero: up to the average, and behind it.
    strict: u64,
    loose: u64,
    /// The chunk at hand: bytes so far, and both hashes of them.
    length: u32,
    gear: u64,
    content: blake3::Hasher,
    size: u64,
    chunks: Vec<CdcChunk>,
}

impl std::fmt::Debug for SignatureBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignatureBuilder").field("average", &self.average).field("size", &self.size).finish_non_exhaustive()
    }
}

impl SignatureBuilder {
    /// `average` is what [`super::chunk_size`] gave at the end that chose it. `Unsupported` unless it is a power of two from
    /// 1 KiB to 256 MiB.
    pub fn new(average: u32) -> Result<SignatureBuilder> {
        if !is_average(average) {
            return Err(Error::new(ErrorKind::Unsupported, "compare").because(format!("no signature has chunks of {average} bytes")));
        }
        let bits = average.trailing_zeros();
        Ok(SignatureBuilder {
            average,
            strict: mask(bits + 2),
            loose: mask(bits - 2),
            length: 0,
            gear: 0,
            content: blake3::Hasher::new(),
            size: 0,
            chunks: Vec::new(),
        })
    }

    /// Takes the next bytes of the file.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while let Some(length) = self.cut(bytes) {
            let (end, next) = bytes.split_at(length);
            self.take(end);
            self.end_chunk();
            bytes = next;
        }
        self.take(bytes);
    }

    /// Those that have ended so far.
    pub fn chunks(&self) -> &[CdcChunk] {
        &self.chunks
    }

    /// The end of the file ends its last chunk.
    pub fn finish(mut self) -> Signature {
        if self.length > 0 {
            self.end_chunk();
        }
        Signature { average: self.average, size: self.size, chunks: self.chunks }
    }

    /// How many of `bytes` belong to the current chunk, `None` if it continues. The gear hash has forgotten earlier chunks when a
    /// chunk can first end.
    fn cut(&mut self, bytes: &[u8]) -> Option<usize> {
        let so_far = self.length;
        let until = |length: u32| (length.saturating_sub(so_far) as usize).min(bytes.len());
        let skipped = until(least(self.average) - WINDOW);
        let warm = until(least(self.average) - 1);
        let strict = until(self.average);
        let all = until(most(self.average));
        for &byte in &bytes[skipped..warm] {
            self.gear = (self.gear << 1).wrapping_add(GEAR[usize::from(byte)]);
        }
        if let Some(found) = scan(&mut self.gear, self.strict, &bytes[warm..strict]) {
            return Some(warm + found);
        }
        if let Some(found) = scan(&mut self.gear, self.loose, &bytes[strict..all]) {
            return Some(strict + found);
        }
        (so_far as usize + all == most(self.average) as usize).then_some(all)
    }

    fn take(&mut self, bytes: &[u8]) {
        self.content.update(bytes);
        self.length += u32::try_from(bytes.len()).expect("a chunk is shorter than 4 GiB");
    }

    fn end_chunk(&mut self) {
        let hash = *self.content.finalize().as_bytes().first_chunk().expect("BLAKE3 gives 32 bytes");
        self.chunks.push(CdcChunk { hash, length: self.length });
        self.size += u64::from(self.length);
        self.content.reset();
        self.length = 0;
    }
}

/// Rolls `gear` over `bytes` up to and with the first byte behind which all bits of `mask` are zero, and says how many
/// that are.
///
/// Four bytes a step, in two pairs. The hash is shifted once for a pair, so behind its first byte it is compared one bit to the
/// left; and what the bytes add is summed apart from the hash before them, for which nothing of the step waits. That takes 0.8 of
/// the time of byte by byte and finds the same. Within its callers it takes longer: too few registers are left.
#[inline(never)]
fn scan(gear: &mut u64, mask: u64, bytes: &[u8]) -> Option<usize> {
    let shifted = mask << 1;
    let pair = |first: u8, second: u8| {
        let one = GEAR_TWICE[usize::from(first)];
        (one, one.wrapping_add(GEAR[usize::from(second)]))
    };
    let mut hash = *gear;
    let (steps, last) = bytes.as_chunks::<4>();
    for (index, &[first, second, third, fourth]) in steps.iter().enumerate() {
        let ((one, two), (three, four)) = (pair(first, second), pair(third, fourth));
        let behind = [
            (hash << 2).wrapping_add(one) & shifted,
            (hash << 2).wrapping_add(two) & mask,
            (hash << 4).wrapping_add((two << 2).wrapping_add(three)) & shifted,
        ];
        let next = (hash << 4).wrapping_add((two << 2).wrapping_add(four));
        for (byte, bits) in behind.into_iter().enumerate() {
            if bits == 0 {
                return Some(4 * index + byte + 1);
            }
        }
        hash = next;
        if hash & mask == 0 {
            return Some(4 * index + 4);
        }
    }
    for (index, &byte) in last.iter().enumerate() {
        hash = (hash << 1).wrapping_add(GEAR[usize::from(byte)]);
        if hash & mask == 0 {
            return Some(bytes.len() - last.len() + index + 1);
        }
    }
    *gear = hash;
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Where the first chunk of `content` ends, as the module's documentation tells it.
    fn slow(content: &[u8], average: u32) -> usize {
        let bits = average.trailing_zeros();
        let ends = |length: usize| {
            let hash = content[..length]
                .iter()
                .rev()
                .take(64)
                .enumerate()
                .fold(0_u64, |sum, (age, &byte)| sum.wrapping_add(GEAR[usize::from(byte)] << age));
            let bits = if length <= average as usize { bits + 2 } else { bits - 2 };
            (hash << 1) >> (64 - bits) == 0
        };
        let all = content.len().min(most(average) as usize);
        (least(average) as usize..all).find(|&length| ends(length)).unwrap_or(all)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

        #[test]
        fn ends_where_the_slow_meaning_does(content in prop::collection::vec(any::<u8>(), 0..6_000), letters in 1_u8..=255, split in 0_usize..6_000) {
            let content: Vec<u8> = content.iter().map(|byte| byte % letters).collect();
            let mut builder = SignatureBuilder::new(1 << 10).unwrap();
            let (first, second) = content.split_at(split.min(content.len()));
            builder.push(first);
            builder.push(second);
            let mut rest = &content[..];
            for chunk in builder.finish().chunks() {
                prop_assert_eq!(chunk.length as usize, slow(rest, 1 << 10));
                let (this, next) = rest.split_at(chunk.length as usize);
                prop_assert!(blake3::hash(this).as_bytes().starts_with(&chunk.hash));
                rest = next;
            }
            prop_assert!(rest.is_empty());
        }
    }

    /// `WINDOW` bytes whose gear hash has so many zeros where it counts.
    fn window(zeros: u32) -> [u8; WINDOW as usize] {
        let random = |seed: u64| {
            let mut bytes = [0; WINDOW as usize];
            blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
            bytes
        };
        let hash = |bytes: &[u8]| bytes.iter().fold(0_u64, |hash, &byte| (hash << 1).wrapping_add(GEAR[usize::from(byte)]));
        (0..).map(random).find(|bytes| (hash(bytes) << 1).leading_zeros() == zeros).expect("there are such")
    }

    #[test]
    fn bounds_are_exact() {
        // Where the first chunk ends if the window ends there and zeros are around it.
        let first = |end: usize, zeros: u32| {
            let mut content = vec![0; 6_000];
            content[end - WINDOW as usize..end].copy_from_slice(&window(zeros));
            let mut builder = SignatureBuilder::new(1 << 10).unwrap();
            builder.push(&content);
            builder.chunks[0].length as usize
        };
        for (end, zeros, cut) in [
            (511, 12, false),
            (512, 12, true),
            (512, 11, false),
            (1024, 11, false),
            (1024, 12, true),
            (1025, 8, true),
            (1025, 7, false),
            (4095, 8, true),
            (4095, 7, false),
        ] {
            assert_eq!(first(end, zeros) == end, cut, "{zeros} zeros at {end}");
        }
    }

    #[test]
    fn equal_bytes_have_no_cuts() {
        for byte in 0..=255 {
            let lengths = |average: u32| {
                let mut builder = SignatureBuilder::new(average).unwrap();
                builder.push(&vec![byte; 9 * average as usize]);
                builder.finish().chunks.iter().map(|chunk| chunk.length / average).collect::<Vec<_>>()
            };
            assert_eq!(lengths(1 << 14), [4, 4, 1], "byte {byte}");
        }
    }
}
