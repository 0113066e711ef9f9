//! Data connections: who connects to whom, and how a transfer begins and ends.

use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Remedy, Result};
use rustix::net::sockopt;

use super::control::{command, failure, tls_failure};
use super::features::{cannot, get};
use super::passive::{extended_port, passive, passive_port, passive_socket, plain_port};
use super::reply::Reply;
use super::session::Session;
use super::stream::Stream;
use super::stripes::is_acceptable;
use haul_net::tcp::{self, LossWatch};

/// How long a server may take to connect to this machine, or to be connected to.
const CONNECT: Duration = Duration::from_secs(20);

/// How long blocks may not move before the server's replies are looked at: it may have refused them.
const STALL: Duration = Duration::from_secs(1);

/// Where the next data connection will be.
#[derive(Debug)]
pub enum Announced {
    /// Where the server listens.
    Passive(SocketAddr),
    Active(TcpListener),
}

/// A data connection on its way.
#[derive(Debug)]
pub enum Opening {
    Made(Result<Stream>),
    Awaited(TcpListener),
    /// Authenticated, as grids do it before the server answers.
    Guarded(Stream),
    /// The server has refused the transfer instead; its reply is still to be read.
    Refused,
}

/// A data connection of a transfer that has begun.
#[derive(Debug)]
pub struct Data {
    stream: Stream,
    /// Both ends are still to be authenticated, with the first transfer.
    unguarded: bool,
    losses: LossWatch,
}

impl Session {
    /// Agrees on the next data connection, unless that was done before.
    pub fn announce(&mut self, op: &'static str) -> Result<Announced> {
        self.leave_blocks(op)?;
        if let Some(announced) = self.announced.take() {
            return Ok(announced);
        }
        if self.active {
            let listener = self.listen(0, op)?.ok_or_else(|| Error::new(ErrorKind::Other, op))?;
            return Ok(Announced::Active(listener));
        }
        if get(&self.features.extended_passive) {
            let reply = self.ask_passive("EPSV", op)?;
            if let Some(announced) = passive(&reply, self.control.peer) {
                return Ok(announced);
            }
            // Firewalls and old servers refuse it in many ways.
            if self.control.is_over() {
                return Err(reply.failure(op));
            }
            if reply.code == 229 && !self.has_plain_passive() {
                return Err(strange(&reply, op));
            }
            cannot(&self.features.extended_passive);
        }
        if !self.has_plain_passive() {
            let e = Error::new(ErrorKind::Unsupported, op).because("the server has no EPSV, which IPv6 needs");
            return Err(e.hint("use its IPv4 address, or --ftp-active"));
        }
        let reply = self.ask_passive("PASV", op)?;
        if reply.code / 100 == 5 && get(&self.features.unreached) {
            self.features.extended_passive.store(!self.features.elsewhere, Ordering::Relaxed);
            return Err(reply.failure(op).remedy_is(Remedy::Again));
        }
        if reply.code != 227 {
            return Err(reply.failure(op).hint("if the server forbids passive connections, use --ftp-active"));
        }
        self.named(&reply).map(Announced::Passive).ok_or_else(|| strange(&reply, op))
    }

    /// PASV knows addresses of four numbers only.
    fn has_plain_passive(&self) -> bool {
        !self.control.peer.is_ipv6() || is_mapped(self.control.peer)
    }

    /// The end of a transfer that was given up may come before the answer, even twice.
    fn ask_passive(&mut self, word: &str, op: &'static str) -> Result<Reply> {
        let owed = self.control.owed > 0;
        let mut reply = self.control.ask(word, b"", op)?;
        for _ in 0..2 {
            if owed && matches!(reply.code, 225 | 226 | 426 | 451) {
                reply = self.control.reply(op)?;
            }
        }
        Ok(reply)
    }

    /// Offers the server a port of this machine, behind as many commands that were sent before; `None` where it refused one of these.
    pub fn listen(&mut self, owed: usize, op: &'static str) -> Result<Option<TcpListener>> {
        let (listener, port) = self.bind(op)?;
        let own = match self.control.local {
            IpAddr::V6(own) => own.to_ipv4_mapped().map_or(IpAddr::V6(own), IpAddr::V4),
            own => own,
        };
        let extended = format!("|{}|{own}|{port}|", if own.is_ipv4() { 1 } else { 2 });
        let extended = self.control.command("EPRT", extended.as_bytes())?;
        self.control.send(&extended, op)?;
        let before = (0..owed).map(|_| self.control.reply(op)).collect::<Result<Vec<Reply>>>()?;
        let mut reply = self.control.reply(op)?;
        if let (false, IpAddr::V4(own)) = (reply.is_done(), own) {
            reply = self.control.ask("PORT", plain_port(own, port).as_bytes(), op)?;
        }
        reply.done(op)?;
        Ok(before.iter().all(Reply::is_done).then_some(listener))
    }

    /// A port of this machine for the server's connections.
    pub fn bind(&self, op: &'static str) -> Result<(TcpListener, u16)> {
        let bound = TcpListener::bind(SocketAddr::new(self.control.local, 0))
            .and_then(|listener| listener.local_addr().map(|at| (listener, at.port())))
            .map_err(|e| Error::io(e, op))?;
        // The connections that it accepts have them too.
        self.set_buffers(&bound.0);
        Ok(bound)
    }

    pub fn begin(&mut self, word: &str, argument: &[u8], op: &'static str) -> Result<Data, Failed> {
        Ok(self.begin_at(0, word, argument, op)?.0)
    }

    /// The same from a place in the file. The second value is where it begins in truth: at 0 if the server cannot.
    pub fn begin_at(&mut self, at: u64, word: &str, argument: &[u8], op: &'static str) -> Result<(Data, u64), Failed> {
        let transfer = command(word, argument)?;
        let announced = self.announce(op)?;
        let restarts = at > 0 && get(&self.features.restarts_reading);
        let rest = if restarts { command("REST", at.to_string().as_bytes())? } else { Vec::new() };
        self.control.send(&[rest, transfer].concat(), op)?;
        let opening = self.open(announced, op);
        let restarted = restarts && {
            let reply = self.control.reply(op)?;
            if !reply.needs_more() {
                cannot(&self.features.restarts_reading);
            }
            reply.needs_more()
        };
        let data = self.begun(opening, op)?;
        Ok((data, if restarted { at } else { 0 }))
    }

    /// Makes the data connection of a transfer whose command was sent.
    pub fn open(&self, announced: Announced, op: &'static str) -> Opening {
        match announced {
            Announced::Passive(at) => Opening::Made(self.connect(at, op)),
            Announced::Active(listener) => Opening::Awaited(listener),
        }
    }

    /// Reads the first reply to a transfer's command, and has the data connection ready.
    pub fn begun(&mut self, opening: Opening, op: &'static str) -> Result<Data, Failed> {
        let opening = self.guarded(opening, op);
        // The reply says why, where the connection was not made: a file that does not exist has none.
        let wait = if matches!(opening, Opening::Made(Err(_))) { self.wait.min(CONNECT) } else { self.wait };
        let reply = match (self.control.reply_within(wait, op), &opening) {
            (Ok(reply), _) => reply,
            (Err(_), Opening::Made(Err(e))) => return Err(Failed::Error(e.again())),
            (Err(e), _) => return Err(Failed::Error(e)),
        };
        if !reply.is_begun() {
            return Err(match opening {
                Opening::Made(Err(e)) if reply.code == 425 || e.kind() == ErrorKind::Denied => Failed::Error(e),
                _ => Failed::Reply(reply),
            });
        }
        Ok(self.ready(opening, op)?)
    }

    /// The data connection, encrypted where that was agreed.
    pub fn ready(&mut self, opening: Opening, op: &'static str) -> Result<Data> {
        let stream = match opening {
            Opening::Made(made) => made,
            Opening::Awaited(listener) => self.accept(&listener, op),
            Opening::Guarded(stream) => return Ok(Data::of(stream)),
            Opening::Refused => Err(Error::new(ErrorKind::Other, op).because("the server refused the transfer")),
        };
        let stream = stream.inspect_err(|_| self.control.give_up())?;
        let Some(tls) = &self.tls else { return Ok(Data::of(stream)) };
        match stream.secured(tls) {
            Ok(stream) => Ok(Data::of(stream)),
            Err(e) => {
                // The server may know better: "session reuse required".
                let said = self.control.reply_within(Duration::from_secs(5), op).ok().filter(|reply| !reply.is_done() && !reply.is_begun());
                self.control.give_up();
                Err(said.map_or_else(|| tls_failure(e, op), |reply| reply.failure(op)))
            }
        }
    }

    /// Authenticates both ends of a data connection, where that was agreed. All replies but that of the transfer must have been
    /// read: a server that refuses it says so, and does not authenticate.
    pub fn guarded(&mut self, opening: Opening, op: &'static str) -> Opening {
        let Some(guard) = self.guard.clone() else { return opening };
        let tcp = match opening {
            Opening::Made(Ok(stream)) => stream.into_tcp(),
            Opening::Awaited(_) => None,
            other => return other,
        };
        let Some(tcp) = tcp else {
            self.control.give_up();
            let e = Error::new(ErrorKind::Unsupported, op).because("a server that connects to this machine cannot be authenticated");
            return Opening::Made(Err(e));
        };
        let (control, wait) = (&mut self.control, self.wait);
        let mut begun = false;
        let protected = guard.protect(tcp, |data| {
            loop {
                match if begun { None } else { control.await_data(data, wait, op).map_err(Waited::Failed)? } {
                    None => return Ok(()),
                    // Some servers say first that they begin.
                    Some(reply) if reply.is_begun() => begun = true,
                    Some(_) => return Err(Waited::Refused),
                }
            }
        });
        match protected {
            Ok(guarded) => Opening::Guarded(guarded),
            Err(Waited::Refused) => Opening::Refused,
            Err(Waited::Failed(e)) => Opening::Made(Err(e)),
            Err(Waited::Broken(e)) => Opening::Made(Err(failure(e, op))),
        }
    }

    /// The same for a connection that stays open, with the first transfer, whose command was sent; `None` where the server refuses that.
    pub fn guarded_blocks(&mut self, data: Data, op: &'static str) -> Result<Option<Data>> {
        if !data.unguarded {
            return Ok(Some(data));
        }
        match self.guarded(Opening::Made(Ok(data.stream)), op) {
            Opening::Guarded(stream) => Data::of(stream).watched().map(Some).map_err(|e| Error::io(e, op)),
            Opening::Made(Err(e)) => Err(e),
            _ => Ok(None),
        }
    }

    /// The data connection, encrypted where that was agreed, that a reply to EPSV or PASV announces.
    pub fn connected(&mut self, reply: &Reply, op: &'static str) -> Result<Data> {
        let at = match reply.code {
            229 | 227 => self.named(reply),
            _ => return Err(reply.failure(op)),
        };
        self.connected_to(at.ok_or_else(|| strange(reply, op))?, op)
    }

    /// The same to a place that was agreed on.
    pub fn connected_to(&mut self, at: SocketAddr, op: &'static str) -> Result<Data> {
        let stream = self.connect(at, op)?;
        let stream = match &self.tls {
            Some(tls) => stream.secured(tls).map_err(|e| tls_failure(e, op))?,
            None => stream,
        };
        Data { unguarded: self.guard.is_some(), ..Data::of(stream) }.watched().map_err(|e| Error::io(e, op))
    }

    /// Where a reply to EPSV or PASV says that the server listens. The address in it may be anybody's, or one behind the server's router:
    /// only the port counts, unless the server keeps its data connections on other machines.
    fn named(&self, reply: &Reply) -> Option<SocketAddr> {
        let peer = self.control.peer;
        let port = if reply.code == 229 { extended_port(&reply.text) } else { passive_port(&reply.text) };
        let claimed = passive_socket(&reply.text).filter(|at| reply.code == 227 && self.features.elsewhere && is_acceptable(*at, peer));
        claimed.or_else(|| port.map(|port| SocketAddr::new(peer, port)))
    }

    fn connect(&self, address: SocketAddr, op: &'static str) -> Result<Stream> {
        let stream = Stream::connect(address, CONNECT.min(self.wait), self.wait);
        stream.inspect(|stream| self.set_up(stream.tcp())).map_err(|e| {
            // Firewalls and routers open the ports that they read in replies to PASV, and do not know EPSV.
            if get(&self.features.extended_passive) && self.has_plain_passive() && !self.features.unreached.swap(true, Ordering::Relaxed) {
                cannot(&self.features.extended_passive);
            }
            let words = match e.kind() {
                io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "no answer".to_string(),
                _ => Error::io(e, op).reason(),
            };
            let to = match address.ip() == self.control.peer {
                true => format!("port {} of the server", address.port()),
                false => format!("the server's data node {address}"),
            };
            let e = Error::new(ErrorKind::Broken, op).because(format!("no data connection to {to}: {words}"));
            let hint = "a firewall must let the server's passive ports through; else use --ftp-active, which lets the server connect";
            e.remedy_is(Remedy::After(Duration::from_secs(1))).hint(hint)
        })
    }

    /// Sets the sizes that were chosen. A system that allows less takes what it allows.
    fn set_buffers(&self, socket: impl AsFd) {
        if let Some(bytes) = self.buffer {
            let _ = sockopt::set_socket_send_buffer_size(&socket, bytes as usize);
            let _ = sockopt::set_socket_recv_buffer_size(&socket, bytes as usize);
        }
    }

    /// The same for a connection that is made.
    fn set_up(&self, stream: &TcpStream) {
        match self.buffer {
            Some(_) => self.set_buffers(stream),
            None => tcp::widen(stream),
        }
    }

    /// Whether this is the address of the server, or of one of its data nodes.
    fn is_server(&self, from: IpAddr) -> bool {
        let is_node = || self.features.nodes.get().is_some_and(|nodes| nodes.contains(&from.to_canonical()));
        from == self.control.peer || is_node()
    }

    fn accept(&self, listener: &TcpListener, op: &'static str) -> Result<Stream> {
        let until = Instant::now() + CONNECT.min(self.wait);
        let io = |e| Error::io(e, op);
        listener.set_nonblocking(true).map_err(io)?;
        loop {
            match listener.accept() {
                // Nobody else gets the data, or gives them.
                Ok((stream, from)) if self.is_server(from.ip()) => {
                    stream.set_nonblocking(false).map_err(io)?;
                    self.set_up(&stream);
                    return Stream::of(stream, self.wait).map_err(io);
                }
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let port = listener.local_addr().map_or(0, |at| at.port());
                    let e = Error::new(ErrorKind::Broken, op).because(format!("the server did not connect to port {port} of this machine"));
                    return Err(e.hint("a firewall must let it through; without --ftp-active this machine connects to the server"));
                }
                Err(e) => return Err(io(e)),
            }
        }
    }

    /// Waits for the end of a transfer whose data connection is closed.
    pub fn end(&mut self, op: &'static str) -> Result<()> {
        self.control.reply(op)?.done(op).map(drop)
    }

    /// Gives up a transfer; the server's answer to that comes before any other.
    pub fn cut(&mut self, data: Data) {
        drop(data);
        self.control.owed += 1;
    }

    /// The error of a failed write or read of data: the server's own words, if it has any.
    pub fn explain(&mut self, error: io::Error, op: &'static str) -> Error {
        let own = failure(error, op);
        if own.kind() == ErrorKind::TimedOut {
            self.control.give_up();
            return own;
        }
        match self.control.reply_within(Duration::from_secs(10).min(self.wait), op) {
            Ok(reply) if !reply.is_done() => reply.failure(op),
            Ok(_) => own,
            Err(_) => own,
        }
    }
}

/// Why a data connection was not authenticated.
enum Waited {
    Refused,
    Failed(Error),
    Broken(io::Error),
}

impl From<io::Error> for Waited {
    fn from(e: io::Error) -> Waited {
        Waited::Broken(e)
    }
}

/// Why a transfer did not begin.
#[derive(Debug)]
pub enum Failed {
    Reply(Reply),
    Error(Error),
}

impl From<Error> for Failed {
    fn from(e: Error) -> Failed {
        Failed::Error(e)
    }
}

impl Failed {
    pub fn into_error(self, op: &'static str) -> Error {
        match self {
            Failed::Reply(reply) => reply.failure(op),
            Failed::Error(e) => e,
        }
    }
}

impl Data {
    fn of(stream: Stream) -> Data {
        Data { stream, unguarded: false, losses: LossWatch::default() }
    }

    #[cfg(test)]
    pub fn incoming(stream: std::net::TcpStream, wait: Duration) -> io::Result<Data> {
        Stream::of(stream, wait).map(Data::of)
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.losses.look(self.stream.tcp());
        self.stream.write_all(bytes)
    }

    /// Writes some of `parts`, taken as one, from `done` on.
    pub fn write_some(&mut self, parts: &[&[u8]], done: usize) -> io::Result<usize> {
        let mut skip = done;
        let mut slices = Vec::with_capacity(parts.len());
        for part in parts {
            let passed = skip.min(part.len());
            skip -= passed;
            if passed < part.len() {
                slices.push(IoSlice::new(&part[passed..]));
            }
        }
        self.losses.look(self.stream.tcp());
        self.stream.write_vectored(&slices)
    }

    pub fn tcp(&self) -> &TcpStream {
        self.stream.tcp()
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }

    pub fn is_closed(&self) -> bool {
        self.stream.is_closed()
    }

    /// Bounds each write, so that the server's replies can be looked at meanwhile.
    fn watched(self) -> io::Result<Data> {
        self.tcp().set_write_timeout(Some(STALL))?;
        Ok(self)
    }

    /// Says that all was written.
    pub fn finish(mut self) -> io::Result<()> {
        self.stream.flush()?;
        self.stream.finish()
    }
}

impl Read for Data {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.read(into)
    }
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

fn strange(reply: &Reply, op: &'static str) -> Error {
    Error::new(ErrorKind::Other, op).because(format!("the server named no port: {}", reply.shown()))
}
