//! `--install-agent`: haul places itself on the remote host, against an OpenSSH server of its own on loopback.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use haul_test::sshd::Sshd;
use haul_test::tree::Tree;

/// A server whose sessions have a cache of their own; `~` in lines and words stands for the place.
struct World {
    server: Sshd,
    place: tempfile::TempDir,
}

impl World {
    fn new(lines: &str) -> World {
        let place = tempfile::Builder::new().prefix("haul-place-").tempdir().expect("a temporary directory");
        let lines = format!("SetEnv HOME=~/home {lines}").replace('~', &place.path().display().to_string());
        fs::create_dir(place.path().join("home")).expect("made");
        Tree::new(place.path()).expect("the place is there").build("src: a=5 d/b=300K").expect("the tree is made");
        World { server: Sshd::start(&lines).expect("sshd can be started: openssh-server and root"), place }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.place.path().join(path)
    }

    fn haul(&self, words: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
        command.env_clear().current_dir(self.place.path()).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", self.place.path());
        command.env("HAUL_STATE_DIR", self.path("state")).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        let place = self.place.path().display().to_string();
        command.args(words.split_whitespace().map(|word| word.replace('~', &place))).arg("-F").arg(self.server.config());
        command.output().expect("the program runs")
    }

    /// Standard output and standard error.
    #[track_caller]
    fn ends(&self, code: i32, words: &str) -> (String, String) {
        let ran = self.haul(words);
        let (out, err) = (String::from_utf8_lossy(&ran.stdout).into_owned(), String::from_utf8_lossy(&ran.stderr).into_owned());
        assert_eq!(ran.status.code(), Some(code), "haul {words}\n{out}\n{err}\n{}", self.server.log());
        (out, err)
    }

    fn cached(&self) -> Vec<String> {
        let listed = fs::read_dir(self.path("home/.cache/haul")).into_iter().flatten().flatten();
        let mut names: Vec<String> = listed.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Another file in its place: the one that was there may still be at work.
    fn damage(&self, content: &[u8]) {
        let new = self.path("damaged");
        fs::write(&new, content).expect("written");
        fs::set_permissions(&new, fs::Permissions::from_mode(0o700)).expect("set");
        fs::rename(&new, self.placed()).expect("it can be replaced");
    }

    fn placed(&self) -> PathBuf {
        self.path("home/.cache/haul").join(NAME)
    }
}

const NAME: &str = concat!("haul-", env!("CARGO_PKG_VERSION"));

fn is_this_program(path: &Path) -> bool {
    fs::read(path).expect("it is there") == fs::read(env!("CARGO_BIN_EXE_haul")).expect("built")
}

#[test]
fn it_is_placed_once_and_used() {
    let w = World::new("");
    let (out, err) = w.ends(0, "cp src/ testhost:~/there --install-agent");
    assert!(err.contains("installed haul ") && err.contains(&format!(" at testhost:.cache/haul/{NAME}, verified")), "{err}");
    // The program of the tests is linked as cargo does by default.
    assert_eq!(err.contains("it is not the static program"), cfg!(not(target_feature = "crt-static")), "{err}");
    assert!(out.contains("by haul on the remote host"), "{out}");
    assert_eq!(w.cached(), [NAME]);
    assert!(is_this_program(&w.placed()));
    assert_eq!(w.placed().metadata().expect("it is there").permissions().mode() & 0o7777, 0o700);
    assert_eq!(w.server.logins(), 1, "{}", w.server.log());
    let before = w.placed().metadata().and_then(|meta| meta.modified()).expect("a time");
    for words in ["cp src/ testhost:~/again --install-agent", "cp src/ testhost:~/third"] {
        let (out, err) = w.ends(0, words);
        assert!(out.contains("by haul on the remote host") && !err.contains("installed"), "{out}{err}");
    }
    assert_eq!(w.placed().metadata().and_then(|meta| meta.modified()).expect("a time"), before);
}

#[test]
fn without_the_flag_nothing_is_placed() {
    let w = World::new("");
    let (out, err) = w.ends(0, "cp src/ testhost:~/there");
    assert!(out.contains("over plain SFTP") && out.contains("--install-agent installs haul"), "{out}");
    assert!(!err.contains("installed"), "{err}");
    assert_eq!(fs::read_dir(w.path("home")).expect("it is there").count(), 0);
}

#[test]
fn a_damaged_one_is_found_out_and_replaced() {
    let w = World::new("");
    w.ends(0, "ls testhost:~/src --install-agent");
    let whole = fs::read(w.placed()).expect("it is there");
    let mut flipped = whole.clone();
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    for damaged in [&whole[..whole.len() / 20], &[], &flipped] {
        w.damage(damaged);
        let (_, err) = w.ends(0, "ls testhost:~/src --install-agent");
        assert!(err.contains("installed haul") && err.contains("replacing a damaged"), "{err}");
        assert!(is_this_program(&w.placed()));
    }
    // Without the flag what cannot start does no harm.
    w.damage(&whole[..whole.len() / 20]);
    let (out, _) = w.ends(0, "cp src/ testhost:~/there");
    assert!(out.contains("over plain SFTP"), "{out}");
}

#[test]
fn another_platform_is_an_error_that_names_both() {
    let w = World::new("PATH=~/bin:/usr/bin:/bin");
    fs::create_dir(w.path("bin")).expect("made");
    fs::write(w.path("bin/uname"), "#!/bin/sh\necho Linux sparc64\n").expect("written");
    fs::set_permissions(w.path("bin/uname"), fs::Permissions::from_mode(0o755)).expect("set");
    for words in ["cp src/ testhost:~/there --install-agent", "ls testhost:~/src --install-agent"] {
        let (_, err) = w.ends(2, words);
        assert!(err.contains("Linux sparc64") && err.contains(std::env::consts::ARCH), "{err}");
    }
    assert!(w.cached().is_empty() && !w.path("there").exists());
    let (out, _) = w.ends(0, "cp src/ testhost:~/there");
    assert!(out.contains("over plain SFTP") && !out.contains("--install-agent"), "{out}");
}

#[test]
fn one_that_cannot_start_there_is_removed() {
    let w = World::new("");
    // A directory from which nothing can be started.
    let cache = w.path("home/.cache");
    fs::create_dir(&cache).expect("made");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "noexec", "none"]).arg(&cache).status().expect("mount runs");
    assert!(mounted.success(), "a tmpfs can be mounted: root");
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let (out, err) = w.ends(0, "cp src/ testhost:~/there --install-agent");
        assert!(err.contains("does not start") && err.contains("removed"), "{err}");
        assert!(out.contains("over plain SFTP") && !out.contains("--install-agent"), "{out}");
        assert!(w.cached().is_empty(), "{:?}", w.cached());
    }));
    let unmounted = Command::new("umount").arg(&cache).status().expect("umount runs");
    assert!(unmounted.success());
    ended.unwrap_or_else(|e| std::panic::resume_unwind(e));
}

#[test]
fn a_full_disk_there_leaves_nothing() {
    let w = World::new("");
    let cache = w.path("home/.cache");
    fs::create_dir(&cache).expect("made");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1M", "none"]).arg(&cache).status().expect("mount runs");
    assert!(mounted.success(), "a tmpfs can be mounted: root");
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let (out, err) = w.ends(0, "cp src/ testhost:~/there --install-agent");
        assert!(err.contains("haul was not installed") && err.contains("No space left"), "{err}");
        assert!(out.contains("over plain SFTP"), "{out}");
        assert!(w.cached().is_empty(), "{:?}", w.cached());
    }));
    let unmounted = Command::new("umount").arg(&cache).status().expect("umount runs");
    assert!(unmounted.success());
    ended.unwrap_or_else(|e| std::panic::resume_unwind(e));
}

#[test]
fn the_newest_two_stay() {
    let w = World::new("");
    fs::create_dir_all(w.path("home/.cache/haul")).expect("made");
    for (name, age) in [("haul-0.0.1", 30), ("haul-0.0.2", 20), ("haul-0.0.3", 10), ("notes", 40)] {
        let path = w.path("home/.cache/haul").join(name);
        let file = fs::File::create(&path).expect("made");
        file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(age * 3600)).expect("set");
    }
    w.ends(0, "ls testhost:~/src --install-agent");
    assert_eq!(w.cached(), ["haul-0.0.3", NAME, "notes"]);
}

#[test]
fn every_login_shell_will_do() {
    for shell in ["/bin/csh", "/usr/bin/fish", "/bin/dash"] {
        if !Path::new(shell).exists() {
            assert!(std::env::var_os("HAUL_REQUIRE").is_none(), "{shell} is missing");
            continue;
        }
        // The server gives what it is asked to run to the login shell; this does the same with another one.
        let w = World::new(&format!("XDG_CACHE_HOME=~/cache\nForceCommand {shell} -c \"$SSH_ORIGINAL_COMMAND\""));
        let (_, err) = w.ends(0, "ls testhost:~/src --install-agent");
        assert!(err.contains("installed haul"), "{shell}: {err}");
        assert!(is_this_program(&w.path("cache/haul").join(NAME)));
        let (listed, err) = w.ends(0, "ls testhost:~/src --install-agent");
        assert!(listed == "a\nd/\n" && !err.contains("installed"), "{shell}: {err}");
    }
}
