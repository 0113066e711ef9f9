//! `haul bench net` against an OpenSSH server of its own, over links of a known rate and on loopback.

#[path = "../remote/agent/network.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod network;
#[path = "../remote/agent/support.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_test::link::{Link, Options};
use haul_test::program::{Ended, until};
use serde_json::Value;

use support::World;

fn document(ended: &Ended) -> Value {
    serde_json::from_str(ended.out.trim()).unwrap_or_else(|e| panic!("{e}\n{ended}"))
}

fn points(document: &Value) -> impl Iterator<Item = &Value> {
    document["points"].as_array().expect("a list").iter().filter(|point| point["contender"] == "haul")
}

/// Bytes a second at the best point, by direction.
fn best(document: &Value) -> BTreeMap<String, f64> {
    let mut best = BTreeMap::new();
    for point in points(document) {
        let Some(rate) = point["bytes_per_second"]["median"].as_f64() else { continue };
        let most = best.entry(point["factors"]["direction"].as_str().expect("a word").to_string()).or_insert(rate);
        *most = rate.max(*most);
    }
    best
}

fn failed(document: &Value) -> usize {
    points(document).map(|point| point["failures"].as_array().map_or(0, Vec::len)).sum()
}

fn samples(dir: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("samples.jsonl")).expect("it is there");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// What lies below a directory: names, sizes and times of change.
fn below(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let meta = entry.metadata().expect("it is there");
        found.push(format!("{} {} {:?}", entry.path().display(), meta.len(), meta.modified().expect("it has one")));
        if meta.is_dir() {
            found.extend(below(&entry.path()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_link_of_a_known_rate_is_found_each_way() {
    let (forth, back) = (36_000_000, 24_000_000);
    let of = |rate| Options { rate: Some(rate), delay: Duration::from_millis(4), ..Options::default() };
    let link = Link::uneven(of(forth), of(back)).expect("namespaces and TUN devices: root");
    let (w, _link) = network::over(link, "");
    w.tree("remote-home: data=100K dir/more=5");
    let before = below(&w.path("remote-home"));
    for (words, route) in [("", "direct"), ("--no-direct", "ssh"), ("--no-agent", "sftp")] {
        let command = format!("bench net --json --streams 1,2 --seconds 1 --repeat 1 --out run-{route} {words} testhost");
        let haul = if route == "sftp" { w.plain(&command) } else { w.haul(&command) };
        let ended = haul.ends(0);
        let found = document(&ended);
        assert!(points(&found).all(|point| point["more"]["route"] == route) && failed(&found) == 0, "{ended}");
        // Headers, acknowledgements and ssh's own bytes take some of the rate, other processes may take more; what was queued
        // before the second began may add a little.
        for (direction, rate) in [("out", forth), ("in", back)] {
            let share = best(&found)[direction] / rate as f64;
            assert!((0.3..1.1).contains(&share), "{direction} {route}: {share}\n{ended}");
        }
        let asked = found["points"].as_array().expect("a list").iter().find(|point| point["contender"] == "round trip");
        let asked = asked.and_then(|asked| asked["latency_seconds"]["p50"].as_f64()).expect("a number");
        assert!((0.008..0.5).contains(&asked), "{asked}\n{ended}");
        let run = samples(&w.path(format!("run-{route}")));
        assert!(run.iter().skip(1).all(|sample| sample["series"].as_array().is_some_and(|points| points.len() >= 4)), "{run:?}");
    }
    assert_eq!(below(&w.path("remote-home")), before, "nothing is written there");
    w.assert_no_agents();
    assert_eq!(w.server.logins(), 3, "one login a run");
}

#[test]
fn a_lost_host_ends_the_run_and_keeps_its_samples() {
    let w = World::new("");
    let command = "bench net --streams 1 --seconds 1 --repeat 2 --no-direct --json --out run testhost";
    let running = w.haul(command).start();
    until("a sample", || fs::read_to_string(w.path("run/samples.jsonl")).is_ok_and(|text| text.lines().count() >= 2));
    // Between two measurements a connection is made again: it goes away until the run has ended.
    let over = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                w.server.cut();
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let ended = running.wait();
        over.store(true, Ordering::Relaxed);
        ended
    });
    let ended = ended.code(10).says("testhost").says("what was measured is kept");
    let found = document(&ended);
    assert!(found["ended"].is_null() && failed(&found) == 1 && !best(&found).is_empty(), "{ended}");
    let run = samples(&w.path("run"));
    assert!(run.iter().any(|sample| sample["outcome"] == "failed" && sample["reason"].is_string()), "{ended}");
    w.assert_no_agents();
    // It is back: what failed is measured, what was measured stays.
    let again = w.haul(command).ends(0);
    assert_eq!(failed(&document(&again)), 1, "{again}");
    let all = samples(&w.path("run"));
    assert_eq!((all.len(), &all[..run.len()]), (6, &run[..]), "{again}");
}

#[test]
fn small_files_are_counted() {
    let w = World::new("");
    let ended = w.haul("bench net --small --json -q --streams 2 --seconds 1 --repeat 1 --out run testhost").ends(0);
    assert_eq!(ended.err, "");
    let found = document(&ended);
    for point in points(&found) {
        let median = |name: &str| point[name]["median"].as_f64();
        let (rate, files) = (median("bytes_per_second").expect("a number"), median("files_per_second"));
        // Both are counted at the same moments, while some files are on their way.
        assert!(files.is_some_and(|files| (files * 6500.0 / rate - 1.0).abs() < 0.3), "{ended}");
    }
}

#[test]
fn a_server_whose_devices_are_files_is_left_alone() {
    let w = World::on(|scratch| {
        scratch.write("plain", "precious");
        let (file, script) = (scratch.path("plain"), scratch.path("server.sh"));
        let bind = file.display();
        scratch.write(
            &script,
            format!("mount --bind {bind} /dev/null && mount --bind {bind} /dev/zero && exec /usr/lib/openssh/sftp-server\n"),
        );
        support::server(scratch, &format!("Subsystem sftp /usr/bin/unshare -m sh {}", script.display()))
    });
    let ended = w.plain("bench net --no-agent --seconds 1 --repeat 1 --streams 1 --out run testhost").ends(1);
    ended.says("/dev/").says("does not expose this device");
    assert_eq!(w.text("plain"), "precious");
}

#[test]
fn only_ssh_hosts_are_measured() {
    let w = World::new("");
    w.plain("bench net s3://bucket/prefix").ends(1).says("haul bench files s3://");
    w.plain("bench net /tmp").ends(1).says("no host");
    w.plain("bench net --streams 0 testhost").ends(1);
    w.plain("bench net --small --out run sftp://testhost").ends(1).says("--small");
    assert!(!w.has("run"));
}
