//! How many data connections: more where they gain, by what the kernels of both ends count.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::link::Ticket;
use super::ops;
use super::session::Session;
use super::wire::pack;
use haul_core::lock::lock;
use haul_net::tcp::{FINDING, Kernel, tolerate_losses};

/// At the most, where connections share the losses of a bad network.
const DATA_MOST: usize = 64;

/// The state of the data connections at the last check.
#[derive(Debug, Default)]
pub struct Watch {
    /// When data began to flow.
    begun: Option<Instant>,
    since: Option<Instant>,
    moved: u64,
    rate: f64,
    kernel: Kernel,
    /// More connections were allowed since.
    widened: bool,
    /// More of them were not faster: their number is final.
    settled: bool,
    /// The connections use a congestion control that tolerates losses.
    tolerant: bool,
}

/// How long the rate is measured before anything is changed.
const WATCHED: Duration = Duration::from_millis(500);
/// The gain that twice as many connections must have.
const GAIN: f64 = 1.2;

impl Session {
    /// Lost segments: connections change to a congestion control that tolerates loss. If that is not allowed, or buffers are the
    /// limit, connections are added as long as they gain.
    pub(super) fn watch(&self) {
        if self.fixed.load(Ordering::Relaxed) > 0 {
            return;
        }
        let mut watch = lock(&self.watch);
        let moved = self.moved.load(Ordering::Relaxed);
        if self.is_near() || watch.settled || moved == 0 || lock(&self.data).is_empty() {
            return;
        }
        let begun = *watch.begun.get_or_insert_with(Instant::now);
        let lasted = watch.since.get_or_insert_with(Instant::now).elapsed();
        if lasted < WATCHED {
            return;
        }
        let rate = (moved - watch.moved) as f64 / lasted.as_secs_f64();
        let before = std::mem::replace(&mut watch.rate, rate);
        (watch.since, watch.moved) = (Some(Instant::now()), moved);
        let here = Kernel::of(lock(&self.data).iter().map(|one| &one.socket));
        let kernel = here.with(self.facts(false).unwrap_or_default());
        let seen = kernel.since(std::mem::replace(&mut watch.kernel, kernel));
        if begun.elapsed() < FINDING {
            return;
        }
        if std::mem::take(&mut watch.widened) && rate < before * GAIN {
            // A full queue loses segments, too, which more connections do not change.
            watch.settled = true;
            return;
        }
        let lossy = seen.is_lossy();
        if lossy && !watch.tolerant {
            watch.tolerant = true;
            // Those that are added later begin with it.
            self.tolerant.store(true, Ordering::Relaxed);
            let here = lock(&self.data).iter().all(|one| tolerate_losses(&one.socket));
            let there = self.facts(true).is_some();
            if here && there {
                return;
            }
        }
        let most = self.most_data.load(Ordering::Relaxed);
        if (lossy || seen.limited * 3 > seen.busy) && most < DATA_MOST {
            watch.widened = true;
            self.most_data.store(most * 2, Ordering::Relaxed);
        }
    }

    /// The remote kernel's counters of the connections; with `tolerant` they change their congestion control first, and it is
    /// `None` where that is not allowed.
    fn facts(&self, tolerant: bool) -> Option<Kernel> {
        let answer = self.control.ask(ops::FACTS, &[&pack(tolerant)], 0).and_then(Ticket::wait).ok()?;
        let (done, sent, again, busy, limited): (bool, _, _, _, _) = answer.body().get().ok()?;
        (done || !tolerant).then_some(Kernel { sent, again, busy, limited })
    }
}
