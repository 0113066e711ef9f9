//! What only some sources and sinks offer. The bodies here are those of one that does not.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::{Absent, Receipt};
use crate::entry::{Headers, Stamp};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Algorithm;
use crate::signature::{CdcChunk, Signature};

/// What a source offers beyond [`super::Source`], as of now.
#[derive(Clone, Copy)]
pub struct SourceExtensions<'a> {
    /// [`super::Source::data`] reports holes; else blocks of zeros are taken for such where holes are wanted.
    pub reports_holes: bool,
    /// Whatever is in front of a range is read with it: one worker reads all, from start to end.
    pub in_order: bool,
    /// The content, or its beginning, came with the answer to `open`, whose time counts as reading.
    pub has_prefetched_content: bool,
    /// What an object store keeps of it beside attributes.
    pub headers: Option<&'a Arc<Headers>>,
    /// For the kernel to copy from: `copy_file_range`, `splice`.
    pub fd: Option<BorrowedFd<'a>>,
    pub checksum: &'a dyn ContentChecksum,
    pub near_data: &'a dyn NearData,
}

impl Default for SourceExtensions<'_> {
    fn default() -> Self {
        SourceExtensions {
            reports_holes: false,
            in_order: false,
            has_prefetched_content: false,
            headers: None,
            fd: None,
            checksum: &Absent,
            near_data: &Absent,
        }
    }
}

/// What a sink offers beyond [`super::Sink`], as of now.
#[derive(Clone, Copy)]
pub struct SinkExtensions<'a> {
    /// Chunks are taken from the first to the last only, though the store is not written [`super::WriteStyle::InOrder`]: its server
    /// has refused others. What was open when it did so fails, to be opened anew.
    pub in_order: bool,
    /// The bytes that were taken before a failure are there in spite of it.
    pub keeps_in_failure: bool,
    /// The content goes to the store with `commit`: what that takes is writing.
    pub uploads_on_commit: bool,
    /// For the kernel to copy to.
    pub fd: Option<BorrowedFd<'a>>,
    pub fill: &'a dyn Fill,
    pub state: &'a dyn SinkState,
}

impl Default for SinkExtensions<'_> {
    fn default() -> Self {
        SinkExtensions { in_order: false, keeps_in_failure: true, uploads_on_commit: false, fd: None, fill: &Absent, state: &Absent }
    }
}

impl ContentChecksum for Absent {}
impl NearData for Absent {}
impl Fill for Absent {}
impl SinkState for Absent {}

/// Decides whether bytes, given in order, are the content of another file.
pub trait ContentVerifier: Send {
    fn update(&mut self, bytes: &[u8]);

    /// `None` where what is known of that file does not suffice to tell.
    fn verdict(self: Box<Self>) -> Option<bool>;
}

/// The checksum that a store keeps of a file.
pub trait ContentChecksum {
    /// Equal text means equal content; text that differs behind an equal prefix (up to the colon) means other content.
    fn text(&self) -> Option<String> {
        None
    }

    /// A verifier that decides by the checksum whether bytes are this file's content, without reading it.
    fn verifier(&self) -> Result<Option<Box<dyn ContentVerifier>>> {
        Ok(None)
    }

    /// The store has checksums of stretches of so many bytes, the last one shorter, and verifies each that is read by one read
    /// from its start to its end.
    fn block(&self) -> Option<u64> {
        None
    }

    /// The first bytes not verified yet, because they were not read, or not in order: `feed` is to see them.
    /// [`super::Source::stamp`] is `Corrupt` once all were seen and differ from the stored checksum.
    fn unverified(&self) -> Option<Range<u64>> {
        None
    }

    /// Shows bytes that were read before, beginning with those of `unverified`.
    fn feed(&self, _at: u64, _bytes: &[u8]) {}
}

/// A file that is open on another machine, as a third one can be told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Which conversation with a machine knows the file; unique in the process.
    pub host: u64,
    /// The file's number there.
    pub file: u64,
}

/// Hears of the bytes that were read since its last call, and of the chunks that ended in them.
pub type OnChunks<'a> = dyn FnMut(u64, &[CdcChunk]) -> Result<()> + 'a;

/// Work on the content of a source where it lies.
pub trait NearData {
    /// For a sink on another machine to read from by itself.
    fn reach(&self) -> Option<Reach> {
        None
    }

    /// The signature of the whole content with chunks of `average` bytes; `Ok(None)` if it would have to be read over a network.
    /// `each` gets the bytes read since its last call with the chunks found in them, and may stop it; the end of the file may add
    /// one more chunk.
    fn signature(&self, _average: u32, _each: &mut OnChunks<'_>) -> Result<Option<Signature>> {
        Ok(None)
    }

    /// XXH3-128 of the bytes of `at`; `Ok(None)` where they have to be read for it.
    fn hash(&self, _at: Range<u64>) -> Result<Option<u128>> {
        Ok(None)
    }
}

/// Fills ranges of a sink without their bytes passing through here.
pub trait Fill {
    /// Fills `at` with bytes from `from` on of the file that still has the final name. `Changed` if that file is not `old`, now or
    /// at commit; `Unsupported` where [`super::Caps::signatures`] denies.
    fn reuse(&self, _old: &Stamp, _from: u64, _at: Range<u64>) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "reuse"))
    }

    /// Writes `at` with the same bytes of a file on another machine. Returns their XXH3-128, if wanted; `Ok(None)` if the two
    /// machines cannot reach each other.
    fn pull(&self, _from: Reach, _at: Range<u64>, _hash: bool) -> Result<Option<u128>> {
        Ok(None)
    }
}

/// What is known and can be done about the part of a file that was written.
pub trait SinkState {
    /// Whether a sink of a store that is written [`super::WriteStyle::InOrder`] takes chunks in any order from here on, and from
    /// several workers at once. It may begin to while the file is written, and does not stop.
    fn takes_ranges(&self) -> bool {
        false
    }

    /// What was written through this sink survives its process and its machine: said of chunks that another process commits.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Whether the store still has what a receipt from before `attach` says has landed.
    fn keeps(&self, _receipt: &Receipt) -> bool {
        true
    }

    /// The hash of all that was written, as the store computes it before the commit; `Ok(None)` if it cannot. A store with
    /// [`super::Digests`] can.
    fn digest(&self, _algorithm: Algorithm) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }
}
