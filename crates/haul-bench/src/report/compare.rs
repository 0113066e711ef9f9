//! `haul bench compare`: tools on the same work.

use std::collections::{BTreeMap, BTreeSet};

use super::columns::{factors, measured, measured_cells, median_cell, more, more_cells, varied};
use super::document::{Cell, Document, Section, Table, name, number};
use super::figure::{courses, latencies, mark, strips, with_missing};
use super::point::{Metric, Point, capital, grouped};
use super::verdict::{Lead, beside, listed, ranked, troubles};
use crate::plot::ruler::{quotient, scale_for};
use crate::plot::unit::{digits, parse_bytes};
use crate::plot::{Axis, Body, Chart, LINES, Line, Scale, Unit};
use crate::record::Header;
use serde_json::Value;

/// Works that have a plot of their own.
const PLOTTED: usize = 8;
const TIME: Metric = Metric::Seconds;

pub fn describe(header: &Header, points: &[&Point<'_>], document: &mut Document) {
    let all = factors(points);
    let works = grouped(points, &all);
    let looks = looks(points);
    let places: BTreeMap<&str, usize> = looks.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
    let look = |name: &str| places.get(name).copied().unwrap_or(0);
    let by_name = |point: &Point<'_>| point.contender.to_string();
    let several = works.len() > 1;
    let varied = varied(points);
    let constant: Vec<&str> = all.iter().copied().filter(|name| !varied.contains(name)).collect();
    for work in &works {
        let label = work[0].described(if several { &constant } else { &[] });
        if let Some(lead) = Lead::of(work, TIME) {
            let sentence = lead.sentence(TIME, "took the least time", &by_name);
            document.answer.push(if several { format!("{}: {sentence}", capital(&label)) } else { sentence });
        } else {
            let label = if several { format!("{}: nothing", capital(&label)) } else { "Nothing".into() };
            let wrong = work.iter().any(|point| point.is_wrong());
            let why = if wrong { "went well enough to be ranked" } else { "went well, so no tool has a time" };
            document.answer.push(format!("{label} {why}."));
        }
    }
    if several {
        document.main.push(wins(&works));
    } else {
        document.main = std::mem::take(&mut document.answer);
    }
    let place = |point: &Point<'_>| if several { point.described(&constant) } else { String::new() };
    document.troubles = troubles(points, &place);
    against_size(points, &looks, document);
    for (at, work) in works.iter().enumerate() {
        let label = work[0].described(&[]);
        let title = if label.is_empty() { "Time of each tool".to_string() } else { format!("Time of each tool: {label}") };
        let heading = if label.is_empty() { "The tools".to_string() } else { capital(&label) };
        let mut section = Section { title: heading, ..Section::default() };
        let ordered = with_those_without(work);
        let rows: Vec<(String, usize, &Point<'_>)> = ordered.iter().map(|p| (p.contender.to_string(), look(p.contender), *p)).collect();
        if at < PLOTTED {
            section.draw(strips(&title, "Tool", &rows, TIME, true), true);
        }
        section.tables.push(table(header, &ordered, &label));
        if let Some((text, _)) = amount(header) {
            section.paragraphs.push(format!("Time for {text} assumes constant throughput, with data like these."));
        }
        if at < PLOTTED {
            let fast: Vec<_> = rows.iter().filter(|(.., p)| p.good() > 0 && !p.is_wrong()).take(LINES).cloned().collect();
            section.draw(courses("Rate over time", &fast), true);
            section.draw(latencies("How long single operations took", &fast), true);
        }
        document.sections.push(section);
    }
}

/// Contenders in the order in which they get their colours: haul, and the others as they do best.
fn looks(points: &[&Point<'_>]) -> Vec<String> {
    let (mut names, mut known): (Vec<String>, BTreeSet<&str>) = (Vec::new(), BTreeSet::new());
    for name in points.iter().map(|p| p.contender).filter(|name| *name == "haul").chain(ranked(points, TIME).iter().map(|p| p.contender)) {
        if known.insert(name) {
            names.push(name.to_string());
        }
    }
    let rest: BTreeSet<&str> = points.iter().map(|p| p.contender).filter(|name| !known.contains(name)).collect();
    names.extend(rest.into_iter().map(String::from));
    names
}

/// By time, and after those what has none or is not ranked.
fn with_those_without<'p, 'a>(work: &[&'p Point<'a>]) -> Vec<&'p Point<'a>> {
    let mut ordered = ranked(work, TIME);
    let rest: Vec<&Point<'_>> = work.iter().copied().filter(|point| !ordered.iter().any(|of| std::ptr::eq(*of, *point))).collect();
    ordered.extend(rest);
    ordered
}

fn wins(works: &[Vec<&Point<'_>>]) -> String {
    let mut wins: BTreeMap<&str, usize> = BTreeMap::new();
    let mut open = 0;
    for work in works {
        match Lead::of(work, TIME) {
            Some(lead) if lead.level.is_empty() && lead.next.is_some() => {
                *wins.entry(lead.best.contender).or_default() += 1;
            }
            _ => open += 1,
        }
    }
    let mut wins: Vec<(&str, usize)> = wins.into_iter().collect();
    wins.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let won: Vec<String> = wins.iter().map(|(name, count)| format!("{name} in {count}")).collect();
    let all = works.len();
    match (won.is_empty(), open) {
        (true, _) => format!("In none of {all} works is one tool significantly faster than all others."),
        (false, 0) => format!("Fastest of {all} works: {}.", listed(&won, 6)),
        (false, open) => format!("Fastest of {all} works: {}; in {open} the difference to the next is not significant.", listed(&won, 6)),
    }
}

/// The contender that others are set beside: haul, or the first of the tools.
fn reference<'p, 'a>(header: &Header, work: &[&'p Point<'a>]) -> Option<&'p Point<'a>> {
    let with = || work.iter().copied().filter(|point| point.good() > 0 && !point.is_wrong());
    let first = header.tools.first().map(|tool| tool.name.as_str());
    with().find(|p| p.contender == "haul").or_else(|| with().find(|p| Some(p.contender) == first)).or_else(|| with().next())
}

fn table(header: &Header, work: &[&Point<'_>], label: &str) -> Table {
    let of = reference(header, work);
    let amount = amount(header);
    let mut columns = vec![name("Tool", 0)];
    columns.extend(measured(TIME, ""));
    let ratio = of.map_or("Ratio".to_string(), |of| format!("Time, {} = 1", crate::plot::shortened(of.contender, 16)));
    columns.extend([number(&ratio, 1), number("Its interval", 5), name("Difference", 3), number("Rate", 2), number("Files/s", 4)]);
    columns.extend([number("Processor", 5), number("Peak memory", 5)]);
    columns.push(number(&format!("Time for {}", amount.as_ref().map_or("", |(text, _)| text)), 2));
    columns.push(name("Also preserved", 3));
    let (others, names) = more(work);
    columns.extend(others);
    let rows = work
        .iter()
        .map(|point| {
            let mut row: Vec<Cell> = vec![point.contender.into()];
            row.extend(measured_cells(point, TIME));
            let of = of.filter(|_| !point.is_wrong());
            let found = of.filter(|of| !std::ptr::eq(*of, *point)).and_then(|of| beside(of, point, TIME));
            let interval = |found: &crate::stats::Difference| format!("{} to {}", quotient(found.interval.0), quotient(found.interval.1));
            let itself = of.is_some_and(|of| std::ptr::eq(of, *point));
            row.push(if itself { "1".into() } else { Cell::of(found.map(|found| quotient(found.ratio))) });
            row.push(Cell::of(found.as_ref().map(interval)));
            row.push(match point.is_wrong() {
                true => Cell::bad("not ranked".into()),
                false => Cell::of(found.map(|found| found.verdict.words().to_string())),
            });
            row.push(median_cell(point, Metric::Rate));
            row.push(Cell::of(point.summary(Metric::Files).map(|s| digits(s.median))));
            row.push(median_cell(point, Metric::Processor));
            row.push(median_cell(point, Metric::Peak));
            let rate = point.summary(Metric::Rate).map(|s| s.median).filter(|rate| *rate > 0.0 && !point.is_wrong());
            row.push(Cell::of(amount.as_ref().zip(rate).map(|((_, bytes), rate)| Unit::Seconds.show(bytes / rate))));
            row.push(Cell::of(point.samples.iter().find_map(|s| Some(s.more.get("kept")?.as_str()?.to_string()))));
            row.extend(more_cells(point, &names));
            row
        })
        .collect();
    let caption =
        if label.is_empty() { "Medians; the fastest first".to_string() } else { format!("{}: medians; the fastest first", capital(label)) };
    Table { caption, columns, rows, folded: false }.without_empty_columns()
}

/// What `--extrapolate` asked for, as it was typed, and in bytes.
fn amount(header: &Header) -> Option<(String, f64)> {
    let setting = header.settings.get("extrapolate")?;
    let bytes = || setting.as_f64().or_else(|| parse_bytes(setting.as_str()?));
    let bytes = header.settings.get("extrapolate_bytes").and_then(Value::as_f64).or_else(bytes)?;
    Some((setting.as_str().map_or_else(|| Unit::Bytes.show(bytes), str::to_string), bytes))
}

/// Time against size, a line a tool.
fn against_size(points: &[&Point<'_>], looks: &[String], document: &mut Document) {
    let bytes = |point: &Point<'_>| point.median_of(|s| s.bytes.map(|b| b as f64)).filter(|b| *b > 0.0);
    let by_file = !points.is_empty() && points.iter().all(|p| p.number("file_size").is_some());
    // More bytes in other files are other work: a line through both would mean nothing.
    let counts: Vec<Option<u64>> = points.iter().flat_map(|p| &p.samples).filter(|s| s.counts()).map(|s| s.files).collect();
    if !by_file && counts.windows(2).any(|two| two[0] != two[1]) {
        return;
    }
    let others: Vec<&str> =
        factors(points).into_iter().filter(|name| !matches!(*name, "work" | "file_size" | "file_count" | "files")).collect();
    let mut section = Section { title: "How time grows with size".into(), ..Section::default() };
    for group in grouped(points, &others) {
        // What a work is: its size is that of any tool that did it well.
        let names = factors(&group);
        let mut of_work: BTreeMap<String, f64> = BTreeMap::new();
        for (point, bytes) in group.iter().filter_map(|point| Some((point, bytes(point)?))) {
            of_work.entry(point.key(&names)).or_insert(bytes);
        }
        let size = |point: &Point<'_>| {
            if by_file { point.number("file_size") } else { of_work.get(&point.key(&names)).copied() }
        };
        let mut lines: Vec<Line> = Vec::new();
        for (look, name) in looks.iter().enumerate().take(LINES) {
            let mut marks: Vec<_> = group
                .iter()
                .filter(|p| p.contender == name && !p.is_wrong())
                .filter_map(|p| mark(size(p).filter(|s| *s > 0.0)?, p, TIME))
                .collect();
            marks.sort_by(|a, b| a.x.total_cmp(&b.x));
            if !marks.is_empty() {
                lines.push(Line { name: name.clone(), look, marks, course: false });
            }
        }
        let mut sizes: Vec<f64> = group.iter().filter_map(|p| size(p)).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        let clash = lines.iter().any(|line| line.marks.windows(2).any(|two| two[0].x >= two[1].x));
        if sizes.len() < 2 || clash {
            continue;
        }
        let label = group[0].described(&factors(points).into_iter().filter(|name| !others.contains(name)).collect::<Vec<_>>());
        let hidden = looks.len().saturating_sub(LINES);
        let mut caption = crossing(&lines, &sizes);
        if hidden > 0 {
            caption += &format!(" {hidden} more tools stand in the tables only.");
        }
        let caption = with_missing(caption, &group);
        let times: Vec<f64> = lines.iter().flat_map(|l| l.marks.iter().map(|m| m.y)).collect();
        let name = if by_file { "Size of a file" } else { "Bytes in all" };
        let chart = Chart {
            title: if label.is_empty() { "Time against size".into() } else { format!("Time against size: {label}") },
            caption,
            x: Axis { name: name.into(), unit: Unit::Bytes, scale: Scale::Log2 },
            y: Axis { name: "Time".into(), unit: Unit::Seconds, scale: scale_for(&times, 30.0) },
            body: Body::Lines(lines),
        };
        section.draw(chart, true);
    }
    if !section.charts.is_empty() {
        document.sections.push(section);
    }
}

/// Who leads at the smallest and at the largest size.
fn crossing(lines: &[Line], sizes: &[f64]) -> String {
    let least_at = |size: f64| {
        let at = lines.iter().filter_map(|line| Some((line, line.marks.iter().find(|m| m.x == size)?)));
        at.min_by(|a, b| a.1.y.total_cmp(&b.1.y)).map(|(line, m)| (line.name.as_str(), m.y))
    };
    let ends = (sizes.first().copied(), sizes.last().copied());
    let (Some(small), Some(large)) = ends else { return String::new() };
    match (least_at(small), least_at(large)) {
        (Some(a), Some(b)) if a.0 == b.0 => {
            let (small, large) = (Unit::Bytes.show(small), Unit::Bytes.show(large));
            format!(
                "{} has the least median at both ends: {} at {small} and {} at {large}.",
                a.0,
                Unit::Seconds.show(a.1),
                Unit::Seconds.show(b.1)
            )
        }
        (Some(a), Some(b)) => format!(
            "The lines cross: {} has the least median at {} ({}), {} at {} ({}).",
            a.0,
            Unit::Bytes.show(small),
            Unit::Seconds.show(a.1),
            b.0,
            Unit::Bytes.show(large),
            Unit::Seconds.show(b.1)
        ),
        _ => "At one of the ends nothing went well.".into(),
    }
}
