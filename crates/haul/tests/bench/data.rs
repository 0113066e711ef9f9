//! `haul bench data`: the program itself, and the trees that it leaves.

#[path = "support.rs"]
mod support;

use std::fs;
use std::path::Path;

use haul_test::compare::{What, differences};
use haul_test::program::Running;
use haul_test::volume::Volume;
use rustix::process::Signal;
use serde_json::Value;

use support::World;

impl World {
    fn new() -> World {
        World::of("data")
    }

    #[track_caller]
    fn document(&self, words: &str) -> Value {
        let document = self.ends(0, &format!("--json {words}")).events().remove(0);
        assert_eq!((&document["event"], &document["version"]), (&"bench-data".into(), &1.into()));
        document
    }
}

const EVERYTHING: &str = "40x3KiB,lognormal:median=8KiB,count=60,max=1MiB --per-dir 9 --depth 2 --sparse 30 --compressible 40 --hard-links 20 \
                          --symlinks 20 --xattrs 2 --odd-names 40";

#[test]
fn the_same_words_make_the_same_tree() {
    let world = World::new();
    world.ends(0, &format!("{EVERYTHING} -j 1 a"));
    world.ends(0, &format!("-j 3 {EVERYTHING} b"));
    world.assert_same("a", "b", What { root: false, ..What::ALL });
    world.ends(0, &format!("{EVERYTHING} --seed 1 c"));
    let differing = differences(&world.path("a"), &world.path("c"), What::CONTENT).expect("both can be read");
    assert!(!differing.is_empty(), "another seed makes other data");
    world.ends(0, &format!("--verify {EVERYTHING} b")).out_has(" 0 missing, 0 differing, 0 extra, 0 unreadable");
    world.ends(1, &format!("--verify {EVERYTHING} c")).out_has(": missing").out_has("... and ");
}

#[test]
fn a_plan_is_what_is_made() {
    let world = World::new();
    let plan = world.document("-n 1000x10MiB,39x1GiB --scale 1000 set")["plan"].clone();
    assert!(!world.path("set").exists(), "a dry run makes nothing");
    let made = world.document("1000x10MiB,39x1GiB --scale 1000 set");
    assert_eq!(made["plan"], plan);
    // 1000 x 10 MiB become one of them; of 39 GiB, a thousandth in one file.
    let bytes = (10 << 20) + (39u64 << 30).div_ceil(1000);
    assert_eq!((made["files"].as_u64(), made["bytes"].as_u64(), made["dirs"].as_u64()), (Some(2), Some(bytes), Some(0)));
    assert_eq!((made["kept"].as_u64(), made["failed"].as_u64(), &made["interrupted"]), (Some(0), Some(0), &false.into()));
    let sizes = fs::read_dir(world.path("set")).expect("it is there").map(|entry| entry.expect("listed").metadata().expect("there").len());
    assert_eq!(sizes.sum::<u64>(), bytes);
    world.ends(0, "1000x10MiB,39x1GiB --scale 1000 set").out_has("nothing to create: all 2 files");
}

fn entries(dir: &Path) -> usize {
    fs::read_dir(dir).map_or(0, Iterator::count)
}

/// Starts a run, and waits until it has made something.
fn begun(world: &World, words: &str, enough: usize) -> Running {
    let mut running = world.command(words).start();
    running.until("files", || entries(&world.path("set")) >= enough);
    running
}

#[test]
fn an_interrupted_run_resumes() {
    let world = World::new();
    let words = "400x1MiB -j 1 set";
    let running = begun(&world, words, 3);
    running.signal(Signal::TERM);
    running.wait().code(20).out_has("the files created so far are complete; the same command resumes");
    // Whatever is there is whole.
    let there: Vec<u64> =
        fs::read_dir(world.path("set")).expect("it is there").map(|e| e.expect("listed").metadata().expect("there").len()).collect();
    assert!(!there.is_empty() && there.len() < 400 && there.iter().all(|size| *size == 1 << 20), "{there:?}");
    let made = world.document("400x1MiB set");
    assert_eq!((made["kept"].as_u64(), made["files"].as_u64()), (Some(there.len() as u64), Some(400 - there.len() as u64)));
    world.ends(0, "--verify 400x1MiB set");
}

#[test]
#[ignore = "full"]
fn a_killed_run_resumes() {
    let world = World::new();
    // A large file alone, and the small ones behind it.
    for (words, enough, files) in [("1x300MiB set", 1, 1), ("20000x4KiB --flat set", 20, 20_000)] {
        let running = begun(&world, words, enough);
        running.signal(Signal::KILL);
        running.wait();
        let made = world.document(words);
        let of = |what: &str| made[what].as_u64().unwrap_or_default();
        assert_eq!((of("files") + of("kept"), of("failed")), (files, 0), "{made}");
        world.ends(0, &format!("--verify {words}"));
        fs::remove_dir_all(world.path("set")).expect("removed");
    }
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let world = World::new();
    fs::create_dir(world.path("full")).expect("made");
    fs::write(world.path("full/thesis"), "mine").expect("written");
    fs::write(world.path("file"), "mine").expect("written");
    for (words, code, says) in [
        ("10x10 set", 1, "the number has no unit"),
        ("10x1KiB", 1, "SPEC and DIR are both needed"),
        ("10x1KiB set --compressible 101", 1, "101"),
        ("10x1KiB set --flat --depth 2", 1, "--depth"),
        ("1000x1B set --per-dir 10 --depth 1 --width 5", 1, "100 directories are needed"),
        ("10x1B set --depth 20 --width 20", 1, "too many"),
        ("10x1KiB host:set", 1, "not on this machine"),
        ("10x1KiB set --count 5", 1, "--like"),
        ("--like nowhere set", 23, "nowhere"),
        ("--like full 10x1KiB set", 1, "leave SPEC out"),
        ("10x1KiB full", 1, "thesis"),
        ("10x1KiB file", 23, "Not a directory"),
        ("10x1KiB no/set", 23, "mkdir -p"),
        ("1x8000000TiB set", 11, "free"),
        ("--verify 10x1KiB no", 23, "No such file"),
    ] {
        world.ends(code, words).err_has(says);
        assert!(!world.path("set").exists(), "{words}");
    }
    assert_eq!((entries(&world.path("full")), fs::read(world.path("full/thesis")).expect("it is there")), (1, b"mine".to_vec()));
    world.ends(0, "10x1KiB --add full");
    assert_eq!(entries(&world.path("full")), 11);
}

#[test]
fn space_and_inodes_are_asked_for_first() {
    let world = World::new();
    let small = Volume::tmpfs(4 << 20).expect("a volume: root");
    world
        .ends(11, &format!("1000x8KiB {}/set", small.path().display()))
        .err_has("needs 7.81 MiB")
        .err_has("has 4.00 MiB free")
        .err_has("--scale");
    let few = Volume::few_inodes(64 << 20, 100).expect("a volume: root");
    world.ends(11, &format!("1000x1KiB {}/set", few.path().display())).err_has("needs 1,000 inodes").err_has(" free");
    assert_eq!((entries(small.path()), entries(few.path())), (0, 0), "nothing was made");
    world.ends(0, &format!("1000x1KiB --scale 100 {}/set", few.path().display()));
}
