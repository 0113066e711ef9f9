//! Fixed scripts for the remote `sh`, whatever the login shell is, and their output.
//!
//! A script is one word between single quotes, which sh, csh and fish read alike if it has no single quote, no exclamation mark
//! (csh), no line break (csh) and no doubled backslash (fish). Its output follows a mark, which separates it from what login
//! scripts print: lines that begin with a word.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime};

use haul_core::error::{Error, ErrorKind, Result};

use crate::agent::{self, Transport};
use crate::ssh::Login;

/// What each script prints before anything else.
const MARK: &[u8] = b"\nhaul-script-says\n";
/// More than this from the remote host is no answer of a script.
const LONGEST: usize = 1 << 20;
/// How long a further session may take to open.
const SESSION: Duration = Duration::from_secs(30);
/// A hash by whichever program is there, of standard input; 64 hexadecimal digits come first.
pub(crate) const SHA256: &str = "{ sha256sum || shasum -a 256 || openssl dgst -sha256 -r; } 2>/dev/null";

#[derive(Debug)]
pub struct Said {
    pub noise: usize,
    /// Word, what stands behind it, and when it came.
    pub lines: Vec<(String, String, SystemTime)>,
    pub whole: bool,
}

impl Said {
    /// What stands behind the first line of a word.
    pub fn get(&self, word: &str) -> Option<&str> {
        self.lines.iter().find(|(other, ..)| other == word).map(|(_, rest, _)| &rest[..])
    }
}

/// A script that is under way, in a session of its own; dropping it ends the session.
pub struct Script {
    transport: Box<dyn Transport>,
    chunks: Receiver<(Vec<u8>, SystemTime)>,
    sent: Arc<AtomicU64>,
    heard: Heard,
}

/// What has come, and where each chunk of it ends and when it came.
#[derive(Default)]
struct Heard {
    all: Vec<u8>,
    ends: Vec<(usize, SystemTime)>,
}

impl Heard {
    fn add(&mut self, (chunk, when): (Vec<u8>, SystemTime)) {
        self.all.extend_from_slice(&chunk);
        self.ends.push((self.all.len(), when));
    }

    fn mark(&self) -> Option<usize> {
        self.all.windows(MARK.len()).position(|window| window == MARK)
    }

    /// A haul speaks in place of the script.
    fn is_haul(&self) -> bool {
        self.mark().is_none() && self.all.windows(agent::MAGIC.len()).any(|window| window == agent::MAGIC)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.transport.end();
    }
}

fn command(script: &str) -> String {
    debug_assert!(!script.contains(['\'', '!', '\n']) && !script.contains("\\\\"), "{script}");
    format!("exec sh -c 'printf \"\\nhaul-script-says\\n\"; {script}'")
}

impl Script {
    /// Starts it; `input` is sent to its standard input, which then ends. `None` keeps that open.
    pub fn start(login: &Login, script: &str, input: Option<Box<dyn Read + Send>>) -> Result<Script> {
        let pipes = login.run(&command(script))?;
        let (send, chunks) = channel();
        let mut output = File::from(pipes.output);
        let hear = move || {
            let mut buffer = vec![0; 16 << 10];
            loop {
                match output.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(count) if send.send((buffer[..count].to_vec(), SystemTime::now())).is_ok() => {}
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    _ => return,
                }
            }
        };
        let sent = Arc::new(AtomicU64::new(0));
        let (count, mut to) = (sent.clone(), File::from(pipes.input));
        let feed = move || {
            let Some(mut input) = input else {
                // Held open until the session ends.
                let mut polled = [rustix::event::PollFd::new(&to, rustix::event::PollFlags::ERR)];
                let _ended = rustix::event::poll(&mut polled, None);
                return;
            };
            let mut buffer = vec![0; 64 << 10];
            while let Ok(read @ 1..) = input.read(&mut buffer) {
                // What ends too early there is found out by the script.
                if to.write_all(&buffer[..read]).is_err() {
                    return;
                }
                count.fetch_add(read as u64, Ordering::Relaxed);
            }
        };
        let script = Script { transport: pipes.transport, chunks, sent, heard: Heard::default() };
        let start = |work: Box<dyn FnOnce() + Send>| std::thread::Builder::new().name("script".into()).spawn(work);
        start(Box::new(hear)).and_then(|_| start(Box::new(feed))).map_err(haul_core::rlimit::no_thread)?;
        Ok(script)
    }

    /// Whether its mark comes within `idle_timeout`.
    pub fn begins(&mut self, idle_timeout: Duration) -> bool {
        let until = Instant::now() + idle_timeout;
        while self.heard.mark().is_none() && !self.heard.is_haul() && self.heard.all.len() <= LONGEST {
            match self.chunks.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(chunk) => self.heard.add(chunk),
                Err(_) => return false,
            }
        }
        self.heard.mark().is_some()
    }

    /// Hears it to its end, or until nothing has moved for `idle_timeout`. `Unsupported` where no script can be run.
    pub fn hear(mut self, idle_timeout: Duration) -> Result<Said> {
        let mut heard = std::mem::take(&mut self.heard);
        let mut sent = 0;
        let whole = loop {
            if heard.is_haul() {
                return Err(Error::new(ErrorKind::Unsupported, "run").because(RUNS_HAUL));
            }
            match self.chunks.recv_timeout(idle_timeout) {
                Ok(chunk) => heard.add(chunk),
                Err(RecvTimeoutError::Disconnected) => break true,
                Err(RecvTimeoutError::Timeout) => {
                    let now = self.sent.load(Ordering::Relaxed);
                    if now == sent {
                        break false;
                    }
                    sent = now;
                }
            }
            if heard.all.len() > LONGEST {
                break false;
            }
        };
        // The mark begins with the end of the line before it.
        let Some(noise) = heard.mark() else {
            let reason = if whole { "no script can be run there" } else { "the remote host does not answer" };
            return Err(Error::new(if whole { ErrorKind::Unsupported } else { ErrorKind::TimedOut }, "run").because(reason));
        };
        let mut at = noise + MARK.len();
        let mut lines = Vec::new();
        for line in heard.all[at..].split_inclusive(|byte| *byte == b'\n') {
            at += line.len();
            let when = heard.ends.iter().find(|(end, _)| *end >= at).map_or_else(SystemTime::now, |(_, when)| *when);
            let line = String::from_utf8_lossy(line);
            let (word, rest) = line.trim_end_matches(['\n', '\r']).split_once(' ').unwrap_or((line.trim(), ""));
            lines.push((word.to_string(), rest.trim().to_string(), when));
        }
        Ok(Said { noise, lines, whole })
    }
}

const RUNS_HAUL: &str = "the login runs haul and nothing else";

/// Whether no script can be run because the login serves haul alone, as one for one directory does.
pub fn runs_haul(e: &Error) -> bool {
    e.kind() == ErrorKind::Unsupported && e.reason() == RUNS_HAUL
}

/// Runs a script that reads nothing and hears it to its end.
pub fn run(login: &Login, script: &str, idle_timeout: Duration) -> Result<Said> {
    Script::start(login, script, Some(Box::new(std::io::empty())))?.hear(idle_timeout)
}

/// How many sessions the host lets be open at one time beside `open` others: as many are tried as make `most`.
pub fn count_sessions(login: &Arc<Login>, open: usize, most: usize) -> usize {
    let (send, began) = mpsc::channel();
    let mut started = 0;
    for _ in open..most {
        let (login, send) = (login.clone(), send.clone());
        let hold = move || {
            let open = || {
                let mut script = Script::start(&login, "read x", None).ok()?;
                script.begins(SESSION.min(login.left())).then_some(script)
            };
            let held = open().or_else(|| {
                // One that has just ended may have been counted still.
                std::thread::sleep(Duration::from_millis(200));
                open()
            });
            let _counted = send.send(held);
        };
        started += usize::from(std::thread::Builder::new().name("session".into()).spawn(hold).is_ok());
    }
    // All are held until the last has been tried.
    let held: Vec<Script> = (0..started).filter_map(|_| began.recv().ok().flatten()).collect();
    open + held.len()
}
