//! Sorting more records than memory holds: sorted runs in a file, then merged.

use std::cmp::Ordering;
use std::io;
use std::ops::Range;
use std::path::Path;

use super::file::{HEADER, SpillFile, append, damaged, header, length_at, record_bytes, reserve};

/// Most that one reader or the writer of a merge buffers: large enough that a disk with seeks is not slowed by them.
const BLOCK: usize = 64 << 10;

/// Most runs merged at once: with `BLOCK`, 4 MiB of buffers.
const FAN_IN: usize = 64;

/// Smallest limit: below it the parts of a merge have no room.
const LEAST: usize = 64;

/// How the memory is shared out.
#[derive(Clone, Copy, Debug)]
struct Shares {
    /// For the records of a run with their places.
    run: usize,
    /// For each reader and the writer of a merge.
    block: usize,
    fan_in: usize,
}

impl Shares {
    fn of(limit: usize) -> Shares {
        let limit = limit.max(LEAST);
        let block = (limit / 4).min(BLOCK);
        // One share of a merge is the writer's, one the last record written.
        Shares { run: limit - block, block, fan_in: (limit / block - 2).clamp(2, FAN_IN) }
    }
}

type Compare = fn(&[u8], &[u8]) -> Ordering;

/// Takes records in any order and gives them back sorted; equal ones stay in the order in which they came.
#[derive(Debug)]
pub struct Sorter {
    file: SpillFile,
    /// Runs in the file, in the order of their records' coming: 16 bytes each beyond the limit.
    runs: Vec<Range<u64>>,
    shares: Shares,
    compare: Compare,
    unique: bool,
    data: Vec<u8>,
    /// Where in `data` each record starts.
    places: Vec<usize>,
}

impl Sorter {
    /// Holds at most `limit` bytes (at least 64) in memory; the file is made in `dir` when it is first needed.
    pub fn new(dir: &Path, limit: usize, compare: fn(&[u8], &[u8]) -> Ordering) -> Sorter {
        let file = SpillFile::new(dir);
        Sorter { file, runs: Vec::new(), shares: Shares::of(limit), compare, unique: false, data: Vec::new(), places: Vec::new() }
    }

    /// Of records that compare as equal only the first that came is kept.
    #[must_use]
    pub fn dedup(self) -> Sorter {
        Sorter { unique: true, ..self }
    }

    /// Bytes allocated for records: within the limit, unless single records are longer than a quarter of it or than 64 KiB; those
    /// are held whole, one per run being merged.
    pub fn memory(&self) -> usize {
        self.data.capacity() + self.places.capacity() * size_of::<usize>()
    }

    /// # Errors
    /// `InvalidInput` for a record of 4 GiB or more; what the file answered. The record was not taken.
    pub fn push(&mut self, record: &[u8]) -> io::Result<()> {
        let header = header(record)?;
        if !self.make_room(HEADER + record.len()) {
            self.flush()?;
            if !self.make_room(HEADER + record.len()) {
                return self.write_alone(header, record);
            }
        }
        self.places.push(self.data.len());
        append(&mut self.data, header, record);
        Ok(())
    }

    /// All records in order.
    ///
    /// # Errors
    /// What the file answered while runs were written or merged.
    pub fn finish(mut self) -> io::Result<Sorted> {
        if self.runs.is_empty() {
            self.sort();
            return Ok(Sorted(Inner::Memory { data: self.data, places: self.places, next: 0 }));
        }
        self.flush()?;
        drop((std::mem::take(&mut self.data), std::mem::take(&mut self.places)));
        while self.runs.len() > self.shares.fan_in {
            self.merge_pass()?;
        }
        let merge = Merge::new(self.file, &self.runs, self.shares.block, self.compare, self.unique)?;
        Ok(Sorted(Inner::Merge(Box::new(merge))))
    }

    /// Whether `size` more bytes fit. The rest of the room is taken in halves, so that the two buffers share it as needed.
    fn make_room(&mut self, size: usize) -> bool {
        let more_data = (self.data.len() + size).saturating_sub(self.data.capacity());
        let more_places = if self.places.len() < self.places.capacity() { 0 } else { size_of::<usize>() };
        let Some(spare) = self.shares.run.checked_sub(self.memory() + more_data + more_places) else {
            return false;
        };
        if more_data > 0 {
            let extra = self.data.capacity().min(spare / 2);
            self.data.reserve_exact(self.data.capacity() - self.data.len() + more_data + extra);
        }
        if more_places > 0 {
            let extra = self.places.capacity().min(spare / 4 / size_of::<usize>());
            self.places.reserve_exact(1 + extra);
        }
        true
    }

    /// Also drops what is equal to the record before it, if that is wanted.
    fn sort(&mut self) {
        let (data, compare) = (&self.data, self.compare);
        // In place and without the scratch memory of a stable sort; the place decides between equals.
        self.places.sort_unstable_by(|&a, &b| compare(record_bytes(data, a), record_bytes(data, b)).then(a.cmp(&b)));
        if self.unique {
            self.places.dedup_by(|later, first| compare(record_bytes(data, *first), record_bytes(data, *later)).is_eq());
        }
    }

    fn end(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.end)
    }

    /// Writes what is in memory as a run.
    fn flush(&mut self) -> io::Result<()> {
        if self.places.is_empty() {
            return Ok(());
        }
        self.sort();
        let mut writer = Writer::new(self.end(), self.shares.block);
        for &place in &self.places {
            writer.add(&mut self.file, record_bytes(&self.data, place))?;
        }
        self.runs.push(writer.finish(&mut self.file)?);
        self.places.clear();
        self.data.clear();
        Ok(())
    }

    /// A record too long for memory is a run of its own. What came before is flushed.
    fn write_alone(&mut self, header: [u8; HEADER], record: &[u8]) -> io::Result<()> {
        let start = self.end();
        self.file.write(&[&header, record], start)?;
        self.runs.push(start..start + (HEADER + record.len()) as u64);
        Ok(())
    }

    /// Merges neighbouring runs, as many at once as may be open, into a new file.
    fn merge_pass(&mut self) -> io::Result<()> {
        let mut target = self.file.sibling();
        let mut merged: Vec<Range<u64>> = Vec::with_capacity(self.runs.len().div_ceil(self.shares.fan_in));
        let mut source = std::mem::replace(&mut self.file, target.sibling());
        for group in self.runs.chunks(self.shares.fan_in) {
            let mut merge = Merge::new(source, group, self.shares.block, self.compare, self.unique)?;
            let mut writer = Writer::new(merged.last().map_or(0, |run| run.end), self.shares.block);
            while merge.step(&mut |record| writer.add(&mut target, record))? {}
            merged.push(writer.finish(&mut target)?);
            source = merge.file;
        }
        self.file = target;
        self.runs = merged;
        Ok(())
    }
}

/// The records of a `Sorter` in order. An error is the last item.
#[derive(Debug)]
pub struct Sorted(Inner);

#[derive(Debug)]
enum Inner {
    Memory { data: Vec<u8>, places: Vec<usize>, next: usize },
    Merge(Box<Merge>),
    Failed,
}

impl Sorted {
    /// Bytes allocated for records: not above the sorter's limit, unless single records are longer than a quarter of
    /// it or than 64 KiB. Those are held whole, one for each run that is being merged.
    pub fn memory(&self) -> usize {
        match &self.0 {
            Inner::Memory { data, places, .. } => data.capacity() + places.capacity() * size_of::<usize>(),
            Inner::Merge(merge) => merge.memory(),
            Inner::Failed => 0,
        }
    }
}

impl Iterator for Sorted {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Inner::Memory { data, places, next } => {
                let place = *places.get(*next)?;
                *next += 1;
                Some(Ok(record_bytes(data, place).to_vec()))
            }
            Inner::Merge(merge) => {
                let mut found = None;
                let step = merge.step(&mut |record| {
                    found = Some(record.to_vec());
                    Ok(())
                });
                if let Err(error) = step {
                    self.0 = Inner::Failed;
                    return Some(Err(error));
                }
                found.map(Ok)
            }
            Inner::Failed => None,
        }
    }
}

/// Writes records one behind the other, a block at a time.
struct Writer {
    start: u64,
    at: u64,
    block: usize,
    buffer: Vec<u8>,
}

impl Writer {
    fn new(start: u64, block: usize) -> Writer {
        Writer { start, at: start, block, buffer: Vec::new() }
    }

    fn add(&mut self, file: &mut SpillFile, record: &[u8]) -> io::Result<()> {
        let header = header(record)?;
        let size = HEADER + record.len();
        if self.buffer.len() + size > self.block {
            self.flush(file)?;
        }
        if size > self.block {
            file.write(&[&header, record], self.at)?;
            self.at += size as u64;
        } else {
            reserve(&mut self.buffer, size, self.block);
            append(&mut self.buffer, header, record);
        }
        Ok(())
    }

    fn flush(&mut self, file: &mut SpillFile) -> io::Result<()> {
        file.write(&[&self.buffer], self.at)?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self, file: &mut SpillFile) -> io::Result<Range<u64>> {
        self.flush(file)?;
        Ok(self.start..self.at)
    }
}

/// Reads one run; holds at least the record it stands at.
#[derive(Debug)]
struct Reader {
    /// What of the run is not in the buffer yet.
    rest: Range<u64>,
    buffer: Vec<u8>,
    at: usize,
}

impl Reader {
    fn record(&self) -> &[u8] {
        record_bytes(&self.buffer, self.at)
    }

    fn advance(&mut self, file: &SpillFile, block: usize) -> io::Result<bool> {
        self.at += HEADER + self.record().len();
        self.load(file, block)
    }

    /// Sees to it that the record at `at` is whole; `false` at the end of the run.
    fn load(&mut self, file: &SpillFile, block: usize) -> io::Result<bool> {
        let held = self.buffer.len() - self.at;
        if length_at(&self.buffer, self.at).is_some_and(|length| held >= HEADER + length) {
            return Ok(true);
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        if held == 0 && self.rest.is_empty() {
            self.buffer = Vec::new();
            return Ok(false);
        }
        let record_starts = self.rest.start - held as u64;
        let size = HEADER + file.read_length(record_starts, self.rest.end)?;
        // A long record before this one may have left more room than a buffer is to have.
        self.buffer.shrink_to(block.max(size));
        let rest = usize::try_from(self.rest.end - self.rest.start).unwrap_or(usize::MAX);
        let more = (block.max(size) - held).min(rest);
        self.buffer.reserve_exact(more);
        file.read(&mut self.buffer, more, self.rest.start)?;
        self.rest.start += more as u64;
        if length_at(&self.buffer, 0).is_some_and(|length| self.buffer.len() >= HEADER + length) { Ok(true) } else { Err(damaged()) }
    }
}

/// The merged records of some runs.
#[derive(Debug)]
struct Merge {
    file: SpillFile,
    readers: Vec<Reader>,
    /// A heap of the readers that are not at their end: the one with the least record first.
    heap: Vec<usize>,
    block: usize,
    compare: Compare,
    unique: bool,
    /// The record given last, kept only if equal ones are to be left out.
    last: Option<Vec<u8>>,
}

impl Merge {
    fn new(file: SpillFile, runs: &[Range<u64>], block: usize, compare: Compare, unique: bool) -> io::Result<Merge> {
        let readers = runs.iter().map(|run| Reader { rest: run.clone(), buffer: Vec::new(), at: 0 }).collect();
        let mut merge = Merge { file, readers, heap: Vec::new(), block, compare, unique, last: None };
        for index in 0..merge.readers.len() {
            if merge.readers[index].load(&merge.file, block)? {
                merge.heap.push(index);
            }
        }
        for at in (0..merge.heap.len() / 2).rev() {
            merge.sink(at);
        }
        Ok(merge)
    }

    fn memory(&self) -> usize {
        self.readers.iter().map(|reader| reader.buffer.capacity()).sum::<usize>() + self.last.as_ref().map_or(0, Vec::capacity)
    }

    /// Gives the next record to `take`; `false` when there is none.
    fn step(&mut self, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<bool> {
        while let Some(&least) = self.heap.first() {
            let record = self.readers[least].record();
            let wanted = !self.unique || self.last.as_ref().is_none_or(|last| (self.compare)(last, record).is_ne());
            if wanted {
                take(record)?;
                if self.unique {
                    let last = self.last.get_or_insert_default();
                    last.clear();
                    last.shrink_to(self.block.max(record.len()));
                    last.reserve_exact(record.len());
                    last.extend_from_slice(record);
                }
            }
            if !self.readers[least].advance(&self.file, self.block)? {
                self.heap.swap_remove(0);
            }
            self.sink(0);
            if wanted {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the record of reader `a` goes before that of `b`; among equals the earlier run does.
    fn before(&self, a: usize, b: usize) -> bool {
        (self.compare)(self.readers[a].record(), self.readers[b].record()).then(a.cmp(&b)).is_lt()
    }

    /// Restores the heap below `at`.
    fn sink(&mut self, mut at: usize) {
        loop {
            let Some(&left) = self.heap.get(2 * at + 1) else { return };
            let child = match self.heap.get(2 * at + 2) {
                Some(&right) if self.before(right, left) => 2 * at + 2,
                _ => 2 * at + 1,
            };
            if self.before(self.heap[at], self.heap[child]) {
                return;
            }
            self.heap.swap(at, child);
            at = child;
        }
    }
}

#[cfg(test)]
mod tests;
