//! `haul bench net`: rates against streams, in each direction.

use super::document::{Document, Rows, Section, Table};
use super::figure::{against, gigabits, peak, with_missing};
use super::point::{Metric, Point, capital, factor_title, factors, grouped};
use super::verdict::{ranked, troubles};
use crate::net::{Limit, ROUND_TRIP};
use crate::plot::Unit;
use crate::plot::unit::digits;

const RATE: Metric = Metric::Rate;

fn line_name(point: &Point<'_>) -> String {
    let direction = capital(&point.described(&["streams"]));
    match direction.as_str() {
        "Out" => "Out (from here)".into(),
        "In" => "In (to here)".into(),
        _ => direction,
    }
}

pub fn net(points: &[&Point<'_>], document: &mut Document) {
    let (asked, points): (Vec<&Point<'_>>, Vec<&Point<'_>>) = points.iter().copied().partition(|p| p.contender == ROUND_TRIP);
    let points = &points[..];
    document.troubles = troubles(&asked, &|p| p.described(&[]));
    document.troubles.extend(troubles(points, &|p| p.described(&[])));
    let others: Vec<&str> = factors(points).into_iter().filter(|name| *name != "streams").collect();
    let groups = grouped(points, &others);
    let sentence = |group: &Vec<&Point<'_>>| {
        let limit = ranked(group, RATE).first().and_then(|best| Limit::from_word(best.limit()?));
        let limit = limit.map_or(String::new(), |limit| format!(" Limited by {}.", limit.sentence()));
        Some(format!("{}: {}.{limit}", line_name(group[0]), peak(group, "streams", RATE)?))
    };
    document.main = groups.iter().filter_map(sentence).collect();
    let caption = with_missing(document.main.join(" "), points);
    if document.main.is_empty() {
        document.main.push("Nothing was transferred, so there is no rate.".into());
    }
    if let Some(median) = asked.iter().find_map(|p| p.latency(|l| l.p50)) {
        document.main.push(format!("A round trip takes {}.", Unit::Seconds.show(median)));
    }
    let mut section = Section::titled("Streams and directions");
    section.draw(against("Rate against streams", caption, "streams", RATE, &groups, &line_name));
    section.tables.push(table(points));
    document.sections.push(section);
}

fn table(points: &[&Point<'_>]) -> Table {
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
    let varied = factors(points).into_iter().fold(Rows::of(points), |rows, name| rows.name(&factor_title(name), 0, |p| p.shown(name)));
    varied
        .measured(RATE, "Rate")
        .number("Gbit/s", 2, |p| p.summary(RATE).map(|s| gigabits(s.median)))
        .number("Files/s", 4, |p| p.summary(Metric::Files).map(|s| digits(s.median)))
        .name("Limited by", 4, |p| limit(p))
        .number("Connections", 7, |p| p.median_of(|s| s.more.get("links")?.as_f64()).map(digits))
        .number("CPU time per GiB here", 8, processor("here"))
        .number("CPU time per GiB on the remote host", 8, processor("there"))
        .table("Medians by streams")
}
