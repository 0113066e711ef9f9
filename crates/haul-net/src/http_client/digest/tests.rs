use haul_core::hash::hex;
use proptest::prelude::*;

use super::*;

/// The values of `123456789` in the catalogue of CRCs, and of `abc` in the standards of the others.
#[test]
fn every_algorithm_gives_its_published_value() {
    let of = |algorithm: Algorithm, bytes: &[u8]| hex(algorithm.of(bytes).as_bytes());
    assert_eq!(of(Algorithm::Crc64Nvme, b"123456789"), "ae8b14860a799888");
    assert_eq!(of(Algorithm::Crc32c, b"123456789"), "e3069283");
    assert_eq!(of(Algorithm::Crc32, b"123456789"), "cbf43926");
    assert_eq!(of(Algorithm::Sha256, b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(of(Algorithm::Sha1, b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    assert_eq!(of(Algorithm::Md5, b"abc"), "900150983cd24fb0d6963f7d28e17f72");
    // RFC 3720, B.4: 32 bytes of zeros, of ones, and counting up.
    assert_eq!(of(Algorithm::Crc32c, &[0; 32]), "8a9136aa");
    assert_eq!(of(Algorithm::Crc32c, &[0xff; 32]), "62a8ab43");
    assert_eq!(of(Algorithm::Crc32c, &(0..32).collect::<Vec<u8>>()), "46dd794e");
    // NVM Express, NVM Command Set Specification: 4 KiB of zeros, of ones.
    assert_eq!(of(Algorithm::Crc64Nvme, &[0; 4096]), "6482d367eb22b64e");
    assert_eq!(of(Algorithm::Crc64Nvme, &[0xff; 4096]), "c0ddba7302eca3ac");
    assert_eq!(Algorithm::Crc64Nvme.of(b"123456789").base64(), "rosUhgp5mIg=");
    for algorithm in Algorithm::ALL {
        assert_eq!(of(algorithm, b"").len(), 2 * algorithm.width());
        assert_eq!(Algorithm::of_word(&algorithm.word().to_lowercase()), Some(algorithm));
        assert!(algorithm == Algorithm::Md5 || Algorithm::of_header(algorithm.header()) == Some(algorithm));
    }
    assert_eq!(Algorithm::of_header("X-Amz-Checksum-SHA256"), Some(Algorithm::Sha256));
    assert_eq!(Algorithm::of_header("x-amz-checksum-type"), None);
}

#[test]
fn only_values_of_the_right_width_are_read() {
    let sha = Algorithm::Sha256.of(b"x");
    assert_eq!(Value::parse_base64(Algorithm::Sha256, &sha.base64()), Some(sha));
    for text in ["", "rosUhgp5mIg", "rosUhgp5mI==", "!!!!", "rosUhgp5mIgA", &"A".repeat(1 << 20)] {
        assert_eq!(Value::parse_base64(Algorithm::Crc64Nvme, text), None, "{}", text.len());
    }
}

#[test]
fn a_composite_digest_is_that_of_its_parts() {
    // The digits are those of `md5sum`.
    let parts = [&b"one"[..], b"two"].map(|part| Algorithm::Md5.of(part));
    let (value, count) = composite(parts).unwrap();
    assert_eq!((hex(value.as_bytes()).as_str(), count), ("1397b7ee3222e3980d0d20f23a871b02", 2));
    assert_eq!(composite([]), None);
    assert_eq!(composite([Algorithm::Md5.of(b""), Algorithm::Sha1.of(b"")]), None);
}

fn crcs() -> impl Strategy<Value = Algorithm> {
    prop::sample::select(vec![Algorithm::Crc64Nvme, Algorithm::Crc32c, Algorithm::Crc32])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn combined_values_are_those_of_the_whole(
        algorithm in crcs(),
        content in proptest::collection::vec(any::<u8>(), 0..3000),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(content.len() + 1)).collect();
        cuts.extend([0, content.len()]);
        cuts.sort_unstable();
        let parts: Vec<&[u8]> = cuts.windows(2).map(|ends| &content[ends[0]..ends[1]]).collect();
        let whole = parts.iter().fold(algorithm.of(b""), |whole, part| combine(whole, algorithm.of(part), part.len() as u64).unwrap());
        prop_assert_eq!(whole, algorithm.of(&content));
        let mut running = algorithm.begin();
        parts.iter().for_each(|part| running.update(part));
        prop_assert_eq!(running.finish(), whole);
    }

    /// The library's own combination is another algorithm for the same thing, also for lengths that no test can hash.
    #[test]
    fn combined_values_are_those_of_the_library(algorithm in crcs(), a in any::<u64>(), b in any::<u64>(), length in any::<u64>()) {
        let (a, b) = (Value::of_crc(algorithm, a), Value::of_crc(algorithm, b));
        let theirs = crc_fast::checksum_combine(algorithm.crc().unwrap(), a.crc(), b.crc(), length);
        prop_assert_eq!(combine(a, b, length), Some(Value::of_crc(algorithm, theirs)));
    }
}
