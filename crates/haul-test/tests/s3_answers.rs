//! What becomes of answers that come late, say little, or say other things than were asked.

use std::sync::Arc;
use std::time::Duration;

use haul_core::error::ErrorKind;
use haul_stores::s3::account::{Account, Asked, Environment};
use haul_stores::s3::client::{Body, Call};
use haul_stores::s3::trust::{self, Trust};
use haul_stores::s3::{Bucket, Client, Wishes};
use haul_test::objects::Scripted;
use haul_test::objects::scripted::{Action, Answer, When};

/// What a silent server is given.
const SHORT: Duration = Duration::from_millis(300);

fn asked(url: &str) -> Asked {
    let keys = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    Asked { endpoint_url: Some(url.into()), environment: Environment::table(None, keys), ..Asked::default() }
}

/// A bucket behind a client that waits for `patience`.
fn bucket(server: &Scripted, patience: Duration) -> Bucket {
    let url = format!("http://{}", server.address());
    let account = Account::open(&asked(&url)).expect("settings that make sense");
    let usual = Trust::of(url.parse().expect("an address"), Environment::table(None, []));
    let agent = trust::agent(&Trust { patience, ..usual }).expect("an agent");
    Bucket { client: Arc::new(Client::new(account, agent).expect("a client")), name: "bucket".into(), wishes: Arc::new(Wishes::default()) }
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
    let bucket = bucket(&server, SHORT);
    bucket.complete(b"key", "id", &[], None).expect("it is waited for");
    let mut copy = Call::new("copy", "PUT".parse().expect("a method"), "bucket", b"key").patient();
    assert!(copy.patience > Some(Duration::from_secs(60)));
    copy.patience = Some(SHORT);
    let e = bucket.client.send(&copy, Body::None).unwrap_err();
    assert_eq!((e.kind(), server.count(&When::method("PUT"))), (ErrorKind::TimedOut, 1), "{e}");
}
