//! Signals and deadlines: the run stops soon, keeps what it has, and says how to go on.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use haul_test::compare::What;
use haul_test::slowfs::{Fault, FaultKind, Options, SlowFs};
use rustix::process::Signal;

use crate::support::{BOUND, CHUNK_WORDS, Place, number, staging};
use crate::twice::slow;

/// It stops within a second; this is for machines that are busy.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_signal_stops_the_run_and_it_goes_on() {
    let place = Place::new();
    place.tree("src: file=6M small=2K many/");
    haul_test::tree::spread(&place.join("src/many"), 4, 50, 3000).expect("made");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let run = slow(&place, "");
        std::thread::sleep(Duration::from_millis(900));
        run.signal(signal);
        let ended = run.wait(SOON).code(20).says("run the same command again");
        assert_eq!(ended.finished()["ending"], "interrupted");
        assert!(place.kept_of_jobs().contains(&"journal".to_string()), "{:?}", place.kept_of_jobs());
    }
    let (landed, open) = place.landed(&place.identity("src", "dst"));
    assert!(landed > 0 && open == 1, "{landed} bytes of {open}");
    let last = place.haul(&format!("cp --json --chunk-size {CHUNK_WORDS} src/ dst")).run().code(0);
    assert_eq!(number(&last.finished(), "resumed_bytes"), landed);
    place.assert_done("src", "dst", What::USUAL, "after three signals");
}

/// SIGHUP and SIGINT: `nohup`, and what a shell without job control puts into the background.
const IGNORED: [i32; 2] = [Signal::HUP.as_raw(), Signal::INT.as_raw()];

#[test]
fn a_run_that_was_started_with_ignored_signals_goes_on() {
    let place = Place::new();
    place.tree("src: file=6M small=2K");
    let run = place.haul(&format!("cp --json --bwlimit 6M --chunk-size {CHUNK_WORDS} src/ dst")).ignoring(&IGNORED).start();
    let until = Instant::now() + BOUND;
    while staging(&place.join("dst")).is_empty() {
        assert!(Instant::now() < until, "it did not begin");
        std::thread::sleep(Duration::from_millis(2));
    }
    run.signal(Signal::HUP);
    run.signal(Signal::INT);
    run.wait(BOUND).code(0);
    place.assert_done("src", "dst", What::USUAL, "after an ignored signal");
}

#[test]
fn whatever_listens_leaves_ignored_signals_alone() {
    for words in ["cp - out", "run -", "demo --dir .", "bench data 40000x1KiB set", "bench files --duration 60s ."] {
        let place = Place::new();
        let mut run = place.haul(words).piped().ignoring(&IGNORED).start();
        let found = run.ignores_when_ready(&IGNORED);
        run.signal(Signal::TERM);
        run.wait(BOUND).code(20);
        assert_eq!(found, [true, true], "haul {words}");
        let mut usual = place.haul(words).piped().start();
        assert_eq!(usual.ignores_when_ready(&IGNORED), [false, false], "haul {words}");
        usual.signal(Signal::TERM);
        usual.wait(BOUND).code(20);
    }
}

#[test]
fn a_deadline_stops_the_run_and_it_goes_on() {
    let place = Place::new();
    place.tree("src: file=6M");
    let ended = slow(&place, "--deadline 2s").wait(BOUND).code(75).says("the deadline").says("run the same command again");
    assert_eq!(ended.finished()["ending"], "deadline");
    let last = place.haul("cp --json src/ dst").run().code(0);
    assert!(number(&last.finished(), "resumed_bytes") > 0, "{last}");
    place.assert_done("src", "dst", What::USUAL, "after the deadline");
}

#[test]
fn usr1_shows_progress() {
    let place = Place::new();
    place.tree("src: file=6M");
    let run = slow(&place, "--progress=3600");
    std::thread::sleep(Duration::from_millis(300));
    run.signal(Signal::USR1);
    std::thread::sleep(Duration::from_millis(500));
    run.signal(Signal::INT);
    let ended = run.wait(SOON).code(20);
    let shown = ended.err.lines().filter(|line| line.contains("/s") && line.contains("file")).count();
    assert!(shown > 1, "{ended}");
}

/// A worker is stuck in a read that takes five minutes.
fn stuck(signals: &[Signal]) {
    let place = Place::new();
    place.tree("src: large=2M stuck=1M");
    let mounted = SlowFs::mount(&place.join("src"), Options { threads: 8, ..Options::fast() }).expect("FUSE");
    mounted.faults().add(Fault::always("stuck", FaultKind::ReadHang { duration: Duration::from_secs(300) }));
    let command = format!("cp --json -j 2 {}/ dst", mounted.path().display());
    let run = place.haul(&command).start();
    let until = Instant::now() + BOUND;
    while mounted.faults().struck() == 0 {
        assert!(Instant::now() < until, "nobody reads");
        std::thread::sleep(Duration::from_millis(5));
    }
    for signal in signals {
        run.signal(*signal);
    }
    run.wait(SOON).code(20);
    assert!(place.kept_of_jobs().contains(&"journal".to_string()));
    mounted.faults().clear();
    place.haul(&command).run().code(0);
    place.assert_done("src", "dst", What::USUAL, "after the store came back");
}

#[test]
fn a_signal_stops_the_run_though_a_worker_is_stuck() {
    stuck(&[Signal::INT]);
}

#[test]
fn a_timeout_ends_a_run_of_which_nothing_moves() {
    let place = Place::new();
    place.tree("src: large=2M stuck=1M");
    let mounted = SlowFs::mount(&place.join("src"), Options { threads: 8, ..Options::fast() }).expect("FUSE");
    mounted.faults().add(Fault::always("stuck", FaultKind::ReadHang { duration: Duration::from_secs(300) }));
    let command = format!("cp --json -j 2 --timeout 1s {}/ dst", mounted.path().display());
    let ended = place.haul(&command).start().wait(BOUND).code(30).says("stuck").says("--timeout");
    assert_eq!(ended.finished()["ending"], "timeout");
    assert!(place.kept_of_jobs().contains(&"journal".to_string()), "{:?}", place.kept_of_jobs());
    mounted.faults().clear();
    place.haul(&command).run().code(0);
    place.assert_done("src", "dst", What::USUAL, "after the store came back");
}

#[test]
fn a_second_signal_leaves_at_once() {
    stuck(&[Signal::INT, Signal::TERM]);
}

#[test]
fn standard_input_that_was_broken_off_leaves_the_old_file_and_nothing_else() {
    use std::io::Write;
    for signal in [Signal::TERM, Signal::KILL] {
        let place = Place::new();
        place.tree("d/out=1K");
        let old = fs::read(place.join("d/out")).expect("a file");
        let mut run = place.haul("cp - d/out").piped().start();
        let mut input = run.input();
        input.write_all(&vec![7; 3 << 20]).expect("it reads");
        let until = Instant::now() + BOUND;
        while staging(&place.join("d")).is_empty() {
            assert!(Instant::now() < until, "it did not begin");
            std::thread::sleep(Duration::from_millis(2));
        }
        run.signal(signal);
        let ended = run.wait(BOUND);
        drop(input);
        assert_eq!(fs::read(place.join("d/out")).expect("a file"), old);
        if signal == Signal::TERM {
            ended.code(20);
            assert_eq!(staging(&place.join("d")), Vec::<PathBuf>::new());
            continue;
        }
        assert_eq!(staging(&place.join("d")).len(), 1);
        let job: serde_json::Value = serde_json::from_str(&place.haul("jobs --json").run().code(0).out).expect("one job");
        let id = job["job"].as_str().expect("an id");
        place.haul(&format!("jobs resume {id}")).run().code(1).says("cannot be read again");
        place.haul("jobs clean").run().code(0);
        assert_eq!(staging(&place.join("d")), Vec::<PathBuf>::new());
    }
}
