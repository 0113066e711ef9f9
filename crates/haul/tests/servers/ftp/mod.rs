//! FTP servers as sources and destinations: vsftpd, ProFTPD and pyftpdlib on loopback, and one that lies.

mod between;
mod lies;
mod proof;
mod resume;

use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_test::content::bytes;
use haul_test::ftp_rogue::{Answer, FtpRogue};
use haul_test::ftpd::{FtpServer, PASSWORD, USER, netrc};
use haul_test::objects::certificate::Certificate;
use haul_test::program::until;
use haul_test::pty::Terminal;
use haul_test::scratch::Scratch;
use haul_test::volume::Volume;
use haul_test::world::Served;
use rustix::process::Signal;

const BIG: usize = World::BIG;

/// `@` is the working directory at a server.
type World = Served<FtpServer>;

fn world(server: std::io::Result<FtpServer>) -> World {
    let server = server.expect("ftp-servers.sh installs it, or it is proftpd-core");
    let scratch = Scratch::new();
    netrc(&scratch.home).expect("written");
    let url = server.url(&scratch.work);
    let w = World::new(scratch, server, url).filled(60);
    w.rename("src/d/b c.txt", "src/d/b c é.txt");
    w
}

fn vsftpd(lines: &str) -> World {
    world(FtpServer::vsftpd(lines))
}

fn servers() -> [World; 3] {
    [vsftpd(""), world(FtpServer::proftpd("")), world(FtpServer::pyftpdlib(""))]
}

/// Bytes of the transfers that were logged.
fn moved(log: &str, what: &str) -> u64 {
    let lines = log.lines().filter(|line| line.contains(&format!("OK {what}:")));
    lines.filter_map(|line| line.split(", ").find_map(|part| part.strip_suffix(" bytes")?.parse::<u64>().ok())).sum()
}

/// The places from which on transfers were asked for.
fn places(log: &str) -> Vec<u64> {
    log.split("\"REST ").skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok()).collect()
}

/// With a file of 80 MiB: a copy that is slow enough for the server to be tried meanwhile, on a busy machine at a lower rate.
fn slow_upload(w: &World, rate: &str) -> String {
    w.sh("[ -e huge ] || head -c 83886080 /dev/urandom > huge");
    format!("cp --bwlimit {rate} --chunk-size 4M huge @/copy")
}

/// A server that lies, whose root `@` is.
fn rogue(content: &[u8], lie: impl Fn(&str) -> Answer + Send + Sync + 'static) -> (Served<()>, FtpRogue) {
    let rogue = FtpRogue::new(content.to_vec(), lie).expect("a server");
    (Served::new(Scratch::new(), (), rogue.url("")).filled(1), rogue)
}

#[test]
fn trees_go_both_ways() {
    for w in servers() {
        w.ends(0, "cp src/ @/there");
        w.same("src", "there");
        assert_eq!((w.time("there/d/n7"), w.time("there/big"), w.time("there/.hid")), (1_400_000_007, 1_300_000_000, 1_500_000_000));
        w.ends(0, "cp @/there/ back");
        w.same("src", "back");
        assert_eq!((w.time("back/d/n7"), w.time("back/big")), (1_400_000_007, 1_300_000_000));
        // Nothing moves the second time, and what differs does.
        let text = w.ends(0, "cp src/ @/there");
        assert!(text.contains("66 files") && text.contains("nothing to transfer"), "{text}");
        let text = w.ends(0, "sync --delete @/there/ back");
        assert!(text.contains("nothing to transfer"), "{text}");
        w.write("src/d/n7", "changed");
        w.remove("src/d/n8");
        w.ends(0, "sync --delete --verify src/ @/there");
        w.same("src", "there");
        w.ends(0, "check -c src/ @/there");
        w.write_at("there/d/a.txt", "hellO\n", 1_500_000_000);
        assert!(w.ends(1, "check -c src/ @/there").contains("a.txt"));
    }
}

#[test]
#[ignore = "full"]
fn commands_work_on_addresses() {
    for w in servers() {
        w.ends(0, "cp src/d/a.txt @/new.txt");
        assert_eq!(w.read("new.txt"), b"hello\n");
        assert!(w.ends(1, "cp --link-dest=../src src/ @/linked").contains("server has no hard links"));
        assert!(!w.path("linked").exists(), "it was refused, but made");
        w.ends(0, "mkdir @/made");
        w.ends(0, "mkdir -p @/made/x/y");
        w.ends(0, "cp @/src/d/a.txt @/made/");
        assert_eq!(w.read("made/a.txt"), b"hello\n");
        assert_eq!(w.ends(0, "cat @/made/a.txt"), "hello\n");
        assert_eq!(w.ends(0, "ls @/made/"), "a.txt\nx/\n");
        let text = w.ends(0, "ls -l @/src/d/a.txt");
        assert!(text.contains("2017-07-14") && text.contains(" 6 "), "{text}");
        assert!(w.ends(0, "du @/src").contains("66 files"));
        assert!(w.ends(0, "tree @/made").contains("a.txt"));
        w.ends(0, "mv @/made/a.txt @/made/b.txt");
        assert_eq!(w.entries("made"), ["b.txt", "x"]);
        w.ends(0, "mv @/made/b.txt here");
        assert_eq!((w.read("here"), w.entries("made")), (b"hello\n".to_vec(), vec!["x".to_string()]));
        let text = w.ends(0, "sum --format sha256sum @/src/d/a.txt");
        assert!(text.contains("5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"), "{text}");
        w.ends(0, "rm -r @/made");
        assert!(!w.has("made"));
        assert!(w.ends(23, "cp @/nowhere x").contains("no such file or directory"));
    }
}

#[test]
#[ignore = "full"]
fn servers_that_write_no_ranges_get_files_in_order() {
    // It locks files that are being written.
    let w = vsftpd("");
    w.ends(0, &slow_upload(&w, "25M"));
    w.sh("cmp huge copy");
    assert!(places(&w.server.log()).iter().all(|at| *at < 5), "{}", w.server.log());
    w.assert_clean("");
    // It refuses what is behind the end of a file; the other one writes it at the end, and says that all is well.
    let appends = "real = handler.ftp_STOR\ndef stor(self, file, mode='w'):\n    if self._restart_position:\n        \
                   self._restart_position, mode = 0, 'a'\n    return real(self, file, mode)\nhandler.ftp_STOR = stor\n";
    for lines in ["", appends] {
        let w = world(FtpServer::pyftpdlib(lines));
        w.ends(0, &slow_upload(&w, "25M"));
        w.sh("cmp huge copy");
        w.assert_clean("");
    }
}

#[test]
#[ignore = "full"]
fn a_server_that_allows_few_connections_is_enough() {
    for lines in ["max_per_ip=2", "max_clients=1"] {
        let w = vsftpd(lines);
        w.ends(0, "cp -j 8 src/ @/there");
        w.same("src", "there");
        w.ends(0, "cp -j 8 --chunk-size 1M @/there/ back");
        w.same("src", "back");
    }
}

#[test]
fn a_wrong_password_is_refused_and_no_output_has_one() {
    let w = vsftpd("");
    w.write(w.home.join(".netrc"), format!("machine 127.0.0.1 login {USER} password hunter2\n"));
    let text = w.ends(10, "cp @/src/d/a.txt got");
    assert!(text.contains("530") && text.contains("~/.netrc") && !text.contains("hunter2"), "{text}");
    w.remove(w.home.join(".netrc"));
    // There is no terminal to ask at.
    w.haul("cp @/src/d/a.txt got").alone().ends(10).says("no password is known");
    // One in the address works, with a warning.
    let secret = PASSWORD.replace(' ', "%20");
    let url = w.url.replace(&format!("{USER}@"), &format!("{USER}:{secret}@"));
    let text = w.ends(0, &format!("cp -vv {url}/src/d/a.txt got"));
    assert!(text.contains("other users of this machine"), "{text}");
    assert!(!text.contains(PASSWORD) && !text.contains(&secret), "{text}");
    assert_eq!(w.read("got"), b"hello\n");
    let state = w.all_text(&w.state);
    assert!(!state.contains(PASSWORD) && !state.contains(&secret));
}

#[test]
fn encryption_is_verified_or_refused() {
    let place = tempfile::tempdir().expect("a directory");
    let made = Certificate::make(place.path()).expect("openssl makes a certificate");
    let ca = made.authority.display();
    for (lines, flag) in [("", ""), ("implicit_ssl=YES", "--ftp-tls implicit")] {
        let mut w = world(FtpServer::vsftpd_with_tls(&made, lines));
        w.url = w.url.replace("ftp://", "ftps://");
        let text = w.ends(23, &format!("cp {flag} @/src/d/a.txt got"));
        assert!(text.contains("not signed by a trusted authority") && text.contains("--ca-bundle"), "{text}");
        assert!(!w.server.log().contains("\"PASS"), "no password before the certificate");
        w.ends(0, &format!("cp {flag} --ca-bundle {ca} src/ @/there"));
        w.same("src", "there");
        w.ends(0, &format!("cp {flag} --ca-bundle {ca} -j 4 --chunk-size 1M @/there/ back"));
        w.same("src", "back");
        let text = w.ends(0, &format!("cp {flag} --no-verify-ssl @/src/d/a.txt got"));
        assert!(text.contains("WARNING: --no-verify-ssl"), "{text}");
    }
    let tls = format!(
        "LoadModule mod_tls.c\nTLSEngine on\nTLSRequired on\nTLSRSACertificateFile {0}\nTLSECCertificateFile {0}\n",
        made.certificate.display()
    );
    let tls =
        tls.replace("TLSRSACertificateFile", "# TLSRSACertificateFile") + &format!("TLSECCertificateKeyFile {}\n", made.key.display());
    let w = world(FtpServer::proftpd(&tls));
    w.ends(0, &format!("cp --ftp-tls explicit --ca-bundle {ca} src/ @/there"));
    w.same("src", "there");
    w.ends(0, &format!("cp --ftp-tls explicit --ca-bundle {ca} @/there/ back"));
    w.same("src", "back");
    // One that has TLS 1.3 only.
    let w = world(FtpServer::proftpd(&format!("{tls}TLSProtocol TLSv1.3\n")));
    w.ends(0, &format!("cp --ftp-tls explicit --ca-bundle {ca} src/ @/there"));
    w.same("src", "there");
    // Without TLS nothing is said at all.
    let mut w = vsftpd("");
    w.url = w.url.replace("ftp://", "ftps://");
    let text = w.ends(10, "cp @/src/d/a.txt got");
    assert!(text.contains("does not offer TLS") && text.contains("nothing was sent in clear text"), "{text}");
    assert!(!w.server.log().contains("\"USER"), "{}", w.server.log());
}

#[test]
fn the_server_may_connect_to_this_host() {
    // pyftpdlib does not answer each EPRT.
    for w in [vsftpd(""), world(FtpServer::proftpd(""))] {
        w.ends(0, "cp --ftp-active src/ @/there");
        w.same("src", "there");
        w.ends(0, "cp --ftp-active --chunk-size 1M @/there/ back");
        w.same("src", "back");
    }
}

#[test]
#[ignore = "full"]
fn passive_connections_may_need_the_older_command() {
    let w = vsftpd("cmds_denied=EPSV,EPRT\npasv_address=10.1.2.3");
    w.ends(0, "cp src/ @/there");
    w.ends(0, "cp @/there/ back");
    w.same("src", "back");
    let w = vsftpd("pasv_enable=NO");
    let text = w.ends(23, "cp @/src/d/a.txt got");
    assert!(text.contains("--ftp-active"), "{text}");
}

#[test]
#[ignore = "full"]
fn a_full_disk_is_reported() {
    let volume = Volume::tmpfs(4 << 20).expect("a volume of 4 MiB");
    // In the server's own mounts only if it starts after them.
    let w = vsftpd("");
    let url = w.server.url(volume.path());
    let text = w.ends(11, &format!("cp src/big {url}/"));
    assert!(
        text.contains("451 Failure writing to local file") && text.contains("disk may be full") && !text.contains("0 B free"),
        "{text}"
    );
    assert!(!volume.path().join("big").exists());
    let w = world(FtpServer::proftpd(""));
    let text = w.ends(11, &format!("cp src/big {}/", w.server.url(volume.path())));
    assert!(text.contains("No space left on device"), "{text}");
    assert!(!volume.path().join("big").exists());
}

#[test]
#[ignore = "full"]
fn a_file_that_the_server_refuses_does_not_stop_the_others() {
    let w = vsftpd("deny_file={*.no}");
    w.write("src/d/x.no", "refused");
    let text = w.ends(23, "cp src/ @/there");
    assert!(text.contains("x.no") && text.contains("550"), "{text}");
    let text = w.ends(23, "cp @/src/ back");
    assert!(text.contains("x.no") && text.contains("550"), "{text}");
    w.remove("src/d/x.no");
    w.same("src", "there");
    w.same("src", "back");
}

#[test]
fn what_ends_an_upload_is_the_servers_word() {
    for (reply, part) in
        [("452 x: No space left on device", "No space left"), ("552 over quota", "552 over quota"), ("426 broken", "426 broken")]
    {
        let (w, server) = rogue(b"", move |line| if line.starts_with("STOR") { Answer::Take(reply) } else { Answer::Honest });
        let text = w.fails("cp --retries 0 src/big @/dir/");
        assert!(text.contains(part), "{text}\n{:#?}", server.heard());
    }
}

#[test]
fn names_that_cannot_be_sent_are_refused() {
    let w = vsftpd("");
    w.write("src/two\nlines", "x");
    let text = w.ends(23, "cp src/ @/there");
    assert!(text.contains("two\\nlines") && text.contains("line break"), "{text}");
    w.remove("src/two\nlines");
    w.same("src", "there");
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (w, _) = rogue(b"", |_| Answer::Honest);
    let text = w.ends(30, &format!("cp --timeout 2s ftp://127.0.0.1:{port}/x got"));
    assert!(text.contains("did not answer in time"), "{text}");
    let (w, _) = rogue(b"content", |line| if line.starts_with("RETR") { Answer::Silence } else { Answer::Honest });
    let text = w.fails("cp --timeout 2s --retries 0 @/file got");
    assert!(text.contains("in time"), "{text}");
}

#[test]
fn a_server_may_have_an_address_of_ipv6() {
    let w = vsftpd("listen=NO\nlisten_ipv6=YES");
    w.write(w.home.join(".netrc"), format!("machine ::1 login {USER} password \"{PASSWORD}\"\n"));
    let url = |path: &str| w.server.url(w.path(path)).replace("127.0.0.1", "[::1]");
    w.ends(0, &format!("cp src/ {}", url("there")));
    w.same("src", "there");
    w.ends(0, &format!("cp --ftp-active --chunk-size 1M {}/ back", url("there")));
    w.same("src", "back");
    assert!(w.server.log().contains("\"EPRT |2|::1|"), "{}", w.server.log());
}

#[test]
fn a_refusal_after_the_first_login_means_that_there_are_too_many() {
    let content = bytes(8, 1 << 20);
    let logins = AtomicUsize::new(0);
    let (w, server) = rogue(&content, move |line| match line.starts_with("PASS") && logins.fetch_add(1, Ordering::Relaxed) > 0 {
        true => Answer::Say("530 Sorry, the maximum number of clients (1) is connected\r\n".into()),
        false => Answer::Honest,
    });
    w.ends(0, "cp -j 4 --chunk-size 64K @/file copy");
    assert!(w.read("copy") == content, "{:#?}", server.heard());
    assert!(server.heard().iter().filter(|line| line.starts_with("PASS")).count() > 1, "{:#?}", server.heard());
}

#[test]
#[ignore = "full"]
fn a_password_can_be_typed_and_is_not_shown() {
    let w = vsftpd("");
    w.remove(w.home.join(".netrc"));
    let typed = |word: &str| {
        let mut terminal = Terminal::start(w.haul("cp @/src/d/a.txt got").command()).expect("a terminal");
        terminal.expect("root@127.0.0.1's password: ", Duration::from_secs(60)).expect("it asks");
        terminal.send_line(word).expect("typed");
        let status = terminal.end(Duration::from_secs(60)).expect("it ends");
        (status.code(), terminal.screen())
    };
    let (code, screen) = typed("hunter2");
    assert!(code == Some(10) && screen.contains("530") && !screen.contains("hunter2"), "{screen}");
    let (code, screen) = typed(PASSWORD);
    assert!(code == Some(0) && !screen.contains(PASSWORD), "{screen}");
    assert_eq!(w.read("got"), b"hello\n");
}

#[test]
#[ignore = "full"]
fn the_doctor_tells_what_a_server_can_do() {
    let w = vsftpd("max_per_ip=3");
    let text = w.ends(0, "doctor @/");
    for part in ["works, by FTP", "as root", "sent in clear text", "listings in text (LIST)", "resumes uploads", "3 at the same time"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let w = vsftpd("pasv_enable=NO");
    let ended = w.haul("doctor --json @/").ends(0);
    let host = &ended.events()[0]["hosts"][0];
    assert!(host["ftp"]["data_error"].as_str().is_some_and(|why| !why.is_empty()), "{ended}");
    assert!(host["advice"][0].as_str().is_some_and(|next| next.contains("--ftp-active")), "{ended}");
    w.write(w.home.join(".netrc"), format!("machine 127.0.0.1 login {USER} password wrong\n"));
    assert!(w.fails("doctor @/").contains("530"));
}

#[test]
fn the_network_is_measured_with_files_that_are_removed() {
    let w = vsftpd("");
    w.sh("mkdir dir");
    let ended = w.haul("bench net --json --streams 2 --seconds 1 --repeat 1 --out run @/dir").ends(0);
    let points = ended.events()[0]["points"].as_array().expect("a list").clone();
    for direction in ["out", "in"] {
        let point = points.iter().find(|point| point["factors"]["direction"] == direction).expect("it was measured");
        assert!(point["bytes_per_second"]["median"].as_f64().is_some_and(|rate| rate > 0.0), "{ended}");
        assert!(point["more"]["route"] == "ftp", "{ended}");
    }
    assert_eq!(std::fs::read_dir(w.path("dir")).expect("it is there").count(), 0);
    let log = w.server.log();
    assert!(log.matches("\"DELE ").count() == 4 && log.contains("\"RETR "), "{log}");
    // vsftpd gives no devices, and says of a directory that is not there that it cannot write to it.
    let whole = w.url.clone();
    let server = &whole[..whole.rfind(&w.work.display().to_string()).expect("the path")];
    let text = w.fails(&format!("bench net {server}"));
    assert!(text.contains("/dev/null") && text.contains("name a directory"), "{text}");
    let text = w.fails("bench net --direction out @/nowhere");
    assert!(text.contains("553"), "{text}");
    assert!(w.fails("bench net --small @/dir").contains("omit --small"));
}
