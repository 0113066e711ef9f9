//! `--install-agent`: haul places itself on the remote host, against an OpenSSH server of its own on loopback.

use std::ops::Deref;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use haul_test::program::Ended;
use haul_test::scratch::Scratch;
use haul_test::sshd::Sshd;
use haul_test::volume::Mounted;

/// A server whose sessions have a cache of their own; `~` in lines and words is the scratch directory.
struct World {
    scratch: Scratch,
    server: Sshd,
}

impl Deref for World {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.scratch
    }
}

impl World {
    fn new(lines: &str) -> World {
        let scratch = Scratch::new();
        scratch.tree("home/ src: a=5 d/b=300K");
        let lines = format!("SetEnv HOME=~/home {lines}").replace('~', &scratch.work.display().to_string());
        World { server: Sshd::start(&lines).expect("sshd can be started: openssh-server and root"), scratch }
    }

    #[track_caller]
    fn ends(&self, code: i32, words: &str) -> Ended {
        self.program(Command::new(HAUL), words).arg("-F").arg(self.server.config()).ends(code)
    }

    fn cached(&self) -> Vec<String> {
        self.entries(CACHE)
    }

    /// Another file in its place: the one that was there may still be at work.
    fn damage(&self, content: &[u8]) {
        self.write("damaged", content);
        self.chmod("damaged", 0o700);
        self.rename("damaged", PLACED);
    }

    fn is_this_program(&self, path: &str) -> bool {
        self.read(path) == self.read(HAUL)
    }
}

const HAUL: &str = env!("CARGO_BIN_EXE_haul");
const CACHE: &str = "home/.cache/haul";
const PLACED: &str = concat!("home/.cache/haul/haul-", env!("CARGO_PKG_VERSION"));
const NAME: &str = concat!("haul-", env!("CARGO_PKG_VERSION"));

#[test]
fn it_is_placed_once_and_used() {
    let w = World::new("");
    let ended = w.ends(0, "cp src/ testhost:~/there --install-agent");
    // The program of the tests is linked as cargo does by default.
    assert_eq!(ended.err.contains("it is not the static program"), cfg!(not(target_feature = "crt-static")), "{ended}");
    ended.err_has("installed haul ").err_has(&format!(" at testhost:.cache/haul/{NAME}, verified")).out_has("by haul on the remote host");
    assert_eq!(w.cached(), [NAME]);
    assert!(w.is_this_program(PLACED));
    assert_eq!(w.mode(PLACED), 0o700);
    assert_eq!(w.server.logins(), 1);
    let before = w.meta(PLACED).modified().expect("a time");
    for words in ["cp src/ testhost:~/again --install-agent", "cp src/ testhost:~/third"] {
        w.ends(0, words).out_has("by haul on the remote host").err_lacks("installed");
    }
    assert_eq!(w.meta(PLACED).modified().expect("a time"), before);
}

#[test]
fn without_the_flag_nothing_is_placed() {
    let w = World::new("");
    w.ends(0, "cp src/ testhost:~/there").out_has("over plain SFTP").out_has("--install-agent installs haul").err_lacks("installed");
    assert_eq!(w.names("home"), "");
}

#[test]
fn a_damaged_one_is_found_out_and_replaced() {
    let w = World::new("");
    w.ends(0, "ls testhost:~/src --install-agent");
    let whole = w.read(PLACED);
    let mut flipped = whole.clone();
    *flipped.last_mut().expect("it has content") ^= 1;
    for damaged in [&whole[..whole.len() / 20], &[], &flipped] {
        w.damage(damaged);
        w.ends(0, "ls testhost:~/src --install-agent").err_has("installed haul").err_has("replacing a damaged");
        assert!(w.is_this_program(PLACED));
    }
    // Without the flag what cannot start does no harm.
    w.damage(&whole[..whole.len() / 20]);
    w.ends(0, "cp src/ testhost:~/there").out_has("over plain SFTP");
}

#[test]
fn another_platform_is_an_error_that_names_both() {
    let w = World::new("PATH=~/bin:/usr/bin:/bin");
    w.write("bin/uname", "#!/bin/sh\necho Linux sparc64\n");
    w.chmod("bin/uname", 0o755);
    for words in ["cp src/ testhost:~/there --install-agent", "ls testhost:~/src --install-agent"] {
        w.ends(2, words).err_has("Linux sparc64").err_has(std::env::consts::ARCH);
    }
    assert!(w.cached().is_empty() && !w.has("there"));
    let ended = w.ends(0, "cp src/ testhost:~/there").out_has("over plain SFTP");
    assert!(!ended.out.contains("--install-agent"), "{ended}");
}

/// What a copy says when the cache is on a file system with these options; nothing stays in the cache.
fn with_cache_on(options: &str) -> Ended {
    let w = World::new("");
    w.tree("home/.cache/");
    let _mounted = Mounted::tmpfs(&w.path("home/.cache"), options);
    let ended = w.ends(0, "cp src/ testhost:~/there --install-agent").out_has("over plain SFTP");
    assert!(w.cached().is_empty(), "{:?}", w.cached());
    ended
}

#[test]
fn one_that_cannot_start_there_is_removed() {
    let ended = with_cache_on("noexec").err_has("does not start").err_has("removed");
    assert!(!ended.out.contains("--install-agent"), "{ended}");
}

#[test]
fn a_full_disk_there_keeps_nothing() {
    with_cache_on("size=1M").err_has("haul was not installed").err_has("No space left");
}

#[test]
fn the_newest_two_stay() {
    let w = World::new("");
    for (name, age) in [("haul-0.0.1", 30), ("haul-0.0.2", 20), ("haul-0.0.3", 10), ("notes", 40)] {
        let path = format!("{CACHE}/{name}");
        w.write(&path, "");
        w.set_time(&path, SystemTime::now() - Duration::from_secs(age * 3600));
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
        w.ends(0, "ls testhost:~/src --install-agent").err_has("installed haul");
        assert!(w.is_this_program(&format!("cache/haul/{NAME}")), "{shell}");
        let ended = w.ends(0, "ls testhost:~/src --install-agent").err_lacks("installed");
        assert_eq!(ended.out, "a\nd/\n", "{shell}");
    }
}
