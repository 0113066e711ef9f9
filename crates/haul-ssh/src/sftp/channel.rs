//! One session with an SFTP server. Requests go out many by one write, answers come in any order.

use std::io::{ErrorKind as IoKind, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Remedy, Result};
use rustix::event::{PollFd, PollFlags, poll};

use super::packet::{LONGEST, Parser, Request, SPEAK, kind, protocol_error};
use crate::bounded::Bounded;
use crate::mux::{self, Mux, unanswered};
use haul_core::lock::lock;
use haul_net::child;

/// One session. Dropping it ends the program that carries it.
pub struct Channel {
    shared: Arc<Shared>,
    input: Mutex<Option<Bounded>>,
    child: Mutex<Child>,
    /// Handles that are open, and how many the server allows.
    handles: AtomicUsize,
    handles_most: AtomicUsize,
    pub extensions: Extensions,
}

/// What OpenSSH allows by default, with some left.
const HANDLES: usize = 1000;

/// Handles of a channel that count as open until this is dropped.
#[derive(Debug)]
pub struct Held {
    channel: Arc<Channel>,
    pub count: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.channel.handles.fetch_sub(self.count, Ordering::Relaxed);
    }
}

/// The next step where a session ended before the server said a word.
pub(crate) const NO_SFTP: &str = "check with `sftp` that the server offers SFTP to this account";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    pub posix_rename: bool,
    pub hardlink: bool,
    pub statvfs: bool,
    pub fsync: bool,
    pub lsetstat: bool,
    pub limits: bool,
    pub expand_path: bool,
    /// It speaks several versions. Of such servers ProFTPD mixes up the sessions of one connection, and falls
    /// silent or calls handles invalid.
    pub single: bool,
}

struct Shared {
    mux: Mux<Answer>,
    /// The server, for messages.
    peer: OnceLock<String>,
    /// The idle timeout is one that the user gave to a command: it ends that, and another connection would only wait again.
    is_final: AtomicBool,
}

#[derive(Debug)]
pub struct Answer {
    pub kind: u8,
    packet: Vec<u8>,
}

impl Answer {
    /// The body behind the id.
    pub fn body(&self) -> Parser<'_> {
        Parser(self.packet.get(5..).unwrap_or_default())
    }
}

/// A request that was sent, or is about to be. Once it is dropped, its answer is discarded.
pub type Ticket = mux::Request<Answer>;

pub struct Batch<'a> {
    channel: &'a Channel,
    out: Vec<u8>,
}

impl Batch<'_> {
    /// Adds a request; `fill` writes the body behind its id.
    pub fn push(&mut self, kind: u8, fill: impl FnOnce(Request<'_>) -> Request<'_>) -> Ticket {
        let ticket = self.channel.shared.mux.begin(());
        fill(Request::new(&mut self.out, kind, ticket.id)).end();
        ticket
    }

    pub fn send(&mut self) -> Result<()> {
        let sent = self.channel.write(&self.out);
        self.out.clear();
        sent
    }
}

impl Channel {
    /// Starts the program that carries the session and greets the server. `stderr` is where the program's standard error
    /// goes. Nothing from the server for the idle timeout ends the session.
    pub fn start(mut command: Command, stderr: Stdio, idle_timeout: Duration, greeting: Duration) -> Result<Channel> {
        command.stderr(stderr);
        let (child, input, output) = child::start(command)?;
        let over = Arc::new(AtomicBool::new(false));
        let input = Bounded::new(input.into(), idle_timeout, over.clone()).map_err(|e| Error::io(e, "start"))?;
        let shared = Arc::new(Shared { mux: Mux::new(over, idle_timeout), peer: OnceLock::new(), is_final: AtomicBool::new(false) });
        let (input, child) = (Mutex::new(Some(input)), Mutex::new(child));
        let (handles, handles_most) = (AtomicUsize::new(0), AtomicUsize::new(HANDLES));
        let mut channel = Channel { shared, input, child, handles, handles_most, extensions: Extensions::default() };
        channel.greet(output, greeting)?;
        Ok(channel)
    }

    /// Names the server in all errors from now on.
    #[must_use]
    pub fn with(self, peer: &str) -> Channel {
        self.shared.peer.get_or_init(|| peer.to_string());
        self
    }

    /// Has silence end the command in place of the connection.
    #[must_use]
    pub fn ending(self, is_final: bool) -> Channel {
        self.shared.is_final.store(is_final, Ordering::Relaxed);
        self
    }

    /// INIT has no id; its answer comes before anything else, so the thread that delivers answers starts behind it.
    fn greet(&mut self, mut output: ChildStdout, timeout: Duration) -> Result<()> {
        let until = Instant::now() + timeout;
        self.write(&[0, 0, 0, 5, kind::INIT, 0, 0, 0, 3])?;
        let greeting = first_packet(&mut output, until)?;
        let mut from = Parser(&greeting);
        if from.byte()? != kind::VERSION {
            return Err(protocol_error("it does not answer"));
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
                b"expand-path@openssh.com" => &mut self.extensions.expand_path,
                b"versions" => &mut self.extensions.single,
                _ => continue,
            };
            *known = !value.is_empty();
        }
        let shared = self.shared.clone();
        let deliver = move || {
            let over = shared.deliver(output);
            shared.mux.end(over);
        };
        std::thread::Builder::new().name("sftp".into()).spawn(deliver).map_err(haul_core::rlimit::no_thread)?;
        Ok(())
    }

    pub fn batch(&self) -> Batch<'_> {
        Batch { channel: self, out: Vec::new() }
    }

    pub fn ask(&self, kind: u8, fill: impl FnOnce(Request<'_>) -> Request<'_>) -> Result<Answer> {
        let mut batch = self.batch();
        let ticket = batch.push(kind, fill);
        batch.send()?;
        self.wait(&ticket)
    }

    pub fn load(&self) -> usize {
        self.shared.mux.in_flight()
    }

    pub fn is_over(&self) -> bool {
        self.shared.mux.is_over()
    }

    pub fn handles_most(&self) -> usize {
        self.handles_most.load(Ordering::Relaxed)
    }

    pub fn allow_handles(&self, most: usize) {
        self.handles_most.store(most.max(1), Ordering::Relaxed);
    }

    pub fn has_free_handle(&self) -> bool {
        self.handles.load(Ordering::Relaxed) < self.handles_most()
    }

    /// Whether an OPEN may have failed because too many handles are open.
    pub fn is_short_of_handles(&self) -> bool {
        self.handles.load(Ordering::Relaxed) > self.handles_most() / 2
    }

    /// Counts handles that are about to be opened: as many as are free of `wanted`, at least one.
    pub fn hold(self: &Arc<Self>, wanted: usize) -> Held {
        let free = |open: usize| self.handles_most().saturating_sub(open).clamp(1, wanted.max(1));
        let before = self.handles.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| Some(open + free(open)));
        Held { channel: self.clone(), count: free(before.unwrap_or_else(|open| open)) }
    }

    pub fn why_over(&self) -> Option<Error> {
        self.shared.mux.why_over()
    }

    /// The answer, which is given once.
    pub fn wait(&self, ticket: &Ticket) -> Result<Answer> {
        let mux = &self.shared.mux;
        mux.wait(ticket, || {
            let e = match self.shared.is_final.load(Ordering::Relaxed) {
                true => self.shared.of_peer(unanswered(mux.idle_timeout())),
                false => self.shared.lost("wait", &format!("no data from the server for {} s", mux.idle_timeout().as_secs())),
            };
            self.end(e);
        })
    }

    fn write(&self, bytes: &[u8]) -> Result<()> {
        let sent = lock(&self.input).as_mut().map_or(Err(IoKind::BrokenPipe.into()), |input| input.write_all(bytes));
        sent.map_err(|e| {
            if e.kind() == IoKind::TimedOut {
                self.end(self.shared.lost("send", "the server accepts no more data"));
            } else {
                // The reader may know better why; give it the time to find out.
                std::thread::sleep(Duration::from_millis(20));
                self.shared.mux.end(self.shared.lost("send", "the connection was lost"));
            }
            self.shared.mux.why_over().unwrap_or_else(|| Error::io(e, "send"))
        })
    }

    /// The end of its input is the end of an SFTP server, a round trip later; ssh follows it.
    pub fn hang_up(&self) {
        drop(lock(&self.input).take());
    }

    /// Ends the session: nothing of it can be used any more.
    pub fn end(&self, why: Error) {
        self.shared.mux.end(why);
        child::end(&mut lock(&self.child));
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.hang_up();
        let mut child = lock(&self.child);
        for _ in 0..50 {
            if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        child::end(&mut child);
    }
}

/// The packet before which a login script or a notice may have printed something, which the error then quotes.
fn first_packet(output: &mut ChildStdout, until: Instant) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        if let Some(length) = bytes.first_chunk::<4>().map(|length| u32::from_be_bytes(*length) as usize) {
            if length > LONGEST {
                let printed = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).lines().next().unwrap_or_default().to_string();
                let e = Error::new(ErrorKind::Broken, SPEAK).because(format!("the remote host printed {printed:?} before SFTP began"));
                return Err(e.hint("its login scripts must print nothing without a terminal"));
            }
            if bytes.len() >= 4 + length {
                return Ok(bytes.split_off(4));
            }
        }
        let left = until.saturating_duration_since(Instant::now());
        let mut polled = [PollFd::new(output, PollFlags::IN)];
        let wait = rustix::time::Timespec::try_from(left.min(Duration::from_millis(500))).unwrap_or_default();
        let ready = poll(&mut polled, Some(&wait)).unwrap_or(0);
        if ready == 0 && left.is_zero() {
            const CAUSES: &str = "is overloaded, one of its file systems hangs, or a start-up file (.bashrc) reads standard input";
            let e = Error::new(ErrorKind::Broken, "connect").because("the server does not answer");
            return Err(e.remedy_is(Remedy::Reconnect).hint(format!("check whether the host {CAUSES}")));
        }
        if ready > 0 {
            let mut buffer = [0; 4096];
            match output.read(&mut buffer) {
                // ssh itself reports no missing subsystem when the session goes through its master.
                Ok(0) => {
                    let e = Error::new(ErrorKind::Broken, "connect").because("the session ended before SFTP began");
                    return Err(e.remedy_is(Remedy::Reconnect).hint(NO_SFTP));
                }
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                Err(e) => return Err(Error::io(e, "connect")),
            }
        }
    }
}

impl Shared {
    fn of_peer(&self, e: Error) -> Error {
        match self.peer.get() {
            Some(peer) => {
                let reason = format!("{peer}: {}", e.reason());
                e.because(reason)
            }
            None => e,
        }
    }

    fn protocol_error(&self, reason: &str) -> Error {
        self.of_peer(protocol_error(reason))
    }

    /// The connection is over; another may work.
    fn lost(&self, op: &'static str, reason: &str) -> Error {
        let e = self.of_peer(Error::new(ErrorKind::Broken, op).because(reason)).remedy_is(Remedy::Reconnect);
        e.hint("when the host is reachable again, run the same command")
    }

    /// Until the connection ends; why it did.
    fn deliver(&self, output: ChildStdout) -> Error {
        let lost = |reason: &str| self.lost("receive", reason);
        let mut output = std::io::BufReader::with_capacity(LONGEST, output);
        loop {
            let mut length = [0; 4];
            if output.read_exact(&mut length).is_err() {
                return lost("the connection was lost");
            }
            let length = u32::from_be_bytes(length) as usize;
            if !(5..=LONGEST).contains(&length) {
                return self.protocol_error("a packet of an impossible length");
            }
            let mut packet = vec![0; length];
            if output.read_exact(&mut packet).is_err() {
                return lost("the connection was lost within an answer");
            }
            let id = u32::from_be_bytes([packet[1], packet[2], packet[3], packet[4]]);
            if !self.mux.deliver(id, Ok(Answer { kind: packet[0], packet }), true) {
                return self.protocol_error("an unexpected answer");
            }
        }
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channel").field("load", &self.load()).field("extensions", &self.extensions).finish_non_exhaustive()
    }
}
