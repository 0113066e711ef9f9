//! Data connections of the local side: how they are made.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Result};

use super::direct::{self, ATTEMPT, EncryptedLink, Listener, Ports, addresses};
use super::encrypt::{Acceptor, Connector, Secret};
use super::frame::{Frame, lost};
use super::link::{IDLE_TIMEOUT, Link, Ticket};
use super::ops;
use super::options::{Direct, DirectOutcome};
use super::session::{Client, Session};
use super::wire::{Writer, protocol_error};
use haul_core::lock::lock;

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

/// How data connections are made.
#[derive(Clone)]
pub enum DataRoute {
    /// Not tried yet; with the port on which the remote end listens, if it was asked to.
    Untried(Option<ListeningPort>),
    /// This end connects.
    Out { at: SocketAddr, connector: Arc<Connector>, next: u32 },
    /// The remote end connects to this one.
    In { at: SocketAddr, secret: Secret, next: u32 },
    /// They cannot be made, or are not wanted.
    None,
}

/// Data connections to begin with: over a long round trip, and over a short one.
pub const DATA: usize = 4;
pub const DATA_NEAR: usize = 2;
/// A port on which the remote end listens.
#[derive(Clone)]
pub struct ListeningPort {
    secret: Secret,
    port: u16,
}

/// The request to listen, which may go out with the greeting.
pub struct ToListen {
    pub request: Vec<u8>,
    secret: Secret,
}

impl ToListen {
    pub fn new(ports: Ports) -> Result<ToListen> {
        let secret = Secret::random()?;
        let (low, high) = ports.unwrap_or((0, 0));
        let mut to = Writer::new();
        to.bytes(secret.as_bytes()).number(low.into()).number(high.into());
        Ok(ToListen { request: to.out, secret })
    }

    pub fn answered(mut self, answer: Result<Frame>) -> Result<ListeningPort> {
        self.request.fill(0);
        let port = u16::try_from(answer?.body().number()?).map_err(|_| protocol_error("an impossible port"))?;
        Ok(ListeningPort { secret: self.secret, port })
    }
}

/// The address at which the remote end can be reached.
fn remote_address(connection: &str, reached: &dyn Fn(IpAddr) -> Option<IpAddr>) -> Result<IpAddr> {
    let (_near, claimed) = addresses(connection).ok_or_else(unknown_address)?;
    reached(claimed).ok_or_else(|| {
        let e = Error::new(ErrorKind::Unsupported, "connect");
        e.because(format!("the host reports the address {claimed}, but ssh did not connect to it"))
    })
}

fn unknown_address() -> Error {
    Error::new(ErrorKind::Unsupported, "connect").because("the host does not report its own address")
}

/// Whether the network let no connection through, as opposed to: nobody listened or was asked.
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
        let untried = match &*lock(&self.route) {
            DataRoute::Untried(asked) => Some(asked.clone()),
            _ => None,
        };
        if let Some(asked) = untried {
            let tried = self.try_out(direct, asked).or_else(|out| self.try_in(direct).map_err(|back| [out, back]));
            match &tried {
                Ok(_) => (direct.report_outcome)(&DirectOutcome::Works),
                Err(both) if both.iter().all(is_network_failure) && !self.control.is_over() => {
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
            match self.fixed.load(Ordering::Relaxed) {
                0 => self.want(if self.is_near() { DATA_NEAR } else { DATA }, DATA),
                fixed => self.want(fixed, fixed),
            }
        }
        let missing = self.wanted.load(Ordering::Relaxed).saturating_sub(lock(&self.data).len());
        let (numbers, route) = {
            let mut route = lock(&self.route);
            let (DataRoute::Out { next, .. } | DataRoute::In { next, .. }) = &mut *route else { return false };
            let first = *next;
            *next = next.saturating_add(u32::try_from(missing).unwrap_or(0));
            (first..*next, route.clone())
        };
        let made = match &route {
            DataRoute::Out { at, connector, .. } => self.connect_many(*at, connector, numbers),
            DataRoute::In { at, secret, .. } => self.be_connected(*at, secret, numbers),
            DataRoute::None | DataRoute::Untried(_) => 0,
        };
        if made == 0 && missing > 0 {
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

    /// The remote end listens, this one connects. `at` is where, as soon as that is known.
    pub(super) fn dial(
        &self,
        (ports, reached): (Ports, &dyn Fn(IpAddr) -> Option<IpAddr>),
        asked: Option<ListeningPort>,
        at: &mut Option<SocketAddr>,
    ) -> Result<(Connector, EncryptedLink, Duration)> {
        let remote = remote_address(&self.remote.connection, reached)?;
        let ListeningPort { secret, port } = match asked {
            Some(asked) => asked,
            None => {
                let listen = ToListen::new(ports)?;
                let answer = self.control.ask(ops::LISTEN, &[&listen.request], 0).and_then(Ticket::wait);
                listen.answered(answer)?
            }
        };
        let (connector, place) = (Connector::new(secret), SocketAddr::new(remote, port));
        *at = Some(place);
        let begun = Instant::now();
        let mut link = direct::connect(place, &connector, 0, IDLE_TIMEOUT)?;
        link.welcomed()?;
        Ok((connector, link, begun.elapsed()))
    }

    fn try_out(self: &Arc<Self>, direct: &Direct, asked: Option<ListeningPort>) -> Result<DataRoute> {
        let mut at = None;
        let (connector, first, _) = self.dial((direct.ports, &*direct.reached), asked, &mut at)?;
        self.add(first, IDLE_TIMEOUT)?;
        let at = at.ok_or_else(|| lost("it has no address"))?;
        Ok(DataRoute::Out { at, connector: Arc::new(connector), next: 1 })
    }

    fn connect_many(self: &Arc<Self>, at: SocketAddr, connector: &Arc<Connector>, numbers: std::ops::Range<u32>) -> usize {
        let made = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for number in numbers {
                let (connector, made) = (connector.clone(), &made);
                // Without the thread there is one connection less.
                let _ = std::thread::Builder::new().spawn_scoped(scope, move || {
                    // All it sends is encrypted for the holder of the secret: no welcome is waited for.
                    if direct::connect(at, &connector, number, IDLE_TIMEOUT).and_then(|link| self.add(link, IDLE_TIMEOUT)).is_ok() {
                        made.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        made.into_inner()
    }

    /// This end listens until `over`, so that the remote one can connect.
    pub(super) fn listen(
        &self,
        ports: Ports,
        over: impl Fn() -> bool + Send + 'static,
        each: impl Fn(EncryptedLink) + Send + Sync + 'static,
    ) -> Result<(SocketAddr, Secret)> {
        let (near, _remote) = addresses(&self.remote.connection).ok_or_else(unknown_address)?;
        let secret = Secret::random()?;
        let listener = Listener::new(ports, Acceptor::new(secret.clone()))?;
        let at = SocketAddr::new(near, listener.port()?);
        listener.accept_on_thread(over, IDLE_TIMEOUT, Arc::new(each))?;
        Ok((at, secret))
    }

    /// Has the remote end connect; how many connections it made.
    pub(super) fn call_back(&self, at: SocketAddr, secret: &Secret, numbers: std::ops::Range<u32>) -> Result<usize> {
        let mut to = Writer::new();
        to.bytes(secret.as_bytes()).bytes(at.ip().to_string().as_bytes()).number(at.port().into());
        to.number(numbers.start.into()).number(numbers.len() as u64);
        let answer = self.control.ask(ops::CONNECT, &[&to.out], 0).and_then(Ticket::wait);
        to.out.fill(0);
        answer?.body().count_of()
    }

    fn try_in(self: &Arc<Self>, direct: &Direct) -> Result<DataRoute> {
        let (session, control) = (Arc::downgrade(self), self.control.clone());
        let each = move |link| {
            if let Some(session) = session.upgrade() {
                // One connection less.
                let _ = session.add(link, IDLE_TIMEOUT);
            }
        };
        let (at, secret) = self.listen(direct.ports, move || control.is_over(), each)?;
        if self.be_connected(at, &secret, 0..1) == 0 {
            return Err(lost("it cannot be reached"));
        }
        Ok(DataRoute::In { at, secret, next: 1 })
    }

    fn be_connected(&self, at: SocketAddr, secret: &Secret, numbers: std::ops::Range<u32>) -> usize {
        let before = lock(&self.data).len();
        let count = self.call_back(at, secret, numbers).unwrap_or(0);
        // They are there as soon as this end has read their hello.
        let until = Instant::now() + ATTEMPT;
        while lock(&self.data).len() < before + count && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        lock(&self.data).len().saturating_sub(before)
    }

    pub(super) fn add(&self, link: EncryptedLink, idle_timeout: Duration) -> Result<()> {
        let EncryptedLink { output, input, transport, over, socket } = link;
        let link = Link::start(output, input, transport, over, self.compress, self.window.clone(), idle_timeout)?;
        let mut data = lock(&self.data);
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
