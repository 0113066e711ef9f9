//! ssh logs in without the waits of TCP for small packets.
//!
//! ssh turns Nagle's algorithm (RFC 896) off when a session opens. Before that a small packet behind another waits until the other
//! one is acknowledged, which the peer delays (RFC 1122, 4.2.3.2: here 40 ms). Twice in a login that costs a round trip and the
//! delay, and once more where the server waits for an acknowledgement of this end. So haul takes a duplicate of the socket of the
//! ssh that it has started (pidfd_getfd(2), Linux 5.6), sets `TCP_NODELAY`, and asks for acknowledgements at once. Nothing is read
//! or written. Where the kernel or the site forbids it, ssh logs in as it does.

use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{set_tcp_nodelay, set_tcp_quickack, socket_domain};
use rustix::net::{AddressFamily, getpeername};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// Shorter than any delay of an acknowledgement.
const STEP: Duration = Duration::from_millis(5);

/// How long the connection may take to be there.
const CONNECTING: Duration = Duration::from_secs(30);

/// How long after the login a session opens.
const OPENING: Duration = Duration::from_secs(2);

/// The most jump hosts: each takes a process.
const HOPS: u32 = 4;

/// The first descriptor that is none of the standard ones, and one behind all that ssh has before it is logged in.
const NUMBERS: std::ops::Range<i32> = 3..12;

/// Ends a little while after it is dropped.
#[derive(Debug)]
pub struct Undelayed(Arc<AtomicBool>);

impl Undelayed {
    /// For the connection that `child` is about to open, or the ssh that it starts to reach a jump host.
    pub fn begin(child: &Child) -> Undelayed {
        let is_over = Arc::new(AtomicBool::new(false));
        let ended = is_over.clone();
        let pid = Pid::from_child(child);
        if let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) {
            // Without the thread the login takes longer.
            let _ = std::thread::Builder::new().name("nagle".into()).spawn(move || attend(&process, pid, &ended));
        }
        Undelayed(is_over)
    }
}

impl Drop for Undelayed {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn attend(process: &OwnedFd, pid: Pid, is_over: &AtomicBool) {
    let begun = Instant::now();
    let socket = loop {
        match connection(process, pid, HOPS) {
            Ok(Some(socket)) => break socket,
            Ok(None) if begun.elapsed() < CONNECTING && !is_over.load(Ordering::Relaxed) && !ends_within(process, STEP) => {}
            _ => return,
        }
    };
    if set_tcp_nodelay(&socket, true).is_err() {
        return;
    }
    let mut logged_in = None;
    // Each packet that is sent brings the delay back.
    while set_tcp_quickack(&socket, true).is_ok() && !ends_within(process, STEP) {
        if is_over.load(Ordering::Relaxed) && logged_in.get_or_insert_with(Instant::now).elapsed() > OPENING {
            return;
        }
    }
}

/// Whether a process ends in this time. Its connection must not outlive it here.
fn ends_within(process: &OwnedFd, time: Duration) -> bool {
    let timeout = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
    !matches!(poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout)), Ok(0) | Err(Errno::INTR))
}

/// The TCP connection of a process, or of one that it has started, once it stands. An error where that cannot be known.
fn connection(process: &OwnedFd, pid: Pid, hops: u32) -> Result<Option<OwnedFd>, Errno> {
    for number in NUMBERS {
        let file = match pidfd_getfd(process, number, PidfdGetfdFlags::empty()) {
            Err(Errno::BADF) => continue,
            other => other?,
        };
        let is_network = matches!(socket_domain(&file), Ok(AddressFamily::INET | AddressFamily::INET6));
        // One that does not connect is closed, and another takes its place.
        if is_network && getpeername(&file).is_ok() {
            return Ok(Some(file));
        }
    }
    let started = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", pid.as_raw_nonzero())).unwrap_or_default();
    let started = started.split_whitespace().filter(|_| hops > 0).filter_map(|number| Pid::from_raw(number.parse().ok()?));
    for pid in started {
        let found = pidfd_open(pid, PidfdFlags::empty()).and_then(|process| connection(&process, pid, hops - 1));
        if let Ok(Some(socket)) = found {
            return Ok(Some(socket));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::process::{Command, Stdio};

    use rustix::net::sockopt::tcp_nodelay;

    use super::*;

    /// Bash runs `script`, in which OPEN opens a connection to the listener as descriptor 6 and waits for the end.
    fn connecting(script: &str) -> (TcpListener, Child) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let script = script.replace("OPEN", &format!("exec 6<>/dev/tcp/127.0.0.1/{port}; read"));
        let child = Command::new("bash").args(["-c", &script]).stdin(Stdio::piped()).spawn().expect("bash starts");
        (listener, child)
    }

    fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(Instant::now() < until, "it does not come");
            std::thread::sleep(STEP);
        }
    }

    #[test]
    fn a_connection_of_a_child_or_of_its_child_waits_for_nothing() {
        for script in ["OPEN", "bash -c 'OPEN'; true", "bash -c 'bash -c \"OPEN\"; true'; true"] {
            let (listener, mut child) = connecting(script);
            let pid = Pid::from_child(&child);
            let process = pidfd_open(pid, PidfdFlags::empty()).expect("it runs");
            let undelayed = Undelayed::begin(&child);
            let peer = listener.accept().expect("it connects").0;
            let socket = until(|| connection(&process, pid, HOPS).expect("it may be looked at"));
            until(|| tcp_nodelay(&socket).expect("a TCP socket").then_some(()));
            drop((undelayed, peer));
            // The innermost shell reads from the same pipe as the outermost.
            drop(child.stdin.take());
            child.wait().expect("ended");
        }
    }

    #[test]
    fn a_child_without_a_connection_has_none() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("sleep starts");
        let pid = Pid::from_child(&child);
        let process = pidfd_open(pid, PidfdFlags::empty()).expect("it runs");
        assert!(connection(&process, pid, HOPS).expect("it may be looked at").is_none());
        child.kill().and_then(|()| child.wait()).expect("ended");
        assert_eq!(connection(&process, pid, HOPS).map(|_| ()), Err(Errno::SRCH));
    }
}
