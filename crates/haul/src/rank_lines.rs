//! Lines of all ranks, printed by the first one alone: what several processes write to mpirun's pipes comes out torn.
//!
//! ```text
//! write -> whole lines -> spool (64 KiB, then a file) -> Chunk -> rank 0: queue -> printer -> Printed -> the next chunk
//! ```
//!
//! No thread of a rank waits for rank 0 to print, so that a blocked terminal holds nobody up. A rank prints itself what rank 0
//! does not take.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use haul_core::error::Result;
use haul_core::rlimit;
use haul_core::spill::SpillQueue;
use haul_core::team::Transport;

/// Begins a message about lines: no other message begins so.
const MARK: u8 = 0xff;
const CHUNK: u8 = 0;
const PRINTED: u8 = 1;
const CLOSED: u8 = 2;

/// Bytes of a rank that rank 0 has and has not printed: at most; and of all ranks together.
const WINDOW: usize = 64 << 10;
const ALL: usize = 1 << 20;
const LEAST_WINDOW: usize = 4 << 10;
/// Bytes of a chunk, if a single line is not longer.
const MOST_CHUNK: usize = 16 << 10;
/// What a rank holds in memory.
const SPOOL: usize = 64 << 10;

/// How long rank 0 waits for the last lines of ranks of which it hears nothing.
const QUIET: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
}

/// Prints whole lines.
pub type Print = dyn Fn(Stream, &[u8]) + Send + Sync;

/// The transport of a rank, with its lines beside the messages of others.
pub struct Lines {
    me: Weak<Lines>,
    inner: Arc<dyn Transport>,
    window: usize,
    spool: Mutex<Spool>,
    /// Rank 0 has printed something, or is gone.
    taken: Condvar,
    queue: Mutex<Queue>,
    /// The queue has changed.
    queued: Condvar,
    printer: Mutex<Option<JoinHandle<()>>>,
    /// This process's own streams.
    own: fn(Stream, &[u8]) -> io::Result<()>,
}

/// Of a rank that does not print: what rank 0 has not printed.
struct Spool {
    /// Beginnings of lines.
    partial: [Vec<u8>; 2],
    waiting: SpillQueue,
    /// The next record of `waiting`.
    next: Option<Vec<u8>>,
    /// At rank 0, not printed.
    sent: VecDeque<Vec<u8>>,
    sent_bytes: usize,
    /// When rank 0 has printed something last.
    progress: Instant,
    /// Rank 0 takes nothing any more.
    alone: bool,
}

/// Of rank 0: what others have sent.
#[derive(Default)]
struct Queue {
    chunks: VecDeque<(u32, Vec<u8>)>,
    printing: bool,
    /// Who prints, if not this process's streams.
    print: Option<Weak<Print>>,
    closed: Vec<u32>,
    ended: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lines {
    pub fn new(inner: Arc<dyn Transport>) -> Arc<Lines> {
        Lines::beside(inner, print)
    }

    fn beside(inner: Arc<dyn Transport>, own: fn(Stream, &[u8]) -> io::Result<()>) -> Arc<Lines> {
        let spool = Spool {
            partial: Default::default(),
            waiting: SpillQueue::new(&std::env::temp_dir(), SPOOL),
            next: None,
            sent: VecDeque::new(),
            sent_bytes: 0,
            progress: Instant::now(),
            alone: false,
        };
        Arc::new_cyclic(|me| Lines {
            me: me.clone(),
            window: (ALL / inner.ranks().max(1) as usize).clamp(LEAST_WINDOW, WINDOW),
            spool: Mutex::new(spool),
            taken: Condvar::new(),
            queue: Mutex::default(),
            queued: Condvar::new(),
            printer: Mutex::default(),
            own,
            inner,
        })
    }

    fn leads(&self) -> bool {
        self.inner.rank() == 0
    }

    /// Writes to a stream of the job. Rank 0 writes to its own.
    pub fn write(&self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        if self.leads() {
            return (self.own)(stream, bytes);
        }
        let spool = &mut *lock(&self.spool);
        let partial = &mut spool.partial[stream as usize];
        partial.extend_from_slice(bytes);
        let Some(end) = partial.iter().rposition(|byte| matches!(byte, b'\n' | 0)) else { return Ok(()) };
        let rest = partial.split_off(end + 1);
        let whole = std::mem::replace(partial, rest);
        self.spool(spool, stream, &whole)
    }

    /// Takes whole lines.
    fn spool(&self, spool: &mut Spool, stream: Stream, mut whole: &[u8]) -> io::Result<()> {
        let most = MOST_CHUNK.min(self.window);
        while !whole.is_empty() {
            let ends = |byte: &u8| matches!(byte, b'\n' | 0);
            let within = whole.iter().take(most).rposition(ends);
            let length = within.or_else(|| whole.iter().position(ends)).map_or(whole.len(), |at| at + 1);
            let (chunk, rest) = whole.split_at(length);
            whole = rest;
            if spool.alone {
                (self.own)(stream, chunk)?;
                continue;
            }
            let record = [&[stream as u8], chunk].concat();
            if spool.waiting.push(&record).is_err() {
                // The disk for temporary files is full: torn lines are better than none.
                (self.own)(stream, chunk)?;
            }
        }
        self.pump(spool);
        Ok(())
    }

    /// Sends what rank 0 has room for.
    fn pump(&self, spool: &mut Spool) {
        while !spool.alone {
            if spool.next.is_none() {
                spool.next = spool.waiting.pop().unwrap_or(None);
            }
            let fits = |record: &Vec<u8>| spool.sent_bytes == 0 || spool.sent_bytes + record.len() <= self.window;
            let Some(record) = spool.next.take_if(|record| fits(record)) else { return };
            if spool.sent.is_empty() {
                spool.progress = Instant::now();
            }
            let sent = self.inner.send(0, [&[MARK, CHUNK][..], &record].concat());
            spool.sent_bytes += record.len();
            spool.sent.push_back(record);
            if sent.is_err() {
                self.go_alone(spool);
            }
        }
    }

    /// Prints itself, from now on, what rank 0 has not.
    fn go_alone(&self, spool: &mut Spool) {
        spool.alone = true;
        spool.sent_bytes = 0;
        let print_record = |record: &[u8]| {
            if let Some((stream, lines)) = record.split_first() {
                let _ = (self.own)(if *stream == 0 { Stream::Out } else { Stream::Err }, lines); // nobody is left to tell
            }
        };
        spool.sent.drain(..).chain(spool.next.take()).for_each(|record| print_record(&record));
        while let Ok(Some(record)) = spool.waiting.pop() {
            print_record(&record);
        }
        self.taken.notify_all();
    }

    /// Waits until all lines have been printed: of this rank; at rank 0, of all that have come. Lines of which rank 0 has taken none
    /// for `most` are printed here. Another thread receives meanwhile.
    pub fn flush(&self, most: Duration) {
        if self.leads() {
            let until = Instant::now() + most;
            let queue = lock(&self.queue);
            let left = until.saturating_duration_since(Instant::now());
            let busy = |queue: &mut Queue| queue.printing || !queue.chunks.is_empty();
            drop(self.queued.wait_timeout_while(queue, left, busy).unwrap_or_else(PoisonError::into_inner));
            return;
        }
        let mut spool = lock(&self.spool);
        while !spool.is_done() {
            let left = (spool.progress + most).saturating_duration_since(Instant::now());
            if left.is_zero() {
                return self.go_alone(&mut spool);
            }
            spool = self.taken.wait_timeout(spool, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Has `print` print what others send, until it is dropped.
    pub fn print_by(&self, print: &Arc<Print>) {
        lock(&self.queue).print = Some(Arc::downgrade(print));
    }

    /// The last lines: nothing is written after this, and nobody else receives.
    pub fn close(&self) {
        if self.leads() {
            let mut heard = Instant::now();
            while lock(&self.queue).closed.len() + 1 < self.inner.ranks() as usize && heard.elapsed() < QUIET {
                match self.inner.receive(Duration::from_millis(200)) {
                    Ok(Some((from, message))) => {
                        heard = Instant::now();
                        self.hear(from, &message);
                    }
                    Ok(None) => {}
                    Err(_) => break,
                }
            }
            lock(&self.queue).ended = true;
            self.queued.notify_all();
            if let Some(printer) = lock(&self.printer).take() {
                let _ = printer.join();
            }
            return;
        }
        {
            let spool = &mut *lock(&self.spool);
            for stream in [Stream::Out, Stream::Err] {
                let rest = std::mem::take(&mut spool.partial[stream as usize]);
                let _ = self.spool(spool, stream, &rest); // as for any last words
            }
        }
        loop {
            {
                let spool = &mut *lock(&self.spool);
                if !spool.is_done() && spool.progress.elapsed() >= QUIET {
                    self.go_alone(spool);
                }
                if spool.is_done() {
                    break;
                }
            }
            match self.inner.receive(Duration::from_millis(200)) {
                Ok(Some((from, message))) => {
                    self.hear(from, &message);
                }
                Ok(None) => {}
                Err(_) => self.go_alone(&mut lock(&self.spool)),
            }
        }
        let _ = self.inner.send(0, vec![MARK, CLOSED]); // it may have ended
    }

    /// Whether a message was one about lines.
    fn hear(&self, from: u32, message: &[u8]) -> bool {
        let Some((&MARK, rest)) = message.split_first() else { return false };
        match rest.split_first() {
            Some((&CHUNK, record)) if self.leads() => {
                lock(&self.queue).chunks.push_back((from, record.to_vec()));
                self.queued.notify_all();
                self.start_printer();
            }
            Some((&PRINTED, _)) => {
                let spool = &mut *lock(&self.spool);
                spool.progress = Instant::now();
                if let Some(record) = spool.sent.pop_front() {
                    spool.sent_bytes = spool.sent_bytes.saturating_sub(record.len());
                }
                self.pump(spool);
                self.taken.notify_all();
            }
            Some((&CLOSED, _)) => {
                let mut queue = lock(&self.queue);
                if !queue.closed.contains(&from) {
                    queue.closed.push(from);
                }
            }
            _ => {}
        }
        true
    }

    fn start_printer(&self) {
        let mut printer = lock(&self.printer);
        if printer.is_none() {
            let lines = self.me.upgrade();
            let begun = rlimit::spawn("lines", move || {
                if let Some(lines) = lines {
                    while lines.print_next(true) {}
                }
            });
            match begun {
                Ok(thread) => *printer = Some(thread),
                // Without a thread the receiver prints.
                Err(_) => while self.print_next(false) {},
            }
        }
    }

    /// `false` at the end; without `wait`, when nothing is there.
    fn print_next(&self, wait: bool) -> bool {
        let mut queue = lock(&self.queue);
        let (from, record) = loop {
            match queue.chunks.pop_front() {
                Some(next) => break next,
                None if queue.ended || !wait => return false,
                None => queue = self.queued.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        };
        queue.printing = true;
        let by = queue.print.as_ref().and_then(Weak::upgrade);
        drop(queue);
        if let Some((stream, lines)) = record.split_first() {
            let stream = if *stream == 0 { Stream::Out } else { Stream::Err };
            match by {
                Some(by) => by(stream, lines),
                // This rank's own lines report a reader that has gone.
                None => drop((self.own)(stream, lines)),
            }
        }
        let _ = self.inner.send(from, vec![MARK, PRINTED]); // a rank that is gone needs no answer
        lock(&self.queue).printing = false;
        self.queued.notify_all();
        true
    }
}

impl Spool {
    fn is_done(&self) -> bool {
        self.sent.is_empty() && self.next.is_none() && self.waiting.is_empty()
    }
}

impl Transport for Lines {
    fn rank(&self) -> u32 {
        self.inner.rank()
    }

    fn ranks(&self) -> u32 {
        self.inner.ranks()
    }

    fn send(&self, to: u32, message: Vec<u8>) -> Result<()> {
        self.inner.send(to, message)
    }

    fn hurry(&self) {
        self.inner.hurry();
    }

    fn receive(&self, wait: Duration) -> Result<Option<(u32, Vec<u8>)>> {
        let until = Instant::now() + wait;
        loop {
            match self.inner.receive(until.saturating_duration_since(Instant::now()))? {
                Some((from, message)) if self.hear(from, &message) => {}
                other => return Ok(other),
            }
        }
    }
}

/// To this process's own stream.
pub fn print(stream: Stream, bytes: &[u8]) -> io::Result<()> {
    match stream {
        Stream::Out => {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        }
        Stream::Err => io::stderr().lock().write_all(bytes),
    }
}

/// A stream of the job, for a rank that does not print.
pub struct Writer {
    pub lines: Arc<Lines>,
    pub stream: Stream,
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lines.write(self.stream, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
