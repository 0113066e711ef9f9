//! The order of contenders in a round, and the numbers behind it. Pure.

/// The places 0..`count` in an order that depends on the seed and the round only.
pub fn order(seed: u64, round: u32, count: usize) -> Vec<usize> {
    let mut state = seed ^ u64::from(round).wrapping_mul(0xa076_1d64_78bd_642f);
    let mut places: Vec<usize> = (0..count).collect();
    // Fisher and Yates 1938, from the end.
    for last in (1..count).rev() {
        places.swap(last, below(&mut state, last as u64 + 1) as usize);
    }
    places
}

/// A number below `bound`, each as likely as the others to one part in 2^64 / bound.
fn below(state: &mut u64, bound: u64) -> u64 {
    let drawn = mix(*state);
    *state = state.wrapping_add(GOLDEN);
    ((u128::from(drawn) * u128::from(bound)) >> 64) as u64
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64 (Steele, Lea and Flood 2014): every bit of the input changes half of the output.
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(GOLDEN);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A step that visits every number below `count` once: it has no common factor with it. About the golden section of it.
pub fn stride(count: u64) -> u64 {
    let factor = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (count * 5 / 8..).find(|step| factor(*step, count) == 1).unwrap_or(1)
}

/// Writes the bytes of consecutive eight-byte words from byte `at` on.
#[inline(always)]
pub fn words(at: u64, into: &mut [u8], word: impl Fn(u64) -> u64) {
    let skip = (at % 8) as usize;
    let mut index = at / 8;
    let mut rest = into;
    if skip > 0 {
        let many = (8 - skip).min(rest.len());
        let (head, tail) = rest.split_at_mut(many);
        head.copy_from_slice(&word(index).to_le_bytes()[skip..skip + many]);
        (rest, index) = (tail, index + 1);
    }
    let (whole, tail) = rest.as_chunks_mut::<8>();
    for chunk in whole {
        *chunk = word(index).to_le_bytes();
        index += 1;
    }
    tail.copy_from_slice(&word(index).to_le_bytes()[..tail.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_of_the_seed_and_the_round() {
        assert_eq!(order(7, 1, 10), order(7, 1, 10));
        assert_ne!(order(7, 1, 10), order(7, 2, 10));
        assert_ne!(order(7, 1, 10), order(8, 1, 10));
        let mut all = order(7, 1, 10);
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        assert_eq!((order(1, 1, 0), order(1, 1, 1)), (vec![], vec![0]));
    }

    #[test]
    fn every_contender_is_first_as_often() {
        let mut first = [0; 4];
        for round in 0..4000 {
            first[order(3, round, 4)[0]] += 1;
        }
        // Of 1,000 expected; 150 is more than five deviations.
        assert!(first.iter().all(|n: &i32| (n - 1000).abs() < 150), "{first:?}");
    }
}
