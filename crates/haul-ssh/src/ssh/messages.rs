//! What ssh prints on its standard error, and what it means.

use std::io::{PipeReader, Read, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
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

/// How long what ssh has printed before the login may be on its way.
const DRAINED: Duration = Duration::from_millis(500);

/// Lines that ssh prints only because haul has asked how it logs in.
const HAULS: [&str; 5] = ["debug1: ", "Authenticated to ", "Transferred: ", "Bytes per second: ", "OpenSSH_"];

/// How long the reason of a failure may be on its way. A program that ssh has started may keep the pipe open.
const REASON: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Default)]
pub struct Messages {
    text: Arc<Mutex<Vec<u8>>>,
    /// What the login printed, which later sessions replace in `text`.
    first: Arc<Mutex<String>>,
    open: Arc<AtomicUsize>,
}

/// What of one ssh a person sees.
#[derive(Debug)]
pub struct Shown {
    from: PipeReader,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// What came and was not shown yet.
    bytes: Vec<u8>,
    /// From now on the screen is the display's.
    is_over: bool,
}

impl Shown {
    /// Shows what came until now, and nothing that comes later. Of a login that failed the last line is in the error.
    pub fn finish(&self, failed: bool) {
        let until = Instant::now() + DRAINED;
        loop {
            let mut held = lock(&self.held);
            let is_drained = rustix::io::ioctl_fionread(&self.from).map_or(true, |bytes| bytes == 0);
            if is_drained || Instant::now() > until {
                held.is_over = true;
                return show(&std::mem::take(&mut held.bytes), failed);
            }
            drop(held);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Passes on to a person what ssh prints for one, perhaps without the last line: not how it logs in, which haul has asked it for.
fn show(bytes: &[u8], but_last: bool) {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let kept: Vec<u8> = lines.filter(|line| !HAULS.iter().any(|mark| line.starts_with(mark.as_bytes()))).flatten().copied().collect();
    let end = match but_last {
        true => kept.trim_ascii_end().iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1),
        false => kept.len(),
    };
    // Standard error may be closed.
    let _ = std::io::stderr().write_all(&kept[..end]);
}

impl Messages {
    /// A new pipe for the next ssh. Its messages are shown as long as what comes with it says, where `shown` is set.
    pub fn pipe(&self, shown: bool) -> Result<(Stdio, Arc<Shown>)> {
        lock(&self.text).clear();
        let failed = |e| Error::io(e, "connect");
        let (errors, stderr) = std::io::pipe().map_err(failed)?;
        let held = Mutex::new(Held { is_over: !shown, ..Held::default() });
        let shown = Arc::new(Shown { from: errors.try_clone().map_err(failed)?, held });
        let (kept, passed) = (self.clone(), shown.clone());
        self.open.fetch_add(1, Ordering::Relaxed);
        let relayed = std::thread::Builder::new().name("ssh".into()).spawn(move || {
            kept.relay(errors, &passed);
            kept.open.fetch_sub(1, Ordering::Relaxed);
        });
        // Without the thread nothing is kept.
        if relayed.is_err() {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
        Ok((Stdio::from(stderr), shown))
    }

    /// Keeps what came so far as the login's.
    pub fn keep_first(&self) {
        *lock(&self.first) = self.text();
    }

    /// What the login printed.
    pub fn first(&self) -> String {
        lock(&self.first).clone()
    }

    /// All of it so far; the last bytes may still be in the pipe.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&lock(&self.text)).into_owned()
    }

    fn relay(&self, mut from: PipeReader, shown: &Shown) {
        let mut buffer = [0; 4096];
        let keep = |to: &mut Vec<u8>, bytes: &[u8]| {
            to.extend_from_slice(bytes);
            let surplus = to.len().saturating_sub(KEPT);
            to.drain(..surplus);
        };
        loop {
            let quiet = if lock(&shown.held).bytes.is_empty() { None } else { Some(&QUIET) };
            match poll(&mut [PollFd::new(&from, PollFlags::IN)], quiet) {
                Ok(0) => {
                    show(&std::mem::take(&mut lock(&shown.held).bytes), false);
                    continue;
                }
                Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(_) => return,
            }
            // Locked first: a caller that finds the pipe empty finds its bytes here.
            let mut held = lock(&shown.held);
            let count = from.read(&mut buffer).unwrap_or(0);
            if count > 0 && !held.is_over {
                keep(&mut held.bytes, &buffer[..count]);
            }
            keep(&mut lock(&self.text), &buffer[..count]);
            drop(held);
            if count == 0 {
                return;
            }
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
        // How ssh logs in says much that is no failure.
        let text: String = self.settled().split_inclusive('\n').filter(|line| !line.starts_with("debug1: ")).collect();
        let Some(last) = text.lines().rev().find(is_telling) else { return e.at(host.as_bytes()) };
        let (kind, hint) = classify(&text);
        // Through another host this is the cause, and not what comes of it.
        let unresolved = text.lines().find(|line| line.contains(UNRESOLVED));
        let of_another = unresolved.and_then(|line| {
            let name = line.split_once(UNRESOLVED)?.1.split(':').next()?.trim();
            (!name.is_empty() && name != host).then(|| {
                format!("check the name {}: a jump host (-J, ProxyJump) or the HostName of {host}", haul_core::entry::show(name.as_bytes()))
            })
        });
        let last = unresolved.unwrap_or(last);
        let known = e.next_step().map(str::to_string);
        // Asked again, a person would be asked again, and the host would refuse again.
        let remedy = if is_refusal(&text) { Remedy::None } else { e.remedy() };
        let e = Error::new(kind.unwrap_or(e.kind()), "connect").at(host.as_bytes()).because(last.trim().to_string());
        let e = e.remedy_is(remedy);
        match of_another.or(hint.map(str::to_string)).or(known) {
            Some(hint) => e.hint(hint),
            None => e,
        }
    }
}

const UNRESOLVED: &str = "Could not resolve hostname ";

fn is_telling(line: &&str) -> bool {
    let idle = ["Warning: Permanently added", "debug"].iter().chain(&HAULS).any(|words| line.starts_with(words));
    !line.trim().is_empty() && !idle
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
    const SFTP: &str = "the server has no SFTP; if it runs commands, --install-agent installs haul, which needs none";
    let known: [(&[&str], ErrorKind, &str); 8] = [
        (&["REMOTE HOST IDENTIFICATION HAS CHANGED"], ErrorKind::Broken, CHANGED),
        (&["Host key verification failed"], ErrorKind::Broken, KEY),
        (&["Permission denied", "Too many authentication failures"], ErrorKind::Broken, LOGIN),
        (&[UNRESOLVED], ErrorKind::Broken, "check the host name"),
        (&["Connection refused"], ErrorKind::Broken, "check that an SSH server is running, or use --port"),
        (&["timed out", "No route to host", "Network is unreachable"], ErrorKind::Broken, PATH),
        (&["closed by remote host", "Connection closed by", "Connection reset by", "Broken pipe"], ErrorKind::Broken, AGAIN),
        (&["subsystem request failed"], ErrorKind::Unsupported, SFTP),
    ];
    let found = known.into_iter().find(|(marks, ..)| marks.iter().any(|mark| text.contains(mark)));
    found.map(|(_, kind, hint)| (kind, hint)).unzip()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Ours,
    /// That of a master which the user has running.
    Users,
    /// Each session would log in by itself: there is one.
    Each,
}

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
    fn a_jump_host_without_an_address_is_the_cause() {
        let messages = Messages::default();
        let said = "ssh: Could not resolve hostname jump.example: Name or service not known\nConnection closed by UNKNOWN port 65535\n";
        lock(&messages.text).extend_from_slice(said.as_bytes());
        let e = messages.explain(Error::new(ErrorKind::Broken, "connect"), "target");
        assert!(
            e.reason().contains("jump.example") && e.next_step().is_some_and(|hint| hint.contains("jump.example: a jump host")),
            "{e:?}"
        );
        let e = messages.explain(Error::new(ErrorKind::Broken, "connect"), "jump.example");
        assert_eq!(e.next_step(), Some("check the host name"));
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
