//! How a new large file is laid out over the servers of a parallel file system. Pure; `haul-local` knows how to say it to Lustre.

use serde::{Deserialize, Serialize};

/// What the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stripe {
    /// By the size of the file.
    #[default]
    Auto,
    /// As the directory says.
    None,
    Over {
        /// Servers: 1 to [`MOST_STRIPES`].
        count: u16,
        /// Bytes that are at one server before the next has its turn: a multiple of [`UNIT`].
        size: Option<u32>,
    },
}

/// Lustre's own bound, where a layout has no more than 64 KiB.
pub const MOST_STRIPES: u16 = 2000;

/// Sizes of stripes are multiples of this.
pub const UNIT: u32 = 64 << 10;

/// The usual size of a stripe: chunks whose borders are multiples of it share no stripe of a directory's own layout either.
const USUAL: u32 = 1 << 20;
const LARGEST: u32 = 16 << 20;

/// Over how many servers files from a size on go, if the user has not said. Smaller ones gain nothing: each server costs a lookup at open and
/// at stat. It grows more slowly than the size, as many files are copied at the same time.
const BY_SIZE: [(u64, u16); 4] = [(1 << 30, 4), (16 << 30, 8), (256 << 30, 16), (4 << 40, 32)];

/// How a file is to be laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub count: u16,
    pub size: u32,
}

impl Stripe {
    /// The layout of a new file that is written in chunks; `None`: the directory's.
    #[must_use]
    pub fn layout(self, size: u64, chunk: u64) -> Option<Layout> {
        let (count, stripe) = match self {
            Stripe::None => return None,
            Stripe::Auto => (BY_SIZE.iter().rev().find(|(from, _)| size >= *from)?.1, None),
            Stripe::Over { count, size } => (count, size),
        };
        let layout = Layout { count, size: stripe.unwrap_or_else(|| fitting(chunk)) };
        // What has no more than one stripe has nothing to be laid out over.
        (count == 1 || size > u64::from(layout.size)).then_some(layout)
    }

    /// Borders of chunks lie on multiples of this, so that no stripe is written by two workers.
    #[must_use]
    pub fn unit(self) -> u64 {
        match self {
            Stripe::Over { size: Some(size), .. } => size.into(),
            _ => USUAL.into(),
        }
    }
}

/// The largest stripe of which a chunk is a multiple: a chunk at one server, where chunks have their usual size.
fn fitting(chunk: u64) -> u32 {
    let power = 1_u64 << chunk.trailing_zeros().min(40);
    u32::try_from(power).unwrap_or(LARGEST).clamp(USUAL, LARGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn larger_files_go_over_more_servers_and_small_ones_are_left_alone() {
        let auto = |size| Stripe::Auto.layout(size, 16 * MIB).map(|layout| (layout.count, u64::from(layout.size) / MIB));
        for (size, expected) in [
            (0, None),
            (MIB, None),
            (1023 * MIB, None),
            (1024 * MIB, Some((4, 16))),
            (15 << 30, Some((4, 16))),
            (16 << 30, Some((8, 16))),
            (1 << 40, Some((16, 16))),
            (u64::MAX, Some((32, 16))),
        ] {
            assert_eq!(auto(size), expected, "{size}");
        }
        assert_eq!(Stripe::None.layout(1 << 40, 16 * MIB), None);
    }

    #[test]
    fn what_the_user_says_is_kept() {
        let over = |count, size| Stripe::Over { count, size };
        assert_eq!(over(7, None).layout(100 * MIB, 8 * MIB), Some(Layout { count: 7, size: 8 << 20 }));
        assert_eq!(over(7, Some(4 << 20)).layout(100 * MIB, 8 * MIB), Some(Layout { count: 7, size: 4 << 20 }));
        assert_eq!(over(7, None).layout(8 * MIB, 8 * MIB), None, "one stripe");
        assert_eq!(over(1, None).layout(8 * MIB, 8 * MIB), Some(Layout { count: 1, size: 8 << 20 }), "whatever the directory says");
    }

    #[test]
    fn no_stripe_is_written_by_two_chunks() {
        let wishes = [Stripe::Auto, Stripe::None, Stripe::Over { count: 4, size: None }, Stripe::Over { count: 4, size: Some(3 << 20) }];
        for wish in wishes {
            for asked in [1, 64 << 10, MIB, 5 * MIB, 8 * MIB, 16 * MIB, 37_123_456, 1 << 30, 3 << 40] {
                let chunk = u64::next_multiple_of(asked, wish.unit());
                let Some(layout) = wish.layout(u64::MAX, chunk) else { continue };
                assert_eq!(chunk % u64::from(layout.size), 0, "{wish:?}, {asked}: {layout:?}");
                assert_eq!(layout.size % UNIT, 0);
            }
        }
    }
}
