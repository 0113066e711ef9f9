//! Data connections of the remote host: beside ssh, in either direction.

use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use haul_core::error::{Error, ErrorKind, Result};

use super::{ABANDONED, Agent};
use crate::agent::direct::{self, EncryptedLink, Listener, Ports, Until, addresses};
use crate::agent::tls::{Fingerprint, Identity};
use crate::agent::wire::{Parser, Writer, protocol_error};
use haul_core::lock::lock;
use haul_net::tcp::{self, Kernel};

/// Connections that one request may ask for.
const MOST: usize = 64;

/// The sockets, for what the kernel knows of them, and the port.
#[derive(Default)]
pub struct Data {
    sockets: Mutex<Vec<Arc<TcpStream>>>,
    /// Packets were lost: connections that are added tolerate it from their start.
    tolerant: AtomicBool,
    /// Closes the port that is open for the client.
    port: Mutex<Arc<AtomicBool>>,
}

/// Who may connect: one machine, with one key.
pub struct Peer {
    pub key: Fingerprint,
    pub address: IpAddr,
    /// It may read what is open here, and nothing else.
    pub reader: bool,
}

impl Data {
    /// Closes the open port, in favour of the returned one.
    fn replace_port(&self) -> Arc<AtomicBool> {
        let closed = Arc::new(AtomicBool::new(false));
        std::mem::replace(&mut *lock(&self.port), closed.clone()).store(true, Ordering::Relaxed);
        closed
    }

    #[cfg(test)]
    pub fn sockets(&self) -> Vec<Arc<TcpStream>> {
        lock(&self.sockets).clone()
    }

    pub fn kernel(&self) -> Kernel {
        Kernel::of(lock(&self.sockets).iter().map(|socket| &**socket))
    }

    /// Ends the connections whose other machine is silent: what fills them holds room that others need.
    pub fn end_silent(&self) {
        for socket in lock(&self.sockets).iter().filter(|socket| direct::is_silent(socket)) {
            // It may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// `false` where the system does not allow it.
    pub fn tolerate_losses(&self) -> bool {
        self.tolerant.store(true, Ordering::Relaxed);
        lock(&self.sockets).iter().all(|socket| tcp::tolerate_losses(socket))
    }
}

impl Agent {
    pub(super) fn identity(&self) -> Result<&Identity> {
        let none = || Error::new(ErrorKind::Unsupported, "connect").because("the system gives no random numbers");
        self.identity.as_ref().ok_or_else(none)
    }

    /// The addresses between which ssh runs: the client's, and the one at which it has reached this host.
    fn ssh_addresses(&self) -> Result<(IpAddr, IpAddr)> {
        let unknown = || Error::new(ErrorKind::Unsupported, direct::LISTEN).because("ssh has not set SSH_CONNECTION");
        addresses(&self.connection).ok_or_else(unknown)
    }

    /// Key, ports, how many connections; answers with the port, and how many of them the site allows. With none the open port is
    /// closed.
    pub(super) fn listen(self: &Arc<Self>, from: &mut Parser<'_>, to: &mut Writer) -> Result<()> {
        let (key, ports, count): (_, Ports, usize) = from.get()?;
        let closed = self.data.replace_port();
        if count == 0 {
            return Ok(());
        }
        let (address, _) = self.ssh_addresses()?;
        let over = move || closed.load(Ordering::Relaxed);
        let until = Until { count: self.allowed(count.min(MOST))?, within: self.options.listening, over };
        let allowed = until.count;
        self.accept(ports, Peer { key, address, reader: false }, until, to)?;
        to.put(allowed);
        Ok(())
    }

    /// Of so many connections, those that the site allows.
    fn allowed(&self, count: usize) -> Result<usize> {
        let site = &self.options.site;
        site.check()?;
        let allowed = site.bound(count, lock(&self.data.sockets).len());
        if allowed > 0 {
            return Ok(allowed);
        }
        let most = site.streams.unwrap_or_default();
        Err(Error::new(ErrorKind::Unsupported, direct::LISTEN).because(format!("the site allows {most} data connections")))
    }

    /// Accepts connections of one peer at the address where ssh arrived; answers with the port.
    pub(super) fn accept(
        self: &Arc<Self>,
        ports: Ports,
        peer: Peer,
        until: Until<impl Fn() -> bool + Send + 'static>,
        to: &mut Writer,
    ) -> Result<()> {
        let (_, own) = self.ssh_addresses()?;
        let site = &self.options.site;
        site.check()?;
        let ports = site.ports(ports)?;
        let config = self.identity()?.acceptor(peer.key, &self.options.site.suites)?;
        let listener = Listener::new(own, ports, config, peer.address)?;
        let at = SocketAddr::new(own, listener.port()?);
        self.log.line(format!("agent listens on {at} for {} connections from {}", until.count, peer.address));
        to.put(at.port());
        let agent = self.clone();
        let each: Arc<dyn Fn(EncryptedLink) + Send + Sync> = Arc::new(move |link| agent.serve_encrypted(link, peer.reader));
        listener.accept_on_thread(until, ABANDONED, each)
    }

    /// Key, address, port, how many; answers with how many were made.
    pub(super) fn connect(self: &Arc<Self>, from: &mut Parser<'_>, to: &mut Writer) -> Result<()> {
        let (key, at, count): (_, SocketAddr, usize) = from.get()?;
        if at.ip() != self.ssh_addresses()?.0 {
            return Err(protocol_error("a connection to a machine from which ssh did not come"));
        }
        let count = self.allowed(count.min(MOST))?;
        let config = self.identity()?.connector(key, &self.options.site.suites)?;
        let (made, failed) = direct::connect_all(count, |_| {
            let (agent, link) = (self.clone(), direct::connect(at, config.clone(), ABANDONED)?);
            let serve = move || agent.serve_encrypted(link, false);
            Ok(std::thread::Builder::new().name("link".into()).spawn(serve).is_ok())
        });
        match failed {
            Some(e) if made == 0 => Err(e),
            _ => Ok(_ = to.put(made)),
        }
    }

    pub(super) fn serve_encrypted(self: &Arc<Self>, link: EncryptedLink, reader: bool) {
        let EncryptedLink { output, mut input, mut transport, over, socket, .. } = link;
        let socket = Arc::new(socket);
        {
            let mut sockets = lock(&self.data.sockets);
            if self.data.tolerant.load(Ordering::Relaxed) {
                tcp::tolerate_losses(&socket);
            }
            sockets.push(socket.clone());
        }
        // Why it ended does not matter.
        let _ = self.serve_link(output, &mut *input, over, reader);
        transport.end();
        lock(&self.data.sockets).retain(|other| !Arc::ptr_eq(other, &socket));
    }
}
