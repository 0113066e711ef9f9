//! Medians, their confidence intervals, and whether two sets of measurements differ. Pure; nothing here assumes that times
//! are normally distributed, which they are not.

use serde::Serialize;

/// Two-sided level of every test and interval here.
pub const LEVEL: f64 = 0.05;

/// Up to this many pairs of values the distribution of U is counted; beyond it is taken as normal.
const COUNTED: usize = 2500;

/// The middle of the sorted values; the mean of the two middle ones of an even number. NaN of nothing.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which the share `at` (0 to 1) of the values is, interpolated between two values
/// (R's type 7, Hyndman and Fan 1996). NaN of nothing.
pub fn quantile(values: &[f64], at: f64) -> f64 {
    let sorted = sorted(values);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = at.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub count: usize,
    pub median: f64,
    pub quartiles: (f64, f64),
    /// Bounds of the median: two values of the set between which it lies with the probability `coverage`.
    pub interval: (f64, f64),
    /// At least 1 - LEVEL where there are 6 values or more; what the two outermost give where there are fewer.
    pub coverage: f64,
    pub least: f64,
    pub most: f64,
}

impl Summary {
    pub fn of(values: &[f64]) -> Option<Summary> {
        let sorted = sorted(values);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let (rank, coverage) = median_rank(sorted.len());
        Some(Summary {
            count: sorted.len(),
            median: median(&sorted),
            quartiles: (quantile(&sorted, 0.25), quantile(&sorted, 0.75)),
            interval: (sorted[rank], sorted[sorted.len() - 1 - rank]),
            coverage,
            least,
            most,
        })
    }
}

/// The largest rank r (from 0) such that the r-th smallest and the r-th largest of `count` values have the median between them
/// with at least 1 - LEVEL, and that probability: the sign test's interval, from the binomial distribution with p = 1/2.
fn median_rank(count: usize) -> (usize, f64) {
    let mut outside = 0.0;
    let mut best = (0, 1.0 - 2.0 * 0.5f64.powi(count as i32));
    let mut chance = 0.5f64.powi(count as i32);
    for rank in 0..count.div_ceil(2) {
        outside += 2.0 * chance;
        if rank > 0 && outside > LEVEL {
            break;
        }
        best = (rank, 1.0 - outside);
        chance *= (count - rank) as f64 / (rank + 1) as f64;
    }
    (best.0, best.1.max(0.0))
}

/// What two sets of measured times say of each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Of the second to the first: the median of all quotients (Hodges and Lehmann 1963, of the logarithms).
    #[serde(rename = "median")]
    pub ratio: f64,
    /// Its interval at 1 - LEVEL; the outermost quotients where there are too few values for that.
    pub interval: (f64, f64),
    /// How likely so large a difference is where there is none (Mann and Whitney 1947, two-sided).
    pub p: f64,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Faster,
    Slower,
    /// They may be the same, or there were too few measurements to tell.
    #[serde(rename = "not significant")]
    NotSignificant,
}

impl Verdict {
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::NotSignificant => "not significant",
        }
    }
}

/// Compares positive values of which less is better. `None` where one of the sets has none, or where all are so far apart that
/// there is no number for it.
pub fn difference(first: &[f64], second: &[f64]) -> Option<Difference> {
    let (a, b) = (positive(first), positive(second));
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let quotients = sorted(&b.iter().flat_map(|y| a.iter().map(move |x| y / x)).collect::<Vec<_>>());
    let last = quotients.len().checked_sub(1)?;
    let ratio = median(&quotients);
    let u = u_of(&a, &b);
    let tails = Tails::of(a.len(), b.len(), ties(&a, &b));
    let p = tails.two_sided(u);
    let outside = tails.outside().min(last / 2);
    let interval = (quotients[outside], quotients[last - outside]);
    let verdict = match ratio {
        _ if p > LEVEL => Verdict::NotSignificant,
        ratio if ratio < 1.0 => Verdict::Faster,
        ratio if ratio > 1.0 => Verdict::Slower,
        _ => Verdict::NotSignificant,
    };
    Some(Difference { ratio, interval, p, verdict })
}

fn positive(values: &[f64]) -> Vec<f64> {
    values.iter().copied().filter(|v| v.is_finite() && *v > 0.0).collect()
}

/// How many pairs have the second value below the first, ties by half.
fn u_of(first: &[f64], second: &[f64]) -> f64 {
    let pair = |x: &f64, y: &f64| match y.total_cmp(x) {
        std::cmp::Ordering::Less => 1.0,
        std::cmp::Ordering::Equal => 0.5,
        std::cmp::Ordering::Greater => 0.0,
    };
    first.iter().map(|x| second.iter().map(|y| pair(x, y)).sum::<f64>()).sum()
}

/// Sum of t^3 - t over the groups of t equal values.
fn ties(first: &[f64], second: &[f64]) -> f64 {
    let all = sorted(&[first, second].concat());
    all.chunk_by(|x, y| x == y).map(|group| (group.len() as f64).powi(3) - group.len() as f64).sum()
}

/// The distribution of U where nothing differs.
struct Tails {
    pairs: f64,
    /// Cumulative, by U; empty where the normal distribution stands in.
    counted: Vec<f64>,
    deviation: f64,
}

impl Tails {
    fn of(n: usize, m: usize, ties: f64) -> Tails {
        let (pairs, all) = ((n * m) as f64, (n + m) as f64);
        let spread = if all > 1.0 { pairs / 12.0 * (all + 1.0 - ties / (all * (all - 1.0))) } else { 0.0 };
        let counted = if n * m <= COUNTED { counts(n, m) } else { Vec::new() };
        Tails { pairs, counted, deviation: spread.max(0.0).sqrt() }
    }

    fn two_sided(&self, u: f64) -> f64 {
        let low = u.min(self.pairs - u);
        if let Some(below) = self.counted.get(low.ceil() as usize) {
            return (2.0 * below).min(1.0);
        }
        if self.deviation == 0.0 {
            return 1.0;
        }
        let z = ((self.pairs / 2.0 - low) - 0.5).max(0.0) / self.deviation;
        (2.0 * upper_tail(z)).min(1.0)
    }

    /// How many of the smallest, and of the largest, quotients lie outside of the interval: its bounds are the k-th smallest
    /// and the k-th largest for the largest k with 2 P(U < k) <= LEVEL, or the outermost where there is none (Hollander and
    /// Wolfe 1999, 4.3; R's `wilcox.test`).
    fn outside(&self) -> usize {
        let k = if self.counted.is_empty() {
            (self.pairs / 2.0 - 1.96 * self.deviation).max(0.0) as usize
        } else {
            self.counted.iter().take_while(|below| 2.0 * **below <= LEVEL).count()
        };
        k.saturating_sub(1)
    }
}

/// P(U <= u) for every u: the number of ways to choose which of the n + m ranks are the first set's, by their sum.
fn counts(n: usize, m: usize) -> Vec<f64> {
    // ways[i][u]: sets of i of the values so far, with the sum u of how far each is up from its lowest place.
    let most = n * m;
    let mut ways = vec![vec![0.0; most + 1]; n + 1];
    ways[0][0] = 1.0;
    for value in 0..n + m {
        for chosen in (1..=n.min(value + 1)).rev() {
            let up = value + 1 - chosen;
            if up > m {
                continue;
            }
            for u in (up..=most).rev() {
                let before = ways[chosen - 1][u - up];
                ways[chosen][u] += before;
            }
        }
    }
    let total: f64 = ways[n].iter().sum();
    let mut sum = 0.0;
    ways[n]
        .iter()
        .map(|count| {
            sum += count / total;
            sum
        })
        .collect()
}

/// Of the standard normal distribution above `z` >= 0 (Abramowitz and Stegun 26.2.17, error below 1e-7).
fn upper_tail(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let series = t * (0.319_381_530 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    series * (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_r() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!((median(&values), quantile(&values, 0.25), quantile(&values, 1.0)), (2.5, 1.75, 4.0));
        assert!(median(&[]).is_nan());
        assert_eq!(median(&[f64::NAN, 7.0]), 7.0);
    }

    #[test]
    fn the_interval_of_a_median_is_that_of_the_sign_test() {
        // Tables of the sign test: 6 values, outermost, 96.9 %; 10 values, second, 97.9 %; 5 values give 93.8 % only.
        let of = |n: usize| Summary::of(&(1..=n).map(|i| i as f64).collect::<Vec<_>>()).unwrap();
        assert_eq!(of(6).interval, (1.0, 6.0));
        assert!((of(6).coverage - 0.96875).abs() < 1e-9);
        assert_eq!(of(10).interval, (2.0, 9.0));
        assert!((of(10).coverage - 0.978_515_625).abs() < 1e-9);
        assert_eq!(of(5).interval, (1.0, 5.0));
        assert!((of(5).coverage - 0.9375).abs() < 1e-9);
        assert_eq!((of(1).interval, of(1).coverage), ((1.0, 1.0), 0.0));
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn the_test_is_mann_and_whitneys() {
        // Five against five, all apart: p = 2 / C(10, 5).
        let (a, b) = ([10.0, 11.0, 12.0, 13.0, 14.0], [5.0, 5.5, 6.0, 6.5, 7.0]);
        let d = difference(&a, &b).unwrap();
        assert!((d.p - 2.0 / 252.0).abs() < 1e-12, "{d:?}");
        assert_eq!(d.verdict, Verdict::Faster);
        assert!((d.ratio - 0.5).abs() < 1e-9 && d.interval.0 < 0.5 && d.interval.1 > 0.5, "{d:?}");
        assert_eq!(difference(&b, &a).unwrap().verdict, Verdict::Slower);
        // Three against three can show nothing: p = 2 / C(6, 3) = 0.1.
        let few = difference(&a[..3], &b[..3]).unwrap();
        assert!((few.p - 0.1).abs() < 1e-12);
        assert_eq!(few.verdict, Verdict::NotSignificant);
        // The same values are no difference, however many.
        let same = difference(&[3.0; 60], &[3.0; 60]).unwrap();
        assert_eq!((same.verdict, same.ratio), (Verdict::NotSignificant, 1.0));
        assert_eq!(difference(&a, &[]), None);
    }

    #[test]
    fn the_interval_of_a_quotient_is_that_of_r() {
        // R: wilcox.test(log(b), log(a), conf.int = TRUE) for five values each has the third smallest and the third largest.
        let (a, b) = ([1.0, 2.0, 4.0, 8.0, 16.0], [3.0, 9.0, 27.0, 81.0, 243.0]);
        assert_eq!(difference(&a, &b).unwrap().interval, (9.0 / 16.0, 81.0));
    }

    #[test]
    fn the_normal_stands_in_where_counting_would_take_long() {
        let a: Vec<f64> = (0..60).map(|i| 10.0 + f64::from(i) * 0.01).collect();
        let b: Vec<f64> = a.iter().map(|v| v * 1.02).collect();
        let d = difference(&a, &b).unwrap();
        assert_eq!(d.verdict, Verdict::Slower);
        assert!((d.ratio - 1.02).abs() < 0.005 && d.interval.0 > 1.0, "{d:?}");
        assert!((upper_tail(1.959_964) - 0.025).abs() < 1e-6);
    }
}
