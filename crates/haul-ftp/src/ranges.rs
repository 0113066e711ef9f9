//! Sets of bytes of a file.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges that neither overlap nor touch, by their starts.
#[derive(Debug, Default)]
pub struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&at, &to)) = self.0.range(..=end).next_back().filter(|(_, to)| **to >= start) {
            self.0.remove(&at);
            (start, end) = (start.min(at), end.max(to));
        }
        self.0.insert(start, end);
    }

    pub fn remove(&mut self, range: Range<u64>) {
        while let Some((&at, &to)) = self.0.range(..range.end).next_back().filter(|(_, to)| **to > range.start) {
            self.0.remove(&at);
            if at < range.start {
                self.0.insert(at, range.start);
            }
            if to > range.end {
                self.0.insert(range.end, to);
            }
        }
    }

    pub fn covers(&self, range: &Range<u64>) -> bool {
        range.is_empty() || self.0.range(..=range.start).next_back().is_some_and(|(_, to)| *to >= range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_and_cut() {
        let mut set = Ranges::default();
        for range in [10..20, 30..40, 20..25, 0..0] {
            set.insert(range);
        }
        assert!(set.covers(&(10..25)) && !set.covers(&(10..26)) && !set.covers(&(9..11)) && set.covers(&(5..5)));
        set.insert(24..31);
        assert!(set.covers(&(10..40)));
        set.remove(15..20);
        assert!(set.covers(&(10..15)) && set.covers(&(20..40)) && !set.covers(&(14..16)) && !set.covers(&(19..21)));
        set.remove(0..100);
        assert!(!set.covers(&(12..13)));
    }
}
