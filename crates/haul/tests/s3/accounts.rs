//! Addresses that name a profile: several servers and accounts in one run.

use std::fs;

use haul_test::objects::scripted::When;
use haul_test::objects::{Endpoint, ObjectServer};

use crate::support::{Program, World};

/// Writes `~/.aws` with one profile for each endpoint.
fn profiles(w: &World, all: &[(&str, &Endpoint)]) {
    let all: Vec<_> = all.iter().map(|(name, endpoint)| (*name, *endpoint, None)).collect();
    crate::between_servers::profiles(w, &all);
}

/// Told of neither server, and of a wrong one by the environment.
fn lost(haul: Program) -> Program {
    let haul = haul.without("AWS_ACCESS_KEY_ID").without("AWS_SECRET_ACCESS_KEY");
    haul.env("AWS_ENDPOINT_URL", "http://127.0.0.1:9").env("S3_ENDPOINT_URL", "http://127.0.0.1:9").env("AWS_REGION", "nowhere-1")
}

fn at(profile: &str, w: &World, path: &str) -> String {
    format!("s3://{profile}@{}{path}", w.bucket)
}

#[test]
fn every_command_takes_a_profile() {
    let w = World::new();
    profiles(&w, &[("one", &w.real)]);
    w.put(b"dir/x", &[], b"content");
    let go = |words: &str| lost(w.haul(words));
    let listed = go("ls").arg("s3://one@").ends(0).out;
    let bucket = at("one", &w, "");
    assert!(listed.lines().any(|line| line.ends_with(&format!("  {bucket}"))), "{listed}");
    assert_eq!(go("cat").arg(at("one", &w, "/dir/x")).ends(0).out, "content");
    assert!(go("ls -l").arg(at("one", &w, "/dir/")).ends(0).out.contains("x"));
    go("head").arg(at("one", &w, "/dir/x")).ends(0);
    let url = go("presign").arg(at("one", &w, "/dir/x")).ends(0).out;
    assert!(url.starts_with(&w.real.url), "{url}");
    go("mb").arg("s3://one@another-bucket").ends(0);
    go("rb").arg("s3://one@another-bucket").ends(0);
    go("rm").arg(at("one", &w, "/dir/x")).ends(0);
    assert_eq!(w.keys(), Vec::<String>::new());
}

#[test]
fn a_service_is_not_asked_to_copy_for_two_accounts() {
    let (w, scripted) = World::scripted();
    profiles(&w, &[("one", &w.endpoint), ("two", &w.endpoint)]);
    w.put(b"a", &[], b"content");
    lost(w.haul("cp")).arg(at("one", &w, "/a")).arg(at("two", &w, "/b")).ends(0);
    assert_eq!(w.get("b"), b"content");
    assert_eq!(scripted.count(&When::method("PUT").header("x-amz-copy-source", w.bucket.as_str())), 0);
    lost(w.haul("cp")).arg(at("one", &w, "/a")).arg(at("one", &w, "/c")).ends(0);
    assert_eq!(scripted.count(&When::method("PUT").header("x-amz-copy-source", w.bucket.as_str())), 1);
}

#[test]
fn one_place_under_two_accounts_is_one_place() {
    let w = World::of(ObjectServer::minio());
    profiles(&w, &[("one", &w.real), ("two", &w.real)]);
    w.put(b"dir/x", &[], b"content");
    let ended = lost(w.haul("mv")).arg(at("one", &w, "/dir/")).arg(at("two", &w, "/dir/")).ends(1);
    assert!(ended.err.contains("the same"), "{ended}");
    assert_eq!(w.get("dir/x"), b"content");
}

#[test]
fn a_profile_that_is_not_there_is_said_with_those_that_are() {
    let w = World::new();
    profiles(&w, &[("one", &w.real)]);
    let ended = w.haul("ls").arg(at("lab", &w, "/")).ends(1);
    for words in ["no profile named lab", "there are: one"] {
        assert!(ended.err.contains(words), "{words}: {ended}");
    }
    let ended = w.haul("ls").arg(at("one", &World::new(), "-not/")).run();
    assert!(ended.err.contains("haul mb s3://one@"), "{ended}");
}

/// `aws login` keeps what only the AWS command line can read.
#[test]
fn a_login_session_is_asked_for_by_the_aws_command_line() {
    let w = World::new();
    w.put(b"x", &[], b"content");
    fs::create_dir(w.path("home/.aws")).expect("made");
    fs::write(w.path("home/.aws/config"), "[profile my login]\nlogin_session = arn:aws:iam::1:user/x\n").expect("written");
    let run = || {
        let haul = w.haul("cat @/x").without("AWS_ACCESS_KEY_ID").without("AWS_SECRET_ACCESS_KEY").env("AWS_PROFILE", "my login");
        haul.env("PATH", format!("{}:/usr/bin:/bin", w.path("bin").display()))
    };
    run().run().says("login_session").says("aws login --profile my login");
    let keys = format!(r#"{{"Version":1,"AccessKeyId":"{}","SecretAccessKey":"{}"}}"#, w.real.access, w.real.secret);
    let script = format!("#!/bin/sh\n[ \"$*\" = 'configure export-credentials --profile my login --format process' ] && echo '{keys}'\n");
    fs::create_dir(w.path("bin")).expect("made");
    fs::write(w.path("bin/aws"), script).expect("written");
    w.chmod("bin/aws", 0o755);
    assert_eq!(run().ends(0).out, "content");
}

#[test]
fn buckets_that_haul_does_not_speak_to_are_named() {
    let w = World::new();
    w.haul("ls s3://data--use1-az5--x-s3/").run().says("S3 Express One Zone").says("AWS CLI");
    w.haul("ls s3://mfzwi23gnjvgw.mrap/").run().says("version 4A").says("name one of its buckets");
    w.haul("ls s3://arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap/x").ends(1).says("version 4A");
    w.haul("ls s3://arn:aws:s3:us-east-1:123456789012:accesspoint/mine/x").ends(1).says("alias");
}

/// What an object has beside its content is copied too, in one request and in parts, within a server and between two.
#[test]
fn headers_metadata_and_tags_go_along() {
    let w = World::new();
    let there = World::new();
    let other = World::of(ObjectServer::minio());
    profiles(&w, &[("one", &w.real), ("two", &there.real), ("three", &other.real)]);
    let headers = [
        ("content-type", "text/x-own"),
        ("cache-control", "no-store"),
        ("content-disposition", "attachment"),
        ("content-encoding", "gzip"),
        ("content-language", "de"),
        ("expires", "Tue, 01 Jan 2030 00:00:00 GMT"),
        ("x-amz-meta-project", "mars"),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
    ];
    let sent: Vec<(&str, &str)> = headers.into_iter().chain([("x-amz-tagging", "a=b&c=d%20e")]).collect();
    w.put(b"in/small", &sent, b"content");
    w.put(b"in/large", &sent, &vec![7; 11 << 20]);
    let go = |words: &str| lost(w.haul(words));
    for (profile, to) in [("one", &w), ("two", &there), ("three", &other)] {
        go("cp -a --part-size 5M").arg(at("one", &w, "/in/")).arg(at(profile, to, "/out/")).ends(0);
        for key in ["out/small", "out/large"] {
            for (name, value) in headers {
                assert_eq!(to.header(key, name).as_deref(), Some(value), "{profile} {key} {name}");
            }
            let tags = to.request("GET", &format!("/{key}?tagging="), &[], b"").text();
            assert!(tags.contains("<Key>c</Key><Value>d e</Value>"), "{profile} {key}: {tags}");
        }
        go("sync -a").arg(at("one", &w, "/in/")).arg(at(profile, to, "/out/")).moves_nothing();
    }
    // What is asked for is set in their place.
    go("cp -a --content-type text/mine --metadata project=moon").arg(at("one", &w, "/in/small")).arg(at("three", &other, "/asked")).ends(0);
    for (name, value) in [("content-type", "text/mine"), ("x-amz-meta-project", "moon"), ("content-language", "de")] {
        assert_eq!(other.header("asked", name).as_deref(), Some(value), "{name}");
    }
}

/// What a region is wrong for is corrected by the server; what counts is what was tried first.
#[test]
fn each_side_has_a_region_of_its_own() {
    let (w, scripted) = World::scripted();
    let there = World::new();
    w.put(b"a", &[], b"content");
    w.haul("cp --source-region eu-one-1 --destination-region eu-two-1 @/a").arg(format!("s3://{}/b", there.bucket)).ends(0);
    assert_eq!(there.get("b"), b"content");
    for (bucket, region) in [(&w.bucket, "/eu-one-1/s3/"), (&there.bucket, "/eu-two-1/s3/")] {
        let seen = scripted.requests();
        let first = seen.iter().find(|seen| seen.path.starts_with(&format!("/{bucket}"))).expect("a request");
        assert!(first.header("authorization").is_some_and(|signed| signed.contains(region)), "{bucket}: {first:?}");
    }
}

/// One server under two names: the listing of the source was taken before the probe was written.
#[test]
fn nothing_is_moved_onto_itself_through_another_address() {
    let w = World::new();
    let other = Endpoint { url: w.real.url.replace("127.0.0.1", "localhost"), ..w.real.clone() };
    assert_ne!(other.url, w.real.url);
    profiles(&w, &[("one", &w.real), ("two", &other)]);
    w.tree("src: a=1K d/b=2K d/sub/c=3K");
    let go = |words: &str, from: &str, to: &str| w.haul(words).arg(at("one", &w, from)).arg(at("two", &w, to));
    w.haul("cp -r src/").arg(at("one", &w, "/t/")).ends(0);
    for words in ["mv", "cp -r --remove-source-files", "cp -r -c --remove-source-files", "cp -r -I --remove-source-files"] {
        go(words, "/t/", "/t/").ends(23).says("reached by another route");
    }
    // What `sub` has no use for beside it goes; itself it does not.
    go("sync --delete", "/t/d/sub/", "/t/d/").ends(23).says("it is the source, reached by another route");
    w.haul("cp -r").arg(at("one", &w, "/t/")).arg("back").ends(0);
    assert_eq!((w.read("back/a"), w.read("back/d/sub/c")), (w.read("src/a"), w.read("src/d/sub/c")));
}
