//! Ranks over MPI. One thread of each rank makes all calls of MPI; the others leave messages for it and take them from it.
//!
//! ```text
//! send -> Outbox (wakes the thread) -> MPI_Isend ... MPI_Improbe -> inbox (wakes the receiver) -> receive
//! ```
//!
//! MPI has no call that sleeps until a message is here: the thread looks, and sleeps between looks, longer the longer nothing
//! happens. A message that is sent wakes it. MPI's own waits keep a processor busy, so that none of them is called.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::team::Transport;

use crate::library::{self, Library, Sending};

/// Sleeps between looks: the first, and the longest. 250 looks a second cost less than 1% of a processor.
const NAP: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(4));

/// While MPI has messages of this rank to move, which it does only while it is called.
const NAP_SENDING: Duration = Duration::from_micros(200);

/// Messages that wait to be taken, or to be sent: a rank that has more has stopped.
const MOST_WAITING: usize = 64 * 1024;

/// Messages that MPI has at once.
const MOST_SENDING: usize = 256;

/// For how long a rank that was stopped waits for the others to end, too.
const PATIENCE: Duration = Duration::from_secs(10);

/// For how long a rank does that ends with an error: one of the others may be gone. Longer than it takes the others to notice that
/// (`Team::silence`), who then end by themselves.
const LONG_PATIENCE: Duration = Duration::from_secs(120);

/// One rank of the job that mpirun or srun has started.
pub struct Mpi {
    rank: u32,
    ranks: u32,
    outbox: Arc<Outbox>,
    inbox: Mutex<Receiver<(u32, Vec<u8>)>>,
    thread: Mutex<Option<JoinHandle<Option<Vec<u8>>>>>,
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
    fn of(ended: Ended) -> End {
        let (code, patience) = match ended {
            Ended::Done(0) => (0, None),
            Ended::Done(code) => (code, Some(LONG_PATIENCE)),
            Ended::Stopped(code) => (code, Some(PATIENCE)),
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
}

#[derive(Default)]
struct Waiting {
    messages: VecDeque<(u32, Vec<u8>)>,
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
        let (arrived, inbox) = sync_channel(MOST_WAITING);
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
            Talk { library, outbox: waiting, arrived, sending: VecDeque::new(), held: None }.run()
        };
        let thread = std::thread::Builder::new().name("mpi".into()).spawn(talk).map_err(|e| Error::io(e, "start a thread"))?;
        let failed = |_| Error::new(ErrorKind::Other, "start MPI").because("its thread has ended");
        let (rank, ranks) = begins.recv().map_err(failed)??;
        Ok(Mpi { rank, ranks, outbox, inbox: Mutex::new(inbox), thread: Mutex::new(Some(thread)) })
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
        self.outbox.lock().end = Some(End::of(ended));
        self.outbox.wake.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let codes = thread.and_then(|thread| thread.join().ok()).flatten();
        codes.ok_or_else(|| self.gone())
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
        let mut waiting = self.outbox.lock();
        if waiting.failed.is_some() || waiting.end.is_some() {
            drop(waiting);
            return Err(self.gone());
        }
        if waiting.messages.len() >= MOST_WAITING {
            return Err(Error::new(ErrorKind::Broken, "send").because(format!("rank {to} does not read its messages")));
        }
        waiting.messages.push_back((to, message));
        drop(waiting);
        self.outbox.wake.notify_all();
        Ok(())
    }

    fn receive(&self, wait: Duration) -> Result<Option<(u32, Vec<u8>)>> {
        let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        match inbox.recv_timeout(wait) {
            Ok(message) => Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.gone()),
        }
    }
}

fn named(e: &Error, rank: u32) -> Error {
    Error::new(e.kind(), "send").because(format!("to rank {rank}: {}", e.reason()))
}

/// The thread that talks to MPI.
struct Talk {
    library: Library,
    outbox: Arc<Outbox>,
    arrived: SyncSender<(u32, Vec<u8>)>,
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
                None
            }
        }
    }

    fn talk(&mut self) -> Result<End> {
        let mut nap = NAP.0;
        loop {
            // None of the three is left out because another has moved something.
            let moved = [self.send()?, self.sent()?, self.receive()?].contains(&true);
            nap = if moved { NAP.0 } else { (nap * 2).min(NAP.1) };
            let waiting = self.outbox.lock();
            if let Some(end) = waiting.end {
                if waiting.messages.is_empty() && self.sending.is_empty() {
                    return Ok(end);
                }
                // To a rank that takes nothing any more.
                if end.is_overdue() {
                    self.library.abort(end.code);
                }
            }
            let more = !waiting.messages.is_empty() && self.sending.len() < MOST_SENDING;
            if !moved && !more {
                let nap = if self.sending.is_empty() { nap } else { nap.min(NAP_SENDING) };
                drop(self.outbox.wake.wait_timeout(waiting, nap).unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    /// Gives waiting messages to MPI.
    fn send(&mut self) -> Result<bool> {
        let mut moved = false;
        while self.sending.len() < MOST_SENDING {
            let Some((to, message)) = self.outbox.lock().messages.pop_front() else { break };
            let sending = self.library.send(to, message).map_err(|e| named(&e, to))?;
            self.sending.push_back(sending);
            moved = true;
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
            if !is_sent.map_err(|e| named(&e, to))? {
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
            let message = match self.held.take() {
                Some(message) => message,
                None => match self.library.receive()? {
                    Some(message) => message,
                    None => return Ok(moved),
                },
            };
            match self.arrived.try_send(message) {
                Ok(()) => moved = true,
                // Nobody reads any more: whoever has sent it can end.
                Err(TrySendError::Full(_)) if self.outbox.lock().end.is_some() => moved = true,
                Err(TrySendError::Full(message)) => {
                    self.held = Some(message);
                    return Ok(moved);
                }
                // Nobody will read it.
                Err(TrySendError::Disconnected(_)) => moved = true,
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
