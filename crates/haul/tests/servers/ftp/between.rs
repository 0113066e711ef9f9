//! Copies between two servers.

use super::*;

#[test]
fn servers_pass_files_to_each_other() {
    let foreign = "AllowForeignAddress on";
    let from = FtpServer::proftpd(foreign).expect("proftpd-core is installed");
    let w = vsftpd("");
    let there = w.server.url(w.path("there"));
    let src = from.url(w.path("src"));
    w.ends(0, &format!("cp {src}/ {there}"));
    w.same("src", "there");
    assert_eq!((w.time("there/big"), w.time("there/d/n7")), (1_300_000_000, 1_400_000_007));
    let log = w.server.log();
    let passed = log.lines().any(|line| line.contains("\"PASV") || line.contains("\"EPSV"));
    assert!(passed && log.contains(&format!("{BIG} bytes")), "{log}");
    // vsftpd gets the request to connect to ProFTPD.
    w.ends(0, &format!("cp {there}/big {}", from.url(w.path("back"))));
    assert!(w.read("back") == w.read("src/big"));
    assert!(w.server.log().contains("\"PORT 127,0,0,1,"), "{}", w.server.log());
    // What is moved is read here, as its source is deleted.
    let before = w.server.log().len();
    w.ends(0, &format!("mv {there}/big {}", from.url(w.path("moved"))));
    assert!(w.read("moved") == w.read("src/big") && !w.has("there/big"));
    assert!(!w.server.log()[before..].contains("\"PORT"), "{}", w.server.log());
    w.write("there/big", w.read("src/big"));
    // And so is what is verified.
    w.ends(0, &format!("cp --verify {there}/big {}", from.url(w.path("again"))));
    assert!(w.read("again") == w.read("src/big"));
}

#[test]
fn what_servers_pass_to_each_other_is_verified_by_their_checksums() {
    let logs = Scratch::new();
    let server = |log: &str| {
        let lines = format!("AllowForeignAddress on\nLogFormat plain \"%r\"\nExtendedLog {} ALL plain", logs.path(log).display());
        FtpServer::proftpd(&lines)
    };
    let (w, to) = (world(server("from")), server("to").expect("proftpd-core is installed"));
    let text = w.ends(0, &format!("cp --verify @/src/big {}", to.url(w.path("copy"))));
    assert!(w.read("copy") == w.read("src/big") && text.contains("checksum computed by the server"), "{text}");
    let text = w.ends(0, &format!("mv @/copy {}", to.url(w.path("moved"))));
    assert!(w.read("moved") == w.read("src/big") && !w.has("copy"), "{text}");
    let (sent, taken) = (logs.sh("cat from"), logs.sh("cat to"));
    assert_eq!(sent.matches("PORT ").count(), 2, "{sent}");
    assert!(sent.contains("XSHA256") || sent.contains("HASH "), "{sent}");
    assert!(taken.contains("XSHA256") || taken.contains("HASH "), "{taken}");
    // A server that computes another checksum.
    let content = bytes(7, 1 << 20);
    w.assert_clean("");
    let (lying, _) = rogue(&content, move |line| match line.split(' ').next() {
        Some("FEAT") => Answer::Say("211-Features\r\n XSHA256\r\n SIZE\r\n MDTM\r\n REST STREAM\r\n211 End\r\n".into()),
        Some("XSHA256") => Answer::Say(format!("250 {}\r\n", "00".repeat(32))),
        _ => Answer::Honest,
    });
    let text = w.fails(&format!("cp --verify --retries 0 {}/file {}", lying.url, to.url(w.path("wrong"))));
    assert!(!w.has("wrong"), "{text}");
    w.assert_clean("");
}

#[test]
fn an_interrupted_copy_between_servers_goes_on() {
    let to = FtpServer::proftpd("AllowForeignAddress on").expect("proftpd-core is installed");
    // Slowly enough to be killed on the way.
    let w = vsftpd("local_max_rate=2000000");
    let words = format!("cp @/src/big {}", to.url(w.path("copy")));
    let mut run = w.haul(&words).start();
    let arrived = || w.staging("").first().and_then(|path| path.metadata().ok()).map_or(0, |meta| meta.len());
    run.until("a part of the file", || arrived() > 2 << 20);
    run.signal(Signal::KILL);
    assert!(run.wait().was_killed());
    until("the end of the transfer in the log", || w.server.log().contains(" DOWNLOAD:"));
    let (before, had) = (w.server.log().len(), arrived());
    w.ends(0, &words);
    assert!(w.read("copy") == w.read("src/big"));
    let log = w.server.log()[before..].to_string();
    let moved = moved(&log, "DOWNLOAD");
    assert!(moved > 0 && moved <= BIG as u64 - had, "{moved} bytes of {BIG}, of which {had} had arrived\n{log}");
    w.assert_clean("");
    // What a run leaves that is not repeated is removed with its job.
    let words = words.replace("copy", "other");
    let mut run = w.haul(&words).start();
    run.until("a part of the file", || arrived() > 1 << 20);
    run.signal(Signal::KILL);
    assert!(run.wait().was_killed());
    w.ends(0, "jobs clean");
    w.assert_clean("");
}

#[test]
#[ignore = "full"]
fn servers_that_cannot_reach_each_other_pass_files_through_here() {
    let content = bytes(7, 1 << 20);
    let to = vsftpd("cmds_denied=PORT,EPRT");
    // The sender refuses to connect elsewhere, or finds that it cannot.
    to.ends(0, &format!("cp @/src/big {}", to.server.url(to.path("copy"))));
    assert!(to.read("copy") == to.read("src/big"));
    // What has arrived of a file stays when a second attempt is refused, too.
    let resumed = format!("cp -j 1 --chunk-size 1M @/src/big {}", to.server.url(to.path("resumed")));
    assert!(to.haul(&resumed).killed_at(8).run().was_killed());
    assert!(to.ends(0, &resumed).contains("Resumed:"));
    assert!(to.read("resumed") == to.read("src/big"));
    let refused = AtomicBool::new(false);
    let (w, server) = rogue(&content, move |line| match line.split(' ').next() {
        Some("PORT") => Answer::Say("200 ok\r\n".into()),
        Some("RETR") if !refused.swap(true, Ordering::Relaxed) => Answer::Say("425 Cannot open data connection\r\n".into()),
        _ => Answer::Honest,
    });
    let there = to.server.url(to.path("there"));
    to.ends(0, &format!("cp {}/file {there}", w.url));
    assert!(to.read("there") == content, "{:#?}", server.heard());
    assert!(server.heard().iter().any(|line| line.starts_with("PORT")), "{:#?}", server.heard());
    to.assert_clean("");
    // A sender that ends too early, or says that it did.
    for reply in ["226 done", "426 broken"] {
        let (w, _) = rogue(&content, move |line| match line.split(' ').next() {
            Some("PORT") => Answer::Say("200 ok\r\n".into()),
            Some("RETR") => Answer::Say(format!("150 it comes\r\n{reply}\r\n")),
            _ => Answer::Honest,
        });
        let text = to.fails(&format!("cp --retries 0 --timeout 4s {}/file {there}2", w.url));
        assert!(!to.has("there2"), "{text}");
    }
}
