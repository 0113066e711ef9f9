//! Checksums that servers compute, in place of their files being read: `check -c` and `--verify` over FTP.

use haul_test::content::bytes;
use haul_test::ftp_rogue::{Answer, FtpRogue};
use haul_test::ftpd::{FtpServer, netrc};
use haul_test::gridftpd::GridServer;
use haul_test::program::until;
use haul_test::scratch::Scratch;
use haul_test::world::Served;

/// Bytes of the file `src/big`, of a smaller one, and of small ones.
const SIZES: [(&str, usize); 5] = [("big", 3 << 20), ("d/middle", 400_000), ("d/small", 6_000), ("d/e/deep", 10), ("none", 0)];

fn filled<S>(server: S, url: impl Fn(&S, &std::path::Path) -> String) -> Served<S> {
    let scratch = Scratch::new();
    let url = url(&server, &scratch.work);
    let w = Served::new(scratch, server, url);
    for (n, (path, size)) in SIZES.into_iter().enumerate() {
        put(&w, &format!("src/{path}"), bytes(n as u64, size));
    }
    w
}

fn put<S>(w: &Served<S>, path: &str, content: Vec<u8>) {
    w.write_at(path, content, 1_500_000_000);
}

#[test]
fn a_server_that_computes_checksums_is_not_asked_for_the_files() {
    let server = GridServer::start(&["-d", "all"]).expect("globus-gridftp-server-progs is installed");
    let w = filled(server, |server, path| server.url(path));
    let text = w.ends(0, "cp --verify --chunk-size 1M src/ @/there");
    assert!(text.contains("checksum computed by the server") && text.contains("5 files"), "{text}");
    w.ends(0, "check -c src/ @/there");
    put(&w, "there/d/small", bytes(77, 6_000));
    let mut damaged = bytes(0, 3 << 20);
    damaged[2_000_000] ^= 1;
    put(&w, "there/big", damaged);
    let text = w.ends(1, "check -c @/there/ src");
    assert!(text.contains("d/small") && text.contains("big") && !text.contains("d/middle"), "{text}");
    // Two servers that compute them read for both ends.
    let other = GridServer::start(&[]).expect("it is installed");
    let text = w.ends(1, &format!("check -c @/there/ {}", other.url(w.path("src"))));
    assert!(text.contains("d/small") && text.contains("big") && !text.contains("d/middle"), "{text}");
    // What replaces a file is verified before it does.
    put(&w, "src/d/small", bytes(78, 6_001));
    put(&w, "src/big", bytes(79, (3 << 20) + 1));
    let text = w.ends(0, "cp --verify src/ @/there");
    assert!(text.contains("checksum computed by the server") && text.contains("2 files"), "{text}");
    w.ends(0, "check -c src/ @/there");
    // The log is written late.
    until("the last command in the log", || w.server.log().matches("CKSM").count() >= 20);
    let log = w.server.log();
    let asked: Vec<&str> = log.lines().filter(|line| line.contains("[CLIENT]: ")).collect();
    assert!(!asked.iter().any(|line| line.contains("RETR ") || line.contains("ERET ")), "{asked:#?}");
    assert!(asked.iter().all(|line| !line.contains("CKSM") || line.contains("CKSM SHA256 0 -1")), "{asked:#?}");
}

#[test]
fn proftpd_computes_them_too() {
    let w = filled(FtpServer::proftpd("").expect("proftpd-core is installed"), |server, path| server.url(path));
    netrc(&w.home).expect("written");
    let text = w.ends(0, "cp --verify src/ @/there");
    assert!(text.contains("checksum computed by the server"), "{text}");
    let text = w.ends(0, "mv src/d/ @/moved");
    assert!(text.contains("checksum computed by the server") && !w.has("src/d/middle"), "{text}");
    w.ends(0, "check -c @/moved/ there/d");
    put(&w, "there/d/middle", bytes(7, 400_000));
    assert!(w.ends(1, "check -c moved/ @/there/d").contains("middle"));
}

#[test]
fn without_the_command_files_are_read_back() {
    let w = filled(FtpServer::vsftpd("").expect("ftp-servers.sh installs it"), |server, path| server.url(path));
    netrc(&w.home).expect("written");
    let text = w.ends(0, "cp --verify src/ @/there");
    assert!(text.contains("reread from the server") && !text.contains("checksum"), "{text}");
}

/// A file `up` of this size, and a server that takes files and answers `XSHA256` like this.
fn taking(size: usize, checksum: impl Fn() -> Answer + Send + Sync + 'static) -> Served<FtpRogue> {
    let say = |text: String| Answer::Say(text + "\r\n");
    let lie = move |line: &str| match line.split(' ').next().unwrap_or_default() {
        "FEAT" => say("211-Features\r\n SIZE\r\n MDTM\r\n MFMT\r\n REST STREAM\r\n EPSV\r\n XSHA256\r\n211 End".into()),
        "STOR" => Answer::Take("226 done"),
        "SIZE" if line.contains(".haul-") => say(format!("213 {size}")),
        "RETR" if line.contains(".haul-") => Answer::Cut(usize::MAX, "226 done"),
        "MDTM" if line.contains(".haul-") => say("213 20200102030405".into()),
        "DELE" | "RNTO" | "MFMT" => say("250 ok".into()),
        "RNFR" => say("350 to".into()),
        "XSHA256" => checksum(),
        _ => Answer::Honest,
    };
    let server = FtpRogue::new(bytes(5, size), lie).expect("a server");
    let url = server.url("");
    let w = Served::new(Scratch::new(), server, url);
    w.write("up", bytes(5, size));
    w
}

#[test]
fn what_a_checksum_does_not_confirm_is_removed() {
    for size in [1_000, 500_000] {
        let w = taking(size, move || Answer::Say(format!("250 {}\r\n", "5a".repeat(32))));
        let text = w.ends(23, "cp --verify up @/new");
        assert!(text.contains("another than that of the source") || text.contains("verif"), "{text}");
        let heard = w.server.heard();
        // A small new file has its name before it is verified.
        let at = |line: &str| heard.iter().position(|heard| heard == line);
        assert_eq!((at("RNTO /new").is_some(), at("DELE /new").is_some()), (size == 1_000, size == 1_000), "{heard:#?}");
        assert!(at("RNTO /new") <= at("DELE /new"), "{heard:#?}");
        // It is sent once more, and then given up.
        assert_eq!(heard.iter().filter(|line| line.starts_with("STOR")).count(), 2, "{heard:#?}");
        assert!(heard.iter().any(|line| line.starts_with("DELE")), "{heard:#?}");
    }
}

#[test]
fn a_checksum_that_is_refused_or_never_comes_is_done_without() {
    type Lie = fn() -> Answer;
    let lies: [(Lie, &str); 4] = [
        (|| Answer::Say("502 not here\r\n".into()), "refused"),
        (|| Answer::Say("550 not this one\r\n".into()), "refused"),
        (|| Answer::Silence, "has not computed it"),
        (|| Answer::Say("250 ready\r\n".into()), "named no digest"),
    ];
    for (lie, why) in lies {
        let w = taking(500_000, lie);
        let text = w.ends(0, "cp --timeout 2s --verify up @/new");
        assert_eq!(text.matches("files are read instead").count(), 1, "{text}");
        assert!(text.contains(why) && text.contains("reread from the server"), "{text}");
        let heard = w.server.heard();
        assert!(heard.iter().any(|line| line.starts_with("RETR")) && heard.iter().any(|line| line == "RNTO /new"), "{heard:#?}");
    }
}
