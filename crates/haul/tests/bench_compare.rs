//! `haul bench compare`: tools that are right, wrong, slow, broken and absent; places here, behind ssh and in a bucket.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use haul_test::objects::{Minio, Server};
use haul_test::sshd::Sshd;
use haul_test::volume::Volume;
use serde_json::Value;

/// No run may take longer: a hang is a failure.
const BOUND: Duration = Duration::from_secs(120);

struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let dir = tempfile::Builder::new().prefix("haul-compare-").tempdir().expect("a temporary directory");
        let tree = dir.path().join("src");
        fs::create_dir_all(tree.join("d")).expect("made");
        for n in 0..20 {
            fs::write(tree.join(format!("d/file {n}")), vec![n; 1000 + usize::from(n)]).expect("written");
        }
        fs::write(tree.join("big"), vec![7; 300_000]).expect("written");
        World { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A program of this name that does what the script says; `$1` is the source and `$2` where the copy goes.
    fn tool(&self, name: &str, script: &str) {
        fs::write(self.path(name), format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).expect("made a program");
        let table = fs::read_to_string(self.path("table")).unwrap_or_default();
        let line = format!("[{name}]\nlocal-local = {} {{src}} {{dst}}\n", self.path(name).display());
        fs::write(self.path("table"), table + &line).expect("written");
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
        haul_test::ignored::only(&mut command, &[]);
        command.env_clear().current_dir(self.dir.path()).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", self.dir.path());
        command.env("HAUL_STATE_DIR", self.path("state")).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        command.args(["bench", "compare", "--caches=warm"]).args(words.split_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    #[track_caller]
    fn ends(&self, code: i32, words: &str) -> Said {
        ended(self.command(words), code)
    }

    fn names(&self, dir: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path(dir))
            .expect("a directory")
            .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

struct Said {
    out: String,
    err: String,
}

impl Said {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}\n{}", self.out, self.err))
    }

    #[track_caller]
    fn has(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.out.contains(part) || self.err.contains(part), "no {part:?} in\n{}\n{}", self.out, self.err);
        }
    }
}

/// By the tool's name.
fn of<'v>(document: &'v Value, name: &str) -> &'v Value {
    let tools = document["tools"].as_array().expect("tools");
    tools.iter().find(|tool| tool["tool"] == name).unwrap_or_else(|| panic!("no {name} in {document}"))
}

#[track_caller]
fn ended(mut command: Command, code: i32) -> Said {
    let child = command.spawn().expect("it starts");
    let out = wait(child);
    let said = Said { out: String::from_utf8_lossy(&out.stdout).into(), err: String::from_utf8_lossy(&out.stderr).into() };
    assert_eq!(out.status.code(), Some(code), "{command:?}\n{}\n{}", said.out, said.err);
    said
}

fn wait(mut child: Child) -> Output {
    let until = Instant::now() + BOUND;
    while child.try_wait().expect("it can be asked").is_none() {
        if Instant::now() > until {
            let _it_may_be_gone = child.kill();
            panic!("it hangs");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().expect("its output")
}

#[test]
fn real_tools_copy_right_and_nothing_is_left() {
    let world = World::new();
    let said = world.ends(0, "--json --repeat 2 --warmup 1 --tools haul,cp,rsync,tar --extrapolate 13TB src dst");
    let document = said.json();
    for tool in ["haul", "cp", "rsync", "tar"] {
        let row = of(&document, tool);
        assert_eq!((&row["copies_right"], &row["ranked"]), (&Value::from(2), &Value::from(true)), "{row}");
        let kept = row["came_along"].as_str().expect("text");
        assert!(kept.contains("mode") && kept.contains("mtime"), "{row}");
        assert!(row["extrapolated_seconds"].as_f64() > Some(0.0), "{row}");
        assert_eq!(row["against_first"].is_null(), tool == "haul", "{row}");
    }
    assert_eq!((&document["files"], &document["complete"]), (&Value::from(21), &Value::from(true)));
    said.has(&["took the least time", "Time for 13TB", "mode, mtime"]);
    assert!(!world.path("dst").exists(), "what was made is gone");
    let run = PathBuf::from(document["run"].as_str().expect("a path"));
    let mut names: Vec<String> = fs::read_dir(&run).expect("there").map(|e| e.expect("one").file_name().to_string_lossy().into()).collect();
    names.sort();
    assert_eq!(names.iter().filter(|name| *name != "report.html").collect::<Vec<_>>(), ["run.json", "samples.csv", "samples.jsonl"]);
    let page = fs::read_to_string(run.join("report.html")).expect("a page");
    let samples = fs::read_to_string(run.join("samples.jsonl")).expect("samples");
    assert!(["\"cp\",\"-q\"", "rsync\",\"-rlpt", "-xpf\",\"-"].iter().all(|words| samples.contains(words)), "{samples}");
    for words in
        ["Time for 13TB", "assumes constant throughput", "Every copy was compared with the source", "Also preserved", "mode, mtime"]
    {
        assert!(page.contains(words), "{words}");
    }
    let csv = fs::read_to_string(run.join("samples.csv")).expect("a table");
    assert_eq!(csv.lines().count(), 1 + 4 * 3, "{csv}");
    assert!(said.err.lines().all(|line| line.len() <= 80 || line.contains('/')), "{}", said.err);
}

#[test]
fn a_single_file_is_work_too() {
    let world = World::new();
    let document = world.ends(0, "--json --quiet --repeat 1 --tools haul,cp,rsync,tar src/big dst").json();
    assert!(document["tools"].as_array().expect("tools").iter().all(|tool| tool["copies_right"] == 1), "{document}");
}

#[test]
fn what_is_wrong_slow_broken_or_absent_is_shown_as_that() {
    let world = World::new();
    world.tool("honest", "cp -a \"$1\" \"$2\"/");
    world.tool("liar", "mkdir \"$2\"/src");
    world.tool("flips", "cp -a \"$1\" \"$2\"/; printf X | dd of=\"$2\"/src/big bs=1 seek=5 conv=notrunc 2>/dev/null");
    world.tool("breaks", "echo the disk is on fire >&2; exit 7");
    world.tool("hangs", "trap '' TERM; sleep 60 & wait; sleep 60");
    let table = fs::read_to_string(world.path("table")).expect("it was written");
    fs::write(world.path("table"), table + "[gone]\nlocal-local = no-such-program {src} {dst}\n").expect("written");
    fs::create_dir(world.path("dst")).expect("made");
    let words = "--json --repeat 2 --limit 1s --table table --tools liar,honest,flips,breaks,hangs,gone,scp src dst";
    let said = world.ends(0, words);
    let document = said.json();
    for (tool, outcome, telling) in [
        ("liar", "wrong", "missing"),
        ("flips", "wrong", "src/big: another content"),
        ("breaks", "failed", "ended with code 7: the disk is on fire"),
        ("hangs", "timeout", "not done after 1 s"),
        ("gone", "missing", "no program no-such-program"),
        ("scp", "missing", "no local-local command"),
    ] {
        let row = of(&document, tool);
        assert_eq!((&row["ranked"], &row["wall"]), (&Value::from(false), &Value::Null), "{row}");
        let trouble = &row["troubles"][0];
        assert!(trouble["outcome"] == outcome && trouble["reason"].as_str().is_some_and(|r| r.contains(telling)), "{tool}: {row}");
    }
    assert_eq!(of(&document, "honest")["copies_right"], 2);
    assert_eq!(document["tools"][0]["tool"], "honest", "what is right comes first, however fast the others were");
    said.has(&["WRONG 2 of 2", "did not end in time", "is not on this machine", "failed"]);
    assert!(world.names("dst").is_empty(), "a directory that was there stays, empty");
}

/// A launcher is no tool: with mpirun alone neither dcp nor dsync is there.
#[test]
fn what_a_launcher_would_start_must_be_installed_too() {
    let world = World::new();
    let bin = world.path("bin");
    fs::create_dir(&bin).expect("made");
    fs::write(bin.join("mpirun"), format!("#!/bin/sh\n: > {}\nsleep 600\n", world.path("launched").display())).expect("written");
    fs::set_permissions(bin.join("mpirun"), fs::Permissions::from_mode(0o755)).expect("made a program");
    std::os::unix::fs::symlink("/bin/cp", bin.join("cp")).expect("made");
    let run = |words: &str, code: i32| {
        let mut command = world.command(words);
        command.env("PATH", &bin);
        ended(command, code)
    };
    let said = run("--json --repeat 1 src dst", 0);
    let names: Vec<String> = said.json()["tools"].as_array().expect("tools").iter().map(|row| row["tool"].to_string()).collect();
    assert_eq!(names.len(), 2, "haul and cp: {names:?}");
    said.has(&["dcp, dsync"]);
    let document = run("--json --repeat 1 --tools dcp,cp src dst", 0).json();
    let reason = of(&document, "dcp")["troubles"][0]["reason"].clone();
    assert!(reason.as_str().is_some_and(|reason| reason.contains("no program dcp")), "{document}");
    assert!(!world.path("launched").exists(), "mpirun was started");
}

#[test]
fn nothing_that_is_not_its_own_is_touched() {
    let world = World::new();
    fs::create_dir_all(world.path("dst/cp-1")).expect("made");
    fs::write(world.path("dst/cp-1/thesis"), "x").expect("written");
    let said = world.ends(23, "--tools cp --repeat 1 src dst");
    said.has(&["the directory is not empty: it has cp-1", "try: name an empty directory"]);
    assert_eq!(fs::read_to_string(world.path("dst/cp-1/thesis")).expect("still there"), "x");
    world.ends(1, "--tools cp src src/inside").has(&["the destination is the source or inside it"]);
    assert!(!world.path("src/inside").exists());
    world.ends(1, "--tools cp src src").has(&["the destination is the source or inside it"]);
    world.ends(23, "--tools cp src absent/dst").has(&["absent/dst"]);
    world.ends(1, "--tools haul src/big dst --table /dev/null --print-tabel").has(&["--print-table"]);
    assert!(!world.path("state/bench").exists(), "no run was begun");
}

#[test]
fn requests_that_make_no_sense_are_refused_with_a_next_step() {
    let world = World::new();
    fs::create_dir(world.path("empty")).expect("made");
    world.ends(1, "--tools cp,teleport src dst").has(&["teleport", "no such tool", "haul, cp, rsync", "--table FILE"]);
    world.ends(1, "--tools cp,cp src dst").has(&["names cp twice"]);
    world.ends(1, "--repeat 1 empty dst").has(&["holds no files", "haul bench data"]);
    world.ends(23, "--repeat 1 absent dst").has(&["absent"]);
    world.ends(1, "--limit 5 src dst").has(&["5s for seconds"]);
    world.ends(1, "--caches cold src dst").has(&["drop, warm and auto"]);
    world.ends(1, "--extrapolate 13 src dst").has(&["no unit"]);
    world.ends(1, "src").has(&["DST"]);
    world.ends(1, "a:/x b:/y").has(&["both on other machines"]);
    fs::write(world.path("table"), "[cp]\nlocal-moon = cp\n").expect("written");
    world.ends(1, "--table table src dst").has(&["table", "line 2", "local-moon", "--print-table"]);
    assert!(!world.path("dst").exists());
    let runs = fs::read_dir(world.path("state/bench")).map_or(0, Iterator::count);
    assert_eq!(runs, 0, "what measured nothing leaves nothing");
}

#[test]
fn a_run_directory_in_the_source_is_refused() {
    let world = World::new();
    std::os::unix::fs::symlink("src/d", world.path("link")).expect("made");
    for out in ["src", "src/run", "link/run"] {
        let said = world.ends(1, &format!("--tools cp --repeat 1 --out {out} src dst"));
        said.has(&["is the source or inside it", "outside of the source with --out"]);
    }
    // The state directory is in it.
    let mut command = world.command("--tools cp --repeat 1 src dst");
    command.env("HAUL_STATE_DIR", world.path("src/state"));
    ended(command, 1).has(&["below the state directory", "--out DIR"]);
    assert_eq!(world.names("src"), ["big", "d"]);
    assert!(!world.path("src/d/run").exists() && !world.path("dst").exists());
}

#[test]
fn no_room_is_said_before_anything_is_copied() {
    let world = World::new();
    let small = Volume::tmpfs(64 << 10).expect("a file system can be mounted: root");
    let said = world.ends(11, &format!("--tools cp --repeat 1 src {}/dst", small.path().display()));
    said.has(&["a copy needs", "there is room for"]);
    assert_eq!(fs::read_dir(small.path()).expect("there").count(), 0);
}

#[test]
fn an_interrupted_run_is_cleaned_up_and_goes_on() {
    let world = World::new();
    world.tool("quick", "cp -a \"$1\" \"$2\"/");
    world.tool("slow", "cp -a \"$1\" \"$2\"/; [ -e go ] || { touch slow-is-at-it; sleep 60; }");
    let at = fs::metadata(world.path("src/big")).and_then(|meta| meta.modified()).expect("a time");
    let words = "--json --repeat 3 --seed 1 --table table --tools quick,slow --out run src dst";
    let child = world.command(words).spawn().expect("it starts");
    let until = Instant::now() + BOUND;
    while !world.path("slow-is-at-it").exists() {
        assert!(Instant::now() < until, "slow never began");
        std::thread::sleep(Duration::from_millis(10));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).expect("it is there");
    let out = wait(child);
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(20), "{err}");
    assert!(err.contains("To resume:") && err.contains("--out run"), "{err}");
    assert!(!world.path("dst").exists(), "the copies are gone");
    // A list that somebody has edited, or that is older than what lies there, is not believed.
    for (name, line) in [("thesis", "thesis\nthesis 0 -\n"), ("quick-1", "quick-1 0 -\nquick-1 0 12345\nquick-1\n")] {
        fs::create_dir_all(world.path("dst").join(name)).expect("made");
        fs::write(world.path("dst").join(name).join("chapter"), "x").expect("written");
        fs::write(world.path("run/fresh.txt"), line).expect("written");
        world.ends(23, words).has(&["the directory is not empty: it has ", name]);
        assert!(world.path("dst").join(name).join("chapter").exists());
        fs::remove_dir_all(world.path("dst")).expect("removed");
    }
    let before = fs::read_to_string(world.path("run/samples.jsonl")).expect("kept");
    // Another source, or other caches, would be another measurement.
    let big = fs::read(world.path("src/big")).expect("read");
    fs::write(world.path("src/big"), "small").expect("written");
    world.ends(23, words).has(&["the source has changed since this run began: it had 21 files", "another directory for --out"]);
    fs::write(world.path("src/big"), vec![8; big.len()]).expect("written");
    world.ends(23, words).has(&["the source has changed since this run began", "with other names, times or contents"]);
    fs::write(world.path("src/big"), big).expect("written");
    fs::File::options().write(true).open(world.path("src/big")).and_then(|file| file.set_modified(at)).expect("set back");
    let header = fs::read_to_string(world.path("run/run.json")).expect("kept");
    fs::write(world.path("run/run.json"), header.replace("\"caches_before\": \"warm\"", "\"caches_before\": \"dropped\""))
        .expect("written");
    world.ends(23, words).has(&["caches were dropped before the copies of this run; now they would be warm"]);
    fs::write(world.path("run/run.json"), header).expect("written");
    assert_eq!(fs::read_to_string(world.path("run/samples.jsonl")).expect("kept"), before);
    fs::write(world.path("go"), "").expect("written");
    // Without --seed: the run's own is taken.
    let document = world.ends(0, &words.replace("--seed 1 ", "")).json();
    let after = fs::read_to_string(world.path("run/samples.jsonl")).expect("kept");
    assert!(after.starts_with(&before), "what was measured is kept");
    for tool in ["quick", "slow"] {
        assert_eq!(of(&document, tool)["copies_right"], 3, "{document}");
    }
    assert_eq!(document["seed"], 1);
    world.ends(23, words).has(&["a run that is complete lies there"]);
    world.ends(23, &words.replace("--repeat 3", "--repeat 4")).has(&["with other settings"]);
}

/// Neither a second signal nor a kill leaves the tool running.
#[test]
fn a_tool_does_not_outlive_the_program() {
    let world = World::new();
    let script = "trap 'touch told' TERM; (trap '' TERM; exec sleep 600) & echo $! > child.new; mv child.new child; \
                  echo $$ > main.new; mv main.new main; while :; do sleep 0.05; done";
    world.tool("stays", script);
    let until = Instant::now() + BOUND;
    let appears = |name: &str| {
        while !world.path(name).exists() {
            assert!(Instant::now() < until, "no {name}");
            std::thread::sleep(Duration::from_millis(5));
        }
        fs::read_to_string(world.path(name)).expect("read").trim().to_string()
    };
    let goes = |process: &str| {
        let stat = PathBuf::from(format!("/proc/{process}/stat"));
        // What has ended and was not waited for by anyone is gone as well.
        while fs::read_to_string(&stat).is_ok_and(|text| !text.contains(") Z ")) {
            assert!(Instant::now() < until, "{process} is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let signal = |child: &Child, signal: rustix::process::Signal| {
        rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).expect("it is there");
    };
    let child = world.command("--repeat 1 --table table --tools stays src dst").spawn().expect("it starts");
    let (main, below) = (appears("main"), appears("child"));
    signal(&child, rustix::process::Signal::INT);
    appears("told");
    signal(&child, rustix::process::Signal::INT);
    assert_eq!(wait(child).status.code(), Some(20));
    goes(&main);
    goes(&below);
    for name in ["main", "child"] {
        fs::remove_file(world.path(name)).expect("removed");
    }
    let child = world.command("--repeat 1 --table table --tools stays src other").spawn().expect("it starts");
    let (main, below) = (appears("main"), appears("child"));
    signal(&child, rustix::process::Signal::KILL);
    let _status = { child }.wait().expect("it ends");
    goes(&main);
    let below = below.parse().ok().and_then(rustix::process::Pid::from_raw).expect("a process");
    rustix::process::kill_process(below, rustix::process::Signal::KILL).expect("what the tool began is its own affair");
}

#[test]
fn the_table_can_be_printed_and_read_again() {
    let world = World::new();
    let said = world.ends(0, "--print-table");
    said.has(&["[rsync]", "[globus-url-copy]", "local-host = scp"]);
    fs::write(world.path("table"), format!("builtin = no\n{}", said.out)).expect("written");
    world.ends(0, "--quiet --repeat 1 --table table --tools cp src dst").has(&["cp took the least time"]);
}

#[test]
fn tools_meet_behind_ssh_in_both_directions() {
    let world = World::new();
    let server = Sshd::start("").expect("sshd can be started: openssh-server and root");
    let config = server.config();
    let run = |from: &str, to: &str| {
        let words = format!("--json --repeat 1 --tools haul,scp,sftp,rsync,tar -F {} {from} {to}", config.display());
        let said = world.ends(0, &words);
        let document = said.json();
        for tool in ["haul", "scp", "sftp", "rsync", "tar"] {
            assert_eq!(of(&document, tool)["copies_right"], 1, "{}\n{}", said.err, server.log());
        }
    };
    let far = |path: &Path| format!("testhost:{}", path.display());
    run("src", &far(&world.path("far")));
    assert!(!world.path("far").exists());
    run(&far(&world.path("src")), "near");
    assert!(!world.path("near").exists());
    run(&far(&world.path("src/big")), "near");
}

/// What a shell, an option parser or a batch would take for something else than a name.
#[test]
fn a_name_is_a_name_and_nothing_else() {
    let world = World::new();
    let name = "-x 'y\" $(touch pwned); *{dst} \\";
    fs::rename(world.path("src"), world.path(name)).expect("renamed");
    fs::write(world.path(name).join("new\nline"), "x").expect("written");
    let server = Sshd::start("").expect("sshd can be started: openssh-server and root");
    let run = |tools: &str, from: String, to: String| {
        let mut command = world.command(&format!("--json --repeat 1 --tools {tools} -F {}", server.config().display()));
        command.args(["--", &from, &to]);
        let document = ended(command, 0).json();
        for tool in tools.split(',') {
            assert_eq!(of(&document, tool)["copies_right"], 1, "{}", of(&document, tool));
        }
        document
    };
    let here = world.path(name).display().to_string();
    run("haul,cp,rsync,tar", here.clone(), world.path("dst").display().to_string());
    run("haul,rsync,tar", here.clone(), format!("testhost:{}", world.path("far").display()));
    run("haul,rsync,tar", format!("testhost:{here}"), world.path("near").display().to_string());
    // A program that hands the path to a far shell is kept out rather than trusted.
    let document = {
        let mut command = world.command(&format!("--json --repeat 1 --tools haul,scp -F {}", server.config().display()));
        command.args(["--", &format!("testhost:{here}"), "near"]);
        ended(command, 0).json()
    };
    assert!(of(&document, "scp")["troubles"][0]["reason"].as_str().is_some_and(|reason| reason.contains("shell")), "{document}");
    assert!(!world.names(".").iter().any(|name| name == "pwned") && !PathBuf::from("/root/pwned").exists());
}

#[test]
fn tools_meet_at_an_object_store_in_both_directions() {
    let world = World::new();
    let server = Minio::start().expect("MinIO can be started: servers.sh installs it");
    server.make_bucket("bench").expect("a bucket");
    let endpoint = server.endpoint();
    let programs = haul_test::objects::programs();
    let run = |words: &str, tools: &[&str]| {
        let mut command = world.command(&format!("--json --repeat 1 --tools {} {words}", tools.join(",")));
        command.env("PATH", format!("{}:/usr/bin:/bin", programs.display())).env("AWS_REGION", &endpoint.region);
        command.env("AWS_ENDPOINT_URL", &endpoint.url).env("AWS_EC2_METADATA_DISABLED", "true");
        command.env("AWS_ACCESS_KEY_ID", &endpoint.access).env("AWS_SECRET_ACCESS_KEY", &endpoint.secret);
        let said = ended(command, 0);
        let document = said.json();
        for tool in tools {
            assert_eq!(of(&document, tool)["copies_right"], 1, "{}", said.err);
        }
        document
    };
    let here = |name: &str| programs.join(name).exists();
    let tools: Vec<&str> = ["haul", "s5cmd", "rclone"].into_iter().filter(|name| *name == "haul" || here(name)).collect();
    let document = run("src s3://bench/empty", &tools);
    assert_eq!(of(&document, "haul")["came_along"], "mode, mtime");
    let listed = haul_test::objects::plain::request(endpoint, "GET", "/bench?list-type=2", &[], b"").expect("an answer").text();
    assert!(!listed.contains("<Key>"), "{listed}");
    let put = |key: &str, body: &[u8]| {
        haul_test::objects::plain::request(endpoint, "PUT", &format!("/bench/{key}"), &[], body)
            .and_then(|a| a.success())
            .expect("it is put");
    };
    put("set/a", b"content of a");
    put("set/d/b", b"content of b");
    run("s3://bench/set/ near", &tools);
    run("s3://bench/set/a near", &tools);
}
