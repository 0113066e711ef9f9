//! The program over the SFTP of another make: ProFTPD's, and one that does requests side by side.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use haul_test::compare::{What, assert_same};
use haul_test::parallel::parallel;
use haul_test::proftpd::Proftpd;
use haul_test::tree::{Tree, spread};

use crate::support::{bounded, program};

/// It sets no times of links.
const SAME: What = What { mtime: Some(1_000_000_000), symlink_mtime: false, ..What::USUAL };

#[test]
fn a_tree_with_odd_names_goes_there_and_comes_back() {
    let server = Proftpd::start().expect("proftpd can be started: proftpd-core, proftpd-mod-crypto and root");
    let place = tempfile::Builder::new().prefix("haul-other-").tempdir().expect("a temporary directory");
    let path = |name: &str| place.path().join(name);
    let tree = Tree::new(place.path()).expect("the place is there");
    tree.build("src: a=5:0640 empty=0 big=9M d/b=300K d/e/f=3:0755 l->a d/up->../a dangling->nowhere none/").expect("the tree is made");
    spread(&path("src/many"), 4, 100, 3000).expect("made");
    fs::create_dir(path("src/odd")).expect("made");
    let names: [&[u8]; 8] =
        [b"new\nline", b"\xff\xfe not text", b"$(touch hacked) `x` ; rm -rf", b"-rf", b"a'b\"c", b"*?[x]", b"~", b" blank at both ends "];
    for name in names {
        fs::write(path("src/odd").join(OsStr::from_bytes(name)), name).expect("written");
    }
    let haul = |code: i32, words: &str| {
        let mut command = program(place.path());
        let (verb, rest) = words.split_once(' ').expect("a command and its words");
        command.arg(verb).arg("-F").arg(server.config());
        command.args(rest.split_whitespace().map(|word| word.replace('@', &format!("testhost:{}/", place.path().display()))));
        let ran = bounded(command, words);
        let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "haul {words}\n{said}\n{}", server.log());
        said
    };
    // No server of this make can set what belongs to a link: their times differ for good, and that is no difference.
    let old = std::process::Command::new("touch")
        .args(["-h", "-d", "2020-02-02"])
        .args(["l", "d/up", "dangling"].map(|l| path("src").join(l)))
        .status();
    assert!(old.expect("touch is there").success());
    haul(0, "cp -j 4 src/ @there");
    assert_same(&path("src"), &path("there"), SAME);
    haul(0, "cp -j 4 @there/ back");
    assert_same(&path("src"), &path("back"), SAME);
    assert!(!path("hacked").exists());
    // Again there is nothing to do, and what changed or went is found.
    let again = haul(0, "sync --delete src/ @there");
    assert!(again.contains("nothing to transfer"), "{again}");
    fs::write(path("src/d/b"), "new").expect("written");
    fs::remove_file(path("src/odd/-rf")).expect("removed");
    fs::remove_dir_all(path("src/many")).expect("removed");
    haul(0, "sync --delete src/ @there");
    assert_same(&path("src"), &path("there"), SAME);
    haul(0, "check -c src/ @there");
    haul(23, "cp @absent dst");
    haul(0, "rm -r @there/d");
    assert!(!path("there/d").exists() && path("there/a").exists());
}

#[test]
fn a_link_there_is_not_followed_out_of_the_destination() {
    let server = Proftpd::start().expect("proftpd can be started: proftpd-core, proftpd-mod-crypto and root");
    let place = tempfile::Builder::new().prefix("haul-other-").tempdir().expect("a temporary directory");
    let tree = Tree::new(place.path()).expect("the place is there");
    tree.build("src: d/new=5 d/deep/x=3 there: a=1 outside: kept=4 deep/x=9").expect("the tree is made");
    std::os::unix::fs::symlink("../outside", place.path().join("there/d")).expect("made");
    let before = fs::read(place.path().join("outside/deep/x")).expect("it is there");
    for verb in ["cp", "sync"] {
        let mut command = program(place.path());
        command.args([verb, "-F"]).arg(server.config()).args(["src/", &format!("testhost:{}/there", place.path().display())]);
        let ran = bounded(command, verb);
        assert!(ran.status.code().is_some_and(|code| [0, 23].contains(&code)), "{}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(fs::read(place.path().join("outside/deep/x")).expect("it is there"), before);
        assert!(!place.path().join("outside/new").exists(), "{verb}");
    }
}

#[test]
fn a_server_that_does_requests_side_by_side_gives_each_file_its_time() {
    let server = parallel().expect("bash and sftp-server are there, and a port");
    let place = tempfile::Builder::new().prefix("haul-parallel-").tempdir().expect("a temporary directory");
    let path = |name: &str| place.path().join(name);
    let tree = Tree::new(place.path()).expect("the place is there");
    tree.build("src: large=2M a=5:0640 empty=0 d/b=300K d/c=200K").expect("the tree is made");
    spread(&path("src/many"), 4, 50, 3000).expect("made");
    let haul = |words: &str| {
        let mut command = program(place.path());
        let (verb, rest) = words.split_once(' ').expect("a command and its words");
        command.arg(verb).args(["--no-agent", "-e"]).arg(server.command());
        command.args(rest.split_whitespace().map(|word| word.replace('@', &format!("testhost:{}/", place.path().display()))));
        let ran = bounded(command, words);
        let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(0), "haul {words}\n{said}");
        said
    };
    // New files, which are made under their names, and old ones, which are staged.
    haul("cp src/ @there");
    assert_same(&path("src"), &path("there"), SAME);
    haul("cp -I -a src/ @there");
    assert_same(&path("src"), &path("there"), SAME);
    let again = haul("cp src/ @there");
    assert!(again.contains("nothing to transfer"), "{again}");
}
