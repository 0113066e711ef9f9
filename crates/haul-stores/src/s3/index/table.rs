//! Where the blocks of one level below are, by the first key of each.
//!
//! ```text
//! row = bytes of the key | key | offset | bytes of the block
//! ```

use std::ops::Range;

use haul_core::varint::{put, take};

use super::block::Place;
use super::record::{KEY_MOST, take_bytes};

#[derive(Debug, Default)]
pub(super) struct Table {
    bytes: Vec<u8>,
    /// Where in `bytes` each key is.
    keys: Vec<Range<u32>>,
}

impl Table {
    /// Makes this the table that stands in `rows`, which is exchanged for what was here. Empty if it is none: a row
    /// that cannot be, or keys out of order.
    pub fn set(&mut self, rows: &mut Vec<u8>) {
        std::mem::swap(&mut self.bytes, rows);
        self.keys.clear();
        if self.index().is_none() {
            self.clear();
        }
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.keys.clear();
    }

    fn index(&mut self) -> Option<()> {
        let mut rest = &self.bytes[..];
        let mut last: Option<&[u8]> = None;
        while !rest.is_empty() {
            let key = take_bytes(&mut rest)?;
            if key.len() > KEY_MOST || last.is_some_and(|last| last >= key) {
                return None;
            }
            last = Some(key);
            let end = self.bytes.len() - rest.len();
            self.keys.push(u32::try_from(end - key.len()).ok()?..u32::try_from(end).ok()?);
            take(&mut rest)?;
            take(&mut rest)?;
        }
        Some(())
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// The first key of block `index`.
    pub fn key(&self, index: usize) -> Option<&[u8]> {
        let range = self.keys.get(index)?;
        Some(&self.bytes[range.start as usize..range.end as usize])
    }

    pub fn place(&self, index: usize) -> Option<Place> {
        let mut rest = &self.bytes[self.keys.get(index)?.end as usize..];
        Some(Place { offset: take(&mut rest)?, size: take(&mut rest)? })
    }

    /// The block that has `key` if any has.
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        let after = self.keys.partition_point(|range| &self.bytes[range.start as usize..range.end as usize] <= key);
        after.checked_sub(1)
    }

    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.keys.capacity() * size_of::<Range<u32>>()
    }
}

pub(super) fn put_row(rows: &mut Vec<u8>, key: &[u8], place: Place) {
    put(rows, key.len() as u64);
    rows.extend_from_slice(key);
    put(rows, place.offset);
    put(rows, place.size);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_block_of_a_key_is_found() {
        let mut rows = Vec::new();
        for (index, key) in ["b", "d", "da"].into_iter().enumerate() {
            put_row(&mut rows, key.as_bytes(), Place { offset: index as u64 * 1000, size: 300 });
        }
        let mut table = Table::default();
        table.set(&mut rows);
        let found = ["", "a", "b", "bz", "d", "d\0", "da", "z"].map(|key| table.find(key.as_bytes()));
        assert_eq!(found, [None, None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(2)]);
        assert_eq!((table.len(), table.key(1), table.key(3)), (3, Some(&b"d"[..]), None));
        assert_eq!((table.place(2), table.place(3)), (Some(Place { offset: 2000, size: 300 }), None));
    }

    #[test]
    fn keys_out_of_order_make_no_table() {
        let mut rows = Vec::new();
        for key in ["b", "b"] {
            put_row(&mut rows, key.as_bytes(), Place { offset: 0, size: 0 });
        }
        let mut table = Table::default();
        table.set(&mut rows);
        assert_eq!(table.len(), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_table_or_none(mut rows in proptest::collection::vec(any::<u8>(), 0..100), key in proptest::collection::vec(any::<u8>(), 0..4)) {
            let mut table = Table::default();
            table.set(&mut rows);
            if let Some(index) = table.find(&key) {
                prop_assert!(table.key(index).unwrap() <= &key[..] && table.place(index).is_some());
            }
        }
    }
}
