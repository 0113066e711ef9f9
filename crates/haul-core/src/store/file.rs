//! One file of a store: open for reading, or being written.

use std::io::Read;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use super::{WriteOutcome, WriteStyle};
use crate::entry::{Entry, MetaMask, Stamp};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Algorithm;
use crate::signature::{CdcChunk, Signature};

/// Hears of the bytes that were read since its last call, and of the chunks that ended in them.
pub type OnChunks<'a> = dyn FnMut(u64, &[CdcChunk]) -> Result<()> + 'a;

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
    /// For a store that ties a write to its attributes (`Caps::owner_names`): parts of it are written here, and it stays another's, who
    /// commits or abandons it whatever its attributes are here.
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
    /// The attributes to keep, of those that `Caps::sets` has.
    pub keep: MetaMask,
    /// Chunk size in bytes.
    pub chunk: u64,
    /// Write into the existing file, which keeps its inode: a torn write shows.
    pub in_place: bool,
    /// Data and name are on stable storage when `commit` returns.
    pub sync: bool,
}

/// A file that is open on another machine, as a third one can be told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Which conversation with a machine knows the file; unique in the process.
    pub host: u64,
    /// The file's number there.
    pub file: u64,
}

/// Decides whether bytes, given in order, are the content of another file.
pub trait ContentVerifier: Send {
    fn update(&mut self, bytes: &[u8]);

    /// `None` where what is known of that file does not suffice to tell.
    fn verdict(self: Box<Self>) -> Option<bool>;
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
    fn prefetch(&self, parts: &[Range<u64>]) {
        let _ = parts;
    }

    /// Says that `at` will be read from its start on by reads that follow each other: one request may serve them all. With
    /// [`super::Runs::Open`] another reader may take the end of it.
    fn hint_sequential(&self, at: Range<u64>) {
        let _ = at;
    }

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

    /// Whether [`Source::data`] reports holes; else blocks of zeros are taken for such where holes are wanted.
    fn reports_holes(&self) -> bool {
        false
    }

    /// What an object store keeps of it beside attributes.
    fn headers(&self) -> Option<std::sync::Arc<crate::entry::Headers>> {
        None
    }

    /// Extended attributes and ACLs of what is open.
    fn xattrs(&self, want: MetaMask) -> Result<crate::entry::Xattrs> {
        let _ = want;
        Ok(crate::entry::Xattrs::default())
    }

    /// The signature of the whole content with chunks of `average` bytes, made where the content is; `Ok(None)` if it would have to
    /// be read over a network. `each` gets the bytes read since its last call with the chunks found in them, and may stop it; the
    /// end of the file may add one more chunk.
    fn signature(&self, average: u32, each: &mut OnChunks<'_>) -> Result<Option<Signature>> {
        let _ = (average, each);
        Ok(None)
    }

    /// XXH3-128 of the bytes of `at`, computed where they lie; `Ok(None)` where they have to be read for it.
    fn hash(&self, at: Range<u64>) -> Result<Option<u128>> {
        let _ = at;
        Ok(None)
    }

    /// A verifier that decides by a stored checksum whether bytes are this file's content, without reading it.
    fn verifier(&self) -> Result<Option<Box<dyn ContentVerifier>>> {
        Ok(None)
    }

    /// The store has checksums of stretches of so many bytes, the last one shorter, and verifies each that is read by one read
    /// from its start to its end.
    fn checksum_block(&self) -> Option<u64> {
        None
    }

    /// The first bytes not verified yet, because they were not read, or not in order: [`Source::feed_verifier`] is to see them.
    /// [`Source::stamp`] is `Corrupt` once all were seen and differ from the stored checksum.
    fn unverified(&self) -> Option<Range<u64>> {
        None
    }

    /// Shows bytes that were read before, beginning with those of [`Source::unverified`].
    fn feed_verifier(&self, at: u64, bytes: &[u8]) {
        let _ = (at, bytes);
    }

    /// What the store says of the content. Equal text means equal content; text that differs behind an equal prefix (up to the
    /// colon) means other content.
    fn stored_checksum(&self) -> Option<String> {
        None
    }

    /// Whatever is in front of a range is read with it: one worker reads all, from start to end.
    fn in_order(&self) -> bool {
        false
    }

    /// The content, or its beginning, came with the answer to `open`, whose time counts as reading.
    fn has_prefetched_content(&self) -> bool {
        false
    }

    /// For a sink on another machine to read from by itself.
    fn reach(&self) -> Option<Reach> {
        None
    }

    /// For the kernel to copy from: `copy_file_range`, `splice`.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
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

    /// Fills `at` with bytes from `from` on of the file that still has the final name, without their passing through here.
    /// `Changed` if that file is not `old`, now or at commit; `Unsupported` where `Store::has_signatures` denies.
    fn reuse(&self, old: &Stamp, from: u64, at: Range<u64>) -> Result<()> {
        let _ = (old, from, at);
        Err(Error::new(ErrorKind::Unsupported, "reuse"))
    }

    /// Writes `at` with the same bytes of a file on another machine, without their passing through here. Returns their XXH3-128,
    /// if wanted; `Ok(None)` if the two machines cannot reach each other.
    fn pull(&self, from: Reach, at: Range<u64>, hash: bool) -> Result<Option<u128>> {
        let _ = (from, at, hash);
        Ok(None)
    }

    /// Whether a sink of a store that is written [`WriteStyle::InOrder`] takes chunks in any order from here on, and from several workers
    /// at once. It may begin to while the file is written, and does not stop.
    fn takes_ranges(&self) -> bool {
        false
    }

    /// Whether chunks are taken from the first to the last only, though the store is not written [`WriteStyle::InOrder`]: its server
    /// has refused others. What was open when it did so fails, to be opened anew.
    fn in_order(&self) -> bool {
        false
    }

    /// Says that every byte of the chunk has been written; what comes back belongs into its receipt.
    fn landed(&self, chunk: &Chunk) -> Result<Box<[u8]>> {
        let _ = chunk;
        Ok(Box::default())
    }

    /// What was written through this sink survives its process and its machine: said of chunks that another process commits.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Whether the bytes that were taken before a failure are there in spite of it.
    fn keeps_in_failure(&self) -> bool {
        true
    }

    /// Whether the store still has what a receipt from before `attach` says has landed.
    fn keeps(&self, receipt: &Receipt) -> bool {
        let _ = receipt;
        true
    }

    /// The written bytes past the page cache, for verifying before a commit. `Unsupported` where only a committed file can be
    /// read.
    fn reread(&self) -> Result<Box<dyn Source>> {
        Err(Error::new(ErrorKind::Unsupported, "reread"))
    }

    /// The hash of all that was written, as the store computes it before the commit; `Ok(None)` if it cannot. A store with
    /// `Store::digests` can.
    fn digest(&self, algorithm: Algorithm) -> Result<Option<Vec<u8>>> {
        let _ = algorithm;
        Ok(None)
    }

    /// Sets attributes, then the final name. `entry` is the source as of its last byte, of `entry.size` bytes. With a receipt
    /// missing it is an error and nothing changes.
    fn commit(&self, entry: &Entry, receipts: &[Receipt]) -> Result<WriteOutcome>;

    /// The content goes to the store with `commit`: what that takes is writing.
    fn uploads_on_commit(&self) -> bool {
        false
    }

    /// Removes every trace of the write.
    fn abort(&self) -> Result<()>;

    /// For the kernel to copy to.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
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
