//! Signals and deadlines: the run stops soon, keeps what it has, and says how to go on.

use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use haul_test::compare::What;
use haul_test::program::{BOUND, Running, until};
use haul_test::tree::spread;
use rustix::process::Signal;

use crate::support::{COPY, World, hang};

/// It stops within a second; this is for machines that are busy.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_signal_stops_the_run_and_it_goes_on() {
    let w = World::new("src: file=6M small=2K many/");
    spread(&w.path("src/many"), 4, 50, 3000).expect("made");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let run = w.slow("");
        sleep(Duration::from_millis(900));
        run.signal(signal);
        let ended = run.within(SOON).code(20).says("run the same command again");
        assert_eq!(ended.finished()["ending"], "interrupted");
        assert!(w.journal().exists());
    }
    let (landed, open) = w.landed();
    assert!(landed > 0 && open == 1, "{landed} bytes of {open}");
    assert_eq!(w.haul(&format!("{COPY} src/ dst")).ends(0).number("resumed_bytes"), landed);
    w.assert_done("dst", What::USUAL, "after three signals");
}

/// SIGHUP and SIGINT: `nohup`, and what a shell without job control puts into the background.
const IGNORED: [i32; 2] = [Signal::HUP.as_raw(), Signal::INT.as_raw()];

#[test]
fn a_run_that_was_started_with_ignored_signals_goes_on() {
    let w = World::new("src: file=6M small=2K");
    let mut run = w.haul(&format!("{COPY} --bwlimit 6M src/ dst")).ignoring(&IGNORED).start();
    run.until("a staging file", || !w.staging("dst").is_empty());
    run.signal(Signal::HUP);
    run.signal(Signal::INT);
    run.wait().code(0);
    w.assert_done("dst", What::USUAL, "after an ignored signal");
}

/// Waits until it has a handler for SIGTERM; which of the signals are ignored then.
fn ignored_when_ready(run: &mut Running) -> [bool; 2] {
    let has = |mask: &str, signal: i32| u64::from_str_radix(mask, 16).expect("hexadecimal") >> (signal - 1) & 1 == 1;
    let end = Instant::now() + BOUND;
    while !has(&run.status("SigCgt").expect("it runs"), Signal::TERM.as_raw()) {
        assert!(Instant::now() < end, "it handles no signal");
        sleep(Duration::from_millis(2));
    }
    IGNORED.map(|signal| has(&run.status("SigIgn").expect("it runs"), signal))
}

#[test]
fn whatever_listens_leaves_ignored_signals_alone() {
    for words in ["cp - out", "run -", "demo --dir .", "bench data 40000x1KiB set", "bench files --duration 60s ."] {
        for (ignored, expected) in [(&IGNORED[..], true), (&[], false)] {
            let w = World::new("");
            let mut run = w.haul(words).ignoring(ignored).piped();
            let found = ignored_when_ready(&mut run);
            run.signal(Signal::TERM);
            run.wait().code(20);
            assert_eq!(found, [expected; 2], "haul {words}");
        }
    }
}

#[test]
fn a_deadline_stops_the_run_and_it_goes_on() {
    let w = World::new("src: file=6M");
    let ended = w.slow("--deadline 2s").wait().code(75).says("the deadline").says("run the same command again");
    assert_eq!(ended.finished()["ending"], "deadline");
    assert!(w.haul("cp --json src/ dst").ends(0).number("resumed_bytes") > 0);
    w.assert_done("dst", What::USUAL, "after the deadline");
}

#[test]
fn usr1_shows_progress() {
    let w = World::new("src: file=6M");
    let run = w.slow("--progress=3600");
    sleep(Duration::from_millis(300));
    run.signal(Signal::USR1);
    sleep(Duration::from_millis(500));
    run.signal(Signal::INT);
    let ended = run.within(SOON).code(20);
    let shown = ended.err.lines().filter(|line| line.contains("/s") && line.contains("file")).count();
    assert!(shown > 1, "{ended}");
}

/// A worker hangs in a read: signals end the run all the same, one or two of them, and so does `--timeout`.
#[test]
fn a_run_ends_though_a_worker_is_stuck() {
    for (flags, signals, code, ending) in
        [("", &[Signal::INT][..], 20, "interrupted"), ("", &[Signal::INT, Signal::TERM], 20, ""), ("--timeout 1s", &[], 30, "timeout")]
    {
        let w = World::new("src: large=2M stuck=1M");
        let mounted = w.mount("src", &[hang("stuck")]);
        let command = format!("cp --json -j 2 {flags} {}/ dst", mounted.path().display());
        let run = w.haul(&command).start();
        until("somebody reads", || mounted.faults().struck() > 0);
        signals.iter().for_each(|signal| run.signal(*signal));
        let ended = run.within(SOON).code(code);
        // A second signal leaves at once.
        assert!(ending.is_empty() || ended.finished()["ending"] == ending, "{ended}");
        if ending == "timeout" {
            ended.says("stuck").says("--timeout");
        }
        assert!(w.journal().exists());
        mounted.faults().clear();
        w.haul(&command).ends(0);
        w.assert_done("dst", What::USUAL, "after the store came back");
    }
}

#[test]
fn standard_input_that_was_broken_off_leaves_the_old_file_and_nothing_else() {
    for signal in [Signal::TERM, Signal::KILL] {
        let w = World::new("d/out=1K");
        let old = w.read("d/out");
        let mut run = w.haul("cp - d/out").piped();
        let mut input = run.input();
        input.write_all(&vec![7; 3 << 20]).expect("it reads");
        run.until("something is staged", || !w.staging("d").is_empty());
        run.signal(signal);
        let ended = run.wait();
        drop(input);
        assert_eq!(w.read("d/out"), old);
        if signal == Signal::TERM {
            ended.code(20);
        } else {
            assert_eq!(w.staging("d").len(), 1);
            let jobs = w.haul("jobs --json").ends(0).events();
            let id = jobs[0]["job"].as_str().expect("an id");
            w.haul(&format!("jobs resume {id}")).ends(1).says("cannot be read again");
            w.haul("jobs clean").ends(0);
        }
        w.assert_clean("d");
    }
}
