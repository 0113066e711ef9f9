use super::*;
use crate::signature::Signature;
use proptest::prelude::*;

/// One chunk for each letter, as long as its place in the alphabet.
fn signature(letters: &str) -> Signature {
    let chunk = |letter: u8| CdcChunk { hash: [letter; 24], length: u32::from(letter - b'a' + 1) };
    let chunks: Vec<CdcChunk> = letters.bytes().map(chunk).collect();
    Signature { average: 1 << 10, size: chunks.iter().map(|chunk| u64::from(chunk.length)).sum(), chunks }
}

fn compare(old: &Signature, new: &Signature) -> Vec<Part> {
    let mut comparison = Comparison::default();
    comparison.add_old(old.chunks());
    comparison.end_old();
    comparison.add_new(new.chunks());
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
    compare(&signature(old), &signature(new)).iter().map(word).collect::<Vec<_>>().join(" ")
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
    let mut old = signature("a");
    (old.chunks[0].length, old.size) = (2, 2);
    assert_eq!(compare(&old, &signature("a")), [Part::Move { at: 0..1 }]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn covers_once_and_moves_only_what_is_new(old in "[a-e]{0,30}", new in "[a-g]{0,30}") {
        let (before, after) = (signature(&old), signature(&new));
        let content = |signature: &Signature| -> Vec<u8> { signature.chunks.iter().flat_map(|chunk| vec![chunk.hash[0]; chunk.length as usize]).collect() };
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
        let lacking: u64 = after.chunks.iter().filter(|chunk| !before.chunks.contains(chunk)).map(|chunk| u64::from(chunk.length)).sum();
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

    /// However the two signatures progress: what was found stays true, and in the end nothing moves that the old version has.
    #[test]
    fn what_is_found_on_the_way_is_true(old in "[a-e]{0,30}", new in "[a-g]{0,30}", turns in prop::collection::vec(any::<bool>(), 0..80), unit in 0_u32..24) {
        // Long chunks, so that the signatures have to keep up with each other.
        let long = |letters: &str| -> Vec<CdcChunk> {
            signature(letters).chunks().iter().map(|chunk| CdcChunk { length: chunk.length << unit, ..*chunk }).collect()
        };
        let (before, after) = (long(&old), long(&new));
        let at = |chunks: &[CdcChunk], index: usize| chunks[..index].iter().map(|chunk| u64::from(chunk.length)).sum::<u64>();
        // Every part that stays is whole chunks of both.
        let check = |parts: &[Part]| {
            for part in parts {
                let Part::Same { old, at: new } = part else { continue };
                let run = |chunks: &[CdcChunk], start: u64, length: u64| -> Vec<CdcChunk> {
                    let first = (0..chunks.len()).find(|&index| at(chunks, index) == start).expect("it begins with a chunk");
                    let mut left = length;
                    let taken = chunks[first..].iter().take_while(|chunk| left.checked_sub(u64::from(chunk.length)).inspect(|rest| left = *rest).is_some());
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
                true => olds.next().into_iter().for_each(|chunks| comparison.add_old(chunks)),
                false => news.next().into_iter().for_each(|chunks| comparison.add_new(chunks)),
            }
            prop_assert!(comparison.seen() >= seen);
            seen = comparison.seen();
            check(&comparison.parts(0..seen));
        }
        olds.for_each(|chunks| comparison.add_old(chunks));
        comparison.end_old();
        news.for_each(|chunks| comparison.add_new(chunks));
        comparison.end_new();
        let size = at(&after, after.len());
        prop_assert_eq!(comparison.sizes(), Some((at(&before, before.len()), size)));
        prop_assert_eq!(comparison.seen(), size);
        let parts = comparison.parts(0..size);
        check(&parts);
        prop_assert!(!parts.iter().any(|part| matches!(part, Part::Open { .. })), "something is open in the end");
        let lacking: u64 = after.iter().filter(|chunk| !before.contains(chunk)).map(|chunk| u64::from(chunk.length)).sum();
        prop_assert!(moved(&parts) >= lacking);
        let starts: Vec<u64> = (0..after.len()).map(|index| at(&after, index)).collect();
        // Only what was taken for an edit moves although the old version has it.
        for part in &parts {
            let Part::Move { at } = part else { continue };
            let within = after.iter().enumerate().filter(|(index, _)| at.contains(&starts[*index]));
            let has_all = within.map(|(_, chunk)| chunk).filter(|chunk| before.contains(chunk)).count();
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
