//! One login, and as many sessions in it as the server allows.

use std::time::Duration;

use haul_test::compare::What;
use haul_test::link::Options;
use haul_test::tree::spread;

use crate::agent::network::over_a_link;
use crate::agent::support::World;

#[test]
#[ignore = "full"]
fn each_run_logs_in_once() {
    let w = World::new("src: a=5 big=9M d/b=300K");
    let mut logins = 0;
    for words in [
        "cp src/ testhost:~/there",
        "cp testhost:~/there/ back",
        "cp testhost:~/there/ testhost:~/again",
        "sync --delete -n src/ testhost:~/there",
        "check -c testhost:~/again/ testhost:~/there",
        "ls -lR testhost:~/there",
        "sum testhost:~/there",
        "mv testhost:~/again testhost:~/moved",
        "rm -r testhost:~/there",
    ] {
        w.haul(words).ends(0);
        logins += 1;
        assert_eq!(w.server.logins(), logins, "{words}");
    }
}

#[test]
fn one_session_is_enough() {
    let w = World::served("src: big=20M", "MaxSessions 1");
    spread(&w.path("src/many"), 4, 50, 2000).expect("made");
    for flags in ["", "--no-direct"] {
        w.haul(&format!("cp -j 4 {flags} src/ testhost:~/put{flags}")).ends(0).says("by haul on the remote host");
        w.haul(&format!("cp -j 4 {flags} testhost:~/put{flags}/ back{flags}")).ends(0);
        w.assert_same("src", format!("back{flags}"), What::USUAL);
    }
    assert_eq!((w.server.logins(), w.server.sessions()), (4, 4));
}

/// Over a network that is slow enough for more sessions to be worth it.
#[test]
#[ignore = "full"]
fn no_more_sessions_than_the_server_allows() {
    for (allowed, at_least) in [(1, 1), (3, 2), (10, 2)] {
        let link = Options { delay: Duration::from_millis(10), ..Options::default() };
        let (w, _link) = over_a_link(link, &format!("MaxSessions {allowed}"));
        w.tree("src: big=60M big2=30M");
        w.haul("cp -j 8 --no-direct --logins 1 src/ testhost:~/there").ends(0).says("by haul on the remote host");
        w.assert_same("src", "there", What::USUAL);
        assert_eq!(w.server.logins(), 1);
        let sessions = w.server.sessions();
        assert!((at_least..=allowed).contains(&sessions), "{sessions} of {allowed} sessions");
    }
}

/// One large file over a long way, whose connection is full: a key makes more logins free of questions.
#[test]
#[ignore = "full"]
fn one_large_file_is_carried_by_several_logins() {
    // Nothing is lost in its queue.
    let link = Options { delay: Duration::from_millis(100), rate: Some(8_000_000), queue: Some(64 << 20), ..Options::default() };
    let (w, _link) = over_a_link(link, "");
    w.tree("src: big=96M");
    let mut before = (0, 0);
    for (words, same, how) in [
        ("--no-direct src/ testhost:~/there", ("src", "there"), "by haul on the remote host"),
        ("--no-direct src/big testhost:~/alone", ("src/big", "alone"), "by haul on the remote host"),
        ("--no-agent src/ testhost:~/put", ("src", "put"), "over plain SFTP"),
        ("--no-agent testhost:~/src/big got", ("src/big", "got"), "over plain SFTP"),
    ] {
        let words = format!("cp {words}");
        if words.contains("--no-agent") { w.plain(&words) } else { w.haul(&words) }.ends(0).says(how);
        let (logins, sessions) = (w.server.logins() - before.0, w.server.sessions() - before.1);
        assert!((2..=4).contains(&logins) && sessions >= 3, "{words}: {logins} logins, {sessions} sessions");
        // Plain SFTP keeps whole seconds.
        w.assert_same(same.0, same.1, What { mtime: Some(1_000_000_000), ..What::USUAL });
        before = (w.server.logins(), w.server.sessions());
    }
}

/// Ranges that are read one after the other end where pieces of a remote file end only by chance.
#[test]
fn what_was_requested_of_a_file_is_not_requested_again() {
    let link = Options { delay: Duration::from_millis(25), rate: Some(8_000_000), ..Options::default() };
    let (w, link) = over_a_link(link, "");
    w.tree("there: big=24M");
    w.haul("cp --no-direct testhost:~/there/ back").ends(0).says("by haul on the remote host");
    w.assert_same("there", "back", What::USUAL);
    let received = link.back().bytes;
    assert!(received < 3 * (24 << 20), "{received} bytes");
}
