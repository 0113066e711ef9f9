//! Comparisons of tools on data of several sizes: the time of each tool against the size.

use super::Record;
use super::document::{Rows, Section, range};
use super::figure::mark;
use super::point::{Metric, points};
use crate::plot::{Axis, Chart, LINES, Line, Mark, Scale, Unit};
use crate::record::Kind;

const TIME: Metric = Metric::Seconds;

/// The chart and its table; `None` unless a tool was measured with two sizes.
pub fn section(runs: &[Record]) -> Option<Section> {
    let compared: Vec<&Record> = runs.iter().filter(|run| run.0.kind == Kind::Compare).collect();
    let both = compared.iter().any(|run| direction(run) != direction(compared[0]));
    let mut courses: Vec<Line> = Vec::new();
    for run in compared {
        for point in points(&run.1).iter().filter(|point| !point.is_wrong()) {
            let bytes = point.median_of(|sample| sample.bytes.map(|bytes| bytes as f64)).filter(|bytes| *bytes > 0.0);
            let Some(mark) = bytes.and_then(|bytes| mark(bytes, point, TIME)) else { continue };
            let name = if both { format!("{}, {}", point.contender, direction(run)) } else { point.contender.to_string() };
            match courses.iter_mut().find(|line| line.name == name) {
                Some(line) => line.marks.push(mark),
                None => courses.push(Line { name, marks: vec![mark] }),
            }
        }
    }
    courses.iter_mut().for_each(|line| line.marks.sort_by(|a, b| a.x.total_cmp(&b.x)));
    courses.retain(|line| line.marks.windows(2).any(|pair| pair[0].x < pair[1].x));
    if courses.is_empty() {
        return None;
    }
    let caption = match courses.len().saturating_sub(LINES) {
        0 => "Medians of all runs; further down is better.".to_string(),
        left_out => format!("Medians of all runs; further down is better. {left_out} more tools are in the table only."),
    };
    let mut section = Section::titled("Time by size");
    let x = Axis { name: "Size".into(), unit: Unit::Bytes, scale: Scale::Log2 };
    let drawn = courses.iter().take(LINES).cloned().collect();
    section.draw(Chart::lines("Time by size", caption, x, (TIME.words(), TIME.unit()), drawn));
    let rows: Vec<(&str, &Mark)> = courses.iter().flat_map(|line| line.marks.iter().map(|mark| (line.name.as_str(), mark))).collect();
    section.tables.push(
        Rows::of(&rows)
            .name("Tool", 0, |(name, _)| *name)
            .number("Size", 0, |(_, mark)| Unit::Bytes.show(mark.x))
            .number("Time", 1, |(_, mark)| Unit::Seconds.show(mark.median))
            .number("Interval of the median", 3, |(_, mark)| mark.interval.map(|interval| range(Unit::Seconds, interval)))
            .number("Rate", 2, |(_, mark)| (mark.median > 0.0).then(|| Unit::Rate.show(mark.x / mark.median)))
            .table("Medians of all runs"),
    );
    Some(section)
}

/// Whether two comparisons had data of different sizes.
pub fn differ(a: &Record, b: &Record) -> bool {
    let size = |run: &Record| run.1.iter().filter(|sample| sample.counts()).find_map(|sample| sample.bytes);
    let both = a.0.kind == Kind::Compare && b.0.kind == Kind::Compare;
    both && size(a).zip(size(b)).is_some_and(|(a, b)| a.abs_diff(b) > a.max(b) / 100)
}

fn direction(run: &Record) -> &'static str {
    let is_remote = |role: &str| {
        let place = run.0.places.iter().find(|place| place.role == role);
        place.is_some_and(|place| place.address.split('/').next().is_some_and(|front| front.contains(':')))
    };
    match (is_remote("source"), is_remote("destination")) {
        (true, false) => "download",
        (false, true) => "upload",
        _ => "copy",
    }
}
