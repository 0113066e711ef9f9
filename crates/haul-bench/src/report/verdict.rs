//! The best contender, and whether its lead is significant.

use super::point::{Metric, Point, gathered};
use crate::plot::shortened;
use crate::plot::unit::quotient;
use crate::record::Outcome;
use crate::stats::{Difference, Verdict, difference, median};

/// Points by cost, the best first, without those that have no number or were wrong even once.
pub fn ranked<'p, 'a>(points: &[&'p Point<'a>], metric: Metric) -> Vec<&'p Point<'a>> {
    let cost = |point: &Point<'_>| Some(metric.costs(&point.values(metric))).filter(|costs| !costs.is_empty()).map(|costs| median(&costs));
    let right = points.iter().filter(|point| !point.is_wrong());
    let mut with: Vec<(f64, &Point<'a>)> = right.filter_map(|point| Some((cost(point)?, *point))).collect();
    with.sort_by(|a, b| a.0.total_cmp(&b.0));
    with.into_iter().map(|(_, point)| point).collect()
}

/// Points by cost, followed by those that are not ranked.
pub fn by_cost<'p, 'a>(points: &[&'p Point<'a>], metric: Metric) -> Vec<&'p Point<'a>> {
    let mut ordered = ranked(points, metric);
    let rest: Vec<&Point<'_>> = points.iter().copied().filter(|point| !ordered.iter().any(|of| std::ptr::eq(*of, *point))).collect();
    ordered.extend(rest);
    ordered
}

pub fn beside(first: &Point<'_>, second: &Point<'_>, metric: Metric) -> Option<Difference> {
    difference(&metric.costs(&first.values(metric)), &metric.costs(&second.values(metric)))
}

/// Whether the second is significantly worse.
pub fn is_shown(best: &Point<'_>, other: &Point<'_>, metric: Metric) -> bool {
    beside(best, other, metric).is_some_and(|found| found.verdict == Verdict::Slower)
}

/// Who took least of a metric, and whether others may have taken as little; `None` where nothing has a number.
pub fn lead(points: &[&Point<'_>], metric: Metric) -> Option<String> {
    let ranked = ranked(points, metric);
    let (best, rest) = ranked.split_first()?;
    let shown = |point: &Point<'_>| point.summary(metric).map_or("-".into(), |s| metric.unit().show(s.median));
    let (worse, level): (Vec<&Point<'_>>, Vec<&Point<'_>>) = rest.iter().copied().partition(|point| is_shown(best, point, metric));
    let mut out = format!("{} took the least time: {}", best.contender, shown(best));
    if rest.is_empty() {
        out += ". There is nothing to compare it with.";
    } else if level.is_empty() {
        out += ".";
    } else {
        let few = level.iter().map(|p| p.good()).min().unwrap_or(0).min(best.good());
        let others = listed(&level.iter().map(|p| format!("{} ({})", p.contender, shown(p))).collect::<Vec<_>>(), 4);
        let why = if few < 4 { " Fewer than 4 repetitions of each cannot show a difference." } else { "" };
        out += &format!(", but the difference to {others} is not significant.{why}");
    }
    if let Some((next, found)) = worse.first().and_then(|next| Some((next, beside(best, next, metric)?))) {
        let sure = format!("{} to {} times", quotient(found.interval.0), quotient(found.interval.1));
        out += &format!(" {} took {} times as long ({sure}).", next.contender, quotient(found.ratio));
    }
    let wrong: Vec<String> = points.iter().filter(|point| point.is_wrong() && point.good() > 0).map(|p| p.contender.to_string()).collect();
    if !wrong.is_empty() {
        out += &format!(" Not ranked, because of WRONG results: {}.", listed(&wrong, 4));
    }
    Some(out)
}

/// `a, b and c`; beyond `most` of them `a, b and 7 more`.
pub fn listed(words: &[String], most: usize) -> String {
    let (shown, rest) = words.split_at(words.len().min(most));
    let more = (!rest.is_empty()).then(|| format!("{} more", rest.len()));
    let all: Vec<String> = shown.iter().cloned().chain(more).collect();
    match all.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

/// `a; b; c; and 4 more`: for names with commas.
pub fn few(places: &[String]) -> String {
    let (shown, rest) = places.split_at(places.len().min(3));
    let more = if rest.is_empty() { String::new() } else { format!("; and {} more", rest.len()) };
    format!("{}{more}", shown.join("; "))
}

/// Failures, one sentence for each contender and outcome; `place` says where.
pub fn troubles(points: &[&Point<'_>], place: &dyn Fn(&Point<'_>) -> String) -> Vec<String> {
    let failed = points.iter().flat_map(|point| point.failures().into_iter().map(move |(outcome, _)| (*point, outcome)));
    let same = gathered(failed, |(point, outcome)| (point.contender.to_string(), *outcome));
    same.into_iter().map(|group| trouble(group[0].1, &group.iter().map(|(point, _)| *point).collect::<Vec<_>>(), place)).collect()
}

fn trouble(outcome: Outcome, points: &[&Point<'_>], place: &dyn Fn(&Point<'_>) -> String) -> String {
    let contender = points[0].contender;
    let what = match outcome {
        Outcome::Wrong => "wrote copies that are WRONG",
        Outcome::Timeout => "did not end in time",
        Outcome::Missing => return format!("{contender} is not on this machine."),
        Outcome::Interrupted => "was interrupted",
        Outcome::Failed | Outcome::Ok => "failed",
    };
    let bad = || points.iter().flat_map(|point| &point.samples).filter(|sample| sample.outcome == outcome);
    let tried: usize = points.iter().map(|point| point.tried()).sum();
    let places: Vec<String> = points.iter().map(|point| place(point)).filter(|place| !place.is_empty()).collect();
    let places = if places.is_empty() { String::new() } else { format!(" ({})", few(&places)) };
    let reason = bad().next().and_then(|sample| sample.reason.as_ref());
    let reason = reason.map_or(String::new(), |why| format!(": {}", shortened(why.trim_end_matches('.'), 200)));
    format!("{contender} {what} {} of {tried} times{places}{reason}.", bad().count())
}
