//! Sessions with one server, made when they are wanted and kept for the next caller.
//!
//! A server that allows fewer than are wanted refuses one: from then on callers wait for a session that is free.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Result};

use super::intake::Intake;
use super::login::{Dialer, Known, Refused};
use super::session::Session;
use super::stripes::Outlets;
use haul_core::lock::lock;

/// A session that was idle for this long is asked whether it still is one before it is used.
const STALE: Duration = Duration::from_secs(20);
/// How often a caller that waits for a session looks whether others move on.
const LOOK: Duration = Duration::from_millis(500);

pub struct Pool {
    pub dialer: Dialer,
    state: Mutex<PoolState>,
    freed: Condvar,
    /// Grows with every byte and every session that is given back.
    pub progress: AtomicU64,
}

struct PoolState {
    idle: Vec<(Session, Instant)>,
    /// Idle ones and those in use.
    open: usize,
    /// Of the open ones, those that are being made ahead, and callers that wait for one of these.
    coming: usize,
    awaiting: usize,
    most: usize,
    /// Owners of sessions that are kept for a request that may follow.
    parked: Vec<Weak<dyn Parked>>,
}

/// Keeps sessions for later, and gives them back if somebody else needs one.
pub trait Parked: Send + Sync {
    /// Gives sessions back; whether there was one.
    fn release(&self) -> bool;
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({})", self.dialer.endpoint())
    }
}

impl Pool {
    /// Logs in once; as soon as that is accepted, further sessions are made up to `ahead`, for what they are wanted for.
    pub fn new(dialer: Dialer, most: usize, ahead: Option<(usize, Wanted)>) -> Result<Arc<Pool>> {
        let state = PoolState { idle: Vec::new(), open: 1, coming: 0, awaiting: 0, most: most.max(1), parked: Vec::new() };
        let pool = Arc::new(Pool { dialer, state: Mutex::new(state), freed: Condvar::new(), progress: AtomicU64::new(0) });
        let admitted = || {
            if let Some((ahead, wanted)) = ahead {
                pool.prepare(ahead, wanted);
            }
        };
        let session = pool.dialer.dial_and(Wanted::Stream, &admitted).map_err(|refused| match refused {
            Refused::TooMany(e) | Refused::For(e) => e,
        })?;
        lock(&pool.state).idle.push((session, Instant::now()));
        Ok(pool)
    }

    pub fn known(&self) -> Option<&Known> {
        self.dialer.known.get()
    }

    pub fn most(&self) -> usize {
        lock(&self.state).most
    }

    /// A session for the caller alone, until it is dropped.
    /// Error: Those of a login; `TimedOut` where all sessions are in use and none of them moves on.
    pub fn take(self: &Arc<Pool>) -> Result<Lease> {
        self.take_for(Wanted::Stream)
    }

    /// The same, and if there is one, a session that is ready for what is wanted.
    pub fn take_for(self: &Arc<Pool>, wanted: Wanted) -> Result<Lease> {
        self.find(wanted, true)?.ok_or_else(|| Error::new(ErrorKind::Other, "connect"))
    }

    /// A session that is not in use, or one more where the server allows it now; without waiting for others.
    pub fn take_spare(self: &Arc<Pool>) -> Option<Lease> {
        self.find(Wanted::Stream, false).ok().flatten()
    }

    /// `None` where it would have to wait for others, and does not.
    fn find(self: &Arc<Pool>, wanted: Wanted, waits: bool) -> Result<Option<Lease>> {
        let lease = |session| Ok(Some(Lease { pool: self.clone(), session: Some(session) }));
        let mut waited = Waited::new(self);
        let mut state = lock(&self.state);
        loop {
            let fits = state.idle.iter().rposition(|(session, _)| match wanted {
                Wanted::Stream => !session.is_extended(),
                Wanted::Blocks => session.blocks.is_some(),
                Wanted::Intake => session.intake.is_some() || session.offered.is_some(),
            });
            if let Some((session, since)) = fits.map(|at| state.idle.remove(at)).or_else(|| state.idle.pop()) {
                let stale = since.elapsed() > STALE;
                drop(state);
                if let Some(session) = self.revived(session, stale) {
                    return lease(session);
                }
                state = lock(&self.state);
                state.open -= 1;
                continue;
            }
            if waits && state.coming > state.awaiting {
                state.awaiting += 1;
                state = self.freed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
                state.awaiting -= 1;
                continue;
            }
            if state.open < state.most {
                state.open += 1;
                drop(state);
                match self.dial(wanted) {
                    Ok(session) => return lease(session),
                    Err(None) => {}
                    Err(Some(e)) => return Err(e),
                }
                state = lock(&self.state);
                continue;
            }
            if !waits {
                return Ok(None);
            }
            let parked = state.parked.clone();
            if !parked.is_empty() {
                drop(state);
                let released = parked.iter().filter_map(Weak::upgrade).any(|owner| owner.release());
                state = lock(&self.state);
                if released || !state.idle.is_empty() || state.open < state.most {
                    continue;
                }
            }
            state = self.freed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
            if waited.too_long(self) {
                let e = Error::new(ErrorKind::TimedOut, "connect").because(format!("all {} connections are in use", state.open));
                return Err(e.at(self.dialer.endpoint().as_bytes()).hint("the server allows no more of them: copy with -j 1"));
            }
        }
    }

    /// Makes a session that is counted among the open ones. A refusal beside others is their greatest number from then on, and no error.
    fn dial(&self, wanted: Wanted) -> Result<Session, Option<Error>> {
        self.dialer.dial(wanted).map_err(|refused| {
            let mut state = lock(&self.state);
            state.open -= 1;
            match refused {
                Refused::TooMany(_) if state.open > 0 => {
                    state.most = state.open;
                    None
                }
                Refused::TooMany(e) | Refused::For(e) => Some(e),
            }
        })
    }

    /// Makes sessions ahead, of which `most` are open then at the most. A failure is left to whoever needs one more.
    pub fn prepare(self: &Arc<Pool>, most: usize, wanted: Wanted) {
        loop {
            let mut state = lock(&self.state);
            if state.open >= state.most.min(most) {
                return;
            }
            (state.open, state.coming) = (state.open + 1, state.coming + 1);
            drop(state);
            let pool = self.clone();
            let made = move || {
                let session = pool.dial(wanted).ok();
                let mut state = lock(&pool.state);
                state.coming -= 1;
                state.idle.extend(session.map(|session| (session, Instant::now())));
                drop(state);
                pool.freed.notify_all();
            };
            if std::thread::Builder::new().name("login".into()).spawn(made).is_err() {
                let mut state = lock(&self.state);
                (state.open, state.coming) = (state.open - 1, state.coming - 1);
                return;
            }
        }
    }

    /// Whether an idle session is still one.
    fn revived(&self, mut session: Session, stale: bool) -> Option<Session> {
        let is_closed = session.blocks.as_ref().is_some_and(Outlets::is_closed) || session.intake.as_ref().is_some_and(Intake::is_closed);
        if !session.is_usable() || is_closed {
            return None;
        }
        if session.control.owed > 0 || !stale {
            return (session.control.owed > 0 || session.control.is_quiet()).then_some(session);
        }
        let alive = session.control.is_quiet() && session.ask("NOOP", b"", "connect").is_ok_and(|reply| reply.is_done());
        alive.then_some(session)
    }

    /// Has `owner` asked for its sessions when others need one, as long as it lives.
    pub fn park(&self, owner: Weak<dyn Parked>) {
        let mut state = lock(&self.state);
        state.parked.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&owner));
        state.parked.push(owner);
        // Another caller may be waiting.
        self.freed.notify_all();
    }

    pub fn moved(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    fn give_back(&self, session: Session) {
        let mut state = lock(&self.state);
        if session.is_usable() && state.open <= state.most {
            state.idle.push((session, Instant::now()));
        } else {
            state.open -= 1;
        }
        drop(state);
        self.moved();
        self.freed.notify_one();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Stream,
    /// Sending in extended block mode.
    Blocks,
    /// Receiving in it.
    Intake,
}

/// How long nothing has moved on any session.
struct Waited {
    seen: u64,
    since: Instant,
}

impl Waited {
    fn new(pool: &Pool) -> Waited {
        Waited { seen: pool.progress.load(Ordering::Relaxed), since: Instant::now() }
    }

    fn too_long(&mut self, pool: &Pool) -> bool {
        let now = pool.progress.load(Ordering::Relaxed);
        if now != self.seen {
            *self = Waited { seen: now, since: Instant::now() };
        }
        self.since.elapsed() > pool.dialer.wait
    }
}

/// A session of the pool's; it goes back when this is dropped.
#[derive(Debug)]
pub struct Lease {
    pool: Arc<Pool>,
    session: Option<Session>,
}

impl Deref for Lease {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session.as_ref().expect("taken only when this is dropped")
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut Session {
        self.session.as_mut().expect("taken only when this is dropped")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.pool.give_back(session);
        }
    }
}
