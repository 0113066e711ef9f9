//! Reports of runs: a page for a browser, text for a terminal, numbers for programs.
//!
//! ```text
//! (Header, samples) -> points -> Document (files | net | compare) -> page (HTML) | lines (text)
//!                             -> change (two runs)                       -> summary (JSON)
//! ```
//!
//! All numbers are medians with their intervals. Failures have no number but stay in the tables.

use std::path::{Path, PathBuf};

use haul_core::error::Result;

use crate::plot::Unit;
use crate::record::{self, Header, Kind, Sample};
use document::{Document, Rows, Section};

mod change;
mod compare;
mod document;
mod figure;
mod files;
mod lines;
mod page;
mod point;
mod settings;
mod sizes;
mod streams;
mod summary;
mod verdict;

pub use change::{Change, compare_runs};
pub use lines::ascii;
pub use point::{Metric, Point, points};
pub use summary::{summaries, summary};

pub type Record = (Header, Vec<Sample>);

/// One page that needs nothing else: no network, no script. Several runs of a kind are compared with the first of it.
pub fn html(runs: &[Record]) -> String {
    let documents: Vec<Document> = runs.iter().map(|(header, samples)| describe(header, samples)).collect();
    page::page(&documents, &differences(runs))
}

/// Writes `report.html` into a run directory. Errors: as `record::read`, and those of writing.
pub fn write(dir: &Path) -> Result<PathBuf> {
    let run = record::read(dir)?;
    let path = dir.join("report.html");
    record::write_whole(&path, html(&[run]).as_bytes())?;
    Ok(path)
}

/// Sentences and tables in at most `width` columns; of several runs the main sentences and the differences.
pub fn text(runs: &[Record], width: usize) -> String {
    let documents: Vec<Document> = runs.iter().map(|(header, samples)| describe(header, samples)).collect();
    lines::text(&documents, &differences(runs), width)
}

/// The results of one run in at most `width` columns, without its circumstances.
pub fn results(header: &Header, samples: &[Sample], width: usize) -> String {
    lines::results(&describe(header, samples), width)
}

/// The title, the results, the failures and the notes of a run, in at most `width` columns.
pub fn sentences(header: &Header, samples: &[Sample], width: usize) -> String {
    lines::results(&Document { sections: Vec::new(), ..describe(header, samples) }, width)
}

/// Which runs are compared: each with the first of its kind; the first of a kind with the first of all.
fn pairs(runs: &[Record]) -> Vec<(usize, usize)> {
    let first = |kind: Kind| runs.iter().position(|run| run.0.kind == kind).unwrap_or(0);
    (1..runs.len()).map(|at| (first(runs[at].0.kind), at)).map(|(first, at)| (if first == at { 0 } else { first }, at)).collect()
}

fn differences(runs: &[Record]) -> Vec<Section> {
    let called = |at: usize| format!("Run {}", at + 1);
    let by_size = sizes::section(runs);
    // Runs on data of other sizes have no differences to tell.
    let is_shown = |(a, b): &(usize, usize)| by_size.is_some() && sizes::differ(&runs[*a], &runs[*b]);
    let pairs: Vec<(usize, usize)> = pairs(runs).into_iter().filter(|pair| !is_shown(pair)).collect();
    let differences = pairs.into_iter().map(|(a, b)| change::section(&runs[a], &runs[b], (&called(a), &called(b))));
    by_size.into_iter().chain(differences).collect()
}

fn describe(header: &Header, samples: &[Sample]) -> Document {
    let all = points(samples);
    let all: Vec<&Point<'_>> = all.iter().collect();
    let what = match header.kind {
        Kind::Files => "File operations",
        Kind::Net => "Network throughput",
        Kind::Compare => "Tool comparison",
    };
    let places: Vec<&str> = header.places.iter().map(|place| place.address.as_str()).filter(|address| !address.is_empty()).collect();
    let mut document = Document {
        title: if places.is_empty() { what.to_string() } else { format!("{what}: {}", places.join(" to ")) },
        place: when_and_where(header),
        notes: header.notes.clone(),
        ..Document::default()
    };
    if samples.is_empty() {
        document.main.push("Nothing has been measured in this run yet.".into());
    } else {
        match header.kind {
            Kind::Files => files::describe(&all, &mut document),
            Kind::Net => streams::net(&all, &mut document),
            Kind::Compare => compare::describe(header, &all, &mut document),
        }
    }
    if header.ended.is_none() {
        document.troubles.insert(0, "This run has not ended: it is running, or it was interrupted. The same command resumes it.".into());
    }
    document.setup = vec![setup(header, samples), how_to_read()];
    document
}

fn when_and_where(header: &Header) -> String {
    let known = |text: &str, what: &str| if text.is_empty() { format!("unknown {what}") } else { text.to_string() };
    let ended = header.ended.as_ref().map_or("not ended".to_string(), |ended| format!("until {ended}"));
    let (host, started) = (known(&header.host.name, "host"), known(&header.started, "time"));
    format!("Measured by haul {} on {host}, {started} {ended}. Run {}.", header.host.haul, header.id)
}

/// The machine, the settings, the places and the tools.
fn setup(header: &Header, samples: &[Sample]) -> Section {
    let host = &header.host;
    let bytes = |n: u64| Unit::Bytes.show(n as f64);
    let mut facts = vec![("Host".to_string(), host.name.clone()), ("Kernel".into(), host.kernel.clone())];
    let mut fact = |name: &str, value: Option<String>| facts.extend(value.map(|value| (name.to_string(), value)));
    fact("System", host.system.clone());
    fact("Processors", Some(format!("{} {}", host.processors, host.processor.as_deref().unwrap_or(""))));
    fact("Memory", host.memory.map(bytes));
    fact("Load before", host.load.map(|load| load.to_string()));
    fact("As root", Some(if host.root { "yes" } else { "no" }.into()));
    for interface in &host.interfaces {
        let speed = interface.speed.map_or("speed unknown".to_string(), |speed| format!("{speed} Mbit/s"));
        let mtu = interface.mtu.map_or(String::new(), |mtu| format!(", MTU {mtu} bytes"));
        fact(&format!("Interface {}", interface.name), Some(speed + &mtu));
    }
    fact("haul", Some(host.haul.clone()));
    fact("Command", shlex::try_join(header.command.iter().map(String::as_str)).ok());
    facts.extend(settings::words(&header.settings));
    let caches: std::collections::BTreeSet<&str> = samples.iter().filter_map(|s| s.caches.as_deref()).collect();
    facts.extend((!caches.is_empty()).then(|| ("Page cache before".to_string(), caches.into_iter().collect::<Vec<_>>().join("; "))));
    let mut section = Section::titled("Setup");
    section.tables.push(
        Rows::of(&facts).name("Name", 0, |(name, _)| name.clone()).name("Value", 0, |(_, value)| value.clone()).table("Machine and run"),
    );
    if !header.places.is_empty() {
        let places = Rows::of(&header.places)
            .name("Role", 0, |place| place.role.clone())
            .name("Address", 1, |place| place.address.clone())
            .name("File system", 1, |place| place.file_system.clone())
            .name("Device", 3, |place| place.device.clone())
            .name("Mounted on", 2, |place| place.mounted_on.clone())
            .name("Options", 4, |place| place.options.clone())
            .number("Free", 1, |place| place.free.map(bytes));
        section.tables.push(places.table("Places"));
    }
    if !header.tools.is_empty() {
        let tools = Rows::of(&header.tools).name("Tool", 0, |tool| tool.name.clone()).name("Version", 1, |tool| tool.version.clone());
        section.tables.push(tools.name("Program", 1, |tool| tool.path.clone()).table("Tools"));
    }
    section
}

fn how_to_read() -> Section {
    let paragraphs = [
        "Every number is the median of the repetitions that succeeded; warm-ups do not count. Its interval is that of the sign test and \
         contains the true median 95 times in 100 or more; with fewer than 6 repetitions its coverage is given.",
        "“Faster” and “slower” mean that a rank test (Mann and Whitney, two-sided, 5 %) finds a difference; “not significant” means \
         that there may be none, or that there were too few repetitions. Of twenty comparisons between equal things one is \
         significant by chance.",
    ];
    Section { title: "How to read this".into(), paragraphs: paragraphs.map(String::from).to_vec(), page_only: true, ..Section::default() }
}
