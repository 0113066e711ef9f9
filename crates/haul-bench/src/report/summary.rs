//! The numbers of runs for programs.

use serde_json::{Map, Value, json};

use super::change::{Change, compare_runs};
use super::point::{Metric, Point, points};
use super::verdict::beside;
use super::{Record, compare, pairs};
use crate::record::{Header, Kind, Sample};

/// A run's points with their medians. A comparison also has the differences to the
/// baseline: haul, else the first tool.
pub fn summary(header: &Header, samples: &[Sample]) -> Value {
    let all = points(samples);
    let all: Vec<&Point<'_>> = all.iter().collect();
    let baseline = match header.kind {
        Kind::Compare => compare::reference(header, &all),
        Kind::Files | Kind::Net => None,
    };
    let amount = header.settings.get("extrapolate_bytes").and_then(Value::as_f64);
    let rows: Vec<Value> = all.iter().map(|point| of_point(point, baseline, amount)).collect();
    json!({
        "id": header.id,
        "kind": header.kind,
        "host": header.host.name,
        "started": header.started,
        "ended": header.ended,
        "settings": header.settings,
        "notes": header.notes,
        "points": rows,
    })
}

/// The summaries of several runs, and the differences between them.
pub fn summaries(runs: &[Record]) -> Value {
    let changes = |(a, b): (usize, usize)| {
        let changes: Vec<Value> = compare_runs(&runs[a], &runs[b]).iter().map(of_change).collect();
        json!({"first": runs[a].0.id, "second": runs[b].0.id, "changes": changes})
    };
    let differences: Vec<Value> = pairs(runs).into_iter().map(changes).collect();
    let runs: Vec<Value> = runs.iter().map(|(header, samples)| summary(header, samples)).collect();
    json!({"runs": runs, "differences": differences})
}

fn of_point(point: &Point<'_>, baseline: Option<&Point<'_>>, amount: Option<f64>) -> Value {
    let ranked = point.good() > 0 && !point.is_wrong();
    let failures = point.failures().into_iter().map(|(outcome, count)| {
        let reason = point.samples.iter().filter(|s| s.outcome == outcome).find_map(|s| s.reason.as_deref());
        json!({"outcome": outcome, "count": count, "reason": reason})
    });
    let mut out = json!({
        "contender": point.contender,
        "factors": point.factors,
        "tried": point.tried(),
        "ok": point.good(),
        "ranked": ranked,
        "failures": failures.collect::<Vec<_>>(),
        "limited_by": point.limit(),
        "more": more(point),
    });
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
            out[name] = json!(summary);
        }
    }
    if let Some(p50) = point.latency(|l| l.p50) {
        let [p90, p99, p999] = [point.latency(|l| l.p90), point.latency(|l| l.p99), point.latency(|l| l.p999)];
        out["latency_seconds"] = json!({"p50": p50, "p90": p90, "p99": p99, "p999": p999, "max": point.latency(|l| l.max)});
    }
    if let Some(found) = baseline.filter(|baseline| ranked && !std::ptr::eq(*baseline, point)) {
        out["time_ratio"] = beside(found, point, Metric::Seconds).map_or(Value::Null, |found| json!(found));
    }
    if let Some((bytes, rate)) = amount.zip(point.summary(Metric::Rate)).filter(|(_, rate)| ranked && rate.median > 0.0) {
        out["extrapolated_seconds"] = (bytes / rate.median).into();
    }
    out
}

/// The other results of the samples that count: medians of numbers, the first of texts.
fn more(point: &Point<'_>) -> Map<String, Value> {
    let mut out = Map::new();
    for (name, value) in point.samples.iter().filter(|s| s.counts()).flat_map(|s| &s.more) {
        if !out.contains_key(name) {
            let median = point.median_of(|s| s.more.get(name)?.as_f64());
            out.insert(name.clone(), median.map_or_else(|| value.clone(), Value::from));
        }
    }
    out
}

fn of_change(change: &Change) -> Value {
    let mut out = json!({"contender": change.contender, "factors": change.factors, "of": change.metric.words(), "verdict": change.words()});
    let mut add = |name: &str, value: Option<Value>| value.into_iter().for_each(|value| out[name] = value);
    add("first", change.first.map(|summary| json!(summary)));
    add("second", change.second.map(|summary| json!(summary)));
    add("time_ratio", change.difference.ok().map(|found| json!(found)));
    out
}
