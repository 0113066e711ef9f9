//! What a test of a remote host runs in: a scratch directory, and an OpenSSH server of its own. Both ends are this machine.

use std::ops::Deref;

use crate::program::{Ended, Program};
use crate::scratch::Scratch;
use crate::sshd::Sshd;

/// A scratch directory, and a server whose host is `testhost`.
#[derive(Debug)]
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
    /// With a tree: see [`Tree::build`](crate::tree::Tree::build).
    #[track_caller]
    pub fn new(tree: &str) -> World {
        World::served(tree, "")
    }

    /// The same with these lines in the server's configuration; `~` is the scratch directory.
    #[track_caller]
    pub fn served(tree: &str, lines: &str) -> World {
        let scratch = Scratch::with(tree);
        let lines = lines.replace('~', &scratch.work.display().to_string());
        World { server: Sshd::start(&lines).expect("sshd can be started: openssh-server and root"), scratch }
    }

    /// The program with these words and the server's configuration; `~` is the scratch directory, as the host sees it too.
    pub fn haul(&self, words: &str) -> Program {
        self.at_terminal(words).alone()
    }

    /// The same without the server's configuration.
    pub fn without_config(&self, words: &str) -> Program {
        self.scratch.haul(words).alone()
    }

    /// The same as [`World::haul`], for a test that gives it a terminal.
    pub fn at_terminal(&self, words: &str) -> Program {
        self.scratch.haul(words).arg("-F").arg(self.server.config())
    }

    #[track_caller]
    pub fn ends(&self, code: i32, words: &str) -> Ended {
        self.haul(words).ends(code)
    }

    /// It ends with the code and has all of this on standard error, which is returned.
    #[track_caller]
    pub fn says(&self, code: i32, words: &str, parts: &[&str]) -> String {
        parts.iter().fold(self.ends(code, words), |ended, part| ended.err_has(part)).err
    }
}
