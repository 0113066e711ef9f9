use proptest::prelude::*;

use super::*;

fn endpoint(text: &str) -> Endpoint {
    Endpoint::parse(text).unwrap()
}

#[test]
fn endpoints_are_read_as_people_write_them() {
    for (text, shown) in [
        ("https://s3.example.org", "https://s3.example.org"),
        ("http://localhost:9000/", "http://localhost:9000"),
        ("HTTPS://Host.Example:443", "https://host.example"),
        ("http://host:80//", "http://host"),
        ("http://host:443", "http://host:443"),
        ("http://[::1]:9000/", "http://[::1]:9000"),
        ("https://[2001:db8::1]", "https://[2001:db8::1]"),
        (" https://host:8443/some/prefix/ ", "https://host:8443/some/prefix"),
        ("https://host/a%2fb%41+(c)", "https://host/a%2FbA%2B%28c%29"),
        ("http://minio_1:9000", "http://minio_1:9000"),
        ("localhost:9000", "https://localhost:9000"),
        ("s3.example.org", "https://s3.example.org"),
    ] {
        assert_eq!(endpoint(text).to_string(), shown, "{text}");
    }
    for wrong in ["", "https://", "http:///x", "ftp://host", "s3://bucket", "https://key:secret@host", "https://https://x"] {
        assert_eq!(Endpoint::parse(wrong), None, "{wrong}");
    }
    for wrong in ["?x", "#x", ":x", ":0", ":65536", ":-1", "//a", " st", "..b", "\u{e9}", "/\u{e9}", "\r\nX: y"] {
        assert_eq!(Endpoint::parse(&format!("https://host{wrong}/y")), None, "{wrong}");
    }
    for wrong in ["::1", "[::1", "[::x]", "[::1]x"] {
        assert_eq!(Endpoint::parse(&format!("https://{wrong}")), None, "{wrong}");
    }
}

#[test]
fn regions_have_their_hosts() {
    for (region, host) in [
        ("", "s3.us-east-1.amazonaws.com"),
        ("eu-central-1", "s3.eu-central-1.amazonaws.com"),
        ("cn-north-1", "s3.cn-north-1.amazonaws.com.cn"),
        ("us-gov-west-1", "s3.us-gov-west-1.amazonaws.com"),
        ("us-iso-east-1", "s3.us-iso-east-1.c2s.ic.gov"),
    ] {
        assert_eq!(Endpoint::of_region(region).unwrap().host, host);
    }
    let of = |region: &str, fips, dual_stack, accelerate, within| {
        Endpoint::of_region(region).unwrap().of_variant(Variant { fips, dual_stack, accelerate }, within).host
    };
    assert_eq!(of("us-gov-west-1", true, false, false, true), "s3-fips.us-gov-west-1.amazonaws.com");
    assert_eq!(of("us-east-1", true, true, false, true), "s3-fips.dualstack.us-east-1.amazonaws.com");
    assert_eq!(of("eu-west-1", false, true, false, false), "s3.dualstack.eu-west-1.amazonaws.com");
    assert_eq!(of("eu-west-1", false, true, true, true), "s3-accelerate.dualstack.amazonaws.com");
    assert_eq!(of("eu-west-1", false, false, true, false), "s3.eu-west-1.amazonaws.com");
    assert!(!endpoint("https://evilamazonaws.com").is_aws());
    for wrong in ["eu/central", "x@y", "EU-WEST-1", "a.b", &"a".repeat(40)] {
        assert!(Endpoint::of_region(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_likely_style_is_that_which_a_certificate_covers() {
    let aws = Endpoint::of_region("eu-west-1").unwrap();
    assert_eq!(Style::likely(&aws, "bucket"), Style::Virtual);
    assert_eq!(Style::likely(&aws, "my.bucket"), Style::Path);
    assert_eq!(Style::likely(&aws, "Old_Bucket"), Style::Path);
    assert_eq!(Style::likely(&endpoint("http://localhost:9000"), "bucket"), Style::Path);
}

#[test]
fn keys_are_encoded_as_the_signature_wants_them() {
    let at = |style, bucket, key: &str, query: &[(&str, &str)]| {
        target(&endpoint("http://h:9000/p/"), style, bucket, key.as_bytes(), query).map(|uri| uri.to_string())
    };
    let path = |key: &str| at(Style::Path, Some("b"), key, &[]).unwrap();
    assert_eq!(path("a b+c%d~e_f-g.h"), "http://h:9000/p/b/a%20b%2Bc%25d~e_f-g.h");
    assert_eq!(path("a//b"), "http://h:9000/p/b/a//b");
    assert_eq!(path("../x"), "http://h:9000/p/b/../x");
    assert_eq!(path("/x"), "http://h:9000/p/b//x");
    assert_eq!(path("x/"), "http://h:9000/p/b/x/");
    assert_eq!(path("caf\u{e9}?#\0\n"), "http://h:9000/p/b/caf%C3%A9%3F%23%00%0A");
    assert_eq!(path(""), "http://h:9000/p/b");
    assert_eq!(at(Style::Virtual, Some("b"), "k/1", &[]).unwrap(), "http://b.h:9000/p/k/1");
    assert_eq!(at(Style::Virtual, Some("b"), "", &[("location", "")]).unwrap(), "http://b.h:9000/p/?location=");
    assert_eq!(at(Style::Path, None, "", &[]).unwrap(), "http://h:9000/p");
    assert_eq!(target(&endpoint("http://h"), Style::Virtual, None, b"", &[]).unwrap().to_string(), "http://h/");
    assert_eq!(
        at(Style::Path, Some("b"), "", &[("uploads", ""), ("prefix", "a/b c"), ("max-keys", "1")]).unwrap(),
        "http://h:9000/p/b?max-keys=1&prefix=a%2Fb%20c&uploads="
    );
    assert!(at(Style::Path, None, "k", &[]).is_err());
    assert!(at(Style::Virtual, Some("a/b"), "k", &[]).is_err());
    assert!(target(&endpoint("http://h"), Style::Path, Some("b"), b"a\xff", &[]).unwrap_err().contains("from byte 1 on"));
    assert!(target(&endpoint("http://h"), Style::Path, Some("b"), &[b'x'; 1024], &[]).is_ok());
    assert!(target(&endpoint("http://h"), Style::Path, Some("b"), &[b'x'; 1025], &[]).unwrap_err().contains("1025"));
    assert_eq!(copy_source("b", b"a b/\xc3\xa9", "v/1"), "/b/a%20b/%C3%A9?versionId=v%2F1");
    assert_eq!(copy_source("b", b"k", ""), "/b/k");
    // The order is that of the encoded texts, not of the plain ones.
    assert_eq!(query(&[("a-", "1"), ("a", "2"), ("a", "1"), ("A", "\u{e9}")]), "A=%C3%A9&a=1&a=2&a-=1");
}

#[test]
fn a_bucket_that_cannot_be_is_refused_with_the_reason() {
    for name in ["abc", "my-bucket.2024", "1ab", &"a".repeat(63)] {
        check_new_bucket(name).unwrap();
    }
    for (name, why) in [
        ("ab", "3 to 63"),
        ("", "no name"),
        (&"a".repeat(64), "3 to 63"),
        ("Bucket", "\"bucket\" would do"),
        ("a_b", "\"a-b\" would do"),
        ("-ab", "begins and ends"),
        ("ab-", "begins and ends"),
        (".ab", "dot"),
        ("a..b", "dot"),
        ("192.168.5.4", "IP address"),
        ("xn--abc", "reserved"),
        ("abc-s3alias", "reserved"),
        ("abc--x-s3", "S3 Express"),
        ("a/b", "'/'"),
        ("b\u{fc}cher", "'\u{fc}'"),
        ("a b", "' '"),
        ("arn:aws:s3:::x", "ARN"),
        ("a@b", "'@'"),
        ("a:b", "':'"),
    ] {
        let error = check_new_bucket(name).expect_err(name);
        assert!(error.contains(why), "{name}: {error}");
    }
    // Those of old, and other services'.
    for name in ["Old_Bucket", "a", &"a".repeat(255)] {
        check_bucket(name).unwrap();
    }
    for name in ["", "a/b", "a..b", "..", ".", "a\r\nb", "a?b", &"a".repeat(256)] {
        assert!(check_bucket(name).is_err(), "{name}");
    }
}

#[test]
fn wildcards_are_split_at_the_first() {
    let prefix = |text: &str| Pattern::parse(text.as_bytes()).unwrap().map(|p| String::from_utf8(p.prefix().to_vec()).unwrap());
    for (text, expected) in [
        ("2024-*/x*.nc", Some("2024-")),
        ("a/b/**", Some("a/b/")),
        ("*", Some("")),
        ("a/[0-9]x", Some("a/")),
        ("a\\*b*", Some("a*b")),
        ("a\\*b", Some("a*b")),
        ("a?", Some("a")),
        ("plain/key", None),
        ("back\\slash", None),
        ("a[1", None),
        ("a[1].txt", Some("a")),
    ] {
        assert_eq!(prefix(text).as_deref(), expected, "{text}");
    }
    assert!(Pattern::parse(b"a[1*").is_err() && Pattern::parse(b"a*\\").is_err());
    let pattern = Pattern::parse(b"2024-*/x*.nc").unwrap().unwrap();
    for (key, matches) in [
        ("2024-01/x1.nc", true),
        ("2024-/x.nc", true),
        ("2024-01/a/x.nc", false),
        ("2024-01/y.nc", false),
        ("2024-01/x.nc/", false),
        ("2023-01/x.nc", false),
    ] {
        assert_eq!(pattern.matches(key.as_bytes()), matches, "{key}");
    }
}

#[test]
fn a_listing_goes_down_only_where_something_can_match() {
    let below = |pattern: &str, prefix: &str| Pattern::parse(pattern.as_bytes()).unwrap().unwrap().may_match_below(prefix.as_bytes());
    for (pattern, prefix, may) in [
        ("2024-*/x*.nc", "2024-01/", true),
        ("2024-*/x*.nc", "2023-01/", false),
        ("2024-*/x*.nc", "2024-01/a/", false),
        ("*/b/*", "a/", true),
        ("*/b/*", "a/b/", true),
        ("*/b/*", "a/c/", false),
        ("a/**/z", "a/", true),
        ("a/**/z", "a/b/c/", true),
        ("a/**/z", "b/", false),
        ("a/**/z", "b/b/c/", false),
        ("**.nc", "x/y/", true),
        ("a/[/]b/x", "a/", true),
        ("a\\/*", "a/", true),
        ("*", "a/", false),
    ] {
        assert_eq!(below(pattern, prefix), may, "{pattern} {prefix}");
    }
}

#[test]
fn parts_that_are_no_names_have_some_that_stand_for_them() {
    for (key, path) in [
        ("a/b", "a/b"),
        ("a/b/", "a/b"),
        ("100%/50\u{ff05}", "100%/50\u{ff05}"),
        ("a//b", "a/\u{ff05}2F/b"),
        ("/x", "\u{ff05}2F/x"),
        ("//", "\u{ff05}2F/\u{ff05}2F"),
        ("../x", "\u{ff05}2E\u{ff05}2E/x"),
        ("a/.", "a/\u{ff05}2E"),
        ("a\0b", "a\u{ff05}00b"),
        ("\u{ff05}2F", "\u{ff05}EF\u{ff05}BC\u{ff05}852F"),
        ("\u{ff05}\u{ff05}~", "\u{ff05}\u{ff05}EF\u{ff05}BC\u{ff05}85~"),
        ("...", "..."),
    ] {
        assert_eq!(path_of_key(key.as_bytes()).map(|path| String::from_utf8(path).unwrap()).as_deref(), Some(path), "{key:?}");
    }
    assert_eq!(path_of_key("x".repeat(256).as_bytes()), None);
    assert_eq!(name_beside(&[b'x'; 252]), None);
    for (key, path) in [("b", "b\u{ff05}~"), ("a//b", "a/\u{ff05}2F/b\u{ff05}~"), ("a/", "a/\u{ff05}2F\u{ff05}~")] {
        assert_eq!(path_beside(key.as_bytes()).map(|path| String::from_utf8(path).unwrap()).as_deref(), Some(path), "{key:?}");
    }
    assert_eq!(name_beside(b"").as_deref(), Some("\u{ff05}2F\u{ff05}~".as_bytes()));
}

/// Keys of the pieces that matter here.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just("/".to_owned()),
        2 => Just(".".to_owned()),
        2 => Just("\u{ff05}".to_owned()),
        2 => prop::sample::select(vec!["~", "2F", "2E", "00", "EF", "\0", "%", "\\"]).prop_map(str::to_owned),
        1 => "x{100,300}",
        1 => "\u{e9}{50,200}",
        3 => "[a-zA-F0-9]{1,3}",
    ];
    prop_oneof![
        proptest::collection::vec(piece, 1..12).prop_map(|pieces| pieces.concat().into_bytes()),
        proptest::collection::vec(any::<u8>(), 1..400),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_name_stands_for_its_part(key in keys()) {
        for part in key.split(|byte| *byte == b'/') {
            for name in [name_of_part(part), name_beside(part)].into_iter().flatten() {
                prop_assert!(haul_core::entry::check_leaf(&name).is_ok() && name.len() <= 255);
                prop_assert_eq!(part_of_name(&name), part);
                prop_assert_eq!(std::str::from_utf8(&name).is_ok(), std::str::from_utf8(part).is_ok());
            }
            prop_assert!(name_of_part(part).is_none_or(|name| !is_beside(&name)));
            prop_assert!(name_beside(part).is_none_or(|name| is_beside(&name)));
        }
    }

    #[test]
    fn an_encoded_key_is_the_key(key in "\\PC{1,60}|[/.%+ ~]{1,20}") {
        let target = target(&endpoint("http://h"), Style::Path, Some("b"), key.as_bytes(), &[("k", &key)]).unwrap();
        let plain = |text: &str| String::from_utf8(decode(text).unwrap()).unwrap();
        prop_assert_eq!(plain(target.path()), format!("/b/{key}"));
        prop_assert_eq!(plain(target.query().unwrap_or_default()), format!("k={key}"));
    }

    /// What matches begins with the prefix, and a listing by delimiter would find it.
    #[test]
    fn a_pattern_does_not_lose_what_matches(pattern in "[a-c*?/\\[\\]!\\\\-]{1,12}", key in "[a-c/*?\\[]{1,10}") {
        if let Ok(Some(pattern)) = Pattern::parse(pattern.as_bytes()) {
            let key = key.as_bytes();
            if pattern.matches(key) {
                prop_assert!(key.starts_with(pattern.prefix()));
                for end in (1..=key.len()).filter(|end| key[end - 1] == b'/') {
                    prop_assert!(pattern.may_match_below(&key[..end]));
                }
            }
        }
    }

    #[test]
    fn hostile_endpoints_are_refused_or_made_a_uri(text in "https?://(\\PC{0,40}|[a-z0-9:/@?#.\\[\\]-]{0,30})") {
        if let Some(endpoint) = Endpoint::parse(&text) {
            prop_assert!(target(&endpoint, Style::Path, Some("b"), b"k", &[]).is_ok());
            prop_assert_eq!(Endpoint::parse(&endpoint.to_string()), Some(endpoint));
        }
    }
}
