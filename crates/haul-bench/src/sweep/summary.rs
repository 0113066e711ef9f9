//! What a sweep says: which fixed setting was best, and how near to it haul's own choice came. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use super::OWN;
use crate::record::{Outcome, Sample};
use crate::stats::{Difference, Summary, Verdict, difference, median};

/// One setting over all its repetitions.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub name: String,
    pub factors: BTreeMap<String, Value>,
    /// Haul chose everything.
    pub own: bool,
    /// Seconds; `None` where no copy counts.
    pub wall: Option<Summary>,
    /// Medians of what each copy had: bytes and files a second.
    pub rate: Option<f64>,
    pub files_rate: Option<f64>,
    pub right: u32,
    pub troubles: Vec<(Outcome, String)>,
}

/// All settings of one direction, fastest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// `put`, `get`; empty where there is only one.
    pub direction: String,
    pub lines: Vec<Line>,
    /// How many other fixed settings are not significantly slower than the best.
    pub level: usize,
    /// Of the best fixed setting's speed, what haul's own choice reaches: 1 is all of it.
    pub reached: Option<Reached>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    pub share: f64,
    /// Bounds of the share, as those of the difference.
    pub interval: (f64, f64),
    pub difference: Difference,
}

impl Side {
    /// The fastest of the fixed settings.
    pub fn best(&self) -> Option<&Line> {
        self.lines.iter().find(|line| !line.own && line.wall.is_some())
    }
}

/// By direction. Note that the best of many settings is picked by its own measurements, which flatters it: the share is rather
/// more in truth than what is said here.
pub fn sides(samples: &[Sample]) -> Vec<Side> {
    let direction = |sample: &Sample| sample.factors.get("direction").and_then(Value::as_str).unwrap_or_default().to_string();
    let mut by_direction: BTreeMap<String, Vec<&Sample>> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.repetition > 0) {
        by_direction.entry(direction(sample)).or_default().push(sample);
    }
    by_direction.into_iter().map(|(direction, samples)| side(direction, &samples)).collect()
}

fn times(samples: &[&Sample], key: &str) -> Vec<f64> {
    samples.iter().filter(|s| s.key() == key && s.counts()).filter_map(|s| s.seconds).collect()
}

fn side(direction: String, samples: &[&Sample]) -> Side {
    let mut keys: Vec<String> = Vec::new();
    for sample in samples {
        let key = sample.key();
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let mut lines: Vec<(String, Line)> = keys.into_iter().filter_map(|key| Some((key.clone(), line(samples, &key)?))).collect();
    lines.sort_by(|(_, a), (_, b)| {
        let time = |line: &Line| line.wall.map_or(f64::INFINITY, |wall| wall.median);
        time(a).total_cmp(&time(b))
    });
    let key_of = |own: bool| lines.iter().find(|(_, line)| line.own == own && line.wall.is_some()).map(|(key, _)| key.as_str());
    let reached = key_of(false).zip(key_of(true)).and_then(|(best, own)| {
        // Speeds are to each other as times are, turned round.
        let difference = difference(&times(samples, best), &times(samples, own))?;
        let interval = (1.0 / difference.interval.1, 1.0 / difference.interval.0);
        Some(Reached { share: 1.0 / difference.ratio, interval, difference })
    });
    let best = key_of(false).map(|best| times(samples, best));
    let fixed = lines.iter().filter(|(key, line)| !line.own && line.wall.is_some() && Some(key.as_str()) != key_of(false));
    let level = fixed.filter(|(key, _)| {
        let found = best.as_ref().and_then(|best| difference(best, &times(samples, key)));
        found.is_none_or(|found| found.verdict != Verdict::Slower)
    });
    let level = level.count();
    Side { direction, level, reached, lines: lines.into_iter().map(|(_, line)| line).collect() }
}

fn line(samples: &[&Sample], key: &str) -> Option<Line> {
    let own: Vec<&&Sample> = samples.iter().filter(|s| s.key() == key).collect();
    let first = own.first()?;
    let wrong = own.iter().any(|s| s.outcome == Outcome::Wrong);
    let wall = Summary::of(&times(samples, key)).filter(|_| !wrong);
    let rate = |of: fn(&Sample) -> Option<f64>| {
        let each: Vec<f64> = own.iter().filter(|s| s.counts()).filter_map(|s| of(s)).collect();
        Some(median(&each)).filter(|rate| wall.is_some() && rate.is_finite())
    };
    let mut troubles: Vec<(Outcome, String)> = Vec::new();
    for sample in own.iter().filter(|s| !matches!(s.outcome, Outcome::Ok | Outcome::Interrupted)) {
        let trouble = (sample.outcome, sample.reason.clone().unwrap_or_default());
        if !troubles.contains(&trouble) {
            troubles.push(trouble);
        }
    }
    Some(Line {
        name: first.contender.clone(),
        factors: first.factors.clone(),
        own: first.factors.iter().filter(|(name, _)| *name != "direction").all(|(_, value)| value == OWN),
        wall,
        rate: rate(|s| s.rate()),
        files_rate: rate(|s| s.files_rate()),
        right: own.iter().filter(|s| s.counts()).count() as u32,
        troubles,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::{Direction, Grid, Point};

    fn samples(direction: Direction, workers: Option<u32>, times: &[f64]) -> Vec<Sample> {
        let grid = Grid { workers: vec![1], ..Grid::default() };
        let factors = grid.factors(Point { workers, ..Point::default() }, Some(direction));
        let sample = |(n, seconds): (usize, &f64)| Sample {
            contender: workers.map_or("haul".into(), |n| format!("haul -j {n}")),
            factors: factors.clone(),
            repetition: n as u32 + 1,
            seconds: Some(*seconds),
            bytes: Some(100),
            ..Sample::default()
        };
        times.iter().enumerate().map(sample).collect()
    }

    #[test]
    fn the_own_choice_is_held_against_the_best_in_each_direction() {
        use Direction::{Get, Put};
        let all = [
            samples(Put, None, &[2.0, 2.02, 2.04, 2.06, 2.08]),
            samples(Put, Some(1), &[4.0, 4.1, 4.2, 4.3, 4.4]),
            samples(Put, Some(4), &[1.0, 1.01, 1.02, 1.03, 1.04]),
            samples(Get, None, &[1.0, 1.1]),
            samples(Get, Some(4), &[1.05, 1.06]),
            samples(Get, Some(8), &[1.5, 1.01]),
        ]
        .concat();
        let sides = sides(&all);
        assert_eq!(sides.iter().map(|side| side.direction.as_str()).collect::<Vec<_>>(), ["get", "put"]);
        let put = &sides[1];
        assert_eq!((put.best().unwrap().name.as_str(), put.level, sides[0].level), ("haul -j 4", 0, 1));
        let reached = put.reached.unwrap();
        assert!((reached.share - 0.5).abs() < 0.01 && reached.interval.0 < 0.5 && reached.interval.1 > 0.49, "{reached:?}");
        assert_eq!(reached.difference.verdict, Verdict::Slower);
        assert_eq!(sides[0].reached.unwrap().difference.verdict, Verdict::NotSignificant);
        assert!((put.lines[0].rate.unwrap() - 100.0 / 1.02).abs() < 1e-9);
    }

    #[test]
    fn a_rate_is_of_the_bytes_of_the_same_copy() {
        let mut all = samples(Direction::Put, Some(1), &[1.0, 2.0, 4.0]);
        all[0].bytes = Some(10);
        assert_eq!(sides(&all)[0].lines[0].rate, Some(25.0), "of 10, 50 and 25 bytes a second");
    }

    #[test]
    fn what_was_not_measured_is_not_said() {
        assert!(sides(&[]).is_empty());
        let mut only_own = samples(Direction::Put, None, &[1.0]);
        only_own[0].outcome = Outcome::Failed;
        only_own[0].reason = Some("why".into());
        let sides = sides(&only_own);
        assert!(sides[0].reached.is_none() && sides[0].best().is_none() && sides[0].lines[0].wall.is_none());
        assert_eq!(sides[0].lines[0].troubles, [(Outcome::Failed, "why".to_string())]);
    }
}
