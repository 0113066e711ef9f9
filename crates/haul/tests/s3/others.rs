//! Objects that other tools wrote, and what they say of files in ways of their own.

use std::os::unix::fs::MetadataExt;

use haul_test::compare::What;
use haul_test::objects::ObjectServer;

use crate::support::World;

fn attributes(w: &World, path: &str) -> (i64, i64, u32) {
    let meta = w.path(path).symlink_metadata().unwrap_or_else(|e| panic!("{path}: {e}"));
    (meta.mtime(), meta.mtime_nsec(), meta.mode() & 0o7777)
}

#[test]
fn times_and_modes_of_other_tools_are_read() {
    let w = World::new();
    w.put(b"in/rclone", &[("x-amz-meta-mtime", "1600000000.123456789")], b"rclone");
    let attrs = "atime:1600000009/ctime:1600000008/gid:100/gname:users/md5:0/mode:33152/mtime:1600000007/uid:1234/uname:somebody";
    w.put(b"in/s3cmd", &[("x-amz-meta-s3cmd-attrs", attrs)], b"s3cmd");
    w.put(b"in/plain", &[], b"plain");
    w.haul("cp -a @/in/ back").ends(0);
    assert_eq!(attributes(&w, "back/rclone"), (1_600_000_000, 123_456_789, 0o644));
    assert_eq!(attributes(&w, "back/s3cmd"), (1_600_000_007, 0, 0o600));
    let owner = w.path("back/s3cmd").symlink_metadata().expect("it is there");
    assert_eq!((owner.uid(), owner.gid()), (1234, 100));
    assert_eq!(w.read("back/plain"), b"plain");
    w.haul("sync -a @/in/ back").moves_nothing();
}

#[test]
fn objects_without_a_time_of_their_own_are_equal_by_size_if_not_older() {
    let w = World::new();
    let tree = w.tree("src: a=10 d/b=20 large=9M");
    for path in ["src/a", "src/d/b", "src/large"] {
        tree.set_mtime(path, 1_600_000_000, 5).expect("a time");
        let key = path.replace("src/", "to/");
        w.put(key.as_bytes(), &[], &w.read(path));
    }
    let ended = w.haul("sync --json src/ @/to/").ends(0);
    assert_eq!((&ended.finished()["created"]["files"], ended.number("bytes")), (&0.into(), 0), "{ended}");
    // Newer here than the object there.
    tree.set_mtime("src/a", 4_000_000_000, 0).expect("a time");
    let ended = w.haul("sync --json src/ @/to/").ends(0);
    assert_eq!((&ended.finished()["replaced"]["files"], ended.number("bytes")), (&1.into(), 10), "{ended}");
    w.haul("sync src/ @/to/").moves_nothing();
    // With a size of its own it goes, whatever its time.
    w.put(b"to/d/b", &[], b"other size");
    assert_eq!(w.haul("sync --json src/ @/to/").ends(0).number("bytes"), 20);
}

/// It answers 404 where a bucket has no unfinished upload.
#[test]
#[ignore = "full"]
fn unfinished_uploads_at_rclone_are_none() {
    let w = World::of(ObjectServer::rclone());
    assert_eq!(w.haul("ls --uploads @/").ends(0).out, "");
    w.haul("rm --uploads --force @/").ends(0);
    w.haul("rb --force @").ends(0);
}

#[test]
fn metadata_that_is_no_sense_is_passed_over() {
    let w = World::new();
    for (name, header, value) in [
        ("a", "x-amz-meta-mtime", "yesterday"),
        ("b", "x-amz-meta-mtime", "99999999999999999999999"),
        ("c", "x-amz-meta-s3cmd-attrs", "mode:x/mtime:/uid:-5"),
        ("d", "x-amz-meta-mode", "99999999"),
        ("e", "x-amz-meta-mtime", "-0.000000000000000000001"),
    ] {
        w.put(format!("in/{name}").as_bytes(), &[(header, value)], name.as_bytes());
    }
    w.haul("cp -a @/in/ back").ends(0);
    for name in ["a", "b", "c", "d", "e"] {
        assert_eq!(w.read(format!("back/{name}")), name.as_bytes());
    }
}

#[test]
fn markers_of_other_tools_are_directories() {
    let w = World::new();
    w.put(b"in/", &[], b"");
    w.put(b"in/empty/", &[("content-type", "application/x-directory")], b"");
    w.put(b"in/d/", &[], b"");
    w.put(b"in/d/f", &[], b"x");
    w.haul("cp @/in/ back").ends(0);
    w.tree("want: empty/ d/");
    std::fs::write(w.path("want/d/f"), "x").expect("written");
    w.assert_same("want", "back", What::CONTENT);
}
