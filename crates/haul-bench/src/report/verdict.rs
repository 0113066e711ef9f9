//! Who was best, and whether that is shown.

use super::point::{Metric, Point};
use crate::plot::ruler::{quotient, times};
use crate::stats::{Difference, Verdict, difference};

/// Points by what they cost, the best first; those without a number are left out.
pub fn ranked<'p, 'a>(points: &[&'p Point<'a>], metric: Metric) -> Vec<&'p Point<'a>> {
    let mut with: Vec<(f64, &Point<'a>)> = points
        .iter()
        .filter_map(|point| {
            let costs = metric.costs(&point.values(metric));
            (!costs.is_empty()).then(|| (crate::stats::median(&costs), *point))
        })
        .collect();
    with.sort_by(|a, b| a.0.total_cmp(&b.0));
    with.into_iter().map(|(_, point)| point).collect()
}

/// What `second` costs beside `first`.
pub fn beside(first: &Point<'_>, second: &Point<'_>, metric: Metric) -> Option<Difference> {
    difference(&metric.costs(&first.values(metric)), &metric.costs(&second.values(metric)))
}

/// The best, and those of which no difference to it is shown.
pub struct Lead<'p, 'a> {
    pub best: &'p Point<'a>,
    pub level: Vec<&'p Point<'a>>,
    /// The best of those that are shown to be worse, and how much.
    pub next: Option<(&'p Point<'a>, Difference)>,
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
        Some(Lead { best, level, next })
    }

    /// In a sentence. `name` says what a point is, `verb` what it did: `took least time`.
    pub fn sentence(&self, metric: Metric, verb: &str, name: &dyn Fn(&Point<'_>) -> String) -> String {
        let shown = |point: &Point<'_>| point.summary(metric).map_or("-".into(), |s| metric.unit().show(s.median));
        let best = format!("{} {verb}: {}", name(self.best), shown(self.best));
        let alone = self.level.is_empty() && self.next.is_none();
        if alone {
            return format!("{best}. There is nothing else to compare it with.");
        }
        let next = self.next.as_ref().map(|(point, found)| {
            let sure = format!("{} to {}", quotient(found.interval.0), times(found.interval.1));
            format!("{} took {} as long ({sure})", name(point), times(found.ratio))
        });
        if self.level.is_empty() {
            return format!("{best}. Next came {}.", next.unwrap_or_default().replacen(" took ", ", which took ", 1));
        }
        let few = self.best.good().min(self.level.iter().map(|p| p.good()).min().unwrap_or(0));
        let others = listed(&self.level.iter().map(|p| format!("{} ({})", name(p), shown(p))).collect::<Vec<_>>(), 4);
        let why = if few < 4 { " Fewer than 4 repetitions of each cannot show one." } else { "" };
        let next = next.map_or(String::new(), |next| format!(" {next}."));
        format!("{best}, but no difference is shown between it and {others}.{why}{next}")
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

fn few(places: &[String]) -> String {
    let (shown, rest) = places.split_at(places.len().min(3));
    let more = if rest.is_empty() { String::new() } else { format!("; and {} more", rest.len()) };
    format!("{}{more}", shown.join("; "))
}

/// What went wrong, a sentence a contender and kind of failure; reasons are those of the first.
pub fn troubles(points: &[&Point<'_>], name: &dyn Fn(&Point<'_>) -> String) -> Vec<String> {
    use crate::record::Outcome;
    let mut out: Vec<(String, usize, usize, Vec<String>, Option<String>)> = Vec::new();
    for point in points {
        for (outcome, count) in point.failures() {
            let what = match outcome {
                Outcome::Wrong => "wrote copies that are WRONG",
                Outcome::Timeout => "did not end in time",
                Outcome::Missing => "is not on this machine",
                Outcome::Interrupted => "was interrupted",
                Outcome::Failed | Outcome::Ok => "failed",
            };
            let reason = point.samples.iter().find(|s| s.outcome == outcome).and_then(|s| s.reason.clone());
            let key = format!("{} {what}", point.contender);
            let at = name(point);
            match out.iter_mut().find(|(of, ..)| *of == key) {
                Some((_, bad, tried, places, _)) => {
                    *bad += count;
                    *tried += point.tried();
                    places.push(at);
                }
                None => out.push((key, count, point.tried(), vec![at], reason)),
            }
        }
    }
    out.into_iter()
        .map(|(what, bad, tried, places, reason)| {
            let missing = what.ends_with("is not on this machine");
            let often = if missing { String::new() } else { format!(" {bad} of {tried} times") };
            let places: Vec<String> = places.into_iter().filter(|p| !p.is_empty()).collect();
            let places = if places.is_empty() || missing { String::new() } else { format!(" ({})", few(&places)) };
            let reason = reason.filter(|_| !missing).map_or(String::new(), |why| format!(": {}", crate::plot::shortened(&why, 200)));
            format!("{what}{often}{places}{reason}.").replace("..", ".")
        })
        .collect()
}
