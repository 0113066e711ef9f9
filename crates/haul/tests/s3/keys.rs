//! Keys that are no names of files. Real servers with a file system below take few of them, so this one is made up.

use std::collections::BTreeMap;

use haul_test::objects::ObjectServer;
use haul_test::objects::scripted::{Action, Answer, Scripted, Seen, When};

use crate::support::{World, encode};

/// A bucket that is read only: any key with its content.
pub fn shelf(world: &mut World, objects: &[(&[u8], &[u8])]) -> Scripted {
    let objects: BTreeMap<Vec<u8>, Vec<u8>> = objects.iter().map(|(key, content)| (key.to_vec(), content.to_vec())).collect();
    let server = Scripted::alone().expect("it listens");
    let bucket = format!("/{}", world.bucket);
    server.rule(When::any(), .., Action::make(move |seen, _| answer(&objects, &bucket, seen)));
    world.endpoint = server.endpoint(&world.real);
    server
}

fn answer(objects: &BTreeMap<Vec<u8>, Vec<u8>>, bucket: &str, seen: &Seen) -> Answer {
    let key = decode(seen.path.strip_prefix(bucket).unwrap_or_default().strip_prefix('/').unwrap_or_default());
    if key.is_empty() {
        return listing(objects, &seen.query);
    }
    match objects.get(&key) {
        Some(content) if seen.method == "HEAD" => Answer::new(200, "")
            .with("ETag", "\"tag\"")
            .with("Last-Modified", "Wed, 01 May 2024 00:00:00 GMT")
            .with("Content-Length", &content.len().to_string()),
        Some(content) if seen.method == "GET" => {
            let answer = Answer::new(200, "").with("ETag", "\"tag\"").with("Last-Modified", "Wed, 01 May 2024 00:00:00 GMT");
            Answer { body: content.clone(), ..answer }
        }
        Some(_) => Answer::error(405, "MethodNotAllowed"),
        None => Answer::error(404, "NoSuchKey"),
    }
}

fn listing(objects: &BTreeMap<Vec<u8>, Vec<u8>>, query: &str) -> Answer {
    let asked = |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')).map(decode).unwrap_or_default();
    let (prefix, delimited) = (asked("prefix"), !asked("delimiter").is_empty());
    let mut lines: Vec<String> = Vec::new();
    for (key, content) in objects.iter().filter(|(key, _)| key.starts_with(&prefix)) {
        let line = match key[prefix.len()..].iter().position(|byte| *byte == b'/').filter(|_| delimited) {
            Some(at) => format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", encode(&key[..prefix.len() + at + 1])),
            None => format!(
                "<Contents><Key>{}</Key><LastModified>2024-05-01T00:00:00.000Z</LastModified><ETag>&quot;tag&quot;</ETag><Size>{}</Size></Contents>",
                encode(key),
                content.len()
            ),
        };
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    }
    let body =
        format!("<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>{}</ListBucketResult>", lines.concat());
    Answer::new(200, &body).with("Content-Type", "application/xml")
}

pub fn decode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        match after.get(..2).filter(|_| *first == b'%').and_then(escaped) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

/// Files below a directory, as paths.
fn files(w: &World, top: &str) -> Vec<String> {
    w.sh(&format!("find {top} -type f | sort")).lines().map(str::to_owned).collect()
}

#[test]
fn each_is_refused_by_itself() {
    let mut w = World::new();
    let long = [b"in/long/", &[b'q'; 300][..]].concat();
    let longest = [b"in/", &[[b'n'; 254], [b'm'; 254], [b'o'; 254]].join(&b'/')[..], b"/", &[b'p'; 256][..]].concat();
    assert_eq!(longest.len(), 1024);
    let objects: Vec<(&[u8], &[u8])> = vec![
        (b"in/good", b"1"),
        (b"in/d/good", b"2"),
        (b"in/both", b"the object"),
        (b"in/both-more", b"3"),
        (b"in/both/below", b"4"),
        (b"in/a//b", b"empty part"),
        (b"in//x", b"empty part"),
        (b"in/../up", b"out"),
        (b"in/d/../../up", b"out"),
        (b"in/./dot", b"dot"),
        (b"in/d/..", b"out"),
        (b"in/d/.", b"dot"),
        (b"in/new\nline \xf0\x9f\x9a\x9a", b"5"),
        (&long, b"too long for a file"),
        (&longest, b"too long for a file"),
    ];
    let _server = shelf(&mut w, &objects);
    let ended = w.haul("cp @/in/ inner/back --mkpath").ends(23);
    let good = ["inner/back/both-more", "inner/back/both/below", "inner/back/d/good", "inner/back/good"];
    let found = files(&w, ".");
    for name in good {
        assert!(found.contains(&format!("./{name}")), "{name}\n{ended}");
    }
    assert_eq!(found.iter().filter(|name| !name.starts_with("./state") && !name.starts_with("./home")).count(), 6, "{found:?}\n{ended}");
    for key in ["a: list", "\"..\"", "both", "qqqq", "pppp"] {
        assert!(ended.err.contains(key), "does not speak of {key}\n{ended}");
    }
    assert!(!w.path("up").exists() && !w.path("inner/up").exists() && !w.path("inner/back/dot").exists(), "{ended}");
    // The same when one is named.
    for words in ["cp @/in/../up got", "cp @/in/d/.. got", "cp @/in/a//b got/"] {
        let one = w.haul(words).run();
        println!("{one}");
    }
    assert!(!w.path("up").exists());
}

#[test]
fn deletes_are_called_off_when_a_key_has_no_name() {
    let mut w = World::new();
    w.tree("back: old=1");
    let _server = shelf(&mut w, &[(b"in/good", b"1"), (b"in/a//b", b"x")]);
    w.haul("sync --delete @/in/ back").ends(23).says("deletes skipped");
    assert!(w.path("back/old").exists());
}

#[test]
fn an_object_and_a_directory_of_one_name_can_each_be_named() {
    let mut w = World::new();
    let _server = shelf(&mut w, &[(b"both", b"the object"), (b"both/below", b"4")]);
    w.haul("cp @/both file").ends(0);
    w.haul("cp @/both/ directory").ends(0);
    assert_eq!((w.read("file"), w.read("directory/below")), (b"the object".to_vec(), b"4".to_vec()));
}

#[test]
fn where_it_is_asked_for_each_has_a_name_that_stands_for_it() {
    let mut w = World::new();
    let long = [b"in/long/", &[b'q'; 300][..]].concat();
    let objects: Vec<(&[u8], &[u8])> = vec![
        (b"in/good", b"1"),
        (b"in/both", b"the object"),
        (b"in/both/below", b"4"),
        (b"in/full/", b"content"),
        (b"in/a//b", b"empty part"),
        (b"in//x", b"first part empty"),
        (b"in/../up", b"out"),
        (b"in/d/.", b"dot"),
    ];
    let server = shelf(&mut w, &objects);
    w.haul("cp --map-keys @/in/ back").ends(0);
    let found = files(&w, "back");
    let names = [
        "a/\u{ff05}2F/b",
        "both/below",
        "both\u{ff05}~",
        "d/\u{ff05}2E",
        "full/\u{ff05}2F\u{ff05}~",
        "good",
        "\u{ff05}2E\u{ff05}2E/up",
        "\u{ff05}2F/x",
    ];
    assert_eq!(found, names.map(|name| format!("back/{name}")));
    assert_eq!((w.read("back/both\u{ff05}~"), w.read("back/full/\u{ff05}2F\u{ff05}~")), (b"the object".to_vec(), b"content".to_vec()));
    w.haul("check --map-keys @/in/ back").ends(0);
    w.haul("sync --map-keys --delete @/in/ back").ends(0);
    assert_eq!(files(&w, "back"), found);
    w.haul("cp --map-keys @/in/*oo* @/in/a/** picked --mkpath").ends(0);
    assert_eq!(files(&w, "picked"), ["picked/good", "picked/\u{ff05}2F/b"].map(str::to_owned));
    w.haul("cp --map-keys @/in/[bf]* beside --mkpath").ends(0);
    assert_eq!(files(&w, "beside"), [names[1], names[2], names[4]].map(|name| format!("beside/{name}")));
    // The other way: the names stand for the keys, whatever the service then says.
    w.tree("up: \u{ff05}2E\u{ff05}2E/x=1 a/\u{ff05}2F/c=2 both\u{ff05}~=3");
    w.haul("cp --map-keys --retries 0 up/ @/in/").ends(23);
    let bucket = format!("/{}", w.bucket);
    let put = put_keys(&server, &bucket);
    for key in [&b"/in/../x"[..], b"/in/a//c", b"/in/both"] {
        assert!(put.contains(key), "{:?}", put.iter().map(|key| String::from_utf8_lossy(key)).collect::<Vec<_>>());
    }
    // What has no name all the same is a failure of its own.
    let _server = shelf(&mut w, &[(b"in/good", b"1"), (&long, b"too long for a file")]);
    w.haul("cp --map-keys @/in/ rest").ends(23).says("qqq");
    assert_eq!(files(&w, "rest"), ["rest/good"]);
}

/// The keys that objects were put to, behind `prefix` of the path.
fn put_keys(server: &Scripted, prefix: &str) -> std::collections::BTreeSet<Vec<u8>> {
    let puts = server.requests().into_iter().filter(|seen| seen.method == "PUT");
    puts.map(|seen| decode(seen.path.strip_prefix(prefix).unwrap_or_default())).collect()
}

/// Between buckets a key is a key, whatever no file could be called.
#[test]
fn between_buckets_keys_stay_as_they_are() {
    let mut w = World::new();
    let keys: [&[u8]; 8] =
        [b"in/a", b"in/a/b", b"in//x", b"in/y//z", b"in/../up", b"in/full/", b"in/p\xef\xbc\x85~", b"in/a\xef\xbc\x852F"];
    let objects: BTreeMap<Vec<u8>, Vec<u8>> = keys.iter().map(|key| (key.to_vec(), b"content".to_vec())).collect();
    let server = Scripted::alone().expect("it listens");
    let bucket = format!("/{}", w.bucket);
    let copied = "<CopyObjectResult><ETag>&quot;tag&quot;</ETag></CopyObjectResult>";
    server.rule(When::method("PUT").header("x-amz-copy-source", ""), .., Action::Answer(Answer::new(200, copied)));
    server.rule(When::any(), .., Action::make(move |seen, _| answer(&objects, &bucket, seen)));
    w.endpoint = server.endpoint(&w.real);
    w.haul("cp @/in/ @/out/").ends(0);
    let bucket = format!("/{}/", w.bucket);
    let wanted: Vec<Vec<u8>> = keys.iter().map(|key| [b"out/", &key[3..]].concat()).collect();
    assert_eq!(put_keys(&server, &bucket), wanted.iter().cloned().collect());
    // The same by a pattern: the second time each key is put once more.
    w.haul("cp @/in/* @/matched/").ends(0);
    let matched = keys.iter().map(|key| [b"matched/", &key[3..]].concat());
    assert_eq!(put_keys(&server, &bucket), wanted.into_iter().chain(matched).collect());
}

/// This server takes content under a key that ends in a slash.
#[test]
#[ignore = "full"]
fn an_object_whose_key_ends_in_a_slash_is_named_with_raw() {
    let w = World::of(ObjectServer::moto());
    for (key, content) in [("c/", "content"), ("d/", "12345"), ("d/below", "1")] {
        w.put(key.as_bytes(), &[], content.as_bytes());
    }
    w.haul("cp @/c/ f").run().code_of(&[1, 23]).says("has content (7 bytes)").says("--raw");
    assert!(!w.path("f").exists());
    w.tree("into/");
    w.haul("cp --raw @/c/ f").ends(0);
    w.haul("cp --raw @/d/ into/").ends(0);
    assert_eq!((w.read("f"), w.read("into/d")), (b"content".to_vec(), b"12345".to_vec()));
    assert!(w.haul("cat --raw @/d/").ends(0).bytes == b"12345");
    // It is one of the objects below its own prefix, too.
    w.haul("ls @/c/").ends(0).out_has("./");
    w.haul("ls -l @/d/").ends(0).out_has("./").out_has("below");
    let counted = w.haul("du --json @/c/").ends(0).events();
    assert_eq!((&counted[0]["bytes"], &counted[0]["files"]), (&7.into(), &1.into()), "{counted:?}");
    w.haul("rm @/d/").ends(1).says("-r");
    w.haul("rm --raw @/d/").ends(0);
    assert_eq!(w.keys(), ["c/", "d/below"]);
    w.haul("rm --raw @/d/").ends(23).says("no such object");
    w.haul("rm -r --raw @/d/").ends(0);
    assert_eq!(w.keys(), ["c/"]);
}
