//! Columns that tables of several kinds of run share.

use super::document::{Cell, Column, name, number};
use super::point::{Metric, Point, capital, factor_name, number as number_of};
use crate::plot::Unit;
use crate::stats::Summary;

/// Other numbers of a run that have columns.
const MORE: usize = 6;

/// Median, interval, range of a metric; how many repetitions, and what went wrong.
pub fn measured(metric: Metric, what: &str) -> Vec<Column> {
    vec![
        number(if what.is_empty() { metric.words() } else { what }, 0),
        number("Interval of the median", 3),
        number("Least to most", 6),
        number("Runs", 2),
        name("Went wrong", 1),
    ]
}

pub fn measured_cells(point: &Point<'_>, metric: Metric) -> Vec<Cell> {
    let summary = point.summary(metric);
    let unit = metric.unit();
    let failures = point.failures_in_words();
    let runs = format!("{} of {}", point.good(), point.tried());
    vec![
        Cell::of(summary.map(|s| unit.show(s.median))),
        Cell::of(summary.map(|s| interval(&s, unit))),
        // Of fewer than nine values the interval is the range.
        Cell::of(summary.filter(|s| s.interval != (s.least, s.most)).map(|s| range(unit, (s.least, s.most)))),
        if point.good() == point.tried() { point.good().to_string().into() } else { runs.into() },
        failures.map_or_else(|| Cell::from("-"), Cell::bad),
    ]
}

/// `11.9 s to 12.8 s`, with its coverage where there are too few values for 95 %.
pub fn interval(summary: &Summary, unit: Unit) -> String {
    match summary.count {
        1 => "one value".into(),
        count => {
            let coverage = if count < 6 { format!(" ({:.0} %)", summary.coverage * 100.0) } else { String::new() };
            format!("{}{coverage}", range(unit, summary.interval))
        }
    }
}

/// `11.9 to 12.8 s`: the unit once where it is the same.
pub fn range(unit: Unit, (low, high): (f64, f64)) -> String {
    let (low, high) = (unit.show(low), unit.show(high));
    match (low.split_once(' '), high.split_once(' ')) {
        _ if low == high => high,
        (Some((number, a)), Some((_, b))) if a == b => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// What was varied, or stands there at all.
pub fn factors<'a>(points: &[&Point<'a>]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for name in points.iter().flat_map(|point| point.factors.keys()) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// Those of `factors` that have several values among the points, or that some have and some have not.
pub fn varied<'a>(points: &[&Point<'a>]) -> Vec<&'a str> {
    let differs = |name: &&str| points.iter().any(|point| point.factors.get(*name) != points[0].factors.get(*name));
    factors(points).into_iter().filter(differs).collect()
}

pub fn factor_columns(factors: &[&str], numeric: impl Fn(&str) -> bool) -> Vec<Column> {
    let title = |name: &str| capital(&factor_name(name));
    factors.iter().map(|factor| if numeric(factor) { number(&title(factor), 0) } else { name(&title(factor), 0) }).collect()
}

/// p50 to max of single operations: medians of the repetitions'.
pub fn latency() -> Vec<Column> {
    vec![number("p50", 4), number("p90", 6), number("p99", 4), number("p99.9", 6), number("max", 5)]
}

pub fn latency_cells(point: &Point<'_>) -> Vec<Cell> {
    let of = |get: fn(&crate::record::Latency) -> f64| {
        Cell::of(point.median_of(|s| s.latency.as_ref().filter(|l| l.count > 0).map(get)).map(|v| Unit::Seconds.show(v)))
    };
    vec![of(|l| l.p50), of(|l| l.p90), of(|l| l.p99), of(|l| l.p999), of(|l| l.max)]
}

/// What limited most of the repetitions, and other numbers that were kept.
pub fn more(points: &[&Point<'_>]) -> (Vec<Column>, Vec<String>) {
    let samples = || points.iter().flat_map(|p| &p.samples).filter(|s| s.counts());
    let numeric: std::collections::BTreeSet<&String> =
        samples().flat_map(|s| &s.more).filter(|(_, value)| number_of(value).is_some()).map(|(name, _)| name).collect();
    let names: Vec<String> = numeric.into_iter().take(MORE).cloned().collect();
    let mut columns = vec![name("Limited by", 4)];
    columns.extend(names.iter().map(|key| number(&capital(&key.trim_end_matches("_seconds").replace('_', " ")), 8)));
    (columns, names)
}

/// What `bench net` says in a word, as a person reads it; any other text as it is.
fn limit_words(limit: &str) -> String {
    match crate::net::Limit::from_word(limit) {
        Some(crate::net::Limit::Way) => "network".into(),
        Some(_) => limit.replace('-', " "),
        None => limit.into(),
    }
}

pub fn more_cells(point: &Point<'_>, names: &[String]) -> Vec<Cell> {
    let mut limits: Vec<(&str, usize)> = Vec::new();
    for limit in point.samples.iter().filter(|s| s.counts()).filter_map(|s| s.limited_by.as_deref()) {
        match limits.iter_mut().find(|(of, _)| *of == limit) {
            Some((_, count)) => *count += 1,
            None => limits.push((limit, 1)),
        }
    }
    let most = limits.into_iter().max_by_key(|(_, count)| *count).map(|(limit, _)| limit_words(limit));
    let mut cells = vec![Cell::of(most)];
    cells.extend(names.iter().map(|key| {
        let unit = if key.ends_with("_seconds") { Unit::Seconds } else { Unit::Name };
        Cell::of(point.median_of(|s| number_of(s.more.get(key)?)).map(|v| unit.show(v)))
    }));
    cells
}

pub fn median_cell(point: &Point<'_>, metric: Metric) -> Cell {
    Cell::of(point.summary(metric).map(|s| metric.unit().show(s.median)))
}
