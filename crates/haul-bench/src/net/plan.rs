//! The points of a run and their order. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::order::order;

/// The direction of the data, as seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    Out,
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

/// In JSON as a run directory has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// Ascending, each once and at least 1.
    pub streams: Vec<u32>,
    pub directions: Vec<Direction>,
    /// How long each point is measured, behind the warm-up.
    #[serde(serialize_with = "seconds")]
    pub seconds: Duration,
    pub repeat: u32,
    /// Many files of `SMALL` bytes in place of large ones.
    pub small: bool,
    pub seed: u64,
}

fn seconds<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(duration.as_secs_f64())
}

/// Bytes of a small file: the mean of the references' data sets.
pub const SMALL: u64 = 6500;

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
}
