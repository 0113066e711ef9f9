//! `haul bench net` and `haul bench sweep`: rates against streams, in each direction.

use super::document::{Cell, Document, Rows, Section, Table};
use super::figure::{Row, against, courses, lines_of, mark, peak, strips, with_missing};
use super::point::{Metric, Point, capital, factor_title, factors, grouped, varied};
use super::verdict::{Lead, beside, by_cost, ranked, troubles};
use crate::net::{Limit, ROUND_TRIP};
use crate::plot::unit::digits;
use crate::plot::{LINES, Line, Unit};
use crate::stats::Verdict;
use crate::sweep::OWN;

const RATE: Metric = Metric::Rate;

fn direction_words(direction: &str) -> String {
    match direction {
        "out" | "put" => format!("{} (from here)", capital(direction)),
        "in" | "get" => format!("{} (to here)", capital(direction)),
        other => capital(other),
    }
}

pub fn net(points: &[&Point<'_>], document: &mut Document) {
    let (asked, points): (Vec<&Point<'_>>, Vec<&Point<'_>>) = points.iter().copied().partition(|p| p.contender == ROUND_TRIP);
    let points = &points[..];
    document.troubles = troubles(&asked, &|p| p.described(&[]));
    document.troubles.extend(troubles(points, &|p| p.described(&[])));
    let others: Vec<&str> = factors(points).into_iter().filter(|name| *name != "streams").collect();
    let groups = grouped(points, &others);
    let line_name = |p: &Point<'_>| direction_words(&p.described(&["streams"]));
    let sentence = |group: &Vec<&Point<'_>>| {
        let limit = ranked(group, RATE).first().and_then(|best| Limit::from_word(best.limit()?));
        let limit = limit.map_or(String::new(), |limit| format!(" Limited by {}.", limit.sentence()));
        Some(format!("{}: {}.{limit}", line_name(group[0]), peak(group, "streams", Metric::Network)?))
    };
    let sentences: Vec<String> = groups.iter().filter_map(sentence).collect();
    document.main = sentences.clone();
    if sentences.is_empty() {
        document.main.push("Nothing was transferred, so there is no rate.".into());
    }
    if let Some(median) = asked.iter().find_map(|p| p.latency(|l| l.p50)) {
        document.main.push(format!("A round trip takes {}.", Unit::Seconds.show(median)));
    }
    let mut section = Section::titled("Streams and directions");
    let lines = lines_of(&groups, "streams", RATE, &line_name);
    let caption = with_missing(sentences.join(" "), points);
    section.draw(against("Rate against streams", caption, "streams", RATE, lines), true);
    section.tables.push(net_table(points));
    let rows: Vec<Row<'_, '_>> =
        groups.iter().enumerate().flat_map(|(look, group)| group.iter().map(move |p| (p.described(&[]), look, *p))).collect();
    section.draw(strips("Each repetition", "Direction, streams", &rows, RATE, "further right is better"), true);
    let best = groups.iter().enumerate().filter_map(|(look, group)| ranked(group, RATE).first().map(|p| (p.described(&[]), look, *p)));
    section.draw(courses("Rate over time, with the best number of streams", &best.take(LINES).collect::<Vec<_>>()), true);
    document.sections.push(section);
}

fn net_table(points: &[&Point<'_>]) -> Table {
    let limit = |p: &Point<'_>| p.limit().map(|limit| Limit::from_word(limit).map_or(limit, |known| known.word()).replace('-', " "));
    // CPU seconds of haul and ssh for each GiB.
    let processor = |side: &'static str| {
        move |p: &&Point<'_>| {
            let used = p.median_of(|s| {
                let used = |name: &str| s.more.get(&format!("{side}_{name}_seconds"))?.as_f64();
                Some((used("cpu")? + used("ssh")?) / (s.bytes.filter(|bytes| *bytes > 0)? as f64 / f64::from(1 << 30)))
            });
            used.map(|v| Unit::Seconds.show(v))
        }
    };
    with_factors(Rows::of(points), &factors(points))
        .measured(RATE, "Rate")
        .number("Gbit/s", 2, |p| p.summary(RATE).map(|s| digits(s.median * 8.0 / 1e9)))
        .number("Files/s", 4, |p| p.summary(Metric::Files).map(|s| digits(s.median)))
        .name("Limited by", 4, |p| limit(p))
        .number("Connections", 7, |p| p.median_of(|s| s.more.get("links")?.as_f64()).map(digits))
        .number("CPU time per GiB here", 8, processor("here"))
        .number("CPU time per GiB on the remote host", 8, processor("there"))
        .table("Medians by streams")
}

fn with_factors<'i, 'p, 'a>(rows: Rows<'i, &'p Point<'a>>, names: &[&str]) -> Rows<'i, &'p Point<'a>> {
    names.iter().fold(rows, |rows, name| rows.name(&factor_title(name), 0, |p| p.shown(name)))
}

/// What a sweep varies.
const GRID: [&str; 4] = ["streams", "chunk", "concurrency", "logins"];

/// haul chose everything.
pub fn is_own(point: &Point<'_>) -> bool {
    GRID.iter().all(|factor| point.factors.get(*factor).is_none_or(|value| value == OWN))
}

pub fn sweep(points: &[&Point<'_>], document: &mut Document) {
    let others: Vec<&str> = factors(points).into_iter().filter(|name| !GRID.contains(name)).collect();
    for group in grouped(points, &others) {
        let place = direction_words(&group[0].described(&GRID));
        let (own, grid): (Vec<&Point<'_>>, Vec<&Point<'_>>) = group.iter().copied().partition(|p| is_own(p));
        let own = own.first().copied();
        let different = varied(&grid);
        let differing: Vec<&str> = GRID.into_iter().filter(|f| different.contains(f)).collect();
        let constant: Vec<&str> = factors(&group).into_iter().filter(|f| !differing.contains(f)).collect();
        let named = |p: &Point<'_>| match p.described(&constant) {
            _ if is_own(p) => "haul's own choice".to_string(),
            name if name.is_empty() => p.contender.to_string(),
            name => name,
        };
        let sentence = best_fixed(&grid, own, &named);
        document.main.push(if place.is_empty() { capital(&sentence) } else { format!("{place}: {sentence}") });
        let mut section = Section::titled(if place.is_empty() { "Grid" } else { &place });
        section.draw(grid_chart(&grid, own, &differing, &constant, with_missing(capital(&sentence), &grid)), true);
        section.tables.push(ranking(&group, &differing));
        let mut best = ranked(&group, RATE);
        best.truncate(12);
        best.extend(own.filter(|own| !best.iter().any(|p| std::ptr::eq(*p, *own))));
        let rows: Vec<Row<'_, '_>> = best.iter().map(|p| (named(p), usize::from(!is_own(p)), *p)).collect();
        section.draw(strips("Each repetition of the best", "Combination", &rows, RATE, "further right is better"), true);
        document.sections.push(section);
    }
    document.troubles = troubles(points, &|p| p.described(&[]));
}

/// One line for each chunk size, concurrency and number of logins, those with the best peaks first; haul's own choice is level.
fn grid_chart(
    grid: &[&Point<'_>],
    own: Option<&Point<'_>>,
    differing: &[&str],
    constant: &[&str],
    mut caption: String,
) -> crate::plot::Chart {
    let apart: Vec<&str> = differing.iter().copied().filter(|f| *f != "streams").collect();
    let mut groups = grouped(grid, &apart);
    let peak_of = |group: &Vec<&Point<'_>>| group.iter().filter_map(|p| p.summary(RATE)).map(|s| s.median).fold(0.0, f64::max);
    groups.sort_by(|a, b| peak_of(b).total_cmp(&peak_of(a)));
    if groups.len() >= LINES {
        caption += &format!(" Slower combinations, {} of them, are in the table only.", groups.len() + 1 - LINES);
        groups.truncate(LINES - 1);
    }
    let without: Vec<&str> = constant.iter().copied().chain(["streams"]).collect();
    let line_name = |p: &Point<'_>| Some(p.described(&without)).filter(|name| !name.is_empty()).unwrap_or_else(|| "fixed".into());
    let mut lines = lines_of(&groups, "streams", RATE, &line_name);
    lines.iter_mut().for_each(|line| line.look += 1);
    let xs = || lines.iter().flat_map(|l| l.marks.iter().map(|m| m.x));
    let (low, high) = (xs().fold(f64::INFINITY, f64::min), xs().fold(0.0, f64::max));
    if let Some(own) = own.filter(|_| low.is_finite()) {
        let ends = if high > low { vec![low, high] } else { vec![low] };
        let marks = ends.into_iter().filter_map(|x| mark(x, own, RATE)).collect();
        lines.push(Line { name: "haul's own choice".into(), look: 0, marks, course: false });
    }
    against("Rate against streams", caption, "streams", RATE, lines)
}

/// The best fixed point, and haul's own choice.
fn best_fixed(grid: &[&Point<'_>], own: Option<&Point<'_>>, named: &dyn Fn(&Point<'_>) -> String) -> String {
    let Some(lead) = Lead::of(grid, RATE) else { return "nothing succeeded, so there is no rate.".into() };
    let show = |p: &Point<'_>| p.summary(RATE).map_or("-".into(), |s| RATE.unit().show(s.median));
    let mut out = format!("best fixed point: {}, {}", named(lead.best), show(lead.best));
    match lead.level.len() {
        0 => {}
        1 => out += "; 1 other is not significantly slower",
        others => out += &format!("; {others} others are not significantly slower"),
    }
    let left_out = lead.left_out(named);
    let Some(own) = own else { return out + "." + &left_out };
    let found = beside(lead.best, own, RATE).filter(|_| !own.is_wrong());
    let Some(found) = found else { return out + ". haul's own choice is not ranked: it failed." + &left_out };
    let doubt = if found.verdict == Verdict::NotSignificant { " (the difference is not significant)" } else { "" };
    format!("{out}. haul's own choice: {}, {:.0} % of the best speed{doubt}.{left_out}", show(own), 100.0 / found.ratio)
}

fn ranking(group: &[&Point<'_>], differing: &[&str]) -> Table {
    let ordered = by_cost(group, RATE);
    let best = ordered.first().copied().filter(|best| !best.is_wrong());
    let against = |p: &Point<'_>| best.filter(|best| !std::ptr::eq(*best, p)).and_then(|best| beside(best, p, RATE));
    let choice = |p: &Point<'_>| if is_own(p) { "haul's own" } else { "fixed" };
    with_factors(Rows::of(&ordered).name("Choice", 0, |p| choice(p)), differing)
        .measured(RATE, "Rate")
        .name("Against the best", 1, |p| match p.is_wrong() {
            true => Cell::bad("not ranked"),
            false => against(p).map(|d| d.verdict.words()).into(),
        })
        .median("Time", 3, Metric::Seconds)
        .table("All combinations, the best first")
}
