//! FTP servers as sources and destinations: vsftpd, ProFTPD and pyftpdlib on loopback, and one that lies.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_test::content;
use haul_test::ftp_rogue::{Answer, FtpRogue};
use haul_test::ftpd::{FtpServer, PASSWORD, USER, netrc};
use haul_test::objects::certificate::Certificate;
use haul_test::pty::Terminal;
use haul_test::volume::{Kind, Volume};

/// Bytes of the file `big`.
const BIG: usize = 9 << 20;

/// A directory with a tree in it; `@` in commands stands for the same directory on the server.
struct World {
    place: tempfile::TempDir,
    url: String,
    server: Option<FtpServer>,
}

impl World {
    fn new(server: FtpServer) -> World {
        let place = tempfile::Builder::new().prefix("haul-ftp-").tempdir().expect("a temporary directory");
        netrc(place.path()).expect("written");
        let url = server.url(place.path());
        World { place, url, server: Some(server) }.filled()
    }

    fn vsftpd(lines: &str) -> World {
        World::new(FtpServer::vsftpd(lines).expect("vsftpd: ftp-servers.sh installs it"))
    }

    /// `@` is the root of a server that lies.
    fn of(rogue: &FtpRogue) -> World {
        let place = tempfile::Builder::new().prefix("haul-ftp-").tempdir().expect("a temporary directory");
        World { place, url: rogue.url(""), server: None }.filled()
    }

    fn filled(self) -> World {
        fs::create_dir_all(self.path("src/d/sub")).expect("made");
        fs::create_dir_all(self.path("src/empty dir")).expect("made");
        for (path, content) in
            [("src/d/a.txt", "hello\n"), ("src/d/b c é.txt", "x"), ("src/d/none", ""), ("src/d/sub/-deep", "deep"), ("src/.hid", "h")]
        {
            fs::write(self.path(path), content).expect("written");
            self.set_time(path, 1_500_000_000);
        }
        for n in 0..60 {
            fs::write(self.path(&format!("src/d/n{n}")), bytes(n, 100 * n as usize)).expect("written");
            self.set_time(&format!("src/d/n{n}"), 1_400_000_000 + n);
        }
        fs::write(self.path("src/big"), bytes(99, BIG)).expect("written");
        self.set_time("src/big", 1_300_000_000);
        self
    }

    fn set_time(&self, path: &str, seconds: u64) {
        let file = fs::File::options().append(true).open(self.path(path)).expect("opened");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).expect("set");
    }

    fn time(&self, path: &str) -> u64 {
        let time = self.path(path).metadata().and_then(|meta| meta.modified()).expect("a time");
        time.duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.place.path().join(path)
    }

    fn read(&self, path: &str) -> Vec<u8> {
        fs::read(self.path(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    fn server(&self) -> &FtpServer {
        self.server.as_ref().expect("a real one")
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
        command.env_clear().current_dir(self.place.path()).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", self.place.path());
        command.env("HAUL_STATE_DIR", self.path("state")).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        command.args(
            words
                .split(' ')
                .filter(|word| !word.is_empty())
                .map(|word| word.strip_prefix('@').map_or(word.to_string(), |path| format!("{}{path}", self.url))),
        );
        command
    }

    fn haul(&self, words: &str) -> Output {
        self.command(words).output().expect("the program runs")
    }

    /// Standard output and standard error.
    #[track_caller]
    fn ends(&self, code: i32, words: &str) -> String {
        let ran = self.haul(words);
        let text = shown(&ran);
        assert_eq!(ran.status.code(), Some(code), "haul {words}\n{text}");
        text
    }

    /// Runs until the K-th record of the journal, and is killed there.
    #[track_caller]
    fn killed(&self, record: u32, words: &str) {
        let ran = self.command(words).env("HAUL_TEST_KILL_AT_RECORD", record.to_string()).output().expect("the program runs");
        assert_eq!(ran.status.signal(), Some(9), "haul {words}\n{}", shown(&ran));
    }

    #[track_caller]
    fn same(&self, one: &str, other: &str) {
        let ran =
            Command::new("diff").args(["-r", "--no-dereference"]).arg(self.path(one)).arg(self.path(other)).output().expect("diff runs");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    }

    fn names(&self, dir: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path(dir))
            .expect("a directory")
            .map(|entry| entry.expect("a name").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

fn shown(ran: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
}

fn bytes(seed: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    content::fill(seed, 0, &mut bytes);
    bytes
}

/// Everything below a directory, as one text.
fn all_text(dir: &Path) -> String {
    let ran = Command::new("grep").args(["-ra", ""]).arg(dir).output().expect("grep runs");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

fn servers() -> [World; 3] {
    let installed = "ftp-servers.sh installs it, or it is proftpd-core";
    [World::vsftpd(""), World::new(FtpServer::proftpd("").expect(installed)), World::new(FtpServer::pyftpdlib("").expect(installed))]
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
        fs::write(w.path("src/d/n7"), "changed").expect("written");
        fs::remove_file(w.path("src/d/n8")).expect("removed");
        w.ends(0, "sync --delete --verify src/ @/there");
        w.same("src", "there");
        w.ends(0, "check -c src/ @/there");
        fs::write(w.path("there/d/a.txt"), "hellO\n").expect("written");
        w.set_time("there/d/a.txt", 1_500_000_000);
        assert!(w.ends(1, "check -c src/ @/there").contains("a.txt"));
    }
}

#[test]
fn commands_work_on_addresses() {
    for w in servers() {
        w.ends(0, "cp src/d/a.txt @/new.txt");
        assert_eq!(w.read("new.txt"), b"hello\n");
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
        assert_eq!(w.names("made"), ["b.txt", "x"]);
        w.ends(0, "mv @/made/b.txt here");
        assert_eq!((w.read("here"), w.names("made")), (b"hello\n".to_vec(), vec!["x".to_string()]));
        let text = w.ends(0, "sum --format sha256sum @/src/d/a.txt");
        assert!(text.contains("5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"), "{text}");
        w.ends(0, "rm -r @/made");
        assert!(!w.path("made").exists());
        assert!(w.ends(23, "cp @/nowhere x").contains("no such file or directory"));
    }
}

#[test]
fn an_interrupted_download_goes_on() {
    let w = World::vsftpd("");
    w.killed(8, "cp -j 1 --chunk-size 1M @/src/big copy");
    let before = w.server().log().len();
    w.ends(0, "cp -j 1 --chunk-size 1M @/src/big copy");
    assert!(w.read("copy") == w.read("src/big"));
    let log = w.server().log()[before..].to_string();
    let moved = moved(&log, "DOWNLOAD");
    assert!(moved > 0 && moved < BIG as u64, "{moved} bytes of {BIG}\n{log}");
    assert!(log.contains("\"REST "), "{log}");
}

/// Bytes of the transfers that were logged.
fn moved(log: &str, what: &str) -> u64 {
    let lines = log.lines().filter(|line| line.contains(&format!("OK {what}:")));
    lines.filter_map(|line| line.split(", ").find_map(|part| part.strip_suffix(" bytes")?.parse::<u64>().ok())).sum()
}

#[test]
fn an_interrupted_upload_goes_on() {
    let w = World::vsftpd("");
    w.killed(8, "cp -j 1 --chunk-size 1M src/big @/copy");
    // The server writes what it has before it sees that nobody is there any more.
    let is_logged = || w.server().log().contains(" UPLOAD:");
    let until = SystemTime::now() + Duration::from_secs(20);
    while !is_logged() && SystemTime::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = w.server().log().len();
    w.ends(0, "cp -j 1 --chunk-size 1M src/big @/copy");
    assert!(w.read("copy") == w.read("src/big"));
    let log = w.server().log()[before..].to_string();
    let moved = moved(&log, "UPLOAD");
    assert!(moved > 0 && moved < BIG as u64, "{moved} bytes of {BIG}\n{log}");
    assert_eq!(w.names("").iter().filter(|name| name.starts_with(".haul-")).count(), 0);
}

#[test]
fn a_server_that_allows_few_connections_is_enough() {
    for lines in ["max_per_ip=2", "max_clients=1"] {
        let w = World::vsftpd(lines);
        w.ends(0, "cp -j 8 src/ @/there");
        w.same("src", "there");
        w.ends(0, "cp -j 8 --chunk-size 1M @/there/ back");
        w.same("src", "back");
    }
}

#[test]
fn a_wrong_password_is_refused_and_no_output_has_one() {
    let w = World::vsftpd("");
    fs::write(w.path(".netrc"), format!("machine 127.0.0.1 login {USER} password hunter2\n")).expect("written");
    let text = w.ends(23, "cp @/src/d/a.txt got");
    assert!(text.contains("530") && text.contains("~/.netrc") && !text.contains("hunter2"), "{text}");
    fs::remove_file(w.path(".netrc")).expect("removed");
    // There is no terminal to ask at.
    let mut command = Command::new("setsid");
    let ran = command.arg("-w").arg(env!("CARGO_BIN_EXE_haul")).args(["cp", &format!("{}/src/d/a.txt", w.url), "got"]);
    let ran = ran
        .env_clear()
        .env("HOME", w.place.path())
        .env("HAUL_STATE_DIR", w.path("state"))
        .current_dir(w.place.path())
        .output()
        .expect("it runs");
    assert!(!ran.status.success() && shown(&ran).contains("no password is known"), "{}", shown(&ran));
    // One in the address works, with a warning.
    let secret = PASSWORD.replace(' ', "%20");
    let url = w.url.replace(&format!("{USER}@"), &format!("{USER}:{secret}@"));
    let mut command = w.command("cp -vv");
    let ran = command.args([format!("{url}/src/d/a.txt"), "got".into()]).output().expect("it runs");
    let text = shown(&ran);
    assert!(ran.status.success() && text.contains("other users of this machine"), "{text}");
    assert!(!text.contains(PASSWORD) && !text.contains(&secret), "{text}");
    assert_eq!(w.read("got"), b"hello\n");
    let state = all_text(&w.path("state"));
    assert!(!state.contains(PASSWORD) && !state.contains(&secret));
}

#[test]
fn encryption_is_verified_or_refused() {
    let place = tempfile::tempdir().expect("a directory");
    let made = Certificate::make(place.path()).expect("openssl makes a certificate");
    let ca = made.authority.display();
    for (lines, flag) in [("", ""), ("implicit_ssl=YES", "--ftp-tls implicit")] {
        let mut w = World::new(FtpServer::vsftpd_with_tls(&made, lines).expect("vsftpd"));
        w.url = w.url.replace("ftp://", "ftps://");
        let text = w.ends(23, &format!("cp {flag} @/src/d/a.txt got"));
        assert!(text.contains("not signed by a trusted authority") && text.contains("--ca-bundle"), "{text}");
        assert!(!w.server().log().contains("\"PASS"), "no password before the certificate");
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
    let w = World::new(FtpServer::proftpd(&tls).expect("proftpd"));
    w.ends(0, &format!("cp --ftp-tls explicit --ca-bundle {ca} src/ @/there"));
    w.same("src", "there");
    w.ends(0, &format!("cp --ftp-tls explicit --ca-bundle {ca} @/there/ back"));
    w.same("src", "back");
    // One that has TLS 1.3 only.
    let w = World::new(FtpServer::proftpd(&format!("{tls}TLSProtocol TLSv1.3\n")).expect("proftpd"));
    w.ends(0, &format!("cp --ftp-tls explicit --ca-bundle {ca} src/ @/there"));
    w.same("src", "there");
    // Without TLS nothing is said at all.
    let mut w = World::vsftpd("");
    w.url = w.url.replace("ftp://", "ftps://");
    let text = w.ends(23, "cp @/src/d/a.txt got");
    assert!(text.contains("does not offer TLS") && text.contains("nothing was sent in clear text"), "{text}");
    assert!(!w.server().log().contains("\"USER"), "{}", w.server().log());
}

#[test]
fn the_server_may_connect_to_this_host() {
    // pyftpdlib does not answer each EPRT.
    for w in [World::vsftpd(""), World::new(FtpServer::proftpd("").expect("proftpd-core is installed"))] {
        w.ends(0, "cp --ftp-active src/ @/there");
        w.same("src", "there");
        w.ends(0, "cp --ftp-active --chunk-size 1M @/there/ back");
        w.same("src", "back");
    }
}

#[test]
fn passive_connections_may_need_the_older_command() {
    let w = World::vsftpd("cmds_denied=EPSV,EPRT\npasv_address=10.1.2.3");
    w.ends(0, "cp src/ @/there");
    w.ends(0, "cp @/there/ back");
    w.same("src", "back");
    let w = World::vsftpd("pasv_enable=NO");
    let text = w.ends(23, "cp @/src/d/a.txt got");
    assert!(text.contains("--ftp-active"), "{text}");
}

#[test]
fn a_full_disk_is_reported() {
    let volume = Volume::new(&Kind::Tmpfs { inodes: None }, 4 << 20).expect("a volume of 4 MiB");
    // In the server's own mounts only if it starts after them.
    let w = World::vsftpd("");
    let url = w.server().url(volume.path());
    let ran = w.haul(&format!("cp src/big {url}/"));
    let text = shown(&ran);
    assert!(!ran.status.success() && text.contains("451 Failure writing to local file") && text.contains("disk may be full"), "{text}");
    assert!(!volume.path().join("big").exists());
    let w = World::new(FtpServer::proftpd("").expect("proftpd"));
    let text = shown(&w.haul(&format!("cp src/big {}/", w.server().url(volume.path()))));
    assert!(text.contains("No space left on device"), "{text}");
    assert!(!volume.path().join("big").exists());
}

#[test]
fn names_that_cannot_be_sent_are_refused() {
    let w = World::vsftpd("");
    fs::write(w.path("src/two\nlines"), "x").expect("written");
    let text = w.ends(23, "cp src/ @/there");
    assert!(text.contains("two\\nlines") && text.contains("line break"), "{text}");
    fs::remove_file(w.path("src/two\nlines")).expect("removed");
    w.same("src", "there");
}

fn rogue(content: &[u8], lie: impl Fn(&str) -> Answer + Send + Sync + 'static) -> (World, FtpRogue) {
    let rogue = FtpRogue::new(content.to_vec(), lie).expect("a server");
    (World::of(&rogue), rogue)
}

#[test]
fn a_connection_that_breaks_is_made_again() {
    let content = bytes(5, 3 << 20);
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").subsec_nanos() as usize;
    for reply in ["426 broken", "226 done", "451 disk", "421 bye"] {
        let at = seed % content.len();
        eprintln!("cut after {at} bytes, {reply}");
        let cuts = Mutex::new(vec![at, 0, at / 2]);
        let (w, server) = rogue(&content, move |line| match line.starts_with("RETR") {
            true => cuts.lock().expect("no panic").pop().map_or(Answer::Honest, |at| Answer::Cut(at, reply)),
            false => Answer::Honest,
        });
        w.ends(0, "cp @/file copy");
        assert!(w.read("copy") == content, "{:#?}", server.heard());
    }
}

#[test]
fn lies_end_in_errors() {
    let content = bytes(6, 100_000);
    let listing = |line: &'static str| {
        move |command: &str| match command {
            "LIST -a" => Answer::Send(line.as_bytes().to_vec()),
            _ => Answer::Honest,
        }
    };
    let say = |at: &'static str, said: &'static str| {
        move |command: &str| {
            if command.starts_with(at) && (at.is_empty() == command.is_empty()) { Answer::Say(said.into()) } else { Answer::Honest }
        }
    };
    for (lie, words, part) in [
        (
            Box::new(listing("-rw-r--r-- 1 0 0 1 Jan 01  2020 ../../out\r\n")) as Box<dyn Fn(&str) -> Answer + Send + Sync>,
            "cp @/dir/ got",
            "invalid name",
        ),
        (Box::new(listing("-rw-r--r-- 1 0 0 1 Jan 01  2020 /etc/x\r\n")), "cp @/dir/ got", "invalid name"),
        (Box::new(listing("README.TXT;1   12/30   1-JAN-2020 10:00\r\n")), "ls @/dir/", "unknown format: README.TXT;1"),
        (Box::new(say("", "SSH-2.0-OpenSSH_9\r\n")), "cp @/file got", "no FTP reply"),
        (Box::new(say("", "500 go away\r\n")), "cp @/file got", "500 go away"),
        (Box::new(say("EPSV", "229 none\r\n")), "cp --retries 0 @/file got", "named no port"),
        (Box::new(say("EPSV", "229 ok (|||1|)\r\n")), "cp --retries 0 @/file got", "port 1 of the server"),
        (Box::new(say("RETR", "150 x\r\n226 y\r\n")), "cp --retries 0 --timeout 2s @/file got", ""),
        (Box::new(say("USER", "331-\x1b[2J\r\n331-more\r\n")), "cp --timeout 2s @/file got", "did not answer in time"),
        (Box::new(say("SIZE", "213 99999999\r\n")), "cp --retries 0 @/file got", "too early"),
        (Box::new(say("SIZE", "213 7\r\n")), "cp --retries 0 @/file got", "longer than it was"),
        (Box::new(say("SIZE", "213 -1\r\n")), "cp @/file got", "no such file"),
    ] {
        let (w, server) = rogue(&content, lie);
        let ran = w.haul(words);
        let text = shown(&ran);
        assert!(!ran.status.success() && text.contains(part) && !text.contains('\x1b'), "{words}: {part}\n{text}\n{:#?}", server.heard());
        assert!(!w.path("got").is_file() && !w.path("../out").exists(), "{words}");
    }
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (w, _) = rogue(b"", |_| Answer::Honest);
    let text = w.ends(30, &format!("cp --timeout 2s ftp://127.0.0.1:{port}/x got"));
    assert!(text.contains("did not answer in time"), "{text}");
    let (w, _) = rogue(b"content", |line| if line.starts_with("RETR") { Answer::Silence } else { Answer::Honest });
    let text = shown(&w.haul("cp --timeout 2s --retries 0 @/file got"));
    assert!(text.contains("in time"), "{text}");
}

#[test]
fn servers_pass_files_to_each_other() {
    let foreign = "AllowForeignAddress on";
    let from = FtpServer::proftpd(foreign).expect("proftpd-core is installed");
    let w = World::vsftpd("");
    let there = w.server().url(w.path("there"));
    let src = from.url(w.path("src"));
    w.ends(0, &format!("cp {src}/ {there}"));
    w.same("src", "there");
    assert_eq!((w.time("there/big"), w.time("there/d/n7")), (1_300_000_000, 1_400_000_007));
    let log = w.server().log();
    let passed = log.lines().any(|line| line.contains("\"PASV") || line.contains("\"EPSV"));
    assert!(passed && log.contains(&format!("{BIG} bytes")), "{log}");
    // vsftpd is told to connect to ProFTPD.
    w.ends(0, &format!("cp {there}/big {}", from.url(w.path("back"))));
    assert!(w.read("back") == w.read("src/big"));
    assert!(w.server().log().contains("\"PORT 127,0,0,1,"), "{}", w.server().log());
    // What is verified is read here.
    w.ends(0, &format!("cp --verify {there}/big {}", from.url(w.path("again"))));
    assert!(w.read("again") == w.read("src/big"));
}

#[test]
fn servers_that_cannot_reach_each_other_pass_files_through_here() {
    let content = bytes(7, 1 << 20);
    let to = World::vsftpd("cmds_denied=PORT,EPRT");
    // The sender refuses to connect elsewhere, or finds that it cannot.
    to.ends(0, &format!("cp @/src/big {}", to.server().url(to.path("copy"))));
    assert!(to.read("copy") == to.read("src/big"));
    let refused = AtomicBool::new(false);
    let (w, server) = rogue(&content, move |line| match line.split(' ').next() {
        Some("PORT") => Answer::Say("200 ok\r\n".into()),
        Some("RETR") if !refused.swap(true, Ordering::Relaxed) => Answer::Say("425 Cannot open data connection\r\n".into()),
        _ => Answer::Honest,
    });
    let there = to.server().url(to.path("there"));
    to.ends(0, &format!("cp {}/file {there}", w.url));
    assert!(to.read("there") == content, "{:#?}", server.heard());
    assert!(server.heard().iter().any(|line| line.starts_with("PORT")), "{:#?}", server.heard());
    assert_eq!(to.names("").iter().filter(|name| name.starts_with(".haul-")).count(), 0);
    // A sender that ends too early, or says that it did.
    for reply in ["226 done", "426 broken"] {
        let (w, _) = rogue(&content, move |line| match line.split(' ').next() {
            Some("PORT") => Answer::Say("200 ok\r\n".into()),
            Some("RETR") => Answer::Say(format!("150 it comes\r\n{reply}\r\n")),
            _ => Answer::Honest,
        });
        let ran = to.haul(&format!("cp --retries 0 --timeout 4s {}/file {there}2", w.url));
        assert!(!ran.status.success() && !to.path("there2").exists(), "{}", shown(&ran));
    }
}

#[test]
fn a_server_may_have_an_address_of_ipv6() {
    let w = World::vsftpd("listen=NO\nlisten_ipv6=YES");
    fs::write(w.path(".netrc"), format!("machine ::1 login {USER} password \"{PASSWORD}\"\n")).expect("written");
    let url = |path: &str| w.server().url(w.path(path)).replace("127.0.0.1", "[::1]");
    w.ends(0, &format!("cp src/ {}", url("there")));
    w.same("src", "there");
    w.ends(0, &format!("cp --ftp-active --chunk-size 1M {}/ back", url("there")));
    w.same("src", "back");
    assert!(w.server().log().contains("\"EPRT |2|::1|"), "{}", w.server().log());
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
fn a_password_can_be_typed_and_is_not_shown() {
    let w = World::vsftpd("");
    fs::remove_file(w.path(".netrc")).expect("removed");
    let typed = |word: &str| {
        let mut terminal = Terminal::start(w.command("cp @/src/d/a.txt got")).expect("a terminal");
        terminal.expect("root@127.0.0.1's password: ", Duration::from_secs(60)).expect("it asks");
        terminal.send_line(word).expect("typed");
        let status = terminal.end(Duration::from_secs(60)).expect("it ends");
        (status.code(), terminal.screen())
    };
    let (code, screen) = typed("hunter2");
    assert!(code == Some(23) && screen.contains("530") && !screen.contains("hunter2"), "{screen}");
    let (code, screen) = typed(PASSWORD);
    assert!(code == Some(0) && !screen.contains(PASSWORD), "{screen}");
    assert_eq!(w.read("got"), b"hello\n");
}
