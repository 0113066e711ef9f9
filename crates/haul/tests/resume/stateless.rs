//! Runs whose journal cannot be kept: they go on without, and say so.

use std::fs;
use std::path::Path;
use std::time::Duration;

use haul_test::compare::What;
use haul_test::program::Program;
use haul_test::volume::Volume;
use rustix::process::Signal;

use crate::support::{COPY, World};

fn world() -> World {
    World::new("src: large=3M small=2K d/e=5K empty=0 dst: small=1K d/e=4K")
}

/// Interrupted in the middle of its large file, then run to its end.
fn goes_on_without(haul: impl Fn(Program) -> Program) {
    let w = world();
    let mut run = haul(w.haul(&format!("{COPY} --bwlimit 100K src/ dst"))).start();
    run.until("a staging file", || !w.staging("dst").is_empty());
    run.signal(Signal::INT);
    run.within(Duration::from_secs(10)).code(20).says("journal");
    w.assert_clean("dst");
    haul(w.haul("cp --json src/ dst")).ends(0).says("journal").never_says("resuming");
    w.assert_same("src", "dst", What::USUAL);
}

#[test]
fn a_state_directory_that_cannot_be_made() {
    for bad in ["/proc/haul", "/dev/null", "/dev/null/state"] {
        goes_on_without(|haul| haul.env("HAUL_STATE_DIR", bad));
    }
}

#[test]
fn no_home_at_all() {
    goes_on_without(|haul| haul.without("HOME").without("HAUL_STATE_DIR"));
}

/// Fills the file system but for so many bytes.
fn fill(dir: &Path, leave: usize) {
    let file = dir.join("filling");
    // The write ends when it is full.
    let _ = fs::write(&file, vec![1; 8 << 20]);
    let length = fs::metadata(&file).expect("it is there").len();
    fs::File::options().write(true).open(&file).and_then(|f| f.set_len(length - leave as u64)).expect("shortened");
}

#[test]
#[ignore = "full"]
fn a_full_state_directory() {
    for leave in [0, 4096, 8192, 16384] {
        let volume = Volume::tmpfs(1 << 20).expect("tmpfs, as root");
        let state = volume.path().join("state");
        fs::create_dir(&state).expect("made");
        fill(volume.path(), leave);
        let w = world();
        // Many directories: many intents.
        haul_test::tree::spread(&w.path("src/many"), 400, 2, 10).expect("made");
        let ended = w.haul("cp --json src/ dst").env("HAUL_STATE_DIR", state).ends(0);
        if leave < 16384 {
            ended.says("journal");
        }
        w.assert_same("src", "dst", What::USUAL);
        w.assert_clean("dst");
    }
}

#[test]
fn a_state_directory_that_becomes_full() {
    let w = world();
    let volume = Volume::tmpfs(1 << 20).expect("tmpfs, as root");
    let state = volume.path().join("state");
    let mut run = w.haul(&format!("{COPY} --bwlimit 400K src/ dst")).env("HAUL_STATE_DIR", &state).start();
    run.until("a staging file", || !w.staging("dst").is_empty());
    fill(volume.path(), 0);
    run.signal(Signal::INT);
    run.within(Duration::from_secs(10)).code(20);
    fs::remove_file(volume.path().join("filling")).expect("removed");
    w.haul("cp src/ dst").env("HAUL_STATE_DIR", &state).ends(0);
    w.assert_same("src", "dst", What::USUAL);
    w.assert_clean("dst");
}
