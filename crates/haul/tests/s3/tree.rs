//! From here to a bucket and back: what is kept of a tree.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use haul_test::compare::What;
use haul_test::nasty;
use haul_test::tree::write_file;
use rustix::fs::{XattrFlags, lsetxattr};

use crate::support::World;

/// What a bucket keeps: all but who shares an inode with whom, and holes.
const KEPT: What = What { hard_links: false, holes: false, ..What::ALL };

/// Everything that a bucket can keep.
fn rich(w: &World) {
    let tree = w.tree(
        "src: a=1K b=17:0600 empty=0 run=300:0755 locked=10:0000 suid=10:4755 d/e=5K:0640 d/deep/er/f=2K none/ private/:0700 private/x=3 \
         sticky/:1777 group/:2775 closed/x=3K closed/:0500 d/l->../a dangling->nowhere absolute->/etc/passwd p| d/q| large=9M",
    );
    let attribute = |path: &str, name: &str, value: &[u8]| {
        lsetxattr(w.path(path), name, value, XattrFlags::empty()).expect("the file system keeps attributes");
    };
    attribute("src/a", "user.plain", b"value");
    attribute("src/a", "user.binary \u{e9}", b"\0\xff\n");
    attribute("src/large", "user.of-a-large-file", &[0xa5; 400]);
    attribute("src/none", "user.on-directory", b"yes");
    for (name, owner, group) in [("src/b", 1234, 5678), ("src/none", 65534, 100), ("src/dangling", 4321, 8765), ("src/p", 1, 2)] {
        std::os::unix::fs::lchown(w.path(name), Some(owner), Some(group)).expect("as root");
    }
    for (name, seconds, nanoseconds) in [
        ("src/a", 1_700_000_000, 123_456_789),
        ("src/b", -1_000_000_000, 0),
        ("src/empty", 0, 0),
        ("src/large", 7_000_000_000, 999_999_999),
        ("src/dangling", 1_111_111_111, 999_999_999),
        ("src/d/q", 1_222_222_222, 5),
        ("src/none", 1_234_567_890, 1),
        ("src/d/deep", 1_234_567_891, 2),
        ("src/d", 1_234_567_892, 3),
        ("src", 1_234_567_893, 4),
    ] {
        tree.set_mtime(name, seconds, nanoseconds).expect("a time");
    }
}

#[test]
fn all_that_a_bucket_can_keep_comes_back() {
    let w = World::new();
    rich(&w);
    w.haul("cp -a src/ @/up/").ends(0);
    w.haul("cp -a --trust-metadata @/up/ back").ends(0);
    w.assert_same("src", "back", KEPT);
    assert_eq!(w.rsync_finds("src/", "back/"), "");
    w.haul("cp -a src/ @/up/").moves_nothing();
    w.haul("sync -a --delete src/ @/up/").moves_nothing();
    w.haul("cp -a --trust-metadata @/up/ back").moves_nothing();
    w.haul("sync -a --delete --trust-metadata @/up/ back").moves_nothing();
    w.assert_same("src", "back", KEPT);
    w.haul("check @/up/ back").ends(0);
}

#[test]
fn names_of_one_file_and_holes_become_plain_objects() {
    let w = World::new();
    w.tree("src: a=3K");
    fs::hard_link(w.path("src/a"), w.path("src/b")).expect("a link");
    fs::File::create(w.path("src/hole")).and_then(|file| file.set_len(1 << 20)).expect("a hole");
    w.haul("cp -a src/ @/x/").ends(0).says("without hard links and holes");
    w.haul("cp -a @/x/ back").ends(0).never_says("without hard links");
    w.assert_same("src", "back", KEPT);
}

/// Whatever a key can be, in one segment.
fn names() -> Vec<Vec<u8>> {
    let more: [&[u8]; 5] = [b"+", b"a+b c%20d", b"a&b=c;d?e#f", b"<tag>\"'&amp;", b"a\r\nb"];
    nasty::names().into_iter().chain(more.map(<[u8]>::to_vec)).collect()
}

#[test]
fn any_name_that_a_key_can_have_comes_back() {
    let w = World::new();
    w.tree("src/");
    let (good, bad): (Vec<_>, Vec<_>) = names().into_iter().partition(|name| std::str::from_utf8(name).is_ok());
    assert!(!bad.is_empty());
    for (index, name) in good.iter().enumerate() {
        let path = w.path("src").join(OsStr::from_bytes(name));
        // The server adds to a directory's name, and has no room for that beyond 255 bytes.
        if index % 3 == 0 && name.len() < 250 {
            fs::create_dir(&path).expect("a directory");
            write_file(&path.join(OsStr::from_bytes(name)), 10).expect("a file");
        } else {
            write_file(&path, index as u64 * 50).expect("a file");
        }
    }
    w.haul("cp -a src/ @/up/").ends(0);
    w.haul("cp -a @/up/ back").ends(0);
    w.assert_same("src", "back", KEPT);
    w.haul("sync -a --delete src/ @/up/").moves_nothing();
    w.haul("sync -a --delete @/up/ back").moves_nothing();
    let listed = w.haul("ls @/up/").ends(0).out;
    assert!(listed.contains("\u{1f69a} emoji"), "{listed}");
}

#[test]
fn a_name_that_is_no_text_is_refused_and_the_rest_goes() {
    let w = World::new();
    w.tree("src: a=10 z=10 d/e=10");
    let bad = w.path("src").join(OsStr::from_bytes(b"caf\xe9"));
    write_file(&bad, 10).expect("a file");
    let ended = w.haul("cp -a src/ @/up/").ends(23).says("caf\\xe9");
    assert_eq!(w.keys(), ["up/", "up/a", "up/d/", "up/d/e", "up/z"], "{ended}");
}

#[test]
fn the_slash_says_what_is_meant() {
    let w = World::new();
    w.tree("src: a=10 d/e=10");
    w.haul("cp src @/one/").ends(0);
    w.haul("cp src/ @/two/").ends(0);
    w.haul("cp src/a @/three").ends(0);
    w.haul("cp src/a @/four/").ends(0);
    let files = |keys: Vec<String>| keys.into_iter().filter(|key| !key.ends_with('/')).collect::<Vec<_>>();
    assert_eq!(files(w.keys()), ["four/a", "one/src/a", "one/src/d/e", "three", "two/a", "two/d/e"]);
    // A destination for what is in a directory is one, with or without its slash.
    w.haul("check src/ @/two").ends(0);
    w.haul("sync -n src/ @/two").ends(0).says("nothing to transfer");
    // An object is no prefix, and a prefix is no object.
    w.put(b"twofold", &[], b"x");
    w.haul("cp @/two/ back").ends(0);
    w.assert_same("src", "back", What::CONTENT);
    w.haul("cp @/two back2/").ends(23).says("no object").says("/two/");
    w.haul("cp @/two/ back2/two --mkpath").ends(0);
    w.assert_same("src", "back2/two", What::CONTENT);
    w.haul("cp @/twofold back3").ends(0);
    assert_eq!(w.read("back3"), b"x");
    w.haul("cp @/tw back4").ends(23).says("no such");
}

#[test]
fn a_whole_bucket_is_a_directory_too() {
    let w = World::new();
    w.tree("src: a=10 d/e=10 none/");
    w.haul("cp -a src/ @").ends(0);
    w.haul("cp -a @/ back").ends(0);
    let but_the_top = What { root: false, ..KEPT };
    w.assert_same("src", "back", but_the_top);
    w.haul("sync -a src/ @/").moves_nothing();
}

#[test]
fn a_directory_of_keys_alone_gets_its_marker() {
    let w = World::new();
    w.tree("src: d/e=10 d/:0700 f/g=10");
    w.haul("cp -a src/ @/up/").ends(0);
    // As a run that was killed before the end leaves it.
    for marker in ["up/d/", "up/"] {
        w.request("DELETE", &format!("/{marker}"), &[], b"").success().expect("removed");
    }
    w.haul("cp -a src/ @/up/").ends(0);
    w.haul("cp -a @/up/ back").ends(0);
    w.assert_same("src", "back", KEPT);
}

/// Sets an extended attribute.
fn mark(w: &World, path: &str) {
    lsetxattr(w.path(path), "user.k", b"v", XattrFlags::empty()).expect("the file system keeps attributes");
}

const XATTRS: What = What { xattrs: true, ..What::CONTENT };

#[test]
#[ignore = "full"]
fn extended_attributes_that_an_object_lacks_are_new() {
    let w = World::new();
    w.tree("src: new=1 none=2 d/new=3");
    w.haul("cp -a src/ @/without/").ends(0);
    // These say nothing of extended attributes.
    w.haul("cp src/ @/silent/").ends(0);
    mark(&w, "src/new");
    mark(&w, "src/d/new");
    for place in ["without", "silent"] {
        // With what the cache has of the objects, and without.
        for state in ["state", "other"] {
            for option in ["-a", "-X", "-a -c"] {
                let ended = w.haul(&format!("check -q {option} src/ @/{place}/")).env("HAUL_STATE_DIR", w.path(state)).ends(1);
                let names = ended.sorted();
                assert!(names.contains(&"new") && names.contains(&"d/new"), "{place} {option}: {ended}");
                // Without a word about owners all differ with -a.
                assert_eq!(names.contains(&"none"), place == "silent" && option != "-X", "{place} {option}: {ended}");
            }
        }
        w.haul(&format!("sync -a src/ @/{place}/")).moves_nothing();
        w.haul(&format!("check -a src/ @/{place}/")).ends(0);
        w.haul(&format!("cp -a @/{place}/ back-{place}")).ends(0);
        w.assert_same("src", format!("back-{place}"), XATTRS);
    }
}

#[test]
fn extended_attributes_that_only_the_destination_has_go_where_the_object_has_none() {
    let w = World::new();
    let tree = w.tree("src: f=1 silent/f=1");
    tree.set_mtime("src/silent/f", 1_600_000_000, 0).expect("a time");
    w.haul("cp -a --exclude silent src/ @/to/").ends(0);
    w.put(b"to/silent/f", &[("x-amz-meta-mtime", "1600000000")], &w.read("src/silent/f"));
    for state in ["state", "other"] {
        let run = |words: &str| w.haul(words).env("HAUL_STATE_DIR", w.path(state));
        run("cp -a src/ back").ends(0);
        mark(&w, "back/f");
        mark(&w, "back/silent/f");
        assert_eq!(run("check -q -a @/to/ back").ends(1).out, "f\n", "{state}");
        run("sync -a @/to/ back").moves_nothing();
        run("check -a @/to/ back").ends(0);
        mark(&w, "src/silent/f");
        // What the object says nothing of stays as it is.
        w.assert_same("src", "back", XATTRS);
        // Also where something else is set.
        tree.set_mtime("back/silent/f", 1_500_000_000, 0).expect("a time");
        run("sync -a -c @/to/ back").moves_nothing();
        w.assert_same("src", "back", What { mtime: Some(1), ..XATTRS });
        w.remove("back");
    }
}
