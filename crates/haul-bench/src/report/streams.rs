//! `haul bench net` and `haul bench sweep`: rates against streams, in each direction.

use super::columns::{factor_columns, factors, latency, latency_cells, measured, measured_cells, more, more_cells, varied};
use super::document::{Cell, Document, Section, Table, name, number};
use super::figure::{courses, latencies, mark, peak, strips, with_missing};
use super::point::{Metric, Point, capital, compare_values, distinct, factor_value, factor_words, grouped, number as number_of};
use super::verdict::{Lead, beside, ranked, troubles};
use crate::net::ROUND_TRIP;
use crate::plot::ruler::scale_for;
use crate::plot::unit::digits;
use crate::plot::{Axis, Body, Chart, LINES, Line, Scale, Unit};
use crate::stats::Verdict;

/// Of the name that the tuner's own choice has.
const TUNER: &str = "haul";

/// The first that any of the points has; a rate, so that more is better.
fn metric_of(points: &[&Point<'_>]) -> Metric {
    let has = |metric: &Metric| points.iter().any(|point| !point.values(*metric).is_empty());
    [Metric::Rate, Metric::Operations, Metric::Files].into_iter().find(has).unwrap_or(Metric::Rate)
}

fn direction_words(direction: &str) -> String {
    match direction {
        "" => String::new(),
        "out" | "put" => format!("{} (from here)", capital(direction)),
        "in" | "get" => format!("{} (to here)", capital(direction)),
        other => capital(other),
    }
}

fn label(point: &Point<'_>, without: &[&str], contenders: bool) -> String {
    let described = point.described(without);
    match (contenders, described.is_empty()) {
        (true, true) => point.contender.to_string(),
        (true, false) => format!("{}, {described}", point.contender),
        (false, _) => described,
    }
}

pub fn net(points: &[&Point<'_>], document: &mut Document) {
    let (asked, points): (Vec<&Point<'_>>, Vec<&Point<'_>>) = points.iter().copied().partition(|p| p.contender == ROUND_TRIP);
    let points = &points[..];
    document.answer.extend(round_trip(&asked, points));
    document.troubles = troubles(&asked, &|p| p.described(&[]));
    if points.is_empty() {
        document.main.push("No rate was measured.".into());
        return;
    }
    let metric = metric_of(points);
    let in_words = if metric == Metric::Rate { Metric::Network } else { metric };
    let several = points.iter().any(|p| p.contender != points[0].contender);
    let others: Vec<&str> = factors(points).into_iter().filter(|name| *name != "streams").collect();
    let groups: Vec<Vec<&Point<'_>>> = grouped(points, &others).into_iter().flat_map(|group| by_contender(&group)).collect();
    let line_name = |p: &Point<'_>| match label(p, &["streams"], several) {
        name if name.is_empty() => "rate".to_string(),
        name => direction_words(&name),
    };
    let sentences: Vec<String> =
        groups.iter().filter_map(|group| Some(format!("{}: {}.", line_name(group[0]), peak(group, "streams", in_words)?))).collect();
    document.main = sentences.clone();
    if document.main.is_empty() {
        document.main.push("Nothing went well, so there is no rate.".into());
    }
    document.troubles.extend(troubles(points, &|p| p.described(&[])));
    let mut section = Section { title: "Streams and directions".into(), ..Section::default() };
    let lines = lines_of(&groups, "streams", metric, &line_name);
    section.draw(
        against("Rate against streams", with_missing(sentences.join(" "), points), "Streams", Unit::Count("streams"), metric, lines),
        true,
    );
    let rows: Vec<(String, usize, &Point<'_>)> = groups
        .iter()
        .enumerate()
        .flat_map(|(look, group)| group.iter().map(move |p| (p, look)))
        .map(|(p, look)| (label(p, &[], several), look, *p))
        .collect();
    section.tables.push(table(points, metric, several, "Medians by streams"));
    section.draw(strips("Each repetition", "Direction, streams", &rows, metric, false), true);
    let best: Vec<(String, usize, &Point<'_>)> = groups
        .iter()
        .enumerate()
        .filter_map(|(look, group)| ranked(group, metric).first().map(|p| (label(p, &[], several), look, *p)))
        .take(LINES)
        .collect();
    section.draw(courses("Rate over time, with the best number of streams", &best), true);
    let asked: Vec<(String, usize, &Point<'_>)> = asked.into_iter().map(|p| (ROUND_TRIP.to_string(), 0, p)).collect();
    section.draw(latencies("Round trips", &asked), true);
    document.sections.push(section);
}

/// As it was measured by itself, or as the samples have kept it.
fn round_trip(asked: &[&Point<'_>], points: &[&Point<'_>]) -> Option<String> {
    if let Some(median) = asked.iter().find_map(|p| p.median_of(|s| Some(s.latency.as_ref()?.p50))) {
        return Some(format!("A round trip takes {}.", Unit::Seconds.show(median)));
    }
    let is_it = |name: &str| (name.contains("round_trip") || name.contains("rtt")) && name.ends_with("seconds");
    let value = |s: &crate::record::Sample| s.more.iter().find(|(name, _)| is_it(name)).and_then(|(_, value)| number_of(value));
    let all: Vec<f64> = points.iter().filter_map(|p| p.median_of(value)).collect();
    (!all.is_empty()).then(|| format!("A round trip takes {}.", Unit::Seconds.show(crate::stats::median(&all))))
}

fn by_contender<'p, 'a>(group: &[&'p Point<'a>]) -> Vec<Vec<&'p Point<'a>>> {
    let mut out: Vec<Vec<&Point<'a>>> = Vec::new();
    for point in group {
        match out.iter_mut().find(|of| of[0].contender == point.contender) {
            Some(of) => of.push(point),
            None => out.push(vec![point]),
        }
    }
    out
}

fn lines_of(groups: &[Vec<&Point<'_>>], factor: &str, metric: Metric, name: &dyn Fn(&Point<'_>) -> String) -> Vec<Line> {
    let line = |(look, group): (usize, &Vec<&Point<'_>>)| {
        let mut marks: Vec<_> = group.iter().filter_map(|p| mark(p.number(factor)?, p, metric)).collect();
        marks.sort_by(|a, b| a.x.total_cmp(&b.x));
        Line { name: name(group[0]), look, marks, course: false }
    };
    groups.iter().take(LINES).enumerate().map(line).filter(|line| !line.marks.is_empty()).collect()
}

/// A chart of lines against what is doubled.
pub fn against(title: &str, caption: String, along: &str, unit: Unit, metric: Metric, lines: Vec<Line>) -> Chart {
    let values: Vec<f64> = lines.iter().flat_map(|l| l.marks.iter().map(|m| m.y)).collect();
    let positive = lines.iter().flat_map(|l| &l.marks).all(|m| m.x > 0.0);
    Chart {
        title: title.into(),
        caption,
        x: Axis { name: along.into(), unit, scale: if positive { Scale::Log2 } else { Scale::Linear } },
        y: Axis { name: metric.words().into(), unit: metric.unit(), scale: scale_for(&values, 50.0) },
        body: Body::Lines(lines),
    }
}

fn table(points: &[&Point<'_>], metric: Metric, contenders: bool, caption: &str) -> Table {
    let names = factors(points);
    let mut columns = if contenders { vec![name("Contender", 0)] } else { vec![] };
    columns.extend(factor_columns(&names, |f| points.iter().any(|p| p.number(f).is_some())));
    columns.extend(measured(metric, ""));
    columns.push(number("Gbit/s", 4));
    columns.push(number("Time", 4));
    columns.extend(latency());
    let (others, kept) = more(points);
    columns.extend(others);
    let rows = points.iter().map(|point| {
        let mut row: Vec<Cell> = if contenders { vec![point.contender.into()] } else { vec![] };
        row.extend(names.iter().map(|f| Cell::from(point.shown(f))));
        row.extend(measured_cells(point, metric));
        row.push(Cell::of(point.summary(Metric::Rate).map(|s| digits(s.median * 8.0 / 1e9))));
        row.push(super::columns::median_cell(point, Metric::Seconds));
        row.extend(latency_cells(point));
        row.extend(more_cells(point, &kept));
        row
    });
    Table { caption: caption.into(), rows: rows.collect(), columns, folded: false }.without_empty_columns()
}

pub fn sweep(points: &[&Point<'_>], document: &mut Document) {
    let grid_factors = ["streams", "chunk", "connections"];
    let metric = metric_of(points);
    let others: Vec<&str> = factors(points).into_iter().filter(|name| !grid_factors.contains(name)).collect();
    for group in grouped(points, &others) {
        let place = direction_words(&group[0].described(&grid_factors));
        let (tuner, grid): (Vec<&Point<'_>>, Vec<&Point<'_>>) = group.iter().copied().partition(|p| p.contender == TUNER);
        let title = if place.is_empty() { "Rate against streams".to_string() } else { format!("Rate against streams: {place}") };
        let heading = if place.is_empty() { "The grid".to_string() } else { place.clone() };
        let mut section = Section { title: heading, ..Section::default() };
        let several = varied(&grid);
        let differing: Vec<&str> = grid_factors.into_iter().filter(|f| several.contains(f)).collect();
        let constant: Vec<&str> = factors(&group).into_iter().filter(|f| !differing.contains(f)).collect();
        let named = |p: &Point<'_>| match (p.contender == TUNER, label(p, &constant, false)) {
            (true, _) => "haul's own choice".to_string(),
            (false, name) if name.is_empty() => p.contender.to_string(),
            (false, name) => name,
        };
        let sentence = sweet_spot(&grid, tuner.first().copied(), metric, &named);
        document.main.push(if place.is_empty() { capital(&sentence) } else { format!("{place}: {sentence}") });

        // A line a chunk size and number of connections; those with the best peaks first.
        let apart: Vec<&str> = differing.iter().copied().filter(|f| *f != "streams").collect();
        let mut groups = grouped(&grid, &apart);
        let peak_of = |group: &Vec<&Point<'_>>| group.iter().filter_map(|p| p.summary(metric)).map(|s| s.median).fold(0.0, f64::max);
        groups.sort_by(|a, b| peak_of(b).total_cmp(&peak_of(a)));
        let room = LINES - tuner.len().min(1);
        let hidden = groups.len().saturating_sub(room);
        groups.truncate(room);
        groups.sort_by(|a, b| {
            apart
                .iter()
                .map(|f| compare_values(&a[0].factors[*f], &b[0].factors[*f]))
                .find(|o| o.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        let without: Vec<&str> = constant.iter().copied().chain(["streams"]).collect();
        let line_name = |p: &Point<'_>| match p.described(&without) {
            name if name.is_empty() => "fixed".to_string(),
            name => name,
        };
        let mut lines = lines_of(&groups, "streams", metric, &line_name);
        for line in &mut lines {
            line.look += 1;
        }
        lines.extend(tuner.first().and_then(|point| level(point, &lines, metric)));
        let mut caption = capital(&sentence);
        caption = with_missing(caption, &grid);
        if hidden > 0 {
            caption += &format!(" {hidden} more combinations that do worse stand in the table only.");
        }
        section.draw(against(&title, caption, "Streams", Unit::Count("streams"), metric, lines), true);
        section.tables.extend(matrices(&grid, &differing, metric));
        section.tables.push(ranking(&group, &differing, metric));
        let mut ordered = ranked(&group, metric);
        ordered.truncate(12);
        if let Some(own) = tuner.first().filter(|own| !ordered.iter().any(|p| std::ptr::eq(*p, **own))) {
            ordered.push(own);
        }
        let rows: Vec<(String, usize, &Point<'_>)> = ordered.iter().map(|p| (named(p), usize::from(p.contender != TUNER), *p)).collect();
        section.draw(strips("Each repetition of the best", "Combination", &rows, metric, false), true);
        let few: Vec<_> = rows
            .iter()
            .filter(|(.., p)| p.contender == TUNER)
            .chain(rows.iter().filter(|(.., p)| p.contender != TUNER).take(2))
            .cloned()
            .collect();
        let few: Vec<_> = few.into_iter().enumerate().map(|(look, (name, _, p))| (name, look, p)).collect();
        section.draw(courses("Rate over time", &few), true);
        document.sections.push(section);
    }
    document.troubles = troubles(points, &|p| p.described(&[]));
}

/// The best fixed point, and how far the tuner is from it.
fn sweet_spot(grid: &[&Point<'_>], tuner: Option<&Point<'_>>, metric: Metric, named: &dyn Fn(&Point<'_>) -> String) -> String {
    let Some(lead) = Lead::of(grid, metric) else { return "Nothing went well, so there is no rate.".into() };
    let show = |p: &Point<'_>| p.summary(metric).map_or("-".into(), |s| metric.unit().show(s.median));
    let mut out = format!("most, {}, with {}", show(lead.best), named(lead.best));
    if !lead.level.is_empty() {
        let count = lead.level.len();
        out += &format!("; {count} other {} not significantly worse", if count == 1 { "combination is" } else { "combinations are" });
    }
    let left_out = lead.left_out(named);
    let Some(own) = tuner else { return out + "." + &left_out };
    if own.is_wrong() {
        return format!("{out}. haul's own choice is not ranked: it gave WRONG results.{left_out}");
    }
    let Some(found) = beside(lead.best, own, metric) else {
        return out + ". haul's own choice has no rate: it did not go well." + &left_out;
    };
    let change = (1.0 / found.ratio - 1.0) * 100.0;
    let words = match found.verdict {
        Verdict::NotSignificant => format!("{change:+.0} %, which is not significant"),
        Verdict::Slower => format!("{:.0} % less", -change),
        Verdict::Faster => format!("{change:.0} % more"),
    };
    format!("{out}. haul's own choice gives {}, {words}.{left_out}", show(own))
}

/// The tuner's choice from end to end: it has no number of streams.
fn level(point: &Point<'_>, lines: &[Line], metric: Metric) -> Option<Line> {
    let xs = || lines.iter().flat_map(|l| l.marks.iter().map(|m| m.x));
    let (low, high) = (xs().fold(f64::INFINITY, f64::min), xs().fold(0.0, f64::max));
    let first = mark(low, point, metric)?;
    let last = mark(high, point, metric)?;
    Some(Line { name: "haul's own choice".into(), look: 0, marks: if high > low { vec![first, last] } else { vec![first] }, course: false })
}

/// Streams downwards, chunks to the right; one a number of connections.
fn matrices(grid: &[&Point<'_>], differing: &[&str], metric: Metric) -> Vec<Table> {
    if !(differing.contains(&"streams") && differing.contains(&"chunk")) {
        return Vec::new();
    }
    let best = ranked(grid, metric).first().copied();
    grouped(grid, &["connections"])
        .into_iter()
        .take(6)
        .map(|group| {
            let chunks = distinct(&group, "chunk");
            let mut columns = vec![number("Streams", 0)];
            columns.extend(chunks.iter().map(|chunk| number(&factor_value("chunk", chunk), 0)));
            let row = |streams: &serde_json::Value| {
                let mut row: Vec<Cell> = vec![factor_value("streams", streams).into()];
                row.extend(chunks.iter().map(|chunk| {
                    let at = |p: &&&Point<'_>| p.factors.get("streams") == Some(streams) && p.factors.get("chunk") == Some(chunk);
                    let Some(point) = group.iter().find(at) else { return Cell::from("-") };
                    let star = if best.is_some_and(|best| std::ptr::eq(best, *point)) { "* " } else { "" };
                    match point.summary(metric) {
                        Some(s) => format!("{star}{}", metric.unit().show(s.median)).into(),
                        None => Cell::bad(point.failures_in_words().unwrap_or_else(|| "-".into())),
                    }
                }));
                row
            };
            let rows = distinct(&group, "streams").iter().map(row).collect();
            let connections = group[0].factors.get("connections").filter(|_| differing.contains(&"connections"));
            let of = connections.map_or(String::new(), |value| format!(", {}", factor_words("connections", value)));
            Table { caption: format!("{} by streams and chunk size{of} (*: the best)", metric.words()), columns, rows, folded: false }
        })
        .collect()
}

fn ranking(group: &[&Point<'_>], differing: &[&str], metric: Metric) -> Table {
    let mut ordered = ranked(group, metric);
    let without: Vec<&Point<'_>> = group.iter().copied().filter(|p| !ordered.iter().any(|of| std::ptr::eq(*of, *p))).collect();
    ordered.extend(without);
    let best = ordered.first().copied().filter(|best| !best.is_wrong());
    let mut columns = vec![name("Choice", 0)];
    columns.extend(factor_columns(differing, |_| true));
    columns.extend(measured(metric, ""));
    columns.extend([name("Beside the best", 1), number("Time", 5)]);
    let (others, kept) = more(group);
    columns.extend(others);
    let rows = ordered
        .iter()
        .map(|point| {
            let own = point.contender == TUNER;
            let mut row: Vec<Cell> = vec![if own { "haul's own".into() } else { point.contender.into() }];
            row.extend(differing.iter().map(|f| if own { Cell::from("its own") } else { point.shown(f).into() }));
            row.extend(measured_cells(point, metric));
            let found = best.filter(|best| !std::ptr::eq(*best, *point)).and_then(|best| beside(best, point, metric));
            row.push(match point.is_wrong() {
                true => Cell::bad("not ranked".into()),
                false => Cell::of(found.map(|f| f.verdict.words().to_string())),
            });
            row.push(super::columns::median_cell(point, Metric::Seconds));
            row.extend(more_cells(point, &kept));
            row
        })
        .collect();
    Table { caption: "All combinations, the best first".into(), columns, rows, folded: false }.without_empty_columns()
}
