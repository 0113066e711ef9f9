//! What can be found out of a host without moving anything: for `haul doctor`.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Result};

use super::data::{ToListen, far_address};
use super::direct::{self, ATTEMPT, Listener, Ports, Sealed, addresses};
use super::greeting::Far;
use super::link::{SILENCE, Ticket, lock};
use super::ops;
use super::seal::{Acceptor, Connector, Secret};
use super::store::Host;
use super::wire::{Writer, nonsense};

/// One attempt to make a data connection.
#[derive(Debug)]
pub struct Attempt {
    /// Where the listening end was to be reached, as far as that was known.
    pub at: Option<SocketAddr>,
    pub took: Duration,
    pub failed: Option<Error>,
}

impl Attempt {
    fn made(begin: impl FnOnce(&mut Option<SocketAddr>) -> Result<Duration>) -> Attempt {
        let (mut at, begun) = (None, Instant::now());
        match begin(&mut at) {
            Ok(took) => Attempt { at, took, failed: None },
            Err(e) => Attempt { at, took: begun.elapsed(), failed: Some(e) },
        }
    }
}

impl Host {
    /// What the far haul has said of itself.
    pub fn far(&self) -> Result<Far> {
        Ok(self.client.session()?.far.clone())
    }

    /// Whether this end can connect to the far one. The connection is closed again.
    pub fn try_out(&self, ports: Ports, reached: &dyn Fn(IpAddr) -> Option<IpAddr>) -> Attempt {
        Attempt::made(|at| {
            let session = self.client.session()?;
            let far = far_address(&session.far.connection, reached)?;
            let listen = ToListen::new(ports)?;
            let answer = session.control.ask(ops::LISTEN, &[&listen.request], 0).and_then(Ticket::wait);
            let asked = listen.answered(answer)?;
            let place = SocketAddr::new(far, asked.port);
            *at = Some(place);
            let connector = Connector::new(Secret::from_bytes(*asked.secret.as_bytes()));
            let begun = Instant::now();
            let mut made = direct::connect(place, &connector, 0, SILENCE)?;
            let welcomed = made.welcomed();
            let took = begun.elapsed();
            made.carrier.end();
            welcomed.map(|()| took)
        })
    }

    /// Whether the far end can connect to this one. The connection is closed again.
    pub fn try_in(&self, ports: Ports) -> Attempt {
        Attempt::made(|at| {
            let session = self.client.session()?;
            let (near, _far) = addresses(&session.far.connection).ok_or_else(unknown_address)?;
            let secret = Secret::random()?;
            let listener = Listener::new(ports, Acceptor::new(Secret::from_bytes(*secret.as_bytes())))?;
            let place = SocketAddr::new(near, listener.port()?);
            *at = Some(place);
            let (send, came) = mpsc::channel();
            let send = Mutex::new(send);
            let each: Arc<dyn Fn(Sealed) + Send + Sync> = Arc::new(move |mut sealed: Sealed| {
                sealed.carrier.end();
                let _nobody_waits = lock(&send).send(());
            });
            let over = Arc::new(AtomicBool::new(false));
            let done = over.clone();
            let take = move || {
                while !done.load(Ordering::Relaxed) {
                    listener.accept(Some(Instant::now() + Duration::from_millis(100)), SILENCE, &each);
                }
            };
            std::thread::Builder::new().name("accept".into()).spawn(take).map_err(haul_core::rlimit::no_thread)?;
            let mut to = Writer::new();
            to.bytes(secret.as_bytes()).bytes(place.ip().to_string().as_bytes()).number(place.port().into()).number(0).number(1);
            let begun = Instant::now();
            let asked = session.control.ask(ops::CONNECT, &[&to.out], 0).and_then(Ticket::wait);
            to.out.fill(0);
            let connected =
                asked.and_then(|_| came.recv_timeout(ATTEMPT).map_err(|_| nonsense("it says that it has connected, and has not")));
            over.store(true, Ordering::Relaxed);
            connected.map(|()| begun.elapsed())
        })
    }
}

fn unknown_address() -> Error {
    Error::new(ErrorKind::Unsupported, "connect").because("the host does not say which address it was reached at")
}
