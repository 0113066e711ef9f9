//! `haul bench compare`: tools that are right, wrong, slow, broken and absent; places here, behind ssh and in a bucket.

#[path = "support.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};

use haul_test::ftpd::FtpServer;
use haul_test::objects::ObjectServer;
use haul_test::program::{Ended, until};
use haul_test::sshd::Sshd;
use haul_test::volume::Volume;
use rustix::process::Signal;
use serde_json::Value;

use support::World;

impl World {
    fn new() -> World {
        let world = World::of("compare --caches=warm");
        for n in 0..20 {
            world.write(format!("src/d/file {n}"), vec![n; 1000 + usize::from(n)]);
        }
        world.write("src/big", vec![7; 300_000]);
        world
    }

    /// A program of this name that does what the script says; `$1` is the source and `$2` where the copy goes.
    fn tool(&self, name: &str, script: &str) {
        self.write(name, format!("#!/bin/sh\n{script}\n"));
        self.chmod(name, 0o755);
        let table = fs::read_to_string(self.path("table")).unwrap_or_default();
        let line = format!("[{name}]\nlocal-local = {} {{src}} {{dst}}\n", self.path(name).display());
        self.write("table", table + &line);
    }
}

#[track_caller]
fn document(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}\n{ended}"))
}

/// By the tool's name.
fn of<'v>(document: &'v Value, name: &str) -> &'v Value {
    let points = document["points"].as_array().expect("points");
    points.iter().find(|point| point["contender"] == name).unwrap_or_else(|| panic!("no {name} in {document}"))
}

#[test]
fn real_tools_copy_right_and_nothing_is_left() {
    let world = World::new();
    let ended = world.ends(0, "--json --repeat 2 --warmup 1 --tools haul,cp,rsync,tar -j 1,2 --extrapolate 13TB src dst");
    let document = document(&ended);
    for tool in ["haul", "haul -j 1", "haul -j 2", "cp", "rsync", "tar"] {
        let row = of(&document, tool);
        assert_eq!((&row["ok"], &row["ranked"]), (&Value::from(2), &Value::from(true)), "{row}");
        let kept = row["more"]["kept"].as_str().expect("text");
        assert!(kept.contains("mode") && kept.contains("mtime"), "{row}");
        assert!(row["extrapolated_seconds"].as_f64() > Some(0.0), "{row}");
        assert_eq!(row["time_ratio"].is_null(), tool == "haul", "{row}");
    }
    assert_eq!((&document["settings"]["source_files"], document["ended"].is_string()), (&Value::from(21), true));
    let ended = ended.says("took the least time").says("Time for 13TB").says("mode, mtime");
    assert!(!world.has("dst"), "what was made is gone");
    let run = PathBuf::from(document["run"].as_str().expect("a path"));
    assert_eq!(world.entries(&run), ["report.html", "run.json", "samples.csv", "samples.jsonl"]);
    let (page, samples) = (world.text(run.join("report.html")), world.text(run.join("samples.jsonl")));
    assert!(["\"cp\",\"-q\",\"-j\",\"2\"", "rsync\",\"-rlpt", "-xpf\",\"-"].iter().all(|words| samples.contains(words)), "{samples}");
    for words in
        ["Time for 13TB", "assumes constant throughput", "Every copy was compared with the source", "Also preserved", "mode, mtime"]
    {
        assert!(page.contains(words), "{words}");
    }
    let csv = world.text(run.join("samples.csv"));
    assert_eq!(csv.lines().count(), 1 + 6 * 3, "{csv}");
    assert!(ended.err.lines().all(|line| line.len() <= 80 || line.contains('/')), "{}", ended.err);
}

#[test]
fn a_single_file_is_work_too() {
    let world = World::new();
    let document = document(&world.ends(0, "--json --quiet --repeat 1 --tools haul,cp,rsync,tar src/big dst"));
    assert!(document["points"].as_array().expect("points").iter().all(|point| point["ok"] == 1), "{document}");
}

#[test]
fn what_is_wrong_slow_broken_or_absent_is_shown_as_that() {
    let world = World::new();
    world.tool("honest", "cp -a \"$1\" \"$2\"/");
    world.tool("liar", "mkdir \"$2\"/src");
    world.tool("flips", "cp -a \"$1\" \"$2\"/; printf X | dd of=\"$2\"/src/big bs=1 seek=5 conv=notrunc 2>/dev/null");
    world.tool("breaks", "echo the disk is on fire >&2; exit 7");
    world.tool("hangs", "trap '' TERM; sleep 60 & wait; sleep 60");
    world.write("table", world.text("table") + "[gone]\nlocal-local = no-such-program {src} {dst}\n");
    world.tree("dst/");
    let words = "--json --repeat 2 --limit 1s --table table --tools liar,honest,flips,breaks,hangs,gone,scp src dst";
    let ended = world.ends(0, words);
    let document = document(&ended);
    for (tool, outcome, telling) in [
        ("liar", "wrong", "missing"),
        ("flips", "wrong", "src/big: different content"),
        ("breaks", "failed", "ended with code 7: the disk is on fire"),
        ("hangs", "timeout", "not done after 1 s"),
        ("gone", "missing", "the program no-such-program is not installed"),
        ("scp", "missing", "no local-local command"),
    ] {
        let row = of(&document, tool);
        assert_eq!((&row["ranked"], &row["seconds"]), (&Value::from(false), &Value::Null), "{row}");
        let trouble = &row["failures"][0];
        assert!(trouble["outcome"] == outcome && trouble["reason"].as_str().is_some_and(|r| r.contains(telling)), "{tool}: {row}");
    }
    assert_eq!(of(&document, "honest")["ok"], 2);
    ended.says("honest took the least time").says("WRONG 2 of 2").says("did not end in time").says("is not on this machine").says("failed");
    assert!(world.entries("dst").is_empty(), "a directory that was there stays, empty");
}

#[test]
fn nothing_that_is_not_its_own_is_touched() {
    let world = World::new();
    fs::create_dir_all(world.path("dst/cp-1")).expect("made");
    fs::write(world.path("dst/cp-1/thesis"), "x").expect("written");
    let ended = world.ends(23, "--tools cp --repeat 1 src dst");
    ended.says("the directory is not empty: it has cp-1").says("try: name an empty or new directory");
    assert_eq!(fs::read_to_string(world.path("dst/cp-1/thesis")).expect("still there"), "x");
    world.ends(1, "--tools cp src src/inside").says("the destination is the source or inside it");
    assert!(!world.path("src/inside").exists());
    world.ends(1, "--tools cp src src").says("the destination is the source or inside it");
    world.ends(23, "--tools cp src absent/dst").says("absent/dst");
    world.ends(1, "--tools haul src/big dst --table /dev/null --print-tabel").says("--print-table");
    assert!(!world.path("state/bench").exists(), "no run was begun");
}

#[test]
fn requests_that_make_no_sense_are_refused_with_a_next_step() {
    let world = World::new();
    fs::create_dir(world.path("empty")).expect("made");
    world.ends(1, "--tools cp,teleport src dst").says("teleport").says("no such tool").says("haul, cp, rsync").says("--table FILE");
    world.ends(1, "--tools cp,cp src dst").says("names cp twice");
    world.ends(1, "--repeat 1 empty dst").says("the source has no files").says("haul bench data");
    world.ends(23, "--repeat 1 absent dst").says("absent");
    world.ends(1, "--limit 5 src dst").says("5s for seconds");
    world.ends(1, "--caches cold src dst").says("drop, warm and auto");
    world.ends(1, "--extrapolate 13 src dst").says("no unit");
    world.ends(1, "src").says("DST");
    world.ends(1, "a:/x b:/y").says("both remote");
    fs::write(world.path("table"), "[cp]\nlocal-moon = cp\n").expect("written");
    world.ends(1, "--table table src dst").says("table").says("line 2").says("local-moon").says("--print-table");
    assert!(!world.path("dst").exists());
    let runs = fs::read_dir(world.path("state/bench")).map_or(0, Iterator::count);
    assert_eq!(runs, 0, "what measured nothing leaves nothing");
}

#[test]
fn a_run_directory_in_the_source_is_refused() {
    let world = World::new();
    std::os::unix::fs::symlink("src/d", world.path("link")).expect("made");
    for out in ["src", "src/run", "link/run"] {
        let ended = world.ends(1, &format!("--tools cp --repeat 1 --out {out} src dst"));
        ended.says("is the source or inside it").says("outside of the source with --out");
    }
    // The state directory is in it.
    let command = world.command("--tools cp --repeat 1 src dst").env("HAUL_STATE_DIR", world.path("src/state"));
    command.ends(1).says("below the state directory").says("--out DIR");
    assert_eq!(world.entries("src"), ["big", "d"]);
    assert!(!world.path("src/d/run").exists() && !world.path("dst").exists());
}

#[test]
fn lack_of_space_is_reported_before_copying() {
    let world = World::new();
    let small = Volume::tmpfs(64 << 10).expect("a file system can be mounted: root");
    let ended = world.ends(11, &format!("--tools cp --repeat 1 src {}/dst", small.path().display()));
    ended.says("a copy needs").says("there is room for");
    assert_eq!(fs::read_dir(small.path()).expect("there").count(), 0);
}

#[test]
fn an_interrupted_run_is_cleaned_up_and_resumes() {
    let world = World::new();
    world.tool("quick", "cp -a \"$1\" \"$2\"/");
    world.tool("slow", "cp -a \"$1\" \"$2\"/; [ -e go ] || { touch slow-is-at-it; sleep 60; }");
    let at = fs::metadata(world.path("src/big")).and_then(|meta| meta.modified()).expect("a time");
    let words = "--json --repeat 3 --seed 1 --table table --tools quick,slow --out run src dst";
    let mut running = world.command(words).start();
    running.until("slow begins", || world.has("slow-is-at-it"));
    running.signal(Signal::INT);
    running.wait().code(20).err_has("To resume:").err_has("--out run");
    assert!(!world.has("dst"), "the copies are gone");
    // Names that are not the run's are left alone.
    fs::create_dir_all(world.path("dst/haul-bench-thesis")).expect("made");
    world.ends(23, words).says("the directory is not empty: it has haul-bench-thesis");
    fs::remove_dir(world.path("dst/haul-bench-thesis")).expect("removed");
    let before = fs::read_to_string(world.path("run/samples.jsonl")).expect("kept");
    // Another source, or other caches, would be another measurement.
    let big = fs::read(world.path("src/big")).expect("read");
    fs::write(world.path("src/big"), "small").expect("written");
    world.ends(23, words).says("the source has changed since this run began: it had 21 files").says("another directory for --out");
    fs::write(world.path("src/big"), vec![8; big.len()]).expect("written");
    world.ends(23, words).says("the source has changed since this run began").says("with other names, times or contents");
    fs::write(world.path("src/big"), big).expect("written");
    fs::File::options().write(true).open(world.path("src/big")).and_then(|file| file.set_modified(at)).expect("set back");
    let header = fs::read_to_string(world.path("run/run.json")).expect("kept");
    fs::write(world.path("run/run.json"), header.replace("\"caches_before\": \"warm\"", "\"caches_before\": \"dropped\""))
        .expect("written");
    world.ends(23, words).says("caches were dropped before the copies of this run; now they would be warm");
    fs::write(world.path("run/run.json"), header).expect("written");
    assert_eq!(fs::read_to_string(world.path("run/samples.jsonl")).expect("kept"), before);
    fs::write(world.path("go"), "").expect("written");
    // As a kill leaves it: removed when the run is resumed.
    let header: Value = serde_json::from_slice(&fs::read(world.path("run/run.json")).expect("kept")).expect("JSON");
    let left = format!("dst/haul-bench-{}-3", header["id"].as_str().expect("text"));
    fs::create_dir_all(world.path(&left)).expect("made");
    fs::write(world.path(&left).join("half"), "x").expect("written");
    // Without --seed: the run's own is taken.
    let document = document(&world.ends(0, &words.replace("--seed 1 ", "")));
    let after = fs::read_to_string(world.path("run/samples.jsonl")).expect("kept");
    assert!(after.starts_with(&before), "what was measured is kept");
    for tool in ["quick", "slow"] {
        assert_eq!(of(&document, tool)["ok"], 3, "{document}");
    }
    assert_eq!(document["settings"]["seed"], 1);
    assert!(!world.path(&left).exists());
    world.ends(23, words).says("the directory has a complete run");
    world.ends(23, &words.replace("--repeat 3", "--repeat 4")).says("with other settings");
}

/// Neither a second signal nor a kill leaves the tool running.
#[test]
fn a_tool_does_not_outlive_the_program() {
    let world = World::new();
    let script = "trap 'touch terminated' TERM; (trap '' TERM; exec sleep 600) & echo $! > child.new; mv child.new child; \
                  echo $$ > main.new; mv main.new main; while :; do sleep 0.05; done";
    world.tool("stays", script);
    let appears = |name: &str| {
        until(name, || world.has(name));
        world.text(name).trim().to_string()
    };
    let goes = |process: &str| {
        let stat = PathBuf::from(format!("/proc/{process}/stat"));
        // What has ended and was not waited for by anyone is gone as well.
        until("the end of the tool", || fs::read_to_string(&stat).is_ok_and(|text| text.contains(") Z ")) || !stat.exists());
    };
    let running = world.command("--repeat 1 --table table --tools stays src dst").start();
    let (main, below) = (appears("main"), appears("child"));
    running.signal(Signal::INT);
    appears("terminated");
    running.signal(Signal::INT);
    running.wait().code(20);
    goes(&main);
    goes(&below);
    for name in ["main", "child"] {
        world.remove(name);
    }
    let running = world.command("--repeat 1 --table table --tools stays src other").start();
    let (main, below) = (appears("main"), appears("child"));
    running.signal(Signal::KILL);
    // The tool's child has its standard error, which does not end before that does: the program alone is waited for.
    goes(&running.pid().as_raw_nonzero().to_string());
    goes(&main);
    let below = below.parse().ok().and_then(rustix::process::Pid::from_raw).expect("a process");
    rustix::process::kill_process(below, Signal::KILL).expect("what the tool began is its own affair");
}

#[test]
fn the_table_can_be_printed_and_read_again() {
    let world = World::new();
    let ended = world.ends(0, "--print-table");
    let ended = ended.says("[rsync]").says("[globus-url-copy]").says("local-host = scp");
    fs::write(world.path("table"), format!("builtin = no\n{}", ended.out)).expect("written");
    world.ends(0, "--quiet --repeat 1 --table table --tools cp src dst").says("cp took the least time");
}

#[test]
fn tools_meet_behind_ssh_in_both_directions() {
    let world = World::new();
    let server = Sshd::start("").expect("sshd can be started: openssh-server and root");
    let config = server.config();
    let run = |from: &str, to: &str| {
        let words = format!("--json --repeat 1 --tools haul,scp,sftp,rsync,tar -F {} {from} {to}", config.display());
        let ended = world.ends(0, &words);
        let document = document(&ended);
        for tool in ["haul", "scp", "sftp", "rsync", "tar"] {
            assert_eq!(of(&document, tool)["ok"], 1, "{}\n{}", ended.err, server.log());
        }
    };
    let remote = |path: &Path| format!("testhost:{}", path.display());
    run("src", &remote(&world.path("remote")));
    assert!(!world.path("remote").exists());
    run(&remote(&world.path("src")), "near");
    assert!(!world.path("near").exists());
    run(&remote(&world.path("src/big")), "near");
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
        let command = world.command(&format!("--json --repeat 1 --tools {tools} -F {}", server.config().display()));
        let document = document(&command.args(["--", &from, &to]).ends(0));
        for tool in tools.split(',') {
            assert_eq!(of(&document, tool)["ok"], 1, "{}", of(&document, tool));
        }
        document
    };
    let here = world.path(name).display().to_string();
    run("haul,cp,rsync,tar", here.clone(), world.path("dst").display().to_string());
    run("haul,rsync,tar", here.clone(), format!("testhost:{}", world.path("remote").display()));
    run("haul,rsync,tar", format!("testhost:{here}"), world.path("near").display().to_string());
    // A program that passes the path to a remote shell is excluded.
    let command = world.command(&format!("--json --repeat 1 --tools haul,scp -F {}", server.config().display()));
    let document = document(&command.args(["--", &format!("testhost:{here}"), "near"]).ends(0));
    assert!(of(&document, "scp")["failures"][0]["reason"].as_str().is_some_and(|reason| reason.contains("shell")), "{document}");
    assert!(!world.entries(".").iter().any(|name| name == "pwned") && !PathBuf::from("/root/pwned").exists());
}

#[test]
fn tools_meet_at_an_object_store_in_both_directions() {
    let world = World::new();
    let server = ObjectServer::minio().expect("MinIO can be started: servers.sh installs it");
    server.make_bucket("bench").expect("a bucket");
    let endpoint = server.endpoint();
    let programs = haul_test::objects::programs();
    let run = |words: &str, tools: &[&str]| {
        let command = world.command(&format!("--json --repeat 1 --tools {} {words}", tools.join(",")));
        let command = command.env("PATH", format!("{}:/usr/bin:/bin", programs.display())).env("AWS_REGION", &endpoint.region);
        let command = command.env("AWS_ENDPOINT_URL", &endpoint.url).env("AWS_EC2_METADATA_DISABLED", "true");
        let ended = command.env("AWS_ACCESS_KEY_ID", &endpoint.access).env("AWS_SECRET_ACCESS_KEY", &endpoint.secret).ends(0);
        let document = document(&ended);
        for tool in tools {
            assert_eq!(of(&document, tool)["ok"], 1, "{}", ended.err);
        }
        document
    };
    let here = |name: &str| programs.join(name).exists();
    let tools: Vec<&str> = ["haul", "s5cmd", "rclone"].into_iter().filter(|name| *name == "haul" || here(name)).collect();
    let document = run("src s3://bench/empty", &tools);
    assert_eq!(of(&document, "haul")["more"]["kept"], "mode, mtime");
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

#[test]
fn ftp_servers_and_their_clients_are_compared() {
    let world = World::new();
    // Without a password: not all of them read one with blanks.
    let server = FtpServer::pyftpdlib("authorizer.add_anonymous('/', perm='elradfmwMT')").expect("ftp-servers.sh installs it");
    let away = |path: &str| format!("ftp://127.0.0.1:{}{}", server.port, world.path(path).display());
    fs::create_dir(world.path("here")).expect("made");
    for (tools, from, to) in [
        ("haul,lftp", world.path("src").display().to_string(), away("there")),
        ("haul,lftp", away("src"), world.path("here").display().to_string()),
        ("haul,lftp,curl", world.path("src/big").display().to_string(), away("there")),
        ("haul,lftp,curl,aria2c,globus-url-copy", away("src/big"), world.path("here").display().to_string()),
    ] {
        let ended = world.ends(0, &format!("--json --repeat 1 --warmup 0 --tools {tools} {from} {to}"));
        let document = document(&ended);
        for tool in tools.split(',') {
            assert_eq!(of(&document, tool)["ok"], Value::from(1), "{tool} {from}\n{ended}");
        }
    }
}
