//! A server of HTTP/1.1 that answers chosen requests as a test says. All others pass to the server behind it as they are, so
//! that signatures hold: they cover the Host that the client named, and real servers take any.
//!
//! It takes down every request, and can make each of them last a round trip longer.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Endpoint;
use super::http::header;

mod connection;

/// Which requests a rule is for. Without any condition it is for all.
#[derive(Clone, Debug, Default)]
pub struct When {
    method: Option<String>,
    path: Option<String>,
    query: Option<String>,
    header: Option<(String, String)>,
}

impl When {
    pub fn any() -> When {
        When::default()
    }

    pub fn method(method: &str) -> When {
        When { method: Some(method.into()), ..When::default() }
    }

    /// The path has this in it, encoded as it was sent.
    #[must_use]
    pub fn path(self, part: &str) -> When {
        When { path: Some(part.into()), ..self }
    }

    /// The query has this in it, encoded as it was sent.
    #[must_use]
    pub fn query(self, part: &str) -> When {
        When { query: Some(part.into()), ..self }
    }

    /// A header has this in its value.
    #[must_use]
    pub fn header(self, name: &str, part: &str) -> When {
        When { header: Some((name.into(), part.into())), ..self }
    }

    fn is_for(&self, seen: &Seen) -> bool {
        let has = |part: &Option<String>, whole: &str| part.as_ref().is_none_or(|part| whole.contains(part.as_str()));
        self.method.as_ref().is_none_or(|method| *method == seen.method)
            && has(&self.path, &seen.path)
            && has(&self.query, &seen.query)
            && self.header.as_ref().is_none_or(|(name, part)| seen.header(name).is_some_and(|value| value.contains(part.as_str())))
    }
}

/// An answer made up by a test, or one of a server for it to change. Its length is said as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Without those that frame the body, but for an answer to HEAD, where they tell of the body that would have been.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn new(status: u16, body: &str) -> Answer {
        Answer { status, headers: Vec::new(), body: body.into() }
    }

    /// An error in the form of S3, for example 500 `InternalError`.
    pub fn error(status: u16, code: &str) -> Answer {
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>scripted</Message><RequestId>scripted</RequestId></Error>"
        );
        Answer::new(status, &body).with("Content-Type", "application/xml")
    }

    /// The client is to come back later.
    pub fn slow_down(retry_after: Duration) -> Answer {
        Answer::error(503, "SlowDown").with("Retry-After", &retry_after.as_secs().to_string())
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Answer {
        self.headers.push((name.into(), value.into()));
        self
    }
}

type Make = dyn Fn(&Seen, &[u8]) -> Answer + Send + Sync;
type Edit = dyn Fn(&mut Answer) + Send + Sync;

/// What is done with a request. Where an answer or a body is changed, it is held in memory.
#[derive(Clone)]
pub enum Action {
    /// It passes, and no later rule is asked.
    Pass,
    /// Its body is taken, and this is the answer. The server behind hears nothing of it.
    Answer(Answer),
    /// The same with an answer made from the request and its body.
    Make(Arc<Make>),
    /// The server's answer is changed.
    Edit(Arc<Edit>),
    /// Of the answer's body so many bytes come, then the connection is closed. The length that is said stays.
    Cut(u64),
    /// The lowest bit of this byte of the answer's body is turned round.
    Flip(u64),
    /// The lowest bit of this byte of the request's body is turned round on its way.
    FlipSent(u64),
    /// So many bytes of the request's body are taken, then the connection is closed. The server behind hears nothing of it.
    CutSent(u64),
    /// The answer waits for so long.
    Late(Duration),
    /// The answer's body comes in pieces of so many bytes, with this time between them.
    Slow(usize, Duration),
    /// The connection is closed before anything is answered. The server behind hears nothing of it.
    Close,
    /// The server does what it was asked, and the connection is closed instead of its answer.
    Lose,
    /// Nothing comes, and the connection stays open. The server behind hears nothing of it.
    Hang,
}

impl Action {
    pub fn make(make: impl Fn(&Seen, &[u8]) -> Answer + Send + Sync + 'static) -> Action {
        Action::Make(Arc::new(make))
    }

    pub fn edit(edit: impl Fn(&mut Answer) + Send + Sync + 'static) -> Action {
        Action::Edit(Arc::new(edit))
    }
}

/// A request that came, and what became of it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    /// As it was sent, encoded.
    pub path: String,
    /// As it was sent, without the `?`.
    pub query: String,
    pub headers: Vec<(String, String)>,
    /// Bytes of its body that were taken.
    pub body: u64,
    /// Of the answer, once its first line has been sent.
    pub status: Option<u16>,
    /// Bytes of the answer's body that were sent.
    pub answered: u64,
}

impl Seen {
    /// The value of a header, in whatever case it is written.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

struct Rule {
    when: When,
    turns: (Bound<usize>, Bound<usize>),
    action: Action,
    met: usize,
}

#[derive(Default)]
struct State {
    stopped: bool,
    rules: Vec<Rule>,
    seen: Vec<Seen>,
    round_trip: Duration,
    connections: usize,
    /// By their method: the requests under way, and the most that there were at one time.
    under_way: HashMap<String, (usize, usize)>,
    /// Open sockets, by a number of their own, to be closed at the end.
    sockets: HashMap<usize, TcpStream>,
    last_socket: usize,
}

#[derive(Default)]
struct Shared {
    behind: Option<SocketAddr>,
    state: Mutex<State>,
    stop: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits, or fails because the server is stopped.
    fn wait(&self, time: Duration) -> io::Result<()> {
        let (state, _) = self.stop.wait_timeout_while(self.lock(), time, |state| !state.stopped).unwrap_or_else(PoisonError::into_inner);
        if state.stopped { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    }

    /// The socket is closed when the server stops.
    fn register(&self, socket: &TcpStream) -> io::Result<usize> {
        let copy = socket.try_clone()?;
        let mut state = self.lock();
        if state.stopped {
            return Err(io::ErrorKind::Interrupted.into());
        }
        state.last_socket += 1;
        let number = state.last_socket;
        state.sockets.insert(number, copy);
        Ok(number)
    }

    fn forget(&self, socket: usize) {
        self.lock().sockets.remove(&socket);
    }

    /// Takes the request down and says what is to be done with it, and its number.
    fn admit(&self, seen: Seen) -> (usize, Action) {
        let state = &mut *self.lock();
        let mut chosen = None;
        for rule in state.rules.iter_mut().filter(|rule| rule.when.is_for(&seen)) {
            rule.met += 1;
            if chosen.is_none() && rule.turns.contains(&rule.met) {
                chosen = Some(rule.action.clone());
            }
        }
        let (now, most) = state.under_way.entry(seen.method.clone()).or_default();
        *now += 1;
        *most = (*now).max(*most);
        state.seen.push(seen);
        (state.seen.len() - 1, chosen.unwrap_or(Action::Pass))
    }

    fn note(&self, number: usize, change: impl FnOnce(&mut Seen)) {
        if let Some(seen) = self.lock().seen.get_mut(number) {
            change(seen);
        }
    }
}

/// The server, stopped when this is dropped.
pub struct Scripted {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Scripted").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Scripted {
    /// In front of a server that speaks HTTP without TLS.
    pub fn before(endpoint: &Endpoint) -> io::Result<Scripted> {
        Scripted::start(Some(endpoint.address()))
    }

    /// With nothing behind it: what no rule is for is answered 501.
    pub fn alone() -> io::Result<Scripted> {
        Scripted::start(None)
    }

    fn start(behind: Option<SocketAddr>) -> io::Result<Scripted> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { behind, ..Shared::default() });
        let thread = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || listen(&listener, &shared)
        });
        Ok(Scripted { address, shared, thread: Some(thread) })
    }

    /// The URL of this server, with the keys that the one behind takes.
    pub fn endpoint(&self, behind: &Endpoint) -> Endpoint {
        Endpoint { url: format!("http://{}", self.address), ..behind.clone() }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on does this with some of the requests that `when` is for: `turns` counts them from 1, so `1..=1` is the first
    /// alone and `..` all. Of several rules the first that is for a request, and has its turn, is followed; all of them count it.
    pub fn rule(&self, when: When, turns: impl RangeBounds<usize>, action: Action) {
        let turns = (turns.start_bound().cloned(), turns.end_bound().cloned());
        self.shared.lock().rules.push(Rule { when, turns, action, met: 0 });
    }

    /// Forgets all rules and what was seen; connections stay.
    pub fn clear(&self) {
        self.shared.lock().rules.clear();
        self.clear_seen();
    }

    /// Forgets what was seen; the rules stay, and what they have counted.
    pub fn clear_seen(&self) {
        let state = &mut *self.shared.lock();
        state.seen.clear();
        state.under_way.values_mut().for_each(|(now, most)| *most = *now);
    }

    /// Every request takes so much longer, and so does the first of a connection once more, for its beginning.
    pub fn set_round_trip(&self, time: Duration) {
        self.shared.lock().round_trip = time;
    }

    /// All requests that came, in their order.
    pub fn requests(&self) -> Vec<Seen> {
        self.shared.lock().seen.clone()
    }

    /// How many requests came that this is for.
    pub fn count(&self, when: &When) -> usize {
        self.shared.lock().seen.iter().filter(|seen| when.is_for(seen)).count()
    }

    /// How many requests of a method were under way at one time.
    pub fn most_at_once(&self, method: &str) -> usize {
        self.shared.lock().under_way.get(method).map_or(0, |(_, most)| *most)
    }

    /// How many connections came.
    pub fn connections(&self) -> usize {
        self.shared.lock().connections
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            state.stopped = true;
            for socket in state.sockets.values() {
                // It may be closed.
                let _ = socket.shutdown(Shutdown::Both);
            }
        }
        self.shared.stop.notify_all();
        // The listener looks up from its waiting; it may have ended.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    for client in listener.incoming() {
        {
            let mut state = shared.lock();
            if state.stopped {
                break;
            }
            state.connections += 1;
        }
        let Ok(client) = client else { continue };
        threads.retain(|thread| !thread.is_finished());
        let shared = Arc::clone(shared);
        // What ends a connection with an error is for the client to see.
        threads.push(std::thread::spawn(move || drop(connection::serve(&shared, client))));
    }
    for thread in threads {
        // A panic is that of a test's rule, which has shown it.
        let _ = thread.join();
    }
}
