//! A host of its own for each test: an OpenSSH server, a home and a runtime directory there, and the program run against it.

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use haul_test::compare::{What, differences};
use haul_test::link::End;
use haul_test::sshd::Sshd;
use haul_test::tree::Tree;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// No run of the program may take longer: a hang is a failure.
pub const BOUND: Duration = Duration::from_secs(120);

/// The program that is tested, which is also the one on the remote host.
pub const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// A place with the files of both ends: they are one machine.
pub struct Place {
    root: PathBuf,
    kept: Option<tempfile::TempDir>,
}

impl Place {
    pub fn new() -> Place {
        let kept = tempfile::Builder::new().prefix("haul-agent-").tempdir().expect("a temporary directory");
        let place = Place { root: kept.path().canonicalize().expect("it is there"), kept: Some(kept) };
        for directory in ["home", "near-run", "far-home", "far-run"] {
            fs::create_dir(place.join(directory)).expect("made");
        }
        place
    }

    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// A server with these lines in its configuration, under which `far-home` and `far-run` are the user's.
    pub fn server(&self, lines: &str) -> Sshd {
        let (home, run) = (self.join("far-home"), self.join("far-run"));
        let lines = format!("{lines}\nSetEnv HOME={} XDG_RUNTIME_DIR={}", home.display(), run.display());
        Sshd::start(&lines).expect("sshd can be started: openssh-server and root")
    }
}

/// A failed test leaves its place behind.
impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(kept) = self.kept.take()
        {
            eprintln!("kept: {}", kept.keep().display());
        }
    }
}

pub struct World {
    pub server: Sshd,
    place: Place,
    /// What stands behind `--agent`.
    pub agent: PathBuf,
    /// The network in which the program runs; its own where there is none.
    pub near: Option<End>,
}

impl World {
    pub fn new(lines: &str) -> World {
        let place = Place::new();
        World { server: place.server(lines), place, agent: HAUL.into(), near: None }
    }

    pub fn on(place: Place, server: Sshd) -> World {
        World { server, place, agent: HAUL.into(), near: None }
    }

    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.place.join(path)
    }

    pub fn tree(&self, words: &str) -> Tree {
        let tree = Tree::new(self.join("")).expect("the place is there");
        tree.build(words).expect("the tree is made");
        tree
    }

    pub fn tool(&self, program: &str, arguments: &[&str]) {
        let done = Command::new(program).args(arguments).current_dir(self.join("")).status().expect("the tool runs");
        assert!(done.success(), "{program} {arguments:?}");
    }

    pub fn content(&self, path: &str) -> Vec<u8> {
        fs::read(self.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    /// The program with these words, split at blanks, and `--agent`. `~` stands for the place, as both ends see it.
    pub fn haul(&self, words: &str) -> Haul {
        let agent = self.agent.display().to_string();
        self.plain(words).arguments(&["--agent", &agent])
    }

    /// The same without `--agent`.
    pub fn plain(&self, words: &str) -> Haul {
        let mut command = Command::new(HAUL);
        haul_test::ignored::only(&mut command, &[]);
        command.env_clear().current_dir(self.join("")).stdin(Stdio::null());
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        command.env("HOME", self.join("home")).env("HAUL_STATE_DIR", self.join("state")).env("XDG_RUNTIME_DIR", self.join("near-run"));
        let place = self.join("").display().to_string();
        let place = place.trim_end_matches('/');
        command.args(words.split_whitespace().map(|word| word.replace('~', place)));
        command.arg("-F").arg(self.server.config());
        if let Some(near) = &self.near {
            near.enter(&mut command);
        }
        Haul { command }
    }

    #[track_caller]
    pub fn assert_same(&self, source: &str, target: &str, what: What) {
        let found = differences(&self.join(source), &self.join(target), what).expect("both can be read");
        let lines: Vec<String> = found.iter().take(20).map(ToString::to_string).collect();
        assert!(found.is_empty(), "{target} differs from {source} in {} places:\n{}\n{}", found.len(), lines.join("\n"), self.server.log());
    }

    /// The processes of haul that this test's server has started, and have not ended.
    pub fn agents(&self) -> Vec<Pid> {
        let port = format!(" {}", self.server.port);
        processes(|environment| environment.strip_prefix("SSH_CONNECTION=").is_some_and(|connection| connection.ends_with(&port)))
    }

    /// Sockets of agents in the far user's runtime directory.
    pub fn sockets(&self) -> Vec<String> {
        names(&self.join("far-run/haul-0")).into_iter().filter(|name| name.starts_with("agent-")).collect()
    }

    /// Waits until no agent is at work.
    #[track_caller]
    pub fn assert_no_agents(&self) {
        until("the agents have ended", || self.agents().is_empty());
    }

    /// There is no staging file below a directory.
    #[track_caller]
    pub fn assert_clean(&self, directory: &str) {
        assert_eq!(staging(&self.join(directory)), Vec::<PathBuf>::new(), "staging files");
    }
}

/// Processes of the program, one of whose variables is as wanted.
fn processes(wanted: impl Fn(&str) -> bool) -> Vec<Pid> {
    let ours = Path::new(HAUL).canonicalize().expect("it was built");
    let listed = fs::read_dir("/proc").expect("procfs").flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_wanted = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == ours)
            && environment.split(|byte| *byte == 0).any(|variable| wanted(&String::from_utf8_lossy(variable)))
    };
    listed.filter(is_wanted).filter_map(Pid::from_raw).collect()
}

pub fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Staging files below a directory.
pub fn staging(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(staging(&entry.path()));
        } else if entry.file_name().as_encoded_bytes().starts_with(b".haul-") {
            found.push(entry.path());
        }
    }
    found
}

/// Waits for what must come.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "it does not come: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub struct Haul {
    command: Command,
}

impl Haul {
    /// Where there is no private place for a socket: in a mount namespace of its own, everybody may enter the user's.
    pub fn without_a_place_for_sockets(self) -> Self {
        let user = rustix::process::geteuid().as_raw();
        let mut haul = self.through(&format!("mkdir -p /tmp/haul-{user} && mount -t tmpfs -o mode=777 none /tmp/haul-{user}"));
        haul.command.env_remove("XDG_RUNTIME_DIR");
        haul
    }

    /// In a mount namespace of its own, after these words of a shell.
    pub fn through(self, words: &str) -> Self {
        Haul { command: haul_test::apart::through(words, &self.command) }
    }

    pub fn arguments(mut self, words: &[&str]) -> Self {
        self.command.args(words);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn start(mut self) -> Running {
        let mut child = self.command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let out = drain(child.stdout.take().expect("piped"));
        let err = drain(child.stderr.take().expect("piped"));
        Running { child, out: Some(out), err: Some(err), words: format!("{:?}", self.command) }
    }

    /// With a pipe for its standard input: see [`Running::input`].
    pub fn piped(mut self) -> Running {
        self.command.stdin(Stdio::piped());
        self.start()
    }

    #[track_caller]
    pub fn run(self) -> Ended {
        self.start().wait(BOUND)
    }
}

fn drain(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _a_killed_writer_is_an_end = from.read_to_end(&mut bytes);
        bytes
    })
}

pub struct Running {
    child: Child,
    out: Option<JoinHandle<Vec<u8>>>,
    err: Option<JoinHandle<Vec<u8>>>,
    words: String,
}

impl Running {
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn input(&mut self) -> std::process::ChildStdin {
        self.child.stdin.take().expect("piped")
    }

    pub fn signal(&self, signal: Signal) {
        let _it_may_have_ended = kill_process(self.pid(), signal);
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_none()
    }

    /// Until it ends; it is killed, and the test fails, past `bound`.
    #[track_caller]
    pub fn wait(mut self, bound: Duration) -> Ended {
        let until = Instant::now() + bound;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            if Instant::now() > until {
                let _gone = self.child.kill();
                let _reaped = self.child.wait();
                let ended = self.gather(ExitStatus::default());
                panic!("it did not end within {bound:?}\n{ended}");
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        self.gather(status)
    }

    fn gather(&mut self, status: ExitStatus) -> Ended {
        let bytes = |from: Option<JoinHandle<Vec<u8>>>| from.expect("asked once").join().expect("it does not panic");
        let (bytes, err) = (bytes(self.out.take()), bytes(self.err.take()));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ended { status, out: text(&bytes), bytes, err: text(&err), words: self.words.clone() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _it_has_ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

pub struct Ended {
    pub status: ExitStatus,
    pub out: String,
    /// The standard output as it came.
    pub bytes: Vec<u8>,
    pub err: String,
    words: String,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n{}\n--- stdout\n{}\n--- stderr\n{}", self.words, self.status, self.out, self.err)
    }
}

impl Ended {
    pub fn was_killed(&self) -> bool {
        self.status.signal() == Some(9)
    }

    #[track_caller]
    pub fn code(self, wanted: i32) -> Self {
        assert_eq!(self.status.code(), Some(wanted), "{self}");
        self
    }

    #[track_caller]
    pub fn says(self, words: &str) -> Self {
        assert!(self.out.contains(words) || self.err.contains(words), "does not say {words:?}\n{self}");
        self
    }

    #[track_caller]
    pub fn never_says(self, words: &str) -> Self {
        assert!(!self.out.contains(words) && !self.err.contains(words), "says {words:?}\n{self}");
        self
    }

    /// The last event of a run with `--json`.
    #[track_caller]
    pub fn finished(&self) -> Value {
        let last = self.out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find(|event| event["event"] == "finished");
        last.unwrap_or_else(|| panic!("no event finished\n{self}"))
    }

    #[track_caller]
    pub fn number(&self, name: &str) -> u64 {
        let event = self.finished();
        event[name].as_u64().unwrap_or_else(|| panic!("{name} is no number in {event}"))
    }
}
