//! Who asks whom for work, and how much is given: pure, without threads, clocks or messages of its own.
//!
//! An idle rank asks a few others, one after the other, chosen at random. If they have nothing it leaves its name with its
//! neighbours, the ranks whose number differs from its own in one bit, and sleeps. Who gets work gives half of what it can
//! spare to each that left its name. So work reaches the last of `n` ranks in `log2 n` steps, an idle rank sends a bounded number
//! of messages however long it waits, and nobody polls (Saraswat et al., "Lifeline-based Global Load Balancing", PPoPP 2011).
//!
//! Names of one large directory all come from one rank, their origin, which does not have many at a time: parts that are halved at
//! every step would not reach all. Who got such a part and cannot divide it sends those that wait to the origin.

use crate::schedule::{Portion, Stock};

/// Ranks asked at random before a rank leaves its name with its neighbours.
const TRIES: u32 = 2;
/// Directories given in one message.
pub const MOST_DIRS: usize = 256;
/// Names given in one message.
pub const MOST_NAMES: usize = 4096;
/// A rank with so many names is at a large directory.
const LARGE: usize = 2048;
/// Chunks of a large file that are worth a message.
const LEAST_CHUNKS: usize = 8;

/// What a rank says to another about work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Work for me?
    Ask,
    /// There is none, but perhaps with this rank.
    Nothing(Option<u32>),
    /// Give me of what you get.
    Wait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mind {
    /// It has work, as far as it knows.
    Fed,
    Asking {
        victim: u32,
        tries: u32,
    },
    /// Its name is with all its neighbours.
    Waiting,
}

/// The part of what can be spared that a rank gets: `parts` of `among`, this rank's own one not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub parts: usize,
    pub among: usize,
}

impl Share {
    pub const ALONE: Share = Share { parts: 1, among: 1 };
}

/// A rank that has left its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    rank: u32,
    /// The origin that it was sent to.
    sent_to: Option<u32>,
    /// For how many it waits: it passes on what it gets.
    parts: usize,
}

/// One rank's part of the policy.
///
/// It also knows when a rank is done, by Dijkstra's and Scholten's rule: who has work has it from somebody, who waits until it is
/// done. A rank that gets more meanwhile confirms that at once; what it got first it confirms when it has nothing left, nor
/// anybody who has work from it. When rank 0 has nothing left and everything is confirmed, all ranks are done.
///
/// The rule needs one rank from which all work comes. In the steps after the walk each rank has its own, and two could wait for
/// each other: there everything is confirmed at once, and a rank says itself when it is done with a step, all leases back.
#[derive(Clone, Debug)]
pub struct Policy {
    rank: u32,
    ranks: u32,
    mind: Mind,
    /// Who waits until this rank has nothing left.
    engaged: Option<u32>,
    /// The walk is over: each rank has work of its own.
    walked: bool,
    random: u64,
    /// Neighbours that have this rank's name, by the bit in which they differ.
    registered: u32,
    /// The rank that what is done here comes from, if it is a part of something large.
    origin: Option<u32>,
    /// The origin that has this rank's name.
    registered_at: Option<u32>,
    /// Those whose names are here, in the order in which they came.
    waiting: Vec<Waiting>,
}

impl Policy {
    /// Rank 0 has the whole job. That all others wait is known without a message: each has left its name with the neighbour that it gets
    /// without its lowest bit. In this tree a rank waits for all below it, too.
    pub fn new(rank: u32, ranks: u32) -> Self {
        let random = (u64::from(rank) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let registered = rank & rank.wrapping_neg();
        let mind = if rank == 0 { Mind::Fed } else { Mind::Waiting };
        let children = (0..if rank == 0 { 31 } else { rank.trailing_zeros() }).rev().map(|bit| (rank | 1 << bit, 1 << bit));
        let waiting = children
            .filter(|(child, _)| *child < ranks)
            .map(|(child, below)| Waiting { rank: child, sent_to: None, parts: (ranks - child).min(below) as usize })
            .collect();
        Policy { rank, ranks, mind, engaged: None, walked: false, random, registered, origin: None, registered_at: None, waiting }
    }

    /// A worker finds nothing to do: whom to tell what.
    pub fn hungry(&mut self) -> Vec<(u32, Word)> {
        match self.mind {
            Mind::Fed if self.ranks > 1 => self.ask(1),
            _ => Vec::new(),
        }
    }

    /// `from` has nothing to give, but perhaps `origin` has.
    pub fn refused(&mut self, from: u32, origin: Option<u32>) -> Vec<(u32, Word)> {
        self.origin = origin.filter(|origin| *origin != self.rank && *origin < self.ranks);
        match self.mind {
            Mind::Asking { victim, tries } if victim == from && tries < TRIES.min(self.ranks - 1) => self.ask(tries + 1),
            Mind::Asking { victim, .. } if victim == from => self.register(),
            Mind::Waiting => self.register_at_origin().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// `from` has given something, a part of something large if it has an `origin`: whether that is to be confirmed at once. Chunks are not
    /// `to_confirm` at all: who lends them waits for their receipts anyway.
    pub fn fed(&mut self, from: u32, origin: Option<u32>, to_confirm: bool) -> bool {
        self.mind = Mind::Fed;
        self.origin = origin.filter(|origin| *origin != self.rank);
        self.registered_at = self.registered_at.filter(|origin| *origin != from);
        let bit = (from ^ self.rank).trailing_zeros();
        if (from ^ self.rank).is_power_of_two() {
            self.registered &= !(1 << bit);
        }
        // Rank 0 has the whole job from the start.
        let has_own = self.rank == 0 || self.walked;
        let has_work = has_own || self.engaged.is_some();
        self.engaged = self.engaged.or((!has_own && to_confirm).then_some(from));
        has_work && to_confirm
    }

    /// From here on each rank has work of its own.
    pub fn walk_is_over(&mut self) {
        self.walked = true;
    }

    /// Nothing is left here, and all that was given away is confirmed: to whom this rank now confirms what it got.
    pub fn done(&mut self) -> Option<u32> {
        self.engaged.take()
    }

    /// `from` leaves its name here.
    pub fn waits(&mut self, from: u32) {
        if self.waiting.iter().all(|other| other.rank != from) {
            self.waiting.push(Waiting { rank: from, sent_to: None, parts: 1 });
        }
    }

    /// It could not be given anything and stays the next. Whom to tell where there may be more.
    pub fn waits_on(&mut self, from: u32, share: Share) -> Vec<(u32, Word)> {
        self.waiting.retain(|other| other.rank != from);
        self.waiting.insert(0, Waiting { rank: from, sent_to: None, parts: share.parts });
        let Some(origin) = self.origin else { return Vec::new() };
        let mut words = Vec::new();
        for other in self.waiting.iter_mut().filter(|other| other.rank != origin && other.sent_to != Some(origin)) {
            other.sent_to = Some(origin);
            words.push((other.rank, Word::Nothing(Some(origin))));
        }
        words
    }

    /// The answer to a rank that asks in vain.
    pub fn nothing(&self) -> Word {
        Word::Nothing(self.origin)
    }

    /// The origin of what is given of a stock, if that is a part of something large.
    pub fn origin(&self, stock: Stock, given: Portion) -> Option<u32> {
        let own = (stock.names >= LARGE).then_some(self.rank);
        if given.names > 0 { self.origin.or(own) } else { None }
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Who gets of what can be spared now, and how much.
    pub fn next_waiting(&mut self) -> Option<(u32, Share)> {
        let among = self.waiting.iter().map(|other| other.parts).sum();
        (!self.waiting.is_empty()).then(|| self.waiting.remove(0)).map(|next| (next.rank, Share { parts: next.parts, among }))
    }

    fn ask(&mut self, tries: u32) -> Vec<(u32, Word)> {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        // Anybody but this one.
        let offset = 1 + (self.random >> 33) % u64::from(self.ranks - 1);
        let anybody = ((u64::from(self.rank) + offset) % u64::from(self.ranks)) as u32;
        let victim = self.origin.unwrap_or(anybody);
        self.mind = Mind::Asking { victim, tries };
        vec![(victim, Word::Ask)]
    }

    fn register(&mut self) -> Vec<(u32, Word)> {
        self.mind = Mind::Waiting;
        let fresh = |neighbour: &u32| self.registered & (neighbour ^ self.rank) == 0;
        let mut words: Vec<_> = neighbours(self.rank, self.ranks).filter(fresh).map(|neighbour| (neighbour, Word::Wait)).collect();
        self.registered = u32::MAX;
        words.extend(self.register_at_origin());
        words
    }

    fn register_at_origin(&mut self) -> Option<(u32, Word)> {
        let origin = self.origin.filter(|origin| self.registered_at != Some(*origin))?;
        self.registered_at = Some(origin);
        // A neighbour has it already.
        let neighbour = (origin ^ self.rank).is_power_of_two();
        (!neighbour).then_some((origin, Word::Wait))
    }
}

fn neighbours(rank: u32, ranks: u32) -> impl Iterator<Item = u32> {
    (0..31).map(move |bit| rank ^ (1 << bit)).filter(move |neighbour| *neighbour < ranks)
}

/// How much a rank gets. Directories first, as nobody knows how much is below them, then names, if they are worth a message, then
/// chunks. What this rank's own workers need at once stays.
pub fn portion(stock: Stock, of: Share) -> Portion {
    // Without anything else to do here, as much stays as is worth giving.
    let share = |n: usize, least: usize, busy: bool| {
        let keep = if busy { 0 } else { least };
        if n < least + keep { 0 } else { (n * of.parts / (of.among + 1)).clamp(least, n - keep) }
    };
    let Stock { dirs, names, chunks, other, .. } = stock;
    let dirs = share(dirs, 1, other || names > 0 || chunks > 0).min(MOST_DIRS);
    let names = share(names, least_names(stock.bundle), other || chunks > 0).min(MOST_NAMES);
    let chunks = share(chunks, LEAST_CHUNKS, other || stock.names > 0);
    match (dirs, names) {
        (1.., _) => Portion { dirs, ..Portion::default() },
        (_, 1..) => Portion { names, ..Portion::default() },
        _ => Portion { chunks, ..Portion::default() },
    }
}

/// Names that are worth a message: some 300 ms of one worker. Where a single file takes 20 ms, two of them are.
fn least_names(bundle: usize) -> usize {
    (16 * bundle.saturating_sub(1)).clamp(2, MOST_NAMES / 8)
}

#[cfg(test)]
mod tests;
