//! The best contender, and whether its lead is significant.

use super::point::{Metric, Point};
use crate::plot::ruler::{quotient, times};
use crate::plot::shortened;
use crate::record::Outcome;
use crate::stats::{Difference, Verdict, difference};

/// Points by cost, the best first, without those that have no number or were wrong even once.
pub fn ranked<'p, 'a>(points: &[&'p Point<'a>], metric: Metric) -> Vec<&'p Point<'a>> {
    let mut with: Vec<(f64, &Point<'a>)> = points
        .iter()
        .filter(|point| !point.is_wrong())
        .filter_map(|point| {
            let costs = metric.costs(&point.values(metric));
            (!costs.is_empty()).then(|| (crate::stats::median(&costs), *point))
        })
        .collect();
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

/// The best, and those that are not significantly worse.
pub struct Lead<'p, 'a> {
    pub best: &'p Point<'a>,
    pub level: Vec<&'p Point<'a>>,
    /// The best of those that are shown to be worse, and how much.
    pub next: Option<(&'p Point<'a>, Difference)>,
    /// Those that have numbers and are not ranked, because they were wrong.
    pub wrong: Vec<&'p Point<'a>>,
}

impl<'p, 'a> Lead<'p, 'a> {
    /// `None` where nothing has a number.
    pub fn of(points: &[&'p Point<'a>], metric: Metric) -> Option<Lead<'p, 'a>> {
        let ranked = ranked(points, metric);
        let (best, rest) = ranked.split_first()?;
        let (mut level, mut next) = (Vec::new(), None);
        for point in rest {
            match beside(best, point, metric) {
                Some(found) if found.verdict == Verdict::Slower => {
                    next = next.or(Some((*point, found)));
                }
                _ => level.push(*point),
            }
        }
        let wrong = points.iter().copied().filter(|point| point.is_wrong() && point.good() > 0).collect();
        Some(Lead { best, level, next, wrong })
    }

    /// Who is not ranked, and why; empty where all are.
    pub fn left_out(&self, name: &dyn Fn(&Point<'_>) -> String) -> String {
        let names: Vec<String> = self.wrong.iter().map(|point| name(point)).collect();
        if names.is_empty() { String::new() } else { format!(" Not ranked, because of WRONG results: {}.", listed(&names, 4)) }
    }

    /// In a sentence. `name` is that of a point, `verb` its achievement: `took the least time`.
    pub fn sentence(&self, metric: Metric, verb: &str, name: &dyn Fn(&Point<'_>) -> String) -> String {
        self.order(metric, verb, name) + &self.left_out(name)
    }

    fn order(&self, metric: Metric, verb: &str, name: &dyn Fn(&Point<'_>) -> String) -> String {
        let shown = |point: &Point<'_>| point.summary(metric).map_or("-".into(), |s| metric.unit().show(s.median));
        let best = format!("{} {verb}: {}", name(self.best), shown(self.best));
        let alone = self.level.is_empty() && self.next.is_none();
        if alone {
            return format!("{best}. There is nothing to compare it with.");
        }
        let next = self.next.as_ref().map_or(String::new(), |(point, found)| {
            let sure = format!("{} to {}", quotient(found.interval.0), times(found.interval.1));
            format!(" {} took {} as long ({sure}).", name(point), times(found.ratio))
        });
        if self.level.is_empty() {
            return format!("{best}.{next}");
        }
        let few = self.best.good().min(self.level.iter().map(|p| p.good()).min().unwrap_or(0));
        let others = listed(&self.level.iter().map(|p| format!("{} ({})", name(p), shown(p))).collect::<Vec<_>>(), 4);
        let why = if few < 4 { " Fewer than 4 repetitions of each cannot show a difference." } else { "" };
        format!("{best}, but the difference to {others} is not significant.{why}{next}")
    }
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
    let mut found: Vec<((&str, Outcome), Vec<&Point<'_>>)> = Vec::new();
    for (point, outcome) in points.iter().flat_map(|point| point.failures().into_iter().map(move |(outcome, _)| (*point, outcome))) {
        let key = (point.contender, outcome);
        match found.iter_mut().find(|(known, _)| *known == key) {
            Some((_, points)) => points.push(point),
            None => found.push((key, vec![point])),
        }
    }
    found.into_iter().map(|((contender, outcome), points)| trouble(contender, outcome, &points, place)).collect()
}

fn trouble(contender: &str, outcome: Outcome, points: &[&Point<'_>], place: &dyn Fn(&Point<'_>) -> String) -> String {
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
