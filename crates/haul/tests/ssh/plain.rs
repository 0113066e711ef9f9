//! What goes well, and the usual mistakes.

use std::process::Command;

use std::fs;

use haul_test::compare::{What, assert_same};

use crate::support::{Running, World, content};

#[test]
fn a_tree_goes_there_and_comes_back_with_one_login_each() {
    let w = World::new("");
    w.tree("src: a=5:0640 empty=0 big=9M d/b=300K d/e/f=3:0755 l->a dangling->nowhere none/");
    let usual = What { mtime: Some(1_000_000_000), ..What::USUAL };
    let (out, _) = w.ends(0, "cp src/ testhost:~/there");
    assert!(
        out.starts_with(&format!("copies the contents of {0}/src to testhost:{0}/there over plain SFTP", w.place.path().display())),
        "{out}"
    );
    assert_eq!(w.server.logins(), 1, "{}", w.server.log());
    w.ends(0, "cp testhost:~/there back");
    assert_eq!(w.server.logins(), 2);
    for copy in ["there", "back/there"] {
        assert_same(&w.path("src"), &w.path(copy), usual);
    }
    let (again, _) = w.ends(0, "sync --delete src/ ssh://root@testhost~/there");
    assert!(again.contains("Created:     0") && again.contains("nothing to transfer") || again.contains("0 B transferred"), "{again}");
    w.ends(0, "check -c src/ testhost:~/there");
}

#[test]
fn old_files_are_replaced_whole_and_extra_names_go() {
    let w = World::new("");
    w.tree("src: a=700K b=3 d/c=4 there: a=20 b=9 d/c=1 extra/x=1 gone=2");
    w.ends(0, "sync --delete src/ testhost:~/there");
    for name in ["a", "b", "d/c"] {
        assert_eq!(content(&w.path("src").join(name)), content(&w.path("there").join(name)), "{name}");
    }
    assert!(!w.path("there/extra").exists() && !w.path("there/gone").exists());
}

#[test]
fn both_ends_may_be_remote() {
    let w = World::new("");
    w.tree("src: a=5 d/b=900K");
    w.ends(0, "cp testhost:~/src/ testhost:~/there");
    assert_same(&w.path("src"), &w.path("there"), What { mtime: Some(1_000_000_000), ..What::USUAL });
    assert_eq!(w.server.logins(), 1, "one host, one login");
}

#[test]
fn a_server_that_allows_one_session_is_lived_with() {
    let w = World::new("MaxSessions 1");
    w.tree("src: big=20M");
    haul_test::tree::spread(&w.path("src/many"), 4, 50, 2000).expect("made");
    w.ends(0, "cp -j 4 src/ testhost:~/there");
    assert_same(&w.path("src"), &w.path("there"), What { mtime: Some(1_000_000_000), ..What::USUAL });
    assert_eq!(w.server.logins(), 1, "{}", w.server.log());
}

#[test]
fn what_is_wrong_is_said() {
    let w = World::new("");
    w.tree("src: a=5");
    w.says(23, "cp testhost:~/absent dst", &["absent", "no such file"]);
    w.says(1, "cp src testhost:~/absent/deeper/", &["--mkpath"]);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its number").port();
    w.says(10, &format!("cp src ssh://127.0.0.1:{closed}/x"), &["Connection refused", "--port"]);
    fs::write(
        w.server.path("known_hosts"),
        content(&w.server.path("known_hosts")).iter().map(|b| if *b == b'A' { b'B' } else { *b }).collect::<Vec<_>>(),
    )
    .expect("written");
    let (_, err) = w.ends(10, "cp src testhost:~/there");
    assert!(err.contains("key"), "{err}");
    assert!(!w.path("there").exists());
}

#[test]
fn a_wrong_key_is_refused() {
    let w = World::new("");
    w.tree("src: a=5");
    fs::write(w.server.path("authorized_keys"), "").expect("written");
    let (_, err) = w.ends(10, "cp src testhost:~/there");
    assert!(err.contains("Permission denied") && err.contains("run `ssh` to the same host"), "{err}");
}

#[test]
fn names_of_every_kind_go_through() {
    use std::os::unix::ffi::OsStrExt;
    let w = World::new("");
    fs::create_dir(w.path("src")).expect("made");
    let names: [&[u8]; 6] = [b"new\nline", b"\xff\xfe not text", b"$(touch hacked) `x` ; rm -rf", b"-rf", b"a'b\"c", &[b'n'; 255]];
    for name in names {
        fs::write(w.path("src").join(std::ffi::OsStr::from_bytes(name)), name).expect("written");
    }
    w.ends(0, "cp src/ testhost:~/there");
    w.ends(0, "cp testhost:~/there/ back");
    for name in names {
        assert_eq!(content(&w.path("back").join(std::ffi::OsStr::from_bytes(name))), name);
    }
}

#[test]
fn the_small_commands_work_there_too() {
    let w = World::new("");
    w.tree("there: a=5 d/b=300K d/e/f=3 l->a");
    let (listed, _) = w.ends(0, "ls testhost:~/there");
    assert_eq!(listed, "a\nd/\nl\n");
    let (counted, _) = w.ends(0, "du -d 0 testhost:~/there");
    assert!(counted.starts_with("307208\t4 files\t"), "{counted}");
    // A listing is the same from wherever it is asked for, but that SFTP tells whole seconds.
    let lines = |place: &str| {
        let line = |line: &str| {
            let mut line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            line["place"] = "".into();
            line["mtime"] = line["mtime"].as_f64().expect("a time").floor().into();
            line["mtime_ns"] = (line["mtime_ns"].as_i64().expect("a time").div_euclid(1_000_000_000)).into();
            line
        };
        w.ends(0, &format!("ls --json -R {place}")).0.lines().map(line).collect::<Vec<_>>()
    };
    assert_eq!(lines("testhost:~/there"), lines("there"));
    assert_eq!(w.haul("cat testhost:~/there/a").stdout, content(&w.path("there/a")));
    w.ends(0, "mkdir -p testhost:~/new/deeper");
    assert!(w.path("new/deeper").is_dir());
    let (here, there) = (w.ends(0, "sum --format sha256sum there/d").0, w.ends(0, "sum --format sha256sum testhost:~/there/d").0);
    let digests = |text: &str| text.lines().map(|line| line[..64].to_string()).collect::<Vec<_>>();
    assert_eq!(digests(&here), digests(&there));
    w.ends(0, "rm -r testhost:~/there/d");
    assert!(!w.path("there/d").exists() && w.path("there/a").exists());
    let (_, err) = w.ends(1, "rm -r testhost:");
    assert!(err.contains("home") || err.contains("root"), "{err}");
}

#[test]
fn mv_moves_there() {
    let w = World::new("");
    w.tree("src: a=5 d/b=300K");
    w.tool("cp", &["-a", "src", "kept"]);
    w.ends(0, "mv src testhost:~/there/ --mkpath");
    assert!(!w.path("src").exists());
    assert_same(&w.path("kept"), &w.path("there/src"), What { mtime: Some(1_000_000_000), ..What::USUAL });
}

#[test]
fn a_killed_upload_goes_on_where_it_was() {
    let w = World::new("");
    w.tree("src: big=40M");
    let mut command = w.command("cp --chunk-size 1M --bwlimit 10M src/ testhost:~/there");
    let mut child = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().expect("it starts");
    std::thread::sleep(std::time::Duration::from_millis(2500));
    child.kill().expect("it runs");
    child.wait().expect("it was started");
    let (jobs, _) = w.ends(0, "jobs");
    assert!(jobs.contains("1 large file started"), "{jobs}");
    let (out, _) = w.ends(0, "cp --chunk-size 1M src/ testhost:~/there");
    assert!(out.contains("Resumed:"), "{out}");
    assert_same(&w.path("src"), &w.path("there"), What { mtime: Some(1_000_000_000), ..What::USUAL });
}

#[test]
fn what_has_landed_of_a_chunk_when_a_signal_comes_is_kept() {
    let w = World::new("");
    w.tree("src: a=8M b=8M c=8M d=8M e=8M f=8M g=8M h=8M");
    let staged = || -> u64 {
        let there = std::fs::read_dir(w.path("there")).into_iter().flatten().flatten();
        there.filter_map(|file| file.metadata().ok()).filter(|meta| meta.is_file()).map(|meta| meta.len()).sum()
    };
    let words = "cp -j 8 --bwlimit 8M src/ testhost:~/there";
    let mut running = Running::start(w.command(words));
    while staged() < 40 << 20 {
        assert!(!running.is_over(), "it was over before it could be stopped");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    running.signal(rustix::process::Signal::INT);
    w.ended(20, words, running.end(words));
    let (out, _) = w.ends(0, "cp --json src/ testhost:~/there");
    let resumed = out.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let resumed = resumed.filter_map(|event| event["resumed_bytes"].as_u64()).max();
    assert!(resumed.is_some_and(|bytes| bytes >= 20 << 20), "of 40 MiB: {resumed:?}\n{out}");
    assert_same(&w.path("src"), &w.path("there"), What { mtime: Some(1_000_000_000), ..What::USUAL });
}

#[test]
fn devices_are_refused_for_their_numbers_are_not_told() {
    let w = World::new("");
    w.tree("src: a=5");
    w.tool("mknod", &["src/null", "c", "1", "3"]);
    w.tool("mknod", &["src/block", "b", "7", "200"]);
    w.says(23, "cp -a testhost:~/src/ here", &["null", "does not report device numbers", "block"]);
    assert!(w.path("here/a").exists() && !w.path("here/null").exists() && !w.path("here/block").exists());
    w.says(23, "cp -a src/ testhost:~/there", &["null", "does not support special files"]);
    // A device that is there is not replaced by what is none.
    w.tool("cp", &["-a", "src/null", "here/null"]);
    w.says(23, "cp -a testhost:~/src/ here", &["null"]);
    use std::os::unix::fs::MetadataExt;
    assert_eq!(w.path("here/null").metadata().expect("there").rdev(), w.path("src/null").metadata().expect("there").rdev());
}

#[test]
fn a_file_of_size_0_that_has_content_is_copied_to_its_end() {
    let w = World::new("");
    w.says(0, "cp testhost:/proc/version here", &[]);
    assert_eq!(std::fs::read(w.path("here")).expect("there"), std::fs::read("/proc/version").expect("read"));
}

#[test]
fn a_connection_that_is_cut_is_made_again() {
    let w = World::new("");
    w.tree("src: big=30M");
    haul_test::tree::spread(&w.path("src/many"), 4, 100, 3000).expect("made");
    let words = "cp --bwlimit 6M -v src/ testhost:~/there";
    let running = Running::start(w.command(words));
    for cut in 1..=2 {
        std::thread::sleep(std::time::Duration::from_millis(1200));
        assert!(w.server.cut() > 0, "cut {cut}: there was a connection");
    }
    w.ended(0, words, running.end(words));
    assert_eq!(w.server.logins(), 3, "{}", w.server.log());
    assert_same(&w.path("src"), &w.path("there"), What { mtime: Some(1_000_000_000), ..What::USUAL });
}

#[test]
fn nothing_is_copied_onto_or_into_itself_there() {
    let w = World::new("");
    w.tree("t: d/f=5 sub/g=3 keep=1");
    for words in [
        "mv testhost:~/t/d/f testhost:~/t/d/",
        "mv testhost:~/t/d/f testhost:~/t/d/f",
        "mv testhost:~/t/d testhost:~/t",
        "cp testhost:~/t/ testhost:~/t/sub",
        "sync --delete testhost:~/t/sub/ testhost:~/t/",
    ] {
        w.ends(1, words);
    }
    assert_eq!(["t/d/f", "t/sub/g", "t/keep"].map(|name| w.path(name).exists()), [true; 3]);
}

#[test]
fn a_move_keeps_a_source_that_may_be_the_destination_itself() {
    let w = World::new("");
    w.tree("t: f=5");
    // The same directory, reached over the network and here.
    let (_, err) = w.ends(23, "mv testhost:~/t/f ~/t/");
    assert!(err.contains("the source was kept"), "{err}");
    assert!(w.path("t/f").exists());
}

#[test]
fn a_master_of_the_users_own_is_all_that_is_used() {
    let w = World::new("MaxSessions 1");
    w.tree("src: big=20M");
    haul_test::tree::spread(&w.path("src/many"), 4, 50, 2000).expect("made");
    let config = String::from_utf8(content(&w.server.config())).expect("text") + "  ControlPath " + &w.path("c-%C").display().to_string();
    fs::write(w.server.config(), config).expect("written");
    let ssh = |words: &[&str]| {
        let mut command = Command::new("ssh");
        command.arg("-F").arg(w.server.config()).args(words).arg("testhost").stderr(std::process::Stdio::null());
        assert!(command.status().expect("ssh runs").success(), "{words:?}");
    };
    ssh(&["-M", "-N", "-f"]);
    let (out, err) = w.ends(0, "cp -j 4 src/ testhost:~/there");
    assert_eq!(w.server.logins(), 1, "no login but the user's own: {out}{err}\n{}", w.server.log());
    assert_same(&w.path("src"), &w.path("there"), What { mtime: Some(1_000_000_000), ..What::USUAL });
    ssh(&["-O", "exit"]);
}
