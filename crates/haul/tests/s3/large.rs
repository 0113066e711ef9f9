//! Objects in parts: their borders, what a kill leaves, and that nothing that landed is sent twice.

use std::time::Duration;

use haul_test::compare::What;
use haul_test::objects::scripted::{Action, Answer, Scripted, When};

use crate::support::{Ended, PART, World};

const MIB: u64 = 1 << 20;

/// Numbers of the parts that were sent to a key and taken.
fn parts_sent(scripted: &Scripted, key: &str) -> Vec<u32> {
    let taken = |seen: &haul_test::objects::scripted::Seen| seen.method == "PUT" && seen.path.ends_with(key) && seen.status == Some(200);
    let number = |query: &str| query.split('&').find_map(|part| part.strip_prefix("partNumber=")?.parse().ok());
    scripted.requests().iter().filter(|seen| taken(seen)).filter_map(|seen| number(&seen.query)).collect()
}

fn resumed(ended: &Ended) -> u64 {
    ended.number("resumed_bytes")
}

#[test]
fn sizes_at_the_borders_of_parts_come_back() {
    let w = World::new();
    for (name, size) in
        [("less", PART - 1), ("one", PART), ("more", PART + 1), ("two", 2 * PART), ("three", 2 * PART + 1), ("four", 3 * PART + 17)]
    {
        haul_test::tree::write_file(&w.path(name), size as u64).expect("a file");
        w.haul(&format!("cp --part-size 5M {name} @/{name}")).ends(0);
        assert!(w.get(name) == w.read(name), "{name}");
        w.haul(&format!("cp --part-size 5M @/{name} back-{name}")).ends(0);
        assert!(w.read(format!("back-{name}")) == w.read(name), "{name}");
        let parts = size.div_ceil(PART);
        let is_multipart = w.header(name, "etag").is_some_and(|etag| etag.ends_with(&format!("-{parts}\"")));
        assert_eq!(is_multipart, parts > 1, "{name}");
        assert_eq!(w.uploads(name), Vec::<String>::new());
    }
}

#[test]
fn parts_that_no_service_takes_are_refused_or_made_to_fit() {
    let w = World::new();
    w.tree("large=12M");
    // Below the service's least, which is 5 MiB.
    w.haul("cp --part-size 1M large @/large").ends(1).says("5 MiB to 5 GiB");
    for size in ["5121M", "6G", "1T"] {
        w.haul(&format!("cp --part-size {size} large @/large")).ends(1).says("5 MiB to 5 GiB");
    }
    assert_eq!(w.keys(), Vec::<String>::new());
    w.haul("cp --part-size 5G large @/large").ends(0);
    w.haul("cp --part-size 5M large @/large").ends(0);
    assert!(w.get("large") == w.read("large"));
}

/// The program dies right behind each record of its journal in turn, then goes on.
#[test]
#[ignore = "full"]
fn an_upload_goes_on_where_a_kill_ended_it() {
    let (w, scripted) = World::scripted();
    w.tree("src: large=21M small=10 d/other=10");
    let command = "cp --json -a --part-size 5M -j 1 src/ @/to/";
    let mut went_on = 0;
    for record in 1..60 {
        for key in w.keys() {
            w.request("DELETE", &format!("/{key}"), &[], b"").success().expect("removed");
        }
        let _absent = std::fs::remove_dir_all(w.path("state"));
        scripted.clear();
        let first = w.haul(command).killed_at(record).run();
        if !first.was_killed() {
            first.code(0);
            assert!(record > 6, "only {record} records");
            assert!(went_on > 2, "only {went_on} runs went on within an object");
            return;
        }
        let second = w.haul(command).ends(0);
        let mut parts = parts_sent(&scripted, "/to/large");
        let all = parts.len();
        parts.sort_unstable();
        parts.dedup();
        assert_eq!(parts.len(), 5, "killed at record {record}: {parts:?}");
        // The part that was under way had landed without a receipt.
        assert!(all <= 6, "killed at record {record}: {all} parts were sent\n{second}");
        went_on += u32::from(resumed(&second) > 0);
        assert!(w.get("to/large") == w.read("src/large"), "killed at record {record}");
        assert_eq!(w.uploads("to/large"), Vec::<String>::new(), "killed at record {record}");
        w.haul("sync -a --delete src/ @/to/").moves_nothing();
    }
    panic!("more records than parts");
}

/// Takes part 2 out of a listing of parts.
fn without_the_second(answer: &mut haul_test::objects::scripted::Answer) {
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let kept: Vec<&str> = text.split_inclusive("</Part>").filter(|part| !part.contains("<PartNumber>2</PartNumber>")).collect();
    answer.body = kept.concat().into_bytes();
}

/// MinIO drops parts when the connection of a completion is lost.
#[test]
fn parts_that_the_service_has_dropped_are_sent_again() {
    let (w, scripted) = World::scripted();
    w.tree("large=21M");
    let command = "cp --json --part-size 5M -j 1 large @/large";
    scripted.rule(When::method("POST").query("uploadId="), .., Action::Answer(Answer::error(400, "InvalidPart")));
    w.haul(command).ends(23).says("has lost parts");
    scripted.clear();
    scripted.rule(When::method("GET").query("uploadId="), 1..=1, Action::edit(without_the_second));
    let again = w.haul(command).ends(0);
    assert_eq!((parts_sent(&scripted, "/large"), resumed(&again)), (vec![2], 16 * MIB), "{again}");
    assert!(w.get("large") == w.read("large"));
    // Also within a run: to say it again helps nothing, to take the upload up anew does.
    scripted.clear();
    scripted.rule(When::method("POST").query("uploadId="), 1..=1, Action::Close);
    scripted.rule(When::method("POST").query("uploadId="), 2..=3, Action::Answer(Answer::error(400, "InvalidPart")));
    scripted.rule(When::method("GET").query("uploadId="), .., Action::edit(without_the_second));
    w.haul("cp --part-size 5M -j 1 large @/other").ends(0);
    assert_eq!(parts_sent(&scripted, "/other"), [1, 2, 3, 4, 5, 2]);
    assert!(w.get("other") == w.read("large"));
}

#[test]
fn a_download_goes_on_where_a_kill_ended_it() {
    let (w, scripted) = World::scripted();
    w.tree("large=32M");
    w.haul("cp --part-size 8M large @/large").ends(0);
    let command = "cp --json --chunk-size 4M -j 1 @/large back";
    assert!(w.haul(command).killed_at(5).run().was_killed());
    scripted.clear();
    let second = w.haul(command).ends(0);
    assert!(resumed(&second) > 0, "{second}");
    let sent: u64 = scripted.requests().iter().filter(|seen| seen.method == "GET").map(|seen| seen.answered).sum();
    assert!(sent <= 32 * MIB - resumed(&second) + MIB, "{sent} bytes came again\n{second}");
    w.assert_same("large", "back", What::USUAL);
}

#[test]
fn an_object_that_changed_meanwhile_is_read_from_its_start() {
    let w = World::new();
    w.tree("large=24M other=24M");
    w.haul("cp --part-size 8M large @/k").ends(0);
    let command = "cp --json --chunk-size 4M -j 1 @/k back";
    assert!(w.haul(command).killed_at(5).run().was_killed());
    std::fs::write(w.path("other"), w.read("other").iter().rev().copied().collect::<Vec<u8>>()).expect("written");
    w.haul("cp --part-size 8M -I other @/k").ends(0);
    w.haul(command).ends(0);
    assert!(w.read("back") == w.read("other"));
}

#[test]
fn a_file_that_changed_meanwhile_is_sent_from_its_start() {
    let w = World::new();
    w.tree("src: large=24M");
    let command = "cp --json --part-size 5M -j 1 src/ @/to/";
    assert!(w.haul(command).killed_at(5).run().was_killed());
    std::fs::write(w.path("src/large"), w.read("src/large").iter().rev().copied().collect::<Vec<u8>>()).expect("written");
    w.haul(command).ends(0);
    assert!(w.get("to/large") == w.read("src/large"));
    assert_eq!(w.uploads("to/large"), Vec::<String>::new(), "of the old content");
}

#[test]
fn an_upload_of_a_job_that_is_given_up_is_removed() {
    let w = World::new();
    w.tree("src: large=24M");
    for (words, key) in [("src/ @/to/", "to/large"), ("src/ @/as", "as/large"), ("src/large @/name", "name"), ("src/ @", "large")] {
        assert!(w.haul(&format!("cp --part-size 5M -j 1 {words}")).killed_at(5).run().was_killed());
        assert_eq!(w.uploads(key).len(), 1, "{words}");
        w.haul("jobs").ends(0).says(&format!("s3://{}", w.bucket));
        w.haul("jobs clean").ends(0).says("unfinished file");
        assert_eq!(w.uploads(key), Vec::<String>::new(), "{words}");
        w.haul("jobs").ends(0).says("no jobs");
    }
}

#[test]
fn parts_of_one_object_are_got_side_by_side() {
    let (w, scripted) = World::scripted();
    w.tree("src: large=40M");
    w.haul("cp src/large @/large").ends(0);
    // Long enough that nobody is done before the others have begun.
    let late = Action::Late(std::time::Duration::from_millis(300));
    scripted.rule(When::method("GET").path("/large"), .., late);
    for (flags, least, most) in [("-j 5", 4, 6), ("-j 5 --concurrency 2", 2, 2), ("-j 1", 1, 1)] {
        scripted.clear_seen();
        w.haul(&format!("cp --part-size 5M {flags} @/large out")).ends(0);
        assert_eq!(w.read("out"), w.read("src/large"), "{flags}");
        let at_once = scripted.most_at_once("GET");
        assert!((least..=most).contains(&at_once), "{flags}: {at_once} requests at a time");
        std::fs::remove_file(w.path("out")).expect("removed");
    }
}

#[test]
fn a_job_is_given_up_where_the_flags_say_that_it_was() {
    let w = World::new();
    w.tree("src: large=24M");
    let flag = format!("--endpoint-url {}", w.endpoint.url);
    let go = |words: &str| w.haul(words).env("AWS_ENDPOINT_URL", "http://127.0.0.1:9");
    assert!(go(&format!("cp {flag} --part-size 5M -j 1 src/ @/to/")).killed_at(5).run().was_killed());
    assert_eq!(w.uploads("to/large").len(), 1);
    go("jobs clean").ends(23);
    go("jobs").ends(0).says(&format!("s3://{}", w.bucket));
    assert_eq!(w.uploads("to/large").len(), 1);
    go(&format!("jobs clean {flag}")).ends(0).says("unfinished file");
    assert_eq!(w.uploads("to/large"), Vec::<String>::new());
}

/// An upload keeps the metadata that it was begun with: with others it is begun anew.
#[test]
fn an_upload_with_other_wishes_begins_anew() {
    let w = World::new();
    w.tree("src: large=22M");
    assert!(w.haul("cp --part-size 5M -j 1 src/large @/large").killed_at(5).run().was_killed());
    assert_eq!(w.uploads("large").len(), 1);
    w.haul("cp --part-size 5M -j 1 --metadata mine=new src/large @/large").ends(0);
    assert!(w.get("large") == w.read("src/large"));
    assert_eq!(w.header("large", "x-amz-meta-mine").as_deref(), Some("new"));
    assert_eq!(w.uploads("large"), Vec::<String>::new(), "the one that was begun before is gone");
}

/// The same command at two servers is two jobs.
#[test]
fn a_job_belongs_to_the_server_that_it_was_begun_at() {
    let (mut w, scripted) = World::scripted();
    w.tree("large=21M");
    let command = "cp --json --part-size 5M -j 1 large @/large";
    assert!(w.haul(command).killed_at(5).run().was_killed());
    assert_eq!(w.uploads("large").len(), 1);
    // Another name of the same server: nobody knows that it is one.
    let first = std::mem::replace(&mut w.endpoint, w.real.clone());
    let jobs = |w: &World| {
        let listed = w.haul("jobs --json").ends(0).out;
        listed.lines().filter(|line| line.contains("\"unfinished\"")).filter(|line| line.contains("large")).count()
    };
    let before = jobs(&w);
    w.haul("jobs clean").ends(23).says("--endpoint-url").never_says("removed");
    assert_eq!((jobs(&w), w.uploads("large").len()), (before, 1));
    let other = w.haul(command).ends(0);
    assert_eq!(resumed(&other), 0, "{other}");
    // The first one is still there, and goes on.
    w.endpoint = first;
    scripted.clear();
    assert!(resumed(&w.haul(&command.replace("cp", "cp -I")).ends(0)) > 0);
    assert!(w.get("large") == w.read("large"));
    assert_eq!(w.uploads("large"), Vec::<String>::new());
}

/// The verdict names what the time of a request was for: content, or where there is next to none, the request.
#[test]
#[ignore = "full"]
fn objects_that_go_by_one_request_are_no_metadata() {
    let (w, scripted) = World::scripted();
    w.tree("some: a=1M b=2M c=4M d=1500K e=3M f=300K");
    let tiny: Vec<String> = (0..60).map(|i| format!("t{i}=10")).collect();
    w.tree(&format!("tiny: {}", tiny.join(" ")));
    for (tree, words) in [("some", "the network or s3://"), ("tiny", "request latency of s3://")] {
        let slow = |method: &str| {
            scripted.clear();
            scripted.rule(When::method(method).path(&format!("/{tree}/")), .., Action::Late(Duration::from_millis(800)));
        };
        slow("PUT");
        let up = w.haul(&format!("cp --json {tree}/ @/{tree}/")).ends(0);
        slow("GET");
        let down = w.haul(&format!("cp --json --server-times @/{tree}/ back-{tree}")).ends(0);
        for (ended, of) in [(up, "writing"), (down, "reading")] {
            let times = &ended.finished()["times"];
            let seconds = |kind: &str| times[kind].as_f64().expect("a number");
            assert!(seconds(of) > seconds("metadata") + seconds("opening"), "{times}");
            ended.says(words).never_says("metadata operations");
        }
        w.assert_same(tree, format!("back-{tree}"), What::CONTENT);
    }
}

/// This server takes a prefix of uploads for a whole key.
#[test]
fn uploads_below_a_prefix_are_found() {
    let w = World::new();
    for key in ["kill/x", "kill/d/y", "kill", "other/z"] {
        w.request("POST", &format!("/{key}?uploads="), &[], b"").success().expect("an upload");
    }
    let lines = |words: &str| w.haul(words).ends(0).out.lines().count();
    assert_eq!((lines("ls --uploads @"), lines("ls --uploads @/kill/"), lines("ls --uploads @/kill")), (4, 2, 3));
    assert_eq!(lines("ls --uploads @/none/"), 0);
    w.haul("rm --uploads -n @/kill/").ends(0).says("kill/x").says("kill/d/y").never_says("other/z");
    w.haul("rm --uploads @/kill/").ends(0);
    assert_eq!(lines("ls --uploads @"), 2);
    assert_eq!((w.uploads("kill").len(), w.uploads("other/z").len()), (1, 1));
}
