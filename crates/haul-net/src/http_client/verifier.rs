//! Whether what was read has the digest that is stored: of the whole, or of the digests of its parts (composite).
//!
//! CRCs combine, so that ranges may come in any order. Others do not: each piece has to be seen from its start to its end, and
//! what was read in another order is shown afterwards.

use std::collections::BTreeMap;
use std::ops::Range;

use haul_core::error::{Error, Result};

use super::digest::{Algorithm, Running, Value, combine, composite};

/// The digest that is stored, and those of the ranges that were read.
#[derive(Debug)]
pub struct Verifier {
    expected: Value,
    size: u64,
    /// Bytes of a piece, all but the last: the whole where the digest is that of the content.
    piece: u64,
    composite: bool,
    /// Ranges by their start, none across the border of a piece. Only CRCs have several in a piece.
    seen: BTreeMap<u64, (u64, Value)>,
    /// Bytes in them.
    covered: u64,
    /// Pieces of other digests that were begun: where they go on, and the digest up to there.
    fronts: BTreeMap<u64, (u64, Running)>,
    mismatch: fn() -> Error,
}

/// A range on its way through a reader.
pub struct Watch {
    algorithm: Algorithm,
    at: u64,
    size: u64,
    piece: u64,
    /// Where the open stretch began; `None` until the next piece begins.
    open: Option<(u64, Running)>,
    done: Vec<(Range<u64>, Running)>,
}

impl Verifier {
    /// Of content of `size` bytes that has this digest as a whole. `mismatch` makes the error where it differs.
    pub fn whole(expected: Value, size: u64, mismatch: fn() -> Error) -> Verifier {
        let (seen, fronts) = Default::default();
        Verifier { expected, size, piece: size.max(1), composite: false, seen, covered: 0, fronts, mismatch }
    }

    /// The same of the digest of the digests of parts of `part` bytes, which are `count`; `None` if they cannot be so many.
    pub fn of_parts(self, part: Option<u64>, count: u32) -> Option<Verifier> {
        let piece = part.filter(|part| *part > 0 && self.size.div_ceil(*part) == u64::from(count))?;
        Some(Verifier { piece, composite: true, ..self })
    }

    fn pieces(&self) -> u64 {
        self.size.div_ceil(self.piece)
    }

    fn end_of(&self, piece: u64) -> u64 {
        ((piece + 1) * self.piece).min(self.size)
    }

    fn combines(&self) -> bool {
        self.expected.algorithm().combines()
    }

    pub fn watch(&self, at: u64) -> Watch {
        let algorithm = self.expected.algorithm();
        let open = match self.fronts.get(&(at / self.piece)) {
            Some((front, running)) => (*front == at).then(|| (at, running.clone())),
            None => (self.combines() || at.is_multiple_of(self.piece)).then(|| (at, algorithm.begin())),
        };
        Watch { algorithm, at, size: self.size, piece: self.piece, open, done: Vec::new() }
    }

    pub fn take(&mut self, watch: Watch) {
        for (range, running) in watch.finish() {
            if self.combines() {
                self.add(range, running.finish());
                continue;
            }
            let piece = range.start / self.piece;
            let begin = piece * self.piece;
            let front = self.fronts.get(&piece).map_or(begin, |(front, _)| *front);
            if self.seen.contains_key(&begin) || front != range.start {
                continue;
            }
            if range.end == self.end_of(piece) {
                self.fronts.remove(&piece);
                self.add(begin..range.end, running.finish());
            } else {
                self.fronts.insert(piece, (range.end, running));
            }
        }
    }

    fn add(&mut self, range: Range<u64>, value: Value) {
        self.covered += range.end - range.start;
        if let Some((end, _)) = self.seen.insert(range.start, (range.end, value)) {
            self.covered -= end - range.start;
        }
    }

    /// The pieces that have to be seen from start to end, where there are several.
    pub fn checksum_block(&self) -> Option<u64> {
        (!self.combines() && self.piece < self.size).then_some(self.piece)
    }

    /// The first bytes that were not seen in order, up to the end of their piece.
    pub fn unverified(&self) -> Option<Range<u64>> {
        // Pieces that are done are few in front of the first that is not, or all.
        let piece = (0..self.pieces()).filter(|_| !self.combines()).find(|piece| !self.seen.contains_key(&(piece * self.piece)))?;
        let from = self.fronts.get(&piece).map_or(piece * self.piece, |(front, _)| *front);
        Some(from..self.end_of(piece))
    }

    fn digest_of(&self, piece: u64) -> Option<Value> {
        let (mut at, mut value) = *self.seen.get(&(piece * self.piece))?;
        while at < self.end_of(piece) {
            let (end, next) = *self.seen.get(&at)?;
            value = combine(value, next, end - at)?;
            at = end;
        }
        (at == self.end_of(piece)).then_some(value)
    }

    /// Whether they are the bytes that are stored; `None` while some were not seen.
    pub fn verdict(&self) -> Option<bool> {
        if self.covered < self.size {
            return None;
        }
        let digests = (0..self.pieces()).map(|piece| self.digest_of(piece)).collect::<Option<Vec<_>>>()?;
        let found = match digests[..] {
            [] => self.expected.algorithm().of(b""),
            [one] if !self.composite => one,
            _ => composite(digests)?.0,
        };
        Some(found == self.expected)
    }

    /// # Errors
    /// All was seen and is not what is stored.
    pub fn check(&self) -> Result<()> {
        if self.verdict() == Some(false) { Err((self.mismatch)()) } else { Ok(()) }
    }
}

impl Watch {
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let end = ((self.at / self.piece + 1) * self.piece).min(self.size.max(self.at + 1));
            let count = bytes.len().min(usize::try_from(end - self.at).unwrap_or(usize::MAX));
            if let Some((_, running)) = &mut self.open {
                running.update(&bytes[..count]);
            }
            self.at += count as u64;
            bytes = &bytes[count..];
            if self.at == end {
                self.cut();
                self.open = Some((self.at, self.algorithm.begin()));
            }
        }
    }

    fn cut(&mut self) {
        if let Some((from, running)) = self.open.take()
            && from < self.at
        {
            self.done.push((from..self.at, running));
        }
    }

    /// The stretches that were hashed.
    fn finish(mut self) -> Vec<(Range<u64>, Running)> {
        self.cut();
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::error::ErrorKind;

    const SIZE: u64 = 10_000;

    fn content() -> Vec<u8> {
        (0..10_000u32).map(|i| (i % 251) as u8).collect()
    }

    fn mismatch() -> Error {
        Error::new(ErrorKind::Corrupt, "read")
    }

    fn read(verifier: &mut Verifier, content: &[u8], ranges: &[(usize, usize)]) {
        for (start, end) in ranges {
            let mut watch = verifier.watch(*start as u64);
            content[*start..*end].chunks(700).for_each(|bytes| watch.update(bytes));
            verifier.take(watch);
        }
    }

    #[test]
    fn crcs_of_ranges_in_any_order_make_the_whole() {
        let content = content();
        for algorithm in [Algorithm::Crc64Nvme, Algorithm::Crc32c, Algorithm::Crc32] {
            let mut verifier = Verifier::whole(algorithm.of(&content), SIZE, mismatch);
            read(&mut verifier, &content, &[(5000, 10_000), (0, 3000)]);
            assert_eq!((verifier.verdict(), verifier.unverified(), verifier.checksum_block()), (None, None, None));
            read(&mut verifier, &content, &[(3000, 5000)]);
            assert_eq!(verifier.verdict(), Some(true));
            let mut damaged = content.clone();
            damaged[4321] ^= 1;
            read(&mut verifier, &damaged, &[(3000, 5000)]);
            assert!(verifier.verdict() == Some(false) && verifier.check().is_err());
        }
    }

    #[test]
    fn a_whole_is_seen_from_its_start_to_its_end() {
        let content = content();
        let new = || Verifier::whole(Algorithm::Md5.of(&content), SIZE, mismatch);
        let mut verifier = new();
        read(&mut verifier, &content, &[(5000, 10_000), (0, 3000)]);
        assert_eq!((verifier.unverified(), verifier.verdict()), (Some(3000..10_000), None));
        // What is read twice counts once.
        read(&mut verifier, &content, &[(3000, 5000), (3000, 5000), (5000, 10_000)]);
        assert_eq!((verifier.unverified(), verifier.verdict()), (None, Some(true)));
        let mut damaged = content.clone();
        damaged[9_999] ^= 1;
        let mut verifier = new();
        read(&mut verifier, &damaged, &[(0, 10_000)]);
        assert_eq!(verifier.verdict(), Some(false));
        for (of, verdict) in [(&b""[..], true), (b"x", false)] {
            assert_eq!(Verifier::whole(Algorithm::Md5.of(of), 0, mismatch).verdict(), Some(verdict));
        }
    }

    #[test]
    fn parts_are_seen_in_any_order_and_those_that_were_cut_are_shown_again() {
        let content = content();
        for algorithm in [Algorithm::Md5, Algorithm::Crc32c] {
            let (value, count) = composite(content.chunks(3000).map(|part| algorithm.of(part))).expect("parts");
            let new = |part| Verifier::whole(value, SIZE, mismatch).of_parts(part, count);
            assert!(new(None).is_none(), "without the size of parts nothing can be said");
            assert!(new(Some(2000)).is_none(), "that would be five parts");
            let mut verifier = new(Some(3000)).expect("sizes are known");
            read(&mut verifier, &content, &[(4096, 8192), (8192, 10_000), (0, 4096)]);
            if algorithm == Algorithm::Md5 {
                // The first part passed whole, the second in the wrong order, of the third the beginning, the last whole.
                assert_eq!((verifier.unverified(), verifier.checksum_block()), (Some(4096..6000), Some(3000)));
            }
            while let Some(gap) = verifier.unverified() {
                read(&mut verifier, &content, &[(gap.start as usize, gap.end as usize)]);
            }
            assert_eq!(verifier.verdict(), Some(true));
        }
    }
}
