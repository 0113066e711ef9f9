//! What of the new version the old one has.

use std::collections::BTreeSet;
use std::ops::Range;

use super::Piece;

/// Some bytes of the new version, never none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The old version has them from offset `old` on.
    Same { old: u64, at: Range<u64> },
    /// They have to come from the new version.
    Move { at: Range<u64> },
    /// The old version may have them where it is not outlined yet.
    Open { at: Range<u64> },
}

impl Part {
    /// Leaves what is in front of `end`.
    pub fn end_at(&mut self, end: u64) {
        let (Part::Same { at, .. } | Part::Move { at } | Part::Open { at }) = self;
        at.end = at.end.min(end);
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

/// Bytes by which the outline of the old version has to be ahead before a piece of the new one is passed over.
const LEAD: u64 = 8 << 20;

/// The most bytes, of both versions, that count as an edit.
const EDIT: u64 = 4 << 20;

/// Two versions of a file, compared while they are outlined.
///
/// Of several equal pieces of the old version the one is taken that goes on with the part before, else the next one
/// behind that, else the first: runs stay long and the old version is read forwards where it can be. A piece that the old
/// version does not have as far as it is known is passed over, and looked for again when all of it is, unless both versions go
/// on soon behind it: then it replaces what is between, and moves.
#[derive(Debug, Default)]
pub struct Comparison {
    old: Side,
    new: Side,
    /// Pieces of the old version with their indices. Sorted, not hashed: a peer who chooses hashes or many equal pieces gains nothing.
    places: BTreeSet<(Piece, usize)>,
    /// For each piece of the new version that was looked for.
    found: Vec<Found>,
    /// Behind the last piece that was found, in both versions.
    behind: usize,
    next: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Found {
    /// As this piece of the old version.
    At(usize),
    Nowhere,
    /// Not in what is known of the old version.
    NotYet,
}

/// One version, as far as it is outlined.
#[derive(Debug, Default)]
struct Side {
    pieces: Vec<Piece>,
    /// Where each begins, in bytes.
    starts: Vec<u64>,
    end: u64,
    is_whole: bool,
}

impl Side {
    fn add(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            self.pieces.push(*piece);
            self.starts.push(self.end);
            self.end += u64::from(piece.length);
        }
    }

    fn start(&self, index: usize) -> u64 {
        self.starts.get(index).copied().unwrap_or(self.end)
    }
}

impl Comparison {
    /// Takes the next pieces of the old version.
    pub fn add_old(&mut self, pieces: &[Piece]) {
        let before = self.old.pieces.len();
        self.old.add(pieces);
        self.places.extend(pieces.iter().enumerate().map(|(index, piece)| (*piece, before + index)));
        self.look();
    }

    /// Takes the next pieces of the new version.
    pub fn add_new(&mut self, pieces: &[Piece]) {
        self.new.add(pieces);
        self.look();
    }

    /// Nothing of the old version is to come.
    pub fn end_old(&mut self) {
        self.old.is_whole = true;
        // What was passed over may be anywhere in it.
        let mut behind = 0;
        for index in 0..self.found.len() {
            if self.found[index] == Found::NotYet {
                self.found[index] = self.find(&self.new.pieces[index], behind).map_or(Found::Nowhere, Found::At);
            }
            if let Found::At(found) = self.found[index] {
                behind = found + 1;
            }
        }
        self.look();
    }

    /// Nothing of the new version is to come.
    pub fn end_new(&mut self) {
        self.new.is_whole = true;
    }

    /// Bytes of the old and of the new version in whole outlines; `None` before.
    pub fn sizes(&self) -> Option<(u64, u64)> {
        (self.old.is_whole && self.new.is_whole).then_some((self.old.end, self.new.end))
    }

    /// Pieces of both versions.
    pub fn pieces(&self) -> usize {
        self.old.pieces.len() + self.new.pieces.len()
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
        let mut parts = Parts::default();
        let first = self.new.starts.partition_point(|&start| start <= at.start).saturating_sub(1);
        let mut next = at.start;
        for index in first..self.found.len() {
            let start = self.new.starts[index];
            let cut = start.max(at.start)..(start + u64::from(self.new.pieces[index].length)).min(at.end);
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
        while let Some(piece) = self.new.pieces.get(self.found.len()) {
            match self.find(piece, self.behind) {
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

    /// Says of what was passed over whether it is an edit, where the old version goes on with piece `found`.
    fn close(&mut self, found: usize) {
        let now = self.found.len();
        let new = self.new.start(now) - self.new.start(self.next);
        let old = self.old.start(found).checked_sub(self.old.start(self.behind));
        if now > self.next && new <= EDIT && old.is_some_and(|old| old <= EDIT) {
            self.found[self.next..].fill(Found::Nowhere);
        }
    }

    /// The first place of `piece` from index `behind` on, else the first of all.
    fn find(&self, piece: &Piece, behind: usize) -> Option<usize> {
        // The rule in versions of one file; searching for each takes three times as long.
        if self.old.pieces.get(behind) == Some(piece) {
            return Some(behind);
        }
        let from = |least: usize| {
            let (found, index) = self.places.range((*piece, least)..).next()?;
            (found == piece).then_some(*index)
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
mod tests {
    use super::*;
    use crate::outline::Outline;
    use proptest::prelude::*;

    /// One piece for each letter, as long as its place in the alphabet.
    fn outline(letters: &str) -> Outline {
        let piece = |letter: u8| Piece { hash: [letter; 24], length: u32::from(letter - b'a' + 1) };
        let pieces: Vec<Piece> = letters.bytes().map(piece).collect();
        Outline { average: 1 << 10, size: pieces.iter().map(|piece| u64::from(piece.length)).sum(), pieces }
    }

    fn compare(old: &Outline, new: &Outline) -> Vec<Part> {
        let mut comparison = Comparison::default();
        comparison.add_old(old.pieces());
        comparison.end_old();
        comparison.add_new(new.pieces());
        comparison.end_new();
        assert_eq!(comparison.sizes(), Some((old.size(), new.size())));
        comparison.parts(0..new.size())
    }

    /// `=OLD+LENGTH` for what stays, `!LENGTH` for what moves.
    fn words(old: &str, new: &str) -> String {
        let word = |part: &Part| match part {
            Part::Same { old, at } => format!("={old}+{}", at.end - at.start),
            Part::Move { at } => format!("!{}", at.end - at.start),
            Part::Open { at } => format!("?{}", at.end - at.start),
        };
        compare(&outline(old), &outline(new)).iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn table() {
        for (old, new, parts) in [
            ("", "", ""),
            ("abc", "", ""),
            ("", "abc", "!6"),
            ("abc", "abc", "=0+6"),
            ("abc", "bc", "=1+5"),
            ("abc", "ab", "=0+3"),
            ("abc", "xabc", "!24 =0+6"),
            ("abc", "axyc", "=0+1 !49 =3+3"),
            ("abc", "acb", "=0+1 =3+3 =1+2"),
            // Of several places the one that goes on.
            ("abac", "ac", "=0+1 =4+3"),
            ("abac", "bac", "=1+6"),
            ("baaaa", "aaa", "=2+3"),
            ("baaaa", "baaaaaa", "=0+6 =2+2"),
            // Else the next behind the part before, else the first.
            ("azbacz", "bxac", "=27+2 !24 =29+4"),
            ("acbdac", "bxac", "=4+2 !24 =10+4"),
            ("abaca", "cxab", "=4+3 !24 =7+1 =1+2"),
            ("abac", "cxab", "=4+3 !24 =0+3"),
        ] {
            assert_eq!(words(old, new), parts, "{old:?} -> {new:?}");
        }
    }

    #[test]
    fn equal_hashes_of_different_lengths_are_not_equal() {
        let mut old = outline("a");
        (old.pieces[0].length, old.size) = (2, 2);
        assert_eq!(compare(&old, &outline("a")), [Part::Move { at: 0..1 }]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn covers_once_and_moves_only_what_is_new(old in "[a-e]{0,30}", new in "[a-g]{0,30}") {
            let (before, after) = (outline(&old), outline(&new));
            let content = |outline: &Outline| -> Vec<u8> { outline.pieces.iter().flat_map(|piece| vec![piece.hash[0]; piece.length as usize]).collect() };
            let (old_content, new_content) = (content(&before), content(&after));
            let parts = compare(&before, &after);
            let mut made: Vec<u8> = Vec::new();
            for part in &parts {
                prop_assert!(part.at().start == made.len() as u64 && part.at().end > part.at().start);
                let length = (part.at().end - part.at().start) as usize;
                match part {
                    Part::Same { old, .. } => made.extend(&old_content[*old as usize..][..length]),
                    Part::Move { at } => made.extend(&new_content[at.start as usize..][..length]),
                    Part::Open { .. } => prop_assert!(false, "nothing is open in the end"),
                }
            }
            prop_assert_eq!(made, new_content);
            let lacking: u64 = after.pieces.iter().filter(|piece| !before.pieces.contains(piece)).map(|piece| u64::from(piece.length)).sum();
            prop_assert_eq!(moved(&parts), lacking);
            for pair in parts.windows(2) {
                match pair {
                    [Part::Move { .. }, Part::Move { .. }] => prop_assert!(false, "two moves side by side"),
                    [Part::Same { old, at }, Part::Same { old: next, .. }] => prop_assert_ne!(old + at.end - at.start, *next),
                    _ => {}
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// However the two outlines progress: what was found stays true, and in the end nothing moves that the old version has.
        #[test]
        fn what_is_found_on_the_way_is_true(old in "[a-e]{0,30}", new in "[a-g]{0,30}", turns in prop::collection::vec(any::<bool>(), 0..80), unit in 0_u32..24) {
            // Long pieces, so that the outlines have to keep up with each other.
            let long = |letters: &str| -> Vec<Piece> {
                outline(letters).pieces().iter().map(|piece| Piece { length: piece.length << unit, ..*piece }).collect()
            };
            let (before, after) = (long(&old), long(&new));
            let at = |pieces: &[Piece], index: usize| pieces[..index].iter().map(|piece| u64::from(piece.length)).sum::<u64>();
            // Every part that stays is whole pieces of both.
            let check = |parts: &[Part]| {
                for part in parts {
                    let Part::Same { old, at: new } = part else { continue };
                    let run = |pieces: &[Piece], start: u64, length: u64| -> Vec<Piece> {
                        let first = (0..pieces.len()).find(|&index| at(pieces, index) == start).expect("it begins with a piece");
                        let mut left = length;
                        let taken = pieces[first..].iter().take_while(|piece| left.checked_sub(u64::from(piece.length)).inspect(|rest| left = *rest).is_some());
                        taken.copied().collect()
                    };
                    let length = new.end - new.start;
                    assert_eq!(run(&before, *old, length), run(&after, new.start, length));
                }
            };
            let mut comparison = Comparison::default();
            let (mut olds, mut news, mut seen) = (before.chunks(2), after.chunks(3), 0);
            for turn in turns {
                match turn {
                    true => olds.next().into_iter().for_each(|pieces| comparison.add_old(pieces)),
                    false => news.next().into_iter().for_each(|pieces| comparison.add_new(pieces)),
                }
                prop_assert!(comparison.seen() >= seen);
                seen = comparison.seen();
                check(&comparison.parts(0..seen));
            }
            olds.for_each(|pieces| comparison.add_old(pieces));
            comparison.end_old();
            news.for_each(|pieces| comparison.add_new(pieces));
            comparison.end_new();
            let size = at(&after, after.len());
            prop_assert_eq!(comparison.sizes(), Some((at(&before, before.len()), size)));
            prop_assert_eq!(comparison.seen(), size);
            let parts = comparison.parts(0..size);
            check(&parts);
            prop_assert!(!parts.iter().any(|part| matches!(part, Part::Open { .. })), "something is open in the end");
            let lacking: u64 = after.iter().filter(|piece| !before.contains(piece)).map(|piece| u64::from(piece.length)).sum();
            prop_assert!(moved(&parts) >= lacking);
            let starts: Vec<u64> = (0..after.len()).map(|index| at(&after, index)).collect();
            // Only what was taken for an edit moves although the old version has it.
            for part in &parts {
                let Part::Move { at } = part else { continue };
                let within = after.iter().enumerate().filter(|(index, _)| at.contains(&starts[*index]));
                let has_all = within.map(|(_, piece)| piece).filter(|piece| before.contains(piece)).count();
                prop_assert!(has_all == 0 || at.end - at.start <= EDIT, "{part:?}");
            }
            // Any cut of it says the same.
            for cut in [0..size / 3, size / 3..size / 2, size / 2..size] {
                let within = comparison.parts(cut.clone());
                prop_assert_eq!(within.iter().map(|part| part.at().end - part.at().start).sum::<u64>(), cut.end - cut.start);
                for part in &within {
                    let whole = parts.iter().find(|whole| whole.at().start <= part.at().start && part.at().end <= whole.at().end).expect("it is part of one");
                    match (part, whole) {
                        (Part::Same { old, at }, Part::Same { old: from, at: all }) => prop_assert_eq!(old - from, at.start - all.start),
                        (Part::Move { .. }, Part::Move { .. }) => {}
                        other => prop_assert!(false, "{other:?}"),
                    }
                }
            }
        }
    }
}
