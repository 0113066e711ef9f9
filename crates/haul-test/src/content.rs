//! File contents that depend on the position: a chunk in the wrong place shows.

/// The eight bytes of a file's content at `8 * index`, as a number in little-endian order. `seed` is the file's.
fn word(seed: u64, index: u64) -> u64 {
    // splitmix64, whose mixer gives each (seed, index) an unrelated value.
    let mut x = seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A file's seed from its name (the last component, so that a renamed tree keeps its contents).
pub fn seed(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Fills `buffer` with what a file of this seed holds from `offset` (bytes) on.
pub fn fill(seed: u64, offset: u64, buffer: &mut [u8]) {
    let mut done = 0;
    while done < buffer.len() {
        let position = offset + done as u64;
        let bytes = word(seed, position / 8).to_le_bytes();
        let from = (position % 8) as usize;
        let count = (8 - from).min(buffer.len() - done);
        buffer[done..done + count].copy_from_slice(&bytes[from..from + count]);
        done += count;
    }
}

/// The first `size` bytes of a file of this seed.
pub fn bytes(seed: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    fill(seed, 0, &mut bytes);
    bytes
}

/// A small generator of numbers for random trees; the same seed gives the same numbers for ever.
#[derive(Debug, Clone)]
pub struct Random {
    seed: u64,
    index: u64,
}

impl Random {
    /// Starts at a seed.
    pub fn new(seed: u64) -> Random {
        Random { seed, index: 0 }
    }

    /// The next number, below `bound`, which must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.index += 1;
        word(self.seed, self.index) % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_the_same_wherever_it_starts() {
        let mut whole = vec![0; 100];
        fill(7, 1000, &mut whole);
        for from in 0..50 {
            let mut piece = vec![0; 33];
            fill(7, 1000 + from as u64, &mut piece);
            assert_eq!(piece, whole[from..from + 33], "from {from}");
        }
        let mut other = vec![0; 100];
        fill(8, 1000, &mut other);
        assert_ne!(whole, other);
    }
}
