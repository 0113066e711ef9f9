//! `haul bench files`: the program itself, on directories of this machine and on servers of its own at loopback.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use haul_test::objects::{Minio, Server};
use haul_test::sshd::Sshd;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

struct World {
    place: tempfile::TempDir,
}

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

impl World {
    fn new() -> World {
        let place = tempfile::Builder::new().prefix("haul-bench-test-").tempdir().expect("a temporary directory");
        fs::create_dir(place.path().join("d")).expect("made");
        fs::create_dir(place.path().join("home")).expect("made");
        World { place }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.place.path().join(path)
    }

    /// The words are split at blanks.
    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
        haul_test::ignored::only(&mut command, &[]);
        command.env_clear().current_dir(self.place.path()).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", self.path("home"));
        command.env("HAUL_STATE_DIR", self.path("state")).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        command.args(["bench", "files"]).args(words.split_whitespace()).stdin(Stdio::null());
        command
    }

    #[track_caller]
    fn ends(&self, code: i32, words: &str) -> Ran {
        ends(self.command(words), code)
    }

    /// Names in the directory `d`.
    fn names(&self) -> Vec<String> {
        names(&self.path("d"))
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).expect("listed").map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[track_caller]
fn ends(mut command: Command, code: i32) -> Ran {
    let ran = Ran::from(command.output().expect("the program runs"));
    assert_eq!(ran.code, Some(code), "{command:?}\n{}\n{}", ran.out, ran.err);
    ran
}

/// The operations of which there is a sample, each with its outcome.
fn measured(ran: &Ran) -> Vec<(String, String)> {
    let samples = ran.out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON on each line"));
    let samples = samples.filter(|document| document["event"] == "bench-files").map(|document| document["sample"].clone());
    samples.map(|s| (s["contender"].as_str().unwrap_or("").to_string(), s["outcome"].as_str().unwrap_or("").to_string())).collect()
}

#[track_caller]
fn all_well(ran: &Ran, operations: &str) {
    let expected: Vec<(String, String)> = operations.split(',').map(|op| (op.to_string(), "ok".to_string())).collect();
    assert_eq!(measured(ran), expected, "{}\n{}", ran.out, ran.err);
}

#[test]
fn a_directory_alone_gives_a_table_that_fits_and_leaves_nothing() {
    let w = World::new();
    fs::write(w.path("d/thesis.tex"), "x").expect("written");
    let ran = w.ends(0, "--file-count 30 --threads 1,2 --same-dir both d");
    for operation in ["Create, files of 4 KiB\n", "Stat,", "Read,", "Rename,", "Delete,"] {
        assert!(ran.out.contains(operation), "{operation}\n{}", ran.out);
    }
    for column in ["Threads", "Total", "Same dir", "Done", "Counted", "IOPS", "Files/s", "MiB/s", "p50", "p90", "p99", "p99.9", "max"] {
        assert!(ran.out.contains(column), "{column}\n{}", ran.out);
    }
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
    assert!(ran.err.starts_with("create, stat, read, rename, delete in d/haul-bench-files-"), "{}", ran.err);
    assert!(ran.err.contains("case 4 of 4: 2 threads in directories of their own, 30 files of 4 KiB each"), "{}", ran.err);
    assert_eq!(w.names(), ["thesis.tex"]);
    // A line for each combination, in each block of each operation.
    let rows = ran.out.lines().filter(|line| line.trim_start().starts_with(['1', '2']) && (line.contains("  Y ") || line.contains("  N ")));
    let rows = rows.count();
    assert!(rows >= 5 * 4 * 2 && rows.is_multiple_of(4), "{rows}\n{}", ran.out);
}

#[test]
fn json_has_standard_output_to_itself() {
    let w = World::new();
    let ran = w.ends(0, "--json -q --total 50 --threads 2 --operation create,stat d");
    assert_eq!(ran.err, "");
    all_well(&ran, "create,stat");
    let first: Value = serde_json::from_str(ran.out.lines().next().expect("a line")).expect("JSON");
    let sample = &first["sample"];
    let expected = serde_json::json!({ "operation": "create", "threads": 2, "file_size": 4096, "same_dir": "N", "file_count": 25 });
    assert_eq!(sample["factors"], expected);
    assert_eq!(sample["more"]["asked_files"], 50);
    let (counted, whole) = (sample["files"].as_u64().expect("a count"), sample["more"]["whole_files"].as_u64().expect("a count"));
    assert!((25..=50).contains(&counted) && whole == 50, "{sample}");
    assert_eq!(sample["latency"]["count"].as_u64(), Some(counted));
    assert_eq!(sample["bytes"].as_u64(), Some(counted * 4096));
    let summary: Value = serde_json::from_str(ran.out.lines().last().expect("a line")).expect("JSON");
    assert_eq!((&summary["event"], summary["rows"].as_array().map(Vec::len)), (&"bench-files-summary".into(), Some(2)));
    let loud = w.ends(0, "--json --file-count 5 --threads 1 --operation stat d");
    assert!(loud.err.contains("stat needs create first, which is not counted") && loud.err.contains("Threads"), "{}", loud.err);
    all_well(&loud, "stat");
}

#[test]
fn every_operation_goes_well_where_it_can_be_done() {
    let w = World::new();
    let operations = "create,append,overwrite,truncate-overwrite,read,stat,chmod,rename,setxattr,getxattr,symlink,hardlink,mkdir,readdir,\
                      ls-l,rmdir,delete,delete-renamed";
    let words = format!(
        "--json -q --verify-read --fsync --file-size 10K --record-size 3K --file-count 12 --files-per-dir 5 --threads 3 --operation {operations} d"
    );
    all_well(&w.ends(0, &words), operations);
    // The names of smallfile that differ.
    all_well(&w.ends(0, "--json -q --files 5 --threads 2 --operation ls-l,delete_renamed,cleanup,mkdir d"), "ls-l,delete-renamed,mkdir");
    all_well(&w.ends(0, "--json -q --file-size 0 --file-count 5 --threads 2 --operation create,read,delete d"), "create,read,delete");
    assert_eq!(w.names(), [""; 0]);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_made() {
    let w = World::new();
    fs::write(w.path("file"), "x").expect("written");
    for (code, words, said) in [
        (1, "--operation create,frobnicate d", "'frobnicate' is no operation; there are create, append"),
        (1, "--operation create,,stat d", "'' is no operation"),
        (1, "--operation cleanup d", "nothing would be measured"),
        (1, "--threads 0 d", "a number of threads is from 1 to 1024"),
        (1, "--threads 1,2000 d", "a number of threads is from 1 to 1024"),
        (1, "--threads 2,2 d", "'2' stands there twice"),
        (1, "--threads 1,,2 d", "a number of threads is from 1 to 1024"),
        (1, "--file-size 4 d", "the number has no unit"),
        (1, "--file-count 0 d", "--file-count"),
        (1, "--file-count 5 --total 5 d", "cannot be used with"),
        (1, "--total 3 d", "3 files cannot be split over 8 threads"),
        (1, "--same-dir maybe d", "--same-dir"),
        (1, "--record-size 1G d", "a record is from 1 byte to 64 MiB"),
        (1, "--threads 1024 --record-size 2M --file-size 2M d", "would take more than 1 GiB of memory"),
        (1, "--duration 0s d", "longer than nothing"),
        (1, "--xattr-size 1M d", "at most 64 KiB"),
        (1, "", "DIR"),
        (11, "--file-size 1T d", "MiB are free"),
        (23, "missing", "make it first, with `haul mkdir`"),
    ] {
        let mut command = w.command(words);
        let ran = Ran::from(command.output().expect("the program runs"));
        assert!(ran.err.contains(said), "{words}: {}", ran.err);
        assert_eq!(ran.code, Some(code), "{words}: {}", ran.err);
        assert_eq!(w.names(), [""; 0], "{words}");
    }
    let ran = Ran::from(w.command("file").output().expect("the program runs"));
    assert!(ran.err.contains("file: open directory: Not a directory") && ran.code != Some(0), "{}", ran.err);
}

#[test]
fn a_directory_without_permission_says_so() {
    let w = World::new();
    let nobody = 65_534;
    // The program, too, is where nobody may enter.
    for path in ["", "d", "home"] {
        fs::set_permissions(w.path(path), fs::Permissions::from_mode(0o755)).expect("set");
    }
    let program = w.path("haul");
    // By another process: one that a test starts meanwhile would hold the copy open for writing, and it could not be run.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_haul")).arg(&program).status().expect("cp runs");
    assert!(copied.success());
    let mut command = Command::new(&program);
    fs::create_dir(w.path("everybody")).expect("made");
    fs::set_permissions(w.path("everybody"), fs::Permissions::from_mode(0o777)).expect("set");
    command.args(["bench", "files", "--state-dir"]).arg(w.path("everybody")).arg(w.path("d")).env_clear();
    if fs::metadata("/proc/self").expect("there").uid() == 0 {
        command.uid(nobody).gid(nobody);
    } else {
        fs::set_permissions(w.path("d"), fs::Permissions::from_mode(0o555)).expect("set");
    }
    let ran = Ran::from(command.output().expect("the program runs"));
    assert!(
        ran.err.contains("make directory: Permission denied") && ran.err.contains("name a directory that you may write to"),
        "{}",
        ran.err
    );
    assert_eq!(ran.code, Some(23), "{}", ran.err);
}

/// Waits until a run has made files in `d`; the directory of the run.
fn at_work(w: &World, child: &mut Child) -> PathBuf {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let leaf = w.names().into_iter().find(|name| name.starts_with("haul-bench-files-") && !name.ends_with("-foreign"));
        if let Some(leaf) = leaf
            && w.path("d").join(&leaf).join("a").join("t000-d0000").join("f000-0000001").exists()
        {
            return w.path("d").join(leaf);
        }
        assert!(Instant::now() < until && child.try_wait().expect("waited").is_none(), "no files are made");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id().cast_signed()).expect("a process"), signal).expect("sent");
}

#[test]
fn an_interrupted_run_removes_its_files_keeps_its_samples_and_goes_on() {
    let w = World::new();
    let words = "--threads 1,2 --file-count 40 --operation create,stat --repeat 500 --out run d";
    let mut child = w.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    at_work(&w, &mut child);
    let until = Instant::now() + Duration::from_secs(60);
    while fs::read(w.path("run/samples.jsonl")).map_or(0, |text| text.iter().filter(|byte| **byte == b'\n').count()) < 3 {
        assert!(Instant::now() < until, "no samples");
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, Signal::INT);
    let ran = Ran::from(child.wait_with_output().expect("ended"));
    assert_eq!(ran.code, Some(20), "{}", ran.err);
    assert!(ran.err.contains("stopping and removing the files") && ran.err.contains("no files were left behind"), "{}", ran.err);
    assert!(ran.err.contains("the same command with --out "), "{}", ran.err);
    assert_eq!(w.names(), [""; 0]);
    let samples = || fs::read_to_string(w.path("run/samples.jsonl")).expect("samples");
    let moments = |text: &str| {
        let at = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["at"].clone();
        text.lines().map(at).collect::<Vec<Value>>()
    };
    let before = samples();
    // Shorter would be another run: refused, and nothing is lost.
    let other = w.ends(23, "--threads 1,2 --file-count 40 --operation create,stat --repeat 1 --out run d");
    assert!(other.err.contains("a run with other settings lies there"), "{}", other.err);
    assert_eq!((samples(), w.names()), (before.clone(), Vec::new()));
    let mut child = w.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    at_work(&w, &mut child);
    signal(&child, Signal::TERM);
    let ran = Ran::from(child.wait_with_output().expect("ended"));
    assert_eq!(ran.code, Some(20), "{}", ran.err);
    assert!(moments(&samples()).starts_with(&moments(&before)), "{}\n{before}", samples());
    let keys: Vec<String> = samples()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .filter(|sample| sample["outcome"] == "ok")
        .map(|sample| format!("{} {} {}", sample["contender"], sample["factors"], sample["repetition"]))
        .collect();
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len(), "a sample was taken twice");
}

#[test]
fn a_run_directory_has_header_samples_and_table() {
    let w = World::new();
    let ran = w.ends(0, "--threads 2 --file-count 20 --operation create,delete --repeat 2 --out run d");
    assert!(ran.out.contains("(50 %)") && ran.err.contains("report: "), "{}\n{}", ran.out, ran.err);
    let header: Value = serde_json::from_slice(&fs::read(w.path("run/run.json")).expect("a header")).expect("JSON");
    assert_eq!((&header["kind"], &header["settings"]["file_count"], header["ended"].is_string()), (&"files".into(), &20.into(), true));
    assert_eq!(header["places"][0]["address"], "d");
    assert!(fs::read_to_string(w.path("run/report.html")).expect("a report").contains("</html>"));
    assert_eq!(fs::read_to_string(w.path("run/samples.csv")).expect("a table").lines().count(), 5);
    let again = w.ends(23, "--threads 2 --file-count 20 --operation create,delete --repeat 2 --out run d");
    assert!(again.err.contains("a run that is complete lies there"), "{}", again.err);
    assert_eq!(w.names(), [""; 0]);
}

#[test]
fn what_a_killed_run_leaves_is_removed_and_nothing_else() {
    let w = World::new();
    fs::create_dir(w.path("d/haul-bench-files-foreign")).expect("made");
    fs::write(w.path("d/haul-bench-files-foreign/thesis.tex"), "x").expect("written");
    let none = w.ends(0, "--cleanup d");
    assert!(none.err.contains("haul-bench-files-foreign is left: it has no mark"), "{}", none.err);
    let mut child = w
        .command("--threads 2 --file-count 500 --repeat 1000 --operation create,read d")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program runs");
    let left = at_work(&w, &mut child);
    let busy = w.ends(0, "--cleanup d");
    assert!(busy.err.contains("its run is at work on this machine"), "{}", busy.err);
    assert!(left.exists());
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert!(fs::read_to_string(left.join("ABOUT.txt")).expect("the mark").starts_with("haul bench files\n"));
    std::os::unix::fs::symlink(w.path("d/haul-bench-files-foreign"), left.join("trap")).expect("made");
    let ran = w.ends(0, "--cleanup d");
    assert!(ran.err.contains(&format!("removed {}", left.file_name().expect("a name").to_string_lossy())), "{}", ran.err);
    assert_eq!(w.names(), ["haul-bench-files-foreign"]);
    assert_eq!(fs::read(w.path("d/haul-bench-files-foreign/thesis.tex")).expect("still there"), b"x");
}

#[test]
fn a_run_of_another_machine_is_left_unless_it_is_forced() {
    let w = World::new();
    let far = w.path("d/haul-bench-files-far");
    fs::create_dir(&far).expect("made");
    fs::write(far.join("ABOUT.txt"), "haul bench files\nhost some-other-node\nprocess 1 1\n").expect("written");
    let left = w.ends(0, "--cleanup d");
    assert!(left.err.contains("haul-bench-files-far is left: its run is of another machine"), "{}", left.err);
    assert!(left.err.contains("--force"), "{}", left.err);
    assert!(far.join("ABOUT.txt").exists());
    let told = w.ends(0, "--json -q --cleanup d");
    assert!(told.out.contains("\"removed\":false"), "{}", told.out);
    let gone = w.ends(0, "--cleanup --force d");
    assert!(gone.err.contains("removed haul-bench-files-far"), "{}", gone.err);
    assert_eq!(w.names(), [""; 0]);
    w.ends(1, "--force d");
}

#[test]
fn files_stay_if_asked_to() {
    let w = World::new();
    let ran = w.ends(0, "--keep --threads 2 --file-count 7 --operation create --file-size 100B d");
    let names = w.names();
    assert!(names.len() == 1 && ran.err.contains(&format!("left there, as asked: d/{}", names[0])), "{names:?} {}", ran.err);
    let files = |thread: u32| self::names(&w.path("d").join(&names[0]).join(format!("a/t00{thread}-d0000")));
    assert_eq!((files(0).len(), files(1).len()), (7, 7));
    w.ends(0, "--cleanup d");
    assert_eq!(w.names(), [""; 0]);
}

const FOR_ALL: &str = "create,read,overwrite,stat,rename,readdir,ls-l,delete";

#[test]
fn another_machine_by_sftp_and_by_its_haul() {
    let w = World::new();
    let lines = format!("SetEnv HOME={}", w.path("home").display());
    let server = Sshd::start(&lines).expect("sshd can be started: openssh-server and root");
    let far = w.path("d");
    let ssh = format!("-F {} --json --verify-read --threads 2 --file-count 6 --files-per-dir 4", server.config().display());
    let plain =
        w.ends(0, &format!("{ssh} --operation {FOR_ALL},append,chmod,symlink,mkdir,rmdir,setxattr sftp://testhost{}", far.display()));
    for said in ["append is left out: files are only written as a whole there", "setxattr is left out: it keeps no extended attributes"] {
        assert!(plain.err.contains(said), "{said}: {}", plain.err);
    }
    all_well(&plain, &format!("{FOR_ALL},chmod,symlink,mkdir,rmdir"));
    assert_eq!(w.names(), [""; 0]);
    let agent = format!("{ssh} --agent {} --operation {FOR_ALL},chmod,setxattr,getxattr,hardlink", env!("CARGO_BIN_EXE_haul"));
    let by_agent = w.ends(0, &format!("{agent} testhost:{}", far.display()));
    all_well(&by_agent, &format!("{FOR_ALL},chmod,setxattr,getxattr,hardlink"));
    assert_eq!(w.names(), [""; 0]);
    let missing = w.ends(23, &format!("{ssh} testhost:{}/missing", far.display()));
    assert!(missing.err.contains("make it first, with `haul mkdir`"), "{}", missing.err);
    w.ends(0, &format!("{ssh} --keep --operation create -q sftp://testhost{}", far.display()).replace("--json ", ""));
    assert_eq!(w.names().len(), 1);
    w.ends(0, &format!("-F {} --cleanup sftp://testhost{}", server.config().display(), far.display()));
    assert_eq!(w.names(), [""; 0]);
}

#[test]
fn an_object_store() {
    let w = World::new();
    let server = Minio::start().expect("minio; servers.sh beside haul-test's manifest installs it");
    server.make_bucket("bench").expect("a bucket");
    let endpoint = server.endpoint().clone();
    let run = |code: i32, words: &str| {
        let mut command = w.command(words);
        command.env("AWS_ACCESS_KEY_ID", &endpoint.access).env("AWS_SECRET_ACCESS_KEY", &endpoint.secret);
        command.env("AWS_REGION", &endpoint.region).env("AWS_ENDPOINT_URL", &endpoint.url);
        ends(command, code)
    };
    let ran =
        run(0, &format!("--json --verify-read --threads 2 --file-count 6 --files-per-dir 4 --operation {FOR_ALL},mkdir s3://bench/try"));
    assert!(ran.err.contains("mkdir is left out: directories are only parts of names there"), "{}", ran.err);
    all_well(&ran, FOR_ALL);
    let keys = || {
        let answer = haul_test::objects::plain::request(&endpoint, "GET", "/bench?list-type=2", &[], b"");
        answer.and_then(haul_test::objects::plain::Answer::success).expect("listed").text()
    };
    assert!(!keys().contains("<Key>"), "{}", keys());
    run(0, "-q --threads 2 --file-count 6 --operation create --keep s3://bench/try/");
    assert!(keys().contains("<Key>try/haul-bench-files-"), "{}", keys());
    let ran = run(0, "--cleanup s3://bench/try/");
    assert!(ran.err.contains("removed haul-bench-files-"), "{}", ran.err);
    assert!(!keys().contains("<Key>"), "{}", keys());
    let ran = run(1, "--operation mkdir,rmdir s3://bench/");
    assert!(ran.err.contains("none of the operations can be done there"), "{}", ran.err);
    assert!(ran.err.contains("haul: s3://bench/haul-bench-files-"), "{}", ran.err);
    assert!(!keys().contains("<Key>"), "{}", keys());
}
