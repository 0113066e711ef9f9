//! Keys, passwords and questions, with a person at a terminal and without one.

use std::time::Duration;

use haul_test::account::Account;
use haul_test::compare::{What, assert_same};
use haul_test::pty::Terminal;

use crate::support::World;

/// For everything that a person would wait for here.
const SOON: Duration = Duration::from_secs(60);

const PASSWORD: &str = "PubkeyAuthentication no\nPasswordAuthentication yes\nUsePAM yes";
const QUESTIONS: &str = "PubkeyAuthentication no\nKbdInteractiveAuthentication yes\nUsePAM yes";

struct Person {
    world: World,
    account: Account,
}

impl Person {
    fn new(lines: &str) -> Person {
        let account = Account::new("/bin/bash").expect("an account can be made: useradd and root");
        Person { world: World::new(lines), account }
    }

    /// `@` in the words stands for the account's home on the host.
    fn words(&self, words: &str) -> String {
        words.replace('@', &format!("{}@testhost:{}", self.account.name, self.account.home().display()))
    }

    fn at_terminal(&self, words: &str) -> Terminal {
        Terminal::start(self.world.command(&self.words(words))).expect("a terminal can be made")
    }

    fn sessions(&self) -> (usize, usize) {
        (self.world.server.logins(), self.world.server.sessions())
    }
}

/// Enough for several channels at once.
fn plenty(world: &World) {
    world.tree("src: big=20M");
    haul_test::tree::spread(&world.path("src/many"), 4, 50, 2000).expect("made");
}

/// A person is asked for what they know, once, and several sessions come of it.
fn asked_once(lines: &str, method: &str) {
    let p = Person::new(lines);
    plenty(&p.world);
    let mut terminal = p.at_terminal("cp -j 4 src/ @/there");
    terminal.expect("assword:", SOON).expect("ssh asks");
    terminal.send_line(&p.account.password).expect("the terminal is there");
    let status = terminal.end(SOON).expect("it ends");
    let screen = terminal.screen();
    assert_eq!(status.code(), Some(0), "{screen}\n{}", p.world.server.log());
    assert_eq!(screen.matches("assword:").count(), 1, "{screen}");
    assert!(!screen.contains(&p.account.password), "the password was shown: {screen}");
    let (logins, sessions) = p.sessions();
    assert_eq!(logins, 1, "{}", p.world.server.log());
    assert!(sessions >= 2, "{sessions} sessions\n{}", p.world.server.log());
    assert!(p.world.server.log().contains(&format!("Accepted {method} for {}", p.account.name)), "{}", p.world.server.log());
    assert_same(&p.world.path("src"), &p.account.home().join("there"), What { mtime: Some(1_000_000_000), ..What::USUAL });
}

#[test]
fn a_key_asks_nobody() {
    let p = Person::new("");
    plenty(&p.world);
    let mut terminal = p.at_terminal("cp -j 4 src/ @/there");
    let status = terminal.end(SOON).expect("it ends");
    assert_eq!(status.code(), Some(0), "{}", terminal.screen());
    assert!(!terminal.screen().contains("assword"), "{}", terminal.screen());
    let (logins, sessions) = p.sessions();
    assert!(logins == 1 && sessions >= 2, "{logins} logins, {sessions} sessions");
}

#[test]
fn a_password_is_asked_for_once() {
    asked_once(PASSWORD, "password");
}

#[test]
fn questions_of_the_server_are_asked_once() {
    asked_once(QUESTIONS, "keyboard-interactive/pam");
}

#[test]
fn two_ends_on_one_host_are_one_question() {
    let p = Person::new(PASSWORD);
    p.account.file("a", "content").expect("written");
    let mut terminal = p.at_terminal("cp @/a @/b");
    terminal.expect("assword:", SOON).expect("ssh asks");
    terminal.send_line(&p.account.password).expect("the terminal is there");
    assert_eq!(terminal.end(SOON).expect("it ends").code(), Some(0), "{}", terminal.screen());
    assert_eq!(terminal.screen().matches("assword:").count(), 1, "{}", terminal.screen());
    assert_eq!(std::fs::read(p.account.home().join("b")).expect("it is there"), b"content");
}

#[test]
fn a_wrong_password_is_the_end_after_three() {
    for lines in [PASSWORD, QUESTIONS] {
        let p = Person::new(lines);
        p.world.tree("src: a=5");
        let mut terminal = p.at_terminal("cp src/ @/there");
        for _ in 0..3 {
            terminal.expect("assword:", SOON).expect("ssh asks");
            terminal.send_line("not it").expect("the terminal is there");
        }
        assert_eq!(terminal.end(SOON).expect("it ends").code(), Some(10), "{}", terminal.screen());
        let screen = terminal.screen();
        for words in ["testhost", "Permission denied", "run `ssh` to the same host"] {
            assert!(screen.contains(words), "no {words:?} in\n{screen}");
        }
        assert!(!p.account.home().join("there").exists());
    }
}

#[test]
fn a_person_may_mistype_once() {
    let p = Person::new(PASSWORD);
    p.world.tree("src: a=5");
    let mut terminal = p.at_terminal("cp src/ @/there");
    terminal.expect("assword:", SOON).expect("ssh asks");
    terminal.send_line("not it").expect("the terminal is there");
    // What ssh says while it waits is for the person.
    terminal.expect("Permission denied, please try again.", SOON).expect("ssh says why it asks again");
    terminal.send_line(&p.account.password).expect("the terminal is there");
    assert_eq!(terminal.end(SOON).expect("it ends").code(), Some(0), "{}", terminal.screen());
    assert!(p.account.home().join("there/a").exists());
    assert_eq!(terminal.screen().matches("assword:").count(), 2, "{}", terminal.screen());
}

#[test]
fn without_a_terminal_nobody_is_asked() {
    for lines in [PASSWORD, QUESTIONS] {
        let p = Person::new(lines);
        p.world.tree("src: a=5");
        let words = p.words("cp src/ @/there");
        p.world.says(10, &words, &["testhost", "Permission denied", "run `ssh` to the same host"]);
        assert_eq!(p.world.server.logins(), 0);
    }
}

#[test]
fn an_unknown_host_is_shown_to_the_person_by_ssh_itself() {
    let p = Person::new("");
    p.world.tree("src: a=5");
    std::fs::write(p.world.server.path("known_hosts"), "").expect("written");
    let words = "--ssh-option StrictHostKeyChecking=ask src/ @/there";
    let mut terminal = p.at_terminal(&format!("cp {words}"));
    terminal.expect("(yes/no", SOON).expect("ssh asks");
    terminal.send_line("no").expect("the terminal is there");
    assert_eq!(terminal.end(SOON).expect("it ends").code(), Some(10), "{}", terminal.screen());
    assert_eq!(terminal.screen().matches("Host key verification failed").count(), 1, "{}", terminal.screen());
    let mut terminal = p.at_terminal(&format!("cp {words}"));
    terminal.expect("(yes/no", SOON).expect("ssh asks");
    terminal.send_line("yes").expect("the terminal is there");
    assert_eq!(terminal.end(SOON).expect("it ends").code(), Some(0), "{}", terminal.screen());
    assert_eq!(terminal.screen().matches("(yes/no").count(), 1, "{}", terminal.screen());
}

#[test]
fn a_changed_host_key_is_shown_whole_to_a_person() {
    let p = Person::new("");
    p.world.tree("src: a=5");
    let other = World::new("");
    let port = |w: &World| w.server.port.to_string();
    let known = std::fs::read_to_string(other.server.path("known_hosts")).expect("it is there");
    std::fs::write(p.world.server.path("known_hosts"), known.replace(&port(&other), &port(&p.world))).expect("written");
    let mut terminal = p.at_terminal("cp src/ @/there");
    assert_eq!(terminal.end(SOON).expect("it ends").code(), Some(10), "{}", terminal.screen());
    for words in ["REMOTE HOST IDENTIFICATION HAS CHANGED", "Offending", "ssh-keygen -R", "testhost"] {
        assert!(terminal.screen().contains(words), "no {words:?} in\n{}", terminal.screen());
    }
    assert!(!p.account.home().join("there").exists());
}

#[test]
fn a_connection_that_is_cut_asks_the_person_again() {
    let p = Person::new(PASSWORD);
    p.world.tree("src: big=12M");
    let mut terminal = p.at_terminal("cp --bwlimit 3M src/ @/there");
    for time in 1..=2 {
        terminal.expect("assword:", SOON).expect("ssh asks");
        terminal.send_line(&p.account.password).expect("the terminal is there");
        if time == 1 {
            let staged = || std::fs::read_dir(p.account.home().join("there")).is_ok_and(|mut names| names.next().is_some());
            let until = std::time::Instant::now() + SOON;
            while !staged() && std::time::Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
            assert!(p.world.server.cut() > 0, "there was a connection");
        }
    }
    assert_eq!(terminal.end(SOON).expect("it ends").code(), Some(0), "{}", terminal.screen());
    assert_same(&p.world.path("src"), &p.account.home().join("there"), What { mtime: Some(1_000_000_000), ..What::USUAL });
}
