//! How long many operations took, in memory that does not grow with their number.
//!
//! Classes are linear within a power of two and logarithmic over them, as in Tene's HdrHistogram: 64 to a power of two, so
//! that a class is at most 1/64 of its values wide.

use crate::record::Latency;

/// log2 of the classes in a power of two.
const FINE: u32 = 6;
/// Times of 2^40 ns (18 minutes) and more share the last class.
const MOST: u32 = 40;
const CLASSES: usize = ((MOST - FINE + 1) as usize) << FINE;

/// Nanoseconds, counted in classes: 18 KiB.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Box<[u64]>,
    count: u64,
    most: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; CLASSES].into(), count: 0, most: 0 }
    }
}

/// Values below 2^FINE have a class each.
fn class(nanos: u64) -> usize {
    let power = nanos.checked_ilog2().unwrap_or(0);
    if power < FINE {
        return nanos as usize;
    }
    let part = (nanos >> (power - FINE)) as usize - (1 << FINE);
    ((((power - FINE + 1) as usize) << FINE) + part).min(CLASSES - 1)
}

/// The largest value of a class.
fn upper(class: usize) -> u64 {
    let (row, part) = (class >> FINE, (class & ((1 << FINE) - 1)) as u64);
    match row {
        0 => part,
        row => (((1 << FINE) + part + 1) << (row - 1)) - 1,
    }
}

impl Histogram {
    pub fn add(&mut self, nanos: u64) {
        self.counts[class(nanos)] += 1;
        self.count += 1;
        self.most = self.most.max(nanos);
    }

    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.most = self.most.max(other.most);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The value that the share `at` (0 to 1) of all do not pass, from its rank rounded up; at most 1/64 above the exact one,
    /// never below it. 0 of nothing.
    pub fn quantile(&self, at: f64) -> u64 {
        let rank = ((at.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut below = 0;
        for (class, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return if class == CLASSES - 1 { self.most } else { upper(class).min(self.most) };
            }
        }
        self.most
    }

    /// For a sample; `None` of nothing. The classes are wider there, 8 to a power of two, as plots have them.
    pub fn latency(&self) -> Option<Latency> {
        const COARSE: u32 = 3;
        if self.count == 0 {
            return None;
        }
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let mut classes: Vec<(f64, u64)> = Vec::new();
        for (at, counts) in self.counts.chunks(1 << (FINE - COARSE)).enumerate() {
            let count: u64 = counts.iter().sum();
            if count > 0 {
                let last = ((at + 1) << (FINE - COARSE)) - 1;
                classes.push((seconds(upper(last).min(self.most)), count));
            }
        }
        let at = |share| seconds(self.quantile(share));
        Some(Latency { count: self.count, p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: seconds(self.most), classes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn classes_follow_each_other_without_a_gap() {
        for at in 1..CLASSES {
            assert_eq!(class(upper(at)), at);
            assert_eq!(class(upper(at - 1) + 1), at);
        }
        assert_eq!((class(0), class(u64::MAX)), (0, CLASSES - 1));
    }

    proptest! {
        #[test]
        fn quantiles_are_the_exact_ones_within_a_sixty_fourth(values in prop::collection::vec(0u64..3_000_000_000, 1..400), split in 0usize..400) {
            let (mut first, mut second) = (Histogram::default(), Histogram::default());
            for (at, value) in values.iter().enumerate() {
                if at < split { first.add(*value) } else { second.add(*value) }
            }
            first.merge(&second);
            let mut sorted = values.clone();
            sorted.sort_unstable();
            for share in [0.5, 0.9, 0.99, 0.999, 1.0] {
                let rank = ((share * sorted.len() as f64).ceil() as usize).max(1);
                let (exact, found) = (sorted[rank - 1], first.quantile(share));
                prop_assert!(found >= exact && found <= exact + exact / 64 + 1, "{share}: {found} for {exact}");
            }
            let latency = first.latency().unwrap();
            prop_assert_eq!(latency.count, values.len() as u64);
            prop_assert_eq!(latency.classes.iter().map(|(_, n)| n).sum::<u64>(), values.len() as u64);
            prop_assert!(latency.classes.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }

    #[test]
    fn hours_and_nothing_are_counted_too() {
        let mut hours = Histogram::default();
        hours.add(7_200_000_000_000);
        assert_eq!(hours.quantile(0.5), 7_200_000_000_000);
        assert_eq!(Histogram::default().latency(), None);
        assert_eq!(Histogram::default().quantile(0.5), 0);
    }
}
