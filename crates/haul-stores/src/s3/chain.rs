//! Whether what was read has the MD5 that an ETag says: of the whole, or of the parts that it was uploaded in. MD5s do not
//! combine, so each piece has to be seen from its start to its end; what was read in another order is shown afterwards.

use std::collections::BTreeMap;
use std::ops::Range;

use super::checksum::{Algorithm, Kind, Running, Stored, Value, composite};

/// The MD5 of an object, and how much of its pieces was seen.
#[derive(Debug)]
pub(crate) struct Chain {
    expected: Value,
    size: u64,
    /// Bytes of a piece, all but the last: the whole object where its ETag is the MD5 of its content.
    piece: u64,
    /// The ETag is the MD5 of the pieces' MD5s.
    composite: bool,
    algorithm: Algorithm,
    /// Of pieces that were begun: where they go on, and the MD5 up to there.
    fronts: BTreeMap<u64, (u64, Running)>,
    done: BTreeMap<u64, Value>,
}

/// A range on its way through a reader.
pub(crate) struct Link {
    at: u64,
    size: u64,
    piece: u64,
    algorithm: Algorithm,
    /// Where the stretch began that is being hashed; `None` until the next piece begins.
    open: Option<(u64, Running)>,
    seen: Vec<(Range<u64>, Running)>,
}

impl Chain {
    /// `part` is the size of the parts of an object that has several. `None` where the ETag cannot be that of parts of this size.
    pub fn new(stored: &Stored, size: u64, part: Option<u64>) -> Option<Chain> {
        let (piece, composite) = match stored.kind {
            Kind::Whole => (size, false),
            Kind::Composite(1) => (size, true),
            Kind::Composite(count) => (part.filter(|part| *part > 0 && size.div_ceil(*part) == u64::from(count))?, true),
        };
        (stored.algorithm() == Algorithm::Md5 && size > 0).then(|| Chain { piece, composite, ..Chain::whole(stored.value, size) })
    }

    /// Of content that has this digest as a whole, by any algorithm; `size` is not 0, or there is nothing to see.
    pub fn whole(expected: Value, size: u64) -> Chain {
        let algorithm = expected.algorithm();
        Chain { expected, size, piece: size.max(1), composite: false, algorithm, fronts: BTreeMap::new(), done: BTreeMap::new() }
    }

    pub fn piece(&self) -> u64 {
        self.piece
    }

    fn pieces(&self) -> u64 {
        self.size.div_ceil(self.piece)
    }

    fn end_of(&self, piece: u64) -> u64 {
        ((piece + 1) * self.piece).min(self.size)
    }

    pub fn link(&self, at: u64) -> Link {
        let open = match self.fronts.get(&(at / self.piece)) {
            Some((front, running)) => (*front == at).then(|| (at, running.clone())),
            None => at.is_multiple_of(self.piece).then(|| (at, self.algorithm.begin())),
        };
        Link { at, size: self.size, piece: self.piece, algorithm: self.algorithm, open, seen: Vec::new() }
    }

    pub fn take(&mut self, seen: Vec<(Range<u64>, Running)>) {
        for (range, running) in seen {
            let piece = range.start / self.piece;
            let front = self.fronts.get(&piece).map_or(piece * self.piece, |(front, _)| *front);
            if self.done.contains_key(&piece) || front != range.start {
                continue;
            }
            if range.end == self.end_of(piece) {
                self.fronts.remove(&piece);
                self.done.insert(piece, running.finish());
            } else {
                self.fronts.insert(piece, (range.end, running));
            }
        }
    }

    /// The first bytes that were not seen, up to the end of their piece.
    pub fn gap(&self) -> Option<Range<u64>> {
        // Pieces that are done are few in front of the first that is not, or all.
        let piece = (0..self.pieces()).find(|piece| !self.done.contains_key(piece))?;
        let from = self.fronts.get(&piece).map_or(piece * self.piece, |(front, _)| *front);
        Some(from..self.end_of(piece))
    }

    /// Whether they are the bytes that are stored; `None` while some were not seen.
    pub fn verdict(&self) -> Option<bool> {
        if self.done.len() as u64 != self.pieces() {
            return None;
        }
        let found = if self.composite { composite(self.done.values().copied())?.0 } else { *self.done.get(&0)? };
        Some(found == self.expected)
    }
}

impl Link {
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
            self.seen.push((from..self.at, running));
        }
    }

    /// The stretches that were hashed.
    pub fn finish(mut self) -> Vec<(Range<u64>, Running)> {
        self.cut();
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content() -> Vec<u8> {
        (0..10_000u32).map(|i| (i % 251) as u8).collect()
    }

    fn read(chain: &mut Chain, content: &[u8], range: Range<usize>) {
        let mut link = chain.link(range.start as u64);
        content[range].chunks(700).for_each(|bytes| link.update(bytes));
        chain.take(link.finish());
    }

    fn whole(content: &[u8]) -> Chain {
        let stored = Stored { value: Algorithm::Md5.of(content), kind: Kind::Whole, etag: true };
        Chain::new(&stored, content.len() as u64, None).expect("it has an MD5")
    }

    #[test]
    fn a_whole_is_seen_from_its_start_to_its_end() {
        let content = content();
        let mut chain = whole(&content);
        read(&mut chain, &content, 5000..10_000);
        read(&mut chain, &content, 0..3000);
        assert_eq!((chain.gap(), chain.verdict()), (Some(3000..10_000), None));
        read(&mut chain, &content, 3000..5000);
        // What is read twice counts once.
        read(&mut chain, &content, 3000..5000);
        read(&mut chain, &content, 5000..10_000);
        assert_eq!((chain.gap(), chain.verdict()), (None, Some(true)));
        let mut damaged = content.clone();
        damaged[9_999] ^= 1;
        let mut chain = whole(&content);
        read(&mut chain, &damaged, 0..10_000);
        assert_eq!(chain.verdict(), Some(false));
    }

    #[test]
    fn parts_are_seen_in_any_order_and_those_that_were_cut_are_shown_again() {
        let content = content();
        let md5s = content.chunks(3000).map(|part| Algorithm::Md5.of(part));
        let (value, count) = composite(md5s).expect("parts");
        let stored = Stored { value, kind: Kind::Composite(count), etag: true };
        assert!(Chain::new(&stored, 10_000, None).is_none(), "without the size of parts nothing can be said");
        assert!(Chain::new(&stored, 10_000, Some(2000)).is_none(), "that would be five parts");
        let mut chain = Chain::new(&stored, 10_000, Some(3000)).expect("sizes are known");
        for range in [4096..8192, 8192..10_000, 0..4096] {
            read(&mut chain, &content, range);
        }
        // The first part passed whole, the second in the wrong order, of the third the beginning, the last whole.
        assert_eq!(chain.gap(), Some(4096..6000));
        while let Some(gap) = chain.gap() {
            read(&mut chain, &content, gap.start as usize..gap.end as usize);
        }
        assert_eq!(chain.verdict(), Some(true));
    }
}
