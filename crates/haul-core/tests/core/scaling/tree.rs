//! Trees that are made as they are walked.

/// What is copied.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    Deep { files: u64 },
    Skewed { files: u64 },
    Flat { files: u64 },
    File { chunks: u64 },
}

/// A directory that nobody has listed yet: how much is below it, and how that is divided.
#[derive(Clone, Copy, Debug)]
pub struct Dir {
    pub below: u64,
    seed: u64,
    shape: Shape,
    pub parent: u64,
}

/// Files of a directory that has no subdirectories.
const LEAF: u64 = 200;

fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Dir {
    pub fn top(shape: Shape) -> Dir {
        let below = match shape {
            Shape::Deep { files } | Shape::Skewed { files } | Shape::Flat { files } => files,
            Shape::File { .. } => 0,
        };
        Dir { below, seed: 1, shape, parent: 0 }
    }

    /// Its files and its subdirectories.
    pub fn list(&self) -> (u64, Vec<Dir>) {
        let (mut seed, below) = (self.seed, self.below);
        if matches!(self.shape, Shape::Flat { .. } | Shape::File { .. }) || below <= LEAF {
            return (below, Vec::new());
        }
        let own = next(&mut seed) % 20;
        let rest = below - own;
        let parts: Vec<u64> = match self.shape {
            Shape::Skewed { .. } => {
                let large = rest * 9 / 10;
                let small = (rest - large) / 3;
                vec![small, large, small, rest - large - 2 * small]
            }
            _ => {
                let first = rest * (15 + next(&mut seed) % 70) / 100;
                vec![first, rest - first]
            }
        };
        let id = next(&mut seed);
        let dir = |below| Dir { below, seed: next(&mut seed), shape: self.shape, parent: id };
        (own, parts.into_iter().filter(|below| *below > 0).map(dir).collect())
    }
}
