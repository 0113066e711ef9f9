//! How many requests a run sends: each costs a round trip, and money.

use haul_test::objects::scripted::{Scripted, When};

use crate::support::World;

/// Requests by what they are: listings, looks at one object, objects written, all others.
fn counted(scripted: &Scripted) -> (usize, usize, usize, usize) {
    let all = scripted.requests();
    let listings = scripted.count(&When::method("GET").query("list-type=2"));
    let (heads, puts) = (scripted.count(&When::method("HEAD")), scripted.count(&When::method("PUT")));
    (listings, heads, puts, all.len() - listings - heads - puts)
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
        let seen: Vec<String> = scripted.requests().iter().map(|seen| format!("{} {}?{}", seen.method, seen.path, seen.query)).collect();
        assert!(listings <= 1 && heads <= 2 && puts == 1 && others == 0, "{words}: {seen:#?}");
    }
}

#[test]
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
