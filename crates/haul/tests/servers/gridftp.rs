//! GridFTP servers with certificates as sources and destinations: Globus's server on loopback, and servers that lie.

use std::fs;
use std::path::Path;

use haul_test::ftp_rogue::{Answer, FtpRogue};
use haul_test::gsiftpd::{Authority, GsiServer, Valid};
use haul_test::program::{Program, until};
use haul_test::scratch::Scratch;
use haul_test::world::Served;

/// The authority is the first of the two; `@` is the working directory at the server.
type World = Served<(Authority, GsiServer)>;

fn world() -> World {
    with("host")
}

/// With this certificate of the server's.
fn with(host: &str) -> World {
    let scratch = Scratch::new();
    let authority = Authority::make(&scratch.path("authority")).expect("openssl makes certificates");
    let proxy = authority.proxy("proxy", "user", Valid::LONG).expect("a proxy");
    if host == "other" {
        authority.sign(host, "other.example.org", "subjectAltName=DNS:other.example.org\n", Valid::LONG).expect("signed");
    }
    if host == "unnamed" {
        authority.sign(host, "host\\/localhost", "basicConstraints=CA:FALSE\n", Valid::LONG).expect("signed");
    }
    let server = start(&authority, host);
    let (url, trusted) = (server.url(&scratch.work), authority.trusted());
    World::new(scratch, (authority, server), url).with("X509_CERT_DIR", trusted).with("X509_USER_PROXY", proxy).filled(12)
}

fn start(authority: &Authority, host: &str) -> GsiServer {
    GsiServer::start(authority, host, &[]).expect("globus-gridftp-server-progs is installed")
}

#[track_caller]
fn ended(program: Program, code: i32) -> String {
    program.ends(code).text()
}

#[test]
#[ignore = "full"]
fn trees_go_both_ways_however_data_are_protected() {
    let mut w = world();
    for (flag, asked) in [("", "PROT C"), ("--dcpriv", "PROT P"), ("-dcsafe", "PROT P"), ("--no-dcau", "DCAU N")] {
        // With a log of its own.
        w.server.1 = start(&w.server.0, "host");
        w.url = w.server.1.url(&w.work);
        w.sh("rm -rf there back");
        w.ends(0, &format!("cp {flag} src/ @/there"));
        w.same("src", "there");
        w.ends(0, &format!("cp {flag} --chunk-size 1M -j 4 @/there/ back"));
        w.same("src", "back");
        assert_eq!(w.time("back/d/n7"), 1_400_000_007);
        // It writes it late.
        until("how data are protected in the log", || w.server.1.log().contains(asked));
        assert_eq!(w.server.1.log().contains("DCAU A"), flag != "--no-dcau", "{flag}");
        assert!(w.ends(0, &format!("sync {flag} --delete src/ @/there")).contains("nothing to transfer"));
    }
}

#[test]
#[ignore = "full"]
fn credentials_that_cannot_be_used_are_explained() {
    let w = world();
    let make = |name: &str, valid| w.server.0.proxy(name, "user", valid).expect("a proxy");
    let run = |code: i32, name: &str, value: &Path| ended(w.haul("cp @/src/d/a.txt got").env(name, value), code);
    let text = run(23, "X509_USER_PROXY", &make("past", Valid::PAST));
    assert!(
        text.contains("the proxy expired at 20") && text.contains(" UTC") && text.contains("create a proxy with grid-proxy-init"),
        "{text}"
    );
    let text = run(23, "X509_USER_PROXY", &make("early", Valid { from: 3600, to: 7200 }));
    assert!(text.contains("not valid before") && text.contains("clock"), "{text}");
    assert!(!w.server.1.log().contains("[CLIENT]"), "nobody asks a server without a credential");
    let text = run(0, "X509_USER_PROXY", &make("short", Valid { from: -60, to: 1750 }));
    assert!(text.contains("WARNING: the proxy") && text.contains("expires in 2"), "{text}");
    assert!(!run(0, "X509_USER_PROXY", &w.server.0.path("proxy.pem")).contains("WARNING"));
    let open = make("open", Valid::LONG);
    w.chmod(&open, 0o644);
    let text = run(23, "X509_USER_PROXY", &open);
    assert!(text.contains("can be read by others (mode 0644)") && text.contains("chmod 600 "), "{text}");
    let theirs = make("theirs", Valid::LONG);
    w.chown(&theirs, 1, 1);
    assert!(run(23, "X509_USER_PROXY", &theirs).contains("belongs to another user"));
    let text = run(23, "X509_USER_PROXY", &w.path("none"));
    assert!(text.contains("No such file") && text.contains("grid-proxy-init"), "{text}");
    w.write("empty", "");
    w.chmod("empty", 0o600);
    assert!(run(23, "X509_USER_PROXY", &w.path("empty")).contains("no certificate is in it"));
    // A key of somebody else's beside the certificate.
    let mixed = [fs::read(w.server.0.path("user.pem")), fs::read(w.server.0.path("host.key"))].map(|part| part.expect("read")).concat();
    w.write("mixed", mixed);
    w.chmod("mixed", 0o600);
    assert!(run(23, "X509_USER_PROXY", &w.path("mixed")).contains("not that of the certificate"));
}

#[test]
#[ignore = "full"]
fn a_certificate_and_its_key_do_without_a_proxy() {
    let w = world();
    let globus = w.home.join(".globus");
    fs::create_dir(&globus).expect("made");
    fs::copy(w.server.0.path("user.pem"), globus.join("usercert.pem")).expect("copied");
    fs::copy(w.server.0.path("user.key"), globus.join("userkey.pem")).expect("copied");
    let bare = |words: &str| w.haul(words).without("X509_USER_PROXY");
    ended(bare("cp @/src/d/a.txt one"), 0);
    let (certificate, key) = (w.server.0.path("user.pem"), w.server.0.path("user.key"));
    fs::rename(&globus, w.path("away")).expect("renamed");
    ended(bare("cp @/src/d/a.txt two").env("X509_USER_CERT", certificate).env("X509_USER_KEY", key), 0);
    assert_eq!((w.read("one"), w.read("two")), (b"hello\n".to_vec(), b"hello\n".to_vec()));
    let text = ended(bare("cp @/src/d/a.txt three"), 23);
    assert!(text.contains("no proxy in X509_USER_PROXY or /tmp/x509up_u0") && text.contains("~/.globus"), "{text}");
}

#[test]
#[ignore = "full"]
fn servers_that_are_not_trusted_get_no_credential() {
    let w = world();
    let elsewhere = Authority::make(&w.path("elsewhere")).expect("openssl makes certificates");
    let text = ended(w.haul("ls @/").env("X509_CERT_DIR", elsewhere.trusted()), 23);
    assert!(
        text.contains("/O=haul test/CN=localhost is signed by /O=haul test/CN=authority, which is not trusted") || text.contains("invalid"),
        "{text}"
    );
    let text = ended(w.haul("ls @/").env("X509_CERT_DIR", w.path("src")), 23);
    assert!(text.contains("no certificate of an authority is in it") && text.contains("X509_CERT_DIR"), "{text}");
    let by_number = w.url.replace("localhost", "127.0.0.1");
    let text = ended(w.haul(&format!("ls {by_number}")), 23);
    assert!(text.contains("is not for 127.0.0.1 but for /O=haul test/CN=localhost"), "{text}");
    // A directory of the client's own, which the server does not read.
    let mine = w.path("mine");
    w.run("cp", "-r").arg(w.server.0.trusted()).arg(&mine).succeeds();
    let ends = |code: i32| ended(w.haul("ls @/").env("X509_CERT_DIR", &mine), code);
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
    let config = w.server.0.path("host.config");
    let authority = |words: &[&str]| {
        let command = w.run("openssl", "ca -batch -config").arg(&config).arg("-cert").arg(w.server.0.path("authority.pem"));
        command.arg("-keyfile").arg(w.server.0.path("authority.key")).args(words).succeeds();
    };
    let (list, host) = (listed.display().to_string(), w.server.0.path("host.pem").display().to_string());
    authority(&["-gencrl", "-crldays", "1", "-out", &list]);
    ends(0);
    authority(&["-revoke", &host]);
    authority(&["-gencrl", "-crldays", "1", "-out", &list]);
    assert!(ends(23).contains("was revoked by /O=haul test/CN=authority"));
    // A list of somebody else's does not count as the authority's.
    let changed = fs::read_to_string(&listed).expect("read").replacen("MII", "MIJ", 1);
    fs::write(&listed, changed).expect("written");
    let text = w.haul("ls @/").env("X509_CERT_DIR", &mine).run().text();
    assert!(text.contains("cannot be read and is ignored") || text.contains("is not signed by it"), "{text}");
    fs::write(&listed, "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n").expect("written");
    assert!(ends(0).contains("cannot be read and is ignored"));
}

#[test]
#[ignore = "full"]
fn certificates_of_servers_are_for_their_names() {
    let w = with("other");
    let text = w.ends(23, "ls @/");
    assert!(text.contains("is not for localhost but for /O=haul test/CN=other.example.org"), "{text}");
    // Without a subjectAltName the common name counts, with the word of a service in front.
    with("unnamed").ends(0, "ls @/");
}

#[test]
#[ignore = "full"]
fn a_user_whom_the_server_does_not_know_is_refused() {
    let w = world();
    w.server.0.sign("stranger", "A Stranger", "", Valid::LONG).expect("signed");
    let stranger = w.server.0.proxy("unknown", "stranger", Valid::LONG).expect("a proxy");
    let text = ended(w.haul("cp @/src/d/a.txt got").env("X509_USER_PROXY", stranger), 10);
    assert!(text.contains("the server answered 530") && text.contains("grid-mapfile") && !text.contains(".netrc"), "{text}");
    let elsewhere = Authority::make(&w.path("elsewhere")).expect("openssl makes certificates");
    let proxy = elsewhere.proxy("proxy", "user", Valid::LONG).expect("a proxy");
    let text = ended(w.haul("cp @/src/d/a.txt got").env("X509_USER_PROXY", proxy), 23);
    assert!(text.contains("does not accept the certificate /O=haul test/CN=Some User"), "{text}");
}

#[test]
#[ignore = "full"]
fn no_server_gets_clear_text_instead() {
    let w = world();
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
        let text = w.fails(&format!("cp --retries 0 {url} got"));
        assert!(text.contains(part), "{part}\n{text}\n{:?}", rogue.heard());
        let said = rogue.heard();
        assert!(said.iter().all(|line| line.starts_with("AUTH ") || line.starts_with("ADAT ")), "{said:?}");
    }
    assert!(!w.has("got"));
}

#[test]
fn no_output_and_no_journal_has_the_key() {
    let w = world();
    let text = w.ends(0, "cp -vv src/ @/there");
    let key = fs::read_to_string(w.server.0.path("proxy.part.key")).expect("a key");
    let line = key.lines().nth(2).expect("a line of it");
    assert!(!text.contains(line));
    let state = w.all_text(&w.state);
    assert!(!state.contains(line) && !state.contains("PRIVATE KEY"));
}

#[test]
#[ignore = "full"]
fn servers_send_large_files_to_each_other() {
    let w = world();
    let other = start(&w.server.0, "host");
    for (flags, copy) in [("", "authenticated"), ("--dcpriv", "encrypted"), ("--no-dcau", "neither")] {
        let text = w.ends(0, &format!("cp {flags} @/src/big {}", other.url(w.path(copy))));
        assert!(w.read(copy) == w.read("src/big") && text.contains("copying "), "{text}");
    }
}
