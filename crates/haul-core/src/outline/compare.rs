//! What of the new version the old one has.

use std::ops::Range;

use super::{Outline, Piece};

/// Some bytes of the new version, never none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The old version has them from offset `old` on.
    Same { old: u64, at: Range<u64> },
    /// They have to come from the new version.
    Move { at: Range<u64> },
}

impl Part {
    /// Where in the new version, in bytes.
    pub fn at(&self) -> &Range<u64> {
        match self {
            Part::Same { at, .. } | Part::Move { at } => at,
        }
    }
}

/// Bytes that have to move.
pub fn moved(parts: &[Part]) -> u64 {
    parts.iter().filter(|part| matches!(part, Part::Move { .. })).map(|part| part.at().end - part.at().start).sum()
}

/// Says of the whole new version, once and in order, where each byte comes from. `old` ranges lie within the old version.
///
/// Parts are as long as can be: no two neighbours both move, none goes on where its neighbour ended in both versions.
/// Of several equal pieces of the old version the one is taken that goes on with the part before, else the next one
/// behind that, else the first: runs stay long and the old version is read forwards where it can be.
pub fn compare(old: &Outline, new: &Outline) -> Vec<Part> {
    let places = Places::of(&old.pieces);
    let mut parts = Parts::default();
    // Behind the last piece that was found in the old version.
    let mut behind = 0;
    let mut start = 0;
    for piece in &new.pieces {
        let at = start..start + u64::from(piece.length);
        start = at.end;
        match places.find(piece, behind) {
            Some(index) => {
                parts.same(places.starts[index], at);
                behind = index + 1;
            }
            None => parts.moves(at),
        }
    }
    parts.0
}

/// The pieces of the old version by content. Sorted, not hashed: a peer who chooses hashes or many equal pieces gains nothing.
struct Places<'a> {
    pieces: &'a [Piece],
    starts: Vec<u64>,
    /// Indices of `pieces`, equal pieces side by side and in the order of the file.
    sorted: Vec<usize>,
}

impl<'a> Places<'a> {
    fn of(pieces: &'a [Piece]) -> Self {
        let mut starts = Vec::with_capacity(pieces.len());
        let mut start = 0;
        for piece in pieces {
            starts.push(start);
            start += u64::from(piece.length);
        }
        let mut sorted: Vec<usize> = (0..pieces.len()).collect();
        sorted.sort_unstable_by_key(|&index| (pieces[index], index));
        Places { pieces, starts, sorted }
    }

    /// The first place of `piece` from index `behind` on, else the first of all.
    fn find(&self, piece: &Piece, behind: usize) -> Option<usize> {
        // The rule in versions of one file; searching for each takes three times as long.
        if self.pieces.get(behind) == Some(piece) {
            return Some(behind);
        }
        let from = |least: usize| {
            let position = self.sorted.partition_point(|&index| (self.pieces[index], index) < (*piece, least));
            self.sorted.get(position).copied().filter(|&index| self.pieces[index] == *piece)
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One piece for each letter, as long as its place in the alphabet.
    fn outline(letters: &str) -> Outline {
        let piece = |letter: u8| Piece { hash: [letter; 24], length: u32::from(letter - b'a' + 1) };
        let pieces: Vec<Piece> = letters.bytes().map(piece).collect();
        Outline { average: 1 << 10, size: pieces.iter().map(|piece| u64::from(piece.length)).sum(), pieces }
    }

    /// `=OLD+LENGTH` for what stays, `!LENGTH` for what moves.
    fn words(old: &str, new: &str) -> String {
        let word = |part: &Part| match part {
            Part::Same { old, at } => format!("={old}+{}", at.end - at.start),
            Part::Move { at } => format!("!{}", at.end - at.start),
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
}
