//! `haul bench files`: operations on files against threads, in one directory and in several.

use super::columns::{factors, measured, measured_cells};
use super::document::{Cell, Document, Section, Table, name, number};
use super::figure::{courses, latencies, mark, peak, strips, with_missing};
use super::point::{Metric, Point, capital, grouped, number as number_of};
use super::streams::against;
use super::verdict::{ranked, troubles};
use crate::plot::ruler::times;
use crate::plot::unit::digits;
use crate::plot::{LINES, Line, Unit};
use crate::record::ENOUGH;

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
    let whole: Vec<&Point<'_>> = group.iter().copied().filter(|p| p.partial().is_none()).collect();
    let (sound, any) = (ranked(&whole, metric), ranked(group, metric));
    document.main.push(match sound.first().or(any.first()) {
        None => format!("{}: nothing went well, so there is no rate.", capital(&what)),
        Some(best) => {
            let rate = best.summary(metric).map_or("-".into(), |s| metric.unit().show(s.median));
            let of = format!("{}, {}", threads_words(best), line_name(best));
            match best.partial() {
                None => format!("{}: {rate} at best, with {of}.", capital(&what)),
                Some(share) => {
                    format!("{}: no sound rate; {rate} with {of}, where only {} of the files count.", capital(&what), percent(share))
                }
            }
        }
    });
    let mut section = Section { title: capital(&what), ..Section::default() };
    section.paragraphs.extend(apart_or_together(&lines, metric));
    section.paragraphs.extend(thin(group, &|p| format!("{}, {}", threads_words(p), line_name(p))));
    if plotted {
        let drawn = |metric: Metric| -> Vec<Line> {
            let line = |(look, line): (usize, &Vec<&Point<'_>>)| {
                let mut marks: Vec<_> =
                    line.iter().filter(|p| p.partial().is_none()).filter_map(|p| mark(p.number("threads")?, p, metric)).collect();
                marks.sort_by(|a, b| a.x.total_cmp(&b.x));
                Line { name: line_name(line[0]), look, marks, course: false }
            };
            lines.iter().take(LINES).enumerate().map(line).filter(|line| !line.marks.is_empty()).collect()
        };
        let threads = Unit::Count("threads");
        let iops = drawn(metric);
        section.draw(against(&format!("Rate: {what}"), with_missing(sentences.join(" "), group), "Threads", threads, metric, iops), false);
        match work(group) {
            Ok(()) => {
                let durations = drawn(Metric::Whole);
                let caption = durations_in_words(&durations);
                let title = format!("Duration: {what}");
                section.draw(against(&title, with_missing(caption, group), "Threads", threads, Metric::Whole, durations), false);
            }
            Err(why) => section.paragraphs.extend(why),
        }
    }
    section.tables.push(table(group, several, &capital(&what)));
    if plotted {
        let rows: Vec<(String, usize, &Point<'_>)> = lines
            .iter()
            .enumerate()
            .flat_map(|(look, line)| line.iter().map(move |p| (look, *p)))
            .filter(|(_, p)| p.partial().is_none())
            .map(|(look, p)| (format!("{}, {}", threads_words(p), line_name(p)), look, p))
            .collect();
        section.draw(strips("Each repetition", "Threads, directories", &rows, metric, false), true);
        let ends: Vec<_> = lines.iter().enumerate().flat_map(|(look, line)| ends(line).into_iter().map(move |p| (look, p))).collect();
        let ends: Vec<_> = ends.into_iter().map(|(look, p)| (format!("{}, {}", threads_words(p), line_name(p)), look, p)).collect();
        section.draw(latencies("How long single operations took, with fewest and most threads", &ends), true);
        let best: Vec<_> = lines
            .iter()
            .enumerate()
            .filter_map(|(look, line)| {
                ranked(line, metric)
                    .into_iter()
                    .find(|p| p.partial().is_none())
                    .map(|p| (format!("{}, {}", threads_words(p), line_name(p)), look, p))
            })
            .collect();
        section.draw(courses("Over time, with the best number of threads", &best), true);
    }
    document.sections.push(section);
}

fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.01 { "less than 1 %".into() } else { format!("{:.0} %", (share * 100.0).floor()) }
}

/// Which points are no good ones.
fn thin(group: &[&Point<'_>], name: &dyn Fn(&Point<'_>) -> String) -> Option<String> {
    let thin: Vec<String> = group.iter().filter_map(|p| Some(format!("{} ({})", name(p), percent(p.partial()?)))).collect();
    (!thin.is_empty()).then(|| {
        format!(
            "Less than {} of the files count, because the threads did not keep pace with each other: {}. These are neither ranked nor drawn; more files \
             for each thread (--file-count) give a sound rate.",
            percent(ENOUGH),
            super::verdict::few(&thin)
        )
    })
}

/// Whether all points did the same work from beginning to end, so that their durations can be compared; else why not, where that
/// needs saying.
fn work(group: &[&Point<'_>]) -> Result<(), Option<String>> {
    let good = || group.iter().filter(|p| p.good() > 0);
    let timed = |p: &&&Point<'_>| p.samples.iter().any(|s| s.counts() && s.more.get("limited_by_duration").is_some_and(|v| v == true));
    if good().any(|p| timed(&p)) {
        return Err(Some("Durations are not drawn: some operations ended with their time and not with their work.".into()));
    }
    let files =
        |p: &&Point<'_>| p.median_of(|s| s.more.get("whole_files").and_then(number_of).or(s.files.or(s.operations).map(|n| n as f64)));
    let all: Vec<f64> = good().filter_map(files).collect();
    let (least, most) = (all.iter().copied().fold(f64::INFINITY, f64::min), all.iter().copied().fold(0.0, f64::max));
    if all.is_empty() || most <= least {
        return Ok(());
    }
    Err(Some(format!(
        "Durations are not drawn: the points did different work, from {} to {} files. With --total each does the same.",
        digits(least),
        digits(most)
    )))
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
    if a.partial().or(b.partial()).is_some() {
        return None;
    }
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
        crate::stats::Verdict::NotSignificant => {
            format!("With {threads} the difference between own directories and a shared one is not significant.")
        }
    })
}

fn durations_in_words(lines: &[Line]) -> String {
    let show = |value: f64| Unit::Seconds.show(value);
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
    columns.push(number("Done", 0));
    columns.extend(measured(Metric::Seconds, "Counted for"));
    columns.extend([number("IOPS", 0), number("Files/s", 2), number("MiB/s", 3)]);
    columns.extend(super::columns::latency());
    let plain = |point: &Point<'_>, metric: Metric, by: f64| Cell::of(point.summary(metric).map(|s| digits(s.median / by)));
    let rows = group
        .iter()
        .map(|point| {
            let mut row: Vec<Cell> = if several { vec![point.contender.into()] } else { vec![] };
            let total = point.median_of(|s| s.more.get("asked_files").and_then(number_of).or(s.files.or(s.operations).map(|n| n as f64)));
            row.extend([point.shown("threads"), point.shown("file_size"), point.shown("file_count")].map(Cell::from));
            row.push(Cell::of(total.map(digits)));
            row.push(point.shown("same_dir").into());
            let done = point.median_of(|s| s.more.get("share").and_then(number_of)).map(percent);
            row.push(if point.partial().is_some() { Cell::bad(done.unwrap_or_default()) } else { Cell::of(done) });
            row.extend(measured_cells(point, Metric::Seconds));
            row.push(plain(point, Metric::Operations, 1.0));
            row.push(plain(point, Metric::Files, 1.0));
            row.push(plain(point, Metric::Rate, f64::from(1 << 20)));
            row.extend(super::columns::latency_cells(point));
            row
        })
        .collect();
    Table { caption: format!("{what}: medians"), columns, rows, folded: false }.without_empty_columns()
}
