//! What ssh prints on its standard error, and what it means.

use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Remedy, Result};
use rustix::event::{PollFd, PollFlags, poll};

use haul_core::lock::lock;

/// Bytes that are kept: all of how ssh logs in at `LogLevel=DEBUG1`.
const KEPT: usize = 64 << 10;

/// How long ssh must have been quiet before its messages are shown: then it waits for a person, who needs them (the page
/// of a one-time code, a wrong password). Its last message, when it gives up, is in the error.
const QUIET: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How long the reason of a failure may be on its way. A program that ssh has started may keep the pipe open.
const REASON: Duration = Duration::from_secs(1);

/// The output of the ssh that was started last.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    text: Arc<Mutex<Vec<u8>>>,
    /// Pipes that have not ended.
    open: Arc<AtomicUsize>,
}

impl Messages {
    /// A new pipe for the next ssh, whose messages are passed on to a person as long as `shown` is set.
    pub fn pipe(&self, shown: Arc<AtomicBool>) -> Result<Stdio> {
        lock(&self.text).clear();
        let (errors, stderr) = std::io::pipe().map_err(|e| Error::io(e, "connect"))?;
        let kept = self.clone();
        self.open.fetch_add(1, Ordering::Relaxed);
        let relayed = std::thread::Builder::new().name("ssh".into()).spawn(move || {
            kept.relay(errors, &shown);
            kept.open.fetch_sub(1, Ordering::Relaxed);
        });
        // Without the thread nothing is kept.
        if relayed.is_err() {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(Stdio::from(stderr))
    }

    /// All of it so far; the last bytes may still be in the pipe.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&lock(&self.text)).into_owned()
    }

    fn relay(&self, mut from: std::io::PipeReader, shown: &AtomicBool) {
        let mut buffer = [0; 4096];
        let mut held: Vec<u8> = Vec::new();
        let show = |bytes: &[u8]| {
            if shown.load(Ordering::Relaxed) {
                // Standard error may be closed.
                let _ = std::io::stderr().write_all(bytes);
            }
        };
        let keep = |to: &mut Vec<u8>, bytes: &[u8]| {
            to.extend_from_slice(bytes);
            let surplus = to.len().saturating_sub(KEPT);
            to.drain(..surplus);
        };
        loop {
            let quiet = if held.is_empty() { None } else { Some(&QUIET) };
            if matches!(poll(&mut [PollFd::new(&from, PollFlags::IN)], quiet), Ok(0)) {
                show(&std::mem::take(&mut held));
                continue;
            }
            let count = from.read(&mut buffer).unwrap_or(0);
            if count == 0 {
                let last = held.trim_ascii_end().iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
                return show(&held[..last]);
            }
            keep(&mut held, &buffer[..count]);
            keep(&mut lock(&self.text), &buffer[..count]);
        }
    }

    pub fn is_session_refused(&self) -> bool {
        // The last bytes may still be in the pipe.
        std::thread::sleep(Duration::from_millis(20));
        let text = self.text();
        text.contains("Session open refused by peer") || text.contains("Connection closed by UNKNOWN")
    }

    /// The text once no more is to come, or once there is a reason in it and time for the rest of it.
    fn settled(&self) -> String {
        let (until, began) = (Instant::now() + REASON, Instant::now());
        loop {
            let text = self.text();
            let said = text.lines().any(|line| is_telling(&line)) && began.elapsed() > Duration::from_millis(50);
            if said || self.open.load(Ordering::Relaxed) == 0 || Instant::now() > until {
                return self.text();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Replaces the reason of an error by ssh's own, with the next step.
    pub fn explain(&self, e: Error, host: &str) -> Error {
        let text = self.settled();
        let Some(last) = text.lines().rev().find(is_telling) else { return e.at(host.as_bytes()) };
        let (kind, hint) = classify(&text);
        let known = e.next_step().map(str::to_string);
        // Asked again, a person would be asked again, and the host would refuse again.
        let remedy = if is_refusal(&text) { Remedy::None } else { e.remedy() };
        let e = Error::new(kind.unwrap_or(e.kind()), "connect").at(host.as_bytes()).because(last.trim().to_string());
        let e = e.remedy_is(remedy);
        match hint.map(str::to_string).or(known) {
            Some(hint) => e.hint(hint),
            None => e,
        }
    }
}

/// Whether a line is more than the usual.
fn is_telling(line: &&str) -> bool {
    let idle = ["Warning: Permanently added", "debug", "Authenticated to ", "Transferred: ", "Bytes per second: "];
    !line.trim().is_empty() && !idle.iter().any(|words| line.starts_with(words))
}

/// Whether the host, or ssh on its behalf, refuses this user for good.
fn is_refusal(text: &str) -> bool {
    ["Host key verification failed", "Permission denied", "Too many authentication failures"].iter().any(|words| text.contains(words))
}

/// The kind of failure that ssh reports, and the next step.
fn classify(text: &str) -> (Option<ErrorKind>, Option<&'static str>) {
    const CHANGED: &str = "the host key has changed: find out why before you continue (ssh-keygen -R HOST removes the old one)";
    const KEY: &str = "log in once with ssh to check and accept the host key";
    const LOGIN: &str = "run `ssh` to the same host: haul needs the same key, agent or password";
    const PATH: &str = "check that the host is up and reachable from here; -J connects through another host";
    const AGAIN: &str = "when the host is reachable again, run the same command";
    const SFTP: &str = "the server has no SFTP; its administrator can enable the sftp subsystem";
    let known: [(&[&str], ErrorKind, &str); 8] = [
        (&["REMOTE HOST IDENTIFICATION HAS CHANGED"], ErrorKind::Broken, CHANGED),
        (&["Host key verification failed"], ErrorKind::Broken, KEY),
        (&["Permission denied", "Too many authentication failures"], ErrorKind::Broken, LOGIN),
        (&["Could not resolve hostname"], ErrorKind::Broken, "check the host name"),
        (&["Connection refused"], ErrorKind::Broken, "check that an SSH server is running, or use --port"),
        (&["timed out", "No route to host", "Network is unreachable"], ErrorKind::Broken, PATH),
        (&["closed by remote host", "Connection closed by", "Connection reset by", "Broken pipe"], ErrorKind::Broken, AGAIN),
        (&["subsystem request failed"], ErrorKind::Unsupported, SFTP),
    ];
    let found = known.into_iter().find(|(marks, ..)| marks.iter().any(|mark| text.contains(mark)));
    found.map(|(_, kind, hint)| (kind, hint)).unzip()
}

/// Whose connection the sessions go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Ours,
    /// That of a master which the user has running.
    Users,
    /// Each session would log in by itself: there is one.
    Each,
}

/// How a login came about.
#[derive(Clone, Debug)]
pub struct Entered {
    pub took: Duration,
    pub whose: Whose,
    /// `publickey`, `password` and so on; this and the rest is known of our own logins only.
    pub method: Option<String>,
    /// The server's program and version, as it reports them.
    pub server: Option<String>,
    /// The ciphers of sent and of received data.
    pub ciphers: Option<(String, String)>,
}

impl Entered {
    pub fn new(took: Duration, whose: Whose, text: &str) -> Entered {
        let word = |mark: &str| {
            let line = text.lines().find_map(|line| line.split_once(mark))?.1;
            line.split([' ', '"', ',']).next().filter(|word| !word.is_empty()).map(str::to_string)
        };
        Entered {
            took,
            whose,
            method: text
                .lines()
                .filter_map(|line| line.strip_prefix("Authenticated to ")?.split('"').nth(1))
                .next_back()
                .map(str::to_string),
            server: word("remote software version "),
            ciphers: word("kex: client->server cipher: ").zip(word("kex: server->client cipher: ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ssh_says_has_a_next_step() {
        for (text, telling) in [
            ("ssh: Could not resolve hostname x: Name or service not known", "check the host name"),
            ("ssh: connect to host x port 22: Connection refused", "--port"),
            ("ssh: connect to host x port 22: Connection timed out", "-J"),
            ("user@x: Permission denied (publickey,password).", "run `ssh` to the same host"),
            ("@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed.", "ssh-keygen"),
            ("No ED25519 host key is known for x and you have requested strict checking.\nHost key verification failed.", "log in once"),
            ("subsystem request failed on channel 0", "no SFTP"),
            ("Connection to x closed by remote host.", "the same command"),
        ] {
            let (kind, hint) = classify(text);
            assert!(kind.is_some() && hint.is_some_and(|hint| hint.contains(telling)), "{text}: {hint:?}");
        }
        assert_eq!(classify("an unknown message"), (None, None));
    }

    #[test]
    fn what_ssh_tells_of_a_login_is_read() {
        let text = "debug1: Remote protocol version 2.0, remote software version OpenSSH_9.2p1 Debian-2\n\
                    debug1: kex: server->client cipher: aes128-ctr MAC: hmac-sha2-256 compression: none\n\
                    debug1: kex: client->server cipher: aes128-gcm@openssh.com MAC: <implicit> compression: none\n\
                    Authenticated to h ([192.0.2.1]:22) using \"publickey\".\n";
        let entered = Entered::new(Duration::ZERO, Whose::Ours, text);
        assert_eq!(entered.method.as_deref(), Some("publickey"));
        assert_eq!(entered.server.as_deref(), Some("OpenSSH_9.2p1"));
        assert_eq!(entered.ciphers, Some(("aes128-gcm@openssh.com".into(), "aes128-ctr".into())));
        let silent = Entered::new(Duration::ZERO, Whose::Users, "");
        assert_eq!((silent.method, silent.server, silent.ciphers), (None, None, None));
    }
}
