//! Answers of which a part was read: the rest of each waits for the read that follows.

use std::ops::Range;
use std::sync::Mutex;

use haul_core::lock::lock;

/// Ranges of one object at the most: each may hold a connection. Beyond them each read is a request.
const MOST: usize = 256;

/// A range that is read in parts which follow each other.
pub(super) struct Unread {
    /// Where the next part begins.
    pub next: u64,
    pub end: u64,
    /// The answer, at `next`; `None` before the request.
    pub reader: Option<ureq::BodyReader<'static>>,
}

#[derive(Default)]
pub(super) struct UnreadRanges(Mutex<Vec<Unread>>);

impl UnreadRanges {
    /// Parts of this range will be read, in order.
    pub fn announce(&self, range: Range<u64>) {
        let mut all = lock(&self.0);
        // A chunk of a run that was announced before it is a part of the same request.
        if all.iter().any(|unread| unread.next == range.start && unread.end >= range.end) {
            return;
        }
        all.retain(|unread| unread.next != range.start);
        if all.len() < MOST {
            all.push(Unread { next: range.start, end: range.end, reader: None });
        }
    }

    /// Takes out what was announced where a part begins, if the part lies in it.
    pub fn take(&self, part: &Range<u64>) -> Option<Unread> {
        let mut all = lock(&self.0);
        let at = all.iter().position(|unread| unread.next == part.start && part.end <= unread.end)?;
        Some(all.swap_remove(at))
    }

    pub fn keep(&self, unread: Unread) {
        let mut all = lock(&self.0);
        all.retain(|other| other.next != unread.next);
        if all.len() < MOST {
            all.push(unread);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_taken_where_it_begins_and_only_within_its_range() {
        let all = UnreadRanges::default();
        all.announce(0..100);
        all.announce(100..200);
        assert!(all.take(&(10..20)).is_none() && all.take(&(0..101)).is_none());
        let mut unread = all.take(&(0..10)).expect("announced");
        assert!(all.take(&(0..10)).is_none(), "it is taken");
        unread.next = 10;
        all.keep(unread);
        assert_eq!(all.take(&(10..100)).map(|unread| unread.end), Some(100));
        all.announce(100..150);
        assert_eq!(all.take(&(100..150)).map(|unread| unread.end), Some(200), "a part of what was announced");
        // A retry announces what is left anew.
        all.announce(100..150);
        assert!(all.take(&(100..200)).is_none());
        assert_eq!(all.take(&(100..150)).map(|unread| unread.end), Some(150));
    }

    #[test]
    fn there_are_never_too_many() {
        let all = UnreadRanges::default();
        (0..10_000).for_each(|start| all.announce(start..start + 1));
        assert_eq!(lock(&all.0).len(), MOST);
    }
}
