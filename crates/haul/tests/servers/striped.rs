//! A striped GridFTP server, whose data go to and from two data nodes at addresses of their own: `globus-gridftp-server` with back ends,
//! beside Globus's own client, and servers that lie about their nodes.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use haul_test::content;
use haul_test::ftp_rogue::{Answer, FtpRogue};
use haul_test::gridftpd::{GridServer, StripedServer};
use haul_test::program::until;

/// Bytes of a file that all nodes send together.
const LARGE: usize = (40 << 20) + 12_345;

/// A directory and a server; `@` in commands stands for the directory on the server.
struct World {
    place: tempfile::TempDir,
    server: StripedServer,
}

impl World {
    fn new() -> World {
        let place = tempfile::Builder::new().prefix("haul-striped-").tempdir().expect("a temporary directory");
        let server = StripedServer::start(&[]).expect("globus-gridftp-server-progs is installed");
        let w = World { place, server };
        fs::create_dir_all(w.path("src/d")).expect("made");
        for n in 0..40 {
            fs::write(w.path(&format!("src/d/n{n}")), bytes(n, 300 * n as usize)).expect("written");
        }
        fs::write(w.path("src/middle"), bytes(98, 3 << 20)).expect("written");
        fs::write(w.path("src/large"), bytes(99, LARGE)).expect("written");
        w
    }

    fn path(&self, path: &str) -> PathBuf {
        self.place.path().join(path)
    }

    fn read(&self, path: &str) -> Vec<u8> {
        fs::read(self.path(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    fn command(&self, program: &str, words: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().current_dir(self.place.path()).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", self.place.path());
        command.env("HAUL_STATE_DIR", self.path("state")).env("LC_ALL", "C.UTF-8").env("TZ", "UTC").env("GLOBUS_HOSTNAME", "localhost");
        let url = self.server.front.url(self.place.path()) + "/";
        let address = |word: &str| word.strip_prefix('@').map_or(word.to_string(), |path| format!("{url}{path}"));
        command.args(words.split(' ').filter(|word| !word.is_empty()).map(address));
        command
    }

    fn haul(&self, words: &str) -> Command {
        self.command(env!("CARGO_BIN_EXE_haul"), words)
    }

    /// Standard output and standard error.
    #[track_caller]
    fn ends(&self, code: i32, words: &str) -> String {
        let ran = self.haul(words).output().expect("the program runs");
        assert_eq!(ran.status.code(), Some(code), "haul {words}\n{}", shown(&ran));
        shown(&ran)
    }

    /// How long the log of each data node is: it grows with each transfer.
    fn lengths(&self) -> [usize; 2] {
        self.server.nodes.each_ref().map(|node| node.log().len())
    }

    fn is_same(&self, one: &str, other: &str) -> bool {
        self.command("diff", &format!("-r {one} {other}")).status().expect("it runs").success()
    }
}

fn shown(ran: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
}

fn bytes(seed: u64, size: usize) -> Vec<u8> {
    let mut all = vec![0; size];
    content::fill(seed, 0, &mut all);
    all
}

#[test]
#[ignore = "full"]
fn trees_go_both_ways_over_all_nodes() {
    let w = World::new();
    let before = w.lengths();
    w.ends(0, "cp src/ @there");
    assert!(w.is_same("src", "there"));
    w.ends(0, "check -c src/ @there");
    let after = w.lengths();
    assert!(after[0] > before[0] && after[1] > before[1], "both nodes have written: {before:?} {after:?}");
    assert!(w.server.front.log().contains("SPAS"), "the server was asked for its nodes");
    w.ends(0, "cp @there/ back");
    assert!(w.is_same("src", "back"));
    assert!(w.server.front.log().contains("SPOR"), "the server was told where its nodes are to connect to");
    assert!(w.ends(0, &format!("doctor {}", w.server.front.url("/"))).contains("2 data nodes"));
}

#[test]
fn the_client_of_globus_reads_and_writes_the_same() {
    let w = World::new();
    let url = w.server.front.url(w.place.path());
    let globus = |from: String, to: String| {
        let ran = w.command("globus-url-copy", &format!("-q -stripe -fast {from} {to}")).output().expect("it is installed");
        assert!(ran.status.success(), "{}", shown(&ran));
    };
    let local = |path: &str| format!("file://{}", w.path(path).display());
    globus(local("src/large"), format!("{url}/theirs"));
    w.ends(0, "cp @theirs got");
    assert!(w.read("got") == w.read("src/large"));
    w.ends(0, "cp src/large @ours");
    globus(format!("{url}/ours"), local("back"));
    assert!(w.read("back") == w.read("src/large"));
}

#[test]
#[ignore = "full"]
fn interrupted_transfers_go_on() {
    let w = World::new();
    for (from, to, copy) in [("src/large", "@up", "up"), ("@src/large", "down", "down")] {
        let words = format!("cp -j 2 --chunk-size 2M --bwlimit 8M {from} {to}");
        let mut child = w.haul(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program runs");
        let begun = || {
            let staged = fs::read_dir(w.place.path())
                .expect("a directory")
                .flatten()
                .find(|entry| entry.file_name().as_encoded_bytes().starts_with(b".haul-"));
            staged.and_then(|entry| entry.metadata().ok()).is_some_and(|meta| meta.len() > 8 << 20)
        };
        until(&words, begun);
        std::thread::sleep(Duration::from_millis(500));
        child.kill().and_then(|()| child.wait()).expect("killed");
        assert!(!w.path(copy).exists());
        let text = w.ends(0, &words.replace("--bwlimit 8M ", ""));
        assert!(w.read(copy) == w.read("src/large") && text.to_lowercase().contains("resumed"), "{text}");
    }
}

#[test]
fn a_node_that_says_no_more_ends_in_an_error() {
    for words in ["cp src/large @up", "cp @src/large down"] {
        let w = World::new();
        w.server.nodes[1].freeze();
        let ran = w.haul(&format!("{words} --timeout 4 --retries 0")).output().expect("the program runs");
        assert!(!ran.status.success(), "{words}\n{}", shown(&ran));
        assert!(!w.path("up").exists() && !w.path("down").exists());
    }
}

#[test]
fn a_node_that_is_gone_ends_in_an_error() {
    let w = World::new();
    let World { place, server: StripedServer { front, nodes: [first, second] } } = w;
    drop(second);
    let url = front.url(place.path());
    let ran = |words: [&str; 2]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
        command.current_dir(place.path()).env("HAUL_STATE_DIR", place.path().join("state"));
        command.args(["cp", "--timeout", "6", "--retries", "0"]).args(words.map(|word| word.replace('@', &url))).output().expect("it runs")
    };
    assert!(!ran(["src/large", "@/up"]).status.success() && !ran(["@/src/large", "down"]).status.success());
    assert!(!place.path().join("up").exists() && !place.path().join("down").exists());
    drop(first);
}

#[test]
fn striped_servers_exchange_files_with_others() {
    let w = World::new();
    let other = GridServer::start(&[]).expect("it is installed");
    w.ends(0, &format!("cp @src/large {}", other.url(w.path("there"))));
    assert!(w.read("there") == w.read("src/large"));
    w.ends(0, &format!("cp {} @back", other.url(w.path("src/large"))));
    assert!(w.read("back") == w.read("src/large"));
}

#[test]
fn nodes_that_cannot_be_are_not_connected_to() {
    let w = World::new();
    // Ten thousand; the metadata service of a cloud; a port of something else.
    let many: String = (0..10_000).map(|n| format!(" 127,0,{},{},200,1\r\n", n / 250, n % 250)).collect();
    for nodes in [many, " 127,0,0,2,200,1\r\n 169,254,169,254,200,1\r\n".into(), " 127,0,0,2,200,1\r\n 127,0,0,3,0,22\r\n".into()] {
        let answer = format!("229-Entering Striped Passive Mode.\r\n{nodes}229 End\r\n");
        let rogue = FtpRogue::new(b"content".to_vec(), move |line| match line.split(' ').next() {
            Some("FEAT") => Answer::Say("211-Extensions supported\r\n DSI remote-13.24\r\n PARALLEL\r\n ESTO\r\n ERET\r\n SPAS\r\n SPOR\r\n SIZE\r\n MDTM\r\n211 End\r\n".into()),
            Some("MODE") => Answer::Say("200 ok\r\n".into()),
            Some("SPAS") => Answer::Say(answer.clone()),
            _ => Answer::Honest,
        })
        .expect("a server");
        w.ends(0, &format!("cp {} got", rogue.url("/file")));
        assert_eq!(w.read("got"), b"content");
        fs::remove_file(w.path("got")).expect("removed");
        assert_eq!(rogue.heard().iter().filter(|line| line.starts_with("SPAS")).count(), 1, "{:?}", rogue.heard());
    }
}
