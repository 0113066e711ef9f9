//! A block of records in the order of their keys, compressed and under a checksum.
//!
//! ```text
//! block = bytes of hashes, u32 | hashed ETag of each row | zstd of rows | checksum
//! row   = bytes shared with the key before | bytes of the rest of the key | bytes of details | rest | details
//! ```
//! A block may stand anywhere in any file of its bucket: a record in a wrong place is only not found.

use std::cmp::Ordering;
use std::io;
use std::ops::Range;

use haul_core::hash::xxh128;
use haul_core::varint::{put, take};

use super::record::{HASH, KEY_MOST};

/// The fastest level of zstd that still finds repeats.
const LEVEL: i32 = 1;

const SUM: usize = 16;

/// A record as it stands in blocks.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    pub key: &'a [u8],
    /// `HASH` bytes.
    pub hash: &'a [u8],
    pub details: &'a [u8],
}

/// Seals blocks of one bucket, whose number goes into the checksums.
pub struct Sealer {
    scope: u128,
    compressor: zstd::bulk::Compressor<'static>,
}

impl Sealer {
    pub fn new(scope: u128) -> io::Result<Sealer> {
        Ok(Sealer { scope, compressor: zstd::bulk::Compressor::new(LEVEL)? })
    }

    pub fn seal(&mut self, rows: &[u8], hashes: &[u8]) -> io::Result<Vec<u8>> {
        let mut block = u32::try_from(hashes.len()).map_err(io::Error::other)?.to_le_bytes().to_vec();
        block.extend_from_slice(hashes);
        block.extend_from_slice(&self.compressor.compress(rows)?);
        block.extend_from_slice(&(xxh128(&block) ^ self.scope).to_le_bytes());
        Ok(block)
    }
}

/// The hashes of a sealed block and its packed rows; `None` unless it is what was sealed.
pub fn unseal(block: &[u8], scope: u128) -> Option<(&[u8], &[u8])> {
    let (body, sum) = block.split_last_chunk::<SUM>()?;
    let (count, rest) = body.split_first_chunk::<4>()?;
    let parts = rest.split_at_checked(u32::from_le_bytes(*count) as usize)?;
    (xxh128(body) ^ scope == u128::from_le_bytes(*sum)).then_some(parts)
}

/// Gathers rows.
#[derive(Debug, Default)]
pub struct Builder {
    rows: Vec<u8>,
    hashes: Vec<u8>,
    pub first: Vec<u8>,
    last: Vec<u8>,
}

impl Builder {
    /// The key must be greater than the one before.
    pub fn add(&mut self, row: Row<'_>) {
        if self.is_empty() {
            self.first.clear();
            self.first.extend_from_slice(row.key);
            self.last.clear();
        }
        let shared = self.last.iter().zip(row.key).take_while(|(a, b)| a == b).count();
        let out = &mut self.rows;
        put(out, shared as u64);
        put(out, (row.key.len() - shared) as u64);
        put(out, row.details.len() as u64);
        out.extend_from_slice(&row.key[shared..]);
        out.extend_from_slice(row.details);
        self.hashes.extend_from_slice(row.hash);
        self.last.truncate(shared);
        self.last.extend_from_slice(&row.key[shared..]);
    }

    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Bytes before compression.
    pub fn size(&self) -> usize {
        self.rows.len() + self.hashes.len()
    }

    /// The block, and the number of its rows. Empties this.
    pub fn seal(&mut self, sealer: &mut Sealer) -> io::Result<(Vec<u8>, u64)> {
        let sealed = (sealer.seal(&self.rows, &self.hashes)?, (self.hashes.len() / HASH) as u64);
        self.rows.clear();
        self.hashes.clear();
        Ok(sealed)
    }
}

/// Reads rows, forwards, and from the start again where that is needed.
#[derive(Debug, Default)]
pub struct Rows {
    pub rows: Vec<u8>,
    pub hashes: Vec<u8>,
    /// Where the row after the current one starts.
    next: usize,
    /// Rows read.
    count: usize,
    key: Vec<u8>,
    details: Range<usize>,
}

impl Rows {
    pub fn rewind(&mut self) {
        self.next = 0;
        self.count = 0;
        self.key.clear();
    }

    /// Goes to the next row; `false`, and where it was, at the end or if the bytes are none.
    #[inline]
    pub fn advance(&mut self) -> bool {
        let Some(mut rest) = self.rows.get(self.next..) else { return false };
        let mut number = || take(&mut rest).and_then(|number| usize::try_from(number).ok());
        let (Some(shared), Some(more), Some(details)) = (number(), number(), number()) else { return false };
        let Some((suffix, rest)) = rest.split_at_checked(more) else { return false };
        if shared > self.key.len() || more > KEY_MOST - shared || details > rest.len() {
            return false;
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(suffix);
        let start = self.rows.len() - rest.len();
        self.details = start..start + details;
        self.next = self.details.end;
        self.count += 1;
        true
    }

    /// The current row; `None` if there is none.
    pub fn row(&self) -> Option<Row<'_>> {
        let at = self.count.checked_sub(1)? * HASH;
        let hash = self.hashes.get(at..at + HASH)?;
        Some(Row { key: &self.key, hash, details: &self.rows[self.details.clone()] })
    }

    /// The row of `key`. Costs what lies between it and the one before, if that was not behind it.
    pub fn find(&mut self, key: &[u8]) -> Option<Row<'_>> {
        if self.count > 0 && self.key[..] > *key {
            self.rewind();
        }
        loop {
            let order = if self.count == 0 { Ordering::Less } else { self.key[..].cmp(key) };
            match order {
                Ordering::Less if self.advance() => {}
                Ordering::Equal => return self.row(),
                _ => return None,
            }
        }
    }

    #[cfg(test)]
    pub fn memory(&self) -> usize {
        self.rows.capacity() + self.hashes.capacity() + self.key.capacity()
    }
}
