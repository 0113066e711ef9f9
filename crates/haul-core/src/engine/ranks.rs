//! This rank among those that do a job together: gives work away, takes it over, and tells the others what they have to know.
//!
//! One thread receives. Whoever has something to say sends it: a worker after its task, the supervisor at a step.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::cancel::Stop;
use crate::entry::{Dir, Entry, Kind, MetaMask, Name};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::xxh128;
use crate::lock::lock;
use crate::report::Report;
use crate::rlimit;
use crate::schedule::{DirWork, Lease, Portion};
use crate::store::{Chunk, Receipt};
use crate::team::message::{Counts, Message, Pile, Tally};
use crate::team::policy::{Policy, Word, portion};
use crate::team::{Team, counts};

use super::context::Context;
use super::file::open_file::OpenFile;
use super::file::part;
use super::leases::{Borrowed, pack, unpack};
use super::post_pass::sort;
use super::task::Reply;
use super::tries::retry;
use super::workers::{Shared, guarded, ring};

/// Records that go to a rank by one message.
const RECORDS: usize = 256;
/// How long ranks wait for each other at the end of a job that was stopped.
const GRACE: Duration = Duration::from_secs(2);
/// Between two signs of life, and between two for the display of rank 0.
const BEAT: Duration = Duration::from_secs(5);
const DISPLAY: Duration = Duration::from_secs(1);

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
    over: AtomicBool,
    receiver: Mutex<Option<JoinHandle<()>>>,
    supervisor: OnceLock<Arc<Shared>>,
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
    next_beat: Option<Instant>,
}

/// What is known of another rank.
struct Heard {
    at: Instant,
    node: String,
    counts: Counts,
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
            waiting: AtomicUsize::new(0),
            desk: Mutex::default(),
            news: Condvar::new(),
            outgoing: Mutex::default(),
            chunks: Mutex::default(),
            devices: OnceLock::new(),
            walked: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            over: AtomicBool::new(false),
            receiver: Mutex::default(),
            supervisor: OnceLock::new(),
            team,
        })
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

    /// Begins to listen to the others, and says that there is nothing to do here yet.
    pub fn start(&self, cx: &Arc<Context>, supervisor: Arc<Shared>) -> Result<()> {
        let _ = self.supervisor.set(supervisor);
        let now = Instant::now();
        self.desk().heard = self.others().map(|rank| (rank, Heard { at: now, node: String::new(), counts: Counts::default() })).collect();
        let thread_cx = cx.clone();
        let receive = move || {
            let Some(ranks) = &thread_cx.ranks else { return };
            let receive = || guarded(&thread_cx, || ranks.receive(&thread_cx)) == Some(true);
            let mut goes_on = true;
            while goes_on && !ranks.over.load(Ordering::Acquire) {
                goes_on = receive();
            }
        };
        *lock(&self.receiver) = Some(rlimit::spawn("team", receive)?);
        if !self.leads() {
            cx.sched.join();
            self.send(cx, 0, &Message::Alive(node(), Counts::default()));
            self.hungry(cx);
        }
        Ok(())
    }

    /// One message. `false`: there will be none any more.
    fn receive(&self, cx: &Arc<Context>) -> bool {
        match self.team.transport.receive(Duration::from_secs(1)) {
            Ok(None) => true,
            Ok(Some((from, bytes))) => {
                match Message::decode(&bytes) {
                    Some(message) => self.hear(cx, from, message),
                    None => self.foreign(cx, from),
                }
                true
            }
            Err(e) => {
                self.lost(cx, &e);
                false
            }
        }
    }

    fn hear(&self, cx: &Arc<Context>, from: u32, message: Message) {
        if let Some(heard) = self.desk().heard.get_mut(&from) {
            heard.at = Instant::now();
        }
        match message {
            Message::Word(Word::Ask) if self.give(cx, from, 1) => {}
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
            Message::Landed { lease, receipts, done } => self.chunks_landed(cx, lease, receipts, done),
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
                        cx.out.fail(&Error::new(ErrorKind::Broken, "work together").because(reason), Kind::Unknown);
                    }
                    cx.cancel.set(why);
                    self.ring();
                }
            }
            Message::Alive(node, counts) => {
                if let Some(heard) = self.desk().heard.get_mut(&from) {
                    (heard.node, heard.counts) = (node, counts);
                }
            }
        }
    }

    /// There may be more to give, in the middle of a task that takes long.
    pub fn offer(&self, cx: &Context) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.give_to_waiting(cx);
        }
    }

    /// After a worker's task, which may have found more to do or may have been the last.
    pub fn after_task(&self, cx: &Arc<Context>, idle: bool) {
        self.offer(cx);
        if idle {
            self.idle(cx);
        }
        if cx.sched.stock().dry {
            self.hungry(cx);
        }
    }

    fn hungry(&self, cx: &Context) {
        if cx.cancel.is_set() {
            return;
        }
        let words = lock(&self.policy).hungry();
        self.say(cx, words);
    }

    /// Nothing is left here, nor with anybody who has work from here.
    fn idle(&self, cx: &Context) {
        let by = {
            // No work is taken over while this is decided.
            let mut policy = lock(&self.policy);
            if cx.sched.standing().idle { policy.done() } else { None }
        };
        match by {
            Some(by) => self.send(cx, by, &Message::Confirmed),
            None => self.ring(),
        }
    }

    /// `false` if there is nothing that could be given to one of so many.
    fn give(&self, cx: &Context, to: u32, waiting: usize) -> bool {
        let mut chosen = Default::default();
        let lent = cx.sched.lend(|stock| {
            chosen = (stock, portion(stock, waiting));
            if self.walked.load(Ordering::Acquire) {
                chosen.1 = Portion { chunks: chosen.1.chunks, ..Portion::default() };
            }
            chosen.1
        });
        // Not in there: what is known of the others is locked before the queues are.
        let origin = lock(&self.policy).origin(chosen.0, chosen.1);
        if lent.is_empty() {
            return false;
        }
        let mut leases = Vec::with_capacity(lent.len());
        for (id, part) in lent {
            match pack(cx, self, id, part) {
                Some(lease) => leases.push(lease),
                None => {
                    cx.sched.end_outside(id, Reply::Nothing);
                }
            }
        }
        if leases.is_empty() {
            cx.sched.confirmed();
            return false;
        }
        self.send(cx, to, &Message::Work { origin, leases });
        true
    }

    /// Remembers what of a file another rank moves.
    pub fn lent_chunks(&self, lease: u64, file: Arc<OpenFile>, chunks: Vec<Chunk>) {
        lock(&self.chunks).insert(lease, (file, chunks));
    }

    fn chunks_landed(&self, cx: &Context, lease: u64, receipts: Vec<Receipt>, done: bool) {
        let file = {
            let mut lent = lock(&self.chunks);
            let Some((file, chunks)) = lent.get_mut(&lease) else { return };
            let landed: HashSet<u32> = receipts.iter().map(|receipt| receipt.index).collect();
            chunks.retain(|chunk| !landed.contains(&chunk.index));
            file.clone()
        };
        part::landed(cx, &file, receipts);
        if done && let Some((file, left)) = lock(&self.chunks).remove(&lease) {
            cx.sched.end_outside(lease, Reply::Chunks(file, left));
        }
    }

    /// Tells the rank whose file it is what has landed here.
    pub fn landed(&self, cx: &Context, lease: Lease, receipts: Vec<Receipt>, done: bool) {
        self.send(cx, lease.rank, &Message::Landed { lease: lease.id, receipts, done });
    }

    fn give_to_waiting(&self, cx: &Context) {
        loop {
            let (next, waiting) = {
                let mut policy = lock(&self.policy);
                (policy.next_waiting(), policy.waiting() + 1)
            };
            let Some(next) = next else { break };
            if !self.give(cx, next, waiting) {
                let words = lock(&self.policy).waits_on(next);
                self.say(cx, words);
                break;
            }
        }
        let policy = lock(&self.policy);
        self.waiting.store(policy.waiting(), Ordering::Relaxed);
    }

    fn take_over(&self, cx: &Arc<Context>, from: u32, origin: Option<u32>, leases: &[Vec<u8>]) {
        let Some(borrowed) = leases.iter().map(|lease| unpack(cx, from, lease)).collect::<Option<Vec<_>>>() else {
            return self.foreign(cx, from);
        };
        let confirm = {
            let mut policy = lock(&self.policy);
            for Borrowed { work, dirs, names, file } in borrowed {
                cx.sched.adopt(&work, dirs, names, file);
            }
            policy.fed(from, origin)
        };
        if confirm {
            self.send(cx, from, &Message::Confirmed);
        }
        self.offer(cx);
    }

    /// Whether a directory that is complete here only stands for one of another rank, which gets its reply.
    pub fn gives_back(&self, cx: &Context, work: &DirWork) -> bool {
        let Some(lease) = work.lease else { return false };
        let touched = work.touched.load(Ordering::Relaxed);
        self.send(cx, lease.rank, &Message::Done { lease: lease.id, touched });
        true
    }

    /// The device of an entry, as all nodes number it: of the file system of a root, the first root that lies on it. What is
    /// mounted below a root has another number on each node: its files are told apart by what else is known of them.
    pub fn device(&self, cx: &Context, root: usize, entry: &Entry) -> u64 {
        let devices = self.devices.get_or_init(|| {
            let top = Name::of(&Dir::root());
            cx.job.roots.iter().map(|root| retry(|| root.store.stat(&top, MetaMask::NONE)).ok().map(|top| top.dev)).collect()
        });
        if devices.get(root).copied().flatten() == Some(entry.dev) {
            return devices.iter().position(|device| *device == Some(entry.dev)).unwrap_or(root) as u64;
        }
        let known = format!("{root} {} {} {} {:?}", entry.dev, entry.ino, entry.size, entry.mtime);
        xxh128(known.as_bytes()) as u64 | 1 << 63
    }

    /// A name of a file with several: all of them meet at one rank, which the number of the inode chooses.
    pub fn linked(&self, cx: &Context, ino: u64, record: Vec<u8>) {
        let home = (xxh128(&ino.to_le_bytes()) % u128::from(self.team.transport.ranks())) as u32;
        if home == self.rank() {
            return sort(&cx.post_pass.linked, &cx.out, &record);
        }
        *lock(&self.outgoing).linked.entry(home).or_default() += 1;
        self.collect(cx, home, Pile::Linked, record);
    }

    /// Leaves a record to rank 0.
    pub fn leave(&self, cx: &Context, pile: Pile, record: &[u8]) {
        self.collect(cx, 0, pile, record.to_vec());
    }

    fn collect(&self, cx: &Context, to: u32, pile: Pile, record: Vec<u8>) {
        let full = {
            let mut outgoing = lock(&self.outgoing);
            let batch = outgoing.batches.entry((to, pile as u8)).or_default();
            batch.push(record);
            if batch.len() >= RECORDS { std::mem::take(batch) } else { Vec::new() }
        };
        if !full.is_empty() {
            self.send(cx, to, &Message::Records(pile, full));
        }
    }

    /// The walk is over: sends what was collected, and says how many names of files with several each rank has got from here.
    pub fn flush(&self, cx: &Context) -> Vec<(u32, u64)> {
        self.walked.store(true, Ordering::Release);
        let (batches, linked) = {
            let mut outgoing = lock(&self.outgoing);
            (std::mem::take(&mut outgoing.batches), outgoing.linked.drain().collect())
        };
        for ((to, pile), records) in batches.into_iter().filter(|(_, records)| !records.is_empty()) {
            let pile = [Pile::Linked, Pile::Dirs, Pile::Emptied][usize::from(pile)];
            self.send(cx, to, &Message::Records(pile, records));
        }
        linked
    }

    /// Rank 0: all others are to do a step; `linked` is what each gets of names of files with several.
    pub fn begin_step(&self, cx: &Context, step: u32, linked: &HashMap<u32, u64>) {
        self.desk().done.clear();
        for rank in self.others() {
            let linked = linked.get(&rank).copied().unwrap_or(0);
            self.send(cx, rank, &Message::Step { step, linked });
        }
    }

    /// Rank 0: whether all others have done the step.
    pub fn all_done(&self) -> bool {
        self.desk().done.len() as u32 + 1 == self.team.transport.ranks()
    }

    /// Rank 0: what the others said at its end.
    pub fn tallies(&self) -> Vec<(u32, Tally)> {
        std::mem::take(&mut self.desk().done)
    }

    /// The step to be done next, if rank 0 has begun one.
    pub fn take_step(&self) -> Option<(u32, u64)> {
        self.desk().step.take()
    }

    pub fn end_step(&self, cx: &Context, step: u32, tally: Tally, counts: Counts) {
        self.send(cx, 0, &Message::Alive(node(), counts));
        self.send(cx, 0, &Message::StepDone { step, tally });
    }

    pub fn linked_received(&self) -> u64 {
        self.desk().linked
    }

    /// Rank 0: how far all others are together.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for heard in self.desk().heard.values() {
            sum.iter_mut().zip(heard.counts).for_each(|(sum, count)| *sum += count);
        }
        sum
    }

    /// Shows that this rank is alive and how far it is, and ends the job if another is not.
    pub fn watch(&self, cx: &Context, now: Instant, counts: impl FnOnce() -> Counts) {
        let mut desk = self.desk();
        if desk.next_beat.is_some_and(|next| now < next) {
            return;
        }
        let beat = if self.leads() { BEAT } else { DISPLAY };
        desk.next_beat = Some(now + beat.min(self.team.silence / 4));
        let silent = |(rank, heard): (&u32, &Heard)| {
            let watched = self.leads() || *rank == 0;
            (watched && now.saturating_duration_since(heard.at) > self.team.silence).then(|| (*rank, heard.node.clone()))
        };
        let silent = desk.heard.iter().find_map(silent);
        drop(desk);
        if let Some((rank, node)) = silent {
            let on = if node.is_empty() { String::new() } else { format!(" on {node}") };
            let e = Error::new(ErrorKind::Broken, "work together");
            return self.lost(cx, &e.because(format!("nothing was heard of rank {rank}{on} for {:?}", self.team.silence)));
        }
        let alive = Message::Alive(node(), counts());
        match self.leads() {
            true => self.others().for_each(|rank| self.send(cx, rank, &alive)),
            false => self.send(cx, 0, &alive),
        }
    }

    /// Brings the reports together at rank 0, and lets nobody leave before all have said theirs.
    pub fn end(&self, cx: &Arc<Context>, report: &mut Report) {
        if let Some(why) = cx.cancel.why() {
            let reason = report.failures.first().map_or("it was told to stop", |failure| &failure.reason);
            self.stop_all(why, format!("rank {} on {} stopped: {reason}", self.rank(), node()));
        }
        let most = if cx.cancel.is_set() { GRACE } else { self.team.silence };
        if self.leads() {
            let all = self.team.transport.ranks() as usize - 1;
            self.wait(most, |desk| desk.reports.len() == all);
            let mut reports = std::mem::take(&mut self.desk().reports);
            reports.sort_by_key(|(rank, _)| *rank);
            for rank in self.others().filter(|rank| !cx.cancel.is_set() && reports.iter().all(|(other, _)| other != rank)) {
                report.fail(&Error::new(ErrorKind::Broken, "work together").because(format!("rank {rank} did not report")));
            }
            reports.into_iter().for_each(|(_, other)| *report += other);
            self.others().for_each(|rank| self.try_send(rank, &Message::Bye));
        } else {
            self.try_send(0, &Message::Report(counts::encode(report)));
            self.wait(most, |desk| desk.bye);
        }
        self.over.store(true, Ordering::Release);
        // Wakes the receiver, which looks once a second anyway.
        self.try_send(self.rank(), &Message::Bye);
        if let Some(receiver) = lock(&self.receiver).take() {
            let _ = receiver.join();
        }
    }

    fn wait(&self, most: Duration, until: impl Fn(&Desk) -> bool) {
        let desk = self.news.wait_timeout_while(self.desk(), most, |desk| !until(desk));
        drop(desk.unwrap_or_else(PoisonError::into_inner));
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
