use super::*;

fn parts(algorithm: Algorithm) -> Vec<Part> {
    let part = |(number, bytes): (u32, &[u8])| {
        let md5 = haul_core::hash::hex(Algorithm::Md5.of(bytes).as_bytes());
        Part { number, etag: format!("\"{md5}\""), checksum: Some(algorithm.of(bytes)) }
    };
    [(1, &b"one"[..]), (2, b"two")].into_iter().map(part).collect()
}

fn said(checksums: Vec<(Algorithm, String)>, checksum_type: &str, etag: &str) -> xml::Made {
    xml::Made { etag: etag.into(), checksums, checksum_type: checksum_type.into() }
}

#[test]
fn what_the_service_made_is_compared_with_what_was_sent() {
    let algorithm = Algorithm::Crc32c;
    let (parts, whole) = (parts(algorithm), algorithm.of(b"onetwo"));
    let (composite, _) = checksum::composite(parts.iter().filter_map(|part| part.checksum)).expect("two parts");
    let md5s = parts.iter().filter_map(|part| match ETag::parse(&part.etag) {
        ETag::Md5(md5) => Value::parse(Algorithm::Md5, &md5),
        _ => None,
    });
    let (md5, _) = checksum::composite(md5s).expect("two parts");
    let etag = format!("\"{}-2\"", haul_core::hash::hex(md5.as_bytes()));
    let one = |text: String| vec![(algorithm, text)];
    let other = algorithm.of(b"onetwO").base64();
    for (checksums, kind, etag, verdict) in [
        (one(whole.base64()), "FULL_OBJECT", "\"x\"", Some(true)),
        (one(whole.base64()), "", "\"x\"", Some(true)),
        (one(format!("{}-2", composite.base64())), "COMPOSITE", "\"x\"", Some(true)),
        (one(composite.base64()), "", "\"x\"", Some(true)),
        (one(format!("{}-3", composite.base64())), "COMPOSITE", "\"x\"", Some(false)),
        (one(other.clone()), "FULL_OBJECT", &etag, Some(false)),
        (one(other.clone()), "", &etag, Some(false)),
        (one(format!("{other}-2")), "COMPOSITE", &etag, Some(false)),
        (vec![], "", &etag, Some(true)),
        // It may be encrypted.
        (vec![], "", "\"0123456789abcdef0123456789abcdef-2\"", None),
        (vec![(Algorithm::Crc32, "AAAAAA==".into())], "FULL_OBJECT", "\"x\"", None),
    ] {
        let completed = said(checksums, kind, etag);
        assert_eq!(agrees(&completed, &parts, &[whole]), verdict, "{completed:?}");
    }
}
