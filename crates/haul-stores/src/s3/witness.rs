//! Whether what was read is what is stored: checksums of the ranges that went by, put together into the object's own.

use std::ops::Range;

use super::checksum::{self, Algorithm, Kind, Running, Stored, Value};

/// The checksum that an object says it has, and those of its ranges that were read.
#[derive(Debug)]
pub(super) struct Witness {
    algorithm: Algorithm,
    expected: Value,
    /// For a checksum of checksums: the size of the parts, all but the last, and their number.
    parts: Option<(u64, u32)>,
    size: u64,
    /// Ranges by their start, none of them across the border of a part.
    seen: std::collections::BTreeMap<u64, (u64, Value)>,
}

/// One range on its way through a reader.
pub(super) struct Watch {
    algorithm: Algorithm,
    part: Option<u64>,
    at: u64,
    running: Running,
    from: u64,
    pub(super) done: Vec<(Range<u64>, Value)>,
}

impl Witness {
    /// `None` where what the object says cannot be put together from ranges, or is not known.
    pub fn new(stored: &Stored, size: u64, first_part: Option<u64>) -> Option<Witness> {
        if !stored.algorithm().combines() {
            return None;
        }
        let parts = match stored.kind {
            Kind::Whole => None,
            Kind::Composite(count) => {
                let part = first_part.filter(|part| *part > 0 && size.div_ceil(*part) == u64::from(count))?;
                Some((part, count))
            }
        };
        Some(Witness { algorithm: stored.algorithm(), expected: stored.value, parts, size, seen: Default::default() })
    }

    pub fn watch(&self, from: u64) -> Watch {
        Watch {
            algorithm: self.algorithm,
            part: self.parts.map(|(part, _)| part),
            at: from,
            running: self.algorithm.begin(),
            from,
            done: Vec::new(),
        }
    }

    pub fn take(&mut self, seen: Vec<(Range<u64>, Value)>) {
        for (range, value) in seen {
            self.seen.insert(range.start, (range.end, value));
        }
    }

    /// `Some(false)` when every byte was read and they are not those that were stored; `None` when some were not read here.
    pub fn verdict(&self) -> Option<bool> {
        let whole = |range: Range<u64>| -> Option<Value> {
            let mut at = range.start;
            let mut value = self.algorithm.of(b"");
            while at < range.end {
                let (end, next) = self.seen.get(&at)?;
                value = checksum::combine(value, *next, end - at)?;
                at = *end;
            }
            (at == range.end).then_some(value)
        };
        let found = match self.parts {
            None => whole(0..self.size)?,
            Some((part, count)) => {
                let mut all = Vec::new();
                for i in 0..u64::from(count) {
                    all.extend_from_slice(whole(i * part..((i + 1) * part).min(self.size))?.as_bytes());
                }
                self.algorithm.of(&all)
            }
        };
        Some(found == self.expected)
    }
}

impl Watch {
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let until_border = self.part.map_or(u64::MAX, |part| part - self.at % part);
            let count = bytes.len().min(usize::try_from(until_border).unwrap_or(usize::MAX));
            self.running.update(&bytes[..count]);
            self.at += count as u64;
            bytes = &bytes[count..];
            if self.part.is_some_and(|part| self.at.is_multiple_of(part)) {
                self.cut();
            }
        }
    }

    fn cut(&mut self) {
        if self.at > self.from {
            let running = std::mem::replace(&mut self.running, self.algorithm.begin());
            self.done.push((self.from..self.at, running.finish()));
            self.from = self.at;
        }
    }

    /// The ranges that went by.
    pub fn finish(mut self) -> Vec<(Range<u64>, Value)> {
        self.cut();
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content() -> Vec<u8> {
        (0..10_000u32).map(|i| (i % 251) as u8).collect()
    }

    fn read(witness: &mut Witness, content: &[u8], ranges: impl IntoIterator<Item = Range<usize>>) {
        for range in ranges {
            let mut watch = witness.watch(range.start as u64);
            for piece in content[range.clone()].chunks(700) {
                watch.update(piece);
            }
            witness.take(watch.finish());
        }
    }

    #[test]
    fn ranges_in_any_order_make_the_whole() {
        let content = content();
        for algorithm in [Algorithm::Crc64Nvme, Algorithm::Crc32c, Algorithm::Crc32] {
            let stored = Stored { value: algorithm.of(&content), kind: Kind::Whole, etag: false };
            let mut witness = Witness::new(&stored, 10_000, None).expect("it combines");
            read(&mut witness, &content, [5000..10_000, 0..3000]);
            assert_eq!(witness.verdict(), None);
            read(&mut witness, &content, std::iter::once(3000..5000));
            assert_eq!(witness.verdict(), Some(true));
            let mut damaged = content.clone();
            damaged[4321] ^= 1;
            read(&mut witness, &damaged, std::iter::once(3000..5000));
            assert_eq!(witness.verdict(), Some(false));
        }
    }

    #[test]
    fn a_checksum_of_checksums_is_made_from_ranges_that_cross_parts() {
        let content = content();
        let algorithm = Algorithm::Crc32c;
        let parts: Vec<u8> = content.chunks(3000).flat_map(|part| algorithm.of(part).as_bytes().to_vec()).collect();
        let stored = Stored { value: algorithm.of(&parts), kind: Kind::Composite(4), etag: false };
        assert!(Witness::new(&stored, 10_000, None).is_none(), "without the size of parts nothing can be said");
        assert!(Witness::new(&stored, 10_000, Some(2000)).is_none(), "that would be five parts");
        let mut witness = Witness::new(&stored, 10_000, Some(3000)).expect("sizes are known");
        read(&mut witness, &content, [0..4096, 4096..8192, 8192..10_000]);
        assert_eq!(witness.verdict(), Some(true));
    }
}
