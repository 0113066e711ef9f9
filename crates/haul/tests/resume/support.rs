//! A temporary place with a source, a destination and a state directory, and the program run in it.

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use haul_core::journal::{Begin, Identity, State};
use haul_test::compare::{What, differences};
use haul_test::tree::Tree;
use serde_json::Value;

/// No run of the program may take longer: a hang is a failure.
pub const BOUND: Duration = Duration::from_secs(120);

/// The chunk size of these tests, in bytes, and as the flag has it.
pub const CHUNK: u64 = 64 << 10;
pub const CHUNK_WORDS: &str = "64K";

pub struct Place {
    root: PathBuf,
    kept: Option<tempfile::TempDir>,
}

impl Place {
    pub fn new() -> Self {
        let kept = tempfile::Builder::new().prefix("haul-resume-").tempdir().expect("a temporary directory");
        let place = Place { root: kept.path().canonicalize().expect("it is there"), kept: Some(kept) };
        fs::create_dir(place.join("home")).expect("a home");
        place
    }

    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    pub fn tree(&self, words: &str) {
        Tree::new(&self.root).expect("the place is there").build(words).expect("the tree is made");
    }

    /// The program with these words (split at blanks), not started yet.
    pub fn haul(&self, words: &str) -> Haul {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
        haul_test::ignored::only(&mut command, &[]);
        command.args(words.split_whitespace()).env_clear().current_dir(&self.root).stdin(Stdio::null());
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        command.env("HOME", self.join("home")).env("HAUL_STATE_DIR", self.join("state"));
        Haul { command }
    }

    /// Files below the job directories, by name: `journal`, `lock`, `record`.
    pub fn kept_of_jobs(&self) -> Vec<String> {
        let mut names = Vec::new();
        for job in fs::read_dir(self.join("state/jobs")).into_iter().flatten().flatten() {
            for file in fs::read_dir(job.path()).into_iter().flatten().flatten() {
                names.push(file.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        names
    }

    pub fn journal(&self) -> PathBuf {
        let mut found: Vec<PathBuf> = fs::read_dir(self.join("state/jobs"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|job| job.path().join("journal"))
            .filter(|path| path.exists())
            .collect();
        assert_eq!(found.len(), 1, "journals: {found:?}");
        found.remove(0)
    }

    /// The job that `haul cp SOURCE/ TARGET` is.
    pub fn identity(&self, source: &str, target: &str) -> Identity {
        Identity {
            sources: vec![format!("{}/", self.join(source).display())],
            target: self.join(target).display().to_string(),
            ..Identity::default()
        }
    }

    /// What the journal says has landed: bytes of large files, and how many writes are open. Asked of a copy.
    pub fn landed(&self, identity: &Identity) -> (u64, usize) {
        let copy = self.join("state-copy");
        let _absent = fs::remove_dir_all(&copy);
        copy_tree(&self.join("state"), &copy);
        let state = State::open(copy).expect("the copy is there");
        let job = state.begin(identity, Begin::default()).expect("nobody holds it");
        let (_journal, past) = job.journal().expect("it can be read");
        let sessions = past.leftovers();
        (sessions.iter().map(|session| session.bytes()).sum(), sessions.len())
    }

    /// The trees are the same, there is nothing that a run left behind, and of the job only what it did and what it took.
    #[track_caller]
    pub fn assert_done(&self, source: &str, target: &str, what: What, when: &str) {
        self.assert_same(source, target, what, when);
        assert_eq!(staging(&self.join(target)), Vec::<PathBuf>::new(), "{when}: staging files");
        assert_eq!(self.kept_of_jobs(), ["figures", "record"], "{when}: state");
    }

    #[track_caller]
    pub fn assert_same(&self, source: &str, target: &str, what: What, when: &str) {
        let found = differences(&self.join(source), &self.join(target), what).expect("both can be read");
        let lines: Vec<String> = found.iter().take(20).map(ToString::to_string).collect();
        assert!(found.is_empty(), "{when}: {target} differs from {source}:\n{}", lines.join("\n"));
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

/// Names of staging files below a directory.
pub fn staging(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(staging(&entry.path()));
        } else if entry.file_name().as_encoded_bytes().starts_with(b".haul-") {
            found.push(entry.path());
        }
    }
    found
}

pub fn copy_tree(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(done.success(), "cp -a {} {}", from.display(), to.display());
}

/// Bytes of a file by its place: byte `i` says which version it is of and where it belongs.
pub fn versioned(version: u8, size: usize) -> Vec<u8> {
    (0..size).map(|i| if i % 4 == 0 { version } else { ((i / 4) >> (8 * (i % 4 - 1))) as u8 }).collect()
}

pub struct Haul {
    command: Command,
}

impl Haul {
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    pub fn kill_at(self, record: u64) -> Self {
        self.env("HAUL_TEST_KILL_AT_RECORD", record.to_string())
    }

    /// It ignores these signals from its start, as `nohup haul` and `haul &` of a shell without job control do.
    pub fn ignoring(mut self, signals: &'static [i32]) -> Self {
        haul_test::ignored::only(&mut self.command, signals);
        self
    }

    pub fn piped(mut self) -> Self {
        self.command.stdin(Stdio::piped());
        self
    }

    pub fn stdin_from(mut self, file: &Path) -> Self {
        self.command.stdin(fs::File::open(file).expect("it can be read"));
        self
    }

    pub fn directory(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    pub fn start(mut self) -> Running {
        let mut child = self.command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let out = drain(child.stdout.take().expect("piped"));
        let err = drain(child.stderr.take().expect("piped"));
        Running { child, out: Some(out), err: Some(err), words: format!("{:?}", self.command) }
    }

    pub fn run(self) -> Ended {
        self.start().wait(BOUND)
    }
}

fn drain(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _a_killed_writer_is_an_end = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

pub struct Running {
    child: Child,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
    words: String,
}

impl Running {
    /// What is written to a program that was started with [`Haul::piped`].
    pub fn input(&mut self) -> std::process::ChildStdin {
        self.child.stdin.take().expect("piped")
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _it_may_have_ended = rustix::process::kill_process(pid, signal);
    }

    /// Waits until it has a handler for SIGTERM; whether each of `signals` is ignored then.
    pub fn ignores_when_ready(&mut self, signals: &[i32]) -> Vec<bool> {
        let until = Instant::now() + BOUND;
        loop {
            let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
            let mask = |field: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a mask");
                u64::from_str_radix(line.trim(), 16).expect("hexadecimal")
            };
            let has = |mask: u64, signal: i32| mask >> (signal - 1) & 1 == 1;
            if has(mask("SigCgt:"), rustix::process::Signal::TERM.as_raw()) {
                return signals.iter().map(|signal| has(mask("SigIgn:"), *signal)).collect();
            }
            assert!(Instant::now() < until && self.is_running(), "it heeds no signal");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_none()
    }

    /// Until it ends; it is killed, and the test fails, past `bound`.
    pub fn wait(mut self, bound: Duration) -> Ended {
        let until = Instant::now() + bound;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            if Instant::now() > until {
                let _gone = self.child.kill();
                let ended = self.gather(ExitStatus::default());
                panic!("it did not end within {bound:?}\n{ended}");
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        self.gather(status)
    }

    fn gather(&mut self, status: ExitStatus) -> Ended {
        let text = |from: Option<JoinHandle<String>>| from.expect("asked once").join().expect("it does not panic");
        Ended { status, out: text(self.out.take()), err: text(self.err.take()), words: self.words.clone() }
    }
}

pub struct Ended {
    pub status: ExitStatus,
    pub out: String,
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
}

/// A number of the event `finished`.
#[track_caller]
pub fn number(event: &Value, name: &str) -> u64 {
    event[name].as_u64().unwrap_or_else(|| panic!("{name} is no number in {event}"))
}
