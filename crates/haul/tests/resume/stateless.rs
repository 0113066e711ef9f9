//! Runs whose journal cannot be kept: they go on without, and say so.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use haul_test::compare::What;
use haul_test::volume::Volume;
use rustix::process::Signal;

use crate::support::{BOUND, CHUNK_WORDS, Haul, Place, staging};

fn place() -> Place {
    let place = Place::new();
    place.tree("src: large=3M small=2K d/e=5K empty=0 old: small=1K d/e=4K");
    fs::rename(place.join("old"), place.join("dst")).expect("renamed");
    place
}

/// Interrupted in the middle of its large file, then run to its end.
fn goes_on_without(place: &Place, haul: impl Fn(&str) -> Haul) {
    let mut run = haul(&format!("cp --json --bwlimit 100K --chunk-size {CHUNK_WORDS} src/ dst")).start();
    let until = Instant::now() + BOUND;
    while staging(&place.join("dst")).is_empty() {
        assert!(run.is_running() && Instant::now() < until, "it did not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    run.signal(Signal::INT);
    run.wait(Duration::from_secs(10)).code(20).says("journal");
    assert_eq!(staging(&place.join("dst")).len(), 0, "nobody would know of them");
    haul("cp --json src/ dst").run().code(0).says("journal").never_says("resuming");
    place.assert_same("src", "dst", What::USUAL, "without a journal");
}

#[test]
fn a_state_directory_that_cannot_be_made() {
    for bad in ["/proc/haul", "/dev/null", "/dev/null/state"] {
        let place = place();
        goes_on_without(&place, |words| place.haul(words).env("HAUL_STATE_DIR", bad));
    }
}

#[test]
fn no_home_at_all() {
    let place = place();
    goes_on_without(&place, |words| place.haul(words).without("HOME").without("HAUL_STATE_DIR"));
}

fn fill(dir: &Path, leave: usize) {
    let _until_it_is_full = fs::write(dir.join("filling"), vec![1; 8 << 20]);
    let length = fs::metadata(dir.join("filling")).expect("it is there").len();
    fs::File::options().write(true).open(dir.join("filling")).and_then(|f| f.set_len(length - leave as u64)).expect("shortened");
}

#[test]
fn a_full_state_directory() {
    for leave in [0, 4096, 8192, 16384] {
        let volume = Volume::tmpfs(1 << 20).expect("tmpfs, as root");
        fs::create_dir(volume.path().join("state")).expect("made");
        fill(volume.path(), leave);
        let place = place();
        // Many directories: many intents.
        haul_test::tree::spread(&place.join("src/many"), 400, 2, 10).expect("made");
        let ended = place.haul("cp --json src/ dst").env("HAUL_STATE_DIR", volume.path().join("state")).run().code(0);
        if leave < 16384 {
            ended.says("journal");
        }
        place.assert_same("src", "dst", What::USUAL, &format!("{leave} bytes left"));
        assert_eq!(staging(&place.join("dst")).len(), 0);
    }
}

#[test]
fn a_state_directory_that_becomes_full() {
    let place = place();
    let volume = Volume::tmpfs(1 << 20).expect("tmpfs, as root");
    let state = volume.path().join("state");
    let command = format!("cp --json --bwlimit 400K --chunk-size {CHUNK_WORDS} src/ dst");
    let mut run = place.haul(&command).env("HAUL_STATE_DIR", &state).start();
    let until = Instant::now() + BOUND;
    while staging(&place.join("dst")).is_empty() {
        assert!(run.is_running() && Instant::now() < until, "it did not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    fill(volume.path(), 0);
    run.signal(Signal::INT);
    run.wait(Duration::from_secs(10)).code(20);
    fs::remove_file(volume.path().join("filling")).expect("removed");
    place.haul("cp src/ dst").env("HAUL_STATE_DIR", &state).run().code(0);
    place.assert_same("src", "dst", What::USUAL, "with room");
    assert_eq!(staging(&place.join("dst")).len(), 0);
}
