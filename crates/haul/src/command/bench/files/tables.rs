//! What `haul bench files` shows: the columns of smallfile and of the table of EFS, and the latencies.

use std::collections::BTreeMap;

use haul_bench::files::{Case, Operation, Settings, Step, steps};
use haul_bench::record::{ENOUGH, Latency, Outcome, Sample};
use haul_bench::stats::median;
use serde_json::{Value, json};

use crate::units;

/// Columns that both tables side by side take.
const WIDE: usize = 130;

/// Columns to fill: the terminal's on standard output, else 80.
pub fn width() -> usize {
    let terminal = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| usize::from(size.ws_col));
    if terminal == 0 { 80 } else { terminal }
}

fn plural(n: u64, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{} {many}", units::count(n)) }
}

/// `4 KiB`, `1.5 MiB`: whole numbers without a point.
fn size(bytes: u64) -> String {
    let unit = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match unit.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((unit, word)) => format!("{} {word}", bytes / unit),
        None => units::bytes(bytes),
    }
}

pub fn case_words(case: Case, each: u64) -> String {
    let threads = plural(case.threads.into(), "thread", "threads");
    let dirs = if case.same_dir { "the same directories" } else { "directories of their own" };
    format!("{threads} in {dirs}, {} of {} each", plural(each, "file", "files"), size(case.size))
}

/// The first line.
pub fn plan(settings: &Settings, place: &str) -> String {
    let words: Vec<&str> = settings.operations.iter().map(|op| op.word()).collect();
    let limit = settings.limit.map_or(String::new(), |limit| format!("; none for longer than {}", units::duration(limit)));
    format!("measures {} in {place}, {}{limit}", words.join(", "), plural(settings.cases().len() as u64, "case", "cases"))
}

/// What is made before the operations that need it, one line each.
pub fn prepared(operations: &[Operation]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut needs = Vec::new();
    for step in steps(operations) {
        match step {
            Step::Prepare(op) => needs.push(op.word()),
            Step::Measure(op) if !needs.is_empty() => {
                lines.push(format!("{} needs {} first, which is done and not counted", op.word(), needs.join(" and ")));
                needs.clear();
            }
            _ => {}
        }
    }
    lines.dedup();
    lines
}

/// What must be known to read the numbers.
pub fn notes(settings: &Settings, local: bool) -> Vec<String> {
    let mut notes = vec!["Counting stops when the first thread has done its part: \"done\" is what share of the files counts.".to_string()];
    if local && settings.operations.contains(&Operation::Read) {
        notes.push("read: the files were written a moment before, so most comes from this machine's memory.".into());
    }
    if local && !settings.manner.fsync && settings.operations.iter().any(|op| op.writes()) {
        notes.push("Nothing was brought to stable storage; --fsync does so with each file.".into());
    }
    notes
}

/// All repetitions of one operation in one case: medians of those that went well, not numbers where none did.
#[derive(Clone, Debug)]
pub struct Row {
    pub operation: String,
    pub factors: BTreeMap<String, Value>,
    pub asked: u64,
    pub share: f64,
    pub seconds: f64,
    pub whole: f64,
    pub iops: f64,
    pub files: f64,
    /// Of what has bytes.
    pub bytes: Option<f64>,
    pub latency: Option<Latency>,
    pub repetitions: usize,
    /// The worst of them.
    pub outcome: Outcome,
}

/// One row for each operation in each case, in the order in which they were measured first.
pub fn rows(samples: &[Sample]) -> Vec<Row> {
    let mut keys: Vec<(String, Vec<&Sample>)> = Vec::new();
    for sample in samples {
        match keys.iter_mut().find(|(key, _)| *key == sample.key()) {
            Some((_, same)) => same.push(sample),
            None => keys.push((sample.key(), vec![sample])),
        }
    }
    keys.iter().filter_map(|(_, same)| row(same)).collect()
}

fn row(same: &[&Sample]) -> Option<Row> {
    let first = same.first()?;
    let good: Vec<&Sample> = same.iter().copied().filter(|sample| sample.counts()).collect();
    let middle = |of: &dyn Fn(&Sample) -> Option<f64>| median(&good.iter().filter_map(|s| of(s)).collect::<Vec<_>>());
    let rate =
        |count: fn(&Sample) -> Option<u64>| middle(&|s: &Sample| Some(count(s)? as f64 / s.seconds.filter(|seconds| *seconds > 0.0)?));
    let more = |name: &'static str| middle(&|s: &Sample| s.more.get(name)?.as_f64());
    let latency = |of: fn(&Latency) -> f64| middle(&|s: &Sample| s.latency.as_ref().map(of));
    let bytes = rate(|s| s.bytes);
    Some(Row {
        operation: first.contender.clone(),
        factors: first.factors.clone(),
        asked: first.more.get("asked_files").and_then(Value::as_u64).unwrap_or(0),
        share: more("share"),
        seconds: middle(&|s: &Sample| s.seconds),
        whole: more("whole_seconds"),
        iops: rate(|s| s.operations),
        files: rate(|s| s.files),
        bytes: first.bytes.is_some().then_some(bytes),
        latency: good.iter().any(|s| s.latency.is_some()).then(|| Latency {
            count: good.iter().filter_map(|s| Some(s.latency.as_ref()?.count)).sum(),
            p50: latency(|l| l.p50),
            p90: latency(|l| l.p90),
            p99: latency(|l| l.p99),
            p999: latency(|l| l.p999),
            max: latency(|l| l.max),
            classes: Vec::new(),
        }),
        repetitions: same.len(),
        outcome: same.iter().map(|s| s.outcome).max().unwrap_or_default(),
    })
}

impl Row {
    fn number(&self, name: &str) -> u64 {
        self.factors.get(name).and_then(Value::as_u64).unwrap_or(0)
    }

    fn same_dir(&self) -> &str {
        self.factors.get("same_dir").and_then(Value::as_str).unwrap_or("")
    }

    pub fn json(&self) -> Value {
        let latency = self.latency.as_ref().map(|l| json!({ "p50": l.p50, "p90": l.p90, "p99": l.p99, "p999": l.p999, "max": l.max }));
        json!({
            "operation": self.operation,
            "threads": self.number("threads"),
            "file_size": self.number("file_size"),
            "file_count": self.number("file_count"),
            "total": self.asked,
            "same_dir": self.same_dir(),
            "share": self.share,
            "seconds": self.seconds,
            "whole_seconds": self.whole,
            "iops": self.iops,
            "files_per_second": self.files,
            "bytes_per_second": self.bytes,
            "latency_seconds": latency,
            "repetitions": self.repetitions,
            "outcome": self.outcome,
        })
    }

    fn cells(&self) -> Vec<String> {
        let done = match self.outcome {
            Outcome::Ok if self.share > 0.0 && self.share < 0.01 => "<1%".into(),
            Outcome::Ok => format!("{:.0}%", (self.share * 100.0).floor()),
            other => other.words().to_string(),
        };
        vec![
            self.number("threads").to_string(),
            size(self.number("file_size")),
            units::count(self.number("file_count")),
            units::count(self.asked),
            self.same_dir().to_string(),
            done,
            seconds(self.seconds),
            rate(self.iops),
            rate(self.files),
            self.bytes.map_or("-".into(), |bytes| rate(bytes / f64::from(1 << 20))),
        ]
    }

    fn latencies(&self) -> Vec<String> {
        let of = |value: fn(&Latency) -> f64| self.latency.as_ref().map_or("-".into(), |l| time(value(l)));
        vec![of(|l| l.p50), of(|l| l.p90), of(|l| l.p99), of(|l| l.p999), of(|l| l.max)]
    }
}

/// Three digits or all of them: `0.42`, `9.53`, `90.1`, `1,973`.
fn rate(value: f64) -> String {
    match value {
        v if !v.is_finite() => "-".into(),
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 999.5 => format!("{v:.1}"),
        v => units::count(v.round() as u64),
    }
}

fn seconds(value: f64) -> String {
    match value {
        v if !v.is_finite() => "-".into(),
        v if v < 9.995 => format!("{v:.3}"),
        v if v < 99.95 => format!("{v:.2}"),
        v => format!("{v:.0}"),
    }
}

/// `850 ns`, `12.3 us`, `4.56 ms`, `1.20 s`.
fn time(value: f64) -> String {
    let (value, unit) = match value {
        v if v < 999.5e-9 => return format!("{:.0} ns", v * 1e9),
        v if v < 999.5e-6 => (v * 1e6, "us"),
        v if v < 999.5e-3 => (v * 1e3, "ms"),
        v => (v, "s"),
    };
    match value {
        v if v < 9.995 => format!("{v:.2} {unit}"),
        v if v < 99.95 => format!("{v:.1} {unit}"),
        v => format!("{v:.0} {unit}"),
    }
}

/// One measurement in a line.
pub fn one(sample: &Sample) -> String {
    let Some(row) = row(&[sample]) else { return String::new() };
    let cells = row.cells();
    if !sample.counts() {
        return format!("{}: {}", row.operation, cells[5]);
    }
    format!("{}: {} files/s, {} s, {} done, p99 {}", row.operation, cells[8], cells[6], cells[5], row.latencies()[2])
}

const LEGEND: &str = "each, total: files of a thread and of all. same: whether the threads shared their directories. IOPS: \
    reads or writes of one record, or operations where no bytes move. p50 to max: how long one operation took.";
const SHORT: &str = "Where less than 90% is done the threads did not keep pace with each other, or the time was over: more files \
    for each thread (--file-count), or a longer --duration, tell more.";

const COLUMNS: [&str; 10] = ["threads", "size", "each", "total", "same", "done", "seconds", "IOPS", "files/s", "MiB/s"];
const TIMES: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];

/// The tables: one block an operation; the latencies beside it or, where there is no room, below.
pub fn text(samples: &[Sample], width: usize, settings: &Settings, local: bool) -> String {
    let rows = rows(samples);
    let mut operations: Vec<&str> = Vec::new();
    for row in &rows {
        if !operations.contains(&row.operation.as_str()) {
            operations.push(&row.operation);
        }
    }
    let of = |operation: &str| rows.iter().filter(|row| row.operation == operation).cloned().collect::<Vec<Row>>();
    let mut text = String::new();
    let strings = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<String>>();
    let with = |first: String, rest: Vec<String>| [vec![first], rest].concat();
    let lead = ["threads", "size", "same"];
    for operation in operations {
        let rows = of(operation);
        text.push_str(operation);
        text.push('\n');
        if width >= WIDE {
            let head = [strings(&COLUMNS), strings(&TIMES)].concat();
            let lines = rows.iter().map(|row| [row.cells(), row.latencies()].concat());
            text.push_str(&aligned(std::iter::once(head).chain(lines).collect(), width));
        } else {
            let lines = rows.iter().map(Row::cells);
            text.push_str(&aligned(std::iter::once(strings(&COLUMNS)).chain(lines).collect(), width));
            let line = |row: &Row| {
                let cells = row.cells();
                with(cells[0].clone(), [vec![cells[1].clone(), cells[4].clone()], row.latencies()].concat())
            };
            let head = [strings(&lead), strings(&TIMES)].concat();
            text.push_str(&aligned(std::iter::once(head).chain(rows.iter().map(line)).collect(), width));
        }
        text.push('\n');
    }
    let mut legend = vec![LEGEND.to_string()];
    let short = |row: &&Row| row.share < ENOUGH && row.outcome == Outcome::Ok;
    if rows.iter().any(|row| short(&row)) {
        legend.push(SHORT.into());
    }
    legend.extend(notes(settings, local));
    for note in legend {
        for line in crate::render::fold(&note, width.min(110), 0) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    if settings.repeat > 1 {
        text.push_str(&format!("Medians of {} repetitions.\n", settings.repeat));
    }
    text
}

/// Columns to the right, two blanks apart, or one where they would not fit.
fn aligned(lines: Vec<Vec<String>>, width: usize) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| lines.iter().filter_map(|line| Some(line.get(column)?.chars().count())).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(widest).collect();
    let gap = if widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1) <= width { 2 } else { 1 };
    let line = |line: &Vec<String>| {
        let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        cells.join(&" ".repeat(gap)) + "\n"
    };
    lines.iter().map(line).collect()
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
    fn what_did_not_go_well_is_in_no_median() {
        let mixed = [sample(1, Outcome::Ok, 2.0, 100), sample(2, Outcome::Failed, 0.001, 100), sample(3, Outcome::Wrong, 0.001, 100)];
        let row = &rows(&mixed)[0];
        assert_eq!((row.seconds, row.iops, row.files, row.repetitions, row.outcome), (2.0, 50.0, 50.0, 3, Outcome::Failed));
        assert_eq!(row.latency.as_ref().map(|l| (l.count, l.p99)), Some((100, 2.0)));
        let none = &rows(&mixed[1..2])[0];
        assert_eq!(none.cells()[5..], ["failed", "-", "-", "-", "-"]);
        assert_eq!(none.latencies(), ["-"; 5]);
        assert_eq!(none.json()["iops"], Value::Null);
        assert!(one(&mixed[1]).contains("failed") && !one(&mixed[1]).contains("100"), "{}", one(&mixed[1]));
    }
}
