//! The form in which checksums go with what is sent, at services that do not return them, or refuse them.

use haul_test::objects::scripted::{Action, Answer, When};

use crate::support::World;

fn without_checksums() -> Action {
    Action::edit(|answer| answer.headers.retain(|(name, _)| !name.to_ascii_lowercase().starts_with("x-amz-checksum-")))
}

#[test]
fn a_service_that_returns_no_checksum_gets_every_part_once() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=10 large=32M");
    scripted.rule(When::method("PUT"), .., without_checksums());
    scripted.rule(When::method("POST"), .., without_checksums());
    w.haul("cp -j 1 --part-size 5M src/large @/to/").ends(0);
    assert!(w.get("to/large") == w.read("src/large"));
    let parts = When::method("PUT").query("partNumber");
    assert_eq!((scripted.count(&parts), scripted.count(&When::method("POST").query("uploads"))), (7, 1));
    // The first ones tell that the endpoint's ETags are what can be compared.
    assert!(scripted.count(&parts.clone().header("x-amz-trailer", "crc64nvme")) < 3);
    assert!(scripted.count(&parts.clone().header("content-md5", "=")) > 3);
    assert_eq!(w.uploads("to/large"), Vec::<String>::new());
    // Another run has it from the first.
    scripted.clear_seen();
    w.haul("cp src/a @/to/").ends(0);
    w.haul("cp --part-size 5M src/large @/to/again").ends(0);
    assert!(w.get("to/again") == w.read("src/large"));
    assert_eq!(scripted.count(&parts.header("x-amz-trailer", "")), 0);
}

#[test]
fn a_small_object_is_sent_once_whatever_is_returned() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=10");
    scripted.rule(When::method("PUT"), .., without_checksums());
    w.haul("cp src/a @/to/").ends(0);
    assert_eq!((scripted.count(&When::method("PUT").path("to/a")), w.get("to/a")), (1, w.read("src/a")));
}

#[test]
fn an_etag_that_is_not_the_md5_of_what_was_sent_convicts() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=10 b=10 large=12M");
    let lies = Action::edit(|answer| {
        answer.headers.retain(|(name, _)| !name.to_ascii_lowercase().starts_with("x-amz-checksum-") && !name.eq_ignore_ascii_case("etag"));
        answer.headers.push(("ETag".into(), "\"0123456789abcdef0123456789abcdef\"".into()));
    });
    scripted.rule(When::method("PUT").query("partNumber=2"), 1..=2, lies.clone());
    scripted.rule(When::method("PUT").path("to/a"), .., lies);
    scripted.rule(When::method("PUT"), .., without_checksums());
    w.haul("cp --part-size 5M --retries 3 src/ @/to/").ends(23).says("ETag").says("--no-check-etag");
    assert!(w.get("to/large") == w.read("src/large"));
    w.haul("cp -I --no-check-etag src/a @/to/").ends(0);
}

#[test]
fn an_upload_that_no_form_fits_is_begun_anew_and_none_is_left() {
    let (w, scripted) = World::scripted();
    w.tree("src: large=12M");
    let part = || When::method("PUT").query("partNumber");
    scripted.rule(part().header("x-amz-trailer", ""), .., Action::Answer(Answer::error(501, "NotImplemented")));
    scripted.rule(part().header("x-amz-checksum-crc64nvme", ""), .., Action::Answer(Answer::error(501, "NotImplemented")));
    // With the checksum of the upload beside it, then alone.
    scripted.rule(part().header("content-md5", ""), 2..=2, Action::Answer(Answer::error(400, "InvalidRequest")));
    w.haul("cp -j 1 --part-size 5M src/ @/to/").ends(0);
    assert!(w.get("to/large") == w.read("src/large"));
    assert_eq!(w.uploads("to/large"), Vec::<String>::new());
    assert_eq!(scripted.count(&When::method("POST").query("uploads")), 2);
}

#[test]
fn a_checksum_that_the_service_makes_up_is_not_left_with_an_object() {
    let (w, scripted) = World::scripted();
    w.tree("src: large=12M");
    scripted.rule(When::method("PUT"), .., without_checksums());
    scripted.rule(
        When::method("POST").query("uploadId"),
        ..,
        Action::edit(|answer| {
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            let kept = text.split("<Checksum").next().unwrap_or_default().to_string();
            if kept.len() < text.len() {
                answer.body = format!("{kept}</CompleteMultipartUploadResult>").into_bytes();
            }
        }),
    );
    let made_up = Action::edit(|answer| {
        answer.headers.retain(|(name, _)| !name.to_ascii_lowercase().starts_with("x-amz-checksum-"));
        answer.headers.push(("x-amz-checksum-crc64nvme".into(), "rosUhgp5mIg=".into()));
    });
    scripted.rule(When::method("HEAD").path("to/large"), 1..=1, made_up);
    w.haul("cp -j 1 --part-size 5M src/ @/to/").ends(0);
    assert!(w.get("to/large") == w.read("src/large"));
    let begun = When::method("POST").query("uploads");
    assert_eq!(scripted.count(&begun), 2);
    assert_eq!(scripted.count(&begun.header("x-amz-checksum-algorithm", "CRC64NVME")), 1);
}
