//! Shows a source what was read out of order as it has landed, so that its store's word on the content covers all of it.

use std::collections::HashSet;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::meter::Meter;
use crate::store::{Chunk, Sink, Source};

/// The largest stretch to which chunks are made to fit, where what has landed cannot be read.
const STRETCH_MOST: u64 = 64 << 20;
const BUFFER: usize = 1 << 20;

/// What has landed of a file.
#[derive(Debug)]
pub struct Shown {
    chunk: u64,
    landed: Mutex<HashSet<u32>>,
    /// One worker at a time shows.
    turn: Mutex<()>,
}

/// The chunk size at which most of what is read needs no second look.
pub fn fitting(asked: u64, source: &dyn Source, reads_back: bool) -> u64 {
    let most = if reads_back { asked } else { asked.max(STRETCH_MOST) };
    source
        .extensions()
        .checksum
        .block()
        .filter(|stretch| (1..=most).contains(stretch))
        .map_or(asked, |stretch| asked.div_ceil(stretch) * stretch)
}

/// Whether the file has to be read by one worker from its start to its end.
pub fn is_in_order(source: &dyn Source, sink: &dyn Sink, chunk: u64) -> bool {
    let fits = source.extensions().checksum.block().is_some_and(|stretch| chunk.is_multiple_of(stretch));
    !fits && sink.extensions().fd.is_none() && source.extensions().checksum.unverified().is_some()
}

impl Shown {
    pub fn new(chunk: u64, landed: impl Iterator<Item = u32>) -> Shown {
        Shown { chunk, landed: Mutex::new(landed.collect()), turn: Mutex::default() }
    }

    /// A chunk has landed. What comes back is how long showing took: hashing.
    pub fn landed(&self, meter: &Meter, chunk: &Chunk, source: &dyn Source, sink: &dyn Sink) -> Result<Duration> {
        if source.extensions().checksum.unverified().is_none() {
            return Ok(Duration::ZERO);
        }
        self.landed.lock().unwrap_or_else(PoisonError::into_inner).insert(chunk.index);
        let _turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            // Whoever is at it, or the end, sees to this chunk too.
            Err(TryLockError::WouldBlock) => return Ok(Duration::ZERO),
        };
        self.show(meter, source, sink)
    }

    /// A chunk that somebody else has moved: the end sees to it.
    pub fn landed_elsewhere(&self, index: u32) {
        self.landed.lock().unwrap_or_else(PoisonError::into_inner).insert(index);
    }

    /// All has landed; the same.
    pub fn finish(&self, meter: &Meter, source: &dyn Source, sink: &dyn Sink) -> Result<Duration> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.show(meter, source, sink)
    }

    fn show(&self, meter: &Meter, source: &dyn Source, sink: &dyn Sink) -> Result<Duration> {
        let mut staged = None;
        let mut buffer = Vec::new();
        let mut spent = Duration::ZERO;
        let checksum = source.extensions().checksum;
        while let Some(gap) = checksum.unverified() {
            let until = self.end_of_landed(gap.start).min(gap.end);
            if until <= gap.start {
                break;
            }
            if staged.is_none() {
                staged = reopened(sink);
                buffer.resize(BUFFER, 0);
            }
            let Some(file) = &staged else { break };
            let mut at = gap.start;
            while at < until {
                meter.check()?;
                let most = usize::try_from(until - at).unwrap_or(BUFFER).min(BUFFER);
                let count = file.read_at(&mut buffer[..most], at).map_err(|e| Error::io(e, "read back"))?;
                if count == 0 {
                    return Err(Error::new(ErrorKind::Corrupt, "read back").because("the staging file became shorter"));
                }
                let began = Instant::now();
                checksum.feed(at, &buffer[..count]);
                spent += began.elapsed();
                meter.read(count as u64);
                at += count as u64;
            }
        }
        Ok(spent)
    }

    fn end_of_landed(&self, from: u64) -> u64 {
        let landed = self.landed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut index = from / self.chunk.max(1);
        while u32::try_from(index).is_ok_and(|index| landed.contains(&index)) {
            index += 1;
        }
        index * self.chunk
    }
}

/// What is being written, for reading: it is in the page cache still.
fn reopened(sink: &dyn Sink) -> Option<File> {
    File::open(format!("/proc/self/fd/{}", sink.extensions().fd?.as_raw_fd())).ok()
}
