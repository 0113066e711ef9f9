//! A grid of settings of haul itself, and how far its own choice is from the best of them.

use std::collections::BTreeMap;

use serde_json::Value;

/// Values to try; an empty list leaves the choice to haul.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    pub workers: Vec<u32>,
    /// Bytes.
    pub chunks: Vec<u64>,
    /// Workers at one file.
    pub concurrency: Vec<u32>,
    /// Logins by ssh.
    pub logins: Vec<u32>,
}

/// One combination. `None` leaves the choice to haul.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    pub workers: Option<u32>,
    pub chunk: Option<u64>,
    pub concurrency: Option<u32>,
    pub logins: Option<u32>,
}

/// The value of a factor that haul chose.
pub const OWN: &str = "own choice";

impl Grid {
    /// Every combination, and haul's own choice of everything before them.
    pub fn points(&self) -> Vec<Point> {
        fn each<T: Copy>(values: &[T]) -> Vec<Option<T>> {
            if values.is_empty() { vec![None] } else { values.iter().copied().map(Some).collect() }
        }
        let mut points = vec![Point::default()];
        for workers in each(&self.workers) {
            for chunk in each(&self.chunks) {
                for concurrency in each(&self.concurrency) {
                    for logins in each(&self.logins) {
                        let point = Point { workers, chunk, concurrency, logins };
                        if !points.contains(&point) {
                            points.push(point);
                        }
                    }
                }
            }
        }
        points
    }

    /// What every contender's factors have, so that they make one table.
    pub fn factors(&self, point: Point) -> BTreeMap<String, Value> {
        let or_own = |value: Option<u64>| value.map_or_else(|| OWN.into(), Value::from);
        let mut factors = BTreeMap::from([("streams".to_string(), or_own(point.workers.map(u64::from)))]);
        if !self.chunks.is_empty() {
            factors.insert("chunk".into(), or_own(point.chunk));
        }
        if !self.concurrency.is_empty() {
            factors.insert("concurrency".into(), or_own(point.concurrency.map(u64::from)));
        }
        if !self.logins.is_empty() {
            factors.insert("logins".into(), or_own(point.logins.map(u64::from)));
        }
        factors
    }
}

impl Point {
    pub fn is_own(self) -> bool {
        self == Point::default()
    }

    /// The options of `haul cp` that fix it.
    pub fn options(self) -> Vec<String> {
        let mut out = Vec::new();
        let mut option = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                out.extend([name.to_string(), value]);
            }
        };
        option("-j", self.workers.map(|n| n.to_string()));
        option("--chunk-size", self.chunk.map(size));
        option("--concurrency", self.concurrency.map(|n| n.to_string()));
        option("--logins", self.logins.map(|n| n.to_string()));
        out
    }
}

/// As `haul cp` reads it, and as people do.
fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes}B"), |(unit, word)| format!("{}{word}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_every_combination_and_the_own_choice_once() {
        let grid = Grid { workers: vec![1, 2, 2], chunks: vec![1 << 20, 8 << 20], ..Grid::default() };
        let points = grid.points();
        assert_eq!(points.len(), 5);
        assert!(points[0].is_own() && points[0].options().is_empty());
        assert_eq!(points[4].options(), ["-j", "2", "--chunk-size", "8MiB"]);
        assert_eq!(grid.factors(points[0])["streams"], OWN);
        assert_eq!(grid.factors(points[4])["chunk"], 8 << 20);
        assert_eq!(grid.factors(points[4]).len(), 2);
        assert_eq!((size(1 << 30), size(65 << 10), size(1000)), ("1GiB".into(), "65KiB".into(), "1000B".into()));
        assert_eq!(Grid::default().points(), [Point::default()]);
    }
}
