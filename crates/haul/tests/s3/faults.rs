//! What goes wrong on the way: refused, cut, damaged, lost and late answers. What lands is right all the same.

use std::time::Duration;

use haul_test::compare::What;
use haul_test::objects::scripted::{Action, Answer, Scripted, When};

use crate::support::World;

#[test]
fn a_service_that_asks_for_less_gets_less() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=10 b=10 large=12M");
    scripted.rule(When::method("PUT"), 1..=3, Action::Answer(Answer::slow_down(Duration::from_secs(1))));
    w.haul("cp --part-size 5M src/ @/to/").ends(0);
    assert!(w.get("to/large") == w.read("src/large"));
    scripted.clear();
    scripted.rule(When::method("GET"), 2..=4, Action::Answer(Answer::slow_down(Duration::from_secs(1))));
    w.haul("cp @/to/ back").ends(0);
    w.assert_same("src", "back", What::CONTENT);
}

#[test]
fn expired_credentials_in_the_middle_are_said() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=10 b=10 c=10");
    scripted.rule(When::method("PUT").path("/to/b"), .., Action::Answer(Answer::error(400, "ExpiredToken")));
    let ended = w.haul("cp -j 1 src/ @/to/").run();
    assert_ne!(ended.status.code(), Some(0), "{ended}");
    ended.says("have expired").says("log in again");
    scripted.clear();
    w.haul("cp src/ @/to/").ends(0);
    assert_eq!(w.get("to/b"), w.read("src/b"));
}

#[test]
fn a_body_that_is_cut_short_is_asked_for_again() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=100K large=20M");
    w.haul("cp --part-size 5M src/ @/to/").ends(0);
    scripted.rule(When::method("GET").path("/to/a"), 1..=2, Action::Cut(50_000));
    scripted.rule(When::method("GET").path("/to/large"), 1..=3, Action::Cut(3_000_000));
    w.haul("cp --chunk-size 5M @/to/ back").ends(0);
    w.assert_same("src", "back", What::USUAL);
}

#[test]
fn a_bit_that_flips_on_the_way_here_never_lands() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=100K large=20M whole=6M");
    w.haul("cp --part-size 5M src/ @/to/").ends(0);
    for (path, turns) in [("/to/a", 1..=1), ("/to/large", 2..=2), ("/to/whole", 1..=1)] {
        scripted.rule(When::method("GET").path(path), turns, Action::Flip(70_000));
    }
    let ended = w.haul("cp --json --chunk-size 5M -j 1 @/to/ back").ends(0);
    w.assert_same("src", "back", What::USUAL);
    assert!(ended.number("retries") > 0, "{ended}");
    // For good: it fails, and nothing stands there.
    scripted.rule(When::method("GET").path("/to/"), .., Action::Flip(70_000));
    let ended = w.haul("cp --chunk-size 5M --retries 1 @/to/ bad").ends(23).says("checksum");
    for name in ["a", "large", "whole"] {
        assert!(!w.path("bad").join(name).exists(), "{name}\n{ended}");
    }
}

#[test]
fn a_bit_that_flips_on_the_way_there_never_lands() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=100K large=12M");
    scripted.rule(When::method("PUT").path("/to/a"), 1..=1, Action::FlipSent(70_000));
    scripted.rule(When::method("PUT").query("partNumber=2"), 1..=1, Action::FlipSent(700_000));
    w.haul("cp --part-size 5M src/ @/to/").ends(0);
    assert!(w.get("to/large") == w.read("src/large"));
    assert!(w.get("to/a") == w.read("src/a"));
    scripted.rule(When::method("PUT").path("/bad/"), .., Action::FlipSent(70_000));
    w.haul("cp --part-size 5M --retries 1 src/ @/bad/").ends(23);
    let keys = w.keys();
    assert!(!keys.contains(&"bad/a".to_string()) && !keys.contains(&"bad/large".to_string()), "{keys:?}");
    assert_eq!(w.uploads("bad/large"), Vec::<String>::new());
}

#[test]
fn answers_that_are_lost_do_no_harm() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=10 large=12M d/b=10");
    scripted.rule(When::method("POST").query("uploadId="), 1..=1, Action::Lose);
    scripted.rule(When::method("POST").query("uploads"), 1..=1, Action::Lose);
    scripted.rule(When::method("PUT").query("partNumber=2"), 1..=1, Action::Lose);
    scripted.rule(When::method("PUT").path("/to/a"), 1..=1, Action::Lose);
    w.haul("cp -a --part-size 5M src/ @/to/").ends(0);
    assert!(w.get("to/large") == w.read("src/large"));
    w.haul("sync -a src/ @/to/").moves_nothing();
    scripted.clear();
    scripted.rule(When::method("DELETE"), 1..=1, Action::Lose);
    w.tree("none/");
    w.haul("sync --delete --force none/ @/to/").ends(0);
    assert_eq!(w.keys().iter().filter(|key| !key.ends_with('/')).count(), 0);
}

#[test]
fn connections_that_close_at_once_are_made_again() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=10 large=12M");
    scripted.rule(When::any(), 3..=4, Action::Close);
    scripted.rule(When::method("PUT").query("partNumber"), 1..=2, Action::CutSent(1_000_000));
    w.haul("cp --part-size 5M src/ @/to/").ends(0);
    assert!(w.get("to/large") == w.read("src/large"));
    scripted.clear();
    scripted.rule(When::method("GET"), 2..=3, Action::Close);
    w.haul("cp @/to/ back").ends(0);
    w.assert_same("src", "back", What::CONTENT);
}

#[test]
#[ignore = "full"]
fn an_answer_that_never_comes_is_not_waited_for() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=10 large=12M");
    scripted.rule(When::method("PUT").query("partNumber=2"), .., Action::Hang);
    scripted.rule(When::method("PUT").path("/to/a"), .., Action::Hang);
    // What it stops is the run, as with rsync; another goes on.
    w.haul("cp --timeout 2s --part-size 5M src/ @/to/").ends(30).says("--timeout");
    scripted.clear();
    w.haul("cp --timeout 2s --part-size 5M src/ @/to/").ends(0);
    assert!(w.get("to/large") == w.read("src/large"));
    scripted.clear();
    scripted.rule(When::any(), .., Action::Hang);
    w.haul("cp --timeout 1s --retries 1 src/ @/to/").ends(30);
    // Before the run has begun there is only the request's own bound.
    w.haul("cp --timeout 1s src/a @/other").ends(30).says("idle timeout: no data received or sent");
    for words in ["ls @/", "du @/", "tree @/", "rm @/a", "head @/a", "cat @/a", "rb @", "mb s3://another-bucket"] {
        w.haul(&format!("{words} --timeout 1s")).ends(30).says("idle timeout: no data received or sent");
    }
}

/// However many layers try again: each sees what the others have tried.
#[test]
fn a_key_that_fails_for_ever_costs_as_many_requests_as_are_documented() {
    let (w, scripted) = World::scripted();
    w.tree("src: bad=10 good=10 big=12M worse=300K");
    let failing = || Action::Answer(Answer::error(503, "ServiceUnavailable"));
    let requests = |scripted: &Scripted, method: &str, path: &str| scripted.count(&When::method(method).path(path));
    let forever = |scripted: &Scripted, method: &str| {
        for path in ["/bad", "/worse"] {
            scripted.rule(When::method(method).path(path), .., failing());
        }
        for path in ["/good", "/big"] {
            scripted.rule(When::method(method).path(path), 1..=2, failing());
        }
    };
    // Parts go from the file to the wire: the engine sends them again.
    scripted.rule(When::method("PUT").path("/up/big").query("partNumber=2"), 1..=2, Action::Answer(Answer::error(500, "InternalError")));
    forever(&scripted, "PUT");
    let ended = w.haul("cp -v --retries 2 --part-size 5M src/ @/up/").ends(23);
    for path in ["/up/bad", "/up/worse"] {
        assert_eq!(requests(&scripted, "PUT", path), 3, "{path}\n{ended}");
    }
    assert_eq!(requests(&scripted, "PUT", "/up/good"), 3, "{ended}");
    assert!(w.get("up/good") == w.read("src/good") && w.get("up/big") == w.read("src/big"), "{ended}");
    ended.says("bad: write: ").says("attempt 1 of 3 failed, retrying in 0.").says("attempt 2 of 3 failed").says("(tried 3 times in ");

    // A part that fails for ever.
    scripted.clear();
    let part = || When::method("PUT").query("partNumber=2");
    scripted.rule(part(), .., Action::Answer(Answer::error(500, "InternalError")));
    w.haul("cp --retries 2 --part-size 5M src/big @/part").ends(23).says("(tried 3 times in ");
    assert_eq!(scripted.count(&part()), 3);

    // On the way here: answers that never come whole cost as many as those that say no.
    scripted.clear();
    w.haul("cp --part-size 5M src/ @/all/").ends(0);
    forever(&scripted, "GET");
    let ended = w.haul("cp --retries 2 --chunk-size 5M @/all/ back").ends(23);
    for path in ["/all/bad", "/all/worse"] {
        assert_eq!(requests(&scripted, "GET", path), 3, "{path}\n{ended}");
    }
    assert!(w.read("back/good") == w.read("src/good") && w.read("back/big") == w.read("src/big"), "{ended}");
    scripted.clear();
    let cut = |bytes| Action::Cut(bytes);
    scripted.rule(When::method("GET").path("/all/bad"), .., cut(5));
    scripted.rule(When::method("GET").path("/all/worse"), 1..=1, failing());
    scripted.rule(When::method("GET").path("/all/worse"), .., cut(200_000));
    let ended = w.haul("cp --retries 2 --chunk-size 5M @/all/ cut").ends(23);
    for path in ["/all/bad", "/all/worse"] {
        assert_eq!(requests(&scripted, "GET", path), 3, "{path}\n{ended}");
    }
}

#[test]
#[ignore = "full"]
fn without_a_flag_a_request_is_tried_as_often_as_the_help_says() {
    let (w, scripted) = World::scripted();
    w.tree("src: bad=10 good=10");
    scripted.rule(When::method("PUT").path("/to/bad"), .., Action::Answer(Answer::error(500, "InternalError")));
    scripted.rule(When::method("PUT").path("/to/good"), 1..=4, Action::Answer(Answer::error(500, "InternalError")));
    let help = w.haul("cp --help").ends(0).out;
    assert!(help.split_whitespace().collect::<Vec<_>>().join(" ").contains("up to N times (default: 9)"), "{help}");
    let ended = w.haul("cp --json src/ @/to/").ends(23);
    assert_eq!(scripted.count(&When::method("PUT").path("/to/bad")), 10, "{ended}");
    assert_eq!(w.get("to/good"), w.read("src/good"));
    assert_eq!(ended.number("retries"), 9 + 4, "{ended}");
}

/// A wait that the service asks for counts as time, and what would be too late is not waited for.
#[test]
fn a_service_that_always_asks_for_a_long_wait_is_given_up() {
    let (w, scripted) = World::scripted();
    w.tree("src: a=10");
    let slow = Answer::slow_down(Duration::from_secs(2));
    scripted.rule(When::method("PUT").path("/to/a"), .., Action::Answer(slow));
    w.haul("cp -v --retries 1 src/ @/to/").ends(23).says("attempt 1 of 2 failed, retrying in 2.0 s").says("(tried twice in ");
    assert_eq!(scripted.count(&When::method("PUT").path("/to/a")), 2);
}

#[test]
fn an_answer_that_lags_far_behind_is_taken_over_by_a_connection_that_is_idle() {
    let (w, scripted) = World::scripted();
    let others: Vec<String> = (0..8).map(|i| format!("f{i}=4M")).collect();
    w.tree(&format!("src: a-slow=8M large=24M {}", others.join(" ")));
    w.haul("cp src/ @/to/").ends(0);
    for slow in ["/to/a-slow", "/to/large"] {
        scripted.clear_seen();
        scripted.clear();
        let asked = || When::method("GET").path(slow);
        // Half a minute, or three times as long.
        scripted.rule(asked(), ..=1, Action::Slow(16 << 10, Duration::from_millis(50)));
        w.haul("cp -j 4 @/to/ back").ends(0);
        w.assert_same("src", "back", What::CONTENT);
        let all: Vec<_> = scripted.requests().into_iter().filter(|seen| seen.method == "GET" && seen.path.ends_with(slow)).collect();
        let (first, rest) = all.split_first().expect("it was asked for");
        assert!(first.answered < 4 << 20, "{all:#?}");
        assert!(rest.iter().any(|seen| seen.header("range").is_some_and(|range| !range.starts_with("bytes=0-"))), "{all:#?}");
        std::fs::remove_dir_all(w.path("back")).expect("it is there");
    }
}

#[test]
fn an_answer_that_lags_is_read_on_where_it_cannot_be_asked_for_again() {
    let (w, scripted) = World::scripted();
    let others: Vec<String> = (0..8).map(|i| format!("f{i}=4M")).collect();
    w.tree(&format!("src: a-slow=4M {}", others.join(" ")));
    w.haul("cp src/ @/to/").ends(0);
    scripted.clear_seen();
    let again = || When::method("GET").path("/to/a-slow").header("range", "bytes=");
    scripted.rule(again(), .., Action::Answer(Answer::error(503, "SlowDown")));
    scripted.rule(When::method("GET").path("/to/a-slow"), ..=1, Action::Slow(32 << 10, Duration::from_millis(50)));
    w.haul("cp -j 4 @/to/ back").ends(0);
    w.assert_same("src", "back", What::CONTENT);
    // A few at most: one that is refused counts as one that brought nothing.
    let (ranges, all) = (scripted.count(&again()), scripted.count(&When::method("GET").path("/to/a-slow")));
    assert!((1..=4).contains(&ranges) && all == ranges + 1, "{ranges} of {all}");
}
