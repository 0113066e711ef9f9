//! Comparisons of tools on data of several sizes: the time of each tool against the size.

use std::collections::BTreeMap;

use super::Record;
use super::document::{Rows, Section};
use super::figure::mark;
use super::point::{Metric, Point, points};
use crate::plot::ruler::scale_for;
use crate::plot::{Axis, Body, Chart, LINES, Line, Mark, Scale, Unit};
use crate::record::Kind;

const TIME: Metric = Metric::Seconds;

/// A tool in one direction, with its marks by size.
type Course = (String, Vec<Mark>);

/// The chart and its table; `None` unless a tool was measured with two sizes.
pub fn section(runs: &[Record]) -> Option<Section> {
    let mut courses: BTreeMap<String, Vec<Mark>> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    let compared: Vec<(&Record, Vec<Point<'_>>)> =
        runs.iter().filter(|run| run.0.kind == Kind::Compare).map(|run| (run, points(&run.1))).collect();
    let directions: Vec<&'static str> = compared.iter().map(|(run, _)| direction(run)).collect();
    let both = directions.iter().any(|direction| *direction != directions[0]);
    for ((_, points), direction) in compared.iter().zip(directions) {
        for point in points.iter().filter(|point| !point.is_wrong()) {
            let bytes = point.median_of(|sample| sample.bytes.map(|bytes| bytes as f64)).filter(|bytes| *bytes > 0.0);
            let Some(mark) = bytes.and_then(|bytes| mark(bytes, point, TIME)) else { continue };
            let name = if both { format!("{}, {direction}", point.contender) } else { point.contender.to_string() };
            if !order.contains(&name) {
                order.push(name.clone());
            }
            courses.entry(name).or_default().push(mark);
        }
    }
    let mut all: Vec<Course> = order.into_iter().filter_map(|name| courses.remove_entry(&name)).collect();
    for (_, marks) in &mut all {
        marks.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    all.retain(|(_, marks)| marks.windows(2).any(|pair| pair[0].x < pair[1].x));
    if all.is_empty() {
        return None;
    }
    let mut section = Section::titled("Time by size");
    let left_out = all.len().saturating_sub(LINES);
    section.draw(chart(&all, left_out));
    let rows: Vec<(&str, &Mark)> = all.iter().flat_map(|(name, marks)| marks.iter().map(move |mark| (name.as_str(), mark))).collect();
    section.tables.push(
        Rows::of(&rows)
            .name("Tool", 0, |(name, _)| *name)
            .number("Size", 0, |(_, mark)| Unit::Bytes.show(mark.x))
            .number("Time", 1, |(_, mark)| Unit::Seconds.show(mark.y))
            .number("Interval of the median", 3, |(_, mark)| {
                mark.interval.map(|(from, to)| format!("{} to {}", Unit::Seconds.show(from), Unit::Seconds.show(to)))
            })
            .number("Rate", 2, |(_, mark)| (mark.y > 0.0).then(|| Unit::Rate.show(mark.x / mark.y)))
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

fn chart(all: &[Course], left_out: usize) -> Chart {
    let lines = all.iter().take(LINES).enumerate();
    let lines: Vec<Line> = lines.map(|(look, (name, marks))| Line { name: name.clone(), look, marks: marks.clone() }).collect();
    let values: Vec<f64> = lines.iter().flat_map(|line| line.marks.iter().map(|mark| mark.y)).collect();
    let caption = match left_out {
        0 => "Medians of all runs; further down is better.".to_string(),
        left_out => format!("Medians of all runs; further down is better. {left_out} more tools are in the table only."),
    };
    Chart {
        title: "Time by size".into(),
        caption,
        x: Axis { name: "Size".into(), unit: Unit::Bytes, scale: Scale::Log2 },
        y: Axis { name: TIME.words().into(), unit: TIME.unit(), scale: scale_for(&values, 30.0) },
        body: Body::Lines(lines),
    }
}
