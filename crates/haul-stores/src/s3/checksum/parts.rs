//! Composite checksums: of the parts' checksums, in their order.

use super::{Algorithm, Running, Value};

const MIB: u64 = 1 << 20;

/// The composite checksum of parts by their values, and how many there are; `None` if there are none, or if they
/// are of several algorithms.
pub fn composite(values: impl IntoIterator<Item = Value>) -> Option<(Value, u32)> {
    let mut values = values.into_iter();
    let first = values.next()?;
    let mut outer = first.algorithm().begin();
    outer.update(first.as_bytes());
    let mut parts = 1u32;
    for value in values {
        if value.algorithm() != first.algorithm() {
            return None;
        }
        outer.update(value.as_bytes());
        parts = parts.checked_add(1)?;
    }
    Some((outer.finish(), parts))
}

/// The composite checksum of content that is cut every so many bytes, in the making. With MD5 it is the multipart
/// ETag.
#[derive(Clone, Debug)]
pub struct Cut {
    algorithm: Algorithm,
    part_size: u64,
    /// Bytes that the open part still takes.
    left: u64,
    part: Running,
    outer: Running,
    parts: u32,
}

impl Cut {
    /// A part size of 0 is none: then all is one part.
    pub fn new(algorithm: Algorithm, part_size: u64) -> Self {
        let part_size = if part_size == 0 { u64::MAX } else { part_size };
        Cut { algorithm, part_size, left: part_size, part: algorithm.begin(), outer: algorithm.begin(), parts: 0 }
    }

    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.left == 0 {
                self.close();
            }
            let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
            let (now, later) = bytes.split_at(length);
            self.part.update(now);
            self.left -= length as u64;
            bytes = later;
        }
    }

    /// The value and the number of parts; empty content is one empty part.
    pub fn finish(mut self) -> (Value, u32) {
        if self.parts == 0 || self.left < self.part_size {
            self.close();
        }
        (self.outer.finish(), self.parts)
    }

    fn close(&mut self) {
        let part = std::mem::replace(&mut self.part, self.algorithm.begin()).finish();
        self.outer.update(part.as_bytes());
        self.parts = self.parts.saturating_add(1);
        self.left = self.part_size;
    }
}

/// Sizes to which an object of `size` bytes can have been cut into `parts` parts, the likeliest first, at most 16.
/// Only a size that gives that number is named; that the true one is among them nobody can promise. Where the
/// service tells the size of the first part (`partNumber=1`) there is nothing to guess.
pub fn part_sizes(size: u64, parts: u32) -> Vec<u64> {
    const MOST: usize = 16;
    // In the order of how many tools cut so: the AWS tools 8 MiB, rclone 5, MinIO's and Cyberduck's 16 and 10,
    // s3cmd 15, s5cmd 50, Hadoop 64 and 100, older MinIO 128.
    const USUAL: [u64; 16] = [8, 5, 16, 15, 50, 64, 10, 128, 100, 32, 256, 25, 512, 200, 20, 1024];
    let parts = u64::from(parts);
    if parts == 0 || size == 0 {
        return Vec::new();
    }
    if parts == 1 {
        return vec![size];
    }
    // The greatest and the least size that give so many parts.
    let least = size.div_ceil(parts);
    let most = (size - 1) / (parts - 1);
    let usual = USUAL.into_iter().map(|mib| mib * MIB);
    let decimal = USUAL.into_iter().take(9).map(|mb| mb * 1_000_000);
    // What is too large for the usual size is cut into as many parts as may be, each rounded up to some unit:
    // rclone 1 MiB, MinIO 16 MiB; or the usual size is doubled until it suffices.
    let doubled = [8 * MIB, 5 * MIB].into_iter().flat_map(|first| (1..20).map(move |times| first << times));
    let rounded = [MIB, 5 * MIB, 16 * MIB, 1 << 16, 1 << 12].into_iter().filter_map(|unit| least.div_ceil(unit).checked_mul(unit));
    let multiples = (least / MIB + 1..).take(MOST).filter_map(|mib| mib.checked_mul(MIB));
    let mut sizes = Vec::new();
    for candidate in usual.chain(rounded).chain([least]).chain(doubled).chain(decimal).chain(multiples) {
        if (least..=most).contains(&candidate) && !sizes.contains(&candidate) && sizes.len() < MOST {
            sizes.push(candidate);
        }
    }
    sizes
}
