//! A block of records in the order of their keys, compressed and under a checksum.
//!
//! ```text
//! block = zstd of rows | checksum
//! row   = bytes shared with the key before | bytes of the rest of the key | bytes of the value | rest | value
//! ```
//! A block may stand anywhere in any file of its bucket: a record in a wrong place is only not found.

use std::cmp::Ordering;
use std::io;
use std::ops::Range;

use haul_core::hash::xxh128;
use haul_core::varint::{put, take};
use zstd::bulk::Compressor;

use super::record::KEY_MOST;

const SUM: usize = 16;

#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
}

/// `scope` is the number of the bucket.
pub fn seal(compressor: &mut Compressor<'_>, rows: &[u8], scope: u128) -> io::Result<Vec<u8>> {
    let mut block = compressor.compress(rows)?;
    block.extend_from_slice(&(xxh128(&block) ^ scope).to_le_bytes());
    Ok(block)
}

/// The packed rows; `None` unless it is what was sealed.
pub fn unseal(block: &[u8], scope: u128) -> Option<&[u8]> {
    let (packed, sum) = block.split_last_chunk::<SUM>()?;
    (xxh128(packed) ^ scope == u128::from_le_bytes(*sum)).then_some(packed)
}

#[derive(Debug, Default)]
pub struct Builder {
    pub rows: Vec<u8>,
    pub count: u64,
    pub first: Vec<u8>,
    last: Vec<u8>,
}

impl Builder {
    /// The key must be greater than the one before.
    pub fn add(&mut self, Row { key, value }: Row<'_>) {
        if self.rows.is_empty() {
            self.first = key.to_vec();
            self.last.clear();
        }
        let shared = self.last.iter().zip(key).take_while(|(a, b)| a == b).count();
        let out = &mut self.rows;
        put(out, shared as u64);
        put(out, (key.len() - shared) as u64);
        put(out, value.len() as u64);
        out.extend_from_slice(&key[shared..]);
        out.extend_from_slice(value);
        self.count += 1;
        self.last.truncate(shared);
        self.last.extend_from_slice(&key[shared..]);
    }
}

/// Reads rows, forwards, and from the start again where that is needed.
#[derive(Debug, Default)]
pub struct Rows {
    pub bytes: Vec<u8>,
    /// Where the row after the current one starts; 0 before the first.
    next: usize,
    key: Vec<u8>,
    value: Range<usize>,
}

impl Rows {
    pub fn rewind(&mut self) {
        self.next = 0;
        self.key.clear();
    }

    /// Goes to the next row; `false`, and where it was, at the end or if the bytes are none.
    #[inline]
    pub fn advance(&mut self) -> bool {
        let Some(mut rest) = self.bytes.get(self.next..) else { return false };
        let mut number = || take(&mut rest).and_then(|number| usize::try_from(number).ok());
        let (Some(shared), Some(more), Some(length)) = (number(), number(), number()) else { return false };
        let Some((suffix, rest)) = rest.split_at_checked(more) else { return false };
        if shared > self.key.len() || more > KEY_MOST - shared || length > rest.len() {
            return false;
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(suffix);
        let start = self.bytes.len() - rest.len();
        self.value = start..start + length;
        self.next = self.value.end;
        true
    }

    /// The row that [`Rows::advance`] went to.
    pub fn row(&self) -> Row<'_> {
        Row { key: &self.key, value: &self.bytes[self.value.clone()] }
    }

    /// The value of `key`. Costs what lies between it and the key before, if that was not behind it.
    pub fn find(&mut self, key: &[u8]) -> Option<&[u8]> {
        if self.key[..] > *key {
            self.rewind();
        }
        loop {
            match self.key[..].cmp(key) {
                Ordering::Less if self.advance() => {}
                Ordering::Equal if self.next > 0 => return Some(&self.bytes[self.value.clone()]),
                _ => return None,
            }
        }
    }
}
