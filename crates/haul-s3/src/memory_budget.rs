//! Memory for content that waits to be sent: small objects until their commit, and parts whose checksum goes in front of them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes at one endpoint in all, but for a single part that is larger.
pub(super) const HELD_ALL: u64 = 64 << 20;

/// A part of an upload that has room or waits for it.
#[derive(Clone, Debug)]
struct HeldPart {
    upload: Arc<str>,
    number: u32,
    bytes: u64,
    ticket: u64,
}

#[derive(Debug, Default)]
struct Counts {
    objects: u64,
    parts: Vec<HeldPart>,
    waiting: Vec<HeldPart>,
    tickets: u64,
}

#[derive(Debug, Default)]
pub(super) struct Held {
    counts: Mutex<Counts>,
    freed: Condvar,
}

/// So many bytes, given back when this is dropped.
#[derive(Debug)]
pub(super) struct Reserved {
    held: Arc<Held>,
    bytes: u64,
    part: Option<u64>,
}

impl Counts {
    fn all(&self) -> u64 {
        self.objects + self.parts.iter().map(|part| part.bytes).sum::<u64>()
    }

    /// Whether a part that waits is the lowest of its upload that does.
    fn is_first(&self, part: &HeldPart) -> bool {
        !self.waiting.iter().any(|other| other.upload == part.upload && (other.number, other.ticket) < (part.number, part.ticket))
    }

    /// Whether a part that waits gets its room now. The parts of an upload get theirs by number, and one that is lower than those
    /// that have theirs does not wait at all: a service that writes parts in order lets the later ones wait for it. One part
    /// always has room: objects that are held may be waiting for a worker.
    fn admits(&self, part: &HeldPart) -> bool {
        if !self.is_first(part) {
            return false;
        }
        let mut own = self.parts.iter().filter(|held| held.upload == part.upload).peekable();
        if own.peek().is_some() && own.all(|held| part.number < held.number) {
            return true;
        }
        let is_next = !self.waiting.iter().any(|other| other.ticket < part.ticket && self.is_first(other));
        is_next && (self.parts.is_empty() || self.all() + part.bytes <= HELD_ALL)
    }
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for an object, if there is some now.
    pub fn object(self: &Arc<Self>, bytes: u64) -> Option<Reserved> {
        let mut counts = self.lock();
        let all = counts.all();
        if all > 0 && all + bytes > HELD_ALL {
            return None;
        }
        counts.objects += bytes;
        Some(Reserved { held: self.clone(), bytes, part: None })
    }

    /// Waits for room for a part of an upload.
    pub fn part(self: &Arc<Self>, upload: &str, number: u32, bytes: u64) -> Reserved {
        let mut counts = self.lock();
        counts.tickets += 1;
        let part = HeldPart { upload: upload.into(), number, bytes, ticket: counts.tickets };
        counts.waiting.push(part.clone());
        while !counts.admits(&part) {
            counts = self.freed.wait(counts).unwrap_or_else(PoisonError::into_inner);
        }
        counts.waiting.retain(|other| other.ticket != part.ticket);
        let reserved = Reserved { held: self.clone(), bytes, part: Some(part.ticket) };
        counts.parts.push(part);
        drop(counts);
        // The next one may have room, too.
        self.freed.notify_all();
        reserved
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut counts = self.held.lock();
        match self.part {
            Some(ticket) => counts.parts.retain(|part| part.ticket != ticket),
            None => counts.objects = counts.objects.saturating_sub(self.bytes),
        }
        drop(counts);
        self.held.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_parts_share_the_memory_and_one_part_always_has_room() {
        let held = Arc::new(Held::default());
        let object = held.object(HELD_ALL).expect("room for it");
        assert!(held.object(1).is_none());
        let part = held.part("a", 1, HELD_ALL * 2);
        drop(object);
        assert!(held.object(1).is_none());
        let waiting = std::thread::spawn({
            let held = held.clone();
            move || held.part("a", 2, 5)
        });
        drop(part);
        let second = waiting.join().expect("it gets its room");
        assert!(held.object(HELD_ALL - 5).is_some() && held.object(HELD_ALL).is_none());
        drop(second);
        assert!(held.object(HELD_ALL).is_some());
    }

    #[test]
    fn the_lowest_part_of_an_upload_waits_for_no_later_one() {
        let part = |upload: &str, number, ticket| HeldPart { upload: upload.into(), number, bytes: HELD_ALL / 4, ticket };
        let mut counts = Counts { parts: (2..6).map(|number| part("a", number, number.into())).collect(), ..Counts::default() };
        counts.waiting = vec![part("a", 7, 10), part("a", 6, 11), part("b", 1, 12), part("a", 1, 13)];
        let admitted =
            |counts: &Counts| -> Vec<u64> { counts.waiting.iter().filter(|part| counts.admits(part)).map(|part| part.ticket).collect() };
        assert_eq!(admitted(&counts), [13], "2 to 5 of its upload fill the room and may wait for it at the service");
        counts.parts.push(counts.waiting.remove(3));
        assert_eq!(admitted(&counts), [] as [u64; 0]);
        counts.parts.drain(..2);
        assert_eq!(admitted(&counts), [11], "7 came first and has to follow 6");
        counts.waiting.remove(1);
        assert_eq!(admitted(&counts), [10]);
        counts.waiting.remove(0);
        assert_eq!(admitted(&counts), [12]);
        counts.parts.clear();
        counts.objects = HELD_ALL;
        assert_eq!(admitted(&counts), [12], "objects may wait for a worker");
    }
}
