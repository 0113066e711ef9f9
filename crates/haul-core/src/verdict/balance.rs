//! What held several ranks up together: work that was not spread evenly, a slow node, or a file system that takes no more. Pure:
//! what each rank did goes in.

use std::time::Duration;

use crate::spread::{Range, RankWork, SLOW, factors, nodes};

/// Throughput at two numbers of workers in all, as measured one after the other in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Curve {
    pub fewer: u32,
    pub more: u32,
    /// Throughput with more workers, by that with fewer.
    pub gain: f64,
}

impl Eq for Curve {}

#[derive(Clone, Debug, PartialEq)]
pub enum Balance {
    /// Nothing that concerns the ranks together.
    Even,
    /// One rank was busy for much longer than the others, on work that was no slower.
    Uneven { rank: u32, node: String, busy: Range<Duration> },
    /// All ranks of a node take so many times as long for the same work, and the run was much longer for it.
    SlowNode { node: String, factor: f64 },
    /// More workers gained nothing.
    Saturated(Curve),
}

/// Of all workers' time, or of the run, that was lost: less is worth no word.
const LOST: f64 = 0.2;
/// How much longer than the mean the busiest rank may be at work.
const UNEVEN: f64 = 0.3;
/// Twice as many workers that bring less than this have met a limit that is not theirs.
pub const FLAT: f64 = 1.1;

/// The first of these that holds:
///
/// ```text
/// slow node     a node's costs of files and bytes are twice the median of all nodes, and 20 % of all workers' time went into the
///               difference, or the others had nothing to do for 30 % of the time that it was busy
/// saturated     ranks are busy alike, and twice as many workers brought less than 10 % more
/// uneven        the mean rank was busy for less than 70 % of the time that the busiest was
/// ```
///
/// One node cannot be compared with others, and neither can two, if nobody knows which of them is as it should be: the faster one is
/// taken for it.
pub fn balance(ranks: &[RankWork], curve: Option<Curve>) -> Balance {
    let Some(busiest) = ranks.iter().max_by_key(|rank| rank.busy).filter(|_| ranks.len() > 1) else { return Balance::Even };
    let mean = ranks.iter().map(|rank| rank.busy.as_secs_f64()).sum::<f64>() / ranks.len() as f64;
    let unevenness = 1.0 - mean / busiest.busy.as_secs_f64().max(1e-9);
    slow_node(ranks, busiest, unevenness)
        .or_else(|| curve.filter(|curve| curve.gain < FLAT && unevenness < UNEVEN).map(Balance::Saturated))
        .or_else(|| {
            let busy = Range::of(ranks.iter().map(|rank| rank.busy));
            (unevenness >= UNEVEN).then(|| Balance::Uneven { rank: busiest.rank, node: busiest.node.clone(), busy })
        })
        .unwrap_or(Balance::Even)
}

fn slow_node(ranks: &[RankWork], busiest: &RankWork, unevenness: f64) -> Option<Balance> {
    let nodes = nodes(ranks);
    if nodes.len() < 2 {
        return None;
    }
    let time = |node: &RankWork| (node.data + node.metadata).as_secs_f64();
    let all: f64 = nodes.iter().map(time).sum();
    let slowest = factors(&nodes).into_iter().zip(&nodes).max_by(|one, other| one.0.total_cmp(&other.0));
    let (factor, node) = slowest.filter(|(factor, _)| *factor >= SLOW)?;
    let lost = time(node) * (1.0 - 1.0 / factor) / all.max(1e-9);
    let awaited = node.node == busiest.node && unevenness >= UNEVEN;
    (lost >= LOST || awaited).then(|| Balance::SlowNode { node: node.node.clone(), factor })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spread::tests::rank;

    /// Ranks on nodes of two each: files, and milliseconds for a file.
    fn on_nodes(ranks: &[(u64, u64)]) -> Vec<RankWork> {
        let on = |n: usize| format!("n{}", n / 2 + 1);
        ranks.iter().enumerate().map(|(n, (files, cost))| rank(n as u32, &on(n), *files, *cost)).collect()
    }

    fn word(balance: &Balance) -> String {
        match balance {
            Balance::Even => "even".into(),
            Balance::Uneven { rank, node, .. } => format!("uneven {rank} {node}"),
            Balance::SlowNode { node, factor } => format!("slow {node} {factor:.0}"),
            Balance::Saturated(curve) => format!("saturated {} {}", curve.fewer, curve.more),
        }
    }

    #[test]
    fn imbalance_a_slow_node_and_a_saturated_file_system_are_told_apart() {
        let even = [(1000, 10); 8];
        let flat = Some(Curve { fewer: 16, more: 32, gain: 1.02 });
        let grows = Some(Curve { fewer: 16, more: 32, gain: 1.7 });
        let uneven = [(1000, 10), (100, 10), (100, 10), (100, 10), (90, 10), (100, 10), (110, 10), (100, 10)];
        // Work is given away, so that a slow node does less of it in the same time.
        let slow = [(1000, 10), (1000, 10), (1000, 10), (1000, 10), (1000, 10), (1000, 10), (300, 50), (300, 50)];
        let slow_to_the_end = [(600, 10), (600, 10), (600, 10), (600, 10), (600, 10), (600, 10), (60, 400), (60, 400)];
        // One of sixteen nodes costs little of the whole.
        let mut many = vec![(1000, 10); 32];
        many[30] = (250, 40);
        many[31] = (250, 40);
        // One rank of a node that is slow says nothing of the node, and is a straggler.
        let one_rank = [(1000, 10), (1000, 10), (1000, 10), (1000, 10), (1000, 10), (1000, 10), (1000, 10), (500, 20)];
        let two_nodes = [(1000, 10), (1000, 10), (200, 50), (200, 50)];
        let one_node = [(1000, 10), (200, 50)];
        for (case, curve, expected) in [
            (&even[..], None, "even"),
            (&even[..], grows, "even"),
            (&even[..], flat, "saturated 16 32"),
            (&uneven[..], None, "uneven 0 n1"),
            (&uneven[..], flat, "uneven 0 n1"),
            (&slow[..], None, "slow n4 5"),
            (&slow[..], flat, "slow n4 5"),
            (&slow_to_the_end[..], grows, "slow n4 40"),
            (&many[..], None, "even"),
            (&many[..], flat, "saturated 16 32"),
            (&one_rank[..], None, "even"),
            (&two_nodes[..], None, "slow n2 5"),
            (&one_node[..], None, "even"),
            (&[(1000, 10)][..], flat, "even"),
            (&[][..], flat, "even"),
        ] {
            assert_eq!(word(&balance(&on_nodes(case), curve)), expected, "{case:?} {curve:?}");
        }
    }
}
