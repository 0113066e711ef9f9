//! Certificates whose key has a passphrase, which is typed at a terminal.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use haul_test::gsiftpd::{Authority, GsiServer};
use haul_test::program::Program;
use haul_test::pty::Terminal;
use haul_test::scratch::Scratch;

const PASSPHRASE: &str = "open sesame";
const WAIT: Duration = Duration::from_secs(60);

struct World {
    scratch: Scratch,
    authority: Authority,
    server: GsiServer,
}

impl World {
    fn new() -> World {
        let scratch = Scratch::new();
        scratch.write("f", "hello\n");
        let authority = Authority::make(&scratch.path("authority")).expect("openssl makes certificates");
        let server = GsiServer::start(&authority, "host", &[]).expect("globus-gridftp-server-progs is installed");
        fs::create_dir(scratch.home.join(".globus")).expect("made");
        fs::copy(authority.path("user.pem"), scratch.home.join(".globus/usercert.pem")).expect("copied");
        World { scratch, authority, server }
    }

    /// Has openssl encrypt the user's key.
    fn encrypt(&self, words: &str) {
        let key = self.scratch.home.join(".globus/userkey.pem");
        let mut command = Command::new("openssl");
        command.args(words.split(' ')).args(["-passout", &format!("pass:{PASSPHRASE}"), "-in"]);
        let made = command.arg(self.authority.path("user.key")).arg("-out").arg(&key).output().expect("openssl runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        fs::set_permissions(key, fs::Permissions::from_mode(0o600)).expect("set");
    }

    fn haul(&self, words: &str) -> Program {
        let url = self.server.url(&self.scratch.work);
        let words: Vec<String> = words.split(' ').map(|word| word.replacen('@', &url, 1)).collect();
        self.scratch.haul(&words.join(" ")).env("X509_CERT_DIR", self.authority.trusted())
    }

    /// Types these answers, one a question; the exit code and all that the terminal showed.
    fn typed(&self, words: &str, answers: &[&str]) -> (Option<i32>, String) {
        let mut terminal = Terminal::start(self.haul(words).command()).expect("a terminal");
        for answer in answers {
            terminal.expect("userkey.pem: ", WAIT).expect("it asks");
            terminal.send_line(answer).expect("typed");
        }
        let status = terminal.end(WAIT).expect("it ends");
        (status.code(), terminal.screen())
    }
}

#[test]
#[ignore = "full"]
fn a_passphrase_is_asked_for_once_and_not_shown() {
    let w = World::new();
    for words in ["rsa -traditional -des3", "rsa -traditional -aes256", "pkcs8 -topk8 -v2 aes-256-cbc"] {
        w.encrypt(words);
        // Both ends have a session each, and the server gets a proxy.
        let (code, screen) = w.typed("cp @/f @/copy", &[PASSPHRASE]);
        assert!(code == Some(0) && screen.matches("Passphrase of").count() == 1, "{words}\n{screen}");
        assert!(!screen.contains(PASSPHRASE), "{screen}");
        assert_eq!(w.scratch.read("copy"), b"hello\n");
        w.scratch.remove("copy");
    }
    let state = w.scratch.all_text(&w.scratch.state);
    assert!(!state.contains(PASSPHRASE));
}

#[test]
#[ignore = "full"]
fn a_wrong_passphrase_is_asked_for_again_and_then_refused() {
    let w = World::new();
    w.encrypt("rsa -traditional -aes128");
    let (code, screen) = w.typed("cp @/f copy", &["wrong", PASSPHRASE]);
    assert!(code == Some(0) && screen.contains("Wrong passphrase. Passphrase of"), "{screen}");
    let (code, screen) = w.typed("cp @/f other", &["wrong", "", "also wrong"]);
    assert!(code == Some(23) && screen.contains("wrong passphrase") && screen.contains("create a proxy"), "{screen}");
    assert!(!screen.contains("also wrong"), "{screen}");
    // Without a terminal nobody can answer.
    let ended = w.haul("cp @/f other").alone().run();
    let text = format!("{ended}");
    assert!(!ended.status.success() && text.contains("there is no terminal to ask for it") && text.contains("create a proxy"), "{text}");
}
