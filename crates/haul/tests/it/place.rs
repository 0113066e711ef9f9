//! `--install-agent`: haul places itself on the remote host, against an OpenSSH server of its own on loopback.

use std::path::Path;
use std::time::{Duration, SystemTime};

use haul_test::program::Ended;
use haul_test::volume::Mounted;
use haul_test::world::World;

/// A server whose sessions have a cache of their own.
fn world(lines: &str) -> World {
    World::served("home/ src: a=5 d/b=300K", &format!("SetEnv HOME=~/home {lines}"))
}

fn cached(w: &World) -> Vec<String> {
    w.entries(CACHE)
}

/// Another file in place of the installed one, which may still run.
fn damage(w: &World, content: &[u8]) {
    w.write("damaged", content);
    w.chmod("damaged", 0o700);
    w.rename("damaged", PLACED);
}

fn is_this_program(w: &World, path: &str) -> bool {
    w.read(path) == w.read(HAUL)
}

const HAUL: &str = env!("CARGO_BIN_EXE_haul");
const CACHE: &str = "home/.cache/haul";
const PLACED: &str = concat!("home/.cache/haul/haul-", env!("CARGO_PKG_VERSION"));
const NAME: &str = concat!("haul-", env!("CARGO_PKG_VERSION"));

#[test]
#[ignore = "full"]
fn it_is_placed_once_and_used() {
    let w = world("");
    let ended = w.ends(0, "cp src/ testhost:~/there --install-agent");
    // The program of the tests is linked as cargo does by default.
    assert_eq!(ended.err.contains("it is not the static program"), cfg!(not(target_feature = "crt-static")), "{ended}");
    ended.err_has("installed haul ").err_has(&format!(" at testhost:.cache/haul/{NAME}, verified")).out_has("by haul on the remote host");
    assert_eq!(cached(&w), [NAME]);
    assert!(is_this_program(&w, PLACED));
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
    let w = world("");
    w.ends(0, "cp src/ testhost:~/there").out_has("over plain SFTP").out_has("--install-agent installs haul").err_lacks("installed");
    assert_eq!(w.names("home"), "");
}

#[test]
#[ignore = "full"]
fn a_damaged_one_is_found_out_and_replaced() {
    let w = world("");
    w.ends(0, "ls testhost:~/src --install-agent");
    let whole = w.read(PLACED);
    let mut flipped = whole.clone();
    *flipped.last_mut().expect("it has content") ^= 1;
    for damaged in [&whole[..whole.len() / 20], &[], &flipped] {
        damage(&w, damaged);
        w.ends(0, "ls testhost:~/src --install-agent").err_has("installed haul").err_has("replacing a damaged");
        assert!(is_this_program(&w, PLACED));
    }
    // Without the flag what cannot start does no harm.
    damage(&w, &whole[..whole.len() / 20]);
    w.ends(0, "cp src/ testhost:~/there").out_has("over plain SFTP");
}

#[test]
fn another_platform_is_an_error_that_names_both() {
    let w = world("PATH=~/bin:/usr/bin:/bin");
    w.write("bin/uname", "#!/bin/sh\necho Linux sparc64\n");
    w.chmod("bin/uname", 0o755);
    for words in ["cp src/ testhost:~/there --install-agent", "ls testhost:~/src --install-agent"] {
        w.ends(2, words).err_has("Linux sparc64").err_has(std::env::consts::ARCH);
    }
    assert!(cached(&w).is_empty() && !w.has("there"));
    let ended = w.ends(0, "cp src/ testhost:~/there").out_has("over plain SFTP");
    assert!(!ended.out.contains("--install-agent"), "{ended}");
}

/// What a copy says when the cache is on a file system with these options; nothing stays in the cache.
fn with_cache_on(options: &str) -> Ended {
    let w = world("");
    w.tree("home/.cache/");
    let _mounted = Mounted::tmpfs(&w.path("home/.cache"), options);
    let ended = w.ends(0, "cp src/ testhost:~/there --install-agent").out_has("over plain SFTP");
    assert!(cached(&w).is_empty(), "{:?}", cached(&w));
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
    let w = world("");
    for (name, age) in [("haul-0.0.1", 30), ("haul-0.0.2", 20), ("haul-0.0.3", 10), ("notes", 40)] {
        let path = format!("{CACHE}/{name}");
        w.write(&path, "");
        w.set_time(&path, SystemTime::now() - Duration::from_secs(age * 3600));
    }
    w.ends(0, "ls testhost:~/src --install-agent");
    assert_eq!(cached(&w), ["haul-0.0.3", NAME, "notes"]);
}

#[test]
fn another_version_elsewhere_is_not_used_in_its_place() {
    let w = world("");
    w.write("home/bin/haul", "#!/bin/sh\necho haul 0.0.9\n");
    w.chmod("home/bin/haul", 0o755);
    w.ends(0, "cp src/ testhost:~/there --install-agent").err_has("used in place of haul 0.0.9").out_has("by haul on the remote host");
    assert!(is_this_program(&w, PLACED));
}

#[test]
#[ignore = "full"]
fn every_login_shell_will_do() {
    for shell in ["/bin/csh", "/usr/bin/fish", "/bin/dash"] {
        if !Path::new(shell).exists() {
            assert!(std::env::var_os("HAUL_REQUIRE").is_none(), "{shell} is missing");
            continue;
        }
        // The server gives what it is asked to run to the login shell; this does the same with another one.
        let w = world(&format!("XDG_CACHE_HOME=~/cache\nForceCommand {shell} -c \"$SSH_ORIGINAL_COMMAND\""));
        w.ends(0, "ls testhost:~/src --install-agent").err_has("installed haul");
        assert!(is_this_program(&w, &format!("cache/haul/{NAME}")), "{shell}");
        let ended = w.ends(0, "ls testhost:~/src --install-agent").err_lacks("installed");
        assert_eq!(ended.out, "a\nd/\n", "{shell}");
    }
}
