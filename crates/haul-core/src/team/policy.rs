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
    /// Those whose names are here, in the order in which they came, and the origin that each was sent to.
    waiting: Vec<(u32, Option<u32>)>,
}

impl Policy {
    pub fn new(rank: u32, ranks: u32) -> Self {
        let random = (u64::from(rank) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Policy {
            rank,
            ranks,
            mind: Mind::Fed,
            engaged: None,
            walked: false,
            random,
            registered: 0,
            origin: None,
            registered_at: None,
            waiting: Vec::new(),
        }
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
        if self.waiting.iter().all(|(other, _)| *other != from) {
            self.waiting.push((from, None));
        }
    }

    /// It could not be given anything and stays the next. Whom to tell where there may be more.
    pub fn waits_on(&mut self, from: u32) -> Vec<(u32, Word)> {
        self.waiting.retain(|(other, _)| *other != from);
        self.waiting.insert(0, (from, None));
        let Some(origin) = self.origin else { return Vec::new() };
        let mut words = Vec::new();
        for (rank, sent_to) in self.waiting.iter_mut().filter(|(rank, sent_to)| *rank != origin && *sent_to != Some(origin)) {
            *sent_to = Some(origin);
            words.push((*rank, Word::Nothing(Some(origin))));
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

    /// Who gets what can be spared now.
    pub fn next_waiting(&mut self) -> Option<u32> {
        (!self.waiting.is_empty()).then(|| self.waiting.remove(0).0)
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
        let fresh = |bit: &u32| self.registered & (1 << bit) == 0 && (self.rank ^ (1 << bit)) < self.ranks;
        let mut words: Vec<_> = (0..31).filter(fresh).map(|bit| (self.rank ^ (1 << bit), Word::Wait)).collect();
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

/// How much one of `waiting` ranks gets: what is there is divided among them and this one. Directories first, as nobody knows how
/// much is below them, then names, if they are worth a message, then chunks. What this rank's own workers need at once stays.
pub fn portion(stock: Stock, waiting: usize) -> Portion {
    let among = waiting.max(1) + 1;
    // Without anything else to do here, as much stays as is worth giving.
    let share = |n: usize, least: usize, busy: bool| {
        let keep = if busy { 0 } else { least };
        if n < least + keep { 0 } else { (n / among).max(least) }
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
mod tests {
    use super::*;

    #[test]
    fn an_idle_rank_asks_two_leaves_its_name_and_is_silent() {
        for ranks in [2, 3, 5, 8, 512] {
            let mut policy = Policy::new(1, ranks);
            let mut told = policy.hungry();
            assert!(policy.hungry().is_empty(), "it has asked");
            let mut asked = 0;
            while let [(victim, Word::Ask)] = told[..] {
                assert!(victim != 1 && victim < ranks);
                asked += 1;
                told = policy.refused(victim, None);
            }
            assert_eq!(asked, TRIES.min(ranks - 1));
            let neighbours = (0..ranks).filter(|rank| (rank ^ 1).is_power_of_two()).count();
            assert_eq!(told.len(), neighbours, "{ranks} ranks: {told:?}");
            assert!(told.iter().all(|(_, word)| *word == Word::Wait));
            assert!(policy.hungry().is_empty() && policy.refused(0, None).is_empty(), "it waits");
            policy.fed(0, None, true);
            let again = policy.hungry();
            assert!(matches!(again[..], [(_, Word::Ask)]));
        }
        assert!(Policy::new(0, 1).hungry().is_empty(), "alone");
    }

    #[test]
    fn a_name_is_left_again_only_where_it_was_used_up() {
        let mut policy = Policy::new(0, 4);
        let until_waiting = |policy: &mut Policy| {
            let mut told = policy.hungry();
            while let [(victim, Word::Ask)] = told[..] {
                told = policy.refused(victim, None);
            }
            told
        };
        assert_eq!(until_waiting(&mut policy), [(1, Word::Wait), (2, Word::Wait)]);
        policy.fed(2, None, true);
        assert_eq!(until_waiting(&mut policy), [(2, Word::Wait)]);
        policy.fed(3, None, true);
        assert!(until_waiting(&mut policy).is_empty(), "rank 3 is no neighbour of it");
    }

    #[test]
    fn who_waits_is_sent_to_the_origin_once() {
        let mut policy = Policy::new(1, 16);
        policy.waits(3);
        policy.waits(9);
        assert!(policy.waits_on(3).is_empty(), "nothing is known");
        policy.fed(5, Some(0), true);
        let names = |names| (Stock { names, ..Stock::default() }, Portion { names: names / 2, ..Portion::default() });
        assert_eq!(policy.origin(names(100).0, names(100).1), Some(0));
        assert_eq!(Policy::new(1, 2).origin(names(100).0, names(100).1), None, "no large directory");
        assert_eq!(Policy::new(1, 2).origin(names(9000).0, names(9000).1), Some(1));
        assert_eq!(policy.waits_on(3), [(3, Word::Nothing(Some(0))), (9, Word::Nothing(Some(0)))]);
        assert_eq!(policy.next_waiting(), Some(3));
        assert_eq!(policy.waits_on(9), [(9, Word::Nothing(Some(0)))]);
        assert!(matches!(policy.hungry()[..], [(0, Word::Ask)]), "it asks there first");

        let mut idle = Policy::new(3, 16);
        let mut told = idle.hungry();
        while let [(victim, Word::Ask)] = told[..] {
            told = idle.refused(victim, None);
        }
        assert_eq!(told.len(), 4);
        assert_eq!(idle.refused(1, Some(0)), [(0, Word::Wait)]);
        assert!(idle.refused(2, Some(0)).is_empty(), "it has its name");
    }

    #[test]
    fn the_first_gift_is_confirmed_last() {
        let mut policy = Policy::new(1, 4);
        assert!(!policy.fed(3, None, true) && policy.fed(0, None, true) && policy.fed(3, None, true));
        assert_eq!((policy.done(), policy.done()), (Some(3), None));
        assert!(!policy.fed(0, None, true));
        let mut first = Policy::new(0, 4);
        assert!(first.fed(2, None, true), "it waits for nobody else");
        assert_eq!(first.done(), None);
        let mut lent = Policy::new(2, 4);
        assert!(!lent.fed(1, None, false) && !lent.fed(3, None, false), "chunks");
        assert_eq!(lent.done(), None);
        assert!(!lent.fed(1, None, true) && !lent.fed(3, None, false));
        assert_eq!(lent.done(), Some(1));
    }

    #[test]
    fn ranks_that_lend_to_each_other_after_the_walk_wait_for_nobody() {
        let (mut one, mut three) = (Policy::new(1, 4), Policy::new(3, 4));
        one.walk_is_over();
        three.walk_is_over();
        assert!(three.fed(1, None, true) && one.fed(3, None, true), "confirmed at once");
        assert_eq!((one.done(), three.done()), (None, None));
    }

    #[test]
    fn all_ranks_are_reached_over_neighbours() {
        for ranks in 1..70u32 {
            let mut seen = vec![false; ranks as usize];
            let mut next = vec![0u32];
            while let Some(rank) = next.pop() {
                if !std::mem::replace(&mut seen[rank as usize], true) {
                    next.extend((0..31).map(|bit| rank ^ (1 << bit)).filter(|other| *other < ranks));
                }
            }
            assert!(seen.iter().all(|seen| *seen), "{ranks}");
        }
    }

    #[test]
    fn portions_leave_something_here() {
        let stock = |dirs, names, other| Stock { dirs, names, other, bundle: 5, ..Stock::default() };
        let dirs = |dirs| Portion { dirs, ..Portion::default() };
        assert_eq!(portion(stock(1, 0, false), 1), Portion::default(), "it is about to be listed here");
        assert_eq!(portion(stock(1, 0, true), 1), dirs(1));
        assert_eq!(portion(stock(10, 500, false), 1), dirs(5));
        assert_eq!(portion(stock(9, 0, false), 2), dirs(3));
        assert_eq!(portion(stock(0, 500, false), 1), Portion { names: 250, ..Portion::default() });
        assert_eq!(portion(stock(0, 127, false), 1), Portion::default(), "too few for a message");
        let slow = Stock { bundle: 1, ..stock(0, 5, false) };
        assert_eq!(portion(slow, 1).names, 2, "files that take long");
        assert_eq!(portion(stock(1 << 20, 0, false), 1).dirs, MOST_DIRS);
        assert_eq!(portion(stock(0, 1000, false), 100).names, 64, "few get something rather than nobody");
        let chunks = |chunks| portion(Stock { chunks, ..Stock::default() }, 1).chunks;
        assert_eq!((chunks(15), chunks(17), chunks(100)), (0, 8, 50));
    }
}
