//! `haul bench files`: the program itself, on directories of this machine and on servers of its own at loopback.

#[path = "support.rs"]
mod support;

use std::collections::BTreeSet;
use std::fs;

use haul_test::objects::ObjectServer;
use haul_test::program::{Ended, Running, until};
use haul_test::sshd::Sshd;
use rustix::process::Signal;
use serde_json::Value;

use support::World;

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

impl World {
    fn new() -> World {
        let world = World::of("files");
        world.tree("d/");
        world
    }

    /// Names in the directory `d`.
    fn names(&self) -> Vec<String> {
        self.entries("d")
    }
}

/// The operations of which there is a sample, each with its outcome.
fn measured(ran: &Ended) -> Vec<(String, String)> {
    let samples = ran.out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON on each line"));
    let samples = samples.filter(|document| document["event"] == "bench-files").map(|document| document["sample"].clone());
    samples.map(|s| (s["contender"].as_str().unwrap_or("").to_string(), s["outcome"].as_str().unwrap_or("").to_string())).collect()
}

#[track_caller]
fn all_well(ran: &Ended, operations: &str) {
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
    assert_eq!((&summary["event"], summary["points"].as_array().map(Vec::len)), (&"bench-files-summary".into(), Some(2)));
    let loud = w.ends(0, "--json --file-count 5 --threads 1 --operation stat d");
    assert!(loud.err.contains("stat needs create first, which is not counted") && loud.err.contains("Threads"), "{}", loud.err);
    all_well(&loud, "stat");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_made() {
    let w = World::new();
    fs::write(w.path("file"), "x").expect("written");
    for (code, words, said) in [
        (1, "--operation create,frobnicate d", "'frobnicate' is not an operation; use create, append"),
        (1, "--operation create,,stat d", "'' is not an operation"),
        (1, "--operation cleanup d", "nothing would be measured"),
        (1, "--threads 0 d", "a number of threads is from 1 to 1024"),
        (1, "--threads 1,2000 d", "a number of threads is from 1 to 1024"),
        (1, "--threads 2,2 d", "'2' is given twice"),
        (1, "--threads 1,,2 d", "a number of threads is from 1 to 1024"),
        (1, "--file-size 4 d", "the number has no unit"),
        (1, "--file-count 0 d", "--file-count"),
        (1, "--file-count 5 --total 5 d", "cannot be used with"),
        (1, "--total 3 d", "3 files cannot be split over 8 threads"),
        (1, "--same-dir maybe d", "--same-dir"),
        (1, "--record-size 1G d", "a record is from 1 byte to 64 MiB"),
        (1, "--threads 1024 --record-size 2M --file-size 2M d", "would take more than 1 GiB of memory"),
        (1, "--duration 0s d", "must be above 0"),
        (1, "--xattr-size 1M d", "at most 64 KiB"),
        (1, "", "DIR"),
        (11, "--file-size 1T d", "MiB are free"),
        (23, "missing", "make it first, with `haul mkdir`"),
    ] {
        w.ends(code, words).err_has(said);
        assert_eq!(w.names(), [""; 0], "{words}");
    }
    w.command("file").run().code_of(&[1, 23]).err_has("file: open directory: Not a directory");
}

/// Starts a run, and waits until it has made files in `d`.
fn at_work(w: &World, words: &str) -> Running {
    let mut running = w.command(words).start();
    let has_file = |leaf: &String| w.has(format!("d/{leaf}/a/t000-d0000/f000-0000001"));
    running.until("files", || w.names().iter().any(has_file));
    running
}

#[test]
fn an_interrupted_run_removes_its_files_keeps_its_samples_and_resumes() {
    let w = World::new();
    let words = "--threads 1,2 --file-count 40 --operation create,stat --repeat 500 --out run d";
    let running = at_work(&w, words);
    until("samples", || fs::read_to_string(w.path("run/samples.jsonl")).is_ok_and(|text| text.lines().count() >= 3));
    running.signal(Signal::INT);
    let ran = running.wait().code(20);
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
    assert!(other.err.contains("the directory has a run with other settings"), "{}", other.err);
    assert_eq!((samples(), w.names()), (before.clone(), Vec::new()));
    let running = at_work(&w, words);
    running.signal(Signal::TERM);
    running.wait().code(20);
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
fn files_stay_if_asked_to() {
    let w = World::new();
    let ran = w.ends(0, "--keep --threads 2 --file-count 7 --operation create --file-size 100B d");
    let names = w.names();
    assert!(names.len() == 1 && ran.err.contains(&format!("kept: d/{}", names[0])), "{names:?} {}", ran.err);
    let files = |thread: u32| w.entries(format!("d/{}/a/t00{thread}-d0000", names[0]));
    assert_eq!((files(0).len(), files(1).len()), (7, 7));
}

const FOR_ALL: &str = "create,read,overwrite,stat,rename,readdir,ls-l,delete";

#[test]
fn another_machine_by_sftp_and_by_its_haul() {
    let w = World::new();
    let lines = format!("SetEnv HOME={}", w.home.display());
    let server = Sshd::start(&lines).expect("sshd can be started: openssh-server and root");
    let remote = w.path("d");
    let ssh = format!("-F {} --json --verify-read --threads 2 --file-count 6 --files-per-dir 4", server.config().display());
    let plain =
        w.ends(0, &format!("{ssh} --operation {FOR_ALL},append,chmod,symlink,mkdir,rmdir,setxattr sftp://testhost{}", remote.display()));
    for said in ["append is skipped: it writes only whole files", "setxattr is skipped: it has no extended attributes"] {
        assert!(plain.err.contains(said), "{said}: {}", plain.err);
    }
    all_well(&plain, &format!("{FOR_ALL},chmod,symlink,mkdir,rmdir"));
    assert_eq!(w.names(), [""; 0]);
    let agent = format!("{ssh} --agent {} --operation {FOR_ALL},chmod,setxattr,getxattr,hardlink", HAUL);
    let by_agent = w.ends(0, &format!("{agent} testhost:{}", remote.display()));
    all_well(&by_agent, &format!("{FOR_ALL},chmod,setxattr,getxattr,hardlink"));
    assert_eq!(w.names(), [""; 0]);
    let missing = w.ends(23, &format!("{ssh} testhost:{}/missing", remote.display()));
    assert!(missing.err.contains("make it first, with `haul mkdir`"), "{}", missing.err);
}

#[test]
fn an_object_store() {
    let w = World::new();
    let server = ObjectServer::minio().expect("minio; servers.sh beside haul-test's manifest installs it");
    server.make_bucket("bench").expect("a bucket");
    let endpoint = server.endpoint().clone();
    let run = |code: i32, words: &str| {
        let command = w.command(words).env("AWS_ACCESS_KEY_ID", &endpoint.access).env("AWS_SECRET_ACCESS_KEY", &endpoint.secret);
        command.env("AWS_REGION", &endpoint.region).env("AWS_ENDPOINT_URL", &endpoint.url).ends(code)
    };
    let ran =
        run(0, &format!("--json --verify-read --threads 2 --file-count 6 --files-per-dir 4 --operation {FOR_ALL},mkdir s3://bench/try"));
    assert!(ran.err.contains("mkdir is skipped: directories are only parts of names there"), "{}", ran.err);
    all_well(&ran, FOR_ALL);
    let keys = || {
        let answer = haul_test::objects::plain::request(&endpoint, "GET", "/bench?list-type=2", &[], b"");
        answer.and_then(haul_test::objects::plain::Answer::success).expect("listed").text()
    };
    assert!(!keys().contains("<Key>"), "{}", keys());
    let ran = run(1, "--operation mkdir,rmdir s3://bench/");
    assert!(ran.err.contains("no operation is supported there"), "{}", ran.err);
    assert!(ran.err.contains("haul: s3://bench/haul-bench-files-"), "{}", ran.err);
    run(0, "-q --threads 2 --file-count 6 --operation create --keep s3://bench/try/");
    assert!(keys().contains("<Key>try/haul-bench-files-"), "{}", keys());
}
