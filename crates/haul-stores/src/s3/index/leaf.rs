//! A block of records in the order of their keys.
//!
//! ```text
//! row   = bytes shared with the key before | bytes of the rest of the key | bytes of details | rest | details
//! plain = the hashed ETag of each row
//! ```

use std::cmp::Ordering;
use std::ops::Range;

use haul_core::varint::{put, take};

use super::block::Content;
use super::record::{HASH, KEY_MOST};

/// A record as it stands in blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub key: &'a [u8],
    pub hash: &'a [u8],
    pub details: &'a [u8],
}

/// Gathers rows.
#[derive(Debug, Default)]
pub(super) struct LeafBuilder {
    pub content: Content,
    pub first: Vec<u8>,
    last: Vec<u8>,
    pub rows: u64,
}

impl LeafBuilder {
    /// The key must be greater than the one before, the hash `HASH` bytes long.
    pub fn add(&mut self, row: Row<'_>) {
        let shared = if self.rows == 0 {
            self.first.clear();
            self.first.extend_from_slice(row.key);
            0
        } else {
            self.last.iter().zip(row.key).take_while(|(a, b)| a == b).count()
        };
        let out = &mut self.content.rows;
        put(out, shared as u64);
        put(out, (row.key.len() - shared) as u64);
        put(out, row.details.len() as u64);
        out.extend_from_slice(&row.key[shared..]);
        out.extend_from_slice(row.details);
        self.content.plain.extend_from_slice(row.hash);
        self.last.truncate(shared);
        self.last.extend_from_slice(&row.key[shared..]);
        self.rows += 1;
    }

    /// Bytes before compression.
    pub fn size(&self) -> usize {
        self.content.rows.len() + self.content.plain.len()
    }

    /// Whether rows or plain take `bytes`.
    pub fn has(&self, bytes: usize) -> bool {
        self.content.rows.len().max(self.content.plain.len()) >= bytes
    }

    pub fn clear(&mut self) {
        self.content.clear();
        self.rows = 0;
    }
}

/// Reads rows, forwards, and from the start again where that is needed.
#[derive(Debug, Default)]
pub(super) struct Leaf {
    pub content: Content,
    /// Where the row after the current one starts.
    next: usize,
    /// Rows read.
    count: usize,
    key: Vec<u8>,
    details: Range<usize>,
}

impl Leaf {
    pub fn rewind(&mut self) {
        self.next = 0;
        self.count = 0;
        self.key.clear();
    }

    /// Goes to the next row; `false`, and where it was, at the end or if the bytes are none.
    #[inline]
    pub fn advance(&mut self) -> bool {
        let Some(mut rest) = self.content.rows.get(self.next..) else { return false };
        let mut number = || take(&mut rest).and_then(|number| usize::try_from(number).ok());
        let (Some(shared), Some(more), Some(details)) = (number(), number(), number()) else { return false };
        let Some((suffix, rest)) = rest.split_at_checked(more) else { return false };
        if shared > self.key.len() || more > KEY_MOST - shared || details > rest.len() {
            return false;
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(suffix);
        let start = self.content.rows.len() - rest.len();
        self.details = start..start + details;
        self.next = self.details.end;
        self.count += 1;
        true
    }

    /// The current row; `None` if there is none.
    pub fn row(&self) -> Option<Row<'_>> {
        let at = self.count.checked_sub(1)? * HASH;
        let hash = self.content.plain.get(at..at + HASH)?;
        Some(Row { key: &self.key, hash, details: &self.content.rows[self.details.clone()] })
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

    pub fn memory(&self) -> usize {
        self.content.memory() + self.key.capacity()
    }
}
