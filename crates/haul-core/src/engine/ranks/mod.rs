//! This rank among those that do a job together: gives work away, takes it over, and tells the others what they have to know.
//!
//! One thread receives. Whoever has something to say sends it: a worker after its task, the supervisor at a step.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

mod piles;
mod share;
mod together;

use crate::cancel::Stop;
use crate::entry::Kind;
use crate::error::{Error, ErrorKind, Result};
use crate::lock::lock;
use crate::report::Report;
use crate::rlimit;
use crate::store::Chunk;
use crate::team::message::{Counts, Message, Pile, Tally, WorkNumbers};
use crate::team::policy::{Policy, Share, Word};
use crate::team::{Team, counts};
use crate::tune::{TeamLimit, TeamTuner};

use super::context::Context;
use super::file::open_file::OpenFile;
use super::post_pass::sort;
use super::task::Reply;
use super::workers::{Shared, guarded, ring};

pub struct Ranks {
    team: Team,
    policy: Mutex<Policy>,
    /// How many ranks wait for work from here: looked at after every task.
    waiting: AtomicUsize,
    desk: Mutex<Desk>,
    /// Something new lies on the desk.
    news: Condvar,
    outgoing: Mutex<Outgoing>,
    /// Files of which others move chunks, by the lease.
    chunks: Mutex<HashMap<u64, LentChunks>>,
    /// The devices of the roots, as this node numbers them.
    devices: OnceLock<Vec<Option<u64>>>,
    /// Everything has been walked: of what is copied now, no more than chunks is given away. A file with several names would be
    /// taken for one that has to wait for them.
    walked: AtomicBool,
    /// The job ends before its time, and the others know.
    stopping: AtomicBool,
    /// At rank 0: it waits for the reports of the others.
    ending: AtomicBool,
    over: AtomicBool,
    receiver: Mutex<Option<JoinHandle<()>>>,
    /// At rank 0: shows the others that it is alive while it waits for its terminal, or for their reports.
    beater: Mutex<Option<JoinHandle<()>>>,
    supervisor: OnceLock<Arc<Shared>>,
    /// Rank 0: what all ranks may have together.
    tuner: Mutex<TeamTuner>,
    /// Rank 0: how they share the rate that the job is limited to.
    limit: Mutex<Option<TeamLimit>>,
    /// The most workers of this rank.
    share: AtomicU32,
}

/// A file, and the chunks of it that have not landed.
type LentChunks = (Arc<OpenFile>, Vec<Chunk>);

/// What other ranks have said and the supervisor deals with.
#[derive(Default)]
struct Desk {
    /// The step that rank 0 has begun, with the number of records that this rank gets.
    step: Option<(u32, u64)>,
    done: Vec<(u32, Tally)>,
    reports: Vec<(u32, Report)>,
    bye: bool,
    /// Records of [`Pile::Linked`] that have come.
    linked: u64,
    heard: HashMap<u32, Heard>,
    /// The receiver is busy with a message: it hears nobody meanwhile.
    is_busy: bool,
    /// How long it was busy with all messages before.
    busy: Duration,
    next_beat: Option<Instant>,
}

/// What is known of another rank.
struct Heard {
    at: Instant,
    /// How long the receiver had been busy by then.
    busy: Duration,
    node: String,
    counts: Counts,
    work: WorkNumbers,
}

/// Records that wait until a message is worth it.
#[derive(Default)]
struct Outgoing {
    batches: HashMap<(u32, u8), Vec<Vec<u8>>>,
    /// Records of [`Pile::Linked`] that have been sent to each rank.
    linked: HashMap<u32, u64>,
}

impl Ranks {
    /// `None` for a team of one.
    pub fn of(team: Team) -> Option<Ranks> {
        let (rank, ranks) = (team.transport.rank(), team.transport.ranks());
        (ranks > 1).then(|| Ranks {
            policy: Mutex::new(Policy::new(rank, ranks)),
            waiting: AtomicUsize::new(Policy::new(rank, ranks).waiting()),
            desk: Mutex::default(),
            news: Condvar::new(),
            outgoing: Mutex::default(),
            chunks: Mutex::default(),
            devices: OnceLock::new(),
            walked: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            over: AtomicBool::new(false),
            receiver: Mutex::default(),
            beater: Mutex::default(),
            supervisor: OnceLock::new(),
            share: AtomicU32::new(TeamTuner::new(ranks).share(rank)),
            tuner: Mutex::new(TeamTuner::new(ranks)),
            limit: Mutex::default(),
            team,
        })
    }

    /// This rank's share of the rate that the job is limited to, at the beginning.
    pub fn share_limit(&self, limit: Option<u64>) -> Option<u64> {
        let team = TeamLimit::new(limit?, self.team.transport.ranks());
        let share = team.share(self.rank());
        *lock(&self.limit) = Some(team);
        Some(share)
    }

    pub fn leads(&self) -> bool {
        self.rank() == 0
    }

    fn rank(&self) -> u32 {
        self.team.transport.rank()
    }

    fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let me = self.rank();
        (0..self.team.transport.ranks()).filter(move |rank| *rank != me)
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        lock(&self.desk)
    }

    /// Begins to listen to the others, who know that there is nothing to do here yet.
    pub fn start(&self, cx: &Arc<Context>, supervisor: Arc<Shared>) -> Result<()> {
        let _ = self.supervisor.set(supervisor);
        let now = Instant::now();
        self.desk().heard = self
            .others()
            .map(|rank| {
                (
                    rank,
                    Heard { at: now, busy: Duration::ZERO, node: String::new(), counts: Counts::default(), work: WorkNumbers::default() },
                )
            })
            .collect();
        let thread_cx = cx.clone();
        let receive = move || {
            let Some(ranks) = &thread_cx.ranks else { return };
            let receive = || guarded(&thread_cx, || ranks.receive(&thread_cx)) == Some(true);
            let mut hint_sequential = true;
            while hint_sequential && !ranks.over.load(Ordering::Acquire) {
                hint_sequential = receive();
            }
        };
        if !self.leads() {
            cx.sched.join();
        }
        *lock(&self.receiver) = Some(rlimit::spawn("team", receive)?);
        if self.leads() {
            let thread_cx = cx.clone();
            let beat = move || {
                let Some(ranks) = &thread_cx.ranks else { return };
                guarded(&thread_cx, || ranks.beat_while_printing(&thread_cx));
            };
            *lock(&self.beater) = Some(rlimit::spawn("alive", beat)?);
        } else {
            self.send(cx, 0, &Message::Alive(node(), Counts::default(), WorkNumbers::default()));
        }
        Ok(())
    }

    /// One message. `false`: there will be none any more.
    fn receive(&self, cx: &Arc<Context>) -> bool {
        match self.team.transport.receive(Duration::from_secs(1)) {
            Ok(None) => true,
            Ok(Some((from, bytes))) => {
                let begun = Instant::now();
                self.desk().is_busy = true;
                match Message::decode(&bytes) {
                    Some(message) => self.hear(cx, from, message),
                    None => self.foreign(cx, from),
                }
                let mut desk = self.desk();
                desk.busy += begun.elapsed();
                desk.is_busy = false;
                true
            }
            Err(e) => {
                self.lost(cx, &e);
                false
            }
        }
    }

    fn hear(&self, cx: &Arc<Context>, from: u32, message: Message) {
        let mut desk = self.desk();
        let busy = desk.busy;
        if let Some(heard) = desk.heard.get_mut(&from) {
            (heard.at, heard.busy) = (Instant::now(), busy);
        }
        drop(desk);
        match message {
            Message::Word(Word::Ask) if self.give(cx, from, Share::ALONE) => {}
            Message::Word(Word::Ask) => {
                let nothing = lock(&self.policy).nothing();
                self.say(cx, vec![(from, nothing)]);
            }
            Message::Word(Word::Nothing(origin)) => {
                let words = lock(&self.policy).refused(from, origin);
                self.say(cx, words);
            }
            Message::Word(Word::Wait) => {
                let mut policy = lock(&self.policy);
                policy.waits(from);
                self.waiting.store(policy.waiting(), Ordering::Relaxed);
                drop(policy);
                self.give_to_waiting(cx);
            }
            Message::Work { origin, leases } => self.take_over(cx, from, origin, &leases),
            Message::Confirmed => {
                if cx.sched.confirmed() {
                    self.idle(cx);
                }
            }
            Message::Done { lease, touched } => {
                cx.sched.end_outside(lease, Reply::Done { touched });
            }
            Message::WriteOutcome { lease, receipts, done } => self.chunks_landed(cx, lease, receipts, done),
            Message::Records(pile, records) => {
                let into = match pile {
                    Pile::Linked => &cx.post_pass.linked,
                    Pile::Dirs => &cx.post_pass.dirs,
                    Pile::Emptied => &cx.post_pass.emptied,
                };
                records.iter().for_each(|record| sort(into, &cx.out, record));
                if pile == Pile::Linked {
                    self.desk().linked += records.len() as u64;
                    self.ring();
                }
            }
            Message::Step { step, linked } => {
                self.desk().step = Some((step, linked));
                self.ring();
            }
            Message::StepDone { tally, .. } => {
                self.desk().done.push((from, tally));
                self.ring();
            }
            Message::Report(bytes) => match counts::decode(&bytes) {
                Some(report) => {
                    self.desk().reports.push((from, report));
                    self.news.notify_all();
                }
                None => self.foreign(cx, from),
            },
            Message::Bye => {
                self.desk().bye = true;
                self.news.notify_all();
            }
            Message::Stop { why, reason } => {
                if !self.stopping.swap(true, Ordering::AcqRel) {
                    if why == Stop::Failure {
                        self.team.transport.hurry();
                        cx.out.fail(&Error::new(ErrorKind::Broken, "work together").because(reason), Kind::Unknown);
                    }
                    cx.cancel.set(why);
                    self.ring();
                }
            }
            Message::Limit(rate) => cx.meter.limit_to(rate),
            Message::Workers(most) => self.share.store(most.max(1), Ordering::Relaxed),
            Message::Alive(node, counts, work) => {
                if let Some(heard) = self.desk().heard.get_mut(&from) {
                    (heard.node, heard.counts, heard.work) = (node, counts, work);
                }
            }
        }
    }

    fn say(&self, cx: &Context, words: Vec<(u32, Word)>) {
        words.into_iter().for_each(|(to, word)| self.send(cx, to, &Message::Word(word)));
    }

    fn send(&self, cx: &Context, to: u32, message: &Message) {
        if let Err(e) = self.team.transport.send(to, message.encode()) {
            self.lost(cx, &e);
        }
    }

    /// To a rank that may be gone by now.
    fn try_send(&self, to: u32, message: &Message) {
        let _ = self.team.transport.send(to, message.encode());
    }

    /// The ranks cannot go on together.
    fn lost(&self, cx: &Context, e: &Error) {
        if self.over.load(Ordering::Acquire) || self.stopping.load(Ordering::Acquire) {
            return;
        }
        cx.out.fail(e, Kind::Unknown);
        cx.cancel.set(Stop::Failure);
        self.team.transport.hurry();
        self.stop_all(Stop::Failure, e.reason());
        self.ring();
    }

    fn foreign(&self, cx: &Context, from: u32) {
        let e = Error::new(ErrorKind::Broken, "work together");
        self.lost(cx, &e.because(format!("rank {from} sent what this rank does not understand: all must be the same build of haul")));
    }

    fn stop_all(&self, why: Stop, reason: String) {
        if !self.stopping.swap(true, Ordering::AcqRel) {
            let stop = Message::Stop { why, reason };
            self.others().for_each(|rank| self.try_send(rank, &stop));
        }
    }

    fn ring(&self) {
        if let Some(shared) = self.supervisor.get() {
            ring(shared);
        }
    }
}

fn node() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
