//! Memory for content that waits to be sent: small objects until their commit, and parts whose checksum goes in front of them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes at one endpoint in all, but for a single part that is larger.
pub(super) const HELD_ALL: u64 = 64 << 20;

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    objects: u64,
    parts: u64,
}

/// Who holds how much.
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
    part: bool,
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for an object, if there is some now.
    pub fn object(self: &Arc<Self>, bytes: u64) -> Option<Reserved> {
        let mut counts = self.lock();
        let all = counts.objects + counts.parts;
        if all > 0 && all + bytes > HELD_ALL {
            return None;
        }
        counts.objects += bytes;
        Some(Reserved { held: self.clone(), bytes, part: false })
    }

    /// Waits for room for a part. One part always has room: whoever holds objects may be waiting for nothing but a worker.
    pub fn part(self: &Arc<Self>, bytes: u64) -> Reserved {
        let full = |counts: &mut Counts| counts.parts > 0 && counts.objects + counts.parts + bytes > HELD_ALL;
        let mut counts = self.freed.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner);
        counts.parts += bytes;
        Reserved { held: self.clone(), bytes, part: true }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut counts = self.held.lock();
        let count = if self.part { &mut counts.parts } else { &mut counts.objects };
        *count = count.saturating_sub(self.bytes);
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
        let part = held.part(HELD_ALL * 2);
        drop(object);
        assert!(held.object(1).is_none());
        let waiting = std::thread::spawn({
            let held = held.clone();
            move || held.part(5)
        });
        drop(part);
        let second = waiting.join().expect("it gets its room");
        assert!(held.object(HELD_ALL - 5).is_some() && held.object(HELD_ALL).is_none());
        drop(second);
        assert!(held.object(HELD_ALL).is_some());
    }
}
