//! What people see first: the demo, and what jobs leave.

mod shells;

use std::path::Path;
use std::process::{Command, Output};

fn haul(dir: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
    command.args(arguments).current_dir(dir).env_clear().envs(environment.iter().copied());
    command.env("HAUL_STATE_DIR", dir.join("state")).env("TZ", "UTC").output().expect("haul starts")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn names(dir: &Path) -> Vec<String> {
    let entries = dir.read_dir().expect("listed");
    let mut names: Vec<String> = entries.map(|e| e.expect("entry").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

#[test]
fn the_demo_ends_well_in_a_pipe_and_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let output = haul(dir.path(), &["demo", "--dir", dir.path().to_str().expect("text")], &[]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    // Lines are folded where the folder's name makes them too long.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "$ haul cp -a --verify --bwlimit=64M run7/ copy",
        "Killed.",
        "1 large file started",
        "resuming an earlier run",
        "from an earlier run",
        "reread",
        "$ haul check -a --checksum run7/ copy",
        "Identical.",
        "Success",
    ] {
        assert!(words.contains(said), "{said:?} is not in\n{text}");
    }
    assert!(!text.contains('\x1b'), "control characters in a pipe:\n{text}");
    assert_eq!(names(dir.path()), Vec::<String>::new(), "{text}");
}

#[test]
fn a_demo_that_has_no_place_says_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let output = haul(dir.path(), &["demo", "--dir", "/nowhere/at/all"], &[]);
    assert_eq!(output.status.code(), Some(23), "{}", text(&output));
    assert!(text(&output).contains("--dir DIR"), "{}", text(&output));
}

/// A job that was killed with one large file begun, and one that is done.
fn two_jobs(dir: &Path) {
    std::fs::create_dir(dir.join("src")).expect("made");
    std::fs::write(dir.join("src/large"), vec![7; 3 << 20]).expect("written");
    let killed = haul(dir, &["cp", "-j1", "--chunk-size=1M", "src/", "unfinished"], &[("HAUL_TEST_KILL_AT_RECORD", "4")]);
    assert_eq!(killed.status.code(), None, "{}", text(&killed));
    let done = haul(dir, &["cp", "src/", "finished"], &[]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done));
}

#[test]
fn jobs_are_listed_shown_and_cleaned_with_what_they_left() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    two_jobs(dir);
    let list = text(&haul(dir, &["jobs"], &[]));
    assert!(list.contains("1 large file started") && list.contains("resume: cd "), "{list}");
    assert!(list.contains("1 file and 3.00 MiB transferred"), "{list}");

    let json = text(&haul(dir, &["jobs", "--json"], &[]));
    let jobs: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(jobs.len(), 2);
    let job = jobs.iter().find(|job| job["state"] == "unfinished").expect("one is unfinished");
    let staging = job["unfinished"][0]["staging"].as_str().expect("text");
    assert!(dir.join("unfinished").join(staging).exists());
    assert_eq!(job["event"], "job");
    let words = job["command"].as_array().expect("a list");
    assert_eq!(words[1..], ["cp", "-j1", "--chunk-size=1M", "src/", "unfinished"]);
    let done = jobs.iter().find(|job| job["state"] == "finished").expect("one is done");
    assert_eq!((&done["record"]["files"], &done["record"]["bytes"]), (&1.into(), &(3 << 20).into()), "numbers, not text");
    let id = job["job"].as_str().expect("text");
    let shown = text(&haul(dir, &["jobs", "show", &id[..6]], &[]));
    assert!(shown.contains(staging) && shown.contains("will be large"), "{shown}");

    let dry = text(&haul(dir, &["jobs", "clean", "-n"], &[]));
    assert!(dry.contains("would be removed, with 1 unfinished file") && dry.ends_with("DRY RUN: nothing was removed\n"), "{dry}");
    assert_eq!(names(&dir.join("unfinished")), [staging]);
    let old = text(&haul(dir, &["jobs", "clean", "--older-than", "1d"], &[]));
    assert!(old.contains("no jobs without a heartbeat"), "{old}");

    let cleaned = haul(dir, &["jobs", "clean", id], &[]);
    assert_eq!(cleaned.status.code(), Some(0), "{}", text(&cleaned));
    assert_eq!(names(&dir.join("unfinished")), Vec::<String>::new());
    assert!(dir.join("finished/large").exists());
    let list = text(&haul(dir, &["jobs"], &[]));
    assert!(list.contains("finished 2") && !list.contains("unfinished"), "{list}");
    haul(dir, &["jobs", "clean"], &[]);
    assert!(text(&haul(dir, &["jobs"], &[])).starts_with("no jobs in "));
}

/// Ids of the jobs in a state.
fn ids(dir: &Path, state: &str) -> Vec<String> {
    let json = text(&haul(dir, &["jobs", "--json"], &[]));
    let jobs = json.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    jobs.filter(|job| job["state"] == state).map(|job| job["job"].as_str().expect("text").to_owned()).collect()
}

/// From somewhere else, as after another login.
fn from_elsewhere(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
    command.args(arguments).current_dir("/").env_clear().env("HAUL_STATE_DIR", dir.join("state")).output().expect("haul starts")
}

#[test]
fn an_interrupted_job_is_resumed_by_its_id_alone() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    two_jobs(dir);
    let ([begun], [done]) = (&ids(dir, "unfinished")[..], &ids(dir, "finished")[..]) else { panic!("not one each") };
    let resumed = from_elsewhere(dir, &["jobs", "resume", &begun[..6]]);
    let said = text(&resumed);
    assert_eq!(resumed.status.code(), Some(0), "{said}");
    assert!(said.contains(&format!("resuming {begun}: cd ")) && said.contains("Resumed:"), "{said}");
    assert_eq!(std::fs::read(dir.join("unfinished/large")).expect("there"), vec![7; 3 << 20]);
    for (id, code, why) in
        [(begun, 1, "is finished"), (done, 1, "is finished"), (&"0".repeat(17), 1, "no such job"), (&String::new(), 1, "job")]
    {
        let refused = from_elsewhere(dir, &["jobs", "resume", id]);
        assert_eq!(refused.status.code(), Some(code), "{}", text(&refused));
        assert!(text(&refused).contains(why), "{}", text(&refused));
    }
    let json = from_elsewhere(dir, &["jobs", "resume", "--json", done]);
    let error: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!((&error["event"], &error["error"]), (&"error".into(), &"usage".into()));
}

#[test]
fn a_line_of_a_list_is_resumed_alone_and_its_words_are_kept_exactly() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    std::fs::create_dir_all(dir.join("a 'b\\")).expect("made");
    std::fs::write(dir.join("a 'b\\/large"), vec![7; 3 << 20]).expect("written");
    std::fs::write(dir.join("list"), "cp -j1 --chunk-size=1M \"a 'b\\\\/\" unfinished\ncp nothing there\n").expect("written");
    let killed = haul(dir, &["run", "list"], &[("HAUL_TEST_KILL_AT_RECORD", "4")]);
    assert_eq!(killed.status.code(), None, "{}", text(&killed));
    let [begun] = &ids(dir, "unfinished")[..] else { panic!("not one") };
    let resumed = from_elsewhere(dir, &["jobs", "resume", "--json", begun]);
    assert_eq!(resumed.status.code(), Some(0), "{}", text(&resumed));
    let last = String::from_utf8_lossy(&resumed.stdout).lines().last().map(str::to_owned).expect("lines");
    let last: serde_json::Value = serde_json::from_str(&last).expect("JSON");
    assert_eq!(last["event"], "finished");
    assert!(last["resumed_bytes"].as_u64() > Some(0), "{last}");
    assert_eq!(std::fs::read(dir.join("unfinished/large")).expect("there"), vec![7; 3 << 20]);
    // A list cannot become another program in its middle.
    std::fs::write(dir.join("list"), format!("jobs resume {begun}\n")).expect("written");
    assert_eq!(haul(dir, &["run", "list"], &[]).status.code(), Some(1));
}

#[test]
fn a_job_whose_directory_is_gone_says_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let work = dir.path().join("work");
    std::fs::create_dir(&work).expect("made");
    two_jobs(&work);
    std::fs::rename(work.join("state"), dir.path().join("state")).expect("renamed");
    let [begun] = &ids(dir.path(), "unfinished")[..] else { panic!("not one") };
    std::fs::rename(&work, dir.path().join("other")).expect("renamed");
    let refused = from_elsewhere(dir.path(), &["jobs", "resume", begun]);
    assert_eq!(refused.status.code(), Some(23), "{}", text(&refused));
    assert!(text(&refused).contains("/work: change to the directory of the job"), "{}", text(&refused));
}

#[test]
fn a_running_job_is_left_alone() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    std::fs::create_dir(dir.join("src")).expect("made");
    std::fs::write(dir.join("src/large"), vec![7; 8 << 20]).expect("written");
    let mut slow = Command::new(env!("CARGO_BIN_EXE_haul"));
    slow.args(["cp", "-q", "--bwlimit=1M", "src/", "dst"]).current_dir(dir).env("HAUL_STATE_DIR", dir.join("state"));
    let mut slow = slow.spawn().expect("haul starts");
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let running = loop {
        let list = text(&haul(dir, &["jobs"], &[]));
        if list.contains("running since") || std::time::Instant::now() > until {
            break list;
        }
    };
    let cleaned = text(&haul(dir, &["jobs", "clean"], &[]));
    let resumed = haul(dir, &["jobs", "resume", ids(dir, "running").first().map_or("", String::as_str)], &[]);
    let stays = slow.try_wait().expect("asked").is_none();
    slow.kill().expect("killed");
    slow.wait().expect("ended");
    assert!(running.contains(&format!("process {}", slow.id())), "{running}");
    assert!(cleaned.contains("left: it is running") && stays, "{cleaned}");
    assert_eq!(resumed.status.code(), Some(75), "{}", text(&resumed));
    assert!(text(&resumed).contains(&format!("the job is running, as process {}", slow.id())), "{}", text(&resumed));
}

/// A few files with fixed times.
fn tree(dir: &Path) {
    std::fs::create_dir_all(dir.join("src/d")).expect("made");
    for (name, content) in [("a", "one"), ("d/b", "three"), ("new", "now")] {
        let path = dir.join("src").join(name);
        std::fs::write(&path, content).expect("written");
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        std::fs::File::options().write(true).open(&path).and_then(|f| f.set_modified(time)).expect("set");
    }
}

fn inode(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::ino(&path.symlink_metadata().expect("there"))
}

#[test]
fn list_only_lists_and_does_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    tree(dir);
    let output = haul(dir, &["cp", "--list-only", "src/", "dst"], &[]);
    let mut lines: Vec<String> = text(&output).lines().map(str::to_string).collect();
    lines.sort();
    assert_eq!(output.status.code(), Some(0), "{lines:?}");
    assert_eq!(lines[0], "-rw-r--r--              3 2023/11/14 22:13:20 a");
    assert!(lines[3].starts_with("drwxr-xr-x ") && lines[3].ends_with(" ./"), "{lines:?}");
    assert!(lines[4].starts_with("drwxr-xr-x ") && lines[4].ends_with(" d/"), "{lines:?}");
    assert_eq!((lines.len(), names(dir)), (5, vec!["src".to_string()]));
    assert_eq!(haul(dir, &["cp", "--list-only", "src"], &[]).status.code(), Some(0), "a destination is not needed");
}

#[test]
fn link_dest_links_what_is_equal_and_copies_the_rest() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    tree(dir);
    haul(dir, &["cp", "src/", "monday"], &[]);
    std::fs::write(dir.join("src/new"), "later").expect("written");
    let dry = text(&haul(dir, &["cp", "-n", "--link-dest=../monday", "src/", "tuesday"], &[]));
    assert!(dry.contains("2 of them as hard links") && !dir.join("tuesday").exists(), "{dry}");
    let output = haul(dir, &["cp", "--link-dest=../monday", "--link-dest=../sunday", "src/", "tuesday"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("../sunday: no such directory"), "{}", text(&output));
    for (name, same) in [("a", true), ("d/b", true), ("new", false)] {
        let (monday, tuesday) = (dir.join("monday").join(name), dir.join("tuesday").join(name));
        assert_eq!(inode(&monday) == inode(&tuesday), same, "{name}");
    }
    assert_eq!(std::fs::read(dir.join("monday/new")).expect("read"), b"now");
}

#[test]
fn standard_input_becomes_a_file_whole_or_not_at_all() {
    use std::io::Write;
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
        haul_test::ignored::only(&mut command, &[]);
        command.args(["cp", "--verify", "-", "out"]).current_dir(dir).env("HAUL_STATE_DIR", dir.join("state"));
        command.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().expect("haul starts")
    };
    let content: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let mut whole = start();
    whole.stdin.take().expect("a pipe").write_all(&content).expect("written");
    let output = whole.wait_with_output().expect("ended");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(std::fs::read(dir.join("out")).expect("read") == content);

    let mut stopped = start();
    let mut pipe = stopped.stdin.take().expect("a pipe");
    pipe.write_all(&content[..2_000_000]).expect("written");
    let pid = rustix::process::Pid::from_raw(stopped.id().cast_signed()).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("sent");
    assert_eq!(stopped.wait().expect("ended").code(), Some(20));
    drop(pipe);
    assert!(std::fs::read(dir.join("out")).expect("read") == content, "the old file stands");
    assert_eq!(names(dir), ["out", "state"]);

    let output = haul(dir, &["cp", "out", "-"], &[]);
    assert!(output.stdout == content);
}

#[test]
fn check_writes_its_lists() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    tree(dir);
    haul(dir, &["cp", "src/", "dst"], &[]);
    std::fs::remove_file(dir.join("dst/a")).expect("removed");
    std::fs::write(dir.join("dst/d/b"), "longer than it was").expect("written");
    std::fs::write(dir.join("dst/more"), "").expect("written");
    let output = haul(dir, &["check", "--missing-to=m", "--extra-to=e", "--differing-to=d", "src/", "dst"], &[]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let list = |name| std::fs::read_to_string(dir.join(name)).expect("read");
    assert_eq!((list("m"), list("e"), list("d")), ("a\n".into(), "more\n".into(), "d/b\n".into()));
}

#[test]
fn deletes_take_links_and_special_files_too() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    tree(dir);
    haul(dir, &["cp", "src/", "dst"], &[]);
    std::os::unix::fs::symlink("nowhere", dir.join("dst/link")).expect("made");
    let _socket = std::os::unix::net::UnixListener::bind(dir.join("dst/socket")).expect("made");
    rustix::fs::mknodat(rustix::fs::CWD, dir.join("dst/fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("made");
    let output = haul(dir, &["sync", "-a", "--delete", "src/", "dst"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(names(&dir.join("dst")), ["a", "d", "new"]);
}

#[test]
fn what_is_refused_leaves_no_directory() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    tree(dir);
    let output = haul(dir, &["cp", "src", "src/d/inside"], &[]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert_eq!(names(&dir.join("src/d")), ["b"]);
}
