//! Signatures of real content: what is found again after edits, that cuts never change, and what a peer may send.

use std::ops::Range;

use haul_core::signature::wire::{self, Incoming};
use haul_core::signature::{Comparison, Part, Signature, SignatureBuilder, chunk_size, moved};
use haul_core::{ErrorKind, Result};
use proptest::prelude::*;

/// The shortest average, so that little content has many chunks.
const SMALL: u32 = 1 << 10;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn signature(content: &[u8], average: u32) -> Signature {
    let mut builder = SignatureBuilder::new(average).unwrap();
    builder.push(content);
    builder.finish()
}

fn compare(old: &Signature, new: &Signature) -> Vec<Part> {
    let mut comparison = Comparison::default();
    comparison.add_old(old.chunks());
    comparison.end_old();
    comparison.add_new(new.chunks());
    comparison.end_new();
    comparison.parts(0..new.size())
}

fn encode(signature: &Signature) -> Vec<u8> {
    let mut bytes = wire::header(signature.average()).to_vec();
    wire::encode(signature.chunks(), &mut bytes);
    bytes
}

/// As it arrives in parts of other lengths than those of its chunks: each is given once, in order.
fn decode(bytes: &[u8], average: u32, size: u64) -> Result<Signature> {
    let mut incoming = Incoming::new(average);
    let mut given = Vec::new();
    for part in bytes.chunks(31) {
        given.extend_from_slice(incoming.push(part)?);
    }
    let signature = incoming.finish(size)?;
    assert_eq!(signature.chunks(), given);
    Ok(signature)
}

/// Bytes that look random, the same for the same seed on every machine.
fn random(seed: u64, length: usize) -> Vec<u8> {
    let mut content = vec![0; length];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut content);
    content
}

/// The new version made as an engine would: from the old one and from what moves.
fn rebuild(old: &[u8], new: &[u8], parts: &[Part]) -> Vec<u8> {
    let slice = |content: &[u8], range: Range<u64>| content[range.start as usize..range.end as usize].to_vec();
    let mut made: Vec<u8> = Vec::new();
    for part in parts {
        assert_eq!(part.at().start, made.len() as u64, "parts are in order and leave nothing out");
        assert!(part.at().end > part.at().start, "no part is empty");
        made.extend(match part {
            Part::Same { old: from, at } => slice(old, *from..*from + (at.end - at.start)),
            Part::Move { at } => slice(new, at.clone()),
            Part::Open { .. } => panic!("nothing is open in the end"),
        });
    }
    made
}

#[derive(Clone, Debug)]
enum Edit {
    Insert(usize, Vec<u8>),
    Delete(usize, usize),
    Overwrite(usize, Vec<u8>),
    Append(Vec<u8>),
    Truncate(usize),
    /// A copy of a range, elsewhere.
    Repeat(usize, usize, usize),
}

impl Edit {
    fn apply(&self, content: &mut Vec<u8>) {
        let within = |at: usize| at % (content.len() + 1);
        match self {
            Edit::Insert(at, bytes) => drop(content.splice(within(*at)..within(*at), bytes.iter().copied())),
            Edit::Delete(at, length) => drop(content.drain(within(*at)..(within(*at) + length).min(content.len()))),
            Edit::Overwrite(at, bytes) => {
                let at = within(*at);
                let end = (at + bytes.len()).min(content.len());
                content.splice(at..end, bytes.iter().copied());
            }
            Edit::Append(bytes) => content.extend(bytes),
            Edit::Truncate(length) => content.truncate(within(*length)),
            Edit::Repeat(from, length, to) => {
                let copy = content[within(*from)..(within(*from) + length).min(content.len())].to_vec();
                content.splice(within(*to)..within(*to), copy);
            }
        }
    }
}

fn edit() -> impl Strategy<Value = Edit> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..3_000);
    prop_oneof![
        (any::<usize>(), bytes()).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        (any::<usize>(), 0_usize..9_000).prop_map(|(at, length)| Edit::Delete(at, length)),
        (any::<usize>(), bytes()).prop_map(|(at, bytes)| Edit::Overwrite(at, bytes)),
        bytes().prop_map(Edit::Append),
        any::<usize>().prop_map(Edit::Truncate),
        (any::<usize>(), 0_usize..20_000, any::<usize>()).prop_map(|(from, length, to)| Edit::Repeat(from, length, to)),
    ]
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(Vec::new()),
        (any::<u64>(), 0_usize..60_000).prop_map(|(seed, length)| random(seed, length)),
        (0_usize..60_000).prop_map(|length| vec![0; length]),
        // Periodic, with periods shorter and longer than a chunk.
        (any::<u64>(), 1_usize..9_000, 0_usize..60_000)
            .prop_map(|(seed, period, length)| { random(seed, period).into_iter().cycle().take(length).collect() }),
        // Sparse: data between zeros.
        (any::<u64>(), 0_usize..20_000, 0_usize..20_000)
            .prop_map(|(seed, zeros, data)| { [vec![0; zeros], random(seed, data), vec![0; zeros], random(seed, data)].concat() }),
    ]
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn the_new_version_is_made_again(old in content(), edits in prop::collection::vec(edit(), 0..5)) {
        let mut new = old.clone();
        for edit in &edits {
            edit.apply(&mut new);
        }
        let (before, after) = (signature(&old, SMALL), signature(&new, SMALL));
        prop_assert_eq!(after.size(), new.len() as u64);
        let parts = compare(&before, &after);
        prop_assert!(rebuild(&old, &new, &parts) == new);
        if edits.is_empty() {
            prop_assert_eq!(moved(&parts), 0);
        }
    }

    #[test]
    fn unrelated_versions_are_made_too(old in content(), new in content()) {
        let parts = compare(&signature(&old, SMALL), &signature(&new, SMALL));
        prop_assert!(rebuild(&old, &new, &parts) == new);
        prop_assert!(moved(&parts) <= new.len() as u64);
    }

    #[test]
    fn buffers_do_not_matter(content in content(), lengths in prop::collection::vec(0_usize..5_000, 1..40)) {
        let mut builder = SignatureBuilder::new(SMALL).unwrap();
        let mut rest = &content[..];
        for length in lengths {
            let (buffer, next) = rest.split_at(length.min(rest.len()));
            builder.push(buffer);
            rest = next;
        }
        builder.push(rest);
        prop_assert_eq!(builder.finish(), signature(&content, SMALL));
    }

    #[test]
    fn the_wire_carries_it(content in content()) {
        let made = signature(&content, SMALL);
        prop_assert_eq!(decode(&encode(&made), SMALL, content.len() as u64).unwrap(), made);
    }

    #[test]
    fn what_is_decoded_adds_up(bytes in prop::collection::vec(any::<u8>(), 0..300), sized in any::<bool>(), size in 0_u64..20_000) {
        // Half of them with the right beginning, so that the chunks are looked at.
        let bytes = if sized { [&[1, 10], &bytes[..]].concat() } else { bytes };
        if let Ok(signature) = decode(&bytes, SMALL, size) {
            prop_assert_eq!(signature.chunks().iter().map(|chunk| u64::from(chunk.length)).sum::<u64>(), size);
        }
    }

    #[test]
    fn damage_is_refused_or_in_a_hash(content in content(), at in any::<prop::sample::Index>(), flip in 1_u8..) {
        let made = signature(&content, SMALL);
        let mut bytes = encode(&made);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let in_a_hash = at >= 2 && (at - 2) % 28 >= 4;
        prop_assert_eq!(decode(&bytes, SMALL, content.len() as u64).is_ok(), in_a_hash);
    }
}

/// Whoever has to change what this expects has made another protocol: the form in the encoding takes the next number.
#[test]
fn cuts_and_hashes_never_change() {
    let made = signature(&random(7, 300_000), 1 << 14);
    let lengths: Vec<u32> = made.chunks().iter().map(|chunk| chunk.length).collect();
    let expected = [20379, 19909, 18084, 11596, 17980, 20025, 18067, 19158, 20775, 18077, 20554, 16993, 17320, 16865, 24708, 17762, 1748];
    assert_eq!(lengths, expected);
    assert_eq!(haul_core::hash::hex(&made.chunks()[0].hash), "bda6bfb416f1d695314ff1eb361344b39bdd079c1e154da8");
    let encoded = encode(&made);
    assert_eq!(encoded[..6], [1, 14, 0x9b, 0x4f, 0, 0]);
    assert_eq!(encoded.len(), 2 + 28 * lengths.len());
    assert_eq!(&blake3::hash(&encoded).to_hex()[..32], "3f76d1976346bed82bc3f188f89108cf");
}

#[test]
fn ten_bytes_in_front_cost_a_piece_or_two() {
    for seed in 0..20 {
        let old = random(seed, 1 << 20);
        let new = [&b"ten bytes "[..], &old].concat();
        let parts = compare(&signature(&old, 1 << 14), &signature(&new, 1 << 14));
        assert!(rebuild(&old, &new, &parts) == new);
        assert!(moved(&parts) <= 5 * (1 << 14), "seed {seed}: {} bytes moved", moved(&parts));
        assert!(parts.len() <= 3, "seed {seed}: {parts:?}");
    }
}

#[test]
#[ignore = "full"]
fn a_large_file_with_a_few_changes_moves_little() {
    let old = random(3, 64 << 20);
    let mut new = [&b"ten bytes "[..], &old].concat();
    let places = random(4, 400);
    for place in places.as_chunks::<4>().0 {
        let at = u32::from_le_bytes(*place) as usize % (new.len() - 100);
        for byte in &mut new[at..at + 100] {
            *byte ^= 0x55;
        }
    }
    let average = chunk_size(new.len() as u64);
    let (before, after) = (signature(&old, average), signature(&new, average));
    let parts = compare(&before, &after);
    assert!(rebuild(&old, &new, &parts) == new);
    // A hundred places that break a chunk or two each.
    assert!(moved(&parts) < 100 * 2 * u64::from(average), "{} bytes moved", moved(&parts));
    for signature in [before, after] {
        assert!(encode(&signature).len() as u64 * 500 <= signature.size(), "a signature is at most 0.2 % of the file");
    }
}

#[test]
fn zeros_are_found_in_long_runs() {
    let data = random(5, 100_000);
    let old = [&data[..], &vec![0; 4 << 20], &data].concat();
    let new = [&data[..], &vec![0; 6 << 20], &data].concat();
    let parts = compare(&signature(&old, 1 << 14), &signature(&new, 1 << 14));
    assert!(rebuild(&old, &new, &parts) == new);
    assert!(parts.len() <= 5, "{parts:?}");
    assert!(moved(&parts) <= 2 * 4 * (1 << 14), "{} bytes moved", moved(&parts));
}

#[test]
fn sizes_of_pieces() {
    for (size, average) in [
        (0, 16 << 10),
        (1, 16 << 10),
        (1 << 30, 16 << 10),
        (4 << 30, 16 << 10),
        ((4 << 30) + 1, 32 << 10),
        (1 << 40, 4 << 20),
        (64 << 40, 256 << 20),
        (u64::MAX, 256 << 20),
    ] {
        assert_eq!(chunk_size(size), average, "{size}");
        assert!(SignatureBuilder::new(average).is_ok());
    }
}

#[test]
fn averages_that_are_none() {
    for average in [0, 1, 512, 1023, 1025, 3 << 10, 1 << 29, u32::MAX] {
        assert_eq!(SignatureBuilder::new(average).unwrap_err().kind(), ErrorKind::Unsupported, "{average}");
        assert_eq!(decode(&[1, average.trailing_zeros() as u8], average, 0).unwrap_err().kind(), ErrorKind::Broken, "{average}");
    }
}

#[test]
fn the_empty_file() {
    let empty = signature(&[], SMALL);
    assert_eq!((empty.size(), empty.chunks().len(), empty.average()), (0, 0, SMALL));
    assert_eq!(encode(&empty), [1, 10]);
    assert_eq!(decode(&[1, 10], SMALL, 0).unwrap(), empty);
    assert_eq!(compare(&empty, &empty), []);
    let one = signature(b"x", SMALL);
    assert_eq!(compare(&empty, &one), [Part::Move { at: 0..1 }]);
    assert_eq!(compare(&one, &empty), []);
}

#[test]
fn what_a_peer_may_not_send() {
    let chunk = |length: u32| [&length.to_le_bytes()[..], &[9; 24]].concat();
    let with = |chunks: &[u32]| [vec![1, 10], chunks.iter().flat_map(|&length| chunk(length)).collect()].concat();
    let kind = |bytes: &[u8], size: u64| decode(bytes, SMALL, size).map_err(|error| error.kind()).map(|_| ());
    assert_eq!(kind(&with(&[512, 4096, 1]), 4609), Ok(()));
    for (bytes, size, expected) in [
        (vec![], 0, ErrorKind::Broken),
        (vec![1], 0, ErrorKind::Broken),
        (vec![2, 10], 0, ErrorKind::Unsupported),
        (vec![1, 11], 0, ErrorKind::Broken),
        (vec![1, 255], 0, ErrorKind::Broken),
        // Only the last chunk may be short, and none empty or long.
        (with(&[511, 512]), 1023, ErrorKind::Broken),
        (with(&[512, 0]), 512, ErrorKind::Broken),
        (with(&[4097]), 4097, ErrorKind::Broken),
        (with(&[u32::MAX]), u64::from(u32::MAX), ErrorKind::Broken),
        (with(&[512, 512])[..57].to_vec(), 1024, ErrorKind::Broken),
        (with(&[512, 512]), 1023, ErrorKind::Changed),
        (with(&[512, 512]), 1025, ErrorKind::Changed),
        (with(&[]), 1, ErrorKind::Changed),
        (with(&[1]), 0, ErrorKind::Changed),
    ] {
        assert_eq!(kind(&bytes, size), Err(expected), "{} bytes for {size}", bytes.len());
    }
}
