//! Data connections of the far side: beside ssh, in either direction.

use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use haul_core::error::Result;

use super::{ABANDONED, Agent};
use crate::agent::direct::{self, EncryptedLink, Kernel, Listener};

use crate::agent::encrypt::{Acceptor, Connector, Secret};
use crate::agent::wire::{Parser, Writer, protocol_error};
use crate::lock::lock;

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
    pub fn bear_losses(&self) -> bool {
        lock(&self.sockets).iter().all(|socket| direct::bear_losses(socket))
    }
}

pub fn secret(from: &mut Parser<'_>) -> Result<Secret> {
    let bytes: [u8; 32] = from.bytes()?.try_into().map_err(|_| protocol_error("a secret of another length"))?;
    Ok(Secret::from_bytes(bytes))
}

pub fn port(from: &mut Parser<'_>) -> Result<u16> {
    u16::try_from(from.number()?).map_err(|_| protocol_error("an impossible port"))
}

impl Agent {
    /// Secret, ports; answers with the port.
    pub(super) fn listen(self: &Arc<Self>, from: &mut Parser<'_>, to: &mut Writer) -> Result<()> {
        let (secret, low, high) = (secret(from)?, port(from)?, port(from)?);
        let listener = Listener::new((high > 0).then_some((low, high)), Acceptor::new(secret))?;
        to.number(listener.port()?.into());
        let agent = self.clone();
        let each: Arc<dyn Fn(EncryptedLink) + Send + Sync> = Arc::new(move |sealed| agent.serve_encrypted(sealed, false));
        let take = move || listener.accept(None, ABANDONED, &each);
        std::thread::Builder::new().name("accept".into()).spawn(take).map_err(haul_core::rlimit::no_thread)?;
        Ok(())
    }

    /// Secret, address, port, first number, how many; answers with how many were made.
    pub(super) fn connect(self: &Arc<Self>, from: &mut Parser<'_>, to: &mut Writer) -> Result<()> {
        let secret = secret(from)?;
        let address: IpAddr = from.words()?.parse().map_err(|_| protocol_error("an impossible address"))?;
        let port = port(from)?;
        let (first, count) = (from.small()?, from.number()?.min(MOST));
        let connector = Connector::new(secret);
        let mut made = 0;
        for number in (first..).take(count as usize) {
            let mut sealed = direct::connect(SocketAddr::new(address, port), &connector, number, ABANDONED)?;
            sealed.welcomed()?;
            let agent = self.clone();
            let serve = move || agent.serve_encrypted(sealed, false);
            made += u64::from(std::thread::Builder::new().name("link".into()).spawn(serve).is_ok());
        }
        to.number(made);
        Ok(())
    }

    pub(super) fn serve_encrypted(self: &Arc<Self>, sealed: EncryptedLink, reader: bool) {
        let EncryptedLink { output, mut input, mut transport, over, socket } = sealed;
        let socket = Arc::new(socket);
        lock(&self.data.sockets).push(socket.clone());
        let _lost_or_over = self.serve_link(output, &mut *input, over, reader);
        transport.end();
        lock(&self.data.sockets).retain(|other| !Arc::ptr_eq(other, &socket));
    }
}
