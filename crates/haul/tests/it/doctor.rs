//! `haul doctor`, against an OpenSSH server of its own on loopback.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use haul_test::world::World;
use serde_json::Value;

/// A server whose sessions have `home` of the scratch directory for a home.
fn world(lines: &str) -> World {
    World::served("home/", &format!("SetEnv HOME=~/home\n{lines}"))
}

/// Standard output and standard error of `haul doctor`, which logs in to each host once.
#[track_caller]
fn ends(w: &World, code: i32, words: &str) -> (String, String) {
    let before = w.server.logins();
    let ended = w.ends(code, &format!("doctor {words}"));
    let logins = w.server.logins() - before;
    assert!(logins <= 1, "{logins} logins\n{ended}");
    (ended.out, ended.err)
}

#[track_caller]
fn facts(w: &World, words: &str) -> Value {
    let (out, err) = ends(w, 0, &format!("--json {words}"));
    let document: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}\n{err}"));
    assert_eq!((&document["event"], &document["version"]), (&"doctor".into(), &1.into()));
    document["hosts"][0].clone()
}

const AGENT: &str = concat!("--agent ", env!("CARGO_BIN_EXE_haul"));

#[test]
fn a_plain_host() {
    let w = world("");
    let (out, err) = ends(&w, 0, "testhost");
    for words in [
        "testhost: works, over plain SFTP\n",
        "  login       as root, by publickey, in ",
        "  server      OpenSSH",
        "  connection  from 127.0.0.1 port ",
        "  system      Linux ",
        "  haul        not installed\n",
        "  SFTP        posix-rename, ",
        "  sessions    at least 8 per login",
        "  round trip  ",
        "  clock       equal to this host's within ",
        " free\n",
        "--install-agent installs haul",
    ] {
        assert!(out.contains(words), "no {words:?} in\n{out}\n{err}");
    }
    assert_eq!(err, "");
    let facts = facts(&w, "testhost");
    assert_eq!(
        (&facts["usable"], &facts["route"], &facts["haul"], &facts["data"]),
        (&true.into(), &"sftp".into(), &Value::Null, &Value::Null)
    );
    assert_eq!(facts["home"]["path"], w.path("home").display().to_string());
    assert!(facts["home"]["free"].as_u64() > Some(0) && facts["home"]["file_system"].is_string(), "{facts}");
    assert_eq!(w.names("home"), "", "nothing is written there");
}

#[test]
fn a_host_with_haul() {
    let w = world("");
    let facts = facts(&w, &format!("{AGENT} --accept testhost"));
    assert_eq!(facts["route"], "haul");
    assert_eq!(facts["haul"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(facts["haul"]["path"], env!("CARGO_BIN_EXE_haul"));
    assert_eq!(facts["sessions"]["opened"], 8);
    for way in ["out", "in"] {
        assert_eq!((&facts["data"][way]["works"], &facts["data"][way]["address"]), (&true.into(), &"127.0.0.1".into()), "{facts}");
    }
    assert!(facts["round_trip"].as_f64().is_some_and(|time| time > 0.0 && time < 5.0), "{facts}");
    assert_eq!(facts["advice"], Value::Array(Vec::new()), "{facts}");
    let (out, _) = ends(&w, 0, &format!("{AGENT} testhost"));
    assert!(out.contains("data out") && out.contains("with --accept only"), "{out}");
    let (out, _) = ends(&w, 0, &format!("{AGENT} --no-direct root@testhost"));
    assert!(out.starts_with("root@testhost: works, with haul on the host\n") && !out.contains("data out"), "{out}");
}

#[test]
fn ports_that_cannot_be_used_are_said() {
    let w = world("");
    let taken = TcpListener::bind("[::]:0").expect("a port");
    let port = taken.local_addr().expect("its number").port();
    let facts = facts(&w, &format!("{AGENT} --accept --data-ports {port} testhost"));
    for way in ["out", "in"] {
        assert!(facts["data"][way]["works"] == false && facts["data"][way]["error"].is_string(), "{facts}");
    }
    let advice = facts["advice"].to_string();
    assert!(advice.contains("blocked in both directions"), "{advice}");
}

#[test]
fn few_sessions_are_counted_and_lived_with() {
    for (allowed, agent) in [(1, ""), (2, ""), (1, AGENT), (2, AGENT)] {
        let w = world(&format!("MaxSessions {allowed}"));
        let facts = facts(&w, &format!("{agent} testhost"));
        assert_eq!(facts["sessions"]["opened"], allowed, "{agent} {facts}");
        assert_eq!(facts["route"], if agent.is_empty() { "sftp" } else { "haul" }, "{facts}");
        assert!(facts["sftp"].is_object(), "{facts}");
    }
}

#[test]
fn a_master_of_the_users_own_is_not_left() {
    let w = world("MaxSessions 2");
    w.server.write("ssh_config", format!("{}  ControlPath {}", w.server.read("ssh_config"), w.path("c-%C").display()));
    let ssh = |words: &[&str]| {
        let mut command = Command::new("ssh");
        command.arg("-F").arg(w.server.config()).args(words).arg("testhost").stderr(Stdio::null());
        assert!(command.status().expect("ssh runs").success(), "{words:?}");
    };
    ssh(&["-M", "-N", "-f"]);
    let facts = facts(&w, "testhost");
    assert_eq!((&facts["login"]["master"], &facts["sessions"]["opened"]), (&"user".into(), &2.into()), "{facts}");
    assert_eq!(w.server.logins(), 1, "no login but the user's own");
    ssh(&["-O", "exit"]);
}

#[test]
fn what_cannot_be_reached_ends_with_10_and_the_others_are_said() {
    let w = world("");
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its number").port();
    let (out, err) = ends(&w, 10, &format!("ssh://127.0.0.1:{closed} testhost"));
    assert!(err.contains("Connection refused") && err.contains("--port"), "{err}");
    assert!(out.contains("does not work: ") && out.contains("testhost: works"), "{out}");
    let (out, _) = ends(&w, 10, &format!("--json -q ssh://127.0.0.1:{closed}"));
    let document: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(document["hosts"][0]["usable"], false);
    assert!(document["hosts"][0]["error"]["reason"].as_str().is_some_and(|words| words.contains("refused")), "{out}");
    ends(&w, 1, "/tmp");
    ends(&w, 1, "s3://bucket/");
}

#[test]
fn a_server_for_sftp_alone_is_described_as_far_as_it_goes() {
    let w = world("ForceCommand internal-sftp");
    let facts = facts(&w, "testhost");
    assert_eq!((&facts["route"], &facts["system"], &facts["clock"]), (&"sftp".into(), &Value::Null, &Value::Null), "{facts}");
    assert_eq!(facts["sessions"]["opened"], 8);
    assert!(facts["home"]["free"].as_u64() > Some(0), "{facts}");
    assert_eq!(
        (&facts["haul_error"], &facts["advice"]),
        (&"no command can be run on the host".into(), &Value::Array(Vec::new())),
        "{facts}"
    );
}

#[test]
#[ignore = "full"]
fn a_login_script_that_hangs_is_given_up_within_a_minute() {
    let w = world("ForceCommand sleep 150");
    for (words, bound) in [("testhost", 75), ("--timeout 1s testhost", 15)] {
        let begun = Instant::now();
        let (out, err) = ends(&w, 10, words);
        assert!(out.contains("a login script may hang") && err.contains("does not answer"), "{out}{err}");
        assert!(begun.elapsed() < Duration::from_secs(bound), "{words}: {:?}", begun.elapsed());
    }
}

#[test]
fn what_login_scripts_print_is_counted() {
    let w = world("ForceCommand printf 'Welcome to the machine\\n'; eval \"$SSH_ORIGINAL_COMMAND\"");
    let facts = facts(&w, &format!("{AGENT} testhost"));
    assert_eq!((&facts["system"]["noise"], &facts["route"]), (&23.into(), &"haul".into()), "{facts}");
    assert!(facts["advice"].to_string().contains("print 23 bytes"), "{facts}");
}

#[test]
fn it_can_place_haul() {
    let w = world("");
    let (out, err) = ends(&w, 0, "--install-agent testhost");
    assert!(err.contains("installed haul") && out.contains("with haul on the host") && out.contains("/.cache/haul/haul-"), "{out}{err}");
    // One that does not start any more.
    let placed = w.path("home/.cache/haul").join(concat!("haul-", env!("CARGO_PKG_VERSION")));
    let begin = w.read(&placed)[..100_000].to_vec();
    w.remove(&placed);
    w.write(&placed, begin);
    w.chmod(&placed, 0o700);
    let (out, _) = ends(&w, 0, "testhost");
    assert!(
        out.contains("over plain SFTP") && out.contains("does not start") && out.contains("--install-agent replaces the haul"),
        "{out}"
    );
}
