//! Frames between two hauls, and the asking end of a link: any thread asks, a thread of its own hands the answers out.
//!
//! A frame is four bytes of length, one of kind, four of id, then what it carries. Every wait has a bound: the far end
//! gives a sign of life on each link every [`PULSE`], so that a link on which nothing comes is dead, however long the
//! work takes that was asked for.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Remedy, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};

use super::squeeze::{self, Squeezing};
use super::wire::{Parser, nonsense};

/// The longest frame that is taken from the other end: a bundle and what is said of its files.
pub const LONGEST: usize = (4 << 20) + (64 << 10);
/// Signs of life come this often from the far end.
pub const PULSE: Duration = Duration::from_secs(10);
/// A link on which nothing came for this long is dead.
pub const SILENCE: Duration = Duration::from_secs(60);

/// Kinds of frames that are no requests.
pub mod kind {
    /// The whole answer, or the last part of it.
    pub const DONE: u8 = 1;
    /// A part of an answer.
    pub const MORE: u8 = 2;
    /// An error as the answer.
    pub const FAILED: u8 = 3;
    /// A sign of life; it has no id.
    pub const PULSE: u8 = 4;
    /// So many parts of an answer have been used: as many more may come.
    pub const CREDIT: u8 = 5;
    /// Nobody wants the rest of an answer.
    pub const CANCEL: u8 = 6;
}

/// Bytes that may be under way and not answered, over all links of a session: less than the far end has room for, so
/// that it never has to stop reading, however long its disk takes.
const WINDOW: u64 = 32 << 20;

/// What is under way of all links of a session.
#[derive(Debug, Default)]
pub struct Window {
    bytes: Mutex<u64>,
    less: Condvar,
    /// Bytes of all answers that have come.
    pub received: AtomicU64,
    links: Mutex<Vec<Weak<Link>>>,
}

impl Window {
    /// Waits until so many bytes more may set out; whoever asks for more than there is goes alone. The wait looks at the
    /// links: if all requests are silent, nobody else may be waiting for an answer.
    fn enter(&self, weight: u64, over: &AtomicBool) {
        if weight == 0 {
            return;
        }
        let mut bytes = lock(&self.bytes);
        while *bytes > 0 && *bytes + weight > WINDOW && !over.load(Ordering::Relaxed) {
            let (waited, timeout) = self.less.wait_timeout(bytes, LOOK).unwrap_or_else(PoisonError::into_inner);
            bytes = waited;
            if timeout.timed_out() {
                drop(bytes);
                self.check_links();
                bytes = lock(&self.bytes);
            }
        }
        *bytes += weight;
    }

    /// Ends the links that owe an answer and have been silent for too long, which gives back what they held.
    fn check_links(&self) {
        let links: Vec<Arc<Link>> = {
            let mut links = lock(&self.links);
            links.retain(|link| link.strong_count() > 0);
            links.iter().filter_map(Weak::upgrade).collect()
        };
        for link in links.iter().filter(|link| link.load() > 0) {
            // A link that is over has told those who wait for it.
            let _ = link.check();
        }
    }

    fn leave(&self, weight: u64) {
        if weight > 0 {
            let mut bytes = lock(&self.bytes);
            *bytes = bytes.saturating_sub(weight);
            self.less.notify_all();
        }
    }
}

/// A wait looks this often whether what it waits for is still there.
const LOOK: Duration = Duration::from_millis(500);

/// Parts of an answer that may be under way without having been asked for by CREDIT.
pub const PARTS_AHEAD: u64 = 16;

/// One frame as it came.
#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub id: u32,
    bytes: Vec<u8>,
}

/// Bytes of kind and id.
pub const HEAD: usize = 5;

impl Frame {
    /// `bytes`: kind, id and what the frame carries.
    pub fn new(bytes: Vec<u8>) -> Result<Frame> {
        let Some((kind, id)) = bytes.first().copied().zip(bytes.get(1..).and_then(|rest| rest.first_chunk::<4>())) else {
            return Err(nonsense("a frame without a head"));
        };
        Ok(Frame { kind, id: u32::from_be_bytes(*id), bytes })
    }

    pub fn body(&self) -> Parser<'_> {
        Parser(self.bytes.get(HEAD..).unwrap_or_default())
    }
}

/// Where frames go.
pub trait Output: Send {
    fn send(&mut self, head: [u8; HEAD], parts: &[&[u8]]) -> io::Result<()>;

    /// Whether a frame that carries nothing would go out without a wait.
    fn is_ready(&self) -> bool;
}

/// Where frames come from; `None` at the end.
pub trait Input: Send {
    fn receive(&mut self) -> Result<Option<Frame>>;
}

/// Frames as they are: the way is ssh's.
pub struct Plain<T>(pub T);

impl Output for Plain<Bounded> {
    fn send(&mut self, head: [u8; HEAD], parts: &[&[u8]]) -> io::Result<()> {
        let length: usize = HEAD + parts.iter().map(|part| part.len()).sum::<usize>();
        let prefix = u32::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?.to_be_bytes();
        let slices = [&prefix[..], &head].into_iter().chain(parts.iter().copied());
        let mut slices: Vec<io::IoSlice<'_>> = slices.map(io::IoSlice::new).collect();
        let mut left = &mut slices[..];
        while !left.is_empty() {
            match self.0.write_vectored(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => io::IoSlice::advance_slices(&mut left, count),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.0.flush()
    }

    fn is_ready(&self) -> bool {
        self.0.is_ready()
    }
}

impl<T: Read + Send> Input for Plain<T> {
    fn receive(&mut self) -> Result<Option<Frame>> {
        let mut length = [0; 4];
        match self.0.read(&mut length[..1]) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(e) => return Err(lost(&e.to_string())),
        }
        self.0.read_exact(&mut length[1..]).map_err(|_| lost("it ended in the middle of a frame"))?;
        let length = u32::from_be_bytes(length) as usize;
        if !(HEAD..=LONGEST).contains(&length) {
            return Err(nonsense("a frame of an impossible length"));
        }
        let mut bytes = Vec::with_capacity(length);
        let read = (&mut self.0).take(length as u64).read_to_end(&mut bytes);
        match read {
            Ok(count) if count == length => Frame::new(bytes).map(Some),
            Ok(_) => Err(lost("it ended in the middle of a frame")),
            Err(e) => Err(lost(&e.to_string())),
        }
    }
}

pub fn lost(reason: &str) -> Error {
    Error::new(ErrorKind::Broken, "receive").because(format!("the connection was lost: {reason}")).remedy_is(Remedy::Reconnect)
}

/// A pipe or socket that is given up when it takes or gives nothing for too long, or when the link is over.
pub struct Bounded {
    fd: OwnedFd,
    patience: Duration,
    over: Arc<AtomicBool>,
}

impl Bounded {
    pub fn new(fd: OwnedFd, patience: Duration, over: Arc<AtomicBool>) -> io::Result<Bounded> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Bounded { fd, patience, over })
    }

    /// Whether a few bytes can be written at once: a pipe says so of a page, a socket of a third of its buffer.
    pub fn is_ready(&self) -> bool {
        let mut polled = [PollFd::from_borrowed_fd(self.fd.as_fd(), PollFlags::OUT)];
        poll(&mut polled, Some(&rustix::time::Timespec::default())).is_ok_and(|count| count > 0)
    }

    fn wait(&self, flags: PollFlags) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            let mut polled = [PollFd::from_borrowed_fd(self.fd.as_fd(), flags)];
            let wait = rustix::time::Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
            match poll(&mut polled, Some(&wait)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(e) => return Err(e.into()),
            }
            if self.over.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if begun.elapsed() > self.patience {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    fn again(&self, flags: PollFlags, mut call: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<usize> {
        loop {
            match call() {
                Ok(count) => return Ok(count),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => self.wait(flags)?,
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.again(PollFlags::IN, || rustix::io::read(&self.fd, &mut *buffer))
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.again(PollFlags::OUT, || rustix::io::write(&self.fd, bytes))
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.again(PollFlags::OUT, || rustix::io::writev(&self.fd, parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What carries a link and ends with it: the ssh that was started for it, a socket.
pub trait Carrier: Send {
    /// Ends it now, so that whoever reads or writes it comes back.
    fn end(&mut self);
}

/// The asking end of one link.
pub struct Link {
    output: Mutex<Box<dyn Output>>,
    state: Mutex<State>,
    next: AtomicU32,
    /// Bytes that were asked for or sent and are not answered.
    load: AtomicU64,
    over: Arc<AtomicBool>,
    carrier: Mutex<Box<dyn Carrier>>,
    window: Arc<Window>,
    silence: Duration,
}

struct State {
    pending: HashMap<u32, Arc<Slot>>,
    /// Why there will be no more answers.
    over: Option<Error>,
    last: Instant,
    /// When somebody last looked whether the other end is there.
    looked: Instant,
}

#[derive(Default)]
struct Slot {
    answers: Mutex<VecDeque<Result<Frame>>>,
    came: Condvar,
    weight: u64,
    /// Parts that came, and those that were allowed beyond the first.
    parts: AtomicU64,
    credit: AtomicU64,
}

/// A request that was sent. Dropping it does not end it: see [`Ticket::cancel`].
#[must_use]
pub struct Ticket {
    link: Arc<Link>,
    slot: Arc<Slot>,
    id: u32,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("load", &self.load()).field("over", &self.is_over()).finish_non_exhaustive()
    }
}

impl Link {
    /// Starts to hand out what comes; the other end has been greeted. `over` is what the output looks at, too.
    pub fn start(
        output: Box<dyn Output>,
        mut input: Box<dyn Input>,
        carrier: Box<dyn Carrier>,
        over: Arc<AtomicBool>,
        squeeze: bool,
        window: Arc<Window>,
        silence: Duration,
    ) -> Result<Arc<Link>> {
        let state = State { pending: HashMap::new(), over: None, last: Instant::now(), looked: Instant::now() };
        let link = Arc::new(Link {
            output: Mutex::new(Box::new(Squeezing::new(output, Arc::new(AtomicBool::new(squeeze))))),
            state: Mutex::new(state),
            next: AtomicU32::new(1),
            load: AtomicU64::new(0),
            over,
            carrier: Mutex::new(carrier),
            window,
            silence,
        });
        let weak = Arc::downgrade(&link);
        lock(&link.window.links).push(weak.clone());
        let hand_out = move || {
            loop {
                let frame = input.receive().and_then(|frame| frame.map(squeeze::open).transpose());
                let Some(link) = weak.upgrade() else { return };
                let taken = match frame {
                    Ok(Some(frame)) => link.take(frame),
                    Ok(None) => Err(lost("the remote end closed it")),
                    Err(e) => Err(e),
                };
                if let Err(e) = taken {
                    return link.end(e);
                }
            }
        };
        std::thread::Builder::new().name("link".into()).spawn(hand_out).map_err(haul_core::rlimit::no_thread)?;
        Ok(link)
    }

    /// Bytes that wait for their answers.
    pub fn load(&self) -> u64 {
        self.load.load(Ordering::Relaxed)
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Why it is over; `None` while it is not.
    pub fn why_over(&self) -> Option<Error> {
        lock(&self.state).over.as_ref().map(Error::again)
    }

    fn take(&self, frame: Frame) -> Result<()> {
        self.window.received.fetch_add(frame.body().0.len() as u64, Ordering::Relaxed);
        let slot = {
            let mut state = lock(&self.state);
            state.last = Instant::now();
            match frame.kind {
                kind::PULSE => return Ok(()),
                kind::MORE => state.pending.get(&frame.id).cloned(),
                kind::DONE | kind::FAILED => state.pending.remove(&frame.id),
                _ => None,
            }
        };
        let Some(slot) = slot else { return Err(nonsense("an unexpected answer")) };
        let answer = match frame.kind {
            kind::FAILED => {
                self.answered(&slot);
                Err(frame.body().error()?)
            }
            kind => {
                if kind == kind::MORE {
                    let parts = slot.parts.fetch_add(1, Ordering::Relaxed);
                    if parts >= PARTS_AHEAD + slot.credit.load(Ordering::Relaxed) {
                        return Err(nonsense("more parts of an answer than were asked for"));
                    }
                }
                if kind == kind::DONE {
                    self.answered(&slot);
                }
                Ok(frame)
            }
        };
        lock(&slot.answers).push_back(answer);
        slot.came.notify_all();
        Ok(())
    }

    fn answered(&self, slot: &Slot) {
        self.load.fetch_sub(slot.weight, Ordering::Relaxed);
        self.window.leave(slot.weight);
    }

    /// Asks; `weight` is how many bytes the request or its answer carries.
    pub fn ask(self: &Arc<Self>, kind: u8, parts: &[&[u8]], weight: u64) -> Result<Ticket> {
        if HEAD + parts.iter().map(|part| part.len()).sum::<usize>() > LONGEST {
            return Err(Error::new(ErrorKind::Unsupported, "ask").because("the attributes are too many for one request"));
        }
        self.window.enter(weight, &self.over);
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let slot = Arc::new(Slot { weight, ..Slot::default() });
        {
            let mut state = lock(&self.state);
            if let Some(e) = &state.over {
                self.window.leave(weight);
                return Err(e.again());
            }
            state.pending.insert(id, slot.clone());
        }
        self.load.fetch_add(weight, Ordering::Relaxed);
        self.send(kind, id, parts)?;
        Ok(Ticket { link: self.clone(), slot, id })
    }

    /// Sends what has no answer of its own.
    pub fn send(&self, kind: u8, id: u32, parts: &[&[u8]]) -> Result<()> {
        let mut head = [kind; HEAD];
        head[1..].copy_from_slice(&id.to_be_bytes());
        let sent = lock(&self.output).send(head, parts);
        sent.map_err(|e| {
            let reason = if e.kind() == io::ErrorKind::TimedOut { "it accepts no more data".to_string() } else { e.to_string() };
            // The reader may know better why; give it the time to come that far.
            std::thread::sleep(Duration::from_millis(20));
            self.end(lost(&reason));
            lock(&self.state).over.as_ref().map_or_else(|| lost(&reason), Error::again)
        })
    }

    /// Ends the link: nothing of it can be used any more, and everybody who waits is told why.
    pub fn end(&self, why: Error) {
        let (pending, why) = {
            let mut state = lock(&self.state);
            let pending = std::mem::take(&mut state.pending);
            (pending, state.over.get_or_insert(why).again())
        };
        self.over.store(true, Ordering::Relaxed);
        for slot in pending.into_values() {
            self.answered(&slot);
            lock(&slot.answers).push_back(Err(why.again()));
            slot.came.notify_all();
        }
        lock(&self.carrier).end();
    }

    /// Looks whether the far end is still there; called now and then by whoever waits.
    fn check(&self) -> Result<()> {
        let silent = {
            let mut state = lock(&self.state);
            if let Some(e) = &state.over {
                return Err(e.again());
            }
            // This process was stopped for a while, or nobody has waited: what came meanwhile has not been read yet.
            if state.looked.elapsed() > Duration::from_secs(5) {
                state.last = Instant::now();
            }
            state.looked = Instant::now();
            state.last.elapsed()
        };
        if silent > self.silence {
            self.end(lost(&format!("no data for {} s", self.silence.as_secs())));
        }
        Ok(())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        lock(&self.carrier).end();
    }
}

impl Ticket {
    /// The next part of the answer; the last is of kind DONE.
    pub fn next(&self) -> Result<Frame> {
        let mut answers = lock(&self.slot.answers);
        loop {
            if let Some(answer) = answers.pop_front() {
                return answer;
            }
            let (waited, timeout) = self.slot.came.wait_timeout(answers, LOOK).unwrap_or_else(PoisonError::into_inner);
            answers = waited;
            if timeout.timed_out() && answers.is_empty() {
                drop(answers);
                let checked = self.link.check();
                answers = lock(&self.slot.answers);
                if answers.is_empty() {
                    checked?;
                }
            }
        }
    }

    /// The link that it went by.
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Whether `wait` would come back at once.
    pub fn is_answered(&self) -> bool {
        !lock(&self.slot.answers).is_empty()
    }

    /// The answer, where it is one frame.
    pub fn wait(self) -> Result<Frame> {
        let frame = self.next()?;
        if frame.kind == kind::DONE { Ok(frame) } else { Err(nonsense("a part where an answer was asked for")) }
    }

    /// Lets `parts` more parts of the answer come.
    pub fn credit(&self, parts: u64) -> Result<()> {
        self.slot.credit.fetch_add(parts, Ordering::Relaxed);
        let mut to = super::wire::Writer::new();
        to.number(parts);
        self.link.send(kind::CREDIT, self.id, &[&to.out])
    }

    /// Says that the rest of the answer is not wanted.
    pub fn cancel(self) -> Result<()> {
        self.link.send(kind::CANCEL, self.id, &[])?;
        loop {
            match self.next() {
                Ok(frame) if frame.kind == kind::MORE => {}
                Ok(_) => return Ok(()),
                Err(e) if self.link.is_over() => return Err(e),
                Err(_) => return Ok(()),
            }
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({})", self.id)
    }
}

#[cfg(test)]
mod tests;
