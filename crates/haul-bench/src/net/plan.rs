//! The points of a run and their order. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::order::order;

/// The direction of the data, as seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From here to the host.
    Out,
    /// From the host to here.
    In,
}

impl Direction {
    pub const BOTH: [Direction; 2] = [Direction::Out, Direction::In];

    pub fn word(self) -> &'static str {
        match self {
            Direction::Out => "out",
            Direction::In => "in",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Ascending, each once and at least 1.
    pub streams: Vec<u32>,
    pub directions: Vec<Direction>,
    /// How long each point is measured, behind the warm-up.
    pub seconds: Duration,
    pub repeat: u32,
    /// Many files of `SMALL` bytes in place of large ones.
    pub small: bool,
    /// Of the order.
    pub seed: u64,
}

/// Bytes of a small file: the mean of the references' data sets.
pub const SMALL: u64 = 6500;

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// From 1.
    pub repetition: u32,
    pub direction: Direction,
    pub streams: u32,
}

impl Point {
    pub fn factors(&self) -> BTreeMap<String, Value> {
        [("streams".to_string(), self.streams.into()), ("direction".to_string(), self.direction.word().into())].into()
    }
}

impl Plan {
    /// Every round has each point once, in an order of its own: slow changes of the network or the machines affect all points
    /// alike.
    pub fn points(&self) -> Vec<Point> {
        let mut all = Vec::new();
        for repetition in 1..=self.repeat {
            let each = |direction: &Direction| self.streams.iter().map(|streams| (*direction, *streams)).collect::<Vec<_>>();
            let round: Vec<(Direction, u32)> = self.directions.iter().flat_map(each).collect();
            all.extend(order(self.seed, repetition, round.len()).into_iter().map(|at| {
                let (direction, streams) = round[at];
                Point { repetition, direction, streams }
            }));
        }
        all
    }

    /// The settings of a run, which is resumed only with the same ones.
    pub fn settings(&self, host: &str) -> BTreeMap<String, Value> {
        let directions: Vec<&str> = self.directions.iter().map(|direction| direction.word()).collect();
        let all: [(&str, Value); 7] = [
            ("host", host.into()),
            ("streams", self.streams.clone().into()),
            ("directions", directions.into()),
            ("seconds", self.seconds.as_secs_f64().into()),
            ("repeat", self.repeat.into()),
            ("small", self.small.into()),
            ("seed", self.seed.into()),
        ];
        all.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seed: u64) -> Plan {
        Plan {
            streams: vec![1, 2, 4, 6, 8, 16],
            directions: Direction::BOTH.to_vec(),
            seconds: Duration::from_secs(5),
            repeat: 3,
            small: false,
            seed,
        }
    }

    #[test]
    fn each_round_has_every_point_once_in_an_order_of_its_own() {
        let points = plan(7).points();
        assert_eq!(points.len(), 36);
        assert_eq!(points, plan(7).points());
        assert_ne!(points, plan(8).points());
        let rounds: Vec<&[Point]> = points.chunks(12).collect();
        let order = |round: &[Point]| round.iter().map(|p| (p.direction, p.streams)).collect::<Vec<_>>();
        let sorted = |round: &[Point]| {
            let mut order = order(round);
            order.sort_unstable();
            order
        };
        assert!(rounds.windows(2).all(|two| sorted(two[0]) == sorted(two[1]) && order(two[0]) != order(two[1])));
        assert!(rounds.iter().zip(1..).all(|(round, n)| round.iter().all(|point| point.repetition == n)));
        let mut once = sorted(rounds[0]);
        once.dedup();
        assert_eq!(once.len(), 12);
    }
}
