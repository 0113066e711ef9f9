//! GridFTP servers with certificates as sources and destinations: Globus's server on loopback, beside Globus's own client, and servers
//! that lie.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, UNIX_EPOCH};

use haul_test::content;
use haul_test::ftp_rogue::{Answer, FtpRogue};
use haul_test::gsiftpd::{Authority, GsiServer, Valid};
use haul_test::program::until;

/// Bytes of the file `big`.
const BIG: usize = 9 << 20;

/// A directory with a tree, a server and an authority; `@` in commands stands for the directory on the server.
struct World {
    place: tempfile::TempDir,
    authority: Authority,
    server: GsiServer,
    url: String,
}

impl World {
    fn new() -> World {
        World::with("host")
    }

    /// With this certificate of the server's.
    fn with(host: &str) -> World {
        let place = tempfile::Builder::new().prefix("haul-gridftp-").tempdir().expect("a temporary directory");
        let authority = Authority::make(&place.path().join("authority")).expect("openssl makes certificates");
        authority.proxy("proxy", "user", Valid::LONG).expect("a proxy");
        if host == "other" {
            authority.sign(host, "other.example.org", "subjectAltName=DNS:other.example.org\n", Valid::LONG).expect("signed");
        }
        if host == "unnamed" {
            authority.sign(host, "host\\/localhost", "basicConstraints=CA:FALSE\n", Valid::LONG).expect("signed");
        }
        let server = GsiServer::start(&authority, host, &[]).expect("globus-gridftp-server-progs is installed");
        let url = server.url(place.path());
        World { place, authority, server, url }.filled()
    }

    fn filled(self) -> World {
        fs::create_dir_all(self.path("src/d/sub")).expect("made");
        fs::create_dir_all(self.path("src/empty dir")).expect("made");
        for (path, content) in [("src/d/a.txt", "hello\n"), ("src/d/b c é.txt", "x"), ("src/d/none", ""), ("src/d/sub/-deep", "deep")] {
            fs::write(self.path(path), content).expect("written");
        }
        for n in 0..12 {
            fs::write(self.path(&format!("src/d/n{n}")), bytes(n, 1000 * n as usize)).expect("written");
            let file = fs::File::options().append(true).open(self.path(&format!("src/d/n{n}"))).expect("opened");
            file.set_modified(UNIX_EPOCH + Duration::from_secs(1_400_000_000 + n)).expect("set");
        }
        fs::write(self.path("src/big"), bytes(99, BIG)).expect("written");
        self
    }

    fn path(&self, path: &str) -> PathBuf {
        self.place.path().join(path)
    }

    fn read(&self, path: &str) -> Vec<u8> {
        fs::read(self.path(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    /// A program with the credential and the authorities of the test.
    fn program(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().current_dir(self.place.path()).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", self.place.path());
        command.env("X509_CERT_DIR", self.authority.trusted()).env("X509_USER_PROXY", self.authority.path("proxy.pem"));
        command.env("HAUL_STATE_DIR", self.path("state")).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        command
    }

    fn command(&self, words: &str) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_haul"));
        let at = |word: &str| word.strip_prefix('@').map_or(word.to_string(), |path| format!("{}{path}", self.url));
        command.args(words.split(' ').filter(|word| !word.is_empty()).map(at));
        command
    }

    /// Standard output and standard error.
    #[track_caller]
    fn ends(&self, code: i32, words: &str) -> String {
        ended(self.command(words), code)
    }

    #[track_caller]
    fn killed(&self, record: u32, words: &str) {
        let ran = self.command(words).env("HAUL_TEST_KILL_AT_RECORD", record.to_string()).output().expect("the program runs");
        assert_eq!(ran.status.signal(), Some(9), "haul {words}\n{}", shown(&ran));
    }

    #[track_caller]
    fn same(&self, one: &str, other: &str) {
        ended(self.program("diff").args(["-r", "--no-dereference", one, other]), 0);
    }
}

#[track_caller]
fn ended(mut command: impl std::borrow::BorrowMut<Command>, code: i32) -> String {
    let command = command.borrow_mut();
    let ran = command.output().expect("the program runs");
    let text = shown(&ran);
    assert_eq!(ran.status.code(), Some(code), "{command:?}\n{text}");
    text
}

fn shown(ran: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
}

fn bytes(seed: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    content::fill(seed, 0, &mut bytes);
    bytes
}

#[test]
#[ignore = "full"]
fn trees_go_both_ways_however_data_are_protected() {
    let mut w = World::new();
    for (flag, asked) in [("", "PROT C"), ("--dcpriv", "PROT P"), ("-dcsafe", "PROT P"), ("--no-dcau", "DCAU N")] {
        // With a log of its own.
        w.server = GsiServer::start(&w.authority, "host", &[]).expect("it is installed");
        w.url = w.server.url(w.place.path());
        for old in ["there", "back"] {
            let _ = fs::remove_dir_all(w.path(old));
        }
        w.ends(0, &format!("cp {flag} src/ @/there"));
        w.same("src", "there");
        w.ends(0, &format!("cp {flag} --chunk-size 1M -j 4 @/there/ back"));
        w.same("src", "back");
        let time = |path: &str| w.path(path).metadata().and_then(|meta| meta.modified()).expect("a time");
        assert_eq!(time("back/d/n7"), UNIX_EPOCH + Duration::from_secs(1_400_000_007));
        // It writes it late.
        until("how data are protected in the log", || w.server.log().contains(asked));
        assert_eq!(w.server.log().contains("DCAU A"), flag != "--no-dcau", "{flag}");
        // Nothing moves the second time, and what differs does.
        let text = w.ends(0, &format!("cp {flag} src/ @/there"));
        assert!(text.contains("nothing to transfer"), "{text}");
        fs::write(w.path("there/d/n7"), "changed").expect("written");
        fs::write(w.path("there/d/more"), "more").expect("written");
        w.ends(1, &format!("check {flag} src/ @/there"));
        w.ends(0, &format!("sync {flag} --delete --verify src/ @/there"));
        w.same("src", "there");
        w.ends(0, &format!("check {flag} -c src/ @/there"));
    }
}

#[test]
#[ignore = "full"]
fn commands_work_on_addresses() {
    let w = World::new();
    w.ends(0, "cp src/d/a.txt @/new.txt");
    assert_eq!(w.ends(0, "cat @/new.txt"), "hello\n");
    w.ends(0, "mkdir -p @/made/x/y");
    w.ends(0, "cp @/new.txt @/made/");
    assert_eq!(w.ends(0, "ls @/made/"), "a.txt\nx/\n".replace("a.txt", "new.txt"));
    w.ends(0, "mv @/made/new.txt @/made/b.txt");
    assert_eq!(w.read("made/b.txt"), b"hello\n");
    // What is behind a link stays.
    std::os::unix::fs::symlink("../../src", w.path("made/x/link")).expect("a link");
    w.ends(0, "cp -a @/made/ copy");
    assert_eq!(fs::read_link(w.path("copy/x/link")).expect("a link"), w.path("src"));
    w.ends(0, "rm -r @/made");
    assert!(!w.path("made").exists() && w.path("src/big").exists());
    assert!(w.ends(23, "cp @/none got").contains("no such file or directory"));
}

#[test]
#[ignore = "full"]
fn the_client_of_globus_reads_and_writes_the_same() {
    let w = World::new();
    let globus = |words: [&str; 3]| {
        let local = |word: &str| {
            word.strip_prefix('@').map_or(format!("file://{}/{word}", w.place.path().display()), |path| format!("{}/{path}", w.url))
        };
        ended(w.program("globus-url-copy").args(["-cd", "-r", words[0]]).args([local(words[1]), local(words[2])]), 0)
    };
    // It escapes what is in names, which are plain here.
    fs::rename(w.path("src/d/b c é.txt"), w.path("src/d/bc.txt")).expect("renamed");
    fs::rename(w.path("src/empty dir"), w.path("src/empty")).expect("renamed");
    globus(["-q", "src/", "@/theirs/"]);
    w.ends(0, "check -c src/ @/theirs");
    w.ends(0, "cp --dcpriv @/theirs/ back");
    w.same("src", "back");
    w.ends(0, "cp src/ @/ours");
    for protection in ["-q", "-dcpriv"] {
        let _ = fs::remove_dir_all(w.path("got"));
        globus([protection, "@/ours/", "got/"]);
        w.same("src", "got");
    }
}

#[test]
#[ignore = "full"]
fn interrupted_transfers_go_on() {
    let w = World::new();
    for (from, to, copy) in [("src/big", "@/up", "up"), ("@/src/big", "down", "down")] {
        w.killed(8, &format!("cp -j 1 --chunk-size 1M {from} {to}"));
        let text = w.ends(0, &format!("cp -j 1 --chunk-size 1M {from} {to}"));
        assert!(w.read(copy) == w.read("src/big"));
        assert!(text.contains("Resumed") || text.contains("resumed"), "{text}");
    }
    let left = fs::read_dir(w.place.path())
        .expect("a directory")
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b".haul-"));
    assert_eq!(left.count(), 0);
}

#[test]
#[ignore = "full"]
fn credentials_that_cannot_be_used_are_explained() {
    let w = World::new();
    let make = |name: &str, valid| w.authority.proxy(name, "user", valid).expect("a proxy");
    let run = |code: i32, name: &str, value: &std::path::Path| ended(w.command("cp @/src/d/a.txt got").env(name, value), code);
    let text = run(23, "X509_USER_PROXY", &make("past", Valid::PAST));
    assert!(
        text.contains("the proxy expired at 20") && text.contains(" UTC") && text.contains("create a proxy with grid-proxy-init"),
        "{text}"
    );
    let text = run(23, "X509_USER_PROXY", &make("early", Valid { from: 3600, to: 7200 }));
    assert!(text.contains("not valid before") && text.contains("clock"), "{text}");
    assert!(!w.server.log().contains("[CLIENT]"), "nobody asks a server without a credential");
    let text = run(0, "X509_USER_PROXY", &make("short", Valid { from: -60, to: 1750 }));
    assert!(text.contains("WARNING: the proxy") && text.contains("expires in 2"), "{text}");
    assert!(!run(0, "X509_USER_PROXY", &w.authority.path("proxy.pem")).contains("WARNING"));
    let open = make("open", Valid::LONG);
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).expect("set");
    let text = run(23, "X509_USER_PROXY", &open);
    assert!(text.contains("can be read by others (mode 0644)") && text.contains("chmod 600 "), "{text}");
    let theirs = make("theirs", Valid::LONG);
    std::os::unix::fs::chown(&theirs, Some(1), Some(1)).expect("root may");
    assert!(run(23, "X509_USER_PROXY", &theirs).contains("belongs to another user"));
    let text = run(23, "X509_USER_PROXY", &w.path("none"));
    assert!(text.contains("No such file") && text.contains("grid-proxy-init"), "{text}");
    fs::write(w.path("empty"), "").expect("written");
    fs::set_permissions(w.path("empty"), fs::Permissions::from_mode(0o600)).expect("set");
    assert!(run(23, "X509_USER_PROXY", &w.path("empty")).contains("no certificate is in it"));
    // A key of somebody else's beside the certificate.
    let mixed = [fs::read(w.authority.path("user.pem")), fs::read(w.authority.path("host.key"))].map(|part| part.expect("read")).concat();
    fs::write(w.path("mixed"), mixed).expect("written");
    fs::set_permissions(w.path("mixed"), fs::Permissions::from_mode(0o600)).expect("set");
    assert!(run(23, "X509_USER_PROXY", &w.path("mixed")).contains("not that of the certificate"));
}

#[test]
#[ignore = "full"]
fn a_certificate_and_its_key_do_without_a_proxy() {
    let w = World::new();
    let globus = w.path(".globus");
    fs::create_dir(&globus).expect("made");
    fs::copy(w.authority.path("user.pem"), globus.join("usercert.pem")).expect("copied");
    fs::copy(w.authority.path("user.key"), globus.join("userkey.pem")).expect("copied");
    let bare = |words: &str| {
        let mut command = w.command(words);
        command.env_remove("X509_USER_PROXY");
        command
    };
    ended(bare("cp @/src/d/a.txt one"), 0);
    let (certificate, key) = (w.authority.path("user.pem"), w.authority.path("user.key"));
    fs::rename(&globus, w.path("away")).expect("renamed");
    ended(bare("cp @/src/d/a.txt two").env("X509_USER_CERT", certificate).env("X509_USER_KEY", key), 0);
    assert_eq!((w.read("one"), w.read("two")), (b"hello\n".to_vec(), b"hello\n".to_vec()));
    let text = ended(bare("cp @/src/d/a.txt three"), 23);
    assert!(text.contains("no proxy in X509_USER_PROXY or /tmp/x509up_u0") && text.contains("~/.globus"), "{text}");
}

#[test]
#[ignore = "full"]
fn servers_that_are_not_trusted_get_no_credential() {
    let w = World::new();
    let elsewhere = Authority::make(&w.path("elsewhere")).expect("openssl makes certificates");
    let text = ended(w.command("ls @/").env("X509_CERT_DIR", elsewhere.trusted()), 23);
    assert!(
        text.contains("/O=haul test/CN=localhost is signed by /O=haul test/CN=authority, which is not trusted") || text.contains("invalid"),
        "{text}"
    );
    let text = ended(w.command("ls @/").env("X509_CERT_DIR", w.path("src")), 23);
    assert!(text.contains("no certificate of an authority is in it") && text.contains("X509_CERT_DIR"), "{text}");
    let by_number = w.url.replace("localhost", "127.0.0.1");
    let text = ended(w.program(env!("CARGO_BIN_EXE_haul")).args(["ls", &by_number]), 23);
    assert!(text.contains("is not for 127.0.0.1 but for /O=haul test/CN=localhost"), "{text}");
    // A directory of the client's own, which the server does not read.
    let mine = w.path("mine");
    ended(w.program("cp").arg("-r").arg(w.authority.trusted()).arg(&mine), 0);
    let ends = |code: i32| ended(w.command("ls @/").env("X509_CERT_DIR", &mine), code);
    // What the authority may certify.
    let mut policy = fs::read_dir(&mine).expect("a directory").flatten().map(|entry| entry.path());
    let policy = policy.find(|path| path.extension().is_some_and(|end| end == "signing_policy")).expect("a policy");
    let allowed = fs::read_to_string(&policy).expect("read");
    fs::write(&policy, allowed.replace("/O=haul test/*", "/O=haul test/CN=Some*")).expect("written");
    assert!(ends(23).contains("may not certify /O=haul test/CN=localhost"));
    fs::write(&policy, allowed).expect("written");
    ends(0);
    // What it has revoked.
    let listed = policy.with_extension("r0");
    let config = w.authority.path("host.config");
    let authority = |words: &[&str]| {
        let mut command = w.program("openssl");
        command.args(["ca", "-batch", "-config"]).arg(&config).arg("-cert").arg(w.authority.path("authority.pem"));
        ended(command.arg("-keyfile").arg(w.authority.path("authority.key")).args(words), 0);
    };
    let (list, host) = (listed.display().to_string(), w.authority.path("host.pem").display().to_string());
    authority(&["-gencrl", "-crldays", "1", "-out", &list]);
    ends(0);
    authority(&["-revoke", &host]);
    authority(&["-gencrl", "-crldays", "1", "-out", &list]);
    assert!(ends(23).contains("was revoked by /O=haul test/CN=authority"));
    // A list of somebody else's does not count as the authority's.
    let changed = fs::read_to_string(&listed).expect("read").replacen("MII", "MIJ", 1);
    fs::write(&listed, changed).expect("written");
    let text = shown(&w.command("ls @/").env("X509_CERT_DIR", &mine).output().expect("it runs"));
    assert!(text.contains("cannot be read and is ignored") || text.contains("is not signed by it"), "{text}");
    fs::write(&listed, "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n").expect("written");
    assert!(ends(0).contains("cannot be read and is ignored"));
}

#[test]
#[ignore = "full"]
fn certificates_of_servers_are_for_their_names() {
    let w = World::with("other");
    let text = w.ends(23, "ls @/");
    assert!(text.contains("is not for localhost but for /O=haul test/CN=other.example.org"), "{text}");
    // Without a subjectAltName the common name counts, with the word of a service in front.
    World::with("unnamed").ends(0, "ls @/");
}

#[test]
#[ignore = "full"]
fn a_user_whom_the_server_does_not_know_is_refused() {
    let w = World::new();
    w.authority.sign("stranger", "A Stranger", "", Valid::LONG).expect("signed");
    let stranger = w.authority.proxy("unknown", "stranger", Valid::LONG).expect("a proxy");
    let text = ended(w.command("cp @/src/d/a.txt got").env("X509_USER_PROXY", stranger), 10);
    assert!(text.contains("the server answered 530") && text.contains("grid-mapfile") && !text.contains(".netrc"), "{text}");
    let elsewhere = Authority::make(&w.path("elsewhere")).expect("openssl makes certificates");
    let proxy = elsewhere.proxy("proxy", "user", Valid::LONG).expect("a proxy");
    let text = ended(w.command("cp @/src/d/a.txt got").env("X509_USER_PROXY", proxy), 23);
    assert!(text.contains("does not accept the certificate /O=haul test/CN=Some User"), "{text}");
}

#[test]
#[ignore = "full"]
fn no_server_gets_clear_text_instead() {
    let w = World::new();
    for (answer, part) in [
        ("AUTH=500 what?", "does not offer GSI"),
        ("AUTH=234 no more is needed", "does not offer GSI"),
        ("ADAT=235 welcome", "ended the authentication before it was complete"),
        ("ADAT=335 ADAT=!!!", "not base64"),
        ("ADAT=335 go on", "no token"),
        ("ADAT=535 no", "does not accept the certificate"),
        ("ADAT=335 ADAT=MjIwIGhlbGxv", "TLS"),
        ("ADAT=hang", "closed the connection"),
    ] {
        let (word, answer) = answer.split_once('=').expect("two parts");
        let (word, answer) = (word.to_string(), format!("{answer}\r\n"));
        let rogue = FtpRogue::new(b"x".to_vec(), move |line| match line.split(' ').next() {
            Some(said) if said == word && answer == "hang\r\n" => Answer::HangUp,
            Some(said) if said == word => Answer::Say(answer.clone()),
            Some("AUTH") => Answer::Say("334 go on\r\n".into()),
            _ => Answer::Honest,
        })
        .expect("a server");
        let url = rogue.url("/file").replace("ftp://127.0.0.1", "gsiftp://localhost");
        let ran = w.program(env!("CARGO_BIN_EXE_haul")).args(["cp", "--retries", "0", &url, "got"]).output().expect("the program runs");
        let text = shown(&ran);
        assert!(!ran.status.success() && text.contains(part), "{part}\n{text}\n{:?}", rogue.heard());
        let said = rogue.heard();
        assert!(said.iter().all(|line| line.starts_with("AUTH ") || line.starts_with("ADAT ")), "{said:?}");
    }
    assert!(!w.path("got").exists());
}

#[test]
fn no_output_and_no_journal_has_the_key() {
    let w = World::new();
    let text = w.ends(0, "cp -vv src/ @/there");
    let key = fs::read_to_string(w.authority.path("proxy.part.key")).expect("a key");
    let line = key.lines().nth(2).expect("a line of it");
    assert!(!text.contains(line));
    let state = ended(w.program("grep").args(["-ra", "", "state"]), 0);
    assert!(!state.contains(line) && !state.contains("PRIVATE KEY"));
}

#[test]
#[ignore = "full"]
fn servers_send_large_files_to_each_other() {
    let w = World::new();
    let other = GsiServer::start(&w.authority, "host", &[]).expect("it is installed");
    for (flags, copy) in [("", "authenticated"), ("--dcpriv", "encrypted"), ("--no-dcau", "neither")] {
        let text = w.ends(0, &format!("cp {flags} @/src/big {}", other.url(w.path(copy))));
        assert!(w.read(copy) == w.read("src/big") && text.contains("copying "), "{text}");
    }
}
