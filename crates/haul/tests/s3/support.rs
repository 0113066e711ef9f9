//! A bucket of its own for each test, at one server for all of them, and a directory to run the program in.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use haul_test::compare::{What, differences};
use haul_test::objects::plain::{self, Answer};
use haul_test::objects::{Endpoint, Minio, Scripted, Server};
use haul_test::tree::Tree;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// No run of the program may take longer: a hang is a failure.
pub const BOUND: Duration = Duration::from_secs(60);

/// The least size of a part that is not the last.
pub const PART: usize = 5 << 20;

/// The server that all tests share, gone with the last of them.
fn server() -> Arc<Minio> {
    static SERVER: Mutex<Weak<Minio>> = Mutex::new(Weak::new());
    let mut server = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    server.upgrade().unwrap_or_else(|| {
        let started = Arc::new(Minio::start().expect("MinIO can be started: servers.sh installs it"));
        *server = Arc::downgrade(&started);
        started
    })
}

pub struct World {
    root: PathBuf,
    kept: Option<tempfile::TempDir>,
    /// The real server, for what is set up and looked up without haul.
    pub real: Endpoint,
    /// What the program is told.
    pub endpoint: Endpoint,
    pub bucket: String,
    server: Arc<dyn Server>,
}

impl World {
    pub fn new() -> World {
        World::at(server())
    }

    /// At a server of its own.
    pub fn at(server: Arc<impl Server + 'static>) -> World {
        let world = World::without_bucket(server);
        world.server.make_bucket(&world.bucket).expect("a bucket");
        world
    }

    /// At a server of its own, where the bucket is not made.
    pub fn without_bucket(server: Arc<impl Server + 'static>) -> World {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let kept = tempfile::Builder::new().prefix("haul-s3-").tempdir().expect("a temporary directory");
        let bucket = format!("bucket-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let real = server.endpoint().clone();
        let root = kept.path().canonicalize().expect("it is there");
        fs::create_dir(root.join("home")).expect("made");
        World { root, kept: Some(kept), endpoint: real.clone(), real, bucket, server }
    }

    /// With a server between, which can be told what to answer.
    pub fn scripted() -> (World, Scripted) {
        let mut world = World::new();
        let scripted = Scripted::before(&world.real).expect("it listens");
        world.endpoint = scripted.endpoint(&world.real);
        (world, scripted)
    }

    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    pub fn tree(&self, words: &str) -> Tree {
        let tree = Tree::new(self.join("")).expect("the place is there");
        tree.build(words).expect("the tree is made");
        tree
    }

    pub fn content(&self, path: &str) -> Vec<u8> {
        fs::read(self.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    /// Another program, which must succeed; gives back its output.
    #[track_caller]
    pub fn tool(&self, program: &str, arguments: &[&str]) -> String {
        let out = Command::new(program).args(arguments).current_dir(self.join("")).env("LC_ALL", "C").output().expect("the tool runs");
        assert!(out.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// The program with these words, split at blanks. `@` stands for the bucket's address, `~` for the place.
    pub fn haul(&self, words: &str) -> Haul {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
        haul_test::ignored::only(&mut command, &[]);
        command.env_clear().current_dir(self.join("")).stdin(Stdio::null());
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        command.env("HOME", self.join("home")).env("HAUL_STATE_DIR", self.join("state"));
        command.env("AWS_ENDPOINT_URL", &self.endpoint.url).env("AWS_REGION", &self.endpoint.region);
        command.env("AWS_ACCESS_KEY_ID", &self.endpoint.access).env("AWS_SECRET_ACCESS_KEY", &self.endpoint.secret);
        // Nothing else on the machine may answer in place of these.
        command.env("AWS_EC2_METADATA_DISABLED", "true");
        let (place, bucket) = (self.root.display().to_string(), format!("s3://{}", self.bucket));
        command.args(words.split_whitespace().map(|word| word.replace('~', &place).replace('@', &bucket)));
        Haul { command }
    }

    #[track_caller]
    pub fn assert_same(&self, source: &str, target: &str, what: What) {
        let found = differences(&self.join(source), &self.join(target), what).expect("both can be read");
        let lines: Vec<String> = found.iter().take(20).map(ToString::to_string).collect();
        assert!(found.is_empty(), "{target} differs from {source} in {} places:\n{}", found.len(), lines.join("\n"));
    }

    /// What rsync would still do to make the second tree equal to the first: nothing, if all is well.
    pub fn rsync_finds(&self, source: &str, target: &str) -> String {
        self.tool("rsync", &["-naciHAX", "--delete", source, target])
    }

    /// A request for the bucket or a key in it, by a client that is not haul. `target` is encoded.
    pub fn request(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        plain::request(&self.real, method, &format!("/{}{target}", self.bucket), headers, body).expect("the server answers")
    }

    #[track_caller]
    pub fn put(&self, key: &[u8], headers: &[(&str, &str)], body: &[u8]) {
        self.request("PUT", &format!("/{}", encode(key)), headers, body)
            .success()
            .unwrap_or_else(|e| panic!("{}: {e}", key.escape_ascii()));
    }

    #[track_caller]
    pub fn get(&self, key: &str) -> Vec<u8> {
        self.request("GET", &format!("/{}", encode(key.as_bytes())), &[], b"").success().unwrap_or_else(|e| panic!("{key}: {e}")).body
    }

    /// The value of a header of an object.
    pub fn header(&self, key: &str, name: &str) -> Option<String> {
        self.request("HEAD", &format!("/{}", encode(key.as_bytes())), &[], b"").header(name).map(str::to_owned)
    }

    /// Up to 1,000 keys, as a listing has them.
    pub fn keys(&self) -> Vec<String> {
        let listed = self.request("GET", "?encoding-type=url&list-type=2", &[], b"").success().expect("a listing").text();
        between(&listed, "<Key>", "</Key>").collect()
    }

    /// Unfinished uploads of one key.
    pub fn uploads(&self, key: &str) -> Vec<String> {
        let prefix = encode(key.as_bytes()).replace('/', "%2F");
        let listed = self.request("GET", &format!("?prefix={prefix}&uploads="), &[], b"").success().expect("a listing").text();
        between(&listed, "<UploadId>", "</UploadId>").collect()
    }
}

fn between<'a>(text: &'a str, open: &'a str, close: &'a str) -> impl Iterator<Item = String> + 'a {
    text.split(open).skip(1).filter_map(move |rest| rest.split(close).next()).map(str::to_owned)
}

/// As in a URL, slashes left as they are.
pub fn encode(key: &[u8]) -> String {
    key.iter().fold(String::new(), |mut text, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => text.push(char::from(*byte)),
            byte => write!(text, "%{byte:02X}").expect("a string takes all"),
        }
        text
    })
}

/// A failed test leaves its place behind.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(kept) = self.kept.take()
        {
            eprintln!("kept: {}", kept.keep().display());
        }
    }
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
    /// One more argument, taken as it is.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
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

    /// After these commands of a shell, in a mount namespace of its own.
    pub fn through(self, words: &str) -> Self {
        let mut command = haul_test::apart::through(words, &self.command);
        haul_test::ignored::only(&mut command, &[]);
        Haul { command }
    }

    /// Dies as by kill -9 right behind the K-th record of its journal.
    pub fn killed_at(self, record: u64) -> Self {
        self.env("HAUL_TEST_KILL_AT_RECORD", record.to_string())
    }

    pub fn stdin(mut self, path: impl AsRef<Path>) -> Self {
        self.command.stdin(File::open(path).expect("what is to be read"));
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
        self.start().wait()
    }

    /// Runs it; panics unless it ends with this code.
    #[track_caller]
    pub fn ends(self, code: i32) -> Ended {
        self.run().code(code)
    }

    /// Runs it with `--json`; panics unless it succeeds, having made and removed nothing.
    #[track_caller]
    pub fn moves_nothing(self) -> Ended {
        let ended = self.arg("--json").ends(0);
        let event = ended.finished();
        assert_eq!((&event["made"]["files"], &event["bytes"]), (&0.into(), &0.into()), "{ended}");
        for of in ["made", "updated", "deleted"] {
            let none = event[of].as_object().is_none_or(|counts| counts.values().all(|count| *count == 0));
            assert!(none, "{of}: {ended}");
        }
        ended
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
    pub fn input(&mut self) -> std::process::ChildStdin {
        self.child.stdin.take().expect("piped")
    }

    pub fn signal(&self, signal: Signal) {
        let _it_may_have_ended = kill_process(Pid::from_child(&self.child), signal);
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_none()
    }

    /// Until it ends; it is killed, and the test fails, past [`BOUND`].
    #[track_caller]
    pub fn wait(mut self) -> Ended {
        let until = Instant::now() + BOUND;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            if Instant::now() > until {
                let _gone = self.child.kill();
                let _reaped = self.child.wait();
                let ended = self.gather(ExitStatus::default());
                panic!("it did not end within {BOUND:?}\n{ended}");
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

#[derive(Debug)]
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
        // Content on the standard output is of no use here.
        let shown: String = self.out.chars().take(20_000).collect();
        write!(f, "{}\n{}\n--- stdout\n{shown}\n--- stderr\n{}", self.words, self.status, self.err)
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

    /// A number of the last event of a run with `--json`.
    #[track_caller]
    pub fn number(&self, name: &str) -> u64 {
        let event = self.finished();
        event[name].as_u64().unwrap_or_else(|| panic!("{name} is no number in {event}"))
    }
}
