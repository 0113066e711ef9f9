//! How large the files of a set are. A size follows from the file's rank and a seed, so that none is kept.
//!
//! Logarithm and exponential are computed here: those of the C library differ in their last bit from one to the next, and with
//! them the sizes, and a set must be the same wherever it is made.

use super::order::{fraction, share};

/// The largest file: that of the file offset.
pub const MOST_SIZE: u64 = i64::MAX as u64;

#[derive(Clone, Debug, PartialEq)]
pub enum Law {
    /// So many bytes shared out evenly: all files alike but for one byte.
    Even { count: u64, total: u64 },
    /// Sizes whose logarithm is normally distributed. `sigma` is that of the natural logarithm.
    Lognormal { count: u64, median: f64, sigma: f64, most: u64 },
    /// Each size between the two as likely as the other, both included.
    Uniform { count: u64, least: u64, most: u64 },
}

impl Law {
    pub fn count(&self) -> u64 {
        match self {
            Law::Even { count, .. } | Law::Lognormal { count, .. } | Law::Uniform { count, .. } => *count,
        }
    }

    /// Bytes of the file of a rank below the count. Drawn sizes are one from each of `count` equally likely ranges, so that
    /// a small set follows its law as closely as a large one.
    pub fn size(&self, rank: u64, seed: u64) -> u64 {
        match self {
            Law::Even { count, total } => share(*total, *count, rank).1,
            Law::Lognormal { median, sigma, most, .. } => {
                let drawn = median * exp(sigma * normal(self.quantile(rank, seed)));
                if drawn < *most as f64 { drawn as u64 } else { *most }
            }
            Law::Uniform { least, most, .. } => {
                let span = (most - least) as f64 + 1.0;
                least + ((self.quantile(rank, seed) * span) as u64).min(most - least)
            }
        }
    }

    fn quantile(&self, rank: u64, seed: u64) -> f64 {
        (rank as f64 + fraction(seed ^ rank)) / self.count() as f64
    }

    /// The same law with `1 / scale` of the bytes: fewer files, and smaller ones where less than one would be left.
    pub fn scaled(&self, scale: u64) -> Law {
        let (count, scale) = (self.count(), scale.max(1));
        let fewer = ((count + scale / 2) / scale).max(1);
        // Of the bytes that the files left would have, the part that is to be.
        let part = if count < scale { count as f64 / scale as f64 } else { 1.0 };
        let smaller = |size: u64| if part < 1.0 { (size as f64 * part).ceil() as u64 } else { size };
        match self {
            Law::Even { total, .. } if part < 1.0 => Law::Even { count: fewer, total: total.div_ceil(scale) },
            Law::Even { total, .. } => {
                Law::Even { count: fewer, total: (u128::from(*total) * u128::from(fewer) / u128::from(count)) as u64 }
            }
            Law::Lognormal { median, sigma, most, .. } => {
                Law::Lognormal { count: fewer, median: median * part, sigma: *sigma, most: *most }
            }
            Law::Uniform { least, most, .. } => Law::Uniform { count: fewer, least: smaller(*least), most: smaller(*most) },
        }
    }
}

/// e to the power of x: 2^k times the series of the rest, whose error is below the last bit.
fn exp(x: f64) -> f64 {
    let k = (x / std::f64::consts::LN_2).round().clamp(-1000.0, 1000.0);
    let rest = x - k * std::f64::consts::LN_2;
    let series = (1..=20).rev().fold(1.0, |sum, n| 1.0 + rest / f64::from(n) * sum);
    let half = f64::from_bits(((1023 + k as i64 / 2) as u64) << 52);
    let other = f64::from_bits(((1023 + k as i64 - k as i64 / 2) as u64) << 52);
    series * half * other
}

/// The natural logarithm of a normal, positive number: the exponent, and the series of artanh for the rest.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i64 - 1023;
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    let y = (mantissa - 1.0) / (mantissa + 1.0);
    let series = (0..28).rev().fold(0.0, |sum, n| sum * y * y + 1.0 / f64::from(2 * n + 1));
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * y * series
}

/// The quantile of the standard normal distribution (Acklam 2003, relative error below 1.2e-9).
fn normal(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [7.784_695_709_041_462e-3, 3.224_671_290_700_398e-1, 2.445_134_137_142_996, 3.754_408_661_907_416, 1.0];
    let polynomial = |factors: &[f64], x: f64| factors.iter().fold(0.0, |sum, factor| sum * x + factor);
    let tail = |p: f64| {
        let q = (-2.0 * ln(p)).sqrt();
        polynomial(&C, q) / polynomial(&D, q)
    };
    let p = p.clamp(1e-15, 1.0 - 1e-15);
    match p {
        _ if p < 0.02425 => tail(p),
        _ if p > 1.0 - 0.02425 => -tail(1.0 - p),
        _ => {
            let q = p - 0.5;
            q * polynomial(&A, q * q) / polynomial(&B, q * q)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sizes(law: &Law, seed: u64) -> Vec<u64> {
        (0..law.count()).map(|rank| law.size(rank, seed)).collect()
    }

    #[test]
    fn the_functions_are_the_usual_ones() {
        for x in [-30.0, -1.0, -1e-9, 0.0, 0.5, 1.0, 8.0, 43.0] {
            assert!((exp(x) / f64::exp(x) - 1.0).abs() < 1e-13, "{x}");
        }
        for x in [1e-15, 0.02, 0.5, 1.0, 1.999, 3.0, 1e12] {
            assert!((ln(x) - f64::ln(x)).abs() <= 1e-13 * f64::ln(x).abs() + 1e-15, "{x}");
        }
        for (p, z) in [(0.5, 0.0), (0.975, 1.959_963_985), (0.001, -3.090_232_306), (0.841_344_746, 1.0)] {
            assert!((normal(p) - z).abs() < 1e-8, "{p}");
        }
    }

    #[test]
    fn a_lognormal_set_has_the_median_and_the_spread_that_were_asked_for() {
        let law = Law::Lognormal { count: 10_001, median: 65_536.0, sigma: 2.0, most: MOST_SIZE };
        let mut drawn = sizes(&law, 7);
        drawn.sort_unstable();
        let median = drawn[5000] as f64;
        assert!((median / 65_536.0 - 1.0).abs() < 0.002, "{median}");
        let logs: Vec<f64> = drawn.iter().map(|size| (*size as f64).ln()).collect();
        let mean = logs.iter().sum::<f64>() / 10_001.0;
        let sigma = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / 10_001.0).sqrt();
        assert!((sigma - 2.0).abs() < 0.02, "{sigma}");
    }

    proptest! {
        #[test]
        fn sizes_stay_within_their_law(count in 1u64..500, least in 0u64..1 << 40, span in 0u64..1 << 40, seed: u64) {
            let uniform = Law::Uniform { count, least, most: least + span };
            prop_assert!(sizes(&uniform, seed).iter().all(|size| (least..=least + span).contains(size)));
            let even = Law::Even { count, total: span };
            prop_assert_eq!(sizes(&even, seed).iter().sum::<u64>(), span);
            let lognormal = Law::Lognormal { count, median: 1e6, sigma: 3.0, most: 1 << 30 };
            prop_assert!(sizes(&lognormal, seed).iter().all(|size| *size <= 1 << 30));
        }

        #[test]
        fn a_scaled_law_has_that_part_of_the_bytes(count in 1u64..2000, size in 1u64..1 << 32, scale in 1u64..5000) {
            let law = Law::Even { count, total: count * size }.scaled(scale);
            let Law::Even { count: fewer, total } = law else { panic!("another law") };
            // Off by half a file at most, which a single file is not.
            let exact = (count * size) as f64 / scale as f64;
            prop_assert!((total as f64 - exact).abs() <= (size as f64 / 2.0).max(1.0) + 1.0, "{} of {}", total, exact);
            prop_assert!(fewer == 1 || total == fewer * size);
        }
    }
}
