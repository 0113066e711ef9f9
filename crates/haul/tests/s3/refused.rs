//! What a person gets wrong, and what an account may not do: said clearly, and in bounded time.

use std::sync::Arc;

use haul_test::objects::ObjectServer;
use haul_test::objects::scripted::{Action, Answer, When};

use crate::support::World;

#[test]
fn without_credentials() {
    let w = World::new();
    w.tree("a=10");
    for words in ["cp a @/a", "ls @/", "presign @/a"] {
        let ended = w.haul(words).without("AWS_ACCESS_KEY_ID").without("AWS_SECRET_ACCESS_KEY").ends(10);
        ended.says("credentials").says("AWS_ACCESS_KEY_ID");
    }
}

#[test]
fn with_wrong_credentials() {
    let w = World::new();
    w.tree("a=10");
    for (variable, error) in [
        ("AWS_SECRET_ACCESS_KEY", "SignatureDoesNotMatch"),
        ("AWS_ACCESS_KEY_ID", "InvalidAccessKeyId"),
        ("AWS_SESSION_TOKEN", "InvalidTokenId"),
    ] {
        for words in ["cp a @/w/", "cp @/a b", "ls @/", "rm @/a", "sync @/ there/"] {
            let ended = w.haul(words).env(variable, "garbage").ends(10);
            ended.says(error).says(variable).never_says("garbage").never_says("no permission");
        }
    }
    let ended = w.haul("ls s3://").env("AWS_SECRET_ACCESS_KEY", "wrong").ends(10);
    ended.says(&format!("s3:// ({}): list:", w.endpoint.url.trim_start_matches("http://")));
}

#[test]
fn in_no_such_bucket() {
    let w = World::new();
    w.tree("a=10 d/b=10");
    for words in [
        "cp a s3://no-such-bucket/a",
        "cp -r d s3://no-such-bucket/d/",
        "cp s3://no-such-bucket/a b",
        "ls s3://no-such-bucket/",
        "sync s3://no-such-bucket/ d",
    ] {
        let ended = w.haul(words).run();
        assert_ne!(ended.status.code(), Some(0), "{ended}");
        ended.says("no bucket no-such-bucket").says("haul mb s3://no-such-bucket");
    }
}

#[test]
fn where_nobody_listens() {
    let mut w = World::new();
    w.tree("a=10");
    // Nothing listens at the port that was just given back.
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port();
    w.endpoint.url = format!("http://127.0.0.1:{port}");
    let ended = w.haul("cp a @/a").run();
    ended.code(10).says(&format!("127.0.0.1:{port}")).says("--endpoint-url");
    let proxy = format!("http://127.0.0.1:{port}");
    w.endpoint.url = "http://objects.example:9000".into();
    for words in ["cp a @/a", "ls @/", "rm @/a"] {
        let ended = w.haul(words).env("http_proxy", &proxy).run().code(10);
        ended.says(&format!("the proxy 127.0.0.1:{port}")).says("NO_PROXY").never_says("--endpoint-url");
    }
    let ended = w.haul("cp a @/a").env("http_proxy", "http://proxy.invalid:3128").run().code(10);
    ended.says("the proxy proxy.invalid:3128").says("unknown host");
    // To TLS a proxy is asked for a connection (CONNECT).
    w.endpoint.url = "https://objects.example:9000".into();
    for (words, name) in [("cp a @/a", "https_proxy"), ("ls @/", "HTTPS_PROXY"), ("rm @/a", "https_proxy")] {
        let ended = w.haul(words).env(name, &proxy).run().code(10);
        ended.says(&format!("the proxy 127.0.0.1:{port}")).says("NO_PROXY").never_says("--endpoint-url");
    }
}

#[test]
fn in_plain_text_where_tls_is_spoken_and_the_reverse() {
    let server = Arc::new(ObjectServer::minio_tls().expect("MinIO"));
    let mut w = World::at(server.clone());
    w.tree("a=10");
    let sealed = w.real.url.clone();
    let failed = |w: &World, words: &str| {
        let ended = w.haul(words).run();
        assert_ne!(ended.status.code(), Some(0), "{ended}");
        ended
    };
    for words in ["cp a @/a", "cp @/a b", "ls @/", "sync @/ there/", "rm @/a"] {
        failed(&w, words).code(10).says("certificate").says("--ca-bundle");
    }
    let authority = server.certificate().expect("it has one").authority.display().to_string();
    w.haul("cp a @/a").arg("--ca-bundle").arg(&authority).ends(0);
    w.haul("cp @/a b").env("AWS_CA_BUNDLE", &authority).ends(0);
    w.haul("cp @/a c --no-verify-ssl").ends(0).says("WARNING");
    assert_eq!((w.read("b"), w.read("c")), (w.read("a"), w.read("a")));
    w.haul("cp a @/a -I --ca-bundle nowhere.pem").run().says("nowhere.pem");
    w.endpoint.url = sealed.replace("https:", "http:");
    failed(&w, "cp a @/x").says("https");
    let plain = World::new();
    w.endpoint.url = plain.real.url.replace("http:", "https:");
    failed(&w, "cp a @/x").says("http://");
}

/// Of a login page of a proxy, or of a web server at the wrong address: no removal, no right, no listing is taken for done.
#[test]
fn a_web_page_is_no_success() {
    let (w, scripted) = World::scripted();
    w.tree("a=10 here: kept=1");
    let page = Answer::new(200, "<html><title>Welcome</title></html>").with("Content-Type", "text/html; charset=utf-8");
    scripted.rule(When::any(), .., Action::Answer(page));
    for words in [
        "mb s3://new-bucket",
        "rb @",
        "rm --version-id x @/a",
        "rm @/a",
        "acl --set private @/a",
        "acl @/a",
        "restore --days 1 @/a",
        "tag --set a=b @/a",
        "bucket-version --set enabled @",
        "head @/a",
        "head @",
        "ls @/d/",
        "cat @/a",
        "cp a @/a",
        "cp @/a b",
        "cp @/large b --chunk-size 5M",
        "sync --delete --force @/d/ here",
        "sync --delete --force here/ @/d/",
        "check here/ @/d/",
    ] {
        let ended = w.haul(words).run();
        assert_ne!(ended.status.code(), Some(0), "{ended}");
        ended.says("object store");
    }
    assert_eq!(w.list("here"), ["kept"]);
}

/// What a listing lacks that is cut, or is none, or may be read only in part, is not deleted.
#[test]
fn only_a_whole_listing_deletes() {
    let (w, scripted) = World::scripted();
    w.tree("here: kept=1");
    w.put(b"d/new", &[], b"x");
    let list = || When::method("GET").query("list-type=2");
    let one = "<Contents><Key>d/new</Key><LastModified>2024-05-01T00:00:00.000Z</LastModified><ETag>\"t\"</ETag><Size>1</Size></Contents>";
    let first = format!(
        "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>{one}</ListBucketResult>"
    );
    let cut = format!("<ListBucketResult><IsTruncated>false</IsTruncated>{one}");
    let endless = format!("<ListBucketResult><IsTruncated>true</IsTruncated>{one}</ListBucketResult>");
    for page in ["", "{}", "<Other><Thing/></Other>", "<html><body><a href=\"x\">x</a></body></html>", &cut, &endless, &first] {
        scripted.clear();
        scripted.rule(list(), 2.., Action::Answer(Answer::error(403, "AccessDenied")));
        scripted.rule(list(), 1..=1, Action::Answer(Answer::new(200, page).with("Content-Type", "application/xml")));
        let ended = w.haul("sync --delete --force @/d/ here").run();
        assert_ne!(ended.status.code(), Some(0), "{page}: {ended}");
        assert!(w.list("here").contains(&"kept".to_string()), "{page}: {ended}");
    }
}

#[test]
fn one_object_that_may_not_be_touched() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=10 denied=10 large-denied=9M z=10");
    scripted.rule(When::method("PUT").path("denied"), .., Action::Answer(Answer::error(403, "AccessDenied")));
    scripted.rule(When::method("POST").path("denied"), .., Action::Answer(Answer::error(403, "AccessDenied")));
    w.haul("cp src/ @/to/ --part-size 5M").ends(23).says("denied: ").says("access denied").says("Errors:      2");
    assert_eq!(w.keys(), ["to/", "to/a", "to/z"]);
    scripted.clear();
    w.haul("cp src/ @/to/").ends(0);
    for method in ["GET", "HEAD"] {
        scripted.rule(When::method(method).path("denied"), .., Action::Answer(Answer::error(403, "AccessDenied")));
    }
    w.haul("cp @/to/ back").ends(23).says("access denied").says("Errors:      2");
    assert_eq!((w.read("back/a"), w.read("back/z")), (w.read("src/a"), w.read("src/z")));
    assert!(!w.path("back/denied").exists() && !w.path("back/large-denied").exists());
}

#[test]
fn one_object_that_may_not_be_removed() {
    let (w, scripted) = World::scripted();
    w.tree("src/ old: a=1 held=1 z=1");
    w.haul("cp old/ @/to/").ends(0);
    let refusal = "<DeleteResult><Error><Key>to/held</Key><Code>AccessDenied</Code><Message>scripted</Message></Error></DeleteResult>";
    scripted.rule(When::method("POST").query("delete"), .., Action::edit(move |answer| answer.body = refusal.into()));
    w.haul("sync --delete --force src/ @/to/").ends(23).says("held").says("access denied");
}

#[test]
fn what_the_server_refuses_does_not_count_as_transferred() {
    let w = World::new();
    // In a bundle, and alone: then the content goes with the commit.
    w.tree("src: small=7 large=1M");
    for source in ["src/small", "src/large", "src/"] {
        let ended = w.haul(&format!("cp --json --storage-class NO_SUCH {source} @/to/")).ends(23).says("InvalidStorageClass");
        assert_eq!((ended.number("bytes"), &ended.finished()["created"]["files"]), (0, &0.into()), "{ended}");
    }
}
