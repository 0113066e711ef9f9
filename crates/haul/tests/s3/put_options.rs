//! What objects are written with beside their content, and commands that look at them.

use haul_test::objects::scripted::{Action, When};

use crate::support::World;

#[test]
fn what_no_header_takes_is_said_before_anything_is_sent() {
    let w = World::new();
    w.tree("a=1");
    for flags in ["--metadata nothing", "--metadata a/b=1", "--metadata MTime=5", "--cache-control \u{e9}", "--sse-c a", "--sse rot13"] {
        let ended = w.haul(&format!("cp {flags} a @/a")).run();
        assert_eq!(ended.status.code(), Some(1), "{ended}");
    }
    assert_eq!(w.keys(), Vec::<String>::new());
}

/// What is asked for of objects that are there already is set by the service, on their own content, and only where it is missing.
#[test]
fn wishes_are_done_on_unchanged_objects() {
    let (w, scripted) = World::scripted();
    w.tree("src: a.html=100 d/large=20M");
    w.haul("cp -a src/ @/to/").ends(0);
    let flags = "--metadata project=mars --content-type text/x-mine --content-language de --content-disposition inline --content-encoding x \
                 --cache-control no-store --storage-class REDUCED_REDUNDANCY --tagging a=b&c=d --expires-at 2030-01-01T00:00:00Z";
    let sent = || scripted.requests().iter().filter(|seen| seen.method == "PUT").map(|seen| seen.body).sum::<u64>();
    scripted.clear_seen();
    let ended = w.haul(&format!("sync -a --json {flags} src/ @/to/")).ends(0);
    assert_eq!((ended.number("bytes"), sent()), (0, 0), "{ended}");
    assert_eq!(ended.finished()["attributes"], 2, "{ended}");
    for key in ["to/a.html", "to/d/large"] {
        for (name, value) in [
            ("x-amz-meta-project", "mars"),
            ("content-type", "text/x-mine"),
            ("content-language", "de"),
            ("content-disposition", "inline"),
            ("content-encoding", "x"),
            ("expires", "Tue, 01 Jan 2030 00:00:00 GMT"),
            ("cache-control", "no-store"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ] {
            assert_eq!(w.header(key, name).as_deref(), Some(value), "{key} {name}");
        }
        assert!(w.request("GET", &format!("/{key}?tagging="), &[], b"").text().contains("<Key>c</Key><Value>d</Value>"), "{key}");
    }
    w.haul("cp --expires-at soon src/a.html @/").ends(1).says("2030-01-01T00:00:00Z");
    // Once more there is nothing to set. Tags alone need no copy.
    scripted.clear_seen();
    w.haul(&format!("sync -a {flags} src/ @/to/")).moves_nothing();
    assert_eq!(scripted.requests().iter().filter(|seen| seen.method == "PUT").count(), 0);
    let ended = w.haul("sync -a --json --tagging a=2 src/ @/to/").ends(0);
    assert_eq!(ended.finished()["attributes"], 2, "{ended}");
    let tags = w.request("GET", "/to/a.html?tagging=", &[], b"").text();
    assert!(tags.contains("<Key>a</Key><Value>2</Value>") && !tags.contains("<Key>c</Key>"), "{tags}");
    w.haul("cp -a @/to/ back").ends(0);
    w.assert_same("src", "back", haul_test::compare::What::USUAL);
}

#[test]
fn encryption_by_the_server_is_set_in_place() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=100 d/large=20M");
    w.haul("cp -a src/ @/to/").ends(0);
    let puts = || scripted.requests().iter().filter(|seen| seen.method == "PUT").count();
    let kms = format!("--sse aws:kms --sse-kms-key-id {}", haul_test::objects::real::KMS_KEY);
    for (flags, kind) in [("--sse AES256", "AES256"), (&*kms, "aws:kms")] {
        let ended = w.haul(&format!("sync -a --json {flags} src/ @/to/")).ends(0);
        assert_eq!((&ended.finished()["attributes"], ended.number("bytes")), (&2.into(), 0), "{ended}");
        for key in ["to/a", "to/d/large"] {
            assert_eq!(w.header(key, "x-amz-server-side-encryption").as_deref(), Some(kind), "{key}");
        }
        scripted.clear_seen();
        w.haul(&format!("sync -a {flags} src/ @/to/")).moves_nothing();
        assert_eq!(puts(), 0, "{flags}");
    }
    // What is written anew is encrypted, too, and content is still compared.
    w.haul(&format!("cp -aI --part-size 5M {kms} src/ @/new/")).ends(0);
    assert_eq!(w.header("new/d/large", "x-amz-server-side-encryption").as_deref(), Some("aws:kms"));
    w.haul("check -c src/ @/new/").ends(0);
    w.haul("cp -a @/to/ back").ends(0);
    w.assert_same("src", "back", haul_test::compare::What::USUAL);
}

#[test]
fn the_checksum_that_was_named_is_stored() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=100 d/large=12M");
    let stored = |key: &str, word: &str| {
        let answer = w.request("HEAD", &format!("/{key}"), &[("x-amz-checksum-mode", "ENABLED")], b"");
        answer.header(&format!("x-amz-checksum-{word}")).is_some()
    };
    for word in ["sha256", "crc32", "sha1", "crc32c", "crc64nvme"] {
        w.haul(&format!("cp -I --part-size 5M --checksum-algorithm {word} src/ @/to/")).ends(0);
        assert!(stored("to/a", word) && stored("to/d/large", word), "{word}");
        w.haul("check -c src/ @/to/").ends(0);
    }
    // In place, where it is missing.
    let ended = w.haul("sync --json --checksum-algorithm SHA256 src/ @/to/").ends(0);
    assert_eq!((&ended.finished()["attributes"], ended.number("bytes")), (&2.into(), 0), "{ended}");
    assert!(stored("to/a", "sha256") && stored("to/d/large", "sha256"));
    scripted.clear_seen();
    w.haul("sync --checksum-algorithm sha256 src/ @/to/").moves_nothing();
    assert_eq!(scripted.requests().iter().filter(|seen| seen.method == "PUT").count(), 0);
    w.haul("cp @/to/ back").ends(0);
    w.assert_same("src", "back", haul_test::compare::What::USUAL);
    // A server that does not store it is an error, and not another checksum.
    let drop_it = Action::edit(|answer| answer.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("x-amz-checksum-sha256")));
    scripted.rule(When::method("PUT"), .., drop_it);
    w.haul("cp -I --checksum-algorithm sha256 src/a @/b").ends(23).says("stores no SHA256 checksum").says("--checksum-algorithm");
    w.haul("cp --checksum-algorithm md4 src/a @/b").ends(1);
}
