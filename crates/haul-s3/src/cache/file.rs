//! The file: immutable, so that any number of processes may read it while another takes its place.
//!
//! ```text
//! file  = heading | blocks | table, a block | foot
//! table = for each block: bytes of its first key | key | offset | bytes | records
//! foot  = offset of the table | its bytes | records | checksum
//! ```
//! A reader holds the table, usually some KiB, and one block.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use haul_core::hash::xxh128;
use haul_core::team::wire::{Cursor, put_all, put_bytes};
use zstd::bulk::{Compressor, Decompressor};

use super::block::{Builder, Row, Rows, seal, unseal};
use super::record::KEY_MOST;

/// For people who come across the file, and the version of all that follows.
pub const HEADING: &[u8] = b"haul: what is known of the objects of one bucket, version 4; may be deleted\n";

/// The fastest level of zstd that still finds repeats.
const LEVEL: i32 = 1;

/// A block ends once its rows take this much.
pub const FULL: usize = 32 << 10;

/// A block of an older file that has grown since is left whole up to this, so that a key that is added moves the bounds of its own
/// block and not those of all that follow.
const OVERFULL: usize = FULL + FULL / 2;

/// Most bytes of the rows of a block: the row that fills it may be much longer than usual.
const ROWS_MOST: usize = 2 * FULL;

/// Nothing more is written once the table takes this much: it is held in memory, and it comes to that only with keys of nearly the
/// longest length.
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
    records: u64,
}

#[derive(Debug)]
pub struct Stored {
    file: File,
    scope: u128,
    pub table: Vec<Place>,
    /// As the file says; for estimates only.
    pub records: u64,
    pub size: u64,
}

pub fn foot(scope: u128, offset: u64, size: u64, records: u64) -> Vec<u8> {
    let mut foot = [offset, size, records].map(u64::to_le_bytes).concat();
    let sum = xxh128(&[HEADING, &foot].concat()) ^ scope;
    foot.extend_from_slice(&sum.to_le_bytes());
    foot
}

fn table_of(rows: &[u8]) -> Option<Vec<Place>> {
    let mut from = Cursor(rows);
    let mut table: Vec<Place> = Vec::new();
    while !from.is_empty() {
        let place = Place { first: from.bytes()?.into(), offset: from.number()?, size: from.number()?, records: from.number()? };
        let fits = place.first.len() <= KEY_MOST && place.records <= ROWS_MOST as u64;
        if !fits || table.last().is_some_and(|last| last.first >= place.first) {
            return None;
        }
        table.push(place);
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
        let rows = zstd::bulk::decompress(unseal(&sealed, scope)?, TABLE_FULL + FULL).ok()?;
        Some(Stored { file, scope, table: table_of(&rows)?, records, size: meta.len() })
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
    decompressor: Decompressor<'static>,
    rows: Rows,
    /// Which block is held. One that is damaged is held as an empty one.
    at: Option<usize>,
}

impl Position {
    /// `None` if there is no memory.
    pub fn new() -> Option<Position> {
        Some(Position { decompressor: Decompressor::new().ok()?, rows: Rows::default(), at: None })
    }

    pub fn find<'a>(&'a mut self, stored: &Stored, key: &[u8]) -> Option<&'a [u8]> {
        let block = stored.table.partition_point(|place| &place.first[..] <= key).checked_sub(1)?;
        self.load(stored, block).find(key)
    }

    /// The rows of a block; none if it is damaged.
    pub fn load(&mut self, stored: &Stored, block: usize) -> &mut Rows {
        if self.at != Some(block) {
            self.at = Some(block);
            self.rows.rewind();
            self.rows.bytes.clear();
            if let Some(packed) = stored.read(block).as_deref().and_then(|sealed| unseal(sealed, stored.scope)) {
                self.rows.bytes.reserve(ROWS_MOST);
                // Never writes beyond what was reserved, whatever the block says.
                if self.decompressor.decompress_to_buffer(packed, &mut self.rows.bytes).is_err() {
                    self.rows.bytes.clear();
                }
            }
        }
        &mut self.rows
    }
}

/// Writes a file from its first key to its last, holding one block and the table.
pub struct Writer<'a> {
    file: &'a File,
    scope: u128,
    /// Bytes after which nothing is taken any more.
    most: u64,
    compressor: Compressor<'static>,
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
        let (compressor, offset) = (Compressor::new(LEVEL)?, HEADING.len() as u64);
        Ok(Writer { file, scope, most, compressor, offset, block, last, table, records: 0 })
    }

    /// Adds a record, a new one or `old`. One whose key does not come after all others is left out, and so is what comes when the
    /// file is full.
    pub fn add(&mut self, row: Row<'_>, old: bool) -> io::Result<()> {
        if row.key <= &self.last[..] || self.is_full() {
            return Ok(());
        }
        self.block.add(row);
        row.key.clone_into(&mut self.last);
        if self.block.rows.len() >= if old { OVERFULL } else { FULL } { self.end_block() } else { Ok(()) }
    }

    /// Whether a block of an older file may be added as it is: not if that left a small one behind each time.
    pub fn takes_block(&self) -> bool {
        self.block.rows.is_empty() || self.block.rows.len() >= FULL / 2
    }

    pub fn add_block(&mut self, place: &Place, sealed: &[u8]) -> io::Result<()> {
        if place.first[..] <= self.last[..] || self.is_full() {
            return Ok(());
        }
        self.end_block()?;
        self.last = place.first.to_vec();
        self.place(&place.first, sealed, place.records)
    }

    fn is_full(&self) -> bool {
        self.offset + self.block.rows.len() as u64 >= self.most || self.table.len() >= TABLE_FULL
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.block.rows.is_empty() {
            return Ok(());
        }
        let Builder { rows, count, first, .. } = std::mem::take(&mut self.block);
        let sealed = seal(&mut self.compressor, &rows, self.scope)?;
        self.place(&first, &sealed, count)
    }

    fn place(&mut self, first: &[u8], sealed: &[u8], records: u64) -> io::Result<()> {
        self.file.write_all(sealed)?;
        put_bytes(&mut self.table, first);
        put_all(&mut self.table, &[self.offset, sealed.len() as u64, records]);
        self.offset += sealed.len() as u64;
        self.records = self.records.saturating_add(records);
        Ok(())
    }

    pub fn finish(mut self) -> io::Result<()> {
        self.end_block()?;
        let table = seal(&mut self.compressor, &self.table, self.scope)?;
        self.file.write_all(&table)?;
        self.file.write_all(&foot(self.scope, self.offset, table.len() as u64, self.records))
    }
}
