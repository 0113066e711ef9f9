//! The asking side's view of one far haul: its links, what it said of itself, and what has been opened there.

use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Remedy, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;

use super::direct::{self, ATTEMPT, Kernel, Listener, Ports, Sealed, addresses};
use super::link::{Bounded, Carrier, Frame, Input, Link, Output, PULSE, Plain, SILENCE, Ticket, kind, lock};
use super::ops;
use super::seal::{Acceptor, Connector, Secret};
use super::wire::{Writer, nonsense};

/// A conversation with a program that speaks for the far side: its standard input and output.
pub struct Pipes {
    pub input: OwnedFd,
    pub output: OwnedFd,
    pub carrier: Box<dyn Carrier>,
}

impl Carrier for Child {
    fn end(&mut self) {
        let _it_may_be_gone = self.kill();
        let _reaped = self.wait();
    }
}

/// How the far haul is started, or joined where one is at work already under the word that is given.
pub type Connect = dyn Fn(Option<&str>) -> Result<Pipes> + Send + Sync;

/// What was agreed on and found out when the two ends met.
#[derive(Clone, Debug)]
pub struct Far {
    /// Of the protocol.
    pub version: u64,
    /// Of the far haul.
    pub haul: String,
    pub home: Vec<u8>,
    /// With what further sessions join it; empty where they cannot.
    pub word: String,
    /// `SSH_CONNECTION`: address and port of this end, of that end, as the far side sees them.
    pub connection: String,
    pub host: String,
    pub machine: String,
}

/// What the user allows and wants.
#[derive(Debug)]
pub struct Wishes {
    /// Links through ssh at the most.
    pub sessions: usize,
    /// How long the far side may take to greet.
    pub greeting: Duration,
    /// Of this haul, for messages.
    pub version: &'static str,
    /// Data connections beside ssh; `None` where they are not wanted.
    pub direct: Option<Direct>,
}

/// How data connections may be made.
pub struct Direct {
    pub ports: Ports,
    /// Told once whether one could be made, so that the next run knows.
    pub learned: Box<dyn Fn(bool) + Send + Sync>,
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Direct({:?})", self.ports)
    }
}

/// A host reached by its haul. Connects again when the connection was lost.
pub struct Client {
    connect: Box<Connect>,
    wishes: Wishes,
    session: Mutex<Option<Arc<Session>>>,
    /// Files and roots have numbers that are never used twice.
    next: AtomicU64,
}

/// Device and inode of a root, once it has been opened.
pub type Opened = Arc<Mutex<Option<(u64, u64)>>>;

/// One run of the far haul.
pub struct Session {
    pub far: Far,
    pub control: Arc<Link>,
    pub links: Mutex<Vec<Arc<Link>>>,
    /// Links beside ssh, which carry the data where there are any.
    data: Mutex<Vec<DataLink>>,
    way: Mutex<Way>,
    /// Data connections at the most.
    most_data: AtomicUsize,
    watch: Mutex<Watch>,
    /// Bytes that have been asked for or sent in requests that carry data.
    moved: AtomicU64,
    /// Roots that were opened in this run, by number, with device and inode.
    pub roots: Mutex<HashMap<u64, Opened>>,
    /// Links that there is work for.
    wanted: AtomicUsize,
    bell: (Mutex<()>, Condvar),
    /// Links through ssh at the most; fewer once one was refused.
    pub sessions: AtomicUsize,
    /// Nanoseconds, the shortest that was seen.
    round_trip: AtomicU64,
    /// Bytes that readers may have asked for ahead of their first piece, over all of them.
    pub ahead: Mutex<u64>,
    /// Whether a thread sees to the links.
    attended: AtomicBool,
}

struct DataLink {
    link: Arc<Link>,
    socket: TcpStream,
}

/// What was seen of the data connections when they were last looked at.
#[derive(Debug)]
struct Watch {
    /// When data began to flow.
    begun: Option<Instant>,
    since: Instant,
    moved: u64,
    /// Bytes a second.
    rate: f64,
    kernel: Kernel,
    /// More connections were allowed since.
    widened: bool,
    /// They have not made it faster: no more of them.
    settled: bool,
    /// The connections bear losses by themselves.
    bears: bool,
}

/// Each connection first finds its rate: what is lost in that time says nothing of the way.
const FINDING: Duration = Duration::from_secs(1);
/// How long the rate is measured before anything is changed.
const WATCHED: Duration = Duration::from_millis(500);
/// What twice as many connections have to gain.
const GAIN: f64 = 1.2;

/// How data connections are made.
#[derive(Clone)]
enum Way {
    /// Nobody has tried yet.
    Untried,
    /// This end connects.
    Out { at: SocketAddr, connector: Arc<Connector>, next: u32 },
    /// The far end connects to this one.
    In { at: SocketAddr, secret: Arc<Secret>, next: u32 },
    /// They cannot be made, or are not wanted.
    None,
}

/// Data connections, to begin with: over a long way, and over a short one.
const DATA: usize = 4;
const DATA_NEAR: usize = 2;
/// As many as share the losses of a bad way at the most.
const DATA_MOST: usize = 64;
/// Of so many segments one is lost: more streams gain.
const LOSS: u64 = 3000;

/// Bytes that are asked for ahead over all readers.
const AHEAD: u64 = 32 << 20;
/// A link with so much under way has no need of more: another is opened, if there may be one.
const BUSY: u64 = 256 << 10;
/// A round trip below this is that of a local network, where one connection fills the way.
pub const NEAR: Duration = Duration::from_millis(2);

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("session", &lock(&self.session)).finish_non_exhaustive()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("far", &self.far).field("links", &self.links).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects. `Unsupported` where there is no haul on the far side or none that can be spoken with.
    pub fn connect(connect: Box<Connect>, wishes: Wishes) -> Result<Client> {
        let client = Client { connect, wishes, session: Mutex::default(), next: AtomicU64::new(1) };
        let session = client.meet()?;
        *lock(&client.session) = Some(session);
        Ok(client)
    }

    pub fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The session there is, or a new one in the place of one that was lost.
    pub fn session(self: &Arc<Self>) -> Result<Arc<Session>> {
        let mut session = lock(&self.session);
        if let Some(session) = session.as_ref().filter(|session| !session.control.is_over()) {
            session.attend(self);
            return Ok(session.clone());
        }
        let new = self.meet().map_err(|e| e.remedy_is(Remedy::Reconnect).kind_is(ErrorKind::Broken))?;
        *session = Some(new.clone());
        Ok(new)
    }

    /// The session there is, if it has not been lost.
    pub fn standing(&self) -> Option<Arc<Session>> {
        lock(&self.session).as_ref().filter(|session| !session.control.is_over()).cloned()
    }

    fn meet(&self) -> Result<Arc<Session>> {
        let pipes = (self.connect)(None)?;
        let greeted = Greeted::new(pipes, Some(&self.wishes))?;
        let Some(far) = greeted.far.clone() else { return Err(nonsense("no greeting")) };
        let control = greeted.link()?;
        let session = Arc::new(Session {
            far,
            links: Mutex::new(vec![control.clone()]),
            data: Mutex::default(),
            way: Mutex::new(if self.wishes.direct.is_some() { Way::Untried } else { Way::None }),
            most_data: AtomicUsize::new(DATA),
            watch: Mutex::new(Watch {
                begun: None,
                since: Instant::now(),
                moved: 0,
                rate: 0.0,
                kernel: Kernel::default(),
                widened: false,
                settled: false,
                bears: false,
            }),
            moved: AtomicU64::new(0),
            control,
            roots: Mutex::default(),
            wanted: AtomicUsize::new(1),
            bell: Default::default(),
            sessions: AtomicUsize::new(self.wishes.sessions),
            round_trip: AtomicU64::new(u64::MAX),
            ahead: Mutex::new(AHEAD),
            attended: AtomicBool::new(false),
        });
        session.pulse();
        Ok(session)
    }
}

impl Session {
    /// Signs of life for the far end, which would end by itself if it never heard of this one.
    fn pulse(self: &Arc<Self>) {
        let session = Arc::downgrade(self);
        let beat = move || {
            loop {
                std::thread::sleep(PULSE);
                let Some(session) = session.upgrade() else { return };
                if session.control.send(kind::PULSE, 0, &[]).is_err() {
                    return;
                }
            }
        };
        let _it_lives_an_hour_without = std::thread::Builder::new().name("pulse".into()).spawn(beat);
    }

    /// The link with the least to do; what carries data goes beside ssh where it can.
    pub fn link(&self, weight: u64) -> Result<Arc<Link>> {
        self.moved.fetch_add(weight, Ordering::Relaxed);
        if weight > 0 {
            let mut data = lock(&self.data);
            data.retain(|one| !one.link.is_over());
            if let Some(least) = data.iter().map(|one| &one.link).min_by_key(|link| link.load()) {
                if least.load() >= BUSY && data.len() < self.most_data() {
                    self.want(data.len() * 2, self.most_data());
                }
                return Ok(least.clone());
            }
        }
        let mut links = lock(&self.links);
        links.retain(|link| !link.is_over());
        let Some(least) = links.iter().min_by_key(|link| link.load()).cloned() else {
            return Err(super::link::lost("no link is left"));
        };
        let most = self.most_links();
        if weight > 0 && least.load() >= BUSY && links.len() < most {
            self.want(links.len() * 2, most);
        }
        Ok(least)
    }

    fn want(&self, links: usize, most: usize) {
        self.wanted.fetch_max(links.min(most), Ordering::Relaxed);
        self.bell.1.notify_all();
    }

    fn most_data(&self) -> usize {
        if self.is_near() { DATA_NEAR } else { self.most_data.load(Ordering::Relaxed) }
    }

    fn is_near(&self) -> bool {
        self.round_trip().is_some_and(|time| time < NEAR)
    }

    fn most_links(&self) -> usize {
        // Over a short way the sessions of one login would only share one cipher.
        if self.is_near() { 1 } else { self.sessions.load(Ordering::Relaxed) }
    }

    /// How long the way there and back is, as far as it is known.
    pub fn round_trip(&self) -> Option<Duration> {
        let nanos = self.round_trip.load(Ordering::Relaxed);
        (nanos < u64::MAX).then(|| Duration::from_nanos(nanos))
    }

    /// Asks for what is done at once: how long the answer takes is the length of the way.
    pub fn ask_quick(&self, kind: u8, parts: &[&[u8]]) -> Result<Frame> {
        let begun = Instant::now();
        let answer = self.control.ask(kind, parts, 0)?.wait();
        self.round_trip.fetch_min(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX - 1), Ordering::Relaxed);
        answer
    }

    pub fn ask(&self, kind: u8, parts: &[&[u8]], weight: u64) -> Result<Ticket> {
        self.link(weight)?.ask(kind, parts, weight)
    }

    fn wants_links(&self) -> bool {
        let wanted = self.wanted.load(Ordering::Relaxed);
        match &*lock(&self.way) {
            Way::Untried => true,
            Way::None => wanted > lock(&self.links).len(),
            _ => wanted > lock(&self.data).len(),
        }
    }

    /// Opens the links that are wanted, on a thread of its own: nobody waits for them.
    fn attend(self: &Arc<Self>, client: &Arc<Client>) {
        if self.attended.load(Ordering::Relaxed) || !self.wants_links() || self.attended.swap(true, Ordering::Relaxed) {
            return;
        }
        let (session, client): (Weak<Session>, Weak<Client>) = (Arc::downgrade(self), Arc::downgrade(client));
        let open = move || {
            loop {
                let (Some(session), Some(client)) = (session.upgrade(), client.upgrade()) else { return };
                if session.control.is_over() {
                    return;
                }
                session.watch();
                if session.wants_links() {
                    if session.goes_direct(&client) {
                        continue;
                    }
                    if session.join(&client).is_err() {
                        // It allows no more sessions: what there is has to do.
                        let count = lock(&session.links).len().max(1);
                        session.sessions.store(count, Ordering::Relaxed);
                        session.wanted.store(count, Ordering::Relaxed);
                    }
                    continue;
                }
                let (mutex, bell) = &session.bell;
                let _looked_at_again = bell.wait_timeout(lock(mutex), Duration::from_millis(500)).unwrap_or_else(PoisonError::into_inner);
            }
        };
        let _without_it_fewer_links = std::thread::Builder::new().name("links".into()).spawn(open);
    }

    /// Makes data connections as far as they are wanted; `false` where they cannot be made.
    fn goes_direct(self: &Arc<Self>, client: &Client) -> bool {
        let Some(direct) = &client.wishes.direct else {
            *lock(&self.way) = Way::None;
            return false;
        };
        if matches!(*lock(&self.way), Way::Untried) {
            let way = self.try_out(direct).or_else(|_| self.try_in(direct)).unwrap_or(Way::None);
            (direct.learned)(!matches!(way, Way::None));
            *lock(&self.way) = way;
            self.want(if self.is_near() { DATA_NEAR } else { DATA }, DATA);
        }
        let missing = self.wanted.load(Ordering::Relaxed).saturating_sub(lock(&self.data).len());
        let (numbers, way) = {
            let mut way = lock(&self.way);
            let (Way::Out { next, .. } | Way::In { next, .. }) = &mut *way else { return false };
            let first = *next;
            *next = next.saturating_add(u32::try_from(missing).unwrap_or(0));
            (first..*next, way.clone())
        };
        let made = match &way {
            Way::Out { at, connector, .. } => self.connect_many(*at, connector, numbers),
            Way::In { at, secret, .. } => self.be_connected(*at, secret, numbers),
            Way::None | Way::Untried => 0,
        };
        if made == 0 && missing > 0 {
            // What worked before does not any more: ssh does.
            let left = lock(&self.data).len();
            self.wanted.store(left, Ordering::Relaxed);
            if left == 0 {
                *lock(&self.way) = Way::None;
                self.wanted.store(1, Ordering::Relaxed);
            }
        }
        true
    }

    /// The far end listens, this one connects.
    fn try_out(self: &Arc<Self>, direct: &Direct) -> Result<Way> {
        let (_near, far) = addresses(&self.far.connection).ok_or_else(|| Error::new(ErrorKind::Unsupported, "connect"))?;
        let secret = Secret::random()?;
        let mut to = Writer::new();
        let (low, high) = direct.ports.unwrap_or((0, 0));
        to.bytes(secret.as_bytes()).number(low.into()).number(high.into());
        let answer = self.control.ask(ops::LISTEN, &[&to.out], 0)?.wait()?;
        to.out.fill(0);
        let port = u16::try_from(answer.body().number()?).map_err(|_| nonsense("an impossible port"))?;
        let (at, connector) = (SocketAddr::new(far, port), Arc::new(Connector::new(secret)));
        let mut first = direct::connect(at, &connector, 0, SILENCE)?;
        first.welcomed()?;
        self.add(first)?;
        Ok(Way::Out { at, connector, next: 1 })
    }

    fn connect_many(self: &Arc<Self>, at: SocketAddr, connector: &Arc<Connector>, numbers: std::ops::Range<u32>) -> usize {
        let made = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for number in numbers {
                let (connector, made) = (connector.clone(), &made);
                let _without_it_one_less = std::thread::Builder::new().spawn_scoped(scope, move || {
                    // Whatever it sends is sealed for the one who knows the secret: there is nothing to wait for.
                    if direct::connect(at, &connector, number, SILENCE).and_then(|sealed| self.add(sealed)).is_ok() {
                        made.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        made.into_inner()
    }

    /// This end listens, the far one connects.
    fn try_in(self: &Arc<Self>, direct: &Direct) -> Result<Way> {
        let (near, _far) = addresses(&self.far.connection).ok_or_else(|| Error::new(ErrorKind::Unsupported, "connect"))?;
        let secret = Arc::new(Secret::random()?);
        let listener = Listener::new(direct.ports, Acceptor::new(Secret::from_bytes(*secret.as_bytes())))?;
        let at = SocketAddr::new(near, listener.port()?);
        let session = Arc::downgrade(self);
        let each: Arc<dyn Fn(Sealed) + Send + Sync> = Arc::new(move |sealed| {
            if let Some(session) = session.upgrade() {
                let _one_less = session.add(sealed);
            }
        });
        let control = self.control.clone();
        let take = move || {
            while !control.is_over() {
                listener.accept(Some(Instant::now() + Duration::from_secs(1)), SILENCE, &each);
            }
        };
        std::thread::Builder::new().name("accept".into()).spawn(take).map_err(|e| Error::io(e, "start a thread"))?;
        if self.be_connected(at, &secret, 0..1) == 0 {
            return Err(super::link::lost("it cannot be reached"));
        }
        Ok(Way::In { at, secret, next: 1 })
    }

    fn be_connected(&self, at: SocketAddr, secret: &Secret, numbers: std::ops::Range<u32>) -> usize {
        let before = lock(&self.data).len();
        let mut to = Writer::new();
        to.bytes(secret.as_bytes()).bytes(at.ip().to_string().as_bytes()).number(at.port().into());
        to.number(numbers.start.into()).number(numbers.len() as u64);
        let asked = self.control.ask(ops::CONNECT, &[&to.out], 0).and_then(Ticket::wait);
        to.out.fill(0);
        let Ok(answer) = asked else { return 0 };
        let count = answer.body().count_of().unwrap_or(0);
        // They are there as soon as this end has read their hello.
        let until = Instant::now() + ATTEMPT;
        while lock(&self.data).len() < before + count && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        lock(&self.data).len().saturating_sub(before)
    }

    fn add(&self, sealed: Sealed) -> Result<()> {
        let Sealed { output, input, carrier, over, socket } = sealed;
        let link = Link::start(output, input, carrier, over, SILENCE)?;
        lock(&self.data).push(DataLink { link, socket });
        Ok(())
    }

    /// Where segments are lost, connections that take each loss for a full queue are told not to; where that is not
    /// allowed, or where the buffers of the ends are what limits them, more connections are made for as long as they gain.
    fn watch(&self) {
        let mut watch = lock(&self.watch);
        let moved = self.moved.load(Ordering::Relaxed);
        if self.is_near() || watch.settled || moved == 0 || lock(&self.data).is_empty() {
            return;
        }
        let begun = *watch.begun.get_or_insert_with(Instant::now);
        let lasted = watch.since.elapsed();
        if lasted < WATCHED {
            return;
        }
        let rate = (moved - watch.moved) as f64 / lasted.as_secs_f64();
        let before = std::mem::replace(&mut watch.rate, rate);
        (watch.since, watch.moved) = (Instant::now(), moved);
        let kernel = Kernel::of(lock(&self.data).iter().map(|one| &one.socket)).with(self.facts(false).unwrap_or_default());
        let seen = kernel.since(std::mem::replace(&mut watch.kernel, kernel));
        if begun.elapsed() < FINDING {
            return;
        }
        if std::mem::take(&mut watch.widened) && rate < before * GAIN {
            // A full queue loses segments, too: against that more connections do nothing.
            watch.settled = true;
            return;
        }
        let lossy = seen.again > 10 && seen.again * LOSS > seen.sent;
        if lossy && !watch.bears {
            watch.bears = true;
            let here = lock(&self.data).iter().all(|one| direct::bear_losses(&one.socket));
            let there = self.facts(true).is_some();
            if here && there {
                return;
            }
        }
        let most = self.most_data.load(Ordering::Relaxed);
        if (lossy || seen.limited * 3 > seen.busy) && most < DATA_MOST {
            watch.widened = true;
            self.most_data.store(most * 2, Ordering::Relaxed);
        }
    }

    /// What the far end's kernel says of the connections; with `bear` they are told to bear losses, and it is `None` where
    /// that is not allowed.
    fn facts(&self, bear: bool) -> Option<Kernel> {
        let mut to = Writer::new();
        to.flag(bear);
        let answer = self.control.ask(ops::FACTS, &[&to.out], 0).and_then(Ticket::wait).ok()?;
        let mut from = answer.body();
        let done = from.flag().ok()?;
        let mut number = || from.number().ok();
        let kernel = Kernel { sent: number()?, again: number()?, busy: number()?, limited: number()? };
        (done || !bear).then_some(kernel)
    }

    /// How many connections carry the data, and whether beside ssh.
    pub fn carriers(&self) -> (usize, bool) {
        let data = lock(&self.data).iter().filter(|one| !one.link.is_over()).count();
        if data > 0 { (data, true) } else { (lock(&self.links).len(), false) }
    }

    /// One more ssh session, joined to this run of the far haul.
    fn join(&self, client: &Client) -> Result<()> {
        if self.far.word.is_empty() {
            return Err(Error::new(ErrorKind::Unsupported, "join"));
        }
        let pipes = (client.connect)(Some(&self.far.word))?;
        let link = Greeted::new(pipes, None)?.link()?;
        lock(&self.links).push(link);
        Ok(())
    }

    pub fn home(&self) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        PathBuf::from(std::ffi::OsStr::from_bytes(&self.far.home))
    }
}

/// A conversation in which the far side has said who it is.
struct Greeted {
    output: Box<dyn Output>,
    input: Plain<Greeting>,
    carrier: Box<dyn Carrier>,
    over: Arc<AtomicBool>,
    far: Option<Far>,
}

/// What comes from the far side, with a bound on every wait until the greeting is over.
struct Greeting {
    fd: std::fs::File,
    /// Bytes that were read behind the greeting.
    buffered: Vec<u8>,
    at: usize,
    until: Option<Instant>,
}

impl Read for Greeting {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.buffered.len() {
            if buffer.len() >= 64 << 10 {
                return self.fill_from(buffer);
            }
            let mut fresh = std::mem::take(&mut self.buffered);
            fresh.resize(256 << 10, 0);
            let count = self.fill_from(&mut fresh);
            fresh.truncate(*count.as_ref().unwrap_or(&0));
            (self.buffered, self.at) = (fresh, 0);
            count?;
        }
        let left = &self.buffered[self.at..];
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}

impl Greeting {
    fn fill_from(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if let Some(until) = self.until {
            loop {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(std::io::ErrorKind::TimedOut.into());
                }
                let mut polled = [PollFd::new(&self.fd, PollFlags::IN)];
                let wait = rustix::time::Timespec::try_from(left.min(Duration::from_millis(500))).unwrap_or_default();
                if poll(&mut polled, Some(&wait)).unwrap_or(0) > 0 {
                    break;
                }
            }
        }
        self.fd.read(buffer)
    }

    /// Reads until `mark` has come, whatever a login script prints before it; says what stood there.
    fn find(&mut self, mark: &[u8], other: &[u8]) -> Result<Found> {
        let failed = |kind, reason: &str| Error::new(kind, "greet").because(reason.to_string());
        loop {
            let all = &self.buffered;
            if let Some(at) = all.windows(mark.len()).position(|window| window == mark) {
                self.at = at + mark.len();
                return Ok(Found::Agent);
            }
            if let Some(at) = all.windows(other.len()).position(|window| window == other) {
                let rest = &all[at + other.len()..];
                if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    return Ok(Found::Missing(String::from_utf8_lossy(&rest[..end]).into_owned()));
                }
            }
            if all.len() > 256 << 10 {
                return Err(failed(ErrorKind::Unsupported, "its login scripts print without end"));
            }
            let mut more = vec![0; 4096];
            match self.fill_from(&mut more) {
                Ok(0) => return Err(failed(ErrorKind::Unsupported, "there is no haul on the far side")),
                Ok(count) => self.buffered.extend_from_slice(&more[..count]),
                Err(e) if e.kind() == std::io::ErrorKind::TimedOut => {
                    return Err(failed(ErrorKind::TimedOut, "the far side does not answer"));
                }
                Err(e) => return Err(Error::io(e, "greet")),
            }
        }
    }
}

enum Found {
    Agent,
    /// There is no haul; the system and the machine as `uname -sm` says them.
    Missing(String),
}

/// Why there is no agent, where the far shell has said so: system and machine.
pub fn missing_platform(e: &Error) -> Option<String> {
    e.reason().strip_prefix(NOT_THERE).map(str::to_string)
}

const NOT_THERE: &str = "there is no haul on ";

impl Greeted {
    /// With `wishes` the far side is asked who it is; a link that joins needs no more than its sign.
    fn new(pipes: Pipes, wishes: Option<&Wishes>) -> Result<Greeted> {
        let Pipes { input, output, mut carrier } = pipes;
        let over = Arc::new(AtomicBool::new(false));
        let greeted = (|| {
            let mut to = Plain(Bounded::new(input, SILENCE, over.clone()).map_err(|e| Error::io(e, "connect"))?);
            let begun = Instant::now();
            if let Some(wishes) = wishes {
                let mut hello = Writer::new();
                hello.number(ops::VERSIONS.0).number(ops::VERSIONS.1).bytes(wishes.version.as_bytes());
                // It is sent before anything has come: a round trip less.
                let _shows_when_nothing_comes = to.send([ops::HELLO, 0, 0, 0, 0], &[&hello.out]);
            }
            let patience = wishes.map_or(Duration::from_secs(30), |wishes| wishes.greeting);
            let mut from = Greeting { fd: output.into(), buffered: Vec::new(), at: 0, until: Some(begun + patience) };
            if let Found::Missing(platform) = from.find(ops::MAGIC, ops::MISSING)? {
                return Err(Error::new(ErrorKind::Unsupported, "greet").because(format!("{NOT_THERE}{platform}")));
            }
            let mut from = Plain(from);
            let mut far = None;
            if wishes.is_some() {
                let frame = answer(&mut from)?;
                let mut from = frame.body();
                far = Some(Far {
                    version: from.number()?,
                    haul: from.words()?,
                    home: from.bytes()?.to_vec(),
                    word: from.words()?,
                    connection: from.words()?,
                    host: from.words()?,
                    machine: from.words()?,
                });
            }
            from.0.until = None;
            Ok((to, from, far))
        })();
        match greeted {
            Ok((to, input, far)) => Ok(Greeted { output: Box::new(to), input, carrier, over, far }),
            Err(e) => {
                carrier.end();
                Err(e)
            }
        }
    }

    fn link(self) -> Result<Arc<Link>> {
        Link::start(self.output, Box::new(self.input), self.carrier, self.over, SILENCE)
    }
}

fn answer(from: &mut Plain<Greeting>) -> Result<Frame> {
    loop {
        let Some(frame) = from.receive()? else { return Err(super::link::lost("the other end closed it")) };
        match frame.kind {
            kind::DONE => return Ok(frame),
            kind::FAILED => return Err(frame.body().error()?),
            kind::PULSE => {}
            _ => return Err(nonsense("an answer that nobody asked for")),
        }
    }
}

/// A pipe that a program reads or writes, as large as it may be: fewer switches between the two.
pub fn widen(fd: &OwnedFd) {
    let _smaller_does_too = rustix::pipe::fcntl_setpipe_size(fd, 1 << 20);
}
