//! A striped GridFTP server, whose data go to and from two data nodes at addresses of their own: `globus-gridftp-server` with back ends,
//! beside Globus's own client, and servers that lie about their nodes.

use haul_test::content::bytes;
use haul_test::ftp_rogue::{Answer, FtpRogue};
use haul_test::gridftpd::{GridServer, StripedServer};
use haul_test::scratch::Scratch;
use haul_test::world::Served;
use rustix::process::Signal;

/// Bytes of a file that all nodes send together.
const LARGE: usize = (40 << 20) + 12_345;

/// `@` is the working directory at the server.
type World = Served<StripedServer>;

fn world() -> World {
    let scratch = Scratch::new();
    let server = StripedServer::start(&[]).expect("globus-gridftp-server-progs is installed");
    let url = server.front.url(&scratch.work);
    let w = World::new(scratch, server, url).with("GLOBUS_HOSTNAME", "localhost").filled(40);
    w.write("src/large", bytes(98, LARGE));
    w
}

/// The length of the log of each data node: it grows with each transfer.
fn lengths(w: &World) -> [usize; 2] {
    w.server.nodes.each_ref().map(|node| node.log().len())
}

#[test]
#[ignore = "full"]
fn trees_go_both_ways_over_all_nodes() {
    let w = world();
    let before = lengths(&w);
    w.ends(0, "cp src/ @/there");
    w.same("src", "there");
    w.ends(0, "check -c src/ @/there");
    let after = lengths(&w);
    assert!(after[0] > before[0] && after[1] > before[1], "both nodes have written: {before:?} {after:?}");
    assert!(w.server.front.log().contains("SPAS"), "the server was asked for its nodes");
    w.ends(0, "cp @/there/ back");
    w.same("src", "back");
    assert!(w.server.front.log().contains("SPOR"), "the server was told where its nodes are to connect to");
    assert!(w.ends(0, &format!("doctor {}", w.server.front.url("/"))).contains("2 data nodes"));
}

#[test]
fn the_client_of_globus_reads_and_writes_the_same() {
    let w = world();
    w.run("globus-url-copy", "-q -stripe -fast file://~/src/large @/theirs").succeeds();
    w.ends(0, "cp @/theirs got");
    assert!(w.read("got") == w.read("src/large"));
    w.ends(0, "cp src/large @/ours");
    w.run("globus-url-copy", "-q -stripe -fast @/ours file://~/back").succeeds();
    assert!(w.read("back") == w.read("src/large"));
}

#[test]
fn a_node_that_is_silent_or_gone_ends_in_an_error() {
    for signal in [Signal::STOP, Signal::KILL] {
        let w = world();
        w.server.nodes[1].signal(signal);
        for words in ["cp src/large @/up", "cp @/src/large down"] {
            w.fails(&format!("{words} --timeout 4 --retries 0"));
        }
        assert!(!w.has("up") && !w.has("down"));
    }
}

#[test]
fn striped_servers_exchange_files_with_others() {
    let w = world();
    let other = GridServer::start(&[]).expect("it is installed");
    w.ends(0, &format!("cp @/src/large {}", other.url(w.path("there"))));
    assert!(w.read("there") == w.read("src/large"));
    w.ends(0, &format!("cp {} @/back", other.url(w.path("src/large"))));
    assert!(w.read("back") == w.read("src/large"));
}

#[test]
fn nodes_that_cannot_be_are_not_connected_to() {
    let w = world();
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
        w.remove("got");
        assert_eq!(rogue.heard().iter().filter(|line| line.starts_with("SPAS")).count(), 1, "{:?}", rogue.heard());
    }
}
