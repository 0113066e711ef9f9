//! Ranges of a file that will be read to their end by reads that follow each other: what is behind a read can be requested early.

use std::ops::Range;
use std::sync::Mutex;

use haul_core::lock::lock;

/// Ranges that are remembered: more than workers that move one file.
const MOST: usize = 64;

#[derive(Debug, Default)]
pub struct Readahead(Mutex<Vec<Range<u64>>>);

impl Readahead {
    pub fn add(&self, at: Range<u64>) {
        let mut ranges = lock(&self.0);
        ranges.retain(|range| range.start != at.start);
        ranges.truncate(MOST - 1);
        ranges.push(at);
    }

    /// The end of the range that a read of `at` begins or continues. A read that reaches it ends the range.
    pub fn end_of(&self, at: &Range<u64>) -> Option<u64> {
        let mut ranges = lock(&self.0);
        let found = ranges.iter().position(|range| range.contains(&at.start) && range.end >= at.end)?;
        let end = ranges[found].end;
        if end == at.end {
            ranges.swap_remove(found);
        }
        Some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_lasts_until_a_read_reaches_its_end() {
        let announced = Readahead::default();
        announced.add(10..40);
        assert_eq!(announced.end_of(&(0..10)), None);
        assert_eq!(announced.end_of(&(10..20)), Some(40));
        assert_eq!(announced.end_of(&(30..50)), None, "it goes beyond it");
        assert_eq!(announced.end_of(&(20..40)), Some(40));
        assert_eq!(announced.end_of(&(10..20)), None);
    }

    #[test]
    fn no_more_than_so_many_are_remembered() {
        let announced = Readahead::default();
        (0..1000).for_each(|n| announced.add(n * 10..n * 10 + 10));
        assert!(lock(&announced.0).len() <= MOST);
        assert_eq!(announced.end_of(&(9990..9995)), Some(10000), "the last is among them");
    }
}
