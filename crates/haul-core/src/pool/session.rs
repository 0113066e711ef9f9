//! The ranks of a job, from their first stage to the last: one receiver for all of them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::lock::lock;
use crate::rlimit;
use crate::team::Team;
use crate::team::wire::{Cursor, put_all, put_bytes};

/// Between two signs of life.
const BEAT: Duration = Duration::from_secs(5);

/// What ranks send to each other about a stage.
#[derive(Debug)]
pub enum Message {
    /// From rank 0: a stage begins, with words about it.
    Begin(Vec<u8>),
    Items(Vec<Vec<u8>>),
    /// From rank 0: somebody has nothing to do.
    Ask,
    /// To rank 0: nothing is left here.
    Idle,
    /// To rank 0: the sender takes no part.
    Out,
    /// To rank 0: what came of the work.
    Result(Vec<u8>),
    /// From rank 0: the stage is over.
    End,
    /// From rank 0: there are no more stages.
    Leave,
    /// With the name of the sender's node.
    Alive(String),
    /// The sender ends all, for this reason.
    Failed(String),
}

impl Message {
    fn encode(&self, stage: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let begin = |out: &mut Vec<u8>, number| put_all(out, &[number, stage]);
        match self {
            Message::Begin(words) => {
                begin(&mut out, 0);
                put_bytes(&mut out, words);
            }
            Message::Items(items) => {
                begin(&mut out, 1);
                items.iter().for_each(|item| put_bytes(&mut out, item));
            }
            Message::Ask => begin(&mut out, 2),
            Message::Idle => begin(&mut out, 3),
            Message::Out => begin(&mut out, 4),
            Message::Result(bytes) => {
                begin(&mut out, 5);
                put_bytes(&mut out, bytes);
            }
            Message::End => begin(&mut out, 6),
            Message::Leave => begin(&mut out, 7),
            Message::Alive(node) => {
                begin(&mut out, 8);
                put_bytes(&mut out, node.as_bytes());
            }
            Message::Failed(reason) => {
                begin(&mut out, 9);
                put_bytes(&mut out, reason.as_bytes());
            }
        }
        out
    }

    /// `None` for what [`Message::encode`] has not made.
    fn decode(bytes: &[u8]) -> Option<(u64, Message)> {
        let mut from = Cursor(bytes);
        let (number, stage) = (from.number()?, from.number()?);
        let message = match number {
            0 => Message::Begin(from.bytes()?.to_vec()),
            1 => {
                let mut items = Vec::new();
                while !from.is_empty() {
                    items.push(from.bytes()?.to_vec());
                }
                Message::Items(items)
            }
            2 => Message::Ask,
            3 => Message::Idle,
            4 => Message::Out,
            5 => Message::Result(from.bytes()?.to_vec()),
            6 => Message::End,
            7 => Message::Leave,
            8 => Message::Alive(from.text()?),
            9 => Message::Failed(from.text()?),
            _ => return None,
        };
        from.is_empty().then_some((stage, message))
    }
}

/// A pool, whatever is in it.
pub trait Member: Send + Sync {
    fn hear(&self, from: u32, message: Message);
    /// All is over, for this reason.
    fn stop(&self, error: Error);
}

/// Takes what another rank has sent of its work; `false` if it is not understood.
type Results = dyn Fn(u32, &[u8]) -> bool + Send + Sync;

/// The ranks of a job.
pub struct Session {
    team: Team,
    desk: Mutex<Desk>,
    news: Condvar,
    over: AtomicBool,
    receiver: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Desk {
    stage: u64,
    member: Option<(u64, Arc<dyn Member>)>,
    results: Option<Arc<Results>>,
    begun: VecDeque<(u64, Vec<u8>)>,
    left: bool,
    lost: Option<(ErrorKind, String)>,
    /// The pool and the other ranks know.
    announced: bool,
    heard: HashMap<u32, (Instant, String)>,
    next_beat: Option<Instant>,
}

impl Session {
    /// Begins to listen. All messages are the session's until it is dropped.
    ///
    /// # Errors
    /// `Limit` if there is no thread.
    pub fn open(team: Team) -> Result<Arc<Session>> {
        let now = Instant::now();
        let heard = (0..team.transport.ranks()).filter(|rank| *rank != team.transport.rank()).map(|rank| (rank, (now, String::new())));
        let desk = Desk { heard: heard.collect(), ..Desk::default() };
        let session = Arc::new(Session {
            team,
            desk: Mutex::new(desk),
            news: Condvar::new(),
            over: AtomicBool::new(false),
            receiver: Mutex::default(),
        });
        let listening = session.clone();
        let receive = move || {
            while !listening.over.load(Ordering::Acquire) {
                listening.receive();
            }
        };
        *lock(&session.receiver) = Some(rlimit::spawn("ranks", receive)?);
        Ok(session)
    }

    pub fn leads(&self) -> bool {
        self.team.transport.rank() == 0
    }

    /// Rank 0: what all ranks do next, with words that say what; `results` gets what others send of it.
    pub fn stage(self: &Arc<Self>, words: Vec<u8>, results: impl Fn(u32, &[u8]) -> bool + Send + Sync + 'static) -> Stage {
        let mut desk = self.desk();
        desk.stage += 1;
        desk.results = Some(Arc::new(results));
        Stage { session: self.clone(), number: desk.stage, words: Some(words) }
    }

    /// Another rank: the next stage, when it begins, and the words about it. `None` at the end.
    ///
    /// # Errors
    /// Why the ranks cannot go on together.
    pub fn next(self: &Arc<Self>) -> Result<Option<(Stage, Vec<u8>)>> {
        let mut desk = self.desk();
        loop {
            desk.check()?;
            if let Some((number, words)) = desk.begun.pop_front() {
                return Ok(Some((Stage { session: self.clone(), number, words: None }, words)));
            }
            if desk.left {
                return Ok(None);
            }
            desk = self.news.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The end: rank 0 sends the others away.
    pub fn close(&self) {
        if self.leads() {
            self.to_all(0, &Message::Leave);
        }
        self.over.store(true, Ordering::Release);
        let _ = self.team.transport.send(self.team.transport.rank(), Message::Leave.encode(0)); // wakes the receiver
        if let Some(receiver) = lock(&self.receiver).take() {
            let _ = receiver.join();
        }
    }

    /// Why the ranks cannot go on together, if so.
    ///
    /// # Errors
    /// That.
    pub fn check(&self) -> Result<()> {
        self.desk().check()
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        lock(&self.desk)
    }

    fn receive(self: &Arc<Self>) {
        match self.team.transport.receive(Duration::from_secs(1).min(self.team.silence / 8)) {
            Ok(None) => {}
            Ok(Some((from, bytes))) => match Message::decode(&bytes) {
                Some((stage, message)) => self.hear(from, stage, message),
                None => self.fail(&super::foreign(from)),
            },
            Err(e) => {
                self.fail(&e);
                self.over.store(true, Ordering::Release);
            }
        }
        self.watch();
    }

    fn hear(&self, from: u32, stage: u64, message: Message) {
        let mut desk = self.desk();
        if let Some(heard) = desk.heard.get_mut(&from) {
            heard.0 = Instant::now();
        }
        match message {
            Message::Alive(node) => {
                if let Some(heard) = desk.heard.get_mut(&from) {
                    heard.1 = node;
                }
            }
            Message::Begin(words) => desk.begun.push_back((stage, words)),
            Message::Leave => desk.left = true,
            Message::Failed(reason) => {
                desk.lost.get_or_insert((ErrorKind::Broken, reason));
                drop(desk);
                self.announce();
            }
            Message::Result(bytes) => {
                let results = desk.results.clone().filter(|_| stage == desk.stage);
                drop(desk);
                if results.is_some_and(|results| !results(from, &bytes)) {
                    self.fail(&super::foreign(from));
                }
            }
            other => {
                let member = desk.member.as_ref().filter(|(number, _)| *number == stage).map(|(_, member)| member.clone());
                drop(desk);
                if let Some(member) = member {
                    member.hear(from, other);
                }
            }
        }
        self.news.notify_all();
    }

    /// Shows that this rank is alive, and ends all if another is not.
    fn watch(&self) {
        let now = Instant::now();
        self.announce();
        let mut desk = self.desk();
        if desk.next_beat.is_some_and(|next| now < next) {
            return;
        }
        desk.next_beat = Some(now + BEAT.min(self.team.silence / 4));
        let leads = self.leads();
        let silent = |(rank, (at, node)): (&u32, &(Instant, String))| {
            ((leads || *rank == 0) && now.saturating_duration_since(*at) > self.team.silence).then(|| (*rank, node.clone()))
        };
        let silent = desk.heard.iter().find_map(silent);
        let over = desk.left || desk.lost.is_some();
        drop(desk);
        if over || self.over.load(Ordering::Acquire) {
            return;
        }
        if let Some((rank, node)) = silent {
            let on = if node.is_empty() { String::new() } else { format!(" on {node}") };
            let reason = format!("rank {rank}{on} has not responded for {} s", self.team.silence.as_secs());
            return self.fail(&Error::new(ErrorKind::Broken, "work together").because(reason));
        }
        let alive = Message::Alive(node_name());
        if leads { self.to_all(0, &alive) } else { self.to(0, 0, &alive) }
    }

    /// The ranks cannot go on; all of them receive the reason.
    fn fail(&self, e: &Error) {
        self.desk().lost.get_or_insert_with(|| (e.kind(), e.reason()));
        self.announce();
    }

    fn announce(&self) {
        let mut desk = self.desk();
        let Some((kind, reason)) = desk.lost.clone().filter(|_| !desk.announced) else { return };
        desk.announced = true;
        let member = desk.member.as_ref().map(|(_, member)| member.clone());
        drop(desk);
        if let Some(member) = member {
            member.stop(Error::new(kind, "work together").because(reason.clone()));
        }
        self.news.notify_all();
        self.team.transport.hurry();
        let failed = Message::Failed(reason).encode(0);
        for rank in (0..self.team.transport.ranks()).filter(|rank| *rank != self.team.transport.rank()) {
            let _ = self.team.transport.send(rank, failed.clone()); // it may be gone
        }
    }

    fn to(&self, rank: u32, stage: u64, message: &Message) {
        if let Err(e) = self.team.transport.send(rank, message.encode(stage)) {
            // Announced by the receiver: who sends may hold what that needs.
            let reason = (e.kind(), e.reason());
            self.desk().lost.get_or_insert(reason);
        }
    }

    fn to_all(&self, stage: u64, message: &Message) {
        (0..self.team.transport.ranks()).filter(|rank| *rank != self.team.transport.rank()).for_each(|rank| self.to(rank, stage, message));
    }
}

impl Desk {
    fn check(&self) -> Result<()> {
        match &self.lost {
            None => Ok(()),
            Some((kind, reason)) => Err(Error::new(*kind, "work together").because(reason.clone())),
        }
    }
}

/// One pool's work, done by all ranks.
pub struct Stage {
    session: Arc<Session>,
    number: u64,
    /// At rank 0, until it has begun.
    words: Option<Vec<u8>>,
}

impl Stage {
    pub fn leads(&self) -> bool {
        self.session.leads()
    }

    pub(super) fn followers(&self) -> u32 {
        if self.leads() { self.session.team.transport.ranks() - 1 } else { 0 }
    }

    /// Another rank than the first: it takes no part in this stage.
    pub fn out(self) {
        self.to(0, &Message::Out);
    }

    /// What sends results, for another rank than the first.
    pub fn results(&self) -> impl Fn(Vec<u8>) + Send + Sync + use<> {
        let (session, number) = (self.session.clone(), self.number);
        move |bytes| session.to(0, number, &Message::Result(bytes))
    }

    pub(super) fn enter(&self, member: Arc<dyn Member>) -> Result<()> {
        let mut desk = self.session.desk();
        desk.check()?;
        desk.member = Some((self.number, member));
        drop(desk);
        if let Some(words) = &self.words {
            self.to_all(&Message::Begin(words.clone()));
        }
        Ok(())
    }

    pub(super) fn leave(&self, failed: Option<&Error>) {
        self.session.desk().member = None;
        if let Some(e) = failed {
            self.session.fail(e);
        }
    }

    pub(super) fn to(&self, rank: u32, message: &Message) {
        self.session.to(rank, self.number, message);
    }

    pub(super) fn to_all(&self, message: &Message) {
        self.session.to_all(self.number, message);
    }
}

fn node_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
