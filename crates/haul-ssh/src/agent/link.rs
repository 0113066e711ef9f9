//! The requesting end of one connection between two hauls: any thread sends requests, one thread of its own delivers the
//! answers.
//!
//! Every wait is bounded: the remote end sends a heartbeat on each link every [`HEARTBEAT`], so a link on which nothing
//! comes is dead, however long a request takes.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Result};

use super::compress::{self, Compressing};
use super::frame::{Frame, Input, LONGEST, Output, head, kind, length, lost};
use super::wire::{pack, protocol_error};
use crate::mux::{self, Mux, unanswered};
use haul_core::lock::lock;

/// How often the remote end sends a heartbeat.
pub const HEARTBEAT: Duration = Duration::from_secs(10);
/// A link on which nothing came for this long is dead.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Parts of an answer that may be in flight without CREDIT.
pub const PARTS_AHEAD: u64 = 16;

/// Bytes in flight over all links of a session: less than the remote end has room for, so that it never stops reading.
const WINDOW: u64 = 32 << 20;

/// What is in flight on all links of a session.
#[derive(Debug, Default)]
pub struct Window {
    bytes: Mutex<u64>,
    less: Condvar,
    /// Bytes of all answers that have come.
    pub received: AtomicU64,
    links: Mutex<Vec<Weak<Link>>>,
    /// Answers must come within this time, whatever the heartbeats say.
    answer_timeout: Option<Duration>,
}

impl Window {
    pub fn new(answer_timeout: Option<Duration>) -> Window {
        Window { answer_timeout, ..Window::default() }
    }

    /// Waits until so many more bytes may be in flight; a request larger than the window goes alone. The wait checks the links,
    /// since no other thread may be waiting for an answer.
    fn enter(&self, weight: u64, over: &Link) {
        let began = Instant::now();
        let mut bytes = lock(&self.bytes);
        while weight > 0 && *bytes > 0 && *bytes + weight > WINDOW && !over.is_over() {
            let (waited, timeout) = self.less.wait_timeout(bytes, mux::CHECK).unwrap_or_else(PoisonError::into_inner);
            bytes = waited;
            if timeout.timed_out() {
                drop(bytes);
                self.check_links(began);
                bytes = lock(&self.bytes);
            }
        }
        *bytes += weight;
    }

    /// Ends the links that owe an answer and have been silent for too long, which gives back what they held.
    fn check_links(&self, began: Instant) {
        let links: Vec<Arc<Link>> = {
            let mut links = lock(&self.links);
            links.retain(|link| link.strong_count() > 0);
            links.iter().filter_map(Weak::upgrade).collect()
        };
        for link in links.iter().filter(|link| link.load() > 0) {
            if link.mux.is_silent(began).unwrap_or(false) {
                link.end_silent();
            }
        }
    }
}

/// What one request has in flight.
struct InFlight {
    weight: u64,
    load: Arc<AtomicU64>,
    window: Arc<Window>,
    /// Parts of the answer that may still come.
    parts: u64,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.load.fetch_sub(self.weight, Ordering::Relaxed);
        if self.weight > 0 {
            *lock(&self.window.bytes) -= self.weight;
            self.window.less.notify_all();
        }
    }
}

/// What carries a link and ends with it: the ssh that was started for it, a socket.
pub trait Transport: Send {
    /// Ends it now, so that reads and writes return.
    fn end(&mut self);
}

pub struct Link {
    output: Mutex<Box<dyn Output>>,
    mux: Mux<Frame, InFlight>,
    /// Bytes that were requested or sent and are not answered.
    load: Arc<AtomicU64>,
    transport: Mutex<Box<dyn Transport>>,
    window: Arc<Window>,
}

/// A request that was sent. Dropping it does not end it: see [`Ticket::cancel`].
#[must_use]
pub struct Ticket {
    link: Arc<Link>,
    request: mux::Request<Frame>,
}

impl Link {
    /// Begins to deliver answers; the other end has been greeted. The output watches `over`, too.
    pub fn start(
        output: Box<dyn Output>,
        mut input: Box<dyn Input>,
        transport: Box<dyn Transport>,
        over: Arc<AtomicBool>,
        compress: bool,
        window: Arc<Window>,
        idle_timeout: Duration,
    ) -> Result<Arc<Link>> {
        let link = Arc::new(Link {
            output: Mutex::new(Box::new(Compressing::new(output, Arc::new(AtomicBool::new(compress))))),
            mux: Mux::new(over, window.answer_timeout.unwrap_or(idle_timeout)),
            load: Arc::default(),
            transport: Mutex::new(transport),
            window,
        });
        let weak = Arc::downgrade(&link);
        lock(&link.window.links).push(weak.clone());
        let deliver = move || {
            loop {
                let frame = input.receive().and_then(|frame| frame.map(compress::open).transpose());
                let Some(link) = weak.upgrade() else { return };
                let delivered = match frame {
                    Ok(Some(frame)) => link.deliver(frame),
                    Ok(None) => Err(lost("the remote end closed it")),
                    Err(e) => Err(e),
                };
                if let Err(e) = delivered {
                    return link.end(e);
                }
            }
        };
        std::thread::Builder::new().name("link".into()).spawn(deliver).map_err(haul_core::rlimit::no_thread)?;
        Ok(link)
    }

    pub fn load(&self) -> u64 {
        self.load.load(Ordering::Relaxed)
    }

    pub fn is_over(&self) -> bool {
        self.mux.is_over()
    }

    pub fn why_over(&self) -> Option<Error> {
        self.mux.why_over()
    }

    fn deliver(&self, frame: Frame) -> Result<()> {
        self.window.received.fetch_add(frame.body().0.len() as u64, Ordering::Relaxed);
        let id = frame.id;
        let delivered = match frame.kind {
            kind::HEARTBEAT => {
                if self.window.answer_timeout.is_none() {
                    self.mux.hear();
                }
                true
            }
            kind::MORE => match self.mux.update(id, |held| held.parts.checked_sub(1).map(|left| held.parts = left)) {
                Some(None) => return Err(protocol_error("more parts of an answer than requested")),
                _ => self.mux.deliver(id, Ok(frame), false),
            },
            kind::DONE => self.mux.deliver(id, Ok(frame), true),
            kind::FAILED => self.mux.deliver(id, Err(frame.body().error()?), true),
            _ => false,
        };
        if delivered { Ok(()) } else { Err(protocol_error("an unexpected answer")) }
    }

    /// Sends a request; `weight` is how many bytes it or its answer carries.
    pub fn ask(self: &Arc<Self>, kind: u8, parts: &[&[u8]], weight: u64) -> Result<Ticket> {
        if length(parts) > LONGEST {
            return Err(Error::new(ErrorKind::Unsupported, "ask").because("the attributes are too many for one request"));
        }
        self.window.enter(weight, self);
        self.load.fetch_add(weight, Ordering::Relaxed);
        let held = InFlight { weight, load: self.load.clone(), window: self.window.clone(), parts: PARTS_AHEAD };
        if let Some(e) = self.why_over() {
            return Err(e);
        }
        let request = self.mux.begin(held);
        self.send(kind, request.id, parts)?;
        Ok(Ticket { link: self.clone(), request })
    }

    pub fn send(&self, kind: u8, id: u32, parts: &[&[u8]]) -> Result<()> {
        let sent = lock(&self.output).send(head(kind, id), parts);
        sent.map_err(|e| {
            let reason = if e.kind() == io::ErrorKind::TimedOut { "it accepts no more data".to_string() } else { e.to_string() };
            // The reader may know better why; give it the time to find out.
            std::thread::sleep(Duration::from_millis(20));
            self.end(lost(&reason));
            self.why_over().unwrap_or_else(|| lost(&reason))
        })
    }

    /// Ends the link: it cannot be used any more, and every wait returns the reason.
    pub fn end(&self, why: Error) {
        self.mux.end(why);
        lock(&self.transport).end();
    }

    fn end_silent(&self) {
        self.end(match self.window.answer_timeout {
            Some(timeout) => unanswered(timeout),
            None => lost(&format!("no data for {} s", self.mux.idle_timeout().as_secs())),
        });
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        lock(&self.transport).end();
    }
}

impl Ticket {
    /// The next part of the answer; the last is of kind DONE.
    pub fn next(&self) -> Result<Frame> {
        self.link.mux.wait(&self.request, || self.link.end_silent())
    }

    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    pub fn id(&self) -> u32 {
        self.request.id
    }

    /// Whether `wait` would return at once.
    pub fn is_answered(&self) -> bool {
        self.request.is_answered()
    }

    /// The answer, where it is one frame.
    pub fn wait(self) -> Result<Frame> {
        let frame = self.next()?;
        if frame.kind == kind::DONE { Ok(frame) } else { Err(protocol_error("a partial answer")) }
    }

    /// Lets `parts` more parts of the answer come.
    pub fn credit(&self, parts: u64) -> Result<()> {
        // Without it in flight the last part has come.
        let _ = self.link.mux.update(self.request.id, |held| held.parts += parts);
        self.link.send(kind::CREDIT, self.request.id, &[&pack(parts)])
    }

    /// Ends an answer whose rest is not wanted.
    pub fn cancel(self) -> Result<()> {
        self.link.send(kind::CANCEL, self.request.id, &[])?;
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
        write!(f, "Ticket({})", self.request.id)
    }
}

#[cfg(test)]
mod tests;
