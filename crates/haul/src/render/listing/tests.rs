use haul_s3::inventory::{Object, Version};
use serde_json::Value;

use super::super::fixtures::entry;
use super::*;

fn written(listed: &Listed<'_>) -> String {
    let mut line = Vec::new();
    listed.write(&mut line).expect("memory takes all");
    String::from_utf8(line).expect("JSON is text")
}

fn parsed(listed: &Listed<'_>) -> Value {
    serde_json::from_str(&written(listed)).expect("JSON")
}

fn object(key: &[u8]) -> Object {
    let modified = Some(Time { secs: 1_700_000_000, nanos: 5_000_000 });
    Object { key: key.to_vec(), size: 7, etag: "\"e-2\"".into(), modified, class: "GLACIER".into(), details: None }
}

#[test]
fn what_a_listing_does_not_tell_is_null() {
    let bare = entry::Entry::bare(entry::Name::of(&entry::Dir::root()), Kind::Unknown);
    let value = parsed(&Listed::Entry(Box::new(Entry::of(b"h:x", b"a", &bare))));
    assert_eq!(value["kind"], "entry");
    for key in ["size", "mtime", "mtime_ns", "mode", "uid", "gid", "target", "storage_class", "etag", "version_id", "latest", "deleted"] {
        assert_eq!(value[key], Value::Null, "{key}");
    }
}

#[test]
fn versions_marks_and_markers_are_told_apart() {
    let of = |key: &[u8], deleted| Version { object: object(key), id: "null".into(), latest: true, deleted };
    let line = |version: &Version| written(&Listed::Entry(Box::new(Entry::of_version(b"s3://b/", &version.object.key, version))));
    insta::assert_snapshot!(line(&of(b"d//", false)).trim_end(), @r#"{"event":"entry","place":"s3://b/","place_hex":null,"path":"d/","path_hex":null,"kind":"directory","size":7,"mtime":1700000000.005,"mtime_ns":1700000000005000000,"mode":null,"uid":null,"gid":null,"target":null,"target_hex":null,"storage_class":"GLACIER","etag":"e-2","version_id":"null","latest":true,"deleted":false}"#);
    let mark: Value = serde_json::from_str(&line(&of(b"d", true))).expect("JSON");
    assert_eq!((&mark["size"], &mark["deleted"], &mark["kind"]), (&Value::Null, &Value::Bool(true), &"file".into()));
}

#[test]
fn nothing_hostile_reaches_the_terminal_raw() {
    let mut link = entry("x", Kind::Link);
    link.target = Some(b"\x9b\xe2\x80\xae\x7f"[..].into());
    let line = written(&Listed::Entry(Box::new(Entry::of(b"\xff\x1b", b"a\xfe\n", &link))));
    assert!(!line.trim_end_matches('\n').chars().any(|c| c.is_control() || c == '\u{202e}'), "{line:?}");
    let value: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!((&value["place"], &value["place_hex"]), (&"\u{fffd}\u{1b}".into(), &"ff1b".into()));
    assert_eq!((&value["path"], &value["path_hex"]), (&"a\u{fffd}\n".into(), &"61fe0a".into()));
    assert_eq!((&value["target"], &value["target_hex"]), (&"\u{fffd}\u{202e}\u{7f}".into(), &"9be280ae7f".into()));
}

#[test]
fn times_are_cut_off_to_microseconds() {
    for (secs, nanos, text) in [
        (1_700_000_000, 123_456_789, "1700000000.123456"),
        (1_700_000_000, 0, "1700000000.0"),
        (0, 999, "0.0"),
        (-1, 500_000_000, "-0.5"),
        (-1, 999_999_999, "-1e-6"),
    ] {
        assert_eq!(Value::from(seconds(Time { secs, nanos })).to_string(), text);
    }
}
