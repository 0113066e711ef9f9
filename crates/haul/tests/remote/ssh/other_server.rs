//! The program over the SFTP of other makes: ProFTPD's, and one that does requests side by side.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use haul_test::compare::What;
use haul_test::parallel::parallel;
use haul_test::proftpd::Proftpd;
use haul_test::scratch::Scratch;
use haul_test::tree::spread;

/// It sets no times of links.
const SAME: What = What { symlink_mtime: false, ..crate::ssh::support::SAME };

fn proftpd() -> Proftpd {
    Proftpd::start().expect("proftpd can be started: proftpd-core, proftpd-mod-crypto and root")
}

#[test]
#[ignore = "full"]
fn a_tree_with_odd_names_goes_there_and_comes_back() {
    let (server, s) = (proftpd(), Scratch::new());
    s.tree("src: a=5:0640 empty=0 big=9M d/b=300K d/e/f=3:0755 l->a d/up->../a dangling->nowhere none/");
    spread(&s.path("src/many"), 4, 100, 3000).expect("made");
    let names: [&[u8]; 8] =
        [b"new\nline", b"\xff\xfe not text", b"$(touch hacked) `x` ; rm -rf", b"-rf", b"a'b\"c", b"*?[x]", b"~", b" blank at both ends "];
    for name in names {
        s.write(s.path("src/odd").join(OsStr::from_bytes(name)), name);
    }
    let haul = |words: &str| s.haul(words).arg("-F").arg(server.config()).alone();
    // No server of this make can set what belongs to a link: their times differ for good, and that is no difference.
    s.sh("touch -h -d 2020-02-02 src/l src/d/up src/dangling");
    haul("cp -j 4 src/ testhost:~/there").ends(0);
    s.assert_same("src", "there", SAME);
    haul("cp -j 4 testhost:~/there/ back").ends(0);
    s.assert_same("src", "back", SAME);
    assert!(!s.has("hacked"));
    // Again there is nothing to do, and what changed or went is found.
    haul("sync --delete src/ testhost:~/there").ends(0).out_has("nothing to transfer");
    s.write("src/d/b", "new");
    s.remove("src/odd/-rf");
    s.remove("src/many");
    haul("sync --delete src/ testhost:~/there").ends(0);
    s.assert_same("src", "there", SAME);
    haul("check -c src/ testhost:~/there").ends(0);
    haul("cp testhost:~/absent dst").ends(23);
    haul("rm -r testhost:~/there/d").ends(0);
    assert!(!s.has("there/d") && s.has("there/a"));
}

#[test]
fn a_link_there_is_not_followed_out_of_the_destination() {
    let (server, s) = (proftpd(), Scratch::new());
    s.tree("src: d/new=5 d/deep/x=3 there: a=1 outside: kept=4 deep/x=9");
    s.symlink("../outside", "there/d");
    let before = s.read("outside/deep/x");
    for verb in ["cp", "sync"] {
        let words = format!("{verb} src/ testhost:~/there");
        s.haul(&words).arg("-F").arg(server.config()).alone().run().code_of(&[0, 23]);
        assert_eq!(s.read("outside/deep/x"), before);
        assert!(!s.has("outside/new"), "{verb}");
    }
}

#[test]
#[ignore = "full"]
fn a_server_that_does_requests_side_by_side_gives_each_file_its_time() {
    let server = parallel().expect("bash and sftp-server are there, and a port");
    let s = Scratch::with("src: large=2M a=5:0640 empty=0 d/b=300K d/c=200K");
    spread(&s.path("src/many"), 4, 50, 3000).expect("made");
    let haul = |words: &str| s.haul(words).args(["--no-agent", "-e"]).arg(server.command()).alone().ends(0);
    // New files, which are made under their names, and old ones, which are staged.
    for flags in ["", "-I -a"] {
        haul(&format!("cp {flags} src/ testhost:~/there"));
        s.assert_same("src", "there", SAME);
    }
    haul("cp src/ testhost:~/there").out_has("nothing to transfer");
}
