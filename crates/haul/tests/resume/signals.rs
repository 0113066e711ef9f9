//! Signals and deadlines: the run stops soon, keeps what it has, and says how to go on.

use std::time::{Duration, Instant};

use haul_test::compare::What;
use haul_test::slowfs::{Fault, FaultKind, Options, SlowFs};
use rustix::process::Signal;

use crate::support::{BOUND, CHUNK_WORDS, Place, number};
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
