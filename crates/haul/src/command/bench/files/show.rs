//! The plan, the progress and the document of a run.

use haul_bench::files::{Case, Operation, Settings, Step, steps};
use haul_bench::plot::Unit;
#[cfg(test)]
use haul_bench::record::Outcome;
use haul_bench::record::{Latency, Sample};
use haul_bench::report::{Metric, Point, points};
use serde_json::{Value, json};

use crate::units;

fn plural(n: u64, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{} {many}", units::count(n)) }
}

pub fn case_words(case: Case, each: u64) -> String {
    let threads = plural(case.threads.into(), "thread", "threads");
    let dirs = if case.same_dir { "the same directories" } else { "directories of their own" };
    format!("{threads} in {dirs}, {} of {} each", plural(each, "file", "files"), Unit::Bytes.show(case.size as f64))
}

/// The first line.
pub fn plan(settings: &Settings, place: &str) -> String {
    let words: Vec<&str> = settings.operations.iter().map(|op| op.word()).collect();
    let limit = settings.limit.map_or(String::new(), |limit| format!("; at most {} each", units::duration(limit)));
    format!("{} in {place}, {}{limit}", words.join(", "), plural(settings.cases().len() as u64, "case", "cases"))
}

/// What is made before the operations that need it, one line each.
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

/// One measurement in a line.
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

/// What `--json` has at the end: one object for each operation in each case, with medians.
pub fn rows(samples: &[Sample]) -> Value {
    let mut points = points(samples);
    points.sort_by_key(|point| point.samples.first().map(|sample| sample.number));
    points.iter().map(row).collect()
}

fn row(point: &Point<'_>) -> Value {
    let median = |metric| point.summary(metric).map(|s| s.median);
    let more = |name: &str| point.median_of(|s| s.more.get(name)?.as_f64());
    let latency = |of: fn(&Latency) -> f64| point.median_of(|s| s.latency.as_ref().map(of));
    let latencies = latency(|l| l.p50).map(|p50| {
        let [p90, p99, p999, max] = [latency(|l| l.p90), latency(|l| l.p99), latency(|l| l.p999), latency(|l| l.max)];
        json!({ "p50": p50, "p90": p90, "p99": p99, "p999": p999, "max": max })
    });
    json!({
        "operation": point.contender,
        "threads": point.factors.get("threads"),
        "file_size": point.factors.get("file_size"),
        "file_count": point.factors.get("file_count"),
        "total": point.samples.first().and_then(|s| s.more.get("asked_files")),
        "same_dir": point.factors.get("same_dir"),
        "share": more("share"),
        "seconds": median(Metric::Seconds),
        "whole_seconds": more("whole_seconds"),
        "iops": median(Metric::Operations),
        "files_per_second": median(Metric::Files),
        "bytes_per_second": median(Metric::Rate),
        "latency_seconds": latencies,
        "repetitions": point.samples.len(),
        "outcome": point.samples.iter().map(|s| s.outcome).max(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(repetition: u32, outcome: Outcome, seconds: f64, files: u64) -> Sample {
        let latency = Latency { count: files, p50: seconds, p90: seconds, p99: seconds, p999: seconds, max: seconds, classes: Vec::new() };
        Sample {
            contender: "create".into(),
            repetition,
            outcome,
            seconds: Some(seconds),
            files: Some(files),
            operations: Some(files),
            latency: Some(latency),
            more: [("share".to_string(), 1.0.into()), ("whole_seconds".to_string(), seconds.into())].into(),
            ..Sample::default()
        }
    }

    #[test]
    fn failures_are_in_no_median() {
        let mixed = [sample(1, Outcome::Ok, 2.0, 100), sample(2, Outcome::Failed, 0.001, 100), sample(3, Outcome::Wrong, 0.001, 100)];
        let row = &rows(&mixed)[0];
        assert_eq!((&row["seconds"], &row["iops"], &row["repetitions"]), (&2.0.into(), &50.0.into(), &3.into()), "{row}");
        assert_eq!((&row["outcome"], &row["latency_seconds"]["p99"]), (&"failed".into(), &2.0.into()), "{row}");
        assert_eq!(rows(&mixed[1..2])[0]["iops"], Value::Null);
        assert!(one(&mixed[0]).contains("50 files/s") && one(&mixed[1]) == "create: failed", "{} {}", one(&mixed[0]), one(&mixed[1]));
    }
}
