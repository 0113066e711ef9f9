//! The chunks of a file that no worker has taken yet, and the order in which they are handed out.

use crate::store::{Chunk, Runs};

/// Chunks that a worker takes from the run of another one at the least.
const WORTH: usize = 2;
/// Fixed runs that each worker has, one after the other, if all are equally fast: the last ones are short.
const SHARES: usize = 2;
/// Workers of a file that are expected to come where many may, for the length of runs that have a bound.
const EXPECTED: usize = 8;

/// Chunks by their index, the last one first.
#[derive(Debug, Default)]
pub struct Waiting {
    chunks: Vec<Chunk>,
    runs: Runs,
    /// Workers that may share the file.
    workers: usize,
    /// Chunks of a fixed run at the most.
    longest_run: usize,
    /// Of each worker that has a run, the index of its next chunk and the one behind the run.
    taken: Vec<(u32, u32)>,
}

impl Waiting {
    /// `chunks` in their order.
    pub fn new(mut chunks: Vec<Chunk>, runs: Runs, workers: u32) -> Waiting {
        chunks.reverse();
        let chunk = chunks.iter().map(|chunk| chunk.at.end - chunk.at.start).max().unwrap_or(0).max(1);
        let longest_run = match runs {
            Runs::UpTo(bytes) => usize::try_from(bytes / chunk).unwrap_or(usize::MAX).max(1),
            _ => usize::MAX,
        };
        Waiting { chunks, runs, workers: workers.max(1) as usize, longest_run, taken: Vec::new() }
    }

    /// All are taken in the order of the file.
    pub fn keep_order(&mut self) {
        self.runs = Runs::None;
    }

    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Whether another worker gets one.
    pub fn is_offered(&self) -> bool {
        match self.runs {
            Runs::None => !self.chunks.is_empty(),
            Runs::Open => self.longest().is_some(),
            Runs::Fixed | Runs::UpTo(_) => self.first_free().is_some(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Takes the last chunks out, at most so many, in their order.
    pub fn lend(&mut self, most: usize) -> Vec<Chunk> {
        let mut lent: Vec<Chunk> = self.chunks.drain(..most.min(self.chunks.len())).collect();
        lent.reverse();
        lent
    }

    /// Chunks that were taken and have not landed.
    pub fn give_back(&mut self, chunks: Vec<Chunk>) {
        self.chunks.extend(chunks);
        self.chunks.sort_by_key(|chunk| std::cmp::Reverse(chunk.index));
    }

    pub fn clear(&mut self) {
        self.chunks.clear();
    }

    /// The next chunk for a worker whose last one was `last`, and up to where it reads on from there.
    pub fn take(&mut self, last: Option<u32>) -> Option<(Chunk, u64)> {
        if self.runs == Runs::None {
            let chunk = self.chunks.pop()?;
            let end = chunk.at.end;
            return Some((chunk, end));
        }
        let run = self.leave(last).filter(|(next, end)| next < end);
        let follows = run.and_then(|(next, end)| Some((self.position(next)?, end)));
        let (at, end) = follows.or_else(|| match self.runs {
            Runs::Open => self.longest().map(|at| (at, u32::MAX)),
            _ => self.first_free().map(|at| (at, self.chunks[at].index.saturating_add(self.share()))),
        })?;
        let chunk = self.chunks.remove(at);
        self.taken.push((chunk.index + 1, end));
        let mut reach = chunk.at.end;
        for next in self.chunks[..at].iter().rev().take_while(|next| next.index < end) {
            if next.at.start != reach {
                break;
            }
            reach = next.at.end;
        }
        Some((chunk, reach))
    }

    /// The worker whose last chunk this was takes no more of its run, which is returned.
    pub fn leave(&mut self, last: Option<u32>) -> Option<(u32, u32)> {
        let at = last.and_then(|last| self.taken.iter().position(|(next, _)| *next == last + 1))?;
        Some(self.taken.swap_remove(at))
    }

    fn position(&self, index: u32) -> Option<usize> {
        self.chunks.binary_search_by(|chunk| index.cmp(&chunk.index)).ok()
    }

    /// Chunks of the next fixed run.
    fn share(&self) -> u32 {
        let reserved: usize = self.taken.iter().map(|(next, end)| (end - next) as usize).sum();
        let workers = match self.runs {
            Runs::UpTo(_) => self.workers.min(EXPECTED.max(self.taken.len() + 1)),
            _ => self.workers,
        };
        let share = self.chunks.len().saturating_sub(reserved) / (SHARES * workers);
        u32::try_from(share.min(self.longest_run)).unwrap_or(u32::MAX).max(1)
    }

    /// The first chunk that is in nobody's fixed run.
    fn first_free(&self) -> Option<usize> {
        let is_free = |chunk: &Chunk| !self.taken.iter().any(|(next, end)| (*next..*end).contains(&chunk.index));
        self.chunks.iter().rposition(is_free)
    }

    /// Where in the longest open run another worker begins: at its start, or in its middle if somebody comes from the chunk in
    /// front of it. The end of a run is left to whoever is near it: a request of its own would take longer.
    fn longest(&self) -> Option<usize> {
        let mut best: Option<(usize, usize)> = None;
        let mut end = 0;
        for run in self.chunks.chunk_by(|a, b| a.index == b.index + 1) {
            end += run.len();
            let is_shared = run.last().is_some_and(|first| self.taken.iter().any(|(next, _)| *next == first.index));
            let gain = if is_shared { run.len() / 2 } else { run.len() };
            if (!is_shared || gain >= WORTH) && best.is_none_or(|(most, _)| gain >= most) {
                best = Some((gain, end - run.len() + gain - 1));
            }
        }
        best.map(|(_, at)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(count: u32, runs: Runs) -> Waiting {
        Waiting::new((0..count).map(|index| Chunk { index, at: u64::from(index)..u64::from(index) + 1 }).collect(), runs, 4)
    }

    /// The indexes that so many workers take in turn until none is left, each its own.
    fn taken(mut waiting: Waiting, workers: usize) -> Vec<Vec<u32>> {
        let mut all = vec![Vec::new(); workers];
        while !waiting.is_empty() {
            for own in &mut all {
                let taken = waiting.take(own.last().copied());
                own.extend(taken.map(|(chunk, _)| chunk.index));
            }
        }
        all
    }

    #[test]
    fn without_runs_chunks_are_taken_in_their_order() {
        assert_eq!(taken(waiting(5, Runs::None), 2), [vec![0, 2, 4], vec![1, 3]]);
    }

    #[test]
    fn each_worker_has_a_run() {
        assert_eq!(taken(waiting(8, Runs::Open), 1), [vec![0, 1, 2, 3, 4, 5, 6, 7]]);
        assert_eq!(taken(waiting(16, Runs::Open), 4), [vec![0, 1, 2, 3, 4], vec![9, 10, 11, 12], vec![5, 6, 7, 8], vec![13, 14, 15]]);
    }

    #[test]
    fn every_chunk_is_taken_once() {
        for runs in [Runs::None, Runs::Open, Runs::Fixed, Runs::UpTo(3)] {
            for (count, workers) in (0..40).flat_map(|count| (1..9).map(move |workers| (count, workers))) {
                let mut all: Vec<u32> = taken(waiting(count, runs), workers).concat();
                all.sort_unstable();
                assert_eq!(all, (0..count).collect::<Vec<_>>(), "{count} chunks, {workers} workers, {runs:?}");
            }
        }
    }

    #[test]
    fn a_worker_may_read_on_to_the_end_of_its_run() {
        let mut waiting = waiting(8, Runs::Open);
        assert_eq!(waiting.take(None).map(|(chunk, end)| (chunk.index, end)), Some((0, 8)));
        assert_eq!(waiting.take(None).map(|(chunk, end)| (chunk.index, end)), Some((5, 8)));
        assert_eq!(waiting.take(Some(0)).map(|(chunk, end)| (chunk.index, end)), Some((1, 5)));
        let mut part = Waiting::new(vec![Chunk { index: 0, at: 0..4 }, Chunk { index: 1, at: 6..8 }], Runs::Open, 4);
        assert_eq!(part.take(None).map(|(_, end)| end), Some(4));
    }

    #[test]
    fn fixed_runs_become_shorter() {
        let mut waiting = waiting(32, Runs::Fixed);
        let runs: Vec<(u32, u64)> = std::iter::from_fn(|| waiting.take(None)).map(|(chunk, end)| (chunk.index, end)).collect();
        assert_eq!(
            runs,
            [(0, 4), (4, 7), (7, 10), (10, 12), (12, 14), (14, 16), (16, 18)]
                .into_iter()
                .chain((18..32).map(|at| (at, at as u64 + 1)))
                .collect::<Vec<_>>()
        );
        assert!(!waiting.is_offered());
        assert_eq!(waiting.take(Some(0)).map(|(chunk, end)| (chunk.index, end)), Some((1, 4)));
        waiting.leave(Some(4));
        assert_eq!(waiting.take(Some(31)).map(|(chunk, _)| chunk.index), Some(5));
    }

    #[test]
    fn bounded_runs_are_for_the_workers_that_came() {
        let mut waiting = Waiting::new(
            (0..80).map(|index| Chunk { index, at: u64::from(index) * 10..u64::from(index) * 10 + 10 }).collect(),
            Runs::UpTo(40),
            256,
        );
        let lengths: Vec<u64> = std::iter::from_fn(|| waiting.take(None)).map(|(chunk, end)| (end - chunk.at.start) / 10).collect();
        // Eight are expected; those that come after them make the rest shorter.
        assert_eq!(lengths[..12], [4, 4, 4, 4, 4, 3, 3, 3, 2, 2, 2, 1]);
        assert!(lengths.iter().sum::<u64>() >= 80 && lengths.iter().all(|length| *length <= 4));
    }

    #[test]
    fn the_end_of_a_run_is_not_shared() {
        let mut waiting = waiting(4, Runs::Open);
        assert_eq!(waiting.take(None).map(|(chunk, _)| chunk.index), Some(0));
        assert!(!waiting.is_offered() && waiting.take(None).is_none());
        waiting.leave(Some(0));
        assert!(waiting.is_offered());
    }

    #[test]
    fn a_gap_is_not_followed_and_the_place_of_one_who_left_is_free() {
        let mut waiting = waiting(10, Runs::Open);
        assert_eq!(waiting.take(None).map(|(chunk, _)| chunk.index), Some(0));
        waiting.leave(Some(0));
        assert_eq!(waiting.take(None).map(|(chunk, _)| chunk.index), Some(1));
        waiting.clear();
        assert!(waiting.take(Some(1)).is_none());
    }
}
