use std::os::unix::ffi::OsStrExt;

use proptest::prelude::*;

use super::*;
use haul_s3::S3;
use haul_ssh::ssh::{SFTP, SSH};

fn read(text: &str) -> Result<Location, AddressError> {
    parse(OsStr::new(text), &|_| false)
}

fn parts(text: &str) -> (Scheme, String, String, bool) {
    let l = read(text).expect(text);
    (l.scheme, l.authority(), String::from_utf8_lossy(&l.path).into_owned(), l.trailing_slash)
}

#[test]
fn every_form_is_read() {
    for (text, scheme, authority, path, slash) in [
        ("/path", Scheme::LOCAL, "", "/path", false),
        ("./path/", Scheme::LOCAL, "", "./path", true),
        ("a/b:c", Scheme::LOCAL, "", "a/b:c", false),
        ("/", Scheme::LOCAL, "", "/", true),
        ("//", Scheme::LOCAL, "", "/", true),
        ("a//", Scheme::LOCAL, "", "a", true),
        (":x", Scheme::LOCAL, "", ":x", false),
        ("user@host", Scheme::LOCAL, "", "user@host", false),
        ("file:///a%20b/", Scheme::LOCAL, "", "/a b", true),
        ("FILE://localhost/x", Scheme::LOCAL, "", "/x", false),
        ("-", Scheme::STDIO, "", "", false),
        ("host:path", SSH, "host", "path", false),
        ("host:", SSH, "host", "", false),
        ("user@host:/p/", SSH, "user@host", "/p", true),
        ("me@corp.org@host:p", SSH, "me@corp.org@host", "p", false),
        ("chrisj@login.hpcx.ac.uk://home/bin2G", SSH, "chrisj@login.hpcx.ac.uk", "//home/bin2G", false),
        ("login.hpcx.ac.uk://home", SSH, "login.hpcx.ac.uk", "//home", false),
        ("host:a:b", SSH, "host", "a:b", false),
        ("[::1]:p", SSH, "[::1]", "p", false),
        ("u@[fe80::1%eth0]:/p", SSH, "u@[fe80::1%eth0]", "/p", false),
        ("ssh://u@host:22/p", SSH, "u@host:22", "/p", false),
        ("ssh://[::1]:22/p", SSH, "[::1]:22", "/p", false),
        ("ssh://host/~/p", SSH, "host", "p", false),
        ("ssh://host", SSH, "host", "", false),
        ("ssh://host/", SSH, "host", "/", true),
        ("sftp://host/a%2525", SFTP, "host", "/a%25", false),
        ("s3://", S3, "", "", false),
        ("s3:///", S3, "", "", false),
        ("s3://bucket/key", S3, "bucket", "key", false),
        ("s3://bucket/pre/", S3, "bucket", "pre", true),
        ("s3://bucket", S3, "bucket", "", false),
        ("s3://bucket/", S3, "bucket", "", false),
        ("s3://bucket//", S3, "bucket", "", true),
        ("s3://bucket//a//b//", S3, "bucket", "/a//b/", true),
        ("s3://bucket/a%20b", S3, "bucket", "a%20b", false),
        ("s3://lab@bucket/k/", S3, "lab@bucket", "k", true),
        ("s3://lab@", S3, "lab@", "", false),
    ] {
        assert_eq!(parts(text), (scheme, authority.to_string(), path.to_string(), slash), "{text}");
    }
}

#[test]
fn what_exists_locally_is_local() {
    let name = "wrfout_d01_2024-01-01_00:00:00";
    assert_eq!(parts(name).0, SSH);
    let here = parse(OsStr::new(name), &|p| p == Path::new(name)).expect(name);
    assert_eq!((here.scheme, here.path), (Scheme::LOCAL, name.as_bytes().to_vec()));
}

#[test]
fn bad_addresses_say_what_to_write() {
    for (text, part) in [
        ("", "write ."),
        ("gs://bucket/x", "no such scheme"),
        ("host::module", "brackets"),
        ("ssh://host:99999/", "port"),
        ("ssh:///path", "no host"),
        ("ssh://::1/path", "brackets"),
        ("-oProxyCommand=x:y", "./NAME"),
        ("a b:c", "./NAME"),
        ("ssh://-x/y", "begin with -"),
        ("ssh://host/50%", "%25"),
        ("ssh://host/%00", "zero byte"),
        ("file://elsewhere/x", "HOST:PATH"),
        ("s3://b:9000/x", "--endpoint-url"),
        ("s3:///key", "no host"),
        ("s3://@bucket/x", "PROFILE@BUCKET"),
        ("s3://a b@bucket/x", "PROFILE@BUCKET"),
    ] {
        let e = read(text).expect_err(text).to_string();
        assert!(e.contains(part), "{text}: {e}");
    }
}

#[test]
fn passwords_are_refused_and_never_shown() {
    for text in [
        "ftp://me:hunter2@host:99999/x",
        "ftp://me:hun%01ter2@host/x",
        "ssh://me:hunter2@host/x",
        "s3://AKIA:hunter2@bucket/x",
        "s3://AKIAIOSFODNN7EXAMPLE@bucket/x",
        "ssh://me:hun@ter2@host/",
        "gs://me:hun@ter2@host/x",
    ] {
        let e = read(text).expect_err(text).to_string();
        assert!(!e.contains("hun") && !e.contains("AKIA") && e.contains("; "), "{e}");
    }
}

#[test]
fn a_password_that_is_taken_is_in_no_location() {
    for text in ["ftp://me:hun@ter2@host:21/x", "ftps://me:hunter2@host/~/x%20y"] {
        let location = read(text).expect(text);
        let shown = format!("{location} {location:?} {}", location.authority());
        assert!(!shown.contains("hun") && shown.contains("me@host"), "{shown}");
        assert_eq!(read(&location.to_string()).expect(text), location);
    }
}

#[test]
fn contents_are_meant_by_slashes_and_dots() {
    for (text, expected) in [
        ("a", false),
        ("a/", true),
        (".", true),
        ("..", true),
        ("a/.", true),
        ("a.", false),
        ("h:", true),
        ("s3://b/..", false),
        ("s3://b", true),
        ("/", true),
    ] {
        assert_eq!(read(text).expect(text).means_contents(), expected, "{text}");
    }
}

#[test]
fn what_is_shown_cannot_write_to_the_terminal() {
    let l = parse(OsStr::from_bytes(b"a\x1b[2J\xff"), &|_| false).expect("an address");
    assert_eq!(l.to_string(), "a\\x1b[2J\\xff");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn addresses_round_trip_and_never_panic(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..24),
            "(ssh|sftp|s3|ftp|file|gsiftp)://(u@)?(h|\\[::1\\]|b)(:[0-9]{1,5})?(/[a~:%./ 2Fé-]{0,10})?".prop_map(String::into_bytes),
            "(u@)?(h|\\[::1\\]|\\[)(:|/)[a~:%./ 2Fé@-]{0,10}".prop_map(String::into_bytes),
        ],
        there in any::<bool>(),
    ) {
        let exists = |_: &Path| there;
        if let Ok(location) = parse(OsStr::from_bytes(&bytes), &exists) {
            let again = parse(OsStr::from_bytes(&location.to_bytes()), &exists);
            // A host's path that would be local if it were there is not asked about twice in different forms.
            if !(there && location.scheme == SSH) {
                prop_assert_eq!(again, Ok(location.clone()));
            }
            let _ = (location.to_string(), location.means_contents());
        }
    }
}
