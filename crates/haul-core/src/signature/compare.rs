//! What of the new version the old one has.

use std::collections::BTreeSet;
use std::ops::Range;

use super::CdcChunk;

/// Some bytes of the new version, never none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The old version has them from offset `old` on.
    Same { old: u64, at: Range<u64> },
    /// They have to come from the new version.
    Move { at: Range<u64> },
    /// The old version may have them behind the end of its signature so far.
    Open { at: Range<u64> },
}

impl Part {
    /// What of it is in `range`, which it overlaps.
    pub fn within(&self, range: &Range<u64>) -> Part {
        let at = self.at().start.max(range.start)..self.at().end.min(range.end);
        match self {
            Part::Same { old, at: whole } => Part::Same { old: old + (at.start - whole.start), at },
            Part::Move { .. } => Part::Move { at },
            Part::Open { .. } => Part::Open { at },
        }
    }

    /// Where in the new version, in bytes.
    pub fn at(&self) -> &Range<u64> {
        match self {
            Part::Same { at, .. } | Part::Move { at } | Part::Open { at } => at,
        }
    }
}

/// Bytes that have to move, as far as is known.
pub fn moved(parts: &[Part]) -> u64 {
    parts.iter().filter(|part| !matches!(part, Part::Same { .. })).map(|part| part.at().end - part.at().start).sum()
}

/// Bytes by which the signature of the old version has to be ahead before a chunk of the new one is passed over.
const LEAD: u64 = 8 << 20;

/// The most bytes, of both versions, that count as an edit.
const EDIT: u64 = 4 << 20;

/// Two versions of a file, compared while their signatures are made.
///
/// Of several equal chunks of the old version the one is taken that goes on with the part before, else the next one
/// behind that, else the first: runs stay long and the old version is read forwards where it can be. A chunk that the old
/// version does not have as far as it is known is passed over, and looked for again when all of it is, unless both versions go
/// on soon behind it: then it replaces what is between, and moves.
#[derive(Debug, Default)]
pub struct Comparison {
    old: Side,
    new: Side,
    /// Chunks of the old version with their indices. Sorted, not hashed: a peer who chooses hashes or many equal chunks gains nothing.
    places: BTreeSet<(CdcChunk, usize)>,
    /// For each chunk of the new version that was looked for.
    found: Vec<Found>,
    /// Behind the last chunk that was found, in both versions.
    behind: usize,
    next: usize,
    /// Of two whole signatures only what follows from them is kept.
    settled: Option<Vec<Part>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Found {
    /// As this chunk of the old version.
    At(usize),
    Nowhere,
    /// Not in what is known of the old version.
    NotYet,
}

/// One version, as far as its signature goes.
#[derive(Debug, Default)]
struct Side {
    chunks: Vec<CdcChunk>,
    /// Where each begins, in bytes.
    starts: Vec<u64>,
    end: u64,
    count: usize,
    is_whole: bool,
}

impl Side {
    fn add(&mut self, chunks: &[CdcChunk]) {
        self.count += chunks.len();
        for chunk in chunks {
            self.chunks.push(*chunk);
            self.starts.push(self.end);
            self.end += u64::from(chunk.length);
        }
    }

    fn start(&self, index: usize) -> u64 {
        self.starts.get(index).copied().unwrap_or(self.end)
    }
}

impl Comparison {
    /// Takes the next chunks of the old version.
    pub fn add_old(&mut self, chunks: &[CdcChunk]) {
        let before = self.old.chunks.len();
        self.old.add(chunks);
        self.places.extend(chunks.iter().enumerate().map(|(index, chunk)| (*chunk, before + index)));
        self.look();
    }

    /// Takes the next chunks of the new version.
    pub fn add_new(&mut self, chunks: &[CdcChunk]) {
        self.new.add(chunks);
        self.look();
    }

    /// Nothing of the old version is to come.
    pub fn end_old(&mut self) {
        self.old.is_whole = true;
        // What was passed over may be anywhere in it.
        let mut behind = 0;
        for index in 0..self.found.len() {
            if self.found[index] == Found::NotYet {
                self.found[index] = self.find(&self.new.chunks[index], behind).map_or(Found::Nowhere, Found::At);
            }
            if let Found::At(found) = self.found[index] {
                behind = found + 1;
            }
        }
        self.look();
        self.settle();
    }

    /// Nothing of the new version is to come.
    pub fn end_new(&mut self) {
        self.new.is_whole = true;
        self.settle();
    }

    fn settle(&mut self) {
        let Some((_, size)) = self.sizes() else { return };
        self.settled = Some(self.parts(0..size));
        (self.old.chunks, self.old.starts) = Default::default();
        (self.new.chunks, self.new.starts) = Default::default();
        (self.places, self.found) = Default::default();
    }

    /// Bytes of the old and of the new version in whole signatures; `None` before.
    pub fn sizes(&self) -> Option<(u64, u64)> {
        (self.old.is_whole && self.new.is_whole).then_some((self.old.end, self.new.end))
    }

    /// Chunks of both versions.
    pub fn chunks(&self) -> usize {
        self.old.count + self.new.count
    }

    /// Bytes at the beginning of the new version that were looked for.
    pub fn seen(&self) -> u64 {
        self.new.start(self.found.len())
    }

    /// Says of `at`, a range of the new version, once and in order, where each byte comes from. `old` ranges lie within the old
    /// version. What is behind all that was looked for is open while anything of the old version is to come.
    ///
    /// Parts are as long as can be: no two neighbours both move, none goes on where its neighbour ended in both versions.
    pub fn parts(&self, at: Range<u64>) -> Vec<Part> {
        if let Some(settled) = &self.settled {
            let first = settled.partition_point(|part| part.at().end <= at.start);
            let within = settled[first..].iter().take_while(|part| part.at().start < at.end);
            return within.map(|part| part.within(&at)).collect();
        }
        let mut parts = Parts::default();
        let first = self.new.starts.partition_point(|&start| start <= at.start).saturating_sub(1);
        let mut next = at.start;
        for index in first..self.found.len() {
            let start = self.new.starts[index];
            let cut = start.max(at.start)..(start + u64::from(self.new.chunks[index].length)).min(at.end);
            if cut.is_empty() {
                if start >= at.end {
                    break;
                }
                continue;
            }
            next = cut.end;
            match self.found[index] {
                Found::At(found) => parts.same(self.old.starts[found] + (cut.start - start), cut),
                Found::Nowhere => parts.moves(cut),
                Found::NotYet => parts.open(cut),
            }
        }
        if next < at.end {
            parts.open(next..at.end);
        }
        parts.0
    }

    fn look(&mut self) {
        while let Some(chunk) = self.new.chunks.get(self.found.len()) {
            match self.find(chunk, self.behind) {
                Some(found) => {
                    self.close(found);
                    self.found.push(Found::At(found));
                    (self.behind, self.next) = (found + 1, self.found.len());
                }
                None if self.old.is_whole => self.found.push(Found::Nowhere),
                None if self.old.end < self.seen() + LEAD => return,
                None => self.found.push(Found::NotYet),
            }
        }
    }

    /// Says of what was passed over whether it is an edit, where the old version goes on with chunk `found`.
    fn close(&mut self, found: usize) {
        let now = self.found.len();
        let new = self.new.start(now) - self.new.start(self.next);
        let old = self.old.start(found).checked_sub(self.old.start(self.behind));
        if now > self.next && new <= EDIT && old.is_some_and(|old| old <= EDIT) {
            self.found[self.next..].fill(Found::Nowhere);
        }
    }

    /// The first place of `chunk` from index `behind` on, else the first of all.
    fn find(&self, chunk: &CdcChunk, behind: usize) -> Option<usize> {
        // The rule in versions of one file; searching for each takes three times as long.
        if self.old.chunks.get(behind) == Some(chunk) {
            return Some(behind);
        }
        let from = |least: usize| {
            let (found, index) = self.places.range((*chunk, least)..).next()?;
            (found == chunk).then_some(*index)
        };
        from(behind).or_else(|| from(0))
    }
}

#[derive(Default)]
struct Parts(Vec<Part>);

impl Parts {
    fn same(&mut self, from: u64, range: Range<u64>) {
        match self.0.last_mut() {
            Some(Part::Same { old, at }) if *old + (at.end - at.start) == from => at.end = range.end,
            _ => self.0.push(Part::Same { old: from, at: range }),
        }
    }

    fn moves(&mut self, range: Range<u64>) {
        match self.0.last_mut() {
            Some(Part::Move { at }) => at.end = range.end,
            _ => self.0.push(Part::Move { at: range }),
        }
    }

    fn open(&mut self, range: Range<u64>) {
        match self.0.last_mut() {
            Some(Part::Open { at }) => at.end = range.end,
            _ => self.0.push(Part::Open { at: range }),
        }
    }
}

#[cfg(test)]
mod tests;
