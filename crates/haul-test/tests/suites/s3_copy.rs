//! What the service does with objects by itself: copies, other names, other attributes. Nothing that an object has may be lost by it.

use haul_core::store::ServerSideOp;
use std::sync::OnceLock;

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Time};
use haul_core::error::ErrorKind;
use haul_core::store::{MetaSpec, Spec, Store};
use haul_s3::{Bucket, CopySizes, Objects, Options, PutOptions};
use haul_test::objects::scripted::{Action, Answer, When};
use haul_test::objects::{Endpoint, ObjectServer, Scripted, plain};

const MIB: u64 = 1 << 20;
/// All that a request may say of an object.
const SAID: [(&str, &str); 9] = [
    ("content-type", "text/x-own"),
    ("cache-control", "no-store"),
    ("content-disposition", "inline"),
    ("content-language", "fr"),
    ("expires", "Wed, 21 Oct 2065 07:28:00 GMT"),
    ("x-amz-meta-k", "old"),
    ("x-amz-meta-name", "gr\u{fc}n \u{2603}"),
    ("x-amz-meta-mtime", "1704164645.678"),
    ("x-amz-tagging", "a=1&b%20c=%3D"),
];

/// A server for all tests, with a script of one's own before it.
struct World {
    server: Scripted,
    endpoint: Endpoint,
    bucket: String,
}

impl World {
    fn new(bucket: &str) -> World {
        static SERVER: OnceLock<ObjectServer> = OnceLock::new();
        let minio = SERVER.get_or_init(|| ObjectServer::minio().expect("MinIO can be started: servers.sh installs it"));
        minio.make_bucket(bucket).expect("a bucket");
        let server = Scripted::before(minio.endpoint()).expect("a server");
        World { server, endpoint: minio.endpoint().clone(), bucket: bucket.into() }
    }

    fn store(&self, options: PutOptions) -> Objects {
        let bucket = self.server.endpoint(&self.endpoint).bucket(&self.bucket, options);
        Objects::new(bucket, b"", Options::default()).copy_sizes(CopySizes { whole: 6 * MIB, part: 5 * MIB })
    }

    fn put(&self, key: &str, size: u64) {
        let body: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        let path = format!("/{}/{key}", self.bucket);
        plain::request(&self.endpoint, "PUT", &path, &SAID, &body).and_then(plain::Answer::success).expect("an object");
    }

    /// What the service says of an object now, in the order of `SAID`, its tags last.
    fn said(&self, key: &str) -> Vec<String> {
        let path = format!("/{}/{key}", self.bucket);
        let head = plain::request(&self.endpoint, "HEAD", &path, &[], b"").and_then(plain::Answer::success).expect("it is there");
        let mut said: Vec<String> = SAID[..8].iter().map(|(name, _)| head.header(name).unwrap_or("nothing").to_string()).collect();
        let tags = plain::request(&self.endpoint, "GET", &format!("{path}?tagging="), &[], b"").expect("an answer").text();
        // MinIO writes what is not ASCII as mail does.
        if said[6] == "=?UTF-8?q?gr=C3=BCn_=E2=98=83?=" {
            said[6] = SAID[6].1.into();
        }
        said.push(tags.contains("<Key>b c</Key><Value>=</Value>").to_string());
        said
    }

    fn has(&self, key: &str) -> bool {
        plain::request(&self.endpoint, "HEAD", &format!("/{}/{key}", self.bucket), &[], b"").expect("an answer").status == 200
    }
}

fn all_of_it() -> Vec<String> {
    SAID[..8].iter().map(|(_, value)| value.to_string()).chain(["true".to_string()]).collect()
}

fn name(leaf: &str) -> Name {
    Name::new(&Dir::root(), leaf.as_bytes())
}

fn copy(store: &Objects, from: &str, to: &str, keep: MetaMask) -> haul_core::error::Result<bool> {
    let entry = store.stat(&name(from), MetaMask::NONE)?;
    let spec = Spec { entry: &entry, keep, chunk: 8 * MIB, in_place: false, sync: false };
    store.extensions().server_side.perform(store, &entry, &name(to), ServerSideOp::Copy(&spec, &|_| Ok(()))).map(|landed| landed.is_some())
}

#[test]
fn a_copy_has_all_that_its_source_has_whatever_its_size() {
    let world = World::new("copies");
    let store = world.store(PutOptions::default());
    for (from, size, requests) in [("small", 5, 1), ("large", 12 * MIB, 3)] {
        world.put(from, size);
        world.server.clear();
        assert!(copy(&store, from, "copy", MetaMask::MTIME).expect("it is copied"));
        assert_eq!(world.said("copy"), all_of_it(), "{from}");
        assert_eq!(world.server.count(&When::method("PUT").header("x-amz-copy-source", from)), requests);
        let body = |key: &str| plain::request(&world.endpoint, "GET", &format!("/copies/{key}"), &[], b"").expect("an answer").body;
        assert!(body(from) == body("copy"), "{from}");
    }
}

#[test]
fn a_new_name_loses_nothing() {
    let world = World::new("names");
    let store = world.store(PutOptions::default());
    for size in [5, 12 * MIB] {
        world.put("old", size);
        store.rename(&name("old"), &name("new"), true).expect("it is renamed");
        assert_eq!(world.said("new"), all_of_it(), "{size}");
        assert!(!world.has("old"));
    }
}

#[test]
fn other_attributes_leave_all_else_as_it_is() {
    let world = World::new("attributes");
    let store = world.store(PutOptions::default());
    world.put("file", 5);
    let mut entry = store.stat(&name("file"), MetaMask::NONE).expect("it is there");
    let leaf = name("file");
    let set = |entry: &Entry| store.set_meta(&[MetaSpec { name: &leaf, entry, keep: MetaMask::MTIME }]).remove(0);
    world.server.clear();
    set(&entry).expect("it has them already");
    assert_eq!(world.server.count(&When::method("PUT")), 0);
    entry.mtime = Time { secs: 5, nanos: 0 };
    set(&entry).expect("they are set");
    let mut expected = all_of_it();
    expected[7] = "5".into();
    assert_eq!(world.said("file"), expected);
    // What cannot be told by HTTP would be gone.
    world.server.rule(When::method("HEAD"), .., Action::edit(|answer| answer.headers.push(("x-amz-missing-meta".into(), "2".into()))));
    entry.mtime = Time { secs: 6, nanos: 0 };
    let e = set(&entry).unwrap_err();
    assert!(e.to_string().contains("2 of the object's metadata"), "{e}");
    assert_eq!(world.said("file"), expected);
}

#[test]
fn what_is_wished_for_wins() {
    let world = World::new("options");
    let options = PutOptions {
        metadata: vec![("k".into(), "new".into())],
        headers: [None, Some("public".into()), None, None, None, None, None, None],
        tagging: Some("b%20c=%3D&z=9".into()),
        ..PutOptions::default()
    };
    let store = world.store(options);
    for (from, size) in [("small", 5), ("large", 12 * MIB)] {
        world.put(from, size);
        assert!(copy(&store, from, "copy", MetaMask::MTIME).expect("it is copied"));
        let mut expected = all_of_it();
        (expected[1], expected[5]) = ("public".into(), "new".into());
        assert_eq!(world.said("copy"), expected, "{from}");
        let tags = plain::request(&world.endpoint, "GET", "/options/copy?tagging=", &[], b"").expect("an answer").text();
        assert!(tags.contains("<Key>z</Key>") && !tags.contains("<Key>a</Key>"), "{from}: {tags}");
    }
}

#[test]
fn what_the_service_cannot_or_may_not_copy_goes_another_way() {
    let world = World::new("ways");
    let store = world.store(PutOptions::default());
    world.put("small", 5);
    world.put("large", 12 * MIB);
    for answer in [Answer::error(501, "NotImplemented"), Answer::error(403, "AccessDenied")] {
        world.server.clear();
        world.server.rule(When::method("PUT").header("x-amz-copy-source", "small"), .., Action::Answer(answer.clone()));
        world.server.rule(When::method("GET").query("tagging"), .., Action::Answer(answer));
        for from in ["small", "large"] {
            assert!(!copy(&store, from, "copy", MetaMask::NONE).expect("it is no error"), "{from}");
        }
    }
    world.server.clear();
    world.server.rule(When::method("PUT"), .., Action::Answer(Answer::error(400, "InvalidRequest")));
    assert!(copy(&store, "small", "copy", MetaMask::NONE).is_err());
}

#[test]
fn what_was_overwritten_while_it_was_renamed_stays() {
    let world = World::new("overwritten");
    let store = world.store(PutOptions::default());
    world.put("old", 5);
    let other = |answer: &mut Answer| {
        answer.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("etag"));
        answer.headers.push(("ETag".into(), "\"another\"".into()));
    };
    world.server.rule(When::method("HEAD").path("old"), 2..=2, Action::edit(other));
    let e = store.rename(&name("old"), &name("new"), true).unwrap_err();
    assert_eq!((e.kind(), world.has("old"), world.has("new")), (ErrorKind::Changed, true, true), "{e}");
    // It may be overwritten between the look and the removal too.
    world.server.clear();
    world.server.rule(When::method("DELETE").header("if-match", "\""), .., Action::Answer(Answer::error(412, "PreconditionFailed")));
    let e = store.rename(&name("old"), &name("new"), true).unwrap_err();
    assert_eq!((e.kind(), world.has("old")), (ErrorKind::Changed, true), "{e}");
    // Not every service knows the condition.
    world.server.clear();
    world.server.rule(When::method("DELETE").header("if-match", "\""), .., Action::Answer(Answer::error(501, "NotImplemented")));
    store.rename(&name("old"), &name("new"), true).expect("it is removed");
    assert!(!world.has("old"));
}

#[test]
fn a_link_that_would_become_a_file_is_refused() {
    let world = World::new("links");
    let store = world.store(PutOptions { metadata: vec![("k".into(), "x".repeat(2020))], ..PutOptions::default() });
    let mut link = Entry::bare(name("link"), Kind::Link);
    link.target = Some(b"target"[..].into());
    let e = store.make_node(&name("link"), &link, MetaMask::NONE).unwrap_err();
    assert!(e.to_string().contains("no room left"), "{e}");
    assert!(!world.has("link"));
}

/// What MinIO alone does not have: a script says it of its objects.
#[test]
fn locks_and_keys_stay_within_the_bucket() {
    const RULES: [(&str, &str); 6] = [
        ("x-amz-server-side-encryption", "aws:kms"),
        ("x-amz-server-side-encryption-aws-kms-key-id", "arn:key"),
        ("x-amz-object-lock-legal-hold", "ON"),
        ("x-amz-object-lock-mode", "COMPLIANCE"),
        ("x-amz-object-lock-retain-until-date", "2065-01-01T00:00:00Z"),
        ("x-amz-website-redirect-location", "/elsewhere"),
    ];
    let world = World::new("rules");
    world.put("file", 5);
    for (retained, count) in [("2065-01-01T00:00:00Z", 6), ("2001-01-01T00:00:00Z", 4)] {
        world.server.clear();
        let told = move |answer: &mut Answer| {
            answer.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("x-amz-meta-name"));
            answer.headers.push(("x-amz-meta-name".into(), "gr\u{fc}n".into()));
            for (name, value) in RULES {
                answer.headers.push((name.into(), if name == RULES[4].0 { retained } else { value }.into()));
            }
        };
        world.server.rule(When::method("HEAD"), .., Action::edit(told));
        let copied = Answer::new(200, "<CopyObjectResult><ETag>\"x\"</ETag></CopyObjectResult>");
        world.server.rule(When::method("PUT"), .., Action::Answer(copied));
        let store = world.store(PutOptions::default());
        assert!(copy(&store, "file", "copy", MetaMask::NONE).expect("it is copied"));
        let asked = world.server.requests().pop().expect("a request");
        assert_eq!(asked.header("x-amz-meta-name"), Some("gr\u{fc}n"));
        assert_eq!(RULES.iter().filter(|(name, _)| asked.header(name).is_some()).count(), count, "{retained}");
        // Another bucket has rules of its own.
        let others = Bucket { name: "names-of-others".into(), ..store.bucket().clone() };
        let elsewhere = Objects::new(others, b"", Options::default());
        let entry = Entry::bare(name("file"), Kind::File);
        let spec = Spec { entry: &entry, keep: MetaMask::NONE, chunk: 8 * MIB, in_place: false, sync: false };
        let found = Answer::new(200, "").with("ETag", "\"x\"").with("Content-Length", "5");
        world.server.clear();
        let found = RULES.iter().fold(found, |answer, (name, value)| answer.with(name, value));
        world.server.rule(When::method("HEAD"), .., Action::Answer(found));
        world.server.rule(
            When::method("PUT"),
            ..,
            Action::Answer(Answer::new(200, "<CopyObjectResult><ETag>\"x\"</ETag></CopyObjectResult>")),
        );
        store
            .extensions()
            .server_side
            .perform(&elsewhere, &entry, &name("copy"), ServerSideOp::Copy(&spec, &|_| Ok(())))
            .expect("it is copied");
        let asked = world.server.requests().pop().expect("a request");
        assert_eq!(RULES.iter().filter(|(name, _)| asked.header(name).is_some()).count(), 1, "{:?}", asked.headers);
    }
}
