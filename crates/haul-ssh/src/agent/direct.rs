//! Data connections beside ssh: TCP with TLS 1.3 between two keys that were made known through ssh, in whichever direction the
//! network allows. For the encryption see [`super::tls`] and `docs/security.md`.

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::lock::lock;
use rustls::{ClientConfig, ServerConfig};

use super::frame::{self, Frame, HEAD, Input, Output, lost, prefix};
use super::link::{IDLE_TIMEOUT, Transport};
use super::tls::{self, RecordReader, RecordWriter};
use crate::bounded::Bounded;
use haul_net::tcp::{tcp_info, widen};

pub const ATTEMPT: Duration = Duration::from_millis(1500);
/// The operation of an error when no port could be listened on.
pub const LISTEN: &str = "listen";
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long a port stays open for the connections that it was opened for.
pub const LISTENING: Duration = Duration::from_secs(30);

/// Ports that a firewall lets through; `None` for whichever the system gives.
pub type Ports = Option<(u16, u16)>;

/// Frames as over ssh, inside TLS.
struct EncryptedOutput {
    records: RecordWriter,
    to: Bounded,
}

struct EncryptedInput {
    records: RecordReader,
    from: Bounded,
}

impl Output for EncryptedOutput {
    fn send(&mut self, head: [u8; HEAD], parts: &[&[u8]]) -> io::Result<()> {
        let prefix = prefix(parts)?;
        let all: Vec<&[u8]> = [&prefix[..], &head].into_iter().chain(parts.iter().copied()).collect();
        self.records.write(&mut self.to, &all)
    }

    fn is_ready(&self) -> bool {
        self.to.is_ready()
    }
}

impl EncryptedInput {
    /// Appends some of what comes next, `most` bytes at the most; nothing at the end.
    fn take(&mut self, most: usize, into: &mut Vec<u8>) -> Result<usize> {
        let content = match self.records.content(&mut self.from) {
            // No byte of it is used, so nothing is corrupt: it is lost with its connection.
            Err(e) if e.kind() == ErrorKind::Corrupt => return Err(lost("data was changed in transit")),
            content => content?,
        };
        let count = content.len().min(most);
        into.extend_from_slice(&content[..count]);
        self.records.taken(count);
        Ok(count)
    }
}

impl Input for EncryptedInput {
    fn receive(&mut self) -> Result<Option<Frame>> {
        frame::receive(&mut |most, into| self.take(most, into))
    }
}

struct Socket(TcpStream);

impl Transport for Socket {
    fn end(&mut self) {
        // It may be closed already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A connection whose two ends have proved that they have the keys they were announced with.
pub struct EncryptedLink {
    pub output: Box<dyn Output>,
    pub input: Box<dyn Input>,
    pub transport: Box<dyn Transport>,
    pub over: Arc<AtomicBool>,
    /// For what the kernel knows of it.
    pub socket: TcpStream,
    pub suite: String,
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

fn link(stream: TcpStream, (writer, reader): (RecordWriter, RecordReader), idle_timeout: Duration) -> Result<EncryptedLink> {
    let failed = |e: io::Error| Error::io(e, "connect");
    widen(&stream);
    let over = Arc::new(AtomicBool::new(false));
    let copy = || stream.try_clone().map_err(failed);
    let to = Bounded::new(copy()?.into(), idle_timeout, over.clone()).map_err(failed)?;
    // Waits for answers are bounded elsewhere; here nothing comes for as long as nothing is requested.
    let from = Bounded::new(copy()?.into(), Duration::MAX, over.clone()).map_err(failed)?;
    let suite = writer.suite();
    Ok(EncryptedLink {
        suite,
        output: Box::new(EncryptedOutput { records: writer, to }),
        input: Box::new(EncryptedInput { records: reader, from }),
        transport: Box::new(Socket(copy()?)),
        over,
        socket: stream,
    })
}

/// A TCP connection, and how long it took to open: one round trip.
pub fn open(at: SocketAddr) -> Result<(TcpStream, Duration)> {
    let begun = Instant::now();
    let stream = TcpStream::connect_timeout(&at, ATTEMPT).map_err(|e| Error::io(e, "connect"))?;
    let took = begun.elapsed();
    set_socket_options(&stream);
    Ok((stream, took))
}

/// Makes an open connection secure. `idle_timeout` is how long the other end may take nothing.
pub fn secure(stream: TcpStream, config: Arc<ClientConfig>, idle_timeout: Duration) -> Result<EncryptedLink> {
    let halves = tls::connect(&stream, config, Instant::now() + HANDSHAKE)?;
    link(stream, halves, idle_timeout)
}

pub fn connect(at: SocketAddr, config: Arc<ClientConfig>, idle_timeout: Duration) -> Result<EncryptedLink> {
    secure(open(at)?.0, config, idle_timeout)
}

/// Makes `count` connections at the same time by `one`, which returns whether it is to be kept; how many are, and the first error.
pub fn connect_all(count: usize, one: impl Fn(usize) -> Result<bool> + Sync) -> (usize, Option<Error>) {
    let (made, failed) = (AtomicUsize::new(0), Mutex::new(None));
    std::thread::scope(|scope| {
        for index in 0..count {
            let (one, made, failed) = (&one, &made, &failed);
            let connect = move || match one(index) {
                Ok(new) => _ = made.fetch_add(usize::from(new), Ordering::Relaxed),
                Err(e) => _ = lock(failed).get_or_insert(e),
            };
            // Without the thread there is one connection less.
            let _ = std::thread::Builder::new().spawn_scoped(scope, connect);
        }
    });
    (made.into_inner(), failed.into_inner().unwrap_or_default())
}

/// A port on which one other machine may connect, for a while.
pub struct Listener {
    listener: TcpListener,
    config: Arc<ServerConfig>,
    peer: IpAddr,
}

/// What ends a listener; see [`Listener::accept_on_thread`].
pub struct Until<F> {
    /// Connections of the peer that are wanted: with the last of them the port is closed.
    pub count: usize,
    /// How long the port is open at the most; [`LISTENING`].
    pub within: Duration,
    pub over: F,
}

/// Connections at a time whose handshake is not done.
const STRANGERS: usize = 32;

impl Listener {
    /// Listens on one address, on the first free port of `ports`, for connections from `peer`.
    pub fn new(address: IpAddr, ports: Ports, config: Arc<ServerConfig>, peer: IpAddr) -> Result<Listener> {
        let (low, high) = ports.unwrap_or((0, 0));
        let mut last = None;
        for port in low..=high {
            match TcpListener::bind((address, port)) {
                Ok(listener) => return Ok(Listener { listener, config, peer: peer.to_canonical() }),
                Err(e) => last = Some(e),
            }
        }
        Err(Error::io(last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()), LISTEN))
    }

    pub fn port(&self) -> Result<u16> {
        self.listener.local_addr().map(|at| at.port()).map_err(|e| Error::io(e, LISTEN))
    }

    /// Accepts connections on a thread of its own, until there are as many as are wanted, it is over, or its time has passed;
    /// then the port is closed. The handshake of each is done on another thread, so that a silent stranger blocks no other.
    pub fn accept_on_thread(
        self,
        until: Until<impl Fn() -> bool + Send + 'static>,
        idle_timeout: Duration,
        each: Arc<dyn Fn(EncryptedLink) + Send + Sync>,
    ) -> Result<()> {
        let accept = move || self.accept(&until, idle_timeout, &each);
        std::thread::Builder::new().name("accept".into()).spawn(accept).map(|_| ()).map_err(haul_core::rlimit::no_thread)
    }

    fn accept(&self, until: &Until<impl Fn() -> bool>, idle_timeout: Duration, each: &Arc<dyn Fn(EncryptedLink) + Send + Sync>) {
        // Without it accept(2) may wait once a connection that poll(2) reported is gone.
        let _ = self.listener.set_nonblocking(true);
        let (begun, count) = (Instant::now(), until.count);
        let (strangers, made) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        while !(until.over)() && made.load(Ordering::Relaxed) < count && begun.elapsed() < until.within {
            let mut polls = [rustix::event::PollFd::new(&self.listener, rustix::event::PollFlags::IN)];
            let wait = rustix::time::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            if rustix::event::poll(&mut polls, Some(&wait)).unwrap_or(0) == 0 {
                continue;
            }
            let Ok((stream, from)) = self.listener.accept() else { continue };
            if from.ip().to_canonical() != self.peer {
                continue;
            }
            if strangers.fetch_add(1, Ordering::Relaxed) >= STRANGERS {
                strangers.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (config, unknown, made, each) = (self.config.clone(), strangers.clone(), made.clone(), each.clone());
            let greet = move || {
                let greeted = greet(stream, config, idle_timeout);
                unknown.fetch_sub(1, Ordering::Relaxed);
                if let Ok(link) = greeted
                    && made.fetch_add(1, Ordering::Relaxed) < count
                {
                    each(link);
                }
            };
            if std::thread::Builder::new().name("greet".into()).spawn(greet).is_err() {
                strangers.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

fn greet(stream: TcpStream, config: Arc<ServerConfig>, idle_timeout: Duration) -> Result<EncryptedLink> {
    stream.set_nonblocking(false).map_err(|e| Error::io(e, "greet"))?;
    set_socket_options(&stream);
    let halves = tls::accept(&stream, config, Instant::now() + HANDSHAKE)?;
    link(stream, halves, idle_timeout)
}

/// The addresses in `SSH_CONNECTION`: that of the end which ran ssh, then that of the server.
pub fn addresses(connection: &str) -> Option<(IpAddr, IpAddr)> {
    let mut words = connection.split(' ');
    let near = words.next()?.parse().ok()?;
    let _port = words.next()?;
    Some((near, words.next()?.parse().ok()?))
}
