//! What a test of a remote host runs in: a scratch directory, and an OpenSSH server of its own. Both ends are this machine.

use std::ffi::OsStr;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use crate::compare::What;
use crate::content::bytes;
use crate::program::{Ended, Program, haul};
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

/// A scratch directory, and a server of any kind: `@` at the beginning of a word stands for an address at it.
#[derive(Debug)]
pub struct Served<S> {
    scratch: Scratch,
    pub server: S,
    /// What `@` stands for.
    pub url: String,
    env: Vec<(&'static str, PathBuf)>,
}

impl<S> Deref for Served<S> {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.scratch
    }
}

impl<S> Served<S> {
    /// Size of the file `src/big` of [`Served::filled`].
    pub const BIG: usize = 9 << 20;

    pub fn new(scratch: Scratch, server: S, url: String) -> Served<S> {
        Served { scratch, server, url, env: Vec::new() }
    }

    /// Sets a variable for every program.
    pub fn with(mut self, name: &'static str, value: impl Into<PathBuf>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// With a tree `src`: a large file, so many small ones, and names of all kinds.
    pub fn filled(self, small: u64) -> Self {
        self.sh("mkdir -p src/d/sub 'src/empty dir'");
        for (path, content) in
            [("src/d/a.txt", "hello\n"), ("src/d/b c.txt", "x"), ("src/d/none", ""), ("src/d/sub/-deep", "deep"), ("src/.hid", "h")]
        {
            self.write_at(path, content, 1_500_000_000);
        }
        for n in 0..small {
            self.write_at(&format!("src/d/n{n}"), bytes(n, 100 * n as usize), 1_400_000_000 + n);
        }
        self.write_at("src/big", bytes(99, Self::BIG), 1_300_000_000);
        self
    }

    /// Writes a file of this time, in seconds since 1970.
    pub fn write_at(&self, path: &str, content: impl AsRef<[u8]>, seconds: u64) {
        self.write(path, content);
        self.set_time(path, UNIX_EPOCH + Duration::from_secs(seconds));
    }

    pub fn time(&self, path: &str) -> i64 {
        self.meta(path).mtime()
    }

    /// A program with these words.
    pub fn run(&self, program: impl AsRef<OsStr>, words: &str) -> Program {
        let word = |word: &str| word.strip_prefix('@').map_or(word.to_string(), |path| format!("{}{path}", self.url));
        let words = words.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
        let program = self.scratch.program(Command::new(program), &words);
        self.env.iter().fold(program, |program, (name, value)| program.env(name, value))
    }

    pub fn haul(&self, words: &str) -> Program {
        self.run(haul(), words)
    }

    /// Standard output and standard error.
    #[track_caller]
    pub fn ends(&self, code: i32, words: &str) -> String {
        self.haul(words).ends(code).text()
    }

    /// It fails; standard output and standard error.
    #[track_caller]
    pub fn fails(&self, words: &str) -> String {
        let ended = self.haul(words).run();
        assert!(!ended.status.success(), "{ended}");
        ended.text()
    }

    #[track_caller]
    pub fn same(&self, one: &str, other: &str) {
        self.assert_same(one, other, What::CONTENT);
    }
}
