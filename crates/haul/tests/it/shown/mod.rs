//! What people see first: the demo, and what jobs leave.

mod shells;

use std::io::Write;

use haul_test::program::{Program, until};
use haul_test::scratch::Scratch;
use rustix::process::Signal;
use serde_json::Value;

/// Both outputs of a run that succeeds.
#[track_caller]
fn printed(s: &Scratch, words: &str) -> String {
    let ended = s.haul(words).ends(0);
    ended.out + &ended.err
}

#[test]
fn the_demo_ends_well_in_a_pipe_and_leaves_nothing() {
    let s = Scratch::new();
    let text = printed(&s, "demo --dir ~");
    // Lines are folded where the directory's name makes them too long.
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
    assert_eq!(s.names(""), "", "{text}");
}

#[test]
fn a_demo_that_has_no_directory_says_so() {
    Scratch::new().haul("demo --dir /nowhere/at/all").ends(23).says("--dir DIR");
}

/// A large file, a job that was killed with it begun, and one that is finished.
fn two_jobs() -> Scratch {
    let s = Scratch::with("src: large=3M");
    assert!(s.haul("cp -j1 --chunk-size=1M src/ unfinished").killed_at(4).run().was_killed());
    s.haul("cp src/ finished").ends(0);
    s
}

/// The jobs in a state.
fn jobs(s: &Scratch, state: &str) -> Vec<Value> {
    s.haul("jobs --json").ends(0).events().into_iter().filter(|job| job["state"] == state).collect()
}

/// The id of the only job in a state.
#[track_caller]
fn id(s: &Scratch, state: &str) -> String {
    let [job] = &jobs(s, state)[..] else { panic!("not one job is {state}") };
    job["job"].as_str().expect("text").to_owned()
}

#[test]
fn jobs_are_listed_shown_and_cleaned_with_what_they_left() {
    let s = two_jobs();
    s.haul("jobs").ends(0).says("1 large file started").says("resume: cd ").says("1 file and 3.00 MiB transferred");
    let [job] = &jobs(&s, "unfinished")[..] else { panic!("not one") };
    let staging = job["unfinished"][0]["staging"].as_str().expect("text");
    assert!(s.has(format!("unfinished/{staging}")));
    assert_eq!(job["event"], "job");
    let words = job["command"].as_array().expect("a list");
    assert_eq!(words[1..], ["cp", "-j1", "--chunk-size=1M", "src/", "unfinished"]);
    let [done] = &jobs(&s, "finished")[..] else { panic!("not one") };
    assert_eq!((&done["record"]["files"], &done["record"]["bytes"]), (&1.into(), &(3 << 20).into()), "numbers, not text");
    let id = id(&s, "unfinished");
    s.haul(&format!("jobs show {}", &id[..6])).ends(0).says(staging).says("will be large");

    let dry = printed(&s, "jobs clean -n");
    assert!(dry.contains("would be removed, with 1 unfinished file") && dry.ends_with("DRY RUN: nothing was removed\n"), "{dry}");
    assert_eq!(s.names("unfinished"), staging);
    s.haul("jobs clean --older-than 1d").ends(0).says("no jobs without a heartbeat");

    s.haul(&format!("jobs clean {id}")).ends(0);
    assert_eq!(s.names("unfinished"), "");
    assert!(s.has("finished/large"));
    s.haul("jobs").ends(0).says("finished 2").never_says("unfinished");
    s.haul("jobs clean").ends(0);
    assert!(printed(&s, "jobs").starts_with("no jobs in "));
}

/// From another directory, as after another login.
fn from_elsewhere(s: &Scratch, words: &str) -> Program {
    s.haul(words).directory("/")
}

#[test]
fn an_interrupted_job_is_resumed_by_its_id_alone() {
    let s = two_jobs();
    let (begun, done) = (id(&s, "unfinished"), id(&s, "finished"));
    from_elsewhere(&s, &format!("jobs resume {}", &begun[..6])).ends(0).says(&format!("resuming {begun}: cd ")).says("Resumed:");
    assert!(s.read("unfinished/large") == s.read("src/large"));
    for (id, reason) in [(&*begun, "is finished"), (&*done, "is finished"), (&*"0".repeat(17), "no such job"), ("", "job")] {
        from_elsewhere(&s, "jobs resume").arg(id).ends(1).says(reason);
    }
    let error = &from_elsewhere(&s, &format!("jobs resume --json {done}")).ends(1).events()[0];
    assert_eq!((&error["event"], &error["error"]), (&"error".into(), &"usage".into()));
}

#[test]
fn a_line_of_a_list_is_resumed_alone_and_its_words_are_kept_exactly() {
    let s = Scratch::new();
    s.write("a 'b\\/large", vec![7; 3 << 20]);
    s.write("list", "cp -j1 --chunk-size=1M \"a 'b\\\\/\" unfinished\ncp nothing there\n");
    assert!(s.haul("run list").killed_at(4).run().was_killed());
    let begun = id(&s, "unfinished");
    let ended = from_elsewhere(&s, &format!("jobs resume --json {begun}")).ends(0);
    assert!(ended.number("resumed_bytes") > 0, "{ended}");
    assert!(s.read("unfinished/large") == [7; 3 << 20]);
    // A list cannot become another program in its middle.
    s.write("list", format!("jobs resume {begun}\n"));
    s.haul("run list").ends(1);
}

#[test]
fn a_job_whose_directory_is_gone_says_so() {
    let s = two_jobs();
    let begun = id(&s, "unfinished");
    let other = s.work.with_extension("other");
    s.rename("", &other);
    from_elsewhere(&s, &format!("jobs resume {begun}")).ends(23).says("/w: change to the directory of the job");
}

#[test]
fn a_running_job_is_left_alone() {
    let s = Scratch::with("src: large=8M");
    let mut slow = s.haul("cp -q --bwlimit=1M src/ dst").start();
    until("the job is listed", || printed(&s, "jobs").contains("running since"));
    let pid = slow.pid().as_raw_pid();
    s.haul("jobs").ends(0).says(&format!("process {pid}"));
    s.haul("jobs clean").run().says("left: it is running");
    s.haul(&format!("jobs resume {}", id(&s, "running"))).ends(75).says(&format!("the job is running, as process {pid}"));
    assert!(slow.is_running());
}

#[test]
fn list_only_lists_and_does_nothing() {
    let s = Scratch::with("src: a=3 d/b=5 new=3");
    for name in ["a", "d/b", "new"] {
        s.age(format!("src/{name}"));
    }
    s.sh("touch -r src/a src/d src");
    let ended = s.haul("cp --list-only src/ dst").ends(0);
    let lines = ended.sorted();
    assert_eq!(lines[0], "-rw-r--r--              3 2020/09/13 12:26:40 a");
    assert!(lines[3].starts_with("drwxr-xr-x ") && lines[3].ends_with(" ./"), "{lines:?}");
    assert!(lines[4].starts_with("drwxr-xr-x ") && lines[4].ends_with(" d/"), "{lines:?}");
    assert_eq!((lines.len(), s.entries("")), (5, vec!["src".to_string()]));
    // A destination is not needed.
    s.haul("cp --list-only src").ends(0);
}

#[test]
fn standard_input_becomes_a_file_whole_or_not_at_all() {
    let s = Scratch::new();
    let content: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let start = |content: &[u8]| {
        let mut run = s.haul("cp --verify - out").piped();
        let mut pipe = run.input();
        pipe.write_all(content).expect("written");
        (run, pipe)
    };
    let (run, pipe) = start(&content);
    drop(pipe);
    run.wait().code(0);
    assert!(s.read("out") == content);

    let (run, _pipe) = start(&content[..2_000_000]);
    run.signal(Signal::TERM);
    run.wait().code(20);
    assert!(s.read("out") == content, "the old file stays");
    assert_eq!(s.entries(""), ["out"]);

    assert!(s.haul("cp out -").ends(0).bytes == content);
}
