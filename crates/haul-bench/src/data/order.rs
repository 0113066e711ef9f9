//! Numbers in an order that looks drawn and is computed: the same for the same seed, place by place, without any memory.

pub use crate::order::mix;

/// A number in (0, 1), never an end.
pub fn fraction(x: u64) -> f64 {
    ((mix(x) >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

/// A permutation of `0..count`: a Feistel network of four rounds over the next even power of two, walked until it is below
/// `count` (Black and Rogaway 2002).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    count: u64,
    half: u32,
    seed: u64,
}

const ROUNDS: u64 = 4;

impl Order {
    /// Of at most 2^62 numbers.
    pub fn new(count: u64, seed: u64) -> Order {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        Order { count, half: bits.div_ceil(2).max(1), seed: mix(seed) }
    }

    /// Where `number` comes; `number` must be below the count.
    pub fn place(&self, number: u64) -> u64 {
        let mut at = number;
        loop {
            at = (0..ROUNDS).fold(at, |at, round| self.round(at, round));
            if at < self.count {
                return at;
            }
        }
    }

    /// Which number comes at `place`: undoes [`Order::place`].
    pub fn number(&self, place: u64) -> u64 {
        let mut at = place;
        loop {
            at = (0..ROUNDS).rev().fold(at, |at, round| self.back(at, round));
            if at < self.count {
                return at;
            }
        }
    }

    fn mask(&self) -> u64 {
        (1 << self.half) - 1
    }

    fn round(&self, at: u64, round: u64) -> u64 {
        let (left, right) = (at >> self.half, at & self.mask());
        right << self.half | (left ^ mix(self.seed ^ right << 3 ^ round)) & self.mask()
    }

    fn back(&self, at: u64, round: u64) -> u64 {
        let (right, mixed) = (at >> self.half, at & self.mask());
        ((mixed ^ mix(self.seed ^ right << 3 ^ round)) & self.mask()) << self.half | right
    }
}

/// Of `total` things shared out evenly and in order among `parts`, those of part `at`: the first, and how many.
pub fn share(total: u64, parts: u64, at: u64) -> (u64, u64) {
    let start = |at: u64| (u128::from(total) * u128::from(at) / u128::from(parts)) as u64;
    (start(at), start(at + 1) - start(at))
}

/// The part that has thing number `at` of those that [`share`] shared out.
pub fn holder(total: u64, parts: u64, at: u64) -> u64 {
    (((u128::from(at) + 1) * u128::from(parts) - 1) / u128::from(total)) as u64
}
