//! FTP in extended block mode: `globus-gridftp-server` as source and destination, in clear text.

use std::sync::Mutex;

use haul_test::content::bytes;
use haul_test::ftp_rogue::{Answer, FtpRogue};
use haul_test::gridftpd::GridServer;
use haul_test::program::until;
use haul_test::scratch::Scratch;
use haul_test::volume::Volume;
use haul_test::world::Served;

const BIG: usize = World::BIG;

/// `@` is the working directory at the server.
type World = Served<GridServer>;

fn world() -> World {
    let scratch = Scratch::new();
    let server = start();
    let url = server.url(&scratch.work);
    World::new(scratch, server, url).with("GLOBUS_HOSTNAME", "localhost").filled(300)
}

fn start() -> GridServer {
    GridServer::start(&["-d", "all"]).expect("globus-gridftp-server-progs is installed")
}

/// Runs until the K-th record of the journal, and is killed there.
#[track_caller]
fn killed(w: &World, record: u64, words: &str) {
    assert!(w.haul(words).killed_at(record).run().was_killed(), "{words}");
    // The server writes what it has before it sees that the client is gone.
    let count = |what: &str| w.server.log().matches(what).count();
    until("the end of the connections", || count("New connection from") <= count("Closed connection from"));
}

/// Waits until the server, which writes its log late, has logged this command so many times.
#[track_caller]
fn hears(w: &World, word: &str, least: usize) {
    let count = || w.server.log().lines().filter(|line| line.contains("[CLIENT]: ") && line.contains(word)).count();
    until(word, || count() >= least);
}

/// A server that lies, with one file.
fn rogue(content: &[u8], lie: impl Fn(&str) -> Answer + Send + Sync + 'static) -> FtpRogue {
    FtpRogue::new(content.to_vec(), lie).expect("a server")
}

#[test]
fn trees_go_both_ways_and_are_what_the_grid_reads() {
    let w = world();
    w.ends(0, "cp --chunk-size 1M src/ @/there");
    w.same("src", "there");
    hears(&w, "MODE E", 1);
    hears(&w, "ESTO A ", 9);
    assert_eq!((w.time("there/d/n7"), w.time("there/big"), w.time("there/.hid")), (1_400_000_007, 1_300_000_000, 1_500_000_000));
    w.assert_clean("there");
    w.ends(0, "cp @/there/ back");
    w.same("src", "back");
    w.run("globus-url-copy", "-q -fast -p 4 @/there/big file://~/other").succeeds();
    assert!(w.read("other") == w.read("src/big"));
    assert!(w.ends(0, "sync --delete src/ @/there").contains("nothing to transfer"));
}

#[test]
fn the_network_is_measured_without_disks() {
    let w = world();
    let ended = w.haul(&format!("bench net --json --streams 2 --seconds 1 --repeat 1 --out run {}", w.server.url(""))).ends(0);
    for direction in ["out", "in"] {
        let points = &ended.events()[0]["points"];
        let point = points.as_array().and_then(|points| points.iter().find(|point| point["factors"]["direction"] == direction));
        assert!(point.is_some_and(|point| point["bytes_per_second"]["median"].as_f64() > Some(0.0)), "{ended}");
    }
    assert_eq!(w.meta("/dev/null").len(), 0);
}

#[test]
fn interrupted_transfers_go_on_inside_the_file() {
    for words in ["-j 1 src/big @/copy", "-j 4 src/big @/copy", "-j 2 @/src/big copy"] {
        let w = world();
        let words = format!("cp --chunk-size 1M {words}");
        killed(&w, 8, &words);
        assert_eq!((w.staging("").len(), w.has("copy")), (1, false));
        let text = w.ends(0, &words);
        // The server may have written a block where the offsets of the broken store begin.
        let (there, here) = (w.read("copy"), w.read("src/big"));
        let wrong = (0..here.len()).find(|at| there.get(*at) != here.get(*at));
        assert!((there.len(), wrong) == (here.len(), None), "{} bytes, wrong at {wrong:?}\n{text}\n{}", there.len(), w.server.log());
        assert!(text.contains("Resumed:"), "{text}");
        w.assert_clean("");
    }
}

#[test]
fn options_of_globus_url_copy_are_accepted() {
    let w = world();
    w.ends(0, "cp -vb -p 8 -fast -bs 1M --chunk-size 1M file://~/src/big @/copy");
    assert!(w.read("copy") == w.read("src/big"));
    w.ends(0, "cp -cc 4 -pp -cd -r -tcp-bs 512K src @/there");
    w.same("src", "there/src");
    hears(&w, "SBUF 524288", 1);
}

/// What the server has confirmed of small files is whole, the others are not there.
#[test]
fn a_full_disk_is_reported() {
    let volume = Volume::tmpfs(4 << 20).expect("a volume of 4 MiB");
    let w = world();
    let url = w.server.url(volume.path());
    assert!(w.fails(&format!("cp src/big {url}/")).contains("No space left on device"));
    assert!(!w.has(volume.path().join("big")));
    for n in 0..64 {
        w.write(format!("many/f{n}"), bytes(n, 200_000));
    }
    assert!(w.fails(&format!("cp many/ {url}/many")).contains("No space left on device"));
    let there = volume.path().join("many");
    for name in w.entries(&there).iter().filter(|name| !name.starts_with(".haul-")) {
        assert!(w.read(there.join(name)) == w.read(format!("many/{name}")), "{name}");
    }
}

#[test]
fn what_a_server_sends_to_another_is_verified_by_their_checksums() {
    let w = world();
    let other = start();
    w.ends(0, &format!("cp --verify @/src/big {}", other.url(w.path("copy"))));
    w.ends(0, &format!("mv @/copy {}", other.url(w.path("moved"))));
    assert!(w.read("moved") == w.read("src/big") && !w.has("copy"));
    for log in [w.server.log(), other.log()] {
        assert!(log.contains("CKSM "), "{log}");
    }
    assert!(w.server.log().matches("PORT 127,0,0,1,").count() >= 2, "{}", w.server.log());
}

#[test]
fn an_interrupted_copy_between_servers_goes_on_inside_the_file() {
    for workers in [1, 4] {
        let w = world();
        let other = start();
        let words = format!("cp -j {workers} --chunk-size 1M @/src/big {}", other.url(w.path("copy")));
        killed(&w, 8, &words);
        assert_eq!((w.staging("").len(), w.has("copy")), (1, false));
        let text = w.ends(0, &words);
        assert!(w.read("copy") == w.read("src/big"), "{text}");
        assert!(text.contains("Resumed:"), "{text}");
        w.assert_clean("");
        // What was noted as landed does not pass again (how much that is depends on how often the journal was written before the
        // kill), and no connection is made for each range.
        let passed = || -> usize {
            let log = w.server.log();
            let asked = log.split("[CLIENT]: ERET P ").skip(1);
            asked.filter_map(|asked| asked.split(' ').nth(1)?.parse::<usize>().ok()).sum()
        };
        until("all bytes in the log", || passed() >= BIG);
        assert!((BIG..2 * BIG).contains(&passed()), "{} bytes of {BIG}\n{}", passed(), w.server.log());
        assert!(w.server.log().matches("[CLIENT]: PORT ").count() <= 2 * workers, "{}", w.server.log());
        assert!(!other.log().contains("[CLIENT]: STOR") && !w.server.log().contains("[CLIENT]: RETR"), "nothing passes here");
    }
}

#[test]
fn servers_that_refuse_to_exchange_ranges_pass_them_through_here() {
    let w = world();
    let feat = "211-Features\r\n SIZE\r\n MDTM\r\n REST STREAM\r\n EPSV\r\n PARALLEL\r\n ESTO\r\n DSI file-1\r\n211 End\r\n";
    let content = bytes(79, 600_000);
    for refusal in ["500 never\r\n", "150 now\r\n425 cannot connect\r\n"] {
        let server = rogue(&content, move |line| match line {
            "FEAT" => Answer::Say(feat.into()),
            _ if line.starts_with("PORT") && !refusal.starts_with("150") => Answer::Say(refusal.into()),
            _ if line.starts_with("PORT") || line.starts_with("OPTS RETR") => Answer::Say("200 ok\r\n".into()),
            _ if line.starts_with("ERET") => Answer::Say(refusal.into()),
            _ => Answer::Honest,
        });
        let text = w.ends(0, &format!("cp --timeout 4s --chunk-size 200K {} @/through", server.url("/file")));
        assert!(w.read("through") == content, "{text}");
        let heard = server.heard();
        assert!(heard.iter().any(|line| line.starts_with("PORT")) && heard.iter().any(|line| line.starts_with("RETR")), "{heard:#?}");
        w.remove("through");
        w.assert_clean("");
    }
}

/// A block of extended block mode.
fn block(descriptor: u8, count: u64, offset: u64, bytes: &[u8]) -> Vec<u8> {
    [&[descriptor][..], &count.to_be_bytes(), &offset.to_be_bytes(), bytes].concat()
}

#[test]
fn blocks_that_are_wrong_never_become_a_file() {
    const FEAT: &str = "211-Features\r\n SIZE\r\n MDTM\r\n REST STREAM\r\n EPSV\r\n PARALLEL\r\n ERET\r\n DSI file-1\r\n211 End\r\n";
    let content = bytes(77, 400_000);
    let (size, half) = (content.len() as u64, content.len() as u64 / 2);
    let (first, second) = content.split_at(half as usize);
    let end = block(72, 0, 1, b"");
    let other = vec![0x55; half as usize];
    for (what, sent) in [
        ("honest", [block(0, half, 0, first), block(0, size - half, half, second), end.clone()].concat()),
        ("out of range", [block(0, half, size, first), block(0, size - half, half, second), end.clone()].concat()),
        ("twice", [block(0, half, 0, first), block(0, half, 0, &other), block(0, size - half, half, second), end.clone()].concat()),
        ("in another order", [block(0, size - half, half, second), block(0, half, 0, first), end.clone()].concat()),
        ("a gap", [block(0, half, 0, first), end.clone()].concat()),
        ("a huge block", block(0, u64::MAX, 0, first)),
        ("too few ends", [block(0, half, 0, first), block(0, size - half, half, second), block(72, 0, 0, b"")].concat()),
        ("too many ends", [block(0, half, 0, first), block(0, size - half, half, second), block(72, 0, 2, b"")].concat()),
        ("cut in a header", [block(0, half, 0, first), vec![0, 0, 0]].concat()),
        ("longer", [block(0, half, 0, first), block(0, size - half, half, second), block(0, 1, size, b"x"), end.clone()].concat()),
        ("no blocks", b"HTTP/1.1 200 OK\r\n\r\n<html>".to_vec()),
    ] {
        let asked = Mutex::new(0);
        let server = rogue(&content, move |line| match line {
            "FEAT" => Answer::Say(FEAT.into()),
            _ if line.starts_with("ERET") => {
                *asked.lock().expect("no panic") += 1;
                Answer::Connect(sent.clone())
            }
            _ => Answer::Honest,
        });
        let w = Scratch::new();
        let text = w.haul(&format!("cp --timeout 4s {} got", server.url("/file"))).run();
        let got = w.has("got").then(|| w.read("got"));
        let heard = server.heard();
        assert!(heard.iter().any(|line| line.starts_with("ERET")), "{what}\n{text}\n{heard:#?}");
        assert!(got.as_ref().is_none_or(|got| *got == content), "{what}: wrong bytes\n{text}");
        assert_eq!(text.status.success(), got.is_some(), "{what}\n{text}\n{heard:#?}");
        // What cannot be trusted is read again in stream mode.
        let streamed = heard.iter().any(|line| line.starts_with("RETR"));
        assert_eq!(streamed, what != "honest" && got.is_some(), "{what}\n{text}\n{heard:#?}");
    }
}

#[test]
fn a_server_without_extended_block_mode_is_served_in_stream_mode() {
    let content = bytes(78, 100_000);
    let feat = "211-Features\r\n SIZE\r\n MDTM\r\n REST STREAM\r\n EPSV\r\n PARALLEL\r\n ERET\r\n ESTO\r\n DSI file-1\r\n211 End\r\n";
    let server = rogue(&content, move |line| match line {
        "FEAT" => Answer::Say(feat.into()),
        _ if line.starts_with("MODE E") => Answer::Say("504 not here\r\n".into()),
        _ => Answer::Honest,
    });
    let w = Scratch::new();
    let text = w.haul(&format!("cp -p 4 {} got", server.url("/file"))).succeeds().text();
    assert!(w.read("got") == content, "{text}");
    assert_eq!(text.matches("no extended block mode").count(), 1, "{text}");
    assert_eq!(server.heard().iter().filter(|line| *line == "MODE E").count(), 1, "{:#?}", server.heard());
}
