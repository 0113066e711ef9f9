//! A server, a temporary place, and the program run in it with a bound on every wait.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use haul_test::sshd::Sshd;
use haul_test::tree::Tree;

/// No run of the program may take longer: a hang is a failure.
pub const BOUND: Duration = Duration::from_secs(120);

pub struct World {
    pub server: Sshd,
    pub place: tempfile::TempDir,
}

impl World {
    pub fn new(lines: &str) -> World {
        let place = tempfile::Builder::new().prefix("haul-ssh-").tempdir().expect("a temporary directory");
        World { server: Sshd::start(lines).expect("sshd can be started: openssh-server and root"), place }
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.place.path().join(path)
    }

    pub fn tree(&self, words: &str) -> Tree {
        let tree = Tree::new(self.place.path()).expect("the place is there");
        tree.build(words).expect("the tree is made");
        tree
    }

    pub fn tool(&self, program: &str, arguments: &[&str]) {
        let done = Command::new(program).args(arguments).current_dir(self.place.path()).status().expect("the tool runs");
        assert!(done.success(), "{program} {arguments:?}");
    }

    pub fn haul(&self, words: &str) -> Output {
        bounded(self.command(words), words)
    }

    /// `~` in an argument stands for the place, as the host sees it too.
    pub fn command(&self, words: &str) -> Command {
        let mut command = program(self.place.path());
        let place = self.place.path().display().to_string();
        let mut words = words.split_whitespace().map(|word| word.replace('~', &place));
        let verb = words.next().expect("a command");
        command.arg(&verb);
        if verb != "jobs" {
            command.arg("-F").arg(self.server.config());
        }
        command.args(words);
        command
    }

    #[track_caller]
    pub fn ends(&self, code: i32, words: &str) -> (String, String) {
        self.ended(code, words, self.haul(words))
    }

    /// What a run that has ended said, if it ended so.
    #[track_caller]
    pub fn ended(&self, code: i32, words: &str, ran: Output) -> (String, String) {
        let (out, err) = (String::from_utf8_lossy(&ran.stdout).into_owned(), String::from_utf8_lossy(&ran.stderr).into_owned());
        assert_eq!(ran.status.code(), Some(code), "haul {words}\n{out}\n{err}\n{}", self.server.log());
        (out, err)
    }

    /// It ends with the code and says all of this on standard error.
    #[track_caller]
    pub fn says(&self, code: i32, words: &str, telling: &[&str]) -> String {
        let (_, err) = self.ends(code, words);
        for part in telling {
            assert!(err.contains(part), "haul {words}: no {part:?} in\n{err}\n{}", self.server.log());
        }
        err
    }
}

/// The program in a place, with nothing of the caller's surroundings.
pub fn program(place: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
    haul_test::ignored::only(&mut command, &[]);
    command.env_clear().current_dir(place).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", place);
    command.env("HAUL_STATE_DIR", place.join("state")).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
    command.stdin(Stdio::null());
    command
}

pub fn content(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Runs without a terminal of its own, and not for ever.
#[track_caller]
pub fn bounded(command: Command, words: &str) -> Output {
    Running::start(command).end(words)
}

/// A program that runs, its output being read.
pub struct Running {
    child: Child,
    out: JoinHandle<Vec<u8>>,
    err: JoinHandle<Vec<u8>>,
    begun: Instant,
}

fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        let _what_came = from.read_to_end(&mut all);
        all
    })
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        // In a session of its own there is nobody whom ssh could ask.
        let alone = || rustix::process::setsid().map(|_| ()).map_err(std::io::Error::from);
        // SAFETY: the closure makes one system call between fork and exec.
        unsafe { std::os::unix::process::CommandExt::pre_exec(&mut command, alone) };
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let (out, err) = (read_all(child.stdout.take().expect("piped")), read_all(child.stderr.take().expect("piped")));
        Running { child, out, err, begun: Instant::now() }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().expect("it was started").is_some()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
        rustix::process::kill_process(pid, signal).expect("it runs");
    }

    /// Waits till it ends; a program that does not is killed and the test fails.
    #[track_caller]
    pub fn end(mut self, words: &str) -> Output {
        loop {
            if let Some(status) = self.child.try_wait().expect("it was started") {
                let text = |from: JoinHandle<Vec<u8>>| from.join().expect("it only reads");
                return Output { status, stdout: text(self.out), stderr: text(self.err) };
            }
            if self.begun.elapsed() > BOUND {
                self.child.kill().expect("it runs");
                let _reaped = self.child.wait();
                let err = self.err.join().expect("it only reads");
                panic!("haul {words}: not over after {} s\n{}", BOUND.as_secs(), String::from_utf8_lossy(&err));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
