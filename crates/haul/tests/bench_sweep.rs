//! `haul bench sweep`: here, and over ssh in both directions.

use std::fs;
use std::path::PathBuf;

use haul_test::program::Ended;
use haul_test::sshd::Sshd;
use serde_json::Value;

#[path = "bench/support.rs"]
mod support;

use support::World;

impl World {
    fn new() -> World {
        let world = World::of("sweep --caches=warm");
        for n in 0..5u8 {
            world.write(format!("src/d/{n}"), vec![n; 100_000]);
        }
        world
    }
}

#[test]
fn every_point_is_measured_beside_the_own_choice() {
    let world = World::new();
    let Ended { out, err, .. } = world.ends(0, "--json --repeat 2 --seed 7 --workers 1,2 --chunk 64KiB,1MiB src dst");
    let document: Value = serde_json::from_str(&out).expect("one document");
    assert_eq!((&document["settings"]["seed"], document["ended"].is_string()), (&Value::from(7), true));
    let points = document["points"].as_array().expect("points");
    assert_eq!(points.len(), 5, "{document}");
    assert!(points.iter().all(|point| point["ok"] == 2), "{document}");
    // The own choice has a ratio, the best fixed point has none.
    let best: Vec<&Value> = points.iter().filter(|point| point["time_ratio"].is_null()).map(|point| &point["contender"]).collect();
    assert!(best.len() == 1 && best[0].as_str().is_some_and(|best| best.contains("-j ") && best.contains("--chunk-size")), "{document}");
    for part in ["Streams", "Best fixed point: ", "haul's own choice: ", " % of the best speed"] {
        assert!(err.contains(part), "no {part:?} in {err}");
    }
    assert!(!world.path("dst").exists());
    let csv = fs::read_to_string(PathBuf::from(document["run"].as_str().expect("a path")).join("samples.csv")).expect("a table");
    assert!(csv.lines().next().is_some_and(|head| head.ends_with(",chunk,streams")), "{csv}");
}

#[test]
fn both_directions_are_measured() {
    let world = World::new();
    let server = Sshd::start("").expect("sshd can be started: openssh-server and root");
    let remote = |path: &str| format!("testhost:{}", world.path(path).display());
    for (from, to) in [("src".to_string(), remote("remote")), (remote("src"), "near".to_string())] {
        let words = format!("--json --repeat 1 --workers 2 --connections 1,2 -F {} {from} {to}", server.config().display());
        let Ended { out, err, .. } = world.ends(0, &words);
        let document: Value = serde_json::from_str(&out).expect("one document");
        let points = document["points"].as_array().expect("points");
        assert!(points.len() == 3 && points.iter().all(|point| point["ok"] == 1), "{err}");
    }
    assert!(!world.path("remote").exists() && !world.path("near").exists(), "what was made is gone");
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let world = World::new();
    for (words, telling) in [
        ("--workers 0 src dst", "1..=1024"),
        ("--workers 1,x src dst", "x"),
        ("--chunk 1KiB src dst", "at least 64K"),
        ("--chunk 8 src dst", "no unit"),
    ] {
        world.ends(1, words).err_has(telling);
    }
    assert!(!world.has("dst") && !world.state.exists());
}
