//! Differences between two runs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Record;
use super::document::{Cell, Rows, Section, interval};
use super::point::{Metric, Point, points, varied};
use super::verdict::listed;
use crate::plot::ruler::quotient;
use crate::record::{Header, Kind};
use crate::stats::{Difference, Summary, Verdict};

#[derive(Clone, Debug)]
pub struct Change {
    pub contender: String,
    pub factors: BTreeMap<String, Value>,
    /// The factors that differ within the runs, in words.
    pub place: String,
    pub metric: Metric,
    /// `None` if every repetition failed, or none was made.
    pub first: Option<Summary>,
    pub second: Option<Summary>,
    /// Of what the second costs to what the first costs; `None` where one of them has nothing, or both did other work.
    pub difference: Option<Difference>,
    pub note: Option<String>,
}

impl Change {
    /// `faster`, `slower`, `not significant`, or why they cannot be compared.
    pub fn words(&self) -> &str {
        match (&self.difference, &self.note) {
            (Some(found), _) => found.verdict.words(),
            (None, Some(note)) => note,
            (None, None) => "cannot be compared",
        }
    }
}

/// The points of `a` and of `b`, set beside each other; those of only one of them are among them. Runs of different kinds
/// have none in common: nothing is returned.
pub fn compare_runs(a: &Record, b: &Record) -> Vec<Change> {
    if a.0.kind != b.0.kind {
        return Vec::new();
    }
    let (first, second) = (points(&a.1), points(&b.1));
    let all: Vec<&Point<'_>> = first.iter().chain(&second).collect();
    let different = varied(&all);
    let key = |point: &Point<'_>| (point.contender.to_string(), serde_json::to_string(point.factors).unwrap_or_default());
    let there: BTreeMap<_, &Point<'_>> = second.iter().map(|point| (key(point), point)).collect();
    let known: BTreeSet<_> = first.iter().map(key).collect();
    let mut out: Vec<Change> =
        first.iter().map(|point| change(Some(point), there.get(&key(point)).copied(), a.0.kind, &different)).collect();
    let new = second.iter().filter(|point| !known.contains(&key(point)));
    out.extend(new.map(|point| change(None, Some(point), a.0.kind, &different)));
    out
}

fn change(first: Option<&Point<'_>>, second: Option<&Point<'_>>, kind: Kind, different: &[&str]) -> Change {
    let point = first.or(second).expect("a change is of a point of one of the runs");
    let metric = metric_of(kind, first, second);
    let (x, y) = (first.map(|p| p.values(metric)).unwrap_or_default(), second.map(|p| p.values(metric)).unwrap_or_default());
    let note = match (first, second) {
        (None, _) => Some("only in the second run".to_string()),
        (_, None) => Some("only in the first run".to_string()),
        (Some(a), Some(b)) => match (x.is_empty(), y.is_empty()) {
            (true, true) => Some("failed in both runs".to_string()),
            (true, false) => Some("failed in the first run".to_string()),
            (false, true) => Some("failed in the second run".to_string()),
            (false, false) => other_work(a, b, metric),
        },
    };
    let difference = if note.is_none() { crate::stats::difference(&metric.costs(&x), &metric.costs(&y)) } else { None };
    let without: Vec<&str> = point.factors.keys().map(String::as_str).filter(|f| !different.contains(f)).collect();
    Change {
        contender: point.contender.to_string(),
        factors: point.factors.clone(),
        place: point.described(&without),
        metric,
        first: Summary::of(&x),
        second: Summary::of(&y),
        note: note.or_else(|| difference.is_none().then(|| "a time of zero: cannot be compared".to_string())),
        difference,
    }
}

/// Times are compared for the same work only.
fn other_work(a: &Point<'_>, b: &Point<'_>, metric: Metric) -> Option<String> {
    let amount = |p: &Point<'_>| p.median_of(|s| s.bytes.or(s.operations).or(s.files).map(|n| n as f64));
    let (x, y) = amount(a).zip(amount(b))?;
    let differs = (x - y).abs() > 0.01 * x.max(y);
    (metric == Metric::Seconds && differs).then(|| "different amounts of work".to_string())
}

fn metric_of(kind: Kind, first: Option<&Point<'_>>, second: Option<&Point<'_>>) -> Metric {
    let both = [first, second];
    let has = |metric: &Metric| both.iter().flatten().all(|p| !p.values(*metric).is_empty());
    let choice: &[Metric] = match kind {
        Kind::Compare => &[Metric::Seconds],
        Kind::Files => &[Metric::Operations, Metric::Files, Metric::Rate],
        Kind::Net => &[Metric::Rate, Metric::Operations, Metric::Files],
    };
    choice.iter().copied().find(has).unwrap_or(Metric::Seconds)
}

/// The differences as a part of a report. `names` are those of the runs.
pub fn section(a: &Record, b: &Record, names: (&str, &str)) -> Section {
    let mut section = Section::titled(format!("{} against {}", names.1, names.0));
    if a.0.kind != b.0.kind {
        let (x, y) = (a.0.kind.words(), b.0.kind.words());
        section
            .paragraphs
            .push(format!("{} is a run of haul bench {x} and {} one of haul bench {y}: there is nothing to compare.", names.0, names.1));
        return section;
    }
    let changes = compare_runs(a, b);
    section.paragraphs.push(sentence(&changes, names));
    section.paragraphs.extend(circumstances(&a.0, &b.0));
    let shown = |c: &Change, s: Option<Summary>| s.map(|s| c.metric.unit().show(s.median));
    let bounds = |c: &Change, s: Option<Summary>| s.map(|s| interval(&s, c.metric.unit()));
    let table = Rows::of(&changes)
        .name("Contender", 0, |c| c.contender.clone())
        .name("Point", 0, |c| c.place.clone())
        .number(names.0, 1, |c| shown(c, c.first))
        .number("Interval", 5, |c| bounds(c, c.first))
        .number(names.1, 1, |c| shown(c, c.second))
        .number("Interval", 5, |c| bounds(c, c.second))
        .number("Time, first = 1", 2, |c| c.difference.map(|d| quotient(d.ratio)))
        .number("Interval", 4, |c| c.difference.map(|d| format!("{} to {}", quotient(d.interval.0), quotient(d.interval.1))))
        .name("Second run", 1, |c| if c.difference.is_none() { Cell::bad(c.words()) } else { c.words().into() })
        .table(format!("Medians in {} and in {}", names.0, names.1));
    section.tables.push(table);
    section
}

fn sentence(changes: &[Change], names: (&str, &str)) -> String {
    let of = |verdict: Verdict| -> Vec<String> {
        let with = changes.iter().filter(|c| c.difference.is_some_and(|d| d.verdict == verdict));
        with.map(|c| if c.place.is_empty() { c.contender.clone() } else { format!("{} ({})", c.contender, c.place) }).collect()
    };
    let (faster, slower, open) = (of(Verdict::Faster), of(Verdict::Slower), of(Verdict::NotSignificant));
    let neither = changes.len() - faster.len() - slower.len() - open.len();
    let mut out = match (faster.is_empty(), slower.is_empty(), open.is_empty()) {
        (true, true, true) => "The runs have no successful point in common.".to_string(),
        (true, true, false) => format!("No difference between {} and {} is significant at any of {} points.", names.0, names.1, open.len()),
        _ => {
            let part =
                |what: &str, names: &[String]| (!names.is_empty()).then(|| format!("{what} at {}: {}", names.len(), listed(names, 3)));
            let parts: Vec<String> = part("faster", &faster).into_iter().chain(part("slower", &slower)).collect();
            let open = if open.is_empty() { String::new() } else { format!("; not significant at {}", open.len()) };
            let all = changes.len() - neither;
            format!("Of {all} points {} is {}{open}.", names.1, parts.join("; "))
        }
    };
    if neither > 0 {
        out += &format!(" {neither} cannot be compared: see the table.");
    }
    let few = |c: &&Change| c.first.is_some_and(|s| s.count < 4) || c.second.is_some_and(|s| s.count < 4);
    if changes.iter().filter(|c| c.difference.is_some()).any(|c| few(&c)) {
        out += " Fewer than 4 repetitions in each run cannot show a difference.";
    }
    out
}

/// Other changes, which may be the cause.
fn circumstances(a: &Header, b: &Header) -> Option<String> {
    let mut different: Vec<String> = Vec::new();
    let mut note = |what: &str, x: &str, y: &str| {
        if x != y {
            different.push(format!(
                "{what}: {} before, {} now",
                if x.is_empty() { "unknown" } else { x },
                if y.is_empty() { "unknown" } else { y }
            ));
        }
    };
    note("host", &a.host.name, &b.host.name);
    note("kernel", &a.host.kernel, &b.host.kernel);
    note("processors", &a.host.processors.to_string(), &b.host.processors.to_string());
    note("haul", &a.host.haul, &b.host.haul);
    for place in &a.places {
        let Some(other) = b.places.iter().find(|p| p.role == place.role) else { continue };
        note(&place.role, &place.address, &other.address);
        note(
            &format!("file system of {}", place.role),
            place.file_system.as_deref().unwrap_or(""),
            other.file_system.as_deref().unwrap_or(""),
        );
        note(&format!("mount options of {}", place.role), place.options.as_deref().unwrap_or(""), other.options.as_deref().unwrap_or(""));
    }
    for tool in &a.tools {
        let Some(other) = b.tools.iter().find(|t| t.name == tool.name) else { continue };
        note(&tool.name, tool.version.as_deref().unwrap_or(""), other.version.as_deref().unwrap_or(""));
    }
    for key in a.settings.keys().chain(b.settings.keys().filter(|key| !a.settings.contains_key(*key))) {
        let text = |settings: &BTreeMap<String, Value>| settings.get(key).map_or("none".to_string(), ToString::to_string);
        note(&format!("setting {key}"), &text(&a.settings), &text(&b.settings));
    }
    (!different.is_empty()).then(|| format!("Changed since the first run: {}.", different.join("; ")))
}
