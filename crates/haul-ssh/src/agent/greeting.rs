//! The greeting: finds the remote haul behind the output of login scripts, and reads its description and the answers to the
//! requests of the first round trip.

use std::io::Read;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use haul_core::entry::show;
use haul_core::error::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use serde::{Deserialize, Serialize};

use super::frame::{Frame, Input, Output, Plain, head, kind};
use super::link::{IDLE_TIMEOUT, Link, Transport, Window};
use super::ops;
use super::tls::Fingerprint;
use super::wire::{pack, printable, protocol_error};
use crate::bounded::Bounded;

/// Standard input and output of a program that is connected to the remote host.
pub struct Pipes {
    pub input: OwnedFd,
    pub output: OwnedFd,
    pub transport: Box<dyn Transport>,
}

impl Transport for Child {
    fn end(&mut self) {
        haul_net::child::end(self);
    }
}

/// What the remote haul said of itself in the greeting, behind the version of the protocol.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RemoteInfo {
    /// The version of the program.
    pub haul: String,
    pub home: Vec<u8>,
    /// By which further sessions join it; empty where they cannot.
    pub word: String,
    /// `SSH_CONNECTION`: address and port of the local and of the remote end, as the remote host sees them.
    pub connection: String,
    pub host: String,
    pub machine: String,
    /// The boot of the remote host.
    pub boot: String,
    /// The key of its end of data connections; `None` where it has none.
    pub fingerprint: Option<Fingerprint>,
}

/// A connection whose greeting is over.
pub struct Greeted {
    output: Box<dyn Output>,
    input: Plain<Greeting>,
    transport: Box<dyn Transport>,
    over: Arc<AtomicBool>,
    pub remote: Option<RemoteInfo>,
    /// The answers to the early requests, in their order.
    pub early: Vec<Result<Frame>>,
}

/// What comes from the remote host, with a bound on every wait until the greeting is over.
struct Greeting {
    fd: std::fs::File,
    buffered: Vec<u8>,
    at: usize,
    until: Option<Instant>,
}

impl Read for Greeting {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.buffered.len() {
            if buffer.len() >= 64 << 10 {
                return self.fill_from(buffer);
            }
            let mut fresh = std::mem::take(&mut self.buffered);
            fresh.resize(256 << 10, 0);
            let count = self.fill_from(&mut fresh);
            fresh.truncate(*count.as_ref().unwrap_or(&0));
            (self.buffered, self.at) = (fresh, 0);
            count?;
        }
        let left = &self.buffered[self.at..];
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}

impl Greeting {
    fn fill_from(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if let Some(until) = self.until {
            loop {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(std::io::ErrorKind::TimedOut.into());
                }
                let mut polled = [PollFd::new(&self.fd, PollFlags::IN)];
                let wait = rustix::time::Timespec::try_from(left.min(Duration::from_millis(500))).unwrap_or_default();
                if poll(&mut polled, Some(&wait)).unwrap_or(0) > 0 {
                    break;
                }
            }
        }
        self.fd.read(buffer)
    }

    /// Reads until `mark` or `other` has come, whatever a login script prints before it. A script may take its time; a haul
    /// speaks as soon as it runs.
    fn find(&mut self, mark: &[u8], other: &[u8]) -> Result<Found> {
        let failed = |kind, reason: &str| Error::new(kind, "greet").because(reason.to_string());
        let (begun, bound) = (Instant::now(), self.until);
        let speaking = || Some(bound.map_or(Instant::now() + SPEAKING, |bound| bound.min(Instant::now() + SPEAKING)));
        let mut program: Option<String> = None;
        loop {
            let all = &self.buffered;
            if let Some(at) = find(all, mark) {
                self.at = at + mark.len();
                // It answers the first request at once, and those about files when their file system does.
                self.until = speaking();
                return Ok(Found::Agent);
            }
            if program.is_none() {
                program = starting(all);
                self.until = if program.is_some() { speaking() } else { self.until };
            }
            if let Some(at) = find(all, other) {
                let rest = &all[at + other.len()..];
                if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    return Ok(Found::Missing(String::from_utf8_lossy(&rest[..end]).into_owned()));
                }
            }
            if all.len() > 256 << 10 {
                return Err(failed(ErrorKind::Unsupported, "its login scripts print endless output"));
            }
            let mut more = vec![0; 4096];
            match self.fill_from(&mut more) {
                Ok(0) => return Err(failed(ErrorKind::Unsupported, ENDED)),
                Ok(count) => self.buffered.extend_from_slice(&more[..count]),
                Err(e) if e.kind() == std::io::ErrorKind::TimedOut => {
                    let waited = begun.elapsed().as_secs_f64().round();
                    let reason = match &program {
                        Some(program) => format!("{program} was started there and said nothing within {waited} s: it hangs, or is no haul"),
                        None => format!("no command ran there within {waited} s: a login script may hang"),
                    };
                    return Err(failed(ErrorKind::TimedOut, &reason));
                }
                Err(e) => return Err(Error::io(e, "greet")),
            }
        }
    }
}

/// A word becomes part of a command line, and of a file's name on the remote host.
pub fn is_word(word: &str) -> bool {
    !word.is_empty() && word.len() <= 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn sound_word(word: String) -> Result<String> {
    if word.is_empty() || is_word(&word) { Ok(word) } else { Err(protocol_error("an impossible word to join by")) }
}

fn find(all: &[u8], mark: &[u8]) -> Option<usize> {
    all.windows(mark.len()).position(|window| window == mark)
}

/// The program that the remote shell has become, as it named it.
fn starting(all: &[u8]) -> Option<String> {
    let behind = &all[find(all, ops::STARTING)? + ops::STARTING.len()..];
    let end = behind.iter().position(|byte| *byte == b'\n')?;
    Some(show(&behind[..end]))
}

enum Found {
    Agent,
    /// There is no haul; system and machine as `uname -sm` prints them.
    Missing(String),
}

/// System and machine of a host without haul, where its shell has printed them.
pub fn missing_platform(e: &Error) -> Option<String> {
    e.reason().strip_prefix(NOT_THERE).map(str::to_string)
}

/// Whether the connection ended without a word of haul: there is none, or the connection was cut.
pub fn ended_silently(e: &Error) -> bool {
    e.kind() == ErrorKind::Unsupported && e.reason() == ENDED
}

const ENDED: &str = "it ended without any output";

/// How long a session that has nothing more to say may take to end.
const ENDING: Duration = Duration::from_secs(2);

const UNHEARD: &str =
    "haul was started there and does not get what is sent: a start-up file of its shell (.bashrc) reads standard input, or the host hangs";

/// How long a haul that was started may take to say its first word.
const SPEAKING: Duration = Duration::from_secs(10);

const NOT_THERE: &str = "no haul found on ";

impl Greeted {
    /// Asks the remote haul to describe itself, and sends the early requests: one write, one round trip.
    pub fn new(pipes: Pipes, version: &str, compress: bool, timeout: Duration, early: &[(u8, Vec<u8>)]) -> Result<Greeted> {
        let hello = pack((ops::VERSION, ops::VERSION, version, compress));
        let mut asked: Vec<(u8, &[u8])> = vec![(ops::HELLO, &hello)];
        asked.extend(early.iter().map(|(kind, request)| (*kind, &request[..])));
        let mut greeted = Self::begin(pipes, timeout, &asked)?;
        let read = |frame: Frame| {
            let spoken: u64 = frame.body().get()?;
            if spoken != ops::VERSION {
                let (_, haul): (u64, &str) = frame.body().get()?;
                let e = Error::new(ErrorKind::Unsupported, "greet");
                return Err(e.because(format!(
                    "haul {} on the remote host speaks version {spoken} of the protocol, which haul {version} does not",
                    printable(haul)
                )));
            }
            let (_, mut remote): (u64, RemoteInfo) = frame.body().get()?;
            for words in [&mut remote.haul, &mut remote.connection, &mut remote.host, &mut remote.machine, &mut remote.boot] {
                *words = printable(words);
            }
            remote.word = sound_word(remote.word)?;
            Ok(remote)
        };
        let hello = if greeted.early.is_empty() { Err(protocol_error("no greeting")) } else { greeted.early.remove(0) };
        match hello.and_then(read) {
            Ok(remote) => {
                greeted.remote = Some(remote);
                Ok(greeted)
            }
            Err(e) => {
                greeted.transport.end();
                Err(e)
            }
        }
    }

    /// A link that joins waits for the magic words only.
    pub fn joining(pipes: Pipes) -> Result<Greeted> {
        Self::begin(pipes, Duration::from_secs(30), &[])
    }

    fn begin(pipes: Pipes, timeout: Duration, asked: &[(u8, &[u8])]) -> Result<Greeted> {
        let Pipes { input, output, mut transport } = pipes;
        let over = Arc::new(AtomicBool::new(false));
        let greeted = (|| {
            let mut to = Plain(Bounded::new(input, IDLE_TIMEOUT, over.clone()).map_err(|e| Error::io(e, "connect"))?);
            let until = Instant::now() + timeout;
            for (id, (kind, request)) in (0_u32..).zip(asked) {
                // Sent before anything has come, which saves a round trip; a failure shows when nothing comes.
                let _ = to.send(head(*kind, id), &[request]);
            }
            let mut from = Greeting { fd: output.into(), buffered: Vec::new(), at: 0, until: Some(until) };
            if let Found::Missing(platform) = from.find(ops::MAGIC, ops::MISSING)? {
                // A host that allows one session has it back when this one has ended by itself.
                from.until = Some(Instant::now() + ENDING);
                while matches!(from.fill_from(&mut [0; 4096]), Ok(1..)) {}
                return Err(Error::new(ErrorKind::Unsupported, "greet").because(format!("{NOT_THERE}{platform}")));
            }
            let mut from = Plain(from);
            let early = answers(&mut from, asked.len(), until)?;
            from.0.until = None;
            Ok((to, from, early))
        })();
        match greeted {
            Ok((to, input, early)) => Ok(Greeted { output: Box::new(to), input, transport, over, remote: None, early }),
            Err(e) => {
                transport.end();
                Err(e)
            }
        }
    }

    pub fn link(self, compress: bool, window: Arc<Window>) -> Result<Arc<Link>> {
        Link::start(self.output, Box::new(self.input), self.transport, self.over, compress, window, IDLE_TIMEOUT)
    }
}

/// The answers to the requests 0 to `count`, in their order; all of them until then.
fn answers(from: &mut Plain<Greeting>, count: usize, until: Instant) -> Result<Vec<Result<Frame>>> {
    let mut answers: Vec<Option<Result<Frame>>> = (0..count).map(|_| None).collect();
    while answers.iter().any(Option::is_none) {
        let is_first = answers.iter().all(Option::is_none);
        if !is_first {
            from.0.until = Some(until);
        }
        let received = from.receive().map_err(|e| match from.0.until.is_some_and(|until| until <= Instant::now()) {
            true if is_first => Error::new(ErrorKind::TimedOut, "greet").because(UNHEARD),
            true => Error::new(ErrorKind::TimedOut, "greet").because("haul was started there and does not answer: a file system may hang"),
            false => e,
        });
        let Some(frame) = received?.map(super::compress::open).transpose()? else {
            return Err(super::frame::lost("the remote end closed it"));
        };
        if frame.kind == kind::HEARTBEAT {
            continue;
        }
        let Some(slot) = answers.get_mut(frame.id as usize).filter(|slot| slot.is_none()) else {
            return Err(protocol_error("an unexpected answer"));
        };
        *slot = Some(match frame.kind {
            kind::DONE => Ok(frame),
            kind::FAILED => Err(frame.body().error()?),
            _ => return Err(protocol_error("an unexpected answer")),
        });
    }
    Ok(answers.into_iter().flatten().collect())
}

/// The boot of this host: what is only in memory does not outlive it. Empty where it is not known.
pub fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_string()).unwrap_or_default()
}

/// A pipe that a program reads or writes, as large as it may be: fewer switches between the two.
pub fn widen(fd: &OwnedFd) {
    // A smaller pipe works, too.
    let _ = rustix::pipe::fcntl_setpipe_size(fd, 1 << 20);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It comes from the remote host and becomes a part of a command there.
    #[test]
    fn a_word_to_join_by_is_short_and_hexadecimal() {
        for word in ["", "0123456789abcdef", &"f".repeat(32)] {
            assert_eq!(sound_word(word.into()).unwrap(), word);
        }
        for word in ["a b", "$(id)", "a;b", "a\nb", "'", "../a", "g", &"f".repeat(33)] {
            assert_eq!(sound_word(word.into()).unwrap_err().kind(), ErrorKind::Broken, "{word}");
        }
    }
}
