//! A connection, in clear text, inside TLS, or protected as grids do it.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustls::client::{ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, NamedGroup, StreamOwned};

/// Kept for one control connection, of which data connections go on one after the other.
const SESSIONS: usize = 32;
/// How long a server may take to close a connection that has ended here, once it has nothing to send.
const LINGER: Duration = Duration::from_secs(10);

use super::gsi::Lines;

#[derive(Debug)]
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    /// The control connection of a grid.
    Lines(Box<Lines>),
    /// A data connection of a grid, whose end is that of TCP alone: Globus takes the end of TLS for data.
    Private(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// What TLS connections of one session are made with. The sessions that can be resumed are kept in the configuration, so that each
/// control connection has one of its own: servers accept on a data connection only the session of its control connection.
#[derive(Clone, Debug)]
pub struct Tls {
    pub config: Arc<ClientConfig>,
    pub name: ServerName<'static>,
    pub tickets: Arc<Tickets>,
}

/// TLS sessions of one control connection. A ticket of TLS 1.3 serves once, and servers give one with each data connection that they
/// write to, not with those that they read from.
#[derive(Debug)]
pub struct Tickets {
    kept: ClientSessionMemoryCache,
    given: AtomicUsize,
    used: AtomicUsize,
}

impl Tickets {
    pub fn new() -> Tickets {
        Tickets { kept: ClientSessionMemoryCache::new(SESSIONS), given: AtomicUsize::new(0), used: AtomicUsize::new(0) }
    }

    /// There were tickets, and none is left.
    pub fn are_spent(&self) -> bool {
        let given = self.given.load(Ordering::Relaxed);
        given > 0 && self.used.load(Ordering::Relaxed) >= given
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.kept.set_kx_hint(name, group);
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.kept.kx_hint(name)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.kept.set_tls12_session(name, value);
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.kept.tls12_session(name)
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.kept.remove_tls12_session(name);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.given.fetch_add(1, Ordering::Relaxed);
        self.kept.insert_tls13_ticket(name, value);
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let ticket = self.kept.take_tls13_ticket(name);
        match &ticket {
            Some(_) => self.used.fetch_add(1, Ordering::Relaxed),
            // More were given than are kept.
            None => self.used.fetch_max(self.given.load(Ordering::Relaxed), Ordering::Relaxed),
        };
        ticket
    }
}

impl Stream {
    /// `wait` bounds the connecting, then each read and write.
    pub fn connect(address: SocketAddr, connect: Duration, wait: Duration) -> io::Result<Stream> {
        Stream::of(TcpStream::connect_timeout(&address, connect)?, wait)
    }

    pub fn of(stream: TcpStream, wait: Duration) -> io::Result<Stream> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(wait))?;
        stream.set_write_timeout(Some(wait))?;
        Ok(Stream::Plain(stream))
    }

    /// The same connection inside TLS, the handshake done.
    pub fn secured(self, tls: &Tls) -> io::Result<Stream> {
        let Stream::Plain(mut stream) = self else { return Ok(self) };
        let mut session = ClientConnection::new(tls.config.clone(), tls.name.clone()).map_err(io::Error::other)?;
        session.set_buffer_limit(Some(1 << 20));
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        Ok(Stream::Tls(Box::new(StreamOwned::new(session, stream))))
    }

    pub fn tcp(&self) -> &TcpStream {
        match self {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) | Stream::Private(stream) => &stream.sock,
            Stream::Lines(lines) => lines.tcp(),
        }
    }

    /// The connection below, where nothing was put round it yet.
    pub fn into_tcp(self) -> Option<TcpStream> {
        if let Stream::Plain(stream) = self { Some(stream) } else { None }
    }

    /// Whether something came that was not read yet.
    pub fn has_more(&self) -> bool {
        matches!(self, Stream::Lines(lines) if lines.has_more())
    }

    pub fn set_wait(&self, wait: Duration) -> io::Result<()> {
        self.tcp().set_read_timeout(Some(wait.max(Duration::from_millis(1))))
    }

    /// Whether the server has sent something that nobody waits for, or has closed the connection.
    pub fn is_noisy(&self) -> bool {
        self.has_more() || !matches!(self.peek(), Err(e) if e.kind() == io::ErrorKind::WouldBlock)
    }

    /// Whether the server has closed the connection; what it has sent before does not matter.
    pub fn is_closed(&self) -> bool {
        match self.peek() {
            Ok(count) => count == 0,
            Err(e) => e.kind() != io::ErrorKind::WouldBlock,
        }
    }

    /// Looks for a byte without waiting.
    fn peek(&self) -> io::Result<usize> {
        let tcp = self.tcp();
        tcp.set_nonblocking(true)?;
        let found = tcp.peek(&mut [0; 1]);
        tcp.set_nonblocking(false)?;
        found
    }

    /// Says that nothing more will be written; all is flushed.
    pub fn finish(&mut self) -> io::Result<()> {
        let stream = match self {
            Stream::Tls(stream) => stream,
            Stream::Plain(_) | Stream::Lines(_) | Stream::Private(_) => return self.tcp().shutdown(Shutdown::Write),
        };
        stream.conn.send_close_notify();
        stream.flush()?;
        stream.sock.shutdown(Shutdown::Write)?;
        stream.sock.set_read_timeout(Some(LINGER))?;
        // A server of TLS 1.3 has sent tickets: the next data connection needs one, and to close before they are read is to reset the
        // connection, so that the server may lose what it has not read yet.
        let until = Instant::now() + LINGER;
        while Instant::now() < until && stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(into),
            Stream::Tls(stream) | Stream::Private(stream) => match stream.read(into) {
                // Servers that close without TLS's own end are many; whoever reads knows how many bytes there are to be.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            },
            Stream::Lines(lines) => lines.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.write(bytes),
            Stream::Tls(stream) | Stream::Private(stream) => stream.write(bytes),
            Stream::Lines(lines) => lines.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.write_vectored(parts),
            Stream::Tls(stream) | Stream::Private(stream) => stream.write_vectored(parts),
            Stream::Lines(lines) => lines.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(_) => Ok(()),
            Stream::Tls(stream) | Stream::Private(stream) => stream.flush(),
            Stream::Lines(lines) => lines.flush(),
        }
    }
}
