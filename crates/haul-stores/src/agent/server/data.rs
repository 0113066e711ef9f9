//! Data connections of the remote host: beside ssh, in either direction.

use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use haul_core::error::Result;

use super::{ABANDONED, Agent};
use crate::agent::direct::{self, EncryptedLink, Kernel, Listener, Ports};

use crate::agent::encrypt::{Acceptor, Connector, Secret};
use crate::agent::wire::{Parser, Writer, protocol_error};
use haul_core::lock::lock;

/// Connections that one request may ask for.
const MOST: u64 = 64;

/// The sockets, for what the kernel knows of them.
#[derive(Default)]
pub struct Data {
    sockets: Mutex<Vec<Arc<TcpStream>>>,
}

impl Data {
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
        lock(&self.sockets).iter().all(|socket| direct::tolerate_losses(socket))
    }
}

pub fn secret(from: &mut Parser<'_>) -> Result<Secret> {
    let bytes: [u8; 32] = from.bytes()?.try_into().map_err(|_| protocol_error("a secret of the wrong length"))?;
    Ok(Secret::from_bytes(bytes))
}

fn port(from: &mut Parser<'_>) -> Result<u16> {
    u16::try_from(from.number()?).map_err(|_| protocol_error("an impossible port"))
}

/// Secret, address, port: where a connection is to be made.
pub fn endpoint(from: &mut Parser<'_>) -> Result<(Connector, SocketAddr)> {
    let secret = secret(from)?;
    let address: IpAddr = from.words()?.parse().map_err(|_| protocol_error("an impossible address"))?;
    Ok((Connector::new(secret), SocketAddr::new(address, port(from)?)))
}

impl Agent {
    /// Secret, ports; answers with the port.
    pub(super) fn listen(self: &Arc<Self>, from: &mut Parser<'_>, to: &mut Writer) -> Result<()> {
        let (secret, low, high) = (secret(from)?, port(from)?, port(from)?);
        self.accept((high > 0).then_some((low, high)), secret, false, to)
    }

    /// Accepts connections under a secret for the lifetime of the process; answers with the port. A `reader` may read what is open
    /// here, and nothing else.
    pub(super) fn accept(self: &Arc<Self>, ports: Ports, secret: Secret, reader: bool, to: &mut Writer) -> Result<()> {
        let listener = Listener::new(ports, Acceptor::new(secret))?;
        to.number(listener.port()?.into());
        let agent = self.clone();
        let each: Arc<dyn Fn(EncryptedLink) + Send + Sync> = Arc::new(move |link| agent.serve_encrypted(link, reader));
        listener.accept_on_thread(|| false, ABANDONED, each)
    }

    /// Secret, address, port, first number, how many; answers with how many were made.
    pub(super) fn connect(self: &Arc<Self>, from: &mut Parser<'_>, to: &mut Writer) -> Result<()> {
        let (connector, at) = endpoint(from)?;
        let (first, count) = (from.small()?, from.number()?.min(MOST));
        let mut made = 0;
        for number in (first..).take(count as usize) {
            let mut link = direct::connect(at, &connector, number, ABANDONED)?;
            link.welcomed()?;
            let agent = self.clone();
            let serve = move || agent.serve_encrypted(link, false);
            made += u64::from(std::thread::Builder::new().name("link".into()).spawn(serve).is_ok());
        }
        to.number(made);
        Ok(())
    }

    pub(super) fn serve_encrypted(self: &Arc<Self>, link: EncryptedLink, reader: bool) {
        let EncryptedLink { output, mut input, mut transport, over, socket } = link;
        let socket = Arc::new(socket);
        lock(&self.data.sockets).push(socket.clone());
        // Why it ended does not matter.
        let _ = self.serve_link(output, &mut *input, over, reader);
        transport.end();
        lock(&self.data.sockets).retain(|other| !Arc::ptr_eq(other, &socket));
    }
}
