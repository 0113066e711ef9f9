//! `haul bench compare`: tools on the same work.

use super::document::{Cell, Document, Rows, Section, Table};
use super::figure::mark;
use super::point::{Metric, Point};
use super::verdict::{beside, by_cost, lead, troubles};
use crate::plot::unit::{digits, quotient};
use crate::plot::{Axis, Body, Chart, Strip, Unit, shortened};
use crate::record::Header;

const TIME: Metric = Metric::Seconds;
const ROWS: usize = 60;

pub fn describe(header: &Header, points: &[&Point<'_>], document: &mut Document) {
    document.main.push(lead(points, TIME).unwrap_or_else(|| match points.iter().any(|point| point.is_wrong()) {
        true => "No tool copied correctly, so none is ranked.".into(),
        false => "No tool succeeded, so none has a time.".into(),
    }));
    document.troubles = troubles(points, &|p| p.described(&[]));
    let ordered = by_cost(points, TIME);
    let mut section = Section::titled("Tools");
    section.draw(strips(&ordered));
    section.tables.push(table(header, &ordered));
    if let Some((text, _)) = amount(header) {
        section.paragraphs.push(format!("Time for {text} assumes constant throughput, with data like these."));
    }
    document.sections.push(section);
}

/// Every repetition, a row for each tool.
fn strips(points: &[&Point<'_>]) -> Chart {
    let show = |p: &&Point<'_>| Some(format!("{} ({})", TIME.unit().show(p.summary(TIME)?.median), p.contender));
    let with: Vec<String> = points.iter().filter(|p| !p.is_wrong()).filter_map(show).collect();
    let mut caption = match &with[..] {
        [] => "Nothing succeeded, so there is no number to show.".to_string(),
        [one] => format!("Only one has a number: {one}."),
        [least, .., most] => format!("From {least} to {most}; further left is better."),
    };
    if points.len() > ROWS {
        caption += &format!(" {} more rows are in the table only.", points.len() - ROWS);
    }
    // haul has the first colour whatever its rank.
    let haul = points.iter().position(|p| p.contender == "haul").unwrap_or(0);
    let strip = |(at, point): (usize, &&Point<'_>)| Strip {
        name: point.contender.to_string(),
        look: if at == haul { 0 } else { at + usize::from(at < haul) },
        mark: mark(0.0, point, TIME),
        failures: point.failures_in_words(),
    };
    Chart {
        title: "Time of each tool".into(),
        caption,
        x: Axis::fitting(TIME.words(), TIME.unit(), points.iter().flat_map(|point| point.values(TIME))),
        body: Body::Strips(points.iter().enumerate().take(ROWS).map(strip).collect()),
    }
}

/// The tool that others are compared with: haul, or the first of the tools that succeeded.
pub fn reference<'p, 'a>(header: &Header, points: &[&'p Point<'a>]) -> Option<&'p Point<'a>> {
    let with = || points.iter().copied().filter(|point| point.good() > 0 && !point.is_wrong());
    let first = header.tools.first().map(|tool| tool.name.as_str());
    with().find(|p| p.contender == "haul").or_else(|| with().find(|p| Some(p.contender) == first)).or_else(|| with().next())
}

fn table(header: &Header, points: &[&Point<'_>]) -> Table {
    let reference = reference(header, points);
    let itself = |p: &Point<'_>| reference.is_some_and(|reference| std::ptr::eq(reference, p));
    let against = |p: &Point<'_>| reference.filter(|_| !itself(p) && !p.is_wrong()).and_then(|reference| beside(reference, p, TIME));
    let ratio = reference.map_or("Ratio".to_string(), |p| format!("Time, {} = 1", shortened(p.contender, 16)));
    let (text, amount) = amount(header).unzip();
    let rate = |p: &Point<'_>| p.summary(Metric::Rate).map(|s| s.median).filter(|rate| *rate > 0.0 && !p.is_wrong());
    Rows::of(points)
        .name("Tool", 0, |p| p.contender)
        .measured(TIME, "Time")
        .number(&ratio, 1, |p| if itself(p) { Some("1".to_string()) } else { against(p).map(|d| quotient(d.ratio)) })
        .number("Its interval", 5, |p| against(p).map(|d| format!("{} to {}", quotient(d.interval.0), quotient(d.interval.1))))
        .name("Difference", 3, |p| match p.is_wrong() {
            true => Cell::bad("not ranked"),
            false => against(p).map(|d| d.verdict.words()).into(),
        })
        .median("Rate", 2, Metric::Rate)
        .number("Files/s", 4, |p| p.summary(Metric::Files).map(|s| digits(s.median)))
        .median("CPU time", 5, Metric::Processor)
        .number("Peak memory", 5, |p| {
            let peak = p.summary(Metric::Peak).map(|s| Unit::Bytes.show(s.median));
            peak.or_else(|| p.median_of(|s| s.more.get("peak_below")?.as_f64()).map(|below| format!("< {}", Unit::Bytes.show(below))))
        })
        .number(&format!("Time for {}", text.unwrap_or_default()), 2, |p| {
            amount.zip(rate(p)).map(|(bytes, rate)| Unit::Seconds.show(bytes / rate))
        })
        .name("Also preserved", 3, |p| p.text("kept").map(str::to_string))
        .table("Medians; the fastest first")
}

/// The value of `--extrapolate`, as it was typed, and in bytes.
fn amount(header: &Header) -> Option<(String, f64)> {
    let text = header.settings.get("extrapolate")?.as_str()?;
    Some((text.to_string(), header.settings.get("extrapolate_bytes")?.as_f64()?))
}
