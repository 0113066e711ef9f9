//! One file of a store: open for reading, or being written.

use std::io::Read;
use std::ops::Range;

use super::{SinkExtensions, SourceExtensions, WriteOutcome, WriteStyle};
use crate::entry::{Entry, MetaMask, Stamp};
use crate::error::{Error, ErrorKind, Result};

/// Part of a file: bytes `at`, the `index`-th of its chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub index: u32,
    pub at: Range<u64>,
}

/// Proof that a chunk is in the destination. The journal keeps it; `commit` needs them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub index: u32,
    /// What the store wants back at commit: a part's ETag. Empty for POSIX.
    pub tag: Box<[u8]>,
    /// XXH3-128 of the chunk as it was read from the source, if one was wanted.
    pub hash: Option<u128>,
}

/// Names an unfinished write so that another process or another node can take it up: the staging name, an upload id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token(pub Box<[u8]>);

/// Before the token of a write that stays another's.
const SHARED: &[u8] = b"shared ";

impl Token {
    /// For a store that ties a write to its attributes (`AttributeCaps::owner_names`): parts of it are written here, and it stays
    /// another's, who commits or abandons it whatever its attributes are here.
    pub fn shared(&self) -> Token {
        Token([SHARED, &self.0].concat().into())
    }

    /// The token itself, and whether it came from [`Token::shared`].
    pub fn own(&self) -> (Token, bool) {
        self.0.strip_prefix(SHARED).map_or_else(|| (self.clone(), false), |own| (Token(own.into()), true))
    }
}

/// What a file is to become: known before its first byte is written.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a> {
    /// The source's entry: size, attributes and, in `xattrs`, those that were asked for.
    pub entry: &'a Entry,
    /// The attributes to keep, of those that `AttributeCaps::sets` has.
    pub keep: MetaMask,
    /// Chunk size in bytes.
    pub chunk: u64,
    /// Write into the existing file, which keeps its inode: a torn write shows.
    pub in_place: bool,
    /// Data and name are on stable storage when `commit` returns.
    pub sync: bool,
}

/// One file, open for reading at any place.
pub trait Source: Send + Sync {
    /// Exactly the bytes of `at`; fewer is `Changed`. How many are asked for ahead is the store's own affair.
    fn read(&self, at: Range<u64>) -> Result<Box<dyn Read + Send + '_>>;

    /// The content from start to end where its size is unknown; [`Source::stamp`] has it afterwards. A read that waited for a
    /// fraction of a second is `WouldBlock`, so that the reader can see whether the run is to stop.
    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        Err(Error::new(ErrorKind::Unsupported, "read"))
    }

    /// Says that these parts will be read next, in this order: a source behind a network may ask for them ahead.
    fn prefetch(&self, _parts: &[Range<u64>]) {}

    /// Says that `at` will be read from its start on by reads that follow each other: one request may serve them all. With
    /// [`super::Runs::Open`] another reader may take the end of it.
    fn hint_sequential(&self, _at: Range<u64>) {}

    /// What is open now, as `open` would stamp it. Asked again before a commit.
    fn stamp(&self) -> Result<Stamp>;

    /// What tells versions apart whose stamps are equal, compared only between runs: a hash of a local file's ctime, which no program
    /// sets. It is not in the stamp, since chmod, renames and hard links change it without the content. 0 if the store has none.
    fn change(&self) -> Result<u64> {
        Ok(0)
    }

    /// The parts of `at` that hold data, in order; the rest are holes.
    fn data(&self, at: Range<u64>) -> Result<Vec<Range<u64>>> {
        Ok(vec![at])
    }

    /// Extended attributes and ACLs of what is open.
    fn xattrs(&self, _want: MetaMask) -> Result<crate::entry::Xattrs> {
        Ok(crate::entry::Xattrs::default())
    }

    /// What only some sources offer.
    fn extensions(&self) -> SourceExtensions<'_> {
        SourceExtensions::default()
    }
}

/// One file being written. Chunks come in the order of `Caps::write`, from any thread, and may come twice. The final name always
/// has the old file or the whole new one, except with `Spec::in_place`. Dropping a `Sink` keeps the session: `commit` and `abort`
/// end it.
pub trait Sink: Send + Sync {
    fn token(&self) -> Token;

    /// Writes the bytes of `at`, all of them or an error.
    fn write(&self, at: Range<u64>, from: &mut dyn Read) -> Result<()>;

    /// The same of bytes that are in memory, from `at` on: a sink that can does so without a copy.
    fn write_bytes(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.write(at..at + bytes.len() as u64, &mut &bytes[..])
    }

    /// Makes `at` read as zeros without writing them, where the store can.
    fn hole(&self, at: Range<u64>) -> Result<()>;

    /// Says that every byte of the chunk has been written; what comes back belongs into its receipt.
    fn landed(&self, _chunk: &Chunk) -> Result<Box<[u8]>> {
        Ok(Box::default())
    }

    /// The written bytes past the page cache, for verifying before a commit. `Unsupported` where only a committed file can be
    /// read.
    fn reread(&self) -> Result<Box<dyn Source>> {
        Err(Error::new(ErrorKind::Unsupported, "reread"))
    }

    /// Sets attributes, then the final name. `entry` is the source as of its last byte, of `entry.size` bytes. With a receipt
    /// missing it is an error and nothing changes.
    fn commit(&self, entry: &Entry, receipts: &[Receipt]) -> Result<WriteOutcome>;

    /// Removes every trace of the write.
    fn abort(&self) -> Result<()>;

    /// What only some sinks offer.
    fn extensions(&self) -> SinkExtensions<'_> {
        SinkExtensions::default()
    }
}

/// The chunks of a file: they cover `0..size` once, in order; an empty file has one empty chunk. `chunk_size` keeps indices within
/// `u32`.
pub fn chunks(size: u64, chunk: u64) -> impl Iterator<Item = Chunk> {
    let chunk = chunk.max(1);
    (0..size.div_ceil(chunk).max(1)).map(move |i| Chunk { index: i as u32, at: i * chunk..((i + 1) * chunk).min(size) })
}

/// Chunks of one file at the most, whatever size a listing claims: their receipts are kept in memory.
const MOST_CHUNKS: u64 = 1 << 20;

/// The chunk size for a file: what was asked for, within what the destination's parts allow.
pub fn chunk_size(asked: u64, size: u64, style: WriteStyle) -> u64 {
    match style {
        WriteStyle::Anywhere | WriteStyle::InOrder => asked.max(size.div_ceil(MOST_CHUNKS)).max(1),
        WriteStyle::Parts { least, most, count } => asked.max(least).max(size.div_ceil(u64::from(count.max(1)))).min(most).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_the_file_once() {
        for size in 0..70u64 {
            for chunk in 1..20 {
                let all: Vec<u64> = chunks(size, chunk).flat_map(|c| c.at).collect();
                assert_eq!(all, (0..size).collect::<Vec<_>>(), "{size} in {chunk}");
                assert!(chunks(size, chunk).count() >= 1);
            }
        }
    }

    #[test]
    fn parts_stay_within_what_the_store_allows() {
        let style = WriteStyle::Parts { least: 5, most: 1000, count: 10 };
        assert_eq!(chunk_size(1, 20, style), 5);
        assert_eq!(chunk_size(1, 95, style), 10);
        assert_eq!(chunk_size(5000, 95, style), 1000);
    }
}
