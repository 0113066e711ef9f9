use proptest::prelude::*;

use super::*;

#[test]
fn headers_say_what_an_object_has() {
    let sha = Algorithm::Sha256.of(b"x").base64();
    let composite = format!("{sha}-3");
    let etag = "\"70ee1738b6b21e2c8a43f3a5ab0eee71\"";
    let kinds = |headers: &[(&str, &str)]| {
        let checksums = checksums(headers.iter().copied());
        checksums.stored.iter().map(|s| (s.algorithm(), s.kind, s.etag)).collect::<Vec<_>>()
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
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hostile_texts_are_borne(text in ".{0,80}") {
        let _ = (ETag::parse(&text), version(&text), checksums([(text.as_str(), text.as_str()), ("x-amz-checksum-crc32", &text), ("x-goog-hash", &text)]));
    }

    #[test]
    fn a_stored_value_is_written_and_read(which in 0..Algorithm::ALL.len(), content in any::<[u8; 8]>(), parts in 0..=10_000u32) {
        let kind = if parts == 0 { Kind::Whole } else { Kind::Composite(parts) };
        let stored = StoredChecksum { value: Algorithm::ALL[which].of(&content), kind, etag: false };
        prop_assert_eq!(StoredChecksum::parse(stored.algorithm(), &stored.text(), ""), Some(stored));
    }
}
