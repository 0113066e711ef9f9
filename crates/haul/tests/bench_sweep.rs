//! `haul bench sweep`: here, and over ssh in both directions.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use haul_test::sshd::Sshd;
use serde_json::Value;

/// No run may take longer: a hang is a failure.
const BOUND: Duration = Duration::from_secs(120);

struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let dir = tempfile::Builder::new().prefix("haul-sweep-").tempdir().expect("a temporary directory");
        fs::create_dir_all(dir.path().join("src/d")).expect("made");
        for n in 0..5u8 {
            fs::write(dir.path().join(format!("src/d/{n}")), vec![n; 100_000]).expect("written");
        }
        World { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Standard output and standard error of a run that ends so.
    #[track_caller]
    fn ends(&self, code: i32, words: &str) -> (String, String) {
        let child = self.command(words).spawn().expect("it starts");
        ended(child, code, words)
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
        command.env_clear().current_dir(self.dir.path()).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", self.dir.path());
        command.env("HAUL_STATE_DIR", self.path("state")).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        command.args(["bench", "sweep", "--caches=warm"]).args(words.split_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

#[track_caller]
fn ended(mut child: Child, code: i32, words: &str) -> (String, String) {
    let until = Instant::now() + BOUND;
    while child.try_wait().expect("it can be asked").is_none() {
        if Instant::now() > until {
            let _it_may_be_gone = child.kill();
            panic!("it hangs: {words}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let done = child.wait_with_output().expect("its output");
    let (out, err) = (String::from_utf8_lossy(&done.stdout).into_owned(), String::from_utf8_lossy(&done.stderr).into_owned());
    assert_eq!(done.status.code(), Some(code), "{words}\n{out}\n{err}");
    (out, err)
}

#[test]
fn every_point_is_measured_beside_the_own_choice() {
    let world = World::new();
    let (out, err) = world.ends(0, "--json --repeat 2 --seed 7 --workers 1,2 --chunk 64KiB,1MiB src dst");
    let document: Value = serde_json::from_str(&out).expect("one document");
    assert_eq!((&document["seed"], &document["complete"]), (&Value::from(7), &Value::from(true)));
    let side = &document["sides"][0];
    let points = side["points"].as_array().expect("points");
    assert_eq!(points.len(), 5, "{document}");
    assert!(points.iter().all(|point| point["copies_right"] == 2), "{document}");
    assert_eq!(points.iter().filter(|point| point["own_choice"] == true).count(), 1);
    let best = side["best"].as_str().expect("a best point");
    assert!(best.starts_with("haul -j ") && best.contains("--chunk-size"), "{best}");
    assert!(side["own_choice_reaches"]["share"].as_f64() > Some(0.0), "{document}");
    for part in ["Streams", "Best fixed point: ", "haul's own choice: ", " % of the best speed"] {
        assert!(err.contains(part), "no {part:?} in {err}");
    }
    assert!(!world.path("dst").exists());
    let csv = fs::read_to_string(PathBuf::from(document["run"].as_str().expect("a path")).join("samples.csv")).expect("a table");
    assert!(csv.lines().next().is_some_and(|head| head.ends_with(",chunk,streams")), "{csv}");
}

#[test]
fn both_directions_have_a_best_of_their_own() {
    let world = World::new();
    let server = Sshd::start("").expect("sshd can be started: openssh-server and root");
    let words = format!(
        "--json --repeat 1 --workers 2 --connections 1,2 --direction both --back back -F {} src testhost:{}",
        server.config().display(),
        world.path("far").display()
    );
    let (out, err) = world.ends(0, &words);
    let document: Value = serde_json::from_str(&out).expect("one document");
    let sides = document["sides"].as_array().expect("sides");
    assert_eq!(sides.iter().map(|side| side["direction"].as_str().expect("named")).collect::<Vec<_>>(), ["get", "put"]);
    for side in sides {
        let points = side["points"].as_array().expect("points");
        assert!(points.len() == 3 && points.iter().all(|point| point["copies_right"] == 1), "{err}");
    }
    assert!(!world.path("far").exists() && !world.path("back").exists(), "what was made is gone");
    // The other way round, from there to here.
    let words = format!("--json --repeat 1 --workers 2 -F {} testhost:{} near", server.config().display(), world.path("src").display());
    let document: Value = serde_json::from_str(&world.ends(0, &words).0).expect("one document");
    assert_eq!(document["sides"][0]["direction"], "get");
}

#[test]
fn what_appears_in_the_place_of_the_copy_that_is_read_back_is_not_removed() {
    let world = World::new();
    let server = Sshd::start("").expect("sshd can be started: openssh-server and root");
    // This seed begins with four copies to the far side, which need no copy there.
    let words = format!(
        "--repeat 1 --seed 164 --workers 1,2,3 --direction both --back back --out run -F {} src testhost:{}",
        server.config().display(),
        world.path("far").display()
    );
    let child = world.command(&words).spawn().expect("it starts");
    let until = Instant::now() + BOUND;
    let begun = || fs::read_dir(world.path("far")).is_ok_and(|mut names| names.next().is_some());
    while !begun() {
        assert!(Instant::now() < until, "no copy began");
        std::thread::sleep(Duration::from_millis(1));
    }
    fs::create_dir(world.path("far/read-back")).expect("it is not there yet");
    fs::write(world.path("far/read-back/thesis"), "x").expect("written");
    let (_, err) = ended(child, 23, &words);
    assert!(err.contains("read-back"), "{err}");
    assert_eq!(fs::read_to_string(world.path("far/read-back/thesis")).expect("still there"), "x");
    assert!(!fs::read_to_string(world.path("run/fresh.txt")).unwrap_or_default().contains("read-back"));
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let world = World::new();
    for (words, telling) in [
        ("--direction both src dst", "one place on this machine and one elsewhere"),
        ("--direction get src host:/x", "--back DIR"),
        ("--back b src host:/x", "--back is for"),
        ("--direction put host:/x dst", "name the place on this machine as SRC"),
        ("--workers 0 src dst", "1..=1024"),
        ("--workers 1,x src dst", "x"),
        ("--chunk 1KiB src dst", "at least 64K"),
        ("--chunk 8 src dst", "no unit"),
    ] {
        let (_, err) = world.ends(1, words);
        assert!(err.contains(telling), "{words}: {err}");
    }
    assert!(!world.path("dst").exists() && !world.path("state").exists());
}
