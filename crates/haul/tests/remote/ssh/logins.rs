//! Keys, passwords and questions, with a person at a terminal and without one.

use std::time::Duration;

use haul_test::account::Account;
use haul_test::compare::assert_same;
use haul_test::program::until;
use haul_test::pty::Terminal;
use haul_test::scratch::entries;

use crate::ssh::support::{SAME, World, account, plenty};

/// For everything that a person would wait for here.
const SOON: Duration = Duration::from_secs(60);

const PASSWORD: &str = "PubkeyAuthentication no\nPasswordAuthentication yes\nUsePAM yes";
const QUESTIONS: &str = "PubkeyAuthentication no\nKbdInteractiveAuthentication yes\nUsePAM yes";

/// An account on the host, and its person.
struct Person {
    world: World,
    account: Account,
}

impl Person {
    /// At a server with these lines in its configuration, with one small file to copy.
    fn new(lines: &str) -> Person {
        Person::of(World::served("src: a=5", lines))
    }

    fn of(world: World) -> Person {
        Person { world, account: account("/bin/bash") }
    }

    /// `@` in the words is the account's home on the host.
    fn words(&self, words: &str) -> String {
        words.replace('@', &format!("{}@testhost:{}", self.account.name, self.account.home().display()))
    }

    /// Starts the program at a terminal.
    fn starts(&self, words: &str) -> Session {
        let command = self.world.at_terminal(&self.words(words)).command();
        Session(Terminal::start(command).expect("a terminal can be made"))
    }

    fn has_copy(&self) -> bool {
        self.account.home().join("there/a").exists()
    }
}

/// What a person does and sees.
struct Session(Terminal);

impl Session {
    #[track_caller]
    fn answers(&mut self, question: &str, answer: &str) {
        self.0.expect(question, SOON).unwrap_or_else(|e| panic!("{question}: {e}"));
        self.0.send_line(answer).expect("the terminal exists");
    }

    /// It ends with the code; what the screen shows.
    #[track_caller]
    fn ends(mut self, code: i32) -> String {
        let status = self.0.end(SOON).expect("it ends");
        let screen = self.0.screen();
        assert_eq!(status.code(), Some(code), "{screen}");
        screen
    }
}

#[track_caller]
fn assert_shows(screen: &str, parts: &[&str]) {
    for part in parts {
        assert!(screen.contains(part), "no {part:?} in\n{screen}");
    }
}

#[track_caller]
fn assert_asked(screen: &str, question: &str, times: usize) {
    assert_eq!(screen.matches(question).count(), times, "{question}\n{screen}");
}

#[test]
fn a_password_is_asked_for_once_and_several_sessions_come_of_it() {
    for (lines, method) in [(PASSWORD, "password"), (QUESTIONS, "keyboard-interactive/pam")] {
        let p = Person::of(plenty(lines));
        let mut session = p.starts("cp -j 4 src/ @/there");
        session.answers("assword:", &p.account.password);
        let screen = session.ends(0);
        assert_asked(&screen, "assword:", 1);
        assert_asked(&screen, &p.account.password, 0);
        let server = &p.world.server;
        assert!(server.logins() == 1 && server.sessions() >= 2, "{} logins, {} sessions", server.logins(), server.sessions());
        assert_shows(&server.log(), &[&format!("Accepted {method} for {}", p.account.name)]);
        assert_same(&p.world.path("src"), &p.account.home().join("there"), SAME);
    }
}

#[test]
fn a_persistent_master_of_the_configuration_serves_later_commands() {
    let p = Person::new(PASSWORD);
    let config = p.world.server.read("ssh_config");
    let socket = p.world.path("c-%C").display().to_string();
    p.world.server.write("ssh_config", format!("{config}  ControlMaster auto\n  ControlPersist 60\n  ControlPath {socket}\n"));
    let mut session = p.starts("cp src/ @/there");
    session.answers("assword:", &p.account.password);
    assert_asked(&session.ends(0), "assword:", 1);
    for words in ["ls @/there", "cp @/there/ back"] {
        assert_asked(&p.starts(words).ends(0), "assword:", 0);
    }
    assert_eq!(p.world.server.logins(), 1);
    assert!(p.has_copy() && p.world.has("back/a"));
    let mut leave = std::process::Command::new("ssh");
    leave.arg("-F").arg(p.world.server.config()).args(["-O", "exit"]).arg(format!("{}@testhost", p.account.name));
    assert!(leave.status().expect("ssh runs").success());
}

#[test]
fn a_key_asks_nobody() {
    let p = Person::of(plenty(""));
    assert_asked(&p.starts("cp -j 4 src/ @/there").ends(0), "assword", 0);
    let server = &p.world.server;
    assert!(server.logins() == 1 && server.sessions() >= 2, "{} logins, {} sessions", server.logins(), server.sessions());
}

#[test]
fn two_ends_on_one_host_are_one_question() {
    let p = Person::new(PASSWORD);
    p.account.file("a", "content").expect("written");
    let mut session = p.starts("cp @/a @/b");
    session.answers("assword:", &p.account.password);
    assert_asked(&session.ends(0), "assword:", 1);
    assert_eq!(p.world.read(p.account.home().join("b")), b"content");
}

#[test]
#[ignore = "full"]
fn a_wrong_password_is_the_end_after_three() {
    for lines in [PASSWORD, QUESTIONS] {
        let p = Person::new(lines);
        let mut session = p.starts("cp src/ @/there");
        for _ in 0..3 {
            session.answers("assword:", "not it");
        }
        assert_shows(&session.ends(10), &["testhost", "Permission denied", "run `ssh` to the same host"]);
        assert!(!p.has_copy());
    }
}

#[test]
fn a_person_may_mistype_once() {
    let p = Person::new(PASSWORD);
    let mut session = p.starts("cp src/ @/there");
    session.answers("assword:", "not it");
    // What ssh says while it waits is for the person.
    session.answers("Permission denied, please try again.", &p.account.password);
    assert_asked(&session.ends(0), "assword:", 2);
    assert!(p.has_copy());
}

/// Where haul was not found before, SFTP begins while it is looked for: that makes no second question.
#[test]
#[ignore = "full"]
fn a_host_that_is_known_to_have_no_haul_asks_once() {
    let p = Person::new(PASSWORD);
    let known = |p: &Person| p.world.state.join(format!("hosts/{}@testhost=plain", p.account.name));
    let mut runs = 0;
    for (password, asked, code) in [("not it", 3, 10), (&*p.account.password, 1, 0)] {
        let known = known(&p);
        std::fs::create_dir_all(known.parent().expect("has one")).and_then(|()| std::fs::write(&known, "")).expect("written");
        let mut session = p.starts("cp src/ @/there");
        for _ in 0..asked {
            session.answers("assword:", password);
        }
        assert_asked(&session.ends(code), "assword:", asked);
        runs += 1;
        assert_eq!((p.has_copy(), p.world.server.logins()), (runs == 2, runs - 1));
    }
}

#[test]
fn without_a_terminal_nobody_is_asked() {
    for lines in [PASSWORD, QUESTIONS] {
        let p = Person::new(lines);
        p.world.says(10, &p.words("cp src/ @/there"), &["testhost", "Permission denied", "run `ssh` to the same host"]);
        assert_eq!(p.world.server.logins(), 0);
    }
}

#[test]
fn an_unknown_host_is_shown_to_the_person_by_ssh_itself() {
    let p = Person::new("");
    p.world.server.write("known_hosts", "");
    for (answer, code, failures) in [("no", 10, 1), ("yes", 0, 0)] {
        let mut session = p.starts("cp --ssh-option StrictHostKeyChecking=ask src/ @/there");
        session.answers("(yes/no", answer);
        let screen = session.ends(code);
        assert_asked(&screen, "Host key verification failed", failures);
        assert_asked(&screen, "(yes/no", 1);
    }
}

#[test]
fn a_changed_host_key_is_shown_whole_to_a_person() {
    let p = Person::new("");
    let other = World::new("");
    let known = other.server.read("known_hosts").replace(&other.server.port.to_string(), &p.world.server.port.to_string());
    p.world.server.write("known_hosts", known);
    let screen = p.starts("cp src/ @/there").ends(10);
    assert_shows(&screen, &["REMOTE HOST IDENTIFICATION HAS CHANGED", "Offending", "ssh-keygen -R", "testhost"]);
    assert!(!p.has_copy());
}

#[test]
fn a_connection_that_is_cut_asks_the_person_again() {
    let p = Person::of(World::served("src: big=12M", PASSWORD));
    let mut session = p.starts("cp --bwlimit 3M src/ @/there");
    session.answers("assword:", &p.account.password);
    until("something is staged", || !entries(&p.account.home().join("there")).is_empty());
    assert!(p.world.server.cut() > 0, "there was a connection");
    session.answers("assword:", &p.account.password);
    session.ends(0);
    assert_same(&p.world.path("src"), &p.account.home().join("there"), SAME);
}
