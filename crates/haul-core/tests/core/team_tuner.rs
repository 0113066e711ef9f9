//! The limit for the workers of all ranks, on modelled file systems: more ranks are never slower than fewer.

use std::time::Duration;

use haul_core::spread::RankWork;
use haul_core::tune::TeamTuner;
use haul_core::verdict::{Balance, balance};

/// Files per second of the whole file system with so many workers at once.
type Model = fn(f64) -> f64;

/// Grows with the workers, for ever.
fn unlimited(workers: f64) -> f64 {
    100.0 * workers
}

/// Full with 40 workers, as fast with more.
fn full(workers: f64) -> f64 {
    100.0 * workers.min(40.0)
}

/// Full with 40 workers; with more they are in each other's way.
fn contended(workers: f64) -> f64 {
    100.0 * workers.min(40.0) * (40.0 / workers.max(40.0)).powf(0.5)
}

/// A disk, say: best with one worker for each of four ranks.
fn narrow(workers: f64) -> f64 {
    400.0 * (4.0 / workers.max(4.0)).powf(0.3)
}

const STEP: f64 = 0.1;
/// The most workers that the own tuner of a rank asks for.
const OWN_MOST: f64 = 16.0;

struct Ran {
    seconds: f64,
    workers: u32,
    balance: Balance,
}

/// A job of so many files on so many ranks, in virtual time. Work is always there: what ranks do without is another simulation's.
fn run(model: Model, ranks: u32, files: f64, tuned: bool) -> Ran {
    let mut tuner = TeamTuner::new(ranks);
    let mut work: Vec<RankWork> = (0..ranks).map(|rank| RankWork { rank, node: format!("n{}", rank / 4), ..RankWork::default() }).collect();
    let mut said = work.clone();
    let (mut left, mut seconds, mut own) = (files, 0.0, 4.0_f64);
    let mut done = vec![0.0; ranks as usize];
    while left > 0.0 {
        seconds += STEP;
        // It doubles once a second while tasks mostly wait.
        own = (own * 2.0_f64.powf(STEP)).min(OWN_MOST);
        let now = Duration::from_secs_f64(seconds);
        let limits: Vec<f64> = (0..ranks).map(|rank| if tuned { own.min(f64::from(tuner.share(rank))) } else { own }.floor()).collect();
        let all: f64 = limits.iter().sum();
        let each = model(all) / all * STEP;
        for (rank, workers) in limits.iter().enumerate() {
            let at = &mut work[rank];
            let spent = Duration::from_secs_f64(workers * STEP);
            done[rank] += each * workers;
            left -= each * workers;
            (at.files, at.bytes, at.workers) = (done[rank] as u64, done[rank] as u64 * 1000, *workers as u32);
            (at.elapsed, at.busy, at.metadata) = (now, now, at.metadata + spent);
            // Once a second, each at a moment of its own.
            let beat = (seconds / STEP).round() as u64 + rank as u64 * 3;
            if rank == 0 || beat.is_multiple_of(10) {
                said[rank] = at.clone();
            }
        }
        tuner.look(now, &said);
    }
    Ran { seconds, workers: work.iter().map(|rank| rank.workers).sum(), balance: balance(&work, tuner.curve()) }
}

#[test]
fn more_ranks_are_never_slower_than_fewer() {
    for (name, model) in [("unlimited", unlimited as Model), ("full", full), ("contended", contended), ("narrow", narrow)] {
        let mut best = f64::INFINITY;
        for ranks in [1, 2, 4, 8, 16, 32] {
            // Five minutes of the best that this many can do.
            let files = (1..=16).map(|each| model(f64::from(ranks * each))).fold(0.0, f64::max) * 300.0;
            let alone = run(model, 1, files, true).seconds;
            let (tuned, free) = (run(model, ranks, files, true), run(model, ranks, files, false));
            println!(
                "{name}, {ranks:>2} ranks: {:7.1} s, {:>3} workers; without a limit {:7.1} s",
                tuned.seconds, tuned.workers, free.seconds
            );
            // In the time of one rank, as jobs are of different sizes.
            let share = tuned.seconds / alone;
            // One worker for each rank is the least there is.
            let least = if name == "narrow" && ranks > 4 { (f64::from(ranks) / 4.0).powf(0.3) } else { 1.0 };
            assert!(share <= 1.1 * best * least, "{name}: {ranks} ranks take {share:.2} of the time of one, fewer {best:.2}");
            assert!(
                tuned.seconds <= 1.1 * free.seconds,
                "{name}: {ranks} ranks: {:.1} s, {:.1} s without a limit",
                tuned.seconds,
                free.seconds
            );
            best = best.min(share);
        }
    }
}

#[test]
fn ranks_that_gain_from_workers_get_them_and_others_do_not() {
    let grown = run(unlimited, 32, 6e6, true);
    // Half of all in the middle of a probe.
    assert!(grown.workers >= 32 * 8 && grown.balance == Balance::Even, "{}: {:?}", grown.workers, grown.balance);
    // 40 workers would be best: 500 s.
    let between = run(contended, 4, 2e6, true);
    assert!(between.seconds < 575.0, "{} s with {} workers", between.seconds, between.workers);
    let full = run(full, 32, 1e6, true);
    assert!((32..=64).contains(&full.workers), "{}", full.workers);
    assert!(matches!(full.balance, Balance::Saturated(curve) if curve.gain < 1.05), "{:?}", full.balance);
    let contended = run(contended, 32, 1e6, true);
    assert!((32..=64).contains(&contended.workers), "{}", contended.workers);
    assert!(matches!(contended.balance, Balance::Saturated(curve) if curve.gain < 1.0), "{:?}", contended.balance);
}

#[test]
fn a_rank_without_work_says_nothing_about_the_others() {
    let mut tuner = TeamTuner::new(2);
    let at = |seconds: u64, share: f64| {
        let work = |rank, share| RankWork {
            rank,
            elapsed: Duration::from_secs(seconds),
            busy: Duration::from_secs(seconds).mul_f64(share),
            files: seconds * 10,
            metadata: Duration::from_secs(seconds * 32),
            workers: 32,
            ..RankWork::default()
        };
        vec![work(0, 1.0), work(1, share)]
    };
    for seconds in 1..100 {
        assert!(!tuner.look(Duration::from_secs(seconds), &at(seconds, 0.5)), "at {seconds} s");
    }
    assert!((100..110).any(|seconds| tuner.look(Duration::from_secs(seconds), &at(seconds, 1.0))), "both are busy now");
    // Not all are heard of yet.
    let mut tuner = TeamTuner::new(3);
    assert!((1..100).all(|seconds| !tuner.look(Duration::from_secs(seconds), &at(seconds, 1.0))));
}

#[test]
fn shares_add_up_and_nobody_has_none() {
    for ranks in [1, 3, 7, 32, 64, 512] {
        let tuner = TeamTuner::new(ranks);
        let shares: Vec<u32> = (0..ranks).map(|rank| tuner.share(rank)).collect();
        assert_eq!(shares.iter().sum::<u32>(), tuner.most());
        assert!(shares.iter().all(|share| *share >= 1));
    }
}
