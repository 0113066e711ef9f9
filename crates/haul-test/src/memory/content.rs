//! The bytes of one file, with holes: pages that were never written are not there and read as zeros.

use std::collections::BTreeMap;
use std::ops::Range;

const PAGE: u64 = 4096;

#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    size: u64,
    /// A page is as long as what was written into it, at most `PAGE`; the rest of it reads as zeros.
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Content {
    pub fn of(bytes: &[u8]) -> Self {
        let mut content = Content::default();
        content.write(0, bytes);
        content
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that take up memory; less than `size` if there are holes.
    pub fn stored(&self) -> u64 {
        self.pages.values().map(|page| page.len() as u64).sum()
    }

    /// Fills `into` from `at` as far as the file goes and says how far that was.
    pub fn read(&self, at: u64, into: &mut [u8]) -> usize {
        let wanted = self.size.saturating_sub(at).min(into.len() as u64) as usize;
        let mut done = 0;
        while done < wanted {
            let position = at + done as u64;
            let inside = (position % PAGE) as usize;
            let length = (PAGE as usize - inside).min(wanted - done);
            let piece = &mut into[done..done + length];
            piece.fill(0);
            if let Some(page) = self.pages.get(&(position / PAGE))
                && let Some(bytes) = page.get(inside..)
            {
                let known = bytes.len().min(length);
                piece[..known].copy_from_slice(&bytes[..known]);
            }
            done += length;
        }
        wanted
    }

    pub fn all(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.size as usize];
        self.read(0, &mut bytes);
        bytes
    }

    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let position = at + done as u64;
            let inside = (position % PAGE) as usize;
            let length = (PAGE as usize - inside).min(bytes.len() - done);
            let page = self.pages.entry(position / PAGE).or_default();
            if page.len() < inside + length {
                page.resize(inside + length, 0);
            }
            page[inside..inside + length].copy_from_slice(&bytes[done..done + length]);
            done += length;
        }
        self.size = self.size.max(at + bytes.len() as u64);
    }

    /// Whole pages are given up, the rest is zeroed. The file grows to the end of `at` if it was shorter.
    pub fn hole(&mut self, at: Range<u64>) {
        let touched: Vec<u64> = self.pages.range(at.start / PAGE..at.end.div_ceil(PAGE)).map(|(index, _)| *index).collect();
        for index in touched {
            let start = at.start.max(index * PAGE) - index * PAGE;
            let end = at.end.min((index + 1) * PAGE) - index * PAGE;
            if start == 0 && end == PAGE {
                self.pages.remove(&index);
            } else if let Some(page) = self.pages.get_mut(&index) {
                let length = page.len();
                page[(start as usize).min(length)..(end as usize).min(length)].fill(0);
            }
        }
        self.size = self.size.max(at.end);
    }

    pub fn resize(&mut self, size: u64) {
        if size < self.size {
            self.pages.split_off(&size.div_ceil(PAGE));
            if let Some(page) = self.pages.get_mut(&(size / PAGE)) {
                page.truncate((size % PAGE) as usize);
            }
        }
        self.size = size;
    }

    /// The parts of `at` that hold data, neighbours joined.
    pub fn data(&self, at: Range<u64>) -> Vec<Range<u64>> {
        let mut found: Vec<Range<u64>> = Vec::new();
        for (index, page) in self.pages.range(at.start / PAGE..at.end.div_ceil(PAGE)) {
            let start = (index * PAGE).max(at.start);
            let end = (index * PAGE + page.len() as u64).min(at.end);
            match found.last_mut() {
                _ if start >= end => {}
                Some(last) if last.end == start => last.end = end,
                _ => found.push(start..end),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_reads_as_a_plain_vector_would() {
        let seed = 0x5eed_u64;
        let mut state = seed;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let (mut content, mut plain) = (Content::default(), Vec::<u8>::new());
        for step in 0..500 {
            let (at, length, fill) = (next(20_000), next(9_000), next(255) as u8 + 1);
            match next(4) {
                0 => {
                    content.resize(at);
                    plain.resize(at as usize, 0);
                }
                what => {
                    let end = (at + length) as usize;
                    plain.resize(plain.len().max(end), 0);
                    plain[at as usize..end].fill(if what == 1 { 0 } else { fill });
                    match what {
                        1 => content.hole(at..at + length),
                        _ => {
                            content.write(at, &vec![fill; length as usize]);
                            content.resize(plain.len() as u64);
                        }
                    }
                }
            }
            assert_eq!(content.all(), plain, "seed {seed:#x}, step {step}");
            let mut bare = plain.clone();
            for range in content.data(0..content.size()) {
                bare[range.start as usize..range.end as usize].fill(0);
            }
            assert!(bare.iter().all(|b| *b == 0), "data outside of what `data` says: seed {seed:#x}, step {step}");
        }
    }

    #[test]
    fn a_terabyte_of_holes_costs_nothing() {
        let mut content = Content::default();
        content.write(1 << 40, b"end");
        assert_eq!((content.size(), content.stored()), ((1 << 40) + 3, 3));
        assert_eq!(content.data(0..content.size()), vec![Range { start: 1 << 40, end: (1 << 40) + 3 }]);
    }
}
