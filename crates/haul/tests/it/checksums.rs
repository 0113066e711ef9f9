//! Checksums that servers compute, in place of their files being read: `check -c` and `--verify` over FTP.

use std::time::{Duration, UNIX_EPOCH};

use haul_test::content::bytes;
use haul_test::ftp_rogue::{Answer, FtpRogue};
use haul_test::ftpd::{FtpServer, netrc};
use haul_test::gridftpd::GridServer;
use haul_test::program::until;
use haul_test::scratch::Scratch;

/// Bytes of the file `src/big`, of a smaller one, and of small ones.
const SIZES: [(&str, usize); 5] = [("big", 3 << 20), ("d/middle", 400_000), ("d/small", 6_000), ("d/e/deep", 10), ("none", 0)];

fn filled() -> Scratch {
    let scratch = Scratch::new();
    for (n, (path, size)) in SIZES.into_iter().enumerate() {
        write_at(&scratch, &format!("src/{path}"), &bytes(n as u64, size));
    }
    scratch
}

fn write_at(scratch: &Scratch, path: &str, content: &[u8]) {
    scratch.write(path, content);
    scratch.set_time(path, UNIX_EPOCH + Duration::from_secs(1_500_000_000));
}

#[track_caller]
fn ends(scratch: &Scratch, url: &str, code: i32, words: &str) -> String {
    let words: Vec<String> = words.split(' ').map(|word| word.replacen('@', url, 1)).collect();
    let ended = scratch.haul(&words.join(" ")).ends(code);
    ended.out + &ended.err
}

#[test]
fn a_server_that_computes_checksums_is_not_asked_for_the_files() {
    let grid = GridServer::start(&["-d", "all"]).expect("globus-gridftp-server-progs is installed");
    let w = filled();
    let url = grid.url(&w.work);
    let text = ends(&w, &url, 0, "cp --verify --chunk-size 1M src/ @/there");
    assert!(text.contains("checksum computed by the server") && text.contains("5 files"), "{text}");
    ends(&w, &url, 0, "check -c src/ @/there");
    write_at(&w, "there/d/small", &bytes(77, 6_000));
    let mut damaged = bytes(0, 3 << 20);
    damaged[2_000_000] ^= 1;
    write_at(&w, "there/big", &damaged);
    let text = ends(&w, &url, 1, "check -c @/there/ src");
    assert!(text.contains("d/small") && text.contains("big") && !text.contains("d/middle"), "{text}");
    // Two servers that compute them read for both ends.
    let other = GridServer::start(&[]).expect("it is installed");
    let text = ends(&w, &url, 1, &format!("check -c @/there/ {}", other.url(w.path("src"))));
    assert!(text.contains("d/small") && text.contains("big") && !text.contains("d/middle"), "{text}");
    // What replaces a file is verified before it does.
    write_at(&w, "src/d/small", &bytes(78, 6_001));
    write_at(&w, "src/big", &bytes(79, (3 << 20) + 1));
    let text = ends(&w, &url, 0, "cp --verify src/ @/there");
    assert!(text.contains("checksum computed by the server") && text.contains("2 files"), "{text}");
    ends(&w, &url, 0, "check -c src/ @/there");
    // The log is written late.
    until("the last command in the log", || grid.log().matches("CKSM").count() >= 20);
    let log = grid.log();
    let asked: Vec<&str> = log.lines().filter(|line| line.contains("[CLIENT]: ")).collect();
    assert!(!asked.iter().any(|line| line.contains("RETR ") || line.contains("ERET ")), "{asked:#?}");
    assert!(asked.iter().all(|line| !line.contains("CKSM") || line.contains("CKSM SHA256 0 -1")), "{asked:#?}");
}

#[test]
fn proftpd_computes_them_too() {
    let server = FtpServer::proftpd("").expect("proftpd-core is installed");
    let w = filled();
    netrc(&w.home).expect("written");
    let url = server.url(&w.work);
    let text = ends(&w, &url, 0, "cp --verify src/ @/there");
    assert!(text.contains("checksum computed by the server"), "{text}");
    let text = ends(&w, &url, 0, "mv src/d/ @/moved");
    assert!(text.contains("checksum computed by the server") && !w.has("src/d/middle"), "{text}");
    ends(&w, &url, 0, "check -c @/moved/ there/d");
    write_at(&w, "there/d/middle", &bytes(7, 400_000));
    assert!(ends(&w, &url, 1, "check -c moved/ @/there/d").contains("middle"));
}

#[test]
fn without_the_command_files_are_read_back() {
    let server = FtpServer::vsftpd("").expect("ftp-servers.sh installs it");
    let w = filled();
    netrc(&w.home).expect("written");
    let text = ends(&w, &server.url(&w.work), 0, "cp --verify src/ @/there");
    assert!(text.contains("reread from the server") && !text.contains("checksum"), "{text}");
}

/// A server that takes files and answers `XSHA256` like this.
fn taking(content: Vec<u8>, checksum: impl Fn() -> Answer + Send + Sync + 'static) -> FtpRogue {
    let size = content.len();
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
    FtpRogue::new(content, lie).expect("a server")
}

#[test]
fn what_a_checksum_does_not_confirm_is_removed() {
    for size in [1_000, 500_000] {
        let w = Scratch::new();
        w.write("up", bytes(5, size));
        let server = taking(bytes(5, size), move || Answer::Say(format!("250 {}\r\n", "5a".repeat(32))));
        let text = ends(&w, &server.url(""), 23, "cp --verify up @/new");
        assert!(text.contains("another than that of the source") || text.contains("verif"), "{text}");
        let heard = server.heard();
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
        let w = Scratch::new();
        w.write("up", bytes(5, 500_000));
        let server = taking(bytes(5, 500_000), lie);
        let text = ends(&w, &server.url(""), 0, "cp --timeout 2s --verify up @/new");
        assert_eq!(text.matches("files are read instead").count(), 1, "{text}");
        assert!(text.contains(why) && text.contains("reread from the server"), "{text}");
        let heard = server.heard();
        assert!(heard.iter().any(|line| line.starts_with("RETR")) && heard.iter().any(|line| line == "RNTO /new"), "{heard:#?}");
    }
}
