//! Repetitions of the same thing, together.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::plot::Unit;
use crate::record::{ENOUGH, Latency, Outcome, Sample};
use crate::stats::{Summary, median};

/// A contender with one combination of factors.
#[derive(Clone, Debug)]
pub struct Point<'a> {
    pub contender: &'a str,
    pub factors: &'a BTreeMap<String, Value>,
    /// In the order of measurement; warm-ups are among them.
    pub samples: Vec<&'a Sample>,
}

/// A number of a sample; `None` if it failed or has no such number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    Seconds,
    /// Bytes a second.
    Rate,
    Files,
    Operations,
    /// Seconds until all of the work was done, counted or not.
    Whole,
    /// User and system together, seconds.
    Processor,
    /// Bytes.
    Peak,
}

impl Metric {
    pub fn of(self, sample: &Sample) -> Option<f64> {
        let value = match self {
            Metric::Seconds => sample.seconds,
            Metric::Rate => sample.rate(),
            Metric::Files => sample.files_rate(),
            Metric::Operations => sample.operations_rate(),
            Metric::Whole => sample.more.get("whole_seconds").and_then(Value::as_f64).or(sample.seconds),
            Metric::Processor => Some(sample.user? + sample.system.unwrap_or(0.0)),
            Metric::Peak => sample.peak.map(|peak| peak as f64),
        };
        value.filter(|value| sample.counts() && value.is_finite() && *value >= 0.0)
    }

    pub fn unit(self) -> Unit {
        match self {
            Metric::Seconds | Metric::Whole | Metric::Processor => Unit::Seconds,
            Metric::Rate => Unit::Rate,
            Metric::Files => Unit::PerSecond("files"),
            Metric::Operations => Unit::PerSecond("operations"),
            Metric::Peak => Unit::Bytes,
        }
    }

    /// As an axis is named.
    pub fn words(self) -> &'static str {
        match self {
            Metric::Seconds | Metric::Whole => "Time",
            Metric::Rate | Metric::Files | Metric::Operations => "Rate",
            Metric::Processor => "CPU time",
            Metric::Peak => "Peak memory",
        }
    }

    /// Seconds for a unit of work, so that less is better for every metric.
    pub fn costs(self, values: &[f64]) -> Vec<f64> {
        match self {
            Metric::Rate | Metric::Files | Metric::Operations => values.iter().filter(|v| **v > 0.0).map(|v| 1.0 / v).collect(),
            _ => values.to_vec(),
        }
    }
}

impl<'a> Point<'a> {
    pub fn values(&self, metric: Metric) -> Vec<f64> {
        self.samples.iter().filter_map(|sample| metric.of(sample)).collect()
    }

    pub fn summary(&self, metric: Metric) -> Option<Summary> {
        Summary::of(&self.values(metric))
    }

    /// The median of any number of the samples that count.
    pub fn median_of(&self, of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.samples.iter().filter(|s| s.counts()).filter_map(|s| of(s)).filter(|v| v.is_finite()).collect();
        (!values.is_empty()).then(|| median(&values))
    }

    /// Repetitions that are no warm-ups.
    pub fn tried(&self) -> usize {
        self.samples.iter().filter(|s| s.repetition > 0 || s.outcome != Outcome::Ok).count()
    }

    pub fn good(&self) -> usize {
        self.samples.iter().filter(|s| s.counts()).count()
    }

    /// The median share of the files that counts, where that is too little for a sound rate.
    pub fn partial(&self) -> Option<f64> {
        let any = self.samples.iter().any(|s| s.counts() && s.partial().is_some());
        if any { self.median_of(|s| s.more.get("share")?.as_f64()).filter(|share| *share < ENOUGH) } else { None }
    }

    /// Whether it gave a wrong result even once, in a warm-up or not. However fast such a one is, it is not ranked.
    pub fn is_wrong(&self) -> bool {
        self.samples.iter().any(|s| s.outcome == Outcome::Wrong)
    }

    pub fn failures(&self) -> Vec<(Outcome, usize)> {
        let mut counts: BTreeMap<Outcome, usize> = BTreeMap::new();
        for sample in self.samples.iter().filter(|s| s.outcome != Outcome::Ok) {
            *counts.entry(sample.outcome).or_default() += 1;
        }
        counts.into_iter().collect()
    }

    /// `WRONG 1 of 3, timeout 1 of 3`; `None` where all went well.
    pub fn failures_in_words(&self) -> Option<String> {
        let tried = self.tried();
        let words = |(outcome, count): (Outcome, usize)| match outcome {
            Outcome::Missing => "not on this machine".to_string(),
            _ => format!("{} {count} of {tried}", outcome.words()),
        };
        let words: Vec<String> = self.failures().into_iter().map(words).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// The first text of this name among the other results of the samples that count.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.samples.iter().filter(|s| s.counts()).find_map(|s| s.more.get(name)?.as_str())
    }

    pub fn limit(&self) -> Option<&'a str> {
        let mut limits: Vec<&str> = self.samples.iter().filter(|s| s.counts()).filter_map(|s| s.limited_by.as_deref()).collect();
        limits.sort_unstable();
        limits.chunk_by(|a, b| a == b).max_by_key(|same| same.len()).map(|same| same[0])
    }

    /// The median of a quantile of the latency, in seconds.
    pub fn latency(&self, of: impl Fn(&Latency) -> f64) -> Option<f64> {
        self.median_of(|s| s.latency.as_ref().filter(|l| l.count > 0).map(&of))
    }

    pub fn number(&self, factor: &str) -> Option<f64> {
        number(self.factors.get(factor)?)
    }

    /// A factor as it is shown; empty where it has none.
    pub fn shown(&self, factor: &str) -> String {
        self.factors.get(factor).map_or(String::new(), |value| factor_value(factor, value))
    }

    /// All factors but these: `out, 16 streams`.
    pub fn described(&self, without: &[&str]) -> String {
        let first = ["operation", "direction", "threads", "streams"];
        let rest = self.factors.keys().map(String::as_str).filter(|name| !first.contains(name));
        let names = first.into_iter().chain(rest).filter(|name| !without.contains(name));
        let words: Vec<String> = names.filter_map(|name| Some(factor_words(name, self.factors.get(name)?))).collect();
        words.join(", ")
    }
}

pub fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|n| n.is_finite())
}

/// `same_dir` is `same directory`.
pub fn factor_name(name: &str) -> String {
    match name {
        "same_dir" => "same directory".into(),
        "file_count" => "files per thread".into(),
        _ => name.replace('_', " "),
    }
}

pub fn factor_title(name: &str) -> String {
    capital(&factor_name(name))
}

pub fn factor_value(name: &str, value: &Value) -> String {
    let sized = ["size", "bytes", "record"].iter().any(|word| name.contains(word));
    match (value, number(value)) {
        (_, Some(bytes)) if sized => Unit::Bytes.show(bytes),
        (Value::Number(_), Some(n)) => crate::plot::unit::digits(n),
        (Value::String(text), _) => text.clone(),
        (Value::Null, _) => "-".into(),
        (value, _) => value.to_string(),
    }
}

/// `16 streams`, `files of 4 KiB`, `own directories`.
pub fn factor_words(name: &str, value: &Value) -> String {
    let shown = factor_value(name, value);
    match (name, shown.as_str()) {
        ("same_dir", "Y") => "one shared directory".into(),
        ("same_dir", "N") => "own directories".into(),
        ("file_size", _) => format!("files of {shown}"),
        ("streams" | "threads", "1") => format!("1 {}", name.trim_end_matches('s')),
        ("streams" | "threads", _) => format!("{shown} {name}"),
        ("direction" | "operation", _) => shown,
        _ => format!("{} {shown}", factor_name(name)),
    }
}

/// With a capital at its beginning, as sentences and headings have it.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// By number where both are numbers.
fn compare_values(a: &Value, b: &Value) -> Ordering {
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.to_string().cmp(&b.to_string()),
    }
}

/// The items that have the same key, in the order of the first of each.
pub fn gathered<T, K: Ord>(items: impl IntoIterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<Vec<T>> {
    let mut at: BTreeMap<K, usize> = BTreeMap::new();
    let mut groups: Vec<Vec<T>> = Vec::new();
    for item in items {
        let place = *at.entry(key(&item)).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(item);
    }
    groups
}

fn name(sample: &Sample) -> &str {
    if sample.contender.trim().is_empty() { "(no name)" } else { &sample.contender }
}

/// The samples by contender and factors: contenders in the order in which they were first measured, factors by size.
pub fn points(samples: &[Sample]) -> Vec<Point<'_>> {
    let groups = gathered(samples, |sample| sample.key());
    let mut found: Vec<Point<'_>> =
        groups.into_iter().map(|samples| Point { contender: name(samples[0]), factors: &samples[0].factors, samples }).collect();
    found.sort_by(by_factors);
    found
}

/// The order of the rows; other factors come behind these, then threads and streams, which vary fastest.
const ORDER: [&str; 4] = ["operation", "direction", "file_size", "same_dir"];

fn by_factors(a: &Point<'_>, b: &Point<'_>) -> Ordering {
    let rest = || a.factors.keys().chain(b.factors.keys()).map(String::as_str);
    let between = rest().filter(|name| !ORDER.contains(name) && !matches!(*name, "threads" | "streams" | "file_count"));
    let names = ORDER.into_iter().chain(between).chain(["threads", "streams", "file_count"]);
    let order = |name: &str| match (a.factors.get(name), b.factors.get(name)) {
        // One shared directory first, as in the reference: Y before N.
        (Some(x), Some(y)) if name == "same_dir" => compare_values(y, x),
        (Some(x), Some(y)) => compare_values(x, y),
        (x, y) => x.is_some().cmp(&y.is_some()),
    };
    names.map(order).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// The names of all factors, varied or constant.
pub fn factors<'a>(points: &[&Point<'a>]) -> Vec<&'a str> {
    let names = points.iter().flat_map(|point| point.factors.keys());
    gathered(names, |name| name.as_str()).into_iter().map(|same| same[0].as_str()).collect()
}

/// The factors that have several values among the points, or that some points lack.
pub fn varied<'a>(points: &[&Point<'a>]) -> Vec<&'a str> {
    let differs = |name: &&str| points.iter().any(|point| point.factors.get(*name) != points[0].factors.get(*name));
    factors(points).into_iter().filter(differs).collect()
}

/// Points that have the same values of these factors.
pub fn grouped<'p, 'a>(points: &[&'p Point<'a>], by: &[&str]) -> Vec<Vec<&'p Point<'a>>> {
    let key = |point: &&Point<'_>| by.iter().map(|factor| point.factors.get(*factor).map(ToString::to_string)).collect::<Vec<_>>();
    gathered(points.iter().copied(), key)
}
