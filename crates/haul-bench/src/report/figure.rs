//! Charts that every kind of run has: repetitions, latency, the course over time.

use super::point::{Metric, Point};
use super::verdict::Lead;
use crate::plot::ruler::scale_for;
use crate::plot::{Axis, Body, Chart, Histogram, LINES, Line, Mark, Scale, Strip, Unit};
use crate::record::{Latency, Sample};
use crate::stats::median;

/// Rows of one chart at most.
const ROWS: usize = 60;
const HISTOGRAMS: usize = 12;
/// Spans of a course over time.
const SPANS: usize = 40;
/// What takes so many times as long as the quickest is not drawn beside it: one of both could not be seen.
const APART: f64 = 6.0;

pub fn mark(x: f64, point: &Point<'_>, metric: Metric) -> Option<Mark> {
    let summary = point.summary(metric)?;
    let interval = (summary.count > 1).then_some(summary.interval);
    Some(Mark { x, y: summary.median, interval, values: point.values(metric) })
}

/// A caption, with the points of which there is nothing to draw.
pub fn with_missing(caption: String, points: &[&Point<'_>]) -> String {
    let several = points.iter().any(|p| p.contender != points[0].contender);
    let names: Vec<String> = points
        .iter()
        .filter(|p| p.good() == 0)
        .map(|p| match (several, p.described(&["file_count"])) {
            (true, words) if words.is_empty() => p.contender.to_string(),
            (true, words) => format!("{} ({words})", p.contender),
            (false, words) => words,
        })
        .collect();
    if names.is_empty() { caption } else { format!("{caption} No mark, because it never went well: {}.", super::verdict::few(&names)) }
}

/// One row a point: every repetition.
pub fn strips(title: &str, rows_are: &str, rows: &[(String, usize, &Point<'_>)], metric: Metric, less_is_better: bool) -> Chart {
    let values: Vec<f64> = rows.iter().flat_map(|(.., point)| point.values(metric)).collect();
    let left_out = rows.len().saturating_sub(ROWS);
    let strips: Vec<Strip> = rows
        .iter()
        .take(ROWS)
        .map(|(name, look, point)| {
            let summary = point.summary(metric);
            Strip {
                name: name.clone(),
                look: *look,
                median: summary.map(|s| s.median),
                interval: summary.filter(|s| s.count > 1).map(|s| s.interval),
                values: point.values(metric),
                failures: point.failures_in_words(),
            }
        })
        .collect();
    let mut caption = spread(rows, metric, less_is_better);
    if left_out > 0 {
        caption += &format!(" {left_out} more rows stand in the table only.");
    }
    let scale = scale_for(&values, 30.0);
    Chart {
        title: title.into(),
        caption,
        x: Axis { name: metric.words().into(), unit: metric.unit(), scale },
        y: Axis { name: rows_are.into(), unit: Unit::Name, scale: Scale::Names },
        body: Body::Strips(strips),
    }
}

/// Who is where, and who scatters most.
fn spread(rows: &[(String, usize, &Point<'_>)], metric: Metric, less_is_better: bool) -> String {
    let with: Vec<(&str, crate::stats::Summary)> =
        rows.iter().filter_map(|(name, _, p)| Some((name.as_str(), p.summary(metric)?))).collect();
    let show = |value: f64| metric.unit().show(value);
    let order = |a: &&(&str, crate::stats::Summary), b: &&(&str, crate::stats::Summary)| a.1.median.total_cmp(&b.1.median);
    let (Some(least), Some(most)) = (with.iter().min_by(order), with.iter().max_by(order)) else {
        return "Nothing went well, so there is no number to show.".into();
    };
    let better = if less_is_better { "further left is better" } else { "further right is better" };
    let mut caption = match with.len() {
        1 => format!("Only {} has a number: {}.", with[0].0, show(with[0].1.median)),
        _ => format!("From {} ({}) to {} ({}); {better}.", show(least.1.median), least.0, show(most.1.median), most.0),
    };
    let width = |s: &crate::stats::Summary| if s.median > 0.0 { (s.most - s.least) / s.median } else { 0.0 };
    let widest = with.iter().filter(|(_, s)| s.count > 1).max_by(|a, b| width(&a.1).total_cmp(&width(&b.1)));
    caption += &match widest {
        Some((name, s)) if width(s) >= 0.005 => {
            format!(" {name} scatters most: {} to {}, {:.0} % of its median.", show(s.least), show(s.most), width(s) * 100.0)
        }
        Some(_) => " All repetitions of each agree within half a percent.".to_string(),
        None => " One repetition each: how much they scatter is not known.".to_string(),
    };
    if let Some(none) = rows.len().checked_sub(with.len()).filter(|none| *none > 0) {
        caption += &format!(" {none} without a number did not go well.");
    }
    caption
}

/// Histograms of what single operations took.
pub fn latencies(title: &str, rows: &[(String, usize, &Point<'_>)]) -> Option<Chart> {
    let mut found: Vec<Histogram> = rows.iter().filter_map(|(name, look, point)| histogram(name, *look, point)).collect();
    let left_out = found.len().saturating_sub(HISTOGRAMS);
    found.truncate(HISTOGRAMS);
    let show = |value: f64| Unit::Seconds.show(value);
    let tail = |row: &Histogram| if row.p50 > 0.0 { row.p99 / row.p50 } else { 1.0 };
    let longest = found.iter().max_by(|a, b| tail(a).total_cmp(&tail(b)))?;
    let fastest = found.iter().min_by(|a, b| a.p50.total_cmp(&b.p50))?;
    let mut caption = format!("Half of the operations end within {} with {}", show(fastest.p50), fastest.name);
    let slowest = found.iter().max_by(|a, b| a.p50.total_cmp(&b.p50))?;
    if found.len() > 1 && slowest.p50 > fastest.p50 {
        caption += &format!(" and within {} with {}", show(slowest.p50), slowest.name);
    }
    caption += &format!(
        ". The longest tail is in {}: one in a hundred takes more than {}, {} the median.",
        longest.name,
        show(longest.p99),
        crate::plot::ruler::times(tail(longest))
    );
    if left_out > 0 {
        caption += &format!(" {left_out} more stand in the table only.");
    }
    Some(Chart {
        title: title.into(),
        caption,
        x: Axis { name: "Time of one operation".into(), unit: Unit::Seconds, scale: Scale::Log10 },
        y: Axis { name: "Share of operations".into(), unit: Unit::Percent, scale: Scale::Linear },
        body: Body::Histograms(found),
    })
}

fn histogram(name: &str, look: usize, point: &Point<'_>) -> Option<Histogram> {
    let all: Vec<&Latency> = point.samples.iter().filter(|s| s.counts()).filter_map(|s| s.latency.as_ref()).collect();
    let quantile = |of: fn(&Latency) -> f64| median(&all.iter().map(|l| of(l)).collect::<Vec<_>>());
    let mut counts: Vec<(f64, f64)> = Vec::new();
    for (bound, count) in all.iter().flat_map(|latency| &latency.classes).filter(|(bound, _)| bound.is_finite() && *bound > 0.0) {
        match counts.iter_mut().find(|(of, _)| of == bound) {
            Some((_, sum)) => *sum += *count as f64,
            None => counts.push((*bound, *count as f64)),
        }
    }
    counts.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = counts.iter().map(|(_, count)| count).sum();
    if total <= 0.0 {
        return None;
    }
    let classes = coarser(&counts).into_iter().map(|(low, high, count)| (low, high, count / total * 100.0)).collect();
    Some(Histogram { name: name.into(), look, classes, p50: quantile(|l| l.p50), p99: quantile(|l| l.p99) })
}

/// Ten classes a decade at most, so that heights can be compared; with lower bounds.
fn coarser(counts: &[(f64, f64)]) -> Vec<(f64, f64, f64)> {
    let growth = counts.windows(2).map(|two| two[1].0 / two[0].0).fold(f64::INFINITY, f64::min);
    let tenth = 10f64.powf(0.1);
    if growth > tenth * 0.999 {
        let growth = if growth.is_finite() { growth } else { tenth };
        let before = |at: usize| if at == 0 { 0.0 } else { counts[at - 1].0 };
        return counts.iter().enumerate().map(|(at, (high, count))| (before(at).max(high / growth), *high, *count)).collect();
    }
    let mut out: Vec<(f64, f64, f64)> = Vec::new();
    for (bound, count) in counts {
        let step = (bound.log10() * 10.0 - 1e-9).ceil();
        let high = 10f64.powf(step / 10.0);
        match out.last_mut().filter(|last| (last.1 / high - 1.0).abs() < 1e-9) {
            Some(last) => last.2 += count,
            None => out.push((high / tenth, high, *count)),
        }
    }
    out
}

/// What was done in each span of a repetition.
pub fn courses(title: &str, rows: &[(String, usize, &Point<'_>)]) -> Option<Chart> {
    let has = |sample: &Sample| sample.series.len() > 1;
    let with: Vec<(&String, usize, &Sample)> =
        rows.iter().filter_map(|(name, look, point)| Some((name, *look, point.typical(has)?))).take(LINES).collect();
    let quickest = with.iter().filter_map(|(.., s)| s.seconds).fold(f64::INFINITY, f64::min);
    let all = with.len();
    let with: Vec<_> = with.into_iter().filter(|(.., s)| s.seconds.is_some_and(|seconds| seconds <= quickest * APART)).collect();
    let counts_bytes = |sample: &Sample| sample.bytes.is_some_and(|bytes| bytes > 0);
    let bytes = counts_bytes(with.first()?.2);
    let unit = if bytes { Unit::Rate } else { Unit::PerSecond("operations") };
    let lines: Vec<Line> = with
        .iter()
        .filter(|(.., sample)| counts_bytes(sample) == bytes)
        .map(|(name, look, sample)| Line { name: name.to_string(), look: *look, marks: course(sample), course: true })
        .filter(|line| line.marks.len() > 1)
        .collect();
    let dips: Vec<(&str, f64, f64)> = lines
        .iter()
        .filter_map(|line| {
            // What the first and the last span have is often a part of them only.
            let inner = line.marks.get(1..line.marks.len() - 2)?;
            let low = inner.iter().min_by(|a, b| a.y.total_cmp(&b.y))?;
            let usual = median(&inner.iter().map(|m| m.y).collect::<Vec<_>>());
            (usual > 0.0).then_some((line.name.as_str(), low.x, 1.0 - low.y / usual))
        })
        .collect();
    let caption = match dips.iter().max_by(|a, b| a.2.total_cmp(&b.2)) {
        Some((name, at, dip)) if *dip >= 0.2 => {
            format!("The deepest dip is in {name}: {:.0} % below its usual rate, {} after the start.", dip * 100.0, Unit::Seconds.show(*at))
        }
        Some(_) => "All keep within 20 % below their usual rate from start to end.".into(),
        None => "Too short to tell how steady it is.".to_string(),
    };
    let left_out = all - with.len();
    let caption = match left_out {
        0 => caption,
        count => format!("{caption} Not drawn: {count} that took more than {APART} times as long as the quickest."),
    };
    Some(Chart {
        title: title.into(),
        caption,
        x: Axis { name: "Time since the start".into(), unit: Unit::Seconds, scale: Scale::Linear },
        y: Axis { name: if bytes { "Rate" } else { "Operations a second" }.into(), unit, scale: Scale::Linear },
        body: Body::Lines(lines),
    })
}

/// From what was done by then to rates over equal spans.
fn course(sample: &Sample) -> Vec<Mark> {
    let mut by: Vec<(f64, f64)> =
        sample.series.iter().map(|(at, done)| (*at, *done as f64)).filter(|(at, _)| at.is_finite() && *at >= 0.0).collect();
    by.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some(end) = by.last().map(|(at, _)| *at).filter(|end| *end > 0.0) else { return Vec::new() };
    if by[0].0 > 0.0 {
        by.insert(0, (0.0, 0.0));
    }
    let spans = by.len().saturating_sub(1).clamp(1, SPANS);
    let done = |at: f64| {
        let after = by.partition_point(|(time, _)| *time < at).clamp(1, by.len() - 1);
        let ((t0, d0), (t1, d1)) = (by[after - 1], by[after]);
        if t1 > t0 { d0 + (d1 - d0) * ((at - t0) / (t1 - t0)).clamp(0.0, 1.0) } else { d1 }
    };
    let span = end / spans as f64;
    let rate = |i: usize| ((done((i + 1) as f64 * span) - done(i as f64 * span)) / span).max(0.0);
    let mut marks: Vec<Mark> = (0..spans).map(|i| Mark { x: i as f64 * span, y: rate(i), ..Mark::default() }).collect();
    // A level line goes on to the end of the last span.
    marks.push(Mark { x: end, y: rate(spans - 1), ..Mark::default() });
    marks
}

/// `6 streams give most (47 MiB/s), 4.8 times what 1 stream gives; 16 streams give 21 % less (not significant).` of one line of
/// points along a factor; those of which too little counts are left out.
pub fn peak(line: &[&Point<'_>], factor: &str, metric: Metric) -> Option<String> {
    let right = line.iter().filter(|p| !p.is_wrong() && p.partial().is_none());
    let with: Vec<(f64, f64, &Point<'_>)> = right.filter_map(|p| Some((p.number(factor)?, p.summary(metric)?.median, *p))).collect();
    let best = with.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let last = with.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let first = with.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let count = |n: f64| {
        if n == 1.0 { format!("1 {}", factor.trim_end_matches('s')) } else { format!("{} {factor}", crate::plot::unit::digits(n)) }
    };
    let verb = if best.0 == 1.0 { "gives" } else { "give" };
    let mut out = format!("{} {verb} most ({})", count(best.0), metric.unit().show(best.1));
    let doubt = |other: &Point<'_>| {
        let shown = Lead::of(&[best.2, other], metric).is_some_and(|lead| lead.next.is_some());
        if shown { "" } else { " (not significant)" }
    };
    if first.0 < best.0 && first.1 > 0.0 {
        let give = if first.0 == 1.0 { "gives" } else { "give" };
        out += &format!(", {} what {} {give}{}", crate::plot::ruler::times(best.1 / first.1), count(first.0), doubt(first.2));
    }
    if last.0 > best.0 && best.1 > 0.0 {
        let less = (1.0 - last.1 / best.1) * 100.0;
        out += &format!("; {} give {less:.0} % less{}", count(last.0), doubt(last.2));
    }
    Some(out)
}
