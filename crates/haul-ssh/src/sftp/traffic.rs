//! What the channels to one server have carried, and the further logins that this calls for.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use super::channels::Channels;
use crate::link_saturation::{LinkSaturation, Widen};
use haul_core::lock::lock;

/// Channels in each further login: their windows together are more than its TCP connection carries in a round trip.
const IN_EACH: usize = 2;

pub(super) struct Traffic {
    /// Makes further logins; without it there is only the first.
    widen: OnceLock<Box<Widen>>,
    opened: AtomicU64,
    answered: AtomicU64,
    fullness: Mutex<LinkSaturation>,
    added: AtomicUsize,
}

impl Traffic {
    pub fn new() -> Traffic {
        Traffic {
            widen: OnceLock::new(),
            opened: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            fullness: Mutex::new(LinkSaturation::new(true)),
            added: AtomicUsize::new(0),
        }
    }

    pub fn may_widen(&self, widen: Box<Widen>) {
        self.widen.get_or_init(|| widen);
    }

    /// Channels of a large file beside those of the first login.
    pub fn added(&self) -> usize {
        self.added.load(Ordering::Relaxed)
    }

    /// A file of `size` bytes is about to be read or written.
    pub fn expect(&self, size: u64) {
        self.opened.fetch_add(size, Ordering::Relaxed);
    }

    /// Counts bytes whose request was answered. Once the connection is full, others are made beside the work.
    pub fn carried(self: &Arc<Self>, bytes: u64, round_trip: Duration, channels: &Channels) {
        let answered = self.answered.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if self.widen.get().is_none() || !lock(&self.fullness).is_reached(round_trip, answered, self.opened.load(Ordering::Relaxed)) {
            return;
        }
        let (traffic, channels) = (self.clone(), channels.clone());
        let make = move || {
            let count = traffic.widen.get().map_or(0, |widen| widen()) * IN_EACH;
            channels.add(count);
            traffic.added.store(count, Ordering::Relaxed);
        };
        // Without the thread there is only the first login.
        let _ = std::thread::Builder::new().name("logins".into()).spawn(make);
    }
}
