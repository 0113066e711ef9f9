//! Differences between two runs.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Record;
use super::document::{Cell, Rows, Section, interval};
use super::point::{Metric, Point, points, varied};
use super::verdict::listed;
use crate::plot::unit::quotient;
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
    /// Of what the second costs to what the first costs, or why they cannot be compared.
    pub difference: Result<Difference, &'static str>,
}

impl Change {
    /// `faster`, `slower`, `not significant`, or why they cannot be compared.
    pub fn words(&self) -> &'static str {
        self.difference.map_or_else(|why| why, |found| found.verdict.words())
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
    let same = |x: &Point<'_>, y: &Point<'_>| (x.contender, x.factors) == (y.contender, y.factors);
    let both = first.iter().map(|x| (Some(x), second.iter().find(|y| same(x, y))));
    let new = second.iter().filter(|y| !first.iter().any(|x| same(x, y))).map(|y| (None, Some(y)));
    both.chain(new).map(|(x, y)| change(x, y, a.0.kind, &different)).collect()
}

fn change(first: Option<&Point<'_>>, second: Option<&Point<'_>>, kind: Kind, different: &[&str]) -> Change {
    let point = first.or(second).expect("a change is of a point of one of the runs");
    let metric = metric_of(kind, first, second);
    let (x, y) = (first.map(|p| p.values(metric)).unwrap_or_default(), second.map(|p| p.values(metric)).unwrap_or_default());
    let difference = match (first, second, x.is_empty(), y.is_empty()) {
        (None, ..) => Err("only in the second run"),
        (_, None, ..) => Err("only in the first run"),
        (_, _, true, true) => Err("failed in both runs"),
        (_, _, true, false) => Err("failed in the first run"),
        (_, _, false, true) => Err("failed in the second run"),
        (Some(a), Some(b), ..) if metric == Metric::Seconds && did_other_work(a, b) => Err("different amounts of work"),
        _ => crate::stats::difference(&metric.costs(&x), &metric.costs(&y)).ok_or("a time of zero: cannot be compared"),
    };
    let without: Vec<&str> = point.factors.keys().map(String::as_str).filter(|f| !different.contains(f)).collect();
    Change {
        contender: point.contender.to_string(),
        factors: point.factors.clone(),
        place: point.described(&without),
        metric,
        first: Summary::of(&x),
        second: Summary::of(&y),
        difference,
    }
}

/// Times are compared for the same work only.
fn did_other_work(a: &Point<'_>, b: &Point<'_>) -> bool {
    let amount = |p: &Point<'_>| p.median_of(|s| s.bytes.or(s.operations).or(s.files).map(|n| n as f64));
    amount(a).zip(amount(b)).is_some_and(|(x, y)| (x - y).abs() > 0.01 * x.max(y))
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
        let words = format!("{} is a run of haul bench {x} and {} one of haul bench {y}: there is nothing to compare.", names.0, names.1);
        section.paragraphs.push(words);
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
        .number("Time, first = 1", 2, |c| c.difference.ok().map(|d| quotient(d.ratio)))
        .number("Interval", 4, |c| c.difference.ok().map(|d| format!("{} to {}", quotient(d.interval.0), quotient(d.interval.1))))
        .name("Second run", 1, |c| Cell { text: c.words().into(), bad: c.difference.is_err() })
        .table(format!("Medians in {} and in {}", names.0, names.1));
    section.tables.push(table);
    section
}

fn sentence(changes: &[Change], names: (&str, &str)) -> String {
    let of = |verdict: Verdict| -> Vec<String> {
        let with = changes.iter().filter(|c| c.difference.is_ok_and(|d| d.verdict == verdict));
        with.map(|c| if c.place.is_empty() { c.contender.clone() } else { format!("{} ({})", c.contender, c.place) }).collect()
    };
    let (faster, slower, open) = (of(Verdict::Faster), of(Verdict::Slower), of(Verdict::NotSignificant));
    let all = faster.len() + slower.len() + open.len();
    let mut out = match (all, faster.len() + slower.len()) {
        (0, _) => "The runs have no successful point in common.".to_string(),
        (_, 0) => format!("No difference between {} and {} is significant at any of {all} points.", names.0, names.1),
        _ => {
            let part = |what: &str, names: &[String]| format!("{what} at {}: {}", names.len(), listed(names, 3));
            let parts = [("faster", &faster), ("slower", &slower)].into_iter().filter(|(_, names)| !names.is_empty());
            let mut parts: Vec<String> = parts.map(|(what, names)| part(what, names)).collect();
            parts.extend((!open.is_empty()).then(|| format!("not significant at {}", open.len())));
            format!("Of {all} points {} is {}.", names.1, parts.join("; "))
        }
    };
    if changes.len() > all {
        out += &format!(" {} cannot be compared: see the table.", changes.len() - all);
    }
    let few = |c: &Change| c.first.is_some_and(|s| s.count < 4) || c.second.is_some_and(|s| s.count < 4);
    if changes.iter().any(|c| c.difference.is_ok() && few(c)) {
        out += " Fewer than 4 repetitions in each run cannot show a difference.";
    }
    out
}

/// Other changes, which may be the cause.
fn circumstances(a: &Header, b: &Header) -> Option<String> {
    let (before, now) = (facts(a), facts(b));
    let names = before.keys().chain(now.keys().filter(|name| !before.contains_key(*name)));
    let changed = names.filter(|name| before.get(*name) != now.get(*name)).filter_map(|name| {
        let only_setting = |facts: &BTreeMap<String, String>| match facts.get(name) {
            Some(value) if value.is_empty() => Some("unknown".to_string()),
            Some(value) => Some(value.clone()),
            None => name.starts_with("setting ").then(|| "none".to_string()),
        };
        Some(format!("{name}: {} before, {} now", only_setting(&before)?, only_setting(&now)?))
    });
    let changed: Vec<String> = changed.collect();
    (!changed.is_empty()).then(|| format!("Changed since the first run: {}.", changed.join("; ")))
}

/// The circumstances of a run by name.
fn facts(header: &Header) -> BTreeMap<String, String> {
    let host = &header.host;
    let fixed = [("host", &host.name), ("kernel", &host.kernel), ("processors", &host.processors.to_string()), ("haul", &host.haul)];
    let mut facts: BTreeMap<String, String> = fixed.into_iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
    for place in &header.places {
        facts.insert(place.role.clone(), place.address.clone());
        facts.insert(format!("file system of {}", place.role), place.file_system.clone().unwrap_or_default());
        facts.insert(format!("mount options of {}", place.role), place.options.clone().unwrap_or_default());
    }
    facts.extend(header.tools.iter().map(|tool| (format!("tool {}", tool.name), tool.version.clone().unwrap_or_default())));
    facts.extend(header.settings.iter().map(|(name, value)| (format!("setting {name}"), value.to_string())));
    facts
}
