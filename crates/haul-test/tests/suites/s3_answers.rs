//! What becomes of answers that come late, say little, or say other things than were asked.

use std::sync::Arc;
use std::time::Duration;

use haul_core::error::ErrorKind;
use haul_net::http_client::agent::{AgentConfig, agent};
use haul_s3::account::{Account, AccountOptions, Environment};
use haul_s3::upload::{Expected, Part};
use haul_s3::{Body, Call};
use haul_s3::{Bucket, Client, PutOptions};
use haul_test::objects::scripted::{Action, Answer, When};
use haul_test::objects::{ObjectServer, Scripted};

/// What a silent server is given.
const SHORT: Duration = Duration::from_millis(300);

fn asked(url: &str) -> AccountOptions {
    let keys = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    AccountOptions { endpoint_url: Some(url.into()), environment: Environment::table(None, keys), ..AccountOptions::default() }
}

/// A bucket behind a client with this idle timeout.
fn bucket(server: &Scripted, idle_timeout: Duration) -> Bucket {
    let url = format!("http://{}", server.address());
    let account = Account::open(&asked(&url)).expect("settings that make sense");
    let usual = AgentConfig::of(url.parse().expect("an address"), Environment::table(None, []));
    let agent = agent(&AgentConfig { idle_timeout, ..usual }).expect("an agent");
    Bucket {
        client: Arc::new(Client::new(account, agent).expect("a client")),
        name: "bucket".into(),
        options: Arc::new(PutOptions::default()),
    }
}

fn scripted() -> Scripted {
    Scripted::alone().expect("a server")
}

#[test]
fn a_silent_service_is_asked_twice() {
    let server = scripted();
    server.rule(When::any(), .., Action::Hang);
    let e = bucket(&server, SHORT).head(b"key").unwrap_err();
    assert_eq!((e.kind(), server.requests().len()), (ErrorKind::TimedOut, 2), "{e}");
}

#[test]
fn what_a_service_is_long_at_is_waited_for_and_not_asked_twice() {
    let server = scripted();
    let done = Answer::new(200, "<CompleteMultipartUploadResult><ETag>\"x-1\"</ETag></CompleteMultipartUploadResult>");
    server.rule(
        When::method("POST").query("uploadId"),
        ..,
        Action::make(move |_, _| {
            std::thread::sleep(3 * SHORT);
            done.clone()
        }),
    );
    server.rule(When::method("PUT"), .., Action::Hang);
    server.rule(When::method("HEAD"), .., Action::Answer(Answer::new(200, "").with("ETag", "\"x-1\"").with("Content-Length", "0")));
    let bucket = bucket(&server, SHORT);
    bucket.complete(b"key", "id", &[], Expected { size: 0, whole: &[], sent: false }).expect("it is waited for");
    let mut copy = Call::new("copy", "PUT".parse().expect("a method"), "bucket", b"key").slow();
    assert!(copy.idle_timeout > Some(Duration::from_secs(60)));
    copy.idle_timeout = Some(SHORT);
    let e = bucket.client.send(&copy, Body::None).unwrap_err();
    assert_eq!((e.kind(), server.count(&When::method("PUT"))), (ErrorKind::TimedOut, 1), "{e}");
}

/// Who asks has a credential that a program gives: the first one has expired, and every later one is good.
#[test]
fn credentials_that_expired_are_renewed_after_an_answer_that_says_nothing() {
    let server = scripted();
    server.rule(When::any().header("x-amz-security-token", "new"), .., Action::Answer(Answer::new(200, "").with("ETag", "\"x\"")));
    server.rule(When::any(), .., Action::Answer(Answer::new(400, "")));
    let place = tempfile::tempdir().expect("a directory");
    let program = place.path().join("give");
    let script = format!(
        "#!/bin/sh\ncd {0}\nT=old; [ -e asked ] && T=new; touch asked\n\
         echo '{{\"Version\":1,\"AccessKeyId\":\"key\",\"SecretAccessKey\":\"secret\",\"SessionToken\":\"'$T'\",\"Expiration\":\"2099-01-01T00:00:00Z\"}}'\n",
        place.path().display()
    );
    std::fs::write(&program, script).expect("a program");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it may run");
    let settings = place.path().join("config");
    std::fs::write(&settings, format!("[default]\ncredential_process = {}\n", program.display())).expect("settings");
    let settings = settings.display().to_string();
    let environment = Environment::table(None, [("AWS_CONFIG_FILE", &*settings), ("AWS_EC2_METADATA_DISABLED", "true")]);
    let asked = AccountOptions { endpoint_url: Some(format!("http://{}", server.address())), environment, ..AccountOptions::default() };
    let client = Arc::new(Client::open(&asked).expect("a client"));
    let bucket = Bucket { client, name: "bucket".into(), options: Arc::new(PutOptions::default()) };
    // Several find it out at the same time.
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(|| bucket.head(b"key").map(|head| head.is_some()))).collect();
        for one in all {
            assert!(one.join().expect("no panic").expect("it is asked again"));
        }
    });
}

#[test]
fn a_refusal_that_says_nothing_is_told_in_words() {
    let server = scripted();
    server.rule(When::any().path("denied"), .., Action::Answer(Answer::new(403, "")));
    server.rule(When::any(), .., Action::Answer(Answer::new(400, "").with("X-Minio-Error-Code", "NoSuchBucket")));
    let bucket = bucket(&server, SHORT);
    let e = bucket.head(b"denied").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Denied);
    assert!(e.to_string().contains("access denied (status 403)"), "{e}");
    assert!(bucket.head(b"key").expect("it is told by a header").is_none());
    // A GET after the HEAD that said nothing, in case it says more; none where a header told.
    assert_eq!(server.count(&When::method("HEAD")), 2);
    assert_eq!(server.count(&When::method("GET")), 1);
}

const BEGUN: &str = "<InitiateMultipartUploadResult><UploadId>id</UploadId></InitiateMultipartUploadResult>";
const MADE: &str = "<CompleteMultipartUploadResult><ETag>\"x-1\"</ETag></CompleteMultipartUploadResult>";

#[test]
fn a_checksum_of_the_whole_goes_only_to_a_service_that_said_that_it_keeps_one() {
    for (headers, whole) in [
        (vec![], false),
        (vec![("x-amz-checksum-algorithm", "CRC64NVME")], true),
        (vec![("x-amz-checksum-algorithm", "CRC64NVME"), ("x-amz-checksum-type", "FULL_OBJECT")], true),
        (vec![("x-amz-checksum-algorithm", "CRC64NVME"), ("x-amz-checksum-type", "COMPOSITE")], false),
        (vec![("x-amz-checksum-algorithm", "CRC32C"), ("x-amz-checksum-type", "FULL_OBJECT")], false),
    ] {
        let server = scripted();
        let begun = headers.iter().fold(Answer::new(200, BEGUN), |answer, (name, value)| answer.with(name, value));
        server.rule(When::method("POST").query("uploads"), .., Action::Answer(begun));
        server.rule(When::method("POST").query("uploadId"), .., Action::Answer(Answer::new(200, MADE)));
        let stands = Answer::new(200, "").with("ETag", "\"x-1\"").with("Content-Length", "3");
        server.rule(When::method("HEAD"), .., Action::Answer(stands));
        let bucket = bucket(&server, SHORT);
        let upload = bucket.begin(b"key", &[]).expect("it begins");
        assert_eq!(upload.whole, whole, "{headers:?}");
        let value = upload.algorithm.of(b"one");
        let parts = [Part { number: 1, etag: "x".into(), checksum: Some(value) }];
        let expected = Expected { size: 3, whole: &[value], sent: upload.whole };
        bucket.complete(b"key", &upload.id, &parts, expected).expect("it is as long as it should be");
        let commits: Vec<_> = server.requests().into_iter().filter(|seen| seen.query.contains("uploadId")).collect();
        assert_eq!(commits.iter().map(|seen| seen.header("x-amz-checksum-crc64nvme").is_some()).collect::<Vec<_>>(), [whole]);
        let e = bucket.complete(b"key", &upload.id, &parts, Expected { size: 4, ..expected }).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
    }
}

#[test]
fn what_a_service_says_that_it_made_is_compared() {
    let minio = ObjectServer::minio().expect("MinIO can be started: servers.sh installs it");
    minio.make_bucket("bucket").expect("a bucket");
    let server = Scripted::before(minio.endpoint()).expect("a server");
    let bucket = server.endpoint(minio.endpoint()).bucket("bucket", PutOptions::default());
    let make = || {
        let upload = bucket.begin(b"key", &[])?;
        assert!(upload.whole, "MinIO knows checksums of the whole");
        let part = bucket.put_part(b"key", &upload.id, 1, 3, &mut &b"one"[..], upload.algorithm)?;
        let whole = [upload.algorithm.of(b"one")];
        bucket.complete(b"key", &upload.id, &[part], Expected { size: 3, whole: &whole, sent: upload.whole })
    };
    make().expect("it is what was sent");
    let commits = When::method("POST").query("uploadId");
    assert_eq!(server.count(&When::method("HEAD")), 0, "the answer was enough");
    server.rule(
        commits,
        ..,
        Action::edit(|answer| {
            let said = String::from_utf8_lossy(&answer.body).into_owned();
            let (before, behind) = said.split_once("<ChecksumCRC64NVME>").expect("it says a checksum");
            let (_, behind) = behind.split_once('<').expect("an end");
            answer.body = format!("{before}<ChecksumCRC64NVME>AAAAAAAAAAA=<{behind}").into_bytes();
        }),
    );
    let e = make().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
}
