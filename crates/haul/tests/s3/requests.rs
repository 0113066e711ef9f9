//! How many requests a run sends: each costs a round trip, and money.

use std::time::Duration;

use haul_test::compare::What;
use haul_test::objects::scripted::{Action, Answer, Scripted, Seen, When};

use crate::support::World;

/// Requests by what they are: listings, looks at one object, objects written, all others.
fn counted(scripted: &Scripted) -> (usize, usize, usize, usize) {
    let all = scripted.requests();
    let listings = scripted.count(&When::method("GET").query("list-type=2"));
    let (heads, puts) = (scripted.count(&When::method("HEAD")), scripted.count(&When::method("PUT")));
    (listings, heads, puts, all.len() - listings - heads - puts)
}

/// A line for each request.
fn lines(scripted: &Scripted) -> Vec<String> {
    scripted.requests().iter().map(|seen| format!("{} {}?{}", seen.method, seen.path, seen.query)).collect()
}

/// Directories with a file in each, with and without markers, that no run has seen here.
fn wide(w: &World, directories: usize) {
    for i in 0..directories {
        w.put(format!("in/d{i:04}/f").as_bytes(), &[("x-amz-meta-mtime", "1600000000")], b"content");
    }
}

#[test]
fn one_file_into_a_bucket_of_many_prefixes_looks_at_one_key() {
    let (w, scripted) = World::scripted();
    wide(&w, 1200);
    w.tree("file=10");
    for (words, key) in [("cp file @/in/", "in/file"), ("cp file @/in/other", "in/other"), ("cp file @/", "file")] {
        scripted.clear_seen();
        w.haul(words).ends(0);
        assert_eq!(w.get(key), w.read("file"));
        let (listings, heads, puts, others) = counted(&scripted);
        assert!(listings <= 1 && heads <= 2 && puts == 1 && others == 0, "{words}: {:#?}", lines(&scripted));
    }
}

/// Beside the bucket, which is asked for once in a process: a look at each end, and what is done.
#[test]
fn one_object_is_looked_at_once_and_the_bucket_once_in_a_process() {
    let (w, scripted) = World::scripted();
    w.tree("file=10 other=11");
    w.put(b"dir/y", &[], b"below");
    // MinIO lists nothing below an object, so that one there replaces no directory.
    w.haul("cp file @/dir").ends(23).says("--force");
    let anonymous = || Action::edit(|answer| answer.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("server")));
    scripted.clear();
    scripted.rule(When::any(), .., anonymous());
    for (words, most) in
        [("cp file @/dir", 3), ("cp other @/dir", 3), ("cp @/dir here", 3), ("cp @/dir @/copy", 5), ("mv @/copy @/moved", 9)]
    {
        scripted.clear_seen();
        w.haul(words).ends(0);
        assert!(scripted.requests().len() <= most, "{words}: {:#?}", lines(&scripted));
    }
    assert!(w.read("here") == w.read("other") && w.get("moved") == w.read("other") && w.get("dir/y") == b"below");
    let all: String = (0..5).map(|i| format!("cp file s3://{}/run/{i}\n", w.bucket)).collect();
    std::fs::write(w.path("lines"), all).expect("written");
    scripted.clear_seen();
    w.haul("run lines").ends(0);
    assert_eq!(scripted.requests().len(), 1 + 2 * 5, "{:#?}", lines(&scripted));
}

#[test]
fn an_object_of_some_megabytes_is_one_request_in_each_direction() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=10M b=16M c=17M");
    w.haul("cp src/ @/to/").ends(0);
    let about = |method: &str, key: &str| scripted.count(&When::method(method).path(key));
    for key in ["/to/a", "/to/b"] {
        assert_eq!((about("PUT", key), about("POST", key)), (1, 0), "{key}: {:#?}", scripted.requests());
    }
    assert!(about("POST", "/to/c") == 2 && about("PUT", "/to/c") > 1);
    scripted.clear_seen();
    w.haul("cp @/to/ back").ends(0);
    w.assert_same("src", "back", What::CONTENT);
    for key in ["/to/a", "/to/b"] {
        assert_eq!((about("GET", key), about("HEAD", key)), (1, 0), "{key}");
    }
    w.haul("cp --part-size 5M src/a @/parts").ends(0);
    assert_eq!(about("POST", "/parts"), 2);
}

#[test]
fn chunks_that_follow_each_other_are_one_request() {
    let (w, scripted) = World::scripted();
    w.tree("large=24M");
    w.haul("cp large @/large").ends(0);
    for (words, most) in [("--concurrency 1", 6), ("--concurrency 1 --verify", 6), ("--concurrency 3 -j 3", 16)] {
        scripted.clear_seen();
        w.haul(&format!("cp --chunk-size 1M {words} @/large back")).ends(0);
        assert!(w.read("back") == w.read("large"), "{words}");
        let ranges = scripted.count(&When::method("GET").path("/large").header("range", "bytes"));
        assert!((2..=most).contains(&ranges), "{words}: {ranges} requests for 24 chunks");
        std::fs::remove_file(w.path("back")).expect("it is there");
    }
}

#[test]
#[ignore = "full"]
fn an_unchanged_sync_of_many_directories_lists_pages_of_keys() {
    let (w, scripted) = World::scripted();
    let names: Vec<String> = (0..1500).map(|i| format!("d{i:04}/f=7")).collect();
    w.tree(&format!("src: {}", names.join(" ")));
    w.haul("sync src/ @/in/").ends(0);
    for (words, state) in [("sync src/ @/in/", "state"), ("sync --delete src/ @/in/", "state"), ("sync @/in/ src", "other")] {
        scripted.clear_seen();
        w.haul(words).env("HAUL_STATE_DIR", w.path(state)).moves_nothing();
        let (listings, heads, puts, others) = counted(&scripted);
        println!("{words}: {:?}", (listings, heads, puts, others));
        assert!(listings <= 8 && heads <= 4 && puts == 0 && others == 0, "{words}: {:?}", (listings, heads, puts, others));
    }
}

/// A server of 30,000 keys: some in the directory itself, the rest in one below it. With `from_start` it does not know start-after.
fn many(w: &mut World, from_start: bool) -> Scripted {
    let keys: Vec<String> = (0..24_000).map(|i| format!("in/k{i:05}")).chain((0..6000).map(|i| format!("in/sub/{i:05}"))).collect();
    let server = Scripted::alone().expect("it listens");
    let list = move |seen: &Seen, _: &[u8]| {
        let asked = |name: &str| {
            let value = seen.query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
            value.unwrap_or_default().replace("%2F", "/")
        };
        let (prefix, token, after) = (asked("prefix"), asked("continuation-token"), asked("start-after"));
        let after = if token.is_empty() && !from_start { after } else { token };
        let behind: Vec<&String> = keys.iter().filter(|key| key.starts_with(&prefix) && **key > after).take(1001).collect();
        let line = |key: &&String| {
            format!(
                "<Contents><Key>{key}</Key><LastModified>2024-05-01T00:00:00.000Z</LastModified><ETag>\"t\"</ETag><Size>7</Size></Contents>"
            )
        };
        let lines: String = behind.iter().take(1000).map(line).collect();
        let more = match behind.get(1000) {
            Some(_) => format!("<IsTruncated>true</IsTruncated><NextContinuationToken>{}</NextContinuationToken>", behind[999]),
            None => "<IsTruncated>false</IsTruncated>".to_string(),
        };
        Answer::new(200, &format!("<ListBucketResult>{more}{lines}</ListBucketResult>")).with("Content-Type", "application/xml")
    };
    server.rule(When::method("GET").query("list-type=2"), .., Action::make(list));
    let bucket = format!("/{}", w.bucket);
    let other = move |seen: &Seen, _: &[u8]| if seen.path == bucket { Answer::new(200, "") } else { Answer::error(404, "NoSuchKey") };
    server.rule(When::any(), .., Action::make(other));
    server.set_round_trip(std::time::Duration::from_millis(10));
    w.endpoint = server.endpoint(&w.real);
    server
}

#[test]
#[ignore = "full"]
fn a_long_listing_is_read_in_ranges_side_by_side() {
    for from_start in [false, true] {
        let mut w = World::new();
        let server = many(&mut w, from_start);
        let ended = w.haul("sync -n --json --server-times @/in/ out").ends(0);
        assert_eq!(ended.finished()["created"]["files"], 30_000, "{ended}");
        let (listings, heads, ..) = counted(&server);
        assert!(listings <= 130 && heads <= 4, "{from_start}: {listings} listings, {heads} looks");
        assert!(from_start || server.connections() > 3, "{} connections", server.connections());

        let server = many(&mut w, from_start);
        let listed = w.haul("ls -R @/in/").ends(0).out;
        let names: Vec<&str> = listed.lines().collect();
        assert!(names.len() == 30_000 && names.is_sorted(), "{} lines", names.len());
        w.haul("du -s @/in/").ends(0).says("30,000");
        let (listings, heads, ..) = counted(&server);
        assert!(listings <= 260 && heads <= 4, "{from_start}: {listings} listings, {heads} looks");
        assert!(from_start || server.connections() > 3, "{} connections", server.connections());
    }
}

#[test]
fn a_tree_begins_with_one_listing_and_markers_need_no_look() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=10 b=20 d/c=30 d/e/f=40 d/g/");
    // Four files, and markers of d, e, g and the prefix itself.
    for (words, listings, heads) in [("cp src/ @/to/", 1, 0), ("cp src @/other/", 1, 0), ("sync src/ @/third", 1, 4)] {
        scripted.clear_seen();
        w.haul(words).ends(0);
        let (lists, looks, puts, others) = counted(&scripted);
        assert!(lists <= listings && looks <= heads && (8..=9).contains(&puts) && others == 0, "{words}: {:#?}", lines(&scripted));
    }
    // The server is MinIO, and nobody has seen its objects: the page that says whether there is anything is without their metadata.
    for (words, listings, heads) in [("cp @/to/ back", 2, 1), ("cp --server-times @/to/ times", 1, 1)] {
        scripted.clear_seen();
        w.haul(words).env("HAUL_STATE_DIR", w.path("fresh")).ends(0);
        let (lists, looks, puts, others) = counted(&scripted);
        assert!(lists <= listings && looks <= heads && puts == 0, "{words}: {others} {:#?}", lines(&scripted));
    }
    w.assert_same("src", "back", What::USUAL);
    // What a run before has seen needs no other listing. Objects of the last two seconds are not remembered.
    std::thread::sleep(Duration::from_secs(3));
    w.haul("cp @/to/ seen").env("HAUL_STATE_DIR", w.path("fresh")).ends(0);
    scripted.clear_seen();
    w.haul("cp @/to/ again").env("HAUL_STATE_DIR", w.path("fresh")).ends(0);
    assert_eq!(counted(&scripted).0, 1, "{:#?}", lines(&scripted));
    w.assert_same("src", "again", What::USUAL);
}

#[test]
fn a_marker_that_somebody_else_has_made_meanwhile_keeps_its_metadata() {
    for knows_the_condition in [true, false] {
        let (w, scripted) = World::scripted();
        let others: Vec<String> = (0..40).map(|i| format!("e{i:02}/")).collect();
        w.tree(&format!("src: a=10 d/b=10 {}", others.join(" ")));
        let conditional = || When::method("PUT").header("if-none-match", "*");
        if !knows_the_condition {
            scripted.rule(conditional(), .., Action::Answer(Answer::error(501, "NotImplemented")));
        }
        // The listing of the run is of a time when there was none.
        w.put(b"to/d/", &[("x-amz-meta-owner", "somebody")], b"");
        let empty = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
        scripted.rule(When::method("GET").query("list-type=2"), .., Action::Answer(Answer::new(200, empty)));
        w.haul("cp src/ @/to/").ends(0);
        assert_eq!(w.header("to/d/", "x-amz-meta-owner").as_deref(), Some("somebody"));
        assert!(w.header("to/d/", "x-amz-meta-mtime").is_some());
        // A server that does not know it is asked by some requests at the same time, and then no more.
        let asked = scripted.count(&conditional());
        assert!(if knows_the_condition { asked == 42 } else { asked < 30 }, "{asked}");
    }
}
