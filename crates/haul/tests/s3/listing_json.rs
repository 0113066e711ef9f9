//! `ls`, `du`, `tree`, `head` and `rm` with `--json` in object stores, and that they ask for no more than without.

use std::collections::BTreeSet;

use haul_test::documented::{documented, keys};
use haul_test::objects::scripted::{Action, Answer, When};
use haul_test::objects::{ObjectServer, Scripted};
use serde_json::{Value, json};

use crate::keys::shelf;
use crate::support::{Ended, World};

/// The lines, each of the kind that is meant and with the keys that docs/json.md has of it.
#[track_caller]
fn lines(ended: &Ended, event: &str) -> Vec<Value> {
    let known = &documented()[event];
    let all: Vec<Value> = ended.events().into_iter().filter(|line| line["event"] == event).collect();
    for line in &all {
        let has: BTreeSet<String> = keys(line).into_iter().filter(|key| !key.starts_with("metadata.")).collect();
        assert!(has.is_subset(known) && known.iter().all(|key| key.contains('.') || has.contains(key)), "{has:?} {known:?}\n{ended}");
    }
    all
}

/// One key of each line.
fn of(lines: &[Value], key: &str) -> Vec<Value> {
    lines.iter().map(|line| line[key].clone()).collect()
}

#[test]
fn objects_are_listed_as_they_are() {
    let mut w = World::new();
    let _server = shelf(&mut w, &[(b"in/", b""), (b"in/a\x1b[2J", b"12345"), (b"in/caf\xe9", b"1"), (b"in/d/", b""), (b"in/d/e", b"22")]);
    let ended = w.haul("ls --json @/in/").ends(0);
    assert!(!ended.out.contains('\u{1b}'), "{ended}");
    let listed = lines(&ended, "entry");
    assert_eq!(ended.out.lines().count(), 3, "{ended}");
    assert_eq!(of(&listed, "path"), ["a\u{1b}[2J", "caf\u{fffd}", "d"]);
    assert_eq!(of(&listed, "path_hex"), [Value::Null, "636166e9".into(), Value::Null]);
    assert_eq!(of(&listed, "kind"), ["file", "file", "directory"]);
    assert_eq!(of(&listed, "size"), [json!(5), json!(1), Value::Null]);
    assert_eq!(of(&listed, "etag"), ["tag".into(), "tag".into(), Value::Null]);
    assert_eq!(of(&listed, "mtime"), [json!(1_714_521_600.0), json!(1_714_521_600.0), Value::Null]);
    for key in ["storage_class", "mode", "uid", "gid", "target", "version_id", "latest", "deleted"] {
        assert_eq!(listed[0][key], Value::Null, "{key}: {ended}");
    }
    assert_eq!(listed[0]["place"], format!("s3://{}/in/", w.bucket));
    // Flags that add columns add nothing here.
    assert_eq!(w.haul("ls --json -lh --etag @/in/").ends(0).out, ended.out);

    let deep = lines(&w.haul("ls --json -R @/in/").ends(0), "entry");
    assert_eq!(of(&deep, "path"), ["a\u{1b}[2J", "caf\u{fffd}", "d", "d/e"]);
    assert_eq!((&deep[2]["kind"], &deep[2]["size"]), (&"directory".into(), &0.into()), "a marker is an object");
    // One object, what is below a name without its slash, and a pattern.
    assert_eq!(of(&lines(&w.haul("ls --json @/in/d/e").ends(0), "entry"), "path"), [""]);
    assert_eq!(of(&lines(&w.haul("ls --json @/in/d").ends(0), "entry"), "path"), ["e"]);
    let matched = lines(&w.haul("ls --json @/in/*/e @/in/d/").ends(0), "entry");
    assert_eq!(of(&matched, "path"), ["in/d/e", "e"]);
    assert_ne!(matched[0]["place"], matched[1]["place"]);
    assert_eq!(of(&lines(&w.haul("ls --json @/nothing").ends(23), "error"), "error"), ["not-found"]);
}

#[test]
fn what_is_used_is_told_exactly_and_by_class() {
    let mut w = World::new();
    let _server = shelf(&mut w, &[(b"in/a", &[0; 1500]), (b"in/d/", b""), (b"in/d/\x1b\xff/e", b"22"), (b"in/d/f", b"333")]);
    let ended = w.haul("du --json -h -d 2 --by-class @/in/").ends(0);
    let used = lines(&ended, "usage");
    assert_eq!(of(&used, "path"), ["d/\u{1b}\u{fffd}", "d", ""]);
    assert_eq!(of(&used, "path_hex"), ["642f1bff".into(), Value::Null, Value::Null]);
    assert_eq!(of(&used, "level"), [2, 1, 0]);
    assert_eq!(of(&used, "bytes"), [2, 5, 1505]);
    assert_eq!(of(&used, "files"), [1, 2, 3]);
    assert_eq!(of(&used, "directories"), [1, 2, 3]);
    assert_eq!(of(&used, "errors"), [Value::Null, Value::Null, 0.into()]);
    let classes = lines(&ended, "class");
    assert_eq!(
        (of(&classes, "storage_class"), of(&classes, "bytes"), of(&classes, "files")),
        (vec!["STANDARD".into()], vec![1505.into()], vec![3.into()])
    );
    assert!(!ended.out.contains('\u{1b}') && ended.out.lines().count() == 4, "{ended}");

    let tree = w.haul("tree --json -L 2 @/in").ends(0).out;
    let tree: Vec<Value> = tree.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(of(&tree, "path"), ["", "a", "d", "d/\u{1b}\u{fffd}", "d/f"]);
    assert_eq!(of(&tree, "event"), ["usage", "entry", "usage", "usage", "entry"]);
    assert_eq!(of(&tree, "bytes"), [1505.into(), Value::Null, 5.into(), 2.into(), Value::Null]);
    assert_eq!(of(&tree, "directories"), [3.into(), Value::Null, 2.into(), 1.into(), Value::Null]);
    let dirs = lines(&w.haul("tree --json -d @/in").ends(0), "usage");
    assert_eq!((of(&dirs, "level"), of(&dirs, "directories")), (vec![0.into(), 1.into(), 2.into()], vec![3.into(), 2.into(), 1.into()]));
    let object = lines(&w.haul("du --json @/in/a").ends(0), "usage");
    assert_eq!((&object[0]["path"], &object[0]["bytes"], &object[0]["directories"]), (&"".into(), &1500.into(), &0.into()));
}

#[test]
fn heads_are_told_and_what_is_hostile_in_them_is_escaped() {
    let mut w = World::new();
    let server = Scripted::alone().expect("it listens");
    let answer = |_: &_, _: &_| {
        Answer::new(200, "")
            .with("ETag", "\"0123456789abcdef0123456789abcdef-2\"")
            .with("Last-Modified", "Wed, 01 May 2024 00:00:00 GMT")
            .with("Content-Length", "7")
            .with("Content-Type", "text/plain")
            .with("x-amz-checksum-crc32", "AAAAAA==")
            .with("x-amz-checksum-type", "FULL_OBJECT")
            .with("x-amz-meta-mode", "33184")
            .with("x-amz-meta-lab", "one\u{9b}2J\u{202e}two")
    };
    server.rule(When::method("HEAD"), .., Action::make(answer));
    w.endpoint = server.endpoint(&w.real);
    let ended = w.haul("head --json @/d/k").ends(0);
    assert!(!ended.out.trim_end_matches('\n').chars().any(|c| c.is_control() || c == '\u{202e}'), "{:?}", ended.out);
    assert!(ended.out.contains("one\\u009b2J\\u202etwo"), "{ended}");
    let told = &lines(&ended, "head")[0];
    assert_eq!(told["metadata"]["lab"], "one\u{9b}2J\u{202e}two");
    assert_eq!((&told["url"], &told["place"]), (&told["place"], &format!("s3://{}/d/k", w.bucket).into()));
    assert_eq!(
        (&told["etag_kind"], &told["parts"], &told["size"], &told["class"]),
        (&"multipart".into(), &2.into(), &7.into(), &"STANDARD".into())
    );
    assert_eq!((&told["modified"], &told["content_type"]), (&"2024-05-01T00:00:00Z".into(), &"text/plain".into()));
    assert_eq!(told["checksums"], json!([{ "algorithm": "CRC32", "value": "AAAAAA==", "type": "FULL_OBJECT" }]));
    assert_eq!((&told["file"]["mode"], &told["file"]["kind"], &told["file"]["uid"]), (&"0640".into(), &"file".into(), &Value::Null));
    for key in ["region", "version_id", "encryption", "legal_hold"] {
        assert_eq!(told[key], Value::Null, "{key}: {ended}");
    }
    // Of a bucket there is the region, and nothing else.
    w.endpoint = w.real.clone();
    let bucket = &lines(&w.haul("head --json @").ends(0), "head")[0];
    let rest: Vec<_> =
        bucket.as_object().expect("an object").iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| key.as_str()).collect();
    assert_eq!((rest.as_slice(), &bucket["region"]), (&["event", "place", "region", "url"][..], &"us-east-1".into()));
    assert_eq!(lines(&w.haul("head --json @/none").ends(23), "error").len(), 1);
}

#[test]
#[ignore = "full"]
fn versions_and_marks_of_deletion() {
    let w = World::of(ObjectServer::versitygw());
    let on =
        b"<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Status>Enabled</Status></VersioningConfiguration>";
    w.request("PUT", "?versioning=", &[], on).success().expect("versions are kept");
    for text in ["one", "second"] {
        w.put(b"d/k", &[], text.as_bytes());
    }
    w.haul("rm @/d/k").ends(0);
    let listed = lines(&w.haul("ls --json --all-versions @/d/").ends(0), "entry");
    assert_eq!(of(&listed, "path"), ["k", "k", "k"]);
    assert_eq!(of(&listed, "deleted"), [true, false, false]);
    assert_eq!(of(&listed, "latest"), [true, false, false]);
    assert_eq!(of(&listed, "size"), [Value::Null, 6.into(), 3.into()]);
    let ids: BTreeSet<&str> = listed.iter().filter_map(|line| line["version_id"].as_str()).collect();
    assert_eq!(ids.len(), 3, "{listed:?}");
    let old = listed[2]["version_id"].as_str().expect("an id");
    assert_eq!(w.haul("cat --version-id").arg(old).arg(format!("s3://{}/d/k", w.bucket)).ends(0).out, "one");
    assert!(listed[1]["mtime"].as_f64().is_some_and(|at| at > 1.7e9), "{listed:?}");
    let plain = lines(&w.haul("rm -n --json -r @/d/").ends(23), "removed");
    assert!(plain.is_empty(), "a mark of deletion hides it: {plain:?}");
    let gone = lines(&w.haul("rm --json -r --all-versions @/d/").ends(0), "removed");
    assert_eq!((of(&gone, "path"), of(&gone, "kind")), (vec!["k".into(); 3], vec!["file".into(); 3]));
    assert_eq!(gone.iter().filter_map(|line| line["version_id"].as_str()).collect::<BTreeSet<_>>(), ids);
}

#[test]
#[ignore = "full"]
fn uploads_and_what_has_landed_of_them() {
    let w = World::of(ObjectServer::versitygw());
    let begun = w.request("POST", "/d/large?uploads=", &[], b"").success().expect("begun").text();
    let id = begun.split("<UploadId>").nth(1).and_then(|rest| rest.split('<').next()).expect("an id");
    w.request("PUT", &format!("/d/large?partNumber=1&uploadId={id}"), &[], b"part").success().expect("a part");
    let dry = lines(&w.haul("rm -n --json --uploads @/d/").ends(0), "removed");
    assert_eq!((of(&dry, "path"), of(&dry, "kind")), (vec!["large".into()], vec!["upload".into()]));
    assert_eq!((&dry[0]["upload_id"], &dry[0]["version_id"], &dry[0]["dry"]), (&id.into(), &Value::Null, &true.into()));
    let plain = lines(&w.haul("ls --json --uploads @/d/").ends(0), "upload");
    assert_eq!((of(&plain, "path"), of(&plain, "upload_id")), (vec!["large".into()], vec![id.into()]));
    assert_eq!((&plain[0]["parts"], &plain[0]["landed_bytes"]), (&Value::Null, &Value::Null));
    assert!(plain[0]["initiated"].as_f64().is_some_and(|at| at > 1.7e9), "{plain:?}");
    let long = lines(&w.haul("ls --json --uploads -l @").ends(0), "upload");
    assert_eq!((&long[0]["path"], &long[0]["parts"], &long[0]["landed_bytes"]), (&"d/large".into(), &1.into(), &4.into()));
    assert!(lines(&w.haul("ls --json --uploads @/other/").ends(0), "upload").is_empty());

    // A bucket with all that is in it, itself last.
    w.put(b"d/k", &[], b"1");
    for dry in [true, false] {
        let told = lines(&w.haul(if dry { "rb --force -n --json @" } else { "rb --force --json @" }).ends(0), "removed");
        assert_eq!(
            (of(&told, "path"), of(&told, "kind")),
            (vec!["d/k".into(), "d/large".into(), "".into()], vec!["file".into(), "upload".into(), "bucket".into()])
        );
        assert!(of(&told, "dry").iter().all(|told| *told == dry), "{told:?}");
    }
}

#[test]
fn buckets_and_no_more_requests_than_without() {
    let (w, server) = World::scripted();
    w.put(b"in/a", &[], b"1");
    w.put(b"in/d/b", &[], b"2");
    let buckets = lines(&w.haul("ls --json s3://").ends(0), "bucket");
    let own = buckets.iter().find(|bucket| bucket["name"] == w.bucket.as_str()).expect("it is there");
    assert_eq!(own["address"], format!("s3://{}", w.bucket));
    assert!(own["created"].as_f64().is_some_and(|at| at > 1.7e9), "{own}");
    let requests = |words: &str| {
        let before = asked(&server);
        w.haul(words).ends(0);
        asked(&server) - before
    };
    for words in ["ls s3://", "ls @/in/", "ls -R @", "ls --uploads @", "ls --all-versions @", "du @/in", "tree @"] {
        assert_eq!(requests(&format!("{words} --json")), requests(words), "{words}");
    }
}

fn asked(server: &Scripted) -> usize {
    server.count(&When::any())
}
