//! Keys that look like patterns, and commands that take patterns.

use crate::support::World;

#[test]
fn a_key_that_looks_like_a_pattern_is_itself_where_there_is_one() {
    let w = World::new();
    for key in ["a[1]b", "a1b", "x/y1", "x/y2"] {
        w.put(key.as_bytes(), &[], key.as_bytes());
    }
    w.haul("cp @/a[1]b got").ends(0);
    assert_eq!(w.read("got"), b"a[1]b");
    for words in ["cat", "du -s", "head", "ls"] {
        w.haul(&format!("{words} @/a[1]b")).ends(0).says("a[1]b");
    }
    // With --raw each command takes the key as it stands, and no pattern.
    w.haul("cp --raw @/a[1]b raw").ends(0);
    assert_eq!(w.read("raw"), b"a[1]b");
    assert_eq!(w.haul("cat --raw @/a[1]b").ends(0).out, "a[1]b");
    for words in ["ls --raw", "du -s --raw", "head --raw"] {
        let ended = w.haul(&format!("{words} @/a[1]b")).ends(0).says("a[1]b");
        assert!(!ended.out.contains("a1b"), "{ended}");
    }
    w.haul("rm --raw @/a[1]b").ends(0);
    assert_eq!(w.keys(), ["a1b", "x/y1", "x/y2"]);
    for words in ["rm --raw", "ls --raw", "du -s --raw"] {
        w.haul(&format!("{words} @/a[1]b")).ends(23);
    }
    w.put(b"a[1]b", &[], b"a[1]b");
    w.haul("rm @/a[1]b").ends(0);
    assert_eq!(w.keys(), ["a1b", "x/y1", "x/y2"]);
    // Without such a key it is a pattern again, for those who did not say that it is none.
    assert_eq!(w.haul("cat @/a[1]b").ends(0).out, "a1b");
    w.haul("cat --raw @/a[1]b").ends(23);
    w.haul("cp --raw @/a[1]b other").ends(23);
    assert_eq!(w.haul("cat @/x/y*").ends(0).out, "x/y1x/y2");
    assert_eq!(w.haul("head --json @/x/y?").ends(0).out.lines().count(), 2);
    let signed = w.haul("presign --json --expires 60s @/x/*").ends(0).out;
    let lines: Vec<serde_json::Value> = signed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((lines.len(), &lines[0]["method"], &lines[0]["expires_seconds"]), (2, &"GET".into(), &60.into()), "{signed}");
    assert!(lines[0]["url"].as_str().is_some_and(|url| url.contains("/x/y1?")), "{signed}");
    w.haul("cat @/x/z*").ends(23).says("nothing matches");
    // The letter of another tool, which lists the bucket and its ETags.
    w.haul("ls -e @/x/").ends(0).says("y1").says("y2");
}

#[test]
fn an_endpoint_without_a_scheme_is_one_of_https() {
    let w = World::new();
    let host = w.real.host().to_string();
    let ended = w.haul(&format!("ls --endpoint-url {host} @/")).run();
    assert_ne!(ended.status.code(), Some(0), "{ended}");
    assert!(ended.err.contains("TLS") || ended.err.contains("https"), "{ended}");
}
