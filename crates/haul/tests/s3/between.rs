//! From bucket to bucket of one endpoint: the service copies, and no content comes here.

use haul_test::compare::What;
use haul_test::objects::scripted::Scripted;

use crate::support::World;

/// Bytes of objects that came here.
fn came(scripted: &Scripted) -> u64 {
    let content = |seen: &haul_test::objects::scripted::Seen| seen.method == "GET" && !seen.query.contains("list-type");
    scripted.requests().iter().filter(|seen| content(seen)).map(|seen| seen.answered).sum()
}

#[test]
fn the_service_copies_and_attributes_go_along() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=1K b=17:0600 empty=0 d/e=5K:0640 large=20M none/ private/:0700 private/x=3 l->a p|");
    let path = w.path("src/a");
    rustix::fs::lsetxattr(&path, "user.plain", b"value", rustix::fs::XattrFlags::empty()).expect("kept");
    w.haul("cp -a --part-size 5M src/ @/one/").ends(0);
    w.put(b"one/typed.bin", &[("content-type", "text/x-of-its-own"), ("x-amz-meta-mine", "kept"), ("cache-control", "no-store")], b"typed");
    scripted.clear_seen();
    w.haul("cp -a @/one/ @/two/").ends(0);
    // The symlink's target is content too.
    assert!(came(&scripted) <= 10, "{} bytes came here", came(&scripted));
    let copies = scripted.requests().into_iter().filter(|seen| seen.method == "PUT" && seen.header("x-amz-copy-source").is_some());
    assert_eq!(copies.filter(|seen| !seen.path.ends_with('/')).count(), 7);
    for (name, value) in [("content-type", "text/x-of-its-own"), ("x-amz-meta-mine", "kept"), ("cache-control", "no-store")] {
        assert_eq!(w.header("two/typed.bin", name).as_deref(), Some(value), "{name}");
    }
    w.request("DELETE", "/two/typed.bin", &[], b"").success().expect("removed");
    w.haul("cp -a @/two/ back").ends(0);
    w.assert_same("src", "back", What { hard_links: false, holes: false, ..What::ALL });
    w.request("DELETE", "/one/typed.bin", &[], b"").success().expect("removed");
    w.haul("sync -a --delete @/one/ @/two/").moves_nothing();
}

#[test]
fn a_move_within_a_bucket_leaves_nothing_behind() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=1K d/e=5K:0640 large=9M none/ l->a");
    w.haul("cp -a src/ @/one/").ends(0);
    scripted.clear_seen();
    w.haul("mv @/one/ @/two/").ends(0).says("comparing sizes").never_says("verified");
    assert!(came(&scripted) <= 10, "{} bytes came here", came(&scripted));
    assert!(w.keys().iter().all(|key| key.starts_with("two/")), "{:?}", w.keys());
    w.haul("cp -a @/two/ back").ends(0);
    w.assert_same("src", "back", What::USUAL);
    w.haul("mv @/two/a @/other").ends(0);
    assert_eq!(w.get("other"), w.read("src/a"));
    assert!(!w.keys().contains(&"two/a".to_string()));
}

#[test]
fn a_move_to_a_bucket_and_from_it() {
    let w = World::new();
    w.tree("src: a=1K d/e=5K:0640 large=9M");
    w.haul("cp -a src/ kept").ends(0);
    w.haul("mv src/ @/to/").ends(0).says(", verified");
    assert!(!w.path("src/a").exists() && !w.path("src/large").exists());
    w.haul("mv @/to/ back").ends(0);
    assert_eq!(w.keys().iter().filter(|key| !key.ends_with('/')).count(), 0, "{:?}", w.keys());
    w.assert_same("kept", "back", What { directory_mtime: false, ..What::USUAL });
}

#[test]
fn onto_itself() {
    let w = World::new();
    w.tree("src: a=1K d/e=5K");
    w.haul("cp src/ @/one/").ends(0);
    w.haul("cp -I @/one/ @/one/").ends(1).says("the same");
    w.haul("mv @/one/a @/one/a").ends(1).says("the same");
    w.haul("sync --delete @/one/ @/one/d/").ends(1).says("the destination is inside the source");
    w.haul("sync --delete @/one/d/ @/one/").ends(1).says("the source is inside the destination");
    w.haul("cp @/ @/in/").ends(1).says("the destination is inside the source");
    assert_eq!((w.get("one/a"), w.get("one/d/e")), (w.read("src/a"), w.read("src/d/e")));
    // Beside each other, one's name the beginning of the other's.
    w.haul("sync --delete @/one/ @/one-more/").ends(0);
    w.haul("cp @/one/d/ @/one/").ends(0);
    assert_eq!((w.get("one-more/d/e"), w.get("one/e")), (w.read("src/d/e"), w.read("src/d/e")));
}

/// From a host to a bucket and back, without a file here in between; a second run each way moves nothing.
#[test]
fn a_host_and_a_bucket_exchange_trees() {
    let w = World::new();
    w.tree("src: a=1K d/e=5K:0640 large=12M none/ l->a");
    let host = haul_test::sshd::Sshd::start("").expect("sshd can be started: openssh-server and root");
    let config = host.config().display().to_string();
    let sync = |from: &str, to: &str| w.haul(&format!("sync -rlptgoD --no-agent -F {config} {from} {to}"));
    sync("testhost:~/src/", "@/to/").ends(0);
    assert!(w.get("to/large") == w.read("src/large"));
    sync("testhost:~/src/", "@/to/").moves_nothing();
    sync("@/to/", "testhost:~/back/").ends(0);
    w.assert_same("src", "back", What::CONTENT);
    sync("@/to/", "testhost:~/back/").moves_nothing();
}

/// A bucket of objects becomes another one with just these objects: no directory gets an object that its source lacks.
#[test]
fn a_copy_has_the_objects_of_its_source_and_no_others() {
    let w = World::new();
    for key in ["one/a", "one/d/b", "one/d/e/c", "one/marked/"] {
        w.put(key.as_bytes(), &[], if key.ends_with('/') { b"" } else { b"content" });
    }
    let below = |place: &str| -> Vec<String> {
        w.keys().into_iter().filter_map(|key| key.strip_prefix(place).map(str::to_owned)).filter(|key| !key.is_empty()).collect()
    };
    for (words, place) in [("cp @/one/ @/two/", "two/"), ("sync -a @/one/ @/three", "three/"), ("mv @/two/ @/four/", "four/")] {
        w.haul(words).ends(0);
        assert_eq!(below(place), ["a", "d/b", "d/e/c", "marked/"], "{words}");
    }
    assert!(below("two/").is_empty() && !w.keys().iter().any(|key| key == "three/" || key == "four/"), "{:?}", w.keys());
    w.haul("sync -a --delete @/one/ @/three/").moves_nothing();
    // Files have directories: they get objects, unless somebody wants none.
    w.tree("src: a=1 d/b=2 none/");
    w.haul("cp -a --no-markers src/ @/five/").ends(0);
    w.haul("check -a --no-markers src/ @/five/").ends(0);
    w.haul("check -a src/ @/five/").ends(1);
    assert_eq!(below("five/"), ["a", "d/b"]);
    w.haul("cp -a --no-markers src/ @/six").ends(0);
    assert_eq!(below("six/"), ["a", "d/b"]);
    w.haul("cp -a src/ @/seven/").ends(0);
    assert_eq!(below("seven/"), ["a", "d/", "d/b", "none/"]);
}

/// What another tool has put: a marker and an object, with metadata that are none of haul's.
pub const FOREIGN: [(&str, &str); 4] =
    [("content-type", "text/x-z"), ("cache-control", "no-store"), ("x-amz-meta-who", "me"), ("x-amz-tagging", "t=1")];

/// Whether an object has just these.
pub fn assert_foreign(w: &World, key: &str) {
    let head = w.request("HEAD", &format!("/{key}"), &[], b"");
    for (name, value) in FOREIGN.into_iter().take(3).chain([("x-amz-tagging-count", "1")]) {
        assert_eq!(head.header(name), Some(value), "{key}: {name}");
    }
    let metadata = head.headers.iter().map(|(name, _)| name.to_lowercase()).filter(|name| name.starts_with("x-amz-meta-"));
    assert_eq!(metadata.collect::<Vec<_>>(), ["x-amz-meta-who"], "{key}");
}

#[test]
fn markers_are_copied_like_objects_and_nothing_is_added_to_either() {
    let w = World::new();
    for key in ["in/", "in/a", "in/d/", "in/d/e/", "in/d/e/b"] {
        w.put(key.as_bytes(), &FOREIGN, if key.ends_with('/') { b"" } else { b"content" });
    }
    for (words, place) in
        [("cp @/in/ @/cp/", "cp"), ("cp -a @/in/ @/all/", "all"), ("sync -a @/in/ @/sync/", "sync"), ("mv @/cp/ @/mv/", "mv")]
    {
        w.haul(words).ends(0);
        for key in ["", "a", "d/", "d/e/", "d/e/b"] {
            assert_foreign(&w, &format!("{place}/{key}"));
        }
    }
    assert!(!w.keys().iter().any(|key| key.starts_with("cp/")), "{:?}", w.keys());
    w.haul("sync -a --delete @/in/ @/sync/").moves_nothing();
    w.haul("sync @/in/ @/all/").moves_nothing();
    // Attributes that are given to a marker leave all else as it is.
    w.tree("src: d/:0700 d/x=1");
    let headers: Vec<(&str, &str)> = FOREIGN.into_iter().chain([("x-amz-meta-mtime", "1600000000")]).collect();
    w.put(b"own/d/", &headers, b"");
    w.haul("cp -a src/d/ @/own/d/").ends(0);
    let given = [("x-amz-meta-mode", "40700"), ("content-type", "text/x-z"), ("x-amz-meta-who", "me"), ("x-amz-tagging-count", "1")];
    for (name, value) in given {
        assert_eq!(w.header("own/d/", name).as_deref(), Some(value), "{name}");
    }
}
