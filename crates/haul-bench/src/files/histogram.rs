//! How long many operations took, in memory that does not grow with their number.

use hdrhistogram::Histogram as Hdr;

use crate::record::Latency;

/// Longer times, from 4.8 hours on, share the last class.
const MOST: u64 = 1 << 44;
/// Significant decimal digits: a class is at most 1/128 of its values wide.
const DIGITS: u8 = 2;

/// Nanoseconds, counted in classes: 40 KiB.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Hdr<u64>,
    most: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: Hdr::new_with_bounds(1, MOST, DIGITS).expect("bounds and digits are valid"), most: 0 }
    }
}

impl Histogram {
    pub fn add(&mut self, nanos: u64) {
        self.counts.saturating_record(nanos);
        self.most = self.most.max(nanos);
    }

    pub fn merge(&mut self, other: &Histogram) {
        self.counts.add(&other.counts).expect("both have the same bounds");
        self.most = self.most.max(other.most);
    }

    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// For a sample; `None` of nothing. The classes are wider there: 8 to a power of two.
    pub fn latency(&self) -> Option<Latency> {
        if self.count() == 0 {
            return None;
        }
        let seconds = |nanos: u64| nanos.min(self.most) as f64 / 1e9;
        let at = |share| seconds(self.counts.value_at_quantile(share));
        let classes = self.counts.iter_log(1, 2f64.powf(0.125)).filter(|class| class.count_since_last_iteration() > 0);
        Some(Latency {
            count: self.count(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: seconds(self.most),
            classes: classes.map(|class| (seconds(class.value_iterated_to()), class.count_since_last_iteration())).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_those_of_all_threads_together(values in prop::collection::vec(0u64..3_000_000_000, 1..400), split in 0usize..400) {
            let (mut first, mut second) = (Histogram::default(), Histogram::default());
            for (at, value) in values.iter().enumerate() {
                if at < split { first.add(*value) } else { second.add(*value) }
            }
            first.merge(&second);
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let latency = first.latency().unwrap();
            for (share, found) in [(0.5, latency.p50), (0.9, latency.p90), (0.99, latency.p99), (0.999, latency.p999), (1.0, latency.max)] {
                let rank = ((share * sorted.len() as f64).ceil() as usize).max(1);
                let exact = sorted[rank - 1] as f64 / 1e9;
                prop_assert!(found >= exact && found <= exact * (1.0 + 1.0 / 128.0) + 1e-9, "{share}: {found} for {exact}");
            }
            prop_assert_eq!(latency.count, values.len() as u64);
            prop_assert_eq!(latency.classes.iter().map(|(_, n)| n).sum::<u64>(), values.len() as u64);
        }
    }
}
