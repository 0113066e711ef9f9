//! `haul bench files`: operations on files against threads, in one directory and in several.

use super::document::{Cell, Document, Rows, Section, Table};
use super::figure::{against, peak, with_missing};
use super::point::{Metric, Point, capital, factors, grouped, number as number_of};
use super::verdict::{beside, few, ranked, troubles};
use crate::plot::Unit;
use crate::plot::unit::{digits, quotient};
use crate::record::ENOUGH;
use crate::stats::Verdict;

/// Operations and sizes that have plots of their own.
const PLOTTED: usize = 12;

pub fn describe(points: &[&Point<'_>], document: &mut Document) {
    // The count per thread goes down as threads go up where the total is kept: it makes no group of its own.
    let apart: Vec<&str> = factors(points).into_iter().filter(|f| !matches!(*f, "threads" | "same_dir" | "file_count")).collect();
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
    let operation = group[0].contender;
    let size = group[0].number("file_size").map_or(String::new(), |size| format!(", files of {}", Unit::Bytes.show(size)));
    let what = capital(&format!("{operation}{size}"));
    let without: Vec<&str> = apart.iter().copied().chain(["threads", "file_count"]).collect();
    let line_name = |p: &Point<'_>| Some(p.described(&without)).filter(|name| !name.is_empty()).unwrap_or_else(|| operation.to_string());
    let row_name = |p: &Point<'_>| format!("{}, {}", threads_words(p), line_name(p));
    let sound: Vec<&Point<'_>> = group.iter().copied().filter(|p| p.partial().is_none()).collect();
    document.main.push(match ranked(&sound, metric).first() {
        Some(best) => {
            let rate = best.summary(metric).map_or("-".into(), |s| metric.unit().show(s.median));
            format!("{what}: {rate} at best, with {}.", row_name(best))
        }
        None if ranked(group, metric).is_empty() => format!("{what}: nothing succeeded, so there is no rate."),
        None => format!("{what}: no sound rate, as less than {} of the files count.", percent(ENOUGH)),
    });
    let lines = grouped(group, &["same_dir"]);
    let mut section = Section::titled(&what);
    section.paragraphs.extend(apart_or_together(&lines, metric));
    section.paragraphs.extend(partial(group, &row_name));
    section.tables.push(table(group, &what));
    if plotted {
        let sound = grouped(&sound, &["same_dir"]);
        let sentences: Vec<String> = lines
            .iter()
            .filter_map(|line| Some(format!("{}: {}.", capital(&line_name(line[0])), peak(line, "threads", metric)?)))
            .collect();
        let mut caption = with_missing(sentences.join(" "), group);
        let unequal = unequal_work(group);
        caption += &unequal.as_ref().map_or(String::new(), |why| format!(" Durations are not drawn: {why}"));
        section.draw(against(&format!("Rate: {what}"), caption, "threads", metric, &sound, &line_name));
        if unequal.is_none() {
            let caption = with_missing("Until all files were done, counted or not.".into(), group);
            section.draw(against(&format!("Duration: {what}"), caption, "threads", Metric::Whole, &sound, &line_name));
        }
    }
    document.sections.push(section);
}

fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.01 { "less than 1 %".into() } else { format!("{:.0} %", (share * 100.0).floor()) }
}

/// The points that are neither ranked nor drawn.
fn partial(group: &[&Point<'_>], name: &dyn Fn(&Point<'_>) -> String) -> Option<String> {
    let partial: Vec<String> = group.iter().filter_map(|p| Some(format!("{} ({})", name(p), percent(p.partial()?)))).collect();
    (!partial.is_empty()).then(|| {
        format!(
            "Less than {} of the files count, because the threads did not keep pace with each other: {}. These are neither ranked nor drawn; more files \
             for each thread (--file-count) give a sound rate.",
            percent(ENOUGH),
            few(&partial)
        )
    })
}

/// Why durations do not compare; `None` where all points did the same work from beginning to end.
fn unequal_work(group: &[&Point<'_>]) -> Option<String> {
    let good = || group.iter().filter(|p| p.good() > 0);
    let timed = |p: &Point<'_>| p.samples.iter().any(|s| s.counts() && s.more.get("limited_by_duration").is_some_and(|v| v == true));
    if good().any(|p| timed(p)) {
        return Some("some operations ended with their time and not with their work.".into());
    }
    let files = good().filter_map(|p| files_of(p, "whole_files"));
    let (least, most) = files.fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), n| (a.min(n), b.max(n)));
    let words =
        || format!("the points did different work, from {} to {} files. With --total each does the same.", digits(least), digits(most));
    (most > least).then(words)
}

/// A number of files among the other results, else the files that count.
fn files_of(point: &Point<'_>, name: &str) -> Option<f64> {
    point.median_of(|s| s.more.get(name).and_then(number_of).or(s.files.or(s.operations).map(|n| n as f64)))
}

fn threads_words(point: &Point<'_>) -> String {
    match point.shown("threads").as_str() {
        "" => "threads unknown".into(),
        "1" => "1 thread".into(),
        count => format!("{count} threads"),
    }
}

/// How much own directories are worth at the most threads.
fn apart_or_together(lines: &[Vec<&Point<'_>>], metric: Metric) -> Option<String> {
    let [one, other] = lines else { return None };
    let (a, b) = (one.last()?, other.last()?);
    if a.partial().or(b.partial()).is_some() || a.factors.get("threads") != b.factors.get("threads") {
        return None;
    }
    let (shared, own) = if a.shown("same_dir") == "Y" { (a, b) } else { (b, a) };
    let found = beside(own, shared, metric)?;
    let threads = threads_words(own);
    Some(match found.verdict {
        Verdict::Slower => format!("With {threads} own directories are {} times as fast as one shared directory.", quotient(found.ratio)),
        Verdict::Faster => {
            format!("With {threads} one shared directory is {} times as fast as own directories.", quotient(1.0 / found.ratio))
        }
        Verdict::NotSignificant => format!("With {threads} the difference between own directories and a shared one is not significant."),
    })
}

fn table(group: &[&Point<'_>], what: &str) -> Table {
    let plain = |p: &Point<'_>, metric: Metric, by: f64| p.summary(metric).map(|s| digits(s.median / by));
    Rows::of(group)
        .number("Threads", 0, |p| p.shown("threads"))
        .number("File size", 6, |p| p.shown("file_size"))
        .number("Files per thread", 7, |p| p.shown("file_count"))
        .number("Total", 5, |p| files_of(p, "asked_files").map(digits))
        .name("Same dir", 0, |p| p.shown("same_dir"))
        .number("Done", 1, |p| {
            let done = p.median_of(|s| s.more.get("share").and_then(number_of)).map(percent);
            if p.partial().is_some() { Cell::bad(done.unwrap_or_default()) } else { done.into() }
        })
        .number("IOPS", 1, |p| plain(p, Metric::Operations, 1.0))
        .number("Files/s", 1, |p| plain(p, Metric::Files, 1.0))
        .number("MiB/s", 1, |p| plain(p, Metric::Rate, f64::from(1 << 20)))
        .measured(Metric::Seconds, "Counted for")
        .latency()
        .table(format!("{what}: medians"))
}
