//! How the work was spread over ranks, as data and in words.

use haul_core::entry::show;
use haul_core::spread::{Range, Spread, Straggler};
use serde::{Deserialize, Serialize};

use crate::units::{bytes, count};

/// For JSON and for `haul why`; described in docs/json.md.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpreadFigures {
    pub ranks: u32,
    pub nodes: u32,
    pub files: RangeFigures<u64>,
    pub bytes: RangeFigures<u64>,
    /// Seconds in which a rank had something to do.
    pub busy: RangeFigures<f64>,
    pub stragglers: Vec<StragglerFigures>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RangeFigures<T> {
    pub min: T,
    pub median: T,
    pub max: T,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StragglerFigures {
    pub rank: u32,
    pub node: String,
    /// So many times as long as the median rank, for the same work.
    pub factor: f64,
}

impl<T> RangeFigures<T> {
    fn of<U>(range: Range<U>, value: impl Fn(U) -> T) -> RangeFigures<T> {
        RangeFigures { min: value(range.min), median: value(range.median), max: value(range.max) }
    }

    /// `1 / 2 / 3`
    fn words(self, word: impl Fn(T) -> String) -> String {
        [self.min, self.median, self.max].map(word).join(" / ")
    }
}

impl From<&Spread> for SpreadFigures {
    fn from(spread: &Spread) -> SpreadFigures {
        let straggler =
            |slow: &Straggler| StragglerFigures { rank: slow.rank, node: slow.node.clone(), factor: (slow.factor * 10.0).round() / 10.0 };
        SpreadFigures {
            ranks: spread.ranks,
            nodes: spread.nodes,
            files: RangeFigures::of(spread.files, |files| files),
            bytes: RangeFigures::of(spread.bytes, |bytes| bytes),
            busy: RangeFigures::of(spread.busy, |time| (time.as_secs_f64() * 1e3).round() / 1e3),
            stragglers: spread.stragglers.iter().map(straggler).collect(),
        }
    }
}

impl SpreadFigures {
    /// `16 on 4 nodes`
    pub fn title(&self) -> String {
        if self.nodes == 1 { format!("{} on 1 node", self.ranks) } else { format!("{} on {} nodes", self.ranks, self.nodes) }
    }

    /// What each did: the least, the median and the most of all ranks.
    pub fn each(&self) -> String {
        let (files, data) = (self.files.words(count), self.bytes.words(bytes));
        let busy = self.busy.words(|seconds| format!("{seconds:.1}"));
        format!("{files} files, {data}, busy for {busy} s")
    }

    /// `rank 7 on n03 (3.1 times as long for the same work), rank 2 on n01 (2.2)`
    pub fn stragglers(&self) -> Option<String> {
        let named = |(n, slow): (usize, &StragglerFigures)| {
            let words = if n == 0 { " times as long as the median for the same work" } else { "" };
            format!("rank {} on {} ({:.1}{words})", slow.rank, show(slow.node.as_bytes()), slow.factor)
        };
        let named: Vec<String> = self.stragglers.iter().enumerate().map(named).collect();
        (!named.is_empty()).then(|| named.join(", "))
    }

    /// For a line of a job's log.
    pub fn short(&self) -> String {
        let slow = self.stragglers.first().map(|slow| format!(", slow: rank {} on {}", slow.rank, show(slow.node.as_bytes())));
        format!("{} ranks: {} files, {} each{}", self.ranks, self.files.words(count), self.bytes.words(bytes), slow.unwrap_or_default())
    }
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use super::*;

    pub fn spread() -> Spread {
        let second = Duration::from_secs(1);
        Spread {
            ranks: 16,
            nodes: 4,
            files: Range { min: 2_201, median: 2_360, max: 2_410 },
            bytes: Range { min: 120 << 20, median: 130 << 20, max: 150 << 20 },
            busy: Range { min: 11 * second, median: 12 * second, max: 13 * second },
            stragglers: vec![
                Straggler { rank: 7, node: "n03".into(), factor: 3.149 },
                Straggler { rank: 2, node: "n01".into(), factor: 2.2 },
            ],
        }
    }

    #[test]
    fn words() {
        let figures = SpreadFigures::from(&spread());
        insta::assert_snapshot!(figures.title(), @"16 on 4 nodes");
        insta::assert_snapshot!(figures.each(), @"2,201 / 2,360 / 2,410 files, 120 MiB / 130 MiB / 150 MiB, busy for 11.0 / 12.0 / 13.0 s");
        insta::assert_snapshot!(figures.stragglers().unwrap(), @"rank 7 on n03 (3.1 times as long as the median for the same work), rank 2 on n01 (2.2)");
        insta::assert_snapshot!(figures.short(), @"16 ranks: 2,201 / 2,360 / 2,410 files, 120 MiB / 130 MiB / 150 MiB each, slow: rank 7 on n03");
        assert_eq!(SpreadFigures { stragglers: Vec::new(), ..figures }.stragglers(), None);
    }
}
