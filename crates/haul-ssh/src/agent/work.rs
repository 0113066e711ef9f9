//! What the remote haul says that it has done, for the bottleneck of a run.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use haul_core::lock::lock;
use haul_core::store::RemoteWork;

use super::frame::Frame;
use super::link::Ticket;
use super::ops;
use super::root::Root;
use super::session::Session;
use crate::link_saturation::NEAR;

/// A question that went with a request which may have been the last.
#[derive(Debug, Default)]
pub(super) struct Ahead(Mutex<Option<(Ticket, Instant)>>);

impl Root {
    /// Asks at the same time as the request that follows, so that the end of the run takes no round trip more. At most once in a
    /// round trip, and not on a local network, where that is nothing.
    pub(super) fn ask_work_ahead(&self) {
        let Some(session) = self.client.standing() else { return };
        let Some(trip) = session.round_trip().filter(|trip| *trip >= NEAR) else { return };
        let mut ahead = lock(&session.work.0);
        if ahead.as_ref().is_none_or(|(ticket, asked)| asked.elapsed() > trip && ticket.is_answered()) {
            *ahead = session.control.ask(ops::WORKED, &[], 0).ok().map(|ticket| (ticket, Instant::now()));
        }
    }
}

impl Session {
    /// What was done since `before`, in the session of that number. `None` where it is not told in time.
    pub(super) fn work_since(&self, before: (u64, RemoteWork)) -> Option<RemoteWork> {
        let trip = self.round_trip().unwrap_or_default();
        let now = self.work(trip)?.body().work().ok()?;
        // A remote haul that was started again has counted from zero.
        let before = if before.0 == self.id { before.1 } else { RemoteWork::default() };
        Some(RemoteWork {
            reading: now.reading.saturating_sub(before.reading),
            writing: now.writing.saturating_sub(before.writing),
            metadata: now.metadata.saturating_sub(before.metadata),
            cpu: now.cpu.saturating_sub(before.cpu),
            processors: now.processors,
            round_trip: self.round_trip(),
        })
    }

    /// An answer that is at most two round trips old, or a new one.
    fn work(&self, trip: Duration) -> Option<Frame> {
        let ahead = lock(&self.work.0).take();
        if let Some((ticket, asked)) = ahead
            && asked.elapsed() < 2 * trip
            && ticket.is_answered()
        {
            return ticket.wait().ok();
        }
        self.ask_if_quick(ops::WORKED, &[], (10 * trip).clamp(Duration::from_secs(1), Duration::from_secs(5)))
    }
}
