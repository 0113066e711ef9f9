//! The one way that bytes take. Whatever moves is counted, throttled, cancelled and hashed here.

use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::bundle::Spent;
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::fill::fill_whole;
use crate::store::{Reach, Sink, Source};

/// The kernel copies at most this much a call, so that a signal, a limit and the display see the copy move.
const KERNEL_CALL: u64 = 16 << 20;

#[derive(Debug)]
pub struct Meter {
    moved: AtomicU64,
    /// Of these, bytes that did not reach the destination.
    refused: AtomicU64,
    /// Bytes that were read for their hash only.
    hashed: AtomicU64,
    /// Nanoseconds that workers slept for the limit.
    throttled: AtomicU64,
    sleeping: AtomicU64,
    limit: Option<Limit>,
    cancel: Cancel,
}

/// Bytes a second, as the time at which the next byte may pass: every taker moves it on by its own share.
#[derive(Debug)]
struct Limit {
    rate: AtomicU64,
    next: Mutex<Instant>,
}

/// How a chunk is to pass.
#[derive(Clone, Copy, Debug)]
pub struct Pass<'a> {
    /// XXH3-128 of the chunk is wanted.
    pub hash: bool,
    /// Holes of the source are left out.
    pub sparse: bool,
    /// Counts the bytes of this one file, for the display.
    pub flight: &'a AtomicU64,
    /// Counts the bytes of this call.
    pub sent: &'a AtomicU64,
}

impl Pass<'_> {
    fn count(&self, bytes: u64) {
        self.flight.fetch_add(bytes, Ordering::Relaxed);
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Meter {
    /// `rate` in bytes a second.
    pub fn new(cancel: Cancel, rate: Option<u64>) -> Self {
        let limit = rate.map(|rate| Limit { rate: AtomicU64::new(rate.max(1)), next: Mutex::new(Instant::now()) });
        Meter {
            moved: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            hashed: AtomicU64::new(0),
            throttled: AtomicU64::new(0),
            sleeping: AtomicU64::new(0),
            limit,
            cancel,
        }
    }

    /// The limit is another one from now on, if there is one.
    pub fn limit_to(&self, rate: u64) {
        if let Some(limit) = &self.limit {
            limit.rate.store(rate.max(1), Ordering::Relaxed);
        }
    }

    /// Bytes a second, at most.
    pub fn limit(&self) -> Option<u64> {
        self.limit.as_ref().map(|limit| limit.rate.load(Ordering::Relaxed))
    }

    pub fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Says of bytes that were counted that the destination did not take them, or lost them.
    pub fn refuse(&self, bytes: u64) {
        self.refused.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that moved, without those that were refused. Unlike [`Meter::moved`] it may decrease.
    pub fn arrived(&self) -> u64 {
        self.moved().saturating_sub(self.refused.load(Ordering::Relaxed))
    }

    /// Bytes that `hash` has read: they are no data moved, but they are signs of life.
    pub fn hashed(&self) -> u64 {
        self.hashed.load(Ordering::Relaxed)
    }

    /// Counts bytes that were read where they lie, to be compared.
    pub fn read(&self, bytes: u64) {
        self.hashed.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn throttled(&self) -> Duration {
        Duration::from_nanos(self.throttled.load(Ordering::Relaxed))
    }

    /// Whether some worker sleeps for the limit at this moment.
    pub fn is_throttling(&self) -> bool {
        self.sleeping.load(Ordering::Relaxed) > 0
    }

    /// `Cancelled` when the run is to stop.
    pub fn check(&self) -> Result<()> {
        self.cancel.check()
    }

    /// Counts bytes that moved without passing here: no limit holds for them.
    pub fn within(&self, bytes: u64) -> Result<()> {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
        self.cancel.check()
    }

    /// Counts `bytes` and sleeps as `--bwlimit` requires; returns for how long. `Cancelled` once the run is stopping.
    pub fn take(&self, bytes: u64) -> Result<Duration> {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
        self.cancel.check()?;
        let Some(limit) = &self.limit else { return Ok(Duration::ZERO) };
        let until = {
            let mut next = limit.next.lock().expect("no panic while held");
            // What was not used in the last tenth of a second is lost: no bursts after a pause.
            let floor = Instant::now().checked_sub(Duration::from_millis(100)).unwrap_or_else(Instant::now);
            *next = (*next).max(floor) + Duration::from_secs_f64(bytes as f64 / limit.rate.load(Ordering::Relaxed) as f64);
            *next
        };
        self.sleeping.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        let slept = loop {
            let now = Instant::now();
            if now >= until {
                break Ok(());
            }
            if let Err(stop) = self.cancel.check() {
                break Err(stop);
            }
            std::thread::sleep((until - now).min(Duration::from_millis(50)));
        };
        let asleep = began.elapsed();
        self.throttled.fetch_add(asleep.as_nanos() as u64, Ordering::Relaxed);
        self.sleeping.fetch_sub(1, Ordering::Relaxed);
        slept.map(|()| asleep)
    }

    /// The largest piece that is moved between two looks at the limit and the cancel flag.
    fn piece(&self) -> u64 {
        match self.limit() {
            Some(rate) => (rate / 10).clamp(4096, KERNEL_CALL),
            None => KERNEL_CALL,
        }
    }

    /// Moves the bytes of `at` from source to sink: in the kernel if nothing has to see them, else through one buffer. Returns the
    /// hash, if wanted, and where the time went. An error says how many bytes were written before it: see [`Error::wrote`].
    pub fn pass(&self, from: &dyn Source, to: &dyn Sink, at: Range<u64>, how: Pass<'_>) -> Result<(Option<u128>, Spent)> {
        let mut spent = Spent::default();
        if at.is_empty() {
            return Ok((how.hash.then(|| crate::hash::xxh128(b"")), spent));
        }
        if let Some(reach) = from.extensions().near_data.reach().filter(|_| !how.sparse)
            && let Some(hash) = self.pull(reach, to, at.clone(), how, &mut spent)?
        {
            return Ok((how.hash.then_some(hash), spent));
        }
        let mut hasher = how.hash.then(xxhash_rust::xxh3::Xxh3::new);
        let extents = if how.sparse { from.data(at.clone()).map_err(Error::of_source)? } else { vec![at.clone()] };
        if extents.is_empty() {
            self.cancel.check()?;
            to.hole(at.clone())?;
            return Ok((how.hash.then(|| hash_of_zeros(at.end - at.start)), spent));
        }
        let mut position = at.start;
        // What is in front of a piece that failed has been written.
        let begin = at.start;
        let behind = move |start: u64| {
            move |e: Error| {
                let written = start - begin + e.written();
                e.wrote(written)
            }
        };
        for extent in extents {
            self.skip(to, position..extent.start, hasher.as_mut()).map_err(behind(position))?;
            position = extent.end;
            let mut left = extent;
            if hasher.is_none()
                && let (Some(source), Some(sink)) = (from.extensions().fd, to.extensions().fd)
            {
                let start = left.start;
                left = self.kernel_copy(source, sink, left, how, &mut spent).map_err(behind(start))?;
            }
            if !left.is_empty() {
                let start = left.start;
                self.copy(from, to, left, hasher.as_mut(), how, &mut spent).map_err(behind(start))?;
            }
        }
        self.skip(to, position..at.end, hasher.as_mut()).map_err(behind(position))?;
        Ok((hasher.map(|h| h.digest128()), spent))
    }

    /// The bytes go from one remote host to the other; they are counted, throttled and cancelled here all the same.
    fn pull(&self, from: Reach, to: &dyn Sink, at: Range<u64>, how: Pass<'_>, spent: &mut Spent) -> Result<Option<u128>> {
        let (fill, mut last) = (to.extensions().fill, None);
        let mut next = at.start;
        while next < at.end {
            // A hash is that of the whole.
            let end = if how.hash { at.end } else { (next + self.piece()).min(at.end) };
            let began = Instant::now();
            let Some(hash) = fill.pull(from, next..end, how.hash)? else { return Ok(None) };
            spent.copying += began.elapsed();
            last = Some(hash);
            how.count(end - next);
            spent.throttled += self.take(end - next)?;
            next = end;
        }
        Ok(last)
    }

    /// A hole: nothing moves, but the hash is that of the zeros a reader will see.
    fn skip(&self, to: &dyn Sink, hole: Range<u64>, hasher: Option<&mut xxhash_rust::xxh3::Xxh3>) -> Result<()> {
        if hole.is_empty() {
            return Ok(());
        }
        self.cancel.check()?;
        if let Some(hasher) = hasher {
            hash_zeros(hasher, hole.end - hole.start);
        }
        to.hole(hole)
    }

    /// Returns what the kernel would not copy: all of it where the two files have no such path between them.
    fn kernel_copy(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        at: Range<u64>,
        how: Pass<'_>,
        spent: &mut Spent,
    ) -> Result<Range<u64>> {
        use rustix::io::Errno;
        let (began, mut asleep) = (Instant::now(), Duration::ZERO);
        let (begin, mut done) = (at.start, at.start);
        let after = move |done: u64| move |e: Error| e.wrote(done - begin);
        while done < at.end {
            let ask = (at.end - done).min(self.piece());
            let (mut off_in, mut off_out) = (done, done);
            match rustix::fs::copy_file_range(from, Some(&mut off_in), to, Some(&mut off_out), ask as usize) {
                // Nothing although bytes are due: a file system that cannot say so, or a file that shrank; reading tells.
                Ok(0) => break,
                Ok(n) => {
                    done += n as u64;
                    how.count(n as u64);
                    asleep += self.take(n as u64).map_err(after(done))?;
                }
                Err(Errno::INTR) => self.cancel.check().map_err(after(done))?,
                Err(Errno::XDEV | Errno::NOSYS | Errno::INVAL | Errno::OPNOTSUPP | Errno::BADF | Errno::PERM | Errno::ISDIR) => break,
                // Whether the source or the destination failed is found out by reading.
                Err(Errno::IO) => break,
                Err(e) => return Err(after(done)(Error::io(e.into(), "write"))),
            }
        }
        spent.throttled += asleep;
        spent.copying += began.elapsed().saturating_sub(asleep);
        Ok(done..at.end)
    }

    fn copy(
        &self,
        from: &dyn Source,
        to: &dyn Sink,
        at: Range<u64>,
        hasher: Option<&mut xxhash_rust::xxh3::Xxh3>,
        how: Pass<'_>,
        spent: &mut Spent,
    ) -> Result<()> {
        let began = Instant::now();
        let reader = from.read(at.clone()).map_err(Error::of_source)?;
        // Behind a network the answer to the first request is waited for here.
        let mut inner = Spent { reading: began.elapsed(), ..Spent::default() };
        let mut metered = Metered { from: reader, meter: self, hasher, how, spent: &mut inner };
        let finds_holes = how.sparse && !from.extensions().reports_holes;
        let written = if finds_holes { write_sparsely(to, at, &mut metered) } else { to.write(at, &mut metered) };
        drop(metered);
        inner.writing = began.elapsed().saturating_sub(inner.sum());
        *spent += inner;
        written
    }

    /// Hashes the bytes of `at`; they count as work, not as moved. Time goes to `spent`, as reading if the source computes the
    /// hash.
    pub fn hash(&self, from: &dyn Source, at: Range<u64>, spent: &mut Spent) -> Result<u128> {
        self.cancel.check()?;
        let began = Instant::now();
        if let Some(hash) = from.extensions().near_data.hash(at.clone())? {
            self.hashed.fetch_add(at.end - at.start, Ordering::Relaxed);
            spent.reading += began.elapsed();
            return Ok(hash);
        }
        let extents = from.data(at.clone())?;
        if extents.is_empty() {
            self.hashed.fetch_add(at.end - at.start, Ordering::Relaxed);
            return Ok(hash_of_zeros(at.end - at.start));
        }
        let mut hasher = xxhash_rust::xxh3::Xxh3::new();
        let mut position = at.start;
        for extent in extents {
            hash_zeros(&mut hasher, extent.start - position);
            position = extent.end;
            self.look(from, extent, spent, &mut |bytes| hasher.update(bytes))?;
        }
        hash_zeros(&mut hasher, at.end - position);
        Ok(hasher.digest128())
    }

    /// Reads the bytes of `at` in order for `each`, whose time counts as hashing; they count as work, not as moved.
    pub fn look(&self, from: &dyn Source, at: Range<u64>, spent: &mut Spent, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut expected = at.end - at.start;
        let mut last = Instant::now();
        let mut lap = || {
            let now = Instant::now();
            now - std::mem::replace(&mut last, now)
        };
        let mut reader = from.read(at)?;
        let mut buffer = vec![0; 256 << 10];
        while expected > 0 {
            self.cancel.check()?;
            let want = buffer.len().min(usize::try_from(expected).unwrap_or(usize::MAX));
            match reader.read(&mut buffer[..want]) {
                Ok(0) => return Err(Error::new(ErrorKind::Changed, "read").because("the file is shorter than it was")),
                Ok(n) => {
                    spent.reading += lap();
                    each(&buffer[..n]);
                    spent.hashing += lap();
                    expected -= n as u64;
                    self.hashed.fetch_add(n as u64, Ordering::Relaxed);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::from_io(e, "read")),
            }
        }
        Ok(())
    }
}

/// XXH3-128 of so many zeros. Chunks of a file have one length, or two: the last few are remembered.
fn hash_of_zeros(count: u64) -> u128 {
    static KNOWN: Mutex<Vec<(u64, u128)>> = Mutex::new(Vec::new());
    let mut known = crate::lock::lock(&KNOWN);
    if let Some((_, hash)) = known.iter().find(|(length, _)| *length == count) {
        return *hash;
    }
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    hash_zeros(&mut hasher, count);
    let hash = hasher.digest128();
    known.truncate(7);
    known.insert(0, (count, hash));
    hash
}

/// Makes holes of blocks of zeros.
fn write_sparsely(to: &dyn Sink, at: Range<u64>, from: &mut dyn Read) -> Result<()> {
    const BLOCK: usize = 64 << 10;
    let mut buffer = vec![0; 16 * BLOCK];
    let mut next = at.start;
    let mut pass = |next: &mut u64| {
        let count = usize::try_from(at.end - *next).unwrap_or(usize::MAX).min(buffer.len());
        fill_whole(from, &mut buffer[..count])?;
        let is_hole = |block: &[u8]| block.iter().all(|byte| *byte == 0);
        let blocks: Vec<&[u8]> = buffer[..count].chunks(BLOCK).collect();
        let mut start = 0;
        for run in blocks.chunk_by(|a, b| is_hole(a) == is_hole(b)) {
            let bytes = &buffer[start..start + run.iter().map(|block| block.len()).sum::<usize>()];
            let end = *next + bytes.len() as u64;
            if is_hole(run[0]) { to.hole(*next..end) } else { to.write_bytes(*next, bytes) }?;
            (start, *next) = (start + bytes.len(), end);
        }
        Ok(())
    };
    while next < at.end {
        pass(&mut next).map_err(|e: Error| {
            let written = next - at.start + e.written();
            e.wrote(written)
        })?;
    }
    Ok(())
}

fn hash_zeros(hasher: &mut xxhash_rust::xxh3::Xxh3, mut count: u64) {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    while count > 0 {
        let n = count.min(ZEROS.len() as u64);
        hasher.update(&ZEROS[..n as usize]);
        count -= n;
    }
}

/// The reader that every byte passes on its way to a sink.
struct Metered<'a> {
    from: Box<dyn Read + Send + 'a>,
    meter: &'a Meter,
    hasher: Option<&'a mut xxhash_rust::xxh3::Xxh3>,
    how: Pass<'a>,
    spent: &'a mut Spent,
}

impl Read for Metered<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let began = Instant::now();
        let most = usize::try_from(self.meter.piece()).unwrap_or(usize::MAX).min(buffer.len());
        let n = match self.from.read(&mut buffer[..most]) {
            // The sink tries such a read again by itself.
            Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(Error::from_io(e, "read").of_source().into()),
            read => read?,
        };
        let read = Instant::now();
        self.spent.reading += read - began;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&buffer[..n]);
            self.spent.hashing += read.elapsed();
        }
        self.how.count(n as u64);
        self.spent.throttled += self.meter.take(n as u64)?;
        Ok(n)
    }
}
