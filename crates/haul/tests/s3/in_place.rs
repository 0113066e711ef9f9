//! Options such as `--metadata` on objects that are as they should be otherwise: what is set, and what a run says of it.

use serde_json::{Value, json};

use crate::support::World;

fn options_set(finished: &Value) -> Vec<(String, u64)> {
    let all = finished["options_set"].as_array().expect("a list");
    all.iter().map(|set| (set["option"].as_str().expect("text").to_owned(), set["entries"].as_u64().expect("a number"))).collect()
}

#[test]
fn the_summary_names_what_was_set() {
    let (w, scripted) = World::scripted();
    w.tree("src: a.html=100 d/b=200 d/c=300");
    w.haul("cp src/ @/to/").ends(0);
    w.haul("cp -I --tagging a=b src/d/c @/to/d/c").ends(0);
    let flags = "--metadata project=mars --content-type text/x-mine --tagging a=b";
    let writes = || scripted.requests().iter().filter(|seen| seen.method != "GET" && seen.method != "HEAD").count();
    // A dry run names the objects and what each lacks, and changes nothing.
    scripted.clear_seen();
    let ended = w.haul(&format!("sync -n {flags} src/ @/to/")).ends(0);
    for line in [
        "attributes  lacks metadata, content-type, tags  a.html",
        "attributes  lacks metadata, content-type, tags  d/b",
        "attributes  lacks metadata, content-type  d/c",
        "Attributes:  to set on 3 entries (metadata, content-type, tags of 2)",
    ] {
        assert!(ended.out.contains(line), "{line}: {ended}");
    }
    let ended = w.haul(&format!("sync -n --json {flags} src/ @/to/")).ends(0);
    let lacking = |path: &str| ended.events().into_iter().find(|event| event["event"] == "item" && event["path"] == path).expect(path);
    assert_eq!((&lacking("a.html")["why"], &lacking("a.html")["action"]), (&json!("options"), &json!("attributes")));
    assert_eq!(lacking("a.html")["options"], json!(["metadata", "content-type", "tags"]));
    assert_eq!(lacking("d/c")["options"], json!(["metadata", "content-type"]));
    assert_eq!((writes(), w.header("to/d/b", "x-amz-meta-project")), (0, None));
    // The run itself says the same.
    let ended = w.haul(&format!("sync -v {flags} src/ @/to/")).ends(0);
    ended.out_has("Attributes:  set on 3 entries (metadata, content-type, tags of 2)").out_has("attributes  a.html");
    for key in ["to/a.html", "to/d/b", "to/d/c"] {
        assert_eq!(w.header(key, "x-amz-meta-project").as_deref(), Some("mars"), "{key}");
        assert_eq!(w.header(key, "content-type").as_deref(), Some("text/x-mine"), "{key}");
        assert_eq!(w.header(key, "x-amz-tagging-count").as_deref(), Some("1"), "{key}");
    }
    w.haul(&format!("sync {flags} src/ @/to/")).moves_nothing().never_says("Attributes:");
    let ended = w.haul(&format!("sync -n --json {flags} src/ @/to/")).ends(0);
    assert_eq!((&ended.finished()["attributes"], options_set(&ended.finished())), (&json!(0), Vec::new()), "{ended}");
    // One option more, on some of them.
    let ended = w.haul(&format!("cp --json {flags} --cache-control no-store src/d @/to/")).ends(0);
    assert_eq!(options_set(&ended.finished()), [("cache-control".to_string(), 2)], "{ended}");
}

/// By `-c`, and by a move, which both read the content.
#[test]
fn options_are_set_on_what_was_compared_by_content() {
    let w = World::new();
    w.tree("src: a=100 d/b=200");
    w.haul("cp src/ @/to/").ends(0);
    let flags = "--content-type text/x-mine --tagging a=b";
    w.haul(&format!("sync -cn {flags} src/ @/to/")).ends(0).out_has("Attributes:  to set on 2 entries (content-type, tags)");
    assert_ne!(w.header("to/a", "content-type").as_deref(), Some("text/x-mine"));
    w.haul(&format!("sync -c {flags} src/ @/to/")).ends(0).out_has("Attributes:  set on 2 entries (content-type, tags)");
    w.haul(&format!("sync -c {flags} src/ @/to/")).moves_nothing();
    for key in ["to/a", "to/d/b"] {
        assert_eq!(w.header(key, "content-type").as_deref(), Some("text/x-mine"), "{key}");
    }
    w.haul("mv --metadata run=7 src/ @/to/").ends(0).out_has("Attributes:  set on 4 entries (metadata of 2)");
    for key in ["to/a", "to/d/b"] {
        assert_eq!(w.header(key, "x-amz-meta-run").as_deref(), Some("7"), "{key}");
        assert_eq!(w.header(key, "content-type").as_deref(), Some("text/x-mine"), "{key}");
    }
    assert!(!w.has("src/a") && !w.has("src/d/b"));
}

/// As other tools call it; `haul presign --expires` is the lifetime of an address.
#[test]
fn the_expires_header_has_two_names() {
    let w = World::new();
    w.tree("a=1");
    for (name, year) in [("--expires", 2030), ("--expires-at", 2031)] {
        w.haul(&format!("cp {name} {year}-06-01T00:00:00Z a @/a")).ends(0);
        assert!(w.header("a", "expires").is_some_and(|date| date.contains(&year.to_string())), "{name}");
    }
    w.haul("cp --expires 1h a @/a").ends(1).says("a date is 2030-01-01T00:00:00Z");
    w.haul("presign --expires 2h @/a").ends(0).says("X-Amz-Expires=7200");
}

/// Markers are objects where they are copied between buckets, and onto themselves.
#[test]
fn options_are_set_on_markers_that_are_copied_onto_themselves() {
    let w = World::new();
    for key in ["in/", "in/a", "in/d/", "in/implied/b"] {
        w.put(key.as_bytes(), &[("x-amz-meta-who", "me"), ("x-amz-tagging", "t=1")], if key.ends_with('/') { b"" } else { b"content" });
    }
    let words = "cp --storage-class REDUCED_REDUNDANCY --metadata run=7 @/in/ @/in/";
    w.haul(&words.replace("cp", "cp -n")).ends(0).out_has("Attributes:  to set on 4 entries");
    assert_eq!(w.header("in/d/", "x-amz-meta-run"), None);
    w.haul(words).ends(0).out_has("Attributes:  set on 4 entries");
    for key in ["in/", "in/a", "in/d/", "in/implied/b"] {
        for (name, value) in [("storage-class", "REDUCED_REDUNDANCY"), ("meta-run", "7"), ("meta-who", "me"), ("tagging-count", "1")] {
            assert_eq!(w.header(key, &format!("x-amz-{name}")).as_deref(), Some(value), "{key}: {name}");
        }
    }
    assert_eq!(w.keys(), ["in/", "in/a", "in/d/", "in/implied/b"]);
    w.haul(words).ends(0).never_says("Attributes:");
}
