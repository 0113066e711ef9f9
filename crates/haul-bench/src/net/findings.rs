//! What the samples say of the way. Pure.

use haul_stores::agent::{Load, Streams};
use serde::Serialize;
use serde_json::Value;

use super::load::{share, ssh_processors};
use super::plan::Direction;
use super::{CONTENDER, ROUND_TRIP};
use crate::record::{Latency, Outcome, Sample};
use crate::stats::{Summary, Verdict, difference};

/// What kept a point from being faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The network, or buffers that let too few bytes be under way on it: no processor was busy.
    Way,
    ProcessorsHere,
    ProcessorsThere,
    /// One ssh has one thread for its cipher.
    SshHere,
    SshThere,
    /// A stream has one thread on each side that seals and opens.
    ThreadsHere,
    ThreadsThere,
}

/// A share of a processor's time from which on it counts as used up.
const FULL: f64 = 0.9;
/// Of all processors, what haul and ssh must have used before they count as the limit: else others keep them busy, and what was
/// left was enough. The kernel's part of the work counts for neither.
const OWN: f64 = 0.1;

impl Limit {
    const ALL: [(Limit, &'static str); 7] = [
        (Limit::Way, "way"),
        (Limit::ProcessorsHere, "processors-here"),
        (Limit::ProcessorsThere, "processors-there"),
        (Limit::SshHere, "ssh-here"),
        (Limit::SshThere, "ssh-there"),
        (Limit::ThreadsHere, "threads-here"),
        (Limit::ThreadsThere, "threads-there"),
    ];

    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(limit, _)| *limit == self).map_or("way", |(_, word)| word)
    }

    pub(crate) fn from_word(word: &str) -> Option<Limit> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(limit, _)| *limit)
    }

    /// By what was used in a time: the whole machine first, then one ssh, then the threads of the streams.
    pub fn of(here: &Load, there: Option<&Load>, streams: Streams) -> Limit {
        let idle = Load::default();
        let there = there.unwrap_or(&idle);
        let full = |load: &Load| {
            let own = (load.own + load.ssh).as_secs_f64() / load.all.as_secs_f64().max(1e-9);
            share(load).is_some_and(|share| share >= FULL) && own >= OWN
        };
        let threads = |load: &Load| load.own.as_secs_f64() / load.at.as_secs_f64().max(1e-9) / streams.links.max(1) as f64 >= FULL;
        match () {
            () if full(here) => Limit::ProcessorsHere,
            () if full(there) => Limit::ProcessorsThere,
            () if !streams.direct && ssh_processors(here) >= FULL => Limit::SshHere,
            () if !streams.direct && ssh_processors(there) >= FULL => Limit::SshThere,
            () if streams.direct && threads(here) => Limit::ThreadsHere,
            () if streams.direct && threads(there) => Limit::ThreadsThere,
            () => Limit::Way,
        }
    }
}

/// What is known of one number of streams in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    pub streams: u32,
    /// Connections or sessions that carried the data: fewer than streams where no more could be made.
    pub links: u64,
    /// `direct`, `ssh` or `sftp`.
    pub way: String,
    /// Bytes a second: each measurement, and what they have in common.
    pub rates: Vec<f64>,
    pub rate: Summary,
    /// Files a second, the median.
    pub files: f64,
    /// Processor time of both sides a GiB, of haul and of ssh together, in seconds; medians.
    pub cpu_here: Option<f64>,
    pub cpu_there: Option<f64>,
    /// What limited it most often.
    pub limit: Limit,
}

/// All levels of one direction, by streams.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    pub direction: Direction,
    pub levels: Vec<Level>,
}

/// What one number of streams carries, compared with another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gain {
    /// The test finds a difference, and the medians differ by this share of the other's: 0.5 is half as much again, -0.5 half.
    Significant(f64),
    /// The medians differ by this share, which may be chance.
    NotSignificant(f64),
    /// The medians differ by less than anybody cares about.
    None,
}

/// What more streams than the fewest good ones bring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Beyond {
    /// The best point has the most streams that were measured: more may be better.
    Unknown,
    /// Of the most streams, compared with the best point.
    Most(Gain),
}

/// Rates that differ by less are the same for whoever chooses a number of streams.
const SAME: f64 = 0.05;

impl Level {
    /// What `other` carries, compared with this.
    pub fn gain(&self, other: &Level) -> Gain {
        let gain = other.rate.median / self.rate.median - 1.0;
        if gain.abs() <= SAME {
            return Gain::None;
        }
        let costs = |level: &Level| level.rates.iter().map(|rate| 1.0 / rate).collect::<Vec<f64>>();
        match difference(&costs(self), &costs(other)).map(|found| found.verdict) {
            Some(Verdict::Faster) if gain > 0.0 => Gain::Significant(gain),
            Some(Verdict::Slower) if gain < 0.0 => Gain::Significant(gain),
            _ => Gain::NotSignificant(gain),
        }
    }
}

impl Curve {
    /// The fewest streams whose median is the best one's, but for a twentieth.
    pub fn best(&self) -> Option<&Level> {
        let most = self.levels.iter().map(|level| level.rate.median).fold(0.0, f64::max);
        self.levels.iter().find(|level| level.rate.median >= most * (1.0 - SAME))
    }

    pub fn one_stream(&self) -> Option<&Level> {
        self.levels.iter().find(|level| level.streams == 1)
    }

    /// What the best number of streams brings over a single one; `None` where one is the best, or was not measured.
    pub fn over_one(&self) -> Option<Gain> {
        let (one, best) = (self.one_stream()?, self.best()?);
        (best.streams > one.streams).then(|| one.gain(best))
    }

    pub fn beyond(&self) -> Option<Beyond> {
        let (best, last) = (self.best()?, self.levels.last()?);
        if best.streams == last.streams {
            return (self.levels.len() > 1).then_some(Beyond::Unknown);
        }
        Some(Beyond::Most(best.gain(last)))
    }
}

/// All that a run has found out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    pub round_trip: Option<Latency>,
    /// Seconds.
    pub round_trip_least: Option<f64>,
    pub curves: Vec<Curve>,
    /// Measurements that failed.
    pub failed: usize,
}

/// The median of the questions, in seconds.
pub fn round_trip(samples: &[Sample]) -> Option<&Latency> {
    samples.iter().rfind(|sample| sample.contender == ROUND_TRIP)?.latency.as_ref()
}

impl Findings {
    pub fn of(samples: &[Sample]) -> Findings {
        let asked = samples.iter().rfind(|sample| sample.contender == ROUND_TRIP);
        let of = |sample: &Sample, factor: &str| sample.factors.get(factor).cloned().unwrap_or_default();
        let curve = |direction: &Direction| {
            let own: Vec<&Sample> =
                samples.iter().filter(|s| s.contender == CONTENDER && s.counts() && of(s, "direction") == direction.word()).collect();
            let mut streams: Vec<u32> = own.iter().filter_map(|s| u32::try_from(of(s, "streams").as_u64()?).ok()).collect();
            streams.sort_unstable();
            streams.dedup();
            let level = |streams: u32| level(streams, &own.iter().copied().filter(|s| of(s, "streams") == streams).collect::<Vec<_>>());
            Curve { direction: *direction, levels: streams.into_iter().filter_map(level).collect() }
        };
        Findings {
            round_trip: asked.and_then(|sample| sample.latency.clone()),
            round_trip_least: asked.and_then(|sample| sample.more.get("min_seconds")?.as_f64()),
            curves: Direction::BOTH.iter().map(curve).filter(|curve| !curve.levels.is_empty()).collect(),
            failed: samples.iter().filter(|sample| !matches!(sample.outcome, Outcome::Ok | Outcome::Interrupted)).count(),
        }
    }
}

fn level(streams: u32, samples: &[&Sample]) -> Option<Level> {
    let rates: Vec<f64> = samples.iter().filter_map(|sample| sample.rate()).collect();
    let files: Vec<f64> = samples.iter().filter_map(|sample| sample.files_rate()).collect();
    let cpu = |side: &str| {
        let one = |sample: &&Sample| {
            let number = |name: &str| sample.more.get(&format!("{side}_{name}_seconds"))?.as_f64();
            Some((number("cpu")? + number("ssh")?) / (sample.bytes.filter(|bytes| *bytes > 0)? as f64 / f64::from(1 << 30)))
        };
        let each: Vec<f64> = samples.iter().filter_map(one).collect();
        (!each.is_empty()).then(|| crate::stats::median(&each))
    };
    let mut limits: Vec<Limit> = samples.iter().filter_map(|sample| Limit::from_word(sample.limited_by.as_deref()?)).collect();
    limits.sort_unstable();
    let limit = limits.chunk_by(|a, b| a == b).max_by_key(|same| same.len()).map_or(Limit::Way, |same| same[0]);
    let last = samples.last()?;
    Some(Level {
        streams,
        links: last.more.get("links").and_then(Value::as_u64).unwrap_or(0),
        way: last.more.get("way").and_then(Value::as_str).unwrap_or_default().to_string(),
        rate: Summary::of(&rates)?,
        rates,
        files: crate::stats::median(&files),
        cpu_here: cpu("here"),
        cpu_there: cpu("there"),
        limit,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::net::Point;

    fn sample(direction: Direction, streams: u32, repetition: u32, rate: u64) -> Sample {
        Sample {
            contender: CONTENDER.into(),
            repetition,
            factors: Point { repetition, direction, streams }.factors(),
            seconds: Some(2.0),
            bytes: Some(rate * 2),
            files: Some(4),
            limited_by: Some("way".into()),
            more: [
                ("links", Value::from(streams)),
                ("way", "direct".into()),
                ("here_cpu_seconds", 0.5.into()),
                ("here_ssh_seconds", 0.1.into()),
            ]
            .map(|(name, value)| (name.to_string(), value))
            .into(),
            ..Sample::default()
        }
    }

    fn curve(rates: &[(u32, u64)]) -> Curve {
        let samples: Vec<Sample> =
            rates.iter().flat_map(|(streams, rate)| (1..=4).map(|n| sample(Direction::Out, *streams, n, *rate))).collect();
        Findings::of(&samples).curves.remove(0)
    }

    #[test]
    fn the_best_point_is_the_fewest_streams_that_are_as_good_as_any() {
        // Rates that fall again, as between the sites of the references.
        let falls = curve(&[(1, 100), (2, 190), (4, 370), (6, 490), (8, 500), (16, 250)]);
        assert_eq!(falls.best().map(|level| level.streams), Some(6));
        assert_eq!(falls.one_stream().map(|level| level.rate.median), Some(100.0));
        let lost = |gain: f64| (gain + 0.4898).abs() < 0.001;
        assert!(matches!(falls.beyond(), Some(Beyond::Most(Gain::Significant(gain))) if lost(gain)), "{:?}", falls.beyond());
        assert!(matches!(falls.over_one(), Some(Gain::Significant(gain)) if (gain - 3.9).abs() < 0.001), "{:?}", falls.over_one());
        assert_eq!(curve(&[(1, 100), (2, 99), (4, 101)]).beyond(), Some(Beyond::Most(Gain::None)));
        assert_eq!(curve(&[(1, 100), (2, 99), (4, 101)]).over_one(), None);
        assert_eq!(curve(&[(1, 100), (2, 200)]).beyond(), Some(Beyond::Unknown));
        assert_eq!(curve(&[(1, 100)]).beyond(), None);
    }

    #[test]
    fn what_may_be_chance_is_no_gain_and_no_loss() {
        let of = |streams: u32, rates: &[u64]| -> Vec<Sample> {
            rates.iter().zip(1..).map(|(rate, n)| sample(Direction::Out, streams, n, *rate)).collect()
        };
        let beyond = |one: &[u64], four: &[u64]| Findings::of(&[of(1, one), of(4, four)].concat()).curves.remove(0).beyond();
        // The medians say 32 %; the ranges overlap.
        let overlap = beyond(&[800, 1200], &[400, 960]);
        assert!(matches!(overlap, Some(Beyond::Most(Gain::NotSignificant(gain))) if (gain + 0.32).abs() < 0.001), "{overlap:?}");
        // Apart, but two measurements each come out like this one time in three where nothing differs.
        assert!(matches!(beyond(&[1000, 1000], &[500, 500]), Some(Beyond::Most(Gain::NotSignificant(_)))));
        let apart = beyond(&[1000, 1010, 990, 1005], &[500, 510, 490, 505]);
        assert!(matches!(apart, Some(Beyond::Most(Gain::Significant(gain))) if (gain + 0.5).abs() < 0.01), "{apart:?}");
        assert_eq!(Findings::of(&of(1, &[5])).curves[0].over_one(), None);
    }

    #[test]
    fn what_failed_counts_for_nothing_and_is_counted() {
        let mut samples = vec![sample(Direction::In, 1, 1, 100), sample(Direction::In, 1, 2, 300)];
        samples.push(Sample { outcome: Outcome::Failed, ..sample(Direction::In, 2, 1, 900) });
        samples.push(Sample { outcome: Outcome::Interrupted, ..sample(Direction::In, 2, 2, 900) });
        let found = Findings::of(&samples);
        assert_eq!((found.failed, found.curves.len(), found.curves[0].levels.len()), (1, 1, 1));
        let level = &found.curves[0].levels[0];
        assert_eq!((level.rate.median, level.rate.count, level.limit, level.files), (200.0, 2, Limit::Way, 2.0));
        // 0.6 s for 200 and for 600 bytes: the median of 3 and 1 ms a byte.
        assert_eq!((level.cpu_here.map(|cpu| (cpu / f64::from(1 << 30) * 1e6).round()), level.cpu_there), (Some(2000.0), None));
    }

    #[test]
    fn the_busiest_is_what_limits() {
        let second = Duration::from_secs(1);
        let idle = Load { at: second, busy: second / 10, all: second * 4, processors: 4, ..Load::default() };
        let full = Load { busy: second * 39 / 10, own: second, ..idle };
        let direct = Streams { links: 2, direct: true };
        let ssh = Streams { links: 2, direct: false };
        let of = |here: Load, there: Load, streams| Limit::of(&here, Some(&there), streams);
        assert_eq!(of(idle, idle, direct), Limit::Way);
        assert_eq!((of(full, idle, direct), of(idle, full, ssh)), (Limit::ProcessorsHere, Limit::ProcessorsThere));
        // Others keep the machine busy.
        assert_eq!(of(Load { own: second / 10, ..full }, idle, direct), Limit::Way);
        let cipher = Load { ssh: second * 95 / 100, ..idle };
        assert_eq!(
            (of(cipher, idle, ssh), of(idle, cipher, ssh), of(cipher, cipher, direct)),
            (Limit::SshHere, Limit::SshThere, Limit::Way)
        );
        let busy = Load { own: second * 19 / 10, ..idle };
        assert_eq!(
            (of(busy, idle, direct), of(idle, busy, direct), of(busy, busy, ssh)),
            (Limit::ThreadsHere, Limit::ThreadsThere, Limit::Way)
        );
        for (limit, word) in Limit::ALL {
            assert_eq!((limit.word(), Limit::from_word(word)), (word, Some(limit)));
        }
    }
}
