//! The same list of jobs at SSH servers of other makes: see [`Make`]. What one of them cannot is in docs/ssh.md.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use haul_test::compare::{What, assert_same, differences};
use haul_test::program::Program;
use haul_test::scratch::{Scratch, entries};
use haul_test::ssh_makes::{Make, SshMake};
use haul_test::tree::spread;
use haul_test::volume::Volume;
use rustix::process::Signal;

/// None of them sets times of links.
const SAME: What = What { symlink_mtime: false, ..crate::ssh::support::SAME };

/// One server, and what it serves.
struct Site {
    make: Make,
    s: Scratch,
    server: SshMake,
    /// The place at the server, as it sees it, and as this machine does.
    place: String,
    below: PathBuf,
}

impl Site {
    fn new(make: Make, tree: &str) -> Site {
        let s = Scratch::with(tree);
        let below = s.path("");
        Site::on(make, s, below)
    }

    /// Serves a directory; Dropbear's account gets it.
    fn on(make: Make, s: Scratch, below: PathBuf) -> Site {
        let server = SshMake::start(make, &below).unwrap_or_else(|e| panic!("{make:?}: ssh-servers.sh installs it: {e}"));
        let below = match server.account() {
            Some(account) if below == s.path("") => account.home().to_path_buf(),
            Some(account) => {
                account.give(&below).expect("given: root");
                below
            }
            None => below,
        };
        let place = if make == Make::Rclone { String::new() } else { below.display().to_string() };
        Site { make, s, server, place, below }
    }

    /// `@` is the place at the server.
    fn haul(&self, words: &str) -> Program {
        self.s.haul(&words.replace('@', &format!("testhost:{}", self.place))).arg("-F").arg(self.server.config()).alone()
    }

    /// A path at the server.
    fn at(&self, path: &str) -> PathBuf {
        self.below.join(path)
    }

    /// What a copy from there is like.
    fn same(&self) -> What {
        // It keeps no modes.
        if self.make == Make::Rclone { What { mode: 0, ..SAME } } else { SAME }
    }

    /// What a copy there is like on the disk of the server.
    fn same_there(&self) -> What {
        // It keeps the times of directories in its memory alone.
        What { directory_mtime: self.make != Make::Rclone, ..self.same() }
    }

    fn has_links(&self) -> bool {
        self.make != Make::Rclone
    }

    /// `src` and a copy at the server.
    #[track_caller]
    fn assert_there(&self, copy: &str) {
        assert_same(&self.s.path("src"), &self.at(copy), self.same_there());
    }

    /// `src` and `back`.
    #[track_caller]
    fn assert_back(&self) {
        self.s.assert_same("src", "back", self.same());
    }
}

/// A tree goes there and comes back, is moved there, listed and removed.
fn goes_and_comes_back(make: Make) {
    let w = Site::new(make, "src: a=5 empty=0 big=5M d/b=300K d/e/f=3 none/");
    if w.has_links() {
        w.s.tree("src: l->a d/up->../a dangling->nowhere");
        w.s.sh("touch -h -d 2020-02-02 src/l src/d/up src/dangling");
    }
    spread(&w.s.path("src/many"), 2, 40, 3000).expect("made");
    if make == Make::Rclone {
        // Without a cache it takes the bytes of a file only in order, and waits a second for those that are missing.
        w.s.tree("src: huge=40M");
    }
    w.haul("cp -j 4 --chunk-size 8M src/ @/there").ends(0);
    w.haul("cp -j 4 @/there/ back").ends(0);
    w.assert_back();
    w.haul("sync --delete src/ @/there").ends(0).out_has("nothing to transfer");
    w.haul("mv @/there @/moved").ends(0);
    w.haul("check -c src/ @/moved/there").ends(0);
    w.haul("ls @/moved/there/d*").ends(0).out_has("b\n");
    w.haul("rm -r @/moved").ends(0);
    w.haul("ls @/moved").ends(23);
}

/// Names that are commands somewhere, of files and of directories.
fn odd_names(make: Make) {
    let w = Site::new(make, "src/");
    // rclone shows control characters of names as symbols.
    let controls: &[&str] = if make == Make::Rclone { &[] } else { &["new\nline", "tab\tescape\x1b[31m"] };
    let others = [
        "$(touch hacked) `x` ; rm -rf",
        "-rf",
        "a'b\"c",
        "*?[x]",
        "~",
        " blank at both ends ",
        "back\\slash",
        "%2F",
        "..x",
        "e\u{301} and \u{e9}",
        "\u{1f69a}\u{202e}",
        &"n".repeat(255),
    ];
    for name in controls.iter().copied().chain(others) {
        w.s.write(w.s.path("src/odd").join(name), name);
        w.s.write(w.s.path("src/dirs").join(name).join("inner"), name);
    }
    w.haul("cp src/ @/there").ends(0);
    w.assert_there("there");
    w.haul("cp @/there/ back").ends(0);
    w.assert_back();
    w.haul("sync --delete src/ @/there").ends(0).out_has("nothing to transfer");
    assert!(!w.s.has("hacked") && !w.at("hacked").exists());
    w.haul("rm -r @/there").ends(0);
    assert!(!w.at("there").exists());
}

/// A name that is not UTF-8 is kept byte by byte, or its failure is named; nothing has another name.
fn a_name_that_is_no_text(make: Make) {
    let w = Site::new(make, "src: a=5");
    let name = OsStr::from_bytes(b"\xff\xfe not text");
    w.s.write(w.s.path("src").join(name), "content");
    let ended = w.haul("cp src/ @/there").run();
    if make != Make::Paramiko {
        ended.code(0);
        w.assert_there("there");
        w.haul("cp @/there/ back").ends(0);
        w.assert_back();
    } else {
        ended.code(23).says("\\xff\\xfe not text");
        assert_eq!(entries(&w.at("there")), ["a"]);
    }
}

/// `-a`: modes, times of files and directories, a change of both alone, and an upload over old files.
fn attributes(make: Make) {
    let w = Site::new(make, "src: a=5:0640 run=7:0755 closed=3:0400 d/b=300K:0600 d/deep/c=9 old=5 private/:0700 private/x=1");
    w.s.sh("touch -d 1999-12-31T23:59:58Z src/a; touch -d 2037-01-01 src/run; touch -d 1970-01-02 src/d/deep; touch -d 2001-01-01 src/d");
    // The owner is set where the login may do so.
    let flags = if make == Make::Dropbear { "-a --no-owner --no-group" } else { "-a" };
    w.haul(&format!("cp {flags} src/ @/there")).ends(0);
    w.assert_there("there");
    w.haul(&format!("cp {flags} @/there/ back")).ends(0);
    w.assert_back();
    w.haul(&format!("cp {flags} src/ @/there")).ends(0).out_has("nothing to transfer");
    w.s.sh("chmod 600 src/run; touch -d 2005-05-05 src/a src/d; chmod 750 src/d");
    w.s.write("src/old", "new content");
    w.haul(&format!("sync {flags} --delete src/ @/there")).ends(0);
    w.assert_there("there");
}

/// Killed in the middle of a large upload and of a large download: the same command goes on inside the file.
fn killed_and_resumed(make: Make) {
    let w = Site::new(make, "src: big=24M");
    for (words, copy) in [("src/ @/there", w.at("there")), ("@/there/ back", w.s.path("back"))] {
        let words = format!("cp --json --chunk-size 1M -j 4 {words}");
        let mut first = w.haul(&format!("{words} --bwlimit 8M")).start();
        first.until("a staging file", || w.s.staging(&copy).iter().any(|path| path.metadata().is_ok_and(|meta| meta.len() > 6 << 20)));
        first.signal(Signal::KILL);
        assert!(first.wait().was_killed());
        assert!(!copy.join("big").exists(), "there is no such name before it is whole");
        let ended = w.haul(&words).ends(0);
        // rclone takes nothing behind what it has: the file begins anew.
        if make != Make::Rclone || words.ends_with("back") {
            let resumed = ended.number("resumed_bytes");
            assert!(resumed > 0 && ended.number("bytes") + resumed == 24 << 20, "{words}: {ended}");
        }
        assert_same(&w.s.path("src"), &copy, w.same_there());
        w.s.assert_clean(&copy);
    }
    // Killed while it replaces an old file.
    let old = w.s.read("src/big");
    w.s.sh("head -c 24M /dev/urandom > src/big");
    let words = "cp --chunk-size 1M -j 4 src/ @/there";
    let mut run = w.haul(&format!("{words} --bwlimit 8M")).start();
    run.until("a staging file", || !w.s.staging(w.at("there")).is_empty());
    run.signal(Signal::KILL);
    assert!(run.wait().was_killed());
    assert!(fs::read(w.at("there/big")).expect("the old one") == old, "it was touched");
    w.haul(words).ends(0);
    w.assert_there("there");
    w.s.assert_clean(w.at("there"));
}

/// A disk of 12 MiB at the server: the run ends, the old file is whole, and with more room the next run goes on.
fn full_disk(make: Make) {
    let volume = Volume::tmpfs(12 << 20).expect("a file system can be mounted: root");
    // Its account must come through.
    let above = volume.path().parent().expect("it is below one");
    fs::set_permissions(above, fs::Permissions::from_mode(0o755)).expect("set");
    let w = Site::on(make, Scratch::with("src: big=16M old: big=4M"), volume.path().to_path_buf());
    spread(&w.s.path("src/many"), 10, 40, 40_000).expect("made");
    w.haul("cp old/ @/").ends(0);
    let ended = w.haul("cp --chunk-size 1M -j 4 src/ @/").run();
    let now = fs::read(w.at("big")).expect("it exists");
    assert!(now == w.s.read("old/big"), "{} bytes\n{ended}", now.len());
    match make {
        // They have no request for the free space.
        Make::Paramiko => ended.code(23).says("the server failed without a reason"),
        Make::Rclone => ended.code(23).says("file too big for remaining disk space"),
        _ => ended.code(11).err_has("No space left"),
    };
    w.s.sh(&format!("mount -o remount,size=64M {}", volume.path().display()));
    w.haul("cp --chunk-size 1M -j 4 src/ @/").ends(0);
    w.s.assert_clean(volume.path());
    if make == Make::Asyncssh {
        // It confirms a write of which the disk took only a part.
        let is_same = differences(&w.s.path("src"), volume.path(), w.same_there()).expect("read").is_empty();
        w.haul("check -c src/ @/").ends(if is_same { 0 } else { 1 });
    } else {
        w.assert_there("");
    }
}

/// All jobs at one server.
fn all(make: Make) {
    for job in [goes_and_comes_back, odd_names, a_name_that_is_no_text, attributes, killed_and_resumed, full_disk] {
        job(make);
    }
}

#[test]
fn dropbear() {
    all(Make::Dropbear);
}

#[test]
fn rclone() {
    all(Make::Rclone);
}

#[test]
fn asyncssh() {
    all(Make::Asyncssh);
}

#[test]
fn paramiko() {
    all(Make::Paramiko);
}
