//! `haul bench files`: operations on files against threads, in one directory and in several.

use super::columns::{factors, measured, measured_cells};
use super::document::{Cell, Document, Section, Table, name, number};
use super::figure::{courses, latencies, mark, peak, strips, with_missing};
use super::point::{Metric, Point, capital, grouped};
use super::streams::against;
use super::verdict::{ranked, troubles};
use crate::plot::ruler::times;
use crate::plot::unit::digits;
use crate::plot::{LINES, Line, Unit};

/// Operations and sizes that have plots of their own.
const PLOTTED: usize = 12;

pub fn describe(points: &[&Point<'_>], document: &mut Document) {
    let all = factors(points);
    // The count per thread goes down as threads go up where the total is kept: it makes no group of its own.
    let apart: Vec<&str> = all.iter().copied().filter(|f| !matches!(*f, "threads" | "same_dir" | "file_count")).collect();
    for (at, group) in grouped(points, &apart).iter().enumerate() {
        section(group, &apart, at < PLOTTED, document);
    }
    document.troubles = troubles(points, &|p| p.described(&["file_count"]));
}

fn metric_of(points: &[&Point<'_>]) -> Metric {
    let has = |metric: &Metric| points.iter().any(|point| !point.values(*metric).is_empty());
    [Metric::Operations, Metric::Files, Metric::Rate].into_iter().find(has).unwrap_or(Metric::Seconds)
}

fn section(group: &[&Point<'_>], apart: &[&str], plotted: bool, document: &mut Document) {
    let metric = metric_of(group);
    let operation = group[0].shown("operation");
    let size = group[0].number("file_size").map(|size| format!("files of {}", Unit::Bytes.show(size)));
    let rest = group[0].described(&["threads", "same_dir", "file_count", "operation", "file_size"]);
    let first = if operation.is_empty() { group[0].contender.to_string() } else { operation.clone() };
    let what = [Some(first), size, Some(rest).filter(|rest| !rest.is_empty())].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let several = group.iter().any(|p| p.contender != group[0].contender);
    let line_name = |p: &Point<'_>| {
        let without: Vec<&str> = apart.iter().copied().chain(["threads", "file_count"]).collect();
        let described = p.described(&without);
        match (several, described.is_empty()) {
            (true, true) => p.contender.to_string(),
            (true, false) => format!("{}: {described}", p.contender),
            (false, true) => operation.clone(),
            (false, false) => described,
        }
    };
    let mut lines: Vec<Vec<&Point<'_>>> = Vec::new();
    for point in group {
        match lines
            .iter_mut()
            .find(|of| of[0].contender == point.contender && of[0].factors.get("same_dir") == point.factors.get("same_dir"))
        {
            Some(of) => of.push(point),
            None => lines.push(vec![point]),
        }
    }
    let sentences: Vec<String> =
        lines.iter().filter_map(|line| Some(format!("{}: {}.", capital(&line_name(line[0])), peak(line, "threads", metric)?))).collect();
    document.main.push(match ranked(group, metric).first() {
        None => format!("{}: nothing went well, so there is no rate.", capital(&what)),
        Some(best) => {
            let rate = best.summary(metric).map_or("-".into(), |s| metric.unit().show(s.median));
            format!("{}: {rate} at best, with {}, {}.", capital(&what), threads_words(best), line_name(best))
        }
    });
    let mut section = Section { title: capital(&what), ..Section::default() };
    section.paragraphs.extend(apart_or_together(&lines, metric));
    if plotted {
        let drawn = |metric: Metric| -> Vec<Line> {
            let line = |(look, line): (usize, &Vec<&Point<'_>>)| {
                let mut marks: Vec<_> = line.iter().filter_map(|p| mark(p.number("threads")?, p, metric)).collect();
                marks.sort_by(|a, b| a.x.total_cmp(&b.x));
                Line { name: line_name(line[0]), look, marks, course: false }
            };
            lines.iter().take(LINES).enumerate().map(line).filter(|line| !line.marks.is_empty()).collect()
        };
        let threads = Unit::Count("threads");
        let iops = drawn(metric);
        section.draw(against(&format!("Rate: {what}"), with_missing(sentences.join(" "), group), "Threads", threads, metric, iops), false);
        let durations = drawn(Metric::Seconds);
        let caption = durations_in_words(&durations);
        section.draw(
            against(&format!("Duration: {what}"), with_missing(caption, group), "Threads", threads, Metric::Seconds, durations),
            false,
        );
    }
    section.tables.push(table(group, several, &capital(&what)));
    if plotted {
        let rows: Vec<(String, usize, &Point<'_>)> = lines
            .iter()
            .enumerate()
            .flat_map(|(look, line)| line.iter().map(move |p| (look, *p)))
            .map(|(look, p)| (format!("{}, {}", threads_words(p), line_name(p)), look, p))
            .collect();
        section.draw(strips("Each repetition", "Threads, directories", &rows, metric, false), true);
        let ends: Vec<_> = lines.iter().enumerate().flat_map(|(look, line)| ends(line).into_iter().map(move |p| (look, p))).collect();
        let ends: Vec<_> = ends.into_iter().map(|(look, p)| (format!("{}, {}", threads_words(p), line_name(p)), look, p)).collect();
        section.draw(latencies("How long single operations took, with fewest and most threads", &ends), true);
        let best: Vec<_> = lines
            .iter()
            .enumerate()
            .filter_map(|(look, line)| ranked(line, metric).first().map(|p| (format!("{}, {}", threads_words(p), line_name(p)), look, *p)))
            .collect();
        section.draw(courses("Over time, with the best number of threads", &best), true);
    }
    document.sections.push(section);
}

fn threads_words(point: &Point<'_>) -> String {
    match point.shown("threads").as_str() {
        "" => "threads unknown".into(),
        "1" => "1 thread".into(),
        count => format!("{count} threads"),
    }
}

/// Fewest and most threads.
fn ends<'p, 'a>(line: &[&'p Point<'a>]) -> Vec<&'p Point<'a>> {
    match line {
        [one] => vec![one],
        [first, .., last] => vec![first, last],
        [] => vec![],
    }
}

/// How much own directories are worth at the most threads.
fn apart_or_together(lines: &[Vec<&Point<'_>>], metric: Metric) -> Option<String> {
    let [one, other] = lines else { return None };
    let (a, b) = (one.last()?, other.last()?);
    let same = |p: &Point<'_>| p.shown("same_dir");
    if a.factors.get("threads") != b.factors.get("threads") || same(a) == same(b) || a.contender != b.contender {
        return None;
    }
    let (shared, own) = if same(a) == "Y" { (a, b) } else { (b, a) };
    let found = super::verdict::beside(own, shared, metric)?;
    let threads = threads_words(own);
    Some(match found.verdict {
        crate::stats::Verdict::Slower => {
            format!("With {threads} own directories are {} as fast as one shared directory.", times(found.ratio))
        }
        crate::stats::Verdict::Faster => {
            format!("With {threads} one shared directory is {} as fast as own directories.", times(1.0 / found.ratio))
        }
        crate::stats::Verdict::NotShown => format!("With {threads} no difference is shown between own directories and a shared one."),
    })
}

fn durations_in_words(lines: &[Line]) -> String {
    let show = |value: f64| Unit::Seconds.show(value);
    let all: Vec<f64> = lines.iter().flat_map(|l| l.marks.iter().map(|m| m.y)).collect();
    let (least, most) = (all.iter().copied().fold(f64::INFINITY, f64::min), all.iter().copied().fold(0.0, f64::max));
    if all.len() > 1 && most <= least * 1.02 {
        return format!("All ran for {}: as long as was asked, not until the work was done.", show(most));
    }
    let words: Vec<String> = lines
        .iter()
        .filter_map(|line| {
            let (first, last) = (line.marks.first()?, line.marks.last()?);
            let count = |n: f64| Unit::Count("threads").show(n);
            Some(match line.marks.len() {
                1 => format!("{}: {} with {}", line.name, show(first.y), count(first.x)),
                _ => format!("{}: from {} with {} to {} with {}", line.name, show(first.y), count(first.x), show(last.y), count(last.x)),
            })
        })
        .collect();
    if words.is_empty() { "Nothing went well, so there is no time.".into() } else { capital(&format!("{}.", words.join("; "))) }
}

fn table(group: &[&Point<'_>], several: bool, what: &str) -> Table {
    let mut columns = if several { vec![name("Contender", 0)] } else { vec![] };
    columns.extend([
        number("Threads", 0),
        number("File size", 6),
        number("Files per thread", 7),
        number("Total", 5),
        name("Same directory", 0),
    ]);
    columns.extend(measured(Metric::Seconds, "Duration"));
    columns.extend([number("IOPS", 0), number("Files/s", 2), number("MB/s", 3)]);
    columns.extend(super::columns::latency());
    let plain = |point: &Point<'_>, metric: Metric, by: f64| Cell::of(point.summary(metric).map(|s| digits(s.median / by)));
    let rows = group
        .iter()
        .map(|point| {
            let mut row: Vec<Cell> = if several { vec![point.contender.into()] } else { vec![] };
            let total = point.median_of(|s| s.files.or(s.operations).map(|n| n as f64));
            row.extend([point.shown("threads"), point.shown("file_size"), point.shown("file_count")].map(Cell::from));
            row.push(Cell::of(total.map(digits)));
            row.push(point.shown("same_dir").into());
            row.extend(measured_cells(point, Metric::Seconds));
            row.push(plain(point, Metric::Operations, 1.0));
            row.push(plain(point, Metric::Files, 1.0));
            row.push(plain(point, Metric::Rate, 1e6));
            row.extend(super::columns::latency_cells(point));
            row
        })
        .collect();
    Table { caption: format!("{what}: medians"), columns, rows, folded: false }.without_empty_columns()
}
