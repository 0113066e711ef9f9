//! What the samples of a run say of each tool. Pure.

use crate::record::{Outcome, Sample};
use crate::stats::{Difference, Summary, difference, median};

/// One tool, over all its repetitions.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub name: String,
    /// Seconds from start to end; `None` where no copy counts.
    pub wall: Option<Summary>,
    /// Median of the processor time in user mode and in the kernel, seconds.
    pub user: f64,
    pub system: f64,
    /// The largest of all, bytes; `None` where no run had more than can be told.
    pub peak: Option<u64>,
    /// What it was below then, bytes.
    pub peak_below: Option<u64>,
    /// Medians of what each copy had: bytes and files a second.
    pub rate: Option<f64>,
    pub files_rate: Option<f64>,
    /// To the first tool that has any; `None` for that one.
    pub against: Option<Difference>,
    pub right: u32,
    /// Copies that were made.
    pub made: u32,
    pub kept: String,
    /// How it went where it did not go well, and why; each only once.
    pub troubles: Vec<(Outcome, String)>,
    /// No copy of it was wrong, and at least one was right.
    pub ranked: bool,
}

/// One row a tool: those that are ranked by time, then the others as they were asked for. Ratios are to the first of `names` that
/// is ranked.
pub fn rank(names: &[String], samples: &[Sample]) -> Vec<Row> {
    let of = |name: &String| samples.iter().filter(|s| s.contender == *name && s.repetition > 0).collect::<Vec<_>>();
    let times = |own: &[&Sample]| own.iter().filter(|s| s.counts()).filter_map(|s| s.seconds).collect::<Vec<f64>>();
    let is_ranked = |own: &[&Sample]| !times(own).is_empty() && !own.iter().any(|s| s.outcome == Outcome::Wrong);
    let first = names.iter().find(|name| is_ranked(&of(name)));
    let base = first.map(|name| times(&of(name)));
    let mut rows: Vec<Row> = names
        .iter()
        .map(|name| {
            let own = of(name);
            let good: Vec<&&Sample> = own.iter().filter(|s| s.counts()).collect();
            let ranked = is_ranked(&own);
            let wall = Summary::of(&times(&own)).filter(|_| ranked);
            let numbers = |of: fn(&Sample) -> Option<f64>| median(&good.iter().filter_map(|s| of(s)).collect::<Vec<_>>());
            let rate = |of: fn(&Sample) -> Option<f64>| Some(numbers(of)).filter(|rate| ranked && rate.is_finite());
            let against = base.as_ref().filter(|_| ranked && first != Some(name)).and_then(|base| difference(base, &times(&own)));
            Row {
                name: name.clone(),
                wall,
                user: numbers(|s| s.user),
                system: numbers(|s| s.system),
                peak: good.iter().filter_map(|s| s.peak).max(),
                peak_below: good.iter().filter_map(|s| s.more.get("peak_below")?.as_u64()).max(),
                rate: rate(|s| s.rate()),
                files_rate: rate(|s| s.files_rate()),
                against,
                right: good.len() as u32,
                made: own.iter().filter(|s| matches!(s.outcome, Outcome::Ok | Outcome::Wrong)).count() as u32,
                kept: good.iter().find_map(|s| s.more.get("kept")?.as_str()).unwrap_or_default().to_string(),
                troubles: troubles(&own),
                ranked,
            }
        })
        .collect();
    rows.sort_by(|a, b| {
        let time = |row: &Row| row.wall.map_or(f64::INFINITY, |wall| wall.median);
        time(a).total_cmp(&time(b))
    });
    rows
}

fn troubles(own: &[&Sample]) -> Vec<(Outcome, String)> {
    let mut found: Vec<(Outcome, String)> = Vec::new();
    for sample in own.iter().filter(|s| !matches!(s.outcome, Outcome::Ok | Outcome::Interrupted)) {
        let trouble = (sample.outcome, sample.reason.clone().unwrap_or_default());
        if !found.contains(&trouble) {
            found.push(trouble);
        }
    }
    found
}

/// Seconds that `bytes` would take at a rate (bytes a second), if all of it were as what was measured.
pub fn extrapolate(rate: Option<f64>, bytes: u64) -> Option<f64> {
    rate.filter(|rate| *rate > 0.0).map(|rate| bytes as f64 / rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Verdict;

    fn sample(name: &str, repetition: u32, outcome: Outcome, seconds: f64) -> Sample {
        Sample {
            contender: name.into(),
            repetition,
            outcome,
            seconds: Some(seconds),
            bytes: Some(1000),
            files: Some(10),
            user: Some(seconds / 2.0),
            peak: Some(repetition.into()),
            reason: (outcome != Outcome::Ok).then(|| "why".to_string()),
            ..Sample::default()
        }
    }

    #[test]
    fn what_copies_wrongly_is_no_winner() {
        let names = ["haul", "liar", "cp", "gone"].map(String::from);
        let mut samples = vec![sample("haul", 0, Outcome::Ok, 100.0)];
        for n in 1..=5u32 {
            samples.push(sample("haul", n, Outcome::Ok, 2.0 + f64::from(n) / 100.0));
            samples.push(sample("cp", n, Outcome::Ok, 1.0 + f64::from(n) / 100.0));
            samples.push(sample("liar", n, if n == 3 { Outcome::Wrong } else { Outcome::Ok }, 0.1));
        }
        samples.push(sample("gone", 1, Outcome::Missing, 0.0));
        let rows = rank(&names, &samples);
        assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["cp", "haul", "liar", "gone"]);
        assert_eq!(rows.iter().map(|row| row.ranked).collect::<Vec<_>>(), [true, true, false, false]);
        let cp = rows[0].against.unwrap();
        assert!(cp.verdict == Verdict::Faster && cp.ratio < 0.52, "{cp:?}");
        assert_eq!((rows[1].against, rows[1].right, rows[1].made, rows[1].peak), (None, 5, 5, Some(5)));
        assert!((rows[1].rate.unwrap() - 1000.0 / 2.03).abs() < 1e-6, "the warm-up does not count");
        assert_eq!((rows[2].wall, rows[2].right, rows[2].made), (None, 4, 5));
        assert_eq!(rows[2].troubles, [(Outcome::Wrong, "why".to_string())]);
        assert_eq!((rows[3].made, rows[3].troubles[0].0), (0, Outcome::Missing));
    }

    #[test]
    fn the_first_that_is_right_is_what_others_are_held_against() {
        let names = ["liar", "cp", "haul"].map(String::from);
        let samples: Vec<Sample> = (1..=5)
            .flat_map(|n| {
                let more = f64::from(n) / 100.0;
                [
                    sample("liar", n, Outcome::Wrong, 0.1),
                    sample("cp", n, Outcome::Ok, 1.0 + more),
                    sample("haul", n, Outcome::Ok, 1.0 + more),
                ]
            })
            .collect();
        let rows = rank(&names, &samples);
        assert_eq!(rows[0].name, "cp");
        assert_eq!(rows[1].against.unwrap().verdict, Verdict::NotSignificant);
    }

    #[test]
    fn a_rate_is_of_the_bytes_of_the_same_copy() {
        let mut samples = [1, 2, 3].map(|n| sample("cp", n, Outcome::Ok, f64::from(n))).to_vec();
        samples[0].bytes = Some(100);
        samples[1].bytes = Some(4000);
        let row = &rank(&["cp".to_string()], &samples)[0];
        assert_eq!((row.rate, row.files_rate), (Some(1000.0 / 3.0), Some(5.0)), "of 100, 2000 and 333 bytes a second");
    }

    #[test]
    fn nothing_is_made_up() {
        assert!(rank(&["x".to_string()], &[])[0].wall.is_none());
        assert_eq!(extrapolate(Some(100.0), 13_000), Some(130.0));
        assert_eq!(extrapolate(Some(0.0), 1), None);
        assert_eq!(extrapolate(None, 1), None);
    }
}
