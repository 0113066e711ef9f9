//! Every server against the same jobs. What a server does otherwise stands in one table, and in docs/object-stores.md.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use haul_test::compare::What;
use haul_test::nasty;
use haul_test::objects::ObjectServer;
use haul_test::tree::{set_mtime, write_file};

use crate::support::World;

type Job = (&'static str, fn(&World));

/// Each in a bucket of its own.
const JOBS: [Job; 19] = [
    ("names", |w| names(w, &most_names())),
    ("a name with a backslash", |w| names(w, &[b"back\\slash".to_vec()])),
    ("a name with a line feed", |w| names(w, &[b"two\nlines".to_vec()])),
    ("names with other control characters", |w| names(w, &[b"tab\tbell\x07escape\x1b[31m".to_vec(), b"delete\x7f".to_vec()])),
    ("attributes of files", |w| attributes(w, "src: a=1K b=17:0600 empty=0 run=300:0755 locked=10:0000 e=5K:0640 p| large=9M")),
    ("attributes of directories", |w| attributes(w, "src: a=1 none/ private/:0700 private/x=3 sticky/:1777 closed/x=3K closed/:0500")),
    ("20 MB in parts", |w| parts(w, "20M", "5M")),
    ("1 GiB in parts", |w| parts(w, "~1G@0+1M,300M+1M,700M+20M,1023M+1M", "16M")),
    ("a pipe in parts", pipe),
    ("kill and resume an upload", resumed_upload),
    ("kill and resume a download", resumed_download),
    ("5,000 small", small),
    ("a listing of 20,000 keys", listing),
    ("sync --delete", mirror),
    ("rm -r", removal),
    ("mv", moved),
    ("metadata of unchanged objects", |w| in_place(w, "--metadata project=mars --content-type text/x-mine --cache-control no-store")),
    ("tags of unchanged objects", |w| in_place(w, "--tagging a=b&c=d")),
    ("storage class of unchanged objects", |w| in_place(w, "--storage-class REDUCED_REDUNDANCY")),
];

/// A job that a server cannot do, and a line of the table in docs/object-stores.md: what it cannot, and why.
struct Exception {
    server: &'static str,
    job: &'static str,
    cannot: &'static str,
    because: &'static str,
}

/// One that no longer holds makes the test fail.
const EXCEPTIONS: [Exception; 11] = [
    Exception {
        server: "versitygw",
        job: "names with other control characters",
        cannot: "directory names with control characters",
        because: "its listings have U+FFFD in their place",
    },
    Exception { server: "SeaweedFS", job: "a name with a backslash", cannot: "names with a backslash", because: "it takes it for a slash" },
    Exception { server: "SeaweedFS", job: "attributes of directories", cannot: NO_ATTRIBUTES, because: NO_METADATA },
    Exception { server: "rclone serve s3", job: "attributes of directories", cannot: NO_ATTRIBUTES, because: NO_METADATA },
    Exception {
        server: "rclone serve s3",
        job: "names with other control characters",
        cannot: "names with control characters (not tested)",
        because: "it lists some of them with symbols in their place, now and then",
    },
    Exception {
        server: "rclone serve s3",
        job: "metadata of unchanged objects",
        cannot: "metadata of unchanged objects (each object fails)",
        because: "it copies no object onto itself",
    },
    Exception {
        server: "rclone serve s3",
        job: "storage class of unchanged objects",
        cannot: "the storage class of unchanged objects (each object fails)",
        because: "it copies no object onto itself",
    },
    Exception { server: "rclone serve s3", job: "tags of unchanged objects", cannot: "tags", because: "it accepts them and keeps none" },
    Exception {
        server: "versitygw",
        job: "storage class of unchanged objects",
        cannot: "storage classes",
        because: "it accepts them and keeps none",
    },
    Exception { server: "moto", job: "a name with a line feed", cannot: "names with a line feed", because: "it drops it" },
    Exception {
        server: "moto",
        job: "1 GiB in parts",
        cannot: "1 GiB in parts (not tested)",
        because: "it holds it in memory, and takes minutes",
    },
];

const NO_ATTRIBUTES: &str = "times, modes and other attributes of directories";
const NO_METADATA: &str = "it keeps no metadata of keys that end in a slash";

/// Jobs that would take minutes, or end one way or the other, which are not run at all.
const LEFT_OUT: [(&str, &str); 2] = [("moto", "1 GiB in parts"), ("rclone serve s3", "names with other control characters")];

fn run(server: std::io::Result<ObjectServer>, name: &str) {
    let server = Arc::new(server.expect("servers.sh installs it"));
    let mut wrong = Vec::new();
    for (job, act) in JOBS {
        if LEFT_OUT.contains(&(name, job)) {
            continue;
        }
        let w = World::at(server.clone());
        let began = std::time::Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| act(&w)));
        eprintln!("{name}: {job}: {} s", began.elapsed().as_secs());
        let exception = EXCEPTIONS.iter().find(|exception| (exception.server, exception.job) == (name, job));
        match (outcome, exception) {
            (Ok(()), None) | (Err(_), Some(_)) => {}
            (Ok(()), Some(exception)) => wrong.push(format!("{job}: works now; it is said not to: {}", exception.because)),
            (Err(_), None) => wrong.push(format!("{job}: fails, as printed above")),
        }
    }
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
}

#[test]
fn the_exceptions_are_documented() {
    let page = include_str!("../../../../docs/object-stores.md");
    let rows = page.lines().skip_while(|line| *line != "| server | not | because |").skip(2).take_while(|line| line.starts_with('|'));
    let line = |e: &Exception| format!("| {} | {} | {} |", e.server.replace("rclone serve s3", "`rclone serve s3`"), e.cannot, e.because);
    assert_eq!(rows.map(str::to_owned).collect::<BTreeSet<_>>(), EXCEPTIONS.iter().map(line).collect());
    assert!(EXCEPTIONS.iter().all(|e| JOBS.iter().any(|(job, _)| *job == e.job)), "an exception of no job");
    assert!(LEFT_OUT.iter().all(|left| EXCEPTIONS.iter().any(|e| (e.server, e.job) == *left)), "left out, and no exception");
}

#[test]
#[ignore = "full"]
fn minio() {
    run(ObjectServer::minio(), "MinIO");
}

#[test]
#[ignore = "full"]
fn versitygw() {
    run(ObjectServer::versitygw(), "versitygw");
}

#[test]
#[ignore = "full"]
fn seaweedfs() {
    run(ObjectServer::seaweedfs(), "SeaweedFS");
}

#[test]
#[ignore = "full"]
fn moto() {
    run(ObjectServer::moto(), "moto");
}

#[test]
#[ignore = "full"]
fn rclone() {
    run(ObjectServer::rclone(), "rclone serve s3");
}

/// Names that each server must give back.
fn most_names() -> Vec<Vec<u8>> {
    let plain = |name: &Vec<u8>| std::str::from_utf8(name).is_ok() && !name.iter().any(|byte| byte.is_ascii_control() || *byte == b'\\');
    let more: [&[u8]; 4] = [b"+", b"a+b c%20d", b"a&b=c;d?e#f", b"<tag>\"'&amp;"];
    nasty::names().into_iter().filter(plain).chain(more.map(<[u8]>::to_vec)).collect()
}

/// Files and directories of these names.
fn names(w: &World, names: &[Vec<u8>]) {
    w.tree("src: file/ dir/");
    for (index, name) in names.iter().enumerate() {
        let name = OsStr::from_bytes(name);
        write_file(&w.path("src/file").join(name), index as u64 * 50).expect("a file");
        // Servers that keep objects as files add to a directory's name.
        if name.len() < 250 {
            fs::create_dir(w.path("src/dir").join(name)).expect("a directory");
            write_file(&w.path("src/dir").join(name).join(name), 10).expect("a file");
        }
    }
    w.haul("cp -a src/ @/up/").ends(0);
    w.haul("cp -a @/up/ back").ends(0);
    w.assert_same("src", "back", What::CONTENT);
    w.haul("sync --delete src/ @/up/").ends(0);
    w.haul("cp -a @/up/ again").ends(0);
    w.assert_same("src", "again", What::CONTENT);
}

fn attributes(w: &World, tree: &str) {
    let tree = w.tree(tree);
    tree.set_mtime("src/a", 1_700_000_000, 123_456_789).expect("a time");
    w.chown("src/a", 1234, 5678);
    let value = [0xa5; 300];
    rustix::fs::lsetxattr(w.path("src/a"), "user.plain", &value, rustix::fs::XattrFlags::empty()).expect("attributes");
    if w.has("src/b") {
        w.symlink("../a", "src/l");
        w.symlink("nowhere", "src/dangling");
    }
    let directories = w.has("src/none");
    w.haul("cp -a src/ @/up/").ends(0);
    w.haul("cp -a @/up/ back").ends(0);
    if !directories {
        // Nothing in it changes any more.
        set_mtime(&w.path("src"), 1_234_567_892, 3).expect("a time");
        set_mtime(&w.path("back"), 1_234_567_892, 3).expect("a time");
    }
    w.assert_same("src", "back", What { hard_links: false, holes: false, ..What::ALL });
    if directories {
        w.haul("sync -a --delete src/ @/up/").moves_nothing();
        w.haul("sync -a --delete @/up/ back").moves_nothing();
    }
    assert_eq!(w.haul("sync --json -a --delete src/ @/up/").ends(0).number("bytes"), 0);
    w.haul("check -c src/ @/up/").ends(0);
}

fn parts(w: &World, size: &str, part: &str) {
    w.tree(&format!("src: large={size}"));
    w.haul(&format!("cp --part-size {part} src/ @/to/")).ends(0);
    w.haul("cp --chunk-size 5M @/to/ back").ends(0);
    w.assert_same("src", "back", What::CONTENT);
    w.haul("sync src/ @/to/").moves_nothing();
    assert_eq!(w.uploads("to/large"), Vec::<String>::new());
}

fn pipe(w: &World) {
    w.tree("large=70M empty=0");
    for name in ["large", "empty"] {
        w.haul(&format!("cp - @/{name}")).stdin(w.path(name)).ends(0);
        assert!(w.haul(&format!("cat @/{name}")).ends(0).bytes == w.read(name), "{name}");
    }
}

fn resumed_upload(w: &World) {
    w.tree("src: large=24M");
    let command = "cp --json --part-size 5M -j 1 src/ @/to/";
    assert!(w.haul(command).killed_at(5).run().was_killed());
    let ended = w.haul(command).ends(0);
    assert!(ended.number("resumed_bytes") > 0, "{ended}");
    w.haul("cp @/to/ back").ends(0);
    w.assert_same("src", "back", What::CONTENT);
    assert_eq!(w.uploads("to/large"), Vec::<String>::new());
}

fn resumed_download(w: &World) {
    w.tree("large=32M");
    w.haul("cp --part-size 8M large @/large").ends(0);
    let command = "cp --json --chunk-size 4M -j 1 @/large back";
    assert!(w.haul(command).killed_at(5).run().was_killed());
    let ended = w.haul(command).ends(0);
    assert!(ended.number("resumed_bytes") > 0, "{ended}");
    w.assert_same("large", "back", What::USUAL);
}

fn small(w: &World) {
    let files: Vec<String> = (0..5000).map(|i| format!("d{}/f{i}={}", i % 10, i % 300)).collect();
    w.tree(&format!("src: {}", files.join(" ")));
    w.haul("cp src/ @/to/").ends(0);
    w.haul("cp @/to/ back").ends(0);
    w.assert_same("src", "back", What::CONTENT);
    assert_eq!(w.haul("sync --json --delete src/ @/to/").ends(0).number("bytes"), 0);
}

fn listing(w: &World) {
    let keys = 20_000;
    let files: Vec<String> = (0..keys).map(|i| format!("f{i}=0")).collect();
    w.tree(&format!("src: {}", files.join(" ")));
    // moto takes some hundred a second from a machine that does nothing else.
    w.haul("cp src/ @/to/").start().within(Duration::from_secs(900)).code(0);
    for words in ["ls @/to/", "ls -R @/to/"] {
        let listed = w.haul(words).ends(0).out;
        let found: BTreeSet<&str> = listed.lines().filter_map(|line| line.rsplit_once('f').map(|(_, number)| number)).collect();
        assert_eq!(found.len(), keys, "{words}");
    }
}

fn mirror(w: &World) {
    w.tree("src: a=10 b=20 d/e=30 d/f=40 gone/x=50 gone/y/z=60");
    w.haul("sync --delete src/ @/to/").ends(0);
    w.remove("src/gone");
    w.remove("src/b");
    w.tree("src: a=11 new=5");
    w.haul("sync -n --delete src/ @/to/").ends(0);
    w.haul("sync --delete src/ @/to/").ends(0);
    assert_eq!(w.haul("sync --json --delete src/ @/to/").ends(0).number("bytes"), 0);
    w.haul("cp @/to/ back").ends(0);
    w.assert_same("src", "back", What::CONTENT);
    w.tree("back/extra=3");
    w.haul("sync --delete @/to/ back").ends(0);
    w.assert_same("src", "back", What::CONTENT);
}

fn removal(w: &World) {
    let files: Vec<String> = (0..1100).map(|i| format!("d/f{i}=1")).collect();
    w.tree(&format!("src: {} other=3", files.join(" ")));
    w.haul("cp src/ @/to/").ends(0);
    w.haul("rm -r @/to/d/").ends(0);
    let left = w.haul("ls -R @/to/").ends(0).out;
    assert!(left.contains("other") && !left.contains("f1"), "{left}");
    w.haul("rm @/to/other").ends(0);
    w.haul("rm @/to/other").run().code_of(&[1, 23]);
}

/// What a sync asks for is set by the server, content and attributes stay, and the next one finds nothing to do.
fn in_place(w: &World, flags: &str) {
    w.tree("src: a=100 d/large=9M");
    w.haul("cp -a src/ @/to/").ends(0);
    let ended = w.haul(&format!("sync -a --json {flags} src/ @/to/")).ends(0);
    assert_eq!((ended.number("bytes"), ended.number("attributes")), (0, 2), "{ended}");
    for key in ["to/a", "to/d/large"] {
        for (flag, name, value) in [
            ("--metadata", "x-amz-meta-project", "mars"),
            ("--content-type", "content-type", "text/x-mine"),
            ("--cache-control", "cache-control", "no-store"),
            ("--storage-class", "x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ] {
            assert!(!flags.contains(flag) || w.header(key, name).as_deref() == Some(value), "{key} {name}: {:?}", w.header(key, name));
        }
        if flags.contains("--tagging") {
            let tags = w.request("GET", &format!("/{key}?tagging="), &[], b"").text();
            assert!(tags.contains("<Key>c</Key><Value>d</Value>"), "{key}: {tags}");
        }
    }
    w.haul(&format!("sync -a {flags} src/ @/to/")).moves_nothing();
    w.haul("cp -a @/to/ back").ends(0);
    w.assert_same("src", "back", What::CONTENT);
}

fn moved(w: &World) {
    w.tree("src: a=10 d/e=9M");
    w.haul("cp src/ @/from/").ends(0);
    w.haul("mv @/from/ @/to/").ends(0);
    let left = w.haul("ls -R @/").ends(0).out;
    assert!(!left.contains("from/a"), "{left}");
    w.haul("mv @/to/ back").ends(0);
    w.assert_same("src", "back", What::CONTENT);
}
