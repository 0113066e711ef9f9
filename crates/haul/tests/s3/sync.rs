//! `sync` with a bucket at either end: what is deleted, what counts as equal, and what a dry run says.

use std::fs;

use haul_test::compare::What;
use serde_json::Value;

use crate::support::{Ended, World};

/// The items of a run with `--json -v`, in order of their paths: what was done to what.
fn items(ended: &Ended) -> Vec<String> {
    let events = ended.out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut items: Vec<String> = events
        .filter(|event| event["event"] == "item")
        .map(|event| format!("{} {}", event["path"].as_str().unwrap_or_default(), event["action"].as_str().unwrap_or_default()))
        .collect();
    items.sort();
    items
}

/// A tree and an older version of it.
fn two_trees(w: &World) {
    let tree = w.tree(
        "src: same=1K changed=2K new=10 d/same=5 d/new=7 fresh/x=1 fresh/none/ become-dir/x=4 become-file=6 l->same \
         old: same=1K changed=900 gone=10 d/same=5 d/gone=3 stale/x=1 stale/deep/y=2 become-dir=4 become-file/x=6 become-file/y=1 l->changed",
    );
    for path in ["src/same", "src/d/same", "old/same", "old/d/same"] {
        tree.set_mtime(path, 1_600_000_000, 5).expect("a time");
    }
    for path in ["old/changed", "old/gone"] {
        tree.set_mtime(path, 1_500_000_000, 0).expect("a time");
    }
}

#[test]
fn a_bucket_becomes_as_the_source_is() {
    let w = World::new();
    two_trees(&w);
    w.haul("sync -a old/ @/to/").ends(0);
    w.put(b"tool", &[], b"not below it");
    let dry = w.haul("sync -a --delete --force -n -v --json src/ @/to/").ends(0);
    let listed = w.keys();
    let real = w.haul("sync -a --delete --force -v --json src/ @/to/").ends(0);
    assert_eq!(items(&dry), items(&real), "{dry}\n{real}");
    assert!(listed.contains(&"to/gone".to_string()), "{listed:?}");
    w.haul("cp -a @/to/ back").ends(0);
    w.assert_same("src", "back", What { root: true, ..What::USUAL });
    assert!(w.keys().contains(&"tool".to_string()));
    w.haul("sync -a --delete src/ @/to/").moves_nothing();
}

#[test]
fn a_directory_becomes_as_the_bucket_is() {
    let w = World::new();
    two_trees(&w);
    w.haul("sync -a src/ @/from/").ends(0);
    let dry = w.haul("sync -a --delete --force -n -v --json @/from/ old").ends(0);
    let real = w.haul("sync -a --delete --force -v --json @/from/ old").ends(0);
    assert_eq!(items(&dry), items(&real), "{dry}\n{real}");
    w.assert_same("src", "old", What { root: true, ..What::USUAL });
    w.haul("sync -a --delete @/from/ old").moves_nothing();
}

#[test]
fn equal_by_size_alone_or_by_content() {
    let w = World::new();
    let tree = w.tree("src: a=10 b=10 c=9M");
    w.haul("cp src/ @/to/").ends(0);
    let put_at = |path: &str, content: &[u8], seconds| {
        fs::write(w.path(path), content).expect("written");
        tree.set_mtime(path, seconds, 0).expect("a time");
    };
    let (b, c) = (w.read("src/b"), w.read("src/c"));
    put_at("src/a", b"ten other.", 1_400_000_000);
    put_at("src/b", &b, 1_400_000_001);
    put_at("src/c", &c, 1_400_000_002);
    w.haul("cp --size-only --no-times --no-perms src/ @/to/").moves_nothing();
    let ended = w.haul("cp -c --json src/ @/to/").ends(0);
    assert_eq!(ended.finished()["replaced"]["files"], 1, "{ended}");
    assert_eq!(w.get("to/a"), b"ten other.");
    w.haul("sync @/to/ back").ends(0);
    w.assert_same("src", "back", What { directory_mtime: false, ..What::USUAL });
    // Times of what was equal have followed.
    w.haul("sync src/ @/to/").moves_nothing();
    w.haul("cp -c @/to/ back").moves_nothing();
}

#[test]
fn a_changed_mode_goes_without_the_content() {
    let w = World::new();
    w.tree("src: a=1M d/b=10");
    w.haul("cp -a src/ @/to/").ends(0);
    w.tree("src: a:0600 d/:0700");
    let ended = w.haul("cp -a --json src/ @/to/").ends(0);
    assert_eq!(ended.number("bytes"), 0, "{ended}");
    w.haul("cp -a @/to/ back").ends(0);
    w.assert_same("src", "back", What { root: true, ..What::USUAL });
}

#[test]
#[ignore = "full"]
fn a_source_that_is_not_there_empties_nothing() {
    let w = World::new();
    w.tree("back: kept=10 d/kept=10");
    w.put(b"typed", &[], b"an object");
    for source in ["@/typo/", "@/typed/", "s3://no-such-bucket/", "s3://no-such-bucket/typo/"] {
        let ended = w.haul(&format!("sync --delete {source} back")).run();
        assert_ne!(ended.status.code(), Some(0), "{ended}");
        assert!(w.path("back/kept").exists() && w.path("back/d/kept").exists(), "{ended}");
    }
    let address = format!("s3://{}/typo/: open:", w.bucket);
    w.haul("sync --delete @/typo/ back").ends(23).says(&address).says("nothing below this prefix");
    w.request("DELETE", "/typed", &[], b"").success().expect("removed");
    // So does an empty bucket, however it is written. Without --delete it is a source like others.
    for source in ["@", "@/"] {
        let ended = w.haul(&format!("sync --delete {source} back")).ends(23).says("the bucket is empty").says("haul rm -r");
        assert!(w.path("back/kept").exists() && w.path("back/d/kept").exists(), "{ended}");
        w.haul(&format!("sync --delete -n {source} back")).ends(23);
        w.haul(&format!("sync {source} back")).ends(0);
    }
    // A directory that has nothing but its marker is there, and empty.
    w.put(b"marked/", &[], b"");
    w.haul("sync --delete @/marked/ back").ends(23).says("the source lists nothing");
    w.haul("sync --delete --force @/marked/ back").ends(0);
    assert_eq!(std::fs::read_dir(w.path("back")).expect("it is there").count(), 0);
}

/// A machine that has never seen the objects knows of their times by the listing alone.
#[test]
fn the_services_times_can_be_taken() {
    let w = World::new();
    let tree = w.tree("src: a=1K d/b=3M");
    for path in ["src/a", "src/d/b"] {
        tree.set_mtime(path, 1_600_000_000, 0).expect("a time");
    }
    w.haul("cp src/ @/to/").ends(0);
    for state in ["state", "other"] {
        let back = format!("back-{state}");
        w.haul(&format!("cp --server-times @/to/ {back}")).env("HAUL_STATE_DIR", w.path(state)).ends(0);
        w.assert_same("src", &back, What::CONTENT);
        for path in ["a", "d/b"] {
            let time = fs::metadata(w.path(format!("{back}/{path}"))).and_then(|meta| meta.modified()).expect("a time");
            let age = time.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
            assert!(age > 1_700_000_000, "{state} {path}: {age}");
        }
        let again = w.haul(&format!("sync --json --server-times @/to/ {back}")).env("HAUL_STATE_DIR", w.path(state)).ends(0);
        assert_eq!(again.finished()["unchanged"]["files"], 2, "{}", again.out);
    }
}
