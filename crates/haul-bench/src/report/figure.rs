//! Charts that several kinds of run have: rates by parameters, repetitions, rates over time.

use super::point::{Metric, Point};
use super::verdict::{Lead, few};
use crate::plot::ruler::{scale_for, times};
use crate::plot::unit::digits;
use crate::plot::{Axis, Body, Chart, LINES, Line, Mark, Scale, Strip, Unit};
use crate::record::Sample;

/// Rows of one chart at most.
const ROWS: usize = 60;
/// Spans of a course over time.
const SPANS: usize = 40;
/// Lines that take so many times as long as the quickest are not drawn: they would make it too short to see.
const APART: f64 = 6.0;

/// A point with its name and its look.
pub type Row<'p, 'a> = (String, usize, &'p Point<'a>);

pub fn mark(x: f64, point: &Point<'_>, metric: Metric) -> Option<Mark> {
    let summary = point.summary(metric)?;
    let interval = (summary.count > 1).then_some(summary.interval);
    Some(Mark { x, y: summary.median, interval, values: point.values(metric) })
}

/// One line for each group, along a factor.
pub fn lines_of(groups: &[Vec<&Point<'_>>], factor: &str, metric: Metric, name: &dyn Fn(&Point<'_>) -> String) -> Vec<Line> {
    let line = |(look, group): (usize, &Vec<&Point<'_>>)| {
        let mut marks: Vec<_> = group.iter().filter_map(|p| mark(p.number(factor)?, p, metric)).collect();
        marks.sort_by(|a, b| a.x.total_cmp(&b.x));
        Line { name: name(group[0]), look, marks, course: false }
    };
    groups.iter().take(LINES).enumerate().map(line).filter(|line| !line.marks.is_empty()).collect()
}

/// A chart of lines against a factor that is doubled: `streams`, `threads`.
pub fn against(title: &str, caption: String, factor: &'static str, metric: Metric, lines: Vec<Line>) -> Chart {
    let values: Vec<f64> = lines.iter().flat_map(|l| l.marks.iter().map(|m| m.y)).collect();
    let positive = lines.iter().flat_map(|l| &l.marks).all(|m| m.x > 0.0);
    let scale = if positive { Scale::Log2 } else { Scale::Linear };
    Chart {
        title: title.into(),
        caption,
        x: Axis { name: super::point::capital(factor), unit: Unit::Count(factor), scale },
        y: Axis { name: metric.words().into(), unit: metric.unit(), scale: scale_for(&values, 50.0) },
        body: Body::Lines(lines),
    }
}

/// A caption, with the points of which there is nothing to draw.
pub fn with_missing(caption: String, points: &[&Point<'_>]) -> String {
    let names: Vec<String> = points.iter().filter(|p| p.good() == 0).map(|p| p.described(&["file_count"])).collect();
    if names.is_empty() { caption } else { format!("{caption} No mark, because every repetition failed: {}.", few(&names)) }
}

/// Every repetition, one row for each point. `better` says in which direction.
pub fn strips(title: &str, rows_are: &str, rows: &[Row<'_, '_>], metric: Metric, better: &str) -> Chart {
    let values: Vec<f64> = rows.iter().flat_map(|(.., point)| point.values(metric)).collect();
    let left_out = rows.len().saturating_sub(ROWS);
    let strip = |(name, look, point): &Row<'_, '_>| {
        let summary = point.summary(metric);
        Strip {
            name: if name.is_empty() { point.contender.to_string() } else { name.clone() },
            look: *look,
            median: summary.map(|s| s.median),
            interval: summary.filter(|s| s.count > 1).map(|s| s.interval),
            values: point.values(metric),
            failures: point.failures_in_words(),
        }
    };
    let strips: Vec<Strip> = rows.iter().take(ROWS).map(strip).collect();
    let mut with: Vec<(f64, &str)> = rows.iter().filter_map(|(name, _, p)| Some((p.summary(metric)?.median, name.as_str()))).collect();
    with.sort_by(|a, b| a.0.total_cmp(&b.0));
    let show = |value: f64| metric.unit().show(value);
    let mut caption = match &with[..] {
        [] => "Nothing succeeded, so there is no number to show.".to_string(),
        [one] => format!("Only {} has a number: {}.", one.1, show(one.0)),
        [least, .., most] => format!("From {} ({}) to {} ({}); {better}.", show(least.0), least.1, show(most.0), most.1),
    };
    if left_out > 0 {
        caption += &format!(" {left_out} more rows are in the table only.");
    }
    Chart {
        title: title.into(),
        caption,
        x: Axis { name: metric.words().into(), unit: metric.unit(), scale: scale_for(&values, 30.0) },
        y: Axis { name: rows_are.into(), unit: Unit::Name, scale: Scale::Names },
        body: Body::Strips(strips),
    }
}

/// Rates over the time of a typical repetition.
pub fn courses(title: &str, rows: &[Row<'_, '_>]) -> Option<Chart> {
    let has = |sample: &Sample| sample.series.len() > 1;
    let with: Vec<(&String, usize, &Sample)> =
        rows.iter().filter_map(|(name, look, point)| Some((name, *look, point.typical(has)?))).take(LINES).collect();
    let quickest = with.iter().filter_map(|(.., s)| s.seconds).fold(f64::INFINITY, f64::min);
    let counts_bytes = |sample: &Sample| sample.bytes.is_some_and(|bytes| bytes > 0);
    let bytes = counts_bytes(with.first()?.2);
    let unit = if bytes { Unit::Rate } else { Unit::PerSecond("operations") };
    let lines: Vec<Line> = with
        .iter()
        .filter(|(.., sample)| counts_bytes(sample) == bytes && sample.seconds.is_some_and(|seconds| seconds <= quickest * APART))
        .map(|(name, look, sample)| Line { name: name.to_string(), look: *look, marks: course(sample), course: true })
        .filter(|line| line.marks.len() > 1)
        .collect();
    let caption = match with.len() - lines.len() {
        0 => "The repetition with the median time.".to_string(),
        left_out => format!("The repetition with the median time. Not drawn: {left_out} that took more than {APART} times as long."),
    };
    Some(Chart {
        title: title.into(),
        caption,
        x: Axis { name: "Time since the start".into(), unit: Unit::Seconds, scale: Scale::Linear },
        y: Axis { name: if bytes { "Rate" } else { "Operations per second" }.into(), unit, scale: Scale::Linear },
        body: Body::Lines(lines),
    })
}

/// Rates over equal spans, from the running totals of a sample.
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

/// `6 streams are best (47 MiB/s), 4.8 times 1 stream; 16 streams: 21 % less (not significant)` of one line of points along a
/// factor; partial and wrong ones are left out.
pub fn peak(line: &[&Point<'_>], factor: &str, metric: Metric) -> Option<String> {
    let right = line.iter().filter(|p| !p.is_wrong() && p.partial().is_none());
    let with: Vec<(f64, f64, &Point<'_>)> = right.filter_map(|p| Some((p.number(factor)?, p.summary(metric)?.median, *p))).collect();
    let best = with.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let last = with.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let first = with.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let count = |n: f64| if n == 1.0 { format!("1 {}", factor.trim_end_matches('s')) } else { format!("{} {factor}", digits(n)) };
    let verb = if best.0 == 1.0 { "is" } else { "are" };
    let mut out = format!("{} {verb} best ({})", count(best.0), metric.unit().show(best.1));
    let doubt = |other: &Point<'_>| {
        let shown = Lead::of(&[best.2, other], metric).is_some_and(|lead| lead.next.is_some());
        if shown { "" } else { " (not significant)" }
    };
    // A difference that two digits do not show is not worth a word.
    if first.0 < best.0 && first.1 > 0.0 && best.1 / first.1 >= 1.005 {
        out += &format!(", {} {}{}", times(best.1 / first.1), count(first.0), doubt(first.2));
    }
    let less = (1.0 - last.1 / best.1) * 100.0;
    if last.0 > best.0 && less >= 0.5 {
        out += &format!("; {}: {less:.0} % less{}", count(last.0), doubt(last.2));
    }
    Some(out)
}
