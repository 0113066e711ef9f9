//! Certificates whose key has a passphrase, which is typed at a terminal.

use std::process::Command;
use std::time::Duration;

use haul_test::gsiftpd::{Authority, GsiServer};
use haul_test::pty::Terminal;
use haul_test::scratch::Scratch;
use haul_test::world::Served;

const PASSPHRASE: &str = "open sesame";
const WAIT: Duration = Duration::from_secs(60);

type World = Served<(Authority, GsiServer)>;

fn world() -> World {
    let scratch = Scratch::new();
    scratch.write("f", "hello\n");
    let authority = Authority::make(&scratch.path("authority")).expect("openssl makes certificates");
    let server = GsiServer::start(&authority, "host", &[]).expect("globus-gridftp-server-progs is installed");
    scratch.write(scratch.home.join(".globus/usercert.pem"), scratch.read(authority.path("user.pem")));
    let (url, trusted) = (server.url(&scratch.work), authority.trusted());
    World::new(scratch, (authority, server), url).with("X509_CERT_DIR", trusted)
}

/// Has openssl encrypt the user's key.
fn encrypt(w: &World, words: &str) {
    let key = w.home.join(".globus/userkey.pem");
    let mut command = Command::new("openssl");
    command.args(words.split(' ')).args(["-passout", &format!("pass:{PASSPHRASE}"), "-in"]);
    let made = command.arg(w.server.0.path("user.key")).arg("-out").arg(&key).output().expect("openssl runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    w.chmod(key, 0o600);
}

/// Types these answers, one a question; the exit code and all that the terminal showed.
fn typed(w: &World, words: &str, answers: &[&str]) -> (Option<i32>, String) {
    let mut terminal = Terminal::start(w.haul(words).command()).expect("a terminal");
    for answer in answers {
        terminal.expect("userkey.pem: ", WAIT).expect("it asks");
        terminal.send_line(answer).expect("typed");
    }
    let status = terminal.end(WAIT).expect("it ends");
    (status.code(), terminal.screen())
}

#[test]
#[ignore = "full"]
fn a_passphrase_is_asked_for_once_and_not_shown() {
    let w = world();
    for words in ["rsa -traditional -des3", "rsa -traditional -aes256", "pkcs8 -topk8 -v2 aes-256-cbc"] {
        encrypt(&w, words);
        // Both ends have a session each, and the server gets a proxy.
        let (code, screen) = typed(&w, "cp @/f @/copy", &[PASSPHRASE]);
        assert!(code == Some(0) && screen.matches("Passphrase of").count() == 1, "{words}\n{screen}");
        assert!(!screen.contains(PASSPHRASE), "{screen}");
        assert_eq!(w.read("copy"), b"hello\n");
        w.remove("copy");
    }
    let state = w.all_text(&w.state);
    assert!(!state.contains(PASSPHRASE));
}

#[test]
#[ignore = "full"]
fn a_wrong_passphrase_is_asked_for_again_and_then_refused() {
    let w = world();
    encrypt(&w, "rsa -traditional -aes128");
    let (code, screen) = typed(&w, "cp @/f copy", &["wrong", PASSPHRASE]);
    assert!(code == Some(0) && screen.contains("Wrong passphrase. Passphrase of"), "{screen}");
    let (code, screen) = typed(&w, "cp @/f other", &["wrong", "", "also wrong"]);
    assert!(code == Some(23) && screen.contains("wrong passphrase") && screen.contains("create a proxy"), "{screen}");
    assert!(!screen.contains("also wrong"), "{screen}");
    // Without a terminal nobody can answer.
    let ended = w.haul("cp @/f other").alone().run();
    let text = format!("{ended}");
    assert!(!ended.status.success() && text.contains("there is no terminal to ask for it") && text.contains("create a proxy"), "{text}");
}
