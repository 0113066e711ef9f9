//! `haul why`, and the limits of a run that only the program as it is can have: file systems that are slow, links that are
//! slow, workers that are few. Delays are large against what a busy machine adds. Needs root, FUSE, TUN and OpenSSH.

use std::ops::Deref;
use std::process::Command;
use std::time::Duration;

use haul_test::link::{Link, Options as Route};
use haul_test::program::{Program, until};
use haul_test::scratch::Scratch;
use haul_test::slowfs::{Options, SlowFs};
use haul_test::sshd::Sshd;
use serde_json::Value;

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// A directory for one test, with a link to a remote host if there is one. The two ends are one machine.
struct World {
    scratch: Scratch,
    host: Option<(Sshd, Link)>,
}

impl Deref for World {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.scratch
    }
}

impl World {
    fn new(tree: &str) -> World {
        let world = World { scratch: Scratch::with("run/ backing/ slow/"), host: None };
        world.tree(tree);
        world
    }

    /// With a host `testhost` behind a link.
    fn behind(route: Route, tree: &str) -> World {
        let world = World::new(tree);
        let link = Link::new(route).expect("namespaces and TUN devices: root");
        let address = link.far().address().to_string();
        let lines =
            format!("ListenAddress {address}\nSetEnv HOME={} XDG_RUNTIME_DIR={}", world.home.display(), world.path("run").display());
        let server =
            link.far().inside(|| Sshd::start(&lines)).expect("in the namespace").expect("sshd can be started: openssh-server and root");
        server.move_to(&address);
        World { host: Some((server, link)), ..world }
    }

    fn haul(&self, words: &str) -> Program {
        let mut command = Command::new(HAUL);
        let host = self.host.as_ref().filter(|_| !words.starts_with("why"));
        if let Some((_, link)) = host {
            link.near().enter(&mut command);
        }
        let program = self.program(command, words).env("XDG_RUNTIME_DIR", self.path("run"));
        match host {
            Some((server, _)) => program.arg("-F").arg(server.config()).args(["--agent", HAUL, "--no-direct"]),
            None => program,
        }
    }

    #[track_caller]
    fn run(&self, code: i32, words: &str) -> (String, String) {
        let ended = self.haul(words).ends(code);
        (ended.out, ended.err)
    }

    #[track_caller]
    fn why(&self, words: &str) -> Value {
        let (out, err) = self.run(0, &format!("why --json {words}"));
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}\n{err}"))
    }

    /// Copies, and asks why: the run and `haul why` must say the same, and say this. On a busy machine processors may be what
    /// limits any run, and then the run must say so; once is enough to see the rest.
    #[track_caller]
    fn limited(&self, words: &str, limiter: &str) -> Value {
        let mut said = Value::Null;
        for _ in 0..3 {
            self.remove("copy");
            self.remove("slow/copy");
            let last = self.haul(&format!("{words} --json")).ends(0).finished();
            said = self.why("");
            assert_eq!((&said["limiter"], &said["limited_by"], &said["next"]), (&last["limiter"], &last["limited_by"], &last["next"]));
            if said["limiter"] != "processors" {
                break;
            }
        }
        assert_eq!(said["limiter"], limiter, "{said:#}");
        said
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn slow(world: &World, metadata: u64, data: u64) -> SlowFs {
    let options = Options { metadata_delay: ms(metadata), data_delay: ms(data), ..Options::default() };
    SlowFs::mount_at(&world.path("backing"), &world.path("slow"), options).expect("slowfs mounts: /dev/fuse and root")
}

fn files(count: usize, size: &str) -> String {
    let names: Vec<String> = (0..count).map(|n| format!("d{}/f{n}={size}", n % 4)).collect();
    names.join(" ")
}

#[test]
fn slow_file_systems() {
    // More of them than the tuner takes workers, or they are what it lacks.
    let world = World::new(&format!("src: {}", files(60, "300K")));
    {
        let _mounted = slow(&world, 0, 150);
        world.limited("cp -W src/ ~/slow/copy", "destination-writes");
    }
    world.tree(&format!("backing/src: {}", files(60, "300K")));
    let _mounted = slow(&world, 0, 150);
    let said = world.limited("cp slow/src/ ~/copy", "source-reads");
    assert_eq!((&said["event"], &said["ending"], &said["files"]), (&"why".into(), &"complete".into(), &60.into()));
}

#[test]
fn slow_metadata() {
    let world = World::new(&format!("src: {}\nbacking/src: {}", files(60, "1K"), files(60, "1K")));
    let _mounted = slow(&world, 60, 0);
    world.limited("cp src/ ~/slow/copy", "destination-metadata");
    world.limited("cp slow/src/ ~/copy", "source-metadata");
}

#[test]
fn a_link_of_little_rate() {
    let world = World::behind(Route { rate: Some(2 << 20), delay: ms(1), ..Route::default() }, &format!("src: {}", files(12, "300K")));
    let said = world.limited("cp src/ testhost:~/copy", "network");
    assert!(said["limited_by"].as_str().expect("text").starts_with("the network to testhost"), "{said:#}");
    assert!(said["next"][0].as_str().expect("text").contains("haul bench net testhost"), "{said:#}");
    assert!(said["remote_destination"]["processors"].as_u64().is_some_and(|n| n > 0), "{said:#}");
    world.rename("copy", "back");
    world.limited("cp testhost:~/back/ ~/copy", "network");
}

#[test]
fn a_long_route() {
    let world = World::behind(Route { delay: ms(100), ..Route::default() }, &format!("src: {}", files(40, "2K")));
    let said = world.limited("cp src/ testhost:~/copy", "network");
    assert!(said["remote_destination"]["round_trip"].as_f64().is_some_and(|trip| trip >= 0.2), "{said:#}");
}

#[test]
fn a_fast_route_to_a_slow_disk() {
    let world = World::behind(Route::default(), &format!("src: {}", files(12, "300K")));
    let _mounted = slow(&world, 0, 400);
    let said = world.limited("cp src/ testhost:~/slow/copy", "destination-writes");
    assert!(said["limited_by"].as_str().expect("text").contains("the destination testhost:"), "{said:#}");
}

#[test]
fn few_workers_and_a_limit() {
    let world = World::new(&format!("src: {}", files(6, "400K")));
    {
        let _mounted = slow(&world, 0, 200);
        let said = world.limited("cp -j 1 src/ ~/slow/copy", "workers");
        assert_eq!(said["workers"]["fixed"], true);
    }
    let said = world.limited("cp --bwlimit 2M src/ ~/copy", "bwlimit");
    let copied = said["stages"].as_array().expect("a list").iter().find(|stage| stage["stage"] == "bwlimit").expect("there");
    assert!(copied["share"].as_f64().is_some_and(|share| share > 0.3), "{said:#}");
}

#[test]
fn what_is_said_to_a_person() {
    let world = World::new(&format!("src: {}", files(8, "1M")));
    let (_, err) = world.run(1, "why");
    assert!(err.contains("no run is recorded") && err.contains("dry run"), "{err}");
    world.run(0, "cp -n src/ ~/copy");
    let (_, err) = world.run(1, "why");
    assert!(err.contains("no run is recorded"), "a dry run is none: {err}");
    let (out, _) = world.run(0, "cp --bwlimit 3M src/ ~/copy");
    let limited = out.lines().find_map(|line| line.strip_prefix("Bottleneck:")).expect("the sentence").trim().to_string();
    assert!(limited.starts_with("--bwlimit, which throttled workers for "), "{out}");
    assert!(out.contains("Try next:    raise or remove --bwlimit"), "{out}");
    let (page, _) = world.run(0, "why");
    assert!(page.contains(&limited[..30]) && page.contains("Where the workers' time went:") && page.contains("Try next:"), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 80 || line.contains("->")), "{page}");
    let (jobs, _) = world.run(0, "jobs --json");
    let job: Value = serde_json::from_str(jobs.lines().next().expect("one")).expect("JSON");
    let id = job["job"].as_str().expect("text");
    let again = world.run(0, &format!("why {}", &id[..4])).0;
    // The first line says how long ago it was.
    assert!(again.lines().skip(1).eq(page.lines().skip(1)), "{again}");
    for (asked, said) in
        [("ffffffffffffffff", "no such job"), ("src", "no haul bench run in that directory"), ("no/such", "neither a job nor")]
    {
        let (_, err) = world.run(1, &format!("why {asked}"));
        assert!(err.contains(said) && err.contains("try:"), "{asked}: {err}");
    }
}

#[test]
fn a_run_that_was_interrupted_or_killed() {
    let world = World::new(&format!("src: {}", files(8, "2M")));
    world.run(75, "cp --bwlimit 4M --deadline 1s src/ ~/copy");
    let said = world.why("");
    assert_eq!((&said["ending"], &said["limiter"]), (&"deadline".into(), &"bwlimit".into()), "{said:#}");
    assert!(world.run(0, "why").0.contains(", stopped "));
    let killed = world.haul("cp --bwlimit 1M src/ ~/copy").start();
    until("the old figures of the job are gone", || {
        let jobs = world.state.join("jobs");
        world.entries(&jobs).iter().any(|job| world.has(jobs.join(job).join("journal")) && !world.has(jobs.join(job).join("figures")))
    });
    let (_, err) = world.run(1, "why");
    assert!(err.contains("no run has ended yet"), "{err}");
    drop(killed);
    let (_, err) = world.run(1, "why");
    assert!(err.contains("killed before its analysis") && err.contains("run it again"), "{err}");
}

#[test]
fn a_run_of_bench_is_explained() {
    let world = World::new("");
    let header = r#"{"version":1,"kind":"compare","id":"1","started":"2026-01-02T03:04:05Z","ended":"2026-01-02T03:05:05Z","command":[],"host":{"name":"node7"}}"#;
    world.write("bench/run.json", header);
    let sample = |contender: &str, n: u32, seconds: f64, limit: &str| {
        format!(
            r#"{{"number":{n},"contender":"{contender}","repetition":{n},"at":"","outcome":"ok","seconds":{seconds},"limited_by":{limit}}}"#
        )
    };
    let lines = [sample("cp", 1, 3.0, "null"), sample("haul", 1, 1.5, r#""writing the destination: 80%""#)];
    world.write("bench/samples.jsonl", lines.join("\n") + "\n");
    let (page, _) = world.run(0, "why bench");
    assert!(page.contains("haul took the least time: 1.5") && !page.contains("Tools"), "{page}");
    let said = world.why("bench");
    assert_eq!((&said["event"], &said["runs"][0]["kind"]), (&"bench-report".into(), &"compare".into()));
    assert_eq!(said["runs"][0]["points"][1]["limited_by"], "writing the destination: 80%");
    world.write("bench/run.json", "{");
    world.run(23, "why bench");
}
