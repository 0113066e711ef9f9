//! The local side's view of one remote haul: its links, its description, and what has been opened there.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Remedy, Result};

use super::data::{DATA, DATA_NEAR, DataLink, DataRoute, Failures, Listening, to_listen};
use super::frame::{Frame, kind};
use super::greeting::{Greeted, Pipes, RemoteInfo};
use super::link::{HEARTBEAT, Link, Ticket, Window};
use super::ops;
use super::options::{ReportOutcome, SessionOptions};
use super::site::Site;
use super::tls::Identity;
use super::watch::Watch;
use super::wire::{pack, protocol_error};
use super::work::Ahead;
use crate::link_saturation::{CARRIED, LinkSaturation, NEAR};
use crate::reconnect::Reconnect;
use haul_core::lock::lock;

/// Starts the remote haul, or joins the running one that the word names.
pub type Connect = dyn Fn(Option<&str>) -> Result<Pipes> + Send + Sync;

/// A host reached by its haul. Connects again when the connection was lost.
pub struct Client {
    connect: Box<Connect>,
    pub(super) options: SessionOptions,
    session: Mutex<Option<Arc<Session>>>,
    reconnect: Reconnect,
    /// Files and roots have numbers that are never used twice.
    next: AtomicU64,
}

/// Device and inode of a root, once it has been opened.
pub type Opened = Arc<Mutex<Option<(u64, u64)>>>;

/// One run of the remote haul.
pub struct Session {
    pub remote: RemoteInfo,
    pub control: Arc<Link>,
    /// Unique in the process.
    pub id: u64,
    /// Other remote hosts that this one can read from.
    pub linked_peers: Mutex<HashSet<u64>>,
    pub(super) compress: bool,
    pub(super) window: Arc<Window>,
    pub links: Mutex<Vec<Arc<Link>>>,
    /// Links beside ssh, which carry the data where there are any.
    pub(super) data: Mutex<Vec<DataLink>>,
    pub(super) route: Mutex<DataRoute>,
    pub(super) failures: Mutex<Failures>,
    /// The port on which the remote end waits for the first data connections.
    pub port: Option<u16>,
    /// The key of this end of data connections.
    identity: Option<Identity>,
    pub(super) site: Site,
    pub(super) report_outcome: Option<Arc<ReportOutcome>>,
    /// Data connections at the most.
    pub(super) most_data: AtomicUsize,
    pub(super) watch: Mutex<Watch>,
    /// Packets were lost: connections that are added tolerate it from their start.
    pub(super) tolerant: AtomicBool,
    /// Links that carry data, where that was fixed: neither more nor fewer. 0 where haul finds out by itself.
    pub(super) fixed: AtomicUsize,
    /// Why no data connection could be made: by this end, and by the remote one.
    pub(super) blocked: Mutex<Option<[Error; 2]>>,
    /// Bytes that have been asked for or sent in requests that carry data.
    pub(super) moved: AtomicU64,
    /// Roots that were opened in this run, by number, with device and inode.
    pub roots: Mutex<HashMap<u64, Opened>>,
    /// Links that there is work for.
    pub(super) wanted: AtomicUsize,
    notify: (Mutex<()>, Condvar),
    /// Links through ssh at the most; fewer once one was refused.
    pub sessions: AtomicUsize,
    /// Nanoseconds, the shortest that was seen.
    round_trip: AtomicU64,
    /// Bytes that readers may have asked for ahead of their first piece, over all of them.
    pub ahead: Mutex<u64>,
    /// Whether a thread sees to the links.
    attended: AtomicBool,
    /// Bytes of all files that were opened.
    pub(super) opened: AtomicU64,
    /// Of the connection of the links through ssh.
    fullness: Mutex<LinkSaturation>,
    pub(super) work: Ahead,
}

/// Bytes that are asked for ahead over all readers.
const AHEAD: u64 = 32 << 20;
/// A link with so much in flight is full: another is opened, if there may be one.
const BUSY: u64 = 256 << 10;

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

/// The first number of a root or a file; those below are for what is opened with the greeting.
pub const FIRST_NUMBER: u64 = 16;

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1); // identity only: nothing is ever read out of it
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Client {
    /// Connects, and sends early requests in the same round trip. `Unsupported` where the remote host has no haul, or none
    /// with a common protocol version.
    pub fn connect(connect: Box<Connect>, options: SessionOptions, early: &[(u8, Vec<u8>)]) -> Result<(Client, Vec<Result<Frame>>)> {
        let client =
            Client { connect, options, session: Mutex::default(), reconnect: Reconnect::default(), next: AtomicU64::new(FIRST_NUMBER) };
        let (session, answers) = client.connect_session(early)?;
        *lock(&client.session) = Some(session);
        Ok((client, answers))
    }

    pub fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The session there is, or a new one in the place of one that was lost.
    pub fn session(self: &Arc<Self>) -> Result<Arc<Session>> {
        let asked = Instant::now();
        let mut session = lock(&self.session);
        if let Some(session) = session.as_ref().filter(|session| !session.control.is_over()) {
            session.attend(self);
            return Ok(session.clone());
        }
        // Another run of the remote haul would only wait again.
        let unanswered = session.as_ref().and_then(|session| session.control.why_over()).filter(|e| e.kind() == ErrorKind::TimedOut);
        if let Some(e) = unanswered.or_else(|| self.reconnect.refused(asked)) {
            return Err(e);
        }
        let new = self.connect_session(&[]).map_err(|e| e.remedy_is(Remedy::Reconnect).kind_is(ErrorKind::Broken));
        let (new, _) = new.inspect_err(|e| self.reconnect.failed(e))?;
        *session = Some(new.clone());
        Ok(new)
    }

    /// The session there is, if it has not been lost.
    pub fn standing(&self) -> Option<Arc<Session>> {
        lock(&self.session).as_ref().filter(|session| !session.control.is_over()).cloned()
    }

    fn connect_session(&self, early: &[(u8, Vec<u8>)]) -> Result<(Arc<Session>, Vec<Result<Frame>>)> {
        let identity = Identity::new().ok();
        let mut asked = early.to_vec();
        if let (Some(direct), Some(identity)) = (&self.options.direct, &identity) {
            let count = self.options.site.bound(self.options.streams.unwrap_or(DATA), 0);
            asked.push((ops::TLS_LISTEN, to_listen(identity.fingerprint, direct.ports, count)));
        }
        let pipes = (self.connect)(None)?;
        let mut greeted = Greeted::new(pipes, self.options.version, self.options.compress, self.options.greeting, &asked)?;
        let Some(remote) = greeted.remote.take() else { return Err(protocol_error("no greeting")) };
        let mut answers = std::mem::take(&mut greeted.early);
        let listens = asked.len() > early.len();
        let listening = answers.pop_if(|_| listens).and_then(|answer| Listening::of(&answer.ok()?).ok());
        let route = if self.options.direct.is_some() { DataRoute::Untried(listening) } else { DataRoute::None };
        let window = Arc::new(Window::new(self.options.answer_timeout));
        let control = greeted.link(self.options.compress, window.clone())?;
        let session = Arc::new(Session {
            remote,
            port: listening.map(|listening| listening.port),
            identity,
            site: self.options.site.clone(),
            links: Mutex::new(vec![control.clone()]),
            data: Mutex::default(),
            route: Mutex::new(route),
            failures: Mutex::default(),
            report_outcome: self.options.direct.as_ref().map(|direct| direct.report_outcome.clone()),
            most_data: AtomicUsize::new(DATA),
            watch: Mutex::default(),
            tolerant: AtomicBool::new(false),
            fixed: AtomicUsize::new(self.options.streams.unwrap_or(0)),
            blocked: Mutex::default(),
            moved: AtomicU64::new(0),
            control,
            id: next_id(),
            linked_peers: Mutex::default(),
            compress: self.options.compress,
            window,
            roots: Mutex::default(),
            wanted: AtomicUsize::new(1),
            notify: Default::default(),
            sessions: AtomicUsize::new(self.options.sessions),
            round_trip: AtomicU64::new(u64::MAX),
            ahead: Mutex::new(AHEAD),
            attended: AtomicBool::new(false),
            opened: AtomicU64::new(0),
            fullness: Mutex::new(LinkSaturation::new(self.options.widen.is_some())),
            work: Ahead::default(),
        });
        session.pulse();
        Ok((session, answers))
    }
}

impl Session {
    /// Heartbeats for the remote end, which ends by itself if it hears nothing.
    fn pulse(self: &Arc<Self>) {
        let session = Arc::downgrade(self);
        let beat = move || {
            loop {
                std::thread::sleep(HEARTBEAT);
                let Some(session) = session.upgrade() else { return };
                if session.control.send(kind::HEARTBEAT, 0, &[]).is_err() {
                    return;
                }
            }
        };
        // Without heartbeats the remote end leaves after two minutes.
        let _ = std::thread::Builder::new().name("pulse".into()).spawn(beat);
    }

    /// The link with the least in flight; data goes beside ssh where it can.
    pub fn link(&self, weight: u64) -> Result<Arc<Link>> {
        self.moved.fetch_add(weight, Ordering::Relaxed);
        if weight > 0 {
            self.drop_failed();
            let data = lock(&self.data);
            if let Some(least) = data.iter().take(self.most_used()).map(|one| &one.link).min_by_key(|link| link.load()) {
                if least.load() >= BUSY && data.len() < self.most_data() {
                    self.want(data.len() * 2, self.most_data());
                }
                return Ok(least.clone());
            }
        }
        let mut links = lock(&self.links);
        links.retain(|link| !link.is_over());
        let used = if weight > 0 { self.most_used() } else { usize::MAX };
        let Some(least) = links.iter().take(used).min_by_key(|link| link.load()).cloned() else {
            return Err(super::frame::lost("no connection is left"));
        };
        let most = self.most_links();
        if weight > 0 && least.load() >= BUSY && links.len() < most {
            self.want(links.len() * 2, most);
        }
        Ok(least)
    }

    pub(super) fn want(&self, links: usize, most: usize) {
        self.wanted.fetch_max(links.min(most), Ordering::Relaxed);
        self.notify.1.notify_all();
    }

    /// Of the links that there are, how many carry data.
    fn most_used(&self) -> usize {
        match self.fixed.load(Ordering::Relaxed) {
            0 => usize::MAX,
            fixed => fixed,
        }
    }

    fn most_data(&self) -> usize {
        let fixed = self.fixed.load(Ordering::Relaxed);
        if fixed > 0 {
            fixed
        } else if self.is_near() {
            DATA_NEAR
        } else {
            self.most_data.load(Ordering::Relaxed)
        }
    }

    pub(super) fn is_near(&self) -> bool {
        self.round_trip().is_some_and(|time| time < NEAR)
    }

    fn most_links(&self) -> usize {
        let sessions = self.sessions.load(Ordering::Relaxed);
        match self.fixed.load(Ordering::Relaxed) {
            // On a local network the sessions of one login would only share one cipher.
            0 if self.is_near() => 1,
            0 => sessions,
            fixed => fixed.min(sessions),
        }
    }

    /// The shortest round trip so far, if there was one.
    pub fn round_trip(&self) -> Option<Duration> {
        let nanos = self.round_trip.load(Ordering::Relaxed);
        (nanos < u64::MAX).then(|| Duration::from_nanos(nanos))
    }

    pub(super) fn saw_round_trip(&self, time: Duration) {
        self.round_trip.fetch_min(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX - 1), Ordering::Relaxed);
    }

    pub(super) fn identity(&self) -> Result<&Identity> {
        self.identity.as_ref().ok_or_else(|| Error::new(ErrorKind::Unsupported, "connect").because("the system gives no random numbers"))
    }

    /// Where all requests so far went with the greeting, none has shown how long a round trip is.
    fn measure_round_trip(&self) {
        if self.round_trip().is_none() {
            let _ = self.ask_quick(ops::LOOK, &[&pack(&b"/"[..])]); // the next request notices a lost connection
        }
    }

    /// For requests that take no time: the time to the answer is the round trip.
    pub fn ask_quick(&self, kind: u8, parts: &[&[u8]]) -> Result<Frame> {
        let begun = Instant::now();
        let answer = self.control.ask(kind, parts, 0)?.wait();
        self.saw_round_trip(begun.elapsed());
        answer
    }

    /// As `ask_quick`, with a limit; `None` if there is no answer in that time.
    pub fn ask_if_quick(&self, kind: u8, parts: &[&[u8]], most: Duration) -> Option<Frame> {
        let begun = Instant::now();
        let ticket = self.control.ask(kind, parts, 0).ok()?;
        while !ticket.is_answered() {
            if begun.elapsed() > most {
                return None;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        self.saw_round_trip(begun.elapsed());
        ticket.wait().ok()
    }

    pub fn ask(&self, kind: u8, parts: &[&[u8]], weight: u64) -> Result<Ticket> {
        self.link(weight)?.ask(kind, parts, weight)
    }

    fn wants_links(&self) -> bool {
        let wanted = self.wanted.load(Ordering::Relaxed);
        match &*lock(&self.route) {
            DataRoute::Untried(_) => true,
            DataRoute::None => wanted > lock(&self.links).len(),
            _ => wanted > lock(&self.data).len(),
        }
    }

    /// Opens the links that are wanted on a thread of its own; requests do not wait for them.
    fn attend(self: &Arc<Self>, client: &Arc<Client>) {
        // One large file asks for its session once, before the links are busy.
        let may_want = client.options.widen.is_some() || self.wants_links();
        if self.attended.load(Ordering::Relaxed) || !may_want || self.attended.swap(true, Ordering::Relaxed) {
            return;
        }
        if client.options.widen.is_some() {
            let session = self.clone();
            // Apart: it may wait behind data. Without it no further logins are made.
            let _ = std::thread::Builder::new().name("round trip".into()).spawn(move || session.measure_round_trip());
        }
        let (session, client): (Weak<Session>, Weak<Client>) = (Arc::downgrade(self), Arc::downgrade(client));
        let open = move || {
            loop {
                let (Some(session), Some(client)) = (session.upgrade(), client.upgrade()) else { return };
                if session.control.is_over() {
                    return;
                }
                session.drop_failed();
                session.watch();
                session.widen(&client);
                if session.wants_links() {
                    if session.connect_data(&client) {
                        continue;
                    }
                    if session.join(&client).is_err() {
                        // The host allows no more sessions.
                        let count = lock(&session.links).len().max(1);
                        session.sessions.store(count, Ordering::Relaxed);
                        session.wanted.store(count, Ordering::Relaxed);
                    }
                    continue;
                }
                let (mutex, notify) = &session.notify;
                // It is checked again in any case: a wish that comes just before the wait does not end it.
                let _ = notify.wait_timeout(lock(mutex), CARRIED / 2).unwrap_or_else(PoisonError::into_inner);
            }
        };
        // Without the thread there are fewer links.
        let _ = std::thread::Builder::new().name("links".into()).spawn(open);
    }

    /// Has further connections made for the links through ssh, once theirs is full and much is to come.
    fn widen(&self, client: &Client) {
        let mut fullness = lock(&self.fullness);
        let is_fixed = self.fixed.load(Ordering::Relaxed) > 0;
        if fullness.is_over() || is_fixed || !matches!(&*lock(&self.route), DataRoute::None) {
            return;
        }
        let Some(widen) = &client.options.widen else { return };
        let Some(round_trip) = self.round_trip() else { return };
        let moved = self.moved.load(Ordering::Relaxed);
        let answered = moved.saturating_sub(lock(&self.links).iter().map(|link| link.load()).sum());
        if !fullness.is_reached(round_trip, answered, self.opened.load(Ordering::Relaxed)) {
            return;
        }
        drop(fullness);
        let made = widen();
        if made > 0 {
            let most = self.sessions.fetch_add(made, Ordering::Relaxed) + made;
            self.want(lock(&self.links).len() + made, most);
            std::thread::scope(|scope| {
                for _ in 0..made {
                    // One that is not made is still wanted, and is tried once more.
                    let _ = std::thread::Builder::new().name("link".into()).spawn_scoped(scope, || self.join(client));
                }
            });
        }
    }

    pub fn data_links(&self) -> (usize, bool) {
        let data = lock(&self.data).iter().filter(|one| !one.link.is_over()).count();
        if data > 0 { (data, true) } else { (lock(&self.links).len(), false) }
    }

    /// One more ssh session, joined to this run of the remote haul.
    fn join(&self, client: &Client) -> Result<()> {
        if self.remote.word.is_empty() {
            return Err(Error::new(ErrorKind::Unsupported, "join"));
        }
        let pipes = (client.connect)(Some(&self.remote.word))?;
        let link = Greeted::joining(pipes)?.link(client.options.compress, self.window.clone())?;
        lock(&self.links).push(link);
        Ok(())
    }
}
