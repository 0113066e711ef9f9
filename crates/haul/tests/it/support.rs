//! Where a test runs: a directory of its own, a cleared environment, and a bound on every wait.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use haul_test::compare::{What, assert_same};
use haul_test::nobody::{NobodyProgram, become_nobody, give};
use haul_test::tree::Tree;
use rustix::process::{Resource, Rlimit, setrlimit};
use tempfile::TempDir;

/// A run that takes longer hangs.
const BOUND: Duration = Duration::from_secs(60);

/// One test's directory: `w` to work in, and beside it the home, the state and what the runs have printed.
pub struct World {
    directory: TempDir,
    /// Set where an ordinary user runs the program.
    user: Option<NobodyProgram>,
}

/// A command in that world.
pub struct Haul<'a> {
    world: &'a World,
    command: Command,
    output: Option<File>,
}

/// How a run ended.
pub struct Ran {
    /// `None` when a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    work: String,
}

impl World {
    /// As this user, which must be root.
    pub fn new() -> World {
        World::make(false)
    }

    /// Everything in it belongs to an ordinary user, who also runs the program.
    pub fn of_user() -> World {
        World::make(true)
    }

    fn make(user: bool) -> World {
        assert!(rustix::process::geteuid().is_root(), "these tests need root: they mount and change owners");
        let directory = tempfile::Builder::new().prefix("haul-it-").tempdir().expect("a temporary directory");
        let program = || NobodyProgram::new(Path::new(env!("CARGO_BIN_EXE_haul"))).expect("a copy of the program");
        let world = World { directory, user: user.then(program) };
        for name in ["", "w", "home", "state", "out"] {
            let path = world.directory.path().join(name);
            fs::create_dir_all(&path).expect("make a directory");
            if user {
                give(&path).expect("give a directory away");
            }
        }
        world
    }

    /// The working directory, or a path below it.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let work = self.directory.path().join("w");
        if path.as_ref().as_os_str().is_empty() { work } else { work.join(path) }
    }

    pub fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// Gives a file or directory a time of the past, so that nothing made now has the same by chance.
    pub fn age(&self, path: &str) {
        let file = std::fs::File::open(self.path(path)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000)).unwrap();
    }

    /// Makes what the text says (see [`Tree::build`]) in the working directory.
    fn age_directories(&self, path: &str) {
        for entry in std::fs::read_dir(self.path(path)).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.age_directories(&format!("{path}/{}", entry.file_name().display()));
            }
        }
        self.age(path);
    }

    pub fn tree(&self, text: &str) -> Tree {
        let tree = Tree::new(self.path("")).expect("the working directory");
        tree.build(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        if let Some((top, _)) = text.split_once(": ").filter(|(top, _)| self.has(top)) {
            self.age_directories(top);
        }
        if self.user.is_some() {
            self.give_all();
        }
        tree
    }

    /// Gives all that is in the working directory to the ordinary user.
    pub fn give_all(&self) {
        let done = Command::new("chown").args(["-hR", "65534:65534"]).arg(self.path("")).status().expect("chown starts");
        assert!(done.success());
    }

    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        fs::write(self.path(path), content).expect("write a file");
    }

    pub fn read(&self, path: impl AsRef<Path>) -> Vec<u8> {
        let path = self.path(path);
        fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    pub fn mode(&self, path: impl AsRef<Path>) -> u32 {
        let path = self.path(path);
        fs::symlink_metadata(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).mode() & 0o7777
    }

    /// Whether a name stands there, of whatever kind.
    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        fs::symlink_metadata(self.path(path)).is_ok()
    }

    /// All names below a path, sorted, directories with a slash, with blanks between.
    pub fn names(&self, path: impl AsRef<Path>) -> String {
        self.list(path).join(" ")
    }

    pub fn list(&self, path: impl AsRef<Path>) -> Vec<String> {
        let top = self.path(path);
        let mut names = Vec::new();
        let mut waiting = vec![top.clone()];
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(&directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display())) {
                let entry = entry.expect("list");
                let mut name = entry.path().strip_prefix(&top).expect("below the top").to_string_lossy().into_owned();
                if entry.file_type().expect("its kind").is_dir() {
                    waiting.push(entry.path());
                    name.push('/');
                }
                names.push(name);
            }
        }
        names.sort();
        names
    }

    pub fn same(&self, a: impl AsRef<Path>, b: impl AsRef<Path>, what: What) {
        assert_same(&self.path(a), &self.path(b), what);
    }

    /// The program with these arguments, separated by blanks.
    pub fn haul(&self, arguments: &str) -> Haul<'_> {
        let mut command = match &self.user {
            Some(program) => program.command(),
            None => Command::new(env!("CARGO_BIN_EXE_haul")),
        };
        let top = self.directory.path();
        command.env_clear().current_dir(self.path("")).stdin(Stdio::null()).args(arguments.split_whitespace());
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("TZ", "UTC").env("LC_ALL", "C.UTF-8");
        command.env("HOME", top.join("home")).env("HAUL_STATE_DIR", top.join("state"));
        Haul { world: self, command, output: None }
    }

    /// Another program, which must succeed; gives back its output.
    pub fn tool(&self, program: &str, arguments: &str) -> String {
        let mut command = Command::new(program);
        command.current_dir(self.path("")).args(arguments.split_whitespace()).env("LC_ALL", "C");
        let out = command.output().unwrap_or_else(|e| panic!("{program}: {e}"));
        assert!(out.status.success(), "{program} {arguments}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// What rsync would still do to make the destination equal: nothing, if all is well.
    pub fn rsync_finds(&self, source: &str, destination: &str) -> String {
        self.tool("rsync", &format!("-anciHAX --delete {source} {destination}"))
    }

    /// As the ordinary user, whoever runs the program.
    pub fn as_nobody(&self, program: &str, arguments: &str) -> bool {
        let mut command = Command::new(program);
        become_nobody(&mut command).current_dir(self.path("")).args(arguments.split_whitespace());
        command.stderr(Stdio::null()).stdout(Stdio::null()).status().expect("it starts").success()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // What a failed test leaves is what explains it.
        if std::thread::panicking() {
            self.directory.disable_cleanup(true);
            #[expect(clippy::print_stderr, reason = "for whom the test failed")]
            {
                eprintln!("kept: {}", self.directory.path().display());
            }
        }
    }
}

impl Haul<'_> {
    /// One more argument, taken as it is.
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(arguments);
        self
    }

    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Its standard output goes there; what is read of it is empty.
    pub fn output(mut self, to: File) -> Self {
        self.output = Some(to);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn stdin(mut self, content: impl AsRef<[u8]>) -> Self {
        let path = self.world.directory.path().join("out/stdin");
        fs::write(&path, content).expect("write what is to be read");
        self.command.stdin(File::open(&path).expect("open what is to be read"));
        self
    }

    /// Under a limit of the system, as by `ulimit`.
    pub fn limited(mut self, resource: Resource, most: u64) -> Self {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        // SAFETY: one system call between fork and exec.
        unsafe { self.command.pre_exec(move || Ok(setrlimit(resource, limit)?)) };
        self
    }

    /// Starts it and gives it back running.
    pub fn start(mut self) -> Running {
        let place = tempfile::tempdir_in(self.world.directory.path().join("out")).expect("a directory for the output").keep();
        let file = |name: &str| File::create(place.join(name)).expect("a file for the output");
        let stdout = file("stdout");
        let child = self.command.stdout(self.output.take().unwrap_or(stdout)).stderr(file("stderr")).spawn().expect("the program starts");
        Running { child, place, work: self.world.path("").to_string_lossy().into_owned() }
    }

    /// Runs it to its end.
    pub fn run(self) -> Ran {
        self.start().end()
    }

    /// Runs it; panics unless it ends with this code.
    pub fn ends(self, code: i32) -> Ran {
        let line = format!("{:?}", self.command);
        let ran = self.run();
        assert_eq!(ran.code, Some(code), "{line}\n{}{}", ran.stdout, ran.stderr);
        ran
    }

    /// Runs it; panics unless it succeeds.
    pub fn succeeds(self) -> Ran {
        self.ends(0)
    }
}

/// A run that goes on.
pub struct Running {
    child: Child,
    place: PathBuf,
    work: String,
}

impl Running {
    /// A number of `/proc/PID/status`; `None` when the run is over.
    pub fn status(&self, key: &str) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
    }

    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().expect("ask for its state").is_some()
    }

    /// Waits for its end, but not for ever.
    pub fn end(mut self) -> Ran {
        let (done, over) = mpsc::channel::<()>();
        let id = rustix::process::Pid::from_child(&self.child);
        let watch = std::thread::spawn(move || {
            let late = over.recv_timeout(BOUND) == Err(mpsc::RecvTimeoutError::Timeout);
            if late {
                let _gone = rustix::process::kill_process(id, rustix::process::Signal::KILL);
            }
            late
        });
        let status = self.child.wait().expect("wait for the program");
        drop(done);
        let late = watch.join().expect("the watch ends");
        let read = |name: &str| String::from_utf8_lossy(&fs::read(self.place.join(name)).expect("its output")).into_owned();
        let (stdout, stderr) = (read("stdout"), read("stderr"));
        assert!(!late, "it hangs\n{stdout}{stderr}");
        assert!(status.signal().is_none_or(|s| s == 9), "ended by {status}\n{stdout}{stderr}");
        Ran { code: status.code(), stdout, stderr, work: self.work }
    }
}

impl Ran {
    /// Exit code and output, without what differs from run to run.
    pub fn snapshot(&self) -> String {
        let mut whole = format!("exit {}\n", self.code.map_or("by a signal".into(), |code| code.to_string()));
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                let _infallible = write!(whole, "--- {name}\n{}", steady(&text.replace(&self.work, "[W]")));
            }
        }
        whole
    }

    /// The lines that name items: what stands between the plan and the summary.
    pub fn items(&self) -> Vec<String> {
        let end = |line: &&str| !SUMMARY.iter().any(|key| line.starts_with(key));
        let mut lines: Vec<String> = self.stdout.lines().skip(1).take_while(end).map(str::to_owned).collect();
        lines.sort();
        lines
    }

    /// One line of the summary, without its key.
    pub fn summary(&self, key: &str) -> Option<&str> {
        self.stdout.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
    }
}

const SUMMARY: [&str; 4] = ["Result:", "Completed:", "Stopped:", "Items:"];
/// Lines that hold nothing that is the same twice.
const UNSTEADY: [&str; 8] = ["Completed:", "Started:", "Seconds:", "Throughput:", "Time:", "Bottleneck:", "Try next:", "Workers:"];

/// The program goes by its name, wherever it was started.
fn plain_program(line: &str) -> String {
    let line = line.replace(env!("CARGO_BIN_EXE_haul"), "haul");
    match (line.find("/tmp/haul-nobody-"), line.find("/program ")) {
        (Some(begin), Some(end)) if begin < end => format!("{}haul {}", &line[..begin], &line[end + "/program ".len()..]),
        _ => line,
    }
}

fn steady(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut items: Vec<String> = Vec::new();
    let mut in_items = false;
    for (number, line) in text.lines().enumerate() {
        let line = plain_program(line);
        if line.starts_with("tuned:") {
            continue;
        }
        let ends = SUMMARY.iter().any(|key| line.starts_with(key));
        // Workers name what they do as they do it.
        if number > 0 && !ends && in_items {
            items.push(line);
            continue;
        }
        if ends && in_items {
            items.sort();
            lines.append(&mut items);
            in_items = false;
        }
        in_items |= number == 0;
        if !UNSTEADY.iter().any(|key| line.starts_with(key)) {
            lines.push(line);
        }
    }
    lines.append(&mut items);
    sort_failures(&mut lines);
    lines.join("\n") + "\n"
}

/// Failures come as they happen: consecutive ones are sorted, each with the line of advice below it.
fn sort_failures(lines: &mut [String]) {
    let advice = |line: &str| line.trim_start().starts_with("try: ");
    let failure = |line: &str| !advice(line) && (line.starts_with("haul: ") || line.starts_with("  ")) && line.contains(": ");
    let mut at = 0;
    while at < lines.len() {
        let length = lines[at..].iter().take_while(|line| failure(line) || advice(line)).count();
        let mut groups: Vec<Vec<String>> = Vec::new();
        for line in &lines[at..at + length] {
            match groups.last_mut().filter(|_| advice(line)) {
                Some(group) => group.push(line.clone()),
                None => groups.push(vec![line.clone()]),
            }
        }
        groups.sort();
        lines[at..at + length].clone_from_slice(&groups.concat());
        at += length.max(1);
    }
}
