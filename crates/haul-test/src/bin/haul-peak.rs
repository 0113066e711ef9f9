//! Runs the engine over a tree that exists nowhere into a destination that keeps nothing, and prints the
//! peak memory in KiB, entries found and seconds: `haul-peak SHAPE N [WORKERS]`.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use haul_bench::discard::Discard;
use haul_bench::synthetic::Synthetic;
use haul_core::cancel::Cancel;
use haul_core::engine::{Setup, run};
use haul_core::job::Job;
use haul_core::journal::{Journal, Progress};
use haul_core::report::Ending;
use haul_core::store::Store;
use haul_core::tune::{Fixed, Limits};
use haul_test::shape::Shape;

const SHAPES: &str = "SHAPE is files (1,000 a directory), wide (one directory), dirs (empty ones), deep, links (three names a file), kept (files, unchanged), kept-wide, doomed";

fn main() -> std::process::ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| words.get(i).and_then(|word| word.parse::<u64>().ok());
    let (Some(shape), Some(n)) = (words.first(), number(1)) else {
        return complain(&format!("haul-peak SHAPE N [WORKERS]; {SHAPES}"));
    };
    let (source, target, delete): (Arc<dyn Store>, Arc<dyn Store>, bool) = match shape.as_str() {
        "files" => (Arc::new(Synthetic::new(n / 1000, 1000, 10)), Arc::new(Discard::new()), false),
        "wide" => (Arc::new(Synthetic::new(1, n, 10)), Arc::new(Discard::new()), false),
        "dirs" => (Arc::new(Synthetic::new(n, 0, 0)), Arc::new(Discard::new()), false),
        "deep" => (Arc::new(Shape::deep(n)), Arc::new(Discard::new()), false),
        "links" => (Arc::new(Shape::links(n)), Arc::new(Discard::new()), false),
        "kept" => (Arc::new(Synthetic::new(n / 1000, 1000, 10)), Arc::new(Synthetic::new(n / 1000, 1000, 10)), true),
        "kept-wide" => (Arc::new(Synthetic::new(4, n / 4, 10)), Arc::new(Synthetic::new(4, n / 4, 10)), true),
        "doomed" => (Arc::new(Synthetic::new(1, 0, 10)), Arc::new(Synthetic::new(1, n, 10)), true),
        _ => return complain(SHAPES),
    };
    let mut job = Job::copying(source, target);
    job.deletion = delete.then(Default::default);
    job.dry = shape == "doomed";
    let setup = Setup {
        observer: Arc::new(()),
        journal: Journal::none(),
        past: Progress::default(),
        cancel: Cancel::default(),
        tuner: Box::new(Fixed(Limits { workers: number(2).unwrap_or(8) as u32 })),
        most_workers: 64,
        processors: 2,
        spill: std::env::temp_dir(),
        heartbeat: Box::new(|| {}),
        sentence: String::new(),
        show_progress: Arc::new(AtomicBool::new(false)),
        team: None,
    };
    let began = Instant::now();
    let report = run(job, setup);
    if report.ending != Ending::Complete || report.failed > 0 {
        return complain(&format!("{report:?}"));
    }
    let found = report.found.total() + report.deleted.total();
    let line = format!("{} {found} {:.1}\n", peak(), began.elapsed().as_secs_f64());
    match std::io::stdout().write_all(line.as_bytes()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(_) => std::process::ExitCode::FAILURE,
    }
}

fn complain(words: &str) -> std::process::ExitCode {
    // Nothing can be said when even this fails.
    let _ = writeln!(std::io::stderr(), "{words}");
    std::process::ExitCode::from(2)
}

/// `VmHWM` in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0)
}
