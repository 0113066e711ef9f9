//! One conversation with an SFTP server: any thread asks, a thread of its own hands the answers out.
//!
//! Requests go out many by one write, answers come in any order. Every wait has a bound: when nothing at all has come
//! from the server for that long, the conversation is over and everybody who waits is told.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Remedy, Result};
use rustix::event::{PollFd, PollFlags, poll};

use super::packet::{LONGEST, Parser, Request, SPEAK, kind, nonsense};

/// One conversation. Dropping it ends the program that carries it.
pub struct Channel {
    shared: Arc<Shared>,
    input: Mutex<Option<ChildStdin>>,
    child: Mutex<Child>,
    next: AtomicU32,
    /// Nothing from the server for this long ends the conversation.
    patience: Duration,
    pub extensions: Extensions,
}

/// What the server says it can do beyond version 3.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    pub posix_rename: bool,
    pub hardlink: bool,
    pub statvfs: bool,
    pub fsync: bool,
    pub lsetstat: bool,
    pub limits: bool,
    /// It speaks several versions. Of those ProFTPD mixes up what comes in several sessions of one connection, and falls
    /// silent or calls handles invalid.
    pub single: bool,
}

struct Shared {
    state: Mutex<State>,
    /// Who is at the other end, for messages.
    peer: OnceLock<String>,
}

struct State {
    pending: HashMap<u32, Arc<Slot>>,
    /// Why there will be no more answers.
    over: Option<Error>,
    last: Instant,
}

#[derive(Default)]
struct Slot {
    answer: Mutex<Option<Result<Answer>>>,
    came: Condvar,
}

/// A packet behind its id.
#[derive(Debug)]
pub struct Answer {
    pub kind: u8,
    packet: Vec<u8>,
}

impl Answer {
    /// What stands behind the id.
    pub fn body(&self) -> Parser<'_> {
        Parser(self.packet.get(5..).unwrap_or_default())
    }
}

/// A request that was sent, or is about to be. An answer that nobody waits for any more is thrown away when it comes.
pub struct Ticket(Arc<Slot>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Requests that go out together.
pub struct Batch<'a> {
    channel: &'a Channel,
    out: Vec<u8>,
}

impl Batch<'_> {
    /// Adds a request; `fill` writes what stands behind its id.
    pub fn push(&mut self, kind: u8, fill: impl FnOnce(Request<'_>) -> Request<'_>) -> Ticket {
        let (id, slot) = self.channel.expect();
        fill(Request::new(&mut self.out, kind, id)).end();
        Ticket(slot)
    }

    pub fn send(&mut self) -> Result<()> {
        let sent = self.channel.write(&self.out);
        self.out.clear();
        sent
    }
}

impl Channel {
    /// Starts the program that carries the conversation and greets the server. What the program says on standard error
    /// is the caller's: `stderr` is where it goes.
    pub fn start(mut command: Command, stderr: Stdio, patience: Duration, greeting: Duration) -> Result<Channel> {
        let program = command.get_program().to_os_string();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        detach(&mut command);
        let mut child = command.spawn().map_err(|e| Error::io(e, "start").at(program.as_encoded_bytes()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::new(ErrorKind::Other, "start").because("no pipes"));
        };
        // A server that does not read must not hold a writer for ever.
        rustix::io::ioctl_fionbio(&input, true).map_err(|e| Error::io(e.into(), "start"))?;
        let state = State { pending: HashMap::new(), over: None, last: Instant::now() };
        let shared = Arc::new(Shared { state: Mutex::new(state), peer: OnceLock::new() });
        let mut channel = Channel {
            shared,
            input: Mutex::new(Some(input)),
            child: Mutex::new(child),
            next: AtomicU32::new(1),
            patience: greeting,
            extensions: Extensions::default(),
        };
        channel.greet(output)?;
        channel.patience = patience;
        Ok(channel)
    }

    /// Names the other end in what goes wrong from now on.
    #[must_use]
    pub fn with(self, peer: &str) -> Channel {
        let _once = self.shared.peer.set(peer.to_string());
        self
    }

    /// INIT has no id; its answer comes before anything else, so the thread that hands out answers starts behind it.
    fn greet(&mut self, mut output: ChildStdout) -> Result<()> {
        let begun = Instant::now();
        self.write(&[0, 0, 0, 5, kind::INIT, 0, 0, 0, 3])?;
        let greeting = self.first_packet(&mut output, begun)?;
        let mut from = Parser(&greeting);
        if from.byte()? != kind::VERSION {
            return Err(nonsense("it does not answer"));
        }
        let version = from.number()?;
        if version < 3 {
            return Err(Error::new(ErrorKind::Unsupported, "connect").because(format!("the server speaks SFTP {version}; 3 is needed")));
        }
        while !from.0.is_empty() {
            let (name, value) = (from.bytes()?, from.bytes()?);
            let known = match name {
                b"posix-rename@openssh.com" => &mut self.extensions.posix_rename,
                b"hardlink@openssh.com" => &mut self.extensions.hardlink,
                b"statvfs@openssh.com" => &mut self.extensions.statvfs,
                b"fsync@openssh.com" => &mut self.extensions.fsync,
                b"lsetstat@openssh.com" => &mut self.extensions.lsetstat,
                b"limits@openssh.com" => &mut self.extensions.limits,
                b"versions" => &mut self.extensions.single,
                _ => continue,
            };
            *known = !value.is_empty();
        }
        let shared = self.shared.clone();
        let hand_out = move || {
            let over = shared.hand_out(output);
            shared.end(over);
        };
        std::thread::Builder::new().name("sftp".into()).spawn(hand_out).map_err(haul_core::rlimit::no_thread)?;
        Ok(())
    }

    /// Whoever prints something where SFTP is expected (a login script, a notice) shows here, in words.
    fn first_packet(&self, output: &mut ChildStdout, begun: Instant) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            if let Some(length) = bytes.first_chunk::<4>().map(|length| u32::from_be_bytes(*length) as usize) {
                if length > LONGEST {
                    let said = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).lines().next().unwrap_or_default().to_string();
                    let e = Error::new(ErrorKind::Broken, SPEAK).because(format!("the remote host printed {said:?} before SFTP began"));
                    return Err(e.hint("its login scripts must print nothing without a terminal"));
                }
                if bytes.len() >= 4 + length {
                    return Ok(bytes.split_off(4));
                }
            }
            let left = self.patience.saturating_sub(begun.elapsed());
            let mut polled = [PollFd::new(output, PollFlags::IN)];
            let wait = rustix::time::Timespec::try_from(left.min(Duration::from_millis(500))).unwrap_or_default();
            let ready = poll(&mut polled, Some(&wait)).unwrap_or(0);
            if ready == 0 && left.is_zero() {
                let e = Error::new(ErrorKind::Broken, "connect").because("the server does not answer");
                return Err(e.remedy_is(Remedy::Reconnect).hint("check whether the host is overloaded or one of its file systems hangs"));
            }
            if ready > 0 {
                let mut buffer = [0; 4096];
                match output.read(&mut buffer) {
                    // ssh itself says nothing of a subsystem that is not there when the session goes through its master.
                    Ok(0) => {
                        let e = Error::new(ErrorKind::Broken, "connect").because("the session ended before SFTP began");
                        return Err(e.remedy_is(Remedy::Reconnect).hint("check with `sftp` that the server offers SFTP to this account"));
                    }
                    Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                    Err(e) => return Err(Error::io(e, "connect")),
                }
            }
        }
    }

    pub fn batch(&self) -> Batch<'_> {
        Batch { channel: self, out: Vec::new() }
    }

    /// One request and its answer.
    pub fn ask(&self, kind: u8, fill: impl FnOnce(Request<'_>) -> Request<'_>) -> Result<Answer> {
        let mut batch = self.batch();
        let ticket = batch.push(kind, fill);
        batch.send()?;
        self.wait(ticket)
    }

    /// Requests that wait for their answers.
    pub fn load(&self) -> usize {
        lock(&self.shared.state).pending.len()
    }

    pub fn is_over(&self) -> bool {
        lock(&self.shared.state).over.is_some()
    }

    fn expect(&self) -> (u32, Arc<Slot>) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let slot = Arc::new(Slot::default());
        lock(&self.shared.state).pending.insert(id, slot.clone());
        (id, slot)
    }

    pub fn wait(&self, ticket: Ticket) -> Result<Answer> {
        let asked = Instant::now();
        let mut answer = lock(&ticket.0.answer);
        loop {
            if let Some(answer) = answer.take() {
                return answer;
            }
            let last = {
                let state = lock(&self.shared.state);
                if let Some(e) = &state.over {
                    return Err(e.again());
                }
                state.last.max(asked)
            };
            if last.elapsed() > self.patience {
                // `end` answers every request that waits, this one too.
                drop(answer);
                let e = self.shared.lost("wait", &format!("no data from the server for {} s", self.patience.as_secs()));
                self.end(e.again());
                return Err(e);
            }
            let waited = ticket.0.came.wait_timeout(answer, Duration::from_millis(500));
            answer = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn write(&self, mut bytes: &[u8]) -> Result<()> {
        let mut input = lock(&self.input);
        let over = |reason: &str| self.shared.lost("send", reason);
        let Some(pipe) = input.as_mut() else { return Err(over("the connection is closed")) };
        let begun = Instant::now();
        while !bytes.is_empty() {
            match pipe.write(bytes) {
                Ok(0) => return Err(over("the connection is closed")),
                Ok(count) => bytes = &bytes[count..],
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                    let mut polled = [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::OUT)];
                    let _looked_at_again = poll(&mut polled, Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 500_000_000 }));
                    let idle = lock(&self.shared.state).last.max(begun).elapsed();
                    if idle > self.patience {
                        drop(input);
                        let e = over("the server accepts no more data");
                        self.end(e.again());
                        return Err(e);
                    }
                }
                Err(_) => {
                    // The reader knows better why, if it has come that far.
                    drop(input);
                    std::thread::sleep(Duration::from_millis(20));
                    let known = lock(&self.shared.state).over.as_ref().map(Error::again);
                    return Err(known.unwrap_or_else(|| over("the connection was lost")));
                }
            }
        }
        Ok(())
    }

    /// Ends the conversation: nothing of it can be used any more.
    pub fn end(&self, why: Error) {
        self.shared.end(why);
        let mut child = lock(&self.child);
        let _it_may_be_gone = child.kill();
        let _reaped = child.wait();
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // The end of its input is the end of an SFTP server; ssh follows it.
        drop(lock(&self.input).take());
        let mut child = lock(&self.child);
        for _ in 0..50 {
            if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _it_may_be_gone = child.kill();
        let _reaped = child.wait();
    }
}

impl Shared {
    /// Which host an error is about, where that is known.
    fn of_peer(&self, e: Error) -> Error {
        match self.peer.get() {
            Some(peer) => {
                let reason = format!("{peer}: {}", e.reason());
                e.because(reason)
            }
            None => e,
        }
    }

    fn nonsense(&self, reason: &str) -> Error {
        self.of_peer(nonsense(reason))
    }

    /// The conversation is over, and another may go better.
    fn lost(&self, op: &'static str, reason: &str) -> Error {
        let e = self.of_peer(Error::new(ErrorKind::Broken, op).because(reason)).remedy_is(Remedy::Reconnect);
        e.hint("when the host is reachable again, run the same command")
    }

    fn end(&self, why: Error) {
        let mut state = lock(&self.state);
        let pending = std::mem::take(&mut state.pending);
        let why = state.over.get_or_insert(why).again();
        drop(state);
        for slot in pending.into_values() {
            *lock(&slot.answer) = Some(Err(why.again()));
            slot.came.notify_all();
        }
    }

    /// Until the connection ends; why it did.
    fn hand_out(&self, output: ChildStdout) -> Error {
        let lost = |reason: &str| self.lost("receive", reason);
        let mut output = std::io::BufReader::with_capacity(LONGEST, output);
        loop {
            let mut length = [0; 4];
            if output.read_exact(&mut length).is_err() {
                return lost("the connection was lost");
            }
            let length = u32::from_be_bytes(length) as usize;
            if !(5..=LONGEST).contains(&length) {
                return self.nonsense("a packet of an impossible length");
            }
            let mut packet = vec![0; length];
            if output.read_exact(&mut packet).is_err() {
                return lost("the connection was lost within an answer");
            }
            let id = u32::from_be_bytes([packet[1], packet[2], packet[3], packet[4]]);
            let slot = {
                let mut state = lock(&self.state);
                state.last = Instant::now();
                state.pending.remove(&id)
            };
            let Some(slot) = slot else { return self.nonsense("an answer that nobody asked for") };
            *lock(&slot.answer) = Some(Ok(Answer { kind: packet[0], packet }));
            slot.came.notify_all();
        }
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channel").field("load", &self.load()).field("extensions", &self.extensions).finish_non_exhaustive()
    }
}

/// The interrupt, and the end, that a terminal tells all of its programs of is for haul alone: what carries its data goes on, so that
/// what is under way can be finished and kept.
pub(crate) fn detach(command: &mut Command) {
    let ignore = || {
        // SAFETY: called between fork and exec, where signal(2) is allowed; it touches no memory of ours.
        unsafe {
            libc::signal(libc::SIGINT, libc::SIG_IGN);
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
        }
        Ok(())
    };
    // SAFETY: the closure makes one call that is async-signal-safe.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command, ignore) };
}
