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

    /// For a sample; `None` of nothing. The classes are wider there: 8 to a power of two.
    pub fn latency(&self) -> Option<Latency> {
        let seconds = |nanos: u64| nanos.min(self.most) as f64 / 1e9;
        let at = |share| seconds(self.counts.value_at_quantile(share));
        let classes = self.counts.iter_log(1, 2f64.powf(0.125)).filter(|class| class.count_since_last_iteration() > 0);
        let latency = Latency {
            count: self.counts.len(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: seconds(self.most),
            classes: classes.map(|class| (seconds(class.value_iterated_to()), class.count_since_last_iteration())).collect(),
        };
        (latency.count > 0).then_some(latency)
    }
}
