//! What is said of runs: a page for a browser, text for a terminal, numbers for programs.
//!
//! ```text
//! (Header, samples) -> points -> Document (files | net, sweep | compare) -> page (HTML) | lines (text)
//!                             -> change (two runs)                       -> summaries (JSON)
//! ```
//!
//! All numbers are medians with their intervals. What went wrong has no number and stands in the tables all the same.

use std::path::{Path, PathBuf};

use haul_core::error::Result;
use serde_json::{Value, json};

use crate::record::{self, Header, Kind, Sample};
use crate::stats::Summary;
use document::{Cell, Document, Section, Table, name, number};
use point::{Metric, Point, points};

mod change;
mod columns;
mod compare;
mod document;
mod figure;
mod files;
mod lines;
mod page;
mod point;
mod settings;
mod streams;
mod verdict;

pub use change::{Change, compare_runs};

/// Rows of the table of all repetitions; more of them are for programs to read.
const REPETITIONS: usize = 1000;

/// One page that needs nothing else: no network, no script. Several runs of a kind are set beside the first of it.
pub fn html(runs: &[(Header, Vec<Sample>)]) -> String {
    let documents: Vec<Document> = runs.iter().map(describe).collect();
    page::page(&documents, &differences(runs))
}

/// Makes `report.html` in a run directory from what lies there. Errors: as `record::read`, and those of writing.
pub fn write(dir: &Path) -> Result<PathBuf> {
    let run = record::read(dir)?;
    let path = dir.join("report.html");
    record::write_whole(&path, html(&[run]).as_bytes())?;
    Ok(path)
}

/// Sentences and tables in at most `width` columns, for people; of several runs the main sentences, and what differs.
pub fn text(runs: &[(Header, Vec<Sample>)], width: usize) -> String {
    let documents: Vec<Document> = runs.iter().map(describe).collect();
    lines::text(&documents, &differences(runs), width)
}

/// The plots of the page, in at most `width` columns; in ASCII where not `unicode`.
pub fn plots(runs: &[(Header, Vec<Sample>)], width: usize, unicode: bool) -> String {
    let drawn = |run| describe(run).sections.into_iter().flat_map(|section| section.charts);
    let all: Vec<String> = runs.iter().flat_map(drawn).map(|drawn| crate::plot::terminal(&drawn.chart, width, unicode)).collect();
    all.join("\n")
}

/// The same numbers for programs: a run's points with their summaries, and what differs between runs.
pub fn summaries(runs: &[(Header, Vec<Sample>)]) -> Value {
    let of_run = |(header, samples): &(Header, Vec<Sample>)| {
        let points: Vec<Value> = points(samples).iter().map(summary_of).collect();
        json!({"id": header.id, "kind": header.kind, "host": header.host.name, "started": header.started, "ended": header.ended, "points": points})
    };
    let changes: Vec<Value> = pairs(runs)
        .into_iter()
        .map(|(a, b)| {
            let changes: Vec<Value> = compare_runs(&runs[a], &runs[b]).iter().map(change_of).collect();
            json!({"first": runs[a].0.id, "second": runs[b].0.id, "changes": changes})
        })
        .collect();
    json!({"runs": runs.iter().map(of_run).collect::<Vec<_>>(), "differences": changes})
}

fn summary_value(summary: &Summary) -> Value {
    json!({
        "count": summary.count,
        "median": summary.median,
        "interval": [summary.interval.0, summary.interval.1],
        "coverage": summary.coverage,
        "quartiles": [summary.quartiles.0, summary.quartiles.1],
        "least": summary.least,
        "most": summary.most,
    })
}

fn summary_of(point: &Point<'_>) -> Value {
    let mut out = json!({"contender": point.contender, "factors": point.factors, "tried": point.tried(), "ok": point.good()});
    let names = [
        ("seconds", Metric::Seconds),
        ("bytes_per_second", Metric::Rate),
        ("files_per_second", Metric::Files),
        ("operations_per_second", Metric::Operations),
        ("processor_seconds", Metric::Processor),
        ("peak_bytes", Metric::Peak),
    ];
    for (name, metric) in names {
        if let Some(summary) = point.summary(metric) {
            out[name] = summary_value(&summary);
        }
    }
    let failures: serde_json::Map<String, Value> =
        point.failures().into_iter().map(|(outcome, count)| (outcome.words().to_lowercase(), count.into())).collect();
    if !failures.is_empty() {
        out["failures"] = failures.into();
    }
    out
}

fn change_of(change: &Change) -> Value {
    let mut out = json!({"contender": change.contender, "factors": change.factors, "of": change.metric.words(), "verdict": change.words()});
    for (name, summary) in [("first", change.first), ("second", change.second)] {
        if let Some(summary) = summary {
            out[name] = summary_value(&summary);
        }
    }
    if let Some(found) = change.difference {
        out["time_ratio"] = json!({"median": found.ratio, "interval": [found.interval.0, found.interval.1], "p": found.p});
    }
    out
}

/// Which runs are set beside which: each beside the first of its kind; what has none beside the first of all.
fn pairs(runs: &[(Header, Vec<Sample>)]) -> Vec<(usize, usize)> {
    let first = |kind: Kind| runs.iter().position(|run| run.0.kind == kind).unwrap_or(0);
    (1..runs.len()).map(|at| (first(runs[at].0.kind), at)).map(|(first, at)| if first == at { (0, at) } else { (first, at) }).collect()
}

fn differences(runs: &[(Header, Vec<Sample>)]) -> Vec<Section> {
    let called = |at: usize| format!("Run {}", at + 1);
    pairs(runs).into_iter().map(|(a, b)| change::section(&runs[a], &runs[b], (&called(a), &called(b)))).collect()
}

fn describe(run: &(Header, Vec<Sample>)) -> Document {
    let (header, samples) = run;
    let all = points(samples);
    let all: Vec<&Point<'_>> = all.iter().collect();
    let what = match header.kind {
        Kind::Files => "Operations on files",
        Kind::Net => "The link by itself",
        Kind::Sweep => "Streams, chunks and connections",
        Kind::Compare => "Tools on the same work",
    };
    let places: Vec<&str> = header.places.iter().map(|place| place.address.as_str()).filter(|address| !address.is_empty()).collect();
    let mut document = Document {
        title: if places.is_empty() { what.to_string() } else { format!("{what}: {}", places.join(" to ")) },
        place: when_and_where(header),
        ..Document::default()
    };
    if samples.is_empty() {
        document.main.push("Nothing has been measured in this run yet.".into());
    } else {
        match header.kind {
            Kind::Files => files::describe(&all, &mut document),
            Kind::Net => streams::net(&all, &mut document),
            Kind::Sweep => streams::sweep(&all, &mut document),
            Kind::Compare => compare::describe(header, &all, &mut document),
        }
    }
    if header.ended.is_none() {
        document.troubles.insert(0, "This run has not ended: it goes on, or it was interrupted. The same command goes on with it.".into());
    }
    document.sections.extend(failures(samples));
    document.sections.extend(circumstances(header, samples));
    document
}

fn when_and_where(header: &Header) -> String {
    let host = if header.host.name.is_empty() { "an unknown host".to_string() } else { header.host.name.clone() };
    let ended = header.ended.as_ref().map_or("not ended".to_string(), |ended| format!("until {ended}"));
    let started = if header.started.is_empty() { "at an unknown time" } else { &header.started };
    format!("Measured by haul {} on {host}, {started} {ended}. Run {}.", header.host.haul, header.id)
}

/// Each repetition that did not go well.
fn failures(samples: &[Sample]) -> Option<Section> {
    let bad: Vec<&Sample> = samples.iter().filter(|s| s.outcome != record::Outcome::Ok).collect();
    let rows: Vec<Vec<Cell>> = bad
        .iter()
        .take(REPETITIONS)
        .map(|s| {
            vec![
                s.contender.as_str().into(),
                factors_words(s).into(),
                s.repetition.to_string().into(),
                Cell::bad(s.outcome.words().into()),
                Cell::of(s.seconds.map(|v| Metric::Seconds.unit().show(v))),
                Cell::of(s.reason.clone()),
            ]
        })
        .collect();
    let columns =
        vec![name("Contender", 0), name("Point", 1), number("Repetition", 4), name("Outcome", 0), number("Ended after", 3), name("Why", 0)];
    let table = Table { caption: format!("{} of {} repetitions", bad.len(), samples.len()), columns, rows, folded: false };
    let paragraph = "None of these is in a median. They are shown because a tool that fails is not fast.".to_string();
    (!bad.is_empty()).then(|| Section {
        title: "What went wrong".into(),
        paragraphs: vec![paragraph],
        tables: vec![table.without_empty_columns()],
        ..Section::default()
    })
}

fn factors_words(sample: &Sample) -> String {
    let words: Vec<String> =
        sample.factors.iter().map(|(name, value)| format!("{} {}", point::factor_name(name), point::factor_value(name, value))).collect();
    words.join(", ")
}

fn pair(name: &str, value: impl Into<String>) -> Vec<Cell> {
    vec![name.into(), Cell::from(value.into())]
}

/// Where it was measured, with what, and every repetition.
fn circumstances(header: &Header, samples: &[Sample]) -> Vec<Section> {
    let host = &header.host;
    let bytes = |n: u64| crate::plot::Unit::Bytes.show(n as f64);
    let mut rows = vec![pair("Host", host.name.as_str()), pair("Kernel", host.kernel.as_str())];
    rows.extend(host.system.iter().map(|system| pair("System", system.as_str())));
    rows.push(pair("Processors", format!("{} {}", host.processors, host.processor.as_deref().unwrap_or(""))));
    rows.extend(host.memory.map(|memory| pair("Memory", bytes(memory))));
    rows.extend(host.load.map(|load| pair("Load before", load.to_string())));
    rows.push(pair("As root", if host.root { "yes" } else { "no" }));
    for interface in &host.interfaces {
        let speed = interface.speed.map_or("speed unknown".to_string(), |speed| format!("{speed} Mbit/s"));
        let mtu = interface.mtu.map_or(String::new(), |mtu| format!(", MTU {mtu} bytes"));
        rows.push(pair(&format!("Interface {}", interface.name), format!("{speed}{mtu}")));
    }
    rows.push(pair("haul", host.haul.as_str()));
    rows.push(pair("Command", words(&header.command)));
    rows.extend(settings::words(&header.settings).into_iter().map(|(name, value)| pair(&name, value)));
    let caches: std::collections::BTreeSet<&String> = samples.iter().filter_map(|s| s.caches.as_ref()).collect();
    rows.extend((!caches.is_empty()).then(|| pair("Page cache before", caches.into_iter().cloned().collect::<Vec<_>>().join("; "))));
    let two = || vec![name("What", 0), name("Value", 0)];
    let mut section = Section {
        title: "Where and how".into(),
        paragraphs: header.notes.iter().map(|note| format!("Note: {}", point::capital(note))).collect(),
        ..Section::default()
    };
    section.tables.push(Table { caption: "This machine and this run".into(), columns: two(), rows, folded: false });
    let place = |place: &record::Place| {
        vec![
            place.role.as_str().into(),
            place.address.as_str().into(),
            Cell::of(place.file_system.clone()),
            Cell::of(place.device.clone()),
            Cell::of(place.mounted_on.clone()),
            Cell::of(place.options.clone()),
            Cell::of(place.free.map(bytes)),
        ]
    };
    let columns = vec![
        name("Role", 0),
        name("Address", 0),
        name("File system", 0),
        name("Device", 3),
        name("Mounted on", 2),
        name("Options", 4),
        number("Free", 1),
    ];
    let rows: Vec<_> = header.places.iter().map(place).collect();
    if !rows.is_empty() {
        section.tables.push(Table { caption: "Places".into(), columns, rows, folded: false }.without_empty_columns());
    }
    let tool = |tool: &record::Tool| vec![tool.name.as_str().into(), Cell::of(tool.version.clone()), tool.path.as_str().into()];
    let rows: Vec<_> = header.tools.iter().map(tool).collect();
    if !rows.is_empty() {
        section.tables.push(Table {
            caption: "Tools".into(),
            columns: vec![name("Tool", 0), name("Version", 0), name("Program", 1)],
            rows,
            folded: false,
        });
    }
    vec![section, repetitions(samples), how_to_read()]
}

fn words(command: &[String]) -> String {
    let quoted = |word: &String| match word.is_empty() || word.contains(|c: char| c.is_whitespace() || "'\"\\$`;&|<>()*?#".contains(c)) {
        true => format!("'{}'", word.replace('\'', "'\\''")),
        false => word.clone(),
    };
    command.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn repetitions(samples: &[Sample]) -> Section {
    let show = |metric: Metric, value: Option<f64>| Cell::of(value.map(|v| metric.unit().show(v)));
    let rows = samples
        .iter()
        .take(REPETITIONS)
        .map(|s| {
            let outcome = s.outcome.words().to_string();
            vec![
                s.number.to_string().into(),
                s.contender.as_str().into(),
                factors_words(s).into(),
                if s.repetition == 0 { "warm-up".into() } else { s.repetition.to_string().into() },
                s.at.as_str().into(),
                if s.outcome == record::Outcome::Ok { outcome.into() } else { Cell::bad(outcome) },
                show(Metric::Seconds, s.seconds),
                show(Metric::Rate, s.rate()),
                Cell::of(s.limited_by.clone()),
                Cell::of((!s.command.is_empty()).then(|| words(&s.command))),
            ]
        })
        .collect();
    let columns = vec![
        number("No.", 0),
        name("Contender", 0),
        name("Point", 1),
        number("Repetition", 1),
        name("Begun", 1),
        name("Outcome", 1),
        number("Time", 1),
        number("Rate", 1),
        name("Limited by", 1),
        name("Command line", 1),
    ];
    let more = samples.len().saturating_sub(REPETITIONS);
    let caption = match more {
        0 => format!("All {} repetitions, in the order of measurement; with all numbers in samples.csv", samples.len()),
        more => format!("The first {REPETITIONS} repetitions; the other {more} are in samples.csv"),
    };
    let table = Table { caption, columns, rows, folded: true }.without_empty_columns();
    Section { title: "Every repetition".into(), tables: vec![table], page_only: true, ..Section::default() }
}

fn how_to_read() -> Section {
    let paragraphs = [
        "Every number is the median of the repetitions that went well; warm-ups do not count. Its interval is that of the sign test and \
         holds the true median 95 times in 100 or more; with fewer than 6 repetitions it cannot, and its coverage stands beside it.",
        "“Faster” and “slower” mean that a rank test (Mann and Whitney, two-sided, 5 %) shows a difference; “not significant” means \
         that there may be none, or that there were too few repetitions. Each comparison stands alone: of twenty between equal things \
         one shows a difference by chance.",
    ];
    Section { title: "How to read this".into(), paragraphs: paragraphs.map(String::from).to_vec(), page_only: true, ..Section::default() }
}
