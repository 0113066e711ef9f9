//! Ranks over MPI. One thread of each rank makes all calls of MPI; the others leave messages for it and take them from it.
//!
//! ```text
//! send -> Outbox (wakes the thread) -> MPI_Isend ... MPI_Improbe -> Inbox (wakes the receiver) -> receive
//! ```
//!
//! MPI has no call that sleeps until a message is here: the thread looks, and sleeps between looks, longer the longer nothing
//! happens. A message that is sent wakes it. MPI's own waits keep a processor busy, so that none of them is called.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::team::Transport;

use crate::library::{self, Library, Sending};
use crate::queue::{Inbox, Outgoing, Room, Taken};

/// Sleeps between looks: the first, and the longest. 250 looks a second cost less than 1% of a processor.
const NAP: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(4));
/// How much longer each sleep is than the one before. The answer to a question comes while they are short.
const LONGER: f64 = 1.125;

/// While MPI has messages of this rank to move, which it does only while it is called.
const NAP_SENDING: Duration = Duration::from_micros(200);

/// For how long a message waits for room behind others to the same rank.
const FULL: Duration = Duration::from_secs(60);

/// Messages from this size on are left to threads that can wait: what is smaller may be a sign of life.
const BULK: usize = 4096;

/// For how long a rank that was stopped, or has been told that another is gone, waits for the others to end, too: together with
/// `Team::silence` a minute.
const PATIENCE: Duration = Duration::from_secs(10);

/// For how long a rank does that ends with another error. Longer than it takes the others to notice that one of them is gone
/// (`Team::silence`), who then end by themselves.
const LONG_PATIENCE: Duration = Duration::from_secs(120);

/// One rank of the job that mpirun or srun has started.
pub struct Mpi {
    rank: u32,
    ranks: u32,
    outbox: Arc<Outbox>,
    inbox: Arc<Inbox>,
    /// The thread that receives. It never waits to send: nothing would be read meanwhile.
    reader: Mutex<Option<ThreadId>>,
    thread: Mutex<Option<JoinHandle<Option<Vec<u8>>>>>,
    hurries: AtomicBool,
}

/// How a rank ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It waits for the others, after an error not for ever.
    Done(u8),
    /// The user wants it to end: the others get some seconds.
    Stopped(u8),
}

/// What the thread is to do when everything is sent.
#[derive(Clone, Copy)]
struct End {
    code: u8,
    /// When it ends all ranks.
    until: Option<Instant>,
}

impl End {
    fn of(ended: Ended, hurries: bool) -> End {
        let (code, patience) = match ended {
            Ended::Done(code) if hurries => (code, Some(patience())),
            Ended::Done(0) => (0, None),
            Ended::Done(code) => (code, Some(LONG_PATIENCE)),
            Ended::Stopped(code) => (code, Some(patience())),
        };
        End { code, until: patience.map(|patience| Instant::now() + patience) }
    }

    fn is_overdue(self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

#[derive(Default)]
struct Outbox {
    state: Mutex<Waiting>,
    wake: Condvar,
    /// MPI has taken messages.
    taken: Condvar,
}

#[derive(Default)]
struct Waiting {
    outgoing: Outgoing,
    end: Option<End>,
    /// Why the thread has given up.
    failed: Option<String>,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mpi {
    /// Begins MPI in a thread of its own.
    ///
    /// # Errors
    /// `Broken`, in the words of the library.
    pub fn start() -> Result<Mpi> {
        let outbox = Arc::new(Outbox::default());
        let inbox = Arc::new(Inbox::default());
        let arrived = inbox.clone();
        let (begun, begins) = sync_channel(1);
        let waiting = outbox.clone();
        let talk = move || {
            let library = match Library::begin() {
                Ok(library) => library,
                Err(e) => {
                    let _ = begun.send(Err(e)); // `start` waits for it
                    return None;
                }
            };
            let _ = begun.send(Ok((library.rank, library.ranks))); // as above
            let codes = Talk { library, outbox: waiting, arrived: arrived.clone(), sending: VecDeque::new(), held: None }.run();
            arrived.close();
            codes
        };
        let thread = std::thread::Builder::new().name("mpi".into()).spawn(talk).map_err(|e| Error::io(e, "start a thread"))?;
        let failed = |_| Error::new(ErrorKind::Other, "start MPI").because("its thread has ended");
        let (rank, ranks) = begins.recv().map_err(failed)??;
        Ok(Mpi { rank, ranks, outbox, inbox, reader: Mutex::default(), thread: Mutex::new(Some(thread)), hurries: AtomicBool::new(false) })
    }

    pub fn is_first(&self) -> bool {
        self.rank == 0
    }

    /// `Open MPI v4.1.4`
    pub fn library() -> String {
        library::version()
    }

    /// Ends this rank's part: messages under way are sent, then it waits for all ranks and returns the codes with which they end.
    ///
    /// # Errors
    /// `Broken` if that failed, or has been done before.
    pub fn end(&self, ended: Ended) -> Result<Vec<u8>> {
        self.outbox.lock().end = Some(End::of(ended, self.hurries.load(Ordering::Relaxed)));
        self.outbox.taken.notify_all();
        self.outbox.wake.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let codes = thread.and_then(|thread| thread.join().ok()).flatten();
        codes.ok_or_else(|| self.gone())
    }

    fn reader(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_reader(&self) -> bool {
        *self.reader() == Some(std::thread::current().id())
    }

    fn gone(&self) -> Error {
        let reason = self.outbox.lock().failed.clone().unwrap_or_else(|| "MPI has ended".into());
        Error::new(ErrorKind::Broken, "MPI").because(reason)
    }
}

impl Transport for Mpi {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn send(&self, to: u32, message: Vec<u8>) -> Result<()> {
        if to >= self.ranks {
            return Err(Error::new(ErrorKind::Broken, "send").because(format!("rank {to} does not exist")));
        }
        let can_wait = message.len() >= BULK && !self.is_reader();
        let until = Instant::now() + FULL;
        let mut waiting = self.outbox.lock();
        loop {
            if waiting.failed.is_some() || waiting.end.is_some() {
                drop(waiting);
                return Err(self.gone());
            }
            let full = match waiting.outgoing.room(to, message.len()) {
                Room::Enough => break,
                Room::Little if !can_wait => break,
                Room::Little => to,
                Room::None(full) => full,
            };
            let left = until.saturating_duration_since(Instant::now());
            if !can_wait || left.is_zero() {
                return Err(Error::new(ErrorKind::Broken, "send").because(format!("rank {full} does not read its messages")));
            }
            waiting = self.outbox.taken.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        waiting.outgoing.push(to, message);
        drop(waiting);
        self.outbox.wake.notify_all();
        Ok(())
    }

    fn receive(&self, wait: Duration) -> Result<Option<(u32, Vec<u8>)>> {
        *self.reader() = Some(std::thread::current().id());
        match self.inbox.take(wait) {
            Taken::Message(from, message) => Ok(Some((from, message))),
            Taken::Nothing => Ok(None),
            Taken::Closed => Err(self.gone()),
        }
    }

    fn hurry(&self) {
        self.hurries.store(true, Ordering::Relaxed);
    }
}

/// Tests cannot wait as long.
fn patience() -> Duration {
    let given = std::env::var("HAUL_TEST_SILENCE").ok().and_then(|seconds| seconds.parse().ok());
    given.map_or(PATIENCE, Duration::from_secs)
}

fn named(e: &Error, rank: u32) -> Error {
    Error::new(e.kind(), "send").because(format!("to rank {rank}: {}", e.reason()))
}

/// The thread that talks to MPI.
struct Talk {
    library: Library,
    outbox: Arc<Outbox>,
    arrived: Arc<Inbox>,
    sending: VecDeque<Sending>,
    /// Taken from MPI, with no room for it yet: nothing else is taken meanwhile.
    held: Option<(u32, Vec<u8>)>,
}

impl Talk {
    /// The codes of all ranks; `None` after an error.
    fn run(mut self) -> Option<Vec<u8>> {
        match self.talk().and_then(|end| self.leave(end)) {
            Ok(codes) => {
                self.library.end();
                Some(codes)
            }
            Err(e) => {
                // Without MPI_Finalize: it would wait for ranks that may be gone.
                self.outbox.lock().failed = Some(e.reason());
                self.outbox.taken.notify_all();
                None
            }
        }
    }

    fn talk(&mut self) -> Result<End> {
        let mut nap = NAP.0;
        loop {
            // None of the three is left out because another has moved something.
            let moved = [self.send()?, self.sent()?, self.receive()?].contains(&true);
            nap = if moved { NAP.0 } else { nap.mul_f64(LONGER).min(NAP.1) };
            let waiting = self.outbox.lock();
            if let Some(end) = waiting.end {
                if waiting.outgoing.is_empty() {
                    return Ok(end);
                }
                // To a rank that takes nothing any more.
                if end.is_overdue() {
                    self.library.abort(end.code);
                }
            }
            if !moved && !waiting.outgoing.has_next() {
                let nap = if self.sending.is_empty() { nap } else { nap.min(NAP_SENDING) };
                drop(self.outbox.wake.wait_timeout(waiting, nap).unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    /// Gives waiting messages to MPI.
    fn send(&mut self) -> Result<bool> {
        let mut moved = false;
        loop {
            let Some((to, message)) = self.outbox.lock().outgoing.next() else { break };
            let sending = self.library.send(to, message).map_err(|e| named(&e, to))?;
            self.sending.push_back(sending);
            moved = true;
        }
        if moved {
            self.outbox.taken.notify_all();
        }
        Ok(moved)
    }

    /// Forgets messages that MPI is done with.
    fn sent(&mut self) -> Result<bool> {
        let before = self.sending.len();
        let mut left = VecDeque::with_capacity(before);
        for mut sending in std::mem::take(&mut self.sending) {
            let is_sent = self.library.is_sent(&mut sending);
            let to = sending.to;
            if is_sent.map_err(|e| named(&e, to))? {
                self.outbox.lock().outgoing.sent(to);
            } else {
                left.push_back(sending);
            }
        }
        self.sending = left;
        Ok(self.sending.len() < before)
    }

    /// Takes messages from MPI until there is none, or no room.
    fn receive(&mut self) -> Result<bool> {
        let mut moved = false;
        loop {
            let (from, message) = match self.held.take() {
                Some(message) => message,
                None => match self.library.receive()? {
                    Some(message) => message,
                    None => return Ok(moved),
                },
            };
            match self.arrived.put(from, message) {
                Ok(()) => moved = true,
                // Nobody reads any more: whoever has sent it can end.
                Err(_) if self.outbox.lock().end.is_some() => moved = true,
                Err(message) => {
                    self.held = Some(message);
                    return Ok(moved);
                }
            }
        }
    }

    /// Waits for all ranks, asleep.
    fn leave(&mut self, end: End) -> Result<Vec<u8>> {
        let mut gathering = self.library.gather(end.code)?;
        let mut nap = NAP.0;
        loop {
            if let Some(codes) = self.library.gathered(&mut gathering)? {
                return Ok(codes);
            }
            // Others may still send to this rank: their messages must not keep them from ending.
            while self.library.receive()?.is_some() {}
            if end.is_overdue() {
                self.library.abort(end.code);
            }
            std::thread::sleep(nap);
            nap = (nap * 2).min(NAP.1);
        }
    }
}
