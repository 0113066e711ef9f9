//! How the work of a job was spread over its ranks. Pure: what each rank did goes in, what they have in common and who is slow
//! comes out.

use std::time::Duration;

use crate::report::Report;

/// What one rank did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankWork {
    pub rank: u32,
    pub node: String,
    /// Since it began.
    pub elapsed: Duration,
    /// Files that were copied or found unchanged.
    pub files: u64,
    pub bytes: u64,
    /// Time in which at least one worker had a task.
    pub busy: Duration,
    /// Workers' time for content, and for names and attributes.
    pub data: Duration,
    pub metadata: Duration,
    /// Workers at this moment, and the processors that the rank may use.
    pub workers: u32,
    pub processors: u32,
}

impl RankWork {
    pub const NUMBERS: usize = 8;

    pub fn of(report: &Report, rank: u32, node: String, processors: u32) -> RankWork {
        let t = &report.times;
        RankWork {
            rank,
            node,
            elapsed: report.elapsed,
            files: report.made.files + report.kept.files,
            bytes: report.bytes,
            busy: report.pace.active,
            data: t.reading + t.writing + t.copying + t.verifying + t.network,
            metadata: t.opening + t.metadata + t.effects,
            workers: report.workers_end,
            processors,
        }
    }

    /// As messages have them, behind rank and node.
    pub fn numbers(&self) -> [u64; RankWork::NUMBERS] {
        let nanoseconds = |time: Duration| time.as_nanos() as u64;
        let [elapsed, busy, data, metadata] = [self.elapsed, self.busy, self.data, self.metadata].map(nanoseconds);
        [elapsed, self.files, self.bytes, busy, data, metadata, self.workers.into(), self.processors.into()]
    }

    pub fn from_numbers(rank: u32, node: String, numbers: [u64; RankWork::NUMBERS]) -> RankWork {
        let [elapsed, files, bytes, busy, data, metadata, workers, processors] = numbers;
        let [elapsed, busy, data, metadata] = [elapsed, busy, data, metadata].map(Duration::from_nanos);
        let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        RankWork { rank, node, elapsed, files, bytes, busy, data, metadata, workers: small(workers), processors: small(processors) }
    }

    /// Workers' time for what files and bytes stand for.
    fn spent(&self) -> Duration {
        self.data.saturating_add(self.metadata)
    }

    /// The work of several ranks as that of one.
    fn add(&mut self, other: &RankWork) {
        self.files = self.files.saturating_add(other.files);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.busy = self.busy.max(other.busy);
        self.data = self.data.saturating_add(other.data);
        self.metadata = self.metadata.saturating_add(other.metadata);
    }
}

/// The ranks of each node together, in the order of their first.
pub fn nodes(ranks: &[RankWork]) -> Vec<RankWork> {
    let mut nodes: Vec<RankWork> = Vec::new();
    for rank in ranks {
        match nodes.iter_mut().find(|node| node.node == rank.node) {
            Some(node) => node.add(rank),
            None => nodes.push(rank.clone()),
        }
    }
    nodes
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range<T> {
    pub min: T,
    pub median: T,
    pub max: T,
}

impl<T: Ord + Copy + Default> Range<T> {
    pub fn of(values: impl Iterator<Item = T>) -> Range<T> {
        let mut values: Vec<T> = values.collect();
        values.sort_unstable();
        let at = |place: usize| values.get(place).copied().unwrap_or_default();
        let last = values.len().saturating_sub(1);
        Range { min: at(0), median: at(last / 2), max: at(last) }
    }
}

/// A rank that takes much longer than others for the same work.
#[derive(Clone, Debug, PartialEq)]
pub struct Straggler {
    pub rank: u32,
    pub node: String,
    /// So many times as long.
    pub factor: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread {
    pub ranks: u32,
    pub nodes: u32,
    pub files: Range<u64>,
    pub bytes: Range<u64>,
    pub busy: Range<Duration>,
    /// The slowest first, at most [`NAMED`].
    pub stragglers: Vec<Straggler>,
}

/// Stragglers that are named.
pub const NAMED: usize = 5;

/// From here on a rank or a node counts as slow.
pub const SLOW: f64 = 2.0;

/// Of less time nobody can say that it is long.
const NOISE: Duration = Duration::from_millis(500);

impl Spread {
    /// `None` for one rank, which is spread over nobody.
    pub fn of(ranks: &[RankWork]) -> Option<Spread> {
        if ranks.len() < 2 {
            return None;
        }
        let slow = factors(ranks).into_iter().zip(ranks).filter(|(factor, _)| *factor >= SLOW);
        let mut stragglers: Vec<Straggler> =
            slow.map(|(factor, rank)| Straggler { rank: rank.rank, node: rank.node.clone(), factor }).collect();
        stragglers.sort_by(|one, other| other.factor.total_cmp(&one.factor));
        stragglers.truncate(NAMED);
        Some(Spread {
            ranks: ranks.len() as u32,
            nodes: nodes(ranks).len() as u32,
            files: Range::of(ranks.iter().map(|rank| rank.files)),
            bytes: Range::of(ranks.iter().map(|rank| rank.bytes)),
            busy: Range::of(ranks.iter().map(|rank| rank.busy)),
            stragglers,
        })
    }
}

/// How much longer each takes than it would at the median costs of a file and of a byte; 1 where too little is known.
///
/// Files and bytes apart, as one rank may have got the large files and another the small ones.
pub fn factors(ranks: &[RankWork]) -> Vec<f64> {
    let median = |costs: &mut Vec<f64>| {
        costs.sort_unstable_by(f64::total_cmp);
        costs.get(costs.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
    };
    let each = |time: Duration, count: u64| (count > 0).then(|| time.as_secs_f64() / count as f64);
    let file = median(&mut ranks.iter().filter_map(|rank| each(rank.metadata, rank.files)).collect());
    let byte = median(&mut ranks.iter().filter_map(|rank| each(rank.data, rank.bytes)).collect());
    let factor = |rank: &RankWork| {
        let expected = rank.files as f64 * file + rank.bytes as f64 * byte;
        if expected <= 0.0 || rank.spent() < NOISE { 1.0 } else { rank.spent().as_secs_f64() / expected }
    };
    ranks.iter().map(factor).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A rank of which each file took `cost` milliseconds, half of it for its content.
    pub fn rank(rank: u32, node: &str, files: u64, cost: u64) -> RankWork {
        let half = Duration::from_millis(files * cost / 2);
        let busy = Duration::from_millis(files * cost / 4);
        let (elapsed, bytes) = (busy, files * 1000);
        RankWork { rank, node: node.into(), elapsed, files, bytes, busy, data: half, metadata: half, workers: 4, processors: 2 }
    }

    #[test]
    fn the_middle_and_the_ends_are_those_of_the_ranks() {
        let ranks = [rank(0, "n1", 400, 10), rank(1, "n1", 900, 10), rank(2, "n2", 500, 10), rank(3, "n2", 700, 10)];
        let spread = Spread::of(&ranks).unwrap();
        assert_eq!((spread.ranks, spread.nodes), (4, 2));
        assert_eq!(spread.files, Range { min: 400, median: 500, max: 900 });
        assert_eq!(spread.bytes.max, 900_000);
        assert_eq!(spread.busy, Range { min: 1.0, median: 1.25, max: 2.25 }.seconds());
        assert_eq!(spread.stragglers, []);
        assert_eq!(Spread::of(&ranks[..1]), None);
    }

    impl Range<f64> {
        fn seconds(self) -> Range<Duration> {
            let of = Duration::from_secs_f64;
            Range { min: of(self.min), median: of(self.median), max: of(self.max) }
        }
    }

    #[test]
    fn who_takes_longer_for_the_same_work_is_named() {
        let mut ranks: Vec<RankWork> = (0..8).map(|n| rank(n, if n < 4 { "n1" } else { "n2" }, 1000, 10)).collect();
        ranks[6] = rank(6, "n2", 300, 40);
        ranks[7] = rank(7, "n2", 10, 1000);
        let stragglers = Spread::of(&ranks).unwrap().stragglers;
        let named: Vec<_> = stragglers.iter().map(|slow| (slow.rank, slow.node.as_str(), slow.factor.round() as u32)).collect();
        assert_eq!(named, [(7, "n2", 100), (6, "n2", 4)]);
        // Little time says nothing, and neither does little work.
        ranks[7] = rank(7, "n2", 1, 400);
        assert_eq!(Spread::of(&ranks).unwrap().stragglers.len(), 1);
        ranks[6] = rank(6, "n2", 30, 10);
        assert_eq!(Spread::of(&ranks).unwrap().stragglers, []);
    }

    #[test]
    fn large_files_at_one_rank_are_no_slow_rank() {
        let second = Duration::from_secs(1);
        let large = RankWork { files: 2, bytes: 8 << 30, data: 8 * second, metadata: second / 100, ..RankWork::default() };
        let small = RankWork { files: 5000, bytes: 5 << 20, data: second / 200, metadata: 8 * second, ..RankWork::default() };
        let ranks = [small.clone(), large, small];
        assert!(factors(&ranks).iter().all(|factor| *factor < SLOW), "{:?}", factors(&ranks));
    }

    #[test]
    fn numbers_come_back() {
        let work = rank(3, "n9", 17, 12);
        assert_eq!(RankWork::from_numbers(3, "n9".into(), work.numbers()), work);
    }
}
