//! A queue, a stack and a sorter of byte records that hold at most so many bytes in memory and the rest in an unlinked file.
//!
//! A record is any run of bytes shorter than 4 GiB and takes 4 bytes more for its length. `memory()` is what the buffers have
//! allocated. No thread, no lock. After an error of the file (a full disk) everything accepted before is kept, the record at
//! hand is not, and the call may be repeated.

mod file;
mod sort;

use std::io;
use std::path::Path;

use file::{HEADER, SpillFile, append, header, length_at, record_bytes, reserve};
pub use sort::{Sorted, Sorter};

/// Most that is read from a file at once.
const BLOCK: usize = 256 << 10;

/// First in, first out.
///
/// The records are, from the oldest to the youngest: those in `front`, those in the file, those in `back`.
#[derive(Debug)]
pub struct SpillQueue {
    file: SpillFile,
    /// Where the records in the file start and end.
    start: u64,
    end: u64,
    /// Up to here the file's space was given back.
    freed: u64,
    /// Most that each of the two buffers may allocate.
    half: usize,
    front: Vec<u8>,
    /// Where the next record in `front` starts.
    at: usize,
    back: Vec<u8>,
    len: u64,
}

impl SpillQueue {
    /// Holds at most `limit` bytes in memory; the file is made in `dir` when it is first needed.
    pub fn new(dir: &Path, limit: usize) -> SpillQueue {
        let (front, back) = (Vec::new(), Vec::new());
        SpillQueue { file: SpillFile::new(dir), start: 0, end: 0, freed: 0, half: limit / 2, front, at: 0, back, len: 0 }
    }

    /// Records waiting.
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes allocated for records: never above the limit.
    pub fn memory(&self) -> usize {
        self.front.capacity() + self.back.capacity()
    }

    /// # Errors
    /// `InvalidInput` for a record of 4 GiB or more; what the file answered. The queue is as it was.
    pub fn push(&mut self, record: &[u8]) -> io::Result<()> {
        let header = header(record)?;
        let size = HEADER + record.len();
        if self.back.len() + size > self.half {
            if self.at == self.front.len() && self.start == self.end {
                self.turn();
            } else {
                self.flush()?;
            }
        }
        if size > self.half {
            // Too long for a buffer: what is older must be in front of it in the file.
            self.flush()?;
            self.file.write(&[&header, record], self.end)?;
            self.end += size as u64;
        } else {
            reserve(&mut self.back, size, self.half);
            append(&mut self.back, header, record);
        }
        self.len += 1;
        Ok(())
    }

    /// # Errors
    /// What the file answered; `InvalidData` if it no longer holds what was written. The record is still there.
    pub fn pop(&mut self) -> io::Result<Option<Vec<u8>>> {
        let record = loop {
            if self.at < self.front.len() {
                let record = record_bytes(&self.front, self.at).to_vec();
                self.at += HEADER + record.len();
                break record;
            } else if self.start < self.end {
                if let Some(long) = self.fill()? {
                    break long;
                }
            } else if self.back.is_empty() {
                return Ok(None);
            } else {
                self.turn();
            }
        };
        self.len -= 1;
        Ok(Some(record))
    }

    /// Makes `back` the front: only with an empty front and an empty file.
    fn turn(&mut self) {
        std::mem::swap(&mut self.front, &mut self.back);
        self.back.clear();
        self.at = 0;
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.back.is_empty() {
            self.file.write(&[&self.back], self.end)?;
            self.end += self.back.len() as u64;
            self.back.clear();
        }
        Ok(())
    }

    /// Reads the next records into `front`, or returns the next one if it is too long for that.
    fn fill(&mut self) -> io::Result<Option<Vec<u8>>> {
        let waiting = self.end - self.start;
        let size = usize::try_from(waiting).unwrap_or(usize::MAX).min(self.half).min(BLOCK);
        self.front.clear();
        self.at = 0;
        reserve(&mut self.front, size, self.half);
        if let Err(error) = self.file.read(&mut self.front, size, self.start) {
            self.front.clear();
            return Err(error);
        }
        let mut complete = 0;
        while let Some(length) = length_at(&self.front, complete)
            && size - complete >= HEADER + length
        {
            complete += HEADER + length;
        }
        self.front.truncate(complete);
        let long = if complete == 0 { Some(self.file.read_forwards(self.start, self.end)?) } else { None };
        let taken = long.as_ref().map_or(complete, |record| HEADER + record.len());
        self.start += taken as u64;
        if self.start == self.end {
            (self.start, self.end, self.freed) = (0, 0, 0);
            self.file.truncate(0);
        } else {
            self.freed = self.file.free(self.freed, self.start);
        }
        Ok(long)
    }
}

/// Last in, first out.
///
/// The older records are in the file, the younger in memory, both with their length behind their bytes.
#[derive(Debug)]
pub struct SpillStack {
    file: SpillFile,
    end: u64,
    limit: usize,
    young: Vec<u8>,
    len: u64,
}

impl SpillStack {
    /// Holds at most `limit` bytes in memory; the file is made in `dir` when it is first needed.
    pub fn new(dir: &Path, limit: usize) -> SpillStack {
        SpillStack { file: SpillFile::new(dir), end: 0, limit, young: Vec::new(), len: 0 }
    }

    /// Records held.
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes allocated for records: never above the limit.
    pub fn memory(&self) -> usize {
        self.young.capacity()
    }

    /// # Errors
    /// `InvalidInput` for a record of 4 GiB or more; what the file answered. The stack is as it was.
    pub fn push(&mut self, record: &[u8]) -> io::Result<()> {
        let header = header(record)?;
        let size = HEADER + record.len();
        if size > self.limit / 2 {
            self.spill(0)?;
            self.file.write(&[record, &header], self.end)?;
            self.end += size as u64;
        } else {
            if self.young.len() + size > self.limit {
                self.spill(self.limit / 2)?;
            }
            reserve(&mut self.young, size, self.limit);
            self.young.extend_from_slice(record);
            self.young.extend_from_slice(&header);
        }
        self.len += 1;
        Ok(())
    }

    /// # Errors
    /// What the file answered; `InvalidData` if it no longer holds what was written. The record is still there.
    pub fn pop(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.len == 0 {
            return Ok(None);
        }
        if self.young.is_empty()
            && let Some(long) = self.fill()?
        {
            self.len -= 1;
            return Ok(Some(long));
        }
        let start = last_start(&self.young, self.young.len()).ok_or_else(file::damaged)?;
        let record = self.young[start..self.young.len() - HEADER].to_vec();
        self.young.truncate(start);
        self.len -= 1;
        Ok(Some(record))
    }

    /// Moves the oldest records in memory to the file, as one piece, until at most `keep` bytes are left.
    fn spill(&mut self, keep: usize) -> io::Result<()> {
        let mut cut = self.young.len();
        while let Some(start) = last_start(&self.young, cut)
            && self.young.len() - start <= keep
        {
            cut = start;
        }
        self.file.write(&[&self.young[..cut]], self.end)?;
        self.end += cut as u64;
        self.young.drain(..cut);
        Ok(())
    }

    /// Reads the youngest records of the file into the empty memory, or returns the youngest if it is too long for that.
    fn fill(&mut self) -> io::Result<Option<Vec<u8>>> {
        let size = usize::try_from(self.end).unwrap_or(usize::MAX).min(self.limit / 2).min(BLOCK);
        reserve(&mut self.young, size, self.limit);
        if let Err(error) = self.file.read(&mut self.young, size, self.end - size as u64) {
            self.young.clear();
            return Err(error);
        }
        let mut first = size;
        while let Some(start) = last_start(&self.young, first) {
            first = start;
        }
        self.young.drain(..first);
        let long = if first == size { Some(self.file.read_backwards(self.end)?) } else { None };
        let taken = long.as_ref().map_or(size - first, |record| HEADER + record.len());
        self.end -= taken as u64;
        self.file.truncate(self.end);
        Ok(long)
    }
}

/// Where the record that ends at `end` starts; `None` at the start, or if some of it is not in `bytes`.
fn last_start(bytes: &[u8], end: usize) -> Option<usize> {
    let length_starts = end.checked_sub(HEADER)?;
    length_starts.checked_sub(length_at(bytes, length_starts)?)
}
