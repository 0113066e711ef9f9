//! Composite checksums: of the parts' checksums, in their order.

use super::{Algorithm, Running, Value};

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
