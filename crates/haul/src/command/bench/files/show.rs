//! The plan and the progress of a run.

use haul_bench::files::{Case, Operation, Settings, Step, steps};
use haul_bench::plot::Unit;
use haul_bench::record::Sample;
use serde_json::Value;

use crate::text::things;
use crate::units;

pub fn case_words(case: Case, each: u64) -> String {
    let threads = things(case.threads.into(), "thread");
    let dirs = if case.same_dir { "the same directories" } else { "directories of their own" };
    format!("{threads} in {dirs}, {} of {} each", things(each, "file"), Unit::Bytes.show(case.size as f64))
}

pub fn plan(settings: &Settings, place: &str) -> String {
    let words: Vec<&str> = settings.operations.iter().map(|op| op.word()).collect();
    let limit = settings.limit.map_or(String::new(), |limit| format!("; at most {} each", units::duration(limit)));
    format!("{} in {place}, {}{limit}", words.join(", "), things(settings.cases().len() as u64, "case"))
}

/// The prerequisites of operations, one line each.
pub fn prepared(operations: &[Operation]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut needs = Vec::new();
    for step in steps(operations) {
        match step {
            Step::Prepare(op) => needs.push(op.word()),
            Step::Measure(op) if !needs.is_empty() => {
                lines.push(format!("{} needs {} first, which is not counted", op.word(), needs.join(" and ")));
                needs.clear();
            }
            _ => {}
        }
    }
    lines.dedup();
    lines
}

/// How to read the numbers.
pub fn notes(settings: &Settings, local: bool) -> Vec<String> {
    let mut notes = vec!["Counting stops when the first thread has finished; \"Done\" is the share of the files that counts".to_string()];
    if local && settings.operations.contains(&Operation::Read) {
        notes.push("read: the files were just written, so most come from the page cache".into());
    }
    if local && !settings.manner.fsync && settings.operations.iter().any(|op| op.writes()) {
        notes.push("nothing was synced to disk; --fsync syncs each file".into());
    }
    notes
}

pub fn one(sample: &Sample) -> String {
    let share = sample.more.get("share").and_then(Value::as_f64).unwrap_or(0.0);
    match sample.files_rate() {
        None => format!("{}: {}", sample.contender, sample.outcome.words()),
        Some(rate) => {
            let (rate, seconds) = (Unit::PerSecond("files").show(rate), Unit::Seconds.show(sample.seconds.unwrap_or(f64::NAN)));
            let p99 = sample.latency.as_ref().map_or(f64::NAN, |l| l.p99);
            format!("{}: {rate}, {seconds}, {:.0}% done, p99 {}", sample.contender, (share * 100.0).floor(), Unit::Seconds.show(p99))
        }
    }
}
