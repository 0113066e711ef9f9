//! Who asks whom for work, and how much is given: pure, without threads, clocks or messages of its own.
//!
//! An idle rank asks a few others, one after the other, chosen at random. If they have nothing it leaves its name with its
//! neighbours, the ranks whose number differs from its own in one bit, and sleeps. Who gets work gives half of what it can
//! spare to each that left its name. So work reaches the last of `n` ranks in `log2 n` steps, an idle rank sends a bounded number
//! of messages however long it waits, and nobody polls (Saraswat et al., "Lifeline-based Global Load Balancing", PPoPP 2011).

use crate::schedule::{Portion, Stock};

/// Ranks asked at random before a rank leaves its name with its neighbours.
const TRIES: u32 = 2;
/// Directories given in one message.
pub const MOST_DIRS: usize = 256;
/// Names given in one message, and the fewest that are worth one.
pub const MOST_NAMES: usize = 4096;
const LEAST_NAMES: usize = 4;

/// What a rank says to another about work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Work for me?
    Ask,
    /// There is none.
    Nothing,
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
#[derive(Clone, Debug)]
pub struct Policy {
    rank: u32,
    ranks: u32,
    mind: Mind,
    /// Who waits until this rank has nothing left.
    engaged: Option<u32>,
    random: u64,
    /// Neighbours that have this rank's name, by the bit in which they differ.
    registered: u32,
    /// Those whose names are here, in the order in which they came.
    waiting: Vec<u32>,
}

impl Policy {
    pub fn new(rank: u32, ranks: u32) -> Self {
        let random = (u64::from(rank) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Policy { rank, ranks, mind: Mind::Fed, engaged: None, random, registered: 0, waiting: Vec::new() }
    }

    /// A worker finds nothing to do: whom to tell what.
    pub fn hungry(&mut self) -> Vec<(u32, Word)> {
        match self.mind {
            Mind::Fed if self.ranks > 1 => self.ask(1),
            _ => Vec::new(),
        }
    }

    /// `from` has nothing to give.
    pub fn refused(&mut self, from: u32) -> Vec<(u32, Word)> {
        match self.mind {
            Mind::Asking { victim, tries } if victim == from && tries < TRIES.min(self.ranks - 1) => self.ask(tries + 1),
            Mind::Asking { victim, .. } if victim == from => self.register(),
            _ => Vec::new(),
        }
    }

    /// `from` has given something: whether that is to be confirmed at once.
    pub fn fed(&mut self, from: u32) -> bool {
        self.mind = Mind::Fed;
        let bit = (from ^ self.rank).trailing_zeros();
        if (from ^ self.rank).is_power_of_two() {
            self.registered &= !(1 << bit);
        }
        // Rank 0 has the whole job from the start.
        let has_work = self.rank == 0 || self.engaged.is_some();
        self.engaged = self.engaged.or((self.rank != 0).then_some(from));
        has_work
    }

    /// Nothing is left here, and all that was given away is confirmed: to whom this rank now confirms what it got.
    pub fn done(&mut self) -> Option<u32> {
        self.engaged.take()
    }

    /// `from` leaves its name here.
    pub fn waits(&mut self, from: u32) {
        if !self.waiting.contains(&from) {
            self.waiting.push(from);
        }
    }

    /// It could not be given anything: it stays the next.
    pub fn waits_on(&mut self, from: u32) {
        self.waiting.retain(|other| *other != from);
        self.waiting.insert(0, from);
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Who gets what can be spared now.
    pub fn next_waiting(&mut self) -> Option<u32> {
        (!self.waiting.is_empty()).then(|| self.waiting.remove(0))
    }

    fn ask(&mut self, tries: u32) -> Vec<(u32, Word)> {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        // Anybody but this one.
        let offset = 1 + (self.random >> 33) % u64::from(self.ranks - 1);
        let victim = ((u64::from(self.rank) + offset) % u64::from(self.ranks)) as u32;
        self.mind = Mind::Asking { victim, tries };
        vec![(victim, Word::Ask)]
    }

    fn register(&mut self) -> Vec<(u32, Word)> {
        self.mind = Mind::Waiting;
        let fresh = |bit: &u32| self.registered & (1 << bit) == 0 && (self.rank ^ (1 << bit)) < self.ranks;
        let words = (0..31).filter(fresh).map(|bit| (self.rank ^ (1 << bit), Word::Wait)).collect();
        self.registered = u32::MAX;
        words
    }
}

/// How much one of `waiting` ranks gets: what is there is divided among them and this one. Directories first, as nobody knows how
/// much is below them, then names, if they are worth a message, then chunks. What this rank's own workers need at once stays.
pub fn portion(stock: Stock, waiting: usize) -> Portion {
    let among = waiting.max(1) + 1;
    // Without anything else to do here, one more stays than is given.
    let share = |n: usize, busy: bool| if busy { n.div_ceil(among) } else { n / among };
    let Stock { dirs, names, chunks, other, .. } = stock;
    let dirs = share(dirs, other || names > 0 || chunks > 0).min(MOST_DIRS);
    if dirs > 0 {
        return Portion { dirs, ..Portion::default() };
    }
    let names = share(names, other || chunks > 0).min(MOST_NAMES);
    if names >= LEAST_NAMES {
        return Portion { names, ..Portion::default() };
    }
    Portion { chunks: share(chunks, other || stock.names > 0), ..Portion::default() }
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
                told = policy.refused(victim);
            }
            assert_eq!(asked, TRIES.min(ranks - 1));
            let neighbours = (0..ranks).filter(|rank| (rank ^ 1).is_power_of_two()).count();
            assert_eq!(told.len(), neighbours, "{ranks} ranks: {told:?}");
            assert!(told.iter().all(|(_, word)| *word == Word::Wait));
            assert!(policy.hungry().is_empty() && policy.refused(0).is_empty(), "it waits");
            policy.fed(0);
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
                told = policy.refused(victim);
            }
            told
        };
        assert_eq!(until_waiting(&mut policy), [(1, Word::Wait), (2, Word::Wait)]);
        policy.fed(2);
        assert_eq!(until_waiting(&mut policy), [(2, Word::Wait)]);
        policy.fed(3);
        assert!(until_waiting(&mut policy).is_empty(), "rank 3 is no neighbour of it");
    }

    #[test]
    fn the_first_gift_is_confirmed_last() {
        let mut policy = Policy::new(1, 4);
        assert!(!policy.fed(3) && policy.fed(0) && policy.fed(3));
        assert_eq!((policy.done(), policy.done()), (Some(3), None));
        assert!(!policy.fed(0));
        let mut first = Policy::new(0, 4);
        assert!(first.fed(2), "it waits for nobody else");
        assert_eq!(first.done(), None);
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
        let stock = |dirs, names, other| Stock { dirs, names, other, ..Stock::default() };
        let dirs = |dirs| Portion { dirs, ..Portion::default() };
        assert_eq!(portion(stock(1, 0, false), 1), Portion::default(), "it is about to be listed here");
        assert_eq!(portion(stock(1, 0, true), 1), dirs(1));
        assert_eq!(portion(stock(10, 500, false), 1), dirs(5));
        assert_eq!(portion(stock(9, 0, false), 2), dirs(3));
        assert_eq!(portion(stock(0, 500, false), 1), Portion { names: 250, ..Portion::default() });
        assert_eq!(portion(stock(0, 7, false), 1), Portion::default(), "too few for a message");
        assert_eq!(portion(stock(1 << 20, 0, false), 1).dirs, MOST_DIRS);
        let chunks = Stock { chunks: 9, ..Stock::default() };
        assert_eq!(portion(chunks, 1), Portion { chunks: 4, ..Portion::default() });
    }
}
