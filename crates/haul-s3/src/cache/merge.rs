//! New records, and how they go into a new file together with the old one.
//!
//! ```text
//! change = bytes of the key, u16 | key | [value]        without the value: forget the key
//! ```

use std::cmp::Ordering;
use std::io;
use std::iter::Peekable;

use haul_core::spill::Sorted;

use super::block::Row;
use super::file::{FULL, Position, Stored, Writer};
use super::record::{KEY_MOST, VALUE_MOST};
use crate::state_file::random;

/// `None` if the key or the value are of a length that cannot be kept.
pub fn change(key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let fits = !key.is_empty() && key.len() <= KEY_MOST && value.len() <= VALUE_MOST;
    let length = u16::try_from(key.len()).ok().filter(|_| fits)?;
    Some([&length.to_le_bytes(), key, value].concat())
}

/// By key: that equal ones stay in the order in which they came is the sorter's promise.
pub fn compare(a: &[u8], b: &[u8]) -> Ordering {
    split(a).key.cmp(split(b).key)
}

fn split(change: &[u8]) -> Row<'_> {
    let parts = change.split_first_chunk::<2>().and_then(|(length, rest)| rest.split_at_checked(u16::from_le_bytes(*length).into()));
    let (key, value) = parts.unwrap_or_default();
    Row { key, value }
}

/// Changes in the order of their keys, the last of each key.
struct Changes {
    sorted: Peekable<Sorted>,
    current: Option<Vec<u8>>,
}

impl Changes {
    fn key(&self) -> Option<&[u8]> {
        self.current.as_deref().map(|change| split(change).key)
    }

    fn step(&mut self) -> io::Result<()> {
        self.current = self.sorted.next().transpose()?;
        while let (Some(current), Some(Ok(next))) = (&self.current, self.sorted.peek())
            && compare(current, next).is_eq()
        {
            self.current = self.sorted.next().transpose()?;
        }
        Ok(())
    }

    /// Writes the changes up to a key, all of them without one; those that forget are dropped.
    fn write_before(&mut self, end: Option<&[u8]>, writer: &mut Writer<'_>) -> io::Result<()> {
        while let Some(row) = self.current.as_deref().map(split)
            && end.is_none_or(|end| row.key < end)
        {
            if !row.value.is_empty() {
                writer.add(row, false)?;
            }
            self.step()?;
        }
        Ok(())
    }
}

/// Writes the records of `old` as they are after the changes, of which there are at most `count`, to a file of about `most` bytes. If
/// all blocks of the old one would be too many a random choice of them stays: with the least recently used ones dropped, a sync,
/// which goes through all keys in turn, would never find anything.
pub fn merge(old: Option<&Stored>, sorted: Sorted, count: u64, most: u64, writer: &mut Writer<'_>) -> io::Result<()> {
    let mut changes = Changes { sorted: sorted.peekable(), current: None };
    changes.step()?;
    if let Some(stored) = old
        && let Some(mut position) = Position::new()
    {
        let mean = stored.size as f64 / stored.records.max(1) as f64;
        let part = ((most as f64 - count as f64 * mean) / stored.size.max(1) as f64).clamp(0.0, 1.0);
        // What is kept is spread evenly over the file from a random start.
        let mut credit = (part - 1.0) * (random() % FULL as u64) as f64;
        for (block, place) in stored.table.iter().enumerate() {
            credit += part * place.size as f64;
            if credit < 0.0 && part < 1.0 {
                continue;
            }
            credit -= place.size as f64;
            changes.write_before(Some(&place.first), writer)?;
            let end = stored.table.get(block + 1).map(|next| &next.first[..]);
            let untouched = changes.key().is_none_or(|key| end.is_some_and(|end| key >= end));
            if untouched && writer.takes_block() {
                stored.read(block).map_or(Ok(()), |sealed| writer.add_block(place, &sealed))?;
                continue;
            }
            let rows = position.load(stored, block);
            while rows.advance() {
                let row = rows.row();
                changes.write_before(Some(row.key), writer)?;
                if changes.key() != Some(row.key) {
                    writer.add(row, true)?;
                }
            }
        }
    }
    changes.write_before(None, writer)
}
