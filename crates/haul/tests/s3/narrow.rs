//! Accounts that may do next to nothing: only write, or only read what they can name. The rights are those of a real server.

use haul_test::objects::plain;
use haul_test::objects::scripted::When;

use crate::support::{Program, World};

/// Everybody may do this to all objects of the bucket, and nothing else.
fn allow(w: &World, action: &str) {
    let policy = format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Principal":{{"AWS":["*"]}},"Action":["{action}"],
            "Resource":["arn:aws:s3:::{}/*"]}}]}}"#,
        w.bucket
    );
    w.request("PUT", "?policy=", &[], policy.as_bytes()).success().expect("a policy");
}

fn anonymous(w: &World, words: &str) -> Program {
    w.haul(&format!("{words} --no-sign-request"))
}

/// Keys of a session that may do this alone in the bucket, from the server's own STS.
pub fn session(w: &World, actions: &[&str]) -> [(&'static str, String); 3] {
    let policy = format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Action":{actions:?},"Resource":["arn:aws:s3:::{0}","arn:aws:s3:::{0}/*"]}}]}}"#,
        w.bucket
    );
    let policy = crate::support::encode(policy.as_bytes()).replace('/', "%2F");
    let body = format!("Action=AssumeRole&Version=2011-06-15&DurationSeconds=3600&Policy={policy}");
    let answer = plain::request_of(&w.real, "sts", "POST", "/", &[("content-type", "application/x-www-form-urlencoded")], body.as_bytes());
    let text = answer.expect("it answers").success().expect("a session").text();
    let part = |name: &str| {
        let found = text.split(&format!("<{name}>")).nth(1).and_then(|rest| rest.split('<').next());
        found.unwrap_or_else(|| panic!("{name}: {text}")).to_owned()
    };
    [
        ("AWS_ACCESS_KEY_ID", part("AccessKeyId")),
        ("AWS_SECRET_ACCESS_KEY", part("SecretAccessKey")),
        ("AWS_SESSION_TOKEN", part("SessionToken")),
    ]
}

#[test]
#[ignore = "full"]
fn who_may_only_write_writes() {
    let (w, scripted) = World::scripted();
    let run = |words: &str| anonymous(&w, words);
    allow(&w, "s3:PutObject");
    w.tree("src: a=10 large=12M d/e=20 none/");
    const UNSEEN: &str = "no permission to look at what is in s3://bucket-";
    run("cp src/a @/one").ends(0).says(UNSEEN);
    run("cp src/a @/in/").ends(0).says(UNSEEN);
    run("cp --part-size 5M src/large @/big").ends(0).says(UNSEEN);
    let ended = run("cp -a --part-size 5M src/ @/to/").ends(0).says(UNSEEN);
    assert_eq!(format!("{ended}").matches(UNSEEN).count(), 1, "{ended}");
    run("sync src/ @/sync").ends(0).says(UNSEEN);
    run("cp --part-size 5M - @/pipe").stdin(w.path("src/large")).ends(0);
    assert_eq!((w.get("one"), w.get("in/a"), w.get("to/d/e")), (w.read("src/a"), w.read("src/a"), w.read("src/d/e")));
    assert!(w.get("big") == w.read("src/large") && w.get("to/large") == w.get("big") && w.get("pipe") == w.get("big"));
    assert!(w.keys().contains(&"to/none/".to_owned()), "{:?}", w.keys());
    // Again: all is sent again, and nothing is said to be unchanged.
    scripted.clear();
    run("cp src/ @/to/").ends(0).never_says("Unchanged");
    assert!(scripted.count(&When::method("PUT").path("/to/a")) > 0);
    // A rule that depends on what is there has to see it.
    for words in ["cp --ignore-existing src/a @/new", "cp -u src/ @/new/", "sync --delete src/ @/to/"] {
        run(words).run().code_of(&[1, 23]).says("access denied").never_says(UNSEEN);
    }
    assert!(!w.keys().iter().any(|key| key.starts_with("new")), "{:?}", w.keys());
}

#[test]
#[ignore = "full"]
fn who_may_only_read_reads_what_is_named() {
    let w = World::new();
    w.tree("src: a=10 b=20 large=20M");
    w.haul("cp --part-size 5M src/ @/d/").ends(0);
    allow(&w, "s3:GetObject");
    let run = |words: &str| anonymous(&w, words);
    run("cp @/d/a one").ends(0);
    run("cp @/d/a @/d/large into/").arg("--mkpath").ends(0);
    run("cp @/d/large large").ends(0);
    assert!(run("cat @/d/b").ends(0).bytes == w.read("src/b"));
    run("head @/d/a").ends(0);
    assert!(w.read("one") == w.read("src/a") && w.read("large") == w.read("src/large") && w.read("into/a") == w.read("src/a"));
    w.write("names", "a\nlarge\n");
    run("cp --files-from names @/d/ listed").ends(0);
    assert!(w.read("listed/large") == w.read("src/large"));
    run("cp @/d/missing gone").run().code_of(&[1, 23]).says("access denied");
    run("cp @/d/ all").run().code_of(&[1, 23]).says("access denied");
    run("sync --delete @/d/ src").run().code_of(&[1, 23]).says("access denied");
    assert!(w.has("src/a"));
}

#[test]
fn a_session_with_one_right_is_enough() {
    let w = World::new();
    w.tree("src: a=10 large=12M");
    let with = |keys: &[(&'static str, String)], words: &str| keys.iter().fold(w.haul(words), |haul, (name, value)| haul.env(name, value));
    let put = session(&w, &["s3:PutObject"]);
    with(&put, "cp --part-size 5M src/ @/to/").ends(0).says("nothing is compared");
    assert!(w.get("to/large") == w.read("src/large"));
    with(&put, "cat @/to/a").run().code_of(&[1, 23]);
    let get = session(&w, &["s3:GetObject"]);
    with(&get, "cp @/to/large back").ends(0);
    assert!(w.read("back") == w.read("src/large"));
    with(&get, "cp src/a @/other").run().code_of(&[1, 23]).says("access denied");
}

#[test]
fn a_pattern_that_may_not_be_listed_is_named() {
    let w = World::new();
    allow(&w, "s3:GetObject");
    w.put(b"put/a", &[], b"x");
    let ended = anonymous(&w, "cp @/put/* got").run();
    assert_ne!(ended.status.code(), Some(0), "{ended}");
    ended.says(&format!("s3://{}/put/*: list:", w.bucket));
}

#[test]
fn who_may_only_delete_deletes_what_is_named() {
    let w = World::new();
    for key in ["a", "b", "c", "d/e", "kept"] {
        w.put(key.as_bytes(), &[], b"content");
    }
    let with = |keys: &[(&'static str, String)], words: &str| keys.iter().fold(w.haul(words), |haul, (name, value)| haul.env(name, value));
    let delete = session(&w, &["s3:DeleteObject"]);
    for words in ["rm @/a", "rm -f @/b", "rm --raw @/c"] {
        with(&delete, words).ends(0);
    }
    assert_eq!(w.keys(), ["d/e", "kept"]);
    // What has to be listed first is not guessed.
    for words in ["rm -r @/d/", "rm -r @/kept"] {
        with(&delete, words).ends(23).says("access denied").says("s3:ListBucket");
    }
    with(&session(&w, &["s3:PutObject"]), "rm @/kept").ends(23).says("access denied").says("s3:DeleteObject");
    assert_eq!(w.keys(), ["d/e", "kept"]);
}
