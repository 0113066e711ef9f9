//! New records, and how they go into a new file together with the old one.
//!
//! ```text
//! change = bytes of the key, u16 | key | [hashed ETag | details]        without the latter: forget the key
//! ```

use std::cmp::Ordering;
use std::io;
use std::iter::Peekable;

use haul_core::spill::Sorted;

use super::block::{Row, Rows};
use super::file::{FULL, Position, Stored, Writer};
use super::record::{DETAILS_MOST, HASH, KEY_MOST};

/// `None` if the key or the details are of a length that cannot be kept.
pub fn change(key: &[u8], value: Option<(&[u8; HASH], &[u8])>) -> Option<Vec<u8>> {
    let details = value.map_or(&[][..], |(_, details)| details);
    if key.is_empty() || key.len() > KEY_MOST || details.len() > DETAILS_MOST {
        return None;
    }
    let mut bytes = Vec::with_capacity(2 + key.len() + HASH + details.len());
    bytes.extend_from_slice(&u16::try_from(key.len()).ok()?.to_le_bytes());
    bytes.extend_from_slice(key);
    if let Some((hash, details)) = value {
        bytes.extend_from_slice(hash);
        bytes.extend_from_slice(details);
    }
    Some(bytes)
}

/// By key: that equal ones stay in the order in which they came is the sorter's promise.
pub fn compare(a: &[u8], b: &[u8]) -> Ordering {
    key_of(a).cmp(key_of(b))
}

fn key_of(change: &[u8]) -> &[u8] {
    split(change).map_or(&[], |(key, _)| key)
}

fn split(change: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = change.split_first_chunk::<2>()?;
    rest.split_at_checked(u16::from_le_bytes(*length).into())
}

/// Changes in the order of their keys, the last of each key.
struct Changes {
    sorted: Peekable<Sorted>,
    current: Option<Vec<u8>>,
}

impl Changes {
    fn new(sorted: Sorted) -> io::Result<Changes> {
        let mut changes = Changes { sorted: sorted.peekable(), current: None };
        changes.step()?;
        Ok(changes)
    }

    fn key(&self) -> Option<&[u8]> {
        self.current.as_deref().map(key_of)
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

    /// Writes the current change, unless it is to forget, and goes on.
    fn write(&mut self, writer: &mut Writer<'_>) -> io::Result<()> {
        if let Some((key, value)) = self.current.as_deref().and_then(split)
            && let Some((hash, details)) = value.split_at_checked(HASH)
        {
            writer.add(Row { key, hash, details })?;
        }
        self.step()
    }

    fn write_before(&mut self, end: &[u8], writer: &mut Writer<'_>) -> io::Result<()> {
        while self.key().is_some_and(|key| key < end) {
            self.write(writer)?;
        }
        Ok(())
    }
}

/// Which blocks of the old file stay if all would be too many: a random choice. With the least recently used ones dropped, a sync,
/// which goes through all keys in turn, would never find anything.
#[derive(Clone, Copy, Debug)]
pub struct Thinning {
    /// Of the bytes of the old file.
    part: f64,
    /// Bytes that may be kept, less those that were: below 0 by at most a block.
    credit: f64,
}

impl Thinning {
    /// For a new file of about `most` bytes with at most `changes` more records; `chance` is a random number.
    pub fn new(old: &Stored, changes: u64, most: u64, chance: u64) -> Thinning {
        let mean = old.size as f64 / old.records.max(1) as f64;
        let room = most as f64 - changes as f64 * mean;
        let part = (room / old.size.max(1) as f64).clamp(0.0, 1.0);
        Thinning { part, credit: -((chance % FULL as u64) as f64) * (1.0 - part) }
    }

    /// Spread evenly over the file from a random start.
    fn keeps(&mut self, size: u64) -> bool {
        self.credit += self.part * size as f64;
        let keeps = self.credit >= 0.0;
        if keeps {
            self.credit -= size as f64;
        }
        keeps || self.part >= 1.0
    }
}

/// Writes the records of `old` as they are after the changes.
pub fn merge(old: Option<(&Stored, Thinning)>, changes: Sorted, writer: &mut Writer<'_>) -> io::Result<()> {
    let mut changes = Changes::new(changes)?;
    if let Some((stored, mut thinning)) = old
        && let Some(mut position) = Position::new()
    {
        for (block, place) in stored.table.iter().enumerate().filter(|(_, place)| thinning.keeps(place.size)) {
            changes.write_before(&place.first, writer)?;
            let end = stored.table.get(block + 1).map(|next| &next.first[..]);
            let untouched = changes.key().is_none_or(|key| end.is_some_and(|end| key >= end));
            if untouched && writer.takes_block() {
                stored.read(block).map_or(Ok(()), |sealed| writer.add_block(&place.first, &sealed))?;
            } else {
                merge_rows(position.load(stored, block), &mut changes, writer)?;
            }
        }
    }
    while changes.key().is_some() {
        changes.write(writer)?;
    }
    Ok(())
}

fn merge_rows(rows: &mut Rows, changes: &mut Changes, writer: &mut Writer<'_>) -> io::Result<()> {
    while rows.advance() {
        let Some(row) = rows.row() else { break };
        changes.write_before(row.key, writer)?;
        if changes.key() == Some(row.key) {
            changes.write(writer)?;
        } else {
            writer.add_old(row)?;
        }
    }
    Ok(())
}
