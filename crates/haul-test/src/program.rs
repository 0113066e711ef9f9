//! Runs of the program under test: a cleared environment, a bound on every wait, and assertions on what was printed.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, setrlimit};
use serde_json::Value;

use crate::{apart, ignored};

/// No run may take longer: a hang is a failure.
pub const BOUND: Duration = Duration::from_secs(120);

/// The program under test: cargo puts it one directory above the tests of its package.
pub fn haul() -> PathBuf {
    let test = std::env::current_exe().expect("procfs");
    test.parent().and_then(Path::parent).expect("below the directory of the profile").join("haul")
}

/// A program that has not been started.
#[derive(Debug)]
pub struct Program {
    command: Command,
    output: Option<File>,
}

impl Program {
    pub fn new(mut command: Command) -> Program {
        ignored::only(&mut command, &[]);
        Program { command, output: None }
    }

    /// The command itself, for whoever starts it in another way.
    pub fn command(self) -> Command {
        self.command
    }

    /// One more argument, taken as it is.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(arguments);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Dies as by kill -9 right behind the K-th record of its journal.
    pub fn killed_at(self, record: u64) -> Self {
        self.env("HAUL_TEST_KILL_AT_RECORD", record.to_string())
    }

    /// Ignores these signals from its start, as `nohup haul` and `haul &` of a shell without job control do.
    pub fn ignoring(mut self, signals: &'static [i32]) -> Self {
        ignored::only(&mut self.command, signals);
        self
    }

    /// Under a limit of the system, as by `ulimit`.
    pub fn limited(mut self, resource: Resource, most: u64) -> Self {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        // SAFETY: one system call between fork and exec.
        unsafe { self.command.pre_exec(move || Ok(setrlimit(resource, limit)?)) };
        self
    }

    /// In a session of its own, where there is no terminal to ask anybody at.
    pub fn alone(mut self) -> Self {
        // SAFETY: one system call between fork and exec.
        unsafe { self.command.pre_exec(|| Ok(rustix::process::setsid().map(drop)?)) };
        self
    }

    /// After these commands of a shell, in a mount namespace of its own.
    pub fn through(self, words: &str) -> Self {
        Program::new(apart::through(words, &self.command))
    }

    /// From another directory.
    pub fn directory(mut self, path: impl AsRef<Path>) -> Self {
        self.command.current_dir(path);
        self
    }

    /// Reads a file as its standard input.
    pub fn stdin(mut self, path: impl AsRef<Path>) -> Self {
        self.command.stdin(File::open(path).expect("the input can be opened"));
        self
    }

    /// Reads this as its standard input.
    pub fn fed(mut self, content: impl AsRef<[u8]>) -> Self {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(content.as_ref()).and_then(|()| file.rewind()).expect("written");
        self.command.stdin(file);
        self
    }

    /// Writes its standard output to a file; what is gathered of it is empty.
    pub fn output(mut self, to: File) -> Self {
        self.output = Some(to);
        self
    }

    pub fn start(mut self) -> Running {
        self.command.stdout(self.output.map_or_else(Stdio::piped, Stdio::from)).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap_or_else(|e| panic!("{:?}: {e}", self.command));
        let out = child.stdout.take().map_or_else(|| gather(std::io::empty()), gather);
        let err = child.stderr.take().map_or_else(|| gather(std::io::empty()), gather);
        let work = self.command.get_current_dir().map_or_else(String::new, |path| path.display().to_string());
        Running { child, streams: Some([out, err]), words: format!("{:?}", self.command), work }
    }

    /// Starts with a pipe for its standard input: see [`Running::input`].
    pub fn piped(mut self) -> Running {
        self.command.stdin(Stdio::piped());
        self.start()
    }

    #[track_caller]
    pub fn run(self) -> Ended {
        self.start().wait()
    }

    /// Runs it; panics unless it ends with this code.
    #[track_caller]
    pub fn ends(self, code: i32) -> Ended {
        self.run().code(code)
    }

    #[track_caller]
    pub fn succeeds(self) -> Ended {
        self.ends(0)
    }

    /// Runs it with `--json`; panics unless it succeeds, having created, renamed and deleted nothing.
    #[track_caller]
    pub fn moves_nothing(self) -> Ended {
        let ended = self.arg("--json").ends(0);
        let event = ended.finished();
        assert_eq!((&event["created"]["files"], &event["bytes"]), (&0.into(), &0.into()), "{ended}");
        for of in ["created", "replaced", "renamed", "deleted"] {
            let none = event[of].as_object().is_none_or(|counts| counts.values().all(|count| *count == 0));
            assert!(none, "{of}: {ended}");
        }
        ended
    }
}

fn gather(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // A writer that is killed is an end too.
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

/// A program that runs; killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// Standard output and standard error.
    streams: Option<[JoinHandle<Vec<u8>>; 2]>,
    words: String,
    work: String,
}

impl Running {
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn input(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("piped")
    }

    /// Sends a signal; a program that has ended is no error.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process(self.pid(), signal);
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_none()
    }

    /// A line of `/proc/PID/status`; `None` when the program has ended.
    pub fn status(&self, key: &str) -> Option<String> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        text.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim().to_string()))
    }

    /// Waits until it is so; panics when the program ends before.
    #[track_caller]
    pub fn until(&mut self, what: &str, mut is_so: impl FnMut() -> bool) {
        until(what, || is_so() || !self.is_running());
        if !is_so()
            && let Some(status) = self.child.try_wait().expect("it is our child")
        {
            panic!("it ended before: {what}\n{}", self.ended(status));
        }
    }

    #[track_caller]
    pub fn wait(self) -> Ended {
        self.within(BOUND)
    }

    /// Waits until it ends; past `bound` it is killed and the test fails.
    #[track_caller]
    pub fn within(mut self, bound: Duration) -> Ended {
        let until = Instant::now() + bound;
        loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                let ended = self.ended(status);
                let crashed = matches!(status.signal(), Some(libc::SIGABRT | libc::SIGBUS | libc::SIGILL | libc::SIGSEGV));
                assert!(!crashed && !ended.err.contains("panicked at "), "it crashed\n{ended}");
                return ended;
            }
            if Instant::now() > until {
                self.signal(Signal::KILL);
                let status = self.child.wait().expect("it is our child");
                panic!("it did not end within {bound:?}\n{}", self.ended(status));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn ended(&mut self, status: ExitStatus) -> Ended {
        let [bytes, err] = self.streams.take().expect("it ends once").map(|stream| stream.join().expect("it only reads"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ended { status, out: text(&bytes), bytes, err: text(&err), words: self.words.clone(), work: self.work.clone() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        // It may have been waited for.
        let _ = self.child.wait();
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub out: String,
    /// The standard output as it came.
    pub bytes: Vec<u8>,
    pub err: String,
    words: String,
    /// The directory that it ran in.
    pub work: String,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Content on the standard output is of no use here.
        let shown: String = self.out.chars().take(20_000).collect();
        write!(f, "{}\n{}\n--- stdout\n{shown}\n--- stderr\n{}", self.words, self.status, self.err)
    }
}

impl Ended {
    /// Standard output and standard error.
    pub fn text(&self) -> String {
        format!("{}{}", self.out, self.err)
    }

    pub fn was_killed(&self) -> bool {
        self.status.signal() == Some(libc::SIGKILL)
    }

    #[track_caller]
    pub fn code(self, wanted: i32) -> Self {
        self.code_of(&[wanted])
    }

    /// Panics unless it ended with one of these codes.
    #[track_caller]
    pub fn code_of(self, wanted: &[i32]) -> Self {
        assert!(self.status.code().is_some_and(|code| wanted.contains(&code)), "not one of {wanted:?}\n{self}");
        self
    }

    /// Panics unless the words are on standard output or standard error.
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

    #[track_caller]
    pub fn out_has(self, words: &str) -> Self {
        assert!(self.out.contains(words), "no {words:?} on standard output\n{self}");
        self
    }

    #[track_caller]
    pub fn err_has(self, words: &str) -> Self {
        assert!(self.err.contains(words), "no {words:?} on standard error\n{self}");
        self
    }

    #[track_caller]
    pub fn err_lacks(self, words: &str) -> Self {
        assert!(!self.err.contains(words), "{words:?} is on standard error\n{self}");
        self
    }

    /// The lines of standard output, sorted: workers print as they go.
    pub fn sorted(&self) -> Vec<&str> {
        let mut lines: Vec<&str> = self.out.lines().collect();
        lines.sort_unstable();
        lines
    }

    /// Standard output as JSON, a value per line.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}\n{self}"))).collect()
    }

    /// The last event of a run with `--json`.
    #[track_caller]
    pub fn finished(&self) -> Value {
        let mut events = self.out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.find(|event| event["event"] == "finished").unwrap_or_else(|| panic!("no event finished\n{self}"))
    }

    /// A number of the last event of a run with `--json`.
    #[track_caller]
    pub fn number(&self, name: &str) -> u64 {
        let event = self.finished();
        event[name].as_u64().unwrap_or_else(|| panic!("{name} is no number in {event}"))
    }
}

/// Waits for what must come.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "it does not come: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
