//! A server, a scratch directory, and the program run in it.

use std::ffi::{OsStr, OsString};
use std::ops::Deref;
use std::process::Command;

use haul_test::account::Account;
use haul_test::compare::What;
use haul_test::program::Program;
use haul_test::scratch::Scratch;
use haul_test::sshd::Sshd;

/// What plain SFTP keeps: times are whole seconds.
pub const SAME: What = What { mtime: Some(1_000_000_000), ..What::USUAL };

pub const DIRECTIONS: [(&str, &str); 2] = [("src/ testhost:~/there", "there"), ("testhost:~/src/ here", "here")];

pub struct World {
    scratch: Scratch,
    pub server: Sshd,
}

impl Deref for World {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.scratch
    }
}

impl World {
    /// With a tree.
    pub fn new(tree: &str) -> World {
        World::served(tree, "")
    }

    /// The same with these lines in the server's configuration; `~` is the scratch directory.
    pub fn served(tree: &str, lines: &str) -> World {
        let scratch = Scratch::new();
        scratch.tree(tree);
        let lines = lines.replace('~', &scratch.work.display().to_string());
        World { server: Sshd::start(&lines).expect("sshd can be started: openssh-server and root"), scratch }
    }

    /// A large file and many small ones below `src`: enough for several channels at once.
    pub fn plenty(lines: &str) -> World {
        let w = World::served("src: big=20M", lines);
        haul_test::tree::spread(&w.path("src/many"), 4, 50, 2000).expect("made");
        w
    }

    /// `~` is the scratch directory, as the host sees it too.
    pub fn haul(&self, words: &str) -> Program {
        self.at_terminal(words).alone()
    }

    /// The same, for whoever gives it a terminal.
    pub fn at_terminal(&self, words: &str) -> Program {
        let options: &[OsString] = if words == "jobs" { &[] } else { &["-F".into(), self.server.config().into()] };
        haul(self, words, options)
    }

    /// It ends with the code and has all of this on standard error, which is returned.
    #[track_caller]
    pub fn says(&self, code: i32, words: &str, parts: &[&str]) -> String {
        parts.iter().fold(self.haul(words).ends(code), |ended, part| ended.err_has(part)).err
    }
}

/// The program with these options behind its words.
pub fn haul(scratch: &Scratch, words: &str, options: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Program {
    scratch.program(Command::new(env!("CARGO_BIN_EXE_haul")), words).args(options)
}

pub fn account(shell: &str) -> Account {
    Account::new(shell).unwrap_or_else(|e| panic!("an account with {shell}: useradd and root: {e}"))
}
