//! What goes well, and the usual mistakes.

use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use haul_test::program::{Program, until};
use haul_test::scratch::Scratch;
use rustix::process::Signal;

use crate::ssh::support::{SAME, World, plenty};

#[test]
fn a_tree_goes_there_and_comes_back_with_one_login_each() {
    let w = World::new("src: a=5:0640 empty=0 big=9M d/b=300K d/e/f=3:0755 l->a dangling->nowhere none/");
    let ended = w.haul("cp src/ testhost:~/there").ends(0);
    let first = format!("copies the contents of {0}/src to testhost:{0}/there over plain SFTP", w.work.display());
    assert!(ended.out.starts_with(&first), "{ended}");
    assert_eq!(w.server.logins(), 1);
    w.haul("cp testhost:~/there back").ends(0);
    assert_eq!(w.server.logins(), 2);
    for copy in ["there", "back/there"] {
        w.assert_same("src", copy, SAME);
    }
    w.haul("sync --delete src/ ssh://root@testhost~/there").ends(0).out_has("nothing to transfer");
    w.haul("check -c src/ testhost:~/there").ends(0);
}

#[test]
fn both_ends_may_be_remote() {
    let w = World::new("src: a=5 d/b=900K");
    w.haul("cp testhost:~/src/ testhost:~/there").ends(0);
    w.assert_same("src", "there", SAME);
    assert_eq!(w.server.logins(), 1, "one host, one login");
}

#[test]
#[ignore = "full"]
fn the_small_commands_work_there_too() {
    let w = World::new("there: a=5 d/b=300K d/e/f=3 l->a");
    assert_eq!(w.haul("ls testhost:~/there").ends(0).out, "a\nd/\nl\n");
    let counted = w.haul("du -d 0 testhost:~/there").ends(0);
    assert!(counted.out.starts_with("307208\t4 files\t"), "{counted}");
    // A listing is the same from wherever it is asked for, but that SFTP has whole seconds.
    let lines = |place: &str| {
        let mut lines = w.haul(&format!("ls --json -R {place}")).ends(0).events();
        for line in &mut lines {
            line["place"] = "".into();
            line["mtime"] = line["mtime"].as_f64().expect("a time").floor().into();
            line["mtime_ns"] = (line["mtime_ns"].as_i64().expect("a time").div_euclid(1_000_000_000)).into();
        }
        lines
    };
    assert_eq!(lines("testhost:~/there"), lines("there"));
    assert_eq!(w.haul("cat testhost:~/there/a").ends(0).bytes, w.read("there/a"));
    w.haul("mkdir -p testhost:~/new/deeper").ends(0);
    assert!(w.path("new/deeper").is_dir());
    let digests = |place: &str| {
        let ended = w.haul(&format!("sum --format sha256sum {place}")).ends(0);
        ended.out.lines().map(|line| line[..64].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(digests("there/d"), digests("testhost:~/there/d"));
    w.haul("rm -r testhost:~/there/d").ends(0);
    assert_eq!(w.names("there"), "a l");
    let err = w.says(1, "rm -r testhost:", &[]);
    assert!(err.contains("home") || err.contains("root"), "{err}");
}

#[test]
fn mv_moves_there() {
    let w = World::new("src: a=5 d/b=300K");
    w.sh("cp -a src kept");
    w.haul("mv src testhost:~/there/ --mkpath").ends(0);
    assert!(!w.has("src"));
    w.assert_same("kept", "there/src", SAME);
}

#[test]
#[ignore = "full"]
fn wildcards_on_the_host_are_matched_by_haul() {
    let w = World::new("src: f1=1 f12=2 g=3 .f1h=4 d1/x=5 d2/y=6 a*b=7 axb=8");
    w.haul("cp testhost:~/src/f1* testhost:~/src/[gh] picked/").ends(0);
    assert_eq!(w.names("picked"), "f1 f12 g");
    w.haul("cp testhost:~/s?c/d*/ contents").ends(0);
    assert_eq!(w.names("contents"), "x y");
    w.haul("cp testhost:~/src/*/x one").ends(0);
    assert_eq!(w.read("one"), w.read("src/d1/x"));
    // Something of just this name is what is meant.
    w.write("src/a*b", "star");
    assert_eq!(w.haul("cat testhost:~/src/a*b").ends(0).out, "star");
    w.haul("ls testhost:~/src/f1*").ends(0).out_has("/src/f1\n").out_has("/src/f12\n").never_says("/src/g");
    // As ls(1): files come first and once, what is in directories below their names.
    let listed = w.haul("ls testhost:~/src/d* testhost:~/src/f1*").ends(0).out;
    let names: Vec<&str> = listed.lines().map(|line| line.rsplit_once('/').map_or(line, |(_, name)| name)).collect();
    assert_eq!(names, ["f1", "f12", "d1:", "x", "d2:", "y"], "{listed}");
    w.haul("rm testhost:~/src/f*").ends(0);
    assert_eq!(w.names("src"), ".f1h a*b axb d1/ d1/x d2/ d2/y g");
    for words in ["ls testhost:~/src/z*", "cp testhost:~/src/z* dst", "rm testhost:~/z*/x"] {
        w.says(23, words, &["nothing matches"]);
    }
}

#[test]
fn the_home_of_another_user_is_found() {
    let (w, a) = (World::new(""), crate::ssh::support::account("/bin/sh"));
    a.file("d/f", "theirs").expect("written");
    let of = |path: &str| format!("testhost:~{}{path}", a.name);
    Scratch::haul(&w, "cp").arg(of("/d/f")).arg("got").arg("-F").arg(w.server.config()).alone().ends(0);
    assert_eq!(w.text("got"), "theirs");
    Scratch::haul(&w, "ls").arg(of("")).arg("-F").arg(w.server.config()).alone().ends(0).out_has("d/");
}

#[test]
#[ignore = "full"]
fn a_user_who_is_not_there_has_no_home_and_gets_no_directory_of_that_name() {
    let w = World::new("src: a=5 there:");
    for (words, place) in [
        ("ls", "testhost:~no-such-user/d"),
        ("ls", "testhost:~no-such-user"),
        ("cp src/a", "testhost:~no-such-user/x"),
        ("cp --mkpath src/a", "testhost:~no-such-user/x/y"),
        ("sync --mkpath src/", "testhost:~no-such-user"),
        ("mkdir -p", "testhost:~no-such-user/x"),
    ] {
        let ended = Scratch::haul(&w, words).arg(place).arg("-F").arg(w.server.config()).alone().ends(23);
        ended.err_has("no user no-such-user on the host").err_has("./~no-such-user");
    }
    assert!(!std::path::Path::new("/root/~no-such-user").exists());
    // Such a name elsewhere is a name.
    let there = format!("testhost:{}/~no-such-user", w.path("there").display());
    Scratch::haul(&w, "cp src/a").arg(there).arg("-F").arg(w.server.config()).alone().ends(0);
    assert_eq!(w.names("there"), "~no-such-user");
}

#[test]
fn a_backup_directory_elsewhere_is_refused_before_anything_is_made() {
    let w = World::new("src: a=5");
    for words in ["sync --backup-dir /elsewhere src/ testhost:~/new", "cp --mkpath --backup-dir /elsewhere src/a testhost:~/new/deeper/a"] {
        w.says(1, words, &["is not below the destination"]);
        assert!(!w.has("new"), "{words}");
    }
    w.haul("sync --backup-dir ~/new/bk src/ testhost:~/new").ends(0);
    assert!(w.has("new/a"));
}

/// Another job, here with another state directory, writes the same version of the file to the same place: neither takes what the other has.
#[test]
fn two_interrupted_uploads_of_one_file_go_on_apart() {
    let w = World::new("src: big=9M");
    let command = "cp -j 1 --chunk-size 1M src/big testhost:~/copy";
    let states = [w.path("one"), w.path("other")].map(|state| state.display().to_string());
    for (state, record) in states.iter().zip([12, 6]) {
        assert!(w.haul(command).env("HAUL_STATE_DIR", state).killed_at(record).run().was_killed());
    }
    assert_eq!(w.staging("").len(), 2);
    for state in &states {
        w.haul(&format!("{command} -I")).env("HAUL_STATE_DIR", state).ends(0).out_has("Resumed:");
        w.sh("cmp src/big copy");
    }
    assert_eq!(w.staging("").len(), 0);
}

/// Bytes of the files in `there` itself.
fn staged(w: &World) -> u64 {
    let there = std::fs::read_dir(w.path("there")).into_iter().flatten().flatten();
    there.filter_map(|file| file.metadata().ok()).filter(|meta| meta.is_file()).map(|meta| meta.len()).sum()
}

#[test]
#[ignore = "full"]
fn what_has_landed_of_a_chunk_when_a_signal_comes_is_kept() {
    let w = World::new("src: a=8M b=8M c=8M d=8M e=8M f=8M g=8M h=8M");
    let mut run = w.haul("cp -j 8 --bwlimit 8M src/ testhost:~/there").start();
    run.until("40 MiB are staged", || staged(&w) >= 40 << 20);
    run.signal(Signal::INT);
    run.wait().code(20);
    let ended = w.haul("cp --json src/ testhost:~/there").ends(0);
    let resumed = ended.events().iter().filter_map(|event| event["resumed_bytes"].as_u64()).max();
    assert!(resumed.is_some_and(|bytes| bytes >= 20 << 20), "of 40 MiB: {resumed:?}\n{ended}");
    w.assert_same("src", "there", SAME);
}

#[test]
fn hard_links_to_another_tree_are_refused_before_anything_is_made() {
    let w = World::new("src: a=5 ref: a=5");
    for to in ["sftp://testhost/~/linked", "--no-agent testhost:~/linked"] {
        w.says(1, &format!("cp --link-dest ../ref src/ {to}"), &["plain SFTP cannot link to files", "--install-agent"]);
        assert!(!w.path("linked").exists(), "{to}");
    }
}

#[test]
fn devices_are_refused_because_sftp_has_no_device_numbers() {
    let w = World::new("src: a=5");
    w.sh("mknod src/null c 1 3 && mknod src/block b 7 200");
    w.says(23, "cp -a testhost:~/src/ here", &["null", "does not report device numbers", "block"]);
    assert_eq!(w.names("here"), "a");
    w.says(23, "check -a testhost:~/src/ here", &["null: check: the source does not report device numbers"]);
    w.haul("cp -a src/ testhost:~/there").ends(0).out_has("2 special files");
    assert_eq!(w.names("there"), "a");
    // A device that exists is not replaced by something else.
    w.sh("cp -a src/null here/null");
    w.says(23, "cp -a testhost:~/src/ here", &["null"]);
    assert_eq!(w.meta("here/null").rdev(), w.meta("src/null").rdev());
}

#[test]
fn links_to_directories_below_the_destination_are_followed_if_asked() {
    let w = World::new("src: in/a=5 out/b=5 there: real/ outside: x=1");
    w.sh("ln -s real there/in; ln -s ../outside there/out");
    w.says(23, "cp -K src/ testhost:~/there", &["out"]);
    assert_eq!((w.names("there/real"), w.names("outside")), ("a".into(), "x".into()));
    assert_eq!(w.target("there/in"), "real");
    w.says(23, "cp src/ testhost:~/there", &["in: "]);
}

#[test]
fn only_attributes_that_an_entry_has_are_lost() {
    let w = World::new("src: a=5 b=6 c=7");
    w.sh("setfattr -n user.colour -v blue src/a");
    w.haul("cp -a src/ testhost:~/one").ends(0).out_has("xattr of 1 entry").never_says("acl of");
    w.sh("setfacl -m u:1234:r-- src/b src/c");
    w.haul("cp -a src/ testhost:~/two").ends(0).out_has("xattr of 1 entry").out_has("acl of 2 entries");
}

#[test]
fn a_file_of_size_0_that_has_content_is_copied_to_its_end() {
    let w = World::new("");
    w.haul("cp testhost:/proc/version here").ends(0);
    assert_eq!(w.read("here"), w.read("/proc/version"));
}

#[test]
fn nothing_is_copied_onto_or_into_itself_there() {
    let w = World::new("t: d/f=5 sub/g=3 keep=1");
    for words in [
        "mv testhost:~/t/d/f testhost:~/t/d/",
        "mv testhost:~/t/d/f testhost:~/t/d/f",
        "mv testhost:~/t/d testhost:~/t",
        "cp testhost:~/t/ testhost:~/t/sub",
        "sync --delete testhost:~/t/sub/ testhost:~/t/",
    ] {
        w.haul(words).ends(1);
    }
    assert_eq!(w.names("t"), "d/ d/f keep sub/ sub/g");
}

#[test]
fn a_master_of_the_users_own_is_all_that_is_used() {
    let w = plenty("MaxSessions 1");
    w.server.write("ssh_config", format!("{}  ControlPath {}", w.server.read("ssh_config"), w.path("c-%C").display()));
    let ssh = |words: &[&str]| {
        let mut command = Command::new("ssh");
        command.arg("-F").arg(w.server.config()).args(words).arg("testhost").stderr(Stdio::null());
        assert!(command.status().expect("ssh runs").success(), "{words:?}");
    };
    ssh(&["-M", "-N", "-f"]);
    w.haul("cp -j 4 src/ testhost:~/there").ends(0);
    assert_eq!(w.server.logins(), 1, "no login but the user's own");
    w.assert_same("src", "there", SAME);
    ssh(&["-O", "exit"]);
}

#[test]
#[ignore = "full"]
fn a_master_of_the_users_own_that_is_stopped_is_named() {
    let w = World::new("src: a=5");
    let socket = w.path("master");
    w.server.write("ssh_config", format!("{}  ControlPath {}\n", w.server.read("ssh_config"), socket.display()));
    let mut ssh = Command::new("ssh");
    ssh.arg("-F").arg(w.server.config()).args(["-M", "-N", "testhost"]);
    let master = Program::new(ssh).start();
    until("its socket", || socket.exists());
    master.signal(Signal::STOP);
    until("the master has stopped", || master.status("State").is_some_and(|state| state.starts_with('T')));
    for (words, bound) in [
        ("ls testhost:", 60),
        ("ls --timeout 1s testhost:", 8),
        ("cp --timeout 1s src testhost:~/there", 8),
        ("doctor --timeout 1s testhost", 8),
    ] {
        let begun = Instant::now();
        let err = w.says(10, words, &["testhost", "did not answer", "ssh -O exit testhost", "kill"]);
        assert!(err.contains(&socket.display().to_string()), "{err}");
        assert!(begun.elapsed() < Duration::from_secs(bound), "{words}: {:?}", begun.elapsed());
    }
    assert!(!w.has("there"));
}

#[test]
#[ignore = "full"]
fn names_of_one_file_that_are_right_are_neither_linked_again_nor_backed_up() {
    let w = World::new("src: a=3 other=4");
    w.write("src/a", "OLD");
    w.hard_link("src/a", "src/b");
    w.age("src/a");
    w.haul("sync -a src/ testhost:~/there").ends(0).says("1 of them as hard link");
    assert_eq!(w.inode("there/a"), w.inode("there/b"));
    w.write("src/a", "NEWER");
    w.haul("sync -a --backup-dir bk src/ testhost:~/there").ends(0);
    let backed_up = || assert_eq!((w.text("there/bk/a"), w.text("there/bk/b")), ("OLD".to_string(), "OLD".to_string()));
    assert_eq!((w.text("there/b"), w.inode("there/a")), ("NEWER".to_string(), w.inode("there/b")));
    backed_up();
    for words in ["sync -a --backup-dir bk", "sync -a -c --backup-dir bk", "sync -a -n --backup-dir bk", "sync -a -j 4 --backup-dir bk"] {
        w.haul(&format!("{words} src/ testhost:~/there")).ends(0).never_says("hard");
        backed_up();
    }
    // A name that is a file of its own there gets its attributes, and one that is missing comes.
    w.sh("cp -p there/b there/c && mv there/c there/b");
    w.chmod("src/a", 0o600);
    w.hard_link("src/a", "src/c");
    w.haul("sync -a --backup-dir bk src/ testhost:~/there").ends(0);
    assert_eq!((w.mode("there/a") & 0o777, w.mode("there/b") & 0o777), (0o600, 0o600));
    assert_eq!(w.text("there/c"), "NEWER");
    backed_up();
}

#[test]
#[ignore = "full"]
fn a_link_that_is_named_is_followed_to_its_bytes() {
    let w = World::new("there: a=300K d/b=5 l->a d/up->../a dangling->nowhere dirs->d");
    for link in ["l", "d/up"] {
        assert!(w.haul(&format!("cat testhost:~/there/{link}")).ends(0).bytes == w.read("there/a"), "{link}");
        assert!(w.haul(&format!("cp testhost:~/there/{link} -")).ends(0).bytes == w.read("there/a"), "{link}");
    }
    assert!(w.haul("cp testhost:~/there/l* -").ends(0).bytes == w.read("there/a"));
    assert_eq!(w.haul("cp testhost:~/there/d/b -").ends(0).bytes, w.read("there/d/b"));
    for words in ["cat testhost:~/there/dangling", "cp testhost:~/there/dangling -"] {
        w.says(23, words, &["dangling", "the symlink points to nothing"]);
    }
    w.says(1, "cp testhost:~/there/dirs -", &["is a directory"]);
    for dir in ["testhost:~/there", "testhost:~/there/dirs", "testhost:", "testhost:~/there/d/"] {
        w.says(1, &format!("cat {dir}"), &["read: is a directory"]);
    }
}
