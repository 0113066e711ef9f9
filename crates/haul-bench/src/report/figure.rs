//! Charts of rates and times by a parameter.

use super::point::{Metric, Point, capital};
use super::verdict::{few, is_shown};
use crate::plot::unit::{digits, quotient};
use crate::plot::{Axis, Chart, LINES, Line, Mark, Scale, Unit};

pub fn mark(x: f64, point: &Point<'_>, metric: Metric) -> Option<Mark> {
    let summary = point.summary(metric)?;
    let interval = (summary.count > 1).then_some(summary.interval);
    Some(Mark { x, median: summary.median, interval, values: point.values(metric) })
}

/// A chart of a line for each group against a factor that is doubled: `streams`, `threads`.
pub fn against(
    title: &str,
    caption: String,
    factor: &'static str,
    metric: Metric,
    groups: &[Vec<&Point<'_>>],
    name: &dyn Fn(&Point<'_>) -> String,
) -> Chart {
    let line = |group: &Vec<&Point<'_>>| {
        let mut marks: Vec<Mark> = group.iter().filter_map(|p| mark(p.number(factor)?, p, metric)).collect();
        marks.sort_by(|a, b| a.x.total_cmp(&b.x));
        Line { name: name(group[0]), marks }
    };
    let lines: Vec<Line> = groups.iter().take(LINES).map(line).filter(|line| !line.marks.is_empty()).collect();
    let positive = lines.iter().flat_map(|line| &line.marks).all(|mark| mark.x > 0.0);
    let scale = if positive { Scale::Log2 } else { Scale::Linear };
    let x = Axis { name: capital(factor), unit: Unit::Count(factor), scale };
    Chart::lines(title, caption, x, (metric.words(), metric.unit()), lines)
}

/// A caption, with the points of which there is nothing to draw.
pub fn with_missing(caption: String, points: &[&Point<'_>]) -> String {
    let names: Vec<String> = points.iter().filter(|p| p.good() == 0).map(|p| p.described(&["file_count"])).collect();
    if names.is_empty() { caption } else { format!("{caption} No mark, because every repetition failed: {}.", few(&names)) }
}

/// `6 streams are best (47 MiB/s), 4.8 times 1 stream; 16 streams: 21 % less (not significant)` of one line of points along a
/// factor; partial and wrong ones are left out. Rates of bytes are also shown in Gbit/s.
pub fn peak(line: &[&Point<'_>], factor: &str, metric: Metric) -> Option<String> {
    let right = line.iter().filter(|p| !p.is_wrong() && p.partial().is_none());
    let with: Vec<(f64, f64, &Point<'_>)> = right.filter_map(|p| Some((p.number(factor)?, p.summary(metric)?.median, *p))).collect();
    let best = with.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let last = with.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let first = with.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let count = |n: f64| if n == 1.0 { format!("1 {}", factor.trim_end_matches('s')) } else { format!("{} {factor}", digits(n)) };
    let verb = if best.0 == 1.0 { "is" } else { "are" };
    let bits = if metric == Metric::Rate { format!(", {} Gbit/s", gigabits(best.1)) } else { String::new() };
    let mut out = format!("{} {verb} best ({}{bits})", count(best.0), metric.unit().show(best.1));
    let doubt = |other: &Point<'_>| if is_shown(best.2, other, metric) { "" } else { " (not significant)" };
    // A difference that two digits do not show is not worth a word.
    if first.0 < best.0 && first.1 > 0.0 && best.1 / first.1 >= 1.005 {
        out += &format!(", {} times {}{}", quotient(best.1 / first.1), count(first.0), doubt(first.2));
    }
    let less = (1.0 - last.1 / best.1) * 100.0;
    if last.0 > best.0 && less >= 0.5 {
        out += &format!("; {}: {less:.0} % less{}", count(last.0), doubt(last.2));
    }
    Some(out)
}

pub fn gigabits(bytes_per_second: f64) -> String {
    digits(bytes_per_second * 8.0 / 1e9)
}
