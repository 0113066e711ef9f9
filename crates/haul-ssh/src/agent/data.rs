//! Data connections of the local side: how they are made.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Result};

use super::direct::{self, ATTEMPT, EncryptedLink, Listener, Ports, Until, addresses};
use super::frame::{Frame, lost};
use super::link::{IDLE_TIMEOUT, Link, Ticket};
use super::ops;
use super::options::{Direct, DirectOutcome, Reachable};
use super::session::{Client, Session};
use super::tls::Fingerprint;
use super::wire::pack;
use crate::link_saturation::NEAR;
use haul_core::lock::lock;
use haul_net::tcp;

pub struct DataLink {
    pub link: Arc<Link>,
    pub(super) socket: TcpStream,
    /// How many rounds of connections had failed when it was made.
    round: u32,
}

/// Data connections that were made and then cut, damaged or silent. Those older than the failed one are one round: they share a
/// network path and are given up together.
#[derive(Debug, Default)]
pub struct Failures {
    rounds: u32,
    last: Option<Instant>,
    in_a_row: u32,
    /// No more are made in this session.
    given_up: bool,
}

/// So many rounds that fail, none of them longer than [`FORGIVEN`] before the next, are no accident.
const ROUNDS: u32 = 2;
const FORGIVEN: Duration = Duration::from_secs(3600);

#[derive(Clone, Copy, Debug)]
pub enum DataRoute {
    /// Not tried yet; with the port on which the remote end listens, if it was asked to.
    Untried(Option<Listening>),
    /// This end connects to this address.
    Out(IpAddr),
    /// The remote end connects to this one.
    In,
    /// They cannot be made, or are not wanted.
    None,
}

/// Data connections to begin with: over a long round trip, and over a short one.
pub const DATA: usize = 4;
pub const DATA_NEAR: usize = 2;

/// The request to listen for `count` connections of the end with this key; with none the port is closed. It may go out with the
/// greeting.
pub fn to_listen(own: Fingerprint, ports: Ports, count: usize) -> Vec<u8> {
    pack((own, ports, count))
}

/// Where the remote end listens, and for how many connections: fewer than were asked for, if its site allows no more.
#[derive(Clone, Copy, Debug)]
pub struct Listening {
    pub port: u16,
    count: usize,
}

impl Listening {
    pub fn of(answer: &Frame) -> Result<Listening> {
        let (port, count) = answer.body().get()?;
        Ok(Listening { port, count })
    }
}

fn unknown_address() -> Error {
    Error::new(ErrorKind::Unsupported, "connect").because("the host does not report its own address")
}

/// Whether the network blocked the connection; else there was no listener, or none was asked for.
fn is_network_failure(e: &Error) -> bool {
    e.op() != direct::LISTEN && e.kind() != ErrorKind::Unsupported
}

impl Session {
    /// Makes data connections as far as they are wanted; `false` where they cannot be made.
    pub(super) fn connect_data(self: &Arc<Self>, client: &Client) -> bool {
        let Some(direct) = &client.options.direct else {
            *lock(&self.route) = DataRoute::None;
            return false;
        };
        let route = *lock(&self.route);
        if let DataRoute::Untried(listening) = route {
            self.try_routes(direct, listening);
            match self.fixed.load(Ordering::Relaxed) {
                0 => self.want(if self.is_near() { DATA_NEAR } else { DATA }, DATA),
                fixed => self.want(fixed, fixed),
            }
        }
        let route = *lock(&self.route);
        let present = lock(&self.data).len();
        let missing = self.site.bound(self.wanted.load(Ordering::Relaxed).saturating_sub(present), present);
        let made = match route {
            DataRoute::Out(_) | DataRoute::In if missing == 0 => {
                // The site allows no more.
                self.wanted.store(present, Ordering::Relaxed);
                return true;
            }
            DataRoute::Out(address) => self.connect_out(address, direct.ports, None, missing),
            DataRoute::In => self.connect_in(direct, missing),
            DataRoute::None | DataRoute::Untried(_) => return false,
        };
        if made.is_err() {
            // What worked before no longer works: ssh does.
            let left = lock(&self.data).len();
            self.wanted.store(left, Ordering::Relaxed);
            if left == 0 {
                self.set_route(DataRoute::None);
                self.wanted.store(1, Ordering::Relaxed);
            }
        }
        true
    }

    fn try_routes(self: &Arc<Self>, direct: &Direct, listening: Option<Listening>) {
        let count = match self.fixed.load(Ordering::Relaxed) {
            0 => DATA,
            fixed => fixed,
        };
        let count = self.site.bound(count, 0);
        let out = || -> Result<DataRoute> {
            let address = self.remote_address(&*direct.reached)?;
            self.connect_out(address, direct.ports, listening, count).map(|()| DataRoute::Out(address))
        };
        let tried = out().or_else(|out| self.connect_in(direct, count).map(|()| DataRoute::In).map_err(|back| [out, back]));
        match &tried {
            Ok(_) => (direct.report_outcome)(&DirectOutcome::Works),
            Err([out, back]) if is_network_failure(out) && (!direct.accept || is_network_failure(back)) && !self.control.is_over() => {
                (direct.report_outcome)(&DirectOutcome::Blocked)
            }
            // Such as ports in use, which may be free in another run.
            Err(_) => {}
        }
        let route = tried.unwrap_or_else(|both| {
            *lock(&self.blocked) = Some(both);
            DataRoute::None
        });
        self.set_route(route);
    }

    fn remote_key(&self) -> Result<Fingerprint> {
        let no_key = || Error::new(ErrorKind::Unsupported, "connect").because("the remote system gives no random numbers");
        self.remote.fingerprint.ok_or_else(no_key)
    }

    /// The address at which the remote end can be reached.
    fn remote_address(&self, reached: &Reachable) -> Result<IpAddr> {
        let (_near, claimed) = addresses(&self.remote.connection).ok_or_else(unknown_address)?;
        reached(claimed).ok_or_else(|| {
            let e = Error::new(ErrorKind::Unsupported, "connect");
            e.because(format!("the host reports the address {claimed}, but ssh did not connect to it"))
        })
    }

    /// Has the remote end listen for so many connections.
    fn ask_to_listen(&self, ports: Ports, count: usize) -> Result<Listening> {
        self.remote_key()?;
        let request = to_listen(self.identity()?.fingerprint, ports, count);
        let answer = self.control.ask(ops::TLS_LISTEN, &[&request], 0).and_then(Ticket::wait);
        Listening::of(&answer?)
    }

    /// Connects so many times to the port on which the remote end listens already, or will when it is asked. Fails where not one
    /// connection could be made.
    fn connect_out(&self, address: IpAddr, ports: Ports, listening: Option<Listening>, wanted: usize) -> Result<()> {
        let config = self.identity()?.connector(self.remote_key()?, &self.site.suites)?;
        let listening = listening.map_or_else(|| self.ask_to_listen(ports, wanted), Ok)?;
        let (at, count) = (SocketAddr::new(address, listening.port), wanted.min(listening.count));
        // How far away the host is shows with the first connections: over a short round trip fewer of them do.
        let choose = self.fixed.load(Ordering::Relaxed) == 0 && lock(&self.data).is_empty();
        let connect = |index: usize| -> Result<bool> {
            let (stream, round_trip) = direct::open(at)?;
            self.saw_round_trip(round_trip);
            if choose && index >= DATA_NEAR && round_trip < NEAR {
                return Ok(false);
            }
            self.add(direct::secure(stream, config.clone(), IDLE_TIMEOUT)?, IDLE_TIMEOUT).map(|()| true)
        };
        let (made, failed) = direct::connect_all(count, connect);
        if made < listening.count {
            // The port is not needed any more. It closes by itself, too.
            let close = to_listen(self.identity()?.fingerprint, None, 0);
            let _ = self.control.ask(ops::TLS_LISTEN, &[&close], 0).and_then(Ticket::wait);
        }
        if made == 0 { Err(failed.unwrap_or_else(|| lost("it cannot be reached"))) } else { Ok(()) }
    }

    /// The remote end listens and this one connects, once. `at` is where, as soon as that is known.
    pub(super) fn dial(&self, ports: Ports, reached: &Reachable, at: &mut Option<SocketAddr>) -> Result<(EncryptedLink, Duration)> {
        self.site.check()?;
        let address = self.remote_address(reached)?;
        let place = SocketAddr::new(address, self.ask_to_listen(ports, 1)?.port);
        *at = Some(place);
        let begun = Instant::now();
        let link = direct::connect(place, self.identity()?.connector(self.remote_key()?, &self.site.suites)?, IDLE_TIMEOUT)?;
        Ok((link, begun.elapsed()))
    }

    /// This end listens for the remote one, on a port that its site allows.
    pub(super) fn listen(
        &self,
        (ports, reached): (Ports, &Reachable),
        until: Until<impl Fn() -> bool + Send + 'static>,
        each: impl Fn(EncryptedLink) + Send + Sync + 'static,
    ) -> Result<SocketAddr> {
        self.site.check()?;
        let ports = self.site.ports(ports)?;
        let (near, claimed) = addresses(&self.remote.connection).ok_or_else(unknown_address)?;
        let config = self.identity()?.acceptor(self.remote_key()?, &self.site.suites)?;
        let listener = Listener::new(near, ports, config, reached(claimed).unwrap_or(claimed))?;
        let at = SocketAddr::new(near, listener.port()?);
        listener.accept_on_thread(until, IDLE_TIMEOUT, Arc::new(each))?;
        Ok(at)
    }

    /// Has the remote end connect; how many connections it made.
    pub(super) fn call_back(&self, at: SocketAddr, count: usize) -> Result<usize> {
        let request = pack((self.identity()?.fingerprint, at, count));
        self.control.ask(ops::TLS_CONNECT, &[&request], 0).and_then(Ticket::wait)?.body().get()
    }

    /// Has the remote end connect so many times. Fails where not one connection could be made.
    fn connect_in(self: &Arc<Self>, direct: &Direct, count: usize) -> Result<()> {
        if !direct.accept {
            let e = Error::new(ErrorKind::Unsupported, "connect");
            return Err(e.because("this machine accepts connections with --accept only"));
        }
        let (session, control) = (Arc::downgrade(self), self.control.clone());
        let each = move |link| {
            if let Some(session) = session.upgrade() {
                // One connection less.
                let _ = session.add(link, IDLE_TIMEOUT);
            }
        };
        let closed = Arc::new(AtomicBool::new(false));
        let close = closed.clone();
        let over = move || close.load(Ordering::Relaxed) || control.is_over();
        let before = lock(&self.data).len();
        let at = self.listen((direct.ports, &*direct.reached), Until { count, within: direct::LISTENING, over }, each)?;
        let made = self.call_back(at, count);
        // They are there as soon as this end has done its part of the handshake.
        let until = Instant::now() + ATTEMPT;
        while lock(&self.data).len() < before + *made.as_ref().unwrap_or(&0) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        closed.store(true, Ordering::Relaxed);
        made?;
        if lock(&self.data).len() > before { Ok(()) } else { Err(lost("it cannot be reached")) }
    }

    pub(super) fn add(&self, link: EncryptedLink, idle_timeout: Duration) -> Result<()> {
        let EncryptedLink { output, input, transport, over, socket, .. } = link;
        let link = Link::start(output, input, transport, over, self.compress, self.window.clone(), idle_timeout)?;
        let mut data = lock(&self.data);
        if self.tolerant.load(Ordering::Relaxed) {
            tcp::tolerate_losses(&socket);
        }
        let failures = lock(&self.failures);
        if failures.given_up {
            return Err(Error::new(ErrorKind::Unsupported, "connect"));
        }
        data.push(DataLink { link, socket, round: failures.rounds });
        Ok(())
    }

    /// Sets how data connections are made, unless they have been given up meanwhile.
    fn set_route(&self, route: DataRoute) {
        let mut now = lock(&self.route);
        *now = if lock(&self.failures).given_up { DataRoute::None } else { route };
    }

    /// Removes ended data connections, and with a failed one all of its round. After [`ROUNDS`] failed rounds data goes through
    /// ssh.
    pub(super) fn drop_failed(&self) {
        let (ended, gave_up) = {
            let mut data = lock(&self.data);
            if !data.iter().any(|one| one.link.is_over()) {
                return;
            }
            let mut failures = lock(&self.failures);
            let dead = data.iter().find(|one| one.round == failures.rounds && one.link.is_over());
            // The end of the whole session is no failure of its data connections.
            let Some(reason) = dead.and_then(|one| one.link.why_over()).filter(|_| !self.control.is_over()) else {
                data.retain(|one| !one.link.is_over());
                return;
            };
            let recent = failures.last.replace(Instant::now()).is_some_and(|last| last.elapsed() < FORGIVEN);
            failures.rounds += 1;
            failures.in_a_row = if recent { failures.in_a_row + 1 } else { 1 };
            failures.given_up = failures.in_a_row >= ROUNDS;
            (std::mem::take(&mut *data), failures.given_up.then_some(reason))
        };
        for one in ended {
            one.link.end(lost("another data connection failed"));
        }
        if let Some(reason) = gave_up {
            *lock(&self.route) = DataRoute::None;
            self.wanted.store(1, Ordering::Relaxed);
            if let Some(report_outcome) = &self.report_outcome {
                report_outcome(&DirectOutcome::Fails(reason));
            }
        }
    }
}
