//! The vectors are those of "Signature calculations for the authorization header" and "Authenticating requests: using
//! query parameters" in the Amazon S3 API reference; the keys are the example's.

use super::*;

const BUCKET: &str = "https://examplebucket.s3.amazonaws.com";

fn example() -> Arc<Credential> {
    Arc::new(Credential::new("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", None, None))
}

/// Friday, 24 May 2013, midnight.
fn then() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_369_353_600)
}

fn uri(path: &str) -> Uri {
    format!("{BUCKET}{path}").parse().unwrap()
}

fn signature(headers: &HeaderMap) -> &str {
    headers[AUTHORIZATION].to_str().unwrap().rsplit_once("Signature=").unwrap().1
}

#[test]
fn bucket_lifecycle_and_listing_of_the_reference() {
    let signer = Signer::new("us-east-1");
    for (path, expected) in [
        ("/?lifecycle=", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("/?max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
        ("/?prefix=J&max-keys=2", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ] {
        let mut headers = HeaderMap::new();
        signer.sign(&Method::GET, &uri(path), &mut headers, Payload::Empty, &example(), then()).unwrap();
        assert_eq!(signature(&headers), expected, "{path}");
    }
}

#[test]
fn presigned_address_of_the_reference() {
    let signer = Signer::new("us-east-1");
    let day = Duration::from_secs(86_400);
    let made = signer.presign(&Method::GET, &uri("/test.txt"), &example(), then(), day).unwrap();
    assert_eq!(
        made,
        "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256\
         &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
         &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
         &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    );
    for bad in [Duration::ZERO, LONGEST_PRESIGN + Duration::from_secs(1)] {
        let refused = signer.presign(&Method::GET, &uri("/x"), &example(), then(), bad).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Usage);
    }
}

#[test]
fn what_must_be_signed_is_and_nothing_else() {
    let signer = Signer::new("us-east-1");
    let temporary = Arc::new(Credential::new("ASIAX", "s", Some("the-token".into()), None));
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("content-type", "text/plain"),
        ("content-md5", "abc"),
        ("range", "bytes=0-1"),
        ("user-agent", "haul"),
        ("content-length", "3"),
        ("x-amz-meta-mtime", "1"),
    ] {
        headers.insert(name, value.parse().unwrap());
    }
    let at = "http://127.0.0.1:9000/b/k".parse().unwrap();
    signer.sign(&Method::PUT, &at, &mut headers, Payload::Unsigned, &temporary, then()).unwrap();
    let line = headers[AUTHORIZATION].to_str().unwrap().to_string();
    let names = "content-md5;content-type;host;x-amz-content-sha256;x-amz-date;x-amz-meta-mtime;x-amz-security-token";
    assert!(line.contains(&format!("SignedHeaders={names},")), "{line}");
    assert_eq!(headers["x-amz-content-sha256"], "UNSIGNED-PAYLOAD");
    assert_eq!(headers["x-amz-security-token"], "the-token");

    // Signing again with another credential leaves nothing of the first.
    signer.sign(&Method::PUT, &at, &mut headers, Payload::Unsigned, &example(), then()).unwrap();
    assert!(!headers.contains_key("x-amz-security-token"));
    assert_eq!(headers.get_all(AUTHORIZATION).iter().count(), 1);
    assert!(headers[AUTHORIZATION].is_sensitive());
}

#[test]
fn the_host_is_signed_as_it_is_sent() {
    let host = |at: &str, header: Option<&str>| {
        let mut headers = HeaderMap::new();
        if let Some(value) = header {
            headers.insert(http::header::HOST, value.parse().unwrap());
        }
        let at: Uri = at.parse().unwrap();
        let text = canonical(&Method::GET, &at, "", &headers, Payload::Empty).unwrap();
        text.lines().find_map(|line| line.strip_prefix("host:")).unwrap().to_string()
    };
    assert_eq!(host("http://127.0.0.1:9000/", None), "127.0.0.1:9000");
    assert_eq!(host("http://h:80/", None), "h");
    assert_eq!(host("https://h:443/", None), "h");
    assert_eq!(host("https://h:80/", None), "h:80");
    assert_eq!(host("https://[::1]:9/", None), "[::1]:9");
    assert_eq!(host("https://h/", Some("other:7")), "other:7");
}

#[test]
fn blanks_in_headers_are_folded() {
    let mut text = String::new();
    trimmed(&mut text, &HeaderValue::from_static("  a   b  c ")).unwrap();
    assert_eq!(text, "a b c");
}

#[test]
fn a_wrong_clock_is_corrected() {
    let signer = Signer::new("us-east-1");
    let local = then() - Duration::from_secs(3600);
    signer.learn_clock(then(), local);
    let mut headers = HeaderMap::new();
    signer.sign(&Method::GET, &uri("/?lifecycle="), &mut headers, Payload::Empty, &example(), local).unwrap();
    assert_eq!(headers["x-amz-date"], "20130524T000000Z");
    assert_eq!(signature(&headers), "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    signer.learn_clock(then(), then());
    assert_eq!(signer.corrected(local), local, "and back");
}

#[test]
fn the_key_of_a_day_is_made_anew_when_day_or_credential_changes() {
    let signer = Signer::new("us-east-1");
    let sign = |signer: &Signer, credential: &Arc<Credential>, now| {
        let mut headers = HeaderMap::new();
        signer.sign(&Method::GET, &uri("/k"), &mut headers, Payload::Empty, credential, now).unwrap();
        headers[AUTHORIZATION].to_str().unwrap().to_string()
    };
    let (one, two) = (example(), Arc::new(Credential::new("AKIAIOSFODNN7EXAMPLE", "another secret", None, None)));
    let next = then() + Duration::from_secs(86_400);
    for (credential, now) in [(&one, then()), (&one, next), (&two, next), (&one, then())] {
        assert_eq!(sign(&signer, credential, now), sign(&Signer::new("us-east-1"), credential, now));
    }
    assert_ne!(sign(&signer, &one, then()), sign(&signer, &two, then()));
}

#[test]
fn no_secret_is_printed() {
    let credential = Arc::new(Credential::new("AKIAIOSFODNN7EXAMPLE", "very secret", Some("very token".into()), None));
    let signer = Signer::new("us-east-1");
    let mut headers = HeaderMap::new();
    signer.sign(&Method::GET, &uri("/k"), &mut headers, Payload::Empty, &credential, then()).unwrap();
    let printed = format!("{credential:?} {credential:#?} {signer:?} {headers:?}");
    for secret in ["very secret", "very token", "AKIAIOSFODNN7EXAMPLE", "Signature"] {
        assert!(!printed.contains(secret), "{secret} in {printed}");
    }
    assert!(printed.contains("AKIA...MPLE"), "{printed}");
    assert_eq!(Credential::new("minio", "x", None, None).shown(), "min...");
}
