//! Charts of rates and times by a parameter.

use super::point::{Metric, Point};
use super::verdict::{Lead, few};
use crate::plot::ruler::{scale_for, times};
use crate::plot::unit::digits;
use crate::plot::{Axis, Body, Chart, LINES, Line, Mark, Scale, Unit};

pub fn mark(x: f64, point: &Point<'_>, metric: Metric) -> Option<Mark> {
    let summary = point.summary(metric)?;
    let interval = (summary.count > 1).then_some(summary.interval);
    Some(Mark { x, y: summary.median, interval, values: point.values(metric) })
}

pub fn lines_of(groups: &[Vec<&Point<'_>>], factor: &str, metric: Metric, name: &dyn Fn(&Point<'_>) -> String) -> Vec<Line> {
    let line = |(look, group): (usize, &Vec<&Point<'_>>)| {
        let mut marks: Vec<_> = group.iter().filter_map(|p| mark(p.number(factor)?, p, metric)).collect();
        marks.sort_by(|a, b| a.x.total_cmp(&b.x));
        Line { name: name(group[0]), look, marks }
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
