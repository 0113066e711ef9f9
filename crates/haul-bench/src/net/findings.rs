//! Network throughput by streams and direction, from the samples. Pure.

use haul_stores::agent::{Load, Streams};

use super::CONTENDER;
use super::load::{share, ssh_processors};
use super::plan::Direction;
use crate::record::Sample;
use crate::report::{Metric, Point, points};
use crate::stats::{Summary, Verdict, difference};

/// What kept a point from being faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The network, or buffers that let too few bytes be under way on it: no processor was busy.
    Network,
    ProcessorsHere,
    ProcessorsRemote,
    /// One ssh has one thread for its cipher.
    SshHere,
    SshRemote,
    /// A stream has one thread on each side that seals and opens.
    ThreadsHere,
    ThreadsRemote,
}

/// A share of a processor's time from which on it counts as used up.
const FULL: f64 = 0.9;
/// Of all processors, what haul and ssh must have used before they count as the limit: else others keep them busy, and what was
/// left was enough. The kernel's part of the work counts for neither.
const OWN: f64 = 0.1;

impl Limit {
    const ALL: [(Limit, &'static str); 7] = [
        (Limit::Network, "way"),
        (Limit::ProcessorsHere, "processors-here"),
        (Limit::ProcessorsRemote, "processors-there"),
        (Limit::SshHere, "ssh-here"),
        (Limit::SshRemote, "ssh-there"),
        (Limit::ThreadsHere, "threads-here"),
        (Limit::ThreadsRemote, "threads-there"),
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
            () if full(there) => Limit::ProcessorsRemote,
            () if !streams.direct && ssh_processors(here) >= FULL => Limit::SshHere,
            () if !streams.direct && ssh_processors(there) >= FULL => Limit::SshRemote,
            () if streams.direct && threads(here) => Limit::ThreadsHere,
            () if streams.direct && threads(there) => Limit::ThreadsRemote,
            () => Limit::Network,
        }
    }
}

/// One number of streams in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    pub streams: u32,
    /// Connections or sessions that carried the data: fewer than streams if no more could be made.
    pub links: u64,
    /// `direct`, `ssh` or `sftp`.
    pub route: String,
    /// Bytes per second.
    pub rates: Vec<f64>,
    pub rate: Summary,
    /// Files per second, the median.
    pub files: Option<f64>,
    /// CPU seconds per GiB of haul and ssh together; medians.
    pub cpu_here: Option<f64>,
    pub cpu_remote: Option<f64>,
    /// The most frequent limit.
    pub limit: Limit,
}

/// All levels of one direction, by streams.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    pub direction: Direction,
    pub levels: Vec<Level>,
}

/// Medians that differ by less count as equal.
const SAME: f64 = 0.05;

impl Level {
    fn of(point: &Point<'_>) -> Option<Level> {
        let rates = point.values(Metric::Rate);
        let cpu = |side: &str| {
            point.median_of(|sample| {
                let number = |name: &str| sample.more.get(&format!("{side}_{name}_seconds"))?.as_f64();
                Some((number("cpu")? + number("ssh")?) / (sample.bytes.filter(|bytes| *bytes > 0)? as f64 / f64::from(1 << 30)))
            })
        };
        Some(Level {
            streams: point.number("streams")? as u32,
            links: point.samples.iter().rev().find_map(|s| s.more.get("links")?.as_u64()).unwrap_or(0),
            route: point.text("way").unwrap_or_default().into(),
            rate: Summary::of(&rates)?,
            rates,
            files: point.summary(Metric::Files).map(|s| s.median),
            cpu_here: cpu("here"),
            cpu_remote: cpu("there"),
            limit: point.limit().and_then(Limit::from_word).unwrap_or(Limit::Network),
        })
    }

    /// Whether `other` is significantly slower (`Slower`) or faster.
    fn against(&self, other: &Level) -> Verdict {
        let costs = |level: &Level| level.rates.iter().map(|rate| 1.0 / rate).collect::<Vec<_>>();
        difference(&costs(self), &costs(other)).map_or(Verdict::NotSignificant, |found| found.verdict)
    }
}

impl Curve {
    /// The curves that have a level, outgoing first.
    pub fn of(samples: &[Sample]) -> Vec<Curve> {
        let points = points(samples);
        let is_of = |point: &Point<'_>, direction: Direction| {
            point.contender == CONTENDER && point.factors.get("direction").is_some_and(|value| value == direction.word())
        };
        let curve = |direction: Direction| Curve {
            direction,
            levels: points.iter().filter(|point| is_of(point, direction)).filter_map(Level::of).collect(),
        };
        Direction::BOTH.into_iter().map(curve).filter(|curve| !curve.levels.is_empty()).collect()
    }

    /// The fewest streams whose median is the best one's, but for a twentieth.
    pub fn best(&self) -> Option<&Level> {
        let most = self.levels.iter().map(|level| level.rate.median).fold(0.0, f64::max);
        self.levels.iter().find(|level| level.rate.median >= most * (1.0 - SAME))
    }

    pub fn one_stream(&self) -> Option<&Level> {
        self.levels.iter().find(|level| level.streams == 1)
    }

    /// Whether the best is significantly above one stream; `None` if one is best, or was not measured.
    pub fn more_than_one(&self) -> Option<bool> {
        let (one, best) = (self.one_stream()?, self.best()?);
        (best.streams > one.streams).then(|| one.against(best) == Verdict::Faster)
    }

    /// The share of the best rate that the most streams lose; `None` if these are best, or the loss is not significant.
    pub fn most_lose(&self) -> Option<f64> {
        let (best, last) = (self.best()?, self.levels.last()?);
        let loss = 1.0 - last.rate.median / best.rate.median;
        match () {
            () if best.streams == last.streams => None,
            () if loss < SAME => Some(0.0),
            () => (best.against(last) == Verdict::Slower).then_some(loss),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::net::Point as Measured;
    use crate::record::Outcome;

    fn sample(direction: Direction, streams: u32, repetition: u32, rate: u64) -> Sample {
        Sample {
            contender: CONTENDER.into(),
            repetition,
            factors: Measured { repetition, direction, streams }.factors(),
            seconds: Some(2.0),
            bytes: Some(rate * 2),
            files: Some(4),
            limited_by: Some("way".into()),
            more: [("links", streams.into()), ("way", "direct".into()), ("here_cpu_seconds", 0.5.into()), ("here_ssh_seconds", 0.1.into())]
                .map(|(name, value): (&str, serde_json::Value)| (name.to_string(), value))
                .into(),
            ..Sample::default()
        }
    }

    fn curve(rates: &[(u32, &[u64])]) -> Curve {
        let of = |(streams, rates): &(u32, &[u64])| {
            rates.iter().zip(1..).map(|(rate, n)| sample(Direction::Out, *streams, n, *rate)).collect::<Vec<_>>()
        };
        Curve::of(&rates.iter().flat_map(of).collect::<Vec<_>>()).remove(0)
    }

    #[test]
    fn the_best_point_is_the_fewest_streams_that_are_as_good_as_any() {
        // Rates that fall again, as between the sites of the references.
        let falls = curve(&[(1, &[100; 4]), (2, &[190; 4]), (4, &[370; 4]), (6, &[490; 4]), (8, &[500; 4]), (16, &[250; 4])]);
        assert_eq!((falls.best().map(|level| level.streams), falls.more_than_one()), (Some(6), Some(true)));
        assert!(falls.most_lose().is_some_and(|loss| (loss - 0.4898).abs() < 0.001), "{:?}", falls.most_lose());
        let flat = curve(&[(1, &[100; 4]), (2, &[99; 4]), (4, &[101; 4])]);
        assert_eq!((flat.more_than_one(), flat.most_lose()), (None, Some(0.0)));
        assert_eq!(curve(&[(1, &[100; 4]), (2, &[200; 4])]).most_lose(), None);
        // The medians differ by 32 %; the ranges overlap, or there are too few.
        assert_eq!(curve(&[(1, &[800, 1200]), (4, &[400, 960])]).most_lose(), None);
        assert_eq!(curve(&[(1, &[500, 500]), (4, &[1000, 1000])]).more_than_one(), Some(false));
    }

    #[test]
    fn failures_count_for_nothing() {
        let mut samples = vec![sample(Direction::In, 1, 1, 100), sample(Direction::In, 1, 2, 300)];
        samples.push(Sample { outcome: Outcome::Failed, ..sample(Direction::In, 2, 1, 900) });
        let curves = Curve::of(&samples);
        assert_eq!((curves.len(), curves[0].levels.len()), (1, 1));
        let level = &curves[0].levels[0];
        assert_eq!((level.rate.median, level.rate.count, level.limit, level.files), (200.0, 2, Limit::Network, Some(2.0)));
        // 0.6 s for 200 and for 600 bytes: the median of 3 and 1 ms per byte.
        assert_eq!((level.cpu_here.map(|cpu| (cpu / f64::from(1 << 30) * 1e6).round()), level.cpu_remote), (Some(2000.0), None));
    }

    #[test]
    fn the_busiest_is_what_limits() {
        let second = Duration::from_secs(1);
        let idle = Load { at: second, busy: second / 10, all: second * 4, processors: 4, ..Load::default() };
        let full = Load { busy: second * 39 / 10, own: second, ..idle };
        let direct = Streams { links: 2, direct: true };
        let ssh = Streams { links: 2, direct: false };
        let of = |here: Load, there: Load, streams| Limit::of(&here, Some(&there), streams);
        assert_eq!(of(idle, idle, direct), Limit::Network);
        assert_eq!((of(full, idle, direct), of(idle, full, ssh)), (Limit::ProcessorsHere, Limit::ProcessorsRemote));
        // Others keep the machine busy.
        assert_eq!(of(Load { own: second / 10, ..full }, idle, direct), Limit::Network);
        let cipher = Load { ssh: second * 95 / 100, ..idle };
        assert_eq!(
            (of(cipher, idle, ssh), of(idle, cipher, ssh), of(cipher, cipher, direct)),
            (Limit::SshHere, Limit::SshRemote, Limit::Network)
        );
        let busy = Load { own: second * 19 / 10, ..idle };
        assert_eq!(
            (of(busy, idle, direct), of(idle, busy, direct), of(busy, busy, ssh)),
            (Limit::ThreadsHere, Limit::ThreadsRemote, Limit::Network)
        );
        for (limit, word) in Limit::ALL {
            assert_eq!((limit.word(), Limit::from_word(word)), (word, Some(limit)));
        }
    }
}
