//! A block of the file: compressed rows and bytes that would not compress, under one checksum.
//!
//! ```text
//! block = bytes of rows, u32 | bytes of plain, u32 | plain | zstd of rows | checksum
//! ```
//! The checksum covers the seed of the file, where the block stands in it and what kind it is, so that a block that
//! was moved or comes from another file is as bad as a damaged one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use haul_core::hash::xxh128;

/// The fastest level that still finds repeats.
const LEVEL: i32 = 1;

const SUM: usize = 16;
const SIZES: usize = 8;

/// Bytes that are hashed before the block's own: seed, offset, kind.
const PREFIX: usize = 16 + 8 + 1;

/// Rows of a leaf or a branch end once they take this much.
pub(super) const FULL: usize = 32 << 10;

/// A leaf of an older file that has grown since is left whole up to this, so that a key that is added moves the bounds
/// of its own leaf and not those of all that follow.
pub(super) const OVERFULL: usize = FULL + FULL / 2;

/// Nothing more is written once the root takes this much: it is held in memory by everybody, and comes to that only
/// with keys of nearly the longest length.
pub(super) const ROOT_FULL: usize = 2 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// Records.
    Leaf = 1,
    /// Where leaves are.
    Branch = 2,
    /// Where branches are.
    Root = 3,
}

impl Sort {
    /// Most bytes of rows, and of plain, that a block may be said to have.
    pub const fn most(self) -> usize {
        match self {
            // The row that fills it may be much longer than usual.
            Sort::Leaf | Sort::Branch => 2 * FULL,
            Sort::Root => ROOT_FULL + FULL,
        }
    }

    /// Most bytes that a block takes in the file: what does not compress grows by less than a 128th.
    const fn most_stored(self) -> usize {
        SIZES + 2 * self.most() + self.most() / 128 + 512 + SUM
    }
}

/// Where a block stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// The content of a block.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub rows: Vec<u8>,
    pub plain: Vec<u8>,
}

impl Content {
    pub fn clear(&mut self) {
        self.rows.clear();
        self.plain.clear();
    }

    pub fn memory(&self) -> usize {
        self.rows.capacity() + self.plain.capacity()
    }
}

fn begin(buffer: &mut Vec<u8>, seed: u128, sort: Sort, offset: u64) {
    buffer.clear();
    buffer.extend_from_slice(&seed.to_le_bytes());
    buffer.extend_from_slice(&offset.to_le_bytes());
    buffer.push(sort as u8);
}

/// Makes blocks.
pub(super) struct Sealer {
    seed: u128,
    compressor: zstd::bulk::Compressor<'static>,
    buffer: Vec<u8>,
    squeezed: Vec<u8>,
}

impl Sealer {
    pub fn new(seed: u128) -> io::Result<Sealer> {
        Ok(Sealer { seed, compressor: zstd::bulk::Compressor::new(LEVEL)?, buffer: Vec::new(), squeezed: Vec::new() })
    }

    /// The bytes of a block that will stand at `offset`.
    pub fn seal(&mut self, sort: Sort, offset: u64, rows: &[u8], plain: &[u8]) -> io::Result<&[u8]> {
        let too_long = |_| io::Error::new(io::ErrorKind::InvalidInput, "a block of 4 GiB or more");
        self.squeezed.clear();
        self.squeezed.reserve(rows.len() + rows.len() / 128 + 512);
        self.compressor.compress_to_buffer(rows, &mut self.squeezed)?;
        begin(&mut self.buffer, self.seed, sort, offset);
        self.buffer.extend_from_slice(&u32::try_from(rows.len()).map_err(too_long)?.to_le_bytes());
        self.buffer.extend_from_slice(&u32::try_from(plain.len()).map_err(too_long)?.to_le_bytes());
        self.buffer.extend_from_slice(plain);
        self.buffer.extend_from_slice(&self.squeezed);
        Ok(self.close())
    }

    /// The block that `opener` has just read, for another place and file.
    pub fn seal_again(&mut self, sort: Sort, offset: u64, opener: &Opener) -> &[u8] {
        begin(&mut self.buffer, self.seed, sort, offset);
        self.buffer.extend_from_slice(opener.body());
        self.close()
    }

    fn close(&mut self) -> &[u8] {
        let sum = xxh128(&self.buffer);
        self.buffer.extend_from_slice(&sum.to_le_bytes());
        &self.buffer[PREFIX..]
    }
}

/// Reads blocks.
pub(super) struct Opener {
    decompressor: zstd::bulk::Decompressor<'static>,
    buffer: Vec<u8>,
}

impl Opener {
    pub fn new() -> io::Result<Opener> {
        Ok(Opener { decompressor: zstd::bulk::Decompressor::new()?, buffer: Vec::new() })
    }

    pub fn memory(&self) -> usize {
        self.buffer.capacity()
    }

    /// Puts the content of the block at `place` into `into`. `None`, and nothing in it, if the block is not what was
    /// written or cannot be read.
    pub fn open(&mut self, file: &File, seed: u128, sort: Sort, place: Place, into: &mut Content) -> Option<()> {
        into.clear();
        self.read(file, seed, sort, place)?;
        let unpacked = self.unpack(sort, into);
        if unpacked.is_none() {
            into.clear();
        }
        unpacked
    }

    /// Reads a block and looks whether it is whole, without unpacking it.
    pub fn read(&mut self, file: &File, seed: u128, sort: Sort, place: Place) -> Option<()> {
        let size = usize::try_from(place.size).ok().filter(|size| (SIZES + SUM..=sort.most_stored()).contains(size))?;
        begin(&mut self.buffer, seed, sort, place.offset);
        self.buffer.resize(PREFIX + size, 0);
        file.read_exact_at(&mut self.buffer[PREFIX..], place.offset).ok()?;
        let (hashed, sum) = self.buffer.split_last_chunk::<SUM>()?;
        let whole = xxh128(hashed) == u128::from_le_bytes(*sum);
        self.buffer.truncate(PREFIX + size - SUM);
        whole.then_some(())
    }

    fn body(&self) -> &[u8] {
        &self.buffer[PREFIX..]
    }

    /// Bytes of plain in the block that was read.
    pub fn plain_size(&self) -> usize {
        self.body()[4..].first_chunk().map_or(0, |size| u32::from_le_bytes(*size) as usize)
    }

    fn unpack(&mut self, sort: Sort, into: &mut Content) -> Option<()> {
        let (rows, rest) = self.buffer[PREFIX..].split_first_chunk::<4>()?;
        let (plain, rest) = rest.split_first_chunk::<4>()?;
        let (rows, plain) = (u32::from_le_bytes(*rows) as usize, u32::from_le_bytes(*plain) as usize);
        if rows > sort.most() || plain > sort.most() {
            return None;
        }
        let (plain, squeezed) = rest.split_at_checked(plain)?;
        into.plain.extend_from_slice(plain);
        into.rows.reserve(rows);
        // Never writes beyond what was reserved, whatever the block says.
        let got = self.decompressor.decompress_to_buffer(squeezed, &mut into.rows).ok()?;
        (got == rows).then_some(())
    }
}
