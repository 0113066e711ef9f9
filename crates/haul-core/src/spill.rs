//! What grows without bound goes to disk: a queue, a stack and a sorter of byte records.
//!
//! Each keeps records in memory up to a limit and the rest in a file that has no name (O_TMPFILE, or created
//! and unlinked), so that nothing is left behind whatever becomes of the process. A record is its length as
//! four little-endian bytes and its bytes; one may have up to 4 GiB.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// What a record costs in memory beside its bytes: the vector's own fields and the allocator's header.
const OVERHEAD: usize = 40;
const BUFFER: usize = 64 << 10;
/// Runs that are merged at once, each with a buffer.
const FAN_IN: usize = 64;

/// A file without a name, readable and writable by nobody else.
fn nameless(dir: &Path) -> io::Result<File> {
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(dir, OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC, mode) {
        Ok(fd) => return Ok(File::from(fd)),
        // Not every file system has O_TMPFILE, and old kernels take it for a directory to be opened.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::NOENT | rustix::io::Errno::INVAL) => {}
        Err(e) => return Err(e.into()),
    }
    for attempt in 0..1000 {
        let path = dir.join(format!(".haul-spill-{}-{attempt}", std::process::id()));
        match rustix::fs::open(&path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC, mode) {
            Ok(fd) => {
                std::fs::remove_file(&path)?;
                return Ok(File::from(fd));
            }
            Err(rustix::io::Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn write_record(to: &mut impl Write, record: &[u8]) -> io::Result<()> {
    let length = u32::try_from(record.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(record)
}

fn read_record(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let mut record = vec![0; u32::from_le_bytes(length) as usize];
    from.read_exact(&mut record)?;
    Ok(record)
}

/// First in, first out. In order: what is at the front in memory, then the file, then what was pushed last.
#[derive(Debug)]
pub struct SpillQueue {
    dir: PathBuf,
    limit: usize,
    front: VecDeque<Vec<u8>>,
    back: VecDeque<Vec<u8>>,
    bytes: usize,
    file: Option<File>,
    read_at: u64,
    written_to: u64,
    in_file: u64,
}

impl SpillQueue {
    /// `limit` in bytes of memory.
    pub fn new(dir: &Path, limit: usize) -> Self {
        SpillQueue {
            dir: dir.to_path_buf(),
            limit,
            front: VecDeque::new(),
            back: VecDeque::new(),
            bytes: 0,
            file: None,
            read_at: 0,
            written_to: 0,
            in_file: 0,
        }
    }

    pub fn len(&self) -> u64 {
        self.front.len() as u64 + self.in_file + self.back.len() as u64
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes held in memory.
    pub fn memory(&self) -> usize {
        self.bytes
    }

    pub fn push(&mut self, record: &[u8]) -> io::Result<()> {
        let cost = record.len() + OVERHEAD;
        if self.bytes + cost > self.limit {
            self.flush()?;
        }
        if self.in_file == 0 && self.back.is_empty() && self.bytes + cost <= self.limit {
            self.front.push_back(record.to_vec());
        } else {
            self.back.push_back(record.to_vec());
        }
        self.bytes += cost;
        Ok(())
    }

    /// Appends the back to the file. With nothing in the file the front is its beginning.
    fn flush(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(nameless(&self.dir)?),
        };
        if self.in_file == 0 {
            (self.read_at, self.written_to) = (0, 0);
            file.set_len(0)?;
        }
        file.seek(SeekFrom::Start(self.written_to))?;
        let mut to = BufWriter::with_capacity(BUFFER, file);
        let mut written = 0;
        for record in &self.back {
            write_record(&mut to, record)?;
            written += 4 + record.len() as u64;
        }
        to.flush()?;
        self.written_to += written;
        self.in_file += self.back.len() as u64;
        self.bytes -= self.back.iter().map(|r| r.len() + OVERHEAD).sum::<usize>();
        self.back.clear();
        Ok(())
    }

    pub fn pop(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.front.is_empty() && self.in_file > 0 {
            self.refill()?;
        }
        let record = match self.front.pop_front() {
            Some(record) => Some(record),
            None => self.back.pop_front(),
        };
        if let Some(record) = &record {
            self.bytes -= record.len() + OVERHEAD;
        }
        Ok(record)
    }

    /// Reads a buffer full of records back, at least one.
    fn refill(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Err(io::ErrorKind::UnexpectedEof.into()) };
        file.seek(SeekFrom::Start(self.read_at))?;
        let mut from = BufReader::with_capacity(BUFFER, file);
        let mut taken = 0;
        while self.in_file > 0 && taken < self.limit.min(BUFFER) {
            let record = read_record(&mut from)?;
            self.read_at += 4 + record.len() as u64;
            self.in_file -= 1;
            taken += record.len() + OVERHEAD;
            self.bytes += record.len() + OVERHEAD;
            self.front.push_back(record);
        }
        Ok(())
    }
}

/// Last in, first out. Past the limit the older half goes to the file as one segment.
#[derive(Debug)]
pub struct SpillStack {
    dir: PathBuf,
    limit: usize,
    memory: VecDeque<Vec<u8>>,
    bytes: usize,
    file: Option<File>,
    /// Start and number of records of each segment; the last was written last.
    segments: Vec<(u64, u64)>,
    end: u64,
    in_file: u64,
}

impl SpillStack {
    /// `limit` in bytes of memory.
    pub fn new(dir: &Path, limit: usize) -> Self {
        SpillStack {
            dir: dir.to_path_buf(),
            limit,
            memory: VecDeque::new(),
            bytes: 0,
            file: None,
            segments: Vec::new(),
            end: 0,
            in_file: 0,
        }
    }

    pub fn len(&self) -> u64 {
        self.memory.len() as u64 + self.in_file
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes held in memory.
    pub fn memory(&self) -> usize {
        self.bytes
    }

    pub fn push(&mut self, record: &[u8]) -> io::Result<()> {
        let cost = record.len() + OVERHEAD;
        if self.bytes + cost > self.limit && !self.memory.is_empty() {
            self.spill()?;
        }
        self.bytes += cost;
        self.memory.push_back(record.to_vec());
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(nameless(&self.dir)?),
        };
        let count = self.memory.len().div_ceil(2);
        let start = self.end;
        file.seek(SeekFrom::Start(start))?;
        let mut to = BufWriter::with_capacity(BUFFER, file);
        let mut written = 0;
        for record in self.memory.iter().take(count) {
            write_record(&mut to, record)?;
            written += 4 + record.len() as u64;
        }
        to.flush()?;
        for record in self.memory.drain(..count) {
            self.bytes -= record.len() + OVERHEAD;
        }
        self.end += written;
        self.segments.push((start, count as u64));
        self.in_file += count as u64;
        Ok(())
    }

    pub fn pop(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.memory.is_empty()
            && let Some((start, count)) = self.segments.pop()
        {
            let Some(file) = &mut self.file else { return Err(io::ErrorKind::UnexpectedEof.into()) };
            file.seek(SeekFrom::Start(start))?;
            let mut from = BufReader::with_capacity(BUFFER, file);
            for _ in 0..count {
                let record = read_record(&mut from)?;
                self.bytes += record.len() + OVERHEAD;
                self.memory.push_back(record);
            }
            self.end = start;
            self.in_file -= count;
        }
        let record = self.memory.pop_back();
        if let Some(record) = &record {
            self.bytes -= record.len() + OVERHEAD;
        }
        Ok(record)
    }
}

/// How two records compare.
pub type Compare = fn(&[u8], &[u8]) -> Ordering;

/// Sorts any number of records: runs of `limit` bytes are sorted in memory, written one behind the other, and
/// merged when they are read. Equal records stay in the order in which they came.
#[derive(Debug)]
pub struct Sorter {
    dir: PathBuf,
    limit: usize,
    compare: Compare,
    memory: Vec<Vec<u8>>,
    bytes: usize,
    runs: Option<Runs>,
}

#[derive(Debug)]
struct Runs {
    file: File,
    /// Start and end of each run.
    at: Vec<(u64, u64)>,
    end: u64,
}

impl Runs {
    fn new(dir: &Path) -> io::Result<Self> {
        Ok(Runs { file: nameless(dir)?, at: Vec::new(), end: 0 })
    }

    fn add(&mut self, records: impl Iterator<Item = io::Result<Vec<u8>>>) -> io::Result<()> {
        let start = self.end;
        (&self.file).seek(SeekFrom::Start(start))?;
        let mut to = BufWriter::with_capacity(BUFFER, &self.file);
        for record in records {
            let record = record?;
            write_record(&mut to, &record)?;
            self.end += 4 + record.len() as u64;
        }
        to.flush()?;
        self.at.push((start, self.end));
        Ok(())
    }
}

impl Sorter {
    /// `limit` in bytes of memory.
    pub fn new(dir: &Path, limit: usize, compare: Compare) -> Self {
        Sorter { dir: dir.to_path_buf(), limit, compare, memory: Vec::new(), bytes: 0, runs: None }
    }

    /// Bytes held in memory.
    pub fn memory(&self) -> usize {
        self.bytes
    }

    pub fn push(&mut self, record: &[u8]) -> io::Result<()> {
        let cost = record.len() + OVERHEAD;
        if self.bytes + cost > self.limit && !self.memory.is_empty() {
            self.spill()?;
        }
        self.bytes += cost;
        self.memory.push(record.to_vec());
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        let compare = self.compare;
        self.memory.sort_by(|a, b| compare(a, b));
        let runs = match &mut self.runs {
            Some(runs) => runs,
            none => none.insert(Runs::new(&self.dir)?),
        };
        runs.add(self.memory.drain(..).map(Ok))?;
        self.bytes = 0;
        Ok(())
    }

    pub fn finish(mut self) -> io::Result<Sorted> {
        let compare = self.compare;
        if self.runs.is_none() {
            self.memory.sort_by(|a, b| compare(a, b));
            return Ok(Sorted { compare, memory: self.memory.into_iter(), merge: None });
        }
        self.spill()?;
        let Some(mut runs) = self.runs.take() else { return Err(io::ErrorKind::UnexpectedEof.into()) };
        while runs.at.len() > FAN_IN {
            let mut fewer = Runs::new(&self.dir)?;
            for group in runs.at.chunks(FAN_IN) {
                fewer.add(Merge::new(&runs.file, group, compare)?)?;
            }
            runs = fewer;
        }
        let merge = Merge::new(&runs.file, &runs.at, compare)?;
        Ok(Sorted { compare, memory: Vec::new().into_iter(), merge: Some(merge) })
    }
}

/// Records in order.
#[derive(Debug)]
pub struct Sorted {
    compare: Compare,
    memory: std::vec::IntoIter<Vec<u8>>,
    merge: Option<Merge>,
}

impl Sorted {
    /// Leaves out a record that equals the one before it.
    pub fn unique(self) -> impl Iterator<Item = io::Result<Vec<u8>>> {
        let compare = self.compare;
        let mut last: Option<Vec<u8>> = None;
        self.filter(move |record| match record {
            Ok(record) => {
                let fresh = last.as_ref().is_none_or(|last| compare(last, record).is_ne());
                if fresh {
                    last = Some(record.clone());
                }
                fresh
            }
            Err(_) => true,
        })
    }
}

impl Iterator for Sorted {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.merge {
            Some(merge) => merge.next(),
            None => self.memory.next().map(Ok),
        }
    }
}

/// One run being read.
#[derive(Debug)]
struct Run {
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    position: usize,
    head: Option<Vec<u8>>,
}

impl Run {
    fn take(&mut self, file: &File, bytes: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() - self.position < bytes {
            let want = BUFFER.max(bytes).min(usize::try_from(self.end - self.at).unwrap_or(usize::MAX));
            if want == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.buffer.drain(..self.position);
            self.position = 0;
            let old = self.buffer.len();
            self.buffer.resize(old + want, 0);
            file.read_exact_at(&mut self.buffer[old..], self.at)?;
            self.at += want as u64;
        }
        let taken = self.buffer[self.position..self.position + bytes].to_vec();
        self.position += bytes;
        Ok(taken)
    }

    fn advance(&mut self, file: &File) -> io::Result<()> {
        if self.at == self.end && self.position == self.buffer.len() {
            self.head = None;
            return Ok(());
        }
        let length = self.take(file, 4)?;
        let length = length.try_into().map(u32::from_le_bytes).map_err(|_| io::ErrorKind::InvalidData)?;
        self.head = Some(self.take(file, length as usize)?);
        Ok(())
    }
}

#[derive(Debug)]
struct Merge {
    file: File,
    runs: Vec<Run>,
    compare: Compare,
    failed: bool,
}

impl Merge {
    fn new(file: &File, at: &[(u64, u64)], compare: Compare) -> io::Result<Self> {
        let file = file.try_clone()?;
        let mut runs = Vec::with_capacity(at.len());
        for (start, end) in at {
            let mut run = Run { at: *start, end: *end, buffer: Vec::new(), position: 0, head: None };
            run.advance(&file)?;
            runs.push(run);
        }
        Ok(Merge { file, runs, compare, failed: false })
    }
}

impl Iterator for Merge {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let compare = self.compare;
        // The first of equals is of the earliest run, which keeps the sort stable.
        let least = self.runs.iter_mut().filter(|run| run.head.is_some()).min_by(|a, b| match (&a.head, &b.head) {
            (Some(a), Some(b)) => compare(a, b),
            _ => Ordering::Equal,
        })?;
        let record = least.head.take();
        if let Err(e) = least.advance(&self.file) {
            self.failed = true;
            return Some(Err(e));
        }
        record.map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMIT: usize = 400;

    #[derive(Clone, Debug)]
    enum Call {
        Push(Vec<u8>),
        Pop,
    }

    fn calls() -> impl Strategy<Value = Vec<Call>> {
        let push = prop::collection::vec(any::<u8>(), 0..60).prop_map(Call::Push);
        prop::collection::vec(prop_oneof![3 => push, 2 => Just(Call::Pop)], 0..300)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_queue_is_a_queue(calls in calls()) {
            let mut queue = SpillQueue::new(&std::env::temp_dir(), LIMIT);
            let mut model = VecDeque::new();
            for call in calls {
                match call {
                    Call::Push(record) => { queue.push(&record).unwrap(); model.push_back(record); }
                    Call::Pop => prop_assert_eq!(queue.pop().unwrap(), model.pop_front()),
                }
                prop_assert_eq!(queue.len(), model.len() as u64);
                prop_assert!(queue.memory() <= 2 * LIMIT + 100, "{}", queue.memory());
            }
            while let Some(expected) = model.pop_front() {
                prop_assert_eq!(queue.pop().unwrap(), Some(expected));
            }
            prop_assert_eq!(queue.pop().unwrap(), None);
        }

        #[test]
        fn a_stack_is_a_stack(calls in calls()) {
            let mut stack = SpillStack::new(&std::env::temp_dir(), LIMIT);
            let mut model = Vec::new();
            for call in calls {
                match call {
                    Call::Push(record) => { stack.push(&record).unwrap(); model.push(record); }
                    Call::Pop => prop_assert_eq!(stack.pop().unwrap(), model.pop()),
                }
                prop_assert_eq!(stack.len(), model.len() as u64);
                prop_assert!(stack.memory() <= LIMIT + 100);
            }
            while let Some(expected) = model.pop() {
                prop_assert_eq!(stack.pop().unwrap(), Some(expected));
            }
        }

        #[test]
        fn a_sorter_sorts_whatever_the_number_of_runs(records in prop::collection::vec(prop::collection::vec(0u8..4, 0..6), 0..2500)) {
            let mut sorter = Sorter::new(&std::env::temp_dir(), LIMIT, <[u8]>::cmp);
            for record in &records {
                sorter.push(record).unwrap();
                prop_assert!(sorter.memory() <= LIMIT);
            }
            let sorted: Vec<Vec<u8>> = sorter.finish().unwrap().map(Result::unwrap).collect();
            let mut expected = records.clone();
            expected.sort();
            prop_assert_eq!(&sorted, &expected);
            let mut again = Sorter::new(&std::env::temp_dir(), LIMIT, <[u8]>::cmp);
            for record in &records { again.push(record).unwrap(); }
            let unique: Vec<Vec<u8>> = again.finish().unwrap().unique().map(Result::unwrap).collect();
            expected.dedup();
            prop_assert_eq!(unique, expected);
        }
    }
}
