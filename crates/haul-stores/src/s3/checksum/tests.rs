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
fn etags_are_told_apart_by_their_form() {
    let md5 = [0x70, 0xee, 0x17, 0x38, 0xb6, 0xb2, 0x1e, 0x2c, 0x8a, 0x43, 0xf3, 0xa5, 0xab, 0x0e, 0xee, 0x71];
    let digits = "70ee1738b6b21e2c8a43f3a5ab0eee71";
    for text in [digits.to_owned(), format!("\"{digits}\""), format!(" \"{}\" ", digits.to_uppercase())] {
        assert_eq!(ETag::parse(&text), ETag::Md5(md5), "{text}");
    }
    assert_eq!(ETag::parse(&format!("\"{digits}-10000\"")), ETag::Multipart { md5, parts: 10_000 });
    let wrong = ["-0", "-10001", "-", "-1-2", "-+1", "-x", "0", "-4294967297"].map(|end| format!("\"{digits}{end}\""));
    let others = ["", "\"\"", "\"", "abc", "\u{e9}0ee1738b6b21e2c8a43f3a5ab0eee7"].map(str::to_owned);
    for text in wrong.iter().chain(&others).chain(&[format!("W/\"{digits}\"")]) {
        assert_eq!(ETag::parse(text), ETag::Opaque, "{text}");
    }
}

#[test]
fn a_version_is_the_same_however_the_etag_is_written() {
    assert_eq!(version("\"abc\""), version("abc"));
    assert_eq!(version("W/\"abc\""), version("abc"));
    assert_ne!(version("abc"), version("abd"));
    assert_eq!((version(""), version("\"\"")), (0, 0));
    // It is kept in files: it must not change from one release to the next.
    assert_eq!(version("abc"), 0x78af_5f94_892f_3950);
}

#[test]
fn headers_say_what_an_object_has() {
    let sha = Algorithm::Sha256.of(b"x").base64();
    let composite = format!("{sha}-3");
    let etag = "\"70ee1738b6b21e2c8a43f3a5ab0eee71\"";
    let kinds = |headers: &[(&str, &str)]| {
        let proof = proof(headers.iter().copied());
        proof.stored.iter().map(|s| (s.algorithm(), s.kind, s.etag)).collect::<Vec<_>>()
    };
    use Algorithm::{Crc32c, Crc64Nvme, Md5, Sha256};
    use Kind::{Composite, Whole};
    assert_eq!(kinds(&[("ETag", etag)]), [(Md5, Whole, true)]);
    assert_eq!(
        kinds(&[("etag", etag), ("X-Amz-Checksum-Sha256", &sha), ("x-amz-checksum-crc64nvme", "rosUhgp5mIg=")]),
        [(Crc64Nvme, Whole, false), (Sha256, Whole, false), (Md5, Whole, true)]
    );
    assert_eq!(kinds(&[("x-amz-checksum-sha256", &composite), ("etag", etag)]), [(Md5, Whole, true), (Sha256, Composite(3), false)]);
    assert_eq!(kinds(&[("x-amz-checksum-type", "COMPOSITE"), ("x-amz-checksum-sha256", &sha)]), [(Sha256, Composite(0), false)]);
    assert_eq!(kinds(&[("x-amz-checksum-type", "FULL_OBJECT"), ("x-amz-checksum-sha256", &sha)]), [(Sha256, Whole, false)]);
    assert_eq!(kinds(&[("x-goog-hash", "crc32c=n03x6A==,md5=Ojk9c3dhfxgoKVVHYwFbHQ==")]), [(Crc32c, Whole, false), (Md5, Whole, false)]);
    // Encrypted with a key of one's own: the ETag is no MD5.
    assert_eq!(kinds(&[("x-amz-server-side-encryption", "aws:kms:dsse"), ("etag", etag)]), []);
    assert_eq!(kinds(&[("etag", etag), ("x-amz-server-side-encryption-customer-algorithm", "AES256")]), []);
    assert_eq!(kinds(&[("x-amz-server-side-encryption", "AES256"), ("etag", etag)]), [(Md5, Whole, true)]);
    // Of a range nobody knows what the checksum is of.
    assert_eq!(kinds(&[("content-range", "bytes 0-1/2"), ("x-amz-checksum-sha256", &sha), ("etag", etag)]), [(Md5, Whole, true)]);
    for broken in ["", "-", "AAAA", "rosUhgp5mIg=-0", "rosUhgp5mIg=-x", "rosUhgp5mIg=-3-3", "\u{e9}"] {
        assert_eq!(kinds(&[("x-amz-checksum-crc64nvme", broken)]), [], "{broken}");
    }
    assert_eq!(proof([("x-amz-mp-parts-count", "7")]).parts, Some(7));
}

#[test]
fn a_multipart_etag_is_that_of_its_parts() {
    // The digits are those of `md5sum`.
    let mut cut = Cut::new(Algorithm::Md5, 5 << 20);
    cut.update(&vec![0; (10 << 20) + 1]);
    let (value, parts) = cut.finish();
    let by_hand = [&vec![0u8; 5 << 20][..], &vec![0u8; 5 << 20], &[0]].map(|part| Algorithm::Md5.of(part));
    assert_eq!(composite(by_hand), Some((value, 3)));
    assert_eq!(parts, 3);
    assert_eq!(hex(by_hand[0].as_bytes()), "5f363e0e58a95f06cbe9bbc662c5dfb6");
    assert_eq!(Cut::new(Algorithm::Md5, 5).finish(), composite([Algorithm::Md5.of(b"")]).unwrap());
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

    #[test]
    fn a_cut_is_the_composite_of_its_parts(
        which in 0..Algorithm::ALL.len(),
        content in proptest::collection::vec(any::<u8>(), 1..500),
        part_size in 1..200usize,
        step in 1..100usize,
    ) {
        let algorithm = Algorithm::ALL[which];
        let mut cut = Cut::new(algorithm, part_size as u64);
        content.chunks(step).for_each(|bytes| cut.update(bytes));
        let parts = content.chunks(part_size).map(|part| algorithm.of(part));
        prop_assert_eq!(Some(cut.finish()), composite(parts));
    }

    #[test]
    fn hostile_texts_are_borne(text in ".{0,80}") {
        let _ = (ETag::parse(&text), version(&text), proof([(text.as_str(), text.as_str()), ("x-amz-checksum-crc32", &text), ("x-goog-hash", &text)]));
    }

    #[test]
    fn a_stored_value_is_written_and_read(which in 0..Algorithm::ALL.len(), content in any::<[u8; 8]>(), parts in 0..=10_000u32) {
        let kind = if parts == 0 { Kind::Whole } else { Kind::Composite(parts) };
        let stored = Stored { value: Algorithm::ALL[which].of(&content), kind, etag: false };
        prop_assert_eq!(Stored::parse(stored.algorithm(), &stored.text(), ""), Some(stored));
    }
}
