//! The file: immutable, so that any number of processes may read it while another takes its place.
//!
//! ```text
//! file  = heading | blocks | table, a block | foot
//! table = for each block: bytes of its first key | key | offset | bytes
//! foot  = offset of the table | its bytes | records | checksum
//! ```
//! A reader holds the table, usually some KiB, and one block.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use haul_core::hash::xxh128;
use haul_core::varint::{put, take};

use super::block::{Builder, Row, Rows, Sealer, unseal};
use super::record::{HASH, KEY_MOST, put_bytes, take_bytes};

/// For people who come across the file, and the version of all that follows.
pub const HEADING: &[u8] = b"haul: what is known of the objects of one bucket, version 3; may be deleted\n";

/// A block ends once its rows take this much.
pub const FULL: usize = 32 << 10;

/// A block of an older file that has grown since is left whole up to this, so that a key that is added moves the bounds of its own
/// block and not those of all that follow.
const OVERFULL: usize = FULL + FULL / 2;

/// Most bytes of the rows of a block: the row that fills it may be much longer than usual.
const ROWS_MOST: usize = 2 * FULL;

/// Nothing more is written once the table takes this much: everybody holds it in memory, and it comes to that only with keys of
/// nearly the longest length.
const TABLE_FULL: usize = 4 << 20;

/// Most bytes of a block in the file: what does not compress grows a little.
const BLOCK_MOST: u64 = 3 * FULL as u64;

const FOOT: usize = 8 + 8 + 8 + 16;

/// Where a block stands, and its first key.
#[derive(Debug)]
pub struct Place {
    pub first: Box<[u8]>,
    offset: u64,
    pub size: u64,
}

/// An open file with its table.
#[derive(Debug)]
pub struct Stored {
    file: File,
    scope: u128,
    pub table: Vec<Place>,
    /// As the file says; for estimates only.
    pub records: u64,
    /// Bytes.
    pub size: u64,
}

pub fn foot(scope: u128, offset: u64, size: u64, records: u64) -> Vec<u8> {
    let mut foot = [offset, size, records].map(u64::to_le_bytes).concat();
    let sum = xxh128(&[HEADING, &foot].concat()) ^ scope;
    foot.extend_from_slice(&sum.to_le_bytes());
    foot
}

fn table_of(mut rows: &[u8]) -> Option<Vec<Place>> {
    let mut table: Vec<Place> = Vec::new();
    while !rows.is_empty() {
        let first: Box<[u8]> = take_bytes(&mut rows)?.into();
        if first.len() > KEY_MOST || table.last().is_some_and(|last| last.first >= first) {
            return None;
        }
        table.push(Place { first, offset: take(&mut rows)?, size: take(&mut rows)? });
    }
    Some(table)
}

impl Stored {
    /// `None` if there is no such file, or none that can be used.
    pub fn open(path: &Path, scope: u128) -> Option<Stored> {
        // Not to wait for a writer, should somebody have put a pipe there.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let meta = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let mut end = [0; FOOT];
        file.read_exact_at(&mut end, meta.len().checked_sub(FOOT as u64)?).ok()?;
        let number = |at: usize| end[at..].first_chunk().map(|number| u64::from_le_bytes(*number));
        let (offset, size, records) = (number(0)?, number(8)?, number(16)?);
        if foot(scope, offset, size, records) != end || size > 2 * TABLE_FULL as u64 {
            return None;
        }
        let mut sealed = vec![0; usize::try_from(size).ok()?];
        file.read_exact_at(&mut sealed, offset).ok()?;
        let rows = zstd::bulk::decompress(unseal(&sealed, scope)?.1, TABLE_FULL + FULL).ok()?;
        Some(Stored { file, scope, table: table_of(&rows)?, records, size: meta.len() })
    }

    #[cfg(test)]
    pub fn memory(&self) -> usize {
        self.table.capacity() * size_of::<Place>() + self.table.iter().map(|place| place.first.len()).sum::<usize>()
    }

    /// The block as it stands in the file; `None` if it is damaged.
    pub fn read(&self, block: usize) -> Option<Vec<u8>> {
        let place = self.table.get(block).filter(|place| place.size <= BLOCK_MOST)?;
        let mut sealed = vec![0; usize::try_from(place.size).ok()?];
        self.file.read_exact_at(&mut sealed, place.offset).ok()?;
        unseal(&sealed, self.scope)?;
        Some(sealed)
    }
}

/// One reader's place in a file: one block is held.
pub struct Position {
    decompressor: zstd::bulk::Decompressor<'static>,
    rows: Rows,
    /// Which block is held. One that is damaged is held as an empty one.
    at: Option<usize>,
}

impl Position {
    /// `None` if there is no memory.
    pub fn new() -> Option<Position> {
        Some(Position { decompressor: zstd::bulk::Decompressor::new().ok()?, rows: Rows::default(), at: None })
    }

    /// Bytes held, without the 100 KB of the decompressor.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        self.rows.memory()
    }

    pub fn find<'a>(&'a mut self, stored: &Stored, key: &[u8]) -> Option<Row<'a>> {
        let block = stored.table.partition_point(|place| &place.first[..] <= key).checked_sub(1)?;
        self.load(stored, block).find(key)
    }

    /// The rows of a block; none if it is damaged.
    pub fn load(&mut self, stored: &Stored, block: usize) -> &mut Rows {
        if self.at != Some(block) {
            self.at = Some(block);
            self.rows.rewind();
            self.rows.rows.clear();
            self.rows.hashes.clear();
            if let Some(sealed) = stored.read(block) {
                self.unpack(&sealed, stored.scope);
            }
        }
        &mut self.rows
    }

    fn unpack(&mut self, sealed: &[u8], scope: u128) {
        let Some((hashes, packed)) = unseal(sealed, scope) else { return };
        self.rows.rows.reserve(ROWS_MOST);
        // Never writes beyond what was reserved, whatever the block says.
        match self.decompressor.decompress_to_buffer(packed, &mut self.rows.rows) {
            Ok(_) => self.rows.hashes.extend_from_slice(hashes),
            Err(_) => self.rows.rows.clear(),
        }
    }
}

/// Writes a file from its first key to its last, holding one block and the table.
pub struct Writer<'a> {
    file: &'a File,
    scope: u128,
    /// Bytes after which nothing is taken any more.
    most: u64,
    sealer: Sealer,
    offset: u64,
    block: Builder,
    /// The greatest key so far, as far as it is known; empty before the first.
    last: Vec<u8>,
    table: Vec<u8>,
    records: u64,
}

impl<'a> Writer<'a> {
    pub fn new(mut file: &'a File, scope: u128, most: u64) -> io::Result<Writer<'a>> {
        file.write_all(HEADING)?;
        let (block, last, table) = Default::default();
        Ok(Writer { file, scope, most, sealer: Sealer::new(scope)?, offset: HEADING.len() as u64, block, last, table, records: 0 })
    }

    /// Adds a new record. One whose key does not come after all others is left out, and so is what comes when the file is full.
    pub fn add(&mut self, row: Row<'_>) -> io::Result<()> {
        self.add_until(row, FULL)
    }

    /// Adds a record of an older file.
    pub fn add_old(&mut self, row: Row<'_>) -> io::Result<()> {
        self.add_until(row, OVERFULL)
    }

    fn add_until(&mut self, row: Row<'_>, full: usize) -> io::Result<()> {
        if row.key <= &self.last[..] || self.is_full() {
            return Ok(());
        }
        self.block.add(row);
        self.last.clear();
        self.last.extend_from_slice(row.key);
        if self.block.size() >= full { self.end_block() } else { Ok(()) }
    }

    /// Whether a block of an older file may be added as it is: not if that left a small one behind each time.
    pub fn takes_block(&self) -> bool {
        self.block.is_empty() || self.block.size() >= FULL / 2
    }

    /// Adds a block of an older file, with its first key.
    pub fn add_block(&mut self, first: &[u8], sealed: &[u8]) -> io::Result<()> {
        if first <= &self.last[..] || self.is_full() {
            return Ok(());
        }
        self.end_block()?;
        self.last.clear();
        self.last.extend_from_slice(first);
        let rows = unseal(sealed, self.scope).map_or(0, |(hashes, _)| hashes.len() / HASH);
        self.place(first, sealed, rows as u64)
    }

    fn is_full(&self) -> bool {
        self.offset + self.block.size() as u64 >= self.most || self.table.len() >= TABLE_FULL
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let (sealed, rows) = self.block.seal(&mut self.sealer)?;
        let first = std::mem::take(&mut self.block.first);
        self.place(&first, &sealed, rows)
    }

    fn place(&mut self, first: &[u8], sealed: &[u8], rows: u64) -> io::Result<()> {
        self.file.write_all(sealed)?;
        put_bytes(&mut self.table, first);
        put(&mut self.table, self.offset);
        put(&mut self.table, sealed.len() as u64);
        self.offset += sealed.len() as u64;
        self.records += rows;
        Ok(())
    }

    /// Makes the file whole.
    pub fn finish(mut self) -> io::Result<()> {
        self.end_block()?;
        let table = self.sealer.seal(&self.table, &[])?;
        self.file.write_all(&table)?;
        self.file.write_all(&foot(self.scope, self.offset, table.len() as u64, self.records))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_table_or_none(rows in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Some(table) = table_of(&rows) {
                prop_assert!(table.windows(2).all(|two| two[0].first < two[1].first));
            }
        }
    }
}
