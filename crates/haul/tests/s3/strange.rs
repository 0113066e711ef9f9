//! Endpoints that answer otherwise than Amazon does, or somebody who is no object store at all.

use std::time::Duration;

use haul_test::compare::What;
use haul_test::objects::plain;
use haul_test::objects::scripted::{Action, Answer, When};

use crate::support::World;

/// Somebody in between answers everything with a page.
fn page() -> Action {
    let headers = vec![("content-type".to_owned(), "text/html".to_owned())];
    Action::Answer(Answer { status: 200, headers, body: b"<html><body>Welcome</body></html>".to_vec() })
}

/// The whole object, where a range of it is asked for.
fn whole(w: &World) -> Action {
    let real = w.real.clone();
    Action::make(move |seen, _| {
        let answer = plain::request(&real, "GET", &seen.path, &[("x-amz-checksum-mode", "ENABLED")], b"").expect("it answers");
        let frames = ["content-length", "transfer-encoding", "connection"];
        let headers = answer.headers.into_iter().filter(|(name, _)| !frames.contains(&&*name.to_lowercase())).collect();
        Answer { status: answer.status, headers, body: answer.body }
    })
}

#[test]
fn a_page_is_no_sign_that_an_object_was_written() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=10 large=12M empty=0");
    scripted.rule(When::method("PUT"), .., page());
    w.haul("cp --part-size 5M src/ @/to/")
        .ends(23)
        .says("a: write: the answer (text/html) is not that of an object store")
        .says("--endpoint-url");
    assert_eq!(w.keys(), Vec::<String>::new());
    scripted.clear();
    scripted.rule(When::method("POST"), .., page());
    w.haul("cp --part-size 5M src/large @/large").ends(23).says("is not that of an object store");
    scripted.clear();
    w.haul("cp --part-size 5M src/ @/to/").ends(0);
    scripted.rule(When::method("GET"), .., page());
    w.haul("sync --delete @/to/ src").run().says("is not that of an object store");
    assert!(w.has("src/a"));
}

/// Success, and nothing else that a service says: neither an ETag nor a type.
#[test]
fn a_bare_success_is_no_sign_either() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=10 large=12M empty=0");
    for body in ["", "OK"] {
        scripted.rule(When::method("PUT"), .., Action::Answer(Answer::new(200, body)));
        w.haul("cp --part-size 5M src/ @/to/").ends(23).says("a: write: the answer has no ETag");
        assert_eq!(w.keys(), Vec::<String>::new());
        scripted.clear();
    }
    w.haul("cp --part-size 5M src/ @/to/").ends(0);
    assert!(w.get("to/large") == w.read("src/large"));
}

#[test]
#[ignore = "full"]
fn fewer_keys_are_removed_at_once_where_a_thousand_take_too_long() {
    let (w, scripted) = World::scripted();
    let files: Vec<String> = (0..1500).map(|i| format!("f{i}=1")).collect();
    w.tree(&format!("src: {} none/", files.join(" ")));
    w.haul("cp src/ @/to/").ends(0);
    scripted.clear();
    scripted.rule(When::method("POST").query("delete"), 1..=1, Action::Answer(Answer::error(504, "GatewayTimeout")));
    w.haul("rm -r @/to/").ends(0);
    assert_eq!(w.keys(), Vec::<String>::new());
    let requests = scripted.count(&When::method("POST").query("delete"));
    assert!((10..=40).contains(&requests), "{requests}");
    // For ever: each batch is given up after it was made smaller twice.
    w.haul("cp src/ @/to/").ends(0);
    scripted.clear();
    scripted.rule(When::method("POST").query("delete"), .., Action::Answer(Answer::error(504, "GatewayTimeout")));
    w.haul("rm -r @/to/").ends(23);
    let requests = scripted.count(&When::method("POST").query("delete"));
    assert!(requests <= 12, "{requests}");
}

#[test]
fn a_batch_that_is_never_answered_is_divided() {
    let (w, scripted) = World::scripted();
    let files: Vec<String> = (0..300).map(|i| format!("f{i}=1")).collect();
    w.tree(&format!("src: {} none/", files.join(" ")));
    w.haul("cp src/ @/to/").ends(0);
    for file in w.entries("src") {
        w.remove(format!("src/{file}"));
    }
    scripted.rule(When::method("POST").query("delete"), 1..=1, Action::Hang);
    w.haul("sync --delete --force --timeout 4s src/ @/to/").ends(0);
    assert!(w.keys().iter().all(|key| !key.contains("to/f")));
}

#[test]
#[ignore = "full"]
fn a_service_without_ranges_is_read_from_the_start() {
    let (w, scripted) = World::scripted();
    w.tree("src: large=40M small=100K other=20M");
    w.haul("cp --part-size 8M src/ @/to/").ends(0);
    let bare = |answer: &mut Answer| answer.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("accept-ranges"));
    for (says, back) in [(false, "back"), (true, "again")] {
        scripted.clear();
        scripted.rule(When::method("GET").header("range", "bytes"), .., whole(&w));
        if !says {
            scripted.rule(When::method("HEAD"), .., Action::edit(bare));
        }
        let ended = w.haul(&format!("cp -j 8 --chunk-size 4M @/to/ {back}")).ends(0).says("ignores Range");
        assert_eq!(format!("{ended}").matches("ignores Range").count(), 1, "{ended}");
        w.assert_same("src", back, What::USUAL);
        let sent: u64 = scripted.requests().iter().filter(|seen| seen.method == "GET").map(|seen| seen.answered).sum();
        // Who says that it sends ranges is found out in the middle.
        let most = if says { 1 << 30 } else { 130 << 20 };
        assert!(sent < most, "{sent} bytes for 60 MiB");
    }
    w.haul("check -c src/ @/to/").ends(0);
    assert!(w.haul("cat @/to/large").ends(0).bytes == w.read("src/large"));
}

#[test]
#[ignore = "full"]
fn memory_is_bounded_where_checksums_go_in_front() {
    let (w, scripted) = World::scripted();
    w.tree("src: large=640M");
    let signed = When::method("PUT").header("x-amz-trailer", "");
    scripted.rule(signed, .., Action::Answer(Answer::error(501, "NotImplemented")));
    // What 40 workers with a part each would take is 640 MiB.
    let mut run = w.haul("cp -j 40 --part-size 16M src/ @/to/").start();
    let status = std::cell::RefCell::new(0u64);
    while run.is_running() {
        let peak = run.status("VmHWM").and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0);
        let most = (*status.borrow()).max(peak);
        *status.borrow_mut() = most;
        std::thread::sleep(Duration::from_millis(20));
    }
    run.wait().code(0);
    let peak = status.into_inner() >> 10;
    assert!(peak > 0 && peak < 200, "{peak} MiB");
    assert!(w.get("to/large") == w.read("src/large"));
}
