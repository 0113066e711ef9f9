//! Data connections beside ssh: TCP, encrypted with keys that came through ssh, in whichever direction the network allows.
//! For the encryption see [`super::encrypt`] and `docs/data-connections.md`.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Result};

use super::encrypt::{Acceptor, Connector, Decryptor, Encryptor, HELLO, Hello};
use super::frame::{Frame, HEAD, Input, Output, head, kind, lost};
use super::link::{IDLE_TIMEOUT, Transport};
use crate::bounded::Bounded;
use haul_core::lock::lock;

/// How long one attempt in one direction may take.
pub const ATTEMPT: Duration = Duration::from_millis(1500);
/// The operation of an error when no port could be listened on.
pub const LISTEN: &str = "listen";
/// How long a stranger who has connected may take to send a valid hello.
const STRANGER: Duration = Duration::from_secs(5);
/// Bytes of an encrypted frame without a body: its length, its head and the tag of AES-GCM.
const WELCOME: usize = 4 + HEAD + 16;

/// Ports that a firewall lets through; `None` for whichever the system gives.
pub type Ports = Option<(u16, u16)>;

struct EncryptedOutput {
    encryptor: Encryptor,
    to: Bounded,
}

struct EncryptedInput<R> {
    decryptor: Decryptor,
    from: R,
    buffer: Vec<u8>,
}

impl Output for EncryptedOutput {
    fn send(&mut self, head: [u8; HEAD], parts: &[&[u8]]) -> io::Result<()> {
        let all: Vec<&[u8]> = std::iter::once(&head[..]).chain(parts.iter().copied()).collect();
        self.encryptor.encrypt(&mut self.to, &all).map_err(|e| match e.kind() {
            ErrorKind::TimedOut => io::Error::new(io::ErrorKind::TimedOut, e),
            _ => io::Error::other(e.reason()),
        })
    }

    fn is_ready(&self) -> bool {
        self.to.is_ready()
    }
}

impl<R: Read + Send> Input for EncryptedInput<R> {
    fn receive(&mut self) -> Result<Option<Frame>> {
        match self.decryptor.decrypt(&mut self.from, &mut self.buffer) {
            Ok(Some(bytes)) => Frame::new(bytes.to_vec()).map(Some),
            Ok(None) => Ok(None),
            // No byte of it is used, so nothing is corrupt: it is lost with its connection.
            Err(e) if e.kind() == ErrorKind::Corrupt => Err(lost("data was changed in transit")),
            Err(e) => Err(e),
        }
    }
}

struct Socket(TcpStream);

impl Transport for Socket {
    fn end(&mut self) {
        // It may be closed already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A connection on which each end has proved that it knows the secret, or will with its first frame.
pub struct EncryptedLink {
    pub output: Box<dyn Output>,
    pub input: Box<dyn Input>,
    pub transport: Box<dyn Transport>,
    pub over: Arc<AtomicBool>,
    /// For what the kernel knows of it.
    pub socket: TcpStream,
}

/// An idle connection is asked for a heartbeat after this long, and then this often: firewalls forget what is silent.
const KEEPALIVE: Duration = Duration::from_secs(20);
const KEEPALIVE_AGAIN: Duration = Duration::from_secs(10);
/// Questions without an answer that end an idle connection, within [`IDLE_TIMEOUT`] of its last heartbeat.
const KEEPALIVE_COUNT: u32 = 4;

fn set_socket_options(stream: &TcpStream) {
    use rustix::net::sockopt;
    // All of them only make it better.
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, KEEPALIVE);
    let _ = sockopt::set_tcp_keepintvl(stream, KEEPALIVE_AGAIN);
    let _ = sockopt::set_tcp_keepcnt(stream, KEEPALIVE_COUNT);
}

/// Whether the other machine has acknowledged nothing for [`IDLE_TIMEOUT`] though something was sent. A machine whose program is
/// stopped still acknowledges.
pub fn is_silent(socket: &TcpStream) -> bool {
    tcp_info(socket).is_some_and(|info| info.tcpi_unacked > 0 && u128::from(info.tcpi_last_ack_recv) > IDLE_TIMEOUT.as_millis())
}

fn tcp_info(socket: &TcpStream) -> Option<libc::tcp_info> {
    // SAFETY: tcp_info is plain numbers, for which zero is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `info`.
    let done = unsafe {
        let fd = std::os::fd::AsRawFd::as_raw_fd(socket);
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut length)
    };
    (done == 0).then_some(info)
}

/// BBR measures the network instead of treating each loss as a full queue. `false` where the system does not allow it.
pub fn tolerate_losses(stream: &TcpStream) -> bool {
    rustix::net::sockopt::set_tcp_congestion(stream, "bbr").is_ok()
}

fn link(stream: TcpStream, encryptor: Encryptor, decryptor: Decryptor, idle_timeout: Duration) -> Result<EncryptedLink> {
    let failed = |e: io::Error| Error::io(e, "connect");
    let over = Arc::new(AtomicBool::new(false));
    let copy = || stream.try_clone().map_err(failed);
    let to = Bounded::new(copy()?.into(), idle_timeout, over.clone()).map_err(failed)?;
    // Waits for answers are bounded elsewhere; here nothing comes for as long as nothing is requested.
    let from = Bounded::new(copy()?.into(), Duration::MAX, over.clone()).map_err(failed)?;
    let from = io::BufReader::with_capacity(64 << 10, from);
    Ok(EncryptedLink {
        output: Box::new(EncryptedOutput { encryptor, to }),
        input: Box::new(EncryptedInput { decryptor, from, buffer: Vec::new() }),
        transport: Box::new(Socket(copy()?)),
        over,
        socket: stream,
    })
}

/// Connects; the hello goes out at once. `idle_timeout` is how long the other end may take nothing.
pub fn connect(at: SocketAddr, connector: &Connector, number: u32, idle_timeout: Duration) -> Result<EncryptedLink> {
    let mut stream = TcpStream::connect_timeout(&at, ATTEMPT).map_err(|e| Error::io(e, "connect"))?;
    set_socket_options(&stream);
    let (hello, encryptor, decryptor) = connector.connect(number)?;
    stream.write_all(&hello).map_err(|e| Error::io(e, "connect"))?;
    link(stream, encryptor, decryptor, idle_timeout)
}

impl EncryptedLink {
    /// Waits for the first frame, by which the accepting end shows that it knows the secret; it carries nothing.
    pub fn welcomed(&mut self) -> Result<()> {
        let until = Instant::now() + ATTEMPT;
        // Peeked at before it is read: an end that sends a part of it keeps nobody waiting.
        let mut seen = [0; WELCOME];
        loop {
            let count =
                match rustix::net::recv(&self.socket, &mut seen[..], rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT) {
                    Ok((0, _)) => return Err(lost("it was closed")),
                    Ok((count, _)) => count,
                    Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => 0,
                    Err(e) => return Err(Error::io(e.into(), "connect")),
                };
            let length = (seen[1..4].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))) + 4;
            if count == WELCOME && length == WELCOME {
                break;
            }
            if count >= 4 && length != WELCOME {
                return Err(lost("the remote end rejected it"));
            }
            if Instant::now() > until {
                return Err(Error::new(ErrorKind::TimedOut, "connect"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        match self.input.receive()? {
            Some(frame) if frame.kind == kind::HEARTBEAT => Ok(()),
            _ => Err(lost("the remote end rejected it")),
        }
    }
}

/// A port on which connections under one secret are taken.
pub struct Listener {
    listener: TcpListener,
    acceptor: Arc<Mutex<Acceptor>>,
    strangers: Arc<std::sync::atomic::AtomicUsize>,
}

/// Connections at a time that have not sent a hello yet.
const STRANGERS: usize = 32;

impl Listener {
    /// Listens on the first free port of `ports`, on every address.
    pub fn new(ports: Ports, acceptor: Acceptor) -> Result<Listener> {
        let (low, high) = ports.unwrap_or((0, 0));
        let mut last = None;
        for port in low..=high {
            for any in [IpAddr::from([0_u16; 8]), IpAddr::from([0_u8; 4])] {
                match TcpListener::bind((any, port)) {
                    Ok(listener) => return Ok(Listener { listener, acceptor: Arc::new(Mutex::new(acceptor)), strangers: Arc::default() }),
                    Err(e) => last = Some(e),
                }
            }
        }
        Err(Error::io(last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()), LISTEN))
    }

    pub fn port(&self) -> Result<u16> {
        self.listener.local_addr().map(|at| at.port()).map_err(|e| Error::io(e, LISTEN))
    }

    /// Accepts connections on a thread of its own until `over`. Each is greeted on another thread, so that a silent stranger
    /// blocks nobody.
    pub fn accept_on_thread(
        self,
        over: impl Fn() -> bool + Send + 'static,
        idle_timeout: Duration,
        each: Arc<dyn Fn(EncryptedLink) + Send + Sync>,
    ) -> Result<()> {
        let accept = move || self.accept(&over, idle_timeout, &each);
        std::thread::Builder::new().name("accept".into()).spawn(accept).map(|_| ()).map_err(haul_core::rlimit::no_thread)
    }

    fn accept(&self, over: &dyn Fn() -> bool, idle_timeout: Duration, each: &Arc<dyn Fn(EncryptedLink) + Send + Sync>) {
        // Without it accept(2) may wait once a connection that poll(2) reported is gone.
        let _ = self.listener.set_nonblocking(true);
        while !over() {
            let mut polls = [rustix::event::PollFd::new(&self.listener, rustix::event::PollFlags::IN)];
            let wait = rustix::time::Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
            if rustix::event::poll(&mut polls, Some(&wait)).unwrap_or(0) == 0 {
                continue;
            }
            let Ok((stream, _)) = self.listener.accept() else { continue };
            use std::sync::atomic::Ordering::Relaxed;
            if self.strangers.fetch_add(1, Relaxed) >= STRANGERS {
                self.strangers.fetch_sub(1, Relaxed);
                continue;
            }
            let (acceptor, strangers, each) = (self.acceptor.clone(), self.strangers.clone(), each.clone());
            let greet = move || {
                let greeted = greet(stream, &acceptor, idle_timeout);
                strangers.fetch_sub(1, Relaxed);
                if let Ok(link) = greeted {
                    each(link);
                }
            };
            if std::thread::Builder::new().name("greet".into()).spawn(greet).is_err() {
                self.strangers.fetch_sub(1, Relaxed);
            }
        }
    }
}

/// Whoever does not know the secret gets no answer.
fn greet(mut stream: TcpStream, acceptor: &Mutex<Acceptor>, idle_timeout: Duration) -> Result<EncryptedLink> {
    let failed = |e: io::Error| Error::io(e, "greet");
    stream.set_nonblocking(false).map_err(failed)?;
    let mut hello: Hello = [0; HELLO];
    let begun = Instant::now();
    let mut filled = 0;
    while filled < HELLO {
        let left = STRANGER.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(Error::new(ErrorKind::TimedOut, "greet"));
        }
        stream.set_read_timeout(Some(left)).map_err(failed)?;
        match stream.read(&mut hello[filled..]) {
            Ok(0) => return Err(lost("it was closed")),
            Ok(count) => filled += count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(failed(e)),
        }
    }
    let (_number, encryptor, decryptor) = lock(acceptor).accept(&hello)?;
    set_socket_options(&stream);
    let mut link = link(stream, encryptor, decryptor, idle_timeout)?;
    link.output.send(head(kind::HEARTBEAT, 0), &[]).map_err(failed)?;
    Ok(link)
}

/// The addresses in `SSH_CONNECTION`: that of the local end, then that of the remote one.
pub fn addresses(connection: &str) -> Option<(IpAddr, IpAddr)> {
    let mut words = connection.split(' ');
    let near = words.next()?.parse().ok()?;
    let _port = words.next()?;
    Some((near, words.next()?.parse().ok()?))
}

/// The kernel's counters of connections (tcp_info of linux/tcp.h), summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Segments that were sent, and those of them that were sent again.
    pub sent: u64,
    pub again: u64,
    /// Microseconds with something to send, and those of them in which a buffer at one of the ends was the limit.
    pub busy: u64,
    pub limited: u64,
}

impl Kernel {
    pub fn of<'a>(sockets: impl Iterator<Item = &'a TcpStream>) -> Kernel {
        let mut sum = Kernel::default();
        for socket in sockets {
            if let Some(info) = tcp_info(socket) {
                sum.sent += u64::from(info.tcpi_segs_out);
                sum.again += u64::from(info.tcpi_total_retrans);
                sum.busy += info.tcpi_busy_time;
                sum.limited += info.tcpi_sndbuf_limited + info.tcpi_rwnd_limited;
            }
        }
        sum
    }

    /// The counts since an earlier state.
    #[must_use]
    pub fn since(self, before: Kernel) -> Kernel {
        self.zip(before, u64::saturating_sub)
    }

    #[must_use]
    pub fn with(self, other: Kernel) -> Kernel {
        self.zip(other, |one, other| one + other)
    }

    fn zip(self, other: Kernel, f: impl Fn(u64, u64) -> u64) -> Kernel {
        Kernel {
            sent: f(self.sent, other.sent),
            again: f(self.again, other.again),
            busy: f(self.busy, other.busy),
            limited: f(self.limited, other.limited),
        }
    }
}
