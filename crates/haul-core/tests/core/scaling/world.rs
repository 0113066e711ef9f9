//! Ranks, their workers and the messages between them, as events in virtual time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use haul_core::schedule::{Portion, Stock};
use haul_core::team::policy::{Policy, Share, Word, portion};

use super::tree::{Dir, Shape};

/// What things take, in nanoseconds of one worker.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    pub workers: u64,
    /// A file, from its look-up to its attributes.
    pub file: u64,
    pub chunk: u64,
    pub list: u64,
    /// One name of a listing.
    pub name: u64,
    /// From one rank to another.
    pub message: u64,
}

impl Default for Costs {
    /// Four workers, each with 250 files or 250 MiB a second.
    fn default() -> Self {
        Costs { workers: 4, file: 4_000_000, chunk: 64_000_000, list: 2_000_000, name: 1_000, message: 20_000 }
    }
}

/// As in the engine: names queued at most, of one step of a listing, of 20 ms of work.
const MOST_QUEUED: u64 = 16 * 1024;
const BATCH: u64 = 512;
const BUNDLE: u64 = 20_000_000;

#[derive(Clone, Debug)]
enum Message {
    Word(Word),
    Work(Work),
    Confirmed,
    /// Of a lease; here it only counts.
    Done,
}

#[derive(Clone, Debug, Default)]
struct Work {
    dirs: Vec<Dir>,
    names: u64,
    chunks: u64,
    origin: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Task {
    /// Lists a directory, or goes on with it.
    List {
        left: u64,
        subdirs: Option<Dir>,
    },
    Bundle(u64),
    Chunk,
}

struct Rank {
    policy: Policy,
    slow: u64,
    dirs: VecDeque<Dir>,
    /// Names of directories that are being listed, not yet found.
    listings: Vec<u64>,
    names: u64,
    chunks: u64,
    running: u64,
    listing: u64,
    away: u64,
    busy: u64,
    messages: u64,
    done: u64,
    memory: u64,
}

pub struct Outcome {
    pub ranks: u32,
    pub seconds: f64,
    /// What it would take if all workers worked all the time.
    pub ideal: f64,
    pub idle: f64,
    pub items: u64,
    pub messages: u64,
    /// Of the rank that has sent most.
    pub most_messages: u64,
    /// Of the rank that had most, in bytes.
    pub memory: u64,
}

type Event = (u64, u64, u32, Happens);

enum Happens {
    Arrives(u32, Message),
    Ends(Task),
}

pub struct World {
    costs: Costs,
    now: u64,
    numbers: u64,
    events: BinaryHeap<Reverse<Timed>>,
    ranks: Vec<Rank>,
    /// Chunks are given only: the reply of a lease confirms it, too.
    chunks_only: bool,
}

struct Timed(Event);

impl PartialEq for Timed {
    fn eq(&self, o: &Self) -> bool {
        self.cmp(o).is_eq()
    }
}
impl Eq for Timed {}
impl PartialOrd for Timed {
    fn partial_cmp(&self, o: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(o))
    }
}
impl Ord for Timed {
    fn cmp(&self, o: &Self) -> std::cmp::Ordering {
        (self.0.0, self.0.1).cmp(&(o.0.0, o.0.1))
    }
}

impl World {
    pub fn new(shape: Shape, ranks: u32, costs: Costs, slow: Option<(u32, u64)>) -> World {
        let rank = |number| Rank {
            policy: Policy::new(number, ranks),
            slow: slow.filter(|(slow, _)| *slow == number).map_or(1, |(_, times)| times),
            dirs: VecDeque::new(),
            listings: Vec::new(),
            names: 0,
            chunks: 0,
            running: 0,
            listing: 0,
            away: 0,
            busy: 0,
            messages: 0,
            done: 0,
            memory: 0,
        };
        let (events, chunks_only) = (BinaryHeap::new(), matches!(shape, Shape::File { .. }));
        let mut world = World { costs, now: 0, numbers: 0, events, ranks: (0..ranks).map(rank).collect(), chunks_only };
        match shape {
            Shape::File { chunks } => {
                world.ranks[0].chunks = chunks;
                world.ranks[0].note_memory();
            }
            _ => world.ranks[0].dirs.push_back(Dir::top(shape)),
        }
        world
    }

    pub fn run(mut self) -> Outcome {
        self.start_workers(0);
        while let Some(Reverse(Timed((at, _, rank, happens)))) = self.events.pop() {
            self.now = at;
            match happens {
                Happens::Arrives(from, message) => self.hear(rank, from, message),
                Happens::Ends(task) => self.ends(rank, task),
            }
            if self.is_idle(0) {
                break;
            }
        }
        for (number, rank) in self.ranks.iter().enumerate() {
            assert!(rank.running + rank.names + rank.chunks == 0 && rank.dirs.is_empty(), "rank {number} still has work at the end");
        }
        let workers = self.costs.workers as f64;
        let speed: f64 = self.ranks.iter().map(|rank| 1.0 / rank.slow as f64).sum::<f64>() * workers;
        // A task of a slow rank is counted as what it takes elsewhere.
        let work: f64 = self.ranks.iter().map(|rank| rank.busy as f64 / rank.slow as f64).sum();
        let busy: f64 = self.ranks.iter().map(|rank| rank.busy as f64).sum();
        Outcome {
            ranks: self.ranks.len() as u32,
            seconds: self.now as f64 / 1e9,
            ideal: work / speed / 1e9,
            idle: 1.0 - busy / (self.now as f64 * workers * self.ranks.len() as f64),
            items: self.ranks.iter().map(|rank| rank.done).sum(),
            messages: self.ranks.iter().map(|rank| rank.messages).sum(),
            most_messages: self.ranks.iter().map(|rank| rank.messages).max().unwrap_or(0),
            memory: self.ranks.iter().map(|rank| rank.memory).max().unwrap_or(0),
        }
    }

    fn at(&mut self, time: u64, rank: u32, happens: Happens) {
        self.numbers += 1;
        self.events.push(Reverse(Timed((time, self.numbers, rank, happens))));
    }

    fn send(&mut self, from: u32, to: u32, message: Message) {
        let is_none = self.chunks_only && matches!(message, Message::Confirmed);
        self.ranks[from as usize].messages += u64::from(!is_none);
        self.at(self.now + self.costs.message, to, Happens::Arrives(from, message));
    }

    fn say(&mut self, from: u32, words: Vec<(u32, Word)>) {
        words.into_iter().for_each(|(to, word)| self.send(from, to, Message::Word(word)));
    }

    fn hungry(&mut self, rank: u32) {
        let words = self.ranks[rank as usize].policy.hungry();
        self.say(rank, words);
    }

    fn hear(&mut self, rank: u32, from: u32, message: Message) {
        match message {
            Message::Word(Word::Ask) => {
                if !self.give(rank, from, Share::ALONE) {
                    let nothing = self.ranks[rank as usize].policy.nothing();
                    self.send(rank, from, Message::Word(nothing));
                }
            }
            Message::Word(Word::Nothing(origin)) => {
                let words = self.ranks[rank as usize].policy.refused(from, origin);
                self.say(rank, words);
            }
            Message::Word(Word::Wait) => {
                self.ranks[rank as usize].policy.waits(from);
                self.give_to_waiting(rank);
            }
            Message::Work(Work { dirs, names, chunks, origin }) => {
                let here = &mut self.ranks[rank as usize];
                here.dirs.extend(dirs);
                here.names += names;
                here.chunks += chunks;
                here.note_memory();
                if here.policy.fed(from, origin, true) {
                    self.send(rank, from, Message::Confirmed);
                }
                self.give_to_waiting(rank);
                self.start_workers(rank);
            }
            Message::Confirmed => {
                self.ranks[rank as usize].away -= 1;
                self.rest(rank);
            }
            Message::Done => {}
        }
    }

    fn is_idle(&self, rank: u32) -> bool {
        let here = &self.ranks[rank as usize];
        here.away == 0 && here.running == 0 && here.stock(self.costs).dry
    }

    /// As the engine does when a task was the last.
    fn rest(&mut self, rank: u32) {
        if self.is_idle(rank)
            && let Some(by) = self.ranks[rank as usize].policy.done()
        {
            self.send(rank, by, Message::Confirmed);
        }
    }

    fn give(&mut self, rank: u32, to: u32, share: Share) -> bool {
        let costs = self.costs;
        let here = &mut self.ranks[rank as usize];
        let (stock, given) = (here.stock(costs), portion(here.stock(costs), share));
        let Portion { dirs, names, chunks } = given;
        let origin = here.policy.origin(stock, given);
        let dirs: Vec<Dir> = here.dirs.drain(..dirs).collect();
        let (names, chunks) = (names as u64, chunks as u64);
        if dirs.is_empty() && names + chunks == 0 {
            return false;
        }
        here.names -= names;
        here.chunks -= chunks;
        here.away += 1;
        let mut parents: Vec<u64> = dirs.iter().map(|dir| dir.parent).collect();
        parents.dedup();
        let leases = parents.len() + usize::from(names > 0) + usize::from(chunks > 0);
        self.send(rank, to, Message::Work(Work { dirs, names, chunks, origin }));
        // Each of them has its reply.
        for _ in 0..leases {
            self.send(to, rank, Message::Done);
        }
        true
    }

    fn give_to_waiting(&mut self, rank: u32) {
        loop {
            let policy = &mut self.ranks[rank as usize].policy;
            let Some((next, share)) = policy.next_waiting() else { return };
            if !self.give(rank, next, share) {
                let words = self.ranks[rank as usize].policy.waits_on(next, share);
                return self.say(rank, words);
            }
        }
    }

    fn start_workers(&mut self, rank: u32) {
        let costs = self.costs;
        loop {
            let here = &mut self.ranks[rank as usize];
            let Some(task) = (here.running < costs.workers).then(|| here.pick(costs)).flatten() else { return };
            let takes = match task {
                Task::List { left, subdirs } => costs.name * left.min(BATCH) + if subdirs.is_some() { costs.list } else { 0 },
                Task::Bundle(files) => costs.file * files,
                Task::Chunk => costs.chunk,
            } * here.slow;
            here.running += 1;
            here.busy += takes;
            self.at(self.now + takes, rank, Happens::Ends(task));
        }
    }

    fn ends(&mut self, rank: u32, task: Task) {
        let here = &mut self.ranks[rank as usize];
        here.running -= 1;
        match task {
            Task::List { left, subdirs } => {
                here.listing -= 1;
                here.names += left.min(BATCH);
                if left > BATCH {
                    here.listings.push(left - BATCH);
                }
                here.dirs.extend(subdirs.map(|dir| dir.list().1).unwrap_or_default());
                here.note_memory();
            }
            Task::Bundle(files) => here.done += files,
            Task::Chunk => here.done += 1,
        }
        self.give_to_waiting(rank);
        self.rest(rank);
        self.start_workers(rank);
        let here = &self.ranks[rank as usize];
        if here.running < self.costs.workers && here.stock(self.costs).dry {
            self.hungry(rank);
        }
    }
}

impl Rank {
    /// Files of 20 ms of work.
    fn bundle(&self, costs: Costs) -> u64 {
        (BUNDLE / (costs.file * self.slow)).max(1)
    }

    fn stock(&self, costs: Costs) -> Stock {
        let (dirs, names, chunks) = (self.dirs.len(), self.names as usize, self.chunks as usize);
        let other = !self.listings.is_empty();
        Stock { dirs, names, chunks, other, bundle: self.bundle(costs) as usize, dry: dirs + names + chunks == 0 && !other }
    }

    /// In the engine's order: a listing goes on until the queue is full; with little to do another begins; else files.
    fn pick(&mut self, costs: Costs) -> Option<Task> {
        let bundle = self.bundle(costs);
        if self.names < MOST_QUEUED
            && let Some(left) = self.listings.pop()
        {
            self.listing += 1;
            return Some(Task::List { left, subdirs: None });
        }
        if self.names < (2 * costs.workers * bundle).clamp(256, MOST_QUEUED / 4)
            && let Some(dir) = self.dirs.pop_back()
        {
            self.listing += 1;
            return Some(Task::List { left: dir.list().0, subdirs: Some(dir) });
        }
        if self.names > 0 {
            let share = (self.names / (2 * costs.workers)).clamp((bundle / 8).max(1), bundle).min(self.names);
            self.names -= share;
            return Some(Task::Bundle(share));
        }
        self.chunks.checked_sub(1).map(|left| {
            self.chunks = left;
            Task::Chunk
        })
    }

    /// Directories at 300 bytes, names at 250, and chunks as what they are lent and taken back with.
    fn note_memory(&mut self) {
        let held = self.dirs.len().min(8192) as u64 * 300 + self.names * 250 + self.chunks * 24;
        self.memory = self.memory.max(held);
    }
}
