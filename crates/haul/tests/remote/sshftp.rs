//! `sshftp://`: Globus's GridFTP server, started through a real sshd on loopback.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use haul_test::content;
use haul_test::sshd::Sshd;

/// Bytes of the file `big`.
const BIG: usize = 9 << 20;

/// A directory with a tree, and an sshd; `@` in commands stands for the directory on the server.
struct World {
    place: tempfile::TempDir,
    sshd: Sshd,
}

impl World {
    /// `script` starts the server, in the place that its own tool has for a user's own; none where it is empty.
    fn new(lines: &str, script: &str) -> World {
        let place = tempfile::Builder::new().prefix("haul-sshftp-").tempdir().expect("a temporary directory");
        let sshd = Sshd::start(lines).expect("sshd is installed");
        if !script.is_empty() {
            let path = sshd.path("home/.globus/sshftp");
            fs::create_dir_all(sshd.path("home/.globus")).expect("made");
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
        }
        let w = World { place, sshd };
        fs::create_dir_all(w.path("src/d/sub")).expect("made");
        for (path, content) in [("src/d/a.txt", "hello\n"), ("src/d/b c.txt", "x"), ("src/d/none", ""), ("src/d/sub/-deep", "deep")] {
            fs::write(w.path(path), content).expect("written");
        }
        for n in 0..20 {
            fs::write(w.path(&format!("src/d/n{n}")), bytes(n, 1000 * n as usize)).expect("written");
        }
        fs::write(w.path("src/big"), bytes(99, BIG)).expect("written");
        w
    }

    fn path(&self, path: &str) -> PathBuf {
        self.place.path().join(path)
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
        command.env_clear().current_dir(self.place.path()).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", self.place.path());
        command.env("HAUL_STATE_DIR", self.path("state")).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        let url = format!("sshftp://testhost{}", self.place.path().display());
        let at = |word: &str| word.strip_prefix('@').map_or(word.to_string(), |path| format!("{url}{path}"));
        command.args(words.split(' ').map(at)).arg("-F").arg(self.sshd.config());
        command
    }

    #[track_caller]
    fn ends(&self, code: i32, words: &str) -> String {
        ended(self.command(words), code)
    }

    #[track_caller]
    fn same(&self, one: &str, other: &str) {
        let mut diff = Command::new("diff");
        diff.args(["-r", "--no-dereference"]).arg(self.path(one)).arg(self.path(other));
        ended(diff, 0);
    }
}

#[track_caller]
fn ended(mut command: Command, code: i32) -> String {
    let ran: Output = command.output().expect("the program runs");
    let text = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert_eq!(ran.status.code(), Some(code), "{command:?}\n{text}");
    text
}

fn bytes(seed: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    content::fill(seed, 0, &mut bytes);
    bytes
}

/// As root it lets nobody in without these options; other users need none.
const SERVER: &str = "exec env GLOBUS_HOSTNAME=localhost /usr/sbin/globus-gridftp-server -ssh -allow-root -auth-level 0";

#[test]
fn trees_go_both_ways_in_one_login() {
    let w = World::new("", SERVER);
    let before = w.sshd.logins();
    let text = w.ends(0, "cp -j 6 src/ @/there");
    assert!(text.contains("WARNING: sshftp:// encrypts the login and the commands, but not the data"), "{text}");
    assert_eq!(w.sshd.logins(), before + 1);
    w.same("src", "there");
    w.ends(0, "cp -j 6 --chunk-size 1M @/there/ back");
    w.same("src", "back");
    let text = w.ends(0, "cp src/ @/there");
    assert!(text.contains("nothing to transfer"), "{text}");
    fs::write(w.path("there/d/n7"), "changed").expect("written");
    w.ends(1, "check src/ @/there");
    w.ends(0, "sync --delete --verify src/ @/there");
    w.ends(0, "check -c src/ @/there");
    assert!(w.ends(0, "ls @/there/d/sub/").contains("-deep"));
    w.ends(0, "rm -r @/there");
    assert!(!w.path("there").exists());
}

#[test]
fn names_that_the_server_would_mangle_are_refused() {
    let w = World::new("", SERVER);
    for name in ["café", "a\tb", "\u{7f}x"] {
        fs::write(w.path("src/d").join(name), name).expect("written");
    }
    let text = w.ends(23, "cp src/ @/there");
    assert!(text.contains("café") && text.contains("printable ASCII"), "{text}");
    let names: Vec<String> =
        fs::read_dir(w.path("there/d")).expect("a directory").flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    assert!(names.len() == 24 && names.iter().all(|name| w.path("src/d").join(name).exists()), "{names:?}");
    let text = w.ends(23, "cat @/src/d/café");
    assert!(text.contains("printable ASCII"), "{text}");
}

#[test]
fn a_host_without_a_server_says_what_to_install() {
    let w = World::new("", "");
    // A machine that has the script for all users serves it from there.
    assert!(!PathBuf::from("/etc/grid-security/sshftp").exists(), "this machine must have none");
    let text = w.ends(1, "cp src/d/a.txt @/there");
    assert!(
        text.contains("testhost")
            && text.contains("no GridFTP server is set up for ssh")
            && text.contains("globus-gridftp-server-enable-sshftp"),
        "{text}"
    );
}

#[test]
fn few_sessions_are_enough() {
    let w = World::new("MaxSessions 2", SERVER);
    w.ends(0, "cp -j 8 src/ @/there");
    w.same("src", "there");
}

#[test]
fn a_server_that_speaks_something_else_is_an_error() {
    for (script, part) in [("echo 'welcome to the machine'", "no FTP reply"), ("exit 3", ""), ("echo 421 closed", "421 closed")] {
        let w = World::new("", script);
        let ran = w.command("cp --retries 0 src/d/a.txt @/there").output().expect("the program runs");
        let text = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(!ran.status.success() && text.contains(part) && !text.is_empty(), "{script}\n{text}");
    }
}

#[test]
fn logins_that_ssh_refuses_are_its_own_words() {
    let w = World::new("", SERVER);
    fs::write(w.sshd.path("authorized_keys"), "").expect("written");
    let text = w.ends(10, "cp src/d/a.txt @/there");
    assert!(text.contains("Permission denied"), "{text}");
}
